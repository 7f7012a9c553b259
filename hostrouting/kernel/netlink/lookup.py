"""Asking the kernel what it would do, for many destinations at a time.

Here: the requests, and the entry of the table in each reply. Not here: what the entries of a table would decide
(`hostrouting.kernel._fib`).

Requests are sent by the hundred, filled into one template. Destinations decided by the same entry share one answer.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Sequence
from functools import cached_property, partial

from hostrouting.errors import BackendError
from hostrouting.kernel._fib.packet import ANY, PLAIN, Flow
from hostrouting.kernel.base import KIND_OF_ERRNO, Answer
from hostrouting.kernel.netlink import numbers as n
from hostrouting.kernel.netlink.channel import SEQUENCE, Channel, KernelError, Template, message, read_error
from hostrouting.kernel.netlink.numbers import AF_OF
from hostrouting.kernel.netlink.read import Names, NextHops, NoDevice, RouteReader, index_of, list_routes
from hostrouting.kernel.netlink.route_message import DESTINATION_AT, RTMSG, read_route
from hostrouting.kernel.netlink.watch import Wanted
from hostrouting.model.prefix import IP, IPV4, IPV6, ip_at, width_of

# Attributes of a request (RTA_…).
_SRC, _IIF, _MARK, _UID, _IP_PROTO, _SPORT, _DPORT = 2, 3, 16, 25, 27, 28, 29
_WORD = struct.Struct("=I")
# Without this flag IPv4 reports table main for every entry; IPv6 reports the right table and refuses the flag.
_EXTRA = {IPV4: n.RTM_F_LOOKUP_TABLE, IPV6: 0}
_ATTEMPTS = 8
_FEW = 64  # next hops, which always fit into an answer
_KIND = struct.Struct("=H")
_BODY = 16  # what follows the header of a message


def look_up(channel: Channel, destinations: Sequence[IP], flow: Flow) -> tuple[Answer, ...]:
    """The deciding entry for each destination, in their order."""
    if not destinations:
        return ()
    family = destinations[0].version
    if any(address.version != family for address in destinations):
        raise ValueError("the destinations of one lookup must have the same address family")
    if flow.source is not None and int(flow.source) and flow.source.version != family:
        raise ValueError(f"the source {flow.source} and the destinations have different address families")
    try:
        template = lookup_template(family, flow, lambda name: index_of(channel, name))
    except NoDevice as missing:
        raise BackendError(f"cannot look up: {missing.problem}", errno=errno.ENODEV) from missing
    except struct.error as error:
        raise BackendError(
            f"cannot look up {flow}: a value does not fit into a kernel message: {error}",
            errno=errno.ERANGE,
            kind="unusable",
        ) from error
    width = destinations[0].max_prefixlen // 8
    packed = [int(address).to_bytes(width, "big") for address in destinations]
    reader = _Answers(channel, flow, family)
    found: dict[bytes, Answer] = {}
    open_questions, size = list(dict.fromkeys(packed)), channel.capacity
    for _ in range(_ATTEMPTS):
        for begin in range(0, len(open_questions), size):
            asked = open_questions[begin : begin + size]
            first = channel.number(len(asked))
            messages = [template.fill(number, address) for number, address in enumerate(asked, first)]
            # Receive all answers before reading any: reading one may send requests of its own.
            for number, data in channel.inquire(messages, first):
                address = asked[number - first]
                found[address] = reader.read(data, address)
        open_questions = [address for address in open_questions if address not in found]
        if not open_questions:
            return tuple(map(found.__getitem__, packed))
        size = max(size // 4, 1)  # the answers did not fit into the receive buffer
    raise BackendError(
        f"{len(open_questions)} answers of the kernel were lost, even with small batches", kind="unsettled"
    )


def encode_lookup(
    family: int, flow: Flow, index_of: Callable[[str], int], *, entry: int = 1, sequence: int = 0, dst: int = 0
) -> bytes:
    """The request for the entry that decides for the destination `dst`.

    Without `entry` it asks for the result for one packet, whose answer is always small. struct.error if a number of the
    flow does not fit. Without a protocol in the request, Linux takes UDP in IPv4, and none in IPv6; without a user, the
    one who asks, and for a packet that arrives none.
    """
    protocol = PLAIN.ipproto if flow.ipproto is None else flow.ipproto
    uid = PLAIN.uid if flow.uid is None and flow.iif in {None, "lo"} else flow.uid
    source = None if flow.source is None or int(flow.source) == 0 else flow.source
    asked: list[tuple[int, bytes | None]] = [
        (n.RTA_DST, ip_at(family, dst).packed),
        (_SRC, None if source is None else source.packed),
        (_IIF, _WORD.pack(index_of(flow.iif)) if flow.iif not in {None, "lo"} and flow.iif else None),
        (n.RTA_OIF, _WORD.pack(index_of(flow.oif)) if flow.oif else None),
        (_MARK, _WORD.pack(flow.mark) if flow.mark else None),
        (_UID, None if uid is None else _WORD.pack(uid)),
        (_IP_PROTO, struct.pack("=B", protocol) if protocol else None),
        # Ports are in network byte order, as in a packet.
        (_SPORT, struct.pack(">H", flow.sport) if flow.sport else None),
        (_DPORT, struct.pack(">H", flow.dport) if flow.dport else None),
    ]
    bits = width_of(family)
    flags = n.RTM_F_FIB_MATCH * entry | _EXTRA[family]
    return message(
        n.RTM_GETROUTE,
        RTMSG.pack(AF_OF[family], bits, bits if source else 0, flow.tos or 0, 0, 0, 0, 0, flags),
        [(number, value) for number, value in asked if value is not None],
        sequence=sequence,
    )


def lookup_template(family: int, flow: Flow, index_of: Callable[[str], int]) -> Template:
    """The same request for any destination: the sequence number and the packed destination are filled in."""
    return Template(encode_lookup(family, flow, index_of), SEQUENCE, (DESTINATION_AT, f"{width_of(family) // 8}s"))


class _Answers:
    """Converts messages into answers; equal messages give one object."""

    def __init__(self, channel: Channel, flow: Flow, family: int) -> None:
        self._channel, self._flow, self._family = channel, flow, family
        self._known: dict[bytes, Answer] = {}
        self._names = Names(channel)
        self._routes = RouteReader(partial(read_route, names=self._names, nexthops=NextHops(channel, self._names)))

    def read(self, data: bytes, destination: bytes) -> Answer:
        """The answer in this message, which is about the destination."""
        (kind,) = _KIND.unpack_from(data, 4)
        if kind == n.NLMSG_ERROR:
            error = read_error(data, 0)
            return self._of_error(error) if error.number != errno.EMSGSIZE else self._of_large(destination)
        body = data[_BODY:]
        answer = self._known.get(body)
        if answer is None:
            answer = self._known[body] = self._of_route(data)
        return answer

    def _of_route(self, data: bytes) -> Answer:
        route = self._routes.route(data)
        return Answer(route.type, route)

    def _of_large(self, destination: bytes) -> Answer:
        """Look up the table's own entry for a route whose next hops do not fit into the kernel's answer."""
        family, number = self._family, int.from_bytes(destination, "big")
        data = self._channel.ask(
            lambda sequence: encode_lookup(
                family, self._flow, lambda name: index_of(self._channel, name), entry=0, sequence=sequence, dst=number
            )
        )
        names = self._names
        table = read_route(data, names, {}).table
        routes = list_routes(self._channel, (family,), names, Wanted(table=table))
        near = [
            (length, -place)
            for place, (network, length) in enumerate(zip(routes.networks, routes.lengths, strict=True))
            if (number ^ network) >> (8 * len(destination) - length) == 0
        ]
        # If a small route had a longer prefix, the kernel would have answered with that.
        large = (routes[-place] for _, place in sorted(near, reverse=True))
        route = next((route for route in large if len(route.legs) > _FEW), None)
        if route is None:
            address = ip_at(family, number)
            raise BackendError(
                f"the route to {address} has too many next hops for an answer of the kernel, and is no longer in its"
                " table; try again when the routes change less",
                kind="unsettled",
            )
        return Answer(route.type, route)

    def _of_error(self, error: KernelError) -> Answer:
        kind = KIND_OF_ERRNO.get(error.number)
        if kind is None or error.explained:
            # A lookup's own errors carry no explanation; an explained error means that the request is wrong.
            raise BackendError("the kernel refused the lookup", errno=error.number, kernel=error.words)
        # Only IPv4 checks the source of a packet of this host.
        if self._family == IPV4 and error.number in {errno.EINVAL, errno.ENETUNREACH} and self._foreign_source:
            raise BackendError(
                f"the kernel refused the lookup: the source {self._flow.source} is not an address of this host; for a "
                "forwarded packet, give its incoming device (iif)",
                errno=error.number,
                kernel=error.words,
            )
        return Answer(kind, None)

    @cached_property
    def _foreign_source(self) -> bool:
        """Whether the packet is sent by this host from an address that the host does not have."""
        source, iif = self._flow.source, self._flow.iif
        if source is None or not int(source) or iif not in {None, "", "lo"}:
            return False
        (answer,) = look_up(self._channel, [source], ANY)
        return answer.kind != "local"
