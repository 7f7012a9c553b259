"""hostrouting.check.judge: packets that a rule selects by something other than their destination.
Each row is an opinion that was wrong once, on a host that no file of tests/hosts describes.

In most rows, the rule sends them by InfiniBand, which is wrong for packets that may be this host's
own.
"""

from functools import partial
from typing import Any

import pytest

from hostrouting.fib.engine import FROM_HOST, Fib, PacketKind
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import TABLE_MAIN, NextHop, Route, RouteType
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Link, Snapshot
from tests.support.topologies import (
    CALI1,
    CNI0,
    ELSEWHERE,
    ETH1,
    IB0,
    WG1,
    address,
    checked,
    rule,
    vm_with,
)

CIDR = "172.16.0.0/16"
UID_1000 = (("uidrange", "1000-1999"),)
ROOT_ONLY = (("uidrange", "0-0"),)
BY_IB0 = (("oif", "ib0"),)
BY_ETH0 = (("oif", "eth0"),)
node = partial(vm_with, links=(IB0,))
"""A plain VM with these things."""


def test_one_route_for_plain_and_for_marked_packets() -> None:
    """A network that is made this host's own is an escape for plain packets, and right for marked
    ones, which a proxy takes in. Kills: one opinion on a route, whatever the packets are.
    """
    own = Route.to(CIDR, dev="lo", type="local", table=100)
    to_own = (rule(fwmark=1, fwmask=1), rule(dst=CIDR, priority=200))
    report = checked(node(own, rules=to_own))
    assert [(escape.kind, escape.packet) for escape in report.escapes] == [("own-range", FROM_HOST)]
    assert report.doubts == ()


@pytest.mark.parametrize(
    ("others", "verdict"), [((), "ok"), (UID_1000, "undecided")], ids=["a mark", "and a user"]
)
def test_a_proxy_takes_in_what_a_mark_alone_selects(
    others: tuple[tuple[str, str], ...], verdict: str
) -> None:
    """A mark says whose packets these are, if the rule selects by nothing else."""
    own = Route.to("0.0.0.0/0", dev="lo", type="local", table=100)
    marked = rule(fwmark=1, fwmask=1, others=others)
    assert checked(node(own, rules=(marked,))).verdict == verdict


@pytest.mark.parametrize(
    ("intended", "verdict"),
    [
        pytest.param([], "undecided", id="none"),
        pytest.param(["fwmark 0x1/0x1"], "ok", id="this one"),
        pytest.param(["fwmark 0x2/0x2"], "undecided", id="another one"),
    ],
)
def test_a_rule_that_is_intended(intended: list[str], verdict: str) -> None:
    """`intendedRules` names each rule by its selectors, and says nothing about others."""
    host = node(ELSEWHERE, rules=(rule(fwmark=1, fwmask=1),))
    assert checked(host, intended_rules=intended).verdict == verdict


BY_CARD = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=200)
BY_RAIL = BY_CARD._replace(next_hops=(NextHop("ib0", gateway=as_ip("10.0.0.1")),))


@pytest.mark.parametrize(
    ("marked", "verdict"),
    [
        pytest.param([BY_CARD], "ok", id="by the card"),
        pytest.param([BY_CARD, BY_RAIL], "undecided", id="or by an equal route"),
        pytest.param(
            [BY_CARD._replace(next_hops=BY_CARD.next_hops + BY_RAIL.next_hops)],
            "undecided",
            id="or by another next hop",
        ),
    ],
)
def test_a_vpn_marks_its_own_packets(marked: list[Route], verdict: str) -> None:
    """They leave by the card below the tunnel, and by no other device."""
    by_tunnel = Route.to("0.0.0.0/0", dev="wg1", table=100)
    of_tunnel = rule(fwmark=1, fwmask=1, priority=200, table=200)
    of_others = rule(fwmark=1, fwmask=1, invert=True, priority=201)
    host = node(by_tunnel, *marked, rules=(of_tunnel, of_others), links=(WG1, IB0))
    assert checked(host, expected_devs=["wg1"]).verdict == verdict


class TestSockets:
    """Packets of a user, of a port, with a mark or bound to a device: nobody can know which these
    are.
    """

    @pytest.mark.parametrize("iif", [None, "lo"])
    @pytest.mark.parametrize(
        "selectors",
        [
            pytest.param({"fwmark": 1, "fwmask": 1}, id="mark"),
            pytest.param({"fwmark": 1, "fwmask": 1, "action": "prohibit"}, id="mark, refused"),
            pytest.param({"others": UID_1000}, id="user"),
            pytest.param({"others": (("ipproto", "tcp"), ("dport", "443"))}, id="port"),
            pytest.param({"others": BY_ETH0, "action": "prohibit"}, id="bound and refused"),
            pytest.param({"src": "10.0.0.4/32", "others": UID_1000}, id="own source, user"),
        ],
    )
    def test_some_sockets_that_may_be_led_elsewhere(
        self, iif: str | None, selectors: dict[str, Any]
    ) -> None:
        """With `iif lo`, a rule is not about forwarded packets either."""
        assert checked(node(ELSEWHERE, rules=(rule(iif=iif, **selectors),))).verdict == "undecided"

    @pytest.mark.parametrize("iif", [None, "lo"])
    @pytest.mark.parametrize(
        "selectors",
        [
            pytest.param({"others": BY_IB0}, id="bound to ib0"),
            pytest.param({"others": BY_ETH0}, id="bound to eth0"),
            pytest.param({"src": "127.0.0.0/8"}, id="loopback"),
            pytest.param({"src": "10.0.0.4/32", "others": BY_IB0}, id="own source, bound to ib0"),
        ],
    )
    def test_some_sockets_that_leave_rightly(
        self, iif: str | None, selectors: dict[str, Any]
    ) -> None:
        """Those bound to a device pass over routes by others."""
        assert checked(node(ELSEWHERE, rules=(rule(iif=iif, **selectors),))).verdict == "ok"

    def test_packets_of_users_with_any_source_but_some(self) -> None:
        """A `not from` whose block is no own address is about the host's packets, where another
        rule decides the plain ones.
        """
        of_root = rule(priority=90, table=TABLE_MAIN, others=ROOT_ONLY)
        of_others = rule("10.244.0.0/16", invert=True)
        assert checked(node(ELSEWHERE, rules=(of_root, of_others))).verdict == "undecided"


class TestForwarded:
    """The first rule is for what this host sends, to table main. What it forwards goes on to the
    rules behind.
    """

    SENT = rule(priority=90, table=TABLE_MAIN, iif="lo")
    BY_IB0 = rule(iif="cni0")
    """Leads packets of pods by InfiniBand."""

    def verdict_with(self, *rules: Rule) -> str:
        """The verdict on a host with these rules behind, and a bridge of pods."""
        bridge = address("10.244.0.1/24", "cni0")
        to_pods = Route.to("10.244.0.0/24", dev="cni0")
        rules = (self.SENT, *rules)
        links = (IB0, CNI0)
        host = node(ELSEWHERE, to_pods, rules=rules, links=links, addresses=(bridge,))
        return checked(host).verdict

    @pytest.mark.parametrize(
        "selectors",
        [
            pytest.param({"iif": "cni0"}, id="a CNI's device"),
            pytest.param({"iif": "cni0", "fwmark": 1, "fwmask": 1}, id="with a mark"),
            pytest.param({"iif": "lo", "invert": True}, id="all that is forwarded"),
            pytest.param({"iif": "eth0", "invert": True}, id="from elsewhere"),
            pytest.param({"fwmark": 1, "fwmask": 1}, id="a mark"),
            pytest.param({"src": "10.244.0.0/24"}, id="a network of pods"),
            pytest.param({"src": "10.0.0.4/32", "invert": True}, id="all sources but one"),
        ],
    )
    def test_a_rule_that_may_select_packets_of_pods(self, selectors: dict[str, Any]) -> None:
        """Nobody can know which."""
        assert self.verdict_with(rule(**selectors)) == "undecided"

    @pytest.mark.parametrize("iif", [None, "cni0"], ids=["of all", "of the device"])
    def test_a_rule_behind_one_for_the_same_packets(self, iif: str | None) -> None:
        """No packets of pods are left for it."""
        to_main = rule(priority=95, table=TABLE_MAIN, iif=iif)
        assert self.verdict_with(to_main, self.BY_IB0) == "ok"

    def test_two_rules_for_what_this_host_sends(self) -> None:
        """The second one takes nothing from pods either."""
        again = self.SENT._replace(priority=93)
        for_all = rule(priority=95, table=TABLE_MAIN)
        assert self.verdict_with(again, self.BY_IB0) == "undecided"
        assert self.verdict_with(again, for_all, self.BY_IB0) == "ok"


class TestMarks:
    """The packets of a VPN have a mark, and leave as if there were no VPN."""

    NOT_MARKED = rule(fwmark=1, fwmask=1, invert=True)
    BY_VPN = Route.to("0.0.0.0/0", dev="wg1", table=100)

    def with_a_table(self, *routes: Route) -> Snapshot:
        """A host whose marked packets have a table of their own, with a default route by the card
        that the tunnel hides.
        """
        marked = rule(priority=90, table=200, fwmark=1, fwmask=1)
        rules = (marked, self.NOT_MARKED)
        return node(self.BY_VPN, BY_CARD, *routes, rules=rules, links=(WG1,))

    @pytest.mark.parametrize("pods", [[], ["10.99.0.0/16"]], ids=["no pods", "pods"])
    def test_marked_packets_that_have_a_table(self, pods: list[str]) -> None:
        """They may leave by the card. The packets of pods do not have that mark."""
        report = checked(self.with_a_table(), expected_devs=["wg1"], pod_cidrs=pods)
        assert report.verdict == "ok"

    def test_marked_packets_that_their_table_loses(self) -> None:
        """By the right card, but not delivered."""
        lost = Route.to(CIDR, dev="eth0", type="multicast", table=200)
        assert checked(self.with_a_table(lost), expected_devs=["wg1"]).verdict == "undecided"


class TestSources:
    """Packets with an address of this host leave rightly by the device that has the address."""

    @pytest.mark.parametrize(
        ("devs", "verdict"),
        [(["eth0"], "ok"), (["ib0"], "undecided"), (["eth0", "ib0"], "undecided")],
        ids=["eth0", "ib0", "both"],
    )
    def test_sources_of_several_devices(self, devs: list[str], verdict: str) -> None:
        """If Linux may use any of several devices, packets may leave through another device than
        the one that has their source.
        """
        by_source = ELSEWHERE._replace(next_hops=tuple(map(NextHop, devs)))
        own = (address("10.9.1.4/24", "eth0"), address("10.9.2.4/24", "ib0"))
        host = node(by_source, rules=(rule("10.9.0.0/16"),), addresses=own)
        assert checked(host).verdict == verdict

    @pytest.mark.parametrize(
        ("block", "doubts"),
        [("172.20.1.0/24", []), ("172.20.1.1/32", ["other-packets"])],
        ids=["of the pods", "of the bridge"],
    )
    def test_the_block_of_the_pods_behind_a_bridge(self, block: str, doubts: list[str]) -> None:
        """It holds the address of the bridge, and yet a rule for it is about the pods: podCidrs has
        their packets judged, and no others are in doubt. A rule for that address is about this
        host's own packets.
        """
        own = address("172.20.1.1/24", "cni0")
        host = node(ELSEWHERE, rules=(rule(block),), links=(IB0, CNI0), addresses=(own,))
        report = checked(host, pod_cidrs=["172.20.1.0/24"])
        assert [doubt.name for doubt in report.doubts] == doubts

    @pytest.mark.parametrize("kind", ["local", "broadcast", "multicast", "unicast"])
    @pytest.mark.parametrize(
        "selectors", [{"src": "10.9.0.4/32"}, {"others": BY_IB0}], ids=["source", "bound"]
    )
    def test_the_device_of_a_source_and_the_type_of_its_route(
        self, selectors: dict[str, Any], kind: RouteType
    ) -> None:
        """What is known of packets excuses the device of a route, and no type that keeps or loses
        them.
        """
        way = Route(Prefix.parse(CIDR), (NextHop("ib0"),), type=kind, table=100, protocol=4)
        own = address("10.9.0.4/24", "ib0")
        host = node(way, rules=(rule(**selectors),), addresses=(own,))
        assert checked(host).verdict == ("ok" if kind == "unicast" else "undecided")

    @pytest.mark.parametrize(
        "selectors",
        [{"src": "10.0.0.9/32"}, {"others": BY_ETH0}, {"others": (("uidrange", "5-5"),)}],
        ids=["source", "bound", "user"],
    )
    @pytest.mark.parametrize(("gateway", "verdict"), [(None, "undecided"), ("10.0.0.1", "ok")])
    def test_the_device_of_a_source_and_a_forgotten_gateway(
        self, gateway: str | None, verdict: str, selectors: dict[str, Any]
    ) -> None:
        """By the right device, packets are lost all the same if the link is asked for them."""
        way = Route.to(CIDR, dev="eth0", gateway=gateway, table=100)
        second = address("10.0.0.9/24", "eth0")
        host = node(way, rules=(rule(**selectors),), addresses=(second,))
        assert checked(host).verdict == verdict

    @pytest.mark.parametrize(
        ("route", "verdict"),
        [
            pytest.param(Route.to("10.9.0.0/24", dev="cni0"), "undecided", id="pods here"),
            pytest.param(
                Route.to("10.9.0.0/24", dev="cni0", gateway="10.9.0.1"), "undecided", id="as Cilium"
            ),
            pytest.param(Route.to("10.9.0.0/25", dev="cni0"), "ok", id="beside them"),
            pytest.param(
                Route.to("0.0.0.0/0", dev="cni0", table=100, metric=9), "ok", id="any address"
            ),
        ],
    )
    def test_a_rule_for_a_part_of_the_pods(self, route: Route, verdict: str) -> None:
        """Pods of this node may have addresses in the part. Cilium names an address of its own as
        the gateway to all of them.
        """
        own = address("10.9.0.1/32", "cni0")
        rules = (rule("10.9.0.128/25"),)
        host = node(ELSEWHERE, route, rules=rules, links=(IB0, CNI0), addresses=(own,))
        assert checked(host).verdict == verdict

    def test_a_source_by_which_ipv4_does_not_look_again(self) -> None:
        """Plain packets without a route escape, although a rule for a source of this host has one:
        only IPv6 chooses a source all the same.
        """
        by_source = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=100)
        host = node(Route.to(CIDR, type="throw"), by_source, rules=(rule("10.0.0.4/32"),))
        assert checked(host).verdict == "overlap"

    RAIL = Link(name="rail0", index=20)
    BY_RAIL = Route.to("0.0.0.0/0", dev="rail0", gateway="10.8.0.1", table=100)

    def test_a_rule_for_connections_that_is_intended(self) -> None:
        """An entry of intendedRules is about connections, too, which take the rule or not."""
        host = node(ELSEWHERE, rules=(rule("10.0.0.4/32"),))
        assert str(checked(host)) == (
            "OVERLAP: 172.16.0.0/16, for connections from 10.0.0.4, leaves through ib0 "
            f"[{ELSEWHERE}] by [rule 100: from 10.0.0.4 lookup 100]; expected: eth0"
        )
        assert checked(host, intended_rules=["from 10.0.0.4"]).verdict == "ok"


class TestPods:
    """Of the packets of pods nothing is expected, unless `podCidrs` names them."""

    def test_packets_of_pods_that_no_rule_takes_beside_an_intended_rule(self) -> None:
        """They have no route, and no rule that could be intended."""
        sent = rule(priority=90, table=TABLE_MAIN, iif="lo")
        host = node()._replace(rules=(default_rules(4)[0], sent))
        report = checked(host, pod_cidrs=["10.244.1.0/24"], intended_rules=["iif lo"])
        assert [escape.kind for escape in report.escapes] == ["no-route"]

    def test_packets_of_pods_to_one_of_two_networks(self) -> None:
        """They escape there alone: the rule for the other one leads them where plain ones go."""
        rules = (
            rule("10.244.1.0/24", "172.16.5.0/24", priority=90, table=TABLE_MAIN),
            rule("10.244.1.0/24", "172.16.6.0/24"),
        )
        report = checked(node(ELSEWHERE, rules=rules), pod_cidrs=["10.244.1.0/24"])
        [escape] = report.escapes
        assert [str(prefix) for prefix in escape.prefixes] == ["172.16.6.0/24"]

    def test_packets_of_pods_with_a_mark(self) -> None:
        """For packets of pods, the source and the device of a rule are known; the rest of it can
        still lead elsewhere.
        """
        marked = node(ELSEWHERE, rules=(rule("10.244.0.0/16", fwmark=128, fwmask=128),))
        assert checked(marked, pod_cidrs=["10.244.1.0/24"]).verdict == "undecided"
        assert checked(marked).verdict == "ok"

    @pytest.mark.parametrize("block", ["10.244.1.0/24", "10.244.1.1/32"])
    def test_a_source_of_its_own_on_a_pods_bridge(self, block: str) -> None:
        """A `from` that the host's own address on a CNI's bridge fulfils is about packets of pods,
        and if Linux may write that address into its own, also about these.

        Linux writes that address into packets that leave through a device without one, and looks up
        again with it.
        """
        bridge = address("10.244.1.1/24", "cni0")
        to_pods = Route.to("10.244.1.0/24", dev="cni0")
        host = node(
            ELSEWHERE, to_pods, rules=(rule(block),), links=(CNI0, IB0), addresses=(bridge,)
        )
        assert checked(host).verdict == "undecided"
        without_its_own = host._replace(addresses=(bridge,))
        assert checked(without_its_own).verdict == "overlap"

    @pytest.mark.parametrize(
        ("block", "to_pod", "verdict"),
        [
            pytest.param("10.244.0.0/16", "10.244.1.5/32", "undecided", id="a pod inside"),
            pytest.param("10.244.0.0/16", "10.245.1.5/32", "ok", id="a pod elsewhere"),
            pytest.param("10.244.1.5/32", "10.244.1.5/32", "ok", id="a single pod"),
            pytest.param("10.244.0.0/16", "0.0.0.0/1", "ok", id="half of all addresses"),
        ],
    )
    def test_a_rule_for_the_sources_of_pods(self, block: str, to_pod: str, verdict: str) -> None:
        """A route by a CNI's device says that a `from` selects packets of pods, also if the CNI has
        no address in the block. A rule for a single pod is its CNI's.
        """
        pod = Route.to(to_pod, dev="cali1")
        host = node(ELSEWHERE, pod, rules=(rule(block),), links=(CALI1, IB0))
        assert checked(host).verdict == verdict

    @pytest.mark.parametrize(
        ("section", "verdict"),
        [
            pytest.param({}, "undecided", id="nobody says which are pods"),
            pytest.param({"pod_cidrs": ["10.244.1.0/24"]}, "ok", id="other pods are named"),
        ],
    )
    def test_a_rule_for_other_sources_on_a_pods_bridge(
        self, section: dict[str, Any], verdict: str
    ) -> None:
        """What arrives on a bridge of pods is a pod's, also with a source that no pod here seems to
        have; unless `podCidrs` says which sources pods have.
        """
        bridge = address("10.244.1.1/24", "cni0")
        rules = (rule("10.99.0.0/16", iif="cni0"),)
        host = node(ELSEWHERE, rules=rules, links=(CNI0, IB0), addresses=(bridge,))
        assert checked(host, **section).verdict == verdict


def test_the_lookups_for_many_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many pods of a second card take twice as many lookups: the CNI of AWS has two rules
    for each, and a node has hundreds.
    """
    lookups: list[int] = []
    outcomes = Fib.outcomes

    def counting(fib: Fib, address: int, packet: PacketKind = FROM_HOST) -> Any:
        lookups.append(address)
        return outcomes(fib, address, packet)

    monkeypatch.setattr(Fib, "outcomes", counting)
    counts: list[int] = []
    for pods in (20, 40):
        lookups.clear()
        host = _node_with_pods_of_a_second_card(pods)
        section = {"allowed_devs": ["eth1"], "pod_cidrs": ["10.0.16.0/22"]}
        assert checked(host, "10.0.0.0/16", **section).verdict == "ok"
        counts.append(len(lookups))
    assert counts[1] < 2.2 * counts[0]


def _node_with_pods_of_a_second_card(pods: int) -> Snapshot:
    """A node as the CNI of AWS makes it; each second address is a pod's."""
    links = [ETH1]
    routes = [Route.to("0.0.0.0/0", dev="eth1", gateway="10.0.0.1", table=2)]
    rules = [rule(priority=1024, fwmark=0x80, fwmask=0x80, table=TABLE_MAIN)]
    for number in range(pods):
        pod = f"10.0.16.{2 * number}/32"
        links.append(Link(f"eni{number}", 20 + number, kind="veth"))
        routes.append(Route.to(pod, dev=f"eni{number}"))
        rules.append(rule(dst=pod, priority=512, table=TABLE_MAIN))
        rules.append(rule(pod, priority=1536, table=2))
    return vm_with(*routes, rules=tuple(rules), links=tuple(links))
