"""Whether systemd-networkd may delete the static routes, because they are another program's to it.

It does that when it restarts, on a host of which it manages a device, unless ManageForeignRoutes=
says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.boot.drop_ins import comes_after, effective_drop_ins
from hostrouting.finding import Finding, Remedy
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.files import Files

_LINKS = "/run/systemd/netif/links"
"""While systemd-networkd runs, this folder has a file about each device; the folder itself is made
at every boot.
"""
_IS_MANAGED = re.compile(r"(?m)^ADMIN_STATE=(configuring|configured|failed)$")
"""The states of a device for which a .network file has been found: networkd deletes routes for no
other device.
"""
_FOLDERS = ("/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd")
_FILES = tuple(f"{folder}/networkd.conf" for folder in _FOLDERS)
"""networkd reads the first of these files, and then the drop-ins. An older release looks only for
the one in /etc, and no package of such a release has another one.
"""
_DROP_INS = tuple(f"{folder}/networkd.conf.d" for folder in _FOLDERS)
_SETTING = re.compile(r"(?m)^[ \t]*ManageForeignRoutes[ \t]*=[ \t]*(\S+)[ \t]*$")
_TRUE = {"yes", "true", "on", "1", "y", "t"}
_FALSE = {"no", "false", "off", "0", "n", "f"}


def find_networkd(config: HostRoutingConfig, files: Files) -> Iterator[Finding]:
    """Whether systemd-networkd may delete the static routes when it restarts."""
    if not _manages_a_device(files):
        return
    sentence = (
        "systemd-networkd manages devices of this host, and can delete the routes of other programs"
    )
    path, deletes_routes = _last_setting(files)
    if not deletes_routes:
        return
    if config.manage_foreign != "keep":
        remedy = Remedy('to keep them, write "manageForeign": "keep" into the configuration')
    elif path not in _FILES and path and comes_after(path, HostLayout.networkd_path):
        sentence = f"{path} overrides {HostLayout.networkd_path}: {sentence}"
        remedy = Remedy(f"to keep them, delete ManageForeignRoutes= from {path}")
    else:  # our file is missing or edited, which is said of our files
        return
    yield Finding("unit", "note", sentence, "systemd-networkd.service", remedy)


def _manages_a_device(files: Files) -> bool:
    for number in files.names(_LINKS):
        if _IS_MANAGED.search(files.read(f"{_LINKS}/{number}") or ""):
            return True
    return False


def _last_setting(files: Files) -> tuple[str, bool]:
    """The file whose ManageForeignRoutes= counts, which is the last one, and whether networkd
    deletes the routes of other programs then. It does if no file says anything. It passes over a
    value that is neither yes nor no.
    """
    path_of_setting = ""
    deletes_routes = True
    main = [path for path in _FILES if files.look(path) is not None]
    for path in (*main[:1], *effective_drop_ins(files, _DROP_INS)):
        for value in _SETTING.findall(files.read(path) or ""):
            if value.lower() in _TRUE | _FALSE:
                path_of_setting = path
                deletes_routes = value.lower() in _TRUE
    return path_of_setting, deletes_routes
