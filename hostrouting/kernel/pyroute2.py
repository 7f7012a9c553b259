"""Pyroute2Backend: the routing edge through a pyroute2 handle of the caller, to another namespace or a remote host.

pyroute2 runs an event loop of its own, so every call to the handle is made in one worker thread: the backend may be
used inside a running event loop. This module does not import pyroute2. pyroute2 has no message for the settings of
"all", so whether the host forwards IPv6 is not known.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hostrouting.errors import BackendError
from hostrouting.kernel.base import KIND_OF_ERRNO, Answer, Outcome, RouteBackend, RouteRequest, Watch, part_of, settled
from hostrouting.kernel.netlink.host import SKIP_STATISTICS, decode_addresses, decode_links, decode_rule
from hostrouting.kernel.netlink.numbers import AF_OF
from hostrouting.kernel.netlink.routes import LOOKUP_FLAGS, ONLINK, decode, needs_no_gateway
from hostrouting.kernel.netlink.socket import KernelError, kernel_errors
from hostrouting.kernel.refusals import misfit, refusal
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix
from hostrouting.model.snapshot import Snapshot

if TYPE_CHECKING:
    from hostrouting.model.route import NextHop, Route
    from phases import Clock

A = TypeVar("A")
R = TypeVar("R")

_DUMP_INTR = 0x10


class Pyroute2Backend(RouteBackend):
    """The routing of a kernel that a pyroute2 handle reaches: of another namespace, or of a remote host.

    The handle is a `pyroute2.IPRoute`, or anything with its methods. The caller closes it. See `RouteBackend`.
    """

    def __init__(self, handle: Any) -> None:
        """Use this handle; nothing else may use it at the same time."""
        self._handle = handle
        self._worker: ThreadPoolExecutor | None = ThreadPoolExecutor(1, "hostrouting-pyroute2")

    def snapshot(
        self, *, family: int | None = None, reached: bool = False, near: Collection[Prefix] | None = None
    ) -> Snapshot:
        """Links, addresses, rules and routes; restless only if the kernel says that one of the lists has changed."""
        snapshot = settled(partial(self._call, "read the host's routes", _read, family))
        return part_of(snapshot, family=family, reached=reached, near=near)

    def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
        """What the kernel would do with a packet of this user to each destination; an IPv6 packet has no protocol."""
        return self._call("look up destinations", _look_up, destinations)

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        return self._call("change routes", _change, tuple(requests))

    def watch(self) -> PollingWatch:
        """Begin to watch: the handle has one socket, so the host is read once a second."""
        return PollingWatch(self)

    def close(self) -> None:
        """End the worker thread; the handle is not closed. May be called twice."""
        if self._worker is not None:
            self._worker.shutdown()
            self._worker = None

    def _call(self, attempt: str, function: Callable[[Any, A], R], argument: A) -> R:
        """The result of the function. Any error is a BackendError: the NetlinkError of pyroute2 is not an OSError."""
        if self._worker is None:
            raise BackendError("this backend was closed", kind="unusable")
        with kernel_errors(attempt):
            try:
                return self._worker.submit(function, self._handle, argument).result()
            except Exception as error:
                number = getattr(error, "code", None) or getattr(error, "errno", None)
                raise KernelError(number or errno.EIO, str(error)) from error


class PollingWatch(Watch):
    """See `Watch`; it reads the host again and compares."""

    def __init__(self, backend: Pyroute2Backend) -> None:
        self._backend, self._last = backend, backend.snapshot()
        self._awakened = threading.Event()

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:  # noqa: ARG002  it uses the machine's clock
        deadline = time.monotonic() + timeout
        while True:
            before, self._last = self._last, self._backend.snapshot()
            if self._last != before:
                return True
            left = deadline - time.monotonic()
            if self._awakened.wait(max(0.0, min(1.0, left))):
                self._awakened.clear()
                return False
            if left <= 0:
                return False

    def wake(self) -> None:
        self._awakened.set()

    def close(self) -> None:
        """Stop watching. May be called twice."""


# Reading: pyroute2 keeps the bytes of a message, and `netlink` decodes more of them.


def _bytes(message: Any) -> bytes:
    return bytes(message.data[message.offset : message.offset + message.length])


def _read(handle: Any, family: int | None) -> Snapshot:
    families = (IPV4, IPV6) if family is None else (family,)
    lists = [[*handle.get_links(ext_mask=SKIP_STATISTICS)]]
    for get in (handle.get_addr, handle.get_rules, handle.get_routes):
        lists += [[*get(family=AF_OF[each])] for each in families]
    is_restless = any(message["header"]["flags"] & _DUMP_INTR for messages in lists for message in messages)
    listed, *others = [[*map(_bytes, messages)] for messages in lists]
    links, count = decode_links(listed), len(families)
    names = {link.index: link.name for link in links}
    addresses, rules, routes = others[:count], others[count : 2 * count], others[2 * count :]
    return Snapshot(
        links=links,
        addresses=tuple(address for messages in addresses for address in decode_addresses(messages, names)),
        rules=tuple(decode_rule(message) for messages in rules for message in messages),
        routes=tuple(decode(message, names) for messages in routes for message in messages),
        family=family,
        restless=is_restless,
    )


def _look_up(handle: Any, destinations: Sequence[IP]) -> tuple[Answer, ...]:
    names = {link.index: link.name for link in decode_links(map(_bytes, handle.get_links()))}
    answers: list[Answer] = []
    for address in destinations:
        try:
            [message] = handle.route("get", dst=str(address), flags=LOOKUP_FLAGS[address.version])
        except Exception as error:
            kind = KIND_OF_ERRNO.get(getattr(error, "code", 0))
            if kind is None:
                raise
            answers.append(Answer(kind, None))
        else:
            route = decode(_bytes(message), names)
            answers.append(Answer(route.type, route))
    return tuple(answers)


# Changing.


def _change(handle: Any, requests: Sequence[RouteRequest]) -> tuple[Outcome, ...]:
    indexes = {link.name: link.index for link in decode_links(map(_bytes, handle.get_links()))}
    return tuple(Outcome(request, _attempt(handle, request, indexes)) for request in requests)


def _attempt(handle: Any, request: RouteRequest, indexes: Mapping[str, int]) -> BackendError | None:
    route = request.route
    if problem := misfit(route):
        return refusal(request, errno.ERANGE, problem)
    for dev in route.devs:
        if dev not in indexes:
            return refusal(request, errno.ENODEV, f"device {dev} does not exist")
    try:
        handle.route(request.verb, **_specification(request, indexes))
    except Exception as error:
        number = getattr(error, "code", 0)
        if number in {0, errno.EPERM}:
            raise
        return refusal(request, number, str(error.args[-1]))
    return None


def _specification(request: RouteRequest, indexes: Mapping[str, int]) -> dict[str, Any]:
    """The keywords of `IPRoute.route`, which drops those that it does not know."""
    route = request.route
    hops = [_hop(route, hop, indexes) for hop in route.next_hops]
    words = {
        "family": AF_OF[route.prefix.family],
        "dst": str(route.prefix),
        "table": route.table,
        "proto": route.protocol,
        "scope": route.scope,
        "type": route.type,
        "priority": route.metric or None,
        "tos": route.tos or None,
        "prefsrc": route.prefsrc and str(route.prefsrc),
        "metrics": {name: value for name in ("mtu", "advmss") if (value := getattr(route, name))} or None,
        "gateway": "::" if request.verb == "delete" and needs_no_gateway(route) else None,
        **(hops[0] if len(hops) == 1 else {"multipath": hops or None}),
    }
    return {name: value for name, value in words.items() if value is not None}


def _hop(route: Route, hop: NextHop, indexes: Mapping[str, int]) -> dict[str, Any]:
    fields: dict[str, Any] = {"flags": ONLINK} if hop.onlink else {}
    fields |= {"hops": hop.weight - 1} if len(route.next_hops) > 1 else {}
    fields |= {"oif": indexes[hop.dev]} if hop.dev is not None else {}
    if hop.gateway is not None and hop.gateway.version == route.prefix.family:
        fields["gateway"] = str(hop.gateway)
    elif hop.gateway is not None:
        fields["via"] = {"family": AF_OF[hop.gateway.version], "addr": str(hop.gateway)}
    return fields
