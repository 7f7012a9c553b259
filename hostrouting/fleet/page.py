"""The check of many nodes as a page to look at: one HTML file that needs nothing else.

Here: what is in the page, and the maps of its groups: each CIDR that escapes on one node of a group, before and after
the repair. Not here: its layout and its script (`assets/page.html`), and the groups (`grouping`).

The page allows only its own script, by its hash, and no connection at all. Whatever is put into an element is text,
unless it was made here: no value can become markup. A map is not part of a result, because only one node of a group
needs it. So the snapshot of that node is read and judged once more.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.check.examine import Correction, examine_snapshot, with_repair
from hostrouting.check.report import deletion_lines, repair_document
from hostrouting.check.segments import JUDGEMENTS, Segment, listed_segments, segments_of, strip_of
from hostrouting.errors import HostRoutingError
from hostrouting.finding import ESCAPES
from hostrouting.fleet.grouping import (
    NodeGroup,
    common_correction,
    needs_own_file,
    own_file_reason,
    repair_words,
    tally_verdicts,
)
from hostrouting.fleet.judge import NodeResult, Question, judge
from hostrouting.host.saved import snapshot_bytes, snapshot_in
from hostrouting.model.prefix import Prefix, extent, ip_at
from hostrouting.release import __version__
from hostrouting.text import counted, spoken
from phases.text import escaped, moment_as_text

if TYPE_CHECKING:
    from datetime import datetime

_PROBLEMS = 100  # groups that have a section of their own; the others are in the tables only
_NAMES = 12  # nodes that a section names at once
_RANGES = 8  # ranges of a map in words
_NOTES = 20
_SHOWN_ELSEWHERE = (*ESCAPES, "action", "unsafe")


def read_page(groups: Sequence[NodeGroup], question: Question, *, moment: datetime) -> str:
    """The page about these groups, made at this moment. Reads the snapshot of one node of each group, for its maps."""
    maps = [read_maps(group.example, question) if group.verdict == "overlap" else () for group in groups[:_PROBLEMS]]
    return render_page(groups, maps, question, moment=moment)


def render_page(
    groups: Sequence[NodeGroup], maps: Sequence[Sequence[CidrMap]], question: Question, *, moment: datetime
) -> str:
    """The text of the page; `maps` are those of the first groups."""
    check = question.config.route_overlap
    counts = tally_verdicts(groups)
    nodes = counted(sum(counts.values()), "node")
    cidrs = spoken([str(cidr) for cidr in check.expected_cidrs], most=20)
    devs = spoken(check.expected_devs, last="or") or "the device of its default route"
    told = groups[:_PROBLEMS]
    places = {group: f"problem-{number}" for number, group in enumerate(told, start=1) if group.verdict != "ok"}
    common = common_correction(groups)
    sections = [
        _section(group, group_maps, places[group], common, is_whole=question.is_whole)
        for group, group_maps in zip(told, maps, strict=True)
        if group in places
    ]
    return fill(
        _template(),
        {
            "title": f"The routing of {nodes}",
            "subtitle": f"On each node, every address of {cidrs} is expected to leave by {devs}.",
            "summary": f"{nodes}: {', '.join(f'{count:,} {verdict}' for verdict, count in counts.items())}",
            "groups": joined(
                _group_row(group, places.get(group, ""), repair_words(group, common, has_file=question.is_whole))
                for group in groups
            ),
            "problems": joined(sections),
            "verdicts": joined(element("option", verdict) for verdict in counts),
            "nodes": joined(row for group in groups for row in _node_rows(group, places.get(group, ""))),
            "version": __version__,
            "moment": element("time", f"{moment:%Y-%m-%d %H:%M} UTC", datetime=moment_as_text(moment)),
            "script-hash": _script_hash(),
        },
    )


def _verdict_cell(group: NodeGroup) -> Markup:
    return element("td", group.verdict_words, class_=f"verdict {group.verdict or ''}")


def _linked(words: str, place: str) -> str:
    return element("a", words, href=f"#{place}") if place else words


def _group_row(group: NodeGroup, place: str, repair: str) -> Markup:
    return element(
        "tr",
        element("td", f"{len(group.nodes):,}", class_="number"),
        _verdict_cell(group),
        element("td", _linked(group.problem, place), class_="problem"),
        element("td", repair, class_="repair"),
    )


def _node_rows(group: NodeGroup, place: str) -> Iterator[Markup]:
    verdict, problem = _verdict_cell(group), element("td", _linked(group.problem, place), class_="problem")
    return (element("tr", element("th", name, scope="row"), verdict, problem) for name in group.nodes)


def _section(
    group: NodeGroup, maps: Sequence[CidrMap], place: str, common: Correction | None, *, is_whole: bool
) -> Markup:
    """The section about one problem."""
    heading = f"{counted(len(group.nodes), 'node')}: {group.problem}"
    pieces = [
        element("h2", heading, id=place, tabindex="-1"),
        _names(group.nodes),
        *(_map(cidr_map, group.example.name) for cidr_map in maps),
        *_repair(group, common, is_whole=is_whole),
        *_notes(group),
    ]
    return element("section", joined(pieces), aria_labelledby=place)


def _names(nodes: Sequence[str]) -> Markup:
    every = element("p", spoken(nodes, most=len(nodes)), class_="names")
    if len(nodes) <= _NAMES:
        return every
    return element("details", element("summary", spoken(nodes, most=3)), every)


def _repair(group: NodeGroup, common: Correction | None, *, is_whole: bool) -> Iterator[Markup]:
    if words := repair_words(group, common, has_file=is_whole):
        yield element("h3", f"{words[0].upper()}{words[1:]}")
    correction = group.correction
    if correction is None:
        return
    if not correction.is_needed:
        yield element("p", "The configuration has its routes: apply it on each node.")
    elif is_whole and needs_own_file(group, common):
        many = len(group.nodes) > 1
        who = "These nodes need a configuration of their own" if many else "This node needs a configuration of its own"
        yield element("p", f"{who}: {own_file_reason(correction, many=many)}.")
    if correction.add:
        yield element("p", "Add this to ", element("code", "staticRoutes.routes"), " of the configuration:")
        routes = joined(map(json.dumps, repair_document(correction.add)), between=",\n")
        yield element("pre", routes, tabindex="0")
    for text in deletion_lines(correction.replaced, correction.contested, "the configuration"):
        yield element("p", text)


def _notes(group: NodeGroup) -> Iterator[Markup]:
    told = [finding for finding in group.example.findings if finding["name"] not in _SHOWN_ELSEWHERE]
    if notes := ["; ".join(filter(None, (finding["sentence"], finding["remedy"]))) for finding in told]:
        more = [f"and {len(notes) - _NOTES:,} more"] if len(notes) > _NOTES else []
        yield element("h3", f"Notes on {group.example.name}")
        yield element("ul", *(element("li", note) for note in [*notes[:_NOTES], *more]))


def _map(cidr_map: CidrMap, node: str) -> Markup:
    cidr = cidr_map.cidr
    ends = (element("span", str(ip_at(cidr.family, end))) for end in (cidr.first, cidr.last))
    axis = element("div", *ends, class_="axis", aria_hidden="true")
    rows: list[Markup] = []
    for name, segments in cidr_map.hosts.items():
        bar = _bar(strip_of(cidr, segments, _COLUMNS))
        cell = element("td", *([] if rows else [axis]), bar, _ranges(cidr, segments))
        rows.append(element("tr", element("th", name, scope="row"), cell))
    return element("table", element("caption", f"{cidr} on {node}"), element("tbody", *rows), class_="map")


def _bar(strip: Sequence[tuple[Segment, int]]) -> Markup:
    """A picture of the ranges to scale; the text below says the same."""
    runs = [
        element(
            "span",
            segment.label if columns > len(segment.label) else "",
            class_=segment.judgement,
            style=f"flex:{columns}",
        )
        for segment, columns in strip
    ]
    return element("div", *runs, class_="bar", aria_hidden="true")


def _ranges(cidr: Prefix, segments: Sequence[Segment]) -> Markup:
    listed = listed_segments(segments)
    more = len(listed) - _RANGES
    told = [element("li", *_range(cidr, segment)) for segment in listed[:_RANGES]]
    told += [element("li", f"and {counted(more, 'more range')}")] if more > 0 else []
    return element("ul", *told, class_="ranges")


def _range(cidr: Prefix, segment: Segment) -> Iterator[str]:
    yield f"{extent(cidr.family, segment.first, segment.last)}: "
    if segment.judgement != "own":
        yield f"{segment.label}, "
    says = JUDGEMENTS[segment.judgement]
    yield element("b", says) if segment.judgement == "escape" else says


@cache
def _template() -> str:
    loader: Any = __spec__.loader  # which reads from a folder or, for hostrouting.pyz, from an archive
    text: str = loader.get_data(str(Path(__file__).parent / "assets" / "page.html")).decode()
    return text


def _script_hash() -> str:
    """The hash of the page's own script: only a script with this hash may run."""
    script = _template().partition("<script>")[2].partition("</script>")[0]
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


# The maps of a group.

_COLUMNS = 64  # of a map
_MAPS = 8  # CIDRs of one node that have a map


@attrs.frozen
class CidrMap:
    """An expected CIDR as segments: on the host now, and after the repair if there is one."""

    cidr: Prefix
    hosts: Mapping[str, Sequence[Segment]]


def read_maps(result: NodeResult, question: Question) -> tuple[CidrMap, ...]:
    """The maps of this node; none if nothing escapes, or if its file has changed since it was judged."""
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
        for cidr in list(dict.fromkeys(finding.cidr for finding in report.escapes))[:_MAPS]:
            segments = {
                name: segments_of(fib, cidr, expected_devs=report.expected_devs, allowed_devs=report.allowed_devs)
                for name, fib in hosts
            }
            yield CidrMap(cidr, segments)


# Elements of HTML.

_MARK = re.compile(r"\{\{([a-z-]+)\}\}")


class Markup(str):
    """Text that is markup, made by this module."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str) -> Markup:
    """An element with these children, escaped unless they are Markup; `class_` and `aria_label` are attributes, too."""
    sentence = "".join(f' {key.rstrip("_").replace("_", "-")}="{_as_text(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{sentence}>{joined(children, between='')}</{name}>")


def joined(pieces: Iterable[str], *, between: str = "\n") -> Markup:
    """The pieces one after the other; a piece that is not Markup is escaped."""
    return Markup(between.join(piece if isinstance(piece, Markup) else _as_text(piece) for piece in pieces))


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with a value for each mark, such as {{title}}. Marks inside values stay."""
    return _MARK.sub(lambda found: joined([values[found[1]]]), template)


def _as_text(value: str) -> str:
    """The value as text, also inside quotes; a character that is not printable is shown as an escape."""
    return html.escape(escaped(value), quote=True)
