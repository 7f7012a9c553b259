"""`repair`: the fewest static routes that close what check finds, as commands or as a configuration for apply."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.check.report import repair_document
from hostrouting.cli.check import Check, make_check, repaired_config
from hostrouting.cli.command import FAILED, FINE, UNDECIDED, Command, Reply, question_of
from hostrouting.cli.commands.check import check_options
from hostrouting.cli.output import Line, line, named_lines, plain
from hostrouting.cli.source import config_of
from hostrouting.cli.terminal import remark
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import NotReady, RouteOverlapError
from hostrouting.text import counted

if TYPE_CHECKING:
    import argparse

    from hostrouting.host.host import Host

_ABOUT_REPAIR = ("unsafe", "repair-cost")


def _options(parser: argparse.ArgumentParser) -> None:
    check_options(parser)
    meaning = "print only a configuration that includes the repair: hostrouting apply --config - reads it"
    parser.add_argument("--as-config", action="store_true", help=meaning)
    meaning = "the mode of that configuration (default: that of the installed or the named one, or else WARN)"
    parser.add_argument("--mode", type=str.upper, choices=("WARN", "STRICT"), help=meaning)


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    check = make_check(arguments, host)
    report = check.report
    if report.verdict == "no-default-route":
        raise NotReady(f"{'; '.join(map(plain, check.answer_lines()))}; name the expected device: --dev DEV")
    if report.escapes and not report.routes:
        reasons = "; ".join(str(finding) for finding in check.findings if finding.name == "unsafe")
        of_pods = "only packets of pods escape, by rules that no route in table main changes"
        raise RouteOverlapError(f"there is no repair: {reasons or of_pods}", report=report)
    if arguments.as_config:
        return _as_config(check, arguments)
    return Reply(_code(check), lambda: _document(check), lambda: _page(check, arguments))


def _as_config(check: Check, arguments: argparse.Namespace) -> Reply:
    """The reply with only the configuration; what there is to know about it goes to standard error."""
    base = config_of(arguments) if arguments.config else check.installed or HostRoutingConfig()
    config, conflicts = repaired_config(check, base)
    if arguments.mode:
        config = attrs.evolve(config, route_overlap=attrs.evolve(config.route_overlap, mode=arguments.mode))
    for finding in check.findings:
        if finding.name in _ABOUT_REPAIR:
            remark(str(finding))
    for conflict in conflicts:
        remark(f"left out of the configuration: {conflict.sentence}")
    return Reply(_code(check), lambda: json.dumps(_written(config), indent=2))


def _written(config: HostRoutingConfig) -> dict[str, Any]:
    """The configuration without the sections that it leaves as they are by default."""
    usual = HostRoutingConfig().to_mapping()
    return {name: section for name, section in config.to_mapping().items() if section != usual.get(name)}


def _code(check: Check) -> int:
    if any(finding.name == "unsafe" for finding in check.findings):
        return FAILED
    return UNDECIDED if check.report.verdict == "undecided" else FINE


def _document(check: Check) -> dict[str, Any]:
    return {
        "schema": COMMAND.schema,
        "verdict": check.report.verdict,
        "routes": repair_document(check.report.routes),
        "commands": list(check.commands()),
        "findings": [finding.to_mapping() for finding in check.findings if finding.name in _ABOUT_REPAIR],
    }


def _page(check: Check, arguments: argparse.Namespace) -> Iterator[Line]:
    count = len(check.report.routes)
    yield from check.answer_lines()
    if not count:
        yield line("There is nothing to repair.")
        return
    verb = "repairs" if count == 1 else "repair"
    proof = "proved on the present tables"
    yield line(
        f"{counted(count, 'static route')} {verb} {'all of' if _code(check) != FAILED else 'a part of'} it, {proof}."
    )
    yield from check.repair_lines(question_of(arguments))
    yield from named_lines([finding for finding in check.findings if finding.name in _ABOUT_REPAIR])


COMMAND = Command(
    name="repair",
    answer=_answer,
    version=2,
    options=_options,
    more="""\
Exit code 1 means that no static route can repair some or all of the overlap; if there is no repair at all, nothing is
printed but the reason, on standard error. 3 means that the verdict is undecided. 0 means that the routes repair
everything, or that nothing was wrong.

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
