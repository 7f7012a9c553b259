"""The engine: a snapshot, indexed once, that answers what the kernel would do.

Here: one destination, or all of a prefix; every answer is one value, so that equal ones can be told by identity.
Not here: how a rule or a table is read (`rules`, `tables`).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import NamedTuple, Self

from hostrouting.door import require
from hostrouting.fib.answer import Cell, Contest, Decision, Kind, Variant
from hostrouting.fib.branches import End
from hostrouting.fib.bulk import Liking, Sieve, joined
from hostrouting.fib.flow import ANY, Flow
from hostrouting.fib.rules import Rules
from hostrouting.fib.table import Entry, Table
from hostrouting.fib.tables import Tables
from hostrouting.fib.walk import Ending, Span, Turn, plain_turns
from hostrouting.model import (
    IP,
    IPV4,
    IPV6,
    TABLE_MAIN,
    Prefix,
    Route,
    Rule,
    Snapshot,
    as_ip,
    as_prefix,
)
from hostrouting.reserved import MULTICAST

__all__ = ["Fib"]

_MULTICAST = {family: (int(block.network_address), int(block.broadcast_address)) for family, block in MULTICAST.items()}
# Destinations that are what they are, whichever route takes them; the first and last address of each range.
_BY_ADDRESS: dict[int, tuple[tuple[int, int, Kind], ...]] = {
    IPV4: ((0, 0, "local"), (*_MULTICAST[IPV4], "multicast"), (0xFFFFFFFF, 0xFFFFFFFF, "broadcast")),
    IPV6: ((*_MULTICAST[IPV6], "multicast"),),
}
# Up to so many routes times prefixes, it takes less to find all cells than to know where none need be found.
_LITTLE = 512
_FLOWS = 256  # so many are prepared for at a time
# The first of them after 0.
_SPECIAL = {family: min(low for low, _, _ in them if low) for family, them in _BY_ADDRESS.items()}


class _Ready(NamedTuple):
    """What is prepared once for a family and a flow."""

    family: int
    rules: Rules
    regions: list[int]  # where rules and addresses themselves make a difference: the first address of each region
    # By region, and for each table by the longest prefix that covers an address: nothing else makes a difference.
    decisions: dict[tuple[int, ...], Decision]


class Fib:
    """The kernel's forwarding decision for one snapshot, which must not change behind it."""

    def __init__(self, snapshot: Snapshot, *, merged: bool | None = None) -> None:
        """Index the routes by table and prefix; none of them is looked at.

        `merged` is whether the namespace never had a rule of its own, for those who know; None: as its rules look.
        """
        require(snapshot, Snapshot, "Fib", "take one of the host: backend.snapshot()")
        self.snapshot, self._merged = snapshot, merged
        self._groups: dict[str, int] = {"lo": 0, **{link.name: link.group for link in snapshot.links}}
        self._tables = Tables(snapshot, merged=merged)
        self._ready: dict[tuple[int, Flow], _Ready] = {}
        self._decisions: dict[object, Decision] = {}

    def with_routes(self, added: Iterable[Route] = (), *, without: Iterable[Route] = ()) -> Self:
        """The same host with other routes, as in `Snapshot.with_routes`; what is known of its tables stays known."""
        return type(self)(self.snapshot.with_routes(added, without=without), merged=self._merged)

    def lookup(self, destination: IP | str, flow: Flow = ANY) -> Decision:
        """What happens to a packet for this destination."""
        address = as_ip(destination)
        return self._decide(self._prepare(address.version, flow), int(address))

    def cells(self, prefix: Prefix | IPv4Network | IPv6Network | str, flow: Flow = ANY) -> list[Cell]:
        """The prefix in maximal ranges of one and the same decision, in order."""
        prefix = as_prefix(prefix)
        return self._cells(self._prepare(prefix.family, flow), prefix.first, prefix.last)

    def doubtful_cells(self, prefixes: Sequence[Prefix], liking: Liking, flow: Flow = ANY) -> Iterator[list[Cell]]:
        """For each prefix its cells, in order, but for some of unicast routes whose legs are to this `liking`.

        Those that are left out have no variants, and may be parts of cells; where they are, nothing is told.
        """
        if len(prefixes) * len(self.snapshot.routes) <= _LITTLE:
            yield from (self.cells(prefix, flow) for prefix in prefixes)
            return
        sieve = Sieve(self.snapshot.routes, liking)
        for prefix in prefixes:
            low, high, ready = prefix.first, prefix.last, self._prepare(prefix.family, flow)
            doubtful = self._doubtful(ready, sieve, low, high)
            yield [
                cell
                for first, last in (joined(doubtful) if doubtful else ())
                for cell in self._cells(ready, max(first, low), min(last, high))
            ]

    def contests(
        self, prefix: Prefix, *, dev: str | None = None, metric: int = 0, ours: int = -1, flow: Flow = ANY
    ) -> Iterator[Contest]:
        """What a new unicast route in the table main, of this metric and tos 0, has to be to decide, and where.

        It leaves by `dev`. It may take the place of a route of the same prefix and metric whose protocol is `ours`. The
        ranges cover the prefix, in order; they are not maximal.
        """
        ready = self._prepare(prefix.family, flow)
        runs, main = list(self._runs(ready, prefix.first, prefix.last)), self._tables.main(prefix.family)

        def beats(entry: Entry) -> int:
            return entry.length + (not _gives_way(entry.route, metric, ours))

        ends = [*(place - 1 for place, _ in runs[1:]), prefix.last]
        for (place, decision), last in zip(runs, ends, strict=True):
            length = ready.rules.region(place).length_to_decide(place, main, beats, dev)
            yield Contest(place, last, decision, length)

    def routes(self, prefix: Prefix, *, table: int = TABLE_MAIN) -> tuple[Route, ...]:
        """The routes of exactly this prefix in a table, in the order in which the kernel prefers them."""
        return self._tables.routes(prefix.family, table, prefix.network, prefix.length)

    def around(self, address: IP, *, table: int = TABLE_MAIN) -> Iterator[Route]:
        """The routes of a table to any prefix around the address, the longest first."""
        return self._tables.around(address.version, table, int(address))

    def defaults(self, family: int) -> Iterator[Entry]:
        """The default routes in use, in the order in which a plain packet of the host's own would take them.

        A route that refuses packets is among them, and hides those after it. What suppresses default routes is
        passed over.
        """
        return self._prepare(family, ANY).rules.defaults()

    def turns(self, destination: IP, flow: Flow) -> Iterator[tuple[Rule, Turn, Entry | None, bool]]:
        """The walk of a plain packet of this flow: each rule that it comes by, up to the one that decides.

        Each with the route that was found, and whether it decides.
        """
        ready, address = self._prepare(destination.version, flow), int(destination)
        for turn in plain_turns(ready.rules.turns(address)):
            entry, decides = None, False
            if turn.plain:
                entry, _, decides = turn.stage.take(address, flow.tos or 0, flow.oif)
            for rule, its in self._tables.told(turn.stage.rule, None if entry is None else entry.route):
                yield rule, turn, entry if its else None, its and decides
                if its and decides:
                    return

    def covering(self, destination: IP, table: int) -> Iterator[tuple[Route, Entry | None]]:
        """The routes that a lookup in the table may meet, the longest prefix first; with its entry, what is in use."""
        return self._tables.covering(destination.version, table, int(destination))

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
            ready = self._ready[family, flow] = _Ready(family, rules, regions, {})
        return ready

    def _doubtful(self, ready: _Ready, sieve: Sieve, low: int, high: int) -> list[Span]:
        """The ranges in low … high, or around, that have to be looked at cell by cell."""
        if not 0 < low <= high < _SPECIAL[ready.family]:
            return [(low, high)]
        found: list[Span] = []
        regions = ready.regions
        for at in range(bisect_right(regions, low) - 1, bisect_right(regions, high)):
            begin, end = max(low, regions[at]), min(high, regions[at + 1] - 1)
            found += sieve.doubtful(ready.rules.region(begin).certain, begin, end)
        return found

    def _cells(self, ready: _Ready, low: int, high: int) -> list[Cell]:
        found: list[Cell] = []
        begin, before = low, None
        for place, decision in self._runs(ready, low, high):
            if decision is not before:
                if before is not None:
                    found.append(Cell(begin, place - 1, before))
                begin, before = place, decision
        if before is not None:
            found.append(Cell(begin, high, before))
        return found

    def _runs(self, ready: _Ready, low: int, high: int) -> Iterator[tuple[int, Decision]]:
        """The decisions in low … high, each with the place where it begins; neighbours may be one."""
        within = range(bisect_right(ready.regions, low) - 1, bisect_right(ready.regions, high))
        # Whose turn it is to change at a place: a table's longest prefix, or last of all the region.
        tables = ready.rules.tables
        events = [(max(ready.regions[region], low), len(tables), region) for region in within]
        for number, table in enumerate(tables):
            events += [(place, number, key) for place, key in table.runs(low, high)]
        events.sort()
        now, decisions = [0] * (len(tables) + 1), ready.decisions
        for (place, which, what), (following, _, _) in zip(events, [*events[1:], (high + 1, 0, 0)], strict=True):
            now[which] = what
            if place != following:
                where = tuple(now)
                decision = decisions.get(where)
                if decision is None:
                    decision = decisions[where] = self._decide(ready, place)
                yield place, decision

    def _decide(self, ready: _Ready, address: int) -> Decision:
        region = ready.rules.region(address)
        ending, unsure = region.decide(address)
        if not 0 < address < _SPECIAL[ready.family]:
            for low, high, kind in _BY_ADDRESS[ready.family]:
                if low <= address <= high:
                    return self._decision(ending, by_address=kind)
        if not unsure:
            return self._decision(ending)
        answer = _answer(ending)
        return self._decision(ending, others=[end for end in region.ends(address) if _answer(end.ending) != answer])

    def _decision(self, ending: Ending, *, by_address: Kind | None = None, others: Sequence[End] = ()) -> Decision:
        """The one value for this answer."""
        stage, entry = ending
        by_address = None if by_address == _kind(ending) else by_address
        # Numbers only: the garbage collector need not look at them.
        key: tuple[object, ...] = _numbers(ending)
        if by_address or others:
            key = (*key, by_address, *[it for end in others for it in (*_numbers(end.ending), id(end.cases))])
        decision = self._decisions.get(key)
        if decision is None:
            rule = None if stage is None else stage.rule
            if rule is not None and entry is not None:
                rule = self._tables.rule_of(rule, entry.route)
            decision = self._decisions[key] = Decision(
                by_address or _kind(ending),
                rule,
                None if entry is None else entry.route,
                () if entry is None else entry.legs,
                tuple(Variant(end.cases, self._decision(end.ending)) for end in others),
            )
        return decision


def _numbers(ending: Ending) -> tuple[int, int]:
    """What tells the answer apart from others, for as long as there are the snapshot's rules and routes."""
    stage, entry = ending
    return (0 if stage is None else id(stage.rule), -1 if entry is None else entry.position)


def _gives_way(route: Route, metric: int, ours: int) -> bool:
    """Whether a route of the same prefix, of tos 0 and this metric, comes before this one or takes its place."""
    if route.table != TABLE_MAIN or route.tos:
        return False
    return metric < route.metric or (metric == route.metric and route.protocol == ours)


def _answer(ending: Ending) -> tuple[int, Kind]:
    """What tells two answers apart: the route, or what became of the packet without one."""
    return (ending[1].position if ending[1] else -1, _kind(ending))


def _kind(ending: Ending) -> Kind:
    stage, entry = ending
    if entry is not None:
        return entry.route.type
    match stage and stage.rule.action:
        case "blackhole" | "unreachable" | "prohibit" as verdict:
            return verdict
        case _:
            return "no-route"
