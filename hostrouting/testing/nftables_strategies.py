"""Hypothesis strategies for nftables: the tables that we can load. Importing this module imports hypothesis.

names()        names of tables and chains
devices()      names of devices
networks()     IPv6 networks, some of them adjacent or nested
matches()      any match
statements()   any statement that is allowed before the last one
rules()        any rule
chains(name)   a chain with this name
tables()       a table, with any name unless one is given
"""

from __future__ import annotations

from functools import cache
from ipaddress import IPv6Address, IPv6Network
from typing import TYPE_CHECKING, TypeVar

from hypothesis import strategies as st

from hostrouting.kernel.nftables.table import Chain, Counter, Match, Rewrite, Rule, Table, Verdict

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from hostrouting.kernel.nftables.table import Statement

__all__ = ["chains", "devices", "matches", "names", "networks", "rules", "statements", "tables"]

T = TypeVar("T")

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
DIGITS = "0123456789"


@cache
def names() -> SearchStrategy[str]:
    """Names of tables and chains; some are words of nft's own syntax."""
    free = st.builds("{}{}".format, st.sampled_from(LETTERS), st.text(f"{LETTERS}{DIGITS}_", max_size=20))
    return free | st.sampled_from(["table", "set", "ip6", "counter", "drop", "last", "hostrouting_slb", "x" * 64])


@cache
def devices() -> SearchStrategy[str]:
    """Names of devices; some look like numbers, addresses or keywords."""
    free = st.text(f"{LETTERS}{DIGITS}_.-", min_size=1, max_size=15).filter(lambda name: name not in {".", ".."})
    return free | st.sampled_from(["eth0", "0", "-", "1.2.3.4", "drop", "0x10"])


@cache
def networks() -> SearchStrategy[IPv6Network]:
    """IPv6 networks; many are adjacent or nested."""
    number = st.integers(0, 2**128 - 1)
    near = st.integers(0, 8).map(lambda last: int(IPv6Address("fe80::")) + last)
    length = st.integers(0, 128) | st.sampled_from([10, 64, 128])
    return st.builds(lambda at, size: IPv6Network((at, size), strict=False), number | near, length)


@cache
def matches() -> SearchStrategy[Match]:
    """Any match."""
    negated = st.booleans()
    return st.one_of(
        st.builds(Match, st.sampled_from(["iifname", "oifname"]), _some(devices()), negated),
        st.builds(Match, st.sampled_from(["ip6 saddr", "ip6 daddr"]), _some(networks()), negated),
        st.builds(Match, st.just("icmpv6 type"), _some(st.integers(0, 255)), negated),
    )


@cache
def statements() -> SearchStrategy[Statement]:
    """Any statement that may be followed by others."""
    address = st.integers(0, 2**128 - 1).map(IPv6Address)
    return st.one_of(
        matches(),
        st.builds(Rewrite, st.sampled_from(["ip6 saddr", "ip6 daddr"]), address),
        st.just(Counter()),
    )


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """Any rule: statements, and in half of the rules a verdict after them."""
    verdict = [Verdict("return")] * draw(st.booleans())
    ahead = draw(st.lists(statements(), min_size=1 - len(verdict), max_size=3))
    return Rule([*ahead, *verdict], draw(_comments()))


@st.composite
def chains(draw: st.DrawFn, name: str) -> Chain:
    """A chain with this name; a base chain or not."""
    found = draw(st.lists(rules(), max_size=4))
    if draw(st.integers(0, 3)) == 0:
        return Chain(name, found)
    return Chain(
        name,
        found,
        hook=draw(st.sampled_from(["prerouting", "input", "forward", "output", "postrouting"])),
        priority=draw(st.integers(-400, 400) | st.sampled_from([-(2**31), 2**31 - 1])),
        policy=draw(st.sampled_from(["accept", "drop"])),
    )


@st.composite
def tables(draw: st.DrawFn, *, name: str | None = None) -> Table:
    """Any table that we can load."""
    inside = draw(st.lists(names(), max_size=3, unique=True))
    return Table(draw(names()) if name is None else name, [draw(chains(family)) for family in inside])


@cache
def _comments() -> SearchStrategy[str]:
    printed = "".join(chr(code) for code in range(32, 127) if chr(code) not in '"\\')
    return st.sampled_from(["", "", "hostrouting: not a probe", printed, "x" * 127]) | st.text(printed, max_size=20)


def _some(one: SearchStrategy[T]) -> SearchStrategy[list[T]]:
    return st.lists(one, min_size=1, max_size=4)
