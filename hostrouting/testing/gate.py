"""The gate of a host in memory: why it refuses a unit, by the same judge and in the same words as
the gate of a node.

Other programs' scripts in gate.d, and the steps of the configuration, are taken to succeed: nothing
runs them. Nor is the lock of the host asked for, and what may still come is not awaited.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hostrouting.config.settings import gated_units
from hostrouting.errors import HostRoutingError
from hostrouting.gate.start_note import StartNote, leave_note
from hostrouting.gate.trusted import find_untrusted
from hostrouting.gate.unit_gates import judge_gates
from hostrouting.gate.unit_names import template_of
from hostrouting.node.installed import parse_config, read_config
from hostrouting.node.journal import ERROR, lines_of
from hostrouting.upkeep.passes import run_pass

if TYPE_CHECKING:
    from hostrouting.testing.host import FakeHost


def why_refused(host: FakeHost, unit: str) -> tuple[str, ...]:
    """What the gate logs when it refuses the unit; empty if it lets the unit pass, or if nothing
    has it run before the unit.
    """
    if unit not in judge_gates(host, [unit]).held:
        return ()
    reasons = [finding.line for finding in find_untrusted(host.files)]
    broken = host.interpreter.why_not_run()
    if broken:
        reasons.append(f"the program cannot be run: {broken}")
    if not reasons:
        reasons = _reasons_of_pass(host, unit)
    if not reasons:
        leave_note(host.files, unit, StartNote("", time.time(), refused=False))
        return ()
    reasons.append(f"{unit} was refused: see the lines above")
    return tuple(f"hostrouting: {reason}" for reason in reasons)


def _reasons_of_pass(host: FakeHost, unit: str) -> list[str]:
    try:
        config = parse_config(host.files, read_config(host.files))
        with host.open_kernel() as backend:
            outcome = run_pass(host, backend, config)
    except HostRoutingError as error:
        return str(error).splitlines()
    if {unit, template_of(unit)}.isdisjoint(gated_units(config)):
        return [f"the configuration does not gate {unit}"]
    if not outcome.refuses:
        return []
    return [words for level, words in lines_of(outcome) if level == ERROR]
