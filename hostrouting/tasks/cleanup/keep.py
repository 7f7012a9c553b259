"""KeepAzureVnetClean: reports what azure-vnet left and is stale, and deletes it each time if `repeat` is set.

Here: a clean-up as a task of Configure and of the guard. Not here: what is stale (`azure_vnet`), and how it is deleted
(`task`).

It is repeated because azure-vnet, or its monitor, can leave entries after the administrator's clean-up, while
pods still come and go. The guard looks after each change of devices, addresses and routes, so also when a pod appears.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import attrs

import phases
from hostrouting.boot.gate import Part
from hostrouting.boot.units import render_section
from hostrouting.errors import BackendError, FileError, ProgramError
from hostrouting.finding import Finding
from hostrouting.host.fileset import File, FileSet
from hostrouting.tasks.base import HostTask
from hostrouting.tasks.results import Change, CleanupResult, Standing

if TYPE_CHECKING:
    from hostrouting.tasks.cleanup.azure_vnet import CleanStaleAzureVnet
    from hostrouting.tasks.cleanup.plan import CleanupPlan

_SHOWN = 3  # stale entries that are named
_SUBJECT = "the clean-up after azure-vnet"


class KeepAzureVnetClean(HostTask[CleanupResult]):
    """Report what azure-vnet left and is stale; with `azureVnetCleanup.repeat`, delete it now and later.

    What prevents a deletion is a warning: neither routes nor machines wait for a clean-up.
    """

    name: ClassVar[str] = "keep-azure-vnet-clean"
    nothing: ClassVar[str] = "azureVnetCleanup is not set, and nothing of it is installed"
    section: ClassVar[str] = "azureVnetCleanup"
    loss: ClassVar[str] = _SUBJECT

    @property
    def part(self) -> Part:
        """The section of the configuration, for `status` and the guard; machines do not wait for it."""
        section = self.config.azure_vnet_cleanup
        text = render_section({} if section is None else section.to_mapping())
        return Part(None, FileSet((File(self.host.layout.cleanup_path, text),)))

    @property
    def is_wanted(self) -> bool:
        """Whether the configuration has the section."""
        return self.config.azure_vnet_cleanup is not None

    def change(self, *, up: bool) -> Change:
        """The deletions, if they are to be repeated and nothing prevents them; else a warning with their names."""
        if not up or self.host.backend is None:
            return Change()
        try:
            plan = self._plan()
        except (BackendError, FileError, ProgramError) as error:
            sentence = f"what azure-vnet has left cannot be looked for: {error}"
            return Change(others=(Finding("azure-vnet", "warning", sentence, "azure-vnet"),))
        wanted = plan.deletions if self._repeats and not plan.hindrances else ()
        # Each operation has the plan, which names host and boot, with its own entry only.
        things = tuple(entry.deletion(attrs.evolve(plan, entries=(entry,))) for entry in wanted)
        return Change(operations=things, others=tuple(self._findings_in(plan)))

    def carry_out(self, ctx: phases.Context, change: Change, *, up: bool) -> CleanupResult:  # noqa: ARG002  an empty change
        """Delete what the change names and is still stale."""
        from hostrouting.tasks.cleanup.plan import CleanupPlan  # noqa: PLC0415  few hosts want a clean-up

        others = change.others
        result = CleanupResult(plan=CleanupPlan())
        if change.operations:
            plans: list[CleanupPlan] = [operation.thing for operation in change.operations]
            approved = attrs.evolve(plans[0], entries=tuple(entry for plan in plans for entry in plan.entries))
            done = attrs.evolve(self._cleanup, approved=approved).do(ctx)
            if isinstance(done, CleanupResult):
                result, others = done, tuple(self._findings_in(done.after or done.plan))
        return attrs.evolve(result, standing=self._standing(others))

    def standing(self) -> Standing | None:
        """What is stale now; None if nothing is, or if it will be deleted."""
        if not self.is_wanted or self.host.backend is None:
            return None
        return self._standing(tuple(self._findings_in(self._plan())))

    def _plan(self) -> CleanupPlan:
        return self._cleanup.plan(phases.Context(observers=[]))

    def _standing(self, found: tuple[Finding, ...]) -> Standing | None:
        return Standing(_SUBJECT, self._repeats, found) if found or self._repeats else None

    @property
    def _repeats(self) -> bool:
        section = self.config.azure_vnet_cleanup
        return section is not None and section.repeat

    @property
    def _cleanup(self) -> CleanStaleAzureVnet:
        from hostrouting.tasks.cleanup.azure_vnet import CleanStaleAzureVnet  # noqa: PLC0415  as above

        return CleanStaleAzureVnet(self.config, host=self.host)

    def _findings_in(self, plan: CleanupPlan) -> Iterator[Finding]:
        for finding in plan.findings:
            yield attrs.evolve(finding, severity="warning") if finding.severity == "error" else finding
        stale = plan.deletions
        if stale and (plan.hindrances or not self._repeats):
            named = "; ".join(f"{entry.kind} {entry.spec}" for entry in stale[:_SHOWN])
            more = f"; and {len(stale) - _SHOWN:,} more" if len(stale) > _SHOWN else ""
            sentence = f"{len(stale):,} of azure-vnet's entries are stale: {named}{more}"
            remedy = "to see all and delete them, as root: hostrouting clean azure-vnet --config FILE"
            yield Finding("azure-vnet", "warning", sentence, "azure-vnet", remedy)
