"""`remove`: remove everything that hostrouting has installed, and nothing else, without being asked
twice.

Requires root. Running units are not touched. While other programs have scripts in
/etc/hostrouting/gate.d, which hold units back as well, nothing is removed, and the answer names the
scripts. The answer ends with the verdict on the CIDRs that were expected, as the host is then. With
--dry-run, it shows what would be removed, and exits with 1 if that is anything.
"""

import argparse
from collections.abc import Iterator
from contextlib import suppress

from hostrouting.cli.output import Answer
from hostrouting.cli.running import plan_lines, run_task, told_anyway
from hostrouting.codes import FINE, PROBLEM
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostRoutingError
from hostrouting.host.host import Host
from hostrouting.install.host_check import check_host
from hostrouting.install.installed import installed_or_none
from hostrouting.tasks.configure import Remove

ARGUMENTS = ("--dry-run",)
_NOTHING = "hostrouting has nothing installed on this host"


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    if arguments.dry_run:
        return _show(host)
    former = installed_or_none(host)
    outcome = run_task(Remove(host=host), host)
    lines = [*outcome.lines("nothing that hostrouting installed is left", _NOTHING)]
    document = {"schema": "hostrouting/remove/4", **outcome.document()}
    if not outcome.report.ok:
        lines.append("To see what is left: hostrouting status")
    elif former is not None and outcome.has_changed:
        with told_anyway(outcome):
            lines += _verdicts(former, host)
    return Answer(outcome.code, document, lines)


def _show(host: Host) -> Answer:
    plan = Remove(host=host).plan()
    if plan.would_fail:
        code, answer = PROBLEM, "WOULD FAIL: for the reasons below"
    elif plan.is_empty:
        code, answer = FINE, f"NOTHING TO DO: {_NOTHING}"
    else:
        code, answer = PROBLEM, "TO DO: as root: hostrouting remove"
    document = {"schema": "hostrouting/remove/4", "ok": not plan.would_fail, "changed": False}
    return Answer(code, document | plan.to_mapping(), [answer, *plan_lines(plan)])


def _verdicts(former: HostRoutingConfig, host: Host) -> Iterator[str]:
    """The verdict on what was expected, without what was removed."""
    if not former.route_overlap.cidrs or host.backend is None:
        return
    with suppress(HostRoutingError):  # whatever it is, the removal has succeeded
        report = check_host(former, host).report
        yield ""
        yield "The verdict now:"
        yield from map(str, report.families)
