"""What a check returns: plain data, each part of which says itself in one sentence.

A `CheckReport` has a `FamilyReport` for each family. That has the ranges of the cluster's CIDRs
with an opinion on each (`Part`), the ranges that escape (`Escape`), the doubts, and the repair. The
verdict on a family follows from these: overlap if anything escapes; no-default-route if no device
is expected, unless something is not judged; undecided if anything is in doubt; else ok.

`sentences` makes findings from a report, and `document` makes JSON.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import chain
from typing import Literal, NamedTuple, NoReturn, TypeAlias, TypeVar, get_args

from hostrouting.config.settings import StaticRoute
from hostrouting.fib.engine import FROM_HOST, NOT_JUDGED, Decision, PacketKind
from hostrouting.finding import Finding
from hostrouting.model.prefix import IP, LINK_LOCAL, Prefix, extent, prefixes_between
from hostrouting.model.route import REFUSING, TABLE_LOCAL, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Address, Snapshot
from hostrouting.text import grouped, spoken

T = TypeVar("T")

Verdict: TypeAlias = Literal["overlap", "no-default-route", "undecided", "ok"]
WORST_FIRST: tuple[Verdict, ...] = get_args(Verdict)

SOME_POD = "a pod's device"
"""The device of a packet that a pod sends, if no rule names that device; no device has a name with
a space.
"""


class Grade(IntEnum):
    """How good a decision is; of several, the worst counts."""

    FINE = 0
    DOUBT = 1
    ESCAPE = 2


# The names of opinions. What makes packets fine:
EXPECTED = "expected"
OWN = "own"
ALLOWED = "allowed"  # they leave by a device that is allowed, such as a CNI's
OWN_SUBNET = "own-subnet"  # to neighbours by the card that a tunnel's default route hides
POD_BLOCK = "pod-block"  # they are refused, because no pod has the address
# How packets escape; the types of routes that refuse packets and "no-route" are such names, too:
OVERLAP = "overlap"
OWN_RANGE = "own-range"
PODS_HIDDEN = "pods-hidden"
# The findings about doubts; `NOT_JUDGED` and "kernel-differs" are such names, too:
DEFAULT_ROUTES = "default-routes"
TWO_CNIS = "two-cnis"
DOUBTFUL_ROUTE = "doubtful-route"
OTHER_PACKETS = "other-packets"
UNKNOWN_SOURCE = "unknown-source"

FATES: dict[str, str] = {
    "no-route": "has no route",
    **{kind: refused.fate for kind, refused in REFUSING.items()},
    OWN_RANGE: "stays on this host",
    NOT_JUDGED: "is not judged",
}
"""What happens to a packet that leaves through no device."""


class Opinion(NamedTuple):
    """What is to be said of packets with one decision, or with one other outcome."""

    grade: Grade
    name: str = ""
    """What makes it fine; or the name of the finding about a doubt; or how packets escape."""
    reason: str = ""
    """What it is about, as a sentence has it: a device, a route, a rule, or why it is in doubt."""
    selection: str = ""
    """The selectors of the rule, if other packets are in doubt."""
    devs: tuple[str, ...] = ()
    """The devices by which packets escape."""
    hidden: Route | None = None
    """The route to a pod of this node that packets miss."""
    candidates: tuple[str, ...] = ()
    """The devices that may be the intended one, if that is in doubt and they are known."""
    route: Route | None = None
    """The route by which packets may be lost, if that is in doubt."""
    may_allow: str = ""
    """A device that is fine if the configuration allows it."""

    @property
    def is_fine_elsewhere(self) -> bool:
        """Whether packets are fine elsewhere than at the uplink, so that no repair may lead them
        there. With `TWO_CNIS` they may be, and are left there, too.
        """
        return self.name in {ALLOWED, OWN_SUBNET, POD_BLOCK, TWO_CNIS}


OWN_ADDRESS = Opinion(Grade.FINE, OWN)
"""The addresses of this host itself, and those of every host."""
RangeInDoubt: TypeAlias = tuple[Opinion, int, int]
"""A doubt, and the first and the last address of a range that it is about."""


def extents_of(family: int, ranges: Iterable[tuple[T, int, int]]) -> dict[T, list[str]]:
    """The ranges as text, by what is said of them: a doubt, for example."""
    return grouped((label, extent(family, first, last)) for label, first, last in ranges)


def phrase_of_extents(extents: Sequence[str]) -> str:
    """These ranges as a phrase: three are named, and the others counted."""
    return spoken(extents, most=3)


class Part(NamedTuple):
    """A range of addresses that are judged alike."""

    first: int
    last: int
    decision: Decision
    opinion: Opinion
    other_opinions: tuple[Opinion, ...] = ()
    """The opinions on other packets to these addresses, each once: on those that a rule selects by
    more than the destination, such as a mark.
    """

    @property
    def plain_grade(self) -> Grade:
        """The grade of the plain packet."""
        return self.opinion.grade

    @property
    def worst_grade(self) -> Grade:
        """The worst grade of its opinions."""
        return max(opinion.grade for opinion in (self.opinion, *self.other_opinions))

    @property
    def escape(self) -> tuple[Opinion, Decision] | None:
        """How the plain packet escapes; None if it does not."""
        if self.plain_grade is Grade.ESCAPE:
            return self.opinion, self.decision
        return None

    @property
    def doubts(self) -> tuple[Opinion, ...]:
        """The doubts, each once. That a decision is not judged is not among them: the rules and
        routes that are the reason are listed once for the host.
        """
        doubts: dict[Opinion, None] = {}
        for opinion in (self.opinion, *self.other_opinions):
            if opinion.grade is Grade.DOUBT and opinion.name != NOT_JUDGED:
                doubts[opinion] = None
        return tuple(doubts)

    @property
    def is_own(self) -> bool:
        """Whether the addresses are this host's own."""
        return self.opinion.name == OWN

    @property
    def allowance(self) -> str:
        """What makes a device fine that need not be expected; else empty."""
        if self.opinion.name in {ALLOWED, OWN_SUBNET}:
            return self.opinion.reason
        return ""


class Escape(NamedTuple):
    """A range of a CIDR of the cluster that does not leave through an expected device."""

    cidr: Prefix
    first: int
    last: int
    """The first and the last address, as integers."""
    kind: str
    """What happens to the packets: overlap, own-range, no-route, blackhole, unreachable or
    prohibit.
    """
    decision: Decision
    devs: tuple[str, ...] = ()
    packet: PacketKind = FROM_HOST
    """Whose packets: all that the host sends, its connections from one source, or those of pods."""
    hidden: Route | None = None
    """The route to a pod of this node that they miss (`PODS_HIDDEN`)."""

    @property
    def is_by_rule(self) -> bool:
        """Whether the rule is what to look at: it tells these packets from plain ones, or looks up
        another table than that of the pods that it hides. For other packets, the finding "unsafe"
        names a rule before table main.
        """
        if self.decision.rule is None or self.hidden is None:
            return self.decision.rule is not None and self.packet != FROM_HOST
        return self.decision.rule.table not in {self.hidden.table, TABLE_LOCAL}

    @property
    def prefixes(self) -> tuple[Prefix, ...]:
        """The range as prefixes, as few as possible."""
        return tuple(prefixes_between(self.cidr.family, self.first, self.last))

    @property
    def verb(self) -> str:
        """What packets do. They only may leave by these devices if the route has others, too, or
        an equal default route has these.
        """
        if not self.devs:
            return FATES[self._end]
        if set(self.devs) == set(self.decision.devs):
            return "leaves through"
        return "may leave through"

    @property
    def _end(self) -> str:
        """What happens to packets that leave through no device."""
        if self.kind != PODS_HIDDEN:
            return self.kind
        return OWN_RANGE if self.decision.kind == "local" else self.decision.kind

    def __str__(self) -> str:
        """What happens to the packets, and the route or the rule that causes it."""
        is_plain = self.packet == FROM_HOST
        where = extent(self.cidr.family, self.first, self.last)
        if not is_plain:
            where += f", for {phrase_of(self.packet)},"
        words = [where, self.verb]
        if self.devs:
            devs = spoken(self.devs)
            if not set(self.devs) <= set(self.decision.devs):
                devs += ", whose default route has the same metric as"
            words.append(devs)
        route = self.decision.route
        rule = self.decision.rule
        if route is not None:
            words.append(f"[{route}]")
        if rule is not None and (route is None or self.is_by_rule):
            words.append(f"by [rule {rule}]")
        if self.hidden is not None:
            words.append(f"and misses the pods of [{self.hidden}]")
        return " ".join(words)


def phrase_of(packet: PacketKind) -> str:
    """These packets, as a phrase that follows "for"."""
    if packet.iif == "lo" and packet.source is not None:
        return f"connections from {packet.source.ip}"
    return f"packets of pods from {packet.source}"


Reason: TypeAlias = Literal[
    "below-a-cni", "earlier-rule", "host-route", "no-gateway", "too-many", "not-proven"
]
"""Why no route repairs an address; docs/findings.md explains each."""


class Why(NamedTuple):
    """Why no route repairs an address."""

    reason: Reason
    cause: str
    """The same in words that follow a colon, with the route or the rule."""
    to_delete: tuple[Route, ...] = ()
    """The routes to delete instead, in the order in which they decide."""
    devs: tuple[str, ...] = ()
    """The devices of which one has to be named first."""
    rule: Rule | None = None
    """The rule that comes before table main, with a route that leads elsewhere."""
    rules: tuple[Rule, ...] = ()
    """The rules that repair these ranges, if they come before that rule."""


class Unrepairable(NamedTuple):
    """A range that no route can repair."""

    why: Why
    first: int
    last: int


class Cost(NamedTuple):
    """A network of which something leaves by another device with the repair."""

    dev: str
    """The device by which it was reached."""
    network: Prefix


class Repair(NamedTuple):
    """The routes that repair what can be repaired, what they cost, and what cannot be repaired."""

    resolved: tuple[Route, ...] = ()
    """The routes with device and gateway, as they are added on this host."""
    dev: str | None = None
    """The device that they name in a configuration."""
    unrepairable: tuple[Unrepairable, ...] = ()
    costs: tuple[Cost, ...] = ()
    lacks: str = ""
    """What the default route has and these routes lack, in the words of `ip`."""

    @property
    def routes(self) -> tuple[StaticRoute, ...]:
        """The same routes, as a configuration has them."""
        return tuple(
            StaticRoute(route.prefix.to_network(), dev=self.dev) for route in self.resolved
        )


class FamilyReport(NamedTuple):
    """The result of a check for one family."""

    family: int
    """4 or 6."""
    snapshot: Snapshot
    """The host that was checked."""
    cidrs: tuple[Prefix, ...] = ()
    expected_devs: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    """The ranges of the CIDRs, for the host's own packets."""
    escapes: tuple[Escape, ...] = ()
    doubts: tuple[Finding, ...] = ()
    """What makes the verdict undecided, unless something escapes."""
    flaws: tuple[Finding, ...] = ()
    repair: Repair = Repair()
    node_ip: IP | None = None
    """The address with which this host sends by the expected devices, if there is exactly one."""

    @property
    def addresses(self) -> list[Address]:
        """The addresses of the host that are not link-local."""
        of_family = [each for each in self.snapshot.addresses if each.ip.version == self.family]
        return [address for address in of_family if address.ip not in LINK_LOCAL]

    @property
    def verdict(self) -> Verdict:
        """The verdict on this family."""
        if self.escapes:
            return "overlap"
        # What is not judged may be a default route.
        is_judged = all(doubt.name != NOT_JUDGED for doubt in self.doubts)
        if not self.expected_devs and is_judged:
            return "no-default-route"
        if self.doubts:
            return "undecided"
        return "ok"

    @property
    def lacks_rule(self) -> Finding | None:
        """That no rule looks up table main, so that no default route counts; None if one does."""
        for doubt in self.doubts:
            if doubt.target in {"main", "IPv6"}:
                return doubt
        return None

    @property
    def missing_default(self) -> str:
        """That there is no default route that counts, as a short sentence; empty with any other
        verdict.
        """
        if self.verdict != "no-default-route":
            return ""
        return f"there is no IPv{self.family} default route"

    def sentence_of(self, escape: Escape) -> str:
        """What escapes there, and through which devices its packets should leave."""
        expected = self.expected_devs if escape.hidden is None else escape.hidden.devs
        if not escape.devs and escape.hidden is None:
            return f"{escape}, and should leave through {spoken(expected, last='or')}"
        return f"{escape}; expected: {spoken(expected, last='or')}"

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, without the verdict's own word."""
        verdict = self.verdict
        if verdict == "no-default-route":
            return _default_route_sentence(self)
        if verdict == "ok":
            return _ok_sentence(self)
        sentences = [doubt.sentence for doubt in self.doubts]
        if self.escapes:
            sentences = [self.sentence_of(escape) for escape in self.escapes]
        if len(sentences) == 1:
            return sentences[0]
        return f"{sentences[0]}; and {len(sentences) - 1} more"

    def __repr__(self) -> str:
        return f"<FamilyReport {self}>"

    def __str__(self) -> str:
        return f"{self.verdict.upper()}: {self.sentence}"


class CheckReport(NamedTuple):
    """The result of a check: a report for each family with expected CIDRs, IPv4 first."""

    families: tuple[FamilyReport, ...]

    def __bool__(self) -> NoReturn:
        raise TypeError("a report is always true; write `report.verdict == 'ok'`")

    @property
    def snapshot(self) -> Snapshot:
        """The host that was checked."""
        return self.families[0].snapshot

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of a family."""
        return min((report.verdict for report in self.families), key=WORST_FIRST.index)

    @property
    def node_ips(self) -> dict[int, IP]:
        """The address of the expected device, by family (4, 6) if there is exactly one: kubelet's
        `--node-ip`.
        """
        return {each.family: each.node_ip for each in self.families if each.node_ip is not None}

    @property
    def doubts(self) -> tuple[Finding, ...]:
        """What is in doubt, in both families."""
        return tuple(chain.from_iterable(report.doubts for report in self.families))

    @property
    def escapes(self) -> tuple[Escape, ...]:
        """What escapes, in both families."""
        return tuple(chain.from_iterable(report.escapes for report in self.families))

    @property
    def missing_defaults(self) -> list[str]:
        """The short sentence of each family with the verdict no-default-route."""
        return [report.missing_default for report in self.families if report.missing_default]

    @property
    def routes(self) -> tuple[StaticRoute, ...]:
        """The routes that repair it, for a configuration."""
        return tuple(chain.from_iterable(report.repair.routes for report in self.families))

    @property
    def resolved(self) -> tuple[Route, ...]:
        """The routes that repair it, with device and gateway, as they are added on this host."""
        return tuple(chain.from_iterable(report.repair.resolved for report in self.families))

    def __repr__(self) -> str:
        return f"<CheckReport {self.verdict}>"

    def __str__(self) -> str:
        return "\n".join(map(str, self.families))


# The sentences of the verdicts.


def _default_route_sentence(report: FamilyReport) -> str:
    """That no device is expected, and which rule is missing, or which default routes do not
    count.
    """
    missing = report.missing_default
    if report.lacks_rule is not None:
        return f"{report.lacks_rule.sentence}, and no device is expected"
    defaults = report.snapshot.default_routes(report.family)
    if defaults:
        missing += f" that counts, only {spoken([f'[{route}]' for route in defaults])}"
    return f"{missing}, so no device is expected"


def _ok_sentence(report: FamilyReport) -> str:
    cidrs = spoken([str(cidr) for cidr in report.cidrs])
    fates = [f"leaves through {spoken(report.expected_devs, last='or')}"]
    allowed = dict.fromkeys(part.allowance for part in report.parts if part.allowance)
    if allowed:
        fates.append(f"through {spoken(list(allowed), last='or')}")
    opinions = [part.opinion for part in report.parts]
    blocks = dict.fromkeys(opinion.reason for opinion in opinions if opinion.name == POD_BLOCK)
    if blocks:
        fates.append(f"is refused because no pod has it, in {spoken(list(blocks))}")
    fates.append("is this host's own")  # any host has some, such as multicast
    return f"every address of {cidrs} {', or '.join(fates)}"
