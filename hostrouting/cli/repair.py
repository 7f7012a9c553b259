"""`repair`: the fewest static routes that close what check finds, what they cost and leave open; to paste."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostrouting.cli.changes import counted
from hostrouting.cli.check import answer_line
from hostrouting.cli.examined import examined
from hostrouting.cli.page import Line, Painted, line
from hostrouting.cli.remedy import ip_commands, remedy_lines
from hostrouting.cli.reply import FAILED, FINE, UNDECIDED, Reply
from hostrouting.wording import diversion_line, repair_document, unsafe_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from hostrouting.cli.examined import Examined
    from hostrouting.host import Host

__all__ = ["SCHEMA", "run"]

SCHEMA = "hostrouting/repair/1"


def run(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    """See the module."""
    it = examined(arguments, host)
    return Reply(_code(it), lambda: _document(it), lambda _style: _page(it, arguments))


def _code(it: Examined) -> int:
    if it.found.repair.unsafe:
        return FAILED
    return UNDECIDED if it.found.verdict in {"undecided", "no-default-route"} else FINE


def _document(it: Examined) -> dict[str, Any]:
    repair = it.found.repair
    return {
        "schema": SCHEMA,
        "verdict": it.found.verdict,
        "routes": repair_document(repair.routes),
        "commands": list(ip_commands(it)),
        "closes": "all" if not repair.unsafe else "some" if repair.routes else "none",
        "unsafe": [unsafe_line(unsafe) for unsafe in repair.unsafe],
        "diverted": [diversion_line(diversion) for diversion in repair.diverted],
    }


def _page(it: Examined, arguments: argparse.Namespace) -> Iterator[Line]:
    repair, count = it.found.repair, len(it.found.repair.routes)
    if it.found.verdict != "overlap":
        yield answer_line(it)
        yield line("There is nothing to repair." if it.found.verdict == "ok" else "No static route can be proposed.")
        return
    routes, s = counted(count, "static route"), "s" if count == 1 else ""
    if not count:
        yield line(Painted("NO REPAIR:", "bad"), " no static route of ours can close what escapes")
    elif repair.unsafe:
        yield line(
            Painted("PARTLY:", "warn"), f" {routes} close{s} what can be closed; what none can is told before them"
        )
    else:
        yield line(
            Painted("REPAIR:", "good"), f" {routes} lead{s} every address back, proved on the tables as they are now"
        )
    yield from remedy_lines(it, config=arguments.config or "", cidrs=arguments.cidrs, devs=arguments.devs)
