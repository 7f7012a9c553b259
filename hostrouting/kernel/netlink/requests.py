"""Changes of routes and lookups, as conversations with the kernel."""

import errno
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from hostrouting.kernel.base import KIND_OF_ERRNO, Answer, Outcome, RouteRequest
from hostrouting.kernel.netlink.host import AskedNames, list_links
from hostrouting.kernel.netlink.numbers import RTM_GETROUTE
from hostrouting.kernel.netlink.routes import RTA_DST, decode, encode, question_rtmsg
from hostrouting.kernel.netlink.socket import (
    KernelError,
    Netlink,
    attribute,
    number_attribute,
)
from hostrouting.kernel.refusals import refusal
from hostrouting.model.prefix import IP, IPV4, IPV6, width_of

if TYPE_CHECKING:
    from hostrouting.errors import BackendError

# Changes.


def change_routes(netlink: Netlink, requests: Sequence[RouteRequest]) -> tuple[Outcome, ...]:
    """Have the kernel carry out the requests in this order, and return the outcome of each.
    KernelError (EPERM) if this process may not change routes.
    """
    indexes = {link.name: link.index for link in list_links(netlink)}

    def index_of(name: str) -> int:
        # The error is caught below, so that only the request with this device is refused.
        if name not in indexes:
            raise KernelError(errno.ENODEV, f"device {name} does not exist")
        return indexes[name]

    # The place of a request in `requests` is also the sequence number of its message.
    errors_by_place: dict[int, KernelError] = {}
    messages: list[bytes] = []
    for place, (verb, route) in enumerate(requests):
        try:
            messages.append(encode(verb, route, index_of, place))
        except KernelError as error:
            errors_by_place[place] = error
    errors_by_place |= netlink.send_changes(messages)

    refusals: list[BackendError | None] = [None] * len(requests)
    for place, kernel_error in errors_by_place.items():
        # Without the privilege, Linux refuses every request, so this error is raised for all.
        if kernel_error.number == errno.EPERM:
            raise kernel_error
        refusals[place] = refusal(requests[place], kernel_error.number, kernel_error.words)
    return tuple(map(Outcome, requests, refusals))


# Lookups.

_RTM_F_LOOKUP_TABLE = 0x1000
_RTM_F_FIB_MATCH = 0x2000  # answer with the whole route, not only the next hop that packets take
_RTA_UID = 25
_RTA_IP_PROTO = 27
_ICMP = {IPV4: 1, IPV6: 58}
"""By family: the number of ICMP. A lookup can be for TCP, UDP or ICMP only, and rules that select a
protocol are mostly for the first two.
"""
_LOOKUP_FLAGS = {
    # Without the second flag, IPv4 reports table main for every route.
    IPV4: _RTM_F_FIB_MATCH | _RTM_F_LOOKUP_TABLE,
    # IPv6 reports the right table without that flag, and refuses it.
    IPV6: _RTM_F_FIB_MATCH,
}
_NO_FLAGS = 0


def lookup_routes(netlink: Netlink, destinations: Sequence[IP]) -> tuple[Answer, ...]:
    """Ask the kernel what it would do with a plain packet to each destination, and return the
    answers in this order (`RouteBackend.lookup`).
    """
    questions = [_question(each, _LOOKUP_FLAGS[each.version]) for each in destinations]
    # All answers are received before the first is decoded, because decoding may ask Linux for the
    # name of a device on the same socket (`AskedNames`).
    messages = [*netlink.ask(RTM_GETROUTE, questions)]
    # Destinations that use the same route have the same answer, byte for byte: Linux answers with
    # the prefix of the route, and every lookup has the sequence number 0. So `cache` decodes each
    # answer only once.
    decode_answer = cache(partial(_decode_answer, names=AskedNames(netlink)))
    answers = [*map(decode_answer, messages)]

    # If an answer may name a wrong route, ask again without flags. Linux then answers with the
    # device and gateway that it really uses, and without the prefix of a route.
    doubtful = [place for place, answer in enumerate(answers) if _may_name_another_route(answer)]
    questions = [_question(destinations[place], _NO_FLAGS) for place in doubtful]
    messages = [*netlink.ask(RTM_GETROUTE, questions)]
    for place, message in zip(doubtful, messages, strict=True):
        answers[place] = decode_answer(message)
    return tuple(answers)


def _question(destination: IP, flags: int) -> bytes:
    """The request that looks up a plain packet to this destination."""
    return _plain_packet(destination.version, flags) + attribute(RTA_DST, destination.packed)


@cache
def _plain_packet(family: int, flags: int) -> bytes:
    """The beginning of a request that looks up a plain packet, which is ICMP and from root; the
    caller appends the destination.
    """
    fixed = question_rtmsg(family, width_of(family), flags)
    from_root = number_attribute(_RTA_UID, 0)
    is_icmp = attribute(_RTA_IP_PROTO, bytes([_ICMP[family]]))
    return fixed + from_root + is_icmp


def _may_name_another_route(answer: Answer) -> bool:
    """Whether this answer may name another route than Linux uses, as for an IPv6 route with a
    nexthop object.

    Linux caches the result of a lookup for each CPU and nexthop object, and all routes with this
    object share the result (`rt6_get_pcpu_route` in net/ipv6/route.c). Packets still leave by the
    right device and gateway. But with `_RTM_F_FIB_MATCH`, Linux names whichever route with this
    object was looked up first. IPv4 has no such cache.
    """
    route = answer.route
    if route is None or route.prefix.family == IPV4:
        return False
    return route.nexthop_id is not None


def _decode_answer(message: bytes | KernelError, names: Mapping[int, str]) -> Answer:
    """Read the kernel's answer to a lookup: a route, or an error. The error is an answer, too, if
    its errno says that there is no route, or that a route or rule refuses the packet; any other
    error is raised.
    """
    if isinstance(message, bytes):
        route = decode(message, names)
        return Answer(route.type, route)
    kind = KIND_OF_ERRNO.get(message.number)
    # EINVAL means a blackhole or a faulty request. Linux explains only a faulty request in words,
    # so an error with words is raised.
    if kind is None or message.words:
        raise message
    return Answer(kind, None)
