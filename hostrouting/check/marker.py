"""The marker: the file in /run by which the last check tells its verdict to other programs, such as
the node agent.

Each of the three kinds of verdict has its file, and at most one of them exists. No unit waits for a
marker, so no start fails if it cannot be written.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hostrouting.errors import HostError
from hostrouting.finding import WRONG, Finding
from hostrouting.host.layout import HostLayout
from hostrouting.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hostrouting.check.results import CheckReport
    from hostrouting.host.base import Files


def leave_marker(files: Files, report: CheckReport, findings: Sequence[Finding]) -> None:
    """Tell other programs the verdict: write the marker of this report, with the findings, and
    remove the others. A marker that is right already is not written again. If a file cannot be
    changed, all markers are removed as far as possible, because no verdict is better than a wrong
    one. Then the HostError is raised again.
    """
    marker, lines = _marker_of(report, findings)
    text = "\n".join(map(printable, (*lines, "")))
    try:
        for path in HostLayout.markers:
            if path != marker:
                files.remove(path)
        former = None
        # If another user owns the folder, root may not be able to read what is there. Replace it.
        with suppress(HostError):
            former = files.read(marker)
        if former != text:
            files.write(marker, text)
    except HostError:
        remove_markers(files)
        raise


def _marker_of(report: CheckReport, findings: Sequence[Finding]) -> tuple[str, list[str]]:
    """The path of the marker for the verdict of this report, and its lines. If the verdict is ok,
    the lines are "ok" and all findings, without their names; if it is undecided, each family in
    doubt; if a default route is missing, just "no-default-route". If anything escapes, the lines
    are the findings about escapes and missing default routes (`WRONG`), each after its name
    (`line`).
    """
    verdict = report.verdict
    if verdict == "ok":
        return HostLayout.ok_path, ["ok", *map(str, findings)]
    if verdict == "no-default-route":
        return HostLayout.detected_path, ["no-default-route"]
    if verdict == "undecided":
        return HostLayout.undecided_path, [
            str(family) for family in report.families if family.verdict == "undecided"
        ]
    return HostLayout.detected_path, [each.line for each in findings if each.name in WRONG]


def remove_markers(files: Files) -> None:
    """Remove all markers (the files that tell other programs the verdict of the last check), as far
    as that is possible: without a verdict, an old one must not stay.
    """
    for path in HostLayout.markers:
        with suppress(HostError):
            files.remove(path)
