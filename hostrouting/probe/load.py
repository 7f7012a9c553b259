"""The table for probes is compared with the configuration, and loaded if it differs. A task, the
gate, a unit at boot and the guard all use this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.errors import HostError
from hostrouting.host.operation import Operation
from hostrouting.probe.table import (
    PROBE_DELETION,
    TABLE,
    probe_comments,
    render_probe_table,
)

if TYPE_CHECKING:
    from hostrouting.config.settings import ProbeRewriteConfig
    from hostrouting.kernel.nftables import Nftables

_TABLE = f"nftables table ip6 {TABLE}"
_CREATE = Operation("create", _TABLE, "it was missing")
_REPLACE = Operation("replace", _TABLE, "it differed from this configuration")
_DELETE = Operation("delete", _TABLE, "it is no longer wanted")

_FRAME = ("table ", "chain ", "type ", "comment ", "}")
"""How the lines of `nft list table` begin that are not rules: the lines around them."""
_LOADS = 2
"""How often the table is loaded, at most."""


def find_operation(nftables: Nftables, settings: ProbeRewriteConfig) -> Operation | None:
    """Return what has to be done to the nftables table that rewrites probes: create, replace or
    delete it; None if it is right. HostError if nft does not answer.
    """
    listing = nftables.listing(TABLE)
    if not settings.enabled:
        return None if listing is None else _DELETE
    if listing is None:
        return _CREATE
    return None if _is_in_force(listing, settings) else _REPLACE


def _is_in_force(listing: str, settings: ProbeRewriteConfig) -> bool:
    """Whether the table, as nft lists it, has the rules of these settings and nothing else. A rule
    is recognised by the comment that ends its line, so an edited rule with the old comment is not
    noticed. An extra line can be another program's rule, or `flags dormant`, by which somebody has
    turned the table off.
    """
    # The comment of the table has a digest of the rules, so it differs for other settings.
    table_comment, *rule_comments = probe_comments(settings)
    lines = [line.strip() for line in listing.splitlines()]
    # Leave out the frame around the rules, such as the first lines of a chain.
    rules = [line for line in lines if line and not line.startswith(_FRAME)]
    if table_comment not in listing or len(rules) != len(rule_comments):
        return False
    if not all(map(str.endswith, rules, rule_comments)):
        return False
    # Each chain, also an added one, must accept the packets that no rule decides about.
    return listing.count(" hook ") == listing.count("policy accept")


def load_table(nftables: Nftables, settings: ProbeRewriteConfig, *, done: list[Operation]) -> None:
    """Make the nftables table that rewrites probes what the settings ask for: load it, or delete it
    if the rewrite is off. A table that is right is left alone. Append what was done to `done`.
    HostError if nft fails, or if the table is still wrong afterwards.
    """
    text = render_probe_table(settings) if settings.enabled else PROBE_DELETION
    for _ in range(_LOADS):  # twice if another program flushes nftables after the first load
        operation = find_operation(nftables, settings)
        if operation is None:
            return
        nftables.load(text)
        done.append(operation)
    if find_operation(nftables, settings) is not None:
        sentence = (
            f"table ip6 {TABLE} is not as it was loaded: something on this host changes nftables "
            "at the same time; stop that"
        )
        raise HostError(sentence, what="nft", kind="failed")
