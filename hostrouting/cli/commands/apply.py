"""`apply`: make this host what a configuration asks for, now and at every boot.

Requires root. The file describes the whole installation: afterwards, this
host has what the file says, and nothing else of hostrouting. A file that
takes away protection, such as a CIDR or the mode STRICT, is refused without
--allow-removal. A running unit is not touched. In mode STRICT, the exit code
is 1 if an address escapes afterwards, or if a drop-in lets a gated unit
start unchecked, and 3 if there is no default route after --wait, or an
undecided verdict is to be refused; in mode WARN it is 0 then. In both modes,
it is 3 if a static route still waits for a default route or a device.

With --confirm, the earlier configuration is installed again if it fails, or
if nobody presses Enter in time.
"""

import argparse

import phases
from hostrouting.cli.confirming import is_confirmed, prepare_question
from hostrouting.cli.output import Page
from hostrouting.cli.running import TaskRun, outcome_of, run_task
from hostrouting.codes import PROBLEM
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.host import Host
from hostrouting.install.installed import read_installed
from hostrouting.status import find_status, status_lines
from hostrouting.tasks.configure import Configure

_TAKEN_BACK = "TAKEN BACK: what was installed before is installed again"


def run(arguments: argparse.Namespace, host: Host) -> Page:
    # Apply the configuration. With --confirm, ask whether to keep the changes, and undo them if the
    # answer is no, or if `apply` failed.
    config = HostRoutingConfig.load(arguments.config)
    task = Configure(config, host=host, wait=arguments.wait, allow_removal=arguments.allow_removal)
    if arguments.confirm is not None:
        # If the installed configuration cannot be read, it could not be brought back, so end here.
        read_installed(host)
        # From here on, Ctrl-C answers the question with no, and does not end the process.
        prepare_question()
    outcome = run_task(task, host)
    headline: list[str] = []
    if arguments.confirm is not None and outcome.effects.changed:
        # The question shows what was changed, below the line "DONE: for now".
        is_kept = outcome.report.ok and is_confirmed(arguments.confirm, outcome.lines("for now"))
        if not is_kept:
            undo = phases.undo(task)
            outcome = _with_undo(outcome, undo, host)
            headline = [_TAKEN_BACK if undo.ok else "NOT EVERYTHING IS TAKEN BACK:"]
    status = find_status(host)  # as the host is now: the page ends with it
    done = "this host matches the configuration"  # printed only if the run succeeded
    if status.wrong:  # something else is wrong on this host, such as a masked unit
        done = "the configuration is applied"
        if status.check is not None and status.check.report.escapes:
            done += ", but addresses escape"
    lines = outcome.lines(done, shown_below=status.findings)
    document = {
        "schema": "hostrouting/apply/1",
        **outcome.document(),
        "findings": [finding.to_mapping() for finding in status.findings],
    }
    return Page(outcome.code, document, [*headline, *lines, "", *status_lines(status)])


def _with_undo(outcome: TaskRun, undo: phases.Step, host: Host) -> TaskRun:
    """Join the run, which failed, was stopped or was not confirmed, and the undo that followed it.
    The result is a cancelled run with the failures and the changes of both, and the files as they
    are now.
    """
    run = outcome.report
    both = phases.Step(
        run.path,
        status=phases.Status.CANCELLED,
        failures=run.failures + undo.failures,
        reason="the change was not confirmed" if run.ok else run.reason,
        children=[run, undo],
    )
    # Keep the code of a run that did not succeed. An unconfirmed run has succeeded: its code is 0.
    return outcome_of(both, host)._replace(code=outcome.code or PROBLEM)
