"""probe-rewrite.sh, run in private namespaces: what is in the kernel after it, and what it says where it fails."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from ipaddress import IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import phases
from hostrouting.boot import ProbeScript, render_probe_script
from tests.support.awks import put_before
from tests.support.commands import ports
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace
from tests.support.rewriting import Rewriting
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = [pytest.mark.linux, pytest.mark.needs("root", "nft")]

TABLE, PROBE, GLOBAL = "hostrouting_slb", "fe80::1234:5678:9abc", "2603:1062:0:1:fe80:1234:5678:9abc"
TOLD = ProbeScript(
    table=TABLE,
    priority=-300,
    link_local=IPv6Address(PROBE),
    global_address=IPv6Address(GLOBAL),
    interfaces=("eth0",),
    condition="always",
    wait=0,
)
WHOLE = """\
table ip6 hostrouting_slb {
  chain prerouting {
    type filter hook prerouting priority -310; policy accept;
    ip6 saddr != fe80::1234:5678:9abc return comment "hostrouting: not a probe"
    iifname != { "eth0", "eth1" } return comment "hostrouting: did not come in by an uplink"
    ip6 daddr { fe80::/10, ff00::/8 } return comment "hostrouting: stays on the link"
    icmpv6 type { 130, 131, 132, 133, 134, 135, 136, 137, 143 } return comment "hostrouting: neighbour discovery and MLD"
    counter ip6 saddr set 2603:1062:0:1:fe80:1234:5678:9abc comment "hostrouting: from an address that may be forwarded"
  }
  chain postrouting {
    type filter hook postrouting priority -310; policy accept;
    ip6 daddr 2603:1062:0:1:fe80:1234:5678:9abc oifname { "eth0", "eth1" } counter ip6 daddr set fe80::1234:5678:9abc comment "hostrouting: back to the address of the probe"
  }
}
"""
OTHER = 'table ip6 other {\n chain c {\n  type filter hook input priority 0\n  counter comment "theirs"\n }\n}\n'
ROUTE = f"{GLOBAL} dev eth0 proto 213 metric 1024 pref medium"
NOTE = f"table {TABLE}\nroute {GLOBAL} dev eth0 protocol 213\n"


@attrs.frozen
class Node:
    """A namespace with two uplinks, and a directory for the script and its note."""

    inside: Namespace
    folder: Path

    @property
    def applied(self) -> Path:
        """The note of what is in the kernel."""
        return self.folder / "state" / "probe-rewrite.applied"

    def run(
        self, told: ProbeScript = TOLD, *arguments: str, tools: Mapping[str, str] | None = None, before: str = ":"
    ) -> subprocess.CompletedProcess[str]:
        """Run the script; `tools` are programs in the place of the usual, `before` is done in its shell."""
        script = self.folder / "probe-rewrite.sh"
        text = put_before(render_probe_script(told), tools or {}, self.folder)
        # Where a program hangs, the test does not; every other one has time.
        hangs = any("sleep 60" in body for body in (tools or {}).values())
        script.write_text(text.replace("LIMIT=5", "LIMIT=3" if hangs else "LIMIT=50"))
        command = f"{before} && exec bash {script} {' '.join(arguments)}"
        state = str(self.applied.parent)
        done = self.inside.run("unshare", "--mount", "bash", "-c", command, RUNTIME_DIRECTORY=state)
        assert not done.stdout
        assert done.returncode in {0, 1}, done.stderr
        return done

    def passes(self, told: ProbeScript = TOLD, *arguments: str) -> None:
        """Run the script, which has to go well and to say nothing."""
        done = self.run(told, *arguments)
        assert (done.returncode, done.stderr) == (0, "")

    def fails(self, told: ProbeScript = TOLD, *, tools: Mapping[str, str] | None = None, before: str = ":") -> str:
        """Run the script, which has to fail; the one line that it says."""
        done = self.run(told, tools=tools, before=before)
        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert line.startswith("<3>probe-rewrite: ")
        return line.removeprefix("<3>probe-rewrite: ")

    def nft(self, text: str) -> None:
        """Have nft carry this out."""
        self.must("nft", text)

    def must(self, *command: str) -> str:
        """What a program says that has to go well."""
        done = self.inside.run(*command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def listing(self, name: str = TABLE) -> str:
        """The table as nft lists it, without counts; empty where there is none."""
        done = self.inside.run("nft", "-n", "list", "table", "ip6", name)
        return "" if done.returncode else re.sub(r"packets \d+ bytes \d+", "", done.stdout)

    def routes(self) -> list[str]:
        """The routes to the global address, without the seconds until they expire."""
        shown = self.must("ip", "-6", "-N", "route", "show", "exact", f"{GLOBAL}/128")
        return [it.rstrip() for it in re.sub(r"expires \w+", "expires", shown).splitlines()]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Such a node, with an address on eth0."""
    with private_namespace() as inside:
        inside.batch([*ports("eth0", "eth1"), "address add fd00:99::4/64 dev eth0 nodad"])
        yield Node(inside, tmp_path)


class TestTable:
    """The table is exactly what is wanted, and is never missing in between."""

    def test_what_is_loaded(self, node: Node) -> None:
        """On a fresh host the table, the route and the note of both are there afterwards."""
        told = attrs.evolve(TOLD, interfaces=("eth0", "eth1"), priority=-310, ensure_route=False)
        node.passes(told)
        loaded, note = node.listing(), node.applied.read_text()
        assert node.routes() == []
        node.nft(f"delete table ip6 {TABLE}; {WHOLE}")
        assert loaded == node.listing()
        assert note == f"table {TABLE}\n"
        node.passes()
        assert node.listing() != loaded
        assert node.routes() == [ROUTE]
        assert node.applied.read_text() == NOTE
        assert {it.name for it in node.applied.parent.iterdir()} == {node.applied.name}

    def test_one_transaction(self, node: Node, tmp_path: Path) -> None:
        """A second run loads the table in one transaction: no packet meets none, or half of one."""
        node.passes()
        node.nft("add chain ip6 hostrouting_slb more; insert rule ip6 hostrouting_slb prerouting accept")
        said = tmp_path / "said"

        def is_heard(name: str) -> bool:
            node.nft(f"add table ip6 {name}; delete table ip6 {name}")
            return f"add table ip6 {name}" in said.read_text()

        with said.open("w") as out, subprocess.Popen([*node.inside.enter, "nft", "monitor"], stdout=out) as monitor:
            wait_for("nft to listen", lambda: is_heard("first"))
            node.passes()
            wait_for("nft to hear of all", lambda: is_heard("last"))
            monitor.kill()
        [transaction] = [it for it in said.read_text().split("# new generation") if f" {TABLE}" in it]
        assert f"delete table ip6 {TABLE}" in transaction
        assert "more" not in node.listing()

    @pytest.mark.parametrize(
        "harm",
        [
            "flush ruleset",
            f"flush table ip6 {TABLE}",
            f"add table ip6 {TABLE} {{ flags dormant; }}",
            f"insert rule ip6 {TABLE} prerouting drop",
            f"delete chain ip6 {TABLE} postrouting",
        ],
    )
    def test_repaired(self, node: Node, harm: str) -> None:
        """Whatever became of the table, the next run loads it whole; another table stays as it is."""
        node.nft(OTHER)
        other = node.listing("other")
        node.passes()
        whole = node.listing()
        node.nft(harm)
        assert node.listing() != whole
        node.passes()
        assert node.listing() == whole
        assert node.listing("other") == ("" if "ruleset" in harm else other)

    def test_flushed_at_once(self, node: Node) -> None:
        """A table that is gone as soon as it was loaded is a failure."""
        said = node.fails(tools={"nft": '/usr/sbin/nft "$@" || exit; [[ $* == *-f* ]] && /usr/sbin/nft flush ruleset'})
        assert said == f"table ip6 {TABLE} was deleted again: something on this host flushes nftables; stop it"

    def test_flushed_once(self, node: Node) -> None:
        """A flush that falls between the load and the look at it is made good: it may be that of another machine's start."""
        once = f"[[ $* == *-f* && ! -e {node.folder}/flushed ]] && touch {node.folder}/flushed && /usr/sbin/nft flush ruleset"
        done = node.run(tools={"nft": f'/usr/sbin/nft "$@" || exit; {once}; exit 0'})
        assert (done.returncode, done.stderr) == (0, "")
        assert (node.folder / "flushed").exists()
        assert node.listing()


class TestFailures:
    """Each failure names the thing and what to do."""

    def test_no_nft(self, node: Node) -> None:
        """If nft is missing, the package that has it is named."""
        place = node.folder / "tools"
        place.mkdir()
        for tool in ("ip", "mkdir", "mv", "rm", "sleep"):
            (place / tool).symlink_to(str(shutil.which(tool)))
        script = node.folder / "script.sh"
        script.write_text(re.sub(r" PATH=\S+", f" PATH={place}", render_probe_script(TOLD)))
        state = str(node.applied.parent)
        done = node.inside.run("/bin/bash", str(script), RUNTIME_DIRECTORY=state)
        assert (done.returncode, done.stderr) == (
            1,
            "<3>probe-rewrite: the program nft was not found: install the package nftables\n",
        )
        never = attrs.evolve(TOLD, condition="never")
        script.write_text(re.sub(r" PATH=\S+", f" PATH={place}", render_probe_script(never)))
        done = node.inside.run("/bin/bash", str(script), RUNTIME_DIRECTORY=state)
        assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.parametrize(
        ("tool", "when", "words"), [("nft", "-f", "nft -f -"), ("nft", "list", "nft -n list"), ("ip", "show", "ip -6")]
    )
    def test_a_program_that_hangs(self, node: Node, tool: str, when: str, words: str) -> None:
        """A program that does not end is given up, and named."""
        usual = shutil.which(tool)
        said = node.fails(tools={tool: f'[[ $* != *{when}* ]] || exec sleep 60\nexec {usual} "$@"'})
        assert said.startswith(f"'{words}")
        assert "did not end within 3 s" in said

    def test_an_nft_that_fails(self, node: Node) -> None:
        """What nft says is passed on, its first line."""
        said = node.fails(
            tools={
                "nft": "printf '/dev/stdin:1:1-3: Error: syntax error, unexpected set\\nadd table\\n^^^\\n' >&2; exit 1"
            }
        )
        assert said == f"nft refuses table ip6 {TABLE}: syntax error, unexpected set"

    def test_no_privilege(self, node: Node) -> None:
        """Without the capability it says which one it takes."""
        script = node.folder / "script.sh"
        script.write_text(render_probe_script(TOLD))
        done = node.inside.run(
            "setpriv",
            "--bounding-set=-net_admin",
            "--inh-caps=-net_admin",
            "bash",
            str(script),
            RUNTIME_DIRECTORY=str(node.applied.parent),
        )
        assert done.returncode == 1
        assert "Operation not permitted (requires root or CAP_NET_ADMIN)" in done.stderr

    def test_a_table_of_another_process(self, node: Node) -> None:
        """A table that another process owns is not changed, and the output says so."""
        command = [*node.inside.enter, "nft", "--interactive"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as owner:
            assert owner.stdin is not None
            owner.stdin.write(f"add table ip6 {TABLE} {{ flags owner; }}\n")
            owner.stdin.flush()
            wait_for("the table", lambda: "owner" in node.listing())
            said = node.fails()
            owner.kill()
        assert (
            said
            == f"table ip6 {TABLE} is owned by another process, and only that process can change it: end the process"
        )

    def test_cut_short(self, node: Node) -> None:
        """A script that is cut anywhere fails."""
        text = render_probe_script(TOLD)
        begin, end = text.index(" EXIT ") + len(" EXIT "), text.rindex("finished=1")
        for length in (*range(begin, end, (end - begin) // 15), end):
            script = node.folder / "short.sh"
            script.write_text(text[:length])
            # What bash says of it need not be text.
            ended = subprocess.run(
                [*node.inside.enter, "/bin/bash", str(script)],
                env={**os.environ, "RUNTIME_DIRECTORY": str(node.applied.parent)},
                stderr=subprocess.DEVNULL,
                check=False,
            )
            assert ended.returncode, text[:length][-80:]


class TestCondition:
    """Probes are rewritten only where the condition says so, and what is there otherwise goes."""

    def test_never(self, node: Node) -> None:
        """Table, route and note go, and nothing else; a second time there is nothing to do."""
        never = attrs.evolve(TOLD, condition="never")
        node.passes(never)
        node.nft(OTHER)
        other = node.listing("other")
        node.passes()
        for _ in range(2):
            node.passes(never)
            assert (node.listing(), node.routes(), node.applied.exists()) == ("", [], False)
        assert node.listing("other") == other

    @pytest.mark.parametrize(
        ("address", "expected"),
        [
            ("2001:db8::4/64 dev eth0 nodad", True),
            ("fd00:98::4/64 dev eth0 nodad", True),
            ("fd00:98::4/64 dev eth1 nodad", True),
            ("fe80::77/64 dev eth0 nodad", False),
            ("fd00:98::4/64 dev peer-eth0 nodad", False),
            ("10.0.0.4/24 dev eth0", False),
            (None, False),
        ],
    )
    def test_local_ipv6(self, node: Node, address: str | None, expected: bool) -> None:  # noqa: FBT001  a parameter
        """A global or unique local IPv6 address on one of the interfaces, that is what local-ipv6 asks."""
        told = attrs.evolve(TOLD, condition="local-ipv6", interfaces=("eth0", "eth1"), ensure_route=False)
        node.passes(told)
        node.inside.batch(["address del fd00:99::4/64 dev eth0", *([f"address add {address}"] if address else [])])
        node.passes(told)
        assert bool(node.listing()) is expected

    def test_an_address_that_is_tentative(self, node: Node) -> None:
        """An address that may still be a duplicate is waited for; one that is a duplicate does not count."""
        node.inside.batch(["address del fd00:99::4/64 dev eth0", "address add fd00:99::5/64 dev peer-eth0 nodad"])
        told = attrs.evolve(TOLD, condition="local-ipv6", wait=10)
        node.inside.sysctl("ipv6/neigh/eth0/retrans_time_ms", 200)
        node.inside.batch(["address add fd00:99::5/64 dev eth0"])
        node.passes(told)
        assert "dadfailed" in node.must("ip", "-6", "address", "show", "dev", "eth0")
        assert node.listing() == ""
        node.inside.sysctl("ipv6/neigh/eth0/retrans_time_ms", 100_000)  # the next one stays tentative
        node.inside.batch(["address del fd00:99::5/64 dev eth0", "address add fd00:99::4/64 dev eth0"])
        done = node.run(told, "0")
        assert done.returncode == 0
        assert node.listing()
        assert done.stderr == (
            "<4>probe-rewrite: the IPv6 addresses of eth0 are still tentative after 0 s; probes are rewritten "
            "anyway, because the rules match nothing if there is no IPv6\n"
        )

    def test_a_link_that_is_missing(self, node: Node) -> None:
        """Under local-ipv6 a link that never comes has no address: there is a warning that names it."""
        done = node.run(attrs.evolve(TOLD, condition="local-ipv6", interfaces=("eth7",)))
        assert (done.returncode, node.listing()) == (0, "")
        assert '(eth7: Device "eth7" does not exist.)' in done.stderr


class TestRoute:
    """The route for the replies: kept, made, or refused, and no route of another owner is touched."""

    LOG = 'echo "$*" >>"${RUNTIME_DIRECTORY%/*}/calls"\nexec /usr/sbin/ip "$@"'

    def test_kept(self, node: Node) -> None:
        """A route that is already right is not added again, whichever program added it."""
        for proto in ("213", "4"):
            node.must("ip", "-6", "route", "flush", f"{GLOBAL}/128")
            node.must("ip", "-6", "route", "add", GLOBAL, "dev", "eth0", "proto", proto)
            before = node.routes()
            done = node.run(tools={"ip": self.LOG})
            assert (done.returncode, node.routes()) == (0, before)
            assert not re.search("route (add|replace|del)", (node.folder / "calls").read_text())

    @pytest.mark.parametrize(
        "other",
        [
            "GLOBAL dev eth1 proto 213",
            "GLOBAL dev eth0 proto 213 mtu 1400",
            "GLOBAL dev eth0 proto 213 metric 7",
            "GLOBAL via fd00:99::1 dev eth0 proto 213",
            "GLOBAL via fe80::1 dev eth1 proto 213 metric 2000",
            "blackhole GLOBAL proto 213",
            "unreachable GLOBAL proto 213 metric 3",
            "GLOBAL proto 213 nexthop via fd00:99::1 dev eth0 nexthop via fd00:99::2 dev eth0",
        ],
    )
    def test_replaced(self, node: Node, other: str) -> None:
        """A table of ours that differs is replaced; if no table is wanted, it is deleted."""
        for told, expected in ((TOLD, [ROUTE]), (attrs.evolve(TOLD, ensure_route=False), [])):
            node.must("ip", "-6", "route", "flush", f"{GLOBAL}/128")
            node.must("ip", "-6", "route", "add", *other.replace("GLOBAL", GLOBAL).split())
            node.passes(told)
            assert node.routes() == expected

    @pytest.mark.parametrize(
        "other",
        ["GLOBAL dev eth1 proto 4", "GLOBAL via fd00:99::1 dev eth0 proto 4", "unreachable GLOBAL proto 4"],
    )
    def test_refused(self, node: Node, other: str) -> None:
        """A route of another owner that holds the key of ours is named, and stays; no table is loaded."""
        node.must("ip", "-6", "route", "add", *other.replace("GLOBAL", GLOBAL).split())
        before = node.routes()
        said = node.fails()
        assert said.startswith(f"{GLOBAL}: its route [{GLOBAL} ")
        assert said.endswith("] is not ours, and replies use it: delete it, or set ensureRoute to false")
        assert " proto 4 " in said
        assert (node.routes(), node.listing(), node.applied.exists()) == (before, "", False)
        node.passes(attrs.evolve(TOLD, ensure_route=False))
        assert node.routes() == before

    @settings(deadline=None, max_examples=scaled(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        crowd=st.lists(
            st.tuples(
                st.sampled_from(["", "", "via fe80::1"]),
                st.sampled_from(["eth0", "eth0", "eth1"]),
                st.sampled_from([4, 213, 213]),
                st.sampled_from([1, 1024, 1024, 2000]),
            ),
            max_size=4,
        )
    )
    @example(crowd=[("via fe80::1", "eth0", 213, 1024), ("", "eth1", 4, 1024)])
    def test_any_crowd(self, node: Node, crowd: list[tuple[str, str, int, int]]) -> None:
        """Among any routes to the address: the first with our metric leads out of the link afterwards, or one that is not ours is named."""
        while node.routes():
            # Of an ECMP route, the kernel may take several legs away by the first deletion: then ip fails at the next.
            node.inside.run("ip", "-6", "route", "flush", f"{GLOBAL}/128")
        lines = [
            f"route append {GLOBAL} {via} dev {dev} proto {proto} metric {metric}" for via, dev, proto, metric in crowd
        ]
        node.inside.batch(lines, family=6, force=True)
        theirs = [it for it in node.routes() if " proto 4 " in it]
        done = node.run()
        after = node.routes()
        assert [it for it in after if " proto 4 " in it] == theirs
        if done.returncode:
            assert theirs
            assert f"[{GLOBAL} " in done.stderr
        else:
            first = next(it for it in after if " metric 1024 " in it)
            assert re.fullmatch(f"{GLOBAL} dev eth0 proto (4|213) metric 1024 pref medium", first), after
            assert [it for it in after if " proto 213 " in it] in ([], [ROUTE])

    def test_a_link_that_is_missing(self, node: Node) -> None:
        """Without its link the route cannot be had, which is a failure that names the link; the table is in force."""
        told = attrs.evolve(TOLD, interfaces=("eth7",))
        assert node.fails(told) == (
            f'{GLOBAL}: no route by eth7 within 0 s (Cannot find device "eth7"); '
            "set probeRewrite.interfaces to a device that is up"
        )
        assert node.listing()
        node.passes(attrs.evolve(told, ensure_route=False))

    def test_a_link_that_is_late(self, node: Node) -> None:
        """A link that comes up while the script waits gets its route."""
        node.inside.batch(["link set eth0 down"])

        def rise() -> None:
            wait_for("the rules", node.listing)
            node.inside.batch(["link set eth0 up"])

        other = threading.Thread(target=rise)
        other.start()
        node.passes(attrs.evolve(TOLD, wait=100))
        other.join()
        assert node.routes() == [ROUTE]

    def test_no_longer_than_there_is_time(self, node: Node) -> None:
        """The caller of the script can give it less time than its setting."""
        done = node.run(attrs.evolve(TOLD, interfaces=("eth7",), wait=60), "0")
        assert (done.returncode, "within 0 s" in done.stderr) == (1, True)


class TestAgainstTheTask:
    """The task and the script leave the same behind, whatever they find."""

    THEIRS = f"table ip6 {TABLE} {{\n chain c {{\n  type filter hook input priority 0\n  counter\n }}\n}}\n"

    @pytest.mark.parametrize(
        ("found", "refused"),
        [
            ("", False),
            ("ip address del fd00:99::4/64 dev eth0", False),
            ("ip address replace fd00:99::4/64 dev eth0 nodad preferred_lft 0", False),
            ("ip address del fd00:99::4/64 dev eth0 & ip address add fec0::4/64 dev eth0 nodad", False),
            ("ip address add GLOBAL/128 dev eth0 nodad", True),
            ("ip address add GLOBAL/128 dev eth1 nodad", True),
            ("nft add table ip6 hostrouting_slb", False),
            ("nft add table ip6 hostrouting_slb { set s { type ipv6_addr; }; }", True),
            ("theirs", True),
            ('theirs & nft add rule ip6 hostrouting_slb c counter comment "hostrouting: old"', False),
            ("ip route add GLOBAL dev eth0 proto 4", False),
            ("ip route add GLOBAL dev eth1 proto 4", True),
            ("ip route add GLOBAL dev eth0 proto 4 expires 600", True),
            ("ip route add GLOBAL dev eth0 proto 213 expires 600", False),
            ("ip route add GLOBAL via fd00:99::1 dev eth0 proto 4", True),
            ("ip route add blackhole GLOBAL proto 4", True),
            ("ip route add GLOBAL dev eth0 metric 5 proto 4", False),
            ("ip route add GLOBAL dev eth1 metric 5 proto 4", False),
            ("ip route add GLOBAL dev eth1 metric 2000 proto 4", False),
            ("ip route add GLOBAL via fd00:99::1 dev eth0 proto 213", False),
            ("ip route add GLOBAL dev eth1 proto 213 & ip route append GLOBAL dev eth0 proto 4", False),
            ("ip route add GLOBAL via fd00:99::1 dev eth0 proto 213 & ip route append GLOBAL dev eth1 proto 4", True),
            ("ip route add GLOBAL dev eth1 proto 4 & ip route append GLOBAL dev eth0 proto 213", True),
        ],
    )
    def test_any_find(self, node: Node, found: str, refused: bool) -> None:  # noqa: FBT001  a parameter
        """Both refuse, and then nothing is changed, or both end with the same table and the same routes."""

        def arrange() -> None:
            node.inside.run("nft", "flush", "ruleset")
            for scope in ("global", "site"):
                node.must("ip", "-6", "address", "flush", "scope", scope)
            node.inside.batch(["address add fd00:99::4/64 dev eth0 nodad"])
            while node.routes():
                node.inside.run("ip", "-6", "route", "flush", f"{GLOBAL}/128")
            for command in filter(None, found.replace("GLOBAL", GLOBAL).split(" & ")):
                if command == "theirs":
                    node.must("nft", self.THEIRS)
                else:
                    node.must(*command.replace("ip ", "ip -6 ", 1).split())

        arrange()
        before = node.listing(), node.routes()
        task = Rewriting(node.inside)
        try:
            task.apply()
            is_refused = False
        except phases.TaskFailed:
            is_refused = True
        by_task = node.listing(), node.routes()
        arrange()
        script = node.folder / "probe-rewrite.sh"
        script.write_text(task.script)
        done = node.inside.run("bash", str(script), RUNTIME_DIRECTORY=str(node.applied.parent))
        by_script = node.listing(), node.routes()
        assert (is_refused, done.returncode) == (refused, int(refused)), done.stderr
        assert by_script == by_task
        if refused:
            assert (by_script, node.applied.exists()) == (before, False)

    def test_an_address_that_stays_tentative(self, node: Node) -> None:
        """Both load the rules when the time is over."""
        node.inside.sysctl("ipv6/neigh/eth0/retrans_time_ms", 100_000)
        node.inside.batch(["address del fd00:99::4/64 dev eth0", "address add fd00:99::4/64 dev eth0"])
        task = Rewriting(node.inside, wait=0)
        task.apply()
        assert "tentative" in node.must("ip", "-6", "address", "show", "dev", "eth0")
        by_task = node.listing(), node.routes()
        assert by_task[0]
        node.inside.run("nft", "flush", "ruleset")
        task.boot(node.folder)
        assert (node.listing(), node.routes()) == by_task


class TestNote:
    """The note tells what to take away after the configuration has changed."""

    def test_renamed(self, node: Node) -> None:
        """A table, a route and a number of former times go, in one transaction with the new table."""
        former = attrs.evolve(
            TOLD, table="former", global_address=IPv6Address("2001:db8::9"), interfaces=("eth1",), protocol=214
        )
        node.passes(former)
        node.nft(OTHER)
        node.passes()
        assert (node.listing("former"), node.listing("other") != "") == ("", True)
        assert "2001:db8::9" not in node.must("ip", "-6", "route")
        assert node.applied.read_text() == NOTE
        node.passes(former)
        node.applied.write_text(NOTE + node.applied.read_text())
        node.passes(attrs.evolve(former, condition="never"))
        assert (node.listing("former"), node.listing(), node.applied.exists()) == ("", "", False)
        assert "proto 21" not in node.must("ip", "-6", "-N", "route")

    def test_what_was_meant_is_noted_before(self, node: Node) -> None:
        """A run that fails half its way has noted the former and the new, so that the next one finds both."""
        node.applied.parent.mkdir()
        node.applied.write_text("table former\n")
        node.fails(tools={"nft": "exit 1"})
        assert node.applied.read_text() == f"{NOTE}table former\n"

    @pytest.mark.parametrize(
        "line",
        [
            "table other",
            "table other; flush ruleset",
            "table ip6 other",
            "table Other",
            "route ::/0 dev eth0 protocol 2",
            "x",
        ],
    )
    def test_what_is_not_a_note(self, node: Node, line: str) -> None:
        """A line that no run has written has no effect, nor one that names a table that is another's by now."""
        node.nft(OTHER)
        node.applied.parent.mkdir()
        node.applied.write_text(f"{line}\n\n")

        def others() -> tuple[str, list[str]]:
            # The kernel adds the routes of link-local addresses when it sees a carrier, which may be any time.
            routes = node.must("ip", "-6", "route").splitlines()
            return node.listing("other"), [line for line in routes if not line.startswith("fe80::")]

        before = others()
        node.passes(attrs.evolve(TOLD, ensure_route=False))
        assert others() == before

    def test_where_nothing_can_be_written(self, node: Node) -> None:
        """With a read-only /run the probes are rewritten as well, and there is a warning."""
        state = node.applied.parent
        state.mkdir()
        done = node.run(before=f"mount -t tmpfs -o ro none {state}")
        assert done.returncode == 0
        assert f"<4>probe-rewrite: cannot write {node.applied}: Read-only file system" in done.stderr
        assert node.listing()


def _comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text()
