"""Who sets a mark, as `check` and `explain` tell it."""

import json
from pathlib import Path

import attrs
import pytest

from hostrouting.kernel.marking import Hook, IpsecPolicy, Marking, MarkSetter
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeHost, plain_vm
from tests.support.cli import say

CIDR = "172.16.0.0/16"
ROUTE, NAT, PRE = Hook("route", "output", -150), Hook("nat", "output", -100), Hook("filter", "prerouting", -150)
OWN = MarkSetter("nftables table ip t, chain out, rule with handle 7", "sets 0x10", frozenset({ROUTE}), 0x10)
OTHER = MarkSetter("iptables-nft, table nat", "-A OUTPUT -j MARK --set-xmark 0x20/0x20", frozenset({NAT}), 0x20, 0x20)
RESTORED = MarkSetter(
    "iptables-nft, table mangle", "-A X -j CONNMARK --restore-mark", frozenset({ROUTE, PRE}), 0, 0xFF, 0xFF
)
ANYWHERE, NEAR, BESIDE, FAR = map(Prefix.parse, ("172.0.0.0/8", "172.16.7.0/24", "172.16.8.0/24", "192.168.0.0/16"))
HERE = Prefix.parse("10.0.0.0/24")
FOUND = Marking(
    (OWN, OTHER, RESTORED),
    frozenset({ROUTE, NAT, PRE}),
    (
        IpsecPolicy(HERE, ANYWHERE, "tunnel", "10.9.9.9"),
        IpsecPolicy(HERE, NEAR, "drop", only="proto udp dport 4500"),
        IpsecPolicy(HERE, BESIDE, "transport"),
        IpsecPolicy(HERE, BESIDE, "pass"),
        IpsecPolicy(HERE, FAR, "tunnel", "10.9.9.9"),
    ),
    ("iptables-legacy (cat: Permission denied)",),
)


def host(*rules: Rule, found: Marking = FOUND) -> FakeHost:
    """A host whose rules lead some packets to ib0."""
    kernel = plain_vm()
    kernel.add_link(Link(name="ib0", index=0))
    kernel.add_link(Link(name="veth1", index=0))
    kernel.add_address("ib0", "192.168.7.1/24")
    kernel.ip_route("add", Route.to("0.0.0.0/0", dev="ib0", gateway="192.168.7.9", table=100))
    for rule in rules:
        kernel.add_rule(rule)

    def marking_of(family: int) -> Marking:
        assert family == 4
        return found

    return FakeHost(kernel=kernel, marking_of=marking_of)


def by_mark(priority: int = 100, mark: int = 0x10) -> Rule:
    """A rule by mark."""
    return Rule(family=4, priority=priority, table=100, fwmark=mark, fwmask=mark)


LINES = [
    "Mark 0x10/0x10 (rules 100 and 101) can be set by:",
    "  nftables table ip t, chain out, rule with handle 7: sets 0x10 (for packets of this host)",
    "  iptables-nft, table mangle: -A X -j CONNMARK --restore-mark (for packets that arrive and for packets of this host)",
    "An IPsec policy for packets from 10.0.0.0/24 to 172.0.0.0/8 encapsulates them: they leave by the route to 10.9.9.9.",
    "An IPsec policy for packets from 10.0.0.0/24 to 172.16.7.0/24 (proto udp dport 4500) drops them.",
    "An IPsec policy for packets from 10.0.0.0/24 to 172.16.8.0/24 encrypts them.",
    "An IPsec policy for packets from 10.0.0.0/24 to 172.16.8.0/24 leaves them as they are.",
    "Not looked at: iptables-legacy (cat: Permission denied).",
]


def test_a_check() -> None:
    """The marks that the notes name, each once; rules for other marks are left out."""
    lower, upper = Prefix.parse("172.16.0.0/17").halves()[0], Prefix.parse("172.16.128.0/17")
    parts = [attrs.evolve(by_mark(100 + at), dst=dst) for at, dst in enumerate((lower, upper))]
    said = say("check", CIDR, host=host(*parts))
    assert (said.code, [line for line in said.lines if line in LINES]) == (3, LINES)
    document = say("check", CIDR, "--json", host=host(by_mark())).json
    assert document["marks"] == [
        {
            "mark": "0x10/0x10",
            "rules": [100],
            "setters": [
                {"place": it.place, "text": it.text, "effects": list(FOUND.effects(it))} for it in (OWN, RESTORED)
            ],
        }
    ]
    assert [it["destination"] for it in document["ipsec"]] == [str(it) for it in (ANYWHERE, NEAR, BESIDE, BESIDE)]
    assert document["notLookedAt"] == list(FOUND.unseen)


def test_an_explanation() -> None:
    """The marks that other packets to the address depend on."""
    said = say("explain", "172.16.5.9", host=host(by_mark()))
    expected = [LINES[0].replace("rules 100 and 101", "rule 100"), *LINES[1:]]
    assert [line for line in said.lines if line in expected] == [it for it in expected if "172.16" not in it]
    assert "marks" in say("explain", "172.16.5.9", "--json", host=host(by_mark())).json


def test_nobody() -> None:
    """If no rule sets it, a program still can, on its own sockets."""
    said = say("check", CIDR, host=host(by_mark(mark=0x40), found=Marking((OWN,))))
    own = "A program may set it on its own sockets."
    assert f"No rule of a packet filter sets mark 0x40/0x40 (rule 100). {own}" in said.lines
    assert "Not looked at" not in said.out
    said = say("check", CIDR, host=host(by_mark(mark=0x40), found=Marking(unseen=("nftables (why)",))))
    assert f"Nothing that was looked at sets mark 0x40/0x40 (rule 100). {own}" in said.lines


def test_the_mark_of_a_packet() -> None:
    """For a given mark, the answer says who sets it; a mask of all bits is left out."""
    rule = attrs.evolve(by_mark(), fwmask=0xFFFFFFFF)
    said = say("explain", "172.16.5.9", "--mark", "0x10", host=host(rule))
    assert "Mark 0x10 (rule 100) can be set by:" in said.lines


def test_the_mark_of_answers_that_are_dropped(tmp_path: Path) -> None:
    """A mark matters too if answers to packets with it are dropped, although they leave by an expected device."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"routeOverlap": {"expectedCidrs": [CIDR], "expectedDevs": ["eth0", "ib0"]}}))
    kernel = host(by_mark()).kernel
    links = [attrs.evolve(link, rp_filter=1) for link in kernel.snapshot().links]
    sick = attrs.evolve(kernel.snapshot(), links=tuple(links)).to_json().encode()
    said = say("check", "--config", str(config), "--snapshot", "-", stdin=sick)
    assert "replies from 172.16.0.0/16 to packets with mark 0x10 are dropped when they arrive on ib0" in said.out
    assert "mark 0x10/0x10 (rule 100)" in said.out


@pytest.mark.parametrize("words", [("check", CIDR), ("explain", "172.16.5.9")])
def test_where_no_mark_matters(words: tuple[str, ...]) -> None:
    """The host is not asked if a rule is by something else."""

    def marking_of(family: int) -> Marking:
        raise AssertionError(family)

    by_user = host(Rule(family=4, priority=100, table=100, uids=(1000, 1000)))
    asked = FakeHost(kernel=by_user.kernel, marking_of=marking_of)
    assert "can be set by" not in say(*words, host=asked).out
    assert "marks" not in say(*words, "--json", host=asked).json


@pytest.mark.parametrize("words", [("check", CIDR), ("explain", "172.16.5.9")])
def test_a_snapshot(words: tuple[str, ...]) -> None:
    """A snapshot of another host does not say who sets a mark there, and this host is not asked."""
    snapshot = host(by_mark()).kernel.snapshot().to_json().encode()
    said = say(*words, "--snapshot", "-", stdin=snapshot, host=FakeHost(backend=None))
    assert "Not looked at: packet filters and IPsec policies (a snapshot does not contain them)." in said.lines
