"""CleanStaleAzureVnet: reads a host, records what is stale, and deletes it. What is stale is decided in `judge`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, get_args

import attrs

import phases
from hostrouting.errors import HostError
from hostrouting.host.effects import Effects, Operation, having_changed
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.kernel.base import RouteBackend, RouteRequest
from hostrouting.kernel.ebtables import BridgeRule
from hostrouting.kernel.neighbours import Neighbour
from hostrouting.model.route import Route
from hostrouting.tasks.cleanup.judge import CONFLISTS, STATE_FILE, CleanupEntry, CleanupFacts, Fate, judge
from hostrouting.tasks.install import IS_CONFIG, IS_HOST
from hostrouting.text import first_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.finding import Finding


@attrs.frozen
class CleanupPlan:
    """What would be deleted, in this order, and what is kept, each with its reason."""

    entries: tuple[CleanupEntry, ...] = ()
    findings: tuple[Finding, ...] = ()
    """What else there is to tell; an error is a reason to delete nothing."""

    def with_fate(self, fate: Fate) -> tuple[CleanupEntry, ...]:
        """The entries with this fate."""
        return tuple(entry for entry in self.entries if entry.fate == fate)

    @property
    def deletions(self) -> tuple[CleanupEntry, ...]:
        """What is stale."""
        return self.with_fate("delete")

    @property
    def errors(self) -> tuple[str, ...]:
        """The reasons why nothing can be deleted."""
        return tuple(str(finding) for finding in self.findings if finding.severity == "error")

    def to_mapping(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {name: [part.to_mapping() for part in getattr(self, name)] for name in ("entries", "findings")}

    def __str__(self) -> str:
        lines = [f"{fate} {entry}" for fate in get_args(Fate) for entry in self.with_fate(fate)]
        return "\n".join([*(lines or ["nothing to delete"]), *map(str, self.findings)])


@attrs.frozen(kw_only=True)
class CleanupResult(Effects):
    """What a clean-up did."""

    plan: CleanupPlan
    undo_file: str = ""
    """The script that restores what was deleted; empty if nothing was deleted."""

    def log_fields(self) -> dict[str, object]:
        """The number of stale, deleted and conflicting entries; the path of the undo file."""
        counts = {"stale": len(self.plan.deletions), "deleted": len(self.operations)}
        return counts | {"conflicts": len(self.plan.with_fate("conflict")), "undo_file": self.undo_file}


@attrs.frozen
class CleanStaleAzureVnet:
    """Delete what azure-vnet left behind for pods whose addresses another CNI manages now.

    In a dry run, the default, the task only reports. Otherwise it locks the host, makes the plan again and deletes what
    is in the plan, unless a finding is an error. First it writes a shell script that restores everything. It deletes
    the rules in one batch, all or none: if another process has deleted one of them, it makes the plan again, once. Then
    it deletes the neighbours, each after it was read once more, and the routes, and checks that nothing has come back.
    """

    name = "clean-stale-azure-vnet"
    config: HostRoutingConfig = attrs.field(validator=IS_CONFIG)
    host: Host = attrs.field(factory=Host.local, validator=IS_HOST, kw_only=True)

    def plan(self, _ctx: phases.Context | None = None) -> CleanupPlan:
        """What is stale on this host as it is now; changes nothing."""
        section, host, rules = self.config.azure_vnet_cleanup, self.host, None
        if section is None:
            return CleanupPlan()
        with self._kernel() as backend:
            try:
                rules = host.ebtables.list_rules()
            except HostError as error:
                if error.kind not in {"missing", "not-loaded"}:
                    raise
            view = host.link_layer.look()  # after the rules, so that those of a new pod do not seem stale
            snapshot = backend.snapshot()
        names = [name for name in host.files.names(CONFLISTS) if name.endswith((".conf", ".conflist", ".json"))]
        conflists = {name: host.files.read(f"{CONFLISTS}/{name}") or "" for name in names}
        facts = CleanupFacts(rules, view, snapshot, host.files.read(STATE_FILE), conflists)
        return CleanupPlan(*judge(facts, section))

    def do(self, ctx: phases.Context) -> CleanupResult | phases.Skip:
        section, plan = self.config.azure_vnet_cleanup, self.plan()
        if section is None:
            return phases.Skip("azureVnetCleanup is not in the configuration")
        for finding in plan.findings:
            if section.dry_run or finding.severity != "error":
                ctx.log.log(finding.level, "%s", finding)
        if section.dry_run:
            for entry in plan.deletions:
                ctx.log.info("stale: %s", entry)
        if section.dry_run or not (plan.deletions or plan.errors):
            return CleanupResult(plan=plan)
        self.host.rights().require_network()  # before the undo file is written
        with self.host.locked(ctx):
            ctx.check()
            with ctx.shielded() as safe:  # the undo file has to match what is deleted
                return self._delete(safe)

    def _kernel(self) -> AbstractContextManager[RouteBackend]:
        """The routes of this host; HostError for an image."""
        if self.host.backend is None:
            raise _error("nothing can be deleted", ["this is an image, which has no kernel"], kind="refused")
        return self.host.backend()

    def _delete(self, ctx: phases.Context) -> CleanupResult:
        """Delete what is stale now, and check that it is gone; the host is locked."""
        paths = map(HostLayout.undo_file, count(1))
        undo_file = next(path for path in paths if not self.host.files.look(path))
        plan = self._delete_rules(ctx, undo_file)
        if not plan.deletions:
            return CleanupResult(plan=plan)
        done = [entry for entry in plan.deletions if entry.kind == "rule"]  # what follows is appended
        left: list[str] = []
        operations = (Operation("delete", f"{entry.kind} {entry.spec}", entry.reason) for entry in done)
        with having_changed(files=[undo_file], operations=operations):
            for entry in plan.deletions:
                if isinstance(entry.thing, Neighbour):
                    if self.host.link_layer.delete_neighbour(entry.thing):
                        done.append(entry)
                    else:
                        left.append(f"{entry.spec} has changed since it was read, so it is not deleted")
            routes = {entry.thing: entry for entry in plan.deletions if isinstance(entry.thing, Route)}
            with self._kernel() as backend:
                outcomes = backend.change(RouteRequest("delete", route) for route in routes)
            for entry, outcome in zip(routes.values(), outcomes, strict=True):
                if outcome.error is None:
                    done.append(entry)
                elif outcome.error.kind not in {"no-such-route", "no-such-device"}:
                    left.append(f"{entry.spec}: {outcome.error}")
            specs = {entry.spec for entry in done} & {entry.spec for entry in self.plan().deletions}
            left += [f"{spec} was added again: azure-vnet or another program is active" for spec in sorted(specs)]
            if left:
                deleted = f"{len(done)} of {len(plan.deletions)} entries were deleted, and are saved in {undo_file}"
                raise _error(f"{deleted}; not deleted", left, kind="incomplete")
        return CleanupResult(plan=plan, files=[undo_file], operations=tuple(operations), undo_file=undo_file)

    def _delete_rules(self, ctx: phases.Context, undo_file: str, *, is_last: bool = False) -> CleanupPlan:
        """Plan, write the undo file and delete the rules; returns the plan that is being carried out."""
        plan = self.plan()
        if plan.errors:
            raise _error("nothing was deleted", plan.errors, kind="refused")
        if not plan.deletions:
            return plan
        for entry in plan.deletions:
            ctx.log.info("will delete %s", entry)
        self.host.files.write(undo_file, undo_script(plan.deletions), mode=0o600)
        try:
            self.host.ebtables.delete([entry.spec for entry in plan.deletions if entry.kind == "rule"])
        except HostError as error:
            if error.kind == "timeout":  # the rules may be gone, or not
                with having_changed(files=[undo_file]):
                    raise
            self.host.files.remove(undo_file)
            if error.kind != "no-such-rule":
                raise
            if not is_last:
                return self._delete_rules(ctx, undo_file, is_last=True)
            sentence = "nothing was deleted, because other processes were deleting rules at the same time; still there"
            raise _error(sentence, plan.deletions, kind="incomplete") from error
        return plan


def _error(message: str, reasons: Iterable[object], *, kind: Literal["refused", "incomplete"]) -> HostError:
    """The error with these reasons: why nothing was deleted, or what is left."""
    lines = tuple(map(str, reasons))
    return HostError(f"{message}: {'; '.join(first_of(lines))}", what="azure-vnet", kind=kind, lines=lines)


_HEAD = """\
# Restores what azure-vnet had left behind and hostrouting deleted. Run it with sh, as root, and only once: rules that
# exist would be added a second time. First make sure that no pod has one of the addresses: it would be cut off.
status=0
"""


def undo_script(entries: Iterable[CleanupEntry]) -> str:
    """A shell script that restores these entries: each rule in its place, or at the end if the chain is too short now.

    The script contains numbers where each host can configure names. If a command fails, the others still run, and the
    exit status is 1.
    """
    program, rules, commands = "", [], []
    for thing in (entry.thing for entry in entries):
        if isinstance(thing, BridgeRule):
            program, (chain, _, options) = thing.program, thing.text.partition(" ")
            rules.append(f"-I {chain} {thing.number} {options}")
        elif isinstance(thing, Neighbour):
            # What the kernel has found out about the address since then must go; a permanent entry stays, and is named.
            commands.append(f"ip neigh flush to {thing.ip} dev {quote(thing.dev)}")
            commands.append(f"ip neigh add {thing.ip} lladdr {thing.mac} dev {quote(thing.dev)} nud permanent")
        else:
            numbers = f"proto {thing.protocol} scope {thing.scope} metric {thing.metric}"
            commands.append(f"ip -{thing.prefix.family} route add {thing.prefix} dev {quote(thing.devs[0])} {numbers}")
    if rules:
        restore = f"{program}-restore --noflush"
        append = f"rules | sed 's/^-I \\([A-Z]*\\) [0-9]*/-A \\1/' | {restore}"
        text = "\n".join(["*nat", *rules])
        commands.insert(0, f"rules() {{ cat <<'END'\n{text}\nEND\n}}\nrules | {restore} 2>/dev/null ||\n  {append}")
    return _HEAD + "".join(f"{command} || status=1\n" for command in commands) + "exit $status\n"
