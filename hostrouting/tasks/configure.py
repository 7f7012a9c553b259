"""Configure installs a whole configuration on a host, and Remove takes everything away; both as
`install` describes.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.effects import Effects, effects_of
from hostrouting.host.host import Host
from hostrouting.tasks.install import IS_HOST, InstallTask, SectionTask, readable_installed
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.tasks.results import CheckResult, Plan
from hostrouting.tasks.static_routes import ConfigureStaticRoutes

TASKS: tuple[type[SectionTask], ...] = (
    ConfigureStaticRoutes,
    RewriteProbeSource,
    CheckRouteOverlap,
)
"""In the order in which they run: the check comes last, because it looks at what the others did."""


@attrs.frozen
class Configure(InstallTask):
    """Make the host what the configuration asks for: files first, then routes, the table for
    probes, the check.

    Idempotent. What the host lacks is found before the first write. From the moment the files are
    installed, a gated unit starts only after its steps have succeeded; a running unit is never
    touched. `wait` is how many seconds each step waits for what it needs, such as the default
    route. If `allow_removal` is false, a configuration that would take away what protects the host
    is a ConfigError.
    """

    name = "configure-host-routing"
    nothing: ClassVar[str] = "nothing is configured, and nothing is installed"

    @property
    def subtasks(self) -> tuple[SectionTask, ...]:
        return self.parts()

    def parts(self) -> tuple[SectionTask, ...]:
        """See InstallTask. The installed configuration need not be readable, because this one takes
        its place.
        """
        former = readable_installed(self.host) or HostRoutingConfig()
        return tuple(
            kind(self.config, host=self.host, wait=self.wait, former=former) for kind in TASKS
        )

    def do(self, ctx: phases.Context) -> CheckResult | phases.Skip:
        """Install the files, then run each task as a step. Returns what they did, with the report
        of the check.
        """
        if (begun := self.begin(ctx)) is None:
            return phases.Skip(self.nothing)
        effects, parts = begun
        done = phases.Skip("the files are as they should be") if effects == Effects() else effects
        with (
            ctx.shielded() as safe
        ):  # even if the run was cancelled in the meantime: the files are there
            phases.execute(
                phases.task("install-files")(lambda _ctx: done),
                safe.but(leaves_out=lambda _path: ""),
            )
        steps = (phases.task(part.name)(part.work) for part in parts)
        results = phases.serial(*steps, name=self.name).do(ctx)
        whole = sum(map(effects_of, results), effects)
        report = next(
            (result.report for result in results if isinstance(result, CheckResult)), None
        )
        return CheckResult(whole.changes, whole.files, whole.operations, report=report)


@attrs.frozen
class Remove:
    """Remove everything of hostrouting and nothing else: drop-ins, units, scripts, routes, probe
    table, markers.

    A running unit is not touched; units that start from now on do not wait any more. Scripts of
    others in gate.d also hold units back, so the removal is refused while there are any.
    """

    name = "remove-host-routing"
    host: Host = attrs.field(factory=Host.local, validator=IS_HOST, kw_only=True)

    def plan(self, _ctx: phases.Context | None = None) -> Plan:
        """What would be removed; changes nothing."""
        return Configure(HostRoutingConfig(), host=self.host).plan()

    def do(self, ctx: phases.Context) -> Effects | phases.Skip:
        return Configure(HostRoutingConfig(), host=self.host, wait=0).do(ctx)
