"""Argument checks of the public functions: a wrong value is refused before anything is done.

Here: the checks of a value's type, and of the devices that an argument names, which must exist on the host; and their
messages, which say what to write instead. Not here: the rules of a configuration (`config`), which collects its faults.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING, Any

from hostrouting.errors import ConfigError, Fault
from hostrouting.text import nearest, spoken

if TYPE_CHECKING:
    from hostrouting.model.snapshot import Snapshot

HOST_OF_A_SNAPSHOT = "the host of this snapshot"
_SHOWN = 20  # devices that a message names; the others are counted


def listed(values: Any, what: str) -> tuple[Any, ...]:
    """The items of a list. TypeError for a single item: text would be split into letters, a NamedTuple into fields."""
    is_one = isinstance(values, str | bytes | IPv4Network | IPv6Network) or hasattr(values, "_fields")
    if is_one or not isinstance(values, Iterable):
        shown = f'"{values}"' if isinstance(values, str) else str(values)
        raise TypeError(f"{what}: {shown} is not a list; write [{shown}], even around a single item")
    return tuple(values)


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


def require_devices(named: Iterable[tuple[str, str]], snapshot: Snapshot, *, host: str) -> None:
    """Raise ConfigError if a device does not exist. Each device is given with the argument that names it.

    `host` is what the error calls the host.
    """
    names = [link.name for link in snapshot.links]
    there = spoken(names, most=_SHOWN) or "none"
    faults = [
        Fault(
            argument,
            repr(dev),
            f"is not a device of {host}",
            f"did you mean {near}? The devices are {there}"
            if (near := nearest(dev, names))
            else f"the devices are {there}",
        )
        for argument, dev in named
        if dev not in names
    ]
    if faults:
        raise ConfigError(faults, "the command line" if len(faults) > 1 else None)
