"""`repair`: the fewest static routes that close what check finds, what they cost and leave open; to paste."""

from __future__ import annotations

from hostrouting.cli.command import FAILED, FINE, UNDECIDED, Command, Reply
from hostrouting.cli.commands import check
from hostrouting.cli.page import Painted, counted, line
from hostrouting.cli.schemas import CHECK, ROUTE

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from typing import Any

    from hostrouting.cli.check import Check
    from hostrouting.cli.page import Line
    from hostrouting.host import Host

__all__ = ["COMMAND"]


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    from hostrouting.cli.check import make_check

    it = make_check(arguments, host)
    return Reply(_code(it), lambda: _document(it), lambda _style: _page(it, arguments))


def _code(it: Check) -> int:
    if it.found.repair.unsafe:
        return FAILED
    return UNDECIDED if it.found.verdict in {"undecided", "no-default-route"} else FINE


def _document(it: Check) -> dict[str, Any]:
    from hostrouting.cli.remedy import ip_commands
    from hostrouting.wording import diversion_line, repair_document, unsafe_line

    repair = it.found.repair
    return {
        "schema": COMMAND.schema,
        "verdict": it.found.verdict,
        "routes": repair_document(repair.routes),
        "commands": list(ip_commands(it)),
        "closes": "all" if not repair.unsafe else "some" if repair.routes else "none",
        "unsafe": [unsafe_line(unsafe) for unsafe in repair.unsafe],
        "diverted": [diversion_line(diversion) for diversion in repair.diverted],
    }


def _page(it: Check, arguments: argparse.Namespace) -> Iterator[Line]:
    from hostrouting.cli.remedy import remedy_lines

    repair, count = it.found.repair, len(it.found.repair.routes)
    if it.found.verdict != "overlap":
        yield it.answer_line()
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


COMMAND = Command(
    "repair",
    "the fewest static routes that close what check finds, to paste",
    answer=_answer,
    options=check.COMMAND.options,
    more="""\
Exit code 1 says that some of the overlap cannot be closed by any route of ours; 0 that nothing is left, or that
nothing was wrong.
""",
    failing="some of the overlap no route of ours can close",
    takes_snapshot=True,
    keys={
        "verdict": CHECK["verdict"],
        **{f"routes[].{key}": says for key, says in ROUTE.items()},
        "commands[]": "the same routes as commands for a shell",
        "closes": "all, some or none of what escapes",
        "unsafe[]": "what no static route can close; each a sentence",
        "diverted[]": "what the repair costs; each a sentence",
    },
)
