"""What every boot needs: the scripts and units that set up the routing again, and the gate that holds gated units back.

Here: the text of every file for the boot, as functions of a configuration and a layout; and the gate on a host. Not
here: which files a host needs (`tasks`), and writing a set of files (`host`).

scripts     the boot scripts of the IPv4 tasks: a static body, and the settings as data in one block
units       the units that run one script each, that of the guard, and the name of our route protocol
probe       the table that rewrites the source of probes, and the script and unit that load it at boot
gate_files  the drop-in, unit, script and list of steps that keep gated units from starting too early
gate        how these are installed, changed and removed
opening     until when a unit may start unchecked, by an administrator's decision
gate_state  what lets gated units start unchecked although they are there
assets/     the bodies of the scripts: plain shell and awk, without placeholders
"""

from hostrouting.boot.gate_files import (
    FORMAT,
    GateStep,
    StepKind,
    digest_of,
    format_of,
    gate_digests,
    is_list_edited,
    parse_gate_steps,
    render_gate_drop_in,
    render_gate_script,
    render_gate_steps,
    render_gate_unit,
)
from hostrouting.boot.probe import (
    ProbeScript,
    parse_probe_script,
    render_probe_script,
    render_probe_table,
    render_probe_unit,
)
from hostrouting.boot.scripts import (
    DEFAULT_WAIT,
    MOST_WAIT,
    CheckScript,
    RoutesScript,
    parse_check_script,
    parse_static_routes_script,
    render_check_script,
    render_rules_script,
    render_snapshot_script,
    render_static_routes_script,
)
from hostrouting.boot.units import (
    SHELL,
    add_protocol_numbers,
    parse_extension,
    parse_guard_unit,
    parse_protocol_numbers,
    render_check_unit,
    render_extension,
    render_guard_unit,
    render_networkd_drop_in,
    render_preset,
    render_protocol_name,
    render_routes_unit,
)

__all__ = [
    # the boot scripts, and the settings parsed from them
    "render_static_routes_script",
    "render_check_script",
    "render_rules_script",
    "render_probe_script",
    "render_probe_table",
    "parse_static_routes_script",
    "parse_check_script",
    "parse_probe_script",
    "RoutesScript",
    "CheckScript",
    "ProbeScript",
    "DEFAULT_WAIT",
    "MOST_WAIT",
    # their units
    "render_routes_unit",
    "render_check_unit",
    "render_probe_unit",
    "render_preset",
    "render_guard_unit",
    "render_networkd_drop_in",
    "parse_guard_unit",
    "SHELL",
    # the gate
    "render_gate_drop_in",
    "render_gate_unit",
    "render_gate_script",
    "render_gate_steps",
    "parse_gate_steps",
    "gate_digests",
    "FORMAT",
    "format_of",
    "is_list_edited",
    "digest_of",
    "GateStep",
    "StepKind",
    # the script that takes a snapshot
    "render_snapshot_script",
    # the settings of tasks of other projects
    "render_extension",
    "parse_extension",
    # the name of our route protocol, and its numbers
    "render_protocol_name",
    "add_protocol_numbers",
    "parse_protocol_numbers",
]
