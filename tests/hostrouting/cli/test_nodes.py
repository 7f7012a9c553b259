"""`check --snapshots`: many nodes on one page, and the exit code of the worst."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest

from tests.support.cli import Said, say
from tests.support.fleets import save_every_kind
from tests.support.programs import completed
from tests.support.tasks import CIDR


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """Nodes of every kind."""
    return save_every_kind(tmp_path / "nodes")


def check(nodes: Path, *options: str) -> Said:
    """Check them in a thread of this process."""
    name = "hostrouting.cli.nodes.ProcessPoolExecutor"
    with mock.patch(name, side_effect=lambda **_: ThreadPoolExecutor(1)):
        return say("check", "--snapshots", str(nodes), CIDR, *options)


def test_the_page(nodes: Path) -> None:
    """It has the numbers, then each problem with its nodes and the repair."""
    for number in range(3, 9):
        (nodes / f"gpu-{number}.json").write_bytes((nodes / "gpu-0.json").read_bytes())
    said = check(nodes)
    assert said.err == ""
    assert said.code == 1
    assert said.lines[:7] == [
        "14 nodes: 10 overlap, 1 no verdict, 1 no-default-route, 1 undecided, 1 ok",
        "",
        f"OVERLAP: 9 nodes: addresses of {CIDR} leave through ibN",
        "  gpu-0, gpu-1, gpu-2, gpu-3, gpu-4, gpu-5 and 3 more; --json shows all",
        "  repair, for staticRoutes.routes of their configuration:",
        '    {"destination": "172.16.0.0/17"},',
        '    {"destination": "172.16.128.0/17"}',
    ]
    assert said.lines[7:10:2] == ["", "  refusing"]
    assert said.lines[8].startswith("OVERLAP: 1 node: ")
    see = f"  see: hostrouting check {CIDR} --snapshot {nodes}"
    seen = [line for line in said.lines if line.startswith("  see: ")]
    assert seen == [f"{see}/{name}.json" for name in ("refusing", "bare", "marked")]


@pytest.mark.parametrize(
    ("names", "code"),
    [
        pytest.param(["vm"], 0, id="ok"),
        pytest.param(["vm", "marked"], 3, id="a doubt"),
        pytest.param(["vm", "bare"], 3, id="no default route"),
        pytest.param(["vm", "marked", "broken"], 2, id="a file that cannot be read"),
        pytest.param(["broken", "gpu-0"], 1, id="an overlap"),
    ],
)
def test_the_exit_code(nodes: Path, names: list[str], code: int) -> None:
    """An overlap is worse than a file that cannot be read, and that than a doubt."""
    for file in nodes.iterdir():
        if file.stem not in names:
            file.unlink()
    assert check(nodes).code == code


@pytest.mark.parametrize("option", ["--snapshot=a.json", "--fail-on=warning", "--ignore=overlap"])
def test_options_of_one_node(option: str, nodes: Path) -> None:
    """They are refused, and not passed over."""
    said = check(nodes, option)
    assert said.code == 2
    assert "--snapshots: cannot be used with --snapshot, --fail-on or --ignore" in said.err


@pytest.mark.linux
def test_processes_of_its_own(nodes: Path) -> None:
    """The program judges in processes, and its answer is that of one process."""
    words = ("check", CIDR, "--snapshots", str(nodes), "--json")
    done = completed([sys.executable, "-m", "hostrouting", *words])
    assert done.stderr == ""
    assert done.returncode == 1
    assert json.loads(done.stdout) == check(nodes, "--json").json
