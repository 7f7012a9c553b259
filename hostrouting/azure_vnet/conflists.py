"""Whether azure-vnet is the node's active CNI: what the CNI configurations of a node say."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

FOLDER = "/etc/cni/net.d"

_PLUGIN = re.compile(r'"type\\*"\s*:\s*\\*"azure-vnet\\*"')
"""azure-vnet as a plugin, also in a document that is a string in another document."""
_MULTUS = {"multus", "multus-shim"}
_UNUSABLE = (AttributeError, KeyError, RecursionError, TypeError, ValueError)
"""What reading a file raises that no container runtime can use."""


def active_file(conflists: Mapping[str, str]) -> str:
    """The name of the CNI configuration that makes azure-vnet active; empty if none does.

    A container runtime uses the first file, by name, that it can use. If this is Multus, which
    calls other plugins, the next file is in use as well. A file before that, which no runtime can
    use, makes azure-vnet active if it is anywhere in it: to refuse is safe.
    """
    for name, text in sorted(conflists.items()):
        if _PLUGIN.search(text):
            return name
        plugins = _plugins(text)
        if plugins and not _MULTUS & plugins:
            return ""
    return ""


def _plugins(text: str) -> set[str]:
    """The types of the plugins in a CNI configuration; none if no container runtime can use it."""
    try:
        document = json.loads(text)
        return {plugin["type"] for plugin in document.get("plugins", [document])}
    except _UNUSABLE:
        return set()
