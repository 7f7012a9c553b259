"""The gate's files: drop-in, unit and script, the same for every configuration; and the list of steps.

Here: their texts, and the steps in the list. Not here: the order in which they change (`gate`), and the scripts that
the steps run (`scripts`, `probe`).

If a drop-in changes while systemd runs one of its commands, systemd skips the remaining commands. So everything that
depends on the configuration is in the list of steps, which the script reads at every start.

The list also has a digest of each installed file, and one digest of these digests and the steps, in lines that the
script takes for comments. So an edited file is found without the configuration, whichever version of this program wrote
it.

A version that writes the list, or the settings of a script, so that older versions would misread them adds a line with
the number of the format, such as "# format 2". Without the line it is 1. An older version then changes nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import attrs

from hostrouting.boot.scripts import filled
from hostrouting.boot.units import FLUSHERS, HEADER, render_oneshot, shell
from hostrouting.host.layout import PLACES, HostLayout

StepKind: TypeAlias = Literal["requires", "wants", "changing"]
_KINDS: dict[str, StepKind] = {"requires": "requires", "wants": "wants", "changing": "changing"}

# By default the start of a unit may take 90 s, and a gated unit waits for the gate's within that time.
_SECONDS = 85
_END = "end"
_DIGEST = "# sha256 "
_OWN = "steps"
_FORMAT = "# format "
FORMAT = 1
"""The newest format of the list that this version can read."""


def _is_name(_: object, attribute: "attrs.Attribute[str]", value: str) -> None:
    if not value or not set(value) <= set("abcdefghijklmnopqrstuvwxyz0123456789-"):
        raise ValueError(f"{attribute.name}: {value!r} is not a name of lower-case letters, digits and '-'")


@attrs.frozen
class GateStep:
    """One script that runs before a gated unit starts.

    `requires`: the unit starts only if the script succeeds. `wants`: it starts whatever the result. `changing`: it does
    not start.
    """

    rank: int
    """Steps run in the order of their ranks."""
    kind: StepKind = attrs.field(validator=attrs.validators.in_(_KINDS))
    name: str = attrs.field(validator=_is_name)
    """The name of the script, without `.sh`."""

    def __str__(self) -> str:
        return f"{self.rank} {self.kind} {self.name}"

    @classmethod
    def parse(cls, line: str) -> "GateStep":
        """The step in a line of the list; ValueError if the line is not a step."""
        rank, _, rest = line.partition(" ")
        kind, _, name = rest.partition(" ")
        if not (rank.isascii() and rank.isdigit()) or kind not in _KINDS:
            raise ValueError(f"{line!r} is not a step of the gate")
        return cls(int(rank), _KINDS[kind], name)


def render_gate_drop_in(layout: HostLayout = PLACES) -> str:
    """The drop-in that makes a unit start the gate's unit and wait for its result; the same for each unit."""
    # After the gate's unit: a run for another unit ends before this one starts its own. Otherwise a run could let this
    # one start, and a unit that only this one's start has pulled in could then undo the run's work.
    # With `+` the command may start the gate's unit whatever user and sandbox the gated unit has; %n is its name.
    return (
        f"{HEADER}"
        "[Unit]\n"
        "Wants=network-online.target\n"
        f"After=network-online.target {layout.routes_unit} {layout.gate_unit}\n"
        "\n"
        "[Service]\n"
        f"ExecStartPre=+{_run(layout, '%n')} {layout.gate_script} ask %n\n"
    )


def _run(layout: HostLayout, held: str) -> str:
    """The beginning of the command that runs the gate's script; the command explains a missing script.

    Another program may have removed the folder, so the explanation is in the drop-in and in the unit.
    """
    back = f"bring {layout.config_directory} back with: hostrouting apply --config FILE"
    away = f"remove the gate with: rm {layout.gate_drop_in('*')} && systemctl daemon-reload"
    return shell(f"host-routing-gate: {held} cannot start: $$0 is missing or incomplete; {back}; or {away}")


def render_gate_unit(layout: HostLayout = PLACES) -> str:
    """The oneshot that runs the steps. It is not enabled, because the gated units start it."""
    return render_oneshot(
        "Hold units back until the routing of this host is right",
        # The start of a gated unit may pull in units that flush nftables: they finish before the first step.
        after=f"{layout.routes_unit} {layout.probe_unit} {FLUSHERS}",
        command=layout.gate_script,
        run=_run(layout, "what is gated"),
        timeout=_SECONDS,
        folders=(layout.state_directory, layout.runtime_directory),
        capabilities="CAP_NET_ADMIN",
        # SIGKILL: after a stop, the script and the processes that it has left end at once, and the result is not that
        # of a refusal. RestartPreventExitStatus: a refusal exits with 1, or is killed after the timeout. If an
        # administrator has set Restart= for all services, systemd would otherwise run the steps again and again.
        settings=("KillSignal=SIGKILL", "RestartPreventExitStatus=1 KILL"),
    )


def render_gate_script(layout: HostLayout = PLACES) -> str:
    """The script that the unit runs; called with `ask`, the script starts the unit and waits for the result."""
    # The script finds them by their places.
    return filled(
        "host-routing-gate.sh",
        [
            f"unit {layout.gate_unit}",
            f"scripts {layout.config_directory}",
            f"steps {layout.gate_steps}",
            f"units {layout.unit_directory}",
            f"lock {layout.lock}",
        ],
    )


def digest_of(text: str) -> str:
    """The SHA-256 of a text."""
    import hashlib  # noqa: PLC0415  a host without a gate does not need it

    return hashlib.sha256(text.encode()).hexdigest()


def render_gate_steps(steps: Iterable[GateStep], digests: Mapping[str, str] | None = None) -> str:
    """The list of steps, with the digests of files by their paths. Its last line marks it as complete."""
    lines = "".join(f"{step}\n" for step in steps)
    noted = "".join(f"{_DIGEST}{digest} {path}\n" for path, digest in sorted((digests or {}).items()))
    own = f"{_DIGEST}{digest_of(noted + lines)} {_OWN}\n" if lines else ""
    return f"{HEADER}{own}{noted}{lines}{_END}\n"


def gate_digests(text: str) -> dict[str, str]:
    """The digests of files in the list, by their paths."""
    noted = _noted(text)
    noted.pop(_OWN, None)
    return noted


def format_of(text: str) -> int:
    """The number of the format of a list; 1 if the list does not say one."""
    said = (line.removeprefix(_FORMAT) for line in text.split("\n") if line.startswith(_FORMAT))
    return max((int(word) for word in said if word.isascii() and word.isdigit()), default=1)


def is_list_edited(text: str) -> bool:
    """Whether the steps and digests in the list are not those that were rendered.

    False for a list that the script refuses.
    """
    try:
        steps = parse_gate_steps(text)
    except ValueError:
        return False
    return _noted(text).get(_OWN) != _noted(render_gate_steps(steps, gate_digests(text))).get(_OWN)


def _noted(text: str) -> dict[str, str]:
    words = (line.removeprefix(_DIGEST).partition(" ") for line in text.split("\n") if line.startswith(_DIGEST))
    return {name: digest for digest, _, name in words}


def parse_gate_steps(text: str) -> tuple[GateStep, ...]:
    """The steps that were rendered; ValueError if the text is not such a list."""
    # Only a newline ends a line, as in the script.
    *lines, last = text.removesuffix("\n").split("\n")
    if last != _END:
        raise ValueError("the list of steps is incomplete")
    return tuple(GateStep.parse(line) for line in lines if not line.startswith("#"))
