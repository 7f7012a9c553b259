"""The gate of a host in memory: decides with the code of a node's gate, and says the same.

It does not take the lock of the host, and does not wait for what may still come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.config.settings import gated_units
from hostrouting.errors import HostRoutingError
from hostrouting.gate.trusted import find_untrusted
from hostrouting.gate.unit_gates import judge_gates
from hostrouting.gate.unit_names import template_of
from hostrouting.node.installed import read_config
from hostrouting.node.journal import ERROR, lines_of
from hostrouting.upkeep.passes import Done, run_pass

if TYPE_CHECKING:
    from hostrouting.testing.host import FakeHost


def why_refused(host: FakeHost, unit: str) -> tuple[str, ...]:
    """Return the lines that the gate logs when it refuses the unit; none if it lets the unit start,
    or if the unit has no gate, or an open one.
    """
    if unit not in judge_gates(host, [unit]).held:
        return ()  # systemd starts the unit, whatever the gate says
    reasons = [finding.line for finding in find_untrusted(host.files)]
    broken = host.interpreter.why_not_run()
    if broken:
        reasons.append(f"the program cannot be run: {broken}")
    if not reasons:  # a gate that is not trusted, or that cannot be run, makes no pass
        reasons = _reasons_of_pass(host, unit)
    if not reasons:
        return ()
    reasons.append(f"{unit} was refused: see the lines above")
    return tuple(f"hostrouting: {reason}" for reason in reasons)


def _reasons_of_pass(host: FakeHost, unit: str) -> list[str]:
    # Make the pass of a start: set routes, check, and write the marker. Return why the unit is
    # refused: the error, or the lines that are logged as errors. Empty if the unit may start.
    done = Done()
    try:
        with host.open_kernel() as backend:
            outcome = run_pass(host, backend, read_config(host), done=done)
    except HostRoutingError as error:
        return str(error).splitlines()
    # Such a unit has the drop-in, but neither it nor its template is configured.
    if {unit, template_of(unit)}.isdisjoint(gated_units(outcome.config)):
        return [f"the configuration does not gate {unit}"]
    if not outcome.refuses:
        return []
    return [line for level, line in lines_of(outcome, done) if level == ERROR]
