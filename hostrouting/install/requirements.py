"""What a host lacks for a configuration; a run fails because of it before its first write."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.boot.program import Program
from hostrouting.boot.units import UNITS
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import HostRoutingError
from hostrouting.finding import Finding, Remedy, Severity
from hostrouting.gate.trusted import find_untrusted, foreign_scripts
from hostrouting.gate.unit_gates import find_ineffective_gates, systemd_does_not_run
from hostrouting.gate.unit_names import is_template, plain_instance, template_of
from hostrouting.gate.unit_states import is_masked_unit
from hostrouting.host.files import require_removable
from hostrouting.host.fileset import describe_unwritable
from hostrouting.host.interpreter import missing_interpreter
from hostrouting.host.layout import HostLayout
from hostrouting.install.typed_commands import GUARD_IS_MASKED
from hostrouting.kernel.programs import NODE_PROGRAMS

if TYPE_CHECKING:
    from hostrouting.host.fileset import FileChanges
    from hostrouting.host.host import Host
    from hostrouting.host.systemd import Manager

_OLDEST = 249
"""The oldest systemd with which the gate works."""
_BEFORE_THE_GATE = {
    "sysinit.target",
    "basic.target",
    "network-pre.target",
    "network.target",
    "network-online.target",
}
"""The gate waits for these."""
_FOLDERS_OF_PACKAGES = ("/usr/local/lib/systemd/system", "/usr/lib/systemd/system")


def find_requirements(
    host: Host, config: HostRoutingConfig, changes: FileChanges
) -> Iterator[Finding]:
    """What this host lacks for the configuration: errors, and for an image also warnings."""
    yield from _unusable_paths(host, changes)
    yield from _unwritable_folders(host, changes)
    yield from _units_of_others(host, changes)
    gated = gated_units(config)
    if not gated and changes.removes:
        yield from _scripts_that_would_stop_nothing(host)
    if gated:
        yield from _untrusted_files_that_stay(host, changes)
        yield from _missing_programs(host, config)
        yield from _unusable_interpreter(host, changes)
    if host.is_image and changes.writes and not host.rights().is_root:
        sentence = (
            "this process is not root, so another user owns what it writes, and root runs that at "
            "boot"
        )
        remedy = Remedy("prepare the image as root, or give these files to root")
        yield Finding("file", "warning", sentence, HostLayout.config_directory, remedy)
    manager = host.running_manager
    if manager is None and gated and not host.is_image:
        yield systemd_does_not_run(gated)
    if manager is not None and gated:
        yield from _old_systemd(manager)
        if config.guard.enabled:  # a guard always has units that are gated
            yield from _masked_guard(manager, changes)
        yield from _units_that_cannot_be_gated(manager, gated)
        yield from find_ineffective_gates(host, gated)


def _unusable_paths(host: Host, changes: FileChanges) -> Iterator[Finding]:
    """Paths of ours that are masked, or where something is that we neither replace nor remove: a
    folder, a link, or another program's file.
    """
    for file in changes.writes:
        obstacle = file.find_obstacle(host.files)
        if obstacle is not None:
            yield obstacle
    for path in changes.removes:
        try:
            require_removable(path, host.files.look(path))
        except HostRoutingError as error:
            yield from error.findings


def _unwritable_folders(host: Host, changes: FileChanges) -> Iterator[Finding]:
    """Folders in which even root cannot write; one finding for each reason.

    Missing rights are not reported here: anybody may look at a plan.
    """
    if not host.rights().is_root:
        return
    written = {path.rpartition("/")[0] for path in changes.written_paths}
    changed = written.union(path.rpartition("/")[0] for path in changes.removes)
    by_reason: dict[str, list[str]] = {}
    for folder in sorted(changed):
        reason = host.files.why_unwritable(folder, needs_space=folder in written)
        if reason:
            by_reason.setdefault(reason, []).append(folder)
    for reason, folders in by_reason.items():
        yield describe_unwritable(folders, reason)


def _units_of_others(host: Host, changes: FileChanges) -> Iterator[Finding]:
    """Units of packages with the names of ours. With a file of ours in /etc, systemd would not use
    them any more.
    """
    for unit in UNITS:
        ours = HostLayout.unit_path(unit)
        if ours not in changes.written_paths or host.files.look(ours):
            continue
        for folder in _FOLDERS_OF_PACKAGES:
            path = f"{folder}/{unit}"
            if host.files.look(path):
                sentence = f"{path} is another program's, and hostrouting's unit has this name"
                yield Finding("requirement", "error", sentence, unit, Remedy("rename that unit"))


def _scripts_that_would_stop_nothing(host: Host) -> Iterator[Finding]:
    """Scripts of other programs that hold units back, and would not any more without the gate."""
    for path in foreign_scripts(host.files):
        sentence = (
            f"{path} was not installed by hostrouting, and gated units would no longer wait "
            "for this script"
        )
        yield Finding("file", "error", sentence, path, Remedy("move the script away first"))


def _untrusted_files_that_stay(host: Host, changes: FileChanges) -> Iterator[Finding]:
    """What lets the gate refuse each start, and that this run does not write."""
    for finding in find_untrusted(host.files):
        if finding.target not in changes.written_paths:
            yield finding


def _missing_programs(host: Host, config: HostRoutingConfig) -> Iterator[Finding]:
    """Programs that the units of the node run. An image may get them later."""
    needed: list[tuple[str, str]] = []
    if config.probe_rewrite.enabled:
        needed.append(("nft", "the rewrite of probes"))
    if config.gate is not None and config.gate.steps:
        needed.append(("bash", "each step in gate.steps"))
    elif foreign_scripts(host.files):
        needed.append(("bash", "each script of another program in gate.d"))
    for program, purpose in needed:
        if not host.has_program(program):
            where = " in the image" if host.is_image else ""
            sentence = (
                f"the program {program} is not installed{where}, or not executable; {purpose} "
                "needs it"
            )
            remedy = Remedy(f"install the package {NODE_PROGRAMS[program]}")
            yield Finding("requirement", _severity(host), sentence, program, remedy)


def _unusable_interpreter(host: Host, changes: FileChanges) -> Iterator[Finding]:
    """That no Python on the node can run the program: making its content tries that, before
    anything changes.
    """
    if not host.interpreter.find():
        yield missing_interpreter()._replace(severity=_severity(host))
        return
    for file in changes.writes:
        if isinstance(file, Program):
            try:
                file.content()
            except HostRoutingError as error:
                yield from error.findings


def _severity(host: Host) -> Severity:
    """How bad it is that something is missing: an image may get it later."""
    return "warning" if host.is_image else "error"


def _old_systemd(manager: Manager) -> Iterator[Finding]:
    [properties] = manager.show(("Version",))
    number = "".join(itertools.takewhile(str.isdigit, properties["Version"]))
    if number and int(number) < _OLDEST:
        sentence = f"systemd {number} runs here, and the gate needs systemd {_OLDEST} or newer"
        yield Finding("requirement", "error", sentence, "systemd")


def _masked_guard(manager: Manager, changes: FileChanges) -> Iterator[Finding]:
    """That systemd refuses to start the guard. Where its file has to be written, either that file
    is the mask, as `_unusable_paths` says, or the mask is in /run, and the file takes precedence.
    """
    guard = HostLayout.guard_unit
    if HostLayout.unit_path(guard) in changes.written_paths:
        return
    if is_masked_unit(manager, guard):
        yield GUARD_IS_MASKED


def _units_that_cannot_be_gated(manager: Manager, units: tuple[str, ...]) -> Iterator[Finding]:
    """Units that the network waits for, while the gate waits for the network; and other names of
    units, because the gate knows a unit by its own. Not judged: an order that leads through other
    units.
    """
    shown = manager.show(("Id", "Before"), *map(plain_instance, units))
    for unit, properties in zip(units, shown, strict=True):
        before = sorted(_BEFORE_THE_GATE.intersection(properties["Before"].split()))
        if properties["Id"] != plain_instance(unit):
            own_name = properties["Id"]
            if is_template(unit):
                own_name = template_of(own_name)
            sentence = f"{unit} is another name of {own_name}, and the gate needs the unit's own"
            remedy = Remedy(f"name {own_name} in gate.units instead")
            yield Finding("requirement", "error", sentence, unit, remedy)
        elif before:
            sentence = (
                f"{unit} starts before {before[0]}, which the gate waits for: each would wait for "
                "the other"
            )
            remedy = Remedy(
                "name the unit that needs the network, such as kubelet.service, in gate.units"
            )
            yield Finding("requirement", "error", sentence, unit, remedy)
