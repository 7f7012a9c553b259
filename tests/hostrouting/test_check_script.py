"""check-route-overlap.sh, run in private namespaces: its verdict and its findings equal the engine's."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostrouting.config import HostRoutingConfig, RouteOverlapConfig
from hostrouting.fib import Fib
from hostrouting.layout import HostLayout
from hostrouting.model import IPV4, Prefix, Snapshot
from hostrouting.overlap import check_overlap
from hostrouting.render import render_check_script
from hostrouting.repair import propose_repair
from hostrouting.uplink import seen_instead
from hostrouting.wording import check_document, finding_line, no_default_line, repair_line
from tests.support.awks import AWKS, each_awk, only_awk
from tests.support.commands import LINKS, fabric_host, furnish, route_command, rule_command, wishes
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace
from tests.support.strategies import blocks, prefixes

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(os.geteuid() != 0, reason="a private network namespace takes root"),
]

BLOCK = Prefix.parse("172.16.0.0/28")


UPLINKS: tuple[list[str], ...] = (
    ["route add default via 10.0.0.1 dev eth0"],
    ["route add default via 10.0.0.1 dev eth0"],
    ["route add default nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth1 onlink"],
    ["route add default dev wg0 metric 5", "route add default via 10.0.0.1 dev eth0 metric 9"],
    ["route add default dev eth1"],
    ["route add default via 10.9.9.9 dev eth0 onlink"],
    ["route add default via inet6 fe80::1 dev eth0"],
    ["route add unreachable default", "route add default via 10.0.0.1 dev eth0 metric 9"],
    ["route add default via 10.0.0.1 dev eth0 table 253"],
    [],
)


class Checked:
    """One run of the script: its exit status, what it said, and what it left."""

    def __init__(
        self,
        namespace: Namespace,
        config: HostRoutingConfig,
        directory: Path,
        *,
        wait: int = 0,
        awk: str = AWKS[0],
        before: str = ":",
        **environment: str,
    ) -> None:
        """Render the script, run it; `before` is done in its shell first."""
        script = directory / "check.sh"
        script.write_text(only_awk(render_check_script(config, wait=wait), awk, directory))
        state = directory / "state"
        # What is left is looked at where it was written, which may be a file system of its own.
        run = f"bash {script}; status=$?; mkdir -p {state}; rm -rf {directory}/left; cp -r {state} {directory}/left; exit $status"
        environment["RUNTIME_DIRECTORY"] = str(state)
        done = namespace.run("unshare", "--mount", "bash", "-c", f"{before} && {{ {run}\n}}", **environment)
        self.status, self.said = done.returncode, done.stderr
        state = directory / "left"
        left = [path for path in state.iterdir() if path.is_file()] if state.is_dir() else []
        self.left = {path.name: path.read_text() for path in left}
        self.document: dict[str, Any] = json.loads(self.left.get("route-overlap.json", "{}"))


def engine(snapshot: Snapshot, config: HostRoutingConfig) -> dict[str, Any]:
    """The same check by the engine, as its JSON."""
    check = config.route_overlap
    fib = Fib(snapshot)
    cidrs = [Prefix.of(cidr) for cidr in check.expected_cidrs]
    report = check_overlap(fib, cidrs, expected_devs=check.expected_devs, allowed_devs=check.allowed_devs)
    document = check_document(report, propose_repair(fib, report, protocol=config.protocol), mode=check.mode)
    document["lines"] = [finding_line(finding, report.expected_devs) for finding in report.findings]
    document["instead"] = seen_instead(fib) if report.verdict == "no-default-route" else ""
    return document


def joined(unsafe: list[dict[str, str]]) -> list[tuple[int, int, str, str]]:
    """The ranges that no route can close, those in one that have the same reason and one address between them at most."""
    found: list[tuple[int, int, str, str]] = []
    for it in unsafe:
        first, last = int(IPv4Address(it["first"])), int(IPv4Address(it["last"]))
        why = it["text"].partition(" ")[2]
        if found and found[-1][2:] == (it["reason"], why) and first - found[-1][1] <= 2:
            found[-1] = (found[-1][0], last, it["reason"], why)
        else:
            found.append((first, last, it["reason"], why))
    return found


def configs(block: Prefix) -> st.SearchStrategy[HostRoutingConfig]:
    """Checks of one to three prefixes in the block or around it."""
    return st.builds(
        lambda cidrs, mode, devs: HostRoutingConfig(
            route_overlap=RouteOverlapConfig([str(cidr) for cidr in cidrs], mode, devs, ["wg*"])
        ),
        st.lists(prefixes(block, wider=True), min_size=1, max_size=3),
        st.sampled_from(["WARN", "STRICT"]),
        st.sampled_from([[], [], ["eth0"], ["eth0", "eth1"]]),
    )


@settings(max_examples=scaled(65), deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(data=st.data())
def test_the_script_equals_the_engine(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """On any host, verdict, findings, repair and notes are those of the engine, word for word."""
    block = data.draw(blocks(IPV4))
    wanted_rules, wanted_routes = data.draw(wishes(block))
    config = data.draw(configs(block))
    lost = data.draw(st.sets(st.sampled_from(["ib0", "wg0"])))
    with private_namespace() as namespace:
        furnish(namespace, LINKS, lost)
        uplink = data.draw(st.sampled_from(UPLINKS))
        batch = [*uplink, *map(route_command, wanted_routes), *map(rule_command, wanted_rules)]
        namespace.batch(batch, force=True, family=IPV4)
        snapshot = namespace.snapshot()
        awk = data.draw(st.sampled_from(AWKS))
        checked = Checked(namespace, config, tmp_path_factory.mktemp("check"), awk=awk)
    expected = engine(snapshot, config)
    lines, instead = expected.pop("lines"), expected.pop("instead")
    told = "\n".join([checked.said, *map(str, [*snapshot.rules, *snapshot.routes])])
    assert checked.document.keys() == expected.keys(), told
    # The engine counts the host's own single addresses in, and the script tells the ranges beside them apart.
    for document in (checked.document, expected):
        document["unsafe"] = joined(document["unsafe"])
    for key, value in expected.items():
        assert checked.document[key] == value, f"{key}: {checked.document[key]}\ninstead of {value}\n{told}"
    mode = config.route_overlap.mode
    if expected["verdict"] == "overlap":
        assert checked.left["route-overlap.detected"].splitlines() == lines
    if instead:
        assert f">{no_default_line(instead, wait=0)}\n" in checked.said
    assert checked.status == (mode == "STRICT" and expected["verdict"] in {"overlap", "no-default-route"})


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """The host that all this is for: eth0 leads out, ib0 has a connected 172.16.0.0/16."""
    with fabric_host() as private:
        yield private


def check(*cidrs: str, mode: str = "STRICT", **options: Any) -> HostRoutingConfig:
    """A configuration that checks these."""
    return HostRoutingConfig(route_overlap=RouteOverlapConfig(cidrs or ["172.16.0.0/16"], mode, **options))


class TestOneHost:
    """On the host that all this is for."""

    def test_overlap(self, namespace: Namespace, tmp_path: Path) -> None:
        """One line says it all, in the journal and in the marker; then comes what to do about it."""
        line = (
            "OVERLAP: expected CIDR 172.16.0.0/16 (172.16.0.0–172.16.255.255)"  # noqa: RUF001  a dash between addresses
            " routes via ib0 [172.16.0.0/16 proto kernel], expected eth0"
        )
        checked = Checked(namespace, check(), tmp_path)
        assert checked.status == 1
        assert checked.left["route-overlap.detected"] == line + "\n"
        assert "route-overlap.ok" not in checked.left
        assert checked.said.splitlines() == [
            f"<3>{line}",
            (
                "<4>the repair diverts addresses of 172.16.0.0/16 from ib0: "
                "neighbours there, in the repaired range, become unreachable over IP"
            ),
            "<3>ACTION: add to staticRoutes.routes: " + json.dumps(checked.document["repair"]),
        ]

    @pytest.mark.parametrize("count", [20, 21])
    def test_a_long_repair(self, namespace: Namespace, tmp_path: Path, count: int) -> None:
        """What to do about it is one line of the journal, which has no room for a repair of any length."""
        blocks = [f"10.{100 + at}.0.0" for at in range(count)]
        namespace.batch(f"route add {block}/16 dev ib0" for block in blocks)
        checked = Checked(namespace, check(*(f"{block}/17" for block in blocks)), tmp_path)
        fib = Fib(namespace.snapshot())
        report = check_overlap(fib, [Prefix.parse(f"{block}/17") for block in blocks])
        assert len(checked.document["repair"]) == count
        assert checked.said.splitlines()[-1] == f"<3>{repair_line(report, propose_repair(fib, report))}"

    def test_repaired(self, namespace: Namespace, tmp_path: Path) -> None:
        """With the routes of the repair there, the check passes, and the marker of the overlap is gone."""
        repair = Checked(namespace, check(), tmp_path).document["repair"]
        namespace.batch(f"route add {it['destination']} via {it['gateway']} dev {it['dev']}" for it in repair)
        checked = Checked(namespace, check(), tmp_path)
        assert checked.status == 0
        assert checked.left.keys() == {"route-overlap.ok", "route-overlap.json"}
        assert checked.left["route-overlap.ok"] == "ok\n"
        assert checked.document["verdict"] == "ok"

    def test_warn(self, namespace: Namespace, tmp_path: Path) -> None:
        """WARN says the same, as a warning, and passes."""
        checked = Checked(namespace, check(mode="WARN"), tmp_path)
        assert checked.status == 0
        assert checked.said.startswith("<4>OVERLAP")
        assert "route-overlap.detected" in checked.left

    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    def test_no_default_route(self, namespace: Namespace, tmp_path: Path, mode: str) -> None:
        """Without a default route nothing can be expected: said as such, and STRICT fails."""
        namespace.batch(["route del default"])
        checked = Checked(namespace, check(mode=mode), tmp_path)
        assert checked.status == (mode == "STRICT")
        assert checked.left["route-overlap.detected"] == "no-default-route\n"
        assert checked.document["verdict"] == "no-default-route"
        assert checked.said == f"<{'3' if mode == 'STRICT' else '4'}>{no_default_line('no default route', wait=0)}\n"

    @each_awk
    @pytest.mark.parametrize(
        ("routes", "seen"),
        [
            (["route add unreachable default metric 9"], "a default route that refuses packets (unreachable)"),
            (
                [
                    "route add default table 77 nexthop via 10.0.0.1 dev eth0 nexthop dev wg0",
                    "route add default via 10.0.0.1 dev eth0 table 78",
                ],
                "a default route by eth0, wg0 that is not in use",
            ),
        ],
    )
    def test_what_there_was_instead(
        self, namespace: Namespace, tmp_path: Path, awk: str, routes: list[str], seen: str
    ) -> None:
        """Whoever finds the uplink missing is told what there is of default routes."""
        namespace.batch(["route del default", *routes])
        assert seen_instead(Fib(namespace.snapshot())) == seen
        assert Checked(namespace, check(), tmp_path, awk=awk).said == f"<3>{no_default_line(seen, wait=0)}\n"

    @pytest.mark.parametrize("devs", [[], ["eth0"], ["late0"]])
    def test_awaited(self, namespace: Namespace, tmp_path: Path, devs: list[str]) -> None:
        """A default route that is not there yet is awaited, and so is a device that was named."""
        namespace.batch(["route del default"])
        names = "eth0" if devs != ["late0"] else "late0"
        script = f"sleep 0.6; ip link add late0 type veth; ip link set late0 up; ip route add default dev {names}"
        later = subprocess.Popen([*namespace.enter, "sh", "-c", script])
        try:
            checked = Checked(namespace, check("192.168.0.0/16", expected_devs=devs), tmp_path, wait=100)
        finally:
            later.wait()
        assert (checked.status, checked.document["verdict"]) == (0, "ok"), checked.said

    @pytest.mark.parametrize(
        ("selector", "who"),
        [
            ("fwmark 1/1", "with fwmark 0x1/0x1"),
            ("fwmark 1", "with fwmark 0x1"),
            ("uidrange 1000-2000", "of users 1000-2000"),
            ("dport 53", "with dport 53"),
            ("sport 53", "with sport 53"),
            ("ipproto tcp", "with ipproto 6"),
            ("tos 0x10", "with tos 0x10"),
            ("iif eth0", "that arrive on eth0"),
            ("oif eth0", "from sockets bound to eth0"),
            ("from 10.0.0.9", "from 10.0.0.9"),
        ],
    )
    def test_what_cannot_be_seen(self, namespace: Namespace, tmp_path: Path, selector: str, who: str) -> None:
        """Packets that a rule may select, and that would escape then, are never passed over with a bare ok."""
        namespace.batch([f"rule add pref 100 {selector} lookup 100", "route add 192.168.0.0/16 dev ib0 table 100"])
        checked = Checked(namespace, check("192.168.0.0/16"), tmp_path)
        assert checked.status == 0
        assert checked.document["verdict"] == "undecided"
        (note,) = checked.document["notes"]
        assert f"packets {who} (rule 100) leave by ib0 [192.168.0.0/16 proto boot table 100, rule 100]" in note
        assert checked.left["route-overlap.ok"] == f"undecided\n{note}\n"
        assert f"<4>{note}" in checked.said

    @pytest.mark.parametrize(
        "rules",
        [
            [f"rule add pref {1000 + n} from 10.0.0.{n} lookup 100" for n in range(30)],
            [f"rule add pref {1000 + n} fwmark {1 << n:#x}/{1 << n:#x} goto {2000 + n % 3}" for n in range(8)]
            + [f"rule add pref {2000 + n} ipproto tcp dport {n + 1}-{n + 9} lookup 100" for n in range(5)],
            [f"rule add pref {1000 + n} fwmark {1 << n:#x}/{1 << n:#x} goto 2000" for n in range(20)]
            + ["rule add pref 1999 goto 3000", "rule add pref 2000 fwmark 5/0xff lookup 100", "rule add pref 3000 nop"],
            [
                "rule add pref 10 fwmark 0x200/0xf00 goto 20",
                "rule add pref 11 goto 30",
                "rule add pref 20 fwmark 0xa00/0xf00 lookup 100",
                "rule add pref 21 fwmark 0x210/0xff0 lookup 100",
                "rule add pref 30 iif wg0 to 172.16.8.0/21 unreachable",
            ],
            [
                "rule add pref 10 not from 10.0.0.0/8 to 172.16.0.0/20 lookup 100",
                "rule add pref 11 from 10.0.0.0/9 lookup main suppress_prefixlength 16",
                "rule add pref 12 from 10.1.0.0/16 lookup 100",
                "rule add pref 13 not uidrange 0-0 dsfield 0x10 blackhole",
            ],
            [
                "route add 172.16.3.0/24 dev ib0 tos 0x10",
                "rule add pref 10 tos 0x10 lookup main suppress_prefixlength 24",
            ],
            ["rule add pref 10 tun_id 5 lookup 100"],
        ],
        ids=["one table", "to and fro", "a mark of bits", "contradictions", "not", "tos", "not known here"],
    )
    @each_awk
    def test_who_fares_otherwise(self, namespace: Namespace, tmp_path: Path, rules: list[str], awk: str) -> None:
        """What rules make of packets of which not all is known is told in the words of the engine."""
        away = ["route add default dev ib0 table 100", "route add 172.16.4.0/24 dev wg0 table 100"]
        namespace.batch(["address del 172.16.1.5/16 dev ib0", *away, *rules])
        config = check("172.16.0.0/16", "10.9.0.0/16")
        expected = engine(namespace.snapshot(), config)
        checked = Checked(namespace, config, tmp_path, awk=awk)
        assert checked.document["notes"] == expected["notes"]
        assert (checked.document["verdict"], bool(expected["notes"])) == (expected["verdict"], True)

    def test_the_kernel_has_the_last_word(self, namespace: Namespace, tmp_path: Path) -> None:
        """Where the kernel answers what its tables do not say, its answer counts, and it is said that they differ."""
        # Once there was a rule, Linux looks at the table local first, which nothing that it lists shows.
        namespace.batch(["route add local 20.0.0.0/8 dev lo table local", "route add 20.1.0.0/16 dev ib0"])
        assert Checked(namespace, check("20.0.0.0/8"), tmp_path).document["verdict"] == "overlap"
        namespace.batch(["rule add pref 9 lookup 99", "rule del pref 9"])
        checked = Checked(namespace, check("20.0.0.0/8"), tmp_path)
        assert checked.document["verdict"] == "undecided"
        assert not checked.document["findings"]
        assert "20.1.0.0: the kernel answers [2 20.0.0.0/8 dev lo " in checked.document["notes"][-1]

    def test_names_that_mean_something(self, namespace: Namespace, tmp_path: Path) -> None:
        """Devices may be called by the words of `ip`, or by letters that JSON and shells care about."""
        names = ["via", "dev", "nexthop", "proto", "table", '"q"', "$(id)", "a\\b", "*", "é", "\x1b[31m"]
        for number, name in enumerate(names):
            done = namespace.ip("link", "add", "name", name, "type", "veth", "peer", "name", f"far{number}")
            assert done.returncode == 0, done.stderr
            for dev in (name, f"far{number}"):
                namespace.ip("link", "set", "dev", dev, "up")
            namespace.ip("route", "add", f"192.168.{number}.0/24", "dev", name, "proto", "static", "metric", "7")
        checked = Checked(namespace, check("192.168.0.0/16"), tmp_path)
        assert [it["via"]["dev"] for it in checked.document["findings"]] == names

    @each_awk
    def test_any_awk(self, namespace: Namespace, tmp_path: Path, awk: str) -> None:
        """Whichever awk a host has, the script finds and says the same."""
        namespace.batch(["rule add pref 9 fwmark 1/1 lookup 100", "route add default dev ib0 table 100"])
        namespace.batch(["route add blackhole 172.20.0.0/16", "route add prohibit 172.20.7.0/24 metric 4000000000"])
        config = check("172.16.0.0/12", "10.0.0.0/8")
        expected = engine(namespace.snapshot(), config)
        lines, _ = expected.pop("lines"), expected.pop("instead")
        checked = Checked(namespace, config, tmp_path, awk=awk)
        assert checked.document == expected
        assert checked.left["route-overlap.detected"].splitlines() == lines

    def test_nothing_is_left_behind(self, namespace: Namespace, tmp_path: Path) -> None:
        """Markers of an earlier run are gone while one works, and its own files when it is done or cannot work."""
        state = tmp_path / "state"
        state.mkdir()
        for name in ("ok", "detected", "json", "new"):
            (state / f"route-overlap.{name}").write_text("stale\n")
        script = tmp_path / "broken.sh"
        script.write_text(
            render_check_script(check()).replace("PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"PATH={tmp_path}")
        )
        for tool in ("rm", "awk"):
            found = shutil.which(tool)
            assert found is not None
            (tmp_path / tool).symlink_to(found)
        done = namespace.run("/bin/bash", str(script), RUNTIME_DIRECTORY=str(state))
        assert done.returncode == 1
        assert "<3>check-route-overlap: ip failed" in done.stderr
        assert not list(state.iterdir())
        assert Checked(namespace, check(), tmp_path).left.keys() == {"route-overlap.detected", "route-overlap.json"}

    def test_told_to_stop(self, namespace: Namespace, tmp_path: Path) -> None:
        """A run that is ended from outside, as by its unit's time-out, says so and ends as told; it leaves no marker."""
        namespace.batch(["route del default"])
        script, state = tmp_path / "check.sh", tmp_path / "state"
        script.write_text(render_check_script(check(), wait=30))
        command = [*namespace.enter, "env", f"RUNTIME_DIRECTORY={state}", "bash", str(script)]
        run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        time.sleep(1)
        os.killpg(run.pid, signal.SIGTERM)
        assert run.communicate(timeout=20)[1] == "<3>check-route-overlap: told to stop before there was a verdict\n"
        assert run.returncode == 128 + signal.SIGTERM
        assert not list(state.iterdir())

    def test_killed(self, namespace: Namespace, tmp_path: Path) -> None:
        """Of a run that was killed while it wrote, what is left has the name by which others know it."""
        killed: dict[str, Any] = {"BASH_FUNC_mv%%": "() { kill -KILL $$; }"}
        checked = Checked(namespace, check(), tmp_path, **killed)
        assert checked.status == 128 + signal.SIGKILL
        assert checked.left.keys() == {Path(HostLayout().unfinished_path).name}

    @each_awk
    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    @pytest.mark.parametrize("escaping", [False, True], ids=["ok", "overlap"])
    def test_no_room_for_what_was_found(
        self, namespace: Namespace, tmp_path: Path, awk: str, mode: str, *, escaping: bool
    ) -> None:
        """With a full disk the journal has what was found, and why it could not be written; the routes decide.

        What an earlier run left there goes all the same.
        """
        config = check(*["172.16.0.0/16"] * escaping, "10.0.0.0/8", mode=mode)
        state = tmp_path / "state"
        state.mkdir()
        full = f"mount -t tmpfs -o size=4k none {state} && ! cat /dev/zero 2>&- >{state}/all && : >{state}/route-overlap.ok"
        checked = Checked(namespace, config, tmp_path, awk=awk, before=full)
        assert ("OVERLAP: " if escaping else "ok: every expected CIDR") in checked.said
        reason = f"cannot write {state}/route-overlap.json: No space left on device"
        assert checked.said.splitlines()[-1] == f"<4>check-route-overlap: {reason}"
        assert checked.left.keys() == {"all"}
        assert checked.status == (escaping and mode == "STRICT")

    @each_awk
    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    @pytest.mark.parametrize("escaping", [False, True], ids=["ok", "overlap"])
    @pytest.mark.parametrize("stale", [False, True])
    def test_what_was_found_cannot_be_changed(
        self, namespace: Namespace, tmp_path: Path, awk: str, mode: str, *, escaping: bool, stale: bool
    ) -> None:
        """On a read-only file system the routes decide as well; what is left there is said to be of an earlier check."""
        config = check(*["172.16.0.0/16"] * escaping, "10.0.0.0/8", mode=mode)
        state = tmp_path / "state"
        state.mkdir()
        leave = f"touch {state}/route-overlap.new; echo ok >{state}/route-overlap.ok" if stale else ":"
        before = f"mount -t tmpfs none {state} && {{ {leave}; }} && mount -o remount,ro {state}"
        checked = Checked(namespace, config, tmp_path, awk=awk, before=before)
        assert ("OVERLAP: " if escaping else "ok: every expected CIDR") in checked.said
        why = "Read-only file system"
        said = [line.removeprefix("<4>check-route-overlap: ") for line in checked.said.splitlines()]
        told = f"cannot remove {state}/route-overlap.ok: {why}; what it says is of an earlier check"
        assert (said[0] == told) is stale
        assert said[-1] == f"cannot write {state}/route-overlap.json: {why}"
        assert checked.status == (escaping and mode == "STRICT")

    @pytest.mark.parametrize("kind", ["mkfifo", "mkdir", "ln -s /nowhere/at/all", "touch"])
    def test_what_is_in_the_place_of_what_is_left(self, namespace: Namespace, tmp_path: Path, kind: str) -> None:
        """Nothing in the place of a file that the script leaves keeps it waiting, or has it refuse."""
        state = tmp_path / "state"
        paths = [f"{state}/route-overlap.{name}" for name in ("new", "json", "ok")]
        before = f"mkdir {state}; for path in {' '.join(paths)}; do {kind} $path; done"
        checked = Checked(namespace, check("10.0.0.0/8"), tmp_path, before=before)
        assert checked.status == 0, checked.said
        if kind == "mkdir":
            assert f"cannot remove {state}/route-overlap.json: Is a directory" in checked.said
            assert f"cannot write {state}/route-overlap.json: " in checked.said
        else:
            assert checked.left.keys() == {"route-overlap.json", "route-overlap.ok"}

    @pytest.mark.parametrize("kind", ["mkfifo", "touch"])
    def test_what_is_in_the_place_of_the_directory(self, namespace: Namespace, tmp_path: Path, kind: str) -> None:
        """Where there is no directory for it, and none can be made, that is said, and the routes decide."""
        state = tmp_path / "other" / "state"
        before = f"mkdir -p {tmp_path}/other {tmp_path}/state; {kind} {state}"
        script = tmp_path / "check.sh"
        script.write_text(render_check_script(check("10.0.0.0/8"), wait=0))
        done = namespace.run("bash", "-c", f"{before}; RUNTIME_DIRECTORY={state} timeout 20 bash {script}")
        assert done.returncode == 0, done.stderr
        assert f"<4>check-route-overlap: cannot make {state}: File exists" in done.stderr
        assert f"<4>check-route-overlap: cannot write {state}/route-overlap.json: Not a directory" in done.stderr

    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    def test_what_was_found_may_wait_for_nobody(self, namespace: Namespace, tmp_path: Path, mode: str) -> None:
        """A fifo that cannot be removed is not written into: whoever would read it may never come."""
        state = tmp_path / "state"
        state.mkdir()
        before = f"mount -t tmpfs none {state} && mkfifo {state}/route-overlap.new && mount -o remount,ro {state}"
        script = tmp_path / "check.sh"
        script.write_text(render_check_script(check("10.0.0.0/8", mode=mode), wait=0))
        run = f"{before} && RUNTIME_DIRECTORY={state} timeout 20 bash {script}"
        done = namespace.run("unshare", "--mount", "bash", "-c", run)
        assert done.returncode == 0, done.stderr
        assert f"cannot write {state}/route-overlap.json: Read-only file system" in done.stderr

    @pytest.mark.parametrize("step", ["100000", "-100000"])
    def test_a_clock_that_is_set(self, namespace: Namespace, tmp_path: Path, step: str) -> None:
        """A clock that is set while the script waits makes it wait neither less nor longer."""
        namespace.batch(["route del default"])
        begin = time.monotonic()
        # With this, bash begins to count where a clock that jumped would have it.
        assert Checked(namespace, check(), tmp_path, wait=1, SECONDS=step).status == 1
        assert 1 <= time.monotonic() - begin < 60

    def test_many(self, namespace: Namespace, tmp_path: Path) -> None:
        """Hundreds of CIDRs among thousands of routes: the same as the engine, and one question a place."""
        namespace.batch(
            f"route add 10.{64 + number // 256}.{number % 256}.0/24 "
            + ("dev ib0" if number % 7 == 0 else "via 10.0.0.1 dev eth0")
            for number in range(3000)
        )
        config = check(*(f"10.{64 + number // 16}.{number % 16 * 16}.0/20" for number in range(200)))
        expected = engine(namespace.snapshot(), config)
        lines, _ = expected.pop("lines"), expected.pop("instead")
        checked = Checked(namespace, config, tmp_path)
        assert checked.document == expected
        assert checked.left["route-overlap.detected"].splitlines() == lines
