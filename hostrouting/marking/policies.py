"""IPsec policies for packets that leave, from the text of `ip xfrm policy`.

Here: which packets a policy is for, and what it does with them. Not here: the keys and states.
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
        options = [line.split() for line in lines[1:]]
        if words[0::2][:2] != ["src", "dst"] or len(words) < 4:
            raise ValueError(f"ip printed something unexpected: {lines[0]}")
        if ["dir", "out"] not in [it[:2] for it in options]:
            continue
        only = [*words[4:], *(word for it in options if it[0] in {"mark", "if_id"} for word in it[:2])]
        ends = [it[4] for it in options if it[0] == "tmpl" and len(it) > 4]
        source, destination = (Prefix.of(ip_network(text)) for text in (words[1], words[3]))
        if any("block" in it for it in options if it[0] == "dir"):
            yield IpsecPolicy(source, destination, "drop", only=" ".join(only))
        elif any("tunnel" in it for it in options if it[0] == "proto"):
            yield IpsecPolicy(source, destination, "tunnel", ends[0] if ends else "", " ".join(only))
        else:
            yield IpsecPolicy(source, destination, "transport" if ends else "pass", only=" ".join(only))


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
