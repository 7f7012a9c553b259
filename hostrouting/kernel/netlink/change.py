"""Changing routes, many at a time, with an outcome for each.

Here: sending changes, and finding out what became of each. Not here: the format of a message (`route_message`), which
route a delete matches and what a refusal means (`kernel.requests`).

Messages are sent by the hundred. The kernel processes them during the send call and answers those that it refuses, by
sequence number. The order of the changes is kept.

A delete must match exactly one route, but Linux deletes the first route that has the given fields. So each delete is
compared with the tables as they are at that point of the batch, and is sent with all fields of the route found there.
After a refusal the host is read again, to explain it.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from hostrouting.errors import BackendError
from hostrouting.kernel.base import Outcome, RouteRequest
from hostrouting.kernel.netlink import numbers as n
from hostrouting.kernel.netlink.channel import Channel, KernelError, message
from hostrouting.kernel.netlink.numbers import AF_OF
from hostrouting.kernel.netlink.read import NoDevice, index_of, list_addresses, list_names, list_routes
from hostrouting.kernel.netlink.route_message import RTMSG, ChangeEncoder
from hostrouting.kernel.netlink.watch import Wanted
from hostrouting.kernel.requests import Obstacle, find_exactly, misfit, refusal, same
from hostrouting.model.prefix import IPV4, IPV6, Prefix

if TYPE_CHECKING:
    from hostrouting.kernel._route_table import RouteTable
    from hostrouting.model.route import Route
    from hostrouting.model.snapshot import Address


# Which routes: family, table and protocol (None for all protocols).
_Which = tuple[int, int, int | None]


def carry_out(channel: Channel, changes: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
    """Carry out each change, in order, and return the result of each."""
    wanted = tuple(changes)
    errors = _Work(channel, wanted).do()
    if not errors:
        return tuple(map(Outcome, wanted))
    return tuple(Outcome(change, errors.get(place)) for place, change in enumerate(wanted))


class _Work:
    """One batch while it is being carried out. Places are indexes in the list of changes."""

    def __init__(self, channel: Channel, changes: tuple[RouteRequest, ...]) -> None:
        self._channel = channel
        self._changes = changes
        self._tables = _Tables(channel, before_reading=self._flush)
        self._refusals = _Refusals(channel)
        # The messages to be sent: numbered from `first`, and the place of each.
        self._most = channel.capacity
        self._first = channel.number(self._most)
        self._messages: list[bytes] = []
        self._places: list[int] = []
        self._sent = False
        # The results.
        self._refused: dict[int, KernelError] = {}
        self._unanswered: list[int] = []
        self._errors: dict[int, BackendError] = {}

    def do(self) -> dict[int, BackendError]:
        """Carry out the batch; return the errors by place."""
        encode_message = ChangeEncoder(lambda name: index_of(self._channel, name)).message
        messages, places, most, deleting = self._messages, self._places, self._most, False
        number = self._first
        for place, change in enumerate(self._changes):
            asked: RouteRequest | None = change
            if change.verb == "delete":
                deleting = True
                asked = self._as_it_stands(place)
                number = self._first + len(messages)  # finding the route may have caused a flush
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

    def _as_it_stands(self, place: int) -> RouteRequest | None:
        """The delete at this place for the route as the changes before it leave it; None if it is impossible."""
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
        return change if found is change.route else change._replace(route=found)

    def _flush(self) -> None:
        """Send the waiting messages."""
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
        """If nothing was sent, send a request that the kernel must refuse: its error tells whether we have the right.

        An IPv4 prefix cannot be 255 bits long.
        """
        asked = message(n.RTM_DELROUTE, RTMSG.pack(AF_OF[IPV4], 255, *[0] * 7), sequence=self._first)
        errors: dict[int, KernelError] = {}
        self._channel.submit([asked], self._first, errors)
        _raise_if_denied(errors)

    def _settle(self) -> None:
        """For each change whose answer was lost (the buffer was full), read whether the change was made."""
        tables = _Tables(self._channel)
        for place in self._unanswered:
            change = self._changes[place]
            there = any(same(one, change.route) for one in tables.of_prefix(change.route))
            if there == (change.verb == "delete"):
                self._errors[place] = self._refusals.unanswered(change)


class _Tables:
    """The routes of each prefix in the kernel's order: read when first needed, then updated with the batch."""

    def __init__(self, channel: Channel, *, before_reading: Callable[[], None] = lambda: None) -> None:
        """Read nothing yet; `before_reading` sends what is still waiting."""
        self._channel = channel
        self._before_reading = before_reading
        self._names: dict[int, str] | None = None
        self._routes: dict[_Which, _Shelf] = {}
        # The changes at a prefix since it was read, by their places in the batch.
        self._touched: dict[tuple[int, Prefix], list[int]] = {}

    def touch(self, route: Route, place: int) -> None:
        """Record that a change other than a delete will be made to this prefix, at this place of the batch."""
        if self._routes:
            self._touched.setdefault((route.table, route.prefix), []).append(place)

    def touched(self, route: Route) -> list[int]:
        """The places of changes to this prefix since it was read. Clears the record."""
        return self._touched.pop((route.table, route.prefix), [])

    def catch_up(self, done: Iterable[RouteRequest]) -> None:
        """Apply finished changes to the lists, or read everything again if their effect is not known."""
        for change in done:
            if not _is_plain(change):
                self.forget()
                return
            for routes in self._lists_of(change.route):
                _insert(routes, change)

    def forget(self) -> None:
        """Read again before the next use."""
        self._names = None
        self._routes.clear()
        self._touched.clear()

    def take(self, route: Route) -> Route | Obstacle:
        """Remove this exact route from the lists; return it as it is now, or why it cannot be deleted."""
        found = find_exactly(route, self.of_prefix(route, protocol=route.protocol or None))
        if isinstance(found, Obstacle) and route.prefix.family == IPV6:
            found = find_exactly(route, self.of_prefix(route))  # a next hop of a route with another protocol
        if not isinstance(found, Obstacle):
            for routes in self._lists_of(found):
                # The lists were not read at the same moment. One of several next hops stays in them.
                if found in routes:
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
        """The lists read so far that contain such a route: one for its protocol, and one for all protocols."""
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
    """Routes by prefix; each Route is created when it is first needed."""

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


def _is_plain(change: RouteRequest) -> bool:
    """Whether the effect of the change on the lists is known.

    IPv6 merges routes into next hops, `replace` may replace a different route, packet sizes are capped, or dropped when
    0, and a gateway of 0.0.0.0 is dropped.
    """
    route = change.route
    said = all(leg.dev and (leg.gateway is None or int(leg.gateway)) for leg in route.legs)
    said = said and route.mtu is route.advmss is None
    return route.prefix.family == IPV4 and change.verb != "replace" and said


def _insert(routes: list[Route], change: RouteRequest) -> None:
    """Insert a new route among those of its prefix: highest tos first, then lowest metric first."""
    rank = (-change.route.tos, change.route.metric)
    ranks = [(-route.tos, route.metric) for route in routes]
    ahead = [other for other in ranks if other < rank or (other == rank and change.verb != "prepend")]
    routes.insert(len(ahead), change.route)


def _raise_if_denied(errors: dict[int, KernelError]) -> None:
    """Raise BackendError (not-permitted) if the kernel answered every message with EPERM.

    It checks the capabilities of this process first, and answers EPERM. EACCES is about one route: a rule or a route of
    type prohibit refuses packets to its gateway, or IPv6 is disabled on its device.
    """
    if errors and all(error.number == errno.EPERM for error in errors.values()):
        error = next(iter(errors.values()))
        raise BackendError(
            "this process may not change routes or rules; this requires root or the capability CAP_NET_ADMIN",
            errno=error.number,
            kernel=error.words,
            kind="not-permitted",
        )


class _Refusals:
    """Makes the error of each refused change. The host is read at most once for all of them."""

    def __init__(self, channel: Channel) -> None:
        """Read nothing yet."""
        self._channel = channel
        self._tables = _Tables(channel)
        self._addresses: dict[int, tuple[Address, ...]] = {}

    def of(self, change: RouteRequest, error: KernelError) -> BackendError:
        """The error of a change that the kernel refused."""
        return refusal(change, error.number, error.words, facts=self)

    def not_said(self, change: RouteRequest, problem: NoDevice | struct.error) -> BackendError:
        """The error of a change that does not fit into a kernel message."""
        unfit = misfit(change.route)
        if isinstance(problem, NoDevice) and not unfit:
            return refusal(change, errno.ENODEV, problem.words, facts=self, problem=problem.problem)
        return refusal(change, errno.ERANGE, facts=self, problem=unfit or str(problem))

    def obstructed(self, change: RouteRequest, obstacle: Obstacle) -> BackendError:
        """The error of a delete for which no request was sent."""
        return refusal(change, obstacle.number, facts=self, problem=obstacle.words)

    def unanswered(self, change: RouteRequest) -> BackendError:
        """The error of a change that was not made, and whose answer was lost."""
        problem = "the kernel's answer was lost, and the change was not made"
        return refusal(change, errno.ENOBUFS, facts=self, problem=problem)

    def routes_of_prefix(self, route: Route) -> list[Route]:
        """The routes of the same table and prefix, in the kernel's order."""
        return self._tables.of_prefix(route)

    def addresses(self, family: int) -> tuple[Address, ...]:
        """The addresses of this host in this family."""
        if family not in self._addresses:
            self._addresses[family] = list_addresses(self._channel, family, list_names(self._channel))
        return self._addresses[family]
