"""The contract suite of RouteBackend, for any backend: one for a kernel, the fake, or your own.

The suite tests the promises of `hostrouting.kernel.base`. Subclass it in a module that pytest
collects, and override `make`::

    class TestMine(BackendContract):
        @contextmanager
        def make(self) -> Iterator[RouteBackend]:
            with linux_host(), MyBackend() as backend:
                yield backend

Each test gets a new backend, for a new host. `contract_host` makes this host as a fake kernel, and
`linux_host` of `hostrouting.testing.linux` in Linux. It has:

- lo, up, with 127.0.0.1/8 and ::1/128;
- eth0, up, with 10.0.0.4/24 and 2001:db8::4/64;
- ib0, up, with 172.16.1.10/16;
- idle0, down, without an address;
- br0, up, a bridge, and port0, up, a veth that is a port of br0, both without an IPv4 address;
- no forwarding of IPv6;
- the rules that the kernel has itself, and those in `RULES`;
- only the routes that the kernel adds itself.

If a backend does not support something, override the test and skip it.
`pytest.register_assert_rewrite("hostrouting.testing.contract")` in conftest.py has a failure say
what was seen instead.
"""

from __future__ import annotations

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

__all__ = ["ADDRESSES", "RULES", "BackendContract", "contract_host"]

ADDRESSES = (
    ("eth0", "10.0.0.4/24"),
    ("eth0", "2001:db8::4/64"),
    ("ib0", "172.16.1.10/16"),
)
"""The addresses of the host, beside those of lo."""
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
    Rule(family=4, priority=102, action="prohibit", dst=Prefix.parse("203.0.113.64/26")),
    Rule(
        family=6,
        priority=100,
        table=2006,
        src=Prefix.parse("2001:db8:7::/48"),
        others=(("oif", "ib0"), ("uidrange", "1000-1999"), ("ipproto", "tcp")),
        suppress_ifgroup=7,
    ),
)
"""The rules of the host, beside the kernel's own. Only the rule that prohibits decides for plain
packets, because the tables of the others are empty. It is what a lookup in 203.0.113.64/26 meets.
"""

_ATTEMPTS = 99
"""How often a test tries what fails while a new host still changes."""


def contract_host() -> FakeKernel:
    """The host for which a backend has to pass the contract suite, as a fake kernel."""
    kernel = FakeKernel()
    kernel.set_up("lo")
    kernel.add_link("eth0")
    kernel.add_link("ib0")
    kernel.add_link("idle0", up=False)
    kernel.add_link(Link(name="br0", index=0, kind="bridge"))
    kernel.add_link(Link(name="port0", index=0, kind="veth", master="br0"))
    for dev, address in ADDRESSES:
        kernel.add_address(dev, address)
    for rule in RULES:
        kernel.add_rule(rule)
    return kernel


# Changes, and their outcomes.

_THEIRS = 4
"""The route protocol of another program's routes: `static`."""


def _route(
    prefix: str = "192.0.2.0/24",
    gateway: str | None = "10.0.0.1",
    dev: str = "eth0",
    **fields: Any,
) -> Route:
    # A route for a test, which gives only the fields that matter to the test. The protocol is that
    # of hostrouting unless the test gives another one.
    route = Route.to(prefix, dev=dev, gateway=gateway, protocol=OURS)
    return route._replace(**fields)


def _route6(gateway: str = "2001:db8::1", **fields: Any) -> Route:
    """A route of IPv6, with the kernel's default metric unless another one is given."""
    return _route("2001:db8:1::/64", gateway, **{"metric": 1024, **fields})


def _with_hops(route: Route, **fields: Any) -> Route:
    """The route, whose next hops have these fields."""
    return route._replace(next_hops=tuple(hop._replace(**fields) for hop in route.next_hops))


def _joined(first: Route, second: Route) -> Route:
    """The first route, with the next hops of both."""
    return first._replace(next_hops=first.next_hops + second.next_hops)


_WITH_TWO_DEVICES = _joined(
    _with_hops(_route("192.0.3.0/24"), weight=2), _route("192.0.3.0/24", "172.16.0.1", "ib0")
)
_UNREACHABLE = Route.to("198.51.100.0/24", type="unreachable", protocol=OURS)
_ADDED = (
    _WITH_TWO_DEVICES,
    _UNREACHABLE,
    _route(table=100, metric=7, mtu=1400, advmss=1360, prefsrc=as_ip("10.0.0.4")),
    _route("198.18.0.0/24", tos=0x10),
    _route("203.0.113.0/24", gateway=None, dev="ib0"),
    _route6(metric=5),
    _with_hops(_route("192.0.4.0/24", "203.0.113.1"), onlink=True),
    _with_hops(_route6("2001:db8:9::1", metric=6), onlink=True),
)
"""Routes that are added, and read back with all attributes."""
_APPENDED = _route("172.16.0.0/16")
_TWO_HOPS = _joined(_route("192.0.5.0/24"), _route("192.0.5.0/24", "10.0.0.2"))
_THEIRS6 = _route6(protocol=_THEIRS)
_OURS6 = _with_hops(_route6("2001:db8::2"), weight=7)
_ON_LINK6 = _OURS6._replace(next_hops=(NextHop("eth0"),))
_CHANGES: tuple[tuple[str, Verb, tuple[Route, ...]], ...] = (
    ("done", "add", _ADDED),
    # `add` is refused if any route has the key; another metric is another key.
    ("done", "add", (_route(), _with_hops(_route(metric=9), dead=True, linkdown=True))),
    ("exists", "add", (_route(gateway="10.0.0.2"), _route("10.0.0.0/24"), _route6(metric=5))),
    # `append` stands behind the holder of the key, which is the kernel's route.
    ("done", "append", (_APPENDED,)),
    ("exists", "append", (_APPENDED,)),
    # `delete` takes the route that is meant, and no other.
    (
        "no-such-route",
        "delete",
        (
            _route(metric=6),
            _route(metric=9, protocol=_THEIRS),
            _route(metric=9, prefsrc=as_ip("10.0.0.4")),
            _route(metric=9, type="blackhole", next_hops=()),
            _route(metric=9, gateway="10.0.0.2"),
            _route(metric=9, dev="ib0"),
        ),
    ),
    ("done", "delete", (_route(metric=9), _route(protocol=0))),
    ("no-such-route", "delete", (_route(metric=9),)),
    # A route with one next hop is not the one before it, which has a second one.
    ("done", "append", (_TWO_HOPS, _route("192.0.5.0/24"))),
    ("done", "delete", (_route("192.0.5.0/24"),)),
    # A request may name more next hops than the route has.
    ("done", "append", (_route("192.0.6.0/24"),)),
    ("done", "delete", (_TWO_HOPS._replace(prefix=Prefix.parse("192.0.6.0/24")),)),
    # In IPv6, next hops come and go one by one, each with the protocol of who has added it.
    ("done", "append", (_THEIRS6, _OURS6, _ON_LINK6)),
    ("exists", "append", (_joined(_route6("2001:db8::3"), _OURS6), _ON_LINK6)),
    ("no-such-route", "delete", (_THEIRS6._replace(protocol=OURS), _with_hops(_OURS6, dev="ib0"))),
    ("done", "delete", (_ON_LINK6,)),
    ("done", "append", (_THEIRS6._replace(metric=7), _OURS6._replace(metric=7))),
    ("no-such-route", "delete", (_joined(_THEIRS6, _OURS6)._replace(metric=7),)),  # but ours goes
    # What Linux refuses, or what fits into no message.
    ("invalid", "add", (_route(metric=1 << 40), _route(prefsrc=as_ip("203.0.113.9")))),
    (
        "gateway-not-on-link",
        "add",
        (_route(gateway="203.0.113.1"), _route(dev="ib0"), _route6("2001:db8:9::1", metric=1)),
    ),
    ("device-down", "add", (_route(gateway=None, dev="idle0"),)),
    ("no-such-device", "add", (_route(dev="gone0"),)),
)
"""Changes, made one after the other: the kind of the outcome, the verb, and the routes."""
_INSTALLED_AT_END = {*_ADDED, _APPENDED, _TWO_HOPS, _joined(_THEIRS6, _OURS6)}
_INSTALLED_AT_END.add(
    _route6("2001:db8::2", metric=7)
)  # Linux lists no weight of a single next hop
"""The routes that are there afterwards."""


def _added_routes(backend: RouteBackend) -> list[Route]:
    """The routes that a test has added: with our protocol, and with that of another program."""
    return [route for route in backend.snapshot().routes if route.protocol in {OURS, _THEIRS}]


def _await_silence(watch: Watch) -> None:
    """Wait until the watch has nothing more to report, because it may report one change several
    times. `wait` returns whether there was a report. Fail if the reports do not end.
    """
    assert any(not watch.wait(0) for _ in range(_ATTEMPTS))


class BackendContract:
    """The suite as a base class: subclass it, and override `make`."""

    def make(self) -> AbstractContextManager[RouteBackend]:
        """Create a backend for a host like `contract_host`, and close it at the end of the `with`
        block.
        """
        # Not an abstract method: pytest passes over an abstract class without a word.
        raise NotImplementedError("override make() so that it yields your backend")

    def test_snapshot(self) -> None:
        """A snapshot has each device, in the order of their numbers; each address, with the routes
        that the kernel adds for it; and the rules with all selectors, those of IPv4 first, by
        priority. `restless` is False if nothing has changed while the snapshot was read, and
        `ipv6_forwarding` is False on a host that does not forward.
        """
        promised = contract_host().snapshot()
        with self.make() as backend:
            # A new host may still change during some snapshots, but not during all of so many.
            assert not all(backend.snapshot().restless for _ in range(_ATTEMPTS))
            snapshot = backend.snapshot()
        links = snapshot.links_by_name
        for name, link in promised.links_by_name.items():
            assert (links[name].up, links[name].master) == (link.up, link.master)
            # What the others are is left open: a card on a fake host, a dummy or veth on Linux.
            if name in {"lo", "br0", "port0"}:
                assert (links[name].kind, links[name].type) == (link.kind, link.type)
        indexes = [link.index for link in snapshot.links]
        assert indexes == sorted(set(indexes))
        assert set(promised.addresses) <= set(snapshot.addresses)
        assert set(promised.routes) <= set(snapshot.routes)
        assert snapshot.rules == promised.rules
        assert not snapshot.ipv6_forwarding

    def test_snapshot_near_prefixes(self) -> None:
        """With `near`, a snapshot may leave routes out, but none that overlaps one of these
        prefixes, no default route, and no route of hostrouting.
        """
        overlapping, ours = _route("198.18.0.0/24", protocol=_THEIRS), _route("192.0.4.0/24")
        default = _route("0.0.0.0/0", metric=50, protocol=_THEIRS)
        added = {overlapping, ours, default}
        with self.make() as backend:
            backend.change([RouteRequest("add", route) for route in added])
            for near in ("198.18.0.0/25", "198.18.0.0/15"):
                snapshot = backend.snapshot(near=[Prefix.parse(near)])
                assert added <= set(snapshot.routes)
                assert snapshot.links == backend.snapshot().links

    def test_each_change_has_an_outcome(self) -> None:
        """Each change is tried, in order. A refusal has a kind, names the route, and gives the
        kernel's errno and words. What was added is read back with all attributes.
        """
        with self.make() as backend:
            assert not _added_routes(backend)  # a backend that keeps this snapshot fails below
            for kind, verb, routes in _CHANGES:  # `kind` is "done", or that of the refusal
                requests = [RouteRequest(verb, route) for route in routes]
                outcomes = backend.change(iter(requests))  # which can be read only once
                assert [outcome.change for outcome in outcomes] == requests
                for (_, route), error in outcomes:
                    if error is None:
                        assert kind == "done", f"{verb} {route}"
                    else:
                        assert (error.kind, error.route) == (kind, str(route)), verb
                        assert error.errno and error.kernel
            installed = set(_added_routes(backend))
            assert installed == _INSTALLED_AT_END
            assert backend.change([]) == ()

    def test_lookup_answers_in_order(self) -> None:
        """The answers are in the order of the destinations. Each has the route that decides, with
        all next hops, or says how the lookup ends.
        """
        # The routes that are not added here are on each host that `make` gives (see the class).
        kinds = {
            "192.0.3.9": "unicast",
            "2001:db8::77": "unicast",
            "10.0.0.4": "local",
            "198.51.100.1": "unreachable",
            "203.0.113.1": "no-route",
            "203.0.113.65": "prohibit",
            "192.0.3.10": "unicast",
        }
        with self.make() as backend:
            backend.change(
                [RouteRequest("add", _WITH_TWO_DEVICES), RouteRequest("add", _UNREACHABLE)]
            )
            answers = backend.lookup([as_ip(address) for address in kinds])
            assert backend.lookup([]) == ()
        assert [answer.kind for answer in answers] == list(kinds.values())
        assert answers[0] == answers[-1] == Answer("unicast", _WITH_TWO_DEVICES)
        # Where a packet is refused, no route is returned.
        assert [answer.route for answer in answers[3:6]] == [None] * 3

    # A fake kernel takes no time for a wait that is given no clock.

    def test_watch_reports_a_change(self) -> None:
        """`wait` returns True after a change, even if the change came before the call. The next
        `wait` returns False if nothing has changed since.
        """
        with self.make() as backend, backend.watch() as watch:
            _await_silence(watch)
            backend.change([RouteRequest("add", _route())])
            assert watch.wait(5)
            _await_silence(watch)
            backend.change([RouteRequest("delete", _route())])
            assert watch.wait(1e9)  # longer than poll() can wait: 2^31 ms

    def test_watch_waits(self) -> None:
        """`wait` takes the whole timeout if nothing changes. A watch may be closed twice."""
        clock = Clock()
        with self.make() as backend, backend.watch() as watch:
            _await_silence(watch)
            began = clock.now()
            # A new host may still change, which may end the wait early.
            assert watch.wait(0.2, clock=clock) or clock.now() - began >= 0.2
            watch.close()
            watch.close()

    def test_a_closed_backend_is_of_no_use(self) -> None:
        """A backend may be closed twice; every other method then raises BackendError."""
        with self.make() as backend:
            backend.close()
            backend.close()
            calls: dict[str, Callable[[], object]] = {
                "snapshot": backend.snapshot,
                "watch": backend.watch,
                "lookup": lambda: backend.lookup(()),
                "change": lambda: backend.change(()),
            }
            for name, call in calls.items():
                try:
                    call()
                except BackendError:
                    continue
                raise AssertionError(f"{name} of a closed backend raises no BackendError")
