"""The check of many nodes as lines: how many nodes have which problem, and what repairs it.

Here: the table, and what an operator needs to go on. Not here: the groups (`fleet.grouping`).
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from hostrouting.cli.page import SHOWN, Painted, capped, counted, line, spoken, table
from hostrouting.cli.remedy import route_lines
from hostrouting.configured_routes import wanted_routes
from hostrouting.fleet.grouping import tally_verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.cli.page import Line, Piece, Tone
    from hostrouting.config import HostRoutingConfig
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
    for it in groups[:SHOWN]:
        if it.verdict != "ok":
            yield line()
            yield from _group_lines(it, config, name=name, question=question)
    yield line()
    yield line(Painted("Only routing tables and rules are checked, not firewalls, IPsec or eBPF programs.", "soft"))


def _row(group: NodeGroup) -> Sequence[Piece]:
    problem = group.problem if len(group.problem) <= _CUT else f"{group.problem[: _CUT - 1]}…"
    verdict = Painted(group.verdict_words, _TONES.get(group.verdict, "warn"))
    return f"{len(group.nodes):>7,}", verdict, problem, group.repair_words


def _group_lines(group: NodeGroup, config: HostRoutingConfig, *, name: str, question: str) -> Iterator[Line]:
    many = counted(len(group.nodes), "node")
    yield line(Painted(many, "strong"), ": ", group.problem or group.verdict_words)
    yield line("  ", Painted(spoken(group.nodes, most=_NAMES), "soft"))
    if group.repair:
        which = "One repair for all" if len(group.nodes) > 1 else "A repair"
        if set(group.repair) <= set(wanted_routes(config)):
            yield line(f"  {which}: {name} has its routes. On each node, as root: hostrouting apply --config {name}")
        else:
            yield line(f"  {which}: add this to staticRoutes.routes of {name or 'the configuration of each node'}:")
            yield from route_lines(group.repair)
    again = "repair" if group.verdict == "overlap" and not group.repair else "check"
    words = f"hostrouting {again} --snapshot {shlex.quote(group.example.path)} {question}"
    yield line(f"  For {group.example.name}: {words.rstrip()}")
