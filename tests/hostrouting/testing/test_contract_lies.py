"""The contract suite finds each lie: a backend that invents or drops one thing breaks a promise."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from hostrouting.errors import BackendError
from hostrouting.kernel.base import Answer, Outcome, RouteBackend, RouteRequest, Watch
from hostrouting.kernel.part import part_of
from hostrouting.kernel.refusals import refusal
from hostrouting.model.prefix import IP, as_ip
from hostrouting.model.route import PROTOCOL_KERNEL, NextHop, Route
from hostrouting.model.rule import default_rules
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing.contract import BackendContract, contract_host
from phases import Clock


class Honest(RouteBackend):
    """Passes everything on to the fake kernel; each lie replaces one method."""

    def __init__(self, inner: RouteBackend) -> None:
        """Wrap this backend."""
        self.inner = inner

    def snapshot(self, **parts: Any) -> Snapshot:
        """See RouteBackend."""
        return self.inner.snapshot(**parts)

    def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
        """See RouteBackend."""
        return self.inner.lookup(destinations)

    def sources(self, destinations: Sequence[IP]) -> tuple[IP | None, ...]:
        """See RouteBackend."""
        return self.inner.sources(destinations)

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """See RouteBackend."""
        return self.inner.change(requests)

    def watch(self) -> Watch:
        """See RouteBackend."""
        return self.inner.watch()

    def close(self) -> None:
        """See RouteBackend."""
        self.inner.close()


Lie = Callable[[RouteBackend], RouteBackend]


def snapshots(change: Callable[[Snapshot], Snapshot]) -> Lie:
    """The lie of a backend whose snapshots are changed in this way."""

    class Liar(Honest):
        def snapshot(self, **parts: Any) -> Snapshot:
            return change(self.inner.snapshot(**parts))

    return Liar


def each(field: str, **changed: Any) -> Lie:
    """The lie that everything in this field of a snapshot has these values."""

    def told(snapshot: Snapshot) -> Snapshot:
        values = tuple(value._replace(**changed) for value in getattr(snapshot, field))
        told: dict[str, Any] = {field: values}
        return snapshot._replace(**told)

    return snapshots(told)


def links(**changed: Any) -> Lie:
    """The lie about each device."""
    return each("links", **changed)


def addresses(**changed: Any) -> Lie:
    """The lie about each address."""
    return each("addresses", **changed)


def rules(**changed: Any) -> Lie:
    """The lie about each rule."""
    return each("rules", **changed)


def routes(**changed: Any) -> Lie:
    """The lie about each route."""
    return each("routes", **changed)


def hops(**changed: Any) -> Lie:
    """The lie about each next hop."""

    def told(route: Route) -> Route:
        return route._replace(next_hops=tuple(hop._replace(**changed) for hop in route.next_hops))

    return snapshots(lambda snapshot: snapshot._replace(routes=tuple(map(told, snapshot.routes))))


def parts(**ignored: Any) -> Lie:
    """The lie of a backend that ignores these parts."""

    class Liar(Honest):
        def snapshot(self, **asked: Any) -> Snapshot:
            return self.inner.snapshot(**{**asked, **ignored})

    return Liar


class ReachesByAnyRule(Honest):
    """Reads the tables that the rules of either family look up, whichever family is asked for."""

    def snapshot(self, *, family: int | None = None, **asked: Any) -> Snapshot:
        """See RouteBackend."""
        return part_of(self.inner.snapshot(**asked), family=family)


class ReachesNoAddress(Honest):
    """Leaves out addresses, too, where only routes should be missing."""

    def snapshot(self, *, reached: bool = False, **asked: Any) -> Snapshot:
        """See RouteBackend."""
        snapshot = self.inner.snapshot(reached=reached, **asked)
        return snapshot._replace(addresses=()) if reached else snapshot


def answers(change: Callable[[tuple[Answer, ...]], tuple[Answer, ...]]) -> Lie:
    """The lie about the answers of look-ups."""

    class Liar(Honest):
        def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
            return change(self.inner.lookup(destinations))

    return Liar


class TakesTheFirstAddress(Honest):
    """Says that each packet has the same source, where the route names another one."""

    def sources(self, destinations: Sequence[IP]) -> tuple[IP | None, ...]:
        """See RouteBackend."""
        sources = self.inner.sources(destinations)
        return tuple(source and as_ip("10.0.0.4") for source in sources)


class DoesNothing(Honest):
    """Says that each change was made, and makes none."""

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """See RouteBackend."""
        return tuple(map(Outcome, requests))


class Overwrites(Honest):
    """Adds a route in the place of another one."""

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """See RouteBackend."""
        outcomes: list[Outcome] = []
        for request in requests:
            if request.verb == "add":
                there = self.inner.snapshot().routes
                held = [route for route in there if route.key == request.route.key]
                self.inner.change([RouteRequest("delete", route) for route in held])
            outcomes += self.inner.change([request])
        return tuple(outcomes)


class DeletesByPrefix(Honest):
    """Deletes whatever route has the destination."""

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """See RouteBackend."""
        asked = list(requests)
        for place, request in enumerate(asked):
            there = self.inner.snapshot().routes
            alike = [route for route in there if route.prefix == request.route.prefix]
            if request.verb == "delete" and alike:
                asked[place] = RouteRequest("delete", alike[0])
        return self.inner.change(asked)


def deletes(**left_open: Any) -> Lie:
    """The lie of a backend that leaves these fields open when it deletes a route."""

    class Liar(Honest):
        def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
            asked = list(requests)
            for place, request in enumerate(asked):
                if request.verb == "delete":
                    asked[place] = request._replace(route=request.route._replace(**left_open))
            return self.inner.change(asked)

    return Liar


def deletes_by_hops(**left_open: Any) -> Lie:
    """The lie of a backend that leaves these fields of each next hop open when it deletes."""

    class Liar(Honest):
        def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
            asked = list(requests)
            for place, request in enumerate(asked):
                if request.verb == "delete":
                    hops = tuple(hop._replace(**left_open) for hop in request.route.next_hops)
                    asked[place] = request._replace(route=request.route._replace(next_hops=hops))
            return self.inner.change(asked)

    return Liar


class DeletesByExactNumbers(Honest):
    """Takes a metric or a protocol of 0 for just that."""

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """See RouteBackend."""
        outcomes: list[Outcome] = []
        for request in requests:
            route = request.route
            if request.verb == "delete" and not route.protocol:
                outcomes.append(Outcome(request, refusal(request, 3)))
            else:
                outcomes += self.inner.change([request])
        return tuple(outcomes)


class StopsAtARefusal(Honest):
    """Tries no change after one that was refused."""

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """See RouteBackend."""
        outcomes: list[Outcome] = []
        for request in requests:
            if all(outcome.ok for outcome in outcomes):
                outcomes += self.inner.change([request])
        return tuple(outcomes)


class RefusesAlike(Honest):
    """Gives one reason for every refusal."""

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """See RouteBackend."""
        outcomes = self.inner.change(requests)
        return tuple(
            outcome if outcome.ok else Outcome(outcome.change, refusal(outcome.change, 22, "no"))
            for outcome in outcomes
        )


class ForgetsTheVerb(Honest):
    """Each outcome is that of an `append`."""

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """See RouteBackend."""
        return tuple(
            outcome._replace(change=outcome.change._replace(verb="append"))
            for outcome in self.inner.change(requests)
        )


class ForgetsWhatIsRefused(Honest):
    """The outcome of a refusal is that of the first request."""

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """See RouteBackend."""
        outcomes = self.inner.change(requests)
        return tuple(
            outcome if outcome.ok else outcome._replace(change=outcomes[0].change)
            for outcome in outcomes
        )


class ObeysStates(Honest):
    """Takes the state of a next hop in a request for a wish, and refuses it."""

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """See RouteBackend."""
        outcomes: list[Outcome] = []
        for request in requests:
            if any(hop.linkdown or hop.dead for hop in request.route.next_hops):
                outcomes.append(Outcome(request, refusal(request, 22, "the next hop is dead")))
            else:
                outcomes += self.inner.change([request])
        return tuple(outcomes)


class NeedsTheLink(Honest):
    """Takes no notice of onlink, and so refuses a gateway that is elsewhere."""

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """See RouteBackend."""
        asked: list[RouteRequest] = []
        for request in requests:
            hops = tuple(hop._replace(onlink=False) for hop in request.route.next_hops)
            asked.append(request._replace(route=request.route._replace(next_hops=hops)))
        return self.inner.change(asked)


class HonestWatch(Watch):
    """Passes everything on, and knows that it was woken."""

    def __init__(self, inner: Watch) -> None:
        """Wrap this watch."""
        self.inner = inner
        self.is_awakened = False

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:
        """See Watch."""
        return self.inner.wait(timeout, clock=clock)

    def wake(self) -> None:
        """See Watch."""
        self.is_awakened = True
        self.inner.wake()

    def close(self) -> None:
        """See Watch."""
        self.inner.close()


class Impatient(HonestWatch):
    """Does not wait."""

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:  # noqa: ARG002
        """See Watch."""
        return self.inner.wait(0, clock=clock)


class NeverWakes(HonestWatch):
    """A wait ends when its time is up, whoever wakes it."""

    def wake(self) -> None:
        """See Watch."""


class WakesTheNext(HonestWatch):
    """Ends the next wait, and not the present one."""

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:
        """See Watch."""
        if self.is_awakened:
            self.is_awakened = False
            return False
        return self.inner.wait(timeout, clock=clock)

    def wake(self) -> None:
        """See Watch."""
        self.is_awakened = True


class StaysAwake(HonestWatch):
    """Once it is woken, it does not wait any more, and reports nothing."""

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:
        """See Watch."""
        return False if self.is_awakened else self.inner.wait(timeout, clock=clock)


class WakesEachWait(HonestWatch):
    """Once it is woken, each wait ends at once, and reports what has changed."""

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:
        """See Watch."""
        return self.inner.wait(0 if self.is_awakened else timeout, clock=clock)


class LosesAChange(HonestWatch):
    """A wait that is woken forgets what has changed."""

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:
        """See Watch."""
        is_changed = self.inner.wait(timeout, clock=clock)
        if self.is_awakened:
            self.is_awakened = False
            self.inner.wait(0)
            return False
        return is_changed


class WakesAsAChange(HonestWatch):
    """Reports a change where it is only woken."""

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:
        """See Watch."""
        is_changed = self.inner.wait(timeout, clock=clock)
        if self.is_awakened:
            self.is_awakened = False
            return True
        return is_changed


class Deaf(HonestWatch):
    """Reports no change."""

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:
        """See Watch."""
        self.inner.wait(timeout, clock=clock)
        return False


class Restless(HonestWatch):
    """Always reports a change."""

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:
        """See Watch."""
        self.inner.wait(timeout, clock=clock)
        return True


class ReportsOnce(HonestWatch):
    """Reports the first change, and no other."""

    has_reported = False

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:
        """See Watch."""
        is_first = self.inner.wait(timeout, clock=clock) and not self.has_reported
        self.has_reported = self.has_reported or is_first
        return is_first


def watches(kind: type[HonestWatch]) -> Lie:
    """The lie of a backend with such a watch."""

    class Liar(Honest):
        def watch(self) -> Watch:
            return kind(self.inner.watch())

    return Liar


def works_on(method: str) -> Lie:
    """The lie of a backend that is closed for all but this method, which another host answers."""

    def liar(inner: RouteBackend) -> RouteBackend:
        backend = Honest(inner)
        setattr(backend, method, getattr(contract_host(), method))
        return backend

    return liar


class ClosesOnce(Honest):
    """Cannot be closed twice."""

    is_closed = False

    def close(self) -> None:
        """See RouteBackend."""
        if self.is_closed:
            raise BackendError("it is closed")
        self.is_closed = True
        self.inner.close()


def of_ipv6_first(snapshot: Snapshot) -> Snapshot:
    """The rules of the other family first."""
    return snapshot._replace(rules=tuple(sorted(snapshot.rules, key=lambda rule: -rule.family)))


def without_the_kernels_routes(snapshot: Snapshot) -> Snapshot:
    """Only what programs have added."""
    routes = [route for route in snapshot.routes if route.protocol != 2]
    return snapshot._replace(routes=tuple(routes))


def with_the_kernels_routes_elsewhere(snapshot: Snapshot) -> Snapshot:
    """What an address adds leads through another device."""
    elsewhere = (NextHop("ib0"),)
    routes: list[Route] = []
    for route in snapshot.routes:
        is_kernels = route.protocol == PROTOCOL_KERNEL
        routes.append(route._replace(next_hops=elsewhere) if is_kernels else route)
    return snapshot._replace(routes=tuple(routes))


def without_prohibit(seen: tuple[Answer, ...]) -> tuple[Answer, ...]:
    """What is prohibited has no route."""
    none = Answer("no-route", None)
    return tuple(none if answer.kind == "prohibit" else answer for answer in seen)


def with_one_hop(seen: tuple[Answer, ...]) -> tuple[Answer, ...]:
    """Of each route the first next hop."""
    told: list[Answer] = []
    for answer in seen:
        route = answer.route
        if route is not None:
            route = route._replace(next_hops=route.next_hops[:1])
        told.append(answer._replace(route=route))
    return tuple(told)


USUAL = default_rules(4) + default_rules(6)
RULES = "a snapshot has the rules of IPv4 first, by priority, with all selectors"
STATE = "a snapshot has the up of each device: "
KIND, TYPE = "a snapshot has the kind of each device: ", "a snapshot has the type of each device: "
MASTER = "a snapshot has the master of each device: "
ADDRESS = "a snapshot has each address with its device and scope"
BACK = "a route is read back as it was added"
ANSWERS = "answers are in the order of the destinations"
LIES: dict[str, tuple[Lie, str]] = {
    "the usual rules, whatever there is": (snapshots(lambda it: it._replace(rules=USUAL)), RULES),
    "no rules": (snapshots(lambda it: it._replace(rules=())), RULES),
    "rules from last to first": (snapshots(lambda it: it._replace(rules=it.rules[::-1])), RULES),
    "rules of IPv6 first": (snapshots(of_ipv6_first), RULES),
    "no from": (rules(src=None), RULES),
    "no to": (rules(dst=None), RULES),
    "no iif": (rules(iif=None), RULES),
    "no fwmark": (rules(fwmark=0), RULES),
    "no mask": (rules(fwmask=0), RULES),
    "no other selector": (rules(others=()), RULES),
    "no not": (rules(invert=False), RULES),
    "no suppress_prefixlength": (rules(suppress_prefixlength=None), RULES),
    "no suppress_ifgroup": (rules(suppress_ifgroup=None), RULES),
    "no target of a goto": (rules(target=None), RULES),
    "every rule looks up a table": (rules(action="to_table"), RULES),
    "every rule looks up main": (rules(table=254), RULES),
    "every rule looks up the table of a VRF": (rules(l3mdev=True), RULES),
    "every device is up": (links(up=True), STATE),
    "no device": (
        snapshots(lambda it: it._replace(links=())),
        "a snapshot has each device; missing: ",
    ),
    "one number for all devices": (links(index=2), "each device has a number of its own"),
    "devices from last to first": (
        snapshots(lambda it: it._replace(links=it.links[::-1])),
        "and they are listed in that order",
    ),
    "always restless": (
        snapshots(lambda it: it._replace(restless=True)),
        "a snapshot is not restless if nothing changed",
    ),
    "every device is hardware": (links(kind=""), KIND),
    "every device is a veth": (links(kind="veth"), KIND),
    "every device is Ethernet": (links(type=1), TYPE),
    "every device is InfiniBand": (links(type=32), TYPE),
    "no device is a port": (links(master=None), MASTER),
    "every device is a port": (links(master="br0"), MASTER),
    "IPv6 is off": (links(ipv6_disabled=True), "has the ipv6_disabled of each device: "),
    "advertisements ignored": (links(ignores_ra=True), "has the ignores_ra of each device: "),
    "XDP everywhere": (links(xdp=True), "has the xdp of each device: "),
    "every address is global": (addresses(scope=0), ADDRESS),
    "every address is of the host": (addresses(scope=254), ADDRESS),
    "every network is a /32": (addresses(length=32), ADDRESS),
    "every address is on lo": (addresses(dev="lo"), ADDRESS),
    "every address has a peer": (addresses(peer=as_ip("10.8.0.1")), ADDRESS),
    "IPv6 is forwarded": (
        snapshots(lambda it: it._replace(ipv6_forwarding=True)),
        "whether IPv6 is forwarded; seen: True",
    ),
    "addresses from last to first": (
        snapshots(lambda it: it._replace(addresses=it.addresses[::-1])),
        "the addresses of a family are in the order",
    ),
    "no route of the kernel": (
        snapshots(without_the_kernels_routes),
        "that the kernel adds for an address",
    ),
    "routes of the kernel by another device": (
        snapshots(with_the_kernels_routes_elsewhere),
        "that the kernel adds for an address",
    ),
    "no onlink": (hops(onlink=False), BACK),
    "onlink everywhere": (hops(onlink=True), BACK),
    "a request's onlink is dropped": (NeedsTheLink, "`add` adds "),
    "no linkdown": (hops(linkdown=False), "a next hop is linkdown if its device has no carrier"),
    "linkdown everywhere": (hops(linkdown=True), BACK),
    "dead everywhere": (hops(dead=True), BACK),
    "no weights": (hops(weight=1), BACK),
    "no gateway": (hops(gateway=None), BACK),
    "every next hop is on eth0": (hops(dev="eth0"), BACK),
    "one table": (routes(table=254), BACK),
    "no mtu": (routes(mtu=None), BACK),
    "no advmss": (routes(advmss=None), BACK),
    "no tos": (routes(tos=0), BACK),
    "no preferred source": (routes(prefsrc=None), BACK),
    "no metric": (routes(metric=0), BACK),
    "one scope": (routes(scope=0), BACK),
    "a nexthop object": (routes(nexthop_id=7), BACK),
    "a preference": (routes(preference="high"), BACK),
    "a lifetime": (routes(expired=False), ": expired is False, not None"),
    "further words": (routes(unread=("encap seg6",)), BACK),
    "every route is unicast": (routes(type="unicast"), BACK),
    "a state in a request is a wish": (ObeysStates, "state of a next hop in a request is ignored"),
    "family is ignored": (parts(family=None), "`family` leaves out what is of the other family"),
    "reached is ignored": (parts(reached=False), "`reached` leaves out what no rule looks up"),
    "reached is about addresses, too": (ReachesNoAddress, "leaves out nothing but routes"),
    "reached by any rule": (ReachesByAnyRule, "leaves out what only rules of the other family"),
    "near is ignored": (parts(near=None), "`near` leaves out what is far away"),
    "near leaves out all": (parts(near=[]), "`near` leaves out what is far away"),
    "nothing has a route": (answers(lambda seen: (Answer("no-route", None),) * len(seen)), ANSWERS),
    "answers from last to first": (answers(lambda seen: seen[::-1]), ANSWERS),
    "nothing is prohibited": (answers(without_prohibit), ANSWERS),
    "one source for all": (TakesTheFirstAddress, "a source is that of the packet"),
    "one next hop in an answer": (answers(with_one_hop), "an answer has the route that decides"),
    "nothing is done": (DoesNothing, BACK),
    "another route is overwritten": (Overwrites, "`add` is refused if the destination and metric"),
    "another route is deleted": (DeletesByPrefix, "takes no other route"),
    "any protocol is deleted": (deletes(protocol=0), "takes no other route"),
    "any program's next hop is deleted": (deletes(protocol=0), "the protocol differs"),
    "any metric is deleted": (deletes(metric=0), "takes no other route"),
    "any preferred source is deleted": (deletes(prefsrc=None), "takes no other route"),
    "any next hops are deleted": (deletes(next_hops=()), "takes no other route"),
    "any device's route is deleted": (deletes_by_hops(dev=None), "takes no other route"),
    "any gateway's route is deleted": (deletes_by_hops(gateway=None), "takes no other route"),
    "only the same numbers are deleted": (DeletesByExactNumbers, "or a protocol of 0 for any"),
    "a refusal ends all": (StopsAtARefusal, "each change has an outcome, in order"),
    "an outcome is of another request": (ForgetsTheVerb, "an outcome has its request"),
    "a refusal is of another request": (ForgetsWhatIsRefused, "an outcome has its request"),
    "every refusal is the same": (RefusesAlike, "says what it is"),
    "it does not wait": (watches(Impatient), "`wait` without a change takes the whole timeout"),
    "it never wakes": (watches(NeverWakes), "`wake` ends the next wait"),
    "it wakes late": (watches(WakesTheNext), "`wake` ends the present wait"),
    "it stays awake": (watches(StaysAwake), "a change after `wake` is reported"),
    "it wakes each wait": (watches(WakesEachWait), "takes the whole timeout"),
    "a wake loses a change": (watches(LosesAChange), "a change before `wake` is reported"),
    "a wake is a change": (watches(WakesAsAChange), "`wake` ends the next wait"),
    "it is deaf": (watches(Deaf), "a change before the wait is reported"),
    "it reports once": (watches(ReportsOnce), "the next change is reported as well"),
    "it always reports": (watches(Restless), "`wait` is False while nothing changes"),
    "it is closed, and has snapshots": (works_on("snapshot"), "`snapshot` of a closed backend"),
    "it is closed, and looks up": (works_on("lookup"), "`lookup` of a closed backend"),
    "it is closed, and changes": (works_on("change"), "`change` of a closed backend"),
    "it is closed, and watches": (works_on("watch"), "`watch` of a closed backend"),
    "it closes once": (ClosesOnce, "it is closed"),
}


def broken_promises(lie: Lie, *, patience: float = BackendContract.patience) -> list[str]:
    """What each test of the suite says that fails for this backend."""
    seconds = patience

    class Suite(BackendContract):
        patience = seconds

        @contextmanager
        def make(self) -> Iterator[RouteBackend]:
            yield lie(contract_host())

    said: list[str] = []
    for name in [name for name in dir(Suite) if name.startswith("test_")]:
        try:
            getattr(Suite(), name)()
        except (AssertionError, BackendError) as error:
            said.append(str(error))
    return said


def test_what_a_failure_says() -> None:
    """What is missing, what is not promised, and the fields of two rules that print alike."""
    [said] = broken_promises(rules(suppress_ifgroup=None))
    assert said.startswith(f"{RULES}; missing: [100: from 2001:db8:7::/48 ")
    assert "; not promised: [100: from 2001:db8:7::/48 " in said
    [said] = broken_promises(snapshots(without_the_kernels_routes))
    assert said.startswith(
        "a snapshot has the routes that the kernel adds for an address; missing: ["
    )
    [said] = broken_promises(snapshots(lambda it: it._replace(rules=it.rules[::-1])))
    assert said.startswith(f"{RULES}; seen in this order: [")
    said_of_routes = broken_promises(routes(expired=False))
    assert any(": expired is False, not None" in words for words in said_of_routes)


def test_an_honest_backend() -> None:
    """The wrapper of these tests keeps every promise if it does not lie."""
    assert broken_promises(Honest) == []
    assert broken_promises(watches(HonestWatch)) == []


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_breaks_a_promise(lie: str) -> None:
    """The promise that fails says what the lie is about."""
    backend, promise = LIES[lie]
    said = broken_promises(backend, patience=0.2)
    assert [text for text in said if promise in text], said
