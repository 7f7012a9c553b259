"""What the commands say of the gate: whether a machine can start without being judged, or cannot start at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostrouting.cli.page import Line, Painted, line
from hostrouting.errors import FileError, ManagerError
from hostrouting.openings import GateState, find_gate_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.host import Host

__all__ = ["gate_document", "gate_lines", "looked_at_gate"]


def looked_at_gate(host: Host) -> GateState:
    """The gate as it is; what cannot be found out is not an answer to a question that was not about the gate."""
    try:
        return find_gate_state(host)
    except (FileError, ManagerError) as error:
        return GateState(openings=(f"whether the gate is in force cannot be found out: {error}",))


def gate_document(gate: GateState) -> dict[str, Any]:
    """The gate as plain values."""
    return {"isUp": gate.is_up, "openings": list(gate.openings), "bars": list(gate.bars)}


def gate_lines(gate: GateState) -> Iterator[Line]:
    """What opens the gate, and what bars it; nothing where it does what it is there for."""
    for title, sentences in (
        ("Machines start without being judged:", gate.openings),
        ("No machine starts:", gate.bars),
    ):
        if sentences:
            yield line()
            yield line(title)
            yield from (line("  ", Painted(text, "bad")) for text in sentences)
