"""Two tasks that keep what network managers take away: Linux's own rules, and what systemd-networkd calls foreign.

Here: which of these is missing or not written, and the files for it. Not here: which rules are Linux's own
(`model.rule`), and our routes, which `static_routes` and the guard keep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from hostrouting.boot import GateStep, render_networkd_drop_in, render_preset, render_rules_script, render_rules_unit
from hostrouting.boot.gate import Part
from hostrouting.check.examine import read
from hostrouting.config import Upkeep
from hostrouting.host.effects import Effects, Operation, having_changed
from hostrouting.host.fileset import OURS, File, FileSet, unit_file
from hostrouting.model import IPV4, IPV6, by_priority, missing_rules
from hostrouting.tasks.base import HostTask, run_once
from hostrouting.tasks.guard.look import Look, Repair
from hostrouting.tasks.results import Change, removal

if TYPE_CHECKING:
    import phases
    from hostrouting.config import HostRoutingConfig
    from hostrouting.finding import Finding
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.model import Rule, Snapshot
    from hostrouting.tasks.base import Alive, MayRepair

__all__ = ["NETWORKD", "KeepForeign", "KeepKernelRules", "with_kept_rules"]

NETWORKD = "systemd-networkd.service"
"""The unit that reads the drop-in."""


@attrs.frozen
class KeepKernelRules(HostTask[Effects]):
    """Add Linux's own rules again where they are missing, now, at every boot and before a machine starts.

    These are the rules for the tables local, main and, in IPv4, default. No other rule is ever changed. If another rule
    looks up the same table for all packets, that is a decision, as when Cilium moves the rule for table local.
    """

    name: ClassVar[str] = "keep-kernel-rules"
    nothing: ClassVar[str] = "kernelRules is not set, and nothing of it is installed"

    @property
    def part(self) -> Part:
        """The script, the unit that runs it at every boot, and the step that runs it before a machine starts."""
        layout = self.host.layout
        unit = unit_file(layout.rules_unit_path, render_rules_unit(layout), script=layout.rules_script, layout=layout)
        script = File(layout.rules_script_path, render_rules_script(), mode=0o755)
        files = FileSet(
            (script, unit, File(layout.rules_preset_path, render_preset(layout.rules_unit))),
            links=((layout.rules_enabled_path, f"{layout.unit_directory}/{layout.rules_unit}"),),
        )
        return Part(GateStep(40, "wants", "kernel-rules"), files, layout.rules_unit, tools=("ip",))

    @property
    def is_wanted(self) -> bool:
        """Whether the configuration says `keep`."""
        return self.config.kernel_rules is Upkeep.KEEP

    def removals(self) -> tuple[Finding, ...]:
        """The installed unit, if the configuration does not ask for it."""
        if self.is_wanted or not self.paths():
            return ()
        return (removal("kernelRules", "not in this configuration, but installed: what adds Linux's own rules again"),)

    def look(self, *, up: bool) -> Change:
        """The rules that would be added; a removal leaves them, because they are Linux's own."""
        if not up or self.host.backend is None:
            return Change()
        with self.host.backend() as backend:
            return Change(operations=tuple(map(_operation, _missing(backend))))

    def install(self, ctx: phases.Context, changed: tuple[str, ...]) -> Effects:
        """Add the rules that are missing, and run the boot script once if it is new."""
        done: list[Operation] = []
        if self.host.backend is not None:
            with self.host.backend() as backend, having_changed(operations=done):
                for rule in _missing(backend):
                    backend.change_rule("add", rule)
                    done.append(_operation(rule))
        with having_changed(operations=done):
            run_once(ctx, self.host, self.part.unit, wait=self.wait, is_new=bool(changed))
        return Effects(files=changed, operations=tuple(done))

    def keep(self, ctx: phases.Context, may_repair: MayRepair, alive: Alive = lambda: None) -> Look:  # noqa: ARG002  there are five rules
        """Add the rules that are missing."""
        if self.host.backend is None or not self.is_wanted:
            return Look()
        repairs = []
        with self.host.backend() as backend:
            for rule in _missing(backend):
                family = "" if rule.family == IPV4 else " of IPv6"
                repair = Repair(f"rule {rule.priority}{family}", f"[{rule}]", "no rule")
                if may_repair(repair):
                    backend.change_rule("add", rule)
                    repairs.append(repair)
        return Look(repairs=tuple(repairs))

    def remove(self, ctx: phases.Context, changed: tuple[str, ...]) -> Effects:  # noqa: ARG002  the gate has done it
        """The gate has removed the files; the rules stay, because they are Linux's own."""
        return Effects(files=changed)


@attrs.frozen
class KeepForeign(HostTask[Effects]):
    """Tell systemd-networkd, by a drop-in, to keep routes and rules that it does not know.

    systemd-networkd reads it when it starts. Nothing restarts it here: that is for the operator to decide.
    """

    name: ClassVar[str] = "keep-foreign"
    nothing: ClassVar[str] = "manageForeign is not set, and nothing of it is installed"

    @property
    def part(self) -> Part:
        """The drop-in; no unit belongs to it, and machines do not wait for it."""
        return Part(None, FileSet((File(self.host.layout.networkd_path, render_networkd_drop_in(), marks=(OURS,)),)))

    @property
    def is_wanted(self) -> bool:
        """Whether the configuration says `keep`."""
        return self.config.manage_foreign is Upkeep.KEEP

    def removals(self) -> tuple[Finding, ...]:
        """The installed drop-in, if the configuration does not ask for it."""
        if self.is_wanted or not self.paths():
            return ()
        told = "not in this configuration, but installed: what tells systemd-networkd to keep our routes"
        return (removal("manageForeign", told),)

    def look(self, *, up: bool) -> Change:  # noqa: ARG002  both are the same
        """Nothing but the file, which is part of the gate's preview."""
        return Change()

    def install(self, ctx: phases.Context, changed: tuple[str, ...]) -> Effects:
        """The gate has written the file. Say when it takes effect."""
        manager = self.host.manager
        if changed and manager is not None and manager.is_running() and manager.state(NETWORKD).active == "active":
            told = "systemd-networkd reads %s when it starts: until then, it still removes foreign routes and rules"
            ctx.log.warning(told, self.host.layout.networkd_path)
        return Effects(files=changed)

    def remove(self, ctx: phases.Context, changed: tuple[str, ...]) -> Effects:  # noqa: ARG002  the gate has done it
        """The gate has removed the file."""
        return Effects(files=changed)


def with_kept_rules(before: Snapshot, config: HostRoutingConfig) -> Snapshot:
    """The host as the routes will find it: Linux's own rules are added before, if the configuration keeps them."""
    lost = _missing_in(before) if config.kernel_rules is Upkeep.KEEP else ()
    return attrs.evolve(before, rules=by_priority((*before.rules, *lost))) if lost else before


def _missing(backend: RouteBackend) -> tuple[Rule, ...]:
    return _missing_in(read(backend)[0])


def _missing_in(before: Snapshot) -> tuple[Rule, ...]:
    """Those of Linux's own rules that are missing; a kernel without IPv6 has none of these."""
    families = (IPV4,) if before.ipv6_forwarding is None else (IPV4, IPV6)
    return tuple(rule for family in families for rule in missing_rules(before.rules, family))


def _operation(rule: Rule) -> Operation:
    family = "" if rule.family == IPV4 else "IPv6 "
    return Operation("add", f"{family}rule {rule}", "one of Linux's own rules is missing")
