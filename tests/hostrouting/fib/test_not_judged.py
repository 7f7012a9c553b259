"""hostrouting.fib.not_judged: what the engine does not look at makes a verdict undecided, and is
named.
"""

import pytest

from hostrouting.model.prefix import Prefix
from hostrouting.model.route import TABLE_LOCAL, TABLE_MAIN, Route
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
    ("thing", "sentence"),
    [
        (GOTO, "hostrouting does not judge rule 50: from all goto 100"),
        (GROUP, "hostrouting does not judge rule 50: from all lookup main suppress_ifgroup 7"),
        (
            GROUP._replace(invert=True, dst=ELSEWHERE),
            "hostrouting does not judge rule 50: not from all to 10.99.0.0/16 lookup main suppress_ifgroup 7",
        ),
        (
            GOTO._replace(dst=INSIDE),
            "hostrouting does not judge rule 50: from all to 172.16.5.0/24 goto 100",
        ),
        (
            OBJECT,
            "hostrouting does not judge route 172.16.5.0/24 proto unspec nhid 7 (its next hops are not listed)",
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
    ],
)
def test_each_is_named(thing: Rule | Route, sentence: str) -> None:
    """The verdict on a CIDR that such a thing can change is undecided; routes and `to` selectors
    elsewhere do not matter.
    """
    snapshot = vm_with(rules=(thing,)) if isinstance(thing, Rule) else vm_with(thing)
    report = checked(snapshot)
    assert report.verdict == "undecided"
    assert any(sentence in doubt.sentence for doubt in report.families[0].doubts)
    is_inside = (thing.dst if isinstance(thing, Rule) else thing.prefix) == INSIDE
    assert checked(snapshot, str(ELSEWHERE)).verdict == ("ok" if is_inside else "undecided")


@pytest.mark.parametrize("rule", [GOTO, GROUP])
def test_what_is_not_judged_for_marked_packets(rule: Rule) -> None:
    """The rule is named once, as one that sends other packets elsewhere: so it can be intended."""
    marked = rule._replace(fwmark=1, fwmask=0xFF)
    host = vm_with(rules=(marked,))
    [doubt] = checked(host).families[0].doubts
    assert (doubt.name, doubt.sentence.count("goto")) == ("other-packets", int(rule is GOTO))
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


UPLINK = Route.to("::/0", dev="eth0", gateway="fe80::1")
LOST = Route.to("8000::/1", type="blackhole", table=100)
FROM = Route.to("8000::/1", dev="eth0", table=100)._replace(source=Prefix.parse("fd00:16::/124"))
JUMP = Rule(family=6, priority=40, action="goto", target=32766)
FIRST = Rule(family=6, priority=51, table=100)
OF_GROUP = FIRST._replace(suppress_ifgroup=7)
BY_IB0 = Route.to("8000::/1", dev="ib0", table=100)
# Linux passes over the other routes to the prefix of a route with a source, unless that is ::/0. If
# a packet is refused, Linux looks again, with the source that it would have.
MAY_BE_HIDDEN: dict[str, list[Rule | Route]] = {
    "by a route with a source": [FIRST, FROM, LOST],
    "by a longer route with a source": [
        FIRST,
        FROM._replace(prefix=Prefix.parse("8000::/4")),
        LOST,
    ],
    "by a throw with a source": [FIRST, FROM._replace(type="throw", next_hops=()), LOST],
    "in a later table": [FIRST, FROM, LOST._replace(table=TABLE_MAIN)],
    "in a later rule": [FIRST, FROM, FIRST._replace(priority=52, action="blackhole", table=0)],
    "by a goto": [JUMP, FIRST, LOST],
    "by a group of devices": [OF_GROUP, BY_IB0],
}
IS_NOT_HIDDEN: dict[str, list[Rule | Route]] = {
    "the default route has a source": [FIRST, FROM._replace(prefix=Prefix.parse("::/0")), LOST],
    "the route with a source comes later": [FIRST, FROM._replace(table=TABLE_MAIN), LOST],
    "the goto comes later": [JUMP._replace(priority=60), FIRST, LOST],
    "a group suppresses no refusal": [OF_GROUP, LOST],
}


def verdict_of(things: list[Rule | Route], pods: tuple[str, ...]) -> str:
    """The verdict on a host with these rules and routes."""
    rules = [*default_rules(6), *(thing for thing in things if isinstance(thing, Rule))]
    routes = [UPLINK, *(thing for thing in things if isinstance(thing, Route))]
    snapshot = Snapshot(
        links=(Link(name="eth0", index=2), Link(name="ib0", index=3)),
        addresses=(),
        rules=tuple(sorted(rules, key=lambda rule: rule.priority)),
        routes=tuple(routes),
    )
    return checked(snapshot, "8000::/4", pod_cidrs=pods).verdict


PODS = pytest.mark.parametrize("pods", [(), ("fd00:16::/124",), ("fd77::/64",)])


@PODS
@pytest.mark.parametrize("things", MAY_BE_HIDDEN.values(), ids=MAY_BE_HIDDEN)
def test_an_escape_that_may_not_exist_is_none(
    things: list[Rule | Route], pods: tuple[str, ...]
) -> None:
    """Where such a thing comes first, or hides what escapes, the verdict is undecided."""
    assert verdict_of(things, pods) == "undecided"


@PODS
@pytest.mark.parametrize("things", IS_NOT_HIDDEN.values(), ids=IS_NOT_HIDDEN)
def test_an_escape_beside_what_is_not_judged(
    things: list[Rule | Route], pods: tuple[str, ...]
) -> None:
    """Elsewhere, an escape is one."""
    assert verdict_of(things, pods) == "overlap"


def test_a_route_of_table_main_inside_one_of_table_local() -> None:
    """Until a rule is added, Linux has both tables in one. Then it looks up table local first."""
    services = Route.to("172.16.0.0/15", type="local", dev="lo", table=TABLE_LOCAL)
    host = vm_with(services, Route.to("172.16.0.0/17", dev="eth0", gateway="10.0.0.1"))
    [doubt] = checked(host, "172.16.0.0/17").families[0].doubts
    assert "172.16.0.0/17 via 10.0.0.1 dev eth0" in doubt.sentence
    assert "until a rule is added, it comes before a route of table local" in doubt.sentence
    assert checked(host, "172.16.128.0/17").verdict == "overlap"
    for other in (Rule(family=4, priority=50, table=100), Rule(family=4, priority=50, l3mdev=True)):
        rules = (host.rules[0], other, *host.rules[1:])
        assert checked(host._replace(rules=rules), "172.16.0.0/17").verdict == "overlap"
    # Of two routes to one prefix, Linux uses the one of table local in any case.
    alike = vm_with(services, Route.to("172.16.0.0/15", dev="eth0", gateway="10.0.0.1"))
    assert checked(alike, "172.16.0.0/15").families[0].doubts == ()


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
        (UPLINK, first, other),
        ipv6_forwarding=forwarding,
    )
    assert checked(host, "8000::/4").verdict == verdict
