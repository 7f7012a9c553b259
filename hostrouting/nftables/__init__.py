"""The edge to the kernel's packet filter: the contract, the program nft, and the fake one.

base      the contract: read a table, replace it, remove it
table     the parts of a table: chains, rules, statements, and their text
listing   nft's JSON, both ways; refusal: error messages
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
    # the parts of a rule
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
