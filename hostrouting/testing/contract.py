"""The contract suite of RouteBackend, for each backend: a test for each promise of
`hostrouting.kernel.base`.

Each test gets a new backend from `make`, for the host of `contract_host`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from hostrouting.errors import BackendError
from hostrouting.kernel.base import Answer, RouteBackend, RouteRequest, Verb, Watch
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import OURS, NextHop, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link
from hostrouting.testing.kernel import FakeKernel
from phases import Clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

ADDRESSES = (
    ("eth0", "10.0.0.4/24"),
    ("eth0", "2001:db8::4/64"),
    ("ib0", "172.16.1.10/16"),
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

_OF_EACH_DEVICE = ("up", "master")
"""The fields of each device that the suite asks for."""
_OF_KNOWN_KIND = ("lo", "br0", "port0")
"""Devices of which it asks for the kind and the type, too: the others may be hardware or not."""
_ATTEMPTS = 99
"""A test asks this often whether the host is quiet, and then fails: a new host may still change,
and a watch may report one change in several parts.
"""
_PATIENCE = 60.0
"""Seconds for what another thread does: what has not come by then never comes."""
_SOON = 0.5
"""Seconds after which another thread wakes a wait that has begun by then."""
_FOR_EVER = 1e9
"""Seconds that somebody waits who has no deadline."""
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
    for dev, interface in ADDRESSES:
        kernel.add_address(dev, interface)
    for rule in RULES:
        kernel.add_rule(rule)
    return kernel


# What is asked.


def _ours(
    prefix: str, *, gateway: str | None = "10.0.0.1", dev: str = "eth0", metric: int = 0
) -> Route:
    return Route.to(prefix, dev=dev, gateway=gateway, metric=metric, protocol=OURS)


def _ipv6_route(*, gateway: str = "2001:db8::1", metric: int = 1024, protocol: int = OURS) -> Route:
    """A route of ours, with the kernel's default metric, unless another one is given."""
    return Route.to(
        "2001:db8:1::/64", dev="eth0", gateway=gateway, metric=metric, protocol=protocol
    )


def _with_hop(route: Route, **fields: Any) -> Route:
    """The route, whose next hops have these fields."""
    return route._replace(next_hops=tuple(hop._replace(**fields) for hop in route.next_hops))


def _joined(*routes: Route) -> Route:
    """The first route, with the next hops of all."""
    return routes[0]._replace(next_hops=tuple(hop for route in routes for hop in route.next_hops))


_BY_TWO = _joined(
    _with_hop(_ours("192.0.3.0/24"), weight=2),
    _ours("192.0.3.0/24", gateway="172.16.0.1", dev="ib0"),
)
"""A route of ours by two devices."""


def _tried(backend: RouteBackend, verb: Verb, route: Route) -> str:
    """The kind of the refusal; "done" if the change was made."""
    [outcome] = backend.change([RouteRequest(verb, route)])
    return "done" if outcome.error is None else outcome.error.kind


def _accepts(backend: RouteBackend, verb: Verb, *routes: Route) -> None:
    for route in routes:
        assert _tried(backend, verb, route) == "done", f"`{verb}` of {route} is done"


def _refuses(backend: RouteBackend, verb: Verb, kind: str, *routes: Route) -> None:
    for route in routes:
        assert _tried(backend, verb, route) == kind, f"`{verb}` of {route} is refused"


def _await_silence(watch: Watch) -> None:
    """Wait until nothing is reported any more: a change may be reported in several parts."""
    for _ in range(_ATTEMPTS):
        if not watch.wait(0):
            return
    raise AssertionError("`wait` is False while nothing changes")


def _installed(backend: RouteBackend) -> list[Route]:
    """The routes that a test has added: its own, and those of another program."""
    return [route for route in backend.snapshot().routes if route.protocol in {OURS, _THEIRS}]


class BackendContract:
    """The suite as a base class: subclass it, and override `make`."""

    clock: type[Clock] = Clock
    """What the waits are measured by."""

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
        promised = contract_host().snapshot().links_by_name
        assert set(promised) <= set(links), "a snapshot has each device"
        for name, link in promised.items():
            fields = [*_OF_EACH_DEVICE]
            if name in _OF_KNOWN_KIND:
                fields += ["kind", "type"]
            for field in fields:
                promise = f"a snapshot has the {field} of each device: {name}"
                assert getattr(links[name], field) == getattr(link, field), promise
        indexes = [link.index for link in snapshot.links]
        promise = "each device has a number of its own, and they are listed in that order"
        assert indexes == sorted(set(indexes)), promise

    def test_snapshot_of_a_quiet_host(self) -> None:
        """A snapshot is not restless if nothing changed; a new host may still change."""
        with self.make() as backend:
            is_restless = all(backend.snapshot().restless for _ in range(_ATTEMPTS))
        assert not (is_restless), "a snapshot is not restless if nothing changed"

    def test_snapshot_has_the_addresses(self) -> None:
        """A snapshot has each address, and the routes that the kernel adds for it."""
        promised = contract_host().snapshot()
        with self.make() as backend:
            snapshot = backend.snapshot()
        assert set(promised.addresses) <= set(snapshot.addresses), "a snapshot has each address"
        index_of = {link.name: link.index for link in snapshot.links}
        for family in (4, 6):
            of_family = [each for each in snapshot.addresses if each.ip.version == family]
            indexes = [index_of.get(address.dev, 0) for address in of_family]
            promise = "the addresses of a family are in the order of the numbers of devices"
            assert indexes == sorted(indexes), promise
        promise = "a snapshot has the routes that the kernel adds for an address"
        assert set(promised.routes) <= set(snapshot.routes), promise

    def test_snapshot_has_the_rules(self) -> None:
        """A snapshot has the rules by priority, those of IPv4 first, with all selectors."""
        with self.make() as backend:
            rules = backend.snapshot().rules
        promise = "a snapshot has the rules of IPv4 first, by priority, with all selectors"
        assert rules == contract_host().snapshot().rules, promise

    def test_snapshot_says_whether_ipv6_is_forwarded(self) -> None:
        """A snapshot says that IPv6 is not forwarded, or None if the backend cannot know it."""
        with self.make() as backend:
            is_forwarded = backend.snapshot().ipv6_forwarding
        assert not (bool(is_forwarded)), "a snapshot says whether IPv6 is forwarded"

    # change

    def test_add_is_read_back(self) -> None:
        """A route that was added is in the next snapshot: all attributes, and next hops in order
        with their weights.
        """
        far_away = _ours("192.0.4.0/24", gateway="203.0.113.1")
        routes = [
            _BY_TWO,
            _ours("192.0.2.0/24", metric=7)._replace(
                table=100, mtu=1400, advmss=1360, prefsrc=as_ip("10.0.0.4")
            ),
            _ours("192.0.2.0/24")._replace(tos=0x10),
            Route.to("198.51.100.0/24", type="blackhole", protocol=OURS),
            _ours("203.0.113.0/24", gateway=None, dev="ib0"),
            _ipv6_route(),
            _with_hop(far_away, onlink=True),
            _with_hop(_ipv6_route(gateway="2001:db8:9::1", metric=7), onlink=True),
        ]
        with self.make() as backend:
            _accepts(backend, "add", *routes)
            assert set(_installed(backend)) == set(routes), "a route is read back as it was added"

    def test_the_state_of_a_next_hop_is_the_kernels(self) -> None:
        """In a request, the state of a next hop is ignored."""
        route = _ours("192.0.2.0/24")
        with self.make() as backend:
            _accepts(backend, "add", _with_hop(route, dead=True, linkdown=True))
            assert _installed(backend) == [route], "a next hop is as the kernel finds it"
            _accepts(backend, "delete", _with_hop(route, linkdown=True))

    def test_add_refuses_a_key_that_is_held(self) -> None:
        """`add` is refused (exists) if any route has the destination and metric; another metric is
        another place.
        """
        beside = [_ours("192.0.2.0/24", metric=9), _ipv6_route(metric=9)]
        present = [_ours("192.0.2.0/24"), _ipv6_route()]
        with self.make() as backend:
            _accepts(backend, "add", *present)
            _refuses(
                *(backend, "add", "exists"),
                present[0],
                _ours("192.0.2.0/24", gateway="10.0.0.2"),
                _ours("10.0.0.0/24"),
                _ipv6_route(gateway="2001:db8::2"),
            )
            _accepts(backend, "add", *beside)
            promise = "routes with different metrics stand beside each other"
            assert set(_installed(backend)) == {*present, *beside}, promise

    def test_append_stands_behind_the_holder(self) -> None:
        """`append` adds a route after those with its destination and metric, and is refused
        (exists) if the same route is there.
        """
        route = _ours("172.16.0.0/16")
        with self.make() as backend:
            before = [each for each in backend.snapshot().routes if each.prefix == route.prefix]
            _accepts(backend, "append", route)
            after = [each for each in backend.snapshot().routes if each.prefix == route.prefix]
            assert after == [*before, route], "`append` puts the route behind the one that is there"
            _refuses(backend, "append", "exists", route)

    def test_ipv6_next_hops_come_and_go_one_by_one(self) -> None:
        """In IPv6, `append` adds next hops to the route with the same key, whoever added that, and
        is refused (exists) if one of them is there. `delete` deletes each next hop of the request
        that is there with the protocol of the request; if one is not, it is refused
        (no-such-route), and the others are gone.
        """
        theirs = _with_hop(_ipv6_route(protocol=_THEIRS), weight=3)
        ours = _with_hop(_ipv6_route(gateway="2001:db8::2"), weight=7)
        gatewayless = ours._replace(next_hops=(NextHop("eth0"),))
        half_there = _joined(_ipv6_route(gateway="2001:db8::3"), ours)
        joined = _joined(theirs, ours)
        with self.make() as backend:
            _accepts(backend, "append", theirs, ours, gatewayless)
            _refuses(backend, "append", "exists", gatewayless, half_there)
            promise = "next hops with a gateway are listed as one route, each with its weight"
            assert _installed(backend) == [joined, gatewayless], promise
            _refuses(backend, "delete", "no-such-route", theirs._replace(protocol=OURS))
            _accepts(backend, "delete", gatewayless)
            promise = "`delete` leaves the next hops on the same device"
            assert _installed(backend) == [joined], promise
            # The hop of ours is there, but not with the protocol of theirs.
            _refuses(backend, "delete", "no-such-route", joined)
            alone = _with_hop(ours, weight=1)  # Linux does not list the weight of a single one
            assert _installed(backend) == [alone], "`delete` deletes the next hops that are there"

    def test_delete_takes_the_route_that_is_meant(self) -> None:
        """`delete` deletes a route as a snapshot shows it; a metric and a protocol of 0 stand for
        any. It is refused (no-such-route) if there is none, or if protocol, metric, type, preferred
        source, dev or gateway differ.
        """
        blackhole = Route.to("198.51.100.0/24", type="blackhole", protocol=OURS)
        ours = _ours("192.0.2.0/24", metric=5)
        present = [ours, blackhole, _ipv6_route(), _BY_TWO]
        others = [
            ours._replace(protocol=_THEIRS),
            ours._replace(metric=6),
            ours._replace(type="blackhole", next_hops=()),
            ours._replace(prefsrc=as_ip("10.0.0.4")),
            _with_hop(ours, gateway=as_ip("10.0.0.2")),
            _with_hop(ours, dev="ib0"),
            blackhole._replace(next_hops=(NextHop("lo"),)),
            _ipv6_route(protocol=_THEIRS),
            _ipv6_route(metric=1025),
            _ipv6_route(gateway="2001:db8::2"),
            _with_hop(_ipv6_route(), dev="ib0"),
        ]
        with self.make() as backend:
            for is_open in (False, True):
                _accepts(backend, "add", *present)
                _refuses(backend, "delete", "no-such-route", *others)
                seen = _installed(backend)
                assert set(seen) == set(present), "`delete` takes no other route"
                for route in seen:
                    requested = route._replace(metric=0, protocol=0) if is_open else route
                    _accepts(backend, "delete", requested)
                    _refuses(backend, "delete", "no-such-route", route)

    def test_delete_by_one_next_hop(self) -> None:
        """`delete` of an IPv4 route with one next hop leaves the route before it, which has a
        second next hop, too.
        """
        single = _ours("192.0.2.0/24")
        several = _joined(single, _ours("192.0.2.0/24", gateway="10.0.0.2"))
        with self.make() as backend:
            _accepts(backend, "append", several, single)
            _accepts(backend, "delete", single)
            assert _installed(backend) == [several], "`delete` leaves a route with more next hops"

    def test_each_change_has_an_outcome(self) -> None:
        """Every change is tried, in order, and has an outcome. A refusal has a kind, names the
        route, and gives the kernel's errno and words; a number that fits into no message is
        invalid.
        """
        first, too_large = _ours("192.0.2.0/24"), 1 << 40
        last = first._replace(metric=9)
        cases = [
            (first, "done"),
            (first._replace(metric=too_large), "invalid"),
            (first._replace(protocol=too_large), "invalid"),
            (first._replace(table=too_large), "invalid"),
            (_ours("192.0.4.0/24", gateway="203.0.113.1"), "gateway-not-on-link"),
            (_ours("192.0.4.0/24", gateway="10.0.0.1", dev="ib0"), "gateway-not-on-link"),
            (_ipv6_route(gateway="2001:db8:9::1"), "gateway-not-on-link"),
            (_ours("192.0.4.0/24", gateway=None, dev="idle0"), "device-down"),
            (_ours("192.0.4.0/24")._replace(prefsrc=as_ip("203.0.113.9")), "invalid"),
            (_ours("192.0.4.0/24", dev="gone0"), "no-such-device"),
            (last, "done"),
        ]
        requests = [RouteRequest("add", route) for route, _ in cases]
        with self.make() as backend:
            outcomes = backend.change(iter(requests))
            seen = [outcome.change for outcome in outcomes]
            assert seen == requests, "each change has an outcome, in order"
            for (route, kind), (_, error) in zip(cases, outcomes, strict=True):
                promise = f"the outcome of `add` of {route} says what it is"
                assert "done" if error is None else error.kind == kind, promise
                if error is not None:
                    facts = (error.route, bool(error.errno), bool(error.kernel))
                    assert facts == (str(route), True, True), promise
            promise = "a refused route is not there, and does not stop the next change"
            assert set(_installed(backend)) == {first, last}, promise
            assert backend.change([]) == (), "no changes have no outcomes"

    # lookup

    def test_lookup_answers_in_order(self) -> None:
        """Each destination has an answer: the route that decides, with all next hops, or how the
        lookup ends.
        """
        with self.make() as backend:
            unreachable = Route.to("198.51.100.0/24", type="unreachable", protocol=OURS)
            _accepts(backend, "add", _BY_TWO, unreachable)
            kinds = {
                "192.0.3.9": "unicast",
                "172.16.9.9": "unicast",
                "2001:db8::77": "unicast",
                "10.0.0.4": "local",
                "198.51.100.1": "unreachable",
                "203.0.113.1": "no-route",
                "203.0.113.65": "prohibit",
                "192.0.3.10": "unicast",
            }
            answers = backend.lookup([as_ip(address) for address in kinds])
            promise = "answers are in the order of the destinations, of any family"
            assert [answer.kind for answer in answers] == list(kinds.values()), promise
            promise = "an answer has the route that decides"
            answer_to = dict(zip(kinds, answers, strict=True))
            for address in ("192.0.3.9", "192.0.3.10"):
                assert answer_to[address] == Answer("unicast", _BY_TWO), promise
            for address in ("198.51.100.1", "203.0.113.1", "203.0.113.65"):
                assert answer_to[address].route is None, "an error has no route"
            assert backend.lookup([]) == (), "no destinations have no answers"

    # watch: a fake kernel takes no time for a wait that is given no clock

    def test_watch_reports_a_change(self) -> None:
        """`wait` is True after a change since the watch began, even before the call; then False
        until the next. `wake` hides none.
        """
        route = _ours("192.0.2.0/24")
        changes: list[tuple[Verb, bool]] = [("add", False), ("delete", False), ("add", True)]
        with self.make() as backend, backend.watch() as watch:
            _await_silence(watch)
            for verb, is_woken in changes:
                _accepts(backend, verb, route)
                if is_woken:
                    watch.wake()
                is_reported = watch.wait(5) or (is_woken and watch.wait(5))
                assert is_reported, f"a change is reported: `{verb}`, woken: {is_woken}"
                _await_silence(watch)

    def test_watch_waits(self) -> None:
        """`wait` is False after its timeout, and not before, even if the wait before was woken."""
        clock = self.clock()
        with self.make() as backend, backend.watch() as watch:
            _await_silence(watch)
            watch.wake()
            self._is_woken(watch)  # this uses up the wake
            began = clock.now()
            # For longer than a backend that polls takes to read the host once.
            is_changed = watch.wait(0.2, clock=clock)  # a new host may still change
            has_waited = is_changed or clock.now() - began >= 0.2
            assert has_waited, "`wait` without a change takes the whole timeout"

    def test_watch_is_woken(self) -> None:
        """`wake`, called from any thread, makes one `wait` return False: the present one or the
        next. After `close`, which may be called twice, it does nothing.
        """
        with self.make() as backend, backend.watch() as watch:
            _await_silence(watch)
            watch.wake()
            assert self._is_woken(watch), "`wake` ends the next wait, which is False"
            later = threading.Timer(_SOON, watch.wake)
            later.start()
            is_woken = self._is_woken(watch)
            later.join()
            assert is_woken, "`wake` ends the present wait, which is False"
            _accepts(backend, "add", _ours("192.0.2.0/24"))
            assert watch.wait(5), "a change after `wake` is reported"
            watch.wake()
            assert not (watch.wait(_FOR_EVER)), "a wait may be longer than any wait of Linux"
            watch.close()
            watch.wake()

    def _is_woken(self, watch: Watch) -> bool:
        """Whether a wait is False before its time is up. A new host may still change meanwhile."""
        clock = self.clock()
        for _ in range(_ATTEMPTS):
            end = clock.now() + _PATIENCE
            if not watch.wait(_PATIENCE, clock=clock):
                return clock.now() < end
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
                "change": lambda: backend.change([]),
                "watch": backend.watch,
            }
            for name, call in calls.items():
                try:
                    call()
                except BackendError:
                    continue
                raise AssertionError(f"`{name}` of a closed backend raises BackendError")
