"""hostrouting.fib.not_judged: what the engine does not look at makes a verdict undecided, and is
named.
"""

import pytest

from hostrouting.check.results import CheckReport
from hostrouting.fib.engine import Fib
from hostrouting.fib.not_judged import not_judged
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import SCOPE_HOST, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.testing import plain_vm
from tests.support.topologies import checked, vm_with

ELSEWHERE = Prefix.parse("10.99.0.0/16")
INSIDE = Prefix.parse("172.16.5.0/24")
GOTO = Rule(family=4, priority=50, action="goto", target=100)
GROUP = Rule(family=4, priority=50, table=254, suppress_ifgroup=7)
OBJECT = Route(INSIDE, (), nexthop_id=7)
TOS = Route.to(INSIDE, dev="eth0", gateway="10.0.0.1")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (GOTO, "from all goto 100"),
        (GROUP, "from all lookup main suppress_ifgroup 7"),
        (
            GROUP._replace(invert=True, dst=ELSEWHERE),
            "not from all to 10.99.0.0/16 lookup main suppress_ifgroup 7",
        ),
        (GOTO._replace(dst=INSIDE), "from all to 172.16.5.0/24 goto 100"),
    ],
)
def test_each_rule_is_named(rule: Rule, words: str) -> None:
    """The verdict on a CIDR that such a rule can change is undecided."""
    report = checked(vm_with(rules=(rule,)))
    assert report.verdict == "undecided"
    assert f"hostrouting does not judge rule 50: {words}" in doubts_of(report)


@pytest.mark.parametrize(
    ("route", "words"),
    [
        (
            OBJECT,
            (
                "hostrouting does not judge route 172.16.5.0/24 proto unspec nhid 7 "
                "(its next hops are not listed)"
            ),
        ),
        (TOS._replace(tos=16), "(for packets with tos 0x10)"),
        (
            TOS._replace(unread=("encap ip", "encap bpf")),
            "encap ip encap bpf (an encapsulation that may change ",
        ),
        (
            TOS._replace(unread=("encap 99",)),
            "encap 99 (an encapsulation that may change the destination)",
        ),
        (
            Route.to(INSIDE, dev="eth1")._replace(scope=SCOPE_HOST),
            "(its device has no address, so Linux finds no source for ",
        ),
    ],
)
def test_each_route_is_named(route: Route, words: str) -> None:
    """The verdict on a CIDR in which such a route lies is undecided, and on another one OK."""
    host = vm_with(route)
    report = checked(host)
    assert report.verdict == "undecided"
    assert words in doubts_of(report)
    assert checked(host, str(ELSEWHERE)).verdict == "ok"


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        (GOTO, "undecided"),
        (GROUP, "undecided"),
        (GROUP._replace(invert=True, dst=ELSEWHERE), "undecided"),
        (GROUP._replace(invert=True, dst=INSIDE), "undecided"),
        (GOTO._replace(dst=INSIDE), "ok"),
    ],
)
def test_a_rule_and_another_destination(rule: Rule, verdict: str) -> None:
    """A rule for one destination does not matter elsewhere;
    a rule with `not` may matter anywhere.
    """
    assert checked(vm_with(rules=(rule,)), str(ELSEWHERE)).verdict == verdict


def doubts_of(report: CheckReport) -> str:
    """What is in doubt, as text."""
    return "\n".join(doubt.sentence for doubt in report.families[0].doubts)


@pytest.mark.parametrize("rule", [GOTO, GROUP])
def test_what_is_not_judged_for_marked_packets(rule: Rule) -> None:
    """The rule is named once, as one that sends other packets elsewhere: so it can be intended."""
    marked = rule._replace(fwmark=1, fwmask=0xFF)
    host = vm_with(rules=(marked,))
    [doubt] = checked(host).families[0].doubts
    assert doubt.name == "other-packets"
    assert doubt.sentence.count(str(marked)) == 1
    assert checked(host, intended_rules=["fwmark 0x1/0xff"]).verdict == "ok"


@pytest.mark.parametrize("rule", [GOTO, GROUP])
def test_what_is_not_judged_for_pods(rule: Rule) -> None:
    """A rule that only packets of pods take is named where these are expected."""
    host = vm_with(rules=(rule._replace(src=ELSEWHERE),))
    assert checked(host).verdict == "ok"
    [doubt] = checked(host, pod_cidrs=[str(ELSEWHERE)]).families[0].doubts
    assert doubt.name == "not-judged"


def test_a_default_route_that_is_not_judged() -> None:
    """Without another default route, that is what the verdict names, and not that there is none."""
    snapshot = plain_vm().snapshot()
    rest = [route for route in snapshot.routes if route.prefix.length]
    only = snapshot._replace(routes=(*rest, TOS._replace(prefix=Prefix.parse("0.0.0.0/0"), tos=16)))
    assert checked(only).verdict == "undecided"


DEFAULT = Route.to("::/0", dev="eth0", gateway="fe80::1")


@pytest.mark.parametrize(
    ("forwarding", "metric", "gateway", "verdict"),
    [
        (False, 1024, "fe80::2", "undecided"),
        (None, 1024, "fe80::2", "undecided"),
        (True, 1024, "fe80::2", "ok"),
        (False, 2000, "fe80::2", "ok"),
        (False, 1024, None, "ok"),
    ],
)
def test_equal_ipv6_routes(
    metric: int, gateway: str | None, verdict: str, *, forwarding: bool | None
) -> None:
    """Of routes that several routers advertise, a host that does not forward uses one whose gateway
    answers.
    """
    links = tuple(Link(name=name, index=index) for index, name in enumerate(["eth0", "ib0"]))
    first = Route.to("8000::/4", dev="eth0", gateway=gateway, metric=1024, protocol=9)
    other = Route.to("8000::/4", dev="ib0", gateway="fe80::2", metric=metric, protocol=9)
    host = Snapshot(
        links,
        (),
        default_rules(6),
        (DEFAULT, first, other),
        ipv6_forwarding=forwarding,
    )
    assert checked(host, "8000::/4").verdict == verdict


def test_equal_ipv6_routes_behind_a_better_one() -> None:
    """Linux uses neither of them, so it does not matter which one it would use."""
    better = Route.to("8000::/4", dev="eth0", gateway="fe80::1", metric=512)
    equal = [better._replace(metric=1024), Route.to("8000::/4", dev="ib0", metric=1024)]
    host = Snapshot((), (), default_rules(6), (DEFAULT, better, *equal), ipv6_forwarding=False)
    assert [*not_judged(Fib(host, 6))] == []
