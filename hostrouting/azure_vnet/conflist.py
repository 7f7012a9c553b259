"""The CNI configuration of a node, read for whether azure-vnet still manages its pods.

Here: from the texts in the folder to an answer. Not here: what follows from it (`tasks.azure_cleanup`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["active_file"]

_ENDINGS = (".conf", ".conflist", ".json")
_PLUGIN = "azure-vnet"
_NAMED = ("clusterNetwork", "defaultNetworks")
"""The keys of multus that name networks: by a file, or by the name of a configuration."""


def active_file(names: Iterable[str], read: Callable[[str], str | None]) -> str | None:
    """The file that says that azure-vnet is active: the first usable one, if azure-vnet is anywhere in it.

    A container runtime takes the first file by name, and passes over those that it cannot use. A plugin such as multus
    hands pods on to others, which are plugins of its own file (`delegates`, or a NetworkAttachmentDefinition with a
    configuration as text) or have one beside it that it names.
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
    """The JSON in a text; None where there is none."""
    import json  # noqa: PLC0415  only where there is a CNI configuration

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_usable(document: Any) -> bool:
    """Whether it is a CNI configuration: a plugin, or a list of them."""
    if not isinstance(document, dict):
        return False
    plugins = document.get("plugins", [document])
    return isinstance(plugins, list) and any(isinstance(it, dict) and "type" in it for it in plugins)


def _has_plugin(document: Any) -> bool:
    """Whether a plugin of this type is in it, at any depth."""
    return any(it.get("type") == _PLUGIN for it in _objects(document))


def _named(document: Any) -> Iterator[str]:
    """What it names other configurations by: the name of a network, or the path of a file."""
    for it in _objects(document):
        for key in _NAMED:
            found = it.get(key)
            yield from (one for one in (found if isinstance(found, list) else [found]) if isinstance(one, str))


def _is_one_of(named: set[str], file: str, document: Any) -> bool:
    """Whether one of the names means this file: its name, with an ending or without, in any folder; or its network."""
    mine = {file, file.rpartition(".")[0], *(str(it.get("name")) for it in [document] if isinstance(it, dict))}
    return any(it in mine or it.rpartition("/")[2] in mine for it in named)


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    """Each object in it, at any depth; a text that is an object itself is one, too."""
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
