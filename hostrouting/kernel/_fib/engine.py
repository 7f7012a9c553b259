"""The engine: a snapshot, indexed once, that answers what the kernel would do.

Here: one destination, or all of a prefix; and the ranges of a prefix that a check can skip. Equal answers are one
object, so that they can be compared by identity. Not here: how a rule or a table is read (`rules`, `tables`). The
theory is in `fib/__init__.py`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import attrs

from hostrouting.arguments import require
from hostrouting.kernel._fib.decision import Cell, Contest, Decision, Kind, Variant
from hostrouting.kernel._fib.packet import ANY, Flow
from hostrouting.kernel._fib.rules import End, Ending, Rules, Span, Stage, Turn, plain_turns
from hostrouting.kernel._fib.table import Entry, Legs, Ordered, Table
from hostrouting.kernel._fib.tables import Tables
from hostrouting.kernel._route_table import Column, RouteTable
from hostrouting.model.prefix import IP, IPV4, IPV6, MULTICAST, Prefix, as_ip, as_prefix
from hostrouting.model.route import REFUSING, TABLE_MAIN, NextHop, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link, Snapshot

if TYPE_CHECKING:
    from typing_extensions import Self

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

    @cached_property
    def links(self) -> dict[str, Link]:
        """The devices by name: with many pods, a search for each among all of them takes too long."""
        return {link.name: link for link in self.snapshot.links}

    def with_routes(self, added: Iterable[Route] = (), *, without: Iterable[Route] = ()) -> "Self":
        """The same host with other routes, as in `Snapshot.with_routes`; a given `merged` is kept."""
        return type(self)(self.snapshot.with_routes(added, without=without), merged=self._merged)

    def with_links(self, added: Iterable[Link]) -> "Self":
        """The same host with more devices."""
        return type(self)(attrs.evolve(self.snapshot, links=(*self.snapshot.links, *added)), merged=self._merged)

    def lookup(self, destination: IP | str, flow: Flow = ANY) -> Decision:
        """What happens to a packet for this destination."""
        address = as_ip(destination)
        return self._decide(self._prepare(address.version, flow), int(address))

    def cells(self, prefix: Prefix | IPv4Network | IPv6Network | str, flow: Flow = ANY) -> list[Cell]:
        """The prefix as maximal ranges with one decision each, in order."""
        prefix = as_prefix(prefix)
        return self._cells(self._prepare(prefix.family, flow), prefix.first, prefix.last)

    def doubtful_cells(self, prefixes: Sequence[Prefix], liking: Liking, flow: Flow = ANY) -> Iterator[list[Cell]]:
        """The cells of each prefix, in order; some with a unicast route whose next hops `liking` accepts are left out.

        In the omitted ranges, every variant has such a route, too. They may be parts of cells, and are not listed.
        """
        sieve = Sieve(RouteTable.of(self.snapshot.routes), liking)
        for prefix in prefixes:
            low, high, ready = prefix.first, prefix.last, self._prepare(prefix.family, flow)
            doubtful = self._doubtful(ready, sieve, low, high)
            yield [
                cell
                for first, last in joined(doubtful)
                for cell in self._cells(ready, max(first, low), min(last, high))
            ]

    def contests(
        self, prefix: Prefix, *, dev: str | None, metric: int, ours: int, flow: Flow = ANY
    ) -> Iterator[Contest]:
        """The prefix as ranges, each with the prefix length that a new unicast route in table main needs there.

        The new route has this metric and tos 0, and leaves by `dev`. It may replace a route with the same prefix and
        metric whose protocol is `ours`. Its prefix is not one that `skips` names. The ranges cover the prefix, in
        order; they are not maximal.
        """
        ready = self._prepare(prefix.family, flow)
        runs, main = self._runs(ready, prefix.first, prefix.last), self._tables.main(prefix.family)

        def beats(entry: Entry) -> int:
            return entry.length + (not gives_way(entry.route, metric, ours))

        ends = [*(place - 1 for place, _ in runs[1:]), prefix.last]
        for (place, decision), last in zip(runs, ends, strict=True):
            length = ready.rules.region(place).length_to_decide(place, main, beats, dev)
            yield Contest(place, last, decision, length)

    def skips(self, prefix: Prefix, flow: Flow = ANY) -> bool:
        """Whether this flow's plain packet skips the prefix in main, because its IPv6 routes are for other sources.

        Linux then finds no route of exactly this prefix for it, also not a new one.
        """
        return self._tables.main(prefix.family).skips(prefix, flow.sought(prefix.family))

    def routes(self, prefix: Prefix, *, table: int = TABLE_MAIN) -> tuple[Route, ...]:
        """The routes of exactly this prefix in a table, in the order in which the kernel prefers them."""
        return self._tables.routes(prefix.family, table, prefix.network, prefix.length)

    def is_empty(self, family: int, table: int) -> bool:
        """Whether a table other than main has no routes."""
        return self._tables.find(family, table) is None

    def within(self, prefix: Prefix, *, table: int = TABLE_MAIN) -> Iterator[Route]:
        """The routes of a table whose prefix is this one or lies inside it."""
        return self._tables.within(prefix, table)

    def around(self, address: IP, *, table: int | None = TABLE_MAIN) -> Iterator[Route]:
        """The routes of a table (None: of any) whose prefix contains the address, in each the longest prefix first."""
        return self._tables.around(address.version, table, int(address))

    def defaults(self, family: int) -> Iterator[Entry]:
        """The default routes in use, in the order in which a plain packet of this host would use them.

        A route that refuses packets is included, and hides those after it. Default routes that a rule suppresses come
        last: the host uses them when its tunnel is down. While no other route takes packets, they keep their place.
        """
        found = self._prepare(family, ANY).rules.defaults
        taking = [default for default in found if not default.suppressed]
        if taking and taking[0].entry.route.type not in REFUSING:
            found = (*taking, *(default for default in found if default.suppressed))
        return (default.entry for default in found)

    def suppressed_defaults(self, family: int) -> tuple[tuple[Rule, Route], ...]:
        """The default routes that a rule hides from a plain packet by suppression, each with the first such rule.

        Empty unless another default route takes the packet.
        """
        found: dict[int, tuple[Rule, Route]] = {}
        for default in self._prepare(family, ANY).rules.defaults:
            position, route = default.entry.position, default.entry.route
            found.setdefault(position, (default.rule, route))
            if not default.suppressed:
                # A route behind this one in its table would not be used without the suppression, either.
                before = [*found][: [*found].index(position)]
                return () if route.type in REFUSING else tuple(found[place] for place in before)
        return ()

    def turns(self, destination: IP, flow: Flow) -> Iterator[tuple[Rule, Turn, Entry | None, bool]]:
        """The rules that a plain packet of this flow meets, up to the one that decides.

        Each with the route that was found, and whether it decides.
        """
        ready, address = self._prepare(destination.version, flow), int(destination)
        for turn in plain_turns(ready.rules.turns(address)):
            entry, decides = None, False
            if turn.plain:
                entry, _, decides = turn.stage.take(address, ready.rules.sought)
            for rule, its in self._tables.told(turn.stage.rule, None if entry is None else entry.route):
                yield rule, turn, entry if its else None, its and decides
                if its and decides:
                    return

    def covering(self, destination: IP, table: int) -> Iterator[tuple[Route, Entry | None]]:
        """The routes that a lookup in the table may meet, longest prefix first; with an entry if in use."""
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
            fixed = bool(flow.oif) or flow.iif not in {None, "lo"}
            asks = family == IPV6 or not (fixed or int(flow.source or 0))
            ready = self._ready[family, flow] = _Ready(family, rules, fixed, asks, regions, {}, {})
        return ready

    def _doubtful(self, ready: _Ready, sieve: "Sieve", low: int, high: int) -> list[Span]:
        """The ranges that have to be checked cell by cell: in low … high, or reaching beyond them."""
        found: list[Span] = []
        regions = ready.regions
        for at in range(bisect_right(regions, low) - 1, bisect_right(regions, high)):
            begin, end = max(low, regions[at]), min(high, regions[at + 1] - 1)
            stages = ready.rules.region(begin).certain if _by_address(ready.family, begin) is None else ()
            found += sieve.doubtful(stages, begin, end)
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

    def _runs(self, ready: _Ready, low: int, high: int) -> list[tuple[int, Decision]]:
        """The decisions in low … high, each with its first address; neighbours may be equal."""
        found = ready.runs.get((low, high))
        if found is None:
            if len(ready.runs) >= _RANGES:
                ready.runs.clear()
            found = ready.runs[low, high] = [*self._find_runs(ready, low, high)]
        return found

    def _find_runs(self, ready: _Ready, low: int, high: int) -> Iterator[tuple[int, Decision]]:
        within = range(bisect_right(ready.regions, low) - 1, bisect_right(ready.regions, high))
        # What changes at a place: the longest prefix in one of the tables, or (the last index) the region.
        tables = ready.rules.tables
        events = [(max(ready.regions[region], low), len(tables), region) for region in within]
        for number, table in enumerate(tables):
            events += [(place, number, key) for place, key in table.runs(low, high)]
        events.sort()
        now, decisions = dict[int, int](), ready.decisions
        for (place, which, what), following in zip_longest(events, [place for place, _, _ in events[1:]]):
            now[which] = what
            if place != following:
                where = tuple(now.values())
                decision = decisions.get(where)
                if decision is None:
                    decision = decisions[where] = self._decide(ready, place)
                yield place, decision

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


def gives_way(route: Route, metric: int, ours: int) -> bool:
    """Whether a new route with this prefix and metric, any tos and source, would win over this one or replace it."""
    if route.table != TABLE_MAIN or route.tos or route.source is not None:
        return False
    return metric < route.metric or (metric == route.metric and route.protocol == ours)


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


class Sieve:
    """Finds the ranges that a check can skip: every route that may decide there is fine.

    Nearly all cells of a check are fine, and computing each takes 10 µs. So the plain routes come first: unicast routes
    in use, for any tos, with next hops that the check accepts. If every route that a packet could match is plain, and
    one of them covers all of the addresses, some plain route decides: no cell has to be computed there. Whether a route
    is plain depends on its shape, and there are few shapes.

    This is a second path beside the one with cells: a check of 100 CIDRs among 100,000 routes takes 4 ms with it and
    300 ms without it. A property test compares checks with and without it.
    """

    def __init__(self, routes: RouteTable, liking: Liking) -> None:
        """Take the routes, and a function that accepts or rejects next hops."""
        self._routes, self._liking = routes, liking
        # For the routes of a table, by their id: the ranges of the routes that are not plain, and the last address of
        # each.
        self._known: dict[int, tuple[list[Span], list[int]]] = {}

    def doubtful(self, stages: Iterable[Stage], low: int, high: int) -> list[Span]:
        """The ranges in low … high, or reaching beyond, where these stages may use something but a plain route."""
        found: list[Span] = []
        for stage in stages:
            if stage.table is None or not stage.simple:
                break
            for routes in stage.table.columns:
                found += self._odd_ones(routes, low, high)
            if any(routes.covers(low, high) for routes in stage.table.columns):
                return found
        return [(low, high)]

    def _odd_ones(self, routes: Ordered, low: int, high: int) -> list[Span]:
        """The ranges that overlap low … high and belong to a route that is not plain."""
        known = self._known.get(id(routes))
        if known is None:
            spans = joined(map(routes.span, self._places(routes.column)))
            known = self._known[id(routes)] = spans, [last for _, last in spans]
        spans, lasts = known
        begin = bisect_left(lasts, low)
        return spans[begin : bisect_left(spans, (high + 1,), begin)]

    def _places(self, column: Column) -> list[int]:
        """Indexes in the column of the routes that are not plain."""
        numbers = self._routes.shape_numbers
        home = column[:2]
        alike = ((number, outline) for number, outline in enumerate(self._routes.outlines) if outline[:2] == home)
        odd = {number for number, outline in alike if not (outline.is_unicast and self._is_plain(number))}
        return [at for at, position in enumerate(column.positions) if numbers[position] in odd] if odd else []

    def _is_plain(self, number: int) -> bool:
        shape = self._routes.shapes[number]
        in_use = not any(leg.dead or leg.linkdown for leg in shape.legs)
        return in_use and not (shape.tos or shape.source) and shape.expires is None and self._liking(shape.legs)


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same addresses as the fewest ranges, in order."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            low, high = found[-1]
            found[-1] = low, max(high, last)
        else:
            found.append((first, last))
    return found
