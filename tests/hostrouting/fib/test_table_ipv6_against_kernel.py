"""hostrouting.fib in what IPv6 does in its own way, against Linux itself: sources, expiry, preference, gateways.

One namespace has a random table after another; at every address, for packets from several sources, bound to a device
or coming in by one, the engine and the kernel have to name the same route, or the same error.
"""

import json
import time
from collections.abc import Iterator

import attrs
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from hostrouting.fib.decision import Condition, Decision
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import PLAIN, REACHABLE, Flow
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IPV6, ip_at
from hostrouting.model.route import Route
from tests.support.commands import ports
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

DEVS = ("eth0", "ib0")
PREFIXES = [
    "::/0",
    "fd00:16::/64",
    "fd00:16::/120",
    "fd00:16::/124",
    "fd00:16::/125",
    "fd00:16::8/125",
    "fd00:16::1/128",
]
SOURCES = ["", "", "", "fd00:a::/32", "fd00:a::/64", "fd00:a::8/125", "fd00:b::/64", "::/1"]
ADDRESSES = [ip_at(IPV6, (0xFD000016 << 96) + number) for number in (0, 1, 2, 7, 8, 15, 16, 300, 1 << 70)]
# "::" is a source that has not been chosen yet.
FROM = ["::", "fd00:a::1", "fd00:a::9", "fd00:a:0:1::1", "fd00:b::1", "fd00:c::1"]
GATEWAYS = ["fe80::1", "fe80::2"]
# A route with a nexthop object that drops packets.
OBJECT = "object"


@attrs.frozen
class Wish:
    """A route to append; with several next hops it is one of ECMP, and without any it is of a type that has none."""

    type: str
    prefix: str
    source: str
    metric: int
    preference: str
    expires: str
    hops: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str, int]:
        """What several next hops of one route have in common."""
        return self.prefix, self.source, self.metric

    def command(self) -> str:
        """The command that appends it."""
        if self.type == OBJECT:
            return f"route append {self.prefix} nhid 5 metric {self.metric}"
        words = ["route append", self.type, self.prefix, f"from {self.source}" * bool(self.source)]
        words += [f"metric {self.metric} pref {self.preference}", f"expires {self.expires}" * bool(self.expires)]
        # ip reads the words after a "nexthop" as its own.
        words += self.hops if len(self.hops) == 1 else [f"nexthop {hop}" for hop in self.hops]
        return " ".join(words)


BY_GATEWAY = [f"via {gateway} dev {dev}" for gateway in GATEWAYS for dev in DEVS]
HOPS = st.sampled_from(
    [
        *[(f"dev {dev}",) for dev in DEVS],
        *[(hop,) for hop in BY_GATEWAY],
        *[(hop, it) for hop in BY_GATEWAY for it in BY_GATEWAY if hop != it],
    ]
)
COMMON = {
    "prefix": st.sampled_from(PREFIXES),
    "source": st.sampled_from(SOURCES),
    "metric": st.sampled_from([1, 100, 1024]),
    "preference": st.sampled_from(["low", "medium", "medium", "high"]),
    "expires": st.sampled_from(["", "", "", "0", "1000"]),
}
PATHLESS = st.sampled_from(["blackhole", "unreachable", "prohibit", "throw"])
WISHES = st.builds(Wish, type=st.just("unicast"), hops=HOPS, **COMMON)
WISHES = WISHES | WISHES | st.builds(Wish, type=PATHLESS, hops=st.just(()), **COMMON)
# A route with a nexthop object can have no sources.
WISHES = WISHES | st.builds(Wish, type=st.just(OBJECT), hops=st.just(()), **{**COMMON, "source": st.just("")})


def accepted(wishes: list[Wish]) -> list[Wish]:
    """The routes that Linux accepts; next hops of one route with the same preference and the same end.

    Linux refuses a next hop that is there, and after a refused route for a source it does not find the others of its
    prefix for some destinations. It keeps preference and end of each next hop, but lists those of the first; and it does
    not list a route that was added between the next hops of another one with the same key.
    """
    there: dict[object, list[str]] = {}
    first: dict[object, Wish] = {}
    followed = set[object]()
    found: list[Wish] = []
    for wish in wishes:
        hops = wish.hops or ("lo",)
        by_gateway = "via" in hops[0]
        if not set(hops) & set(there.setdefault(wish.key, [])) and not (by_gateway and wish.key in followed):
            there[wish.key] += hops
            followed |= {wish.key} if wish.key in first and not by_gateway else set()
            like = first.setdefault(wish.key, wish) if by_gateway else wish
            found.append(attrs.evolve(wish, preference=like.preference, expires=like.expires))
    return found


FLOWS = st.builds(
    lambda oif, iif: attrs.evolve(PLAIN, ipproto=0, oif=oif, iif=iif or "lo"),
    st.sampled_from(["", "", "eth0", "ib0"]),
    st.just(""),
) | st.builds(lambda iif: attrs.evolve(PLAIN, ipproto=0, iif=iif), st.sampled_from(DEVS))


def for_packet(decision: Decision, failed: set[tuple[str, str]], oif: str) -> Decision:
    """The decision while these gateways, each on its device, are not reachable."""

    def is_true(condition: Condition) -> bool:
        assert all(name == REACHABLE for name, _ in condition.selectors), condition
        reachable = [
            any(tuple(way.split(" dev ")) not in failed for way in legs.split(" or "))
            for _, legs in condition.selectors
        ]
        return all(reachable) is condition.holds

    def is_reached(found: Decision) -> bool:
        ways = [(str(leg.gateway), leg.dev) for leg in found.legs if oif in {"", leg.dev}]
        return not ways or not failed.issuperset(ways)

    # A case leaves out what is true of a plain packet, such as that the gateway of its own route is reachable. So the case
    # with the most conditions is the one that applies.
    found = [(0, decision)]
    for variant in decision.variants:
        if is_reached(variant.decision):
            found += [(len(case), variant.decision) for case in variant.cases if all(map(is_true, case))]
    return max(found, key=lambda it: it[0])[1]


def agree(kind: str, route: Route | None, decision: Decision) -> bool:
    """Whether the kernel's answer is this decision; for ECMP, the kernel names the next hop that it chose."""
    if route is None or decision.route is None:
        return kind == decision.kind
    ours = decision.route
    same = (route.prefix, route.source, route.metric, route.preference, route.type)
    if same != (ours.prefix, ours.source, ours.metric, ours.preference, ours.type):
        return False
    return {(leg.dev, leg.gateway) for leg in route.legs} <= {(leg.dev, leg.gateway) for leg in ours.legs}


def failed_in(kernel: Namespace) -> set[tuple[str, str]]:
    """The gateways that Linux takes for unreachable now, each on its device."""
    entries = json.loads(kernel.ip("-6", "-j", "neigh", "show", "nud", "failed").stdout or "[]")
    return {(entry["dst"], entry["dev"]) for entry in entries}


@pytest.fixture(scope="module")
def kernel() -> Iterator[Namespace]:
    """A namespace with two devices."""
    with private_namespace() as namespace:
        namespace.batch(["link set lo up", *ports(*DEVS)])
        namespace.batch(["nexthop add id 5 blackhole"], family=6)
        # Linux removes expired routes and tries failed gateways now and then; a test must not meet that moment.
        namespace.sysctl("ipv6/route/gc_interval", 3600)
        for dev in DEVS:
            namespace.sysctl(f"ipv6/conf/{dev}/router_probe_interval", 3600)
        namespace.batch([f"address add fd00:99:{at}::4/64 dev {dev} nodad" for at, dev in enumerate(DEVS)])
        yield namespace


def wish(hop: str, prefix: str, *, metric: int = 100, preference: str = "medium") -> Wish:
    """A route by this next hop, or without one by the object."""
    hops = (hop,) if hop else ()
    return Wish("unicast" if hop else OBJECT, prefix, "", metric, preference, "", hops)


@example(
    wishes=[
        wish(BY_GATEWAY[0], PREFIXES[1], preference="high"),
        wish("", PREFIXES[1]),
        wish(BY_GATEWAY[1], PREFIXES[1], metric=1024, preference="high"),
    ],
    forwarding=False,
    failed=set(),
    flows=[attrs.evolve(PLAIN, ipproto=0, oif=oif) for oif in ("", "eth0", "ib0")],
)
@given(
    wishes=st.lists(WISHES, min_size=1, max_size=9),
    forwarding=st.booleans(),
    failed=st.sets(st.tuples(st.sampled_from(GATEWAYS), st.sampled_from(DEVS))),
    flows=st.lists(FLOWS, min_size=3, max_size=3),
)
@settings(max_examples=scaled(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_kernel_agrees(
    kernel: Namespace, *, wishes: list[Wish], forwarding: bool, failed: set[tuple[str, str]], flows: list[Flow]
) -> None:
    """For every address and packet, the engine gives the same route or error as Linux."""
    kernel.sysctl("ipv6/conf/all/forwarding", int(forwarding))
    # `ip route flush` cannot delete a route with such an object; it goes with its object.
    kernel.batch(["nexthop del id 5", "nexthop add id 5 blackhole", "route flush table main"], family=6)
    states = {True: "nud failed", False: "lladdr 02:00:00:00:00:01 nud permanent"}
    neighbours = [f"neigh replace {way} dev {dev} {states[(way, dev) in failed]}" for way in GATEWAYS for dev in DEVS]
    wishes = accepted(wishes)
    kernel.batch([*(it.command() for it in wishes), *neighbours], family=6)
    time.sleep(0.03 * any(it.expires == "0" for it in wishes))  # a kernel's tick, or two, so that it has expired
    with NetlinkBackend(netns=kernel.path) as backend:
        snapshot = backend.snapshot(family=IPV6)
        fib = Fib(snapshot)
        for flow in flows:
            for source in FROM if not flow.oif else FROM[:1]:
                packet = attrs.evolve(flow, source=source)
                answers = backend.lookup(ADDRESSES, packet)
                for address, answer in zip(ADDRESSES, answers, strict=True):
                    decision = for_packet(fib.lookup(address, packet), failed, packet.oif or "")
                    agreed = agree(answer.kind, answer.route, decision)
                    # While there are many neighbours, Linux now and then forgets those that failed.
                    assume(agreed or failed_in(kernel) == failed)
                    assert agreed, (
                        f"{address} {packet}: the kernel says {answer.route or answer.kind}, we say {decision}\n"
                        + "\n".join(map(str, snapshot.routes))
                    )
