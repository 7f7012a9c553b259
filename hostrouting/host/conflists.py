"""The CNI configurations in a folder such as /etc/cni/net.d: which are in force, and the objects in them.

Here: what a container runtime and multus do with these files. Not here: what a plugin's keys mean
(`tasks.cleanup`).

A runtime uses the first file by name, and skips files that are not usable. A plugin such as multus calls other plugins.
Those are configured in the same file (`delegates`, or a NetworkAttachmentDefinition with the configuration as text), or
in another file of the folder that the first one names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

_ENDINGS = (".conf", ".conflist", ".json")
_NAMED = ("clusterNetwork", "defaultNetworks")
"""The keys of multus that name networks: by file, or by the name of a configuration."""


def read_conflists(names: Iterable[str], read: Callable[[str], str | None]) -> dict[str, Any]:
    """The documents in these files, in the order of container runtimes; None for a file that is not JSON."""
    return {name: _document(read(name) or "") for name in sorted(names) if name.endswith(_ENDINGS)}


def files_in_force(folder: Mapping[str, Any]) -> tuple[str, ...]:
    """The file that a runtime uses, then the files that it refers to; empty if none is usable."""
    first = next((name for name, document in folder.items() if _is_usable(document)), None)
    if first is None:
        return ()
    named = set(_references(folder[first]))
    others = (name for name, document in folder.items() if name != first and _is_one_of(named, name, document))
    return first, *others


def objects_in(document: Any) -> Iterator[dict[str, Any]]:
    """Each JSON object in the document, at any depth, including objects that are stored as text."""
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            yield value
            left += reversed(value.values())
        elif isinstance(value, list):
            left += reversed(value)
        elif isinstance(value, str) and value.lstrip().startswith("{"):
            left.append(_document(value))


def _document(text: str) -> Any:
    """The text parsed as JSON; None if it is not JSON."""
    import json  # noqa: PLC0415  only where there is a CNI configuration

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_usable(document: Any) -> bool:
    """Whether the value is a CNI configuration: a plugin, or a list of plugins."""
    if not isinstance(document, dict):
        return False
    plugins = document.get("plugins", [document])
    return isinstance(plugins, list) and any(isinstance(plugin, dict) and "type" in plugin for plugin in plugins)


def _references(document: Any) -> Iterator[str]:
    """The references to other configurations in it: names of networks, and paths of files."""
    for nested in objects_in(document):
        for key in _NAMED:
            found = nested.get(key)
            yield from (one for one in (found if isinstance(found, list) else [found]) if isinstance(one, str))


def _is_one_of(named: set[str], file: str, document: Any) -> bool:
    """Whether one of the names means this file: its name, with or without ending or folder, or its network."""
    mine = {
        file,
        file.rpartition(".")[0],
        *(str(plugin.get("name")) for plugin in [document] if isinstance(plugin, dict)),
    }
    return any(name in mine or name.rpartition("/")[2] in mine for name in named)
