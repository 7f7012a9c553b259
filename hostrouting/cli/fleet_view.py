"""The check of many nodes as lines: how many nodes have which problem, and what repairs it.

Here: the table, and what an operator needs to go on. Not here: the groups (`fleet.grouping`).
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from hostrouting.cli.check import LIMITS, lasting_line
from hostrouting.cli.page import SHOWN, Painted, capped, counted, line, spoken, table
from hostrouting.cli.remedy import correction_lines, route_lines
from hostrouting.fleet.grouping import common_correction, own_file_reason, tally_verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.cli.page import Line, Piece, Tone
    from hostrouting.config import HostRoutingConfig
    from hostrouting.correction import Correction
    from hostrouting.fleet import NodeGroup

__all__ = ["fleet_lines"]

_CUT = 60  # characters of a problem in the table; all of it is below
_TONES: dict[str | None, Tone] = {"ok": "good", "overlap": "bad"}
_NAMES = 6  # nodes of a group that are named


def fleet_lines(groups: Sequence[NodeGroup], config: HostRoutingConfig, *, name: str, question: str) -> Iterator[Line]:
    """The page of lines.

    `name` is the file of the configuration, if there is one; `question` are the arguments that ask another check the
    same.
    """
    counts = tally_verdicts(groups)
    told = [Painted(f"{count:,} {verdict}", _TONES.get(verdict, "warn")) for verdict, count in counts.items()]
    pieces = [piece for it in told for piece in (", ", it)]
    yield line(Painted(counted(sum(counts.values()), "node"), "strong"), ": ", *pieces[1:])
    if any(it.verdict != "ok" for it in groups):
        yield line()
        rows = [_row(it) for it in groups[:SHOWN]]
        yield from capped(table(("  nodes", "verdict", "problem", "repair"), rows, indent=""), len(groups))
    common = common_correction(groups)
    for it in groups[:SHOWN]:
        if it.verdict != "ok":
            yield line()
            yield from _group_lines(it, common, config, name=name, question=question)
    yield line()
    yield line(Painted(LIMITS, "soft"))
    yield lasting_line("each node")


def _row(group: NodeGroup) -> Sequence[Piece]:
    problem = group.problem if len(group.problem) <= _CUT else f"{group.problem[: _CUT - 1]}…"
    verdict = Painted(group.verdict_words, _TONES.get(group.verdict, "warn"))
    return f"{len(group.nodes):>7,}", verdict, problem, group.repair_words


def _group_lines(
    group: NodeGroup, common: Correction | None, config: HostRoutingConfig, *, name: str, question: str
) -> Iterator[Line]:
    yield line(Painted(counted(len(group.nodes), "node"), "strong"), ": ", group.problem or group.verdict_words)
    yield line("  ", Painted(spoken(group.nodes, most=_NAMES), "soft"))
    which = "One repair for all" if len(group.nodes) > 1 else "A repair"
    correction, example = group.correction, group.example
    again, into = "check", ""
    if correction is None:
        again = "repair" if group.verdict == "overlap" else again
        if group.is_repairable:
            yield line("  Each of these nodes needs a configuration of its own. This writes one of them:")
            into = _own_file(group)
    elif not correction.is_needed:
        yield line(f"  {which}: {name} has its routes. On each node, as root: hostrouting apply --config {name}")
    elif name and correction != common:
        many = len(group.nodes) > 1
        these, their = ("These nodes need", "their") if many else ("This node needs", "its")
        why, also = own_file_reason(correction, many=many), ", for all of them" if many else ""
        yield line(f"  {these} a configuration of {their} own: {why}. This writes it{also}:")
        again, into = "repair", _own_file(group)
    else:
        yield line(f"  {which}: add this to staticRoutes.routes of {name or 'the configuration of each node'}:")
        yield from route_lines(correction.add)
        yield from (line("  ", *it) for it in (correction_lines(correction, config, name) if name else ()))
    words = f"hostrouting {again} --snapshot {shlex.quote(example.path)} {question}".rstrip()
    yield line(f"  For {example.name}: {words}{into}")


def _own_file(group: NodeGroup) -> str:
    """The end of a command that writes a configuration for the nodes of a group, and never over a snapshot."""
    name = os.path.basename(group.example.name)
    beside = not os.path.dirname(os.path.normpath(group.example.path))
    return f" --as-config > {shlex.quote(f'config-{name}.json' if beside else f'{name}.json')}"
