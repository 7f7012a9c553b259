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
from hostrouting.host.layout import HostLayout
from hostrouting.node.installed import read_config
from hostrouting.node.journal import ERROR, lines_of
from hostrouting.upkeep.passes import Done, run_pass

if TYPE_CHECKING:
    from hostrouting.testing.host import FakeHost


def why_refused(host: FakeHost, unit: str) -> tuple[str, ...]:
    """Do what the gate does before the unit starts: set the routes, check them, and perhaps refuse
    the start. Return the lines that the gate logs when it refuses. Empty if the unit may start:
    it passes the check, or its gate is open or missing.
    """
    names = {finding.name for finding in judge_gates(host, [unit])}
    if "gate-open" in names:
        return ()  # its gate is open or missing
    reasons = [finding.line for finding in find_untrusted(host.files)]
    broken = host.interpreter.why_not_run(HostLayout.python_path)
    if broken:
        reasons.append(f"the program cannot be run: {broken}")
    if not reasons:  # the gate is trusted and can be run, so it sets routes and checks
        reasons = _reasons_of_pass(host, unit)
    if not reasons:
        return ()
    reasons.append(f"{unit} was refused: see the lines above")
    return tuple(f"hostrouting: {reason}" for reason in reasons)


def _reasons_of_pass(host: FakeHost, unit: str) -> list[str]:
    """Make a pass, as the gate does at each start: set the routes, check where packets leave, and
    leave the verdict in a file, the marker. Return why the unit must not start: the error that
    ended the pass, or the lines that are logged as errors. Empty if it may start.
    """
    done = Done()  # the pass puts into it what it has changed, which is logged, too
    try:
        with host.open_kernel() as backend:
            outcome = run_pass(host, backend, read_config(host), done=done)
    except HostRoutingError as error:
        return str(error).splitlines()
    # A unit can have the drop-in of the gate although the configuration does not gate the unit.
    if {unit, template_of(unit)}.isdisjoint(gated_units(outcome.config)):
        return [f"the configuration does not gate {unit}"]
    if not outcome.refuses:  # the check has found nothing for which a unit must not start
        return []
    return [line for level, line in lines_of(outcome, done) if level == ERROR]
