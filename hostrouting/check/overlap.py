"""Compare the kernel's decisions with the expected CIDRs: the escapes, and the verdict.

Here: facts, as values, and what explains a verdict. Not here: the findings about escapes (`report`), and the routes
that close an escape (`repair`).

A CIDR falls into cells: ranges of addresses with one decision. A decision escapes if it sends packets out by a device
that is neither expected nor allowed, or sends them nowhere, unless they stay on this host or are for one of its own pod
blocks. Cells next to each other that escape through the same rule and route are one finding. A decision can have
variants, for packets that a rule treats differently because of a mark, a user and the like: a variant that escapes
where the plain packet does not, or the reverse, is a note, and leaves the verdict undecided if it escapes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Literal, NamedTuple, TypeAlias

from hostrouting.arguments import listed, names, require
from hostrouting.check.exceptions import Exceptions, Known, PodBlocks, is_like
from hostrouting.check.packets import PodPackets
from hostrouting.config.settings import IntendedRule
from hostrouting.fib.decision import Case, Cases, Cell, Decision
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import ANY, Flow
from hostrouting.finding import Finding
from hostrouting.model.prefix import IPV4, LOOPBACK, Prefix, as_prefix, extent, prefixes_between, width_of
from hostrouting.model.route import PROTOCOL_KERNEL, NextHop, Route, table_name
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Address
from hostrouting.routes.uplink import default_route, outbound_devs

Verdict: TypeAlias = Literal["ok", "overlap", "no-default-route", "undecided"]
EscapeKind: TypeAlias = Literal["overlap", "no-route", "unreachable", "blackhole", "prohibit"]
# How a decision escapes, and by which devices; None if it does not escape.
Judged: TypeAlias = tuple[EscapeKind, tuple[str, ...]] | None

_LOOPBACK = Prefix.of(LOOPBACK)  # on every host, so it is not reported


class Escape(NamedTuple):
    """A range of an expected CIDR that does not leave by an expected device, as integers, both ends included.

    `devs` are the devices that it leaves by instead, if they are known.

    The range includes the host's single addresses that are inside it, or next to it within the prefix of the same
    route: no packet for them leaves the host, and with them the range fits in one line.
    """

    cidr: Prefix
    first: int
    last: int
    kind: EscapeKind
    devs: tuple[str, ...]
    decision: Decision
    surprise: bool = False
    """Whether the kernel's answer to a lookup differs from its tables here."""
    unexplained: bool = False
    """Whether the route has protocol kernel, but no address of its device explains it."""
    senders: tuple[PodPackets, ...] = ()
    """The packets of pods that it is about; empty if it is about those that the host itself sends."""
    kinds: tuple[str, ...] = ()
    """The kind of each of `devs`, such as "wireguard"; empty for network cards, InfiniBand, and unknown devices."""

    @property
    def prefixes(self) -> tuple[Prefix, ...]:
        """The range as the fewest blocks."""
        return tuple(prefixes_between(self.cidr.family, self.first, self.last))


class Note(NamedTuple):
    """An exception to the verdict: `decision` applies to packets that fulfil all conditions of one of the `cases`.

    This holds for some addresses between `first` and `last`. `more_routes` is the number of other routes that decide
    such packets in the same way. `escapes`: whether such packets escape.
    """

    cidr: Prefix
    first: int
    last: int
    cases: Cases
    decision: Decision
    escapes: bool
    more_routes: int = 0
    senders: tuple[PodPackets, ...] = ()
    """As in a Escape."""
    known: Known = ""
    """What the packets are known to be, so that they leave no doubt."""
    reasons: tuple[str, ...] = ()
    """Why the configuration declares the rules as intended."""

    @property
    def is_open(self) -> bool:
        """Whether this exception makes the verdict undecided."""
        return self.escapes and not self.known


class OverlapReport(NamedTuple):
    """The verdict on the expected CIDRs, with its reasons. Findings are sorted, and disjoint within a CIDR."""

    verdict: Verdict
    cidrs: tuple[Prefix, ...]
    expected_devs: tuple[str, ...]
    allowed_devs: tuple[str, ...] = ()
    escapes: tuple[Escape, ...] = ()
    notes: tuple[Note, ...] = ()
    remarks: tuple[Finding, ...] = ()
    """What explains the verdict, and how long it holds."""
    intended_rules: tuple[IntendedRule, ...] = ()

    @property
    def family(self) -> int:
        """The family of the CIDRs; IPv4 without any."""
        return self.cidrs[0].family if self.cidrs else IPV4

    def again(self, fib: Fib, flow: Flow) -> "OverlapReport":
        """The same check of these tables, for packets of this flow."""
        return check_overlap(
            fib,
            self.cidrs,
            expected_devs=self.expected_devs,
            allowed_devs=self.allowed_devs,
            intended_rules=self.intended_rules,
            flow=flow,
        )


def check_overlap(
    fib: Fib,
    cidrs: Iterable[Prefix | IPv4Network | IPv6Network | str],
    *,
    expected_devs: Iterable[str] = (),
    allowed_devs: Iterable[str] = (),
    intended_rules: Iterable[IntendedRule] = (),
    flow: Flow = ANY,
) -> OverlapReport:
    """Check whether every address of every CIDR leaves by an expected device.

    Expected are `expected_devs`, or, without them, the devices of the default route of the CIDRs' family.
    `allowed_devs` are patterns of devices that may also carry a part of a CIDR, `intended_rules` the rules that may
    send some packets elsewhere. A CIDR may be text, such as "172.16.0.0/16". Raises ValueError for text that is not a
    CIDR and for CIDRs of both families; TypeError for a string where a list is expected.
    """
    require(fib, Fib, "check_overlap", "write Fib(snapshot)")
    expected = tuple(sorted({as_prefix(cidr) for cidr in listed(cidrs, "check_overlap: cidrs")}))
    families = {cidr.family for cidr in expected}
    if len(families) > 1:
        raise ValueError(
            "IPv4 and IPv6 CIDRs cannot be checked together, because each family has its own default route; call "
            "check_overlap once for each family"
        )
    family = families.pop() if families else IPV4
    named = tuple(dict.fromkeys(names(expected_devs, "check_overlap: expected_devs")))
    remarks: list[Finding] = []
    ends: set[int] = set()
    if not named:
        named = outbound_devs(fib, family=family)
        default = default_route(fib, family=family)
        ends |= {default.expires} if default is not None and default.expires is not None else set()
        unused = fib.suppressed_defaults(family)
        remarks += (_unused(route, rule) for rule, route in unused if not {*route.devs} <= {*named})
    patterns = names(allowed_devs, "check_overlap: allowed_devs")
    if not named and expected:
        return OverlapReport("no-default-route", expected, (), patterns)
    intended = tuple(intended_rules)
    judge = Judge(named, patterns, blocks=PodBlocks(fib, expected, patterns))
    exceptions = Exceptions(fib, family, expected_devs=named, allowed_devs=patterns, intended=intended)
    findings: list[Escape] = []
    notes: list[Note] = []
    for cidr, cells in zip(expected, fib.doubtful_cells(expected, judge.likes, flow), strict=True):
        if not cells:
            continue
        findings += _findings(cidr, cells, judge)
        notes += _notes(cidr, cells, judge, exceptions)
        remarks += _own_ranges(cidr, cells, judge)
        ends.update(end for cell in cells for end in _ends(cell.decision))
    selections = {rule.selection for rule in fib.snapshot.rules} if intended else set()
    remarks += (_unmatched(declared) for declared in intended if declared.rule not in selections)
    remarks += [_expiry(min(ends))] if ends else []
    return OverlapReport(
        _verdict(findings, notes),
        expected,
        named,
        patterns,
        _owned(findings, fib),
        tuple(notes),
        tuple(remarks),
        intended,
    )


def follow_kernel(report: OverlapReport, fib: Fib, told: Mapping[int, Decision], *, flow: Flow = ANY) -> OverlapReport:
    """Return the report on the packets of `flow` with the kernel's answers, where its tables differ.

    `told` holds an answer by the first address of the cell. It wins, because it is what happens to packets.
    """
    if not told:
        return report
    judge = Judge.of(report, fib)
    findings: list[Escape] = []
    for cidr in report.cidrs:
        cells = [cell._replace(decision=told.get(cell.first, cell.decision)) for cell in fib.cells(cidr, flow)]
        answers = {id(cell.decision) for cell in cells if cell.first in told}
        findings += [
            finding._replace(surprise=True) if id(finding.decision) in answers else finding
            for finding in _findings(cidr, cells, judge)
        ]
    return report._replace(verdict=_verdict(findings, report.notes), escapes=_owned(findings, fib))


def networks_of(addresses: Iterable[Address]) -> frozenset[tuple[str, Prefix]]:
    """The devices, each with the prefixes of its addresses. The kernel adds routes to these prefixes."""
    found = set()
    for address in addresses:
        found.add((address.dev, address.network))
        if address.peer is not None:
            found.add((address.dev, Prefix.around(address.ip.version, int(address.ip), address.length)))
    return frozenset(found)


def is_unexplained(route: Route, networks: frozenset[tuple[str, Prefix]]) -> bool:
    """Whether a route has proto kernel although no address of its device would make the kernel add it.

    Other programs also use proto kernel, to hide their routes from network managers. False without any `networks`
    (`networks_of`), and for a route that expires: a router advertises a prefix also if no address is formed in it
    (DHCPv6).
    """
    if route.protocol != PROTOCOL_KERNEL or route.type != "unicast" or not networks:
        return False
    has_gateway = any(leg.gateway is not None for leg in route.legs)
    if route.expires is not None and not has_gateway:
        return False
    return has_gateway or not any((dev, route.prefix) in networks for dev in route.devs)


def _owned(findings: Iterable[Escape], fib: Fib) -> tuple[Escape, ...]:
    """Add the kinds of the devices, and whether no address explains a route with protocol kernel."""
    found: list[Escape] = []
    findings = tuple(findings)
    links, addresses = (fib.snapshot.links, fib.snapshot.addresses) if findings else ((), ())
    of_links, networks = {link.name: "" if link.infiniband else link.kind for link in links}, networks_of(addresses)
    for finding in findings:
        route, kinds = finding.decision.route, tuple(of_links.get(dev, "") for dev in finding.devs)
        odd = route is not None and is_unexplained(route, networks)
        found.append(finding._replace(unexplained=odd, kinds=kinds) if odd or any(kinds) else finding)
    return tuple(found)


def _verdict(findings: Sequence[Escape], notes: Iterable[Note]) -> Verdict:
    return "overlap" if findings else "undecided" if any(note.is_open for note in notes) else "ok"


class Judge:
    """Decides whether a decision is fine or an escape."""

    def __init__(
        self, expected_devs: tuple[str, ...], allowed_devs: tuple[str, ...], *, blocks: PodBlocks | None = None
    ) -> None:
        """Take the expected devices by name, the allowed ones by pattern, and this host's pod blocks."""
        self._welcome = dict.fromkeys(expected_devs, True)
        self._allowed, self._blocks = allowed_devs, blocks

    @classmethod
    def of(cls, report: OverlapReport, fib: Fib) -> "Judge":
        """The judge of the check that made this report, for these tables."""
        blocks = PodBlocks(fib, report.cidrs, report.allowed_devs)
        return cls(report.expected_devs, report.allowed_devs, blocks=blocks)

    def escape(self, decision: Decision) -> Judged:
        """How the decision escapes and by which devices; None if it does not."""
        kind = decision.kind
        if kind in {"no-route", "unreachable", "blackhole", "prohibit"}:
            return None if self.is_own_block(decision) else (kind, ())
        if decision.own:
            return None
        # A next hop with an unknown device cannot be an expected one. The remaining route types are never created by a
        # kernel, and their destination is unknown.
        if decision.goes_out and self.likes(decision.legs):
            return None
        return "overlap", tuple(dev for dev in decision.devs if not self._is_welcome(dev))

    def is_own_block(self, decision: Decision) -> bool:
        """Whether a route refuses these packets because they are for one of this host's pod blocks."""
        return self._blocks is not None and decision.route is not None and self._blocks.holds(decision.route)

    def likes(self, legs: tuple[NextHop, ...]) -> bool:
        """Whether packets leave by an expected or allowed device, whichever of these next hops they take."""
        for leg in legs:
            if leg.dev is None or not self._is_welcome(leg.dev):
                return False
        return bool(legs)

    def _is_welcome(self, dev: str) -> bool:
        if dev not in self._welcome:
            self._welcome[dev] = (self._blocks.is_like if self._blocks else is_like)(dev, self._allowed)
        return self._welcome[dev]


def _findings(cidr: Prefix, cells: list[Cell], judge: Judge) -> list[Escape]:
    """The escapes of one CIDR; neighbours with the same rule and route are merged. Ranges without a cell are fine."""
    found: list[Escape] = []
    # `touching`: the last finding ends where the next cell begins, ignoring single own addresses. `own`: the number of
    # single own addresses just passed. `following`: where the next cell begins if there is no gap.
    touching, own, following = False, 0, cidr.first
    for cell in cells:
        if cell.first != following:
            touching, own = False, 0
        following = cell.last + 1
        escape = judge.escape(cell.decision)
        if escape is None:
            single = cell.first == cell.last and cell.decision.own
            own = own + 1 if single else 0
            if not single:
                touching = False
            elif touching and _counts_in(found[-1].decision, cell.last):
                found[-1] = _reaching(found[-1], found[-1].first, cell.last)
                own = 0
            continue
        finding = Escape(cidr, cell.first, cell.last, *escape, cell.decision)
        if touching and _same(found[-1], finding):
            found[-1] = _reaching(found[-1], found[-1].first, cell.last)
        else:
            while own and _counts_in(cell.decision, finding.first - 1):
                finding, own = _reaching(finding, finding.first - 1, finding.last), own - 1
            found.append(finding)
        touching, own = True, 0
    return found


def _reaching(one: Escape, first: int, last: int) -> Escape:
    return Escape(one.cidr, first, last, one.kind, one.devs, one.decision)


def _same(one: Escape, other: Escape) -> bool:
    return (one.kind, one.devs, one.decision.rule, one.decision.route) == (
        other.kind,
        other.devs,
        other.decision.rule,
        other.decision.route,
    )


def _ends(decision: Decision) -> Iterator[int]:
    """The seconds until each of the deciding routes expires."""
    if decision.route is not None and decision.route.expires is not None:
        yield decision.route.expires
    for variant in decision.variants:
        yield from _ends(variant.decision)


def _counts_in(decision: Decision, address: int) -> bool:
    """Whether an own address may be merged into a neighbour with this decision."""
    route = decision.route
    return route is None or route.prefix.first <= address <= route.prefix.last


def _own_ranges(cidr: Prefix, cells: Iterable[Cell], judge: Judge) -> Iterator[Finding]:
    """Ranges that a route of type local delivers to this host whole, and the host's own pod blocks."""
    blocks: dict[int, Finding] = {}
    for cell in cells:
        route = cell.decision.route
        if route is not None and judge.is_own_block(cell.decision):
            # Pods split the block into many cells: it is reported once, as a whole.
            first, last = max(route.prefix.first, cidr.first), min(route.prefix.last, cidr.last)
            blocks.setdefault(id(route), _own_range(cidr, first, last, cell.decision))
        if cell.decision.kind != "local" or route is None or route.type != "local" or route.prefix == _LOOPBACK:
            continue
        if route.prefix.length < width_of(cidr.family):
            yield _own_range(cidr, cell.first, cell.last, cell.decision)
    yield from blocks.values()


def _own_range(cidr: Prefix, first: int, last: int, decision: Decision) -> Finding:
    where = extent(cidr.family, first, last)
    told = f"expected CIDR {cidr} ({where}) is this host's own [{decision.holder}]: packets for it never leave"
    return Finding("own-range", "note", told, where)


def _unused(route: Route, rule: Rule) -> Finding:
    devs = ", ".join(route.devs) or "an unknown device"
    told = f"the default route by {devs} in table {table_name(route.table)} is not used by plain packets"
    return Finding("unused-default-route", "note", f"{told}: rule {rule.priority} suppresses it", devs)


def _unmatched(declared: IntendedRule) -> Finding:
    told = f"routeOverlap.intendedRules: this host has no rule with the selectors {declared.rule!r}"
    remedy = "write them as 'ip rule' prints them, or remove the entry"
    return Finding("unmatched-rule", "note", told, declared.rule, remedy)


def _expiry(seconds: int) -> Finding:
    told = f"the verdict holds for {seconds:,} s: then an IPv6 route that it depends on expires, unless it is renewed"
    return Finding("expiry", "note", told, facts={"seconds": seconds})


def _notes(cidr: Prefix, cells: Iterable[Cell], judge: Judge, exceptions: Exceptions) -> Iterator[Note]:
    """Yield the packets that change the judgement of a cell: one note for each kind of packet and of escape."""
    extents: dict[int, tuple[Decision, int, int]] = {}
    for cell in cells:
        if cell.decision.variants:
            _, first, _ = extents.get(id(cell.decision), (None, cell.first, None))
            extents[id(cell.decision)] = (cell.decision, first, cell.last)
    found: dict[tuple[int, Judged, Known], tuple[int, int, Cases, Decision, dict[int, None]]] = {}
    judged: dict[int, Judged] = {}
    kinds: dict[tuple[int, int, frozenset[int]], dict[Known, Cases]] = {}
    for decision, low, high in extents.values():
        escapes, chosen = judge.escape(decision) is not None, exceptions.sources(decision)
        for variant in decision.variants:
            # Many ranges share few variants.
            its = variant.decision
            if id(its) not in judged:
                judged[id(its)] = judge.escape(its)
            escape = judged[id(its)]
            if (escape is not None) is escapes:
                continue
            # Equal cases are one object, so its id is enough.
            which = (id(variant.cases), id(its), chosen)
            if which not in kinds:
                kinds[which] = _by_kind(variant.cases, its, exceptions, chosen) if escape else {"": variant.cases}
            for known, cases in kinds[which].items():
                key = (id(variant.cases), escape, known)
                first, last, _, leading, routes = found.setdefault(key, (low, high, cases, its, {}))
                routes[id(its.route)] = None
                found[key] = (min(first, low), max(last, high), cases, leading, routes)
    for (_, escape, known), (first, last, cases, leading, routes) in found.items():
        reasons = exceptions.reasons(cases) if known == "intended" else ()
        more = len(routes) - 1
        yield Note(cidr, first, last, cases, leading, escape is not None, more, known=known, reasons=reasons)


def _by_kind(cases: Cases, decision: Decision, exceptions: Exceptions, chosen: frozenset[int]) -> dict[Known, Cases]:
    """The cases, grouped by the known kind of their packets."""
    found: dict[Known, list[Case]] = {}
    for case in cases:
        found.setdefault(exceptions.known(case, decision, chosen), []).append(case)
    return {known: tuple(some) for known, some in found.items()}
