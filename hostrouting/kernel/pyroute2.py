"""Pyroute2Backend: the routing edge through a pyroute2 handle of the caller.

The handle may lead to another namespace, or to a remote host. pyroute2 runs an event loop of its
own, so every call to the handle is made in one worker thread: the backend may be used inside a
running event loop. This module does not import pyroute2. pyroute2 has no message for the settings
of "all", so whether the host forwards IPv6 is not known.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeVar

from hostrouting.errors import BackendError
from hostrouting.kernel.base import (
    KIND_OF_ERRNO,
    Answer,
    Outcome,
    RouteBackend,
    RouteRequest,
    Watch,
    has_weights,
    part_of,
    settled,
)
from hostrouting.kernel.netlink.host import (
    SKIP_STATISTICS,
    decode_addresses,
    decode_links,
    decode_rule,
)
from hostrouting.kernel.netlink.numbers import AF_OF
from hostrouting.kernel.netlink.routes import (
    LOOKUP_FLAGS,
    RTNH_F_ONLINK,
    are_listed,
    decode,
    needs_empty_gateway,
)
from hostrouting.kernel.netlink.socket import NLM_F_DUMP_INTR, KernelError, kernel_errors
from hostrouting.kernel.refusals import misfit, refusal
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix
from hostrouting.model.snapshot import Address, Link, Snapshot

if TYPE_CHECKING:
    from hostrouting.model.route import NextHop, Route
    from hostrouting.model.rule import Rule
    from phases import Clock

A = TypeVar("A")
R = TypeVar("R")

_BETWEEN_READINGS = 1.0  # seconds


class Pyroute2Backend(RouteBackend):
    """The routing of a kernel that a pyroute2 handle reaches: see `RouteBackend`.

    The handle is a `pyroute2.IPRoute`, or anything with its methods. The caller closes it.
    """

    def __init__(self, handle: Any) -> None:
        """Use this handle; nothing else may use it at the same time. TypeError if it is not one."""
        _require_methods(handle)
        self._handle = handle
        self._worker: ThreadPoolExecutor | None = ThreadPoolExecutor(1, "hostrouting-pyroute2")

    def snapshot(
        self,
        *,
        family: int | None = None,
        reached: bool = False,
        near: Collection[Prefix] | None = None,
    ) -> Snapshot:
        """Links, addresses, rules and routes.

        The snapshot is restless only if the kernel says that one of the lists has changed.
        """
        snapshot = settled(partial(self._call, "read the host's routes", _read, family))
        return part_of(snapshot, family=family, reached=reached, near=near)

    def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
        """What the kernel would do with a packet of this user to each destination.

        An IPv6 packet has no protocol.
        """
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
        """The result of the function; any error is raised as a BackendError.

        The NetlinkError of pyroute2 is not an OSError: it has a code instead of an errno.
        """
        if self._worker is None:
            raise BackendError("this backend was closed", kind="unusable")
        with kernel_errors(attempt):
            try:
                return self._worker.submit(function, self._handle, argument).result()
            except Exception as error:
                number = getattr(error, "code", None) or getattr(error, "errno", None)
                if number is None and not isinstance(error, OSError):
                    # Not the kernel: the handle was not made for this, or has a bug.
                    raise BackendError(
                        f"the handle cannot {attempt}: {type(error).__name__}: {error}",
                        kind="unusable",
                    ) from error
                raise KernelError(number or errno.EIO, str(error)) from error


def _require_methods(handle: object) -> None:
    for name in ("get_links", "get_addr", "get_rules", "get_routes", "route"):
        method = getattr(handle, name, None)
        if not callable(method):
            raise TypeError(
                f"handle must be a pyroute2.IPRoute, or have its methods; a "
                f"{type(handle).__name__} has no {name}"
            )
        if iscoroutinefunction(method):
            raise TypeError(
                f"handle must not be asynchronous: pass a pyroute2.IPRoute, not an "
                f"{type(handle).__name__}"
            )


class PollingWatch(Watch):
    """See `Watch`; it reads the host again and compares."""

    def __init__(self, backend: Pyroute2Backend) -> None:
        self._backend = backend
        self._last = backend.snapshot()
        self._awakened = threading.Event()

    def wait(
        self,
        timeout: float,
        *,
        clock: Clock | None = None,  # noqa: ARG002  it uses the machine's clock
    ) -> bool:
        deadline = time.monotonic() + timeout
        while True:
            before = self._last
            self._last = self._backend.snapshot()
            if self._last != before:
                return True
            left = deadline - time.monotonic()
            if self._awakened.wait(max(0.0, min(left, _BETWEEN_READINGS))):
                self._awakened.clear()
                return False
            if left <= 0:
                return False

    def wake(self) -> None:
        self._awakened.set()

    def close(self) -> None:
        """Stop watching. May be called twice."""


# Reading: pyroute2 keeps the bytes of a message, and `netlink` decodes more of them.


class _Reading:
    """One reading of the host, list by list."""

    def __init__(self) -> None:
        self.is_torn = False
        """Whether the kernel has said that a list changed while it was sent."""

    def messages(self, listed: Iterable[Any]) -> list[bytes]:
        """The messages of a list."""
        messages: list[bytes] = []
        for message in listed:
            if message["header"]["flags"] & NLM_F_DUMP_INTR:
                self.is_torn = True
            messages.append(_bytes(message))
        return messages


def _bytes(message: Any) -> bytes:
    return bytes(message.data[message.offset : message.offset + message.length])


def _read(handle: Any, family: int | None) -> Snapshot:
    families = (IPV4, IPV6) if family is None else (family,)
    reading = _Reading()
    links = decode_links(reading.messages(handle.get_links(ext_mask=SKIP_STATISTICS)))
    names = {link.index: link.name for link in links}
    addresses: list[Address] = []
    rules: list[Rule] = []
    routes: list[Route] = []
    for each in families:
        af = AF_OF[each]
        addresses += decode_addresses(reading.messages(handle.get_addr(family=af)), names)
        rules += [decode_rule(message) for message in reading.messages(handle.get_rules(family=af))]
        listed = reading.messages(handle.get_routes(family=af))
        routes += [decode(message, names) for message in listed]
    return Snapshot(
        links=links,
        addresses=tuple(addresses),
        rules=tuple(rules),
        routes=tuple(routes),
        family=family,
        restless=reading.is_torn,
    )


def _links(handle: Any) -> tuple[Link, ...]:
    return decode_links(map(_bytes, handle.get_links()))


def _look_up(handle: Any, destinations: Sequence[IP]) -> tuple[Answer, ...]:
    names = {link.index: link.name for link in _links(handle)}
    return tuple(_answer(handle, address, names) for address in destinations)


def _answer(handle: Any, address: IP, names: Mapping[int, str]) -> Answer:
    try:
        [message] = handle.route("get", dst=str(address), flags=LOOKUP_FLAGS[address.version])
    except Exception as error:
        kind = KIND_OF_ERRNO.get(getattr(error, "code", 0))
        if kind is None:
            raise
        return Answer(kind, None)
    route = decode(_bytes(message), names)
    return Answer(route.type, route)


# Changing.


def _change(handle: Any, requests: Sequence[RouteRequest]) -> tuple[Outcome, ...]:
    indexes = {link.name: link.index for link in _links(handle)}
    outcomes: list[Outcome] = []
    for request in requests:
        error = _attempt(handle, request, indexes)
        outcomes.append(Outcome(request, error))
    return tuple(outcomes)


def _attempt(handle: Any, request: RouteRequest, indexes: Mapping[str, int]) -> BackendError | None:
    """Carry out one request; return the refusal if there is one."""
    problem = misfit(request.route)
    if problem:
        return refusal(request, errno.ERANGE, problem)
    for dev in request.route.devs:
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
    words: dict[str, Any] = {
        "family": AF_OF[route.prefix.family],
        "dst": str(route.prefix),
        "table": route.table,
        "proto": route.protocol,
        "scope": route.scope,
        "type": route.type,
    }
    if route.metric:
        words["priority"] = route.metric
    if route.tos:
        words["tos"] = route.tos
    if route.prefsrc is not None:
        words["prefsrc"] = str(route.prefsrc)
    metrics = _metrics(route)
    if metrics:
        words["metrics"] = metrics
    if request.verb == "delete" and needs_empty_gateway(route):
        words["gateway"] = "::"
    hops = [_hop(route, hop, indexes) for hop in route.next_hops]
    if are_listed(request.verb, route):
        words["multipath"] = hops
    elif hops:
        words |= hops[0]
    return words


def _metrics(route: Route) -> dict[str, int]:
    metrics: dict[str, int] = {}
    if route.mtu:
        metrics["mtu"] = route.mtu
    if route.advmss:
        metrics["advmss"] = route.advmss
    return metrics


def _hop(route: Route, hop: NextHop, indexes: Mapping[str, int]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if hop.onlink:
        fields["flags"] = RTNH_F_ONLINK
    if has_weights(route) and hop.weight > 1:
        fields["hops"] = hop.weight - 1
    if hop.dev is not None:
        fields["oif"] = indexes[hop.dev]
    if hop.gateway is None:
        return fields
    if hop.gateway.version == route.prefix.family:
        fields["gateway"] = str(hop.gateway)
    else:
        fields["via"] = {"family": AF_OF[hop.gateway.version], "addr": str(hop.gateway)}
    return fields
