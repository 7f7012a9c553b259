"""`remove`: remove everything that hostrouting has installed, and nothing else, without being asked
twice.

All routes of protocol 213 go, also those that somebody has typed. Requires root. Running units are
not touched. While other programs have scripts in /etc/hostrouting/gate.d, which hold units back as
well, nothing is removed, and the answer names the scripts. The answer ends with the verdict on the
CIDRs that were expected, as the host is then: what escapes is no failure. With --dry-run, it shows
what would be removed, with this verdict, and exits with 1 if that is anything.
"""

import argparse
from collections.abc import Iterable, Iterator
from contextlib import suppress

import attrs

from hostrouting.boot.on_disk import gated_on_disk
from hostrouting.check.check import check_snapshot
from hostrouting.check.results import CheckReport
from hostrouting.cli.output import Answer
from hostrouting.cli.plan import plan_lines
from hostrouting.cli.running import run_task, said_anyway
from hostrouting.cli.source import as_whom
from hostrouting.codes import FINE, PROBLEM
from hostrouting.command import Command, LineToType, Operator, call
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostRoutingError
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.install.installed import installed_or_none
from hostrouting.install.plan import Plan
from hostrouting.routes.steps import RoutePlan
from hostrouting.tasks.configure import Remove
from hostrouting.text import command_of, spoken

ARGUMENTS = ("--dry-run",)
_NOTHING = "hostrouting has nothing installed on this host"


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    former = installed_or_none(host) or HostRoutingConfig()  # a broken file hinders no removal
    who = as_whom(arguments)
    if arguments.dry_run:
        return _show(former, host, who)
    outcome = run_task(Remove(host=host), host)
    lines = [*outcome.lines(who, "nothing that hostrouting installed is left", _NOTHING)]
    if not outcome.report.ok:
        lines.append(LineToType("To see what is left: ", who.line(call("status"))))
    else:
        with said_anyway(outcome, who):
            report = _judge(former, host, RoutePlan())
        lines += _verdict_lines("The verdict now:", report)
        if report is not None and report.escapes:
            command = _check_command(report, former.route_overlap.expected_devs)
            lines.append(LineToType("To see what repairs that: ", who.line(command)))
    document = {"schema": "hostrouting/remove/4", **outcome.document()}
    return Answer(outcome.code, document, lines)


def _show(former: HostRoutingConfig, host: Host, who: Operator) -> Answer:
    """What would be removed, and the verdict on the host as it would be."""
    plan = _plan(former, host)
    lines = [*plan_lines(plan, plan.findings, who)]
    if plan.would_fail:
        code, answer = PROBLEM, "WOULD FAIL: for the reasons below"
    elif plan.is_empty:
        code, answer = FINE, f"NOTHING TO DO: {_NOTHING}"
    else:
        code, answer = PROBLEM, LineToType(f"TO DO: {who}: ", who.line(call("remove")))
        units = gated_on_disk(host.files)
        if units:
            lines.append(f"Then nothing holds back {spoken(units)}.")
        if HostLayout.config_path in plan.files.removes:  # else the file is missing
            lines.append(f"To be able to go back, copy {HostLayout.config_path} first.")
        lines += _verdict_lines("The verdict afterwards:", plan.report)
    document = {"schema": "hostrouting/remove/4", "ok": not plan.would_fail, "changed": False}
    return Answer(code, document | plan.to_mapping(), [answer, *lines])


def _plan(former: HostRoutingConfig, host: Host) -> Plan:
    plan = Remove(host=host).plan()
    return attrs.evolve(plan, report=_judge(former, host, plan.routes))


def _judge(former: HostRoutingConfig, host: Host, removal: RoutePlan) -> CheckReport | None:
    """The check of what was expected, once these routes are removed; None if nothing was."""
    with suppress(HostRoutingError):  # whatever it is, it does not hinder the removal
        return check_snapshot(removal.apply_to(host.take_snapshot()), former)
    return None


def _check_command(report: CheckReport, devs: Iterable[str]) -> Command:
    """The command that checks what escapes. It names the devices that were expected: the installed
    configuration, which had them, is gone.
    """
    words = list(dict.fromkeys(str(escape.cidr) for escape in report.escapes))
    for dev in devs:
        words += ["--dev", dev]
    return call(command_of("check", *words))


def _verdict_lines(heading: str, report: CheckReport | None) -> Iterator[str]:
    if report is None:
        return
    yield ""
    yield heading
    yield from map(str, report.families)
