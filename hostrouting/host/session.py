"""Where the session comes from in which a command is typed: a change of routes may cut it off."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from hostrouting.model.prefix import as_ip

if TYPE_CHECKING:
    from hostrouting.model.prefix import IP

_NAME = "SSH_CONNECTION"
"""sshd sets it: the client's address and port, then the address and port here."""


def ssh_client() -> IP | None:
    """The address from which somebody is logged in by SSH and runs this process; None if nobody is.

    sudo takes the variable out of the environment, so those of the parents are read, too.
    """
    for environment in (os.environ, *_environments_of_parents()):
        words = environment.get(_NAME, "").split()
        if not words:
            continue
        client, _, _ = words[0].partition("%")
        with suppress(ValueError):
            ip = as_ip(client)
            return getattr(ip, "ipv4_mapped", None) or ip
    return None


def _environments_of_parents() -> Iterator[Mapping[str, str]]:
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
