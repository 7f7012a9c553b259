"""The engine: a snapshot, indexed once, that answers what the kernel would do.

Here: one destination, or all of a prefix; and the ranges of a prefix that a check can skip. Equal answers are one
object, so that they can be compared by identity. Not here: how a rule or a table is read (`rules`, `tables`). The
theory is in `fib/__init__.py`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from hostrouting.arguments import require
from hostrouting.kernel._fib.decision import Decision, Kind, Variant
from hostrouting.kernel._fib.packet import ANY, Flow
from hostrouting.kernel._fib.rules import End, Ending, Rules, Span
from hostrouting.kernel._fib.table import Legs, Table
from hostrouting.kernel._fib.tables import Tables
from hostrouting.model.prefix import IP, IPV4, IPV6, MULTICAST, as_ip
from hostrouting.model.route import REFUSING, NextHop
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot

# Whether a check accepts these next hops.
Liking: TypeAlias = Callable[[tuple[NextHop, ...]], bool]

_MULTICAST = {family: (int(block.network_address), int(block.broadcast_address)) for family, block in MULTICAST.items()}
# Destinations whose kind does not depend on the route; the first and last address of each range.
_BY_ADDRESS: dict[int, tuple[tuple[int, int, Kind], ...]] = {
    IPV4: ((0, 0, "local"), (*_MULTICAST[IPV4], "multicast"), (0xFFFFFFFF, 0xFFFFFFFF, "broadcast")),
    IPV6: ((*_MULTICAST[IPV6], "multicast"),),
}
_FLOWS = 256  # the number of flows to keep prepared
_RANGES = 1024  # for each flow, the number of ranges whose decisions are kept


class _Ready(NamedTuple):
    """The prepared rules and tables for one family and flow."""

    family: int
    rules: Rules
    fixed: bool  # whether Linux keeps to one default route: only its own packets from unbound sockets take turns
    asks: bool  # whether Linux looks up the route of packets for multicast and broadcast addresses, and may refuse them
    # The first address of each region, where rules or special addresses change; the last is behind all addresses.
    regions: list[int]
    # By region and, for each table, the longest prefix that covers an address: nothing else makes a difference.
    decisions: dict[tuple[int, ...], Decision]
    # By first and last address: a check, its repair and the questions to the kernel are about the same ranges.
    runs: dict[Span, list[tuple[int, Decision]]]


class Fib:
    """The kernel's forwarding decisions for one snapshot. The snapshot must not change."""

    def __init__(self, snapshot: Snapshot, *, merged: bool | None = None) -> None:
        """Index the routes by table and prefix, without reading them.

        `merged`: whether the namespace never had a custom rule, if the caller knows; None derives it from the rules.
        """
        require(snapshot, Snapshot, "Fib", "take one of the host: backend.snapshot()")
        self.snapshot, self._merged = snapshot, merged
        self._groups: dict[str, int] = {"lo": 0, **{link.name: link.group for link in snapshot.links}}
        self._tables = Tables(snapshot, merged=merged)
        self._ready: dict[tuple[int, Flow], _Ready] = {}
        self._decisions: dict[object, Decision] = {}

    @property
    def merged(self) -> bool:
        """Whether the IPv4 tables local and main are merged: as given, otherwise as the rules show."""
        return self._tables.merged

    def lookup(self, destination: IP | str, flow: Flow = ANY) -> Decision:
        """What happens to a packet for this destination."""
        address = as_ip(destination)
        return self._decide(self._prepare(address.version, flow), int(address))

    def _prepare(self, family: int, flow: Flow) -> _Ready:
        ready = self._ready.get((family, flow))
        if ready is None:
            if len(self._ready) >= _FLOWS:
                self._ready.clear()

            def table_of(rule: Rule) -> Table | None:
                return self._tables.find(family, rule.table)

            rules = Rules(self._tables.walked(family), family, flow, groups=self._groups, table_of=table_of)
            by_address = {place for low, high, _ in _BY_ADDRESS[family] for place in (low, high + 1)}
            regions = sorted({0, *rules.cuts, *by_address})
            fixed = bool(flow.oif) or flow.iif not in {None, "lo"}
            asks = family == IPV6 or not (fixed or int(flow.source or 0))
            ready = self._ready[family, flow] = _Ready(family, rules, fixed, asks, regions, {}, {})
        return ready

    def _decide(self, ready: _Ready, address: int) -> Decision:
        region = ready.rules.region(address)
        ending, unsure = region.decide(address)
        by_address = _by_address(ready.family, address)
        is_refused = ready.asks and by_address != "local" and _kind(ending) in {"no-route", *REFUSING}
        if by_address is not None and not is_refused:
            return self._decision(ending, fixed=ready.fixed, by_address=by_address)
        if not unsure:
            return self._decision(ending, fixed=ready.fixed)
        answer = _answer(ending)
        others = [end for end in region.ends(address) if _answer(end.ending) != answer]
        return self._decision(ending, fixed=ready.fixed, others=others)

    def _decision(
        self, ending: Ending, *, fixed: bool, by_address: Kind | None = None, others: Sequence[End] = ()
    ) -> Decision:
        """One object for equal answers; `fixed` is whether Linux keeps to one default route."""
        stage, entry = ending
        in_turn = () if fixed or entry is None else entry.in_turn
        by_address = None if by_address == _kind(ending) else by_address
        # Only numbers, so that the garbage collector does not have to visit them.
        key: tuple[object, ...] = (*_numbers(ending), fixed)
        if by_address or others:
            key = (*key, by_address, *[number for end in others for number in (*_numbers(end.ending), id(end.cases))])
        decision = self._decisions.get(key)
        if decision is None:
            rule = None if stage is None else stage.rule
            if rule is not None and entry is not None:
                rule = self._tables.rule_of(rule, entry.route)
            decision = self._decisions[key] = Decision(
                by_address or _kind(ending),
                rule,
                None if entry is None else entry.route,
                () if entry is None else (*entry.legs, *(route.legs[0] for route in in_turn)),
                tuple(Variant(end.cases, self._decision(end.ending, fixed=fixed)) for end in others),
                in_turn,
            )
        return decision


def _by_address(family: int, address: int) -> Kind | None:
    """The kind of this destination, if it does not depend on the route."""
    for low, high, kind in _BY_ADDRESS[family]:
        if low <= address <= high:
            return kind
    return None


def _numbers(ending: Ending) -> tuple[int, int | None]:
    """A key for the answer, valid as long as the snapshot's rules and routes exist."""
    stage, entry = ending
    return id(None if stage is None else stage.rule), None if entry is None else entry.position


def _answer(ending: Ending) -> tuple[tuple[int, Legs] | None, Kind]:
    """A key for comparing answers: the route and its next hops, or the kind of the result without one."""
    _, entry = ending
    return None if entry is None else (entry.position, entry.legs), _kind(ending)


def _kind(ending: Ending) -> Kind:
    stage, entry = ending
    if entry is not None:
        return entry.route.type
    match stage and stage.rule.action:
        case "blackhole" | "unreachable" | "prohibit" as verdict:
            return verdict
        case _:
            return "no-route"
