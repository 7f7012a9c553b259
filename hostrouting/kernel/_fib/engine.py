"""What Linux does with one packet whose fields are all known, by the rules and tables of a snapshot.

For the fake kernel: `hostrouting.fib` is the engine of the check, and knows plain packets only.
"""

from typing import NamedTuple

from hostrouting.kernel._fib.decision import Decision, Kind
from hostrouting.kernel._fib.packet import PLAIN, Flow
from hostrouting.kernel._fib.rules import Ending, Rules
from hostrouting.kernel._fib.table import Table
from hostrouting.kernel._fib.tables import Tables
from hostrouting.model.prefix import IP, IPV4, IPV6, MULTICAST, as_ip
from hostrouting.model.route import REFUSING
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot

_MULTICAST = {family: (int(block.network_address), int(block.broadcast_address)) for family, block in MULTICAST.items()}
# Destinations whose kind does not depend on the route; the first and last address of each range.
_BY_ADDRESS: dict[int, tuple[tuple[int, int, Kind], ...]] = {
    IPV4: ((0, 0, "local"), (*_MULTICAST[IPV4], "multicast"), (0xFFFFFFFF, 0xFFFFFFFF, "broadcast")),
    IPV6: ((*_MULTICAST[IPV6], "multicast"),),
}


class _Ready(NamedTuple):
    """The prepared rules and tables for one family and packet."""

    rules: Rules
    is_fixed: bool  # whether Linux keeps to one default route: only its own packets from unbound sockets take turns
    is_asked: bool  # whether Linux looks up the route of packets for multicast and broadcast addresses


class Fib:
    """The decisions for one snapshot."""

    def __init__(self, snapshot: Snapshot, *, merged: bool | None = None) -> None:
        """Index the routes by table and prefix.

        `merged`: whether the namespace never had a custom rule, if the caller knows; None derives it from the rules.
        """
        self._groups: dict[str, int] = {"lo": 0, **{link.name: link.group for link in snapshot.links}}
        self._tables = Tables(snapshot, merged=merged)
        self._ready: dict[tuple[int, Flow], _Ready] = {}

    def lookup(self, destination: IP | str, flow: Flow = PLAIN) -> Decision:
        """What happens to this packet."""
        address = as_ip(destination)
        family, number = address.version, int(address)
        ready = self._ready.get((family, flow)) or self._prepare(family, flow)
        ending = ready.rules.decide(number)
        kind = by_address = next((kind for low, high, kind in _BY_ADDRESS[family] if low <= number <= high), None)
        is_refused = ready.is_asked and by_address != "local" and _kind(ending) in {"no-route", *REFUSING}
        if kind is None or is_refused:
            kind = _kind(ending)
        rule, entry = ending
        if entry is None:
            return Decision(kind, rule, None, ())
        in_turn = () if ready.is_fixed else entry.in_turn
        legs = (*entry.legs, *(route.legs[0] for route in in_turn))
        return Decision(kind, None if rule is None else self._tables.rule_of(rule, entry.route), entry.route, legs)

    def _prepare(self, family: int, flow: Flow) -> _Ready:
        def table_of(rule: Rule) -> Table | None:
            return self._tables.find(family, rule.table)

        rules = Rules(self._tables.walked(family), family, flow, groups=self._groups, table_of=table_of)
        is_fixed = bool(flow.oif) or flow.iif not in {None, "lo"}
        is_asked = family == IPV6 or not (is_fixed or int(flow.source or 0))
        ready = self._ready[family, flow] = _Ready(rules, is_fixed, is_asked)
        return ready


def _kind(ending: Ending) -> Kind:
    rule, entry = ending
    if entry is not None:
        return entry.route.type
    match rule and rule.action:
        case "blackhole" | "unreachable" | "prohibit" as verdict:
            return verdict
        case _:
            return "no-route"
