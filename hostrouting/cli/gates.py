"""The text about the gate: whether machines can start without a check, or cannot start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostrouting.cli.page import Painted, line
from hostrouting.errors import FileError, ManagerError
from hostrouting.openings import GateState, find_gate_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.cli.page import Line
    from hostrouting.host import Host

__all__ = ["after_a_failure", "gate_document", "gate_lines", "looked_at_gate"]


def looked_at_gate(host: Host) -> GateState:
    """The state of the gate. If it cannot be determined, that counts as an opening, because there may be one."""
    try:
        return find_gate_state(host)
    except (FileError, ManagerError) as error:
        return GateState(openings=(f"whether machines are checked before they start is not known: {error}",))


def gate_document(gate: GateState) -> dict[str, Any]:
    """The gate as plain values."""
    return {"up": gate.is_up, "openings": list(gate.openings), "bars": list(gate.bars)}


def gate_lines(gate: GateState) -> Iterator[Line]:
    """What lets machines start without a check, and what keeps them from starting; no lines if neither applies."""
    for title, sentences in (
        ("Machines start unchecked:", gate.openings),
        ("No machine starts:", gate.bars),
    ):
        if sentences:
            yield line()
            yield line(title)
            yield from (line("  ", Painted(text, "bad")) for text in sentences)


def after_a_failure(gate: GateState, *, boots: bool = False) -> Line:
    """The last line of a run that failed: whether a machine can start now.

    With `boots`, systemd does not run here, so no machine can start before the next boot.
    """
    if gate.openings or not gate.is_up:
        why = gate.openings[0] if gate.openings else "the drop-in that makes machines wait for the check is missing"
        ways = f"keep machines from starting with: {gate.hold}; or fix this and apply again"
        return line(Painted("A machine that is started now is NOT held back:", "bad"), f" {why}; {ways}")
    if gate.bars:
        return line(Painted("No machine starts now:", "warn"), f" {gate.bars[0]}")
    when = "From the next boot on, machines are" if boots else "Machines are still"
    return line(f"{when} checked before they start; see: hostrouting status")
