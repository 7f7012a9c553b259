"""The edge to the kernel's packet filter: what it promises, the program nft, and the fake one.

base      the promises: read a table, replace it, remove it
table     what a table is made of: chains, rules, statements, and their text
listing   nft's JSON, both ways; refusal: its errors, in words
program   nft itself
memory    tables in a dictionary
"""

from hostrouting.nftables.base import Nftables
from hostrouting.nftables.memory import MemoryNftables
from hostrouting.nftables.program import NftProgram
from hostrouting.nftables.table import (
    FIELDS,
    Chain,
    Counter,
    Field,
    Match,
    Rewrite,
    Rule,
    Statement,
    Table,
    Unknown,
    Value,
    Verdict,
)

__all__ = [
    # the edge
    "Nftables",
    "NftProgram",
    "MemoryNftables",
    # a table
    "Table",
    "Chain",
    "Rule",
    # what a rule says
    "Statement",
    "Match",
    "Rewrite",
    "Counter",
    "Verdict",
    "Unknown",
    "FIELDS",
    "Field",
    "Value",
]
