"""Many nodes: each has the result of `check --snapshot`, and nodes with the same problem are one
group.
"""

import json
import os
import signal
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hostrouting import HostRoutingConfig, fleet
from hostrouting.errors import ConfigError, HostError
from hostrouting.testing import plain_vm
from tests.support.cli import say
from tests.support.fleets import save, save_every_kind
from tests.support.sections import expect
from tests.support.tasks import WANTED
from tests.support.topologies import vm_of

CIDR = "172.16.0.0/16"
CONFIG = HostRoutingConfig(route_overlap=expect(CIDR))


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """Nodes of every kind."""
    return save_every_kind(tmp_path / "nodes")


REPAIRABLE = {"gpu-0", "gpu-1", "gpu-2"}
"""The nodes that static routes repair whole."""


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


def test_several_devices(tmp_path: Path) -> None:
    """They are in one order, whatever each worker would have: its sets have others."""
    hops = " ".join(f"nexthop dev {dev}" for dev in ("wg1", "tun0", "ib0", "eth1"))
    [group] = groups_of(save(tmp_path, {"a": vm_of(f"link tun0 tun; {CIDR} {hops}")}))
    assert "leave through ethN, ibN, tunN and wgN" in group.problem


def test_a_configuration_that_is_not_applied_yet(nodes: Path) -> None:
    """Nothing is to be added to it."""
    [escaping, *_] = groups_of(nodes, WANTED)
    assert escaping.problem.endswith("leave through ibN; the configuration repairs it: apply it")
    assert escaping.repair == ()


def test_each_is_as_check_says(nodes: Path) -> None:
    """The verdict and the repair are those of `check --snapshot`;
    a repair of a part is left out.
    """
    for result in results_of(nodes):
        alone = say("check", CIDR, "--snapshot", result.path, "--json").json
        assert result.verdict == alone.get("verdict", "no verdict")
        routes = alone["repair"] if result.name in REPAIRABLE else []
        assert [str(route.destination) for route in result.repair] == [
            route["destination"] for route in routes
        ]


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
    """Each node has a result, also if it cannot be judged because of a bug."""
    monkeypatch.setattr(fleet, "check_snapshot", mock.Mock(side_effect=KeyError("a bug")))
    [judged, broken] = groups_of(nodes)
    assert judged.problem.startswith("this is a bug in hostrouting, please report it: KeyError(")
    assert (len(judged.nodes), broken.nodes) == (7, ("broken",))


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
    assert caught.value.exit_code == 3


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
