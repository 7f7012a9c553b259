"""check-route-overlap.sh on one host: what it says and leaves, what it waits for, and what happens
if something fails.
"""

import re
import subprocess
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import pytest

from hostrouting.boot import check_settings
from hostrouting.boot.scripts import render_check_script, render_static_routes_script
from hostrouting.check.flaws import NO_IPV6
from hostrouting.config.settings import HostRoutingConfig, StaticRoutesConfig
from hostrouting.model.prefix import IPV6
from tests.support.awks import AWKS, put_before
from tests.support.check_script import Checked, check, command, showing
from tests.support.namespace import Namespace
from tests.support.sections import static

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

OVERLAP = (
    "OVERLAP: expected CIDR 172.16.0.0/16 (172.16.0.0\u2013172.16.255.255)"
    " routes via ib0 [172.16.0.0/16 dev ib0 proto kernel scope link src 172.16.1.5], expected eth0"
)
ACTION = (
    "ACTION: to see which routes repair this, or why none does, without a change: "
    "hostrouting repair"
)
HEALTHY = "10.0.0.0/8"
FABRIC = "172.16.0.0/16"
MADE_OK = "route-overlap.ok"
MADE_DETECTED = "route-overlap.detected"
MADE_UNDECIDED = "route-overlap.undecided"
UNCLEAR = f"UNDECIDED: it is unclear whether packets to {HEALTHY} should leave through eth0 or eth1"
NAME_DEVICES = "in routeOverlap.expectedDevs, name the intended devices"
SETTLE = "hostrouting repair CIDR --dev NAME | hostrouting apply --config -"
COMPETING = "route append default via 10.0.0.7 dev eth1 onlink"


class Result(NamedTuple):
    """What the script does on a host with one command more."""

    cidr: str
    verdict: str
    status: int
    level: int
    """The level of its lines in the journal."""
    left: dict[str, str | None]
    """The markers, with their text if it is known."""
    mode: str = "STRICT"
    command: str = ""


RESULTS = {
    "ok": Result(HEALTHY, "ok", status=0, level=6, left={MADE_OK: "ok\n"}),
    "an overlap": Result(
        FABRIC, "overlap", status=1, level=3, left={MADE_DETECTED: f"{OVERLAP}\n"}
    ),
    "an overlap in WARN": Result(
        FABRIC, "overlap", status=0, level=4, left={MADE_DETECTED: f"{OVERLAP}\n"}, mode="WARN"
    ),
    "no default route": Result(
        FABRIC,
        "no-default-route",
        status=1,
        level=3,
        left={MADE_DETECTED: "no-default-route\n"},
        command="route del default",
    ),
    "undecided": Result(
        HEALTHY,
        "undecided",
        status=0,
        level=4,
        left={MADE_UNDECIDED: f"{UNCLEAR}; {NAME_DEVICES}, as root: {SETTLE}\n"},
        command=COMPETING,
    ),
    "undecided, and an escape": Result(
        FABRIC, "overlap", status=1, level=3, left={MADE_DETECTED: None}, command=COMPETING
    ),
}


def levels(checked: Checked) -> set[str]:
    """The levels of its lines, each once."""
    return {line[:3] for line in checked.said.splitlines()}


def leave(directory: Path, marker: str) -> None:
    """Have this marker of an earlier run there."""
    state = directory / "run/aks-flex-node"
    state.mkdir(parents=True, exist_ok=True)
    (state / marker).write_text("of an earlier run\n")


class TestWhatItSaysAndLeaves:
    """On an H200 node."""

    @pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
    def test_results(self, namespace: Namespace, tmp_path: Path, result: Result) -> None:
        """The exit status, the level in the journal and the one marker follow from the verdict and
        the mode.
        """
        leave(tmp_path, MADE_DETECTED if result.cidr == HEALTHY else MADE_OK)
        namespace.batch([result.command])

        checked = Checked(namespace, check(result.cidr, mode=result.mode), tmp_path)

        assert checked.verdict == result.verdict
        assert checked.status == result.status
        assert levels(checked) == {f"<{result.level}>"}
        assert list(checked.left) == list(result.left)
        for name, text in result.left.items():
            assert text is None or checked.left[name] == text

    def test_what_to_do(self, namespace: Namespace, tmp_path: Path) -> None:
        """Each range has a line with its part of the expected CIDR; the repair is one command for
        all CIDRs that escape, except where a route refuses a single address: none is longer.

        The journal has the first fourteen, the marker all. Nothing is awaited.
        """
        namespace.batch(
            ["route add default via fe80::1 dev eth0", "route add fd16::/16 dev ib0"], family=IPV6
        )
        namespace.batch(f"route add 10.{100 + at}.0.0/15 dev ib0" for at in range(0, 28, 2))
        namespace.batch(["route add blackhole 192.168.9.9"])
        config = check("fd16:1::/48", "172.16.128.0/17", "10.0.0.0/8", "192.168.0.0/16")
        nap = tmp_path / "nap"
        checked = Checked(namespace, config, tmp_path, wait=9, tools={"sleep": f"touch {nap}"})

        assert not nap.exists()
        lines = [line.removeprefix("<3>") for line in checked.said.splitlines()]
        assert lines[:14] == checked.lines[:14]
        assert lines[14:] == [
            "and 3 more",
            f"{ACTION} 172.16.128.0/17 10.0.0.0/8 fd16:1::/48",
            "check-route-overlap: overlap",
        ]
        ranges = set(re.findall("expected CIDR (.*) routes ", "\n".join(checked.lines)))
        assert ranges >= {
            "172.16.128.0/17 (172.16.128.0\u2013172.16.255.255)",
            "10.0.0.0/8 (10.100.0.0\u201310.101.255.255)",
            "fd16:1::/48 (fd16:1::\u2013fd16:1:0:ffff:ffff:ffff:ffff:ffff)",
        }

    @pytest.mark.parametrize("awk", AWKS)
    def test_no_address_to_ask_about(self, namespace: Namespace, tmp_path: Path, awk: str) -> None:
        """Linux is not asked about 0.0.0.0, so to expect only that address adds nothing."""
        alone = Checked(namespace, check("0.0.0.0/32"), tmp_path, awk=awk)
        assert alone.verdict == "ok"
        beside = Checked(namespace, check("0.0.0.0/32", FABRIC), tmp_path, awk=awk)
        assert beside.lines == [OVERLAP]

    @pytest.mark.parametrize("awk", AWKS)
    def test_addresses(self, namespace: Namespace, tmp_path: Path, awk: str) -> None:
        """In IPv6, the longest run of zeros is left out, the first of equal ones, and not a single
        zero.
        """
        addresses = [
            "fd16::1",
            "fd16::7:0",
            "fd16:0:0:1::8",
            "fd16:1:2:3:4:5:6:0",
            "fd16::2:0:0:3:0",
            "fd16:1::1:0:0:1",
            "fd16:1:0:2:3:4:5:6",
            "fd16:1:2:3:4:5::",
            "fd17::",
        ]
        for address in addresses:
            assert str(ip_address(address)) == address
        routes = [f"route add {address} dev ib0" for address in addresses]
        namespace.batch(["route add default via fe80::1 dev eth0", *routes], family=IPV6)
        checked = Checked(namespace, check("fd16::/15"), tmp_path, awk=awk)
        said = re.findall(r"expected CIDR fd16::/15 \((.*?)\)", "".join(checked.lines))
        assert sorted(said) == sorted(addresses)

    @pytest.mark.parametrize(("doubts", "rest"), [(14, []), (15, ["and 1 more"])])
    def test_many_doubts(
        self, namespace: Namespace, tmp_path: Path, doubts: int, rest: list[str]
    ) -> None:
        """The first fourteen are said, and the others counted if there are any.
        The marker has all.
        """
        rules = [f"rule add pref {mark} fwmark {mark} lookup 100" for mark in range(1, doubts + 1)]
        namespace.batch(["route add default dev ib0 table 100", *rules])
        checked = Checked(namespace, check(HEALTHY), tmp_path)
        lines = checked.said.splitlines()
        assert sum("UNDECIDED: " in line for line in lines) == 14
        assert [line[3:] for line in lines if line.endswith(" more")] == rest
        marker = checked.left[MADE_UNDECIDED].splitlines()
        assert len(marker) == doubts
        for line in marker:
            assert "UNDECIDED: " in line

    def test_by_hand(self, namespace: Namespace, tmp_path: Path) -> None:
        """With a third argument, it also prints what each step prints, in the order
        of the steps.
        """
        script = tmp_path / "check.sh"
        script.write_text(render_check_script(check(FABRIC)))
        done = namespace.run(*command(script, "by-hand", "0", "steps"))
        steps = re.findall("^--- (.*)$", done.stderr, re.MULTILINE)
        assert steps == ["list", "find_places", "ask", "list", "judge"]
        assert "route get fibmatch 172.16.0.0 " in done.stderr
        assert done.stderr.endswith("<3>check-route-overlap: overlap\n")

    def test_the_example(self, namespace: Namespace, tmp_path: Path) -> None:
        """The example at the top of the script is what its steps print on such a host."""
        namespace.batch(["address flush dev ib0", "route add 172.16.0.0/17 dev ib0 scope link"])
        script = tmp_path / "check.sh"
        script.write_text(render_check_script(check(FABRIC)))
        said = namespace.run(*command(script, "by-hand", "0", "steps")).stderr.replace("<3>", "")
        said = said.replace("\nOVERLAP: ", "\n--- journal\nOVERLAP: ", 1)
        printed: dict[str, str] = {}
        for block in said.split("--- ")[1:]:
            name, _, lines = block.partition("\n")
            printed[name] = " ".join(lines.split())
        example = re.search(r"^# For example, (.*\n)+?#\n", script.read_text(), re.MULTILINE)
        assert example

        compared: list[str] = []
        rest = ""
        for name, line in re.findall("^#   (\\w*) +(.*)$", example[0], re.MULTILINE):
            if name:
                compared.append(name)
                rest = printed[name]
            _, found, rest = rest.partition(line)
            assert found, f"{compared[-1]} does not print {line!r}, or in another order"
        assert compared == ["list", "find_places", "ask", "judge", "journal"]

    def test_names_that_mean_something(self, namespace: Namespace, tmp_path: Path) -> None:
        """Devices may be called by the words of `ip`, or by letters that shells and patterns care
        about.
        """
        words_of_ip = ["via", "dev", "nexthop", "proto", "table", "tos"]
        signs = ['"q"', "$(id)", "a\\b", "*", "|", "é", "\x1b[31m"]
        names = words_of_ip + signs
        for number, name in enumerate(names):
            peer = f"far{number}"
            namespace.ip("link", "add", "name", name, "type", "veth", "peer", "name", peer)
            namespace.ip("link", "set", "dev", name, "up")
            namespace.ip("link", "set", "dev", peer, "up")
            way = ["dev", name, "proto", "static", "metric", "7"]
            namespace.ip("route", "add", f"192.168.{number}.0/24", *way)
        checked = Checked(namespace, check("192.168.0.0/16"), tmp_path)
        escaping = [escape.devs for escape in sorted(checked.escapes)]
        assert escaping == [frozenset({name}) for name in names]


FULL = (
    "mount -t tmpfs -o size=16k,nr_inodes=9 none /run && "
    "{ mkdir -p /run/aks-flex-node; cat /dev/zero >/run/all; :; }"
)
FOLDERS = {
    "full": f"{FULL} 2>/dev/null",
    "full, and no folder": "mount -t tmpfs -o nr_inodes=1 none /run",
    "read-only": "mount -t tmpfs none /run && mount -o remount,ro /run",
    "read-only, with another marker": (
        "mount -t tmpfs none /run && mkdir /run/aks-flex-node && "
        "touch /run/aks-flex-node/route-overlap.{ok,detected} && mount -o remount,ro /run"
    ),
    "a file": "touch /run/aks-flex-node",
    "a folder in the place of another marker": f"mkdir -p /run/aks-flex-node/{MADE_UNDECIDED}",
}


@pytest.mark.parametrize("render", [render_check_script, render_static_routes_script])
def test_a_full_disk(
    namespace: Namespace, tmp_path: Path, render: Callable[[HostRoutingConfig], str]
) -> None:
    """Bash 5.0 writes what a program is to read into a file first; no disk has to have room."""
    routes = StaticRoutesConfig(enabled=True, routes=(static("172.16.0.0/17"),))
    config = check(HEALTHY)._replace(static_routes=routes)
    script = tmp_path / "step.sh"
    script.write_text(render(config))
    disk = tmp_path / "disk"
    disk.mkdir()
    full = f"mount -t tmpfs -o size=4k none {disk} && ! cat /dev/zero 2>&- >{disk}/all"
    old = f"{full} && export TMPDIR={disk} BASH_COMPAT=5.0"
    done = namespace.run(*command(script, "kubelet.service", "0", before=old))
    assert done.returncode == 0, done.stderr


class TestMarkers:
    """Nothing about the folder of the markers changes the exit status, and several runs do not
    disturb each other.
    """

    def test_written_once(self, namespace: Namespace, tmp_path: Path) -> None:
        """A marker with another text is replaced, and so is a link; a file that says the same
        already is left alone.
        """
        marker = tmp_path / f"run/aks-flex-node/{MADE_DETECTED}"

        def inode_after_a_check() -> int:
            checked = Checked(namespace, check(FABRIC), tmp_path)
            assert checked.left == {MADE_DETECTED: f"{OVERLAP}\n"}
            assert not marker.is_symlink()
            return marker.stat().st_ino

        Checked(namespace, check("172.16.0.0/17"), tmp_path)
        first = inode_after_a_check()
        second = inode_after_a_check()
        marker.symlink_to(marker.rename(tmp_path / "elsewhere"))
        third = inode_after_a_check()
        assert second == first
        assert third != second

    def test_a_link_to_a_folder(self, namespace: Namespace, tmp_path: Path) -> None:
        """In the place of a marker, it is replaced; nothing is written into the folder."""
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        link = f"mkdir /run/aks-flex-node && ln -s {elsewhere} /run/aks-flex-node/{MADE_OK}"
        checked = Checked(namespace, check(HEALTHY), tmp_path, before=link)
        assert checked.left == {MADE_OK: "ok\n"}
        assert list(elsewhere.iterdir()) == []

    def test_a_link_that_was_guessed(self, namespace: Namespace, tmp_path: Path) -> None:
        """Whoever may write into the folder can lay a link with the name of the next temporary
        file: nothing is written through it.
        """
        nowhere = tmp_path / "nowhere"
        # The script has the process id of the shell that starts it.
        link = f"mkdir /run/aks-flex-node && ln -s {nowhere} /run/aks-flex-node/route-overlap.$$"
        checked = Checked(namespace, check(HEALTHY), tmp_path, before=link)
        assert not nowhere.exists()
        assert checked.status == 0
        assert checked.verdict == "ok"
        assert checked.left == {}
        assert "<4>check-route-overlap: the result cannot be written to " in checked.said

    def test_what_a_killed_run_has_left(self, namespace: Namespace, tmp_path: Path) -> None:
        """A temporary file with the same process id is replaced. If it is a link, what it leads to
        stays.
        """
        precious = tmp_path / "precious"
        precious.write_text("precious\n")
        link = f"mkdir /run/aks-flex-node && ln -s {precious} /run/aks-flex-node/route-overlap.$$"
        checked = Checked(namespace, check(HEALTHY), tmp_path, before=link)
        assert precious.read_text() == "precious\n"
        assert checked.said == "<6>check-route-overlap: ok\n"
        assert checked.left == {MADE_OK: "ok\n"}

    @staticmethod
    def starts_at_once(
        namespace: Namespace, script: Path, *, number: int, turns: int = 1, before: str = ":"
    ) -> tuple[list[int], str]:
        """Start the script this number of times at once, and wait for all, as many times as there
        are turns: the exit statuses, and what was said.
        """
        said = script.parent / "said"
        starts = f"""{before}
for turn in {{1..{turns}}}; do
  runs=()
  for at in {{1..{number}}}; do
    /bin/bash -pc '. "$0"; exit 1' {script} kubelet.service 0 2>>{said} &
    runs+=($!)
  done
  for run in ${{runs[@]}}; do
    wait $run
    echo $?
  done
done
exit 0"""
        done = namespace.run(*command(script, before=starts))
        return list(map(int, done.stdout.split())), said.read_text()

    @pytest.mark.parametrize("name", ["ok", "an overlap"])
    def test_many_at_once(self, namespace: Namespace, tmp_path: Path, name: str) -> None:
        """Four write the marker at once, and again where there is one."""
        expected = RESULTS[name]
        script = tmp_path / "check.sh"
        script.write_text(render_check_script(check(expected.cidr)))
        statuses, said = self.starts_at_once(namespace, script, number=4, turns=2)
        assert statuses == [expected.status] * 8, said
        assert said.count(f">check-route-overlap: {expected.verdict}\n") == 8
        assert "the result cannot be written" not in said
        written = (tmp_path / "run/aks-flex-node").iterdir()
        assert {path.name: path.read_text() for path in written} == expected.left

    @pytest.mark.parametrize("change", FOLDERS.values(), ids=FOLDERS)
    @pytest.mark.parametrize("name", ["ok", "an overlap"])
    def test_markers_that_cannot_be_written(
        self, namespace: Namespace, tmp_path: Path, name: str, change: str
    ) -> None:
        """The routes decide alone; that the marker cannot be written is a warning."""
        expected = RESULTS[name]
        script = tmp_path / "check.sh"
        script.write_text(render_check_script(check(expected.cidr)))
        statuses, said = self.starts_at_once(namespace, script, number=2, before=change)
        assert statuses == [expected.status] * 2, said
        assert said.count(f">check-route-overlap: {expected.verdict}\n") == 2
        assert "<4>check-route-overlap: the result cannot be written to " in said


ROUTER = "route add default via 10.0.0.1 dev eth0"


class Awaited(NamedTuple):
    """What is missing at first."""

    commands: list[str]
    """Those that take it away."""
    words: str
    """What is said of it."""
    bringing: str
    """The command of `ip` that brings it."""
    devs: tuple[str, ...] = ()
    """The expected devices."""


AWAITED = {
    "a default route": Awaited(["route del default"], "an IPv4 default route", ROUTER),
    "a default route beside one that refuses": Awaited(
        ["route del default", "route add unreachable default metric 9"],
        "an IPv4 default route",
        ROUTER,
    ),
    "a device": Awaited(
        [], "the device late0", "link add late0 up type veth", devs=("eth0", "late0")
    ),
    "a device that is down": Awaited(
        ["link set eth1 down"], "the device eth1", "link set eth1 up", devs=("eth0", "eth1")
    ),
}

# A clock that only waiting moves, five seconds for each that is asked for: so a test needs few
# looks at the host. The time of day jumps, and means nothing.
COARSE_CLOCK = """\
waited_for=0
sleep() {
  waited_for=$((waited_for + 5 * $1))
  SECONDS=$((99999 - SECONDS))
}
read() {
  if [[ $* != *'now _' ]]; then # of /proc/uptime
    builtin read "$@"
    return
  fi
  now=$waited_for.00
}
"""


class TestWaiting:
    """Once a second while something may still come; `sleep` is replaced, so no test waits."""

    @pytest.mark.parametrize("missing", AWAITED.values(), ids=AWAITED)
    def test_what_is_awaited_comes(
        self, namespace: Namespace, tmp_path: Path, missing: Awaited
    ) -> None:
        """What is awaited is said once; when it is there, it counts."""
        escape = "route add 10.9.0.0/16 dev ib0"  # or nothing would be wrong yet
        namespace.batch([*missing.commands, escape])
        naps = tmp_path / "naps"
        comes_at_the_third_nap = f"""\
echo >>{naps}
if (($(wc -l <{naps}) >= 3)); then
  ip {missing.bringing}
  ip route del 10.9.0.0/16 2>/dev/null
fi
"""
        checked = Checked(
            namespace,
            check(HEALTHY, expected_devs=missing.devs),
            tmp_path,
            wait=60,
            tools={"sleep": comes_at_the_third_nap},
        )
        first, *rest = checked.said.splitlines()
        waiting = rf"<6>check-route-overlap: waiting \(\d+ of 60 s\) for {missing.words}"
        assert re.fullmatch(waiting, first)
        assert rest == ["<6>check-route-overlap: ok"]

    def test_nothing_is_wrong(self, namespace: Namespace, tmp_path: Path) -> None:
        """Then nothing is awaited, not even a named device that is down."""
        namespace.batch(["link set eth1 down"])
        config = check(HEALTHY, expected_devs=["eth0", "eth1"])
        checked = Checked(namespace, config, tmp_path, wait=1)
        assert checked.said == "<6>check-route-overlap: ok\n"

    @pytest.mark.parametrize("marker", ["ok", "detected"])
    def test_markers_meanwhile(self, namespace: Namespace, tmp_path: Path, marker: str) -> None:
        """While it waits, the host is not ok, so that marker of the last run goes; others stay."""
        leave(tmp_path, f"route-overlap.{marker}")
        namespace.batch(["route del default"])
        looks = f"ls {tmp_path}/run/aks-flex-node >{tmp_path}/meanwhile"
        body = f"{looks}; ip route add default via 10.0.0.1"
        checked = Checked(namespace, check(HEALTHY), tmp_path, wait=60, tools={"sleep": body})
        still_there = "" if marker == "ok" else "route-overlap.detected\n"
        assert (tmp_path / "meanwhile").read_text() == still_there
        assert list(checked.left) == ["route-overlap.ok"]

    @pytest.mark.parametrize("render", [render_check_script, render_static_routes_script])
    def test_that_it_waits_is_said_again(
        self, namespace: Namespace, tmp_path: Path, render: Callable[[HostRoutingConfig], str]
    ) -> None:
        """Every 10 s a line says what is awaited, and for how long already; what does not come is
        missing.
        """
        routes = StaticRoutesConfig(enabled=True, routes=(static(FABRIC),))
        config = check(HEALTHY)._replace(static_routes=routes)
        namespace.batch(["route del default"])
        script = tmp_path / "step.sh"
        script.write_text(COARSE_CLOCK + render(config))
        done = namespace.run(*command(script, "kubelet.service", "25"))
        waiting = r"waiting \((\d+) of 25 s\)(?: for|.* needs) an IPv4 default route"
        assert re.findall(waiting, done.stderr) == ["0", "10", "20"], done.stderr
        assert done.returncode == 1
        *_, last = done.stderr.splitlines()
        assert last.startswith("<3>")

    @pytest.mark.parametrize("jump", [-99999, 99999])
    @pytest.mark.parametrize("render", [render_check_script, render_static_routes_script])
    def test_a_clock_that_jumps(
        self,
        namespace: Namespace,
        tmp_path: Path,
        render: Callable[[HostRoutingConfig], str],
        jump: int,
    ) -> None:
        """When the time of day is set, the wait is as long as it was, and what comes meanwhile
        counts.
        """
        routes = StaticRoutesConfig(enabled=True, routes=(static("172.16.0.0/17"),))
        config = check(HEALTHY)._replace(static_routes=routes)
        namespace.batch(["route del default"])
        script = tmp_path / "step.sh"
        sleep = f"naps=0\nsleep() {{ SECONDS={jump}; ((++naps < 3)) || ip {ROUTER}; }}\n"
        script.write_text(sleep + render(config))
        done = namespace.run(*command(script, "kubelet.service", "60"))
        waits = re.findall(r"waiting \((-?\d+) of 60 s\)", done.stderr)
        assert done.returncode == 0, done.stderr
        assert set(waits) <= {"0", "1", "2", "3"}

    @pytest.mark.parametrize("routed", [False, True])
    def test_a_named_device_without_a_default_route(
        self, namespace: Namespace, tmp_path: Path, *, routed: bool
    ) -> None:
        """A default route is awaited where packets have no route; not where only something else is
        in doubt.
        """
        namespace.batch(["route del default", "rule add pref 9 fwmark 1 lookup 100"])
        namespace.batch([f"route add {HEALTHY} dev ib0 table 100"])
        if routed:
            namespace.batch([f"route add {HEALTHY} via 10.0.0.1 dev eth0"])
        config = check(HEALTHY, expected_devs=["eth0"])
        checked = Checked(namespace, config, tmp_path, wait=9, tools={"sleep": f"ip {ROUTER}"})
        assert checked.verdict == "undecided", checked.said
        assert (" for an IPv4 default route\n" in checked.said) is not routed

    @pytest.mark.parametrize("signal", ["TERM", "HUP", "INT"])
    def test_told_to_stop(self, namespace: Namespace, tmp_path: Path, signal: str) -> None:
        """A run that is told to stop fails without a verdict, and leaves no marker of an earlier
        one.
        """
        leave(tmp_path, MADE_OK)
        leave(tmp_path, MADE_DETECTED)
        namespace.batch(["route del default"])
        script = tmp_path / "check.sh"
        tools = {"sleep": f"kill -{signal} $PPID"}
        script.write_text(put_before(render_check_script(check(HEALTHY)), tmp_path, tools))
        done = subprocess.run(
            [*namespace.enter, *command(script, "kubelet.service", "9")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert "check-route-overlap: no" not in done.stderr
        markers = tmp_path / "run/aks-flex-node"
        assert list(markers.iterdir()) == []

    def test_told_to_stop_while_it_writes(self, namespace: Namespace, tmp_path: Path) -> None:
        """Nothing of the marker is left, whole or in part."""
        script = tmp_path / "check.sh"
        tools = {"mv": "kill -TERM $PPID; exit 1"}
        script.write_text(put_before(render_check_script(check(HEALTHY)), tmp_path, tools))
        done = namespace.run(*command(script, "kubelet.service", "0"))
        assert done.returncode == 1
        assert list((tmp_path / "run/aks-flex-node").iterdir()) == []


# An `ip` that does this after the questions: only those are asked with -force.
BETWEEN = """ip "$@"; status=$?; [[ "$*" != *-force* ]] || {{ {}; }} >&2; exit $status"""
# An `ip` whose lines are edited: all of them, or only the answers.
LISTED = """ip "$@" 2>&1 | sed '{}'; exit $PIPESTATUS"""
ANSWERED = """[[ "$*" == *-force* ]] || exec ip "$@"; """ + LISTED


class Mishap(NamedTuple):
    """A program that fails, is killed or is missing."""

    program: str
    body: str
    """What is in its place."""
    why: str
    """Why there is no verdict."""


NO_ANSWER = "ip failed: no answer for "
MISSING = "ip or awk was killed, or is missing"
MISHAPS = {
    "awk is missing": Mishap("awk", "exit 127", MISSING),
    "the output of awk is cut": Mishap("awk", "awk \"$@\" | sed '$d'; exit 137", MISSING),
    "the lists fail": Mishap(
        "ip",
        'printf "%s\\n" "no buffer" "Command failed -:2" >&2; exit 2',
        "ip failed: no buffer",
    ),
    "ip is killed in the lists": Mishap("ip", 'ip "$@" | sed "/ table 254/q"; exit 137', MISSING),
    "ip is missing": Mishap("ip", "exit 127", MISSING),
    "the answers are in another order": Mishap(
        "ip",
        ANSWERED.format(r"s/^1 .*/RTNETLINK answers: Permission denied\nCommand failed -:99/"),
        f"{NO_ANSWER}172.20.0.0: Permission denied",
    ),
    "ip is killed while it asks": Mishap("ip", ANSWERED.format("/^1 /q"), NO_ANSWER),
    "the kernel does not answer": Mishap(
        "ip",
        ANSWERED.format(
            r"s/^1 .*/RTNETLINK answers: No buffer space available\nCommand failed -:5/"
        ),
        f"{NO_ANSWER}172.20.0.0: No buffer space available",
    ),
    "the kernel does not answer once": Mishap(
        "ip",
        ANSWERED.format(
            r"s/^1 172\.20\.77\..*/RTNETLINK answers: No buffer space available\n"
            "Command failed -:4/"
        ),
        f"{NO_ANSWER}172.20.77.0: No buffer space available",
    ),
    "an answer comes twice": Mishap(
        "ip",
        ANSWERED.format(r"/^1 172\.20\.77\./p"),
        f"{NO_ANSWER}172.20.201.0: there are too many answers",
    ),
}
# The last words of each look at the links, rules and routes.
UNREAD: dict[str, tuple[list[str], str]] = {
    "a rule with a word of tomorrow": (
        ["rule add pref 9 fwmark 1 lookup 9"],
        "s/ fwmark 0x1 / phase 7 /",
    ),
    "a rule that suppresses a group": (["rule add pref 9 lookup main suppress_ifgroup 7"], ""),
    "lists that were interrupted": ([], "1i Dump was interrupted and may be inconsistent."),
    "groups without their members": (
        [
            *(
                "nexthop add id 10 via 10.0.0.1 dev eth0",
                "nexthop add id 11 dev wg0",
                "nexthop add id 20 group 10/11",
            ),
            "route add 10.9.0.0/16 nhid 20",
        ],
        "s/ dev wg0 / /; s/ dev eth0 weight/ weight/; /nh_info/d",
    ),
}


# Lines of an alias that are also in a list of `ip`, or where one ends.
LISTING_ALIASES = [
    "errors",
    "before",
    "Dump was interrupted and may be inconsistent.",
    "errors\nDump was interrupted and may be inconsistent.",
]


# Does its work, and takes a while to end after that.
LINGERING = """\
echo >>{0}/begun
{1} "$@"
status=$?
exec >&- 2>&-
sleep 0.3
echo >>{0}/ended
exit $status"""


class TestMishaps:
    """Whatever fails, the script never says ok of a host that it does not know to be well."""

    @pytest.mark.parametrize(
        ("mode", "escaping"),
        [
            pytest.param("STRICT", False, id="healthy"),
            pytest.param("STRICT", True, id="escaping"),
            pytest.param("WARN", False, id="WARN"),
        ],
    )
    @pytest.mark.parametrize("mishap", MISHAPS.values(), ids=MISHAPS)
    def test_programs_that_fail(
        self, namespace: Namespace, tmp_path: Path, mishap: Mishap, mode: str, *, escaping: bool
    ) -> None:
        """Without an answer there is no verdict: STRICT refuses, WARN does not, and no marker is
        left.
        """
        dev = "ib0" if escaping else "eth0"
        namespace.batch(f"route add 172.20.{at}.0/24 dev {dev}" for at in (9, 77, 200))
        leave(tmp_path, MADE_OK)
        config = check("172.20.0.0/16", "fd16::/32", mode=mode)
        checked = Checked(namespace, config, tmp_path, tools={mishap.program: mishap.body})
        level = 3 if mode == "STRICT" else 4
        *_, last = checked.said.splitlines()
        assert last == f"<{level}>check-route-overlap: failed"
        assert f"<{level}>no verdict: {mishap.why}" in checked.said
        assert checked.status == (1 if mode == "STRICT" else 0)
        assert checked.left == {}

    def test_linux_without_ipv6(self, namespace: Namespace, tmp_path: Path) -> None:
        """With ipv6.disable=1, Linux refuses to list the rules of IPv6, as it does for families
        without rules, such as that of packets (`ip -0`). IPv4 is judged, and nothing is awaited.
        """
        tools = {"ip": 'exec ip "${@/#-6/-0}"'}

        only_ipv4 = Checked(namespace, check(HEALTHY), tmp_path, tools=tools)
        assert only_ipv4.verdict == "ok"
        assert only_ipv4.status == 0

        healthy, escaping = check(HEALTHY, "fd16::/32"), check(FABRIC, "fd16::/32")
        without_route = Checked(namespace, healthy, tmp_path, wait=60, tools=tools)
        assert without_route.verdict == "no-default-route"
        assert "<3>OVERLAP: " not in without_route.said
        with_escape = Checked(namespace, escaping, tmp_path, wait=60, tools=tools)
        assert with_escape.verdict == "overlap"
        assert "<3>OVERLAP: " in with_escape.said
        for checked in (without_route, with_escape):
            assert checked.status == 1
            assert f"<3>NO-DEFAULT-ROUTE: {NO_IPV6.sentence}\n" in checked.said
            assert list(checked.left) == [MADE_DETECTED]

    def test_output_that_comes_late(self, namespace: Namespace, tmp_path: Path) -> None:
        """Since version 7.1, `ip` prints its output in blocks, and errors at once: each answer is
        still found.
        """
        namespace.batch(
            [
                "route add blackhole 172.16.7.0/24",
                "route add prohibit 172.16.8.0/24",
                "route add 172.16.32.0/24 dev eth0",
            ]
        )
        late = 'printed=$(ip "$@"); status=$?; printf "%s\\n" "$printed"; exit $status'
        usual = Checked(namespace, check(FABRIC), tmp_path)
        by_blocks = Checked(namespace, check(FABRIC), tmp_path, tools={"ip": late})
        names = [line.partition(":")[0] for line in usual.lines]
        assert names == ["OVERLAP", "REFUSED", "REFUSED", "OVERLAP", "OVERLAP"]
        assert by_blocks.lines == usual.lines

    @pytest.mark.parametrize("program", ["ip", "awk", "mv"])
    def test_what_it_started_has_ended(
        self, namespace: Namespace, tmp_path: Path, program: str
    ) -> None:
        """It waits for each program that it starts:
        systemd would find what is left over, and warn.
        """
        tools = {program: LINGERING.format(tmp_path, program)}
        checked = Checked(namespace, check(FABRIC, "fd16::/32"), tmp_path, tools=tools)
        assert checked.verdict == "overlap"
        begun = (tmp_path / "begun").read_text()
        assert begun
        assert (tmp_path / "ended").read_text() == begun

    @pytest.mark.parametrize("escaping", [False, True], ids=["healthy", "escaping"])
    @pytest.mark.parametrize("what", UNREAD)
    def test_what_cannot_be_read(
        self, namespace: Namespace, tmp_path: Path, what: str, *, escaping: bool
    ) -> None:
        """What the script does not understand makes ok undecided, and hides no escape."""
        commands, change = UNREAD[what]
        namespace.batch(commands)
        config = check(HEALTHY, FABRIC) if escaping else check(HEALTHY)
        checked = Checked(namespace, config, tmp_path, tools={"ip": LISTED.format(change)})
        assert checked.verdict == ("overlap" if escaping else "undecided"), checked.said
        assert "UNDECIDED: " in checked.said

    @pytest.mark.parametrize(("expires", "verdict"), [("-3sec", "ok"), ("300sec", "undecided")])
    def test_a_default_route_that_has_expired(
        self, namespace: Namespace, tmp_path: Path, expires: str, verdict: str
    ) -> None:
        """Linux lists it until its next clean-up, and does not use it, so it names no device."""
        route = f"1 default via 10.1.0.1 dev eth1 table 254 proto 9 scope 0 expires {expires}"
        listed = LISTED.format(f"/^1 default via/i {route}")
        tools = {"ip": f"""[[ "$*" != *-force* ]] || exec ip "$@"; {listed}"""}
        checked = Checked(namespace, check("172.20.0.0/16"), tmp_path, tools=tools)
        assert checked.verdict == verdict, checked.said

    # Of the three runs of `ip` in a look, the second asks for routes, and lists nothing.
    @pytest.mark.parametrize("run", [1, 3])
    @pytest.mark.parametrize("escaping", [False, True], ids=["healthy", "escaping"])
    def test_lists_that_were_interrupted(
        self, namespace: Namespace, tmp_path: Path, *, escaping: bool, run: int
    ) -> None:
        """Linux says so when routes changed while it listed them, and `ip` succeeds all the same:
        what is missing may escape.
        """
        said = "Dump was interrupted and may be inconsistent."
        interrupted = f"""\
ip "$@"; status=$?
echo >>{tmp_path}/runs
(($(wc -l <{tmp_path}/runs) % 3 == {run % 3})) && echo '{said}' >&2
exit $status"""
        config = check(HEALTHY, FABRIC) if escaping else check(HEALTHY)
        checked = Checked(namespace, config, tmp_path, tools={"ip": interrupted})
        assert checked.verdict == ("overlap" if escaping else "undecided"), checked.said
        assert "UNDECIDED: the routes keep changing" in checked.said

    @pytest.mark.parametrize(
        "alias",
        [
            "allow *",
            "2: eth0: <UP> mtu 9",
            'Object "end" is unknown',
            "6 172.16.0.0/16 table 1 proto 80",
        ],
    )
    def test_an_alias_of_two_lines(self, namespace: Namespace, tmp_path: Path, alias: str) -> None:
        """The alias of a link can be any text: a line of it is neither a setting nor a link, and
        the escape is found.
        """
        namespace.ip("link", "set", "ib0", "alias", f"x\n{alias}")
        checked = Checked(namespace, check(FABRIC), tmp_path)
        assert checked.verdict == "overlap"
        assert checked.lines == [OVERLAP]

    @pytest.mark.parametrize(
        ("command", "words"),
        [
            ("link set dev eth0 alias uplink", ""),
            ("link property add dev eth0 altname uplink", ""),
            ("", "openvswitch_slave"),
        ],
    )
    def test_in_the_place_of_a_kind(
        self, namespace: Namespace, tmp_path: Path, command: str, words: str
    ) -> None:
        """A modem may have no kind: what is listed in its place, such as another name, is not
        taken for one.
        """
        namespace.batch([command])
        tools = {"ip": showing({"eth0": (65534, words)})}
        checked = Checked(namespace, check(HEALTHY), tmp_path, tools=tools)
        assert checked.verdict == "ok", checked.said

    @pytest.mark.parametrize("alias", LISTING_ALIASES)
    def test_an_alias_like_the_end_of_a_list(
        self, namespace: Namespace, tmp_path: Path, alias: str
    ) -> None:
        """The devices that are listed after one with such an alias are read, and the list counts
        as whole.
        """
        namespace.ip("link", "set", "lo", "alias", f"x\n{alias}")
        checked = Checked(namespace, check(FABRIC), tmp_path)
        assert checked.verdict == "overlap"
        assert checked.lines == [OVERLAP]
        assert "UNDECIDED" not in checked.said

    def test_an_answer_is_missing(self, namespace: Namespace, tmp_path: Path) -> None:
        """If `ip` ends early, neither an escape nor a place that is refused is given
        as the reason.
        """
        namespace.batch(["route add prohibit 172.16.7.0/24", "route add 172.16.9.0/24 dev eth0"])
        ended = ANSWERED.format("/^1 172.16.9/d")
        checked = Checked(namespace, check(FABRIC), tmp_path, tools={"ip": ended})
        assert checked.said.splitlines()[0] == (
            "<3>no verdict: ip failed: no answer for 172.16.255.255: ip ended before it answered"
        )

    def test_a_word_of_a_route_that_is_not_judged(
        self, namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A row is enough to have routes with a word undecided, and to say why."""
        namespace.batch(["route add 10.77.0.0/16 dev eth0 via 10.0.0.9 mtu 1400"])
        assert Checked(namespace, check(HEALTHY), tmp_path).verdict == "ok"
        monkeypatch.setitem(check_settings._WHY_NOT_JUDGED, "mtu", "its packets are small")
        checked = Checked(namespace, check(HEALTHY), tmp_path)
        assert checked.verdict == "undecided"
        assert "mtu 1400] (its packets are small)" in checked.said

    def test_a_type_of_route_that_is_not_known(self, namespace: Namespace, tmp_path: Path) -> None:
        """What such a route does with packets is undecided, by its name, and not fine."""
        namespace.batch(["route add 10.77.0.0/16 dev eth0"])
        later = LISTED.format(r"s,^1 10\.77\.0\.0/16 dev eth0,12 10.77.0.0/16,")
        checked = Checked(namespace, check(HEALTHY), tmp_path, tools={"ip": later})
        assert checked.verdict == "undecided", checked.said
        assert "does not judge route [12 10.77.0.0/16" in checked.said

    def test_what_is_not_judged_has_a_range(self, namespace: Namespace, tmp_path: Path) -> None:
        """The sentence for it may have each hole that the sentence for another doubt has."""
        namespace.batch(["rule add pref 9 lookup main suppress_ifgroup 7"])
        script = tmp_path / "check.sh"
        text = render_check_script(check(HEALTHY, "10.200.0.0/16"))
        script.write_text(
            text.replace("does not judge {reason};", "does not judge {reason}, {where};")
        )
        said = namespace.run(*command(script, "by-hand", "0")).stderr
        assert "lookup main suppress_ifgroup 7, 10.0.0.0/8, 10.200.0.0/16; run: " in said

    @pytest.mark.parametrize("escape", ["10.9.0.0/16", "fd16:0:9::/64"])
    def test_a_change_after_the_answers(
        self, namespace: Namespace, tmp_path: Path, escape: str
    ) -> None:
        """If the tables change while Linux is asked, they are read again: what came meanwhile is
        found.
        """
        namespace.batch(["route add default via fe80::1 dev eth0"], family=IPV6)
        # It goes when the other comes, so that there are as many as before.
        namespace.batch(["route add 192.0.2.0/24 dev eth0"])
        moves = f"ip route del 192.0.2.0/24 && ip route add {escape} dev ib0"
        once = f"[[ -e {tmp_path}/was ]] || {moves}; : >{tmp_path}/was"
        tools = {"ip": BETWEEN.format(once)}
        checked = Checked(namespace, check(HEALTHY, "fd16::/32"), tmp_path, tools=tools)
        assert {found.devs for found in checked.escapes} == {frozenset({"ib0"})}

    @pytest.mark.parametrize(
        ("come", "go"),
        [
            ("link add cali2 up type veth; ip route add 10.42.7.7 dev cali2", "link del cali2"),
            ("route del default; ip route add 10.43.0.0/16 dev eth0 metric $$", ROUTER),
            ("rule add pref 9 not to 192.0.2.0/24 prohibit", "rule del pref 9"),
        ],
        ids=["a pod is there", "no default route is there", "a rule refuses all but one network"],
    )
    def test_for_a_moment(self, namespace: Namespace, tmp_path: Path, come: str, go: str) -> None:
        """What escapes only while Linux is asked holds no unit back: what comes before the first
        list has gone before the second.
        """
        is_second = f"{tmp_path}/asked"
        body = f"""\
[[ -e {is_second} || "$*" == *-force* ]] || ip {come}
ip "$@"
status=$?
[[ "$*" == *-force* ]] && {{ ip {go}; touch {is_second}; }} || rm -f {is_second}
exit $status"""
        checked = Checked(namespace, check(HEALTHY), tmp_path, tools={"ip": body})
        assert checked.status == 0, checked.said
        assert checked.verdict == "undecided", checked.said
        assert "UNDECIDED: the routes keep changing" in checked.said

    @pytest.mark.parametrize(
        "escape",
        ["", "unicast 10.77.0.0/16 dev ib0", "prohibit 10.77.0.0/16", "throw 10.77.0.0/16"],
        ids=["healthy", "escaping", "refused", "unrouted"],
    )
    def test_changes_without_end(self, namespace: Namespace, tmp_path: Path, escape: str) -> None:
        """While the tables change after each look, ok is undecided, and an escape stays one."""
        namespace.batch([f"route add {escape}"] if escape else [])
        more = "ip route add 10.9.9.0/24 dev eth0 metric $$; ip rule add to 10.8.0.0/16 table $$"
        checked = Checked(namespace, check(HEALTHY), tmp_path, tools={"ip": BETWEEN.format(more)})
        assert checked.verdict == ("overlap" if escape else "undecided")
        assert "UNDECIDED: the routes keep changing" in checked.said

    def test_changes_that_end(self, namespace: Namespace, tmp_path: Path) -> None:
        """The third look still counts."""
        changes = tmp_path / "changes"
        twice = f"""\
echo >>{changes}
if (($(wc -l <{changes}) <= 2)); then
  ip rule add to 10.8.0.0/16 table $$
fi"""
        checked = Checked(namespace, check(HEALTHY), tmp_path, tools={"ip": BETWEEN.format(twice)})
        assert checked.verdict == "ok", checked.said

    @pytest.mark.parametrize("cidrs", [[HEALTHY], [HEALTHY, "fd16::/32"]], ids=["IPv4", "both"])
    def test_what_counts_down(self, namespace: Namespace, tmp_path: Path, cidrs: list[str]) -> None:
        """The timers of a bridge, and the seconds until a route expires, are not a change; a family
        is read if expected.
        """
        namespace.batch(["link add docker0 type bridge", "link set docker0 up"])
        namespace.batch(["route add default via fe80::1 dev eth0 expires 1800"], family=IPV6)
        counts = 'sed -u "s/expires [0-9]*sec/expires ${RANDOM}sec/"'
        count = f'echo >>{tmp_path}/asked; ip "$@" 2>&1 | {counts}; exit "$PIPESTATUS"'
        checked = Checked(namespace, check(*cidrs), tmp_path, tools={"ip": count})
        assert checked.verdict == "ok"
        asked = len((tmp_path / "asked").read_text().splitlines())
        usual = 3 * len(cidrs)  # for each family: lists, answers, lists
        # Linux itself may change something once. What counts down would change each time: twice
        # more often.
        assert usual <= asked <= usual + 2


PROGRAMS = [
    (render_check_script, "$addresses$ranges$finding"),
    (render_check_script, "$addresses$ranges$listed$sentences$settings$judging"),
    (render_static_routes_script, "$addresses$listed$sentences$planner"),
]


@pytest.mark.needs("gawk")
@pytest.mark.parametrize(("render", "program"), PROGRAMS)
def test_no_local_variable_hides_another(
    render: Callable[[HostRoutingConfig], str], program: str
) -> None:
    """In each program of awk, a parameter has a name that no other variable has."""
    script = render(check(FABRIC)).rpartition("\nmain ")[0]
    arguments = f'"{program}" "${{configuration[@]}}"'
    command_line = f"{script}\ngawk --lint {arguments} </dev/null"
    done = subprocess.run(["bash", "-c", command_line], capture_output=True, text=True, check=False)
    assert "warning: " in done.stderr  # gawk has read it
    assert "shadows global variable" not in done.stderr


@pytest.mark.needs("gawk")
@pytest.mark.parametrize(("render", "program"), PROGRAMS[1:])
def test_the_lists_of_variables(render: Callable[[HostRoutingConfig], str], program: str) -> None:
    """The lists in the comments name each variable that the functions of a program share, and no
    function that answers yes or no assigns to one.
    """
    script = render(check(FABRIC)).rpartition("\nmain ")[0]
    dump = f'gawk --dump-variables=/dev/stderr -v family=4 "{program}"'
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{dump} </dev/null"], capture_output=True, text=True, check=False
    )
    variables = set(re.findall("^([a-z]\\w*): ", done.stderr, re.MULTILINE))
    lists = re.findall(r"^# Variables:.*(?:\n#   .*)*", script, re.MULTILINE)
    assert len(variables) > 50
    assert variables - {"family"} - set(re.findall(r"\w+", " ".join(lists))) == set()
    questions = re.findall(
        r"^function ((?:is|are|can|may|has|needs)_\w+)\((.*?)\) \{(.*?)^(?:\}|(?=function))",
        script,
        re.MULTILINE | re.DOTALL,
    )
    assert len(questions) > 10
    for name, parameters, body in questions:
        assigned = set(re.findall(r"(?<![\w\"])([a-z]\w*)(?:\[[^]]*\])? [-+]?= ", body))
        assert assigned <= set(re.findall(r"\w+", parameters)), name


def test_thousands_of_routes(namespace: Namespace, tmp_path: Path) -> None:
    """Thousands of routes, with the longest addresses, are asked about in several commands."""
    routes: list[str] = []
    escaping: list[tuple[int, int]] = []
    for at in range(3500):
        address = ip_address(f"fd16:1234:5678:9abc:def0:1234:{0x1000 + at:x}:8000")
        if at % 7 == 0:
            routes.append(f"route add {address}/113 dev ib0")
            escaping.append((int(address), int(address) + 0x7FFF))
        else:
            routes.append(f"route add {address}/113 dev eth0")
    default = "route add default via fe80::1 dev eth0"
    refused = "route add blackhole fd16:1234:5678:9abc:ffff::/80"
    namespace.batch([default, *routes, refused], family=IPV6)

    checked = Checked(namespace, check("fd16:1234:5678:9abc::/64"), tmp_path)

    assert len(escaping) == 500
    lost = [(escape.first, escape.last) for escape in checked.escapes if escape.devs]
    assert sorted(lost) == escaping
    words = "REFUSED: expected CIDR fd16:1234:5678:9abc::/64 (fd16:1234:5678:9abc:ffff::\u2013"
    assert words in checked.lines[-1]
