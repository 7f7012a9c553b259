"""The state of the other tasks and of the gate on a host, next to the verdict on its routes.

Shared by `check`, `explain`, `plan`, `apply` and `status`. Here: the values, and their lines and documents. Not here:
how a task finds its state (`hostrouting.tasks`), and what is wrong with a gate (`boot.gate_state`). Both are loaded
only for a host that may have something of ours: most hosts that are checked have nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from hostrouting.cli.command import FAILED, FINE, UNDECIDED
from hostrouting.cli.output import Line, Painted, below, line, named_lines
from hostrouting.errors import FileError, HostRoutingError, ManagerError
from hostrouting.finding import Finding, of_severity
from hostrouting.host.systemd import find_ungated

if TYPE_CHECKING:
    from typing_extensions import Self

    from hostrouting.boot.gate_state import GateState
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host
    from hostrouting.tasks.results import Standing


class Standings(NamedTuple):
    """The state of each task that reports one, and what could not be determined."""

    found: tuple[Standing, ...] = ()
    troubles: tuple[Finding, ...] = ()

    @classmethod
    def on(cls, host: Host, config: HostRoutingConfig) -> Self:
        """The present state on a host, by this configuration."""
        wanted = config.probe_rewrite.enabled or config.guard.enabled
        if not (wanted or host.may_have_ours):
            return cls()
        from hostrouting.tasks.configure import make_tasks  # noqa: PLC0415  see above

        tasks = make_tasks(config, host)
        found: list[Standing] = []
        troubles: list[Finding] = []
        for task in tasks:
            try:
                if (standing := task.standing()) is not None:
                    found.append(standing)
            except HostRoutingError as error:
                troubles.append(Finding("not-known", "warning", f"{task.name}: {error}", task.name))
        return cls(tuple(found), tuple(troubles))

    @property
    def are_right(self) -> bool:
        """Whether everything is in force and works."""
        return all(standing.is_right for standing in self.found)

    @property
    def faults(self) -> tuple[Finding, ...]:
        """What is not in force."""
        return tuple(fault for standing in self.found for fault in of_severity(standing.findings, "error"))

    @property
    def code(self) -> int:
        """The exit code."""
        if not self.are_right:
            return FAILED
        return UNDECIDED if self.troubles else FINE

    def documents(self) -> list[dict[str, Any]]:
        """The state as plain values."""
        return [standing.to_mapping() for standing in self.found]

    def lines(self) -> Iterator[Line]:
        """A line for each task that says whether it works, with the reasons below; at the end, what is not known."""
        for standing in self.found:
            yield line()
            yield line(word_of(standing), f" {standing.subject}")
            yield from named_lines(standing.findings)
            yield from (line("  ", Painted(text, "soft")) for text in standing.facts)
        yield from below(named_lines(self.troubles))


def word_of(standing: Standing) -> Painted:
    """Whether the work of a task is in force and works, in capitals."""
    if not standing.is_in_force:
        return Painted("NOT IN FORCE:", "bad")
    if not standing.is_right:
        return Painted("NOT WORKING:", "bad")
    return Painted("IN FORCE:", "good") if standing.is_on else Painted("OFF:", "soft")


def looked_at_gate(host: Host, coming: Collection[str] = ()) -> GateState:
    """The state of the gate; the units `coming` are about to be gated.

    If it cannot be determined, that counts as an opening, because there may be one.
    """
    from hostrouting.boot.gate_state import GateState, find_gate_state  # noqa: PLC0415  see above

    try:
        return find_gate_state(host, coming)
    except (FileError, ManagerError) as error:
        return GateState(findings=(_not_known(error),))


def gate_findings(host: Host) -> tuple[Finding, ...]:
    """What is wrong with the gate; without a gate, the kubelets that run ungated."""
    if host.may_have_ours:
        return looked_at_gate(host).findings
    try:
        return find_ungated(host.manager if host.manager and host.manager.is_running() else None, ())
    except ManagerError as error:
        return (_not_known(error),)


def _not_known(error: HostRoutingError) -> Finding:
    sentence = f"whether gated units are checked before they start is not known: {error}"
    return Finding("gate-open", "warning", sentence)
