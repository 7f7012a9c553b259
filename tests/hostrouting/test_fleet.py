"""Each node has the result of `check --snapshot`; those with one problem are a group."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hostrouting import HostRoutingConfig, fleet
from hostrouting.errors import ConfigError
from hostrouting.model.route import OURS, Route
from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeKernel, h200, plain_vm
from tests.support.cli import say
from tests.support.sections import expect
from tests.support.tasks import CIDR, REPAIR, WANTED
from tests.support.topologies import dual_stack_h200, marked_vm, refusing, vm_of

CONFIG = HostRoutingConfig(route_overlap=expect(CIDR))
STUCK = "172.16.5.7/32"


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """A file for each kind of node; on two, another InfiniBand device has the route."""
    escaping = h200().snapshot().to_json()
    other = re.sub('"ib[03]"', lambda name: {'"ib0"': '"ib3"', '"ib3"': '"ib0"'}[name[0]], escaping)
    by_a_bridge = refusing().snapshot().to_json().replace('"ib0"', '"br-1f3bf2e4c5d6"')
    texts = {"gpu-0": escaping, "gpu-1": other, "gpu-2": other, "refusing": by_a_bridge}
    texts["broken"] = "{"
    texts["stuck"] = with_routes(STUCK, dev="ib0").snapshot().to_json()
    texts["in-doubt"] = with_routes("0.0.0.0/1", "128.0.0.0/1", dev="wg0").snapshot().to_json()
    for name, kernel in {"bare": FakeKernel(), "marked": marked_vm(), "vm": plain_vm()}.items():
        texts[name] = kernel.snapshot().to_json()
    for name, text in texts.items():
        (tmp_path / f"{name}.json").write_text(text)
    return tmp_path


def with_routes(*destinations: str, **fields: Any) -> FakeKernel:
    """An H200 node with these routes; wg0 is a tunnel."""
    kernel = h200()
    kernel.add_link(Link(name="wg0", index=0, kind="wireguard", type=65534))
    for destination in destinations:
        kernel.ip_route("add", Route.to(destination, **fields))
    return kernel


def problems_of(nodes: Path, config: HostRoutingConfig = CONFIG) -> dict[str, fleet.NodeProblem]:
    with ThreadPoolExecutor(1) as executor:
        return dict(fleet.check_snapshots(nodes, config, executor))


def test_each_is_as_check_says(nodes: Path) -> None:
    """The verdict is that of `check --snapshot`; a file that is not a snapshot has none."""
    for name, problem in problems_of(nodes).items():
        said = say("check", CIDR, "--snapshot", str(nodes / f"{name}.json"), "--json").json
        assert problem.verdict == said.get("verdict", fleet.NO_VERDICT)
        assert bool(problem.sentence) is (problem.verdict != "ok")


def test_groups(nodes: Path) -> None:
    """Devices that differ in their numbers are one problem."""
    groups = fleet.group_nodes(problems_of(nodes).items())
    worst = next(iter(groups))
    assert groups[worst] == ["gpu-0", "gpu-1", "gpu-2"]
    assert worst.sentence == "leaves through ibN"
    assert [str(route.destination) for route in worst.repair] == [*REPAIR]
    assert [*groups.values()][-1] == ["vm"]


def test_a_route_of_ours_that_may_be_right(tmp_path: Path) -> None:
    """If another card has a better default route now, no repair is proposed that moves ours."""
    kernel = h200()
    kernel.add_link(Link(name="eth1", index=0, type=1))
    for destination in REPAIR:
        ours = Route.to(destination, dev="eth0", gateway="10.0.0.1", protocol=OURS)
        kernel.ip_route("add", ours)
    kernel.ip_route("add", Route.to("0.0.0.0/0", dev="eth1", protocol=16))
    (tmp_path / "moved.json").write_text(kernel.snapshot().to_json())
    assert problems_of(tmp_path)["moved"].repair == ()


def test_what_is_not_repaired(nodes: Path) -> None:
    """A node on which something stays is not in one group with those that are repaired."""
    other_card = "172.16.0.0/17 dev ib0; default via 10.1.0.1 dev eth1 metric 5; link eth1 nic"
    (nodes / "other-card.json").write_text(vm_of(other_card).to_json())
    problems = problems_of(nodes)
    assert "leaves through ibN; DEFAULT-ROUTES" in problems["other-card"].sentence
    repaired, stuck, in_doubt = (problems[name] for name in ("gpu-0", "stuck", "in-doubt"))
    some = f"{repaired.sentence}; no route repairs some addresses"
    assert stuck == repaired._replace(sentence=f"{some} (not-proven)")
    assert in_doubt == fleet.NodeProblem("overlap", f"{some} (no-device)")
    wanted = problems_of(nodes, WANTED)
    assert wanted["in-doubt"].sentence == "leaves through ibN; DEFAULT-ROUTES"
    lost = "is lost (prohibit); leaves through br-NfNbfNeNcNdN"
    sentence = f"{lost}; no route repairs some addresses (earlier-rule)"
    assert wanted["refusing"] == fleet.NodeProblem("overlap", sentence)


def test_a_node_that_is_repaired(tmp_path: Path) -> None:
    """Nothing is proposed for it, although the configuration lacks its routes."""
    kernel = with_routes(*REPAIR, STUCK, dev="eth0", gateway="10.0.0.1", protocol=OURS)
    kernel.ip_route("add", Route.to(STUCK, dev="ib0", metric=1))
    (tmp_path / "gpu-0.json").write_text(kernel.snapshot().to_json())
    assert problems_of(tmp_path) == {"gpu-0": fleet.NodeProblem("ok")}


def test_the_families(tmp_path: Path) -> None:
    """A number that is not in the name of a device stays."""
    snapshot = dual_stack_h200().snapshot()
    routes = [route for route in snapshot.routes if route.prefix.length or route.prefix.family == 6]
    (tmp_path / "4.json").write_text(snapshot._replace(routes=tuple(routes)).to_json())
    config = HostRoutingConfig(route_overlap=expect("10.9.0.0/16", "fd09::/48"))
    assert problems_of(tmp_path, config)["4"].sentence == "there is no IPv4 default route"


def test_the_order() -> None:
    """The worst verdict comes first; of one verdict, what most nodes have."""
    rare, common = (fleet.NodeProblem("overlap", sentence) for sentence in ("rare", "common"))
    others = [*map(fleet.NodeProblem, (fleet.NO_VERDICT, "no-default-route", "undecided", "ok"))]
    problems = [rare, common, common, *(each for other in others for each in [other] * 3)]
    numbered = [(str(number), problem) for number, problem in enumerate(problems)]
    assert [*fleet.group_nodes(reversed(numbered))] == [common, rare, *others]


def test_a_name_of_several_lines(nodes: Path) -> None:
    """It stands in one line of the page, which names six, and is unchanged in the document."""
    name = "gpu-3\nOK: all nodes"
    (nodes / "gpu-0.json").rename(nodes / f"{name}.json")
    others = [f"gpu-{number}" for number in range(4, 8)]
    for other in others:
        (nodes / f"{other}.json").symlink_to(nodes / "gpu-1.json")
    said = say("check", CIDR, "--snapshots", str(nodes))
    assert said.lines[0] == "OVERLAP: 7 nodes: leaves through ibN"
    assert said.lines[1].startswith(
        "  gpu-1, gpu-2, gpu-3\\nOK: all nodes, gpu-4, gpu-5, gpu-6 and "
    )
    assert REPAIR[0] in said.lines[3], "what would repair these nodes"
    [worst, *_] = say("check", CIDR, "--snapshots", str(nodes), "--json").json["groups"]
    assert (worst["nodes"], len(worst["repair"])) == (["gpu-1", "gpu-2", name, *others], 2)


@pytest.mark.parametrize(("kept", "code"), [("bare", 3), ("broken marked", 2), ("vm", 0)])
def test_the_exit_code(nodes: Path, monkeypatch: pytest.MonkeyPatch, kept: str, code: int) -> None:
    in_a_thread = mock.Mock(return_value=ThreadPoolExecutor(1))
    monkeypatch.setattr("hostrouting.cli.nodes.ProcessPoolExecutor", in_a_thread)
    for path in nodes.iterdir():
        if path.stem not in kept.split():
            path.unlink()
    assert say("check", CIDR, "--snapshots", str(nodes)).code == code


@pytest.mark.parametrize("folder", ["", "missing"])
def test_folders_without_snapshots(folder: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as executor, pytest.raises(ConfigError, match="is no folder"):
        fleet.check_snapshots(tmp_path / folder, CONFIG, executor)
