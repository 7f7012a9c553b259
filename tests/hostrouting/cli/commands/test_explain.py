"""`explain`: the page about the way of a packet."""

from pathlib import Path

import attrs
import pytest

from hostrouting.fib.decision import Kind
from hostrouting.fib.packet import ANY
from hostrouting.kernel.base import Answer, RouteRequest
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import NextHop, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeHost, MemoryBackend, cni_node, ecmp_node, h200, plain_vm, vpn_node
from tests.support.cli import say


def test_the_whole_page() -> None:
    """First the way of the packet; then the rules, the route and its owner, the device, ties, and other routes."""
    said = say("explain", "172.16.5.9", kernel=h200())
    assert said.code == 0
    assert said.lines == [
        "172.16.5.9 leaves by ib0, directly to the neighbour; the default route uses eth0",
        "",
        "  RULE                         RESULT",
        "  0: from all lookup local     no match in table local",
        "  32766: from all lookup main  decides: route 172.16.0.0/16",
        "",
        "  route   172.16.0.0/16 dev ib0 proto kernel scope link src 172.16.1.10",
        "  table   main",
        "  owner   the kernel, for the address 172.16.1.10/16 on ib0",
        "  device  ib0: InfiniBand, up",
        "  ties    7 more routes have the same prefix and metric, by ib1, ib2, ib3, ib4, ib5, ib6, ib7; the one listed first wins",
        "",
        "Other routes that match it, but do not decide:",
        "  ROUTE                                                WHY NOT",
        "  default via 10.0.0.1 dev eth0 proto dhcp metric 100  its prefix is shorter",
        "",
        "Holds for every packet to this address that fits the description.",
    ]
    document = say("explain", "172.16.5.9", "--json", kernel=h200()).json
    assert [document[key] for key in ("expected", "rule", "table", "protocol")] == [False, 32766, "main", "kernel"]
    assert document["route"] == "172.16.0.0/16 dev ib0 proto kernel scope link src 172.16.1.10"
    assert document["legs"] == [{"dev": "ib0", "gateway": None, "weight": 1}]
    assert document["links"] == [{"dev": "ib0", "up": True, "carrier": True, "infiniband": True}]
    assert [it["reason"] for it in document["passed"]] == ["tie"] * 7 + ["shorter"]


@pytest.mark.parametrize(
    ("kernel", "address", "answer"),
    [
        (plain_vm(), "8.8.8.8", "8.8.8.8 leaves by eth0 via 10.0.0.1"),
        (plain_vm(), "10.0.0.4", "10.0.0.4 is this host's own address: packets stay on this host"),
        (plain_vm(), "224.0.0.5", "224.0.0.5 is a multicast address"),
        (ecmp_node(), "8.8.8.8", "8.8.8.8 leaves by eth0 or eth1 via 10.0.0.1 or 10.1.0.1"),
        (cni_node(), "10.244.0.7", "10.244.0.7 leaves by cni0, directly to the neighbour; the default route"),
        (MemoryBackend(), "8.8.8.8", "8.8.8.8 has no route: none of the tables that the rules look up has one"),
        (plain_vm(), "2001:db8::1", "2001:db8::1 has no route"),
    ],
)
def test_answers(kernel: MemoryBackend, address: str, answer: str) -> None:
    """The first line is the answer, whatever happens to the packet."""
    said = say("explain", address, kernel=kernel)
    assert said.code == 0
    assert said.lines[0].startswith(answer)


def test_what_is_known_of_the_packet() -> None:
    """A given mark decides; if none is given, the answer says that it does not hold for marked packets."""
    plain = say("explain", "8.8.8.8", kernel=vpn_node())
    assert plain.lines[0].startswith("8.8.8.8 leaves by wg0")
    assert "finds default, but suppresses it" in plain.out
    assert "  packets with fwmark 0xca6c (rule 32764): eth0, by the route default" in plain.lines
    assert (
        say("explain", "8.8.8.8", "--mark", "0xca6c", kernel=vpn_node()).lines[0].startswith("8.8.8.8 leaves by eth0")
    )


def test_a_route_that_only_says_it_is_the_kernels() -> None:
    """The owner is the kernel if an address of the device explains the route; otherwise there is a remark."""
    kernel = h200()
    kernel.ip_route("add", Route.to("172.20.0.0/16", dev="ib3", protocol=2))
    said = say("explain", "172.20.5.9", kernel=kernel)
    assert "  owner   kernel (but no address on ib3 makes the kernel add this route)" in said.lines
    row = next(text for text in say("check", "172.20.0.0/16", kernel=kernel).lines if "172.20.0.0/16  ib3" in text)
    assert "kernel (but no address on ib3 makes the kernel add this route)" in row


def test_default_routes_in_turn() -> None:
    """Default routes that Linux uses in turn are listed as such, and not as a tie."""
    kernel = plain_vm()
    kernel.add_link("eth1")
    kernel.add_address("eth1", "10.1.0.4/24")
    kernel.ip_route("append", Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", metric=100))
    said = say("explain", "8.8.8.8", kernel=kernel)
    assert said.lines[0] == "8.8.8.8 leaves by eth0 or eth1 via 10.0.0.1 or 10.1.0.1"
    assert "1 more default route is used in turn, by eth1" in said.out
    assert "listed first" not in said.out


def test_a_rule_refuses() -> None:
    """A rule that is the answer itself is named."""
    kernel = plain_vm()
    kernel.add_rule(Rule(family=4, priority=100, action="prohibit", dst=None))
    said = say("explain", "8.8.8.8", kernel=kernel)
    assert said.lines[0] == "8.8.8.8 is refused: prohibited"
    assert any(text.startswith("  100: from all prohibit") and "decides: prohibit" in text for text in said.lines)


def test_a_kernel_that_answers_otherwise() -> None:
    """If the kernel answers something else, the output says so, also if that is the answer for packets with a mark."""
    backend, other = h200().reopen(), plain_vm()
    backend.add_rule(Rule(family=4, priority=100, fwmark=1, fwmask=1, table=100))
    backend.ip_route("add", Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=100))
    backend.lookup = other.lookup  # type: ignore[method-assign]  # a kernel that surprises
    said = say("explain", "172.16.5.9", host=FakeHost(backend=lambda: backend))
    assert said.lines[1].startswith("But the kernel itself answers default via 10.0.0.1")


def test_a_kernel_that_lists_the_legs_otherwise() -> None:
    """Linux lists the legs of an IPv6 route from the one that it chose; the answer is the same. Kills: legs in order."""
    legs = [NextHop("eth0", gateway=as_ip("fe80::1")), NextHop("ib0", gateway=as_ip("fe80::2"))]
    kernel = h200(dual_stack=True)
    kernel.ip_route("add", Route(Prefix.parse("fd00:16::/64"), tuple(legs)))
    backend, [answer] = kernel.reopen(), kernel.lookup([as_ip("fd00:16::1")], ANY)
    assert answer.route is not None
    turned = answer._replace(route=attrs.evolve(answer.route, legs=answer.route.legs[::-1]))
    backend.lookup = lambda *_: (turned,)  # type: ignore[method-assign]  # Linux does so by its hash
    assert "But the kernel" not in say("explain", "fd00:16::1", host=FakeHost(backend=lambda: backend)).out


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        (Rule(family=6, priority=100, ipproto=17, table=100), ("unicast", ["ib0"])),
        (Rule(family=6, priority=100, ipproto=17, action="blackhole"), ("blackhole", [])),
        (Rule(family=6, priority=100, ipproto=17, invert=True, action="blackhole"), ("unicast", ["eth0"])),
    ],
    ids=str,
)
def test_a_rule_by_protocol_in_ipv6(rule: Rule, answer: tuple[str, list[str]]) -> None:
    """The kernel is asked about UDP, as the tables are. Kills: an IPv6 request without a protocol."""
    kernel = h200(dual_stack=True)
    kernel.add_rule(rule)
    kernel.ip_route("add", Route.to("fd00:16::/64", dev="ib0", table=100))
    document = say("explain", "fd00:16::1", "--json", kernel=kernel).json
    assert (document["kind"], document["devs"]) == answer
    assert document["surprise"] == ""


def test_a_next_hop_in_a_group_that_a_rule_suppresses() -> None:
    """The packets with the other next hop are named, and no surprise. Kills: the kernel has to name the plain route."""
    kernel = h200(dual_stack=True)
    kernel.add_link(Link(name="eth1", index=0, group=7))
    legs = tuple(NextHop(dev, gateway=as_ip("fe80::1")) for dev in ("eth1", "eth0"))
    wanted = [Route(Prefix.parse("fd00:16::/64"), legs, table=100), Route.to("fd00:16::/64", dev="ib0")]
    assert all(outcome.ok for outcome in kernel.change(RouteRequest("add", route) for route in wanted))
    kernel.add_rule(Rule(family=6, priority=100, table=100, suppress_ifgroup=7))
    said = say("explain", "fd00:16::1", kernel=kernel)
    assert said.lines[0] == "fd00:16::1 leaves by eth0 via fe80::1"
    assert (
        "  packets for which Linux does not choose the next hop via fe80::1 dev eth0: ib0, by the route fd00:16::/64"
        in said.lines
    )
    assert "But the kernel" not in said.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("8.8.8.8/32",), "is not an address; write one address, such as 172.16.5.9"),
        (("8.8.8.8", "--from", "x"), "is not an address; write one address, such as 172.16.5.9"),
        (("8.8.8.8", "--from", "::1"), "--from: '::1' is not an IPv4 address"),
        (("fe80::1%eth0",), "write fe80::1, and --oif eth0"),
    ],
)
def test_bad_addresses(words: tuple[str, ...], told: str) -> None:
    """What is not an address, or no source of a packet to it, gives exit code 2, with what to write."""
    said = say("explain", *words, kernel=plain_vm())
    assert (said.code, told in said.err) == (2, True)


@pytest.mark.parametrize("words", [("--mark", "7"), ("--oif", "eth1")])
def test_the_packet_that_was_asked_for(words: tuple[str, ...]) -> None:
    """The answer is about a packet with this mark or device, not about a plain one."""
    kernel = plain_vm()
    kernel.add_link(Link(name="eth1", index=0))
    kernel.add_rule(Rule(family=4, priority=100, fwmark=7, fwmask=0xFFFFFFFF, table=100))
    for dev, table, metric in (("eth1", 100, 0), ("eth1", 254, 900), ("eth0", 254, 100)):
        kernel.ip_route("add", Route.to("172.16.0.0/16", dev=dev, table=table, metric=metric))
    said = say("explain", "172.16.3.3", *words, kernel=kernel)
    assert said.lines[0].startswith("172.16.3.3 leaves by eth1")


def test_expected_devices_of_a_configuration(tmp_path: Path) -> None:
    """If the configuration names the expected devices, the first line and the JSON go by them."""
    path = tmp_path / "config.json"
    path.write_text('{"routeOverlap": {"expectedDevs": ["eth1"]}}')
    said = say("explain", "172.16.3.3", "--config", str(path), kernel=plain_vm())
    assert said.lines[0] == "172.16.3.3 leaves by eth0 via 10.0.0.1; the configuration expects eth1"
    document = say("explain", "172.16.3.3", "--config", str(path), "--json", kernel=plain_vm()).json
    assert (document["expected"], document["expectedDevs"]) == (False, ["eth1"])


def test_where_nothing_is_expected() -> None:
    """Without a default route of its family, the page does not say where a packet should go."""
    kernel = plain_vm()
    kernel.ip_route("add", Route.to("2001:db8::/32", dev="eth0"))
    said = say("explain", "2001:db8::1", kernel=kernel)
    assert said.lines[0] == "2001:db8::1 leaves by eth0, directly to the neighbour"
    assert "escapes" not in said.out
    assert say("explain", "2001:db8::1", "--json", kernel=kernel).json["expected"] is None


def test_every_way_in_which_a_rule_does_not_decide() -> None:
    """A rule that sends on, jumps, does nothing or is for others says so."""
    kernel = plain_vm()
    for rule in (
        Rule(family=4, priority=1, invert=True, iif="lo", table=100),
        Rule(family=4, priority=2, dst=Prefix.parse("10.0.0.0/8"), table=100),
        Rule(family=4, priority=2, iif="gone", table=100),
        Rule(family=4, priority=2, l3mdev=True),
        Rule(family=4, priority=3, action="nop"),
        Rule(family=4, priority=4, action="goto", target=6),
        Rule(family=4, priority=6, table=100),
    ):
        kernel.add_rule(rule)
    kernel.ip_route("add", Route.to("8.0.0.0/8", table=100, type="throw"))
    shown = say("explain", "8.8.8.8", kernel=kernel).lines[3:12]
    assert [text.split("  ")[-1].strip() for text in shown] == [
        "no match in table local",
        "does not match: the rule is for packets that are not as described",
        "does not match this packet: only to 10.0.0.0/8",
        "does not match this packet: only iif gone",
        "does not match this packet: only in a VRF",
        "does nothing",
        "continues with rule 6",
        "finds throw 8.0.0.0/8: continues with the next rule",
        "decides: route default",
    ]


def test_a_device_that_is_down_or_gone() -> None:
    """The state of the device is part of the answer: no carrier, not there."""
    with plain_vm() as kernel:
        snapshot = kernel.snapshot()
    eth0 = attrs.evolve(snapshot.links[1], carrier=False, master="bond0")
    for links, words in (((eth0,), "eth0: Ethernet, up, no carrier, part of bond0"), ((), "eth0: does not exist")):
        sick = attrs.evolve(snapshot, links=links)
        assert words in say("explain", "8.8.8.8", "--snapshot", "-", stdin=sick.to_json().encode()).out


@pytest.mark.parametrize("option", ["--oif", "--iif"])
def test_a_device_that_is_not_there(option: str) -> None:
    """A device that the host does not have is bad input: the error has its name and the existing ones."""
    said = say("explain", "172.16.5.9", option, "nope", kernel=plain_vm())
    assert (said.code, said.out) == (2, "")
    assert said.err == f"hostrouting: {option}: 'nope' is not a device of this host; the devices are lo and eth0\n"
    assert say("explain", "172.16.5.9", option, "eth0", kernel=plain_vm()).code == 0


COMES_IN = ("--iif", "eth0", "--from", "10.0.0.9")
UNEXPLAINED = "But the kernel itself drops it when it arrives on eth0; the tables do not say why."


def told_by_a_kernel(kind: Kind, *words: str) -> str:
    """The second line of the page if the kernel's answer differs from its tables."""
    kernel = plain_vm()
    backend = kernel.reopen()
    backend.lookup = lambda *_: (Answer(kind, None),)  # type: ignore[method-assign]  # no table says what it answers
    return say("explain", "172.16.5.9", *words, host=FakeHost(kernel=kernel, backend=lambda: backend)).lines[1]


@pytest.mark.parametrize(
    ("kind", "words", "told"),
    [
        ("unreachable", ("--iif", "lo"), "But the kernel itself answers unreachable"),
        ("blackhole", (), "But the kernel itself answers blackhole"),
        ("blackhole", COMES_IN, UNEXPLAINED),
        ("unreachable", COMES_IN, UNEXPLAINED),
        ("blackhole", ("--iif", "eth0"), ""),
    ],
)
def test_a_kernel_that_drops_it(kind: Kind, words: tuple[str, ...], told: str) -> None:
    """For the host's own packet, the kernel's answer is shown; for an arriving one, that it drops it for no known reason.

    The kernel is not asked about an arriving packet without a source: it would refuse the question.
    """
    line = told_by_a_kernel(kind, *words)
    assert (line.startswith(told), bool(line)) == (True, bool(told))


def test_a_port_of_a_bridge() -> None:
    """No IP packet arrives on a port: the answer says that they arrive on the bridge."""
    kernel = plain_vm()
    kernel.add_link(Link(name="cni0", index=0, kind="bridge"))
    kernel.add_link(Link(name="veth1", index=0, master="cni0"))
    kernel.add_address("cni0", "10.244.3.1/24")
    said = say("explain", "172.16.5.5", "--from", "10.244.3.2", "--iif", "veth1", kernel=kernel)
    assert said.lines[1] == "The device veth1 is a port of cni0, so its packets arrive on cni0."


def test_a_pod_block_of_the_host() -> None:
    """If a CNI's route refuses an address that no pod has, the page says that this is right."""
    kernel = cni_node()
    kernel.ip_route("add", Route.to("10.244.8.0/26", type="blackhole", protocol=12))
    said = say("explain", "10.244.8.9", kernel=kernel)
    assert said.lines[0] == "10.244.8.9 is refused: it is in one of this host's own pod blocks, and no pod has it"
    assert say("explain", "10.244.8.9", "--json", kernel=kernel).json["expected"] is True
