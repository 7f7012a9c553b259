"""What an installation would do on a host (`plan_install`), and what stands against it: what the
host lacks, and what the run would take away. Nothing is changed here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

import attrs

from hostrouting.boot.files import asks_for_nothing
from hostrouting.boot.program import Program
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import ConfigError, HostRoutingError, RequirementError
from hostrouting.finding import Finding, Remedy, Severity
from hostrouting.gate.trusted import find_untrusted, foreign_scripts
from hostrouting.gate.unit_gates import find_ineffective_gates
from hostrouting.gate.unit_names import is_template, plain_instance, template_of
from hostrouting.gate.unit_states import is_masked_unit
from hostrouting.host.files import require_removable
from hostrouting.host.interpreter import missing_interpreter
from hostrouting.host.layout import HostLayout
from hostrouting.install.difference import find_file_changes, find_systemd_changes
from hostrouting.install.installed import read_installed
from hostrouting.install.losses import find_losses, find_lost_addresses
from hostrouting.install.plan import ALLOWED_BY, Plan
from hostrouting.install.typed_commands import GUARD_IS_MASKED
from hostrouting.install.ungated import find_ungated
from hostrouting.kernel.programs import NODE_PROGRAMS
from hostrouting.model.prefix import Prefix
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.host.fileset import FileChanges
    from hostrouting.host.host import Host
    from hostrouting.host.systemd import Manager
    from hostrouting.install.installed import Wanted
    from hostrouting.install.part import Part
    from hostrouting.model.snapshot import Snapshot

_WOULD_REMOVE = f"this would remove protection (to allow it: {ALLOWED_BY}):"
_OLDEST = 249
"""The oldest systemd with which the gate works."""
_NETWORK_TARGETS = {
    "sysinit.target",
    "basic.target",
    "network-pre.target",
    "network.target",
    "network-online.target",
}


def plan_install(
    host: Host, wanted: Wanted, parts: Sequence[Part], *, is_dry_run: bool = False
) -> Plan:
    """What a run with these parts would change, and what stands against that; for a dry run also
    the check of the host as it would be, if a part makes it at the end of the run.

    If the run must not take anything away, a config.json that cannot be read raises its error:
    nobody knows what it protects.
    """
    if host.backend is None:
        parts = ()  # an image has no kernel
    read_snapshot = cache(host.take_snapshot)  # once, if anybody needs it
    config = wanted.config
    files = find_file_changes(host, config)
    systemd = find_systemd_changes(host.running_manager, config, wanted.former, files)
    obstacles = (*find_requirements(host, config, files), *find_ungated(config, host))
    plan = Plan(files, systemd, obstacles=obstacles)
    for part in parts:
        plan = plan.with_work(part.planned(wanted, read_snapshot))
    if not wanted.allow_removal:
        plan = _with_losses(plan, host, wanted, read_snapshot)
    if is_dry_run and any(part.checks_the_result for part in parts):
        plan = plan.with_check(config, read_snapshot())
    return plan


def _with_losses(
    plan: Plan, host: Host, wanted: Wanted, read_snapshot: Callable[[], Snapshot]
) -> Plan:
    """The plan, with what the run would take away."""
    installed = wanted.former
    if installed is None:
        # It could not be read. This raises why, unless another run has just replaced the file: the
        # plan that is made again under the lock has that one.
        installed = read_installed(host)
    losses = [*find_losses(installed, wanted.config)]
    routes = plan.routes
    if routes.waiting:
        plan = plan.with_obstacles(_find_undecided_routes(wanted, plan))
    elif routes.changes and not routes.conflicts:
        snapshot = read_snapshot()
        losses += find_lost_addresses(wanted.config, snapshot, routes.apply_to(snapshot))
    return attrs.evolve(plan, losses=tuple(losses))


def require_no_loss(wanted: Wanted, now: Snapshot, afterwards: Snapshot) -> None:
    """Raise the error of a run that must not change the routes: addresses would escape. This is
    asked again immediately before the change, because a plan is older than the routes.
    """
    if wanted.allow_removal:
        return
    losses = [*find_lost_addresses(wanted.config, now, afterwards)]
    if losses:
        raise ConfigError(losses, headline=_WOULD_REMOVE)


def _find_undecided_routes(wanted: Wanted, plan: Plan) -> Iterator[Finding]:
    """That the run would delete unconfigured routes to expected addresses while another route
    waits: whether addresses escape without them cannot be said, because until then the expected
    devices may be unknown.
    """
    section = wanted.config.route_overlap
    if not section.is_strict:
        return
    cidrs = [Prefix.of(cidr) for cidr in section.cidrs]
    unconfigured: list[str] = []
    for step in plan.routes.deletions.steps:
        prefix = step.route.prefix
        if any(map(prefix.overlaps, cidrs)) and step.route.key not in wanted.former_keys:
            unconfigured.append(str(prefix))
    if not unconfigured:
        return
    sentence = (
        f"{spoken(unconfigured)} would lose a route that is not in the configuration, and whether "
        "addresses escape without it cannot be said while another route waits"
    )
    remedy = Remedy(f"run this again when no route waits, or allow the removal ({ALLOWED_BY})")
    yield Finding("removal", "error", sentence, unconfigured[0], remedy, can_retry=True)


def require_possible(host: Host, wanted: Wanted, plan: Plan) -> None:
    """Raise the error of a run that must fail before its first change: for what the host lacks, for
    what would be lost, for a new conflict of routes, and for missing rights, in this order: whoever
    lacks rights reads first what root would read.

    A conflict does not raise here on a new host, if the installed configuration has it already, or
    in an undo: the run fails at its end, and the gate holds units back until the conflict is
    solved. The same goes for a route that cannot come, in an undo. What the check would find
    afterwards is not among the errors of a plan: the run judges that at its end.
    """
    findings = list(plan.obstacles)
    if not wanted.is_undo:
        findings += plan.routes.route_waits
    lacking = [finding for finding in findings if finding.severity == "error"]
    if lacking:
        raise RequirementError(findings=lacking)
    if plan.losses:
        raise ConfigError(plan.losses, headline=_WOULD_REMOVE)
    conflicts = plan.routes.conflicts
    has_new_conflict = any(step.route.key not in wanted.former_keys for step in conflicts)
    if has_new_conflict and not (wanted.is_on_new_host or wanted.is_undo):
        plan.routes.require_possible()  # names the others, too: they have to be solved as well
    if host.backend is not None and plan.changes_kernel:
        host.rights().require_network()


# What the host lacks.


def find_requirements(
    host: Host, config: HostRoutingConfig, changes: FileChanges
) -> Iterator[Finding]:
    """What this host lacks for the configuration: errors, and for an image also warnings."""
    yield from _unusable_paths(host, changes)
    yield from _unwritable_folders(host, changes)
    gated = gated_units(config)
    if not gated and changes.removes:
        yield from _freed_scripts(host)
    if asks_for_nothing(config):  # a removal needs nothing else
        return
    if gated:
        yield from _untrusted_by_others(host, changes)
        yield from _missing_programs(host, config)
        yield from _unusable_interpreter(host, changes)
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
        yield from _units_that_cannot_be_gated(manager, gated)
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


def _freed_scripts(host: Host) -> Iterator[Finding]:
    """Scripts of other programs that hold units back, and would not any more without the gate."""
    for path in foreign_scripts(host.files):
        sentence = (
            f"{path} was not installed by hostrouting, and gated units would no longer wait "
            "for this script"
        )
        yield Finding("file", "error", sentence, path, Remedy("move the script away first"))


def _untrusted_by_others(host: Host, changes: FileChanges) -> Iterator[Finding]:
    """What lets the gate refuse each start, and is not written anew by this run."""
    for finding in find_untrusted(host.files):
        if finding.target not in changes.written_paths:
            yield finding


def _missing_programs(host: Host, config: HostRoutingConfig) -> Iterator[Finding]:
    """Programs that the units of the node run. An image may get them later."""
    needed: list[tuple[str, str]] = []
    if config.probe_rewrite.enabled:
        needed.append(("nft", "the rewrite of probes"))
    if foreign_scripts(host.files):
        needed.append(("bash", "each script of another program in gate.d"))
    for program, purpose in needed:
        if not host.has_program(program):
            where = " in the image" if host.backend is None else ""
            sentence = (
                f"the program {program} is not installed{where}, or not executable; {purpose} "
                "needs it"
            )
            remedy = Remedy(f"install the package {NODE_PROGRAMS[program]}")
            yield Finding("requirement", _severity(host), sentence, program, remedy)


def _unusable_interpreter(host: Host, changes: FileChanges) -> Iterator[Finding]:
    """That the node has no Python that can run the program. It is tried before anything changes."""
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
    return "warning" if host.backend is None else "error"


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


def _units_that_cannot_be_gated(manager: Manager, units: tuple[str, ...]) -> Iterator[Finding]:
    """Units that the network waits for, while the gate waits for the network; and other names of
    units, because the gate knows a unit by its own. Not judged: an order that leads through other
    units.
    """
    shown = manager.show(("Id", "Before"), *map(plain_instance, units))
    for unit, properties in zip(units, shown, strict=True):
        before = sorted(_NETWORK_TARGETS.intersection(properties["Before"].split()))
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
