"""CleanStaleAzureVnet: reads a host, records what is stale, and deletes it. What is stale is
decided in `judge`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import attrs

import phases
from hostrouting.azure_vnet.conflists import active_file
from hostrouting.azure_vnet.ebtables import BridgeRule, Ebtables, EbtablesProgram
from hostrouting.azure_vnet.judge import CleanupEntry, CleanupFacts, Fate, judge
from hostrouting.azure_vnet.neighbours import KernelLinkLayer, LinkLayer, Neighbour
from hostrouting.azure_vnet.state import STATE_FILE
from hostrouting.azure_vnet.undo import undo_script
from hostrouting.errors import HostError
from hostrouting.host.effects import Effects, recorded_in_errors
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.host.operation import Operation
from hostrouting.kernel.base import RouteBackend, RouteRequest
from hostrouting.model.route import Route
from hostrouting.text import first_few

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.finding import Finding


@attrs.frozen
class CleanupPlan:
    """What would be deleted, in this order, and what is kept, each with its reason."""

    entries: tuple[CleanupEntry, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Findings about the whole clean-up; an error is a reason to delete nothing."""
    is_report: bool = False
    """Whether a run with this plan only reports (`dryRun`)."""

    def with_fate(self, fate: Fate) -> tuple[CleanupEntry, ...]:
        """The entries with this fate."""
        return tuple(entry for entry in self.entries if entry.fate == fate)

    @property
    def deletions(self) -> tuple[CleanupEntry, ...]:
        """The stale entries, which a run deletes."""
        return self.with_fate("delete")

    @property
    def errors(self) -> tuple[str, ...]:
        """The reasons why nothing can be deleted."""
        return tuple(str(finding) for finding in self.findings if finding.severity == "error")

    @property
    def would_fail(self) -> str:
        """Why a run would fail, for `phases.plan`; empty if it would not."""
        if self.is_report:  # it deletes nothing, so no error stops it
            return ""
        return "; ".join(self.errors)

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.entries, *self.findings))) or "nothing to delete"

    def to_mapping(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "entries": [entry.to_mapping() for entry in self.entries],
            "findings": [finding.to_mapping() for finding in self.findings],
        }


@attrs.frozen(kw_only=True)
class CleanupResult(Effects):
    """What a clean-up did."""

    plan: CleanupPlan
    undo_file: str = ""
    """The script that restores what was deleted; empty if nothing was deleted."""

    def log_fields(self) -> dict[str, object]:
        """The fields for the log: the numbers of entries, and the path of the undo file."""
        return {
            "stale": len(self.plan.deletions),
            "deleted": len(self.operations),
            "conflicts": len(self.plan.with_fate("conflict")),
            "undo_file": self.undo_file,
        }


@attrs.frozen
class CleanStaleAzureVnet:
    """Delete what azure-vnet left behind for pods whose addresses another CNI manages now.

    In a dry run, the default, the task only reports. Otherwise it locks the host, makes the plan
    and deletes what is stale, unless a finding is an error. First it writes a shell script that
    restores everything. It deletes the rules in one batch, all or none. Then it deletes the
    neighbours, each after it was read once more, and the routes.

    Without `ebtables` and `link_layer`, the rules and MAC addresses of this machine are used. A
    host with another backend needs both: a FakeHost needs FakeEbtables() and FakeLinkLayer().
    """

    name = "clean-stale-azure-vnet"
    config: HostRoutingConfig
    host: Host = attrs.field(factory=Host.local, kw_only=True)
    ebtables: Ebtables = attrs.field(factory=EbtablesProgram, kw_only=True, repr=False)
    link_layer: LinkLayer = attrs.field(factory=KernelLinkLayer, kw_only=True, repr=False)

    def __attrs_post_init__(self) -> None:
        """Refuse facts from two hosts, such as routes from this machine, but rules and MAC
        addresses from fakes.
        """
        # Either the host, `ebtables` and `link_layer` all ask this machine's kernel, or none does.
        # The host of an image has no kernel (None). With this machine's readers, it passes here:
        # `open_kernel` refuses it later, with a better error.
        is_this_machine = self.host.backend in {None, Host.local().backend}
        for reader in (self.ebtables, self.link_layer):
            if isinstance(reader, (EbtablesProgram, KernelLinkLayer)) != is_this_machine:
                raise TypeError(
                    "host=, ebtables= and link_layer= go together: leave out all three for this "
                    "machine, and give all three for another backend, such as that of a FakeHost"
                )

    def plan(self, _ctx: phases.Context | None = None) -> CleanupPlan:
        """Find out what is stale on this host now; change nothing. The context, which `phases.plan`
        passes, is not needed.
        """
        section = self.config.azure_vnet_cleanup
        if section is None:
            return CleanupPlan()
        return CleanupPlan(*judge(self._read_facts(), section), is_report=section.dry_run)

    def do(self, ctx: phases.Context) -> CleanupResult | phases.Skip:
        section = self.config.azure_vnet_cleanup
        if section is None:
            return phases.Skip("azureVnetCleanup is not in the configuration")
        if section.dry_run:  # only report: nothing changes, so the host is not locked
            plan = self.plan()
            for finding in plan.findings:
                ctx.log.log(finding.level, "%s", finding)
            for entry in plan.deletions:
                ctx.log.info("stale: %s", entry)
            return CleanupResult(plan=plan)
        with self.host.locked(ctx):
            return self._clean(ctx)

    def _read_facts(self) -> CleanupFacts:
        """Read from the host what `judge` needs."""
        with self.host.open_kernel() as backend:
            rules = self._list_rules()
            # The devices are read after the rules, so that the rules of a new pod do not seem
            # stale.
            view = self.link_layer.look()
            snapshot = backend.snapshot()
        return CleanupFacts(
            rules=rules,
            view=view,
            snapshot=snapshot,
            state=self.host.files.read(STATE_FILE),
            active_file=active_file(self.host.files),
        )

    def _list_rules(self) -> tuple[BridgeRule, ...] | None:
        """The rules of ebtables; None if this host has no ebtables to ask."""
        try:
            return self.ebtables.list_rules()
        except HostError as error:
            if error.is_absent:
                return None
            raise

    def _clean(self, ctx: phases.Context) -> CleanupResult:
        """Make the plan, save what is stale in an undo file, and delete it; the host is locked."""
        plan = self.plan()
        if plan.errors:
            raise _error("nothing was deleted", plan.errors, kind="refused")
        if not plan.deletions:
            return CleanupResult(plan=plan)
        for entry in plan.deletions:
            ctx.log.info("will %s", entry)
        # Stop here if the run is cancelled. After this, everything is deleted that is in the undo
        # file.
        ctx.check()
        undo_file = self._new_undo_file()
        self.host.files.write(undo_file, undo_script(plan.deletions), mode=0o600)
        deleted = self._delete(plan, undo_file)
        return CleanupResult(
            plan=plan,
            files=[undo_file],
            operations=tuple(deleted),
            undo_file=undo_file,
        )

    def _new_undo_file(self) -> str:
        """The first path for an undo file that is free, so that those of earlier runs stay."""
        paths = map(HostLayout.undo_path, count(1))
        return next(path for path in paths if self.host.files.look(path) is None)

    def _delete(self, plan: CleanupPlan, undo_file: str) -> list[Operation]:
        """Delete everything in the plan; return what was deleted. HostError if anything is left.

        Rules go first. If ebtables refuses them, nothing is deleted, and the undo file is removed.
        """
        files = [undo_file]
        deleted: list[Operation] = []
        # An error that ends the block says what was written and deleted by then.
        with recorded_in_errors(files=files, operations=deleted):
            rules = [entry.thing for entry in plan.deletions if isinstance(entry.thing, BridgeRule)]
            try:
                self.ebtables.delete(rules)
            except HostError as error:
                if not error.has_no_answer:  # after a timeout, the rules may be gone
                    self.host.files.remove(undo_file)
                    files.clear()
                raise
            problems: list[str] = []
            with self.host.open_kernel() as backend:
                for entry in plan.deletions:
                    problem = self._delete_neighbour_or_route(entry.thing, backend)
                    if problem:
                        problems.append(problem)
                    else:
                        in_words = f"{entry.kind} {entry.spec}"
                        deleted.append(Operation("delete", in_words, entry.reason))
            if problems:
                message = (
                    f"{len(deleted)} of {len(plan.deletions)} entries were deleted, and are saved "
                    f"in {undo_file}; not deleted"
                )
                raise _error(message, problems, kind="incomplete")
        return deleted

    def _delete_neighbour_or_route(
        self, thing: BridgeRule | Neighbour | Route, backend: RouteBackend
    ) -> str:
        """Delete the thing, and return why it remains; empty if it is gone. A rule is gone already,
        because `_delete` has deleted all rules at once.
        """
        if isinstance(thing, Neighbour) and not self.link_layer.delete_neighbour(thing):
            return f"{thing} has changed since it was read, so it is not deleted"
        if isinstance(thing, Route):
            [outcome] = backend.change([RouteRequest("delete", thing)])
            if not outcome.is_done:
                return f"{thing}: {outcome.error}"
        return ""


def _error(message: str, reasons: Sequence[str], *, kind: str) -> HostError:
    """The error of a clean-up: its text has the message and the first reasons, `lines` has all."""
    text = f"{message}: {'; '.join(first_few(reasons))}"
    return HostError(text, what="azure-vnet", kind=kind, lines=tuple(reasons))
