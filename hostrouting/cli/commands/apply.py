"""`apply`: make this host what a configuration asks for, now and at every boot.

Requires root. The file describes the whole installation: afterwards, this host has what the file
says, and nothing else of hostrouting. A file that takes away a CIDR, the mode STRICT, a gated unit
or the guard is refused without --allow-removal. So is, in mode STRICT, a change of routes after
which addresses escape that do not escape now. A running unit is not touched. If an address escapes
afterwards, or a drop-in lets a gated unit start unchecked, the exit code is 1 in
mode STRICT, and 0 in mode WARN. It is 3 if a default route or a device is still missing after
--wait.

With --confirm, the earlier configuration is installed again if it fails, if nobody presses Enter in
time, after a signal, or when the terminal is closed; the journal then says so (journalctl -t
hostrouting). Only kill -9 leaves the change in place. With --confirm-if, a command decides instead
of an operator.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import attrs

import phases
from hostrouting.cli.confirming import AwaitEnter, AwaitSuccess, controlling_terminal, log
from hostrouting.cli.output import Answer
from hostrouting.cli.running import Run, change_lines, run_task, said_anyway
from hostrouting.cli.source import as_whom, bad_input, read_config
from hostrouting.codes import FINE, PROBLEM
from hostrouting.command import Operator
from hostrouting.gate.unit_gates import starts_unchecked
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.install.installed import installed_or_none
from hostrouting.status import Status, find_status, status_lines
from hostrouting.tasks.configure import Configure

ARGUMENTS = ("--config", "--wait", "--allow-removal", "--gate", "--confirm", "--confirm-if")
REQUIRED = ("--config",)


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config = read_config(arguments.config, arguments.gate)
    task = Configure(config, host=host, wait=arguments.wait, allow_removal=arguments.allow_removal)
    who = as_whom(arguments)
    if arguments.confirm is None and arguments.confirm_if is None:
        outcome = run_task(task, host)
    else:
        outcome = _run_confirmed(task, host, arguments, who)
    document = {"schema": "hostrouting/apply/4", **outcome.document()}
    if outcome.is_taken_back:
        return Answer(outcome.code, document, outcome.lines(who))
    with said_anyway(outcome, who):
        status = _without_old_reasons(find_status(host))
    document["findings"] = [finding.to_mapping() for finding in status.findings]
    document["check"] = status.check and status.check.document()
    code = outcome.code
    if code == FINE and starts_unchecked(config, status.findings):
        code = PROBLEM
    return Answer(code, document, [*_lines(outcome, status, who)])


def _lines(outcome: Run, status: Status, who: Operator) -> Iterator[str]:
    """What the run has done, and how the host is now, as status says it; but not again what the
    run has failed for.
    """
    headline, *page = status_lines(status, who)
    said = [*outcome.lines(who, _success(status))]
    yield from said
    causes = {cause.sentence for cause in status.causes}
    if outcome.report.ok:
        is_new = bool(causes) and outcome.effects.changed
    else:
        is_new = not causes or not causes.issubset(outcome.reasons)
    if is_new:
        yield headline  # what to do about it follows
    for line in page:
        if not line or line not in said:
            yield line


def _without_old_reasons(status: Status) -> Status:
    """The status after a run: why a start was refused before it, with what was to be typed then, is
    over, or is a finding.
    """
    units = [unit._replace(reasons=()) for unit in status.units]
    return attrs.evolve(status, units=tuple(units))


def _success(status: Status) -> str:
    """What is true after a run without a failure, and what is wrong all the same."""
    sentence = "this host matches the configuration"
    if not status.causes:
        return sentence
    return f"{sentence}; what remains: {status.sentence}"


def _run_confirmed(
    task: Configure, host: Host, arguments: argparse.Namespace, who: Operator
) -> Run:
    """Apply, and install what was installed before again unless that is confirmed."""
    if installed_or_none(host) is None:
        rule = "is unusable, so it could not be installed again"
        remedy = "repair it first, or leave --confirm and --confirm-if out"
        raise bad_input(HostLayout.config_path, rule, remedy)
    with _confirmation(arguments, host) as confirmation:
        if_changed = phases.when(
            lambda ctx: any(change_lines(host, ctx)), confirmation, reason="nothing was changed"
        )
        confirmed = phases.serial(task, if_changed, name="apply")
        outcome = run_task(confirmed, host, undo_on_failure=True)
    if outcome.undone is not None and outcome.effects.changed:
        log(outcome.lines(who))  # perhaps nobody is there to read the answer
    return outcome


@contextmanager
def _confirmation(arguments: argparse.Namespace, host: Host) -> Iterator[phases.AnyTask]:
    """The task that succeeds if the change is to be kept."""
    seconds = 60.0 if arguments.confirm is None else arguments.confirm
    command = arguments.confirm_if
    if command is None:
        with controlling_terminal() as terminal:
            yield AwaitEnter(terminal, seconds, partial(change_lines, host))
    elif command.strip():
        yield AwaitSuccess(command, seconds)
    else:
        raise bad_input("--confirm-if", "is empty, and would always succeed", "give a command")
