"""From facts about a host to what is stale on it, and why the rest stays."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.azure_vnet import CleanupPlan, Endpoint, Facts, NotAPodRule, plan_cleanup, pod_rule, read_saved
from hostrouting.model import Address, NextHop, Route, Snapshot, as_ip
from hostrouting.neighbours import EthernetLink, LinkLayerView, Neighbour, PeerMac, UnknownPeer
from tests.support.azure_leftovers import DEAD, LINKS, LIVE, MANAGED, OWN, R1, R2, R3, azure_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

STALE = R2.format("10.240.0.5", DEAD)
UNKNOWN = EthernetLink(name="azv9", index=9, kind="veth", master="azure0", peer=UnknownPeer("it is gone"))
DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.240.0.1")


def facts(
    *rules: str,
    links: Iterable[EthernetLink] = LINKS,
    neighbours: Iterable[Neighbour] = (),
    routes: Sequence[Route] = (),
    addresses: Sequence[Address] = (),
    endpoints: Sequence[Endpoint] = (),
    others: str = "",
) -> Facts:
    """What a host has."""
    text = "\n".join(["*nat", *(f"-A {rule}" for rule in rules), others])
    return Facts(
        rules=read_saved(text),
        view=LinkLayerView(links, neighbours),
        snapshot=Snapshot(addresses=tuple(addresses), routes=routes),
        endpoints=tuple(endpoints),
    )


def planned(*rules: str, settings: dict[str, Any] | None = None, **host: Any) -> CleanupPlan:
    """The plan for such a host."""
    return plan_cleanup(azure_settings(**(settings or {})), facts(*rules, **host))


def why_kept(*rules: str, **host: Any) -> str:
    """The reason why the one thing on such a host is kept."""
    plan = planned(*rules, **host)
    assert plan.is_empty
    (it,) = plan.kept
    return it.reason


class TestRules:
    """What becomes of rules."""

    def test_all_three_of_a_dead_pod(self) -> None:
        """Each rule for a pod that is gone goes, a duplicate once more, in the order of the table."""
        rules = (R1.format("10.240.0.5", DEAD), STALE, R3.format("fd00:1::5", DEAD), STALE)
        plan = planned(*rules)
        assert [it.spec for it in plan.deletions] == list(rules)
        assert {it.reason for it in plan.deletions} == {
            f"{ip} is managed by another CNI, and no device has the MAC address {DEAD}"
            for ip in ("10.240.0.5", "fd00:1::5")
        }
        assert (plan.bridges, plan.uplinks) == (("azure0",), ("eth0",))

    def test_rules_of_the_node(self) -> None:
        """What azure-vnet makes for the whole node stays."""
        own = Address(ip=as_ip("10.0.0.4"), length=16, dev="azure0")
        assert planned(*OWN, addresses=[own], settings={"managed": ["10.0.0.0/8"]}).is_empty

    @pytest.mark.parametrize(
        ("rule", "why"),
        [
            (STALE.replace("0.5", "0.4/31"), "--ip-dst 10.240.0.4/31 is a network, not a single address"),
            (STALE.replace("-i eth0", "-i ! eth0"), "it has a negation: -i ! eth0"),
            (f"{R1.format('10.240.0.5', DEAD)} --arp-ip-src 10.0.0.1", "it also has --arp-ip-src"),
            (STALE.replace("ACCEPT", "DROP"), "it has --dnat-target DROP, not ACCEPT"),
            (STALE.replace("PREROUTING", "AZURE"), "it is in the chain AZURE, not in PREROUTING"),
        ],
    )
    def test_look_alikes(self, rule: str, why: str) -> None:
        """What names a managed address and is not exactly a rule of a pod stays, with the difference."""
        assert why_kept(rule) == f"not a rule that azure-vnet adds for a pod: {why}"

    def test_another_table(self) -> None:
        """The same rule in another table stays, and is told with its table."""
        (it,) = planned(others=f"*filter\n-A {STALE}").kept
        assert it.spec == f"-t filter {STALE}"

    def test_a_device_that_is_not_an_uplink(self) -> None:
        """A rule for a pod's own veth is not one that azure-vnet makes."""
        assert why_kept(STALE.replace("eth0", "azv1")) == "azv1 is not an uplink: it is a port for a pod"

    def test_an_uplink_that_is_not_in_the_bridge(self) -> None:
        """Then no frame meets the rules: they are inert, and stay."""
        links = [attrs.evolve(it, master=None) if it.name == "eth0" else it for it in LINKS]
        plan = planned(R1.format("10.240.0.5", DEAD), STALE, links=links)
        assert plan.is_empty
        assert [it.reason for it in plan.inert] == [
            "no bridge of azure-vnet has an uplink as a port, so this rule matches no frame"
        ] * 2

    def test_rules_of_another_uplink(self) -> None:
        """Beside an uplink that is in the bridge, one that is not has inert rules."""
        (it,) = planned(STALE.replace("eth0", "eth7")).inert
        assert it.reason == "eth7 is not a port of a bridge of azure-vnet, so this rule matches no frame"

    def test_an_uplink_that_is_configured(self) -> None:
        """An uplink that the operator names counts, wherever it is."""
        assert len(planned(STALE.replace("eth0", "eth7"), settings={"uplinks": ["eth7"]}).deletions) == 1

    def test_lines_that_are_not_understood(self) -> None:
        """They are counted, and never deleted."""
        plan = planned(STALE, others=f'-A {STALE} "')
        assert len(plan.deletions) == 1
        assert plan.to_mapping()["unreadable"] == 1

    def test_without_ebtables(self) -> None:
        """Where rules are not asked for, none is in the plan."""
        assert planned(STALE, settings={"what": {"ebtables": False}}) == CleanupPlan(
            bridges=("azure0",), uplinks=("eth0",)
        )


class TestPods:
    """Whose address and MAC address it is."""

    def test_not_managed(self) -> None:
        """Outside of the managed networks everything stays."""
        told = "10.9.0.5 is not in a managed network (azureVnetCleanup.managed)"
        assert why_kept(R2.format("10.9.0.5", DEAD)) == told

    def test_an_address_of_the_host(self) -> None:
        """The host's own address stays, whatever the MAC address is."""
        own = Address(ip=as_ip("10.240.0.5"), length=16, dev="azure0")
        assert why_kept(STALE, addresses=[own]) == "10.240.0.5 is an address of this host, on azure0"

    def test_a_default_gateway(self) -> None:
        """The default gateway stays."""
        assert why_kept(R2.format("10.240.0.1", DEAD), routes=[DEFAULT]) == "10.240.0.1 is a default gateway"

    def test_protected(self) -> None:
        """What the operator protects stays."""
        told = why_kept(STALE, settings={"protect": ["10.240.0.4/30", "fd00::1"]})
        assert told == "10.240.0.5 is protected (azureVnetCleanup.protect)"

    def test_a_pod_that_is_alive(self) -> None:
        """A managed address whose MAC address is alive is a conflict, and stays, also where certainty is not asked for."""
        plan = planned(R2.format("10.240.0.5", LIVE), settings={"require_dead_mac": False})
        assert plan.is_empty
        (it,) = plan.conflicts
        told = f"10.240.0.5 is managed by another CNI, but its MAC address {LIVE} belongs to a pod behind azv1"
        assert it.reason == told

    def test_the_mac_of_a_device(self) -> None:
        """A MAC address of the host's own is alive as well."""
        (it,) = planned(R2.format("10.240.0.5", "0:d:3a:0:0:1")).conflicts
        assert it.reason.endswith("its MAC address 00:0d:3a:00:00:01 belongs to the device azure0")

    def test_a_pod_of_any_veth(self) -> None:
        """A pod behind a veth outside of the bridge is alive as well."""
        lxc = EthernetLink(name="lxc1", index=8, kind="veth", mac="aa:00:00:00:00:08", peer=PeerMac(DEAD))
        assert planned(STALE, links=[*LINKS, lxc]).conflicts

    def test_a_port_that_cannot_be_asked(self) -> None:
        """As long as one port's other end is unknown, no MAC address is known to be dead."""
        assert why_kept(STALE, links=[*LINKS, UNKNOWN]) == (
            "it is not known whether its pod is alive: the MAC addresses behind azv9 cannot be read"
        )
        assert planned(STALE, links=[*LINKS, UNKNOWN], settings={"require_dead_mac": False}).deletions

    @pytest.mark.parametrize("kind", ["tun", "vxlan", "openvswitch", "one of tomorrow"])
    def test_a_port_that_is_neither_a_veth_nor_an_uplink(self, kind: str) -> None:
        """Behind a tap there may be a VM with any MAC address: rules, neighbours and routes by the bridge stay."""
        tap = EthernetLink(name="tap0", index=9, kind=kind, mac="fe:00:00:00:00:09", master="azure0")
        told = "it is not known whether its pod is alive: the MAC addresses behind tap0 cannot be read"
        plan = planned(
            STALE,
            neighbours=[Neighbour("10.240.0.5", DEAD, "azure0")],
            routes=[Route.to("10.240.0.5/32", dev="azure0")],
            links=[*LINKS, tap],
        )
        assert plan.uplinks == ("eth0",)
        assert [(it.kind, it.reason) for it in plan.kept] == [(it, told) for it in ("rule", "neighbour", "route")]
        assert plan.is_empty
        assert why_kept(STALE.replace("eth0", "tap0"), links=[*LINKS, tap]) == (
            "tap0 is not an uplink: it is a port for a pod"
        )
        assert planned(STALE, links=[*LINKS, tap], settings={"require_dead_mac": False}).deletions
        # The operator knows that it leads to the network of the node.
        assert planned(STALE, links=[*LINKS, tap], settings={"uplinks": ["tap0"]}).deletions

    @pytest.mark.parametrize("kind", ["", "bond", "team", "vlan", "macvlan"])
    def test_the_kinds_of_uplinks(self, kind: str) -> None:
        """Hardware, and what is made of it, is an uplink."""
        links = [attrs.evolve(it, kind=kind) if it.name == "eth0" else it for it in LINKS]
        assert planned(STALE, links=links).deletions

    def test_a_route_by_a_tap(self) -> None:
        """A route by a device of azure-vnet behind which there may be a VM stays."""
        tap = EthernetLink(name="azv9", index=9, kind="tun")
        told = "it is not known whether its pod is alive: what is behind azv9 cannot be read"
        assert why_kept(routes=[Route.to("10.240.0.5/32", dev="azv9")], links=[*LINKS, tap]) == told

    def test_an_unknown_veth_elsewhere(self) -> None:
        """One that is not in a bridge of azure-vnet does not matter."""
        assert planned(STALE, links=[*LINKS, attrs.evolve(UNKNOWN, master="docker0")]).deletions

    def test_a_pod_in_the_state_file(self) -> None:
        """What azure-vnet itself gives to a device that is there stays; without the device it does not."""
        mine = Endpoint("a-eth0", "azv1", (as_ip("10.240.0.5"),))
        told = "azure-vnet's state file gives 10.240.0.5 to a-eth0, whose device azv1 exists"
        assert why_kept(STALE, endpoints=[mine]) == told
        assert planned(STALE, endpoints=[attrs.evolve(mine, device="azv7")]).deletions


class TestNeighbours:
    """What becomes of neighbours."""

    def test_a_permanent_one(self) -> None:
        """A permanent neighbour of a dead pod goes, in both families."""
        entries = [Neighbour(ip, DEAD, "azure0") for ip in ("10.240.0.5", "fd00:1::5")]
        assert [it.thing for it in planned(neighbours=entries).deletions] == entries

    @pytest.mark.parametrize(
        "entry",
        [
            Neighbour("10.240.0.5", DEAD, "azure0", "stale"),
            Neighbour("10.240.0.5", DEAD, "azure0", "failed"),
            Neighbour("10.240.0.5", DEAD, "eth0"),
            Neighbour("10.240.0.5", "", "azure0"),
        ],
    )
    def test_those_of_others(self, entry: Neighbour) -> None:
        """Entries of the kernel, and of other devices, are not looked at."""
        assert planned(neighbours=[entry]) == CleanupPlan(bridges=("azure0",), uplinks=("eth0",))

    def test_one_that_a_program_keeps(self) -> None:
        """An entry that another program has learned stays."""
        entry = Neighbour("10.240.0.5", DEAD, "azure0", externally_learned=True)
        assert why_kept(neighbours=[entry]) == "another program added it and maintains it (extern_learn)"

    def test_a_live_one(self) -> None:
        """The neighbour of a live pod is a conflict."""
        assert planned(neighbours=[Neighbour("10.240.0.5", LIVE, "azure0")]).conflicts


class TestRoutes:
    """What becomes of routes."""

    def test_by_the_bridge(self) -> None:
        """A route to a dead pod by the bridge goes; its neighbour says that it is dead."""
        route = Route.to("10.240.0.5/32", dev="azure0")
        entry = Neighbour("10.240.0.5", DEAD, "azure0")
        assert [it.kind for it in planned(neighbours=[entry], routes=[route]).deletions] == ["neighbour", "route"]

    def test_by_the_bridge_to_nobody_known(self) -> None:
        """With live pods behind the bridge and nothing that names a MAC address, whose the route is stays open."""
        route = Route.to("10.240.0.5/32", dev="azure0")
        assert why_kept(routes=[route]).endswith("its MAC address is not known, and there are pods behind azure0")
        assert planned(routes=[route], links=LINKS[:3]).deletions

    def test_by_the_bridge_to_a_live_pod(self) -> None:
        """A neighbour of any state that has a live MAC address makes it a conflict."""
        entry = Neighbour("10.240.0.5", LIVE, "azure0", "reachable")
        assert planned(neighbours=[entry], routes=[Route.to("10.240.0.5/32", dev="azure0")]).conflicts

    def test_by_a_pods_device(self) -> None:
        """A route by azv* goes where no pod is behind it, and is a conflict where one is."""
        plan = planned(routes=[Route.to("10.240.0.5/32", dev="azv2"), Route.to("10.240.0.6/32", dev="azv1")])
        assert [it.reason for it in plan.deletions] == [
            "10.240.0.5 is managed by another CNI, and there is no pod behind azv2"
        ]
        assert [it.reason for it in plan.conflicts] == [
            "10.240.0.6 is managed by another CNI, but there is a pod behind azv1"
        ]

    @pytest.mark.parametrize("links", [[*LINKS, UNKNOWN], LINKS])
    def test_by_a_device_that_cannot_be_asked(self, links: Sequence[EthernetLink]) -> None:
        """Where the other end is unknown, or the device came after the look, the route stays."""
        told = "it is not known whether its pod is alive: what is behind azv9 cannot be read"
        assert why_kept(routes=[Route.to("10.240.0.5/32", dev="azv9")], links=links) == told

    def test_kept_for_its_address(self) -> None:
        """What keeps a rule keeps a route as well."""
        mine = Endpoint("a-eth0", "azv1", (as_ip("10.240.0.5"),))
        route = Route.to("10.240.0.5/32", dev="azv2")
        assert "state file" in why_kept(routes=[route], endpoints=[mine])
        assert "not in a managed network" in why_kept(routes=[Route.to("10.9.0.5/32", dev="azv2")])

    @pytest.mark.parametrize(("protocol", "name"), [(9, "ra"), (16, "dhcp"), (12, "bird"), (213, "hostrouting")])
    @pytest.mark.parametrize(("dev", "links"), [("azure0", LINKS[:3]), ("azv2", LINKS)])
    def test_of_another_program(self, protocol: int, name: str, dev: str, links: Sequence[EthernetLink]) -> None:
        """A route that DHCP or a routing daemon has made, such as one to a name server, stays."""
        route = Route.to("10.240.0.53/32", dev=dev, protocol=protocol)
        told = f"azure-vnet does not add routes with proto {name}"
        assert why_kept(routes=[route], links=links) == told
        assert planned(routes=[attrs.evolve(route, protocol=2)], links=links).deletions

    @pytest.mark.parametrize(("dev", "links"), [("azure0", LINKS[:3]), ("azv2", LINKS)])
    def test_what_could_not_be_brought_back(self, dev: str, links: Sequence[EthernetLink]) -> None:
        """A route with something that an undo file does not have stays, and what that is, is named."""
        route = attrs.evolve(Route.to("10.240.0.5/32", dev=dev), unread=("lock", "initcwnd"))
        assert why_kept(routes=[route], links=links) == "undo could not restore its lock, initcwnd"

    @pytest.mark.parametrize(
        "route",
        [
            Route.to("10.240.0.0/24", dev="azure0"),
            Route.to("10.240.0.5/32", dev="eth0"),
            Route.to("10.240.0.5/32", dev="azv2", gateway="10.240.0.1"),
            Route.to("10.240.0.5/32", dev="azv2", table=100),
            Route.to("10.240.0.5/32", type="blackhole"),
            attrs.evolve(Route.to("10.240.0.5/32", dev="azv2"), tos=4),
            attrs.evolve(Route.to("10.240.0.5/32", dev="azv2"), legs=(NextHop("azv2"), NextHop("azure0"))),
        ],
        ids=str,
    )
    def test_other_routes(self, route: Route) -> None:
        """What is not a plain route to one address by such a device is not looked at."""
        plan = planned(routes=[route], links=LINKS[:3])
        assert not plan.deletions
        assert not plan.kept


class TestPlan:
    """The plan as a value."""

    def test_within_what_was_shown(self) -> None:
        """Only what was shown is left, each thing as often as it was shown."""
        once, twice = planned(STALE), planned(STALE, STALE, R1.format("10.240.0.5", DEAD))
        assert [it.spec for it in twice.within(once).deletions] == [STALE]
        assert once.within(CleanupPlan()).is_empty

    def test_how_it_reads(self) -> None:
        """Each thing is a line that says what becomes of it and why."""
        text = str(planned(STALE, R2.format("10.240.0.9", LIVE), STALE.replace("eth0", "eth7"), *OWN[:1], others="x"))
        assert [line.split()[0] for line in text.splitlines()] == ["delete", "conflict", "inert", "keep", "unreadable"]
        assert str(CleanupPlan()) == "nothing to delete"


IPS = st.sampled_from(["10.240.0.5", "10.240.0.6", "10.240.0.4/31", "10.9.0.5", "10.0.0.4"])
RULES = st.builds(
    str.format,
    st.sampled_from([R1, R2, R2.replace("-i eth0", "-i ! eth0"), R2.replace("PRE", "POST")]),
    IPS,
    st.sampled_from([DEAD, LIVE]),
) | st.sampled_from([*OWN, R3.format("fd00:1::5", DEAD), "FORWARD -j ACCEPT"])
HOSTS = st.lists(RULES, max_size=12)


@given(HOSTS, st.booleans())
def test_nothing_goes_that_is_not_a_rule_of_a_pod(rules: list[str], unknown: bool) -> None:  # noqa: FBT001  drawn
    """For any rules, those that go are exactly of the three shapes, managed and dead; and what goes was there."""
    plan = planned(*rules, links=[*LINKS, UNKNOWN] if unknown else LINKS)
    assert not Counter(it.spec for it in plan.deletions) - Counter(rules)
    for it in plan.deletions:
        found = pod_rule(read_saved(f"*nat\n-A {it.spec}").rules[0])
        assert any(found.ip in network for network in azure_settings().managed)
        assert found.mac == DEAD
        assert not unknown


@given(HOSTS)
def test_the_naive_plan(rules: list[str]) -> None:
    """What goes is what a reader without any cleverness finds: whole lines, compared with those of dead managed pods."""
    known = {shape.format(ip, DEAD) for shape in (R1, R2) for ip in ("10.240.0.5", "10.240.0.6")}
    known.add(R3.format("fd00:1::5", DEAD))
    assert [it.spec for it in planned(*rules).deletions] == [rule for rule in rules if rule in known]


@given(HOSTS)
def test_after_it_there_is_nothing_to_do(rules: list[str]) -> None:
    """With what goes taken away, a plan is empty; and the same facts make the same plan."""
    plan = planned(*rules)
    left = list(rules)
    for it in plan.deletions:
        left.remove(it.spec)
    assert planned(*left).is_empty
    assert planned(*rules) == plan


@given(HOSTS)
def test_every_look_alike_has_its_reason(rules: list[str]) -> None:
    """Each rule that names a managed address is in exactly one part of the plan."""
    plan = planned(*rules)
    told = Counter(it.spec for part in (plan.deletions, plan.kept, plan.conflicts, plan.inert) for it in part)
    assert not told - Counter(rules)
    for rule in rules:
        assert (rule in told) is ("10.240." in rule or "fd00:1:" in rule or _is_pod_rule(rule))


def _is_pod_rule(rule: str) -> bool:
    try:
        pod_rule(read_saved(f"*nat\n-A {rule}").rules[0])
    except NotAPodRule:
        return False
    return True


def test_managed_networks_are_those_of_the_tests() -> None:
    """The managed networks that the laws above rely on."""
    assert tuple(map(str, azure_settings().managed)) == MANAGED
