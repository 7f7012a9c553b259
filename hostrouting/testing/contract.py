"""The contract suite of RouteBackend, for any backend: one for a kernel, the fake, or your own.

The suite has a test for each promise of `hostrouting.kernel.base`; a failure is a sentence about
the promise. Subclass the suite in a module that pytest collects, and override `make`::

    class TestMine(BackendContract):
        @contextmanager
        def make(self) -> Iterator[RouteBackend]:
            with MyBackend() as backend:
                yield backend

Each test gets a new backend. It must describe the host of `contract_host`:

- lo, up, with 127.0.0.1/8 and ::1/128;
- eth0, up, an Ethernet device, with 10.0.0.4/24 and 2001:db8::4/64;
- ib0, up, with 172.16.1.10/16;
- idle0, down, without an address;
- br0, up, a bridge, and port0, up, a veth that is a port of br0, both without an IPv4 address;
- dark0, up, without a carrier, with 10.9.0.1/24;
- no device with an XDP program, or with IPv6 turned off, and no forwarding of IPv6;
- the rules that the kernel has itself, and those in `RULES`;
- only the routes that the kernel adds itself.

If a backend does not support something, override the test and skip it.

Not asked, because no change of a backend makes them: the peer of an address, the number of a
nexthop object, and the preference, the sources, the lifetime and the `unread` words of a route. The
suite only finds a backend that invents them.
"""

# In `_equal(is_there, False, "the promise")`, False needs no name: the sentence explains it.
# ruff: noqa: FBT003
from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from hostrouting.errors import BackendError
from hostrouting.kernel.base import Answer, RouteBackend, RouteRequest, Verb, Watch
from hostrouting.model.prefix import IP, Prefix, as_ip
from hostrouting.model.route import OURS, SCOPE_HOST, TABLE_LOCAL, TABLE_MAIN, NextHop, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import ARPHRD_ETHERNET, ARPHRD_LOOPBACK, Link, Snapshot
from hostrouting.testing.kernel import FakeKernel
from phases import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from contextlib import AbstractContextManager

__all__ = ["ADDRESSES", "RULES", "BackendContract", "contract_host"]

ADDRESSES = (
    ("eth0", "10.0.0.4/24"),
    ("eth0", "2001:db8::4/64"),
    ("ib0", "172.16.1.10/16"),
    ("dark0", "10.9.0.1/24"),
)
"""The addresses of the host that the suite requires, beside those of lo."""
RULES = (
    Rule(
        family=4,
        priority=100,
        table=2000,
        invert=True,
        src=Prefix.parse("198.51.100.0/24"),
        dst=Prefix.parse("203.0.113.128/25"),
        iif="ib0",
        fwmark=0x1,
        fwmask=0xFF,
        suppress_prefixlength=0,
    ),
    Rule(
        family=4,
        priority=101,
        table=2000,
        others=(("uidrange", "1000-1999"), ("ipproto", "tcp"), ("dport", "443")),
    ),
    Rule(family=4, priority=102, action="prohibit", dst=Prefix.parse("203.0.113.64/26")),
    Rule(family=4, priority=103, action="goto", target=32766, fwmark=0x2, fwmask=0xFFFFFFFF),
    Rule(
        family=6,
        priority=100,
        table=2006,
        src=Prefix.parse("2001:db8:7::/48"),
        others=(("oif", "ib0"),),
        suppress_ifgroup=7,
    ),
)
"""The rules of that host, beside the kernel's own. Only the one that prohibits decides for plain
packets: the goto is for a mark, and the tables of the others are empty.
"""

_LINKS: dict[str, dict[str, object]] = {
    "lo": {"up": True, "kind": "", "type": ARPHRD_LOOPBACK, "master": None},
    "eth0": {"up": True, "type": ARPHRD_ETHERNET, "master": None},
    "ib0": {"up": True, "master": None},
    "idle0": {"up": False},
    "br0": {"up": True, "kind": "bridge", "type": ARPHRD_ETHERNET, "master": None},
    "port0": {"up": True, "kind": "veth", "type": ARPHRD_ETHERNET, "master": "br0"},
    "dark0": {"up": True},
}
"""Fields of each device of that host."""
_OF_ALL_LINKS = {"xdp": False, "ipv6_disabled": False, "ignores_ra": False}
"""Fields that are the same for all of them."""
_ALL_ADDRESSES = {
    ("lo", "127.0.0.1/8", SCOPE_HOST, None),
    ("lo", "::1/128", SCOPE_HOST, None),
    *((dev, interface, 0, None) for dev, interface in ADDRESSES),
}
"""Its addresses, with their devices, scopes and peers."""
_KERNELS_ROUTES = {
    ("10.0.0.0/24", TABLE_MAIN, "unicast"),
    ("10.0.0.4/32", TABLE_LOCAL, "local"),
    ("10.0.0.255/32", TABLE_LOCAL, "broadcast"),
    ("2001:db8::/64", TABLE_MAIN, "unicast"),
    ("2001:db8::4/128", TABLE_LOCAL, "local"),
}
"""Routes that the kernel adds for the addresses of eth0."""
_COLLECTIONS = (list, set, frozenset, tuple)
_ATTEMPTS = 99
"""A test asks this often whether the host is quiet, and then fails: a new host may still change,
and a watch may report one change in several parts.
"""
_TWO_HOPS = (
    NextHop("eth0", gateway=as_ip("10.0.0.1"), weight=2),
    NextHop("ib0", gateway=as_ip("172.16.0.1")),
)
"""The next hops of a route of ours by two devices."""
_THEIRS = 4
"""The route protocol of another program's routes: `static`."""


def contract_host() -> FakeKernel:
    """The host that the suite requires, as a fake kernel."""
    kernel = FakeKernel()
    kernel.set_up("lo")
    kernel.add_link("eth0")
    kernel.add_link("ib0")
    kernel.add_link("idle0", up=False)
    kernel.add_link(Link(name="br0", index=0, kind="bridge"))
    kernel.add_link(Link(name="port0", index=0, kind="veth", master="br0"))
    kernel.add_link("dark0")
    for dev, interface in ADDRESSES:
        kernel.add_address(dev, interface)
    kernel.lose_carrier("dark0")
    for rule in RULES:
        kernel.add_rule(rule)
    return kernel


def _equal(seen: object, promised: object, promise: str) -> None:
    """Fail with the promise, and what differs from it."""
    if seen == promised:
        return
    difference = f"seen: {seen}; promised: {promised}"
    if isinstance(seen, _COLLECTIONS) and isinstance(promised, _COLLECTIONS):
        difference = _difference(seen, promised)
    raise AssertionError(f"{promise}; {difference}")


def _has_all(seen: Collection[object], required: Collection[object], promise: str) -> None:
    """Fail with the promise, and what is missing."""
    missing = [value for value in required if value not in seen]
    if missing:
        raise AssertionError(f"{promise}; missing: {_listed(missing)}")


def _difference(seen: Collection[object], promised: Collection[object]) -> str:
    """What differs in two collections: routes and rules as `ip` prints them, and the fields of two
    that print alike.
    """
    missing = [value for value in promised if value not in seen]
    unexpected = [value for value in seen if value not in promised]
    if not missing and not unexpected:
        return f"seen in this order: {_listed(seen)}; promised: {_listed(promised)}"
    parts: list[str] = []
    for value in tuple(missing):
        for other in tuple(unexpected):
            fields = _differing_fields(other, value)
            if str(other) == str(value) and fields:
                parts.append(f"{value}: {fields}")
                missing.remove(value)
                unexpected.remove(other)
                break
    if missing:
        parts.append(f"missing: {_listed(missing)}")
    if unexpected:
        parts.append(f"not promised: {_listed(unexpected)}")
    return "; ".join(parts)


def _differing_fields(seen: Any, promised: Any) -> str:
    fields: list[str] = []
    for name in getattr(promised, "_fields", ()):
        value, other = getattr(promised, name), getattr(seen, name, None)
        if value != other:
            fields.append(f"{name} is {other}, not {value}")
    return ", ".join(fields)


def _listed(values: Iterable[object]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _equal_snapshots(seen: Snapshot, promised: Snapshot, promise: str) -> None:
    """Fail with the promise, and the first field that differs."""
    for name in Snapshot._fields:
        _equal(getattr(seen, name), getattr(promised, name), f"{promise} ({name})")


def _ours(
    prefix: str, *, gateway: str | None = "10.0.0.1", dev: str = "eth0", metric: int = 0
) -> Route:
    return Route.to(prefix, dev=dev, gateway=gateway, metric=metric, protocol=OURS)


def _ipv6_route(*, gateway: str = "2001:db8::1", metric: int = 1024, protocol: int = OURS) -> Route:
    """A route of ours, with the kernel's default metric, unless another one is given."""
    return Route.to(
        "2001:db8:1::/64", dev="eth0", gateway=gateway, metric=metric, protocol=protocol
    )


def _three_routes() -> tuple[Route, Route, Route]:
    """Routes to one prefix, each with one next hop: another program's, one of ours, and one of ours
    without a gateway.
    """
    ours = _ipv6_route(gateway="2001:db8::2")
    return _ipv6_route(protocol=_THEIRS), ours, ours._replace(next_hops=(NextHop("eth0"),))


def _refusal_of(backend: RouteBackend, verb: Verb, route: Route) -> str | None:
    """The kind of the refusal; None if the change was made."""
    [outcome] = backend.change([RouteRequest(verb, route)])
    return None if outcome.error is None else outcome.error.kind


def _accepts(backend: RouteBackend, verb: Verb, route: Route, promise: str) -> None:
    _equal(_refusal_of(backend, verb, route), None, promise)


def _refuses(backend: RouteBackend, verb: Verb, route: Route, kind: str, promise: str) -> None:
    _equal(_refusal_of(backend, verb, route), kind, promise)


def _add(backend: RouteBackend, *routes: Route) -> None:
    for route in routes:
        _accepts(
            backend, "add", route, f"`add` adds {route} if nothing holds its destination and metric"
        )


def _with_onlink(route: Route) -> Route:
    return route._replace(next_hops=tuple(hop._replace(onlink=True) for hop in route.next_hops))


def _await_silence(watch: Watch) -> None:
    """Wait until nothing is reported any more: a change may be reported in several parts."""
    for _ in range(_ATTEMPTS):
        if not watch.wait(0):
            return
    raise AssertionError("`wait` is False while nothing changes")


def _routes_to(backend: RouteBackend, prefix: Prefix) -> list[Route]:
    return [route for route in backend.snapshot().routes if route.prefix == prefix]


def _installed(backend: RouteBackend) -> list[Route]:
    """The routes that a test has added: its own, and those of another program."""
    return [route for route in backend.snapshot().routes if route.protocol in {OURS, _THEIRS}]


class BackendContract:
    """The suite as a base class: subclass it, and override `make`."""

    patience = 60.0
    """Seconds for what another thread does: what has not come by then never comes."""

    def make(self) -> AbstractContextManager[RouteBackend]:
        """Create a backend for the host that this module describes, and close it at the end of the
        `with` block.
        """
        # Not an abstract method: pytest passes over an abstract class without a word.
        raise NotImplementedError("override make() so that it yields your backend")

    # snapshot

    def test_snapshot_has_the_devices(self) -> None:
        """A snapshot has each device, with its state, kind, type and master, and its own number."""
        with self.make() as backend:
            snapshot = backend.snapshot()
        links = {link.name: link for link in snapshot.links}
        _has_all(links, _LINKS, "a snapshot has each device")
        for name, fields in _LINKS.items():
            for field, value in {**_OF_ALL_LINKS, **fields}.items():
                promise = f"a snapshot has the {field} of each device: {name}"
                _equal(getattr(links[name], field), value, promise)
        indexes = [link.index for link in snapshot.links]
        promise = "each device has a number of its own, and they are listed in that order"
        _equal(indexes, sorted(set(indexes)), promise)

    def test_snapshot_of_a_quiet_host(self) -> None:
        """A snapshot is not restless if nothing changed; a new host may still change."""
        with self.make() as backend:
            is_restless = all(backend.snapshot().restless for _ in range(_ATTEMPTS))
        _equal(is_restless, False, "a snapshot is not restless if nothing changed")

    def test_snapshot_has_the_addresses(self) -> None:
        """A snapshot has each address, and the routes that the kernel adds for it."""
        with self.make() as backend:
            snapshot = backend.snapshot()
        index_of = {link.name: link.index for link in snapshot.links}
        addresses: set[tuple[str, str, int, IP | None]] = set()
        indexes: dict[int, list[int]] = {4: [], 6: []}
        for address in snapshot.addresses:
            interface = f"{address.ip}/{address.length}"
            addresses.add((address.dev, interface, address.scope, address.peer))
            indexes[address.ip.version].append(index_of.get(address.dev, 0))
        _has_all(addresses, _ALL_ADDRESSES, "a snapshot has each address with its device and scope")
        promise = "the addresses of a family are in the order of the numbers of devices"
        for of_family in indexes.values():
            _equal(of_family, sorted(of_family), promise)
        routes: set[tuple[str, int, str]] = set()
        for route in snapshot.routes:
            if route.devs == ("eth0",):
                routes.add((str(route.prefix), route.table, route.type))
        promise = "a snapshot has the routes that the kernel adds for an address"
        _has_all(routes, _KERNELS_ROUTES, promise)

    def test_snapshot_has_the_rules(self) -> None:
        """A snapshot has the rules by priority, those of IPv4 first, with all selectors."""
        promised: list[Rule] = []
        for family in (4, 6):
            added = [rule for rule in RULES if rule.family == family]
            promised += sorted((*default_rules(family), *added), key=lambda rule: rule.priority)
        with self.make() as backend:
            snapshot = backend.snapshot()
        promise = "a snapshot has the rules of IPv4 first, by priority, with all selectors"
        _equal(snapshot.rules, tuple(promised), promise)

    def test_snapshot_says_whether_ipv6_is_forwarded(self) -> None:
        """A snapshot says that IPv6 is not forwarded, or None if the backend cannot know it."""
        with self.make() as backend:
            is_forwarded = backend.snapshot().ipv6_forwarding
        _equal(bool(is_forwarded), False, "a snapshot says whether IPv6 is forwarded")

    def test_snapshot_of_a_family(self) -> None:
        """`family` leaves out what is of the other family, and nothing else."""
        promise = "`family` leaves out what is of the other family, and says so"
        with self.make() as backend:
            _add(backend, _ours("203.0.114.0/24"), _ipv6_route())
            whole = backend.snapshot()
            for family in (4, 6):
                addresses = [each for each in whole.addresses if each.ip.version == family]
                rules = [rule for rule in whole.rules if rule.family == family]
                routes = [route for route in whole.routes if route.prefix.family == family]
                promised = whole._replace(
                    family=family,
                    addresses=tuple(addresses),
                    rules=tuple(rules),
                    routes=tuple(routes),
                )
                _equal_snapshots(backend.snapshot(family=family), promised, promise)

    def test_snapshot_of_reached_tables(self) -> None:
        """`reached` leaves out the tables that no rule looks up, and nothing else. Together with
        `family`, the rules of that family count.
        """
        aside = _ours("198.51.100.0/24")._replace(table=1001)
        by_a_rule_of_ipv6 = aside._replace(table=2006)  # the last one of RULES
        with self.make() as backend:
            _add(backend, _ours("203.0.114.0/24"), _ipv6_route(), aside, by_a_rule_of_ipv6)
            whole = backend.snapshot()
            reached = backend.snapshot(reached=True)
            reached_in_ipv4 = backend.snapshot(reached=True, family=4)
        left_out = set(whole.routes) - set(reached.routes)
        _equal(left_out, {aside}, "`reached` leaves out what no rule looks up")
        is_there = by_a_rule_of_ipv6 in reached_in_ipv4.routes
        _equal(is_there, False, "`reached` leaves out what only rules of the other family look up")
        with_all_routes = reached._replace(routes=whole.routes)
        _equal_snapshots(with_all_routes, whole, "`reached` leaves out nothing but routes")

    def test_snapshot_near_a_prefix(self) -> None:
        """`near` leaves out another program's routes by a gateway that overlap none of the prefixes
        (are far away) and are longer than /1. Of routes that differ only in the first address of
        their prefix, it keeps the first, too.
        """
        theirs = (
            "100.64.2.128/25",  # inside the prefix
            "100.64.0.0/16",  # around the prefix
            "0.0.0.0/0",
            "0.0.0.0/1",
            "128.0.0.0/1",  # far away, but not longer than /1
            "192.0.0.0/12",  # far away, the first of its length
            "192.16.0.0/12",  # far away
        )
        routes = [
            Route.to(text, dev="eth0", gateway="10.0.0.1", protocol=_THEIRS) for text in theirs
        ]
        unreachable = Route.to("203.0.113.0/24", type="unreachable", protocol=_THEIRS)
        with self.make() as backend:
            _add(backend, _ours("203.0.114.0/24"), _ipv6_route(), unreachable, *routes)
            whole = backend.snapshot()
            near = backend.snapshot(near=[Prefix.parse("100.64.2.0/24")])
        left_out = {str(route.prefix) for route in set(whole.routes) - set(near.routes)}
        promise = "`near` leaves out what is far away, except for the first of its kind"
        _equal(left_out, {"192.16.0.0/12"}, promise)

    # change

    def test_add_is_read_back(self) -> None:
        """A route that was added is in the next snapshot: all attributes, and next hops in order
        with their weights.
        """
        routes = [
            Route(Prefix.parse("192.0.3.0/24"), _TWO_HOPS, protocol=OURS),
            _ours("192.0.2.0/24", metric=7)._replace(
                table=100, mtu=1400, advmss=1360, prefsrc=as_ip("10.0.0.4")
            ),
            _ours("192.0.2.0/24")._replace(tos=0x10),
            Route.to("198.51.100.0/24", type="blackhole", protocol=OURS),
            _ours("203.0.113.0/24", gateway=None, dev="ib0"),
            _ipv6_route(),
            _with_onlink(_ours("192.0.4.0/24", gateway="203.0.113.1")),
            _with_onlink(_ipv6_route(gateway="2001:db8:9::1", metric=7)),
        ]
        with self.make() as backend:
            _add(backend, *routes)
            _equal(set(_installed(backend)), set(routes), "a route is read back as it was added")

    def test_an_ipv6_next_hop_keeps_its_weight(self) -> None:
        """An IPv6 next hop keeps its weight, also if it was added alone, and another one joined it
        later.
        """
        first = NextHop("eth0", gateway=as_ip("2001:db8:9::1"), weight=3, onlink=True)
        second = NextHop("eth0", gateway=as_ip("2001:db8:9::2"), weight=7, onlink=True)
        joined = _ipv6_route()._replace(next_hops=(first, second))
        with self.make() as backend:
            _add(backend, joined._replace(next_hops=(first,)))
            promise = "a next hop can have a weight"
            _accepts(backend, "append", joined._replace(next_hops=(second,)), promise)
            promise = "a route that was added is in the next snapshot, with weights"
            _equal(_installed(backend), [joined], promise)

    def test_the_state_of_a_next_hop_is_the_kernels(self) -> None:
        """A snapshot has the state of a next hop, so that a repair can be judged; in a request, it
        is ignored.
        """
        route = _ours("192.0.2.0/24", gateway="10.9.0.2", dev="dark0")
        (hop,) = route.next_hops
        with_dead_hop = route._replace(next_hops=(hop._replace(dead=True),))
        with_linkdown_hop = route._replace(next_hops=(hop._replace(linkdown=True),))
        ignored = "the state of a next hop in a request is ignored"
        with self.make() as backend:
            _accepts(backend, "add", with_dead_hop, ignored)
            promise = "a next hop is linkdown if its device has no carrier"
            _equal(_installed(backend), [with_linkdown_hop], promise)
            _accepts(backend, "delete", with_linkdown_hop, ignored)

    def test_add_refuses_a_key_that_is_held(self) -> None:
        """`add` is refused (exists) if any route has the destination and metric; another metric is
        another place.
        """
        with self.make() as backend:
            _add(backend, _ours("192.0.2.0/24"), _ipv6_route())
            held = [
                _ours("192.0.2.0/24"),
                _ours("192.0.2.0/24", gateway="10.0.0.2"),
                _ours("10.0.0.0/24"),
                _ipv6_route(gateway="2001:db8::2"),
            ]
            promise = "`add` is refused if the destination and metric are held"
            for route in held:
                _refuses(backend, "add", route, "exists", promise)
            _add(backend, _ours("192.0.2.0/24", metric=9), _ipv6_route(metric=9))
            metrics = sorted(route.metric for route in _installed(backend))
            promise = "routes with different metrics stand beside each other"
            _equal(metrics, [0, 9, 9, 1024], promise)

    def test_append_stands_behind_the_holder(self) -> None:
        """`append` adds a route after those with its destination and metric, and is refused
        (exists) if the same route is there.
        """
        with self.make() as backend:
            route = _ours("172.16.0.0/16")
            before = _routes_to(backend, route.prefix)
            _accepts(backend, "append", route, "`append` is refused only if the route is there")
            promise = "`append` puts the route behind the present one, which stays"
            _equal(_routes_to(backend, route.prefix), [*before, route], promise)
            _refuses(
                backend, "append", route, "exists", "`append` is refused if the route is there"
            )

    def test_append_adds_a_next_hop(self) -> None:
        """In IPv6, `append` adds next hops to the route with the same key, whoever added that, and
        is refused (exists) if one of them is there.
        """
        theirs, ours, gatewayless = _three_routes()
        with self.make() as backend:
            for route in (theirs, ours, gatewayless):
                promise = "`append` is not refused, whoever has the next hops"
                _accepts(backend, "append", route, promise)
                promise = "`append` is refused if the next hop is there"
                _refuses(backend, "append", route, "exists", promise)
            further = NextHop("eth0", gateway=as_ip("2001:db8::3"))
            half_there = ours._replace(next_hops=(further, *ours.next_hops))
            promise = "`append` is refused if one of the next hops is there"
            _refuses(backend, "append", half_there, "exists", promise)
            joined = theirs._replace(next_hops=theirs.next_hops + ours.next_hops)
            promise = "next hops with a gateway are listed as one route"
            _equal(_installed(backend), [joined, gatewayless], promise)

    def test_delete_takes_single_next_hops(self) -> None:
        """In IPv6, `delete` deletes each next hop of the request that is there with the protocol of
        the request. If one is not, it is refused (no-such-route), and the others are gone.
        """
        theirs, ours, gatewayless = _three_routes()
        joined = theirs._replace(next_hops=theirs.next_hops + ours.next_hops)
        with self.make() as backend:
            for route in (theirs, ours, gatewayless):
                _accepts(backend, "append", route, "`append` adds a next hop")
            other = theirs._replace(protocol=OURS)
            promise = "`delete` is refused if the protocol differs"
            _refuses(backend, "delete", other, "no-such-route", promise)
            _accepts(backend, "delete", gatewayless, "`delete` deletes the route without a gateway")
            promise = "`delete` leaves the next hops on the same device"
            _equal(_installed(backend), [joined], promise)
            # The hop of ours is there, but not with the protocol of theirs.
            promise = "`delete` is refused if one of the hops is not there"
            _refuses(backend, "delete", joined, "no-such-route", promise)
            _equal(_installed(backend), [ours], "`delete` deletes those that are there")

    def test_delete_takes_what_was_read_back(self) -> None:
        """`delete` deletes a route as a snapshot shows it; it is refused (no-such-route) if there
        is none.
        """
        with self.make() as backend:
            _add(
                backend,
                _ours("192.0.2.0/24"),
                _ipv6_route(),
                Route(Prefix.parse("203.0.113.0/24"), _TWO_HOPS, protocol=OURS),
            )
            for route in _installed(backend):
                promise = f"`delete` deletes what a snapshot shows: {route}"
                _accepts(backend, "delete", route, promise)
                promise = "`delete` of what is gone is refused"
                _refuses(backend, "delete", route, "no-such-route", promise)
            _equal(_installed(backend), [], "what was deleted is gone")

    def test_delete_by_a_metric_or_protocol_of_0(self) -> None:
        """A metric or a protocol of 0 stands for any."""
        routes = [_ours("192.0.2.0/24", metric=7), _ipv6_route()]
        promise = "`delete` takes a metric or a protocol of 0 for any"
        with self.make() as backend:
            _add(backend, *routes)
            for route in routes:
                _accepts(backend, "delete", route._replace(metric=0, protocol=0), promise)
            _equal(_installed(backend), [], promise)

    def test_delete_by_one_next_hop(self) -> None:
        """`delete` of an IPv4 route with one next hop leaves the route before it, which has a
        second next hop, too.
        """
        single = _ours("192.0.2.0/24")
        several = single._replace(
            next_hops=(*single.next_hops, NextHop("eth0", gateway=as_ip("10.0.0.2")))
        )
        with self.make() as backend:
            promise = "routes that differ in their next hops stand side by side"
            _accepts(backend, "append", several, promise)
            _accepts(backend, "append", single, promise)
            promise = "`delete` deletes the route with this next hop only"
            _accepts(backend, "delete", single, promise)
            _equal(_installed(backend), [several], "`delete` leaves a route with more next hops")

    def test_delete_does_not_take_another_programs(self) -> None:
        """`delete` is refused (no-such-route) if protocol, metric, type, preferred source, dev or
        gateway differ.
        """
        blackhole = Route.to("198.51.100.0/24", type="blackhole", protocol=OURS)
        ours = _ours("192.0.2.0/24", metric=5)
        present = [ours, blackhole, _ipv6_route()]
        others = [
            ours._replace(protocol=_THEIRS),
            ours._replace(metric=6),
            ours._replace(type="blackhole", next_hops=()),
            ours._replace(prefsrc=as_ip("10.0.0.4")),
            _ours("192.0.2.0/24", metric=5, gateway="10.0.0.2"),
            _ours("192.0.2.0/24", metric=5, dev="ib0"),
            blackhole._replace(next_hops=(NextHop("lo"),)),
            _ipv6_route(protocol=_THEIRS),
            _ipv6_route(metric=1025),
            _ipv6_route(gateway="2001:db8::2"),
        ]
        with self.make() as backend:
            _add(backend, *present)
            for other in others:
                promise = f"`delete` of {other} takes no other route"
                _refuses(backend, "delete", other, "no-such-route", promise)
            _equal(set(_installed(backend)), set(present), "`delete` takes no other route")

    def test_refusals_are_told_apart(self) -> None:
        """Each refusal has a kind, names the route, and gives the kernel's errno and words."""
        cases: list[tuple[Route, str]] = [
            (_ours("192.0.2.0/24", gateway="203.0.113.1"), "gateway-not-on-link"),
            (_ours("192.0.2.0/24", gateway="10.0.0.1", dev="ib0"), "gateway-not-on-link"),
            (_ipv6_route(gateway="2001:db8:9::1"), "gateway-not-on-link"),
            (_ours("192.0.2.0/24", gateway=None, dev="idle0"), "device-down"),
            (_ours("192.0.2.0/24")._replace(prefsrc=as_ip("203.0.113.9")), "invalid"),
        ]
        with self.make() as backend:
            for route, kind in cases:
                [outcome] = backend.change([RouteRequest("add", route)])
                error = outcome.error
                promise = f"the refusal of {route} says what it is"
                if error is None:
                    raise AssertionError(f"{promise}; it was not refused")
                seen = (error.kind, error.route, bool(error.errno), bool(error.kernel))
                _equal(seen, (kind, str(route), True, True), promise)
            gone = _ours("192.0.2.0/24", dev="gone0")
            promise = "a device that does not exist is a refusal"
            _refuses(backend, "add", gone, "no-such-device", promise)
            _equal(_installed(backend), [], "a refused route is not there")

    def test_a_refused_change_does_not_stop_the_next(self) -> None:
        """Every change is tried, in order, and has an outcome; a number that fits into no message
        is invalid.
        """
        first = _ours("192.0.2.0/24")
        last = first._replace(metric=9)
        too_large = 1 << 40
        wrong = [
            first._replace(metric=too_large),
            first._replace(protocol=too_large),
            first._replace(table=too_large),
            _ours("198.51.100.0/24", gateway="203.0.113.1"),
        ]
        requests = [RouteRequest("add", route) for route in (first, *wrong, last)]
        with self.make() as backend:
            outcomes = backend.change(iter(requests))
            kinds = [None if outcome.error is None else outcome.error.kind for outcome in outcomes]
            promised = [None, "invalid", "invalid", "invalid", "gateway-not-on-link", None]
            _equal(kinds, promised, "each change has an outcome, in order")
            seen = [outcome.change for outcome in outcomes]
            _equal(seen, requests, "an outcome has its request")
            _equal(
                set(_installed(backend)), {first, last}, "a refusal does not stop the next change"
            )
            _equal(backend.change([]), (), "no changes have no outcomes")

    # lookup

    def test_lookup_answers_in_order(self) -> None:
        """Each destination has an answer: the route that decides, with all next hops, or how the
        lookup ends.
        """
        route = Route(Prefix.parse("192.0.2.0/24"), _TWO_HOPS, protocol=OURS)
        with self.make() as backend:
            _add(backend, route, Route.to("198.51.100.0/24", type="unreachable", protocol=OURS))
            kinds = {
                "192.0.2.9": "unicast",
                "172.16.9.9": "unicast",
                "2001:db8::77": "unicast",
                "10.0.0.4": "local",
                "198.51.100.1": "unreachable",
                "203.0.113.1": "no-route",
                "203.0.113.65": "prohibit",
                "192.0.2.10": "unicast",
            }
            answers = backend.lookup([as_ip(address) for address in kinds])
            promise = "answers are in the order of the destinations, of any family"
            _equal([answer.kind for answer in answers], list(kinds.values()), promise)
            promise = "an answer has the route that decides"
            answer_to = dict(zip(kinds, answers, strict=True))
            for address in ("192.0.2.9", "192.0.2.10"):
                _equal(answer_to[address], Answer("unicast", route), promise)
            for address in ("198.51.100.1", "203.0.113.1", "203.0.113.65"):
                _equal(answer_to[address].route, None, "an error has no route")
            _equal(backend.lookup([]), (), "no destinations have no answers")

    def test_sources_are_those_of_packets(self) -> None:
        """Each destination has the address that a packet to it would have as its source."""
        by_src = Route.to("192.0.2.0/24", dev="eth0", gateway="10.0.0.1", protocol=OURS)
        by_src = by_src._replace(prefsrc=as_ip("172.16.1.10"))
        with self.make() as backend:
            _add(backend, by_src)
            sources = {
                "192.0.2.9": "172.16.1.10",
                "10.0.0.99": "10.0.0.4",
                "10.0.0.4": "10.0.0.4",
                "203.0.113.65": None,
            }
            answers = backend.sources([as_ip(address) for address in sources])
            promised = [source and as_ip(source) for source in sources.values()]
            _equal(list(answers), promised, "a source is that of the packet")

    # watch: a fake kernel takes no time for a wait that is given no clock

    def test_watch_reports_a_change(self) -> None:
        """`wait` is True after a change since the watch began, even before the call; then False
        until the next.
        """
        with self.make() as backend, backend.watch() as watch:
            _await_silence(watch)
            _add(backend, _ours("192.0.2.0/24"))
            _equal(watch.wait(5), True, "a change before the wait is reported")
            _await_silence(watch)
            _accepts(backend, "delete", _ours("192.0.2.0/24"), "the route is deleted")
            _equal(watch.wait(5), True, "the next change is reported as well")

    def test_watch_waits(self) -> None:
        """`wait` is False after its timeout, and not before, even if the wait before was woken."""
        with self.make() as backend, backend.watch() as watch:
            _await_silence(watch)
            watch.wake()
            self._is_woken(watch)  # this uses up the wake
            began = time.monotonic()
            is_changed = watch.wait(0.01, clock=Clock())  # a new host may still change
            has_waited = is_changed or time.monotonic() - began >= 0.01
            _equal(has_waited, True, "`wait` without a change takes the whole timeout")

    def test_watch_is_woken(self) -> None:
        """`wake`, called from any thread, makes one `wait` return False: the present one or the
        next. After `close`, which may be called twice, it does nothing.
        """
        with self.make() as backend, backend.watch() as watch:
            _await_silence(watch)
            watch.wake()
            _equal(self._is_woken(watch), True, "`wake` ends the next wait, which is False")
            later = threading.Timer(0.05, watch.wake)
            later.start()
            is_woken = self._is_woken(watch)
            later.join()
            _equal(is_woken, True, "`wake` ends the present wait, which is False")
            _add(backend, _ours("192.0.2.0/24"))
            _equal(watch.wait(5), True, "a change after `wake` is reported")
            _await_silence(watch)
            _accepts(backend, "delete", _ours("192.0.2.0/24"), "the route is deleted")
            watch.wake()
            is_reported = watch.wait(5) or watch.wait(5)
            _equal(
                is_reported, True, "a change before `wake` is reported, by this wait or the next"
            )
            watch.close()
            watch.wake()

    def _is_woken(self, watch: Watch) -> bool:
        """Whether a wait is False before its time is up; a new host may still change meanwhile."""
        clock = Clock()
        for _ in range(_ATTEMPTS):
            began = time.monotonic()
            if not watch.wait(self.patience, clock=clock):
                return time.monotonic() - began < self.patience
        return False

    # close

    def test_a_closed_backend_is_of_no_use(self) -> None:
        """A backend may be closed twice; every other method then raises BackendError."""
        with self.make() as backend:
            backend.close()
            backend.close()
            calls: dict[str, Callable[[], object]] = {
                "snapshot": backend.snapshot,
                "lookup": lambda: backend.lookup([as_ip("192.0.2.1")]),
                "sources": lambda: backend.sources([as_ip("192.0.2.1")]),
                "change": lambda: backend.change([]),
                "watch": backend.watch,
            }
            for name, call in calls.items():
                try:
                    call()
                except BackendError:
                    continue
                raise AssertionError(f"`{name}` of a closed backend raises BackendError")
