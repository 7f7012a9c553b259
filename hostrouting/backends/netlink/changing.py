"""Changing routes, many at a time: an outcome for each.

Messages go out by the hundred. The kernel works through them while they are being sent and answers those that it
refuses, by their numbers. The order of the changes is kept throughout.

A delete is of exactly one route, and Linux takes for it the first that has all that is said. So each is compared with
what is in the tables at that moment of the batch (`hostrouting.backends.deletion`), and goes out as the route that was
found there. A refusal is worth another look at the host, for the words of `hostrouting.backends.refusal`.
"""

from __future__ import annotations

import errno
import struct
from typing import TYPE_CHECKING

import attrs

from hostrouting.backends.base import Outcome
from hostrouting.backends.bounds import misfit
from hostrouting.backends.deletion import Obstacle, find_exactly, same
from hostrouting.backends.netlink import numbers as n
from hostrouting.backends.netlink.devices import NoDevice, index_of
from hostrouting.backends.netlink.messages import message
from hostrouting.backends.netlink.numbers import AF_OF
from hostrouting.backends.netlink.reading import list_addresses, list_names, list_routes
from hostrouting.backends.netlink.route_message import RTMSG, ChangeEncoder
from hostrouting.backends.netlink.watching import Wanted
from hostrouting.backends.refusal import refusal
from hostrouting.errors import NotPermitted, RouteRefused
from hostrouting.model import IPV4

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hostrouting.backends.base import Change
    from hostrouting.backends.netlink.channel import Channel
    from hostrouting.backends.netlink.messages import KernelError
    from hostrouting.model import Address, Prefix, Route, RouteTable

__all__ = ["carry_out"]

# Of which routes: family, table and protocol (None for those of all).
_Which = tuple[int, int, int | None]


def carry_out(channel: Channel, changes: Iterable[Change]) -> tuple[Outcome, ...]:
    """Carry out each change, in order, and say what became of each."""
    wanted = list(changes)
    errors = _Work(channel, wanted).do()
    if not errors:
        return tuple(map(Outcome, wanted))
    return tuple(Outcome(change, errors.get(place)) for place, change in enumerate(wanted))


class _Work:
    """One batch on its way. Places are those in the list of changes."""

    def __init__(self, channel: Channel, changes: list[Change]) -> None:
        self._channel = channel
        self._changes = changes
        self._tables = _Tables(channel, before_reading=self._flush)
        self._refusals = _Refusals(channel)
        # What waits to be sent: numbered from `first`, and the place of each.
        self._most = channel.capacity
        self._first = channel.number(self._most)
        self._messages: list[bytes] = []
        self._places: list[int] = []
        self._sent = False
        # What came of it.
        self._refused: dict[int, KernelError] = {}
        self._unanswered: list[int] = []
        self._errors: dict[int, RouteRefused] = {}

    def do(self) -> dict[int, RouteRefused]:
        """The errors by place."""
        encode_message = ChangeEncoder(lambda name: index_of(self._channel, name)).message
        messages, places, most, deleting = self._messages, self._places, self._most, False
        number = self._first
        for place, change in enumerate(self._changes):
            asked: Change | None = change
            if change.verb == "delete":
                deleting = True
                asked = self._as_it_stands(place)
                number = self._first + len(messages)  # to find out may have taken a flush
            elif deleting:
                self._tables.touch(change.route, place)
            if asked is None:
                continue
            try:
                messages.append(encode_message(asked, number))
            except (NoDevice, struct.error) as problem:
                self._errors[place] = self._refusals.not_said(change, problem)
                continue
            places.append(place)
            number += 1
            if len(places) == most:
                self._flush()
                number = self._first
        self._flush()
        if self._errors and not self._sent:
            self._ask_permission()
        for place, error in self._refused.items():
            self._errors[place] = self._refusals.of(self._changes[place], error)
        self._settle()
        return self._errors

    def _as_it_stands(self, place: int) -> Change | None:
        """The delete in this place, of the route as it stands after everything before; None if it cannot be."""
        change = self._changes[place]
        if touched := self._tables.touched(change.route):
            self._flush()
            if set(touched) & set(self._unanswered):
                self._tables.forget()
            done = (at for at in touched if at not in self._refused and at not in self._errors)
            self._tables.catch_up(self._changes[at] for at in done)
        found = self._tables.take(change.route)
        if isinstance(found, Obstacle):
            self._errors[place] = self._refusals.obstructed(change, found)
            return None
        return change if found is change.route else attrs.evolve(change, route=found)

    def _flush(self) -> None:
        """Hand over what waits."""
        messages, places, first = self._messages, self._places, self._first
        if not messages:
            return
        errors: dict[int, KernelError] = {}
        lost = self._channel.submit(messages, first, errors)
        if not self._sent and (lost or len(errors) == len(messages)):
            _raise_if_denied(errors)
        self._sent = True
        self._refused |= {places[number - first]: error for number, error in errors.items()}
        if lost:
            self._unanswered += [place for place in places if place not in self._refused]
        messages.clear()
        places.clear()
        self._first = self._channel.number(self._most)

    def _ask_permission(self) -> None:
        """Where nothing was left to send, ask the kernel for what it will refuse in any case: it says for which reason.

        No prefix of IPv4 is 255 bits long.
        """
        asked = message(n.RTM_DELROUTE, RTMSG.pack(AF_OF[IPV4], 255, *[0] * 7), sequence=self._first)
        errors: dict[int, KernelError] = {}
        self._channel.submit([asked], self._first, errors)
        _raise_if_denied(errors)

    def _settle(self) -> None:
        """Where the kernel's answer did not fit into the buffer, look whether the change was made."""
        tables = _Tables(self._channel)
        for place in self._unanswered:
            change = self._changes[place]
            there = any(same(one, change.route) for one in tables.of_prefix(change.route))
            if there == (change.verb == "delete"):
                self._errors[place] = self._refusals.unanswered(change)


class _Tables:
    """The routes of each prefix in the kernel's order, read when first asked for and then kept up with the batch."""

    def __init__(self, channel: Channel, *, before_reading: Callable[[], None] = lambda: None) -> None:
        """Read nothing yet; what is still to be done comes first, with `before_reading`."""
        self._channel = channel
        self._before_reading = before_reading
        self._names: dict[int, str] | None = None
        self._routes: dict[_Which, _Shelf] = {}
        # What was done at a prefix since it was read, by places in the batch.
        self._touched: dict[tuple[int, Prefix], list[int]] = {}

    def touch(self, route: Route, place: int) -> None:
        """Something else than a delete is about to be done with this prefix, in this place of the batch."""
        if self._routes:
            self._touched.setdefault((route.table, route.prefix), []).append(place)

    def touched(self, route: Route) -> list[int]:
        """What was done with this prefix since it was read; asked once."""
        return self._touched.pop((route.table, route.prefix), [])

    def catch_up(self, done: Iterable[Change]) -> None:
        """Take note of what was done with a prefix, or read all again if it cannot be told what came of it."""
        for change in done:
            if not _is_plain(change):
                self.forget()
                return
            for routes in self._lists_of(change.route):
                _insert(routes, change)

    def forget(self) -> None:
        """Read again when next asked."""
        self._names = None
        self._routes.clear()
        self._touched.clear()

    def take(self, route: Route) -> Route | Obstacle:
        """Take note that this very route is deleted, if it can be; the route as it stands, or what is in the way."""
        found = find_exactly(route, self.of_prefix(route, protocol=route.protocol or None))
        if not isinstance(found, Obstacle):
            for routes in self._lists_of(found):
                if found in routes:  # the lists are not read at one moment
                    routes.remove(found)
        return found

    def of_prefix(self, route: Route, *, protocol: int | None = None) -> list[Route]:
        """The routes of the same table and prefix, in the kernel's order."""
        which = (route.prefix.family, route.table, protocol)
        shelf = self._routes.get(which)
        if shelf is None:
            shelf = self._routes[which] = self._read(which)
        return shelf.of(route.prefix)

    def _lists_of(self, route: Route) -> list[list[Route]]:
        """Each list that was read in which such a route belongs: there is one for its protocol, and one for any."""
        return [
            shelf.of(route.prefix)
            for (family, table, protocol), shelf in self._routes.items()
            if (family, table) == (route.prefix.family, route.table) and protocol in {None, route.protocol}
        ]

    def _read(self, which: _Which) -> _Shelf:
        family, table, protocol = which
        self._before_reading()
        if self._names is None:
            self._names = list_names(self._channel)
        return _Shelf(list_routes(self._channel, (family,), self._names, Wanted(table=table, protocol=protocol)))


class _Shelf:
    """Routes by prefix, each made when it is looked at."""

    def __init__(self, routes: RouteTable) -> None:
        self._routes = routes
        self._places: dict[tuple[int, int], list[int]] = {}
        for place, where in enumerate(zip(routes.networks, routes.lengths, strict=True)):
            self._places.setdefault(where, []).append(place)
        self._made: dict[Prefix, list[Route]] = {}

    def of(self, prefix: Prefix) -> list[Route]:
        made = self._made.get(prefix)
        if made is None:
            places = self._places.get((prefix.network, prefix.length), ())
            made = self._made[prefix] = [self._routes[place] for place in places]
        return made


def _is_plain(change: Change) -> bool:
    """Whether it is known what stands where afterwards.

    IPv6 makes legs of routes, `replace` may take another's place, sizes of packets are cut down, or dropped when 0, and
    a gateway of 0.0.0.0 is dropped.
    """
    route = change.route
    said = all(leg.dev and (leg.gateway is None or int(leg.gateway)) for leg in route.legs)
    said = said and route.mtu is route.advmss is None
    return route.prefix.family == IPV4 and change.verb != "replace" and said


def _insert(routes: list[Route], change: Change) -> None:
    """Put a new route among those of its prefix: by tos, the highest first, then by metric, the lowest first."""
    rank = (-change.route.tos, change.route.metric)
    ranks = [(-it.tos, it.metric) for it in routes]
    ahead = [it for it in ranks if it < rank or (it == rank and change.verb != "prepend")]
    routes.insert(len(ahead), change.route)


def _raise_if_denied(errors: dict[int, KernelError]) -> None:
    """Raise NotPermitted where the kernel permitted none of the messages that it answered.

    It looks at the capabilities of this process before anything else, and answers EPERM. EACCES is about one route: a
    rule or a route of type prohibit refuses the way to its gateway, or its device has IPv6 switched off.
    """
    if errors and all(error.number == errno.EPERM for error in errors.values()):
        error = next(iter(errors.values()))
        raise NotPermitted(
            "this process may not change routing; it takes root, or the capability CAP_NET_ADMIN",
            errno=error.number,
            kernel=error.words,
        )


class _Refusals:
    """Makes the error of each change that was refused; where it has to look at the host, one look serves for all."""

    def __init__(self, channel: Channel) -> None:
        """Look at nothing yet."""
        self._channel = channel
        self._tables = _Tables(channel)
        self._addresses: dict[int, tuple[Address, ...]] = {}

    def of(self, change: Change, error: KernelError) -> RouteRefused:
        """The error of a change that the kernel refused."""
        return refusal(change, error.number, error.words, facts=self)

    def not_said(self, change: Change, problem: NoDevice | struct.error) -> RouteRefused:
        """The error of a change that could not be said to the kernel."""
        unfit = misfit(change.route)
        if isinstance(problem, NoDevice) and not unfit:
            return refusal(change, errno.ENODEV, problem.words, facts=self, problem=problem.problem)
        return refusal(change, errno.ERANGE, facts=self, problem=unfit or str(problem))

    def obstructed(self, change: Change, obstacle: Obstacle) -> RouteRefused:
        """The error of a delete for which the kernel was not asked."""
        return refusal(change, obstacle.number, facts=self, problem=obstacle.words)

    def unanswered(self, change: Change) -> RouteRefused:
        """The error of a change whose answer was lost, and which is seen not to have been made."""
        problem = "the kernel's answer was lost, and the change is not there"
        return refusal(change, errno.ENOBUFS, facts=self, problem=problem)

    def routes_of_prefix(self, route: Route) -> list[Route]:
        """The routes of the same table and prefix, in the kernel's order."""
        return self._tables.of_prefix(route)

    def addresses(self, family: int) -> tuple[Address, ...]:
        """The host's own addresses of this family."""
        if family not in self._addresses:
            self._addresses[family] = list_addresses(self._channel, family, list_names(self._channel))
        return self._addresses[family]
