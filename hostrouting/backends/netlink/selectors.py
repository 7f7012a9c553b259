"""What a rule selects on that came to Linux late, or is not known here at all: it is never read as "for all packets".

Here: attributes of a rule as bytes, and their words in `ip rule`. All others are read in `decode`.
"""

from __future__ import annotations

from sys import byteorder
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Selectors", "read_selectors"]

# Attributes (FRA_…) by their numbers.
_TUN_ID, _DSCP, _FLOWLABEL, _FLOWLABEL_MASK, _DSCP_MASK = 12, 25, 26, 27, 30
# Of each range of ports its attribute, and that of its mask.
_PORTS = {"sport": (23, 28), "dport": (24, 29)}
_ALL_DSCP, _ALL_PORT = 0x3F, 0xFFFF
# Those that `decode` reads, those that are read here, and two that select nothing: FLOW (realms) and PAD.
_KNOWN = frozenset({1, 2, 3, 4, 6, 10, 11, *range(13, 25), _TUN_ID, *range(_DSCP, _DSCP_MASK + 1)})


class Selectors(NamedTuple):
    """The tos where the rule gives it as a DSCP, the names of the port ranges that are masked, and all the others."""

    tos: int
    masked: frozenset[str]
    others: tuple[tuple[str, str], ...]


def read_selectors(raw: Mapping[int, bytes]) -> Selectors:
    """What the attributes of a rule select on besides."""
    masked = frozenset(word for word, (_, mask) in _PORTS.items() if _number(raw, mask, _ALL_PORT) != _ALL_PORT)
    return Selectors(_tos(raw) or 0, masked, tuple(_others(raw)))


def _tos(raw: Mapping[int, bytes]) -> int | None:
    """Since Linux 6.13 a rule can give all six bits of the DSCP instead of a tos; then 0 is a value like any other."""
    whole = _DSCP in raw and _number(raw, _DSCP_MASK, _ALL_DSCP) == _ALL_DSCP
    return _number(raw, _DSCP) << 2 if whole else None


def _others(raw: Mapping[int, bytes]) -> Iterator[tuple[str, str]]:
    if _TUN_ID in raw:
        yield "tun_id", str(int.from_bytes(raw[_TUN_ID], "big"))
    if _DSCP in raw and not _tos(raw):
        mask = _number(raw, _DSCP_MASK, _ALL_DSCP)
        yield "dscp", "0" if mask == _ALL_DSCP else f"{_number(raw, _DSCP):#x}/{mask:#x}"
    if _FLOWLABEL in raw:
        label, mask = (int.from_bytes(raw.get(kind, b""), "big") for kind in (_FLOWLABEL, _FLOWLABEL_MASK))
        yield "flowlabel", f"{label:#x}/{mask:#x}"
    for word, (ports, port_mask) in _PORTS.items():
        if (mask := _number(raw, port_mask, _ALL_PORT)) != _ALL_PORT:
            yield word, f"{int.from_bytes(raw[ports][:2], byteorder):#x}/{mask:#x}"
    for kind in sorted(set(raw) - _KNOWN):
        yield f"attribute-{kind}", raw[kind].hex() or "set"


def _number(raw: Mapping[int, bytes], kind: int, otherwise: int = 0) -> int:
    return int.from_bytes(raw[kind], byteorder) if kind in raw else otherwise
