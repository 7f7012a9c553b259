"""Pyroute2Backend: the routing edge through a pyroute2 handle of the caller.

The handle, which may lead to another namespace, is borrowed: it sends the messages of
`hostrouting.kernel.netlink` unchanged, and returns the answers. Its method `nlm_request_batch`, and
what that calls of a message, have public names in pyroute2, but are not documented; so
pyproject.toml allows only the versions that were tried. This module does not import pyroute2.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hostrouting.kernel.base import Watch
from hostrouting.kernel.netlink.backend import NetlinkBackend
from hostrouting.kernel.netlink.socket import (
    HEADER,
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    KernelError,
    Netlink,
    message,
)

if TYPE_CHECKING:
    from phases import Clock

_BETWEEN_READINGS = 1.0  # seconds


class Pyroute2Backend(NetlinkBackend):
    """The routing of a kernel that a pyroute2 handle reaches: see `RouteBackend`.

    The handle is a `pyroute2.IPRoute`, which the caller closes; nothing else may use it at the same
    time. The handle decides how long a call waits for an answer. pyroute2 refuses calls inside a
    running event loop. A snapshot is restless only if the kernel marks a list as changed, and it
    does not do so for lists of routes.
    """

    def __init__(self, handle: Any) -> None:
        """Use this handle. It is not tried out yet: the first call shows whether it works."""
        self._handle = handle
        super().__init__()

    def watch(self) -> PollingWatch:
        """Begin to watch. The handle has no second socket for reports, so the watch reads the host
        once a second.
        """
        return PollingWatch(self)

    def _open_netlink(self, groups: int = 0) -> Netlink:  # noqa: ARG002  the handle reports nothing
        return _HandleNetlink(self._handle)


class PollingWatch(Watch):
    """Watches a kernel that sends no reports: a wait reads its routing at once, then once a second,
    and ends when the routing differs from what was read before.
    """

    def __init__(self, backend: Pyroute2Backend) -> None:
        self._backend = backend
        self._last = backend.snapshot()

    def wait(
        self,
        timeout: float,
        *,
        clock: Clock | None = None,  # noqa: ARG002  a kernel has only the machine's clock
    ) -> bool:
        """Read the kernel's routing now, and then once a second. Return True once it differs from
        the reading before, or False after `timeout` seconds. A change since the last wait, or since
        the watch began, counts, too.
        """
        deadline = time.monotonic() + timeout
        while True:
            before = self._last
            self._last = self._backend.snapshot()
            if self._last != before:
                return True
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                return False
            time.sleep(min(seconds_left, _BETWEEN_READINGS))

    def close(self) -> None:
        """Stop watching. May be called twice."""


class _HandleNetlink(Netlink):
    """A `Netlink` without a socket: a pyroute2 handle sends our messages, one request at a time."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.list_has_changed = False

    def close(self) -> None:
        """The caller closes the handle."""

    def take_reports(self) -> bool:
        return False  # a handle has joined no group that sends reports

    def ask(self, type_: int, bodies: Sequence[bytes]) -> Iterator[bytes | KernelError]:
        """Send a request for each body, and yield the answers in this order: a message each, or the
        error with which the kernel refuses the request.
        """
        for body in bodies:
            try:
                # Without NLM_F_ACK, pyroute2 would not wait for an answer.
                [answer] = self._answers(type_, NLM_F_ACK, body)
            except KernelError as error:
                yield error
            else:
                yield answer

    def send_changes(self, messages: Sequence[bytes]) -> dict[int, KernelError]:
        """Send messages that change something; return the errors of those that the kernel refuses,
        by the sequence number that the caller gave to the message. pyroute2 sends a number of its
        own instead.
        """
        errors: dict[int, KernelError] = {}
        for packed in messages:
            _, type_, flags, sequence, _ = HEADER.unpack_from(packed)
            try:
                # Without NLM_F_ACK, pyroute2 would not wait for an answer.
                self._answers(type_, flags | NLM_F_ACK, packed[HEADER.size :])
            except KernelError as error:
                errors[sequence] = error
        return errors

    def dump_in_runs(self, type_: int, body: bytes) -> Iterator[tuple[int, bytes]]:
        """Ask the kernel for one of its lists, and yield (size, run), as `Netlink.dump_in_runs`
        does. Here, each run is a single message.
        """
        for answer in self._answers(type_, NLM_F_DUMP, body):
            yield len(answer), answer

    def _answers(self, type_: int, flags: int, body: bytes) -> list[bytes]:
        """Send a request through the handle; return the messages that answer it, without the
        acknowledgement. KernelError if the kernel refuses the request.
        """
        try:
            messages = self._handle.nlm_request_batch([_Request(type_, flags, body)])
        except Exception as error:
            # pyroute2 is not imported here, so its NetlinkError is recognized by this attribute.
            number = getattr(error, "code", None)
            if number is None:
                raise
            words = str(error.args[-1])
            if words == os.strerror(number):  # pyroute2 adds these if the kernel says nothing
                words = ""
            raise KernelError(number, words) from error
        answers: list[bytes] = []
        for answer in messages:
            if answer["header"]["flags"] & NLM_F_DUMP_INTR:
                self.list_has_changed = True
            answers.append(bytes(answer.data[answer.offset : answer.offset + answer.length]))
        return answers


class _Request(dict[str, dict[str, int]]):
    """A message of ours in the form that pyroute2 sends: pyroute2 puts a sequence number into the
    header, calls `encode`, and sends `data`.
    """

    def __init__(self, type_: int, flags: int, body: bytes) -> None:
        """Keep the header and the body. pyroute2 puts a sequence number into the header and calls
        `encode`, which packs both into `data`.
        """
        super().__init__(header={"type": type_, "flags": flags})
        self._body = body
        self.data = b""

    def reset(self) -> None:
        """pyroute2 calls this before `encode`, when nothing is packed yet. So there is no work."""

    def encode(self) -> None:
        header = self["header"]
        self.data = message(header["type"], header["flags"], self._body, header["sequence_number"])
