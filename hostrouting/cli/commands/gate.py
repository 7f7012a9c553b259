"""`gate`: let a gated unit start unchecked for a time (break glass), or end that."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hostrouting.boot.gate import Gate
from hostrouting.boot.gate_state import ALL, Opening, openings_in_force, render_openings
from hostrouting.cli.command import FINE, Command, Reply
from hostrouting.cli.output import Line, Painted, line
from hostrouting.errors import ConfigError, Fault
from hostrouting.text import spoken
from phases.text import moment_as_text

if TYPE_CHECKING:
    from hostrouting.host.host import Host

_SECONDS = {"m": 60, "h": 3600, "d": 86_400}
_LONGEST = 7 * 86_400
_LONGEST_REASON = 200


def _options(parser: argparse.ArgumentParser) -> None:
    act = parser.add_mutually_exclusive_group(required=True)
    meaning = "let it start for so long: a number with m, h or d, at most 7d"
    act.add_argument("--open-for", metavar="TIME", type=_seconds, help=meaning)
    act.add_argument("--close", action="store_true", help="end it now")
    parser.add_argument("--reason", metavar="TEXT", help="why; each start is logged with it")
    parser.add_argument("--unit", metavar="UNIT", default=ALL, help="only this gated unit (default: all)")


def _seconds(text: str) -> int:
    number, letter = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit() and letter in _SECONDS):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 30m, 2h or 1d")
    seconds = int(number[:6]) * _SECONDS[letter]
    if not 0 < seconds <= _LONGEST:
        raise argparse.ArgumentTypeError(f"{text} is not between 1m and 7d; for longer, change gate.units")
    return seconds


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    here, unit, now = host(), arguments.unit, datetime.now(timezone.utc)
    before = _in_force(here, now)
    # What is open for a unit that is not gated any more can be closed.
    closable = tuple(opening.unit for opening in before) if arguments.close else ()
    _require_gated((*Gate(here).gated, *closable), unit)
    openings = [opening for opening in before if unit not in {ALL, opening.unit}]
    if not arguments.close:
        who = (os.environ.get("SUDO_USER") or "root").replace(" ", "_")
        openings.append(Opening(int(now.timestamp()) + arguments.open_for, unit, who, _reason(arguments.reason)))
    if openings:
        here.files.write(here.layout.opening_path, render_openings(openings))
    else:
        here.files.remove(here.layout.opening_path)
    return Reply(FINE, lambda: _document(openings), lambda: _page(openings))


def _require_gated(gated: tuple[str, ...], unit: str) -> None:
    if not gated:
        raise ConfigError([Fault("the gate", "", "is not installed on this host, so it holds nothing back")])
    template = re.sub(r"@\S*\.service$", "@.service", unit)
    if unit != ALL and not {unit, template} & {*gated}:
        raise ConfigError([Fault("--unit", repr(unit), "is not gated here", f"gated: {spoken(gated)}")])


def _reason(text: str | None) -> str:
    reason = (text or "").strip()
    if not reason or len(reason) > _LONGEST_REASON or not reason.isprintable():
        remedy = f"write why, in one line of up to {_LONGEST_REASON} characters"
        raise ConfigError([Fault("--reason", repr(text or ""), "is not a reason in one line", remedy)])
    return reason


def _in_force(host: Host, now: datetime) -> tuple[Opening, ...]:
    """The openings that have not ended. A faulty file has none, and is overwritten."""
    try:
        return openings_in_force(host, now)
    except ValueError:
        return ()


def _page(openings: list[Opening]) -> Iterator[Line]:
    if not openings:
        yield line(Painted("CLOSED:", "good"), " each gated unit is checked before it starts")
    for opening in openings:
        yield line(Painted("OPEN:", "warn"), f" {opening.finding}")


def _document(openings: list[Opening]) -> dict[str, Any]:
    return {
        "schema": COMMAND.schema,
        "openings": [
            {
                "unit": opening.unit,
                "until": moment_as_text(datetime.fromtimestamp(opening.until, timezone.utc)),
                "who": opening.who,
                "why": opening.why,
            }
            for opening in openings
        ],
    }


COMMAND = Command(
    name="gate",
    answer=_answer,
    options=_options,
    more="""\
Requires root. Until the time ends, the unit starts whatever the routes are, also after a reboot. Each such start is
logged with who, why and until when; status and the guard's figures show it. The scripts still run, at the same time,
and repair what they can. The gate's refusal has a line of shell that does the same without this command.
""",
    examples="""\
# as root: let each gated unit start for two hours, whatever the routes are
hostrouting gate --open-for 2h --reason ticket-4711
# as root: end that
hostrouting gate --close
""",
    failing="the file that says so could not be written",
)
