"""Changing routes, many at a time: an outcome for each.

Messages go out by the hundred. The kernel works through them while they are being sent and answers those that it
refuses, by their numbers. The order of the changes is kept throughout.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import attrs

from hostrouting.backends.base import Outcome
from hostrouting.backends.deletion import Obstacle, same
from hostrouting.backends.netlink import numbers as n
from hostrouting.backends.netlink.devices import NoDevice, index_of
from hostrouting.backends.netlink.messages import message
from hostrouting.backends.netlink.numbers import AF_OF
from hostrouting.backends.netlink.refusals import Refusals, not_permitted
from hostrouting.backends.netlink.route_message import RTMSG, ChangeEncoder
from hostrouting.backends.netlink.standing import Standing
from hostrouting.model import IPV4

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hostrouting.backends.base import Change
    from hostrouting.backends.netlink.channel import Channel
    from hostrouting.backends.netlink.messages import KernelError
    from hostrouting.errors import RouteRefused

__all__ = ["carry_out"]


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
        self._standing = Standing(channel, before_reading=self._flush)
        self._refusals = Refusals(channel)
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
                self._standing.touch(change.route, place)
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
        if touched := self._standing.touched(change.route):
            self._flush()
            if set(touched) & set(self._unanswered):
                self._standing.forget()
            done = (at for at in touched if at not in self._refused and at not in self._errors)
            self._standing.catch_up(self._changes[at] for at in done)
        found = self._standing.take(change.route)
        if isinstance(found, Obstacle):
            self._errors[place] = self._refusals.obstructed(change, found)
            return None
        return change if found is change.route else attrs.evolve(change, route=found)

    def _flush(self) -> None:
        """Hand over what waits."""
        messages, places, first = self._messages, self._places, self._first
        if not messages:
            return
        self._sent = True
        errors: dict[int, KernelError] = {}
        lost = self._channel.submit(messages, first, errors)
        for number, error in errors.items():
            if (refusal := not_permitted(error)) is not None:
                raise refusal
            self._refused[places[number - first]] = error
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
        for error in errors.values():
            if (refusal := not_permitted(error)) is not None:
                raise refusal

    def _settle(self) -> None:
        """Where the kernel's answer did not fit into the buffer, look whether the change was made."""
        standing = Standing(self._channel)
        for place in self._unanswered:
            change = self._changes[place]
            there = any(same(one, change.route) for one in standing.of_prefix(change.route))
            if there == (change.verb == "delete"):
                self._errors[place] = self._refusals.unanswered(change)
