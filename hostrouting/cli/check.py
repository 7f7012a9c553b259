"""A check as lines: the verdict first, what escapes, the repair now and permanently, its limits,
how to allow it last.

check, repair, apply and status share this. The sentences are those of `check.sentences`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from hostrouting.check.sentences import repair_commands
from hostrouting.cli.output import capped, finding_lines
from hostrouting.command import AS_ROOT, Operator
from hostrouting.finding import ESCAPES, Finding

if TYPE_CHECKING:
    from hostrouting.install.host_check import HostCheck

LOOK_FIRST = "To see first what would change, write plan instead of apply."
"""The end of each page with a command that repairs the host."""
TAKE_BACK = "To have it taken back unless you press Enter within a minute: apply --confirm 60."
"""The same where the repair costs something."""
_Place: TypeAlias = Literal["verdict", "before the repair", "repair", "rest"]
"""Where the page has a finding: its sentence in the verdict, and what to do about it in the last
block; in lines before the repair; as the repair itself; or in lines after it.
"""


def check_lines(check: HostCheck, who: Operator = AS_ROOT, note: str = "") -> Iterator[str]:
    """The whole page; the line above the repair says who types it, and has a note."""
    yield from _verdict_lines(check)
    places = defaultdict[_Place, list[Finding]](list)
    for finding in check.findings:
        place = _place(finding, check)
        places[place].append(finding)
    yield from _block(finding_lines(places["before the repair"], who))
    yield from _block(_repair_lines(check, who, note))
    others = [*_without_ways_of(places["verdict"], places["rest"])]
    yield from _block(finding_lines(others, who))
    yield from _block(capped(_ways_out(places["verdict"], who)))
    if _has_pipeline(check):
        last = [LOOK_FIRST]
        if check.named("repair-cost"):
            last.append(TAKE_BACK)
        yield from _block(last)


def _verdict_lines(check: HostCheck) -> Iterator[str]:
    """The verdict on each family, and what escapes."""
    escapes = check.named(*ESCAPES)  # those that no verdict below has said
    for family in check.report.families:
        if family.escapes_as_a_whole:
            cidr = str(family.cidrs[0])
            [escape] = [finding for finding in escapes if finding.facts["cidr"] == cidr]
            escapes.remove(escape)
            yield f"OVERLAP: {escape.sentence}"
        else:
            yield str(family)
    yield from capped([f"  {finding.sentence}" for finding in escapes])


def _without_ways_of(said: Iterable[Finding], findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings, without a remedy that `said` has, too: the last block of the page has that."""
    remedies = {finding.remedy for finding in said}
    for finding in findings:
        if finding.remedy in remedies:
            yield finding._replace(remedy=None)
        else:
            yield finding


def _place(finding: Finding, check: HostCheck) -> _Place:
    if finding.name in {"unsafe", "repair-cost", "requirement"}:
        return "before the repair"
    if finding.name == "action":
        return "repair"
    if finding.name in {*ESCAPES, "no-default-route"}:
        return "verdict"
    for family in check.report.families:
        # The verdict is said in the words of the first doubt. The finding about that may have got
        # another remedy since, so only the words are equal.
        if family.verdict == "undecided" and family.doubts[0].sentence == finding.sentence:
            return "verdict"
    return "rest"


def _shows_repair(check: HostCheck) -> bool:
    """Whether the page has a repair; what to do about config.json comes first."""
    return bool(check.report.resolved) and not check.named("file")


def _has_pipeline(check: HostCheck) -> bool:
    """Whether the page has a line that repairs this host or names a device for good."""
    if _shows_repair(check):
        return True
    for finding in check.findings:
        if "candidates" in finding.facts or finding.name == "route-not-configured":
            return True
        if finding.name == "file" and finding.remedy is not None:
            return True
    return False


def _ways_out(findings: Iterable[Finding], who: Operator) -> list[str]:
    """What to do about what the verdicts say, beside the repair; each way once."""
    ways: dict[str, None] = {}
    for finding in findings:
        if finding.remedy is not None:
            for way in finding.remedy.ways():
                text = way.text_for(who)
                ways[f"{text[0].upper()}{text[1:]}"] = None
    return list(ways)


def _repair_lines(check: HostCheck, who: Operator, note: str) -> Iterator[str]:
    """The repair until the next boot, and for good."""
    if not _shows_repair(check):
        return
    part = " (repairs only a part)" if check.named("unsafe") else ""
    commands = repair_commands(check.report)
    if commands:
        yield f"Until the next boot, {who}{part}:"
        yield from capped([f"  {command}" for command in commands])
    for loss in check.losses:
        yield f"The repair takes something away: {loss}"
    yield f"Permanently, {who}{part}{note}:"
    yield f"  {who.line(check.repair_command)}"


def _block(lines: Iterable[str]) -> Iterator[str]:
    """The lines, after an empty one if there are any."""
    for number, line in enumerate(lines):
        if number == 0:
            yield ""
        yield line
