"""check-route-overlap.sh and the engine on the same random hosts on Linux; and the script when things around it fail.

Two laws: if the script says ok, the engine says ok or undecided; if the script says overlap, the engine does not say ok.
"""

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.awks import AWKS
from tests.support.check_script import GUARD, Checked, EnginesCheck, check, command
from tests.support.commands import fabric_host
from tests.support.namespace import Namespace, private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

DEVICES = ("eth0", "eth1", "ib0", "cali1", "wg0")
LINKS = [
    "link set lo up",
    *(f"link add {dev} type veth peer name p{at}" for at, dev in enumerate(DEVICES)),
    *(f"link set {end} addrgenmode none up" for at, dev in enumerate(DEVICES) for end in (dev, f"p{at}")),
]
BLOCK = {4: ("172.16.0.0/24", "172.16.0.{}", 24, 32), 6: ("fd16::/120", "fd16::{:x}", 120, 128)}


@st.composite
def prefixes(draw: st.DrawFn, family: int) -> str:
    """A prefix in the block, or the block."""
    _, form, shortest, width = BLOCK[family]
    length = draw(st.integers(shortest, width))
    return f"{form.format(draw(st.integers(0, 255)) >> width - length << width - length)}/{length}"


@st.composite
def hosts(draw: st.DrawFn) -> tuple[int, list[str]]:
    """A family, and the commands for a host: addresses, routes of all kinds, in two tables, and rules."""
    family = draw(st.sampled_from([4, 4, 6]))
    form, devs = BLOCK[family][1], st.sampled_from(DEVICES)
    default = "via 10.0.0.1 dev eth0" if family == 4 else "via fe80::1 dev eth0"
    lines = ["address add 10.0.0.4/24 dev eth0"]
    lines += [f"address add {form.format(draw(st.integers(1, 254)))}/{BLOCK[family][2]} dev ib0 nodad"] * draw(
        st.integers(0, 1)
    )
    lines += [f"-{family} route add default {default} metric 100"] * draw(st.sampled_from([0, 1, 1, 1, 1]))
    for _ in range(draw(st.integers(0, 5))):
        table, metric = draw(st.sampled_from(["main", "main", "100"])), draw(st.sampled_from([0, 1, 2000]))
        kind = draw(st.sampled_from(["dev"] * 5 + ["blackhole", "unreachable", "throw", "default"]))
        place = "default" if kind == "default" else draw(prefixes(family))
        way = f"{kind} {place}" if kind in {"blackhole", "unreachable", "throw"} else f"{place} dev {draw(devs)}"
        proto = draw(st.sampled_from(["boot", "static", "bird", "80"]))
        lines.append(f"-{family} route add {way} table {table} metric {metric} proto {proto}")
    for _ in range(draw(st.integers(0, 2))):
        to = draw(prefixes(family))
        selector = draw(st.sampled_from([f"to {to}", f"not to {to}", f"from {to}", "fwmark 0x1", "iif cali1", ""]))
        action = draw(st.sampled_from(["lookup 100", "lookup 100", "prohibit", "lookup main suppress_prefixlength 0"]))
        lines.append(f"-{family} rule add pref {draw(st.integers(1, 40_000))} {selector} {action}")
    return family, lines


def test_the_check_script_and_the_engine_keep_their_two_laws(tmp_path: Path) -> None:
    """On random hosts, with each awk. Kills: a wrong ok, a false refusal of a node that is fine."""
    verdicts = Counter[tuple[str, str]]()

    @settings(deadline=None, max_examples=120)
    @given(host=hosts(), awk=st.sampled_from(AWKS))
    def compare(host: tuple[int, list[str]], awk: str) -> None:
        family, lines = host
        config = check(BLOCK[family][0])
        with private_namespace() as namespace:
            namespace.batch(LINKS)
            for line in lines:
                namespace.run("ip", *line.split())  # Linux refuses some of them
            engine = EnginesCheck.of(namespace, config)
            checked = Checked(namespace, config, tmp_path, awk=awk)
        verdicts[checked.verdict, engine.verdict] += 1
        assert checked.status == (checked.verdict in {"overlap", "no-default-route"}), checked.said
        if checked.verdict == "ok":
            assert engine.verdict in {"ok", "undecided"}, checked.said
        if checked.verdict == "overlap":
            assert engine.verdict != "ok", checked.said

    compare()
    assert min(verdicts["ok", "ok"], verdicts["overlap", "overlap"]) >= 5, verdicts


@pytest.fixture(scope="module")
def host() -> Iterator[Namespace]:
    """A host with a default route and a fabric in 172.16.0.0/16."""
    with fabric_host() as private:
        yield private


@pytest.mark.parametrize("before", ["", "mount -t tmpfs -o size=4k full /run; cat /dev/zero >/run/x 2>/dev/null; true"])
def test_eight_check_scripts_at_once_agree(host: Namespace, tmp_path: Path, before: str) -> None:
    """On a healthy host in STRICT all of them pass, also where /run has no room; with room they leave one marker."""
    Checked(host, check("192.168.0.0/16"), tmp_path)  # writes the script
    words = command(tmp_path / "check.sh", "kubelet.service", "0", before=before)
    runs = [subprocess.Popen([*host.enter, *words], stderr=subprocess.PIPE, text=True) for _ in range(8)]
    results = [(run.communicate()[1], run.returncode) for run in runs]
    assert [status for _, status in results] == [0] * 8, results
    if not before:
        assert {path.name for path in tmp_path.glob("run/aks-flex-node/*")} == {"route-overlap.ok"}


@pytest.mark.parametrize("mode", ["STRICT", "WARN"])
def test_the_check_script_marks_its_verdict(host: Namespace, tmp_path: Path, mode: str) -> None:
    """Ok and overlap have a marker each, of which there is one; undecided has none."""
    lost = Checked(host, check("172.16.0.0/16", mode=mode), tmp_path)
    assert (lost.verdict, lost.status, [*lost.left]) == ("overlap", mode == "STRICT", ["route-overlap.detected"])
    fine = Checked(host, check("192.168.0.0/16", mode=mode), tmp_path)
    assert (fine.verdict, fine.status, [*fine.left]) == ("ok", 0, ["route-overlap.ok"])
    host.batch(["route append default via 10.0.1.1 dev eth1 onlink"])
    doubtful = Checked(host, check("192.168.0.0/16", mode=mode), tmp_path)
    host.batch(["route del default dev eth1"])
    assert (doubtful.verdict, doubtful.status, [*doubtful.left]) == ("undecided", 0, [])


@pytest.mark.parametrize(
    ("tools", "wait"),
    [
        ({"ip": "exit 1"}, 0),
        ({"ip": "kill -KILL $PPID"}, 0),
        ({"awk": "exit 2", "mawk": "exit 2"}, 0),
        ({"ip": ":"}, 0),
    ],
)
def test_a_check_script_without_a_verdict_refuses_in_strict(
    host: Namespace, tmp_path: Path, tools: dict[str, str], wait: int
) -> None:
    """If a program fails, is killed or says nothing, there is no verdict ok, and STRICT refuses."""
    checked = Checked(host, check("192.168.0.0/16"), tmp_path, tools=tools, wait=wait)
    assert checked.status, checked.said
    assert "route-overlap.ok" not in checked.left


def test_the_guard_hears_only_of_another_verdict(host: Namespace, tmp_path: Path) -> None:
    """Run for the guard, the script logs a verdict that differs from the marker, and nothing if it does not."""
    first = Checked(host, check("192.168.0.0/16"), tmp_path, unit=GUARD)
    again = Checked(host, check("192.168.0.0/16"), tmp_path, unit=GUARD)
    assert ("ok" in first.said, again.said) == (True, "")
