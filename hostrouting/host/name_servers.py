"""The name servers of a host: the ones that are asked, also where systemd-resolved stands between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from hostrouting.errors import HostError
from hostrouting.model.prefix import IP, as_ip

if TYPE_CHECKING:
    from hostrouting.host.host import Host

_PATHS = ("/run/systemd/resolve/resolv.conf", "/etc/resolv.conf")
"""The first one that is there counts: systemd-resolved writes the servers that it asks itself."""


def read_name_servers(host: Host) -> tuple[IP, ...]:
    """The name servers of this host; none if the file does not say, or cannot be read."""
    with suppress(HostError):
        for path in _PATHS:
            if (text := host.files.read(path)) is not None:
                return tuple(_servers_in(text))
    return ()


def _servers_in(text: str) -> Iterator[IP]:
    for line in text.splitlines():
        if line.startswith("nameserver") and len(words := line.split()) > 1:
            with suppress(ValueError):
                yield as_ip(words[1].partition("%")[0])
