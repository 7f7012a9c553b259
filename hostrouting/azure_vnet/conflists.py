"""Whether azure-vnet is the node's active CNI: what the CNI configurations of a node say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hostrouting.host.base import Files

FOLDER = "/etc/cni/net.d"
_ENDINGS = (".conf", ".conflist", ".json")
"""How the names of the files end that a container runtime reads."""
_PLUGIN = re.compile(r'"type\\*"\s*:\s*\\*"azure-vnet\\*"', re.IGNORECASE)
"""azure-vnet as a plugin, also in a document that is a string in another document, as Multus has
it. Case is ignored because Go, in which the runtimes are written, ignores it in keys.
"""


def active_file(files: Files) -> str:
    """The path of the CNI configuration that makes azure-vnet active; empty if none does.

    A container runtime uses the first file by name. Not judged: a first file that no runtime can
    use, and the file that Multus names without having its text.
    """
    names = [name for name in files.names(FOLDER) if name.endswith(_ENDINGS)]
    if not names:
        return ""
    path = f"{FOLDER}/{min(names)}"
    return path if _PLUGIN.search(files.read(path) or "") else ""
