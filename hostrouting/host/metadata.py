"""The cloud's instance metadata service, asked whether this host has IPv6.

Here: the edge that sends one HTTP request, and the meaning of the replies. Not here: what to do if the service gives
no usable answer; the configuration decides that.

"No" is different from an error: the answer is only "no" if the document lists the host's interfaces and none of them
has an IPv6 address. After an HTTP error, or a document that is unreadable, cut short or without interfaces, the answer
is unknown. The request is repeated after temporary failures: a timeout, or a server that is busy or has failed. It is
not repeated after permanent ones: a wrong path, a redirect, or another kind of document.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from hostrouting.errors import MetadataError
from hostrouting.text import show

if TYPE_CHECKING:
    import phases
    from hostrouting.config.probe_rewrite import ImdsConfig

SIZE_LIMIT = 1 << 20
"""The maximum size of a reply in bytes; the document of a host with many interfaces has a few thousand."""

_OK, _MULTIPLE_CHOICES, _BAD_REQUEST = 200, 300, 400
# Request timeout, a service that is being updated, too many requests. Statuses from 500 are also retried.
_PASSING = {408, 410, 429}
_SERVER_ERROR = 500
# Seconds: before the first retry, doubled each time; the maximum; the maximum accepted from a Retry-After.
_FIRST_PAUSE, _LONGEST_PAUSE, _LONGEST_RETRY_AFTER = 0.5, 4.0, 30.0


@attrs.frozen
class Reply:
    """The reply of a server."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def header(self, name: str) -> str | None:
        """The value of the first header with this name, in upper or lower case; None if there is none."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


Fetch: TypeAlias = Callable[[str, float], Reply]
"""Sends one request to a URL and returns the reply, with a timeout; raises MetadataError without a complete reply.

It does not retry, follow redirects or use a proxy.
"""


@attrs.frozen
class Answer:
    """The answer of the service about IPv6."""

    has_ipv6: bool | None
    """None if it is unknown."""
    reason: str
    """The basis of the answer, or why it is unknown."""


@attrs.frozen
class _Unknown:
    """A reply that is not an answer: why, and whether to ask again."""

    reason: str
    can_retry: bool = False
    retry_after: str | None = None


def ask_for_ipv6(ctx: phases.Context, fetch: Fetch, imds: ImdsConfig) -> Answer:
    """Ask until there is an answer or the retries are used up. Raises Cancelled if the task is cancelled."""
    pause, times = _FIRST_PAUSE, 0
    while True:
        ctx.check()
        found = _ask(fetch, imds.url, imds.timeout)
        times += 1
        if isinstance(found, Answer):
            return found
        if not found.can_retry or times > imds.retries:
            return Answer(None, found.reason if times == 1 else f"{found.reason} (asked {times} times)")
        seconds = max(pause, _asked_for(found.retry_after))
        ctx.log.info("the instance metadata service %s; asking again in %g s", found.reason, seconds)
        ctx.sleep(seconds)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _ask(fetch: Fetch, url: str, timeout: float) -> Answer | _Unknown:
    try:
        reply = fetch(url, timeout)
    except MetadataError as error:
        return _Unknown(error.reason, can_retry=error.can_retry)
    status = f"answered with status {reply.status}"
    if reply.status == _OK:
        return _read(reply.body)
    if _MULTIPLE_CHOICES <= reply.status < _BAD_REQUEST:
        return _Unknown(f"{status}, a redirect to {show(reply.header('Location'))}, which is not followed")
    if reply.status in _PASSING or reply.status >= _SERVER_ERROR:
        return _Unknown(status, can_retry=True, retry_after=reply.header("Retry-After"))
    return _Unknown(status)


def _asked_for(retry_after: str | None) -> float:
    """The seconds in a Retry-After header, up to a limit; 0 for a date, because the usual pause is enough."""
    text = (retry_after or "").strip()
    seconds = float(text[:9]) if text.isascii() and text.isdigit() else 0.0
    return min(seconds, _LONGEST_RETRY_AFTER)


def _read(body: bytes) -> Answer | _Unknown:
    """The answer in a document about the instance or about its part `network`."""
    import json  # noqa: PLC0415  only a host that asks for metadata needs it

    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return _Unknown(f"answered with {len(body)} bytes that are not JSON")
    network = document.get("network", document) if isinstance(document, dict) else None
    interfaces = network.get("interface") if isinstance(network, dict) else None
    if not isinstance(interfaces, list) or not interfaces:
        return _Unknown("answered with JSON that does not list network interfaces")
    addresses = [_ipv6_addresses(interface) for interface in interfaces]
    count = sum(bool(those) for those in addresses)
    if count:
        return Answer(has_ipv6=True, reason=f"{count} of {len(interfaces)} interfaces have an IPv6 address")
    if None in addresses:
        return _Unknown("answered with JSON whose list of network interfaces cannot be read")
    return Answer(has_ipv6=False, reason=f"none of {len(interfaces)} interfaces has an IPv6 address")


def _ipv6_addresses(interface: object) -> list[Any] | None:
    """The IPv6 addresses of an interface, empty if it has no such key; None if they are unreadable.

    A blank privateIpAddress is not an address: the service lists one for an interface that has none.
    """
    ipv6 = interface.get("ipv6", {}) if isinstance(interface, dict) else None
    found = ipv6.get("ipAddress", []) if isinstance(ipv6, dict) else None
    if not isinstance(found, list) or not all(isinstance(address, dict) for address in found):
        return None
    return [address for address in found if str(address.get("privateIpAddress") or "").strip()]


def fetch(url: str, timeout: float) -> Reply:
    """The real `Fetch`: over http, to an address, with the header that the service requires.

    The timeout applies to the whole reply, even if the server sends it byte by byte.
    """
    from http.client import HTTPConnection, HTTPException  # noqa: PLC0415  few hosts ask for metadata
    from urllib.parse import urlsplit  # noqa: PLC0415

    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.inet_pton(family, host)  # names are not resolved: a lookup cannot be given a timeout
    except (ValueError, OSError) as error:
        raise MetadataError(url, "has a URL without an IP address", can_retry=False) from error
    if parts.scheme != "http":
        raise MetadataError(url, "can only be queried over http", can_retry=False)
    try:
        with _Timed(family, timeout) as stream:
            stream.connect((host, port))
            # http.client uses no proxies and follows no redirects.
            connection = HTTPConnection(host, port)
            connection.sock = stream
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("GET", target, headers={"Metadata": "true", "Connection": "close"})
            with connection.getresponse() as response:
                body = response.read(SIZE_LIMIT + 1)
                if len(body) > SIZE_LIMIT:
                    raise MetadataError(url, f"answered with more than {SIZE_LIMIT:,} bytes", can_retry=False)
                if response.length:
                    raise MetadataError(url, f"ended its answer {response.length} bytes too early")
                return Reply(response.status, tuple(response.getheaders()), body)
    except TimeoutError as error:
        raise MetadataError(url, f"gave no complete answer within {timeout:g} s") from error
    except OSError as error:
        raise MetadataError(url, f"cannot be queried: {error.strerror or error}") from error
    except HTTPException as error:
        raise MetadataError(url, f"closed the connection, or does not speak HTTP ({type(error).__name__})") from error


class _Timed(socket.socket):
    """A TCP socket with one timeout for all calls together; the usual timeout begins again with each call."""

    def __init__(self, family: int, seconds: float) -> None:
        from time import monotonic  # noqa: PLC0415  nothing else here reads a clock

        super().__init__(family, socket.SOCK_STREAM)
        self._now = monotonic
        self._end = monotonic() + seconds
        self.settimeout(seconds)

    def recv_into(self, *arguments: Any, **options: Any) -> int:
        """Receive within the remaining time."""
        left = self._end - self._now()
        if left <= 0:
            raise TimeoutError
        self.settimeout(left)
        return super().recv_into(*arguments, **options)
