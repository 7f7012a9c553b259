"""Pyroute2Backend: the routing edge on a pyroute2 handle that the caller has, of another namespace or a remote host.

pyroute2 runs an event loop of its own, so every call to the handle is made in one worker thread: the backend may be
used inside a running event loop. Nothing of pyroute2 is imported here. It has no message for the settings of "all", so
whether the host forwards IPv6 stays open.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hostrouting.errors import BackendError
from hostrouting.kernel.base import KIND_OF_ERRNO, Answer, Outcome, RouteBackend, RouteRequest, Watch, part_of
from hostrouting.kernel.netlink.host import SKIP_STATISTICS, decode_addresses, decode_links, decode_rule
from hostrouting.kernel.netlink.numbers import AF_OF
from hostrouting.kernel.netlink.routes import LOOKUP_FLAGS, ONLINK, decode, needs_no_gateway
from hostrouting.kernel.refusals import misfit, refusal
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix
from hostrouting.model.snapshot import Snapshot

if TYPE_CHECKING:
    from hostrouting.model.route import NextHop, Route
    from phases import Clock

_READINGS, _PAUSE = 3, 0.01
_DUMP_INTR = 0x10


class Pyroute2Backend(RouteBackend):
    """See `RouteBackend`; `handle` is a `pyroute2.IPRoute` or anything with its methods, and stays the caller's."""

    def __init__(self, handle: Any) -> None:
        """Use this handle; nothing else may use it at the same time."""
        self._handle = handle
        self._worker: ThreadPoolExecutor | None = ThreadPoolExecutor(1, "hostrouting-pyroute2")

    def snapshot(
        self, *, family: int | None = None, reached: bool = False, near: Collection[Prefix] | None = None
    ) -> Snapshot:
        """Links, addresses, rules and routes; restless only if the kernel says that one of the lists has changed."""
        with _edge("read the host's routes"):
            snapshot = self._call(_read, self._handle, family)
            for _ in range(_READINGS - 1):
                if snapshot.restless:
                    time.sleep(_PAUSE)
                    snapshot = self._call(_read, self._handle, family)
        return part_of(snapshot, family=family, reached=reached, near=near)

    def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
        """What the kernel would do with a packet of this user to each destination; in IPv6 it has no protocol."""
        if len({address.version for address in destinations}) > 1:
            raise ValueError("the destinations of one lookup must have the same address family")
        with _edge("look up destinations"):
            answers: tuple[Answer, ...] = self._call(_look_up, self._handle, destinations)
        return answers

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """Carry out each request, in order, and return the result of each."""
        with _edge("change routes"):
            outcomes: tuple[Outcome, ...] = self._call(_change, self._handle, tuple(requests))
        return outcomes

    def watch(self) -> PollingWatch:
        """Begin to watch: the handle has one socket, so the host is read once a second."""
        return PollingWatch(self)

    def close(self) -> None:
        """End the worker thread; the handle stays open. May be called twice."""
        if self._worker is not None:
            self._worker.shutdown()
            self._worker = None

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self._worker is None:
            raise BackendError("this backend was closed", kind="unusable")
        return self._worker.submit(function, *arguments).result()


class PollingWatch(Watch):
    """See `Watch`; it reads the host again and compares."""

    def __init__(self, backend: Pyroute2Backend) -> None:
        """Read the host for the first time."""
        self._backend, self._last = backend, backend.snapshot()
        self._awakened = threading.Event()

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:  # noqa: ARG002  it uses the machine's clock
        """Wait until the host differs from the last reading: True; False after `timeout` seconds or wake()."""
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
        """End the present or the next wait; may be called in any thread."""
        self._awakened.set()

    def close(self) -> None:
        """Stop watching. May be called twice."""


@contextmanager
def _edge(attempt: str) -> Iterator[None]:
    """Raise what pyroute2 raises as a BackendError; its NetlinkError is not an OSError."""
    try:
        yield
    except (BackendError, ValueError):
        raise
    except Exception as error:
        number = getattr(error, "code", None) or getattr(error, "errno", None)
        kind = "not-permitted" if number == errno.EPERM else "failed"
        raise BackendError(f"cannot {attempt}", kind=kind, errno=number, kernel=str(error)) from error


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
    outcomes = []
    for request in requests:
        route, error = request.route, None
        missing = next((dev for dev in route.devs if dev not in indexes), None)
        if problem := misfit(route) or ("pyroute2 has no next hop objects" if route.nexthop_id is not None else ""):
            error = refusal(request, errno.ERANGE, problem)
        elif missing is not None:
            error = refusal(request, errno.ENODEV, f"device {missing} does not exist")
        else:
            try:
                specification = _specification(route, indexes)
                if request.verb == "delete" and needs_no_gateway(route):
                    specification["gateway"] = "::"
                handle.route(request.verb, **specification)
            except Exception as failed:
                number = getattr(failed, "code", 0)
                if number in {0, errno.EPERM}:
                    raise
                error = refusal(request, number, str(failed.args[-1]))
        outcomes.append(Outcome(request, error))
    return tuple(outcomes)


def _specification(route: Route, indexes: Mapping[str, int]) -> dict[str, Any]:
    """The keywords of `IPRoute.route`, which drops those that it does not know."""
    hops = [_hop(route, leg, indexes) for leg in route.legs]
    single = hops[0] if len(hops) == 1 else {"multipath": hops} if hops else {}
    single.pop("hops", None)
    fields = {"prefsrc": route.prefsrc and str(route.prefsrc), "priority": route.metric, "tos": route.tos}
    metrics = {name: value for name, value in (("mtu", route.mtu), ("advmss", route.advmss)) if value}
    return {
        "family": AF_OF[route.prefix.family],
        "dst": str(route.prefix),
        "table": route.table,
        "proto": route.protocol,
        "scope": route.scope,
        "type": route.type,
        **({"metrics": metrics} if metrics else {}),
        **{name: value for name, value in fields.items() if value},
        **single,
    }


def _hop(route: Route, leg: NextHop, indexes: Mapping[str, int]) -> dict[str, Any]:
    hop: dict[str, Any] = {"hops": leg.weight - 1}
    hop |= {"flags": ONLINK} if leg.onlink else {}
    hop |= {"oif": indexes[leg.dev]} if leg.dev is not None else {}
    if leg.gateway is not None and leg.gateway.version == route.prefix.family:
        hop["gateway"] = str(leg.gateway)
    elif leg.gateway is not None:
        hop["via"] = {"family": AF_OF[leg.gateway.version], "addr": str(leg.gateway)}
    return hop
