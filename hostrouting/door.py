"""Argument checks of the public functions: a value of the wrong type is refused before anything is done.

Here: the checks and their messages, which say what to write instead. Not here: the rules of a configuration
(`config`), which collects its faults.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network
from typing import Any

__all__ = ["listed", "names", "require", "uncalled"]


def listed(values: Any, what: str) -> tuple[Any, ...]:
    """The items of a list. TypeError for a single item: text would be split into letters, a network into addresses."""
    if isinstance(values, str | bytes | IPv4Network | IPv6Network) or not isinstance(values, Iterable):
        shown = f'"{values}"' if isinstance(values, str) else str(values)
        raise TypeError(f"{what}: {shown} is not a list; write [{shown}], even around a single item")
    return tuple(values)


def names(values: Any, what: str) -> tuple[str, ...]:
    """The items of a list of names. TypeError for a single name, and for an item that is not text."""
    found = listed(values, what)
    for value in found:
        if not isinstance(value, str):
            raise TypeError(f"{what}: {value} is a {type(value).__name__}, not a string; write its name")
    return found


def require(value: object, kind: type, what: str, remedy: str) -> None:
    """Raise TypeError, with the remedy, if the value is not an instance of `kind`."""
    if not isinstance(value, kind):
        made = uncalled(value)
        given = made or _one(type(value))
        raise TypeError(f"{what} takes {_one(kind)}, not {given}; {f'call it: {made}()' if made else remedy}")


def _one(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOUaeiou' else 'a'} {kind.__name__}"


def uncalled(value: object) -> str:
    """The name of a class or function that was passed without being called; empty for any other value."""
    return getattr(value, "__qualname__", "") if callable(value) else ""
