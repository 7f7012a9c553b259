"""CleanStaleAzureVnet on a node as azure-vnet leaves it: a real kernel, real ebtables, real packets."""

import socket
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostrouting.tasks.cleanup.azure_vnet import pod_rule
from hostrouting.tasks.cleanup.plan import CleanupPlan
from hostrouting.tasks.cleanup.saved_rules import read_saved
from tests.support.azure_node import AzureNode, azure_node, mac_of
from tests.support.azure_rules import LOOK_ALIKES, NODE_RULES, R1, R2, R3, pod_rules
from tests.support.children import running
from tests.support.examples import scaled
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.linux, pytest.mark.needs("root", "ebtables-nft")]

LIVE, DEAD, NEW = mac_of(1), mac_of(9), mac_of(2)


@pytest.fixture
def lab() -> Iterator[AzureNode]:
    """A node in bridge mode with a pod of azure-vnet that is alive."""
    with azure_node() as lab:
        lab.bridge_pod("live", LIVE, "10.1.0.5", "fd00::5")
        yield lab


def specs(plan: CleanupPlan, kind: str = "rule") -> list[str]:
    """What the plan deletes of this kind."""
    return [deletion.spec for deletion in plan.deletions if deletion.kind == kind]


def gone(before: tuple[str, ...], after: tuple[str, ...]) -> list[str]:
    """What was there before, and is not any more; nothing may have come."""
    assert not Counter(after) - Counter(before)
    return list((Counter(before) - Counter(after)).elements())


class TestBridgeMode:
    """The uplink is a port of azure0."""

    def test_an_address_that_is_used_again(self, lab: AzureNode) -> None:
        """Nothing comes to a pod of the other CNI before, everything after, and a live pod misses no packet."""
        lab.leave(DEAD, "10.1.0.6", "fd00::6", times=2)
        lab.routed_pod("new", NEW, "10.1.0.6", "fd00::6")
        assert not lab.arrives("new", "10.1.0.6", patience=0.5)
        assert not lab.arrives("new", "fd00::6", patience=0.5)
        before = lab.state()
        with lab.stream("live", "10.1.0.5") as ipv4, lab.stream("live", "fd00::5") as ipv6:
            time.sleep(0.05)
            result = lab.clean()
            time.sleep(0.05)
        for counted in (ipv4, ipv6):
            assert counted["sent"] >= 50
            assert counted["arrived"] == counted["sent"]
        assert lab.arrives("new", "10.1.0.6")
        assert lab.arrives("new", "fd00::6")
        after = lab.state()
        stale = [*pod_rules("10.1.0.6", DEAD), *pod_rules("fd00::6", DEAD)]
        assert Counter(gone(before.rules, after.rules)) == Counter(stale * 2) == Counter(specs(result.plan))
        assert [it.strip() for it in gone(before.neighbours, after.neighbours)] == specs(result.plan, "neighbour")
        assert specs(result.plan, "neighbour") == [f"10.1.0.6 dev azure0 lladdr {DEAD} PERMANENT"]
        assert after.routes == before.routes
        assert lab.clean().plan.is_empty

    def test_the_way_back(self, lab: AzureNode) -> None:
        """After the undo, the deleted entries exist again; the others are unchanged."""
        lab.leave(DEAD, "10.1.0.6", "fd00::6", times=2)
        before = lab.state()
        result = lab.clean()
        assert lab.state() != before
        lab.undo(result.undo_file)
        after = lab.state()
        assert sorted(after.rules) == sorted(before.rules)
        assert (after.neighbours, after.routes) == (before.neighbours, before.routes)

    def test_a_process_that_changes_rules_at_full_speed(self, lab: AzureNode) -> None:
        """While another process adds and removes rules, none of its rules is deleted, and all stale ones are."""
        lab.leave(DEAD, *(f"10.1.1.{number}" for number in range(20)))
        before = lab.rules()
        theirs = "OUTPUT -p IPv4 --ip-dst 10.1.1.7 -j ACCEPT"
        loop = f"while :; do ebtables-nft -t nat -A {theirs}; ebtables-nft -t nat -A {theirs}; ebtables-nft -t nat -D {theirs}; done"
        with running(*lab.node.enter, "sh", "-c", loop):
            wait_for("the first of its rules", lambda: theirs in lab.rules())
            result = lab.clean()
        after = [rule for rule in lab.rules() if rule != theirs]
        assert Counter(gone(before, tuple(after))) == Counter(specs(result.plan))
        assert len(specs(result.plan)) == 40
        assert theirs in lab.rules()


def test_the_bridge_of_another_cni() -> None:
    """Without azure0, a rule for ARP hides a re-used address in another bridge, and is deleted; the inert rule stays."""
    with azure_node(bridged=False) as lab:
        lab.node.batch(["link add cni0 type bridge forward_delay 0", "link set cni0 up"])
        arp, ipv4 = pod_rules("10.1.0.6", DEAD)
        lab.append(arp, ipv4)
        sender = lab.bridged_pod("sender", mac_of(3), "10.1.0.7", bridge="cni0")
        new = lab.bridged_pod("new", NEW, "10.1.0.6", bridge="cni0")

        def resolved() -> str:
            sender.ip("neigh", "flush", "dev", "eth0")
            with sender.inside(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
                asking.sendto(b"x", ("10.1.0.6", 4000))
            wait_for("an answer to ARP", lambda: "lladdr" in sender.ip("neigh", "show", "10.1.0.6").stdout)
            return sender.ip("neigh", "show", "10.1.0.6").stdout

        assert new.ip("link", "set", "eth0", "up").returncode == 0
        assert DEAD in resolved()
        before = lab.rules()
        result = lab.clean()
        assert gone(before, lab.rules()) == [arp] == specs(result.plan)
        assert [it.spec for it in result.plan.with_fate("inert")] == [ipv4]
        assert NEW in resolved()


def test_a_machine_in_a_pod() -> None:
    """A MAC address that moved behind a pod's own bridge, as with KubeVirt, is alive: the node's bridge has learned it."""
    with azure_node() as lab:
        pod = lab.bridge_pod("vm", LIVE, "10.1.0.5")
        pod.batch(
            [
                "address flush dev eth0",
                f"link set eth0 address {mac_of(0x77)}",
                "link add k6t type bridge forward_delay 0",
                "link set eth0 master k6t",
                f"link add tap address {LIVE} type veth peer name behind",
                "link set behind master k6t up",
                "link set k6t up",
                *(f"address add {ip}/16 dev tap" for ip in ("10.1.0.5",)),
                "link set tap up",
            ]
        )
        with pod.inside(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as speaking:
            speaking.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            speaking.sendto(b"x", ("10.1.255.255", 4000))
        wait_for("the bridge learns the address", lambda: LIVE in lab.node.run("bridge", "fdb", "show").stdout)
        plan = lab.plan()
        assert plan.is_empty
        assert {it.reason.rpartition(" belongs to ")[2] for it in plan.with_fate("conflict")} == {
            "a device behind azvvm"
        }


def test_transparent_mode() -> None:
    """The route to a live pod stays, a route to no pod is deleted, and the other CNI's pod keeps its own route."""
    with azure_node(bridged=False) as lab:
        lab.routed_pod("live", LIVE, "10.1.0.5", "fd00::5", dev="azv")
        lab.routed_pod("other", NEW, "10.1.0.8")
        stale = ["10.1.0.6 dev azvdead", "fd00::6 dev azvdead", "10.1.0.7 dev azvdead proto static metric 7"]
        lab.node.batch(["link add azvdead type ifb", "link set azvdead up", *(f"route add {it}" for it in stale)])
        before = lab.state()
        with lab.stream("live", "10.1.0.5") as counted:
            result = lab.clean()
        assert counted["arrived"] == counted["sent"]
        after = lab.state()
        assert sorted(it.split()[0] for it in gone(before.routes, after.routes)) == ["10.1.0.6", "10.1.0.7", "fd00::6"]
        assert len(specs(result.plan, "route")) == 3
        assert (after.rules, after.neighbours) == (before.rules, before.neighbours)
        lab.undo(result.undo_file)
        assert sorted(lab.state().routes) == sorted(before.routes)


# Any host

_IPS = [
    *(f"10.1.2.{number}" for number in range(6)),
    *(f"fd00::2:{number}" for number in range(3)),
    "10.1.0.4",
    "10.9.0.1",
]
_RULES = st.one_of(
    st.builds(
        lambda ip, mac, uplink, at: pod_rules(ip, mac, uplink)[-1 if at else 0],
        st.sampled_from(_IPS),
        st.sampled_from([LIVE, DEAD, mac_of(10), mac_of(11)]),
        st.sampled_from(["eth0", "eth0", "eth1"]),
        st.booleans(),
    ),
    st.sampled_from([*LOOK_ALIKES, *NODE_RULES, R1, R2, R3]),
)


@pytest.fixture(scope="module")
def shared() -> Iterator[AzureNode]:
    """A node whose rules a test may flush."""
    with azure_node() as lab:
        lab.bridge_pod("live", LIVE, "10.1.2.0")
        yield lab


@settings(max_examples=scaled(6), suppress_health_check=[HealthCheck.too_slow])
@given(rules=st.lists(_RULES, max_size=60))
def test_any_rules(shared: AzureNode, rules: list[str]) -> None:
    """Exactly the plan is deleted, and only rules of dead pods; a second run finds nothing."""
    assert shared.node.run("nft", "flush", "ruleset").returncode == 0
    shared.append(*rules)
    before = shared.rules()
    result = shared.clean()
    deleted = gone(before, shared.rules())
    assert Counter(deleted) == Counter(specs(result.plan))
    saved = {it.line: it for it in read_saved(shared.ebtables.save()).rules}
    assert not set(deleted) & set(saved)
    for it in read_saved("*nat\n" + "".join(f"-A {rule}\n" for rule in deleted)).rules:
        found = pod_rule(it)
        assert found.mac != LIVE
        assert str(found.ip) not in {"10.1.0.4", "10.9.0.1"}
        assert found.uplink in {None, "eth0"}
    stale = {rule for rule in before if DEAD in rule and rule in pod_rules("10.1.2.1", DEAD)}
    assert not stale & set(shared.rules())
    assert shared.plan().is_empty
