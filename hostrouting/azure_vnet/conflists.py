"""Whether azure-vnet is the node's active CNI: what the CNI configurations of a node say."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hostrouting.host.base import Files

FOLDER = "/etc/cni/net.d"
_ENDINGS = (".conf", ".conflist", ".json")
"""How the names of the files end that a container runtime reads."""
_PLUGIN = re.compile(r'"type\\*"\s*:\s*\\*"azure-vnet\\*"', re.IGNORECASE)
"""azure-vnet as a plugin, also in a document that is a string in another document, as Multus has
it. Case is ignored because Go, in which the runtimes are written, ignores it in keys.
"""
_MULTUS = {"multus", "multus-shim"}
_UNUSABLE = (KeyError, RecursionError, TypeError, ValueError)
"""What reading a file raises that no container runtime can use."""


def active_file(files: Files) -> str:
    """The path of the CNI configuration that makes azure-vnet active; empty if none does.

    A container runtime uses the first file, by name, that it can use. If this is Multus, which
    calls other plugins, the next one is in use as well. A file that no runtime can use counts if
    azure-vnet is anywhere in it: to refuse is safe.

    Not judged: whether the programs of the plugins are installed.
    """
    for name in sorted(files.names(FOLDER)):
        if not name.endswith(_ENDINGS):
            continue
        path = f"{FOLDER}/{name}"
        text = files.read(path) or ""
        if _PLUGIN.search(text):
            return path
        types = _plugin_types(name, text)
        if types and not _MULTUS & types:
            return ""
    return ""


def _plugin_types(name: str, text: str) -> set[str]:
    """The types of the plugins in the file with this name; none if no container runtime can use
    it: a conflist is a list of plugins with a name, and any other file is one plugin.
    """
    try:
        document = json.loads(text)
        plugins = [document]
        if name.endswith(".conflist"):
            _text_at(document, "name")
            plugins = document["plugins"]
        return {_text_at(plugin, "type") for plugin in plugins}
    except _UNUSABLE:
        return set()


def _text_at(holder: Any, key: str) -> str:
    """The text with this key; one of the errors in `_UNUSABLE` if it is missing or empty."""
    text = holder[key]
    if not isinstance(text, str) or not text:
        raise ValueError(f"{key} is not a text")
    return text
