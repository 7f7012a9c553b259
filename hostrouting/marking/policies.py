"""IPsec policies for packets that leave, from the text of `ip xfrm policy`.

A policy applies to packets whatever their mark: it encapsulates them, and they leave by the route to the other end.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING

from hostrouting.marking.setter import IpsecPolicy
from hostrouting.model import Prefix

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ipsec_policies"]


def ipsec_policies(text: str, *, family: int) -> tuple[IpsecPolicy, ...]:
    """The policies with the direction out of a family. Raises ValueError for text that ip does not print."""
    return tuple(it for it in _policies(text) if it.destination.family == family)


def _policies(text: str) -> Iterator[IpsecPolicy]:
    for lines in _entries(text):
        words = lines[0].split()
        said = dict(zip(words[::2], words[1::2], strict=False))
        options = [line.split() for line in lines[1:]]
        if "dst" not in said or "src" not in said:
            raise ValueError(f"ip printed something unexpected: {lines[0]}")
        if ["dir", "out"] in [it[:2] for it in options]:
            ends = [it[4] for it in options if it[:1] == ["tmpl"] and len(it) > 4]
            drops = any("block" in it for it in options if it[:1] == ["dir"])
            yield IpsecPolicy(_prefix(said["src"]), _prefix(said["dst"]), ends[0] if ends else "", drops=drops)


def _prefix(text: str) -> Prefix:
    return Prefix.of(ip_network(text))


def _entries(text: str) -> Iterator[list[str]]:
    """The lines of each policy: all but the first are indented."""
    lines: list[str] = []
    for line in text.splitlines():
        if lines and line[:1].strip():
            yield lines
            lines = []
        if line.strip():
            lines.append(line)
    if lines:
        yield lines
