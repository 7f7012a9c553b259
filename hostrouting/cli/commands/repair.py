"""`repair`: the fewest static routes that close what check finds, ready to paste; their cost, and what stays open."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hostrouting.check.report import repair_document, unsafe_findings
from hostrouting.cli.check import Check, make_check
from hostrouting.cli.command import FAILED, FINE, UNDECIDED, Command, Reply
from hostrouting.cli.commands import check
from hostrouting.cli.output import Line, Painted, line, named_lines, plain
from hostrouting.cli.remedy import ip_commands, remedy_lines, repaired_configuration, warning_lines
from hostrouting.cli.terminal import remark
from hostrouting.errors import NotReady, RouteOverlapError
from hostrouting.text import counted

if TYPE_CHECKING:
    import argparse

    from hostrouting.host.host import Host


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:

    check = make_check(arguments, host)
    if arguments.as_config:
        return _as_config(check, arguments)
    return Reply(_code(check), lambda: _document(check), lambda: _page(check, arguments))


def _as_config(check: Check, arguments: argparse.Namespace) -> Reply:
    """The reply with only the configuration; warnings about it go to standard error."""
    if check.found.verdict == "no-default-route":
        sentence = "; ".join(map(plain, check.answer_lines()))
        raise NotReady(f"{sentence}; name the expected device: --dev DEV")
    for text in warning_lines(check):
        remark(text)
    if check.found.unsafe and not check.found.routes:
        raise RouteOverlapError("no static route can repair the escapes", report=check.found)
    named = arguments.loaded if arguments.config else None
    return Reply(_code(check), lambda: json.dumps(repaired_configuration(check, named, mode=arguments.mode), indent=2))


def _options(parser: argparse.ArgumentParser) -> None:
    check.check_options(parser)
    meaning = "print only a configuration that includes the repair: hostrouting apply --config - reads it"
    parser.add_argument("--as-config", action="store_true", help=meaning)
    meaning = "the mode of that configuration (default: that of the installed or the named one, or else WARN)"
    parser.add_argument("--mode", type=str.upper, choices=("WARN", "STRICT"), help=meaning)


def _code(check: Check) -> int:
    if check.found.unsafe:
        return FAILED
    return UNDECIDED if check.open_verdicts else FINE


def _closes(check: Check) -> str:
    """Which of the escapes are repaired by the routes."""
    found = check.found
    if found.routes and (found.unsafe or check.open_verdicts):
        return "some"
    return "none" if found.unsafe else "all"


def _document(check: Check) -> dict[str, Any]:

    found = check.found
    findings = (*unsafe_findings(found.unsafe), *found.costs, *check.flaws)
    return {
        "schema": COMMAND.schema,
        "verdict": check.found.verdict,
        "routes": repair_document(found.routes),
        "commands": list(ip_commands(check)),
        "closes": _closes(check),
        "findings": [finding.to_mapping() for finding in findings],
    }


def _page(proposed: Check, arguments: argparse.Namespace) -> Iterator[Line]:

    count = len(proposed.found.routes)
    if proposed.found.verdict != "overlap":
        yield from proposed.answer_lines()
        yield line(
            "There is nothing to repair." if proposed.found.verdict == "ok" else "No static route can be proposed."
        )
        if proposed.found.verdict == "no-default-route":
            yield from proposed.limit_lines(advice=check.ADVICE)
        yield from named_lines(proposed.flaws)
        return
    routes, s = counted(count, "static route"), "s" if count == 1 else ""
    if not count:
        yield line(Painted("NO REPAIR:", "bad"), " no static route can repair the escapes")
    elif proposed.found.unsafe:
        yield line(Painted("PARTLY:", "warn"), f" {routes} repair{s} what can be repaired; the rest is listed first")
    else:
        still = {verdict for verdict, _ in proposed.open_verdicts}
        which = "every" + " known" * ("no-default-route" in still)
        which += " escape" + " of plain packets" * ("undecided" in still)
        yield line(Painted("REPAIR:", "good"), f" {routes} repair{s} {which}; this was proved on the present tables")
    yield from (told for _, told in proposed.open_verdicts)
    yield from named_lines(proposed.flaws)
    yield from remedy_lines(
        proposed, config=arguments.config or "", cidrs=arguments.cidrs, devs=arguments.devs, mode=arguments.mode
    )


COMMAND = Command(
    name="repair",
    answer=_answer,
    version=2,
    options=_options,
    more="""\
Exit code 1 means that no static route can repair some of the overlap. 3 means that the verdict is undecided or
no-default-route once the routes are in place. 0 means that the routes repair everything, or that nothing was wrong.

The result of --as-config includes the installed configuration, or the named one; the cost of the repair is
written to standard error. Its routes name no gateway, and without --dev no device, if those of the default route are
right. So it can be applied on other nodes with the same problem.
""",
    examples="""\
# which routes repair it, and what do they cost?
hostrouting repair 172.16.0.0/16
# as root: repair it now, and at every boot
hostrouting repair 172.16.0.0/16 --as-config | hostrouting apply --config -
# a file with it: once applied, no gated unit starts while an address escapes
hostrouting repair 172.16.0.0/16 --as-config --mode STRICT > new.json
""",
    failing="no static route can repair some of the overlap",
    takes_snapshot=True,
)
