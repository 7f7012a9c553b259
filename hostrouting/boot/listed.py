"""What `ip` lists, as settings that several boot scripts have: names for its numbers, and what a
device is.

The scripts call `ip -N`, which prints numbers, because the names on a host are files that anybody
may change. Each setting is a line: a word that says what it is, and its values. assets/listed.sh
reads these lines, and says what each word and each class means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from hostrouting.model.link_kinds import BRIDGE, DEAD_ENDS, LIKE_ETHERNET, LINES, NO_TUNNELS, TAP
from hostrouting.model.route import ROUTE_TYPES, protocol_name, scope_name, table_name
from hostrouting.model.snapshot import ARPHRD_ETHERNET, ARPHRD_INFINIBAND, ARPHRD_LOOPBACK

_DUMMY = "dummy"
"""A kind, and its class: its default route is used where there is no other."""


def class_settings() -> Iterator[str]:
    """What a device is by its kind or link type, of which `ip` prints the number or the word."""
    classes: dict[str, Iterable[str]] = {
        "dead-end": DEAD_ENDS - {_DUMMY},
        _DUMMY: {_DUMMY},
        "tunnel": LIKE_ETHERNET - {TAP},
        "tap": {TAP},
        "line": LINES,
        "card": NO_TUNNELS - {""},
        "bridge": {BRIDGE},
    }
    for name, kinds in classes.items():
        yield f"kind {name} {' '.join(sorted(kinds))}"
    yield f"link-type dead-end {ARPHRD_INFINIBAND} infiniband {ARPHRD_LOOPBACK} loopback"
    yield f"link-type card {ARPHRD_ETHERNET} ether"


@cache  # to look up 800 names takes as long as the rest of a script
def name_settings() -> tuple[str, ...]:
    """The names of the numbers of route types, protocols, scopes and tables."""
    lines = [*_names("type", ROUTE_TYPES.__getitem__, range(len(ROUTE_TYPES)))]
    for kind, name_of in (("proto", protocol_name), ("scope", scope_name), ("table", table_name)):
        lines += _names(kind, name_of, range(256))
    return tuple(lines)


def _names(kind: str, name_of: Callable[[int], str], numbers: Sequence[int]) -> Iterator[str]:
    """The names of these numbers: pairs, of which seven fit into a line."""
    pairs: list[str] = []
    for number in numbers:
        name = name_of(number)
        if name != str(number):  # which stands for a number that has no name
            pairs.append(f"{number} {name}")
    for first in range(0, len(pairs), 7):
        yield f"names {kind} {' '.join(pairs[first : first + 7])}"
