"""The edge to the kernel's packet filter. The fake one is `hostrouting.testing.MemoryNftables`.

table     a table as a value, as text, and as the JSON of nft
program   the contract, and the program nft
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
