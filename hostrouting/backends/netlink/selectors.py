"""What a rule selects on, out of the attributes of its message: it is never read as "for all packets".

Here: every entry of `SELECTORS`, and the words in `ip rule` of what came to Linux late or is not known here at all. Not
here: how the value of an entry is read (`hostrouting.model.rule`).
"""

from __future__ import annotations

from sys import byteorder
from typing import TYPE_CHECKING, Any, NamedTuple

from hostrouting.model import SELECTORS, selector_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Selectors", "decode_selectors", "read_selectors"]

_TOS, _PORTS = selector_of("tos"), (selector_of("sport"), selector_of("dport"))
# Attributes (FRA_…) by their numbers, of what there is no entry for.
_TUN_ID, _DSCP, _FLOWLABEL, _FLOWLABEL_MASK = 12, 25, 26, 27
# What says what the rule does (GOTO, PRIORITY, SUPPRESS_…, TABLE, PROTOCOL), and two that select nothing: FLOW (realms)
# and PAD.
_NO_SELECTORS = (4, 6, 13, 14, 15, 21, 11, 18)
_KNOWN = frozenset(
    {_TUN_ID, _DSCP, _FLOWLABEL, _FLOWLABEL_MASK, *_NO_SELECTORS}
    | {number for selector in SELECTORS for number in (selector.attribute, selector.mask) if number}
)
_ALL_DSCP, _ALL_PORT = 0x3F, 0xFFFF


class Selectors(NamedTuple):
    """The tos where the rule gives it as a DSCP, the names of the port ranges that are masked, and all the others."""

    tos: int
    masked: frozenset[str]
    others: tuple[tuple[str, str], ...]


def decode_selectors(raw: Mapping[int, bytes], header: Mapping[str, int]) -> dict[str, Any]:
    """The fields of a Rule that select; the header has its `family`, its `tos`, and the lengths of `src` and `dst`."""
    said = {
        name: value
        for selector in SELECTORS
        for name, value in zip(selector.fields, selector.decode(raw, header), strict=True)
    }
    return {**said, "others": tuple(_others(raw))}


def read_selectors(raw: Mapping[int, bytes]) -> Selectors:
    """What the attributes of a rule select on besides."""
    masked = frozenset(ports.word for ports in _PORTS if _number(raw, ports.mask, _ALL_PORT) != _ALL_PORT)
    return Selectors(_tos(raw), masked, tuple(_others(raw)))


def _tos(raw: Mapping[int, bytes]) -> int:
    [tos] = _TOS.decode(raw, {"tos": 0})
    return int(tos)


def _others(raw: Mapping[int, bytes]) -> Iterator[tuple[str, str]]:
    if _TUN_ID in raw:
        yield "tun_id", str(int.from_bytes(raw[_TUN_ID], "big"))
    if _DSCP in raw and not _tos(raw):
        # All six bits of it are a tos; but then a tos of 0 says nothing, and a DSCP of 0 is one like any other.
        mask = _number(raw, _TOS.mask, _ALL_DSCP)
        yield "dscp", "0" if mask == _ALL_DSCP else f"{_number(raw, _DSCP):#x}/{mask:#x}"
    if _FLOWLABEL in raw:
        label, mask = (int.from_bytes(raw.get(kind, b""), "big") for kind in (_FLOWLABEL, _FLOWLABEL_MASK))
        yield "flowlabel", f"{label:#x}/{mask:#x}"
    for ports in _PORTS:
        if (mask := _number(raw, ports.mask, _ALL_PORT)) != _ALL_PORT:
            yield ports.word, f"{int.from_bytes(raw[ports.attribute][:2], byteorder):#x}/{mask:#x}"
    for kind in sorted(set(raw) - _KNOWN):
        yield f"attribute-{kind}", raw[kind].hex() or "set"


def _number(raw: Mapping[int, bytes], kind: int, otherwise: int = 0) -> int:
    return int.from_bytes(raw[kind], byteorder) if kind in raw else otherwise
