"""What a host drops when it arrives, on snapshots; `test_drops_against_kernel` has the same with real packets."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from hostrouting.check.examine import examine_snapshot
from hostrouting.check.report import check_findings
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.finding import Finding
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import TABLE_LOCAL, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Address, Link, Snapshot
from hostrouting.testing import MemoryBackend, plain_vm
from tests.support.cli import say

CIDR = "172.16.0.0/16"


def node(**settings: dict[str, Any]) -> Snapshot:
    """A node with two uplinks, eth0 and eth1; `settings` are those of devices, and devices with settings are added."""
    kernel = plain_vm()
    for name in ["eth1", *(setting for setting in settings if setting not in {"eth0", "eth1"})]:
        kernel.add_link(name)
    kernel.add_address("eth1", "10.1.0.4/24")
    snapshot = kernel.snapshot(family=4)
    links = [attrs.evolve(link, **settings.get(link.name, {})) for link in snapshot.links]
    return attrs.evolve(snapshot, links=tuple(links), family=None)  # a whole host, without IPv6


def told(snapshot: Snapshot, **check: object) -> list[str]:
    """What the check says about dropped packets, in sentences; it does not change the verdict."""
    return [it.sentence for it in dropped(snapshot, **check)]


def found(snapshot: Snapshot, **check: object) -> list[str]:
    """The same in short: what is dropped where and why, and which packets have no replies."""
    of = ("mark", "uid", "boundTo")
    return [
        " ".join(
            [
                it.facts["kind"],
                *it.facts["devs"],
                it.facts["reason"],
                *(str(it.facts[key]) for key in of if it.facts[key]),
            ]
        )
        for it in dropped(snapshot, **check)
    ]


def dropped(snapshot: Snapshot, **check: object) -> list[Finding]:
    """The findings about dropped packets."""
    its = {"expectedCidrs": [CIDR], "expectedDevs": ["eth0", "eth1"], **check}
    checked = examine_snapshot(snapshot, HostRoutingConfig.from_mapping({"routeOverlap": its}))
    findings = [finding for finding in check_findings(checked, mode="WARN") if finding.name == "dropped"]
    # What changes when the CNI starts is a note: warnings are logged.
    assert all(
        finding.severity == ("note" if "every new device" in finding.sentence else "warning") for finding in findings
    )
    return findings


PODS = {"podCidrs": ["10.244.3.0/24"], "podDevs": ["cni0", "lxc*"]}


class TestForwarding:
    """What pods send, and the answers, must be forwarded."""

    def test_on_the_devices_of_pods(self) -> None:
        """Each that exists is named."""
        off = {"forwarding": False}
        [one] = told(node(cni0=off), **PODS)
        assert one == (
            "packets of pods are dropped when they arrive on cni0: cni0 does not forward packets"
            " (net.ipv4.conf.cni0.forwarding is 0)"
        )
        assert found(node(lxc1=off, lxc2=off, lxc3={}), **PODS) == ["sent lxc1 lxc2 forwarding"]

    def test_on_the_expected_devices(self) -> None:
        """There, answers are dropped if pods' packets leave by the device."""
        [sentence] = told(node(cni0={"forwarding": True}, eth0={"forwarding": False}), **PODS)
        assert sentence.startswith("replies to packets of pods are dropped when they arrive on eth0")
        for dev, expected in (("eth1", []), ("eth0", ["replies eth0 forwarding"])):
            assert found(node(cni0={"forwarding": True}, **{dev: {"forwarding": False}}), **PODS) == expected

    def test_before_there_are_pods(self) -> None:
        """Without a device of a pod, the setting of new devices counts."""
        new = attrs.evolve(node(), default_link=Link(name="default", index=0, forwarding=False))
        [sentence] = told(new, **PODS)
        assert sentence.startswith(
            "packets of pods are dropped on every new device of a pod: this host does not forward"
        )
        assert told(attrs.evolve(node(cni0={}), default_link=new.default_link), **PODS) == []
        # A device that only a rule names does not exist yet.
        rules = (*new.rules, Rule(family=4, priority=100, iif="lxc9", table=100))
        assert [sentence] == told(attrs.evolve(new, rules=rules), **PODS)

    @pytest.mark.parametrize(("on", "forced"), [(True, False), (False, False), (False, True), (None, False)])
    def test_of_ipv6(self, *, on: bool | None, forced: bool) -> None:
        """In IPv6 one setting counts for all devices, unless the device forwards in any case."""
        snapshot = node(cni0={"ipv6_force_forwarding": forced}, eth0={"ipv6_force_forwarding": True})
        lines = found(
            attrs.evolve(snapshot, ipv6_forwarding=on),
            expectedCidrs=["fd09::/64"],
            expectedDevs=["eth0"],
            podCidrs=["fd44::/64"],
            podDevs=["cni0"],
        )
        assert lines == (["sent cni0 forwarding"] if on is False and not forced else [])

    def test_without_pods(self) -> None:
        """The host's own packets need no forwarding; and what is not known is not claimed."""
        off = {"forwarding": False}
        assert told(node(cni0=off, eth0=off)) == []
        assert told(node(cni0={}), **PODS) == []


class TestWhatPodsSend:
    """A pod's device with rp_filter takes what it would route back there."""

    @pytest.mark.parametrize(
        ("rp_filter", "words"),
        [(0, None), (1, "its rp_filter is 1"), (2, "its rp_filter is 2, it has no IPv4 address")],
    )
    def test_routes_to_pods_by_another_device(self, rp_filter: int, words: str | None) -> None:
        """As with Cilium, which routes to its pods by cilium_host, but whose pods have a device each."""
        route = Route.to("10.244.3.0/24", dev="cilium_host")
        snapshot = node(cilium_host={}, lxc1={"rp_filter": rp_filter}).with_routes([route])
        assert told(snapshot, **PODS) == [
            f"packets of pods from 10.244.3.0/24 are dropped when they arrive on lxc1: {words}, and the route back to these"
            " pods leaves by cilium_host"
            for _ in ([words] if words else [])
        ]

    def test_a_device_with_an_address(self) -> None:
        """With rp_filter 2, a device with an address takes any source that has a route."""
        route = Route.to("10.244.3.0/24", dev="cilium_host")
        kernel = plain_vm()
        for name in ("cilium_host", "lxc1", "eth1"):
            kernel.add_link(name)
        kernel.add_address("lxc1", "169.254.1.1/32")
        kernel.ip_route("add", route)
        snapshot = kernel.snapshot(family=4)
        links = tuple(attrs.evolve(link, rp_filter=2) for link in snapshot.links)
        assert told(attrs.evolve(snapshot, links=links), **PODS) == []

    def test_a_route_for_each_pod(self) -> None:
        """Each device takes its own pod; that it drops the addresses of others is meant so."""
        routes = [Route.to(f"10.244.3.{number}/32", dev=f"lxc{number}") for number in (1, 2)]
        block = Route.to("10.244.3.0/24", type="blackhole", protocol=12)
        strict = {"rp_filter": 1}
        snapshot = node(lxc1=strict, lxc2=strict, lxc3=strict).with_routes([*routes, block])
        [sentence] = told(snapshot, **PODS)
        assert sentence.endswith(
            "the route back to these pods is [blackhole 10.244.3.0/24 proto bird], which sends nothing"
        )
        assert found(snapshot, **PODS) == ["sent lxc3 strict"]

    def test_a_rule_for_some_pods(self) -> None:
        """The packets of each pod arrive on its own device, whatever class its source is in."""
        routes = [Route.to(f"10.244.3.{pod}/32", dev=dev) for pod, dev in ((1, "lxc1"), (200, "lxc2"))]
        rule = Rule(family=4, priority=100, src=Prefix.parse("10.244.3.0/25"), table=100)
        snapshot = node(lxc1={"rp_filter": 1}, lxc2={"rp_filter": 1}).with_routes(routes)
        assert told(attrs.evolve(snapshot, rules=(*snapshot.rules[:1], rule, *snapshot.rules[1:])), **PODS) == []

    def test_a_device_that_takes_some(self) -> None:
        """A device that takes some of the pods drops the others on purpose; one that takes none is reported."""
        routes = [Route.to("10.244.3.0/25", dev="cilium_host"), Route.to("10.244.3.128/25", type="blackhole")]
        snapshot = node(cilium_host={}, lxc1={"rp_filter": 2}).with_routes(routes)
        assert found(snapshot, **PODS) == ["sent lxc1 no-address"]
        addressed = Address(ip=as_ip("169.254.1.1"), length=32, dev="lxc1")
        assert found(attrs.evolve(snapshot, addresses=(*snapshot.addresses, addressed)), **PODS) == []

    @pytest.mark.parametrize(("own", "expected"), [("10.244.3.0/32", ["sent lxc1 strict"]), ("10.244.3.0/24", [])])
    def test_own_addresses_among_those_of_pods(self, own: str, expected: list[str]) -> None:
        """No pod has an address of this host, so what is dropped because of that is not reported, nor given as the reason."""
        routes = [
            Route.to("10.244.3.0/24", dev="cilium_host"),
            Route.to(own, dev="lxc1", table=TABLE_LOCAL, type="local"),
        ]
        assert found(node(cilium_host={}, lxc1={"rp_filter": 1}).with_routes(routes), **PODS) == expected

    @pytest.mark.parametrize(("iif", "expected"), [("eth0", []), ("lo", ["sent lxc1 strict"])])
    def test_a_rule_for_the_way_back(self, iif: str, expected: list[str]) -> None:
        """Linux looks up the way back as for a reply that arrives where the packet leaves."""
        routes = [Route.to("10.244.3.0/24", dev="cilium_host"), Route.to("10.244.3.0/24", dev="lxc1", table=100)]
        snapshot = node(cilium_host={}, lxc1={"rp_filter": 1}).with_routes(routes)
        rules = (*snapshot.rules, Rule(family=4, priority=100, iif=iif, table=100))
        assert found(attrs.evolve(snapshot, rules=rules), **PODS) == expected

    def test_before_there_are_pods(self) -> None:
        """The setting of new devices counts, once there is a route to pods, and the first such route is named."""
        new = attrs.evolve(node(cilium_host={}), default_link=Link(name="default", index=0, rp_filter=2))
        pods = {**PODS, "podDevs": ["lxc*"]}
        assert told(new, **pods) == []
        halves = [Route.to("10.244.3.0/25", dev="cilium_host"), Route.to("10.244.3.128/25", dev="wg9")]
        assert told(new.with_routes(halves), **pods) == [
            (
                "packets of pods from 10.244.3.0/24 are dropped on every new device of a pod: the rp_filter is 2, it has no IPv4"
                " address, and the route back to these pods leaves by cilium_host"
            )
        ]

    def test_many(self) -> None:
        """Devices with the same reason are one sentence."""
        route = Route.to("10.244.3.0/24", dev="cilium_host")
        both = {f"lxc{number}": {"rp_filter": 1} for number in range(2)}
        [line] = told(node(cilium_host={}, **both).with_routes([route]), **PODS)
        assert "when they arrive on lxc0 or lxc1: their rp_filter is 1" in line
        settings = {f"lxc{number}": {"rp_filter": 1} for number in range(50)}
        [line] = told(node(cilium_host={}, **settings).with_routes([route]), **PODS)
        assert "when they arrive on lxc0, lxc1, lxc2 or 47 more: their rp_filter is 1" in line


class TestReplies:
    """An answer is dropped where the route back, without mark and user, leaves by another device."""

    def test_to_what_leaves_in_turn(self) -> None:
        """Linux takes turns between two default routes of one metric, but a way back has the first one only."""
        second = Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", metric=100, protocol=16)
        strict = {"rp_filter": 1}
        snapshot = node(eth0=strict, eth1=strict).with_routes([second])
        # A rule of the other family tells nothing about users.
        other = Rule(family=6, priority=100, uids=(1000, 1000), table=100)
        in_turn, bound = told(attrs.evolve(snapshot, rules=(*snapshot.rules, other)))
        assert in_turn == (
            "replies from 172.16.0.0/16 to packets that Linux sends by two default routes in turn are dropped when they arrive"
            " on eth1: its rp_filter is 1, and the route back leaves by eth0"
        )
        assert "to packets of sockets that are bound to eth1 are" in bound
        assert told(node(eth0=strict, eth1={"rp_filter": 2}).with_routes([second])) == []

    @pytest.mark.parametrize(
        ("selects", "words"),
        [
            ({"fwmark": 0x10, "fwmask": 0x10}, "packets with mark 0x10"),
            ({"uids": (1000, 1000)}, "packets of user 1000"),
            ({"uids": (0, 0), "invert": True}, "packets of user 1"),
            ({"uids": (1000, 0xFFFFFFFE)}, "packets of user 4294967294"),
            ({"fwmark": 0, "fwmask": 0x10, "invert": True}, "packets with mark 0x10"),
            ({"fwmark": 0x110, "fwmask": 0x10}, "packets with mark 0x10"),
            ({"oif": "eth1"}, "packets of sockets that are bound to eth1"),
        ],
    )
    def test_to_what_a_rule_leads_elsewhere(self, selects: dict[str, Any], words: str) -> None:
        """A rule by mark or user leads packets out by eth1; the answers are looked up without it."""
        wanted = Route.to("172.16.0.0/20", dev="eth1", gateway="10.1.0.1", table=100)
        rule = Rule(family=4, priority=100, table=100, **selects)
        for rp_filter, marked, dropped in ((1, False, True), (2, False, False), (1, True, True)):
            unless = "; a packet filter that marks the replies prevents this" * (marked and "fwmark" in selects)
            settings = {"rp_filter": rp_filter, "src_valid_mark": marked}
            snapshot = node(eth0=settings, eth1=settings).with_routes([wanted])
            ruled = attrs.evolve(snapshot, rules=(*snapshot.rules[:1], rule, *snapshot.rules[1:]))
            # What leaves by a device that is not expected is an escape; its replies are not looked at.
            assert told(ruled, expectedDevs=["eth0"]) == []
            lines = told(ruled)
            assert [line for line in lines if words in line] == [
                f"replies from 172.16.0.0/20 to {words} are dropped when they arrive on eth1: its rp_filter is 1, and"
                f" the route back leaves by eth0{unless}"
                for _ in range(dropped)
            ]

    @pytest.mark.parametrize(("last", "expected"), [(999, ["replies eth0 strict 1000"]), (0xFFFFFFFE, [])])
    def test_to_users_that_a_rule_leaves_out(self, last: int, expected: list[str]) -> None:
        """If a rule is for root, the route back is by that rule, and the answers to others are dropped, if there are any."""
        wanted = Route.to("172.16.0.0/20", dev="eth1", gateway="10.1.0.1", table=100)
        rule = Rule(family=4, priority=100, table=100, uids=(0, last))
        snapshot = node(eth0={"rp_filter": 1}, eth1={"rp_filter": 1}).with_routes([wanted])
        ruled = attrs.evolve(snapshot, rules=(*snapshot.rules[:1], rule, *snapshot.rules[1:]))
        assert found(ruled) == expected

    def test_to_sockets_without_an_address(self) -> None:
        """A socket without an address gets one when its packet is routed; a rule by source routes the reply elsewhere."""
        wanted = Route.to(CIDR, dev="eth1", gateway="10.1.0.1", table=100)
        rule = Rule(family=4, priority=100, table=100, src=Prefix.parse("10.0.0.4/32"))
        snapshot = node(eth0={"rp_filter": 1}).with_routes([wanted])
        [sentence] = told(attrs.evolve(snapshot, rules=(*snapshot.rules[:1], rule, *snapshot.rules[1:])))
        assert "to packets of sockets that are bound to no address are dropped when they arrive on eth0" in sentence

    def test_to_pods(self) -> None:
        """So it is with packets of pods that something marks, unless a rule for their device leads back the same way."""
        wanted = [Route.to(CIDR, dev="eth1", gateway="10.1.0.1", table=100), Route.to("10.244.3.0/24", dev="cni0")]
        rule = Rule(family=4, priority=100, table=100, fwmark=0x10, fwmask=0x10, iif="cni0")
        snapshot = node(eth1={"rp_filter": 1}, cni0={}, tun9={}).with_routes(wanted)
        [sentence] = told(attrs.evolve(snapshot, rules=(*snapshot.rules[:1], rule, *snapshot.rules[1:])), **PODS)
        assert sentence.startswith("replies from 172.16.0.0/16 to packets of pods with mark 0x10 are dropped when")
        marks, to_pods = attrs.evolve(rule, iif=None), Rule(family=4, priority=99, table=101, iif="eth1")
        snapshot = snapshot.with_routes([Route.to("10.244.3.0/24", dev="tun9", table=101)])
        for iif, of_pods in (("tun9", False), ("lo", True)):
            back = Rule(family=4, priority=101, table=100, iif=iif)
            [finding] = dropped(
                attrs.evolve(snapshot, rules=(snapshot.rules[0], to_pods, marks, back, *snapshot.rules[1:])), **PODS
            )
            assert finding.facts["ofPods"] is of_pods


def test_on_the_page(tmp_path: Path) -> None:
    """`check` prints it after its name, and still says OK."""
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(node(cni0={"forwarding": False}).to_json(), encoding="utf-8")
    config = tmp_path / "config.json"
    config.write_text(f'{{"routeOverlap": {{"expectedCidrs": ["{CIDR}"], "podCidrs": ["10.244.3.0/24"]}}}}')
    said = say("check", "--config", str(config), "--snapshot", str(snapshot))
    assert said.code == 0
    assert any(text.startswith("DROPPED: packets of pods are dropped when they arrive on cni0") for text in said.lines)


def test_no_expected_device() -> None:
    """Without a default route, no drop is reported: the check says that no device is expected."""
    kernel = MemoryBackend()
    kernel.add_link(Link(name="cni0", index=0, forwarding=False))
    check = {"expectedCidrs": [CIDR], "podCidrs": ["10.244.3.0/24"]}
    checked = examine_snapshot(kernel.snapshot(), HostRoutingConfig.from_mapping({"routeOverlap": check}))
    assert checked.families[0].dropped == ()
    assert checked.families[0].report.cidrs == (Prefix.parse(CIDR),)
