"""static-routes.sh while other programs change routes, or while a program that it runs hangs."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from hostrouting.boot.scripts import render_static_routes_script
from hostrouting.config.settings import HostRoutingConfig, StaticRoute, StaticRoutesConfig
from hostrouting.model.prefix import IPV6
from tests.support.awks import put_before
from tests.support.namespace import Namespace
from tests.support.routes_script import HALVES, Ran, ours
from tests.support.waiting import await_file, leaving_word

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

STOPPED = "<3>static-routes: stopped before all routes were installed"
REFUSED = StaticRoute("172.16.0.0/17", "10.0.0.77", "eth0")  # Linux accepts no broadcast address as a gateway


def stop_at(call: int, directory: Path, *, with_words: str = "*") -> str:
    """The body of a program that stops the script at this call, of those with these words."""
    calls, usual = directory / "calls", 'exec "${0##*/}" "$@"'
    count = f"echo >>{calls}; (($(wc -l <{calls}) < {call})) && {usual}"
    return f'[[ "$*" == {with_words} ]] || {usual}\n{count}\nkill -TERM $PPID; exit 3'


class TestMeanwhile:
    """On an H200 node, while the script runs."""

    @pytest.mark.parametrize("ending", ["exit 0", "kill -9 $$"])
    def test_a_plan_that_was_cut_short(self, namespace: Namespace, tmp_path: Path, ending: str) -> None:
        """A plan that is cut short is not carried out: the script fails with a message."""
        plan = r"write\nroute add 10.1.0.0/16 dev eth0 proto 213\nroute del 10.1.0.0/16 dev eth0 proto 213\n"
        tools = {"awk": f"cat >/dev/null; printf '{plan}'; {ending}"}
        if ending == "exit 0":
            tools["ip"] = 'ip "$@"; exit 7'
        ran = Ran(namespace, HALVES, tmp_path, tools=tools)
        assert (ran.status, ours(namespace)) == (1, [])
        assert "<3>static-routes: the routes cannot be read" in ran.said

    def test_somebody_else_is_faster(self, namespace: Namespace, tmp_path: Path) -> None:
        """If another program adds the wanted route meanwhile, the script succeeds: only the table counts."""
        first = "ip route add 172.16.0.0/17 via 10.0.0.1 dev eth0 proto 213"
        ran = Ran(namespace, HALVES, tmp_path, tools={"ip": f'[[ "$*" == "-batch"* ]] && {first} 2>&-\nexec ip "$@"'})
        assert (ran.lines, ran.status) == ([], 0)
        assert ours(namespace) == [str(half.destination) for half in HALVES]

    def test_somebody_else_is_faster_and_another_route_is_refused(self, namespace: Namespace, tmp_path: Path) -> None:
        """The other program's route stays, and the reason is that of the refused one.

        Kills: what failed is undone, too; each failure has the reason of the first.
        """
        namespace.batch(["route add broadcast 10.0.0.77 dev eth0 table main"])
        first = "ip route add 172.16.128.0/17 via 10.0.0.1 dev eth0 proto 213"
        tools = {"ip": f'[[ "$*" == "-batch"* ]] && {first} 2>&-\nexec ip "$@"'}
        [line] = Ran(namespace, [HALVES[1], REFUSED], tmp_path, tools=tools).lines
        assert line.endswith(": Error: Nexthop has invalid gateway.")
        assert ours(namespace) == ["172.16.128.0/17"]

    def test_routes_that_are_not_listed_to_the_end(self, namespace: Namespace, tmp_path: Path) -> None:
        """If `ip` could not list all routes, nothing is written, although it lists the links. Kills: only its end counts."""
        failed = r'sed "0,/^[0-9]*: /s//Dump terminated\nCommand failed -:7\n&/"'
        tools = {"ip": f'[[ "$*" == "-N "* ]] || exec ip "$@"\nip "$@" | {failed}'}
        ran = Ran(namespace, HALVES, tmp_path, tools=tools)
        assert ran.lines == ["<3>static-routes: the routes cannot be read: ip failed: Dump terminated"]
        assert (ran.status, ours(namespace)) == (1, [])

    def test_read_while_it_changed(self, namespace: Namespace, tmp_path: Path) -> None:
        """Tables that changed while they were read are read again."""
        seen = tmp_path / "seen"
        said = "Dump was interrupted and may be inconsistent."
        tools = {"ip": f'ip "$@"\n[[ -e {seen} ]] || {{ : >{seen}; echo "{said}" >&2; }}'}
        ran = Ran(namespace, HALVES, tmp_path, tools=tools, wait=5)
        assert (ran.lines, ran.status) == ([], 0)
        # Also if the tables of both families changed, it says so once.
        tools = {"ip": f'ip "$@"; echo "{said}" >&2; echo "{said}" >&2'}
        (line,) = Ran(namespace, HALVES, tmp_path, tools=tools).lines
        assert line == "<3>static-routes: the routes changed while they were read; gave up after 0 s"
        # If `ip` fails after that, its own words are the reason.
        tools = {"ip": f'echo "{said}" >&2; echo "it failed" >&2; exit 1'}
        (line,) = Ran(namespace, HALVES, tmp_path, tools=tools).lines
        assert line == "<3>static-routes: the routes cannot be read: ip failed: it failed"

    def test_somebody_else_undoes_it(self, namespace: Namespace, tmp_path: Path) -> None:
        """If the added route is gone after each attempt, the output says so after some attempts."""
        undone = 'ip "$@"; status=$?; [[ "$*" == "-batch"* ]] && ip route del 172.16.0.0/17; exit $status'
        ran = Ran(namespace, HALVES, tmp_path, tools={"ip": undone})
        assert (ran.status, ours(namespace)) == (1, [])
        (line,) = ran.lines
        assert line.startswith(
            "<3>static-routes: another program keeps changing these routes: route add 172.16.0.0/17 "
        )

    def test_an_ip_that_is_killed(self, namespace: Namespace, tmp_path: Path) -> None:
        """If `ip` is killed while it writes, the output says so."""
        ran = Ran(namespace, HALVES, tmp_path, tools={"ip": '[[ "$*" == "-batch"* ]] && kill -KILL $$\nexec ip "$@"'})
        assert (ran.status, ours(namespace)) == (1, [])
        (line,) = ran.lines
        assert line.startswith("<3>static-routes: route add 172.16.0.0/17 table 254 ")
        assert line.endswith(": ip printed nothing")

    @pytest.mark.parametrize("command", ["replace", "append"])
    def test_somebody_takes_the_place(self, namespace: Namespace, tmp_path: Path, command: str) -> None:
        """A foreign route that appears at our route's place after the reading is not overwritten."""
        namespace.batch(["route add 172.16.0.0/17 dev ib0 scope link proto 213"])
        stolen = f"ip route {command} 172.16.0.0/17 via 10.0.0.9 dev eth0 proto static"
        once = f'[[ "$*" == "-batch"* && ! -e {tmp_path}/done ]] && : >{tmp_path}/done && {stolen}\nexec ip "$@"'
        ran = Ran(namespace, HALVES, tmp_path, tools={"ip": once})
        assert "172.16.0.0/17 via 10.0.0.9 dev eth0 proto static" in namespace.ip("-d", "route", "show").stdout
        assert ran.status == 1 or command == "append"

    def test_told_to_stop(self, namespace: Namespace, tmp_path: Path) -> None:
        """A run that is stopped, for example by its unit's timeout, says what it waited for, and ends."""
        namespace.batch(["route del default"])
        script = tmp_path / "routes.sh"
        config = HostRoutingConfig(StaticRoutesConfig(enabled=True, routes=HALVES[:1]))
        naps = tmp_path / "naps"
        text = render_static_routes_script(config, wait=30)
        script.write_text(put_before(text, {"sleep": leaving_word(naps, "sleep")}, tmp_path))
        command = [*namespace.enter, "bash", str(script)]
        run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        await_file(naps)
        os.killpg(run.pid, signal.SIGTERM)
        said = run.communicate(timeout=20)[1]
        assert run.returncode == 128 + signal.SIGTERM
        assert said.splitlines() == [
            STOPPED,
            "<3>static-routes: ROUTE-WAITS: 172.16.0.0/17: waiting for an IPv4 default route",
        ]

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_told_to_stop_while_it_writes(self, namespace: Namespace, tmp_path: Path, when: str) -> None:
        """A run that is stopped in the middle of its batch leaves the routes as they were; `ip` itself sends the signal."""
        namespace.batch(["route add 172.16.0.0/17 dev ib0 scope link proto 213"])
        before = namespace.ip("route", "show").stdout
        stop = "kill -TERM $PPID"
        body = f"{stop}; exit 3" if when == "before" else f'ip "$@"; {stop}; exit 3'
        ran = Ran(namespace, HALVES, tmp_path, tools={"ip": f'[[ "$*" == "-batch"* ]] || exec ip "$@"\n{body}'})
        assert (ran.status, namespace.ip("route", "show").stdout) == (143, before)
        assert ran.lines == [STOPPED]

    @pytest.mark.parametrize(
        ("wanted", "program", "reason"),
        [
            (StaticRoute("172.16.0.0/17"), "awk", "ROUTE-WAITS: 172.16.0.0/17: waiting for an IPv4 default route"),
            (REFUSED, "awk", "route add 172.16.0.0/17 table 254 "),
            (REFUSED, "ip", "route add 172.16.0.0/17 table 254 "),
        ],
        ids=["missing, while it reads", "refused, while it reads", "refused, while it writes"],
    )
    def test_told_to_stop_at_another_attempt(
        self, namespace: Namespace, tmp_path: Path, wanted: StaticRoute, program: str, reason: str
    ) -> None:
        """The script says why the attempt before failed."""
        namespace.batch(["route add broadcast 10.0.0.77 dev eth0 table main", "route del default"])
        words = "*" if program == "awk" else "-batch*"
        tools = {program: stop_at(2, tmp_path, with_words=words)}
        ran = Ran(namespace, [wanted], tmp_path, tools=tools, wait=30)
        assert ran.status == 128 + signal.SIGTERM
        stopped, told = ran.lines
        assert stopped == STOPPED
        assert told.startswith(f"<3>static-routes: {reason}")

    @pytest.mark.parametrize("call", [2, 3])
    def test_told_to_stop_while_it_reads_back(self, namespace: Namespace, tmp_path: Path, call: int) -> None:
        """After routes were added, or an unwanted one was deleted, the script blames no other program."""
        namespace.batch(["route add 10.1.0.0/16 dev ib0 proto 213"])
        ran = Ran(namespace, HALVES, tmp_path, tools={"awk": stop_at(call, tmp_path)})
        assert (ran.lines, ran.status) == ([STOPPED], 128 + signal.SIGTERM)
        assert ours(namespace) == ["10.1.0.0/16"]

    def test_told_to_stop_after_a_second_attempt(self, namespace: Namespace, tmp_path: Path) -> None:
        """What the first attempt failed for is not told any more after one that succeeded."""
        namespace.batch(["route add broadcast 10.0.0.77 dev eth0 table main"])
        tools = {"awk": stop_at(3, tmp_path), "sleep": "ip route del broadcast 10.0.0.77 dev eth0 table main"}
        ran = Ran(namespace, [REFUSED], tmp_path, tools=tools, wait=30)
        assert (ran.lines, ran.status) == ([STOPPED], 128 + signal.SIGTERM)

    def test_told_to_stop_after_it_gave_up(self, namespace: Namespace, tmp_path: Path) -> None:
        """The script says each thing once."""
        undone = '[[ "$*" != "-batch"* ]] || ip route del 172.16.0.0/17'
        stop = '[[ "$*" != "-force"* ]] || kill -TERM "$(cut -d" " -f4 /proc/$PPID/stat)"'
        ran = Ran(namespace, HALVES, tmp_path, tools={"ip": f'ip "$@"; status=$?; {undone}; {stop}; exit $status'})
        assert len(ran.lines) == 1
        assert ours(namespace) == []

    @pytest.mark.parametrize("wait", [0, 20])
    def test_an_ip_that_hangs(self, namespace: Namespace, tmp_path: Path, wait: int) -> None:
        """If `ip` hangs, the unit's time-out ends it and the script, and the failure has a message."""
        script = tmp_path / "routes.sh"
        config = HostRoutingConfig(StaticRoutesConfig(enabled=True, routes=HALVES[:1]))
        asked = tmp_path / "asked"
        hangs = {"ip": f"echo >>{asked}; exec sleep 60"}
        script.write_text(put_before(render_static_routes_script(config, wait=wait), hangs, tmp_path))
        run = subprocess.Popen(
            [*namespace.enter, "bash", str(script)], stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        await_file(asked)
        os.killpg(run.pid, signal.SIGTERM)
        said = run.communicate(timeout=20)[1]
        assert run.returncode == 128 + signal.SIGTERM
        assert STOPPED in said

    def test_no_proc(self, namespace: Namespace, tmp_path: Path) -> None:
        """Without /proc, where bash finds its pipes, the script says so, and does not blame awk."""
        ran = Ran(namespace, HALVES, tmp_path, before="mount -t tmpfs none /proc")
        assert (ran.status, ours(namespace)) == (1, [])
        assert "/dev/fd/" in ran.said
        # bash writes its own message in several parts, and this one may come between them.
        assert re.search(r"<3>static-routes: the routes cannot be read: m?awk printed nothing\n", ran.said)

    def test_an_ip_that_fails(self, namespace: Namespace, tmp_path: Path) -> None:
        """If `ip` cannot read the table, the output has the error of `ip`, and nothing is written."""
        tools = {"ip": '[[ "$*" == "-batch"* ]] && exec ip "$@"\necho "Cannot open netlink socket" >&2; exit 1'}
        ran = Ran(namespace, HALVES, tmp_path, tools=tools)
        assert ran.lines == ["<3>static-routes: the routes cannot be read: ip failed: Cannot open netlink socket"]
        assert (ran.status, ours(namespace)) == (1, [])

    def test_order_is_given_back(self, namespace: Namespace, tmp_path: Path) -> None:
        """A script that is told to stop puts unwanted routes back in their places among other programs' routes."""
        others = "172.16.0.0/17 dev ib0 proto static"
        namespace.batch([f"route add {others}", "route append 172.16.0.0/17 via 10.0.0.1 proto 213"])
        namespace.batch(["route add 172.16.128.0/17 via 10.0.0.1 proto 213", "route append 172.16.128.0/17 dev ib0"])
        before = namespace.ip("route", "show").stdout
        stop = '[[ "$*" == "-batch"* ]] || exec ip "$@"\nip "$@"; kill -TERM $PPID; exit 3'
        ran = Ran(namespace, [], tmp_path, tools={"ip": stop})
        assert (ran.status, namespace.ip("route", "show").stdout) == (143, before)

    def test_ipv6_is_given_back(self, namespace: Namespace, tmp_path: Path) -> None:
        """All kinds of IPv6 routes that are no longer wanted are back when the script is told to stop."""
        ways = ["dev ib0 mtu 1400 pref high", "metric 5 expires 500 via fe80::3 dev eth1", "from fd00::/8 dev ib0"]
        ways += ["metric 7 nexthop via fe80::3 dev eth0 weight 3 nexthop via fe80::4 dev eth1", "table 100 dev ib0"]
        batch = [f"route add fd00:16::/64 proto 213 {way}" for way in ways]
        batch += ["route add unreachable fd00:17::/64 proto 213", "route append fd00:17::/64 dev ib0 proto 213"]
        batch += ["route append fd00:18::/64 dev ib0 proto 213", "route append fd00:18::/64 via fe80::3 dev eth1"]
        namespace.batch(batch)

        def every() -> list[str]:
            shown = namespace.ip("-6", "route", "show", "table", "all").stdout
            return sorted(re.sub(r"expires \w+", "", line) for line in shown.splitlines() if "ff00::" not in line)

        before = every()
        stop = '[[ "$*" == "-batch"* ]] || exec ip "$@"\nip "$@"; ip -6 route show >&2; kill -TERM $PPID; exit 3'
        ran = Ran(namespace, [], tmp_path, tools={"ip": stop})
        assert "proto 213" not in ran.said
        assert (ran.status, every()) == (143, before)
        assert len(ours(namespace, IPV6)) == 8

    def test_next_hops_are_given_back(self, namespace: Namespace, tmp_path: Path) -> None:
        """Our IPv6 next hop is ours again, behind another program's, which is still that program's."""
        batch = [
            "::/0 via fe80::1",
            "fd00:16::/64 via fe80::3 proto 213",
            "fd00:16::/64 via fe80::9 proto 12 expires 500",
        ]
        namespace.batch(f"route append {route} dev eth0" for route in batch)
        stop = '[[ "$*" == "-batch"* ]] || exec ip "$@"\nip "$@"; kill -TERM $PPID; exit 3'
        assert Ran(namespace, [StaticRoute("fd00:16::/64")], tmp_path, tools={"ip": stop}).status == 143
        namespace.batch(["route del fd00:16::/64 via fe80::3 dev eth0 proto 213"])
        assert " via fe80::9 dev eth0 proto 12 " in namespace.ip("-6", "-N", "route").stdout

    def test_somebody_takes_the_place_in_ipv6(self, namespace: Namespace, tmp_path: Path) -> None:
        """IPv6 merges two routes with gateways into one: a next hop that was added meanwhile stays next to ours."""
        namespace.batch(["route add ::/0 via fe80::1 dev eth0", "route add fd00:16::/64 dev ib0 proto 213"])
        stolen = "for n in 16 17; do ip route append fd00:$n::/64 via fe80::9 dev eth0 proto static; done"
        once = f'[[ "$*" == "-batch"* && ! -e {tmp_path}/done ]] && : >{tmp_path}/done && {stolen}\nexec ip "$@"'
        wanted = [StaticRoute("fd00:16::/64"), StaticRoute("fd00:17::/64")]
        ran = Ran(namespace, wanted, tmp_path, tools={"ip": once})
        assert (ran.status, ran.lines) == (0, [])
        hops = [
            f"route del fd00:{n}::/64 via {way}" for n in (16, 17) for way in ("fe80::9 proto 4", "fe80::1 proto 213")
        ]
        namespace.batch(hops)

    def test_what_gives_way_is_back_while_it_waits(self, namespace: Namespace, tmp_path: Path) -> None:
        """If the kernel refuses the replacement, our old route is restored until the next try."""
        namespace.batch(
            ["route add broadcast 10.0.0.77 dev eth0 table main", "route add 10.1.0.0/16 dev ib0 proto 213"]
        )
        script = tmp_path / "routes.sh"
        wanted = [StaticRoute("10.1.0.0/16", "10.0.0.77", "eth0")]
        naps = tmp_path / "naps"
        text = render_static_routes_script(HostRoutingConfig(StaticRoutesConfig(True, wanted)), wait=30)
        script.write_text(put_before(text, {"sleep": leaving_word(naps, "sleep")}, tmp_path))
        run = subprocess.Popen([*namespace.enter, "bash", str(script)], stderr=subprocess.PIPE, start_new_session=True)
        await_file(naps, lines=2)  # it has tried once at least
        is_seen = any(ours(namespace) for _ in range(50))
        os.killpg(run.pid, signal.SIGTERM)
        said = run.communicate(timeout=20)[1].decode()
        assert is_seen, "it is away for moments only"
        assert ours(namespace) == ["10.1.0.0/16"]
        assert "10.1.0.0/16 table 254" in said

    def test_what_somebody_deletes_while_it_waits(self, namespace: Namespace, tmp_path: Path) -> None:
        """A route that was put back once, and that another program has deleted since, stays deleted.

        Kills: each failure undoes the attempts before it again.
        """
        namespace.batch(
            ["route add broadcast 10.0.0.77 dev eth0 table main", "route add 172.16.0.0/17 dev ib0 proto 213"]
        )
        tools = {"sleep": "ip route del 172.16.0.0/17 2>&-"}
        assert Ran(namespace, [REFUSED], tmp_path, tools=tools, wait=2).status == 1
        assert ours(namespace) == []

    def test_two_at_once(self, namespace: Namespace, tmp_path: Path) -> None:
        """Runs at the same time come to the same end, all of them well."""
        routes = [StaticRoute(f"10.{1 + number // 256}.{number % 256}.0/24") for number in range(300)]
        routes += [StaticRoute(f"fd00:16:{number:x}::/64") for number in range(300)]
        script = tmp_path / "routes.sh"
        config = HostRoutingConfig(StaticRoutesConfig(enabled=True, routes=routes))
        script.write_text(render_static_routes_script(config, wait=30))
        namespace.batch(["route add 9.9.9.9 via 10.0.0.1 proto 213", "route add 10.1.7.0/24 dev ib0 proto 213"])
        namespace.batch(["route add fd00:16:7::/64 dev ib0 proto 213", "route add ::/0 via fe80::1 dev eth0"])
        runs = [subprocess.Popen([*namespace.enter, "bash", str(script)], stderr=subprocess.PIPE) for _ in range(3)]
        assert [(run.communicate(timeout=60)[1], run.returncode) for run in runs] == [(b"", 0)] * 3
        assert (len(ours(namespace)), len(ours(namespace, IPV6))) == (300, 300)
