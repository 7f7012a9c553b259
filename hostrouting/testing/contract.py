"""The contract suite of RouteBackend, for any backend: the real one, the fake, or your own.

Here: the promises of `hostrouting.kernel.base`, one test for each sentence. Not here: further behaviour of a
particular kernel.

Subclass it in a module that pytest collects, and override `make` to create a backend::

    class TestMine(BackendContract):
        @contextmanager
        def make(self) -> Iterator[RouteBackend]:
            with MyBackend() as backend:
                yield backend

Each test gets a new backend. It must describe this host: eth0, up, with 10.0.0.4/24; ib0, up, with 172.16.1.10/16;
idle0, down, without an address; the default rules, and in IPv6 one that drops UDP to 2001:db8:17::/48; and only the
routes that the kernel adds for these addresses. If a backend does not support something, override the test and skip it.
"""

# These are tests, so they use assert.
# ruff: noqa: S101
from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import attrs

from hostrouting.errors import BackendError, RouteKind
from hostrouting.kernel._fib.packet import ANY, Flow
from hostrouting.kernel.base import Answer, Outcome, RouteBackend, RouteRequest, Verb
from hostrouting.kernel.concern import Concern
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import OURS, PROTOCOL_KERNEL, SCOPE_LINK, TABLE_LOCAL, NextHop, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing.kernel import FakeKernel
from phases.context import SystemClock


def contract_host() -> FakeKernel:
    """The host that the contract suite requires, as a fake kernel."""
    kernel = FakeKernel()
    kernel.set_up("lo")
    for name, interface in (("eth0", "10.0.0.4/24"), ("ib0", "172.16.1.10/16")):
        kernel.add_link(name)
        kernel.add_address(name, interface)
    kernel.add_link("idle0", up=False)
    dropped = Prefix.parse("2001:db8:17::/48")
    kernel.add_rule(Rule(family=6, priority=100, dst=dropped, others=(("ipproto", "udp"),), action="blackhole"))
    return kernel


def _ours(prefix: str, *, gateway: str | None = "10.0.0.1", dev: str = "eth0", metric: int = 0) -> Route:
    return Route.to(prefix, dev=dev, gateway=gateway, metric=metric, protocol=OURS)


def _six(*, source: str | None = None, gateway: str | None = None, dev: str = "eth0", **more: Any) -> Route:
    route = Route.to("2001:db8:1::/64", dev=dev, gateway=gateway, metric=1024, protocol=OURS)
    return attrs.evolve(route, source=None if source is None else Prefix.parse(source), **more)


def _do(backend: RouteBackend, verb: Verb, route: Route) -> str | None:
    """The kind of the refusal; None if the change was made."""
    (outcome,) = backend.change([RouteRequest(verb, route)])
    assert outcome.change == RouteRequest(verb, route)
    return None if outcome.error is None else outcome.error.kind


def _mine(backend: Any) -> list[Route]:
    return list(backend.snapshot(protocol=OURS).routes)


@contextmanager
def _refuses(kind: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


class BackendContract:
    """The suite as a base class: subclass it, and override `make`."""

    def make(self) -> AbstractContextManager[Any]:
        """Create a backend for the host that this module describes, and close it at the end of the `with` block."""
        raise NotImplementedError("override make() so that it yields your backend")

    # snapshot

    def test_snapshot_holds_links(self) -> None:
        """A snapshot has every device, whether it is up, and whether it has a carrier."""
        with self.make() as backend:
            links = {link.name: link for link in backend.snapshot().links}
        assert {"lo", "eth0", "ib0", "idle0"} <= set(links)
        assert [links[name].up for name in ("eth0", "ib0", "idle0")] == [True, True, False]
        assert links["eth0"].carrier
        assert len({link.index for link in links.values()}) == len(links)

    def test_snapshot_holds_addresses_and_what_they_bring(self) -> None:
        """A snapshot has each address, with the connected, local and broadcast routes that the kernel adds for it."""
        with self.make() as backend:
            snapshot = backend.snapshot(family=4)
        own = [(str(address.ip), address.length) for address in snapshot.addresses if address.dev == "eth0"]
        assert own == [("10.0.0.4", 24)]
        brought = {(str(route.prefix), route.table, route.type) for route in snapshot.routes if route.devs == ("eth0",)}
        assert brought == {
            ("10.0.0.0/24", 254, "unicast"),
            ("10.0.0.4/32", TABLE_LOCAL, "local"),
            ("10.0.0.255/32", TABLE_LOCAL, "broadcast"),
        }
        assert all(
            route.protocol == PROTOCOL_KERNEL and route.prefsrc == as_ip("10.0.0.4") for route in snapshot.routes[:1]
        )

    def test_snapshot_holds_rules_in_order(self) -> None:
        """A snapshot has the rules of the family, ordered by priority."""
        with self.make() as backend:
            assert backend.snapshot(family=4).rules == default_rules(4)

    def test_snapshot_leaves_out_what_was_not_asked_for(self) -> None:
        """The arguments family, table, protocol and prefixes restrict the routes, and nothing else."""
        with self.make() as backend:
            assert _do(backend, "add", _ours("192.0.2.0/24")) is None
            everything = backend.snapshot()
            prefixes = [Prefix.parse("192.0.2.0/24"), Prefix.parse("10.0.0.0/24")]
            restrictions: list[dict[str, Any]] = [
                {"family": 4},
                {"table": TABLE_LOCAL},
                {"protocol": OURS},
                {"table": 7},
                {"prefixes": prefixes},
                {"prefixes": prefixes, "family": 4, "protocol": OURS},
                {"prefixes": []},
            ]
            for wanted in restrictions:
                some = backend.snapshot(**wanted)
                assert list(some.routes) == [route for route in everything.routes if _has(route, wanted)]
                assert (some.links, some.family) == (everything.links, wanted.get("family"))
            assert [str(route.prefix) for route in _mine(backend)] == ["192.0.2.0/24"]

    def test_snapshot_stays_what_it_was(self) -> None:
        """A snapshot is a value: later changes do not affect it."""
        with self.make() as backend:
            before = backend.snapshot()
            kept = list(before.routes)
            assert _do(backend, "add", _ours("192.0.2.0/24")) is None
            assert list(before.routes) == kept
            assert Snapshot.from_json(before.to_json()).routes == tuple(kept)

    # change

    def test_add_is_read_back(self) -> None:
        """A route that was added is in the next snapshot, with all of its attributes."""
        with self.make() as backend:
            wanted = attrs.evolve(_ours("192.0.2.0/24", metric=7), table=100, mtu=1400, prefsrc=as_ip("10.0.0.4"))
            assert _do(backend, "add", wanted) is None
            assert _mine(backend) == [wanted]

    def test_add_of_several_legs_is_read_back(self) -> None:
        """A route with several next hops keeps their order and their weights."""
        with self.make() as backend:
            legs = (NextHop("eth0", gateway=as_ip("10.0.0.1"), weight=2), NextHop("ib0", gateway=as_ip("172.16.0.1")))
            wanted = Route(Prefix.parse("192.0.2.0/24"), legs, protocol=OURS)
            assert _do(backend, "add", wanted) is None
            assert _mine(backend) == [wanted]

    def test_add_refuses_a_key_that_is_held(self) -> None:
        """`add` is refused (exists) if any route has the same prefix, metric and tos; another metric is another key."""
        with self.make() as backend:
            assert _do(backend, "add", _ours("192.0.2.0/24")) is None
            assert _do(backend, "add", _ours("192.0.2.0/24")) == "exists"
            assert _do(backend, "add", _ours("192.0.2.0/24", gateway="10.0.0.2")) == "exists"
            assert _do(backend, "add", _ours("10.0.0.0/24")) == "exists"
            assert _do(backend, "add", _ours("192.0.2.0/24", metric=9)) is None
            assert [route.metric for route in _mine(backend)] == [0, 9]

    def test_append_stands_behind(self) -> None:
        """`append` adds a second route behind the one that holds the key, and refuses an identical one."""
        with self.make() as backend:
            first, second = _ours("192.0.2.0/24"), _ours("192.0.2.0/24", gateway="10.0.0.2")
            assert _do(backend, "append", first) is None
            assert _do(backend, "append", second) is None
            assert _mine(backend) == [first, second]
            assert _do(backend, "append", second) == "exists"

    def test_prepend_stands_before(self) -> None:
        """`prepend` adds a route before those that hold the key, if there are any, and refuses an identical one."""
        with self.make() as backend:
            first, second = _ours("192.0.2.0/24"), _ours("192.0.2.0/24", gateway="10.0.0.2")
            third = _ours("192.0.2.0/24", gateway="10.0.0.3")
            assert _do(backend, "prepend", first) is None
            assert _do(backend, "prepend", second) is None
            assert _do(backend, "append", third) is None
            assert _mine(backend) == [second, first, third]
            assert _do(backend, "prepend", third) == "exists"
            (answer,) = backend.lookup([as_ip("192.0.2.1")])
            assert answer.route == second

    def test_replace_rewrites_the_first_holder(self) -> None:
        """`replace` replaces the first route that holds the key, ours or not, and adds the route if there is none."""
        with self.make() as backend:
            wanted = _ours("172.16.0.0/16")
            assert _do(backend, "replace", wanted) is None
            found = [route for route in backend.snapshot(family=4, table=254).routes if route.prefix == wanted.prefix]
            assert found == [wanted]
            assert _do(backend, "replace", wanted) is None
            assert _do(backend, "replace", _ours("192.0.2.0/24")) is None

    def test_replace_refuses_a_later_twin(self) -> None:
        """`replace` is refused (exists) if an identical route is behind the first one that holds the key."""
        with self.make() as backend:
            first, second = _ours("192.0.2.0/24"), _ours("192.0.2.0/24", gateway="10.0.0.2")
            assert _do(backend, "append", first) is None
            assert _do(backend, "append", second) is None
            assert _do(backend, "replace", second) == "exists"
            assert _mine(backend) == [first, second]

    def test_delete_takes_what_was_read_back(self) -> None:
        """`delete` deletes exactly the route from a snapshot, even if it is behind another one with the same key."""
        with self.make() as backend:
            first, second = _ours("192.0.2.0/24"), _ours("192.0.2.0/24", gateway="10.0.0.2")
            assert [_do(backend, "append", route) for route in (first, second)] == [None, None]
            assert _do(backend, "delete", _mine(backend)[1]) is None
            assert _mine(backend) == [first]
            assert _do(backend, "delete", second) == "no-such-route"

    def test_delete_does_not_take_another_ones(self) -> None:
        """`delete` is refused (no-such-route) if any attribute of the route differs."""
        with self.make() as backend:
            standing = _ours("192.0.2.0/24", metric=5)
            assert _do(backend, "add", standing) is None
            for other in (
                attrs.evolve(standing, protocol=4),
                attrs.evolve(standing, metric=6),
                attrs.evolve(standing, scope=SCOPE_LINK),
                attrs.evolve(standing, type="blackhole", legs=()),
                attrs.evolve(standing, prefsrc=as_ip("10.0.0.4")),
                attrs.evolve(standing, mtu=1400),
                _ours("192.0.2.0/24", metric=5, dev="gone0"),
                _ours("192.0.2.0/24", metric=5, gateway="10.0.0.2"),
                _ours("192.0.2.0/24", metric=5, gateway="172.16.0.1", dev="ib0"),
            ):
                assert _do(backend, "delete", other) == "no-such-route", other
            assert _mine(backend) == [standing]

    def test_delete_is_not_deceived_by_what_is_left_open(self) -> None:
        """Metric 0 and no gateway are exact values: `delete` does not match a route that has a metric or a gateway."""
        with self.make() as backend:
            standing = _ours("192.0.2.0/24", metric=5)
            assert _do(backend, "add", standing) is None
            assert _do(backend, "delete", _ours("192.0.2.0/24")) == "no-such-route"
            bare = attrs.evolve(standing, legs=(NextHop("eth0"),))
            assert _do(backend, "delete", bare) == "no-such-route"
            assert _mine(backend) == [standing]

    def test_refusals_are_told_apart(self) -> None:
        """Each refusal has its own kind, the route, and the kernel's errno and message."""
        with self.make() as backend:
            cases: list[tuple[Route, RouteKind]] = [
                (_ours("192.0.2.0/24", gateway="203.0.113.1"), "gateway-not-on-link"),
                (_ours("192.0.2.0/24", gateway="10.0.0.1", dev="ib0"), "gateway-not-on-link"),
                (_ours("192.0.2.0/24", dev="gone0"), "no-such-device"),
                (_ours("192.0.2.0/24", gateway=None, dev="idle0"), "device-down"),
                (attrs.evolve(_ours("192.0.2.0/24"), prefsrc=as_ip("203.0.113.9")), "invalid"),
            ]
            for route, kind in cases:
                (outcome,) = backend.change([RouteRequest("add", route)])
                error = outcome.error
                assert error is not None, route
                assert error.kind == kind
                assert error.route == str(route)
                assert error.errno
                assert error.kernel
            assert _mine(backend) == []

    def test_a_gateway_that_is_prohibited_is_one_refusal_among_outcomes(self) -> None:
        """If a prohibit route matches the gateway, only that change is refused; the others are made."""
        with self.make() as backend:
            closed = Route(Prefix.parse("172.16.9.9/32"), type="prohibit", scope=SCOPE_LINK, protocol=OURS)
            behind = _ours("198.51.100.0/24", gateway="172.16.9.9", dev="ib0")
            fine = [_ours("192.0.2.0/24"), _ours("203.0.113.0/24")]
            outcomes = backend.change([RouteRequest("add", route) for route in (closed, fine[0], behind, fine[1])])
            assert [outcome.ok for outcome in outcomes] == [True, True, False, True]
            error = outcomes[2].error
            assert error is not None
            assert (error.kind, error.errno) == ("refused", errno.EACCES)
            assert "prohibits packets to gateway 172.16.9.9 by ib0" in str(error)
            assert _mine(backend) == [closed, *fine]

    def test_what_cannot_be_said_is_refused(self) -> None:
        """A number that does not fit into the kernel's message is refused (invalid); the other changes are made."""
        with self.make() as backend:
            fine = _ours("192.0.2.0/24")
            large = 1 << 40
            wrong = [
                attrs.evolve(fine, tos=large),
                attrs.evolve(fine, metric=large),
                attrs.evolve(fine, protocol=large),
                attrs.evolve(fine, table=large),
                attrs.evolve(fine, mtu=large),
            ]
            outcomes = backend.change([*(RouteRequest("add", route) for route in wrong), RouteRequest("add", fine)])
            assert [getattr(outcome.error, "kind", None) for outcome in outcomes] == ["invalid"] * len(wrong) + [None]
            assert all(f"{large} is not in 0.." in str(outcome.error) for outcome in outcomes[:-1])
            assert _mine(backend) == [fine]

    # what only IPv6 has

    def test_sources_make_another_route(self) -> None:
        """Routes of one prefix and metric for different sources stand beside each other; ::/0 means all sources."""
        with self.make() as backend:
            plain, some, fewer = (_six(source=source) for source in (None, "2001:db8:a::/48", "2001:db8:a:1::/64"))
            assert [_do(backend, "add", route) for route in (plain, some, fewer)] == [None] * 3
            assert set(_mine(backend)) == {plain, some, fewer}
            for route in (plain, some, _six(source="::/0"), _six(source="2001:db8:a::/48", dev="ib0")):
                assert _do(backend, "add", route) == "exists"
            moved = _six(source="2001:db8:a::/48", dev="ib0")
            assert _do(backend, "replace", moved) is None
            assert set(_mine(backend)) == {plain, moved, fewer}
            assert _do(backend, "delete", some) == "no-such-route"
            assert _do(backend, "delete", _six(source="2001:db8:a:2::/64")) == "no-such-route"
            assert _do(backend, "delete", plain) is None
            assert set(_mine(backend)) == {moved, fewer}
            assert _do(backend, "delete", plain) == "no-such-route"

    def test_append_merges_next_hops_for_the_same_sources(self) -> None:
        """`append` of a route with a gateway merges it with those for the same sources only."""
        with self.make() as backend:
            sources = [None, "2001:db8:a::/48", "2001:db8:a::/48"]
            for number, source in enumerate(sources, start=1):
                assert _do(backend, "append", _six(source=source, gateway=f"fe80::{number}")) is None
            found = {(str(route.source), len(route.legs)) for route in _mine(backend)}
            assert found == {("None", 1), ("2001:db8:a::/48", 2)}

    def test_lookup_minds_the_source(self) -> None:
        """A packet takes the route for its source.

        If a prefix has sources and none of them matches, not even its route for all sources is used: a shorter prefix
        decides.
        """
        with self.make() as backend:
            some, plain = _six(source="2001:db8:a::/48"), _six(dev="ib0")
            wider = attrs.evolve(_six(), prefix=Prefix.parse("2001:db8::/32"))

            def found(source: str) -> Route | None:
                answered: Route | None = backend.lookup(["2001:db8:1::1"], Flow(source=source))[0].route
                return answered

            assert _do(backend, "add", some) is None
            assert [found("2001:db8:a::1"), found("2001:db8:b::1")] == [some, None]
            assert [_do(backend, "add", route) for route in (plain, wider)] == [None] * 2
            assert [found("2001:db8:a::1"), found("2001:db8:b::1")] == [some, wider]

    def test_preference_decides_between_equal_metrics(self) -> None:
        """A preference is read back; the highest among the routes with the lowest metric decides."""
        with self.make() as backend:
            low, high = (_six(dev=dev, preference=preference) for dev, preference in (("eth0", "low"), ("ib0", "high")))
            assert [_do(backend, "append", route) for route in (low, high)] == [None] * 2
            assert _mine(backend) == [low, high]
            assert backend.lookup(["2001:db8:1::1"])[0].route == high
            assert _do(backend, "delete", _six(dev="ib0")) == "no-such-route"
            assert _do(backend, "delete", high) is None
            assert backend.lookup(["2001:db8:1::1"])[0].route == low

    def test_a_route_expires(self) -> None:
        """A route that has expired may still be listed, with negative seconds, but no packet takes it."""
        clock = SystemClock()
        with self.make() as backend, backend.watch() as watch:
            brief, later = (_six(dev=dev, expires=seconds) for dev, seconds in (("eth0", 0), ("ib0", 600)))
            assert [_do(backend, "append", route) for route in (brief, later)] == [None] * 2
            end = clock.now() + 0.03
            while (left := end - clock.now()) > 0:
                watch.wait(left, clock=clock)
            listed = {route.devs: route for route in _mine(backend)}
            assert listed["ib0",].expires in range(590, 601)
            assert listed["ib0",] == later
            assert all(route.expired for devs, route in listed.items() if devs == ("eth0",))
            assert backend.lookup(["2001:db8:1::1"])[0].route == later
            assert _do(backend, "delete", _six(dev="ib0")) == "no-such-route"
            assert _do(backend, "delete", attrs.evolve(later, expires=5)) is None

    def test_only_ipv6_has_these(self) -> None:
        """For an IPv4 route, sources, a preference and an end are refused (invalid); the other changes are made."""
        with self.make() as backend:
            fine = _ours("192.0.2.0/24")
            wrong = [
                attrs.evolve(fine, source=Prefix.parse("10.9.0.0/16")),
                attrs.evolve(fine, preference="low"),
                attrs.evolve(fine, expires=600),
                _six(source="10.9.0.0/16"),
                _six(expires=1 << 40),
            ]
            outcomes = backend.change([*(RouteRequest("add", route) for route in wrong), RouteRequest("add", fine)])
            assert [getattr(outcome.error, "kind", None) for outcome in outcomes] == ["invalid"] * len(wrong) + [None]
            assert _mine(backend) == [fine]

    def test_a_refused_change_does_not_stop_the_next(self) -> None:
        """Every change is tried, in order, and each has an outcome."""
        with self.make() as backend:
            wanted = [_ours("192.0.2.0/24"), _ours("198.51.100.0/24", gateway="203.0.113.1"), _ours("203.0.113.0/24")]
            outcomes = backend.change(iter([RouteRequest("add", route) for route in wanted]))
            assert [outcome.ok for outcome in outcomes] == [True, False, True]
            assert [outcome.change.route for outcome in outcomes] == wanted
            assert outcomes[0] == Outcome(RouteRequest("add", wanted[0]))
            assert _mine(backend) == [wanted[0], wanted[2]]

    def test_no_changes_have_no_outcomes(self) -> None:
        """An empty list of changes is allowed."""
        with self.make() as backend:
            assert backend.change([]) == ()

    # lookup

    def test_lookup_answers_in_order(self) -> None:
        """Each destination has an answer: the FIB entry that decides, or how the lookup ends without one."""
        with self.make() as backend:
            wanted = _ours("192.0.2.0/24")
            assert _do(backend, "add", wanted) is None
            assert _do(backend, "add", Route.to("198.51.100.0/24", type="unreachable", protocol=OURS)) is None
            asked = ["192.0.2.9", "172.16.9.9", "10.0.0.4", "198.51.100.1", "203.0.113.1", "192.0.2.9"]
            answers = backend.lookup([as_ip(address) for address in asked])
        kinds = [answer.kind for answer in answers]
        assert kinds == ["unicast", "unicast", "local", "unreachable", "no-route", "unicast"]
        assert answers[0] == answers[5] == Answer("unicast", wanted)
        assert answers[1].route is not None
        assert answers[1].route.devs == ("ib0",)
        assert [answer.route for answer in answers[3:5]] == [None, None]

    def test_lookup_shows_every_leg(self) -> None:
        """The answer is the entry with all of its next hops, not only the one that a given packet uses."""
        with self.make() as backend:
            legs = tuple(NextHop("eth0", gateway=as_ip(f"10.0.0.{number}")) for number in (1, 2))
            assert _do(backend, "add", Route(Prefix.parse("192.0.2.0/24"), legs, protocol=OURS)) is None
            (answer,) = backend.lookup([as_ip("192.0.2.1")])
        assert answer.route is not None
        assert answer.route.legs == legs

    def test_lookup_of_nothing(self) -> None:
        """An empty list of destinations has no answers."""
        with self.make() as backend:
            assert backend.lookup([]) == ()

    def test_lookup_is_about_udp(self) -> None:
        """A packet whose protocol is not known is UDP, in IPv6 too; with 0 an IPv6 packet has no protocol."""
        with self.make() as backend:
            flows = (ANY, Flow(ipproto=17), Flow(ipproto=0), Flow(ipproto=6))
            kinds = [backend.lookup(["2001:db8:17::1"], flow)[0].kind for flow in flows]
        assert kinds == ["blackhole", "blackhole", "no-route", "no-route"]

    def test_lookup_refuses_a_mix_of_families(self) -> None:
        """One lookup may contain only one family."""
        with self.make() as backend, _refuses(ValueError):
            backend.lookup([as_ip("192.0.2.1"), as_ip("2001:db8::1")])

    def test_lookup_of_texts(self) -> None:
        """A destination may be a string, as in `Fib.lookup`; a string instead of a list raises TypeError."""
        with self.make() as backend:
            assert backend.lookup(["192.0.2.1"]) == backend.lookup([as_ip("192.0.2.1")])
            with _refuses(TypeError):
                backend.lookup("192.0.2.1")

    def test_snapshot_of_prefixes_as_texts(self) -> None:
        """A prefix may be a string; a string instead of a list raises TypeError."""
        with self.make() as backend:
            default = Prefix.parse("0.0.0.0/0")
            assert backend.snapshot(prefixes=["0.0.0.0/0"]) == backend.snapshot(prefixes={default})
            with _refuses(TypeError):
                backend.snapshot(prefixes="0.0.0.0/0")

    def test_snapshot_of_the_tables_that_rules_look_up(self) -> None:
        """`reached` leaves out the routes of a table that no rule looks up, and nothing else, in the same order."""
        there, aside = _ours("192.0.2.0/24", metric=7), attrs.evolve(_ours("198.51.100.0/24"), table=1001)
        with self.make() as backend:
            assert [_do(backend, "add", route) for route in (there, aside)] == [None, None]
            every, some = backend.snapshot(), backend.snapshot(reached=True)
            left = [route for route in every.routes if route.table != 1001]
            assert sorted(some.routes, key=str) == sorted(left, key=str)
            assert [route for route in some.routes if route.table == 254] == [
                route for route in left if route.table == 254
            ]
            assert attrs.evolve(some, routes=every.routes) == every

    def test_snapshot_of_what_has_changed(self) -> None:
        """A snapshot that says what it is about has every change since the last one, with and without `anew`.

        So has one of one family, in turn with one of both.
        """
        route = _ours("192.0.2.0/24")
        with self.make() as backend:
            about = partial(Concern.of, networks=[route.prefix], protocols={OURS})
            changes: list[Callable[[], object]] = [
                lambda: _do(backend, "add", route),
                lambda: _do(backend, "add", attrs.evolve(route, table=1001)),
                lambda: _do(backend, "delete", route),
            ]
            for change in (lambda: None, *changes):
                change()
                every = backend.snapshot(reached=True)
                assert backend.snapshot(reached=True, about=about) == every
                part = backend.snapshot(family=4, reached=True)
                assert backend.snapshot(family=4, reached=True, about=about) == part
                assert backend.snapshot(reached=True, about=about) == every
                assert backend.snapshot(reached=True, about=about, anew=True) == every

    # watch

    def test_watch_hears_a_change(self) -> None:
        """`wait` is True after a change since the watch began, even one before the call; then False until the next."""
        with self.make() as backend, backend.watch() as watch:
            assert watch.wait(0) is False
            assert _do(backend, "add", _ours("192.0.2.0/24")) is None
            assert watch.wait(5) is True
            while watch.wait(0):
                pass

    def test_watch_is_woken(self) -> None:
        """`wake`, called from any thread, makes one `wait` return False: the present one or the next."""
        with self.make() as backend, backend.watch() as watch:
            thread = threading.Thread(target=watch.wake)
            thread.start()
            assert watch.wait(60) is False
            thread.join()
            watch.close()
            watch.close()

    def test_watch_listens_to_nftables_too(self) -> None:
        """`listen` does not fail, whether or not nftables can be listened to; routes are listened to in any case."""
        with self.make() as backend, backend.watch() as watch:
            assert watch.troubles == ()
            for wanted in (True, True, False, False):
                watch.listen(nftables=wanted)
                while watch.wait(0):
                    pass
                assert _do(backend, "add", _ours("192.0.2.0/24")) is None
                assert watch.wait(5) is True
                assert _do(backend, "delete", _ours("192.0.2.0/24")) is None
            assert watch.troubles == ()

    # close

    def test_a_closed_backend_is_of_no_use(self) -> None:
        """A backend may be closed twice; every other method then raises BackendError."""
        with self.make() as backend:
            backend.close()
            backend.close()
            with _refuses(BackendError):
                backend.snapshot()
            with _refuses(BackendError):
                backend.lookup([as_ip("192.0.2.1")])
            with _refuses(BackendError):
                backend.change([])
            with _refuses(BackendError):
                backend.watch()


def _has(route: Route, wanted: dict[str, Any]) -> bool:
    has = {"family": route.prefix.family, "table": route.table, "protocol": route.protocol}
    near = "prefixes" not in wanted or route.prefix in wanted["prefixes"]
    return near and all(has[name] == value for name, value in wanted.items() if name in has)
