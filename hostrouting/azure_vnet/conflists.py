"""Whether azure-vnet may be the node's CNI: what the CNI configurations of a node say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hostrouting.host.base import Files

FOLDER = "/etc/cni/net.d"
_ENDINGS = (".conf", ".conflist", ".json")
"""The endings of the file names that a container runtime reads."""
_PLUGIN = re.compile(r'"type\\*"\s*:\s*\\*"azure-vnet\\*"', re.IGNORECASE)
"""The entry that makes azure-vnet a plugin. Its quotation marks may be escaped, because Multus has
whole documents as strings in its own. Case is ignored, because Go, in which the runtimes are
written, ignores it in keys.
"""


def active_file(files: Files) -> str:
    """The path of the first CNI configuration that has azure-vnet as a plugin; empty if none has.

    A clean-up deletes nothing if there is one, because azure-vnet may manage the pods then. It does
    not matter which of several configurations the container runtime uses: to delete nothing is
    safe.
    """
    for name in files.names(FOLDER):
        path = f"{FOLDER}/{name}"
        # The text is None if the name is a link to a file that does not exist.
        if name.endswith(_ENDINGS) and _PLUGIN.search(files.read(path) or ""):
            return path
    return ""
