"""The edge to the kernel's packet filter: the contract, the program nft, and the fake one.

base      the contract: read a table, replace it, remove it
table     the parts of a table: chains, rules, statements, and their text
listing   nft's JSON, both ways; refusal: error messages
program   nft itself
memory    tables in a dictionary
"""

from hostrouting.kernel.nftables.program import Nftables, NftProgram
from hostrouting.kernel.nftables.table import (
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
