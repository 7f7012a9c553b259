"""CleanStaleAzureVnet: what azure-vnet left behind for pods that another CNI manages now; and the way back.

Here: the order of looking, writing down and deleting. Not here: what is stale (`hostrouting.azure_vnet`). Neither task
has a part in the gate, and Configure runs none of them: a deletion is asked for by name.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

import attrs

import phases
from hostrouting.azure_vnet import (
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
from hostrouting.backends.base import Change
from hostrouting.config import EbtablesChoice, IfAzureVnetActive, needs_config
from hostrouting.ebtables import PROGRAMS
from hostrouting.effects import Operation, tell_effects
from hostrouting.errors import (
    AmbiguousRule,
    ApprovedPlanError,
    BackendError,
    BadRule,
    CleanupIncomplete,
    CleanupRefused,
    EbtablesMissing,
    EbtablesNotLoaded,
    EbtablesTooOld,
    FileError,
    NoSuchDevice,
    NoSuchRoute,
    UndoFileError,
)
from hostrouting.host import Host, needs_host
from hostrouting.model import Route
from hostrouting.neighbours import Neighbour
from hostrouting.tasks.results import CleanupResult, UndoResult
from hostrouting.uplink import bare_leg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hostrouting.azure_vnet import Endpoint
    from hostrouting.backends.base import RouteBackend
    from hostrouting.config import AzureVnetCleanupConfig, HostRoutingConfig
    from hostrouting.ebtables import Ebtables
    from hostrouting.neighbours import LinkLayer

__all__ = ["CleanStaleAzureVnet", "UndoAzureVnetCleanup"]

_TRIES = 3
"""How often the rules are read again when one of them is gone, before they are deleted one by one."""
_SINGLY = 10.0
"""How many seconds the deletions one by one may take: each reads all rules anew, with the host locked."""
_HOST_NAME, _BOOT_ID = "/proc/sys/kernel/hostname", "/proc/sys/kernel/random/boot_id"
_NO_KERNEL = "an image has no kernel, and so no rules, neighbours or routes"
_NOUNS: dict[Kind, str] = {"rule": "ebtables rule", "neighbour": "neighbour", "route": "route"}


@attrs.frozen
class _Edges:
    """The three ways to a kernel, which a clean-up needs together."""

    ebtables: Ebtables
    links: LinkLayer
    open_backend: Callable[[], RouteBackend]

    @classmethod
    def of(cls, host: Host, choice: EbtablesChoice) -> _Edges | None:
        """Those of a host; None for an image."""
        if host.ebtables is None or host.link_layer is None or host.backend is None:
            return None
        return cls(host.ebtables().of(choice.value), host.link_layer(), host.backend)

    def kept_to(self, program: str) -> _Edges:
        """The same, for the rules of this program's backend, also when it has none any more and the other one has."""
        backend = PROGRAMS.get(program)
        return self if backend is None else attrs.evolve(self, ebtables=self.ebtables.of(backend, alone=True))


@attrs.frozen
class CleanStaleAzureVnet:
    """Delete the ebtables rules, neighbours and routes of azure-vnet that are about pods of another CNI now.

    1. A look says what is stale; with `dryRun`, which is the default, that is all.
    2. With the host locked, a second look. Only what both say is deleted; or what `approved` says and the second look.
       What is stale and was not agreed to is told, and stays.
    3. What will be deleted is logged, and written to a file, as commands that bring it back, before it is deleted.
    4. The rules go in one batch, all or none. Where another process has taken one away, there is a new look, up
       to three times; then they go one by one, for ten seconds at most. Neighbours follow, each read again just
       before, and then routes.
    5. A last look: what was deleted must not be there again. If it is, azure-vnet is still active.
    """

    name: ClassVar[str] = "clean-stale-azure-vnet"
    config: HostRoutingConfig = attrs.field(validator=needs_config)
    host: Host = attrs.field(factory=Host.local, validator=needs_host, kw_only=True)
    approved: CleanupPlan | None = attrs.field(default=None, kw_only=True, repr=False)
    """What somebody has seen and agreed to, of this host since it booted; nothing that is not in it is deleted."""

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
            for text in (*shown.hindrances, *(f"would delete {it}" for it in shown.deletions)):
                ctx.log.info("%s", text)
            return CleanupResult(shown, is_dry_run=True, unapproved=unapproved)
        if shown.is_empty and not shown.hindrances:
            return CleanupResult(shown, unapproved=unapproved)
        with self.host.locked(ctx) as host:
            ctx.check()
            with ctx.shielded() as safe:  # what is written down and what is deleted must not differ
                task = attrs.evolve(self, host=host)
                program = edges.ebtables.program() if _rules_of(shown) else UndoLog().program
                kept = edges.kept_to(program)
                return _Deleting(host, kept, lambda: task._look(settings, kept), shown, program).carry_out(safe)

    def _shown(self, settings: AzureVnetCleanupConfig, edges: _Edges) -> tuple[CleanupPlan, tuple[Deletion, ...]]:
        """What may be deleted as far as is known by now; and what is stale and may not, after a look."""
        approved = self.approved
        if approved is None:
            return self._look(settings, edges), ()
        if not approved.is_empty:
            self._require_this_host(approved)
            if not settings.dry_run:
                return approved, ()  # there is a look with the host locked
        found = self._look(settings, edges)
        return found.within(approved), found.beyond(approved)

    def _require_this_host(self, approved: CleanupPlan) -> None:
        """ApprovedPlanError for the plan of another host, or of this one before it booted."""
        host, boot = self._origin()
        if approved.boot == boot:
            return
        theirs, ours = approved.host or "a host that it does not name", host or "this host"
        if theirs == ours:
            told = (
                f"it is about {ours} before its last boot, and rules, neighbours and routes are not what they were then"
            )
        else:
            told = f"it is about {theirs}, and this is {ours}"
        raise ApprovedPlanError("the approved plan", told)

    def _origin(self) -> tuple[str, str]:
        """The name of this host, and the kernel's own name for the time since it booted."""
        read, at = self.host.files.read, self.host.layout.at
        return (read(at(_HOST_NAME)) or "").strip(), (read(at(_BOOT_ID)) or "").strip()

    def _look(self, settings: AzureVnetCleanupConfig, edges: _Edges) -> CleanupPlan:
        """What is stale now. Who is alive is read last, so that nothing is judged by pods that were there before it."""
        saved, missing = SavedRules(), None
        if settings.what.ebtables:
            try:
                saved = read_saved(edges.ebtables.save())
            except (EbtablesMissing, EbtablesNotLoaded) as error:
                missing = error
        with edges.open_backend() as backend:
            snapshot = backend.snapshot()
        view = edges.links.look()
        if missing is not None and azure_bridges(settings, view.links):
            raise missing  # without a bridge of azure-vnet there is nothing that its rules could do
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
            told = f"{active} says that azure-vnet manages this node's pods; remove it when another CNI does"
            (notes if settings.if_azure_vnet_active is IfAzureVnetActive.WARN else hindrances).append(told)
        plan = plan_cleanup(settings, Facts(rules=saved, view=view, snapshot=snapshot, endpoints=endpoints))
        if len(plan.deletions) > settings.max_deletions:
            told = (
                f"{len(plan.deletions)} things are stale, and azureVnetCleanup.maxDeletions is {settings.max_deletions}"
            )
            hindrances.append(f"{told}; look at them, and set it higher if they are")
        host, boot = self._origin()
        return attrs.evolve(plan, hindrances=tuple(hindrances), notes=tuple(notes), host=host, boot=boot)

    def _active(self, settings: AzureVnetCleanupConfig) -> str:
        """The file that says that azure-vnet is active, where that counts; empty where none does."""
        if settings.if_azure_vnet_active is IfAzureVnetActive.IGNORE:
            return ""
        files, folder = self.host.files, settings.conflist_dir.rstrip("/")
        there = self.host.layout.at(folder)
        found = active_file(files.names(there), lambda name: files.read(f"{there}/{name}"))
        return f"{folder}/{found}" if found else ""


class _Deleting:
    """One run that deletes, with the host locked: what it means to delete, what it has deleted, what it could not."""

    def __init__(
        self, host: Host, edges: _Edges, look: Callable[[], CleanupPlan], shown: CleanupPlan, program: str
    ) -> None:
        self._edges, self._look, self._shown = edges, look, shown
        self._log = _Log(host, program)
        self._seen = CleanupPlan()
        """What was stale at the last look before the deletion, agreed to or not."""
        self._done: list[Deletion] = []
        self._left: list[str] = []

    def carry_out(self, ctx: phases.Context) -> CleanupResult:
        """Delete what was shown and is stale still, and look whether it is gone."""
        plan = self._agreed()
        for it in self._seen.beyond(self._shown):
            ctx.log.warning("stale, but not in the plan that was agreed to, and stays: %s", it)
        if plan.is_empty:
            return CleanupResult(plan, unapproved=self._seen.beyond(self._shown))
        for it in plan.deletions:
            ctx.log.info("will delete %s", it)
        self._log.write(plan.deletions)
        with self._telling():  # what it has done may be more than is known: then the file stays as it was written
            try:
                plan = self._delete_rules(ctx, plan)
            except (CleanupRefused, EbtablesTooOld):  # by a new look, after a batch that changed nothing, or by a batch
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
        return tuple(Operation("delete", f"{_NOUNS[it.kind]} {it.spec}", it.reason) for it in self._done)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Whatever error comes out of the block carries what was deleted by then."""
        try:
            yield
        except BaseException as error:
            tell_effects(error, files=self._log.files, operations=self._operations)
            raise

    def _agreed(self) -> CleanupPlan:
        """What a new look says as well; CleanupRefused where something speaks against all of it."""
        found = self._look()
        if found.hindrances:
            raise CleanupRefused(found.hindrances)
        self._seen = found
        return found.within(self._shown)

    def _delete_rules(self, ctx: phases.Context, plan: CleanupPlan) -> CleanupPlan:
        """Delete the rules of the plan; the plan that holds after it."""
        ebtables = self._edges.ebtables
        unclear: dict[str, str] = {}
        for _ in range(_TRIES):
            rules = [it for it in _rules_of(plan) if it.thing not in unclear]
            try:
                ebtables.delete([str(it.thing) for it in rules])
            except AmbiguousRule as error:
                unclear |= dict.fromkeys(error.lines, str(error))
            except BadRule:  # another process deletes too; nothing was done
                plan = self._agreed()
                self._log.write(plan.deletions)
            else:
                self._done += rules
                break
        else:
            self._delete_singly(ctx, [it for it in _rules_of(plan) if it.thing not in unclear])
        self._left += [f"rule {line}: {reason}" for line, reason in unclear.items()]
        return plan

    def _delete_singly(self, ctx: phases.Context, rules: list[Deletion]) -> None:
        """Delete one rule after the other, as many as there is time for; the others are named."""
        end = ctx.clock.now() + _SINGLY
        told = f"no time was left: other processes change the rules, and one by one has {_SINGLY:g} s; try again"
        for it in rules:
            if ctx.clock.now() >= end:
                self._left.append(f"rule {it.thing}: {told}")
            elif self._edges.ebtables.delete_one(str(it.thing)):
                self._done.append(it)

    def _delete_neighbours(self, plan: CleanupPlan) -> None:
        for it in plan.deletions:
            if isinstance(it.thing, Neighbour):
                if self._edges.links.delete_neighbour(it.thing):
                    self._done.append(it)
                else:
                    self._left.append(f"{it.spec} has changed meanwhile, and stays")

    def _delete_routes(self, plan: CleanupPlan) -> None:
        routes = {it.thing: it for it in plan.deletions if isinstance(it.thing, Route)}
        if not routes:
            return
        with self._edges.open_backend() as backend:
            outcomes = backend.change(Change("delete", route) for route in routes)
        for outcome in outcomes:
            it = routes[outcome.change.route]
            if outcome.ok:
                self._done.append(it)
            elif not isinstance(outcome.error, NoSuchRoute | NoSuchDevice):
                self._left.append(f"{it.spec}: {outcome.error}")

    def _require_gone(self, after: CleanupPlan, *, planned: int) -> None:
        done = Counter(it.key for it in self._done)
        more = Counter(it.key for it in after.deletions) - (Counter(it.key for it in self._seen.deletions) - done)
        told = "is there again: azure-vnet, or another program, is active"
        self._left += [f"{kind} {spec} {told}" for kind, spec in more if done[kind, spec]]
        if self._left:
            gone = f"{len(self._done)} of {planned} things were deleted, and are noted in {self._log.path}"
            raise CleanupIncomplete(f"{gone}; what is left", self._left)


def _rules_of(plan: CleanupPlan) -> list[Deletion]:
    return [it for it in plan.deletions if it.kind == "rule"]


@attrs.frozen
class UndoAzureVnetCleanup:
    """Bring back what a clean-up has deleted, as the file says that it wrote; what is there still is left alone."""

    name: ClassVar[str] = "undo-azure-vnet-cleanup"
    path: str
    host: Host = attrs.field(factory=Host.local, validator=needs_host, kw_only=True)
    ebtables: EbtablesChoice = attrs.field(default=EbtablesChoice.AUTO, converter=EbtablesChoice, kw_only=True)
    """Where the rules are brought back, if the file does not say so."""

    def do(self, ctx: phases.Context) -> UndoResult | phases.Skip:
        """See the class. UndoFileError, before anything is changed, where the file is not one."""
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
            raise UndoFileError(self.path, "there is no such file")
        try:
            return UndoLog.parse(text)
        except ValueError as error:
            raise UndoFileError(self.path, str(error)) from error

    def _restore(self, edges: _Edges, log: UndoLog) -> UndoResult:
        restoring = _Restoring(edges)
        with restoring.telling():
            restoring.rules(log.rules)
            restoring.neighbours(log.neighbours)
            restoring.routes(log.routes)
            if restoring.left:
                told = f"{len(restoring.done)} things of {self.path} were brought back; what is left"
                raise CleanupIncomplete(told, restoring.left)
        return UndoResult(tuple(restoring.done))


class _Restoring:
    """One run that brings things back: what it has brought back, and what it could not."""

    def __init__(self, edges: _Edges) -> None:
        self._edges = edges
        self.done: list[Operation] = []
        self.left: list[str] = []

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Whatever error comes out of the block carries what was brought back by then."""
        try:
            yield
        except BaseException as error:
            tell_effects(error, operations=self.done)
            raise

    def rules(self, lines: tuple[str, ...]) -> None:
        """Each rule as often as it was deleted; what is there of it now counts."""
        if not lines:
            return
        there = Counter(it.line for it in read_saved(self._edges.ebtables.save()).rules if it.table == "nat")
        missing = tuple((Counter(lines) - there).elements())
        self._edges.ebtables.add(missing)
        for line in missing:
            self._note("rule", line)

    def neighbours(self, neighbours: tuple[Neighbour, ...]) -> None:
        """Each neighbour whose address has no entry on its device."""
        there = set(self._edges.links.look().neighbours) if neighbours else set()
        for it in neighbours:
            if it in there:
                continue
            try:
                if self._edges.links.add_neighbour(it):
                    self._note("neighbour", it)
                else:
                    self.left.append(f"{it}: there is another entry for its address")
            except BackendError as error:
                self.left.append(f"{it}: {error}")

    def routes(self, routes: tuple[Route, ...]) -> None:
        """Each route whose key no other one has."""
        if not routes:
            return
        with self._edges.open_backend() as backend:
            found = backend.snapshot(prefixes={it.prefix for it in routes}).routes
            there = {attrs.evolve(it, legs=tuple(map(bare_leg, it.legs))) for it in found}
            outcomes = backend.change(Change("add", it) for it in routes if it not in there)
        for outcome in outcomes:
            if outcome.ok:
                self._note("route", outcome.change.route)
            else:
                self.left.append(f"{outcome.change.route}: {outcome.error}")

    def _note(self, kind: Kind, what: object) -> None:
        self.done.append(Operation("add", f"{_NOUNS[kind]} {what}", "the undo file has it"))


class _Log:
    """The file of what a run deletes; there is a new one for each run that deletes anything."""

    def __init__(self, host: Host, program: str) -> None:
        self._program = program
        layout, self._files = host.layout, host.files
        names = self._files.names(layout.at(layout.lasting_directory))
        taken = [int(found[1]) for it in names if (found := re.fullmatch(r"azure-vnet-(\d{1,9})\.undo", it))]
        self.path = layout.undo_file(max(taken, default=0) + 1)
        self._written: UndoLog | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """Its path, where it was written."""
        return () if self._written is None else (self.path,)

    def write(self, deletions: tuple[Deletion, ...]) -> None:
        """Note what will be deleted, before it is."""
        coming = UndoLog.of(deletions, program=self._program)
        self._files.write(self.path, str(coming), mode=0o600)
        self._written = coming

    def settle(self, ctx: phases.Context, done: list[Deletion]) -> None:
        """Note what was deleted in the end, where that is less than what was noted; nothing needs no file."""
        if self._written == UndoLog.of(done, program=self._program):
            return
        try:
            if done:
                self.write(tuple(done))
            else:
                self._files.remove(self.path)
                self._written = None
        except FileError as error:
            ctx.log.warning("%s; %s names more than was deleted", error, self.path)
