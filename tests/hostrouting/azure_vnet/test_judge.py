"""From facts about a host to the fate of each entry; CNI configurations."""

import json
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import example, given, strategies as st

from hostrouting.azure_vnet.conflists import FOLDER, active_file
from hostrouting.azure_vnet.judge import CleanupEntry, CleanupFacts, Fate, judge
from hostrouting.azure_vnet.neighbours import LinkLayerView, Neighbour
from hostrouting.finding import Finding
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import OURS, PROTOCOL_DHCP, NextHop, Route
from hostrouting.model.snapshot import Address, Link, Snapshot
from hostrouting.testing import FakeEbtables, FakeFiles
from tests.support import azure_leftovers as azure
from tests.support.azure_leftovers import DEAD, LINKS, LIVE, MACS, OTHER, section, state
from tests.support.azure_rules import LOOK_ALIKES, pod_rules

[ARP, IPV4], [IPV6] = pod_rules("10.1.0.5", DEAD), pod_rules("fd00::5", DEAD)
LIVE_RULES, VIRTUAL = pod_rules("10.1.0.5", LIVE), pod_rules("10.1.0.5", "12:34:56:78:9a:bc")[0]
NEIGHBOUR = Neighbour("10.1.0.5", DEAD, "azure0")
LIVE_NEIGHBOUR = Neighbour("10.1.0.5", LIVE, "azure0")
BY_BRIDGE, BY_VETH = (Route.to("10.1.0.5/32", dev=dev) for dev in ("azure0", "azv1"))
BY_DOWN = BY_BRIDGE._replace(next_hops=(NextHop("azure0", linkdown=True),))
DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.1.0.5")
OWN = tuple(Address(ip=as_ip(ip), length=16, dev="azure0") for ip in ("10.1.0.4", "10.1.0.5"))
KINDS = ("", "bond", "team", "vlan", "macvlan")
PORTS = [Link(name="up1", index=9, kind=kind, master="azure0") for kind in KINDS]
TAP = Link(name="tap0", index=9, kind="tun", master="azure0")
CNI0 = Link(name="cni0", index=20, kind="bridge")
UNBRIDGED = [LINKS[0], LINKS[1]._replace(master=None), *LINKS[2:]]
ELSEWHERE = [*LINKS, CNI0, TAP._replace(master="cni0")]
OF_CNI0 = [LINKS[1]._replace(master="cni0", kind="bond"), CNI0]
ETH7 = IPV4.replace("eth0", "eth7")


def judged(
    rules: Sequence[str] | None = (),
    *,
    links: Sequence[Link] = LINKS,
    neighbours: Sequence[Neighbour] = (),
    learned: tuple[tuple[str, str], ...] = (),
    routes: Sequence[Route] = (),
    addresses: tuple[Address, ...] = (),
    state: str | None = None,
    **settings: Any,
) -> tuple[tuple[CleanupEntry, ...], tuple[Finding, ...]]:
    """The entries and findings of such a host; without ebtables if the rules are None."""
    listed = None if rules is None else FakeEbtables(rules).list_rules()
    names = {link.name for link in links}
    macs = {name: mac for name, mac in MACS.items() if name in names}
    peers = {name: mac for name, mac in azure.PEERS.items() if name in names}
    view = LinkLayerView(macs=macs, peers=peers, neighbours=tuple(neighbours), learned=learned)
    snapshot = Snapshot(tuple(links), addresses, (), tuple(routes))
    facts = CleanupFacts(listed, view, snapshot, state)
    return judge(facts, section(**settings))


THREE: dict[str, Any] = {"rules": [ARP], "neighbours": [NEIGHBOUR], "routes": [BY_BRIDGE]}
ALIVE = {"rules": [*LIVE_RULES, VIRTUAL], "neighbours": [LIVE_NEIGHBOUR], "routes": [BY_BRIDGE]}
BY_10_7 = DEFAULT._replace(prefix=Prefix.parse("10.7.0.0/16"))
STATE = state("azv1", "10.1.0.5", "fd00::5")
NO_DEVICE = "no device has the MAC address 02:00:00:00:00:05"
UPLINK = "it matches no bridged uplink"
ROWS: dict[str, tuple[dict[str, Any], Fate, str]] = {
    "dead": (THREE, "delete", NO_DEVICE),
    "route to nobody": (
        {"routes": [BY_BRIDGE], "links": LINKS[:3]},
        "delete",
        "another CNI manages 10.1.0.5, and no pod is known to use it",
    ),
    "route, by the neighbour": (THREE | {"rules": []}, "delete", NO_DEVICE),
    # the address
    "not managed": (THREE | {"managed": ["10.9.0.0/16"]}, "keep", "is not in a managed network"),
    "own address": (THREE | {"addresses": OWN}, "keep", "an address of this host, on azure0"),
    "default gateway": (THREE | {"routes": [DEFAULT, BY_BRIDGE]}, "keep", "is a default gateway"),
    "gateway of another route": (THREE | {"routes": [BY_10_7, BY_BRIDGE]}, "delete", NO_DEVICE),
    "protected": (THREE | {"protect": ["10.1.0.4/30"]}, "keep", "(azureVnetCleanup.protect)"),
    # the MAC address
    "live": (ALIVE, "conflict", f"{LIVE} belongs to a pod behind azv1"),
    "live, behind an uplink": (ALIVE | {"uplinks": ["azv1"]}, "conflict", LIVE),
    "own device": (
        {"rules": pod_rules("10.1.0.5", "0:d:3a:0:0:1")},
        "conflict",
        "belongs to the device azure0",
    ),
    "virtual machine in a pod": (
        THREE | {"learned": ((DEAD, "azv1"),)},
        "conflict",
        "a device behind azv1",
    ),
    **{
        f"learned from a port of kind {port.kind}": (
            THREE | {"links": [*LINKS, port], "learned": ((DEAD, port.name),)},
            "delete",
            NO_DEVICE,
        )
        for port in PORTS
    },
    "opaque port": (THREE | {"links": [*LINKS, TAP]}, "keep", "be alive behind tap0, where"),
    "opaque port of another bridge": (THREE | {"links": ELSEWHERE}, "delete", NO_DEVICE),
    "MAC not known": (
        {"routes": [BY_BRIDGE], "rules": [VIRTUAL]},
        "keep",
        "its pod may be alive behind azv1, where",
    ),
    "state file": (THREE | {"state": STATE}, "keep", "gives 10.1.0.5 to a-eth0"),
    "gone, but in it": (THREE | {"state": state("azv7", "10.1.0.5")}, "delete", NO_DEVICE),
    # the uplink
    "no uplink in a bridge": ({"rules": [IPV4, IPV6], "links": UNBRIDGED}, "keep", UPLINK),
    "another bridge": ({"rules": [ARP, IPV4], "links": OF_CNI0}, "delete", NO_DEVICE),
    "a pod's port": ({"rules": [LIVE_RULES[1].replace("eth0", "azv1")]}, "keep", UPLINK),
    "configured uplink": ({"rules": [ETH7], "uplinks": ["eth7"]}, "delete", NO_DEVICE),
}


@pytest.mark.parametrize(("facts", "fate", "words"), ROWS.values(), ids=ROWS)
def test_fates(facts: dict[str, Any], fate: Fate, words: str) -> None:
    entries, _ = judged(**facts)
    assert {entry.fate for entry in entries} == {fate}
    assert all(words in entry.reason for entry in entries), entries


def test_tunnel_mode() -> None:
    """The rule with the virtual MAC address is judged by those of the pod's other entries."""
    (of_all, *_), _ = judged([VIRTUAL, IPV4, *pod_rules("10.1.0.5", OTHER)])
    assert (of_all.fate, of_all.reason[-38:]) == ("delete", f"{DEAD} or {OTHER}")


def test_two_pods_of_one_address() -> None:
    """A rule is judged by its own MAC address: that of the pod before is stale."""
    entries, _ = judged([IPV4, *LIVE_RULES])
    assert [entry.fate for entry in entries] == ["delete", "conflict", "conflict"]


def test_spellings() -> None:
    """A pod's rule is recognised in every spelling of ebtables, and deleted as it is spelled."""
    rules = [
        f"{ARP} --arpreply-target DROP",
        ARP.replace("ARP ", "0x0806 "),
        IPV4.removesuffix(" --dnat-target ACCEPT").replace("10.1.0.5", "10.1.0.5/32"),
        IPV4.replace("10.1.0.5", "10.1.0.5/255.255.255.255"),
        "PREROUTING -i eth0 -p 0x800 -j dnat --to-dst 2:0:0:0:0:5 --ip-dst 10.1.0.5",
        IPV6.replace("fd00::5", "fd00:0::5/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff").replace(
            "IPv6", "0x86dd"
        ),
    ]
    entries, _ = judged(rules)
    assert [entry.spec for entry in entries] == rules
    assert {entry.fate for entry in entries} == {"delete"}


DEAD_RULES = [
    *pod_rules("10.1.0.6", DEAD),
    *pod_rules("10.1.0.6", OTHER),
    *pod_rules("fd00::5", DEAD),
    *pod_rules("fd00::5", OTHER),
]
_OTHERS = [
    *LOOK_ALIKES,
    *pod_rules("10.1.0.4", DEAD),
    *pod_rules("10.9.0.5", DEAD),
    IPV4.replace("-i eth0", "! -i eth0"),
    IPV4.replace(DEAD, "ff:ff:ff:ff:ff:ff"),
    IPV4.replace(DEAD, f"{DEAD}/ff:ff:ff:0:0:0"),
    IPV4.replace(DEAD, "00:00:00:00:00:00"),
    IPV4.replace(DEAD, "1:0:5e:0:0:5"),
    IPV4.replace(DEAD, DEAD.replace("02", "0A").upper()),
    IPV4.replace("PREROUTING", "AZURE"),
    IPV4.replace("10.1.0.5", "10.1.0.555"),
    f'{ARP} --log-prefix "a b"',
]
_WORDS = st.sampled_from(
    sorted({word for word in " ".join([*LOOK_ALIKES, '" !']).split() if ":" not in word})
)


@st.composite
def changed(draw: st.DrawFn) -> str:
    """A rule of a dead pod in which one word behind the chain was deleted, added or replaced."""
    words = draw(st.sampled_from(DEAD_RULES)).split()
    at = draw(st.integers(1, len(words)))
    removed = draw(st.integers(0, 1))
    added = draw(st.lists(_WORDS, min_size=1 - removed, max_size=1))
    return " ".join([*words[:at], *added, *words[at + removed :]])


@example([*DEAD_RULES, *_OTHERS])
@given(st.lists(st.sampled_from([*DEAD_RULES, *_OTHERS]) | changed(), max_size=20))
def test_any_rules(rules: list[str]) -> None:
    """Exactly the rules that dead pods with managed addresses have are stale."""
    node = Address(ip=as_ip("10.1.0.4"), length=16, dev="azure0")
    entries, _ = judged(rules, addresses=(node,))
    stale = [entry.spec for entry in entries if entry.fate == "delete"]
    assert sorted(stale) == sorted(rule for rule in rules if rule in DEAD_RULES)


def test_what_is_not_azure_vnets() -> None:
    """What azure-vnet does not add, or an undo file could not hold, is left out."""
    macs, others = ("", "00:00:00:00:00:00"), ("azure0-1", "azure")
    neighbours = [attrs.evolve(NEIGHBOUR, mac=mac) for mac in macs]
    neighbours += [attrs.evolve(NEIGHBOUR, dev=dev) for dev in ("eth0", "azure7", *others)]
    dummy = Link(name="azure7", index=7, kind="dummy")
    links = [*LINKS[:3], dummy, *(Link(name=dev, index=8, kind="bridge") for dev in others)]
    other_fields: list[dict[str, Any]] = [
        {"table": 100},
        {"tos": 4},
        {"mtu": 9},
        {"unread": ("encap ip",)},
        {"next_hops": (*BY_BRIDGE.next_hops, *BY_VETH.next_hops)},
        {"protocol": PROTOCOL_DHCP},
        {"protocol": OURS},
    ]
    routes = [
        *(BY_BRIDGE._replace(**fields) for fields in other_fields),
        BY_VETH,
        Route.to("10.1.0.0/24", dev="azure0"),
        Route.to("10.1.0.5/32", dev="azure0", gateway="10.1.0.1"),
        Route.to("10.1.0.5/32", dev="azure9"),
        Route.to("10.1.0.5/32", type="blackhole"),
    ]
    assert judged(links=links, neighbours=neighbours, routes=routes)[0] == ()
    routes = [BY_DOWN, *(BY_BRIDGE._replace(protocol=protocol) for protocol in (0, 2, 3, 4))]
    assert len(judged(routes=routes)[0]) == 5


TRUNCATED = state("azv1", "10.1.0.5")[:-9]
FINDINGS: dict[str, tuple[dict[str, Any], str]] = {
    "state file": ({"state": TRUNCATED}, "azure-vnet error /var/run/azure-vnet.json"),
    "a thousand": ({"rules": [ARP] * 1000}, ""),
    "too many": ({"rules": [ARP] * 1001}, "azure-vnet error azureVnetCleanup.managed"),
    "many that are kept": ({"rules": [ETH7] * 1001}, ""),
    "it lists another pod": ({"rules": [ARP], "state": state("azv8", "10.1.0.6")}, ""),
    "it lists a pod that is alive": ({"rules": LIVE_RULES, "state": state("azv8", "10.1.0.5")}, ""),
    "no ebtables": ({"rules": None}, "requirement error ebtables"),
    "no ebtables and no bridge of azure-vnet": ({"rules": None, "links": OF_CNI0}, ""),
    "it lists a stale pod": (
        {"rules": [ARP], "state": state("azv8", "10.1.0.5")},
        "azure-vnet warning /var/run/azure-vnet.json",
    ),
    "it lists a pod that has only a stale neighbour": (
        {"neighbours": [NEIGHBOUR], "state": state("azv8", "10.1.0.5")},
        "",
    ),
    "dry run": ({"dry_run": True}, "azure-vnet note azureVnetCleanup.dryRun"),
}


@pytest.mark.parametrize(("facts", "wanted"), FINDINGS.values(), ids=FINDINGS)
def test_findings(facts: dict[str, Any], wanted: str) -> None:
    _, findings = judged(**facts)
    told = [f"{finding.name} {finding.severity} {finding.target}" for finding in findings]
    assert " ".join(told) == wanted
    assert all(finding.remedy for finding in findings if finding.severity == "warning")


AZURE, CILIUM = (
    '{"name": "azure", "plugins": [{"type": "azure-vnet"}, {"type": "portmap"}]}',
    '{"type": "cilium-cni"}',
)


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({}, ""),
        ({"05-azure.conflist.bak": AZURE, "10.json": AZURE}, "10.json"),
        ({"05-cilium.conf": CILIUM, "10-azure.conflist": AZURE}, "10-azure.conflist"),
        ({"05.conf": '{"Type": "azure-vnet"}', "10.conf": CILIUM}, "05.conf"),
        ({"05.conf": '{"type": "a", "ipam": {"type": "azure-vnet-ipam"}}'}, ""),
        ({"00.conf": json.dumps({"type": "multus", "config": AZURE})}, "00.conf"),
        ({"05.conf": "", "10.conflist": "[" * 20_000}, ""),
    ],
)
def test_whether_azure_vnet_may_be_active(files: dict[str, str], wanted: str) -> None:
    """Any file that a runtime reads can make it so, also by a text in its document."""
    texts = {f"{FOLDER}/{name}": text for name, text in files.items()}
    leads_nowhere = {f"{FOLDER}/00-cni.conf": "/opt/cni.conf"}
    host = FakeFiles(texts, links=leads_nowhere)
    assert active_file(host).removeprefix(f"{FOLDER}/") == wanted
