"""The maps of a group: each CIDR that escapes on one of its nodes, before and after the repair.

A map is not part of a result: only one node of a group needs it. So its snapshot is read and judged once more.

Here: maps as values. Not here: how they look (`page`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.errors import HostRoutingError
from hostrouting.examination import examine_snapshot
from hostrouting.fleet.judging import judge
from hostrouting.repaired import with_repair
from hostrouting.saved_snapshot import snapshot_bytes, snapshot_in
from hostrouting.segments import segments_of, strip_of, told_segments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.fleet.judging import Question
    from hostrouting.fleet.node import NodeResult
    from hostrouting.model import Prefix
    from hostrouting.segments import Segment, Strip

__all__ = ["CidrMap", "MapRow", "maps_of", "read_maps"]

_COLUMNS = 64  # of a map
_MAPS = 8  # CIDRs of one node that have a map


@attrs.frozen
class MapRow:
    """An expected CIDR on one host: to scale, and as a list."""

    name: str
    strip: Strip
    segments: tuple[Segment, ...]


@attrs.frozen
class CidrMap:
    """An expected CIDR: a row for the host as it is and, if there is a repair, one for the host after it."""

    cidr: Prefix
    rows: tuple[MapRow, ...]


def read_maps(result: NodeResult, question: Question) -> tuple[CidrMap, ...]:
    """The maps of this node; none if nothing escapes, or if its file is no longer what was judged."""
    if not result.escapes:
        return ()
    try:
        data = snapshot_bytes(result.path)
        return tuple(maps_of(data, question)) if judge(data, question).answer == result.answer else ()
    except HostRoutingError:
        return ()


def maps_of(data: bytes, question: Question) -> Iterator[CidrMap]:
    """The maps of the node with this snapshot: one for each CIDR with a finding, up to a few."""
    config = question.config
    found = examine_snapshot(snapshot_in(data), config, gateway=question.gateway)
    after = with_repair(found, protocol=config.protocol)
    hosts = [("now", found.fib)] + ([("repaired", after)] if after is not None else [])
    for family in found.families:
        report = family.report
        for cidr in list(dict.fromkeys(it.cidr for it in report.findings))[:_MAPS]:
            rows = []
            for name, fib in hosts:
                its = segments_of(fib, cidr, expected_devs=report.expected_devs, allowed_devs=report.allowed_devs)
                rows.append(MapRow(name, strip_of(cidr, its, _COLUMNS), told_segments(its)))
            yield CidrMap(cidr, tuple(rows))
