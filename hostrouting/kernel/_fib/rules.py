"""The rules of one family for one packet: what each does with it, and where its walk through them ends."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from hostrouting.kernel._fib.packet import Flow, meets
from hostrouting.kernel._fib.table import Entry, Table
from hostrouting.model.prefix import IPV4
from hostrouting.model.route import REFUSING
from hostrouting.model.rule import Rule

# Where a walk ended: the rule and the route that decide. No rule: none decided. No route: the rule itself did.
Ending: TypeAlias = tuple[Rule | None, Entry | None]


class _Stage(NamedTuple):
    """One rule, the table that it looks up, and whether it selects this packet, apart from the destination."""

    rule: Rule
    table: Table | None
    is_met: bool
    target: int | None
    """Where the walk goes on after a goto; None without one."""

    def selects(self, address: int) -> bool:
        """Whether it selects this packet to this destination."""
        block = self.rule.dst
        is_inside = block is None or block.first <= address <= block.last
        return (self.is_met and is_inside) is not self.rule.invert


class Rules:
    """The rules of one family, prepared for one packet."""

    def __init__(
        self,
        rules: Sequence[Rule],
        family: int,
        flow: Flow,
        *,
        groups: dict[str, int],
        table_of: Callable[[Rule], Table | None],
    ) -> None:
        """Take the rules in their order, the packet, and the groups of the devices."""
        self._groups, self._sought = groups, flow.sought(family)
        places: dict[int, int] = {}
        for place, rule in enumerate(rules):
            places.setdefault(rule.priority, place)
        known = flow.known(family)
        self._stages = tuple(
            _Stage(
                rule,
                table_of(rule) if rule.action == "to_table" else None,
                meets(rule, known, groups),
                places.get(rule.target) if rule.target is not None and rule.target > rule.priority else None,
            )
            for rule in rules
        )

    def decide(self, address: int) -> Ending:
        """Where the walk of the packet to this destination ends."""
        at = 0
        while at < len(self._stages):
            stage = self._stages[at]
            at += 1
            if not stage.selects(address):
                continue
            if stage.target is not None:
                at = stage.target
            elif stage.rule.action in REFUSING:
                return stage.rule, None
            elif stage.table is not None and (entry := stage.table.best(address, self._sought)) is not None:
                kept = self._kept(stage.rule, entry)
                if kept is not None:
                    return stage.rule, kept
        return None, None

    def _kept(self, rule: Rule, entry: Entry) -> Entry | None:
        """The part of the route that this rule keeps; None if every packet goes on to the next rule."""
        route = entry.route
        if entry.throws:
            return None
        if route.type in REFUSING:
            return entry
        if rule.suppress_prefixlength is not None and entry.length <= rule.suppress_prefixlength:
            return None
        if rule.suppress_ifgroup is None:
            return entry
        if route.prefix.family == IPV4:
            legs = route.legs[:1]  # IPv4 checks the first next hop, in use or not
        else:
            # IPv6 has already chosen a next hop, for a bound socket one of its device.
            legs = tuple(leg for leg in entry.legs if self._sought.oif in {"", leg.dev})
        staying = tuple(leg for leg in legs if self._groups.get(leg.dev or "") != rule.suppress_ifgroup)
        if len(staying) == len(legs):
            return entry
        return entry.through(staying) if staying else None
