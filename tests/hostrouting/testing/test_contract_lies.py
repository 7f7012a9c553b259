"""The contract suite finds each lie: a backend that invents or drops one thing breaks a promise."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from hostrouting.errors import BackendError
from hostrouting.kernel.base import Answer, Outcome, RouteBackend, RouteRequest, Watch
from hostrouting.kernel.refusals import refusal
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import FaultyBackend
from hostrouting.testing.contract import BackendContract, contract_host
from phases import Clock

Lie = Callable[[RouteBackend], RouteBackend]


class Waited(Clock):
    """A clock that counts what was waited, however slow this machine is."""

    def __init__(self) -> None:
        """Nothing was waited yet."""
        super().__init__()
        self.seconds = 0.0
        self._machines = Clock()

    def now(self) -> float:
        """See Clock."""
        return self.seconds

    def wait(self, done: Callable[[], bool], until: float = math.inf) -> None:
        """See Clock."""
        self._machines.wait(done, self._machines.now() + until - self.seconds)
        if not done():
            self.seconds = until

    def wake(self) -> None:
        """See Clock."""
        self._machines.wake()


def broken_promises(lie: Lie) -> Iterator[str]:
    """What each test of the suite says that fails for this backend."""

    class Suite(BackendContract):
        clock = Waited

        @contextmanager
        def make(self) -> Iterator[RouteBackend]:
            yield lie(contract_host())

    names = [name for name in dir(Suite) if name.startswith("test_")]
    # The one that takes half a second comes last: usually, the promise has been found by then.
    for name in sorted(names, key=lambda name: name == "test_watch_is_woken"):
        try:
            getattr(Suite(), name)()
        except (AssertionError, BackendError) as error:
            yield str(error)


def assert_that_it_breaks(promise: str, lie: Lie) -> None:
    """A test of the suite fails for this backend, and says so."""
    said: list[str] = []
    for text in broken_promises(lie):
        if promise in text:
            return
        said.append(text)
    raise AssertionError(f"no test says {promise!r}, but {said}")


def lying(**methods: Any) -> Lie:
    """The lie of a backend that has these methods in the place of its own."""
    return type("Liar", (FaultyBackend,), methods)


# Lies about what is there.


def snapshots(change: Callable[[Snapshot], Snapshot]) -> Lie:
    """The lie of a backend whose snapshots are changed in this way."""
    return lying(snapshot=lambda self, **parts: change(self.inner.snapshot(**parts)))


def reversed_in(field: str) -> Lie:
    """The lie about an order."""
    return snapshots(lambda it: it._replace(**{field: getattr(it, field)[::-1]}))


def told_of_each(kind: str, /, **told: Any) -> Lie:
    """The lie that all devices, addresses, rules, routes or next hops have these values."""

    def changed(snapshot: Snapshot) -> Snapshot:
        field = "routes" if kind == "hops" else kind
        values: list[Any] = []
        for value in getattr(snapshot, field):
            if kind == "hops":
                values.append(with_hops(value, **told))
            else:
                values.append(value._replace(**told))
        fields: dict[str, Any] = {field: tuple(values)}
        return snapshot._replace(**fields)

    return snapshots(changed)


def replacing(change: Callable[..., Route], field: str, value: object) -> Callable[[Route], Route]:
    """What gives this field of a route another value."""
    return partial(change, **{field: value})


def with_hops(route: Route, **fields: Any) -> Route:
    """The route, whose next hops have these fields."""
    return route._replace(next_hops=tuple(hop._replace(**fields) for hop in route.next_hops))


PROMISES = {
    "links": "a snapshot has the {} of each device",
    "addresses": "a snapshot has each address",
    "rules": "a snapshot has the rules of IPv4 first, by priority, with all selectors",
    "routes": "a route is read back as it was added",
    "hops": "a route is read back as it was added",
}
"""By what a lie is about: the promise that it breaks."""
ONLY_READ: dict[str, object] = {"nexthop_id": 7, "preference": "high", "expired": False}
ONLY_READ |= {"source": Prefix.parse("2001:db8::/32"), "unread": ("encap seg6",)}
"""What no route of the suite has."""
FIELDS: dict[str, dict[str, object]] = {
    "links": {"up": True, "kind": "veth", "type": 32, "master": None, "xdp": True},
    "addresses": {"scope": 0, "length": 32, "dev": "lo", "peer": as_ip("10.8.0.1")},
    "rules": {**Rule._field_defaults, "l3mdev": True},
    "routes": {**Route._field_defaults, **ONLY_READ},
    "hops": {"dev": "eth0", "gateway": None, "weight": 1, "onlink": False, "dead": True},
}
"""A wrong value of each field: the usual one, where the suite has another one."""


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, field) for kind, fields in FIELDS.items() for field in fields]
)
def test_each_field_is_promised(kind: str, field: str) -> None:
    """A backend that gives it the same value everywhere breaks the promise."""
    lie = told_of_each(kind, **{field: FIELDS[kind][field]})
    assert_that_it_breaks(PROMISES[kind].format(field), lie)


def with_one_hop(answer: Answer) -> Answer:
    """Of its route the first next hop."""
    if answer.route is None:
        return answer
    return answer._replace(route=answer.route._replace(next_hops=answer.route.next_hops[:1]))


def without_addresses(
    backend: FaultyBackend, *, near: list[Prefix] | None = None, **parts: Any
) -> Snapshot:
    """No addresses, too, where only routes should be missing."""
    snapshot = backend.inner.snapshot(near=near, **parts)
    return snapshot if near is None else snapshot._replace(addresses=())


def ignoring(**parts: Any) -> Lie:
    """The lie of a backend that is always asked for these parts."""
    return lying(snapshot=lambda self, **asked: self.inner.snapshot(**{**asked, **parts}))


def answers(change: Callable[[Answer], Answer]) -> Lie:
    """The lie about each answer of a lookup."""
    return lying(lookup=lambda self, asked: tuple(map(change, self.inner.lookup(asked))))


NOTHING = Answer("no-route", None)
INVENTED = Rule(4, 9, table=7)
ABOUT_THE_HOST: dict[str, tuple[Lie, str]] = {
    "rules from last to first": (reversed_in("rules"), PROMISES["rules"]),
    "devices from last to first": (reversed_in("links"), "and they are listed in that order"),
    "addresses from last to first": (
        reversed_in("addresses"),
        "the addresses of a family are in the order",
    ),
    "no device": (
        snapshots(lambda it: it._replace(links=())),
        "a snapshot has each device; missing: ",
    ),
    "one number for all devices": (
        told_of_each("links", index=2),
        "each device has a number of its own",
    ),
    "always restless": (
        snapshots(lambda it: it._replace(restless=True)),
        "a snapshot is not restless if nothing changed",
    ),
    "IPv6 is forwarded": (
        snapshots(lambda it: it._replace(ipv6_forwarding=True)),
        "whether IPv6 is forwarded; seen: True",
    ),
    "no route": (
        snapshots(lambda it: it._replace(routes=())),
        "that the kernel adds for an address; missing: ",
    ),
    "family is ignored": (ignoring(family=None), "`family` leaves out the routes"),
    "near is about addresses, too": (
        lying(snapshot=without_addresses),
        "`near` leaves out nothing else (addresses)",
    ),
    "near is ignored": (ignoring(near=None), "`near` leaves out the routes"),
    "near leaves out all": (ignoring(near=[]), "leaves out the routes"),
    "nothing is prohibited": (
        answers(lambda answer: NOTHING if answer.kind == "prohibit" else answer),
        "in the order of the destinations",
    ),
    "answers from last to first": (
        lying(lookup=lambda self, asked: self.inner.lookup(asked)[::-1]),
        "answers are in the order of the destinations",
    ),
    "one next hop in an answer": (answers(with_one_hop), "an answer has the route that decides"),
    "one source for all": (
        lying(sources=lambda _, asked: (as_ip("10.0.0.4"),) * len(asked)),
        "a source is that of the packet",
    ),
}

# Lies about changes.


def changes(change: Callable[[RouteBackend, RouteRequest], Outcome]) -> Lie:
    """The lie of a backend that carries out each request in this way."""

    def changed(backend: FaultyBackend, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        return tuple(change(backend.inner, request) for request in requests)

    return lying(change=changed)


def honestly(inner: RouteBackend, request: RouteRequest) -> Outcome:
    """Carry out the request."""
    [outcome] = inner.change([request])
    return outcome


def misread(change: Callable[[Route], Route], *verbs: str) -> Lie:
    """The lie of a backend that changes another route than that of a request with this verb."""

    def changed(inner: RouteBackend, request: RouteRequest) -> Outcome:
        if request.verb not in verbs:
            return honestly(inner, request)
        outcome = honestly(inner, request._replace(route=change(request.route)))
        return outcome._replace(change=request)

    return changes(changed)


def overwriting(inner: RouteBackend, request: RouteRequest) -> Outcome:
    """Add a route in the place of another one."""
    for route in inner.snapshot().routes:
        if request.verb == "add" and route.key == request.route.key:
            inner.change([RouteRequest("delete", route)])
    return honestly(inner, request)


def obeying_states(inner: RouteBackend, request: RouteRequest) -> Outcome:
    """Take the state of a next hop in a request for a wish, and refuse it."""
    if any(hop.linkdown or hop.dead for hop in request.route.next_hops):
        return Outcome(request, refusal(request, 22, "the next hop is dead"))
    return honestly(inner, request)


def by_exact_numbers(inner: RouteBackend, request: RouteRequest) -> Outcome:
    """Take a protocol of 0 for just that."""
    if request.verb == "delete" and not request.route.protocol:
        return Outcome(request, refusal(request, 3))
    return honestly(inner, request)


def stopping_at_a_refusal(
    backend: FaultyBackend, requests: Iterable[RouteRequest]
) -> tuple[Outcome, ...]:
    """Try no change after one that was refused."""
    outcomes: list[Outcome] = []
    for request in requests:
        if all(outcome.ok for outcome in outcomes):
            outcomes.append(honestly(backend.inner, request))
    return tuple(outcomes)


def refusing_alike(inner: RouteBackend, request: RouteRequest) -> Outcome:
    """Give one reason for every refusal."""
    outcome = honestly(inner, request)
    return outcome if outcome.ok else Outcome(request, refusal(request, 22, "no"))


def refusing_without_facts(inner: RouteBackend, request: RouteRequest) -> Outcome:
    """Give the kind of a refusal, and nothing else."""
    outcome = honestly(inner, request)
    if outcome.error is None:
        return outcome
    return Outcome(request, BackendError("no", kind=outcome.error.kind))


TAKES_NO_OTHER = "is refused; seen: done; promised: no-such-route"
ABOUT_CHANGES: dict[str, tuple[Lie, str]] = {
    "nothing is done": (changes(lambda _, request: Outcome(request)), PROMISES["routes"]),
    "a request's onlink is dropped": (
        misread(lambda route: with_hops(route, onlink=False), "add"),
        "onlink proto hostrouting is done; seen: gateway-not-on-link",
    ),
    "a state in a request is a wish": (changes(obeying_states), "eth0 dead"),
    "another route is overwritten": (changes(overwriting), "is refused; seen: done"),
    "any next hops are deleted": (
        misread(lambda route: route._replace(next_hops=()), "delete"),
        "`delete` leaves a route with more next hops",
    ),
    **{
        f"any {field} is deleted": (
            misread(replacing(Route._replace, field, value), "delete"),
            TAKES_NO_OTHER,
        )
        for field, value in {"protocol": 0, "metric": 0, "prefsrc": None}.items()
    },
    **{
        f"any {field} is deleted": (
            misread(replacing(with_hops, field, None), "delete"),
            TAKES_NO_OTHER,
        )
        for field in ("dev", "gateway")
    },
    "only the same numbers are deleted": (
        changes(by_exact_numbers),
        "proto unspec is done; seen: no-such-route",
    ),
    "a refusal ends all": (
        lying(change=stopping_at_a_refusal),
        "each change has an outcome, in order",
    ),
    "an outcome is of another request": (
        changes(lambda _, request: Outcome(request._replace(verb="append"))),
        "each change has an outcome, in order",
    ),
    "every refusal is the same": (changes(refusing_alike), "says what it is"),
    "a refusal does not name the route": (
        changes(refusing_without_facts),
        "not promised: [, False, False]",
    ),
}

# Lies about changes that are reported.


class HonestWatch(Watch):
    """Passes everything on, and knows that it was woken."""

    def __init__(self, inner: Watch) -> None:
        """Wrap this watch."""
        self.inner = inner
        self.is_awakened = False
        self.has_reported = False
        self.is_closed = False

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:
        """See Watch."""
        return self.inner.wait(timeout, clock=clock)

    def wake(self) -> None:
        """See Watch."""
        self.is_awakened = True
        self.inner.wake()

    def close(self) -> None:
        """See Watch."""
        self.is_closed = True
        self.inner.close()


def asleep(watch: HonestWatch, timeout: float, clock: Any) -> bool:
    """A wait that ends when its time is up, which is at once, and whoever wakes it."""
    if clock is None:
        return watch.inner.wait(timeout)
    clock.seconds += timeout
    return False


def woken_late(watch: HonestWatch, timeout: float, *, clock: Clock | None = None) -> bool:
    """End the next wait, and not the present one."""
    if watch.is_awakened:
        watch.is_awakened = False
        return False
    return asleep(watch, timeout, clock)


def awake(watch: HonestWatch, timeout: float, *, clock: Clock | None = None) -> bool:
    """Once it is woken, each wait ends at once, and reports nothing."""
    return not watch.is_awakened and watch.inner.wait(timeout, clock=clock)


def forgetful(watch: HonestWatch, timeout: float, *, clock: Clock | None = None) -> bool:
    """A wait that is woken forgets what has changed."""
    is_changed = watch.inner.wait(timeout, clock=clock)
    if watch.is_awakened:
        watch.is_awakened = False
        watch.inner.wait(0)
        return False
    return is_changed


def reporting_once(watch: HonestWatch, timeout: float, *, clock: Clock | None = None) -> bool:
    """Report the first change, and no other."""
    is_first = watch.inner.wait(timeout, clock=clock) and not watch.has_reported
    watch.has_reported = watch.has_reported or is_first
    return is_first


def wake_unless_closed(watch: HonestWatch) -> None:
    """Wake the watch, which has to be open."""
    if watch.is_closed:
        raise BackendError("it is closed")
    HonestWatch.wake(watch)


def watches(wait: Callable[..., bool], **methods: Any) -> Lie:
    """The lie of a backend whose watch waits in this way, and has these methods."""
    liar = type("LyingWatch", (HonestWatch,), {"wait": wait, **methods})
    return lying(watch=lambda self: liar(self.inner.watch()))


def works_on(method: str) -> Lie:
    """The lie of a backend that is closed for all but this method, which another host answers."""
    return lying(**{method: staticmethod(getattr(contract_host(), method))})


def closing_once(backend: FaultyBackend) -> None:
    """Close the backend, which cannot be closed twice."""
    backend.inner.snapshot()  # raises if it was closed
    backend.inner.close()


ABOUT_WAITS: dict[str, tuple[Lie, str]] = {
    "it does not wait": (
        watches(lambda watch, _, clock=None: watch.inner.wait(0, clock=clock)),
        "`wait` without a change takes the whole timeout",
    ),
    "it never wakes": (
        watches(lambda watch, timeout, clock=None: asleep(watch, timeout, clock)),
        "`wake` ends the next wait",
    ),
    "it wakes late": (watches(woken_late), "`wake` ends the present wait"),
    "it stays awake": (watches(awake), "a change after `wake` is reported"),
    "a wake loses a change": (watches(forgetful), "reported: `add`, woken: True"),
    "a wake is a change": (
        watches(lambda watch, timeout, **_: watch.is_awakened or watch.inner.wait(timeout)),
        "`wake` ends the next wait",
    ),
    "it reports once": (watches(reporting_once), "a change is reported: `delete`"),
    "it always reports": (watches(lambda *_, **_named: True), "is False while nothing changes"),
    "a closed watch cannot be woken": (
        watches(HonestWatch.wait, wake=wake_unless_closed),
        "it is closed",
    ),
    "it closes once": (lying(close=closing_once), "was closed"),
    **{
        f"it is closed, and has {method}": (works_on(method), f"`{method}` of a closed backend")
        for method in ("snapshot", "lookup", "change", "watch")
    },
}
LIES = ABOUT_THE_HOST | ABOUT_CHANGES | ABOUT_WAITS


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_breaks_a_promise(lie: str) -> None:
    """The promise that fails says what the lie is about."""
    backend, promise = LIES[lie]
    assert_that_it_breaks(promise, backend)


def test_an_honest_backend() -> None:
    """The wrappers of these tests keep every promise if they do not lie."""
    honest = lying(watch=lambda self: HonestWatch(self.inner.watch()))
    assert [*broken_promises(honest)] == []


def test_what_a_failure_says() -> None:
    """What is missing, what is not promised, and the fields of two routes that print alike."""
    said = next(broken_promises(told_of_each("rules", suppress_ifgroup=None)))
    assert said.startswith(f"{PROMISES['rules']}; missing: [100: from 2001:db8:7::/48 ")
    assert "; not promised: [100: from 2001:db8:7::/48 " in said
    said = next(broken_promises(reversed_in("rules")))
    assert said.startswith(f"{PROMISES['rules']}; seen in this order: [")
    missing = f"{PROMISES['rules']}; missing: [0: from all lookup local]; not promised: []"
    assert_that_it_breaks(missing, snapshots(lambda it: it._replace(rules=it.rules[1:])))
    invented = f"{PROMISES['rules']}; missing: []; not promised: [{INVENTED}]"
    assert_that_it_breaks(invented, snapshots(lambda it: it._replace(rules=(*it.rules, INVENTED))))
    assert_that_it_breaks(": expired is False, not None", told_of_each("routes", expired=False))
