"""Pyroute2Backend: the routing edge through a pyroute2 handle of the caller.

The handle may lead to another namespace. It sends the messages of `hostrouting.kernel.netlink`, and
returns the answers. pyroute2 runs an event loop of its own, so every call to the handle is made in
one worker thread: the backend may be used inside a running event loop. This module does not import
pyroute2.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from inspect import isasyncgenfunction
from typing import TYPE_CHECKING, Any, TypeVar

from hostrouting.errors import BackendError
from hostrouting.kernel.base import (
    Answer,
    Outcome,
    RouteBackend,
    RouteRequest,
    Watch,
)
from hostrouting.kernel.netlink.backend import read_host, settled
from hostrouting.kernel.netlink.requests import change_routes, lookup_routes, lookup_sources
from hostrouting.kernel.netlink.socket import (
    HEADER,
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLM_F_REQUEST,
    KernelError,
    Netlink,
    kernel_errors,
    message,
)
from hostrouting.kernel.part import part_of

if TYPE_CHECKING:
    from hostrouting.model.prefix import IP, Prefix
    from hostrouting.model.snapshot import Snapshot
    from phases import Clock

A = TypeVar("A")
R = TypeVar("R")

_BETWEEN_READINGS = 1.0  # seconds


class Pyroute2Backend(RouteBackend):
    """The routing of a kernel that a pyroute2 handle reaches: see `RouteBackend`.

    The handle is a `pyroute2.IPRoute`, or anything with its method `nlm_request_batch`. The caller
    closes it. A call waits for an answer as long as the handle does. If Ctrl-C ends a call, the
    worker thread first finishes it, and then begins the next one.
    """

    def __init__(self, handle: Any) -> None:
        """Use this handle; nothing else may use it at the same time. TypeError if it is not one."""
        _require_handle(handle)
        self._netlink = _Handle(handle)
        self._worker: ThreadPoolExecutor | None = ThreadPoolExecutor(1, "hostrouting-pyroute2")

    def snapshot(
        self,
        *,
        family: int | None = None,
        near: Collection[Prefix] | None = None,
    ) -> Snapshot:
        """Links, addresses, rules and routes.

        The snapshot is restless only if the kernel says that one of the lists has changed, which it
        says of devices, addresses and rules, but not of routes.
        """
        snapshot = settled(partial(self._call, "read the host's routes", read_host, family))
        return part_of(snapshot, family=family, near=near)

    def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
        return self._call("look up destinations", lookup_routes, destinations)

    def sources(self, destinations: Sequence[IP]) -> tuple[IP | None, ...]:
        return self._call("look up sources", lookup_sources, destinations)

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        return self._call("change routes", change_routes, tuple(requests))

    def watch(self) -> PollingWatch:
        """Begin to watch: the handle has one socket, so the host is read once a second."""
        return PollingWatch(self)

    def close(self) -> None:
        """End the worker thread; the handle is not closed. May be called twice."""
        if self._worker is not None:
            self._worker.shutdown()
            self._worker = None

    def _call(self, attempt: str, function: Callable[[Netlink, A], R], argument: A) -> R:
        """The result of the function, which is called in the worker thread."""
        if self._worker is None:
            raise BackendError("this backend was closed", kind="unusable")
        with kernel_errors(attempt):
            try:
                return self._worker.submit(function, self._netlink, argument).result()
            except (KernelError, OSError):
                raise
            except Exception as error:  # the handle was not made for this, or has a bug
                raise BackendError(
                    f"the handle cannot {attempt}: {type(error).__name__}: {error}",
                    kind="unusable",
                ) from error


def _require_handle(handle: object) -> None:
    method = getattr(handle, "nlm_request_batch", None)
    kind = type(handle).__name__
    if isinstance(handle, type) or not callable(method):
        raise TypeError(
            f"handle must be a pyroute2.IPRoute; a {kind} has no method nlm_request_batch"
        )
    if isasyncgenfunction(method):
        raise TypeError(f"handle must not be asynchronous: pass a pyroute2.IPRoute, not an {kind}")


class PollingWatch(Watch):
    """See `Watch`. Each wait reads the host at once, and then once a second, and compares."""

    def __init__(self, backend: Pyroute2Backend) -> None:
        self._backend = backend
        self._last = backend.snapshot()
        self._awakened = threading.Event()

    def wait(
        self,
        timeout: float,
        *,
        clock: Clock | None = None,  # noqa: ARG002  a kernel has only the machine's clock
    ) -> bool:
        deadline = time.monotonic() + timeout
        while True:
            before = self._last
            self._last = self._backend.snapshot()
            if self._last != before:
                return True
            seconds_left = deadline - time.monotonic()
            if self._awakened.wait(min(seconds_left, _BETWEEN_READINGS)):
                self._awakened.clear()
                return False
            if seconds_left <= 0:
                return False

    def wake(self) -> None:
        self._awakened.set()

    def close(self) -> None:
        """Stop watching. May be called twice."""


# Conversations through a handle.
#
# `nlm_request_batch`, and what it calls of a message, have public names in pyroute2, but are not
# documented: so pyproject.toml allows no version but 0.9.


class _Handle(Netlink):
    """The conversations of `Netlink`, with one request at a time: pyroute2 sends our messages."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.is_torn = False

    def ask(self, type_: int, bodies: Sequence[bytes]) -> Iterator[bytes | KernelError]:
        for body in bodies:
            try:
                [answer] = self._answers(type_, NLM_F_ACK, body)
            except KernelError as error:
                yield error
            else:
                yield answer

    def batch(self, messages: Sequence[bytes]) -> dict[int, KernelError]:
        errors: dict[int, KernelError] = {}
        for packed in messages:
            _, type_, flags, sequence, _ = HEADER.unpack_from(packed)
            try:
                self._answers(type_, flags | NLM_F_ACK, packed[HEADER.size :])
            except KernelError as error:
                errors[sequence] = error
        return errors

    def dump(self, type_: int, body: bytes) -> Iterator[bytes]:
        yield from self._answers(type_, NLM_F_DUMP, body)

    def parts(self, type_: int, body: bytes) -> Iterator[bytes]:
        """See Netlink; all messages are one part."""
        yield b"".join(self.dump(type_, body))

    def size_at(self, part: bytes, at: int) -> int:
        if at == len(part):
            return 0
        size: int = HEADER.unpack_from(part, at)[0]
        return size

    def _answers(self, type_: int, flags: int, body: bytes) -> list[bytes]:
        """The messages that answer a request, without the acknowledgement."""
        request = _Request(type_, NLM_F_REQUEST | flags, body)
        try:
            messages = self._handle.nlm_request_batch([request])
        except Exception as error:
            number = getattr(error, "code", None)
            if number is None:  # it is not pyroute2's NetlinkError
                raise
            words = str(error.args[-1])
            if words == os.strerror(number):  # pyroute2's, because the kernel has given none
                words = ""
            raise KernelError(number, words) from error
        answers: list[bytes] = []
        for answer in messages:
            if answer["header"]["flags"] & NLM_F_DUMP_INTR:
                self.is_torn = True
            answers.append(bytes(answer.data[answer.offset : answer.offset + answer.length]))
        return answers


class _Request(dict[str, dict[str, int]]):
    """A message for pyroute2, which fills in the header, calls `encode` and sends `data`."""

    def __init__(self, type_: int, flags: int, body: bytes) -> None:
        super().__init__(header={"type": type_, "flags": flags})
        self._body = body
        self.data = b""

    def reset(self) -> None:
        """Nothing was encoded yet."""

    def encode(self) -> None:
        header = self["header"]
        self.data = message(header["type"], header["flags"], self._body, header["sequence_number"])
