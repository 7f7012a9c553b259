"""`check --snapshots`: the table, the lines of JSON, the exit code, and what may be typed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from hostrouting.fleet.dispatch import Workers
from hostrouting.model.route import Route
from hostrouting.testing import FakeKernel, cni_node, ecmp_node, h200, plain_vm
from tests.support.cli import Said, say
from tests.support.fleets import CIDR, Inline, distinct_nodes, save
from tests.support.programs import completed
from tests.support.topologies import marked_vm, refusing

if TYPE_CHECKING:
    from hostrouting.model.snapshot import Snapshot


@pytest.fixture(autouse=True)
def in_this_process(request: pytest.FixtureRequest) -> Iterator[None]:
    """Judge in this process, where a test is not about others."""
    if "processes" in request.keywords:
        yield
        return
    with mock.patch("hostrouting.fleet.dispatch.OwnProcesses", return_value=Workers(Inline())):
        yield


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Nodes of every kind."""
    vm = plain_vm().snapshot()
    nodes: dict[str, Snapshot | str | bytes] = {
        **distinct_nodes(9),
        "refusing": refusing().snapshot(),
        "nothing": FakeKernel().snapshot(),
        "marked": marked_vm().snapshot(),
        "broken": "{",
        "vm-1": vm,
        "vm-2": vm,
    }
    return save(tmp_path / "nodes", nodes)


def lines_of(said: Said) -> dict[str, dict[str, object]]:
    """Each line of JSON, by the name of the node."""
    documents = [json.loads(line) for line in said.out.splitlines()]
    return {document["node"]: document for document in documents}


def test_the_whole_table(fleet: Path) -> None:
    """First the numbers, then one row for each problem, the worst first; then the nodes, the repair, and how to go on."""
    said = say("check", "--snapshots", str(fleet), CIDR)
    assert (said.code, said.err) == (1, "")
    assert said.lines[:22] == [
        "15 nodes: 10 overlap, 1 no verdict, 1 no-default-route, 1 undecided, 2 ok",
        "",
        "  NODES  VERDICT           PROBLEM                                                       REPAIR",
        "      9  overlap           172.16.0.0/16 by ib0                                          one repair for all",
        "      1  overlap           a part of 172.16.0.0/16 by no device (prohibit) and a part …  no route can repair all of it",
        "      1  no verdict        is not JSON, or was not copied whole; save one with: hostro…",
        "      1  no-default-route  no IPv4 default route",
        "      1  undecided         other-packets",
        "      2  ok",
        "",
        "9 nodes: 172.16.0.0/16 by ib0",
        "  node-00000, node-00001, node-00002, node-00003, node-00004, node-00005 and 3 more",
        "  One repair for all: add this to staticRoutes.routes of their configuration:",
        '    {"destination": "172.16.0.0/17", "gateway": "", "dev": "", "metric": 0},',
        '    {"destination": "172.16.128.0/17", "gateway": "", "dev": "", "metric": 0}',
        f"  For node-00000: hostrouting check --snapshot {fleet}/node-00000.json 172.16.0.0/16",
        "",
        "1 node: a part of 172.16.0.0/16 by no device (prohibit) and a part of 172.16.0.0/16 by ib0",
        "  refusing",
        f"  For refusing: hostrouting repair --snapshot {fleet}/refusing.json 172.16.0.0/16",
        "",
        said.lines[21],
    ]
    assert said.lines[21].startswith("1 node: is not JSON, or was")
    assert said.lines[-2:] == [
        "Only routing tables and rules are checked, as they are now; not firewalls, IPsec or eBPF programs.",
        "To see what is installed on each node, and whether it survives a reboot: hostrouting status",
    ]


def test_the_repair_of_the_table_repairs(fleet: Path, tmp_path: Path) -> None:
    """What is printed can be pasted, and then nothing escapes on any of these nodes."""
    said = say("check", "--snapshots", f"{fleet}/node-*.json", CIDR)
    routes = [json.loads(line.strip().rstrip(",")) for line in said.lines if line.startswith('    {"destination"')]
    config = {"staticRoutes": {"enabled": True, "routes": routes}, "routeOverlap": {"expectedCidrs": [CIDR]}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    for path in sorted(fleet.glob("node-*.json"))[:3]:
        told = say("plan", "--config", str(tmp_path / "config.json"), "--snapshot", str(path), "--json").json
        assert [step["action"] for step in told["steps"]] == ["add", "add"]
        assert told["verdict"] == "ok"
    again = say("check", "--snapshots", f"{fleet}/node-*.json", "--config", str(tmp_path / "config.json"))
    path = tmp_path / "config.json"
    assert (
        f"  One repair for all: {path} has its routes. On each node, as root: hostrouting apply --config {path}"
        in again.lines
    )


HALF, OTHER = "172.16.0.0/17", "172.16.128.0/17"
PINNED = {"gateway": "10.9.9.9", "dev": "ib0"}


def configured(tmp_path: Path, *routes: dict[str, object]) -> str:
    """The file of a configuration with these routes."""
    path = tmp_path / "fleet.json"
    document = {"staticRoutes": {"enabled": True, "routes": routes}, "routeOverlap": {"expectedCidrs": [CIDR]}}
    path.write_text(json.dumps(document))
    return str(path)


def held() -> FakeKernel:
    """An H200 node on which another program has a route to the second half."""
    kernel = h200()
    kernel.ip_route("add", Route.to(OTHER, dev="ib0", protocol=4))
    return kernel


def added(said: Said) -> list[dict[str, object]]:
    """The routes that are printed."""
    return [json.loads(line.strip().rstrip(",")) for line in said.lines if line.startswith('    {"destination"')]


def steps(config: str, snapshot: Path) -> list[str]:
    """What applying this configuration would do to the routes of this node."""
    told = say("plan", "--config", config, "--snapshot", str(snapshot), "--json").json
    return [step["action"] for step in told["steps"]]


def test_each_line_is_the_document_of_the_node(fleet: Path) -> None:
    """With --json there is one line for each node: what --snapshot says of it, or the error."""
    said = say("check", "--snapshots", str(fleet), "--json", CIDR)
    assert (said.code, said.err) == (1, "")
    found = lines_of(said)
    assert found.keys() == {path.stem for path in fleet.iterdir()}
    for name, document in found.items():
        path = str(fleet / f"{name}.json")
        alone = say("check", "--snapshot", path, "--json", CIDR)
        assert (document.pop("node"), document.pop("snapshot")) == (name, path)
        assert document == alone.json
        assert document["schema"] == ("hostrouting/error/2" if name == "broken" else "hostrouting/check/3")


@pytest.mark.parametrize(
    ("nodes", "code"),
    [
        ([plain_vm, ecmp_node], 0),
        ([plain_vm, marked_vm], 3),
        ([plain_vm, FakeKernel], 3),
        ([None, marked_vm], 2),
        ([None, plain_vm], 2),
        ([marked_vm, None, h200, cni_node], 1),
    ],
)
def test_the_worst_node_decides(tmp_path: Path, nodes: list[Callable[[], FakeKernel] | None], code: int) -> None:
    """1 if an address escapes on a node; else 2 if a file is not a snapshot; else 3 if there is no answer; else 0."""
    save(tmp_path, {str(number): make().snapshot() if make else "?" for number, make in enumerate(nodes)})
    for more in ([], ["--json"]):
        assert say("check", "--snapshots", str(tmp_path), CIDR, *more).code == code


def test_several_paths_and_arguments(fleet: Path) -> None:
    """Files that a shell has found, and several options, are one list; CIDRs and devices count for every node."""
    one, other = str(fleet / "vm-1.json"), str(fleet / "vm-2.json")
    words = f"check 10.9.0.0/16 --dev eth0 --snapshots {one} --json --snapshots {other} {fleet}/nothing.json".split()
    found = lines_of(say(*words))
    assert {name: it.get("verdict") for name, it in found.items()} == {"vm-1": "ok", "vm-2": "ok", "nothing": None}
    assert str(found["nothing"]["message"]).startswith("--dev: 'eth0' is not a device of the host of this snapshot")


def test_names_in_the_way_of_a_terminal(tmp_path: Path) -> None:
    """A name that could control a terminal, or a shell, is shown as text."""
    save(tmp_path, {"a\x1b[31m": h200().snapshot(), "b c": h200().snapshot()})
    said = say("check", "--snapshots", str(tmp_path), CIDR)
    assert "\x1b" not in said.out
    assert "  a\\u001b[31m and b c" in said.lines
    (tmp_path / "a\x1b[31m.json").unlink()
    assert (
        f"  For b c: hostrouting check --snapshot '{tmp_path}/b c.json' 172.16.0.0/16"
        in say("check", "--snapshots", str(tmp_path), CIDR).lines
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--snapshots", "{fleet}"], "no expected CIDR is given, so there is nothing to check"),
        (["--snapshots", "{fleet}/x", CIDR], "--snapshots: '{fleet}/x' does not exist; check the path"),
        (
            ["--snapshots", "-", CIDR],
            "--snapshots: '-' is standard input, which is one snapshot; check it with --snapshot -",
        ),
        (
            ["--snapshots", "{fleet}", "--snapshot", "-", CIDR],
            "--snapshot: '-' cannot be used together with --snapshots",
        ),
        (["--snapshots"], "argument --snapshots: expected at least one argument"),
        (["--snapshots", "{fleet}", "nodes", CIDR], "--snapshots: 'nodes' does not exist; check the path"),
        (["--snapshots", CIDR], "--snapshots: no path is given; name a directory, a pattern or files"),
    ],
)
def test_bad_usage(fleet: Path, words: list[str], said: str) -> None:
    """What cannot be done is refused with exit code 2 before anything is read; with --json as one document, too."""
    typed = ["check", *(word.format(fleet=fleet) for word in words)]
    told = say(*typed)
    assert (told.code, told.out) == (2, "")
    assert said.format(fleet=fleet) in told.err
    document = say(*typed, "--json").json
    assert document["schema"] == "hostrouting/error/2"


def test_cidrs_before_and_after(fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network after the snapshots is a CIDR, as with --snapshot; but a file that is called like one is a file."""
    one, other = str(fleet / "vm-1.json"), str(fleet / "node-00000.json")
    before = say("check", CIDR, "10.9.0.0/16", "--json", "--snapshots", one, other)
    assert say("check", "--snapshots", one, other, CIDR, "10.9.0.0/16", "--json").out == before.out
    assert say("check", "10.9.0.0/16", "--snapshots", one, other, CIDR, "--json").out == before.out
    monkeypatch.chdir(tmp_path)
    (tmp_path / "10.0.0.4").write_text(h200().snapshot().to_json())
    assert lines_of(say("check", "--json", "--snapshots", "10.0.0.4", CIDR)).keys() == {"10.0.0.4"}
    said = say("check", "--snapshots", one, "172.16.0.0/99")
    assert "--snapshots: '172.16.0.0/99' does not exist; check the path" in said.err


@pytest.mark.linux
class TestAsAProgram:
    """The program itself, with processes of its own."""

    def start(self, folder: Path, *, count: int, warnings: str = "error") -> subprocess.Popen[bytes]:
        """Start it, in a session of its own and on one processor, for so many nodes and a pipe."""
        os.mkfifo(folder / "later.json")
        vm = plain_vm().snapshot().to_json()
        save(folder / "nodes", {f"{number:03}": vm.replace('"10.0.0.', f'"10.9.{number}.') for number in range(count)})
        paths = [str(folder / "nodes"), str(folder / "later.json")]
        command = [sys.executable, "-W", warnings, "-m", "hostrouting", "check", CIDR, "--json", "--snapshots", *paths]
        one = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
        # Without a buffer, a line that was read is all that was taken out of the pipe.
        return subprocess.Popen(
            [*one, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, start_new_session=True
        )

    def test_lines_come_one_by_one(self, tmp_path: Path) -> None:
        """A line can be read while another snapshot is not even there."""
        with self.start(tmp_path, count=100) as program:
            assert program.stdout is not None
            assert json.loads(program.stdout.readline())["verdict"] == "ok"
            (tmp_path / "later.json").write_text(h200().snapshot().to_json())
            out, err = program.communicate(timeout=120)
        assert (program.returncode, err) == (1, b"")
        assert len(out.splitlines()) == 100

    def test_the_reader_goes_away(self, tmp_path: Path) -> None:
        """As with `| head -1`: the rest is not judged, without a failure; the exit code is that of what was judged."""
        with self.start(tmp_path, count=250) as program:
            assert program.stdout is not None
            program.stdout.readline()
            program.stdout.close()
            assert program.stderr is not None
            assert program.stderr.read() == b""
            assert program.wait(120) == 0

    def test_it_is_interrupted(self, tmp_path: Path) -> None:
        """Ctrl-C, which every process of the terminal gets, is one line and exit code 130; the last line is an error."""
        # Ctrl-C may come when a file is open and its `with` has not begun. Python warns of such a file.
        with self.start(tmp_path, count=100, warnings="ignore") as program:
            assert program.stdout is not None
            program.stdout.readline()
            os.killpg(program.pid, signal.SIGINT)
            out, err = program.communicate(timeout=120)
        assert (program.returncode, err) == (130, b"hostrouting: interrupted\n")
        *_, last = map(json.loads, out.splitlines())
        assert (last["schema"], last["error"]) == ("hostrouting/error/2", "Interrupted")

    def test_no_process_can_be_started(self, tmp_path: Path) -> None:
        """The error says so, and how many were judged; the exit code is 3."""
        save(tmp_path, {"a": plain_vm().snapshot()})
        code = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (6, 6)); from hostrouting.cli import main; sys.exit(main(sys.argv[1:]))"
        words = [sys.executable, "-c", code, "check", CIDR, "--snapshots", str(tmp_path)]
        done = completed(words)
        assert done.returncode == 3, done
        assert "0 of 1 snapshots were judged, and then the executor could not go on (OSError: " in done.stderr
