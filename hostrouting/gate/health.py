"""What is wrong with the gate of the installed configuration: what makes it refuse every start (the
gate is shut), and what lets units start unchecked (the gate is open). Files that differ from those
that `apply` would write are found elsewhere (`install`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
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
    """What is wrong with the gate of these units, the worst first: why it refuses every start, or
    why it is open, so that units start unchecked. `faults` are what is wrong with config.json,
    which also makes the gate refuse every start.

    A finding that makes the gate refuse every start gets the name gate-shut. If the gates of all
    units are open, it keeps the name that it has, because it stops no start then.
    """
    reasons_to_refuse = [*faults]
    if units:
        with suppress(HostError):  # this user may not read our folders
            untrusted = [*find_untrusted(host.files)]
            reasons_to_refuse += untrusted
            if not untrusted:  # else root would run here what others can change
                reasons_to_refuse += _program_that_fails(host)
    gates = judge_gates(host, units)
    if gates.held:
        reasons_to_refuse = [each._replace(name="gate-shut") for each in reasons_to_refuse]
    return worst_first((*reasons_to_refuse, *gates.findings))


def _program_that_fails(host: Host) -> Iterator[Finding]:
    """Yield an error if the installed program cannot be run, because then the gate refuses every
    start. The program is tried as the gate would run it.
    """
    if host.is_image:  # its interpreter does not run here
        return
    reason = host.interpreter.why_not_run()
    if reason:
        sentence = f"{HostLayout.python_path} cannot run {HostLayout.program_path}: {reason}"
        # If the program differs from ours, apply writes it again. If it does not, the interpreter
        # is what fails, and an administrator has to install another Python.
        remedy = APPLY if Program().differs(host.files) else TO_INSTALL
        yield Finding("file", "error", sentence, HostLayout.program_path, remedy)
