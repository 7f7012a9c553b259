"""Determines from a node's CNI configuration whether azure-vnet still manages its pods.

Here: parsing the files of the folder. Not here: the consequences (`tasks.azure_cleanup`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["active_file"]

_ENDINGS = (".conf", ".conflist", ".json")
_PLUGIN = "azure-vnet"
_NAMED = ("clusterNetwork", "defaultNetworks")
"""The keys of multus that name networks: by file, or by the name of a configuration."""


def active_file(names: Iterable[str], read: Callable[[str], str | None]) -> str | None:
    """The name of the file that makes azure-vnet active, or None if it is not active. `read` returns a file's text.

    A container runtime uses the first file by name, and skips files that are not usable. A plugin such as multus calls
    other plugins. Those are configured in the same file (`delegates`, or a NetworkAttachmentDefinition with the
    configuration as text), or in another file of the folder that the first one names.
    """
    folder = {it: _document(read(it) or "") for it in sorted(names) if it.endswith(_ENDINGS)}
    for name, document in folder.items():
        if _has_plugin(document):
            return name
        if _is_usable(document):
            named = set(_named(document))
            is_found = any(_is_one_of(named, it, other) and _has_plugin(other) for it, other in folder.items())
            return name if is_found else None
    return None


def _document(text: str) -> Any:
    """The text parsed as JSON; None if it is not JSON."""
    import json  # noqa: PLC0415  only where there is a CNI configuration

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_usable(document: Any) -> bool:
    """Whether it is a CNI configuration: a plugin, or a list of plugins."""
    if not isinstance(document, dict):
        return False
    plugins = document.get("plugins", [document])
    return isinstance(plugins, list) and any(isinstance(it, dict) and "type" in it for it in plugins)


def _has_plugin(document: Any) -> bool:
    """Whether it contains azure-vnet as a plugin, at any depth."""
    return any(it.get("type") == _PLUGIN for it in _objects(document))


def _named(document: Any) -> Iterator[str]:
    """The references to other configurations in it: names of networks, and paths of files."""
    for it in _objects(document):
        for key in _NAMED:
            found = it.get(key)
            yield from (one for one in (found if isinstance(found, list) else [found]) if isinstance(one, str))


def _is_one_of(named: set[str], file: str, document: Any) -> bool:
    """Whether one of the names refers to this file: by file name, with or without ending or folder, or by network."""
    mine = {file, file.rpartition(".")[0], *(str(it.get("name")) for it in [document] if isinstance(it, dict))}
    return any(it in mine or it.rpartition("/")[2] in mine for it in named)


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    """Each JSON object in it, at any depth, including objects that are stored as text."""
    left = [document]
    while left:
        it = left.pop()
        if isinstance(it, dict):
            yield it
            left += it.values()
        elif isinstance(it, list):
            left += it
        elif isinstance(it, str) and it.lstrip().startswith("{"):
            left.append(_document(it))
