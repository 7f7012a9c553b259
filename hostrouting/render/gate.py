"""The gate's files: the drop-in, the unit and the script, which are the same for every configuration, and the list.

When a drop-in changes while a start runs one of its commands, systemd leaves out the rest of the commands. So what a
configuration says is in the list of steps, which the script reads at every start.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import attrs

from hostrouting.layout import HostLayout
from hostrouting.render.scripts import filled
from hostrouting.render.units import FLUSHERS, HEADER, SHELL, render_oneshot

__all__ = ["GateStep", "parse_gate_steps", "render_gate_drop_in", "render_gate_script", "render_gate_steps"]
__all__ += ["StepKind", "render_gate_unit"]

StepKind: TypeAlias = Literal["requires", "wants", "changing"]
_KINDS: dict[str, StepKind] = {"requires": "requires", "wants": "wants", "changing": "changing"}

# The start of a machine takes 90 s at most, by default, and asks for the unit's start within that time.
_SECONDS = 85
_END = "end"


def _is_name(_: object, attribute: "attrs.Attribute[str]", value: str) -> None:
    if not value or not set(value) <= set("abcdefghijklmnopqrstuvwxyz0123456789-"):
        raise ValueError(f"{attribute.name}: {value!r} is not a name of lower-case letters, digits and '-'")


@attrs.frozen
class GateStep:
    """One script that runs before a machine starts.

    A machine starts only if a script that is required succeeds; it starts whatever a wanted script does; and it does
    not start while a script is changing.
    """

    rank: int
    """Steps are taken in the order of their ranks."""
    kind: StepKind = attrs.field(validator=attrs.validators.in_(_KINDS))
    name: str = attrs.field(validator=_is_name)
    """The name of the script, without `.sh`."""

    def __str__(self) -> str:
        return f"{self.rank} {self.kind} {self.name}"

    @classmethod
    def parse(cls, line: str) -> "GateStep":
        """The step that a line says; any other line is a ValueError."""
        rank, _, rest = line.partition(" ")
        kind, _, name = rest.partition(" ")
        if not (rank.isascii() and rank.isdigit()) or kind not in _KINDS:
            raise ValueError(f"{line!r} is not a step of the gate")
        return cls(int(rank), _KINDS[kind], name)


def render_gate_drop_in(layout: HostLayout | None = None) -> str:
    """What has every machine ask the gate before it starts."""
    where = layout or HostLayout()
    # After the gate's unit: a run that is going on for another machine is over before this one asks. Else this one
    # could be let pass by a run whose work is undone by a unit that only its own start has pulled in.
    return (
        f"{HEADER}"
        "[Unit]\n"
        "Wants=network-online.target\n"
        f"After=network-online.target {where.routes_unit} {where.gate_unit}\n"
        "\n"
        "[Service]\n"
        f"ExecStartPre={SHELL} {where.gate_script} ask\n"
    )


def render_gate_unit(layout: HostLayout | None = None) -> str:
    """The oneshot that takes the steps; machines pull it in, so nothing enables it."""
    where = layout or HostLayout()
    return render_oneshot(
        "Hold machines back until the routing of this host is right",
        # The start of a machine may pull in what flushes nftables: that is over before the first step.
        after=f"{where.routes_unit} {where.probe_unit} {FLUSHERS}",
        command=where.gate_script,
        timeout=_SECONDS,
        state_directory=where.state_directory,
        capabilities="CAP_NET_ADMIN",
        # What is stopped, and what a script leaves, ends at once; and a stop is not mistaken for a refusal. A refusal
        # ends with 1, or by KILL after the time-out: with a Restart= for all services, systemd would take the steps
        # again and again.
        settings=("KillSignal=SIGKILL", "RestartPreventExitStatus=1 KILL"),
    )


def render_gate_script(layout: HostLayout | None = None) -> str:
    """What the unit runs, and what asks for it."""
    where = layout or HostLayout()
    return filled(
        "host-routing-gate.sh",
        [
            f"unit {where.gate_unit}",
            f"scripts {where.config_directory}",
            f"steps {where.gate_steps}",
            f"drop-in {where.gate_drop_in}",
            f"lock {where.lock}",
        ],
    )


def render_gate_steps(steps: Iterable[GateStep]) -> str:
    """The list of steps. Its last line says that it is whole."""
    return HEADER + "".join(f"{step}\n" for step in steps) + f"{_END}\n"


def parse_gate_steps(text: str) -> tuple[GateStep, ...]:
    """The steps that were rendered; text that is not such a list is a ValueError."""
    # Only a newline ends a line here, as it does for the script.
    *lines, last = text.removesuffix("\n").split("\n")
    if last != _END:
        raise ValueError("the list of steps is cut short")
    return tuple(GateStep.parse(line) for line in lines if not line.startswith("#"))
