"""What is wrong with the gate of the installed configuration: what makes it refuse every start (the
gate is shut), and what lets units start unchecked (the gate is open). Files that differ from those
that `apply` would write are found elsewhere (`install`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from hostrouting.errors import HostError
from hostrouting.finding import Finding, Remedy, worst_first
from hostrouting.gate.trusted import find_untrusted
from hostrouting.gate.unit_gates import judge_gates
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from hostrouting.host.host import Host


def find_faults(
    host: Host, units: Sequence[str], faults: Iterable[Finding] = ()
) -> tuple[Finding, ...]:
    """What is wrong with the gate of these units, the worst first: why it refuses every start, or
    why it is open, so that units start unchecked. `faults` are what is wrong with config.json,
    which also makes the gate refuse every start.

    A finding that makes the gate refuse every start gets the name gate-shut, even if the gate is
    open now: the gate will refuse every start once it is no longer open.
    """
    reasons_to_refuse = [*faults]
    if units:  # without a gated unit, there is no gate
        with suppress(HostError):  # if this user may not read our folders
            untrusted = [*find_untrusted(host.files)]
            reasons_to_refuse += untrusted
            if not untrusted:  # else root would run here what others can change
                reasons_to_refuse += find_failing_python(host, HostLayout.python_path)
        reasons_to_refuse = [each._replace(name="gate-shut") for each in reasons_to_refuse]
    return worst_first((*reasons_to_refuse, *judge_gates(host, units)))


def find_failing_python(host: Host, python: str, remedy: Remedy | None = None) -> Iterator[Finding]:
    """Yield an error, with this remedy, if the Python at this path cannot run the installed program
    as the gate would run it. Then the gate refuses every start.
    """
    # Without systemd, nothing runs the gate, and the files of the host may be those of an image.
    if host.running_manager is None:
        return
    reason = host.interpreter.why_not_run(python)
    if reason:
        yield Finding(
            "requirement",
            "error",
            f"{python} cannot run {HostLayout.program_path}: {reason}",
            HostLayout.program_path,
            remedy,
        )
