"""What is wrong with the gate of the installed configuration, beside files that are not as `apply`
would write them: what makes it refuse every start, and what lets units start unchecked.

Nothing is changed here; `install` repairs the gate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from hostrouting.boot.program import Program
from hostrouting.errors import HostError
from hostrouting.finding import Finding, worst_first
from hostrouting.gate.trusted import find_untrusted
from hostrouting.gate.unit_gates import APPLY, judge_gates
from hostrouting.host.interpreter import TO_INSTALL
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from hostrouting.host.host import Host


def find_faults(
    host: Host, units: Sequence[str], faults: Iterable[Finding] = ()
) -> tuple[Finding, ...]:
    """What is wrong with the gate of these units. With faults of config.json, it lets none of them
    pass.
    """
    shutting = [*faults]
    if units:
        try:
            shutting += find_untrusted(host.files)
            shutting += _unusable_program(host)
        except HostError:  # this user may not look into our folders
            shutting = [*faults]
    gates = judge_gates(host, units)
    if gates.held:
        shutting = [finding._replace(name="gate-shut") for finding in shutting]
    return worst_first((*shutting, *gates.findings))


def _unusable_program(host: Host) -> Iterator[Finding]:
    """A finding if the program cannot be run as the gate runs it."""
    if host.is_image:  # its interpreter does not run here
        return
    reason = host.interpreter.why_not_run()
    if reason:
        sentence = f"{HostLayout.python_path} cannot run {HostLayout.program_path}: {reason}"
        # `apply` does not write a program again that is as it should be.
        remedy = APPLY if Program().differs(host.files) else TO_INSTALL
        yield Finding("file", "error", sentence, HostLayout.program_path, remedy)
