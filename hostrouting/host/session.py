"""From which address the operator is logged in: a change of routes may cut this session off."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from ipaddress import IPv6Address
from typing import TYPE_CHECKING

from hostrouting.model.prefix import as_ip

if TYPE_CHECKING:
    from hostrouting.model.prefix import IP

_NAME = "SSH_CONNECTION"
"""sshd sets it: the client's address and port, then the address and port here."""


def ssh_client() -> IP | None:
    """The address from which somebody is logged in by SSH and runs this process; None if nobody is,
    or if sshd does not know it (`UNKNOWN`).

    sudo takes the variable out of the environment, so those of the parents are read, too. In tmux
    or screen, this is the session in which that was started.
    """
    for environment in (os.environ, *_environments_of_parents()):
        client, _, _ = environment.get(_NAME, "").partition(" ")
        with suppress(ValueError):  # also of no text
            return _without_mapping(as_ip(client.partition("%")[0]))
    return None


def _without_mapping(ip: IP) -> IP:
    """The IPv4 address that an IPv6 socket shows as ::ffff:192.0.2.1; any other address as it
    is.
    """
    if isinstance(ip, IPv6Address):
        return ip.ipv4_mapped or ip
    return ip


def _environments_of_parents() -> Iterator[Mapping[str, str]]:
    """The nearest first, up to one that this user may not look at, such as sshd."""
    pid = os.getppid()
    while pid > 1:
        try:
            with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as file:
                entries = file.read().split("\0")
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                # After the name, which may have spaces: the state, then the parent.
                pid = int(file.read().rpartition(")")[2].split()[1])
        except OSError:  # it has ended, or belongs to somebody else
            return
        yield dict(entry.split("=", 1) for entry in entries if "=" in entry)
