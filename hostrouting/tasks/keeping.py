"""Two tasks that keep what network managers delete: Linux's own rules, and what systemd-networkd calls foreign.

Here: which of these is missing or not written, and the files for it. Not here: which rules are Linux's own
(`model.rule`), and our routes, which `static_routes` and the guard keep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from hostrouting.boot.gate import Part
from hostrouting.boot.scripts import render_rules_script
from hostrouting.boot.units import render_networkd_drop_in
from hostrouting.check.examine import read
from hostrouting.config.values import Upkeep
from hostrouting.host.effects import Effects, Operation
from hostrouting.host.fileset import OURS, File, FileSet
from hostrouting.model.prefix import IPV4, IPV6
from hostrouting.model.rule import Rule, by_priority, missing_rules
from hostrouting.tasks.base import HostTask
from hostrouting.tasks.results import Change

if TYPE_CHECKING:
    import phases
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.model.snapshot import Snapshot

NETWORKD = "systemd-networkd.service"
"""The unit that reads the drop-in."""


class KeepKernelRules(HostTask[Effects]):
    """Add Linux's own rules again where they are missing, now, at every boot and before a gated unit starts.

    These are the rules for the tables local, main and, in IPv4, default. No other rule is ever changed. If another rule
    looks up the same table for all packets, that is a decision, as when Cilium moves the rule for table local.
    """

    name: ClassVar[str] = "keep-kernel-rules"
    nothing: ClassVar[str] = "kernelRules is not set, and nothing of it is installed"
    section: ClassVar[str] = "kernelRules"
    loss: ClassVar[str] = "the script that adds Linux's own rules again"
    concerns: ClassVar[tuple[()] | None] = ()  # the guard looks after every change of a rule

    @property
    def part(self) -> Part:
        """The script, the unit that runs it at every boot, and the step that runs it before a gated unit starts."""
        script, does = render_rules_script(), "Linux's own routing rules of this host"
        return Part.of(self.host.layout, "kernel-rules", script, rank=40, kind="wants", does=does)

    @property
    def is_wanted(self) -> bool:
        """Whether the configuration says `keep`."""
        return self.config.kernel_rules is Upkeep.KEEP

    def change(self, *, up: bool) -> Change:
        """The rules that would be added; a removal leaves them, because they are Linux's own."""
        if not up:
            return Change()
        with self.kernel() as kernel:
            return Change(operations=tuple(map(_operation, _missing_in(read(kernel)[0]))))

    def carry_out(self, ctx: phases.Context, change: Change, *, up: bool) -> Effects:  # noqa: ARG002  an empty change
        """Add these rules."""
        return Effects.of_each(change.operations, self._add)

    def _add(self, operation: Operation) -> None:
        with self.kernel() as kernel:
            kernel.change_rule("add", operation.thing)


class KeepForeign(HostTask[Effects]):
    """Tell systemd-networkd, by a drop-in, to keep routes and rules that it does not know.

    systemd-networkd reads it when it starts. Nothing restarts it here: that is for the operator to decide.
    """

    name: ClassVar[str] = "keep-foreign"
    nothing: ClassVar[str] = "manageForeign is not set, and nothing of it is installed"
    section: ClassVar[str] = "manageForeign"
    loss: ClassVar[str] = "the drop-in that tells systemd-networkd to keep our routes"
    concerns: ClassVar[tuple[()] | None] = ()

    @property
    def part(self) -> Part:
        """The drop-in; no unit belongs to it, and gated units do not wait for it."""
        return Part(None, FileSet((File(self.host.layout.networkd_path, render_networkd_drop_in(), marks=(OURS,)),)))

    @property
    def is_wanted(self) -> bool:
        """Whether the configuration says `keep`."""
        return self.config.manage_foreign is Upkeep.KEEP

    def carry_out(self, ctx: phases.Context, change: Change, *, up: bool) -> Effects:
        """The gate has changed the file. Say when it takes effect."""
        manager, is_new = self.host.manager, up and bool(change.files)
        if is_new and manager is not None and manager.is_running() and manager.state(NETWORKD).active == "active":
            sentence = "systemd-networkd reads %s when it starts: until then, it still removes foreign routes and rules"
            ctx.log.warning(sentence, self.host.layout.networkd_path)
        return Effects()


def with_kept_rules(before: Snapshot, config: HostRoutingConfig) -> Snapshot:
    """The host as it is when routes are added: with Linux's own rules, if the configuration keeps them."""
    lost = _missing_in(before) if config.kernel_rules is Upkeep.KEEP else ()
    return attrs.evolve(before, rules=by_priority((*before.rules, *lost))) if lost else before


def _missing_in(before: Snapshot) -> tuple[Rule, ...]:
    """Linux's own rules that are missing; on a kernel without IPv6, only those of IPv4."""
    families = (IPV4,) if before.ipv6_forwarding is None else (IPV4, IPV6)
    return tuple(rule for family in families for rule in missing_rules(before.rules, family))


def _operation(rule: Rule) -> Operation:
    family = "" if rule.family == IPV4 else "IPv6 "
    return Operation("add", f"{family}rule {rule}", "one of Linux's own rules is missing", rule)
