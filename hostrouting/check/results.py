"""What a check returns: plain data.

A `CheckReport` has a `FamilyReport` for each family: the ranges of the cluster's CIDRs with the
opinions on each (`Part`), the ranges that escape (`Escape`), the doubts, and the repair. The
verdict on a family follows from these: overlap if anything escapes; no-default-route if no device
is expected, unless something is not judged; undecided if anything is in doubt; else ok.

`sentences` makes findings from a report, and `document` makes JSON.
"""

from bisect import bisect_right
from enum import IntEnum
from itertools import chain
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias, get_args

from hostrouting.config.settings import StaticRoute
from hostrouting.fib.engine import NOT_JUDGED, Decision
from hostrouting.finding import Finding
from hostrouting.model.prefix import IP, LINK_LOCAL, Prefix, extent
from hostrouting.model.route import REFUSING, TABLE_LOCAL, TABLE_MAIN, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot
from hostrouting.text import spoken

Verdict: TypeAlias = Literal["overlap", "no-default-route", "undecided", "ok"]
WORST_FIRST: tuple[Verdict, ...] = get_args(Verdict)


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
MISSING_RULE = "missing-rule"

FATES: dict[str, str] = {
    "no-route": "has no route",
    **{kind: refused.fate for kind, refused in REFUSING.items()},
    "local": "stays on this host",
    "anycast": "stays on this host",
    "broadcast": "is broadcast",
    "multicast": "is multicast",
    NOT_JUDGED: "is not judged",
}
"""What happens to a packet that leaves through no device."""


class Opinion(NamedTuple):
    """Whether packets with one decision are fine, in doubt, or escape; and how, or why.

    The packets are plain ones, or others that a rule treats differently.
    """

    grade: Grade
    name: str = ""
    """Why the packets are fine, how they escape, or the name of the finding about the doubt."""
    reason: str = ""
    """The text for {reason} in the sentence of the finding, such as a device, a route or a rule."""
    devs: tuple[str, ...] = ()
    """The devices by which packets escape."""
    hidden: Route | None = None
    """The route to pods of this node that packets do not reach."""
    decision: Decision | None = None
    """The decision by which connections of this host escape, if plain packets do not."""

    @property
    def belongs_elsewhere(self) -> bool:
        """Whether packets belong to another device than the uplink, for example to a CNI's. Then no
        repair may lead them to the uplink. The doubt `TWO_CNIS` is included, because such packets
        may be fine.
        """
        return self.name in {ALLOWED, OWN_SUBNET, POD_BLOCK, TWO_CNIS}


OWN_ADDRESS = Opinion(Grade.FINE, OWN)
"""The opinion on addresses of this host itself, and on those of every link."""


class Part(NamedTuple):
    """A range of addresses with the same opinions."""

    first: int
    last: int
    decision: Decision
    opinion: Opinion
    """The opinion on plain packets."""
    other_opinions: tuple[Opinion, ...] = ()
    """The opinions on other packets, such as marked ones, each once."""

    @property
    def opinions(self) -> tuple[Opinion, ...]:
        """All opinions, first the one on plain packets."""
        return (self.opinion, *self.other_opinions)

    @property
    def allowance(self) -> str:
        """Why plain packets may leave through a device that is not expected ("wg0 (allowedDevs)");
        empty if they do not.
        """
        if self.opinion.name in {ALLOWED, OWN_SUBNET}:
            return self.opinion.reason
        return ""

    @property
    def escape(self) -> tuple[Opinion, Decision] | None:
        """How packets to this range escape: the first opinion that says so, and the decision for
        the packets that it is about (where Linux leads them). None if no packets escape.
        """
        for opinion in self.opinions:
            if opinion.grade is Grade.ESCAPE:
                # An opinion about the host's own connections has its own decision.
                return opinion, opinion.decision or self.decision
        return None

    @property
    def worst_grade(self) -> Grade:
        """The worst grade of its opinions."""
        return max(opinion.grade for opinion in self.opinions)


class Escape(NamedTuple):
    """A range of a CIDR of the cluster that does not leave through an expected device."""

    cidr: Prefix
    first: int
    last: int
    """The first and the last address, as integers."""
    kind: str
    """What happens to the packets: overlap, pods-hidden, own-range, no-route, blackhole,
    unreachable or prohibit.
    """
    decision: Decision
    devs: tuple[str, ...] = ()
    hidden: Route | None = None
    """The route to pods of this node, if the packets do not reach these pods (`PODS_HIDDEN`),
    because Linux uses another route.
    """

    @property
    def _fate(self) -> str:
        """What happens to the packets, in words: "leaves through eth1", or "is dropped" if they
        leave by no device. The verb is "may leave through" if packets escape only by some devices
        of the route, or by those of an equal default route.
        """
        if not self.devs:
            return FATES[self.decision.kind]
        verb = "leaves through"
        if set(self.devs) != set(self.decision.devs):
            verb = "may leave through"
        return f"{verb} {spoken(self.devs)}"

    def __str__(self) -> str:
        """The range, what happens to packets to it, and the route or the rule that causes it."""
        phrases = [extent(self.cidr.family, self.first, self.last), self._fate]
        if self.decision.route is not None:
            phrases.append(f"[{self.decision.route}]")
        rule = self.decision.rule
        # The rules for these two tables are on every host, so they explain nothing.
        if rule is not None and rule.table not in {TABLE_MAIN, TABLE_LOCAL}:
            phrases.append(f"by [rule {rule}]")
        if self.hidden is not None:
            phrases.append(f"and misses the pods of [{self.hidden}]")
        return " ".join(phrases)


Reason: TypeAlias = Literal["below-a-cni", "earlier-rule", "no-device", "no-gateway", "not-proven"]
"""Why no route repairs an address; docs/findings.md explains each."""


class Why(NamedTuple):
    """Why no route repairs an address, and the rule that repairs it instead, if there is one."""

    reason: Reason
    cause: str
    """The reason in words that follow a colon, with the route or the rule."""
    rule: Rule | None = None
    """The rule to add; None if no rule repairs the address."""


class Unrepairable(NamedTuple):
    """A range that escapes, and that no route can repair."""

    why: Why
    first: int
    last: int


class Repair(NamedTuple):
    """The routes that repair what can be repaired, and what cannot be repaired."""

    resolved: tuple[Route, ...] = ()
    """The routes with device and gateway, as they are added on this host."""
    dev: str | None = None
    """The device that the routes name in a configuration; None if they need none there."""
    unrepairable: tuple[Unrepairable, ...] = ()

    @property
    def routes(self) -> tuple[StaticRoute, ...]:
        """The routes as a configuration has them: those for this host (`resolved`), but without
        gateways, because each host finds its own.
        """
        return tuple(
            StaticRoute(route.prefix.to_network(), dev=self.dev, metric=route.metric)
            for route in self.resolved
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
    """The ranges of the CIDRs."""
    escapes: tuple[Escape, ...] = ()
    doubts: tuple[Finding, ...] = ()
    """What makes the verdict undecided, unless something escapes."""
    flaws: tuple[Finding, ...] = ()
    repair: Repair = Repair()

    @property
    def verdict(self) -> Verdict:
        """The worst that can be said of this family: "overlap" if an address escapes,
        "no-default-route" if no default route says which devices are expected, "undecided" if
        something is in doubt, else "ok".
        """
        if self.escapes:
            return "overlap"
        # A rule or route that is not judged may lead to a default route, so it is only undecided
        # whether there is one.
        is_judged = all(doubt.name != NOT_JUDGED for doubt in self.doubts)
        if not self.expected_devs and is_judged:
            return "no-default-route"
        if self.doubts:
            return "undecided"
        return "ok"

    def why_unrepaired(self, address: int) -> Why | None:
        """Why no route of the repair brings packets to this address, which escapes, back to an
        expected device. None if a route does.
        """
        ranges = self.repair.unrepairable  # sorted, and without overlap
        # The last range that begins at the address or before it.
        place = bisect_right(ranges, address, key=attrgetter("first")) - 1
        if place >= 0 and address <= ranges[place].last:
            return ranges[place].why
        return None

    @property
    def missing_default(self) -> str:
        """If the verdict is no-default-route: a short sentence about what is missing, the default
        route or the rule that leads to it. Otherwise empty.
        """
        if self.verdict != "no-default-route":
            return ""
        if not self.looks_up_main:
            return f"no IPv{self.family} rule looks up table main"
        return f"there is no IPv{self.family} default route"

    @property
    def looks_up_main(self) -> bool:
        """Whether a rule looks up table main, where the default route may be."""
        return TABLE_MAIN in {
            rule.table for rule in self.snapshot.rules if rule.family == self.family
        }

    def sentence_of(self, escape: Escape) -> str:
        """The sentence of the finding about an escape: what escapes, and by which devices it should
        leave. Packets that miss the pods of this node should leave by the devices of these pods;
        all others, by the expected devices.
        """
        expected = self.expected_devs if escape.hidden is None else escape.hidden.devs
        return f"{escape}; expected: {spoken(expected, last='or')}"

    @property
    def sentences(self) -> list[str]:
        """Why the verdict is what it is: a sentence for each reason, without the verdict's name."""
        if self.missing_default:
            return [f"{self.missing_default}, so no device is expected"]
        if self.verdict == "ok":
            return [_ok_sentence(self)]
        if self.escapes:
            return [self.sentence_of(escape) for escape in self.escapes]
        return [doubt.sentence for doubt in self.doubts]

    @property
    def sentence(self) -> str:
        """The first sentence of `sentences`, and how many more there are."""
        first, *others = self.sentences
        return f"{first}; and {len(others)} more" if others else first

    def __str__(self) -> str:
        return f"{self.verdict.upper()}: {self.sentence}"


class CheckReport(NamedTuple):
    """The result of a check: a report for each family with expected CIDRs, IPv4 first."""

    families: tuple[FamilyReport, ...]

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
        """By family (4, 6): the address for kubelet's `--node-ip`, which is the only address of the
        expected devices, without link-local ones. A family without such an address, or with
        several, is left out.
        """
        node_ips: dict[int, IP] = {}
        for report in self.families:
            of_uplink = {
                address.ip
                for address in report.snapshot.addresses
                if address.dev in report.expected_devs and address.ip not in LINK_LOCAL
            }
            ips = [ip for ip in of_uplink if ip.version == report.family]
            if len(ips) == 1:
                node_ips[report.family] = ips[0]
        return node_ips

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
        """The routes that repair what escapes, for a configuration."""
        return tuple(chain.from_iterable(report.repair.routes for report in self.families))

    @property
    def resolved(self) -> tuple[Route, ...]:
        """The routes that repair what escapes, with device and gateway, as this host adds them."""
        return tuple(chain.from_iterable(report.repair.resolved for report in self.families))

    def __repr__(self) -> str:
        return f"<CheckReport {self.verdict}>"

    def __str__(self) -> str:
        return "\n".join(map(str, self.families))


def _ok_sentence(report: FamilyReport) -> str:
    """The sentence of an OK: all ways in which addresses of these CIDRs are fine."""
    cidrs = spoken([str(cidr) for cidr in report.cidrs])
    fates = [f"leaves through {spoken(report.expected_devs, last='or')}"]
    allowed = dict.fromkeys(part.allowance for part in report.parts if part.allowance)
    if allowed:
        fates.append(f"through {spoken(list(allowed), last='or')}")
    if any(part.opinion.name == POD_BLOCK for part in report.parts):
        fates.append("is refused because no pod has it")
    fates.append("is this host's own")  # said always, even if no such address is in them
    return f"every address of {cidrs} {', or '.join(fates)}"
