"""From facts about a host to the plan: what is stale, and why the rest is kept; the state file of azure-vnet."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.kernel.neighbours import EthernetLink, LinkLayerView, Neighbour, PeerMac, UnknownPeer
from hostrouting.model.prefix import as_ip
from hostrouting.model.route import NextHop, Route
from hostrouting.model.snapshot import Address, Snapshot
from hostrouting.tasks.cleanup.azure_vnet import (
    CleanStaleAzureVnet,
    Endpoint,
    NotAPodRule,
    PodRule,
    StateFileUnreadable,
    active_file,
    pod_rule,
    read_state,
)
from hostrouting.tasks.cleanup.plan import CleanupFacts, CleanupPlan
from hostrouting.tasks.cleanup.saved_rules import read_saved
from hostrouting.testing import FakeHost
from tests.support.azure_leftovers import DEAD, LINKS, LIVE, OWN, R1, R2, R3, azure_config

STALE = R2.format("10.240.0.5", DEAD)
UNKNOWN = EthernetLink(name="azv9", index=9, kind="veth", master="azure0", peer=UnknownPeer("it is gone"))
DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.240.0.1")


STATE = "/var/run/azure-vnet.json"
FOLDER = "/etc/cni/net.d"


def facts(
    *rules: str,
    links: Iterable[EthernetLink] = LINKS,
    neighbours: Iterable[Neighbour] = (),
    learned: Sequence[tuple[str, str]] = (),
    routes: Sequence[Route] = (),
    addresses: Sequence[Address] = (),
    others: str = "",
    files: Mapping[str, str] = MappingProxyType({}),
) -> CleanupFacts:
    """The facts about a host."""
    text = "\n".join(["*nat", *(f"-A {rule}" for rule in rules), others])
    return CleanupFacts(
        read_saved(text),
        LinkLayerView(links, neighbours, tuple(learned)),
        Snapshot(addresses=tuple(addresses), routes=routes),
        read=files.get,
        names=lambda folder: tuple(path.rpartition("/")[2] for path in files if path.rpartition("/")[0] == folder),
    )


def planned(*rules: str, settings: dict[str, Any] | None = None, **host: Any) -> CleanupPlan:
    """The plan for a host with these facts."""
    return CleanStaleAzureVnet(azure_config(**(settings or {})), host=FakeHost()).judge(facts(*rules, **host))


def listing(device: str, *ips: str, mac: str = "AgAAAAAF") -> dict[str, str]:
    """The files of a host whose state file has one pod."""
    endpoint = {"HostIfName": device, "MacAddress": mac, "IPAddresses": [{"IP": ip} for ip in ips]}
    return {STATE: state({"a-eth0": endpoint})}


def why_kept(*rules: str, **host: Any) -> str:
    """The reason why the only entry of such a host is kept."""
    plan = planned(*rules, **host)
    assert plan.is_empty
    (it,) = plan.with_fate("keep")
    return it.reason


class TestRules:
    """The decisions about rules."""

    def test_all_three_of_a_dead_pod(self) -> None:
        """Each rule for a dead pod is deleted, each duplicate once, in the order of the table."""
        rules = (R1.format("10.240.0.5", DEAD), STALE, R3.format("fd00:1::5", DEAD), STALE)
        plan = planned(*rules)
        assert [deletion.spec for deletion in plan.deletions] == list(rules)
        assert {deletion.reason for deletion in plan.deletions} == {
            f"{ip} is managed by another CNI, and no device has the MAC address {DEAD}"
            for ip in ("10.240.0.5", "fd00:1::5")
        }

    def test_rules_of_the_node(self) -> None:
        """The rules that azure-vnet adds for the node are kept."""
        own = Address(ip=as_ip("10.0.0.4"), length=16, dev="azure0")
        assert planned(*OWN, addresses=[own], settings={"managed": ["10.0.0.0/8"]}).is_empty

    def test_look_alikes(self) -> None:
        """A rule that contains a managed address but is not exactly a pod rule is kept, and the reason names the difference."""
        told = "not a rule that azure-vnet adds for a pod: it has a negation: -i ! eth0"
        assert why_kept(STALE.replace("-i eth0", "-i ! eth0")) == told

    def test_another_table(self) -> None:
        """The same rule in another table is kept, and printed with its table."""
        (it,) = planned(others=f"*filter\n-A {STALE}").with_fate("keep")
        assert it.spec == f"-t filter {STALE}"
        assert it.reason.endswith(": it is in the table filter, not in nat")

    def test_a_device_that_is_not_an_uplink(self) -> None:
        """A rule for a pod's own veth is not one that azure-vnet adds."""
        assert why_kept(STALE.replace("eth0", "azv1")) == "azv1 is not an uplink: it is a port for a pod"

    def test_an_uplink_that_is_in_no_bridge(self) -> None:
        """A rule for an uplink matches no frame then; one that answers ARP matches those of every bridge."""
        links = [attrs.evolve(link, master=None) if link.name == "eth0" else link for link in LINKS]
        plan = planned(R1.format("10.240.0.5", DEAD), STALE, STALE.replace("eth0", "eth7"), links=links)
        assert [deletion.spec for deletion in plan.deletions] == [R1.format("10.240.0.5", DEAD)]
        assert [it.reason for it in plan.with_fate("inert")] == [
            f"{name} is not a port of a bridge, so this rule matches no frame" for name in ("eth0", "eth7")
        ]

    def test_the_bridge_of_another_cni(self) -> None:
        """With azure0 gone, the rules for ARP are stale in another CNI's bridge, and those of an uplink in it are, too."""
        bridge = EthernetLink(name="cni0", index=20, kind="bridge")
        links = [*LINKS[:2], bridge]
        rules = (R1.format("10.240.0.5", DEAD), STALE)
        assert [deletion.spec for deletion in planned(*rules, links=links).deletions] == [rules[0]]
        ports = [LINKS[0], attrs.evolve(LINKS[1], master="cni0"), bridge]
        assert [deletion.spec for deletion in planned(*rules, links=ports).deletions] == [*rules]

    def test_without_a_bridge(self) -> None:
        """On a host without bridges, no frame passes the rules."""
        (it,) = planned(R1.format("10.240.0.5", DEAD), links=LINKS[:2]).with_fate("inert")
        assert it.reason == "this host has no bridge, so this rule matches no frame"

    def test_an_uplink_that_is_configured(self) -> None:
        """An uplink that the operator names counts even if it is not in the bridge."""
        assert len(planned(STALE.replace("eth0", "eth7"), settings={"uplinks": ["eth7"]}).deletions) == 1

    def test_lines_that_are_not_understood(self) -> None:
        """Unreadable lines are reported, and never deleted."""
        plan = planned(STALE, others=f'-A {STALE} "')
        assert len(plan.deletions) == 1
        assert [(finding.severity, finding.facts) for finding in plan.findings] == [
            ("note", {"lines": [f'-A {STALE} "']})
        ]

    @pytest.mark.parametrize(
        ("links", "severity"),
        [(LINKS, "error"), ([EthernetLink(name="cni0", index=3, kind="bridge")], "warning"), (LINKS[:2], None)],
    )
    def test_without_ebtables(self, links: Sequence[EthernetLink], severity: str | None) -> None:
        """Without ebtables the rules are not known: an error beside a bridge of azure-vnet, harmless without bridges."""
        known = attrs.evolve(facts(links=links), rules=None)
        plan = CleanStaleAzureVnet(azure_config(), host=FakeHost()).judge(known)
        assert [(finding.name, finding.severity) for finding in plan.findings] == (
            [("program", severity)] if severity else []
        )

    def test_the_virtual_mac(self) -> None:
        """In tunnel mode the rule for ARP is judged by the other entries for its address."""
        virtual = "12:34:56:78:9a:bc"
        arp = R1.format("10.240.0.5", virtual)
        assert planned(arp, R2.format("10.240.0.5", LIVE)).is_empty
        assert len(planned(arp, STALE).deletions) == 2
        assert why_kept(arp).endswith("its MAC address is not known, and there are pods behind azure0")


class TestPods:
    """Whether the address or the MAC address is in use."""

    def test_not_managed(self) -> None:
        """Everything outside the managed networks is kept."""
        told = "10.9.0.5 is not in a managed network (azureVnetCleanup.managed)"
        assert why_kept(R2.format("10.9.0.5", DEAD)) == told

    def test_an_address_of_the_host(self) -> None:
        """Entries for the host's own address are kept, whatever the MAC address is."""
        own = Address(ip=as_ip("10.240.0.5"), length=16, dev="azure0")
        assert why_kept(STALE, addresses=[own]) == "10.240.0.5 is an address of this host, on azure0"

    def test_a_default_gateway(self) -> None:
        """Entries for the default gateway are kept."""
        assert why_kept(R2.format("10.240.0.1", DEAD), routes=[DEFAULT]) == "10.240.0.1 is a default gateway"

    def test_protected(self) -> None:
        """Entries for protected addresses are kept."""
        told = why_kept(STALE, settings={"protect": ["10.240.0.4/30", "fd00::1"]})
        assert told == "10.240.0.5 is protected (azureVnetCleanup.protect)"

    def test_a_pod_that_is_alive(self) -> None:
        """A managed address with a live MAC address is a conflict and is kept."""
        plan = planned(R2.format("10.240.0.5", LIVE))
        assert plan.is_empty
        (it,) = plan.with_fate("conflict")
        told = f"10.240.0.5 is managed by another CNI, but its MAC address {LIVE} belongs to a pod behind azv1"
        assert it.reason == told

    def test_the_mac_of_a_device(self) -> None:
        """A MAC address of the host itself is alive."""
        (it,) = planned(R2.format("10.240.0.5", "0:d:3a:0:0:1")).with_fate("conflict")
        assert it.reason.endswith("its MAC address 00:0d:3a:00:00:01 belongs to the device azure0")

    def test_a_pod_of_any_veth(self) -> None:
        """A pod behind a veth outside the bridge is alive."""
        lxc = EthernetLink(name="lxc1", index=8, kind="veth", mac="aa:00:00:00:00:08", peer=PeerMac(DEAD))
        assert planned(STALE, links=[*LINKS, lxc]).with_fate("conflict")

    def test_what_a_bridge_has_learned(self) -> None:
        """The MAC address of a virtual machine in a pod is alive; one behind an uplink is that of another node."""
        (it,) = planned(STALE, learned=[(DEAD, "azv1")]).with_fate("conflict")
        assert it.reason.endswith(f"its MAC address {DEAD} belongs to a device behind azv1")
        assert planned(STALE, learned=[(DEAD, "eth0")]).deletions

    def test_a_port_that_cannot_be_asked(self) -> None:
        """As long as the other end of one port cannot be read, no MAC address is known to be dead."""
        assert why_kept(STALE, links=[*LINKS, UNKNOWN]) == (
            "it is not known whether its pod is alive: the MAC addresses behind azv9 cannot be read"
        )

    @pytest.mark.parametrize("kind", ["tun", "vxlan", "openvswitch", "one of tomorrow"])
    def test_a_port_that_is_neither_a_veth_nor_an_uplink(self, kind: str) -> None:
        """Behind a tap there may be a VM with any MAC address, so rules, neighbours and routes by the bridge are kept."""
        tap = EthernetLink(name="tap0", index=9, kind=kind, mac="fe:00:00:00:00:09", master="azure0")
        told = "it is not known whether its pod is alive: the MAC addresses behind tap0 cannot be read"
        plan = planned(
            STALE,
            neighbours=[Neighbour("10.240.0.5", DEAD, "azure0")],
            routes=[Route.to("10.240.0.5/32", dev="azure0")],
            links=[*LINKS, tap],
        )
        assert [(it.kind, it.reason) for it in plan.with_fate("keep")] == [
            (it, told) for it in ("rule", "neighbour", "route")
        ]
        assert plan.is_empty
        assert why_kept(STALE.replace("eth0", "tap0"), links=[*LINKS, tap]) == (
            "tap0 is not an uplink: it is a port for a pod"
        )
        # The operator knows that it is connected to the node's network.
        assert planned(STALE, links=[*LINKS, tap], settings={"uplinks": ["tap0"]}).deletions

    @pytest.mark.parametrize("kind", ["", "bond", "team", "vlan", "macvlan"])
    def test_the_kinds_of_uplinks(self, kind: str) -> None:
        """Hardware, and devices on top of hardware, are uplinks."""
        links = [attrs.evolve(link, kind=kind) if link.name == "eth0" else link for link in LINKS]
        assert planned(STALE, links=links).deletions

    def test_a_route_by_a_tap(self) -> None:
        """A route by a device of azure-vnet is kept if there may be a VM behind the device."""
        tap = EthernetLink(name="azv9", index=9, kind="tun")
        told = "it is not known whether its pod is alive: what is behind azv9 cannot be read"
        assert why_kept(routes=[Route.to("10.240.0.5/32", dev="azv9")], links=[*LINKS, tap]) == told

    def test_an_unknown_veth_elsewhere(self) -> None:
        """An unreadable port of another bridge does not matter."""
        assert planned(STALE, links=[*LINKS, attrs.evolve(UNKNOWN, master="docker0")]).deletions

    def test_a_pod_in_the_state_file(self) -> None:
        """An address that the state file gives to an existing device is kept; without the device it is not."""
        told = "azure-vnet's state file gives 10.240.0.5 to a-eth0, whose device azv1 exists"
        assert why_kept(STALE, files=listing("azv1", "10.240.0.5")) == told
        assert planned(STALE, files=listing("azv7", "10.240.0.5")).deletions


class TestListedPods:
    """Pods in the state file that no longer exist: Azure's network monitor adds their rules again."""

    def test_they_are_told(self) -> None:
        """Such pods are a warning that names the monitor if it runs."""
        files = listing("azv7", "10.240.0.5")
        (it,) = planned(files=files).findings
        assert (it.name, it.severity, it.target) == ("azure-vnet", "warning", STATE)
        assert "a-eth0 (10.240.0.5)" in it.sentence
        known = attrs.evolve(facts(files={**files, "/proc/7/comm": "azure-cnms\n"}), names=lambda _folder: ("7", "fs"))
        (it,) = CleanStaleAzureVnet(azure_config(), host=FakeHost()).judge(known).findings
        assert "azure-cnms, which runs here" in it.sentence


class TestNeighbours:
    """The decisions about neighbours."""

    def test_a_permanent_one(self) -> None:
        """A permanent neighbour of a dead pod is deleted, in both families."""
        entries = [Neighbour(ip, DEAD, "azure0") for ip in ("10.240.0.5", "fd00:1::5")]
        assert [deletion.thing for deletion in planned(neighbours=entries).deletions] == entries

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
        """Entries of the kernel, and of other devices, are ignored."""
        assert planned(neighbours=[entry]) == CleanupPlan()

    def test_one_that_a_program_keeps(self) -> None:
        """An entry that another program has added (extern_learn) is kept."""
        entry = Neighbour("10.240.0.5", DEAD, "azure0", externally_learned=True)
        assert why_kept(neighbours=[entry]) == "another program added it and maintains it (extern_learn)"

    def test_a_live_one(self) -> None:
        """The neighbour of a live pod is a conflict."""
        assert planned(neighbours=[Neighbour("10.240.0.5", LIVE, "azure0")]).with_fate("conflict")


class TestRoutes:
    """The decisions about routes."""

    def test_by_the_bridge(self) -> None:
        """A route by the bridge to a dead pod is deleted; the neighbour entry has the MAC address of the pod."""
        route = Route.to("10.240.0.5/32", dev="azure0")
        entry = Neighbour("10.240.0.5", DEAD, "azure0")
        assert [deletion.kind for deletion in planned(neighbours=[entry], routes=[route]).deletions] == [
            "neighbour",
            "route",
        ]

    def test_by_the_bridge_to_nobody_known(self) -> None:
        """If there are live pods behind the bridge, and the MAC address is not known, the route is kept."""
        route = Route.to("10.240.0.5/32", dev="azure0")
        assert why_kept(routes=[route]).endswith("its MAC address is not known, and there are pods behind azure0")
        assert planned(routes=[route], links=LINKS[:3]).deletions

    def test_by_the_bridge_to_a_live_pod(self) -> None:
        """If a neighbour, in any state, has a live MAC address, the route is a conflict."""
        entry = Neighbour("10.240.0.5", LIVE, "azure0", "reachable")
        assert planned(neighbours=[entry], routes=[Route.to("10.240.0.5/32", dev="azure0")]).with_fate("conflict")

    def test_by_a_pods_device(self) -> None:
        """A route by azv* is deleted without a pod behind the device, and is a conflict with one."""
        plan = planned(routes=[Route.to("10.240.0.5/32", dev="azv2"), Route.to("10.240.0.6/32", dev="azv1")])
        assert [deletion.reason for deletion in plan.deletions] == [
            "10.240.0.5 is managed by another CNI, and there is no pod behind azv2"
        ]
        assert [it.reason for it in plan.with_fate("conflict")] == [
            "10.240.0.6 is managed by another CNI, but there is a pod behind azv1"
        ]

    @pytest.mark.parametrize("links", [[*LINKS, UNKNOWN], LINKS])
    def test_by_a_device_that_cannot_be_asked(self, links: Sequence[EthernetLink]) -> None:
        """If the other end cannot be read, or the device appeared after the devices were read, the route is kept."""
        told = "it is not known whether its pod is alive: what is behind azv9 cannot be read"
        assert why_kept(routes=[Route.to("10.240.0.5/32", dev="azv9")], links=links) == told

    def test_kept_for_its_address(self) -> None:
        """A route is kept for the same reasons as a rule."""
        route = Route.to("10.240.0.5/32", dev="azv2")
        assert "state file" in why_kept(routes=[route], files=listing("azv1", "10.240.0.5"))
        assert "not in a managed network" in why_kept(routes=[Route.to("10.9.0.5/32", dev="azv2")])

    @pytest.mark.parametrize(("protocol", "name"), [(9, "ra"), (16, "dhcp"), (12, "bird"), (213, "hostrouting")])
    @pytest.mark.parametrize(("dev", "links"), [("azure0", LINKS[:3]), ("azv2", LINKS)])
    def test_of_another_program(self, protocol: int, name: str, dev: str, links: Sequence[EthernetLink]) -> None:
        """A route that DHCP or a routing daemon added, such as one to a name server, is kept."""
        route = Route.to("10.240.0.53/32", dev=dev, protocol=protocol)
        told = f"azure-vnet does not add routes with proto {name}"
        assert why_kept(routes=[route], links=links) == told
        assert planned(routes=[attrs.evolve(route, protocol=2)], links=links).deletions

    @pytest.mark.parametrize(("dev", "links"), [("azure0", LINKS[:3]), ("azv2", LINKS)])
    def test_what_could_not_be_brought_back(self, dev: str, links: Sequence[EthernetLink]) -> None:
        """A route with an attribute that an undo file cannot hold is kept, and the reason names the attribute."""
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
        """A route that is not a plain route to a single address by such a device is ignored."""
        plan = planned(routes=[route], links=LINKS[:3])
        assert not plan.deletions
        assert not plan.with_fate("keep")


class TestPlan:
    """The plan as a value."""

    def test_how_it_reads(self) -> None:
        """Each entry is printed as a line with the decision and the reason."""
        text = str(planned(STALE, R2.format("10.240.0.9", LIVE), STALE.replace("eth0", "eth7"), *OWN[:1], others="x"))
        assert [line.split()[0] for line in text.splitlines()] == ["delete", "conflict", "inert", "keep", "1"]
        assert str(CleanupPlan()) == "nothing to delete"


IPS = st.sampled_from(["10.240.0.5", "10.240.0.6", "10.240.0.4/31", "10.9.0.5", "10.0.0.4"])
RULES = st.builds(
    str.format,
    st.sampled_from([R1, R2, R2.replace("-i eth0", "-i ! eth0"), R2.replace("PRE", "POST")]),
    IPS,
    st.sampled_from([DEAD, LIVE]),
) | st.sampled_from([*OWN, R3.format("fd00:1::5", DEAD), "FORWARD -j ACCEPT"])
HOSTS = st.lists(RULES, max_size=12)


@given(HOSTS)
def test_the_naive_plan(rules: list[str]) -> None:
    """A naive oracle, which compares whole lines with the rules of dead managed pods, finds the same deletions."""
    known = {shape.format(ip, DEAD) for shape in (R1, R2) for ip in ("10.240.0.5", "10.240.0.6")}
    known.add(R3.format("fd00:1::5", DEAD))
    assert [deletion.spec for deletion in planned(*rules).deletions] == [rule for rule in rules if rule in known]


@given(HOSTS)
def test_every_look_alike_has_its_reason(rules: list[str]) -> None:
    """Each rule that contains a managed address is in exactly one part of the plan."""
    plan = planned(*rules)
    told = Counter(entry.spec for entry in plan.entries)
    assert not told - Counter(rules)
    for rule in rules:
        assert (rule in told) is ("10.240." in rule or "fd00:1:" in rule or _is_pod_rule(rule))


def _is_pod_rule(rule: str) -> bool:
    try:
        pod_rule(read_saved(f"*nat\n-A {rule}").rules[0])
    except NotAPodRule:
        return False
    return True


# The state file of azure-vnet


ENDPOINT = {
    "HostIfName": "azv1",
    "MacAddress": "AgAAAAAF",
    "IPAddresses": [{"IP": "10.240.0.5", "Mask": "//8AAA=="}, {"IP": "fd00:1::5", "Mask": "/w=="}],
}


def state(endpoints: object) -> str:
    """A state file with these endpoints."""
    network = {"Networks": {"azure": {"Endpoints": endpoints}}}
    return json.dumps({"Network": {"Version": "v1", "ExternalInterfaces": {"eth0": network}}})


def test_its_endpoints() -> None:
    """Each endpoint has a device and addresses of both families."""
    ips = (ip_address("10.240.0.5"), ip_address("fd00:1::5"))
    assert read_state(state({"a-eth0": ENDPOINT})) == (Endpoint("a-eth0", "azv1", ips, DEAD),)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"Network": null}',
        '{"Network": {"ExternalInterfaces": null}}',
        '{"Network": {"ExternalInterfaces": {"eth0": {"Networks": null}}}}',
        state(None),
    ],
)
def test_what_is_empty(text: str) -> None:
    """azure-vnet writes null for empty objects; such a file has no pods."""
    assert read_state(text) == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON, or is truncated"),
        (state({"a": ENDPOINT})[:-9], "not JSON, or is truncated"),
        ("\ufffd", "it is not UTF-8"),
        ("[]", "the document is not a JSON object"),
        (state([]), "Endpoints is not a JSON object"),
        (state({"a": {**ENDPOINT, "IPAddresses": [{"IP": "ten"}]}}), "the endpoint 'a' has an invalid address"),
        (state({"a": {**ENDPOINT, "HostIfName": 7}}), "the endpoint 'a' does not have HostIfName"),
    ],
)
def test_what_is_not_a_state_file(text: str, why: str) -> None:
    """A file that is truncated, or is a different file, is an error, because a live pod may be missing from it."""
    with pytest.raises(StateFileUnreadable, match=why):
        read_state(text)


# The CNI configuration.

AZURE = json.dumps({"cniVersion": "0.3.0", "plugins": [{"type": "azure-vnet"}, {"type": "portmap"}]})
OTHER = json.dumps({"type": "cilium-cni"})


def active(files: Mapping[str, str]) -> str:
    """The name of the file that makes azure-vnet active, in a folder with these files."""
    found = active_file(facts(files={f"{FOLDER}/{name}": text for name, text in files.items()}))
    return found.removeprefix(f"{FOLDER}/")


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({}, ""),
        ({"05-cilium.conf": OTHER, "10-azure.conflist": AZURE}, ""),
        ({"10-azure.conflist": AZURE, "15-cilium.conf": OTHER}, "10-azure.conflist"),
        ({"05-broken.conflist": "{", "06-empty.json": "{}", "10-azure.conflist": AZURE}, "10-azure.conflist"),
        ({"05-azure.conflist.bak": AZURE, "10-cilium.conf": OTHER}, ""),
        ({"05.json": json.dumps({"type": "azure-vnet"})}, "05.json"),
        ({"05.conflist": '{"plugins": 3}', "06.conf": "[]"}, ""),
        ({"05.conf": '{"ipam": {"type": "azure-vnet-ipam"}}', "10-azure.conflist": AZURE}, "10-azure.conflist"),
    ],
)
def test_whether_azure_vnet_is_active(files: dict[str, str], wanted: str) -> None:
    """The first usable file decides, as it does for a container runtime."""
    assert active(files) == wanted


DEFINITION = {
    "apiVersion": "k8s.cni.cncf.io/v1",
    "kind": "NetworkAttachmentDefinition",
    "metadata": {"name": "default"},
    "spec": {"config": AZURE},
}


def multus(**keys: Any) -> str:
    """A multus configuration with these keys."""
    return json.dumps({"name": "multus", "type": "multus", **keys})


@pytest.mark.parametrize(
    ("text", "is_active"),
    [
        (multus(delegates=[json.loads(AZURE)]), True),
        (multus(delegates=[{"type": "cilium-cni"}, {"type": "azure-vnet"}]), True),
        (multus(delegates=[DEFINITION]), True),
        (multus(delegates=[{**DEFINITION, "spec": {"config": OTHER}}]), False),
        (multus(delegates=[{**DEFINITION, "spec": {"config": "{"}}]), False),
        (json.dumps({"plugins": [{"type": "flannel", "delegate": {"type": "azure-vnet"}}]}), True),
        (multus(clusterNetwork="/etc/cni/net.d/10-azure.conflist"), True),
        (multus(clusterNetwork="10-azure"), True),
        (multus(clusterNetwork="azure", defaultNetworks=["sidecar"]), True),
        (multus(clusterNetwork="cilium", defaultNetworks=["sidecar", "azure"]), True),
        (multus(clusterNetwork="/etc/cni/net.d/05-cilium.conf"), False),
        (multus(clusterNetwork=7), False),
        (multus(ipam={"type": "azure-vnet-ipam"}), False),
    ],
)
def test_a_plugin_that_hands_pods_on(text: str, is_active: bool) -> None:  # noqa: FBT001  a parameter
    """A plugin that multus calls is active, whether it is configured in the same file or in another one that multus names."""
    azure = json.dumps({"name": "azure", **json.loads(AZURE)})
    files = {"00-multus.conf": text, "05-cilium.conf": OTHER, "10-azure.conflist": azure}
    assert active(files) == ("00-multus.conf" if is_active else "")


def test_what_no_runtime_can_use() -> None:
    """A file that contains azure-vnet but is not a CNI configuration counts, because refusing is safe."""
    files = {"00.conf": json.dumps(DEFINITION), "05-cilium.conf": OTHER}
    assert active(files) == "00.conf"


def test_what_is_nested_very_deeply() -> None:
    """A file that is nested too deeply is skipped, without an error."""
    files = {"00.conf": "[" * 100_000, "05-cilium.conf": OTHER}
    assert active(files) == ""


# The rules that azure-vnet adds for a pod.

ARP = f"PREROUTING -p ARP --arp-op Request --arp-ip-dst 10.240.0.5 -j arpreply --arpreply-mac {DEAD}"
IPV4 = f"PREROUTING -p IPv4 -i eth0 --ip-dst 10.240.0.5 -j dnat --to-dst {DEAD} --dnat-target ACCEPT"
IPV6 = f"PREROUTING -p IPv6 -i eth0 --ip6-dst fd00::5 -j dnat --to-dst {DEAD} --dnat-target ACCEPT"


def read(line: str) -> PodRule:
    """The line as a pod rule."""
    (rule,) = read_saved(f"*nat\n:PREROUTING ACCEPT\n-A {line}\n").rules
    return pod_rule(rule)


@pytest.mark.parametrize(
    ("line", "ip", "uplink"),
    [
        (ARP, "10.240.0.5", None),
        (f"{ARP} --arpreply-target DROP", "10.240.0.5", None),
        (ARP.replace("ARP ", "0x0806 ").replace("Request", "1"), "10.240.0.5", None),
        (IPV4, "10.240.0.5", "eth0"),
        (IPV4.removesuffix(" --dnat-target ACCEPT"), "10.240.0.5", "eth0"),
        (IPV4.replace("10.240.0.5", "10.240.0.5/32"), "10.240.0.5", "eth0"),
        (IPV4.replace("10.240.0.5", "10.240.0.5/255.255.255.255"), "10.240.0.5", "eth0"),
        (IPV4.replace(DEAD, "2:0:0:0:0:5"), "10.240.0.5", "eth0"),
        (IPV4.replace("--to-dst", "--to-destination"), "10.240.0.5", "eth0"),
        ("PREROUTING -i eth0 -p IPv4 -j dnat --to-dst 2:0:0:0:0:5 --ip-dst 10.240.0.5", "10.240.0.5", "eth0"),
        (IPV6, "fd00::5", "eth0"),
        (IPV6.replace("::5", "::5/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), "fd00::5", "eth0"),
    ],
)
def test_the_three_rules(line: str, ip: str, uplink: str | None) -> None:
    """Each of the three rules is recognised in every spelling that ebtables prints, and keeps its spelling."""
    found = read(line)
    assert (found.line, str(found.ip), found.mac, found.uplink) == (line, ip, DEAD, uplink)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (IPV4.replace("10.240.0.5", "10.240.0.4/31"), "--ip-dst 10.240.0.4/31 is a network, not a single address"),
        (IPV6.replace("fd00::5", "fd00::/ffff::"), "--ip6-dst fd00::/ffff:: is a network, not a single address"),
        (IPV4.replace("-i eth0", "-i ! eth0"), "it has a negation: -i ! eth0"),
        (IPV4.replace("-i eth0", "! -i eth0"), "it has a negation: -i ! eth0"),
        (IPV4.replace("--ip-dst ", "--ip-dst ! "), "it has a negation: --ip-dst ! 10.240.0.5"),
        (IPV4.replace("-i eth0", "-i eth0 --ip-proto tcp"), "it also has --ip-proto"),
        (f"{ARP} --arp-ip-src 10.0.0.1", "it also has --arp-ip-src"),
        (ARP.replace("-p ARP", "-p ARP -i eth0"), "it also has -i"),
        (IPV4.replace("-i eth0 ", ""), "it has no -i"),
        (IPV4.replace("ACCEPT", "DROP"), "it has --dnat-target DROP, not ACCEPT"),
        (f"{ARP} --arpreply-target ACCEPT", "it has --arpreply-target ACCEPT, not DROP"),
        (IPV4.replace("-j dnat --to-dst", "-j redirect --to-dst"), "it has -j redirect, not dnat"),
        (ARP.replace("Request", "Reply"), "it has --arp-op Reply, not Request"),
        (IPV4.replace("IPv4", "IPv6"), "it has -p IPv6, not IPv4"),
        (
            IPV4.replace(DEAD, "ff:ff:ff:ff:ff:ff"),
            "--to-dst ff:ff:ff:ff:ff:ff is not the MAC address of a single device",
        ),
        (
            IPV4.replace(DEAD, f"{DEAD}/ff:ff:ff:0:0:0"),
            f"--to-dst {DEAD}/ff:ff:ff:0:0:0 is not the MAC address of a single device",
        ),
        (IPV4.replace("PREROUTING", "AZURE"), "it is in the chain AZURE, not in PREROUTING"),
        (f"{IPV4} -p IPv4", "it has the same option more than once"),
        (
            "PREROUTING -p ARP -i eth0 --arp-op Reply -j dnat --to-dst ff:ff:ff:ff:ff:ff",
            "it does not match on an address",
        ),
    ],
)
def test_what_is_not_a_pod_rule(line: str, why: str) -> None:
    """A rule that differs in one thing is not a pod rule, and the message names the difference."""
    with pytest.raises(NotAPodRule) as caught:
        read(line)
    assert str(caught.value) == why
