"""What a host lacks for a configuration; a run raises this before its first write."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hostrouting.boot.files import asks_for_nothing
from hostrouting.boot.health import foreign_steps, open_folders, why_not_run
from hostrouting.boot.unit_gates import find_ineffective_gates
from hostrouting.boot.unit_names import plain_instance
from hostrouting.boot.unit_states import is_masked_unit
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import HostRoutingError
from hostrouting.finding import Finding, Remedy, Severity
from hostrouting.host.files import require_removable
from hostrouting.host.layout import HostLayout
from hostrouting.install.typed_commands import GUARD_IS_MASKED
from hostrouting.kernel.programs import BOOT_PROGRAMS
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.host.fileset import FileChanges
    from hostrouting.host.host import Host
    from hostrouting.host.systemd import Manager

_OLDEST = 249
"""The oldest systemd with which the gate works."""
_NETWORK_TARGETS = {
    "sysinit.target",
    "basic.target",
    "network-pre.target",
    "network.target",
    "network-online.target",
}


def find_requirements(
    host: Host, config: HostRoutingConfig, changes: FileChanges
) -> Iterator[Finding]:
    """What this host lacks for the configuration: errors, and for an image also warnings."""
    yield from _unusable_paths(host, changes)
    yield from _unwritable_folders(host, changes)
    yield from _freed_scripts(host, changes)
    if asks_for_nothing(config):  # a removal needs nothing else
        return
    yield from open_folders(host.files)
    gated = gated_units(config)
    if gated:
        yield from _scripts_that_do_not_run(host)
        yield from _missing_programs(host, config)
    if host.backend is None and not host.rights().is_root:
        sentence = (
            "this process is not root, so another user owns what it writes, and root runs that at "
            "boot"
        )
        remedy = Remedy("prepare the image as root, or give these files to root")
        yield Finding("file", "warning", sentence, HostLayout.config_directory, remedy)
    manager = host.running_manager
    if manager is not None and gated:
        yield from _old_systemd(manager)
        if config.guard.enabled:  # a guard always has units that are gated
            yield from _masked_guard(manager, changes)
        yield from _units_before_the_network(manager, gated)
        yield from find_ineffective_gates(host, gated)
    if host.backend is None:
        yield from _gates_opened_in_the_image(host, gated)


def _gates_opened_in_the_image(host: Host, gated: Sequence[str]) -> Iterator[Finding]:
    """What opens gates in the image, and may be gone before it boots."""
    for finding in find_ineffective_gates(host, gated):
        # The usual command would change the host on which the image is prepared.
        remedy = Remedy("change that in the image")
        yield finding._replace(severity="warning", remedy=remedy)


def _unusable_paths(host: Host, changes: FileChanges) -> Iterator[Finding]:
    """Paths of ours that are masked, or where something is that we neither replace nor remove: a
    folder, a link, or another program's file.
    """
    for file in changes.writes:
        try:
            file.require_room(host.files)
        except HostRoutingError as error:
            yield from error.findings
    for path in changes.removes:
        try:
            require_removable(path, host.files.look(path))
        except HostRoutingError as error:
            yield from error.findings


def _unwritable_folders(host: Host, changes: FileChanges) -> Iterator[Finding]:
    """Folders in which even root cannot write; one finding for each reason.

    Anybody may look at a plan, so what only this process may not do is not said.
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
        sentence = f"nothing can be changed in {spoken(folders)}: {reason}"
        yield Finding("file", "error", sentence, folders[0])


def _freed_scripts(host: Host, changes: FileChanges) -> Iterator[Finding]:
    """Scripts of somebody else that hold units back, and would not any more without the gate."""
    if not {HostLayout.gate_path, HostLayout.config_path}.intersection(changes.removes):
        return
    for path in foreign_steps(host.files):
        sentence = (
            f"{path} was not installed by hostrouting, and gated units would no longer wait "
            "for this script"
        )
        yield Finding("file", "error", sentence, path, Remedy("move the script away first"))


def _scripts_that_do_not_run(host: Host) -> Iterator[Finding]:
    """Scripts of somebody else in gate.d that the gate does not run: it then refuses each start."""
    for path in foreign_steps(host.files):
        refusal = why_not_run(host.files, path)
        if refusal is not None:
            yield refusal


def _missing_programs(host: Host, config: HostRoutingConfig) -> Iterator[Finding]:
    """Programs of the boot scripts. An image may get them later."""
    severity: Severity = "error"
    where = ""
    if host.backend is None:
        severity = "warning"
        where = " in the image"
    for program, package in BOOT_PROGRAMS.items():
        is_needed = program != "nft" or config.probe_rewrite.enabled
        if is_needed and not host.has_program(program):
            sentence = (
                f"the program {program} is not installed{where}, or not executable; the boot "
                "scripts need it"
            )
            remedy = Remedy(f"install the package {package}")
            yield Finding("requirement", severity, sentence, program, remedy)


def shuts_gate(finding: Finding) -> bool:
    """Whether a program is missing without which no gated unit starts. Without nft, they start: the
    gate only logs that the probe rewrite fails.
    """
    is_of_gate = finding.target in BOOT_PROGRAMS and finding.target != "nft"
    return finding.name == "requirement" and is_of_gate


def _old_systemd(manager: Manager) -> Iterator[Finding]:
    [properties] = manager.show(("Version",))
    number = "".join(itertools.takewhile(str.isdigit, properties["Version"]))
    if number and int(number) < _OLDEST:
        sentence = f"systemd {number} runs here, and the gate needs systemd {_OLDEST} or newer"
        yield Finding("requirement", "error", sentence, "systemd")


def _masked_guard(manager: Manager, changes: FileChanges) -> Iterator[Finding]:
    """That systemd refuses to start the guard. If its file has to be written, that is the mask, as
    `_unusable_paths` says; or the mask is in /run, and the file will take precedence over it.
    """
    guard = HostLayout.guard_unit
    if HostLayout.unit_path(guard) in changes.written_paths:
        return
    if is_masked_unit(manager, guard):
        yield GUARD_IS_MASKED


def _units_before_the_network(manager: Manager, units: tuple[str, ...]) -> Iterator[Finding]:
    """Gated units that the network waits for, while the gate waits for the network. Not judged: an
    order that leads through other units.
    """
    shown = manager.show(("Before",), *map(plain_instance, units))
    for unit, properties in zip(units, shown, strict=True):
        before = sorted(_NETWORK_TARGETS.intersection(properties["Before"].split()))
        if before:
            sentence = (
                f"{unit} starts before {before[0]}, which the gate waits for: each would wait for "
                "the other"
            )
            remedy = Remedy(
                "name the unit that needs the network, such as kubelet.service, in gate.units"
            )
            yield Finding("requirement", "error", sentence, unit, remedy)
