"""CleanStaleAzureVnet on a node as azure-vnet leaves it, with real packets and a real shell."""

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hostrouting.azure_vnet.task import CleanupPlan
from tests.hostrouting.azure_vnet.azure_node import NODE_MAC, AzureNode, State
from tests.support.azure_rules import pod_rules
from tests.support.namespace import Namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root", "ebtables-nft")]

LIVE, NEW, OTHER, DEAD = (f"0a:00:00:01:00:0{last}" for last in range(1, 5))
"""The MAC addresses of pods."""


@pytest.fixture
def lab() -> Iterator[AzureNode]:
    """A node in bridge mode with a pod of azure-vnet that is alive."""
    with ExitStack() as stack:
        lab = AzureNode(stack)
        lab.bridge_pod("live", LIVE, "10.1.0.5", "fd00::5")
        yield lab


def specs(plan: CleanupPlan, kind: str = "rule") -> list[str]:
    return [deletion.spec for deletion in plan.deletions if deletion.kind == kind]


def gone(before: tuple[str, ...], after: tuple[str, ...]) -> list[str]:
    """What was there before, and is not any more; nothing may have come."""
    assert not Counter(after) - Counter(before)
    return [*(Counter(before) - Counter(after)).elements()]


def send(host: Namespace, ip: str) -> None:
    with host.inside(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as speaking:
        speaking.sendto(b"x", (ip, 4000))


def undone(lab: AzureNode, undo_file: str, tmp_path: Path, *, problem: str = "") -> State:
    """The state after the undo file was run, which has this problem."""
    (tmp_path / "undo").write_text(lab.files.texts[undo_file])
    done = lab.node.run("sh", str(tmp_path / "undo"))
    assert done.stderr.strip() == problem
    assert done.returncode == (1 if problem else 0)
    return lab.state()


ADDRESSES = ("10.1.0.6", "fd00::6")
"""Those of a dead pod, which a pod of the other CNI has now."""


@pytest.fixture
def used_again(lab: AzureNode) -> AzureNode:
    """The node with what two dead pods left, and a pod that has an address of theirs now."""
    lab.leave(DEAD, *ADDRESSES, times=2)
    lab.bridge_pod("other", OTHER, "10.1.0.7")
    lab.leave(DEAD, "10.1.0.8")
    lab.routed_pod("new", NEW, *ADDRESSES)
    lab.node.batch(
        [
            "route add 10.1.0.8 dev azure0",
            "route add 10.1.0.8 dev azure0 proto static metric 7 scope global",
            "route add fd00::6 dev azure0 metric 2048",
        ]
    )
    return lab


def test_packets_to_an_address_that_is_used_again(used_again: AzureNode) -> None:
    """All packets reach the new pod after it, and a live pod misses none meanwhile."""
    lab = used_again
    assert not lab.arrives("new", "10.1.0.6")
    assert not lab.arrives("new", "fd00::6")
    with lab.stream("live", "10.1.0.5") as ipv4, lab.stream("live", "fd00::5") as ipv6:
        lab.clean()
    assert ipv4["arrived"] == ipv4["sent"]
    assert ipv6["arrived"] == ipv6["sent"]
    assert lab.arrives("new", "10.1.0.6")
    assert lab.arrives("new", "fd00::6")


def test_what_dead_pods_have_left(used_again: AzureNode, tmp_path: Path) -> None:
    """Exactly that is deleted. Undo restores it, the rules at the ends of their chains."""
    lab = used_again
    before = lab.state()
    assert lab.clean(dry_run=True).operations == ()
    assert lab.state() == before

    result = lab.clean()
    after = lab.state()
    stale = [*pod_rules("10.1.0.6", DEAD), *pod_rules("fd00::6", DEAD)] * 2
    stale += pod_rules("10.1.0.8", DEAD)
    assert Counter(gone(before.rules, after.rules)) == Counter(stale) == Counter(specs(result.plan))
    neighbours = gone(before.neighbours, after.neighbours)
    assert neighbours == specs(result.plan, "neighbour")
    assert neighbours == [
        f"10.1.0.6 dev azure0 lladdr {DEAD} PERMANENT",
        f"10.1.0.8 dev azure0 lladdr {DEAD} PERMANENT",
    ]
    routes = gone(before.routes, after.routes)
    assert [route.split()[0] for route in routes] == ["10.1.0.8", "10.1.0.8", "fd00::6"]
    assert lab.clean().operations == ()

    send(lab.node, "10.1.0.8")  # from now on, the kernel has an entry of its own for this address
    restored = undone(lab, result.undo_file, tmp_path)
    assert Counter(restored.rules) == Counter(before.rules)
    [of_node, *_] = pod_rules("10.1.0.4", NODE_MAC)
    assert restored.rules.index(of_node) < restored.rules.index(stale[0])
    assert restored._replace(rules=before.rules) == before

    # A route that is there makes it fail, too.
    lab.node.batch(f"neigh del {line.split()[0]} dev azure0" for line in neighbours)
    problem = "\n".join(["RTNETLINK answers: File exists"] * len(routes))
    undone(lab, result.undo_file, tmp_path, problem=problem)


def test_the_host_has_changed_meanwhile(lab: AzureNode, tmp_path: Path) -> None:
    """The undo file leaves a neighbour of others alone, restores all else, and fails at its end."""
    lab.leave(DEAD, "10.1.0.6", "10.1.0.7")
    result = lab.clean()
    without_ebtables = "PATH=; ip() { :; }\n" + lab.files.texts[result.undo_file]
    assert lab.node.run("sh", "-c", without_ebtables).returncode == 1
    lab.node.batch([f"neigh add 10.1.0.6 lladdr {NEW} dev azure0 nud permanent"])
    state = undone(lab, result.undo_file, tmp_path, problem="RTNETLINK answers: File exists")
    assert set(specs(result.plan)) <= set(state.rules)
    assert f"10.1.0.6 dev azure0 lladdr {NEW} PERMANENT" in state.neighbours
    assert specs(result.plan, "neighbour")[1] in state.neighbours
