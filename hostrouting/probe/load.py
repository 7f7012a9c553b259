"""How the table for probes comes into force, whoever asks for it: a task, the gate, a unit at boot
or the guard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from hostrouting.errors import HostError
from hostrouting.probe.table import (
    CHAINS,
    PROBE_DELETION,
    TABLE,
    probe_comments,
    render_probe_table,
)

if TYPE_CHECKING:
    from hostrouting.config.settings import ProbeRewriteConfig
    from hostrouting.kernel.nftables import Nftables

Difference: TypeAlias = Literal["", "missing", "different", "unwanted"]
"""How the table compares with the configuration; empty if it is as it should be."""

_NO_RULES = ("table ", "chain ", "type ", "comment ", "}")
"""How the lines of a listing begin that are not rules."""
_LOADS = 2
"""How often the table is loaded: something may flush nftables at this moment."""


def find_difference(nftables: Nftables, settings: ProbeRewriteConfig) -> Difference:
    """What is wrong with the table now. HostError if nft does not answer."""
    listing = nftables.listing(TABLE)
    if not settings.enabled:
        return "" if listing is None else "unwanted"
    if listing is None:
        return "missing"
    return "" if _is_in_force(listing, settings) else "different"


def _is_in_force(listing: str, settings: ProbeRewriteConfig) -> bool:
    """Whether the listed table has the rules of these settings, and no other line: another program
    may insert a rule, or make the table dormant (a line of its own, `flags dormant`). It is not
    noticed if somebody has edited a rule, but not its comment.
    """
    of_table, *of_rules = probe_comments(settings)
    lines = [line.strip() for line in listing.splitlines()]
    hooks = [line for line in lines if line.startswith("type ")]
    rules = [line for line in lines if line and not line.startswith(_NO_RULES)]
    if of_table not in listing or len(rules) != len(of_rules):
        return False
    if not all(map(str.endswith, rules, of_rules)):
        return False
    return len(hooks) == CHAINS and all("policy accept" in hook for hook in hooks)


def load_table(nftables: Nftables, settings: ProbeRewriteConfig) -> Difference:
    """Make the table as the configuration wants it; return what was wrong before. HostError if that
    is not possible. Other tables are not touched.
    """
    before = find_difference(nftables, settings)
    if not before:
        return before
    text = render_probe_table(settings) if settings.enabled else PROBE_DELETION
    for _ in range(_LOADS):
        nftables.load(text)
        if not find_difference(nftables, settings):
            return before
    sentence = (
        f"table ip6 {TABLE} is not as it was loaded: something on this host changes nftables at "
        "the same time; stop that"
    )
    raise HostError(sentence, what="nft", kind="failed")
