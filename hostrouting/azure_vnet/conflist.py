"""The CNI configuration of a node, read for whether azure-vnet still manages its pods.

Here: from the texts in the folder to an answer. Not here: what follows from it (`tasks.azure_cleanup`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["active_file"]

_ENDINGS = (".conf", ".conflist", ".json")
_PLUGIN = "azure-vnet"


def active_file(names: Iterable[str], read: Callable[[str], str | None]) -> str | None:
    """The file that says that azure-vnet is active: the first usable one, if it holds a plugin of that type.

    A container runtime takes the first file by name, and passes over those that it cannot use.
    """
    for name in sorted(it for it in names if it.endswith(_ENDINGS)):
        types = _plugin_types(read(name) or "")
        if types:
            return name if _PLUGIN in types else None
    return None


def _plugin_types(text: str) -> tuple[str, ...]:
    """The types of its plugins; none where it is not a CNI configuration."""
    import json  # noqa: PLC0415  only where there is a CNI configuration

    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(document, dict):
        return ()
    plugins = document.get("plugins", [document])
    found = plugins if isinstance(plugins, list) else []
    return tuple(str(it["type"]) for it in found if isinstance(it, dict) and "type" in it)
