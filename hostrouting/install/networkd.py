"""Whether systemd-networkd may delete the static routes: it deletes those of other programs when it
restarts, unless it is told to keep them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.finding import Finding, Remedy

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.base import Files

_LINKS = "/run/systemd/netif/links"
"""While systemd-networkd runs, this folder has a file about each device; the folder itself is made
at every boot.
"""
_IS_MANAGED = re.compile(r"(?m)^ADMIN_STATE=(configuring|configured|failed)$")
"""The states of a device for which a .network file has been found: networkd deletes routes for no
other device.
"""
_NETWORKD_FOLDERS = ("/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd")
_KEEPS_ROUTES = re.compile(
    r"(?m)^[ \t]*ManageForeignRoutes[ \t]*=[ \t]*(?i:no|false|off|0|n|f)[ \t]*$"
)


def find_networkd(config: HostRoutingConfig, files: Files) -> Iterator[Finding]:
    """Whether systemd-networkd may delete the static routes when it restarts."""
    if config.manage_foreign == "keep" or not _manages_a_device(files) or _keeps_routes(files):
        return
    sentence = (
        "systemd-networkd manages devices of this host, and can delete the routes of other programs"
    )
    remedy = Remedy('to keep them, write "manageForeign": "keep" into the configuration')
    yield Finding("unit", "note", sentence, "systemd-networkd.service", remedy)


def _manages_a_device(files: Files) -> bool:
    texts = [files.read(f"{_LINKS}/{number}") or "" for number in files.names(_LINKS)]
    return any(_IS_MANAGED.search(text) for text in texts)


def _keeps_routes(files: Files) -> bool:
    """Whether somebody has told networkd to keep the routes of other programs. Not judged: in which
    section of the file, and whether another file, which is read later, says otherwise.
    """
    for folder in _NETWORKD_FOLDERS:
        drop_ins = f"{folder}/networkd.conf.d"
        paths = [f"{drop_ins}/{name}" for name in files.names(drop_ins)]
        paths.append(f"{folder}/networkd.conf")
        if any(_KEEPS_ROUTES.search(files.read(path) or "") for path in paths):
            return True
    return False
