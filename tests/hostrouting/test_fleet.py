"""Many nodes: each has the result of `check --snapshot`, and nodes with the same problem are one
group.
"""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hostrouting import HostRoutingConfig, fleet
from hostrouting.check.check import check_snapshot
from hostrouting.check.results import CheckReport
from hostrouting.errors import ConfigError, HostError
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import OURS, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.testing import FakeKernel, h200, plain_vm
from tests.support.cli import say
from tests.support.programs import completed
from tests.support.sections import expect
from tests.support.topologies import dual_stack_h200, marked_vm, refusing

CIDR = "172.16.0.0/16"
CONFIG = HostRoutingConfig(route_overlap=expect(CIDR))


def save(folder: Path, nodes: dict[str, Snapshot | str]) -> Path:
    """Write a file for each node, and return the folder."""
    folder.mkdir(exist_ok=True)
    for name, node in nodes.items():
        (folder / f"{name}.json").write_text(node if isinstance(node, str) else node.to_json())
    return folder


def with_other_numbers(snapshot: str) -> str:
    """The same node, whose ib0 and ib3 have changed their names."""
    names = {'"ib0"': '"ib3"', '"ib3"': '"ib0"'}
    return re.sub('"ib[03]"', lambda name: names[name[0]], snapshot)


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """Nodes of every kind: on two of them, another InfiniBand device has the route that captures
    the CIDR.
    """
    escaping = h200().snapshot().to_json()
    by_a_bridge = refusing().snapshot().to_json().replace('"ib0"', '"br-1f3bf2e4c5d6"')
    return save(
        tmp_path / "nodes",
        {
            "gpu-0": escaping,
            "gpu-1": with_other_numbers(escaping),
            "gpu-2": with_other_numbers(escaping),
            "broken": "{",
            "refusing": by_a_bridge,
            "bare": FakeKernel().snapshot(),
            "marked": marked_vm().snapshot(),
            "vm": plain_vm().snapshot(),
        },
    )


REPAIRABLE = {"gpu-0", "gpu-1", "gpu-2"}
"""The nodes that static routes repair whole."""


def in_this_process() -> Any:
    """While the block runs, the command judges in a thread of this process."""
    name = "hostrouting.cli.nodes.ProcessPoolExecutor"
    return mock.patch(name, side_effect=lambda **_: ThreadPoolExecutor(1))


def results_of(nodes: Path, config: HostRoutingConfig = CONFIG) -> list[fleet.NodeResult]:
    """The result of each of these nodes."""
    with ThreadPoolExecutor(1) as executor:
        return list(fleet.check_snapshots([nodes], config, executor))


def groups_of(nodes: Path, config: HostRoutingConfig = CONFIG) -> tuple[fleet.NodeGroup, ...]:
    """The groups of these nodes."""
    return fleet.group_nodes(results_of(nodes, config))


def test_groups(nodes: Path, snapshot: object) -> None:
    """The worst come first; devices that differ in their numbers are one problem; a broken file is
    a row.
    """
    lines = [json.dumps(group.to_mapping()) for group in groups_of(nodes)]
    assert "\n".join(lines) == snapshot


def by_source(address: str) -> Snapshot:
    """A node that sends the connections from its address into InfiniBand."""
    kernel = FakeKernel()
    kernel.add_link(Link(name="eth0", index=2))
    kernel.add_link(Link(name="ib0", index=3, type=32))
    kernel.add_address("eth0", f"{address}/24")
    kernel.ip_route("add", Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1"))
    kernel.ip_route("add", Route.to(CIDR, dev="ib0", table=100))
    source = Prefix.parse(f"{address}/32")
    kernel.add_rule(Rule(family=4, priority=100, src=source, table=100))
    return kernel.snapshot()


def test_connections_from_the_addresses_of_the_nodes(tmp_path: Path) -> None:
    """Each node has an address of its own, and all have one problem."""
    nodes: dict[str, Snapshot | str] = {"a": by_source("10.0.0.4"), "b": by_source("10.0.0.5")}
    [group] = groups_of(save(tmp_path, nodes))
    assert group.nodes == ("a", "b")
    assert group.problem.startswith(f"addresses of {CIDR} leave through ibN;")


def test_a_route_of_ours_that_apply_deletes_hinders_no_repair(tmp_path: Path) -> None:
    """The configuration does not have it any more, so it is not in the way once that is applied."""
    stale = dual_stack_h200()
    route = Route.to("fd16::5/128", dev="ib0", metric=100, protocol=OURS)
    stale.ip_route("add", route)
    nodes: dict[str, Snapshot | str] = {
        "a": dual_stack_h200().snapshot(),
        "b": stale.snapshot(),
    }
    config = HostRoutingConfig(route_overlap=expect("fd16::/48"))
    [group] = groups_of(save(tmp_path, nodes), config)
    assert group.nodes == ("a", "b")
    assert [*map(str, group.repair)] == ["fd16::/49", "fd16:0:0:8000::/49"]


def configured(routes: list[dict[str, Any]]) -> dict[str, Any]:
    """A configuration with these static routes and the expected CIDR."""
    return {
        "staticRoutes": {"enabled": bool(routes), "routes": routes},
        "routeOverlap": {"expectedCidrs": [CIDR]},
    }


def test_each_is_as_check_says(nodes: Path) -> None:
    """The verdict and the repair are those of `check --snapshot`;
    a repair of a part is left out.
    """
    for result in results_of(nodes):
        alone = say("check", CIDR, "--snapshot", result.path, "--json").json
        assert result.verdict == alone.get("verdict", "no verdict")
        if result.name in REPAIRABLE:
            repaired = HostRoutingConfig.from_mapping(configured(alone["repair"]))
            assert result.repair == repaired.static_routes.routes
        else:
            assert result.repair == ()


class TestTheCommand:
    """`check --snapshots`, in a thread of this process."""

    @pytest.fixture(autouse=True)
    def here(self) -> Iterator[None]:
        """No process is started."""
        with in_this_process():
            yield

    def test_the_page(self, nodes: Path) -> None:
        """It has the numbers, then each problem with its nodes and the repair."""
        said = say("check", "--snapshots", str(nodes), CIDR)
        assert said.err == ""
        assert said.code == 1
        assert said.lines[:7] == [
            "8 nodes: 4 overlap, 1 no verdict, 1 no-default-route, 1 undecided, 1 ok",
            "",
            f"OVERLAP: 3 nodes: addresses of {CIDR} leave through ibN",
            "  gpu-0, gpu-1 and gpu-2",
            "  repair, for staticRoutes.routes of their configuration:",
            '    {"destination": "172.16.0.0/17"},',
            '    {"destination": "172.16.128.0/17"}',
        ]
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
    def test_the_exit_code(self, nodes: Path, names: list[str], code: int) -> None:
        """An overlap is worse than a file that cannot be read, and that than a doubt."""
        for file in nodes.iterdir():
            if file.stem not in names:
                file.unlink()
        words = ("--snapshots", str(nodes))
        assert say("check", CIDR, *words).code == code


def test_what_is_not_a_snapshot_is_a_row(tmp_path: Path) -> None:
    """Whatever a *.json in a folder is, it has a result that says so, and the others are judged."""
    vm = plain_vm().snapshot()
    save(tmp_path, {"vm": vm, "cut": vm.to_json()[:200], "empty": ""})
    (tmp_path / "loop.json").symlink_to("loop.json")
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")  # nobody writes into it, so a reader would wait for ever
    assert {result.name: result.problem for result in results_of(tmp_path)} == {
        "vm": "",
        "cut": (
            "the snapshot is not JSON, or was not copied whole; save one with the command snapshot"
        ),
        "empty": "the snapshot is empty; save one with the command snapshot",
        "loop": "the snapshot cannot be read: Too many levels of symbolic links",
        "folder": "the snapshot is not a regular file",
        "pipe": "the snapshot is not a regular file",
    }


def test_a_check_without_cidrs_has_no_rows(nodes: Path) -> None:
    """A configuration without expected CIDRs is refused once, when the check is called."""
    with ThreadPoolExecutor(1) as executor, pytest.raises(ConfigError, match="is empty"):
        fleet.check_snapshots([nodes], HostRoutingConfig(), executor)


def test_a_bug_is_a_row(nodes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot that cannot be judged because of a bug does not keep the others
    from being judged.
    """

    def judge(node: Snapshot, config: HostRoutingConfig) -> CheckReport:
        if len(node.links) < 6:
            return check_snapshot(node, config)
        return check_snapshot(node, "a bug")  # type: ignore[arg-type]  # on purpose

    monkeypatch.setattr(fleet, "check_snapshot", judge)
    assert {group.verdict for group in groups_of(nodes)} == {
        "no verdict",
        "no-default-route",
        "undecided",
        "ok",
    }


def kill(*_: object, **__: object) -> None:
    """End this process as the kernel does when there is too little memory."""
    os.kill(os.getpid(), signal.SIGKILL)


class Deadly(ProcessPoolExecutor):
    """A process that the second call kills."""

    calls = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See Executor."""
        self.calls += 1
        return super().submit(kill if self.calls == 2 else fn, *args, **kwargs)


@pytest.mark.linux
def test_a_killed_worker(tmp_path: Path) -> None:
    """The error says so, and how many were judged before: the first of two batches."""
    save(tmp_path, {f"{number:02}": plain_vm().snapshot() for number in range(32)})
    results: list[fleet.NodeResult] = []
    with (
        Deadly(1, mp_context=get_context("spawn")) as executor,
        pytest.raises(
            HostError, match="16 of 32 snapshots were judged, and then a worker was killed"
        ) as caught,
    ):
        results += fleet.check_snapshots([tmp_path], CONFIG, executor)
    assert len(results) == 16
    assert caught.value.output.startswith("BrokenProcessPool: ")


def test_paths_without_snapshots(tmp_path: Path) -> None:
    """Every path without a snapshot is named; one that is named twice is judged once."""
    folder = save(tmp_path / "nodes", {"vm": plain_vm().snapshot()})
    assert fleet.find_snapshots([folder, folder]) == (str(folder / "vm.json"),)
    with pytest.raises(ConfigError) as caught:
        fleet.check_snapshots(["/nowhere", tmp_path], CONFIG, ThreadPoolExecutor(1))
    assert [fault.rule for fault in caught.value.faults] == [
        "cannot be read: No such file or directory",
        "has no *.json file",
    ]


@pytest.mark.linux
def test_processes_of_its_own(nodes: Path) -> None:
    """The program judges in processes, and its answer is that of one process."""
    done = completed(
        [sys.executable, "-m", "hostrouting", "check", CIDR, "--snapshots", str(nodes), "--json"]
    )
    assert done.stderr == ""
    assert done.returncode == 1
    assert json.loads(done.stdout)["groups"] == [group.to_mapping() for group in groups_of(nodes)]
