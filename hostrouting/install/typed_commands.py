"""The commands that an operator types before a repair, or with one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.check.repair_line import typed
from hostrouting.command import joined
from hostrouting.finding import Finding, Remedy
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from collections.abc import Iterable

_GUARD = HostLayout.guard_unit
UNMASK_GUARD = f"systemctl unmask {_GUARD}"
GUARD_IS_MASKED = Finding(
    "requirement",
    "error",
    f"{_GUARD} is masked, so apply cannot start it, and fails",
    _GUARD,
    Remedy(command=UNMASK_GUARD),
)
"""Before this command is typed, `apply` fails if the guard is configured."""


def with_gate_command(findings: Iterable[Finding], apply: str) -> tuple[Finding, ...]:
    """The findings; to gate the units that are not gated, this command is typed with their names.

    Without a command, they have no remedy.
    """
    findings = tuple(findings)
    units = [finding.target for finding in findings if finding.name == "unit-not-gated"]
    remedy = None
    if apply:
        remedy = Remedy(command=joined("", apply, typed("--gate", units)))
    changed: list[Finding] = []
    for finding in findings:
        if finding.name == "unit-not-gated":
            changed.append(finding._replace(remedy=remedy))
        else:
            changed.append(finding)
    return tuple(changed)
