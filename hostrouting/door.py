"""What public functions refuse before they begin: an argument of another kind than the one that is meant.

Here: the checks, and their sentences, which say what to write instead. Not here: the rules of a configuration
(`config`), whose faults are collected.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network
from typing import Any

__all__ = ["listed", "names", "require", "uncalled"]


def listed(values: Any, what: str) -> tuple[Any, ...]:
    """The items of a list. TypeError for one item alone: a text would be cut into letters, a network into addresses."""
    if isinstance(values, str | bytes | IPv4Network | IPv6Network) or not isinstance(values, Iterable):
        shown = f'"{values}"' if isinstance(values, str) else str(values)
        raise TypeError(f"{what}: {shown} where a list belongs; write [{shown}], also around a single item")
    return tuple(values)


def names(values: Any, what: str) -> tuple[str, ...]:
    """The items of a list of names. TypeError for one name alone, and for what is not a text."""
    found = listed(values, what)
    for value in found:
        if not isinstance(value, str):
            raise TypeError(f"{what}: {value} is a {type(value).__name__}, and names are texts; write its name")
    return found


def require(value: object, kind: type, what: str, remedy: str) -> None:
    """TypeError, with the remedy, for what is not of this kind."""
    if not isinstance(value, kind):
        made = uncalled(value)
        given = made or _one(type(value))
        raise TypeError(f"{what} takes {_one(kind)}, not {given}; {f'call it: {made}()' if made else remedy}")


def _one(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOUaeiou' else 'a'} {kind.__name__}"


def uncalled(value: object) -> str:
    """The name of a class or function that is given in the place of what it makes; empty for anything else."""
    return getattr(value, "__qualname__", "") if callable(value) else ""
