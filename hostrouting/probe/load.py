"""How the table for probes comes into force, whoever asks for it: a task, the gate, a unit at boot
or the guard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.errors import HostError
from hostrouting.host.operation import Operation
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

_TABLE = f"nftables table ip6 {TABLE}"
_CREATE = Operation("create", _TABLE, "it was missing")
_REPLACE = Operation("replace", _TABLE, "it differed from this configuration")
_DELETE = Operation("delete", _TABLE, "it is no longer wanted")

_NO_RULES = ("table ", "chain ", "type ", "comment ", "}")
"""How the lines of a listing begin that are not rules."""
_LOADS = 2
"""How often the table is loaded: something may flush nftables at this moment."""


def find_operation(nftables: Nftables, settings: ProbeRewriteConfig) -> Operation | None:
    """What has to be done to the table; None if it is right. HostError if nft does not answer."""
    listing = nftables.listing(TABLE)
    if not settings.enabled:
        return None if listing is None else _DELETE
    if listing is None:
        return _CREATE
    return None if _is_in_force(listing, settings) else _REPLACE


def _is_in_force(listing: str, settings: ProbeRewriteConfig) -> bool:
    """Whether the listed table has the rules of these settings, and no other line: another program
    may insert a rule, or make the table dormant (a line of its own, `flags dormant`). It is not
    noticed if somebody has edited a rule, but not its comment.
    """
    of_table, *of_rules = probe_comments(settings)
    lines = [line.strip() for line in listing.splitlines()]
    rules = [line for line in lines if line and not line.startswith(_NO_RULES)]
    if of_table not in listing or len(rules) != len(of_rules):
        return False
    if not all(map(str.endswith, rules, of_rules)):
        return False
    return listing.count(" hook ") == listing.count("policy accept") == CHAINS


def load_table(nftables: Nftables, settings: ProbeRewriteConfig, *, done: list[Operation]) -> None:
    """Make the table as the configuration wants it; `done` gets what was done. HostError if that is
    not possible. Other tables are not touched.
    """
    text = render_probe_table(settings) if settings.enabled else PROBE_DELETION
    for _ in range(_LOADS):
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
