"""Deletes what another CNI left on a host: reading, recording and deleting in the safe order.

Here: `Cleanup`, the base class of a clean-up. Not here: what is stale (a module for each CNI, which overrides `judge`).
A clean-up has no part in the gate, and Configure does not run it: the administrator has to ask for a deletion.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar

import attrs

import phases
from hostrouting.errors import CleanupError, FileError, ProgramError
from hostrouting.finding import of_severity
from hostrouting.host.effects import Operation, tell_effects
from hostrouting.host.host import Host, needs_host
from hostrouting.kernel.base import RouteBackend, RouteRequest
from hostrouting.kernel.ebtables import PROGRAMS, Ebtables
from hostrouting.kernel.neighbours import LinkLayer, Neighbour
from hostrouting.model.route import Route
from hostrouting.tasks.cleanup.plan import CleanupEntry, CleanupFacts, CleanupPlan, Kind, UndoLog
from hostrouting.tasks.cleanup.saved_rules import read_saved
from hostrouting.tasks.results import CleanupResult

_TRIES = 3
"""How often the batch is tried, with a new read of the rules each time, before they are deleted one by one."""
_TIME_LIMIT = 10.0
"""The timeout in seconds for deleting one by one: each deletion reads all rules again, with the host locked."""
_PRIVATE = 0o600
_NO_KERNEL = "an image does not have a running kernel, so it has no rules, neighbours or routes"


@attrs.frozen
class _Edges:
    """The interfaces to the kernel that a clean-up uses: packet filter, link layer and routes."""

    ebtables: Ebtables
    links: LinkLayer
    open_backend: Callable[[], RouteBackend]

    @classmethod
    def of(cls, host: Host) -> _Edges | None:
        """The interfaces of a host; None for an image."""
        if host.ebtables is None or host.link_layer is None or host.backend is None:
            return None
        return cls(host.ebtables(), host.link_layer(), host.backend)

    def kept_to(self, program: str) -> _Edges:
        """The same interfaces, bound to this ebtables backend, even if it has no rules left and the other one has."""
        return attrs.evolve(self, ebtables=self.ebtables.of(PROGRAMS.get(program)))

    def look(self, host: Host) -> CleanupFacts:
        """The host as it is now. Pods are read last, so that the rules of a new pod do not seem stale."""
        try:
            rules = read_saved(self.ebtables.save())
        except ProgramError as error:
            if error.kind not in {"missing", "not-loaded"}:
                raise
            rules = None
        with self.open_backend() as backend:
            snapshot = backend.snapshot()
        files, at = host.files, host.layout.at
        return CleanupFacts(
            rules,
            self.links.look(),
            snapshot,
            read=lambda path: files.read(at(path)),
            names=lambda folder: files.names(at(folder)),
        )


@attrs.frozen(kw_only=True)
class Cleanup:
    """Delete ebtables rules, neighbours and routes of a CNI that concern pods which another CNI manages now.

    A subclass says in `judge` what is stale; everything else is here.

    1. Find what is stale. In a dry run, that is all.
    2. Lock the host and find it again: that is deleted.
    3. Log what will be deleted, and write it to a file as commands that restore it, before the deletion.
    4. Delete the rules in one batch, all or none. If another process has deleted one of them, read the rules again and
       retry, three attempts in all; then delete one by one, for at most ten seconds. Then delete the neighbours, each
       after it was read once more, and the routes.
    5. Check that what was deleted has not come back. If it has, another program is active.
    """

    name: ClassVar[str]
    cni: ClassVar[str]
    """The CNI that left it, as part of file names."""
    host: Host = attrs.field(factory=Host.local, validator=needs_host)

    def judge(self, facts: CleanupFacts) -> CleanupPlan:
        """What is stale by these facts, what is kept, and why. If a finding is an error, nothing is deleted."""
        raise NotImplementedError

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to look for."""
        return True

    @property
    def is_dry_run(self) -> bool:
        """Whether the task only reports."""
        return True

    def plan(self, _ctx: phases.Context) -> CleanupPlan:
        """What is stale on this host as it is now; changes nothing."""
        edges = _Edges.of(self.host) if self.is_wanted else None
        return CleanupPlan() if edges is None else self._look(edges)

    def do(self, ctx: phases.Context) -> CleanupResult | phases.Skip:
        """See the class."""
        if not self.is_wanted:
            return phases.Skip("it is not in the configuration")
        edges = _Edges.of(self.host)
        if edges is None:
            return phases.Skip(_NO_KERNEL)
        plan = self._look(edges)
        for finding in of_severity(plan.findings, "warning", "note"):
            ctx.log.log(finding.level, "%s", finding)
        if self.is_dry_run:
            for text in (*plan.hindrances, *(f"would delete {entry}" for entry in plan.deletions)):
                ctx.log.info("%s", text)
            return CleanupResult(plan=plan, is_dry_run=True)
        if not plan.deletions and not plan.hindrances:
            return CleanupResult(plan=plan)
        self.host.rights().require_network()  # before the undo file is written
        with self.host.locked(ctx) as host:
            ctx.check()
            with ctx.shielded() as safe:  # the undo file has to match what is deleted
                plan = self._planned(edges)
                program = edges.ebtables.program() if _of_kind(plan, "rule") else UndoLog().program
                return _Deleting(attrs.evolve(self, host=host), edges.kept_to(program), plan, program).carry_out(safe)

    def _planned(self, edges: _Edges) -> CleanupPlan:
        """What is stale now; CleanupError if there is a reason not to delete anything."""
        plan = self._look(edges)
        if plan.hindrances:
            raise CleanupError("nothing was deleted", plan.hindrances, kind="refused")
        return plan

    def _look(self, edges: _Edges) -> CleanupPlan:
        return attrs.evolve(self.judge(edges.look(self.host)), is_dry_run=self.is_dry_run)


def _of_kind(plan: CleanupPlan, kind: Kind) -> list[CleanupEntry]:
    return [entry for entry in plan.deletions if entry.kind == kind]


def _numbers(names: Iterable[str], cni: str) -> list[int]:
    """The numbers of the undo files with these names."""
    return [int(found[1]) for name in names if (found := re.fullmatch(rf"{cni}-(\d{{1,9}})\.undo", name))]


class _Deleting:
    """One run that deletes, with the host locked: what is to be deleted, what was, and what could not be."""

    def __init__(self, task: Cleanup, edges: _Edges, plan: CleanupPlan, program: str) -> None:
        self._task, self._edges = task, edges
        self._log = _Log(task, program)
        self._seen = plan
        """What was stale at the last read before the deletion."""
        self._done: list[CleanupEntry] = []
        self._left: list[str] = []

    def carry_out(self, ctx: phases.Context) -> CleanupResult:
        """Delete what is stale, and check that it is gone."""
        plan = self._seen
        if not plan.deletions:
            return CleanupResult(plan=plan)
        for entry in plan.deletions:
            ctx.log.info("will delete %s", entry)
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
            after = self._task._look(self._edges)
            self._require_gone(after, planned=len(plan.deletions))
        return CleanupResult(
            plan=plan,
            deleted=tuple(self._done),
            after=after,
            files=self._log.files,
            operations=self._operations,
            undo_file=self._log.path if self._done else "",
        )

    @property
    def _operations(self) -> tuple[Operation, ...]:
        return tuple(entry.deletion() for entry in self._done)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Attach what was deleted to any error that leaves the block."""
        try:
            yield
        except BaseException as error:
            tell_effects(error, files=self._log.files, operations=self._operations)
            raise

    def _delete_rules(self, ctx: phases.Context, plan: CleanupPlan) -> CleanupPlan:
        """Delete the plan's rules; return the plan as it is after the last reading."""
        ebtables = self._edges.ebtables
        unclear: dict[str, str] = {}
        for _ in range(_TRIES):
            rules = [entry for entry in _of_kind(plan, "rule") if entry.thing not in unclear]
            try:
                ebtables.delete([str(rule.thing) for rule in rules])
            except ProgramError as error:
                if error.kind == "ambiguous-rule":
                    unclear |= dict.fromkeys(error.lines, str(error))
                elif error.kind == "no-such-rule":  # another process has deleted it; the batch changed nothing
                    plan = self._seen = self._task._planned(self._edges)
                    self._log.write((*self._done, *plan.deletions))
                else:
                    raise
            else:
                self._done += rules
                break
        else:
            self._delete_singly(ctx, [entry for entry in _of_kind(plan, "rule") if entry.thing not in unclear])
        self._left += [f"rule {line}: {reason}" for line, reason in unclear.items()]
        return plan

    def _delete_singly(self, ctx: phases.Context, rules: list[CleanupEntry]) -> None:
        """Delete the rules one by one until the timeout; the others are reported."""
        end = ctx.clock.now() + _TIME_LIMIT
        sentence = f"not deleted within {_TIME_LIMIT:g} s, because other processes change the rules; try again"
        for rule in rules:
            if ctx.clock.now() >= end:
                self._left.append(f"rule {rule.thing}: {sentence}")
            elif self._edges.ebtables.delete_one(str(rule.thing)):
                self._done.append(rule)

    def _delete_neighbours(self, plan: CleanupPlan) -> None:
        for entry in plan.deletions:
            if isinstance(entry.thing, Neighbour):
                if self._edges.links.delete_neighbour(entry.thing):
                    self._done.append(entry)
                else:
                    self._left.append(f"{entry.spec} has changed since it was read, so it is kept")

    def _delete_routes(self, plan: CleanupPlan) -> None:
        routes = {entry.thing: entry for entry in plan.deletions if isinstance(entry.thing, Route)}
        if not routes:
            return
        with self._edges.open_backend() as backend:
            outcomes = backend.change(RouteRequest("delete", route) for route in routes)
        for outcome in outcomes:
            entry = routes[outcome.change.route]
            if outcome.error is None:
                self._done.append(entry)
            elif outcome.error.kind not in {"no-such-route", "no-such-device"}:
                self._left.append(f"{entry.spec}: {outcome.error}")

    def _require_gone(self, after: CleanupPlan, *, planned: int) -> None:
        done = Counter(entry.key for entry in self._done)
        more = Counter(entry.key for entry in after.deletions) - (
            Counter(entry.key for entry in self._seen.deletions) - done
        )
        sentence = f"was added again: {self._task.cni} or another program is active"
        self._left += [f"{kind} {spec} {sentence}" for kind, spec in more if done[kind, spec]]
        if self._left:
            saved = f", and are saved in {self._log.path}" if self._done else ""
            gone = f"{len(self._done)} of {planned} entries were deleted{saved}"
            raise CleanupError(f"{gone}; not deleted", self._left, kind="incomplete")


class _Log:
    """The undo file of a run. Each run that deletes anything writes a new one."""

    def __init__(self, task: Cleanup, program: str) -> None:
        layout, self._files = task.host.layout, task.host.files
        number = max(_numbers(self._files.names(layout.at(layout.lasting_directory)), task.cni), default=0) + 1
        self.path = layout.undo_file(task.cni, number)
        self._written: UndoLog | None = None
        self._last = UndoLog(program=program)

    @property
    def files(self) -> tuple[str, ...]:
        """The path of the file, if it was written."""
        return () if self._written is None else (self.path,)

    def write(self, entries: tuple[CleanupEntry, ...]) -> None:
        """Record what will be deleted, before its deletion."""
        coming = self._last.with_entries(entries)
        self._files.write(self.path, str(coming), mode=_PRIVATE)
        self._written = coming

    def settle(self, ctx: phases.Context, done: list[CleanupEntry]) -> None:
        """Write the file again if less was deleted than it says; remove it if nothing was."""
        if done and self._written == self._last.with_entries(done):
            return
        try:
            if done:
                self.write(tuple(done))
            else:
                self._files.remove(self.path)
                self._written = None
        except FileError as error:
            ctx.log.warning("%s; the undo file %s names more than was deleted", error, self.path)
