"""Whether azure-vnet is the node's active CNI: what the CNI configurations of a node say."""

from __future__ import annotations

import re
from collections.abc import Mapping

FOLDER = "/etc/cni/net.d"

_PLUGIN = re.compile(r'"type\\*"\s*:\s*\\*"azure-vnet\\*"', re.IGNORECASE)
"""azure-vnet as a plugin, also in a document that is a string in another document, as Multus has
it. Case is ignored because Go, in which the runtimes are written, ignores it in keys.
"""


def active_file(conflists: Mapping[str, str]) -> str:
    """The name of the CNI configuration that makes azure-vnet active; empty if none does.

    A container runtime uses the first file by name. Not judged: a first file that no runtime can
    use, and the file that Multus names without having its text.
    """
    first = min(conflists, default="")
    if _PLUGIN.search(conflists.get(first, "")):
        return first
    return ""
