"""A check as lines: the verdict first, what escapes, the repair now and permanently, its limits,
how to allow it last. The sentences are those of `check.sentences`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from hostrouting.check.doubts import how_to_allow
from hostrouting.check.sentences import caveat_of_repair, repair_commands
from hostrouting.command import LineToType, Operator, call, joined
from hostrouting.finding import ESCAPES, Finding, Remedy
from hostrouting.lines import capped, finding_lines

if TYPE_CHECKING:
    from hostrouting.check.results import FamilyReport
    from hostrouting.install.host_check import HostCheck

_MOST_COMMANDS = 4
"""So many commands repair the host until its next boot line by line; more come out of `repair`."""
_Place: TypeAlias = Literal["verdict", "before the repair", "repair", "rest"]
"""Where the page has a finding: its sentence in the verdict, and what to do about it in the last
block; in lines before the repair; as the repair itself; or in lines after it.
"""


def check_lines(check: HostCheck, who: Operator) -> Iterator[str]:
    """The whole page."""
    for family in check.report.families:
        yield from _verdict_lines(family, check)
    places = defaultdict[_Place, list[Finding]](list)
    for finding in check.findings:
        place = _place(finding, check)
        places[place].append(finding)
    yield from _block(finding_lines(places["before the repair"], who))
    yield from _block(_repair_lines(check, who))
    yield from _block(_offer_lines(check, who))
    others = [*_without_ways_of(places["verdict"], places["rest"])]
    yield from _block(finding_lines(others, who))
    yield from _block(capped(_ways_out(places["verdict"], check, who)))


def _verdict_lines(family: FamilyReport, check: HostCheck) -> Iterator[str]:
    """The verdict on a family, which names the first escape, and what else escapes. Where a default
    route is missing, the finding has more to say: which cards have no address.
    """
    for finding in check.named("no-default-route"):
        if finding.facts["family"] == family.family:
            yield f"{finding.name.upper()}: {finding.sentence}"
            return
    yield str(family)
    yield from capped([f"  {escape}" for escape in family.escapes[1:]])


def _without_ways_of(said: Iterable[Finding], findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings, without a remedy that `said` has, too: the last block of the page has that."""
    remedies = {finding.remedy for finding in said}
    for finding in findings:
        if finding.remedy in remedies:
            yield finding._replace(remedy=None)
        else:
            yield finding


def _place(finding: Finding, check: HostCheck) -> _Place:
    if finding.name == "repair-cost" and _asks_for_a_card(check):
        return "repair"  # this block is not shown now
    if finding.name in {"unsafe", "repair-cost", "requirement"}:
        return "before the repair"
    if finding.name == "action":
        return "repair"
    if finding.name in {*ESCAPES, "no-default-route"}:
        return "verdict"
    for family in check.report.families:
        # The verdict is said in the words of the only doubt. The finding about that may have got
        # another remedy since, so only the words are equal.
        is_said = [doubt.sentence for doubt in family.doubts] == [finding.sentence]
        if family.verdict == "undecided" and is_said:
            return "verdict"
    return "rest"


def _asks_for_a_card(check: HostCheck) -> bool:
    """Whether an operator has to say first which of several cards is right: the repair would lead
    through the one that Linux prefers now.
    """
    return any(finding not in check.doubts for finding in check.named("default-routes"))


def _shows_repair(check: HostCheck) -> bool:
    """Whether the page has a repair; what to do about config.json comes first, and the choice of a
    card.
    """
    if check.named("file") or _asks_for_a_card(check):
        return False
    return bool(check.report.resolved)


def _ways_out(findings: Iterable[Finding], check: HostCheck, who: Operator) -> list[str]:
    """What to do about what the verdicts say, beside the repair; each way once, and all devices of
    a kind that can be allowed together.
    """
    remedies: dict[Remedy, None] = {}
    to_allow: dict[tuple[str, ...], dict[str, str]] = {}  # by their kinds
    for finding in findings:
        ways = [*finding.remedy.ways()] if finding.remedy is not None else []
        if ways and "mayAllow" in finding.facts:
            kinds = finding.facts["mayAllow"]
            to_allow.setdefault(tuple(kinds.values()), {}).update(kinds)
            ways = ways[1:]  # the first is to allow one device
        remedies |= dict.fromkeys(ways)
    allowing = [how_to_allow(kinds, check.repair) for kinds in to_allow.values()]
    lines: dict[str, None] = {}
    for remedy in [*remedies, *allowing]:
        words, command = remedy.parts_for(who)
        lines[LineToType(f"{words[0].upper()}{words[1:]}", command)] = None
    return list(lines)


def _repair_lines(check: HostCheck, who: Operator) -> Iterator[str]:
    """The repair until the next boot, and for good."""
    if not _shows_repair(check):
        return
    caveat = caveat_of_repair(check.report)
    commands = repair_commands(check.report)
    if len(commands) > _MOST_COMMANDS:
        commands = (joined(" | ", call(f"repair{check.repair.options} --commands"), "sh"),)
    if commands:
        yield f"Until the next boot, {who}{caveat}:"
        for command in commands:
            yield LineToType("  ", who.line(command))
    for loss in check.losses:
        yield f"The repair takes something away: {loss}"
    yield f"Permanently, {who}{caveat}:"
    yield LineToType("  ", who.line(check.repair.line()))


def _offer_lines(check: HostCheck, who: Operator) -> Iterator[str]:
    """How to look at the repair first, and how to try it."""
    if not _shows_repair(check):
        return
    yield "To see first what would change:"
    yield LineToType("  ", who.line(check.repair.line(into="plan")))
    if check.named("repair-cost") and not check.losses:
        yield f"To have it taken back unless you press Enter within a minute, {who}:"
        yield LineToType("  ", who.line(check.repair.line(more=" --confirm 60")))


def _block(lines: Iterable[str]) -> Iterator[str]:
    """The lines, after an empty one if there are any."""
    for number, line in enumerate(lines):
        if number == 0:
            yield ""
        yield line
