"""probe-rewrite.sh, run in private namespaces: what is in the kernel after it, and what it says where it fails."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import attrs
import pytest

from hostrouting.boot.probe import TABLE, ProbeScript, render_probe_script, render_probe_table
from hostrouting.config.probe_rewrite import ProbeRewriteConfig
from hostrouting.host.layout import HostLayout
from tests.support.awks import put_before
from tests.support.commands import ports
from tests.support.namespace import Namespace, private_namespace
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = [pytest.mark.linux, pytest.mark.needs("root", "nft")]

GLOBAL = "2603:1062:0:1:fe80:1234:5678:9abc"
CONFIG = ProbeRewriteConfig(enabled=True, interfaces=["eth0"])
TOLD = ProbeScript(CONFIG, wait=0)
OTHER = 'table ip6 other {\n chain c {\n  type filter hook input priority 0\n  counter comment "theirs"\n }\n}\n'
ROUTE = f"{GLOBAL} dev eth0 proto 213 metric 1024 pref medium"
NOTE = f"route {GLOBAL}\n\n"


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
        """Run the script; `tools` are programs in the place of the usual, `before` is done in its shell.

        That shell has another umask than systemd's, and a variable with the name of one of the script's.
        """
        script = self.folder / "probe-rewrite.sh"
        text = put_before(render_probe_script(told), tools or {}, self.folder)
        # Where a program hangs, the test does not; every other one has time.
        hangs = any("sleep 60" in body for body in (tools or {}).values())
        script.write_text(text.replace("LIMIT=5", "LIMIT=3" if hangs else "LIMIT=50"))
        command = f"umask 077; export text=other; {before} && exec bash {script} {' '.join(arguments)}"
        state = str(self.applied.parent)
        done = self.inside.run("unshare", "--mount", "bash", "-c", command, RUNTIME_DIRECTORY=state)
        assert not done.stdout
        assert done.returncode in {0, 1, 143}, done.stderr
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
        return self.inside.run("nft", "-n", "-s", "list", "table", "ip6", name).stdout

    def write(self, text: str) -> Path:
        """A file with this text."""
        path = self.folder / "text"
        path.write_text(text)
        return path

    def routes(self) -> list[str]:
        """The routes to the global address, without the seconds until they expire."""
        shown = self.must("ip", "-6", "-N", "route", "show", "exact", f"{GLOBAL}/128")
        return [line.rstrip() for line in re.sub(r"expires \w+", "expires", shown).splitlines()]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node with an address on eth0."""
    with private_namespace() as inside:
        inside.batch([*ports("eth0", "eth1"), "address add fd00:99::4/64 dev eth0 nodad"])
        yield Node(inside, tmp_path)


class TestTable:
    """The table is exactly the wanted one, and never missing during a change."""

    def test_what_is_loaded(self, node: Node) -> None:
        """The script loads the text that `apply` loads, adds the route, and records the text with nft's listing."""
        text = render_probe_table(CONFIG)
        node.passes()
        loaded = node.listing()
        assert node.routes() == [ROUTE]
        assert node.applied.read_text() == f"{NOTE}{text}{loaded}"
        assert {path.name for path in node.applied.parent.iterdir()} == {node.applied.name}
        assert [path.stat().st_mode & 0o777 for path in (node.applied, node.applied.parent)] == [0o644, 0o755]
        node.must("nft", "-f", str(node.write(text)))
        assert node.listing() == loaded
        before = node.must("nft", "--handle", "list", "ruleset")
        node.passes()
        assert node.must("nft", "--handle", "list", "ruleset") == before, "a second run loads nothing"

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
        [transaction] = [word for word in said.read_text().split("# new generation") if f" {TABLE}" in word]
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
        """If the table disappears right after it was loaded, the run fails."""
        said = node.fails(tools={"nft": '/usr/sbin/nft "$@" || exit; [[ $* == *-f* ]] && /usr/sbin/nft flush ruleset'})
        assert (
            said
            == f"table ip6 {TABLE} does not stay as it was loaded: something on this host flushes nftables; stop it"
        )

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

    @pytest.mark.parametrize(
        ("tool", "when", "words"),
        [("nft", "-f", "nft -f -"), ("nft", "list", "nft -n -s list"), ("ip", "get", "ip -6")],
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


class TestRoute:
    """The route for the replies: kept, added or replaced; no route of another program is touched."""

    @pytest.mark.parametrize(
        ("other", "after"),
        [
            ("GLOBAL dev eth0 proto 4", f"{GLOBAL} dev eth0 proto 4 metric 1024 pref medium"),
            ("GLOBAL dev eth0 proto 213", ROUTE),
            ("GLOBAL dev eth1 proto 213", ROUTE),
            ("GLOBAL via fd00:99::1 dev eth0 proto 213", ROUTE),
            ("blackhole GLOBAL proto 213", ROUTE),
        ],
    )
    def test_what_is_there(self, node: Node, other: str, after: str) -> None:
        """A route with the same way is kept, whichever program added it; another one of ours is replaced."""
        node.must("ip", "-6", "route", "add", *other.replace("GLOBAL", GLOBAL).split())
        node.passes()
        assert node.routes() == [after]

    @pytest.mark.parametrize(
        "other", ["GLOBAL dev eth1 proto 4", "GLOBAL via fd00:99::1 dev eth0 proto 4", "unreachable GLOBAL proto 4"]
    )
    def test_refused(self, node: Node, other: str) -> None:
        """A route of another program that holds the key of ours is named, and stays; the table is loaded."""
        node.must("ip", "-6", "route", "add", *other.replace("GLOBAL", GLOBAL).split())
        before = node.routes()
        said = node.fails()
        assert said.startswith(f"{GLOBAL}: its route [")
        assert said.endswith("] is not ours, and replies use it: delete it, or set probeRewrite.ensureRoute to false")
        assert " proto 4 " in said
        assert (node.routes(), bool(node.listing())) == (before, True)

    @pytest.mark.parametrize(
        "command", [f"-6 address add {GLOBAL}/128 dev eth0 nodad", f"-6 route add {GLOBAL} dev eth1 metric 5 proto 4"]
    )
    def test_another_way(self, node: Node, command: str) -> None:
        """If the replies do not leave by the uplink, the script says so."""
        node.must("ip", *command.split())
        done = node.run()
        assert (done.returncode, done.stderr[:3]) == (0, "<4>")
        assert f"{GLOBAL}: the replies do not leave by eth0, but as Linux says: " in done.stderr
        assert node.listing()

    def test_a_link_that_is_missing(self, node: Node) -> None:
        """If the link is missing, the table is loaded without the route."""
        done = node.run(TOLD._replace(config=attrs.evolve(CONFIG, interfaces=["eth7"])), "60")
        assert (done.returncode, bool(node.listing())) == (0, True)
        assert done.stderr == (
            f'<4>probe-rewrite: {GLOBAL}: no route by eth7 within 0 s (Cannot find device "eth7"); the rules are loaded,'
            " and the next start of a gated unit, or the guard, tries again\n"
        )

    def test_a_link_that_is_late(self, node: Node) -> None:
        """A link that comes up while the script waits gets its route; a table that was flushed meanwhile is loaded again.

        Kills: the script without its last look at the table.
        """
        node.inside.batch(["link set eth0 down"])
        meanwhile = "/usr/sbin/nft flush ruleset && /usr/sbin/ip link set eth0 up && exec /bin/sleep 0.2"
        done = node.run(TOLD._replace(wait=100), tools={"sleep": meanwhile})
        assert (done.returncode, done.stderr) == (0, "")
        assert node.routes() == [ROUTE]
        assert node.listing()

    def test_told_to_stop(self, node: Node) -> None:
        """A run that is stopped while it waits, for example by its unit's timeout, fails and says so.

        Kills: the script without its trap for SIGTERM.
        """
        told = TOLD._replace(config=attrs.evolve(CONFIG, interfaces=["eth7"]), wait=100)
        done = node.run(told, tools={"sleep": "kill -TERM $PPID; exec sleep 1"})
        assert (done.returncode, done.stderr) == (143, "<3>probe-rewrite: stopped before the work was done\n")

    def test_a_machine_does_not_wait(self, node: Node) -> None:
        """A start of a machine waits for no link."""
        done = node.run(TOLD._replace(config=attrs.evolve(CONFIG, interfaces=["eth7"]), wait=60), "1")
        assert "within 0 s" in done.stderr


class TestNote:
    """The record of what may be in the kernel."""

    def test_what_is_noted_before(self, node: Node) -> None:
        """A run that fails halfway has recorded the former route and the new one, so that `apply` finds both."""
        node.applied.parent.mkdir()
        node.applied.write_text("route 2001:db8::1\n\nloaded")
        node.fails(tools={"nft": "exit 1"})
        assert node.applied.read_text() == f"route {GLOBAL}\nroute 2001:db8::1\n\n"

    def test_by_hand(self, node: Node) -> None:
        """Where systemd does not name the folder for the record, it is the one that `apply` reads.

        Kills: the script that does not read its setting `state`.
        """
        usual, seen = f"{HostLayout().runtime_directory}/{node.applied.name}", node.folder / "seen"
        done = node.run(
            before="mount -t tmpfs none /run && unset RUNTIME_DIRECTORY",
            tools={"nft": f'[[ $* != *-f* ]] || cp {usual} {seen}\nexec nft "$@"'},
        )
        assert (done.returncode, done.stderr, seen.read_text()) == (0, "", NOTE)

    def test_where_nothing_can_be_written(self, node: Node) -> None:
        """With a read-only /run the probes are rewritten as well, and there is a warning."""
        state = node.applied.parent
        state.mkdir()
        done = node.run(before=f"mount -t tmpfs -o ro none {state}")
        assert done.returncode == 0
        assert f"<4>probe-rewrite: cannot write {node.applied}: Read-only file system" in done.stderr
        assert node.listing()
