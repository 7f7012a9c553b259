"""Changes of routes and lookups, as conversations with the kernel."""

import errno
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from hostrouting.kernel.base import KIND_OF_ERRNO, Answer, Outcome, RouteRequest
from hostrouting.kernel.netlink.host import AskedNames, find_index
from hostrouting.kernel.netlink.numbers import RTM_GETROUTE
from hostrouting.kernel.netlink.routes import RTA_DST, decode, encode, question_rtmsg
from hostrouting.kernel.netlink.socket import (
    NUMBER,
    KernelError,
    Netlink,
    attribute,
)
from hostrouting.kernel.refusals import refusal
from hostrouting.model.prefix import IP, IPV4, IPV6, width_of

if TYPE_CHECKING:
    from hostrouting.errors import BackendError

# Changes.

_UP_TO_DST = "=8s I 5s B 14s"
"""A message of `encode` up to its destination: the sequence number is behind 8 bytes, and the
length of the prefix behind 5 more. Then come the rest of rtmsg, and the header of the attribute.
"""
_DST_AT = struct.calcsize(_UP_TO_DST)


class _RequestTemplate:
    """The message of one request, from which those of all requests of its kind are made.

    They differ in the sequence number and the destination only. 10,000 requests for routes by one
    gateway take 6 ms this way. `encode`, which is the plain way, takes 50 ms.
    """

    def __init__(self, request: RouteRequest, index_of: Callable[[str], int]) -> None:
        """Encode the first request of this kind; KernelError as from `encode`."""
        self._verb, route = request
        self._family = route.prefix.family
        self._all_but_prefix = route[1:]  # the prefix is the first field
        self._width = width_of(self._family) // 8
        encoded = encode(self._verb, route, index_of)
        after = len(encoded) - _DST_AT - self._width
        layout = struct.Struct(f"{_UP_TO_DST} {self._width}s {after}s")
        (
            self._before_sequence,
            _,
            self._before_length,
            _,
            self._before_network,
            _,
            self._after_network,
        ) = layout.unpack(encoded)
        self._pack = layout.pack

    def fits(self, request: RouteRequest) -> bool:
        """Whether the request is of this kind."""
        verb, route = request
        is_same_message = verb == self._verb and route.prefix.family == self._family
        return is_same_message and route[1:] == self._all_but_prefix

    def message_of(self, request: RouteRequest, sequence: int) -> bytes:
        """The message of a request of this kind."""
        _, network, length = request.route.prefix
        return self._pack(
            self._before_sequence,
            sequence,
            self._before_length,
            length,
            self._before_network,
            network.to_bytes(self._width, "big"),
            self._after_network,
        )


def change_routes(netlink: Netlink, requests: Sequence[RouteRequest]) -> tuple[Outcome, ...]:
    """Carry out the requests in their order; KernelError (EPERM) if this process may not."""
    errors: list[BackendError | None] = [None] * len(requests)
    for place, error in _send(netlink, requests).items():
        # Rights are those of the socket: if one request is refused for them, all were.
        if error.number == errno.EPERM:
            raise error
        errors[place] = refusal(requests[place], error.number, error.words)
    return tuple(map(Outcome, requests, errors))


def _send(netlink: Netlink, requests: Sequence[RouteRequest]) -> dict[int, KernelError]:
    """Send the requests; return the refusals by place, which is a message's sequence number."""
    refused: dict[int, KernelError] = {}
    messages: list[bytes] = []
    find = cache(partial(find_index, netlink))  # asks for each device once

    def index_of(name: str) -> int:
        index = find(name)
        if index is None:
            raise KernelError(errno.ENODEV, f"device {name} does not exist")
        return index

    template: _RequestTemplate | None = None
    for place, request in enumerate(requests):
        if template is None or not template.fits(request):
            try:
                template = _RequestTemplate(request, index_of)
            except KernelError as error:
                refused[place] = error
                continue
        messages.append(template.message_of(request, place))
    return refused | netlink.batch(messages)


# Lookups.

_RTM_F_LOOKUP_TABLE = 0x1000
_RTM_F_FIB_MATCH = 0x2000
_RTA_UID = 25
_RTA_IP_PROTO = 27
_ICMP = {IPV4: 1, IPV6: 58}
"""By family: the protocol that no rule for TCP or UDP selects. Linux takes only these three."""
_LOOKUP_FLAGS = {
    # Without the second flag, IPv4 reports table main for every route.
    IPV4: _RTM_F_FIB_MATCH | _RTM_F_LOOKUP_TABLE,
    # IPv6 reports the right table without that flag, and refuses it.
    IPV6: _RTM_F_FIB_MATCH,
}


def lookup_routes(netlink: Netlink, destinations: Sequence[IP]) -> tuple[Answer, ...]:
    """The route that decides for a plain packet to each destination."""
    questions = [_question(address, _LOOKUP_FLAGS[address.version]) for address in destinations]
    return _answers(netlink, questions)


def lookup_sources(netlink: Netlink, destinations: Sequence[IP]) -> tuple[IP | None, ...]:
    """The source of a plain packet to each destination: Linux tells it with the route that it makes
    of the one that decides.
    """
    answers = _answers(netlink, [_question(address, 0) for address in destinations])
    return tuple(answer.route and answer.route.prefsrc for answer in answers)


def _answers(netlink: Netlink, questions: Sequence[bytes]) -> tuple[Answer, ...]:
    answers = [*netlink.ask(RTM_GETROUTE, questions)]  # all of them, before the first name is asked
    # Many destinations have the same entry, and their answers are the same bytes, because `ask`
    # sends every lookup with the sequence number 0.
    answer_of = cache(partial(_answer, names=AskedNames(netlink)))
    return tuple(map(answer_of, answers))


def _question(destination: IP, flags: int) -> bytes:
    """The body of a lookup."""
    return _plain_packet(destination.version, flags) + attribute(RTA_DST, destination.packed)


@cache
def _plain_packet(family: int, flags: int) -> bytes:
    """The beginning of a lookup: an ICMP packet of root, to an address that follows."""
    fixed = question_rtmsg(family, width_of(family), flags)
    of_root = attribute(_RTA_UID, NUMBER.pack(0))
    by_icmp = attribute(_RTA_IP_PROTO, bytes([_ICMP[family]]))
    return fixed + of_root + by_icmp


def _answer(answer: bytes | KernelError, names: Mapping[int, str]) -> Answer:
    if isinstance(answer, bytes):
        route = decode(answer, names)
        return Answer(route.type, route)
    kind = KIND_OF_ERRNO.get(answer.number)
    if kind is None or answer.words:  # in words, Linux says what is wrong with the request
        raise answer
    return Answer(kind, None)
