"""Linux in a private network namespace, controlled with netlink messages: fast enough for thousands of operations.

A thread creates the namespace, opens sockets in it and ends at once. The namespace ends when the sockets are closed.
Nothing here can affect the host's own namespace, and no packet is sent. The methods have the names of the fake
kernel's; each returns the errno (0: done) and the kernel's message.
"""

import ctypes
import os
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from hostrouting.kernel.base import RouteRequest
from hostrouting.model.prefix import IP, Prefix, width_of
from hostrouting.model.route import ROUTE_TYPES, NextHop, Preference, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Address
from tests.support.programs import completed
from tests.support.rawmessages import (
    AF,
    FAMILY,
    Attributes,
    pack_attribute,
    pack_gateway,
    pack_link,
    pack_nest,
    pack_rule,
    pack_text,
    read_attributes,
    read_ip,
    read_number,
    read_rule,
)
from tests.support.waiting import wait_for

_CLONE_NEWNET = 0x40000000
_SOL_NETLINK, _CAP_ACK, _EXT_ACK, _STRICT = 270, 10, 11, 12
_REQUEST, _ACK, _DUMP = 1, 4, 0x300
_REPLACE, _EXCL, _CREATE, _APPEND = 0x100, 0x200, 0x400, 0x800
_ERROR, _DONE = 2, 3
_NEWLINK, _DELLINK, _GETLINK = 16, 17, 18
_NEWADDR, _DELADDR, _GETADDR = 20, 21, 22
_NEWROUTE, _DELROUTE, _GETROUTE = 24, 25, 26
_NEWRULE, _DELRULE, _GETRULE = 32, 33, 34
# Request the FIB entry; in IPv4 its table must be requested separately.
_FIB_MATCH = {4: 0x2000 | 0x1000, 6: 0x2000}
_IFF_UP, _IFF_LOWER_UP = 1, 0x10000
_VERBS = {
    "add": (_NEWROUTE, _CREATE | _EXCL),
    "append": (_NEWROUTE, _CREATE | _APPEND),
    "prepend": (_NEWROUTE, _CREATE),
    "replace": (_NEWROUTE, _CREATE | _REPLACE),
    "delete": (_DELROUTE, 0),
}
_NOPREFIXROUTE = 0x200
_PREFERENCES: dict[Preference, int] = {"medium": 0, "high": 1, "low": 3}
# After this many seconds, a route that was to expire at once has done so: a tick of the slowest kernels is 10 ms.
_EXPIRED_AFTER = 0.021
_PEER = "far-"  # what the other end of each link is called


class Said(NamedTuple):
    """The kernel's answer: an errno (0: done) and a message."""

    errno: int
    text: str = ""


@contextmanager
def raw_kernel(*, promote_secondaries: bool = False, ignore_linkdown: bool = False) -> "Iterator[RawKernel]":
    """Create a namespace with these sysctls. It is removed at the end of the block."""
    made: list[Any] = []
    sysctls = {
        "ipv4/conf/all/promote_secondaries": promote_secondaries,
        "ipv4/conf/all/ignore_routes_with_linkdown": ignore_linkdown,
        "ipv6/conf/default/ignore_routes_with_linkdown": ignore_linkdown,
        # Linux deletes expired routes now and then; a test must not meet that moment.
        "ipv6/route/gc_interval": 3600,
    }

    def make() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_CLONE_NEWNET):
            made.append(OSError(ctypes.get_errno(), "no private network namespace"))
            return
        for path, value in sysctls.items():
            # A thread sees the values of the namespace that it is in.
            Path(f"/proc/sys/net/{path}").write_text(str(int(value)), encoding="ascii")
        here = f"/proc/self/task/{threading.get_native_id()}/ns/net"
        made.append(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
        made.append(os.open(here, os.O_RDONLY | os.O_CLOEXEC))
        made.append(os.open("/proc/sys/net/ipv6/route/flush", os.O_WRONLY | os.O_CLOEXEC))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    channel, namespace, flush = made
    try:
        if os.fstat(namespace).st_ino == Path("/proc/self/ns/net").stat().st_ino:
            raise RuntimeError("the namespace is the host's own")
        yield RawKernel(channel, namespace, flush)
    finally:
        channel.close()
        os.close(namespace)
        os.close(flush)


class RawKernel:
    """The kernel in one private namespace. Every device is one end of a veth pair; setting the other end down removes its carrier."""

    def __init__(self, channel: socket.socket, namespace: int, flush: int) -> None:
        """Use this socket, and this file for expired routes, which were opened in the namespace of the descriptor."""
        self._channel, self._namespace, self._flush = channel, namespace, flush
        for option in (_CAP_ACK, _EXT_ACK, _STRICT):
            channel.setsockopt(_SOL_NETLINK, option, 1)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        channel.settimeout(10)
        self._sequence = 0
        self._indexes: dict[str, int] = {"lo": 1}
        self._names: dict[int, str] = {1: "lo"}
        self._plugged: dict[str, bool] = {}
        self._up: set[str] = set()

    # Devices, addresses and rules

    def add_link(self, name: str) -> Said:
        """Add a veth pair: this end is down, the other one up."""
        far = pack_link() + pack_text(3, _PEER + name)
        info = pack_nest(18, pack_text(1, "veth") + pack_nest(2, pack_nest(1, far)))
        said = self._ask(_NEWLINK, _CREATE | _EXCL, pack_link() + pack_text(3, name) + info)
        if not said.errno:
            quiet = pack_nest(26, pack_nest(int(socket.AF_INET6), pack_attribute(8, b"\x01")))
            for end in (name, _PEER + name):
                ((index, _, _),) = self._links(end)
                self._indexes[end], self._names[index] = index, end
                self._ask(_NEWLINK, 0, pack_link(index) + quiet)
            self._set(_PEER + name, _IFF_UP)
            self._plugged[name] = True
        return said

    def delete_link(self, name: str) -> Said:
        """Delete both ends."""
        said = self._ask(_DELLINK, 0, pack_link(self._indexes.get(name, 0)) + pack_text(3, name))
        if not said.errno:
            self.collect_expired()
            for end in (name, _PEER + name):
                self._names.pop(self._indexes.pop(end))
            del self._plugged[name]
            self._up.discard(name)
        return said

    def set_up(self, name: str) -> Said:
        """Set this end up."""
        self._up.add(name)
        return self._set(name, _IFF_UP)

    def set_down(self, name: str) -> Said:
        """Set this end down."""
        self._up.discard(name)
        return self._set(name, 0)

    def set_carrier(self, name: str, *, carrier: bool) -> Said:
        """Set the other end up or down."""
        if name not in self._indexes:
            return Said(19)
        self._plugged[name] = carrier
        said = self._set(_PEER + name, _IFF_UP * carrier)
        self._settle(name)
        if not carrier:
            # If the other end was up, setting it down has taken expired routes along.
            self.collect_expired()
        return said

    def add_address(self, address: Address) -> Said:
        """Add an address; in IPv6 without duplicate address detection."""
        said = self._ask(_NEWADDR, _CREATE | _EXCL, self._address(address))
        if not said.errno and address.ip.version == 6:
            # Even then, the kernel adds the route to the address itself with a delay.
            own = Prefix.of(address.ip)
            wait_for(
                f"the route to {own}",
                lambda: (
                    (own, (address.dev,), "local")
                    in {(route.prefix, route.devs, route.type) for route in self.routes(6)}
                ),
            )
        return said

    def delete_address(self, address: Address) -> Said:
        """Delete an address."""
        return self._ask(_DELADDR, 0, self._address(address))

    def add_rule(self, rule: Rule) -> Said:
        """Add a rule."""
        return self._ask(_NEWRULE, _CREATE | _EXCL, pack_rule(rule))

    def delete_rule(self, rule: Rule) -> Said:
        """Delete a rule."""
        return self._ask(_DELRULE, 0, pack_rule(rule))

    def change(self, change: RouteRequest) -> Said:
        """Change a route; ENODEV if the device does not exist."""
        if any(leg.dev is not None and leg.dev not in self._indexes for leg in change.route.legs):
            return Said(19)
        kind, flags = _VERBS[change.verb]
        said = self._ask(kind, flags, self._route(change.route))
        if change.route.expires is not None and change.route.expires <= 0:
            time.sleep(_EXPIRED_AFTER)
        return said

    def collect_expired(self) -> Said:
        """Delete the routes that have expired."""
        os.write(self._flush, b"0")
        return Said(0)

    # Reading

    @property
    def path(self) -> str:
        """The path of the namespace."""
        return f"/proc/{os.getpid()}/fd/{self._namespace}"

    def ip(self, *arguments: str) -> str:
        """The output of `ip` in the namespace; names of protocols that programs have added on the host are numbers."""
        names = "/etc/iproute2/rt_protos.d"
        script = f'[ ! -d {names} ] || mount -t tmpfs tmpfs {names} && exec ip "$@"'
        done = completed([*self._enter(), "unshare", "--mount", "sh", "-c", script, "ip", *arguments], check=True)
        return done.stdout

    def routes(self, family: int) -> tuple[Route, ...]:
        """All routes of all tables in the kernel's order, except those of the other ends of the veth pairs."""
        body = struct.pack("=8BI", AF[family], *([0] * 7), 0)
        found = (self._read_route(answer) for answer in self._dump(_GETROUTE, body))
        return tuple(route for route in found if route is not None)

    def rules(self, family: int) -> tuple[Rule, ...]:
        """All rules in the kernel's order."""
        return tuple(read_rule(answer) for answer in self._dump(_GETRULE, struct.pack("=8BI", AF[family], *[0] * 8)))

    def addresses(self, family: int) -> tuple[Address, ...]:
        """All addresses in the kernel's order."""
        body = struct.pack("=4BI", AF[family], 0, 0, 0, 0)
        return tuple(self._read_address(answer) for answer in self._dump(_GETADDR, body))

    def lookup(self, destinations: Iterable[IP], *, tos: int = 0, source: IP | None = None) -> list[Route | int]:
        """The FIB entry that decides for each destination, or the errno."""
        messages = []
        for number, destination in enumerate(destinations, start=1):
            family = destination.version
            lengths = (width_of(family), 0 if source is None else width_of(family))
            body = struct.pack("=8BI", AF[family], *lengths, tos, 0, 0, 0, 0, _FIB_MATCH[family])
            body += pack_attribute(1, destination.packed)
            body += b"" if source is None else pack_attribute(2, source.packed)
            messages.append(struct.pack("=IHHII", 16 + len(body), _GETROUTE, _REQUEST, number, 0) + body)
        found: list[Route | int] = []
        for begin in range(0, len(messages), 64):
            batch = messages[begin : begin + 64]
            self._channel.sendto(b"".join(batch), (0, 0))
            for _ in batch:
                answer = memoryview(self._channel.recv(1 << 16))
                (kind,) = struct.unpack_from("=H", answer, 4)
                if kind == _ERROR:
                    found.append(-struct.unpack_from("=i", answer, 16)[0])
                else:
                    route = self._read_route(answer[16:])
                    found.append(-1 if route is None else route)
        return found

    # Requests

    def _enter(self) -> list[str]:
        return ["nsenter", f"--net={self.path}"]

    def _set(self, name: str, flags: int) -> Said:
        if name not in self._indexes:
            return Said(19)
        said = self._ask(_NEWLINK, 0, pack_link(self._indexes[name], flags=flags, change=_IFF_UP))
        self._settle(name)
        return said

    def _settle(self, name: str) -> None:
        """Wait until the kernel has completed a change of a carrier, which takes several steps."""

        def settled() -> bool:
            ((_, flags, operstate),) = self._links(name)
            return name == "lo" or (operstate == 6) == bool(flags & _IFF_LOWER_UP)

        wait_for(f"{name} to settle", settled)

    def _links(self, name: str) -> list[tuple[int, int, int]]:
        """Index, flags and operational state."""
        answer = self._request(_GETLINK, _REQUEST, pack_link() + pack_text(3, name))
        _, _, _, index, flags, _ = struct.unpack_from("=BBHiII", answer, 16)
        attributes = read_attributes(answer[32:])
        return [(index, flags, attributes[16][0])]

    def _request(self, kind: int, flags: int, body: bytes) -> memoryview:
        self._sequence += 1
        message = struct.pack("=IHHII", 16 + len(body), kind, flags, self._sequence, 0) + body
        self._channel.sendto(message, (0, 0))
        return memoryview(self._channel.recv(1 << 17))

    def _ask(self, kind: int, flags: int, body: bytes) -> Said:
        answer = self._request(kind, _REQUEST | _ACK | flags, body)
        length, _, answer_flags, _, _ = struct.unpack_from("=IHHII", answer)
        (number,) = struct.unpack_from("=i", answer, 16)
        text = ""
        if answer_flags & 0x200:
            # After the errno comes the request: the whole request after an error, unless it was left out.
            behind = 36 if answer_flags & 0x100 else 20 + struct.unpack_from("=I", answer, 20)[0]
            words = read_attributes(answer[behind:length]).get(1)
            text = bytes(words).rstrip(b"\0").decode() if words else ""
        return Said(-number, text)

    def _dump(self, kind: int, body: bytes) -> Iterator[memoryview]:
        answer = self._request(kind, _REQUEST | _DUMP, body)
        while True:
            at = 0
            while at < len(answer):
                length, said, _, _, _ = struct.unpack_from("=IHHII", answer, at)
                if said == _DONE:
                    return
                if said == _ERROR:
                    raise RuntimeError(f"a dump failed: {struct.unpack_from('=i', answer, at + 16)}")
                yield answer[at + 16 : at + length]
                at += (length + 3) & ~3
            answer = memoryview(self._channel.recv(1 << 17))

    # Values to bytes

    def _address(self, address: Address) -> bytes:
        nodad = 2 * (address.ip.version == 6)
        index = self._indexes.get(address.dev, 0)
        body = struct.pack("=4BI", AF[address.ip.version], address.length, nodad, address.scope, index)
        body += pack_attribute(2, address.ip.packed) + pack_attribute(1, (address.peer or address.ip).packed)
        body += pack_attribute(9, struct.pack("=I", address.metric)) if address.metric else b""
        body += b"" if address.prefix_route else pack_attribute(8, struct.pack("=I", _NOPREFIXROUTE | nodad))
        return body + (pack_attribute(4, address.broadcast.packed) if address.broadcast else b"")

    def _route(self, route: Route) -> bytes:
        flags = 4 * (len(route.legs) == 1 and route.legs[0].onlink)
        prefix = route.prefix
        kind, table = ROUTE_TYPES.index(route.type), route.table if route.table < 256 else 0
        sources = route.source.length if route.source else 0
        numbers = (AF[prefix.family], prefix.length, sources, route.tos, table, route.protocol, route.scope, kind)
        body = struct.pack("=8BI", *numbers, flags) + pack_attribute(15, struct.pack("=I", route.table))
        body += pack_attribute(1, prefix.ip.packed) + pack_attribute(6, struct.pack("=I", route.metric))
        body += pack_attribute(7, route.prefsrc.packed) if route.prefsrc else b""
        body += pack_attribute(2, route.source.ip.packed) if route.source else b""
        body += pack_attribute(20, bytes([_PREFERENCES[route.preference]])) if route.preference != "medium" else b""
        body += pack_attribute(23, struct.pack("=I", max(route.expires, 0))) if route.expires is not None else b""
        metrics = b"".join(
            pack_attribute(number, struct.pack("=I", value))
            for number, value in ((2, route.mtu), (8, route.advmss))
            if value is not None
        )
        body += pack_attribute(8, metrics) if metrics else b""
        if len(route.legs) == 1:
            (leg,) = route.legs
            body += pack_gateway(leg, prefix.family)
            return body + (pack_attribute(4, struct.pack("=I", self._indexes[leg.dev])) if leg.dev else b"")
        hops = b""
        for leg in route.legs:
            way = pack_gateway(leg, prefix.family)
            index = self._indexes[leg.dev] if leg.dev else 0
            hops += struct.pack("=HBBi", 8 + len(way), 4 * leg.onlink, leg.weight - 1, index) + way
        return body + (pack_attribute(9, hops) if hops else b"")

    # Bytes to values

    def _read_route(self, body: memoryview) -> Route | None:
        number, length, sources, tos, table, protocol, scope, kind, flags = struct.unpack_from("=8BI", body)
        family, attributes = FAMILY[number], read_attributes(body[12:])
        legs: list[NextHop] = []
        if 9 in attributes:
            hops = attributes[9]
            while len(hops) >= 8:
                size, leg_flags, weight, index = struct.unpack_from("=HBBi", hops)
                legs.append(self._read_leg(read_attributes(hops[8:size]), index, leg_flags, weight + 1))
                hops = hops[(size + 3) & ~3 :]
        elif 4 in attributes:
            legs.append(self._read_leg(attributes, read_number(attributes[4]), flags, 1))
        if legs and all((leg.dev or "").startswith(_PEER) for leg in legs):
            return None
        pathless = ROUTE_TYPES[kind] in {"blackhole", "unreachable", "prohibit", "throw"}
        metrics = read_attributes(attributes[8]) if 8 in attributes else {}
        # How long it still lasts is a signed number of hundredths, the third of its attribute; 0 if it stays.
        left = struct.unpack_from("=i", attributes[12], 8)[0] if 12 in attributes else 0
        preference = attributes[20][0] if 20 in attributes else 0
        return Route(
            Prefix(family, int.from_bytes(attributes.get(1, memoryview(b"\0")), "big"), length),
            () if pathless else tuple(legs),
            table=read_number(attributes[15]) if 15 in attributes else table,
            metric=read_number(attributes[6]) if 6 in attributes else 0,
            tos=tos,
            type=ROUTE_TYPES[kind],
            scope=scope,
            protocol=protocol,
            prefsrc=read_ip(family, attributes[7]) if 7 in attributes else None,
            mtu=read_number(metrics[2]) if 2 in metrics else None,
            advmss=read_number(metrics[8]) if 8 in metrics else None,
            source=Prefix(family, int.from_bytes(attributes[2], "big"), sources) if sources else None,
            preference=next(word for word, it in _PREFERENCES.items() if it == preference),
            expires=left // 100 if left else None,
        )

    def _read_leg(self, attributes: Attributes, index: int, flags: int, weight: int) -> NextHop:
        gateway = None
        if 5 in attributes:
            gateway = read_ip(4 if len(attributes[5]) == 4 else 6, attributes[5])
        elif 18 in attributes:
            gateway = read_ip(6, attributes[18][2:])
        return NextHop(
            self._names.get(index, str(index)),
            gateway=gateway,
            weight=weight,
            onlink=bool(flags & 4),
            linkdown=bool(flags & 16),
            dead=bool(flags & 1),
            pervasive=bool(flags & 2),
        )

    def _read_address(self, body: memoryview) -> Address:
        number, length, _, scope, index = struct.unpack_from("=4BI", body)
        family, attributes = FAMILY[number], read_attributes(body[8:])
        far = read_ip(family, attributes[1])
        own = read_ip(family, attributes[2]) if 2 in attributes else far
        return Address(
            ip=own,
            length=length,
            dev=self._names[index],
            scope=scope,
            peer=far if far != own else None,
            broadcast=read_ip(family, attributes[4]) if 4 in attributes else None,
            metric=read_number(attributes[9]) if 9 in attributes else 0,
            prefix_route=not (8 in attributes and read_number(attributes[8]) & _NOPREFIXROUTE),
        )
