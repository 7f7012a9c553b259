"""CleanStaleAzureVnet deletes what azure-vnet left behind for pods that another CNI manages now; and its undo task.

Here: the order of reading, recording and deleting. Not here: what is stale (`cleanup`). Neither task has a part in the
gate, and Configure does not run them: the administrator has to ask for a deletion explicitly.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

import attrs

import phases
from hostrouting.config import EbtablesChoice, IfAzureVnetActive, needs_config
from hostrouting.errors import (
    BackendError,
    CleanupError,
    FileError,
    InputError,
    ProgramError,
)
from hostrouting.host.effects import Operation, tell_effects
from hostrouting.host.host import Host, needs_host
from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.ebtables import PROGRAMS
from hostrouting.kernel.neighbours import Neighbour
from hostrouting.model import Route
from hostrouting.routes.uplink import bare_leg
from hostrouting.tasks.azure_vnet import (
    CleanupPlan,
    Deletion,
    Facts,
    Kind,
    SavedRules,
    StateFileUnreadable,
    UndoLog,
    active_file,
    azure_bridges,
    plan_cleanup,
    read_saved,
    read_state,
)
from hostrouting.tasks.results import CleanupResult, UndoResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hostrouting.config import AzureVnetCleanupConfig, HostRoutingConfig
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.kernel.ebtables import Ebtables
    from hostrouting.kernel.neighbours import LinkLayer
    from hostrouting.tasks.azure_vnet import Endpoint

__all__ = ["CleanStaleAzureVnet", "UndoAzureVnetCleanup"]

_TRIES = 3
"""How often the batch is tried, with a new read of the rules each time, before they are deleted one by one."""
_TIME_LIMIT = 10.0
"""The timeout in seconds for deleting one by one: each deletion reads all rules again, with the host locked."""
_HOST_NAME, _BOOT_ID = "/proc/sys/kernel/hostname", "/proc/sys/kernel/random/boot_id"
_NO_KERNEL = "an image does not have a running kernel, so it has no rules, neighbours or routes"
_NOUNS: dict[Kind, str] = {"rule": "ebtables rule", "neighbour": "neighbour", "route": "route"}


@attrs.frozen
class _Edges:
    """The three interfaces to a kernel that a clean-up uses."""

    ebtables: Ebtables
    links: LinkLayer
    open_backend: Callable[[], RouteBackend]

    @classmethod
    def of(cls, host: Host, choice: EbtablesChoice) -> _Edges | None:
        """The interfaces of a host; None for an image."""
        if host.ebtables is None or host.link_layer is None or host.backend is None:
            return None
        return cls(host.ebtables().of(choice.value), host.link_layer(), host.backend)

    def kept_to(self, program: str) -> _Edges:
        """The same interfaces, bound to this ebtables backend, even if it has no rules left and the other one has."""
        backend = PROGRAMS.get(program)
        return self if backend is None else attrs.evolve(self, ebtables=self.ebtables.of(backend, alone=True))


@attrs.frozen
class CleanStaleAzureVnet:
    """Delete ebtables rules, neighbours and routes of azure-vnet that concern pods which another CNI manages now.

    1. Find what is stale. With `dryRun`, which is the default, that is all.
    2. Lock the host and find it again. Delete only what is in both results, or in `approved` and the second result.
       Stale entries that were not approved stay and are reported.
    3. Log what will be deleted, and write it to a file as commands that restore it, before the deletion.
    4. Delete the rules in one batch, all or none. If another process has deleted one of them, read the rules again and
       retry, three attempts in all; then delete one by one, for at most ten seconds. Then delete the neighbours, each
       after it was read once more, and then the routes.
    5. Check that what was deleted has not come back. If it has, azure-vnet is still active.
    """

    name: ClassVar[str] = "clean-stale-azure-vnet"
    config: HostRoutingConfig = attrs.field(validator=needs_config)
    host: Host = attrs.field(factory=Host.local, validator=needs_host, kw_only=True)
    approved: CleanupPlan | None = attrs.field(default=None, kw_only=True, repr=False)
    """The plan that the administrator has approved, made on this host since it booted; only its entries are deleted."""

    def plan(self, _ctx: phases.Context) -> CleanupPlan:
        """What is stale on this host as it is now; changes nothing."""
        settings = self.config.azure_vnet_cleanup
        edges = None if settings is None else _Edges.of(self.host, settings.ebtables)
        if settings is None or edges is None:
            return CleanupPlan()
        return self._look(settings, edges)

    def do(self, ctx: phases.Context) -> CleanupResult | phases.Skip:
        """See the class."""
        settings = self.config.azure_vnet_cleanup
        if settings is None:
            return phases.Skip("azureVnetCleanup is not in the configuration")
        edges = _Edges.of(self.host, settings.ebtables)
        if edges is None:
            return phases.Skip(_NO_KERNEL)
        shown, unapproved = self._shown(settings, edges)
        for note in shown.notes:
            ctx.log.warning("%s", note)
        if settings.dry_run:
            for text in (*shown.hindrances, *(f"would delete {deletion}" for deletion in shown.deletions)):
                ctx.log.info("%s", text)
            return CleanupResult(shown, is_dry_run=True, unapproved=unapproved)
        if shown.is_empty and not shown.hindrances:
            return CleanupResult(shown, unapproved=unapproved)
        self.host.rights().require_network()  # before the undo file is written
        with self.host.locked(ctx) as host:
            ctx.check()
            with ctx.shielded() as safe:  # the undo file has to match what is deleted
                task = attrs.evolve(self, host=host)
                program = edges.ebtables.program() if _rules_of(shown) else UndoLog().program
                kept = edges.kept_to(program)
                return _Deleting(host, kept, lambda: task._look(settings, kept), shown, program).carry_out(safe)

    def _shown(self, settings: AzureVnetCleanupConfig, edges: _Edges) -> tuple[CleanupPlan, tuple[Deletion, ...]]:
        """What may be deleted, as far as is known without the lock; and what is stale but not approved."""
        approved = self.approved
        if approved is None:
            return self._look(settings, edges), ()
        if not approved.is_empty:
            self._require_this_host(approved)
            if not settings.dry_run:
                return approved, ()  # what is stale is found again with the host locked
        found = self._look(settings, edges)
        return found.within(approved), found.beyond(approved)

    def _require_this_host(self, approved: CleanupPlan) -> None:
        """Raise InputError if the plan was made on another host, or before this host last booted."""
        host, boot = self._origin()
        if approved.boot == boot:
            return
        theirs, ours = approved.host or "an unnamed host", host or "this host"
        if theirs == ours:
            told = f"it was made before {ours} last booted, and rules, neighbours and routes have changed since"
        else:
            told = f"it was made on {theirs}, and this is {ours}"
        raise InputError("approved-plan", path="the approved plan", problem=told)

    def _origin(self) -> tuple[str, str]:
        """The name of this host, and the kernel's boot ID, which is different after each boot."""
        read, at = self.host.files.read, self.host.layout.at
        return (read(at(_HOST_NAME)) or "").strip(), (read(at(_BOOT_ID)) or "").strip()

    def _look(self, settings: AzureVnetCleanupConfig, edges: _Edges) -> CleanupPlan:
        """What is stale now. Live pods are read last, so the rules of a pod that has just started do not seem stale."""
        saved, missing = SavedRules(), None
        if settings.what.ebtables:
            try:
                saved = read_saved(edges.ebtables.save())
            except ProgramError as error:
                if error.kind not in {"missing", "not-loaded"}:
                    raise
                missing = error
        with edges.open_backend() as backend:
            snapshot = backend.snapshot()
        view = edges.links.look()
        if missing is not None and azure_bridges(settings, view.links):
            raise missing  # without a bridge of azure-vnet, its rules would have no effect
        endpoints: tuple[Endpoint, ...] = ()
        hindrances: list[str] = []
        notes: list[str] = []
        layout = self.host.layout
        text = self.host.files.read(layout.at(settings.state_file))
        try:
            endpoints = () if text is None else read_state(text)
        except StateFileUnreadable as error:
            told = f"azure-vnet's state file {settings.state_file} cannot be read: {error}"
            hindrances.append(f"{told}; wait for azure-vnet to write it, or remove it if azure-vnet is gone")
        active = self._active(settings)
        if active:
            told = f"{active} says that azure-vnet manages this node's pods; remove it if another CNI manages them"
            (notes if settings.if_azure_vnet_active is IfAzureVnetActive.WARN else hindrances).append(told)
        plan = plan_cleanup(settings, Facts(rules=saved, view=view, snapshot=snapshot, endpoints=endpoints))
        if len(plan.deletions) > settings.max_deletions:
            told = (
                f"{len(plan.deletions)} entries are stale, and azureVnetCleanup.maxDeletions is"
                f" {settings.max_deletions}"
            )
            hindrances.append(f"{told}; check them, and set it higher if all are stale")
        host, boot = self._origin()
        return attrs.evolve(plan, hindrances=tuple(hindrances), notes=tuple(notes), host=host, boot=boot)

    def _active(self, settings: AzureVnetCleanupConfig) -> str:
        """The path of the file that says that azure-vnet is active; empty if there is none or it is to be ignored."""
        if settings.if_azure_vnet_active is IfAzureVnetActive.IGNORE:
            return ""
        files, folder = self.host.files, settings.conflist_dir.rstrip("/")
        there = self.host.layout.at(folder)
        found = active_file(files.names(there), lambda name: files.read(f"{there}/{name}"))
        return f"{folder}/{found}" if found else ""


class _Deleting:
    """One run that deletes, with the host locked: what it will delete, has deleted and could not delete."""

    def __init__(
        self, host: Host, edges: _Edges, look: Callable[[], CleanupPlan], shown: CleanupPlan, program: str
    ) -> None:
        self._edges, self._look, self._shown = edges, look, shown
        self._log = _Log(host, program)
        self._seen = CleanupPlan()
        """What was stale at the last read before the deletion, approved or not."""
        self._done: list[Deletion] = []
        self._left: list[str] = []

    def carry_out(self, ctx: phases.Context) -> CleanupResult:
        """Delete what was shown and is still stale, and check that it is gone."""
        plan = self._agreed()
        for entry in self._seen.beyond(self._shown):
            ctx.log.warning("stale, but not in the approved plan, so it is kept: %s", entry)
        if plan.is_empty:
            return CleanupResult(plan, unapproved=self._seen.beyond(self._shown))
        for deletion in plan.deletions:
            ctx.log.info("will delete %s", deletion)
        self._log.write(plan.deletions)
        with self._telling():  # more may have been deleted than is known: after an error the file stays as written
            try:
                plan = self._delete_rules(ctx, plan)
            except (CleanupError, ProgramError) as error:
                if isinstance(error, CleanupError) or error.kind == "too-old":  # no further rule was deleted
                    self._log.settle(ctx, self._done)
                raise
            self._delete_neighbours(plan)
            self._delete_routes(plan)
        self._log.settle(ctx, self._done)
        with self._telling():
            after = self._look()
            self._require_gone(after, planned=len(plan.deletions))
        undo_file = self._log.path if self._done else ""
        return CleanupResult(
            plan,
            tuple(self._done),
            after,
            self._log.files,
            self._operations,
            undo_file=undo_file,
            unapproved=self._seen.beyond(self._shown),
        )

    @property
    def _operations(self) -> tuple[Operation, ...]:
        return tuple(
            Operation("delete", f"{_NOUNS[deletion.kind]} {deletion.spec}", deletion.reason) for deletion in self._done
        )

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Attach to any error that leaves the block what was deleted before it."""
        try:
            yield
        except BaseException as error:
            tell_effects(error, files=self._log.files, operations=self._operations)
            raise

    def _agreed(self) -> CleanupPlan:
        """What was shown and is still stale; CleanupError if there is a reason not to delete anything."""
        found = self._look()
        if found.hindrances:
            raise CleanupError("nothing was deleted", found.hindrances, kind="refused")
        self._seen = found
        return found.within(self._shown)

    def _delete_rules(self, ctx: phases.Context, plan: CleanupPlan) -> CleanupPlan:
        """Delete the rules of the plan; returns the plan as it is after the last read."""
        ebtables = self._edges.ebtables
        unclear: dict[str, str] = {}
        for _ in range(_TRIES):
            rules = [deletion for deletion in _rules_of(plan) if deletion.thing not in unclear]
            try:
                ebtables.delete([str(rule.thing) for rule in rules])
            except ProgramError as error:
                if error.kind == "ambiguous-rule":
                    unclear |= dict.fromkeys(error.lines, str(error))
                elif error.kind == "no-such-rule":  # another process has deleted it; the batch changed nothing
                    plan = self._agreed()
                    self._log.write(plan.deletions)
                else:
                    raise
            else:
                self._done += rules
                break
        else:
            self._delete_singly(ctx, [deletion for deletion in _rules_of(plan) if deletion.thing not in unclear])
        self._left += [f"rule {line}: {reason}" for line, reason in unclear.items()]
        return plan

    def _delete_singly(self, ctx: phases.Context, rules: list[Deletion]) -> None:
        """Delete the rules one by one until the timeout; the others are reported."""
        end = ctx.clock.now() + _TIME_LIMIT
        told = f"not deleted within {_TIME_LIMIT:g} s, because other processes change the rules; try again"
        for rule in rules:
            if ctx.clock.now() >= end:
                self._left.append(f"rule {rule.thing}: {told}")
            elif self._edges.ebtables.delete_one(str(rule.thing)):
                self._done.append(rule)

    def _delete_neighbours(self, plan: CleanupPlan) -> None:
        for deletion in plan.deletions:
            if isinstance(deletion.thing, Neighbour):
                if self._edges.links.delete_neighbour(deletion.thing):
                    self._done.append(deletion)
                else:
                    self._left.append(f"{deletion.spec} has changed since it was read, so it is kept")

    def _delete_routes(self, plan: CleanupPlan) -> None:
        routes = {deletion.thing: deletion for deletion in plan.deletions if isinstance(deletion.thing, Route)}
        if not routes:
            return
        with self._edges.open_backend() as backend:
            outcomes = backend.change(RouteRequest("delete", route) for route in routes)
        for outcome in outcomes:
            deletion = routes[outcome.change.route]
            if outcome.error is None:
                self._done.append(deletion)
            elif outcome.error.kind not in {"no-such-route", "no-such-device"}:
                self._left.append(f"{deletion.spec}: {outcome.error}")

    def _require_gone(self, after: CleanupPlan, *, planned: int) -> None:
        done = Counter(deletion.key for deletion in self._done)
        more = Counter(deletion.key for deletion in after.deletions) - (
            Counter(deletion.key for deletion in self._seen.deletions) - done
        )
        told = "was added again: azure-vnet or another program is active"
        self._left += [f"{kind} {spec} {told}" for kind, spec in more if done[kind, spec]]
        if self._left:
            gone = f"{len(self._done)} of {planned} entries were deleted, and are saved in {self._log.path}"
            raise CleanupError(f"{gone}; not deleted", self._left, kind="incomplete")


def _rules_of(plan: CleanupPlan) -> list[Deletion]:
    return [deletion for deletion in plan.deletions if deletion.kind == "rule"]


@attrs.frozen
class UndoAzureVnetCleanup:
    """Restore what a clean-up has deleted, from the undo file that it wrote; entries that still exist are kept."""

    name: ClassVar[str] = "undo-azure-vnet-cleanup"
    path: str
    host: Host = attrs.field(factory=Host.local, validator=needs_host, kw_only=True)
    ebtables: EbtablesChoice = attrs.field(default=EbtablesChoice.AUTO, converter=EbtablesChoice, kw_only=True)
    """The ebtables backend in which the rules are restored if the file does not name one."""

    def do(self, ctx: phases.Context) -> UndoResult | phases.Skip:
        """See the class. Raises InputError, before anything is changed, if the file is not an undo file."""
        edges = _Edges.of(self.host, self.ebtables)
        if edges is None:
            return phases.Skip(_NO_KERNEL)
        log = self._read()
        with self.host.locked(ctx):
            ctx.check()
            with ctx.shielded():
                return self._restore(edges.kept_to(log.program), log)

    def plan(self, _ctx: phases.Context) -> UndoLog:
        """What the file says; changes nothing."""
        return self._read()

    def _read(self) -> UndoLog:
        text = self.host.files.read(self.path)
        if text is None:
            raise InputError("undo-file", path=self.path, problem="there is no such file")
        try:
            return UndoLog.parse(text)
        except ValueError as error:
            raise InputError("undo-file", path=self.path, problem=str(error)) from error

    def _restore(self, edges: _Edges, log: UndoLog) -> UndoResult:
        restoring = _Restoring(edges)
        with restoring.telling():
            restoring.rules(log.rules)
            restoring.neighbours(log.neighbours)
            restoring.routes(log.routes)
            if restoring.left:
                told = f"{len(restoring.done)} entries of {self.path} were restored; not restored"
                raise CleanupError(told, restoring.left, kind="incomplete")
        return UndoResult(tuple(restoring.done))


class _Restoring:
    """One run that restores entries: what it has restored, and what it could not."""

    def __init__(self, edges: _Edges) -> None:
        self._edges = edges
        self.done: list[Operation] = []
        self.left: list[str] = []

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Attach to any error that leaves the block what was restored before it."""
        try:
            yield
        except BaseException as error:
            tell_effects(error, operations=self.done)
            raise

    def rules(self, lines: tuple[str, ...]) -> None:
        """Add each rule as often as it was deleted, less the copies that exist now."""
        if not lines:
            return
        there = Counter(rule.line for rule in read_saved(self._edges.ebtables.save()).rules if rule.table == "nat")
        missing = tuple((Counter(lines) - there).elements())
        self._edges.ebtables.add(missing)
        for line in missing:
            self._note("rule", line)

    def neighbours(self, neighbours: tuple[Neighbour, ...]) -> None:
        """Add each neighbour, unless its device already has an entry for its address."""
        there = set(self._edges.links.look().neighbours) if neighbours else set()
        for neighbour in neighbours:
            if neighbour in there:
                continue
            try:
                if self._edges.links.add_neighbour(neighbour):
                    self._note("neighbour", neighbour)
                else:
                    self.left.append(f"{neighbour}: another entry exists for this address")
            except BackendError as error:
                self.left.append(f"{neighbour}: {error}")

    def routes(self, routes: tuple[Route, ...]) -> None:
        """Add each route, unless another route has its key."""
        if not routes:
            return
        with self._edges.open_backend() as backend:
            found = backend.snapshot(prefixes={route.prefix for route in routes}).routes
            there = {attrs.evolve(route, legs=tuple(map(bare_leg, route.legs))) for route in found}
            outcomes = backend.change(RouteRequest("add", route) for route in routes if route not in there)
        for outcome in outcomes:
            if outcome.ok:
                self._note("route", outcome.change.route)
            else:
                self.left.append(f"{outcome.change.route}: {outcome.error}")

    def _note(self, kind: Kind, what: object) -> None:
        self.done.append(Operation("add", f"{_NOUNS[kind]} {what}", "it is in the undo file"))


class _Log:
    """The undo file of a run; each run that deletes anything writes a new one."""

    def __init__(self, host: Host, program: str) -> None:
        self._program = program
        layout, self._files = host.layout, host.files
        names = self._files.names(layout.at(layout.lasting_directory))
        taken = [int(found[1]) for name in names if (found := re.fullmatch(r"azure-vnet-(\d{1,9})\.undo", name))]
        self.path = layout.undo_file(max(taken, default=0) + 1)
        self._written: UndoLog | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The path of the file, if it was written."""
        return () if self._written is None else (self.path,)

    def write(self, deletions: tuple[Deletion, ...]) -> None:
        """Record what will be deleted; called before the deletion."""
        coming = UndoLog.of(deletions, program=self._program)
        self._files.write(self.path, str(coming), mode=0o600)
        self._written = coming

    def settle(self, ctx: phases.Context, done: list[Deletion]) -> None:
        """Write the file again if less was deleted than recorded; remove it if nothing was deleted."""
        if self._written == UndoLog.of(done, program=self._program):
            return
        try:
            if done:
                self.write(tuple(done))
            else:
                self._files.remove(self.path)
                self._written = None
        except FileError as error:
            ctx.log.warning("%s; the undo file %s names more than was deleted", error, self.path)
