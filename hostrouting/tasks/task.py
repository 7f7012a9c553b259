"""The base class of the tasks that bring a configuration, or a section of it, onto a host.
`install.install` does the work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import attrs

import phases
from hostrouting.config.settings import PARTS, HostRoutingConfig, PassPart
from hostrouting.errors import HostError
from hostrouting.finding import Finding, Remedy
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.install.install import STEPS, install, plan_install
from hostrouting.install.plan import Plan
from hostrouting.install.wanted import Request, read_wanted
from hostrouting.release import __version__

if TYPE_CHECKING:
    from hostrouting.host.base import Files
    from hostrouting.install.results import CheckResult

_SECTIONS_WITHOUT_TASK = ("gate", "guard", "manage_foreign")
"""The sections without a task. A task for a section applies those that its configuration sets."""


# Not attrs.frozen, whose __init__ fails in a subclass that has no slots.
@attrs.define(unsafe_hash=True, on_setattr=attrs.setters.frozen)
class InstallTask:
    """A task that brings a configuration onto a host: one `section` of it, or all of it."""

    name = ""  # not a ClassVar, which pyright would not accept for a phases.Task
    parts: ClassVar[tuple[PassPart, ...]] = PARTS
    """The parts of a pass that the task makes, in order."""
    section: ClassVar[PassPart | None] = None
    """The section that the task is about: the others stay as they are installed. None if it is
    about the whole configuration; then each part is a step of its own.
    """

    config: HostRoutingConfig
    host: Host = attrs.field(factory=Host.local, kw_only=True)
    wait: float = attrs.field(default=60.0, kw_only=True)
    """The seconds that each part waits for what it needs, such as the default route, and tries
    again what may succeed later. The lock of the host is awaited for up to 150 s in any case.
    """
    allow_removal: bool = attrs.field(default=False, kw_only=True)
    """Whether the configuration may take away what protects the host now (see `find_losses`). If
    not, a ConfigError names it.
    """

    former_by_run: dict[str, HostRoutingConfig | None] = attrs.field(
        factory=dict, init=False, eq=False, repr=False
    )
    """By the id of each run of the task that has changed something and was not undone: the
    configuration that was installed before it; None if that could not be read.
    """

    def __attrs_post_init__(self) -> None:
        """Refuse what a run would notice only after its first change, or never: an `allow_removal`
        such as "no", which would count as true, and a `wait` that is negative or nan.
        """
        name = type(self).__name__
        if self.allow_removal not in {True, False}:
            raise ValueError(
                f"{name}: allow_removal is {self.allow_removal!r}; it must be True or False"
            )
        if not self.wait >= 0:  # not `< 0`, because nan is neither
            raise ValueError(f"{name}: wait is {self.wait}; it must be 0 seconds or more")

    @property
    def request(self) -> Request:
        """What a run of the task is asked to install: the whole configuration or, with `names`,
        parts of it. A task for one section names this section and, if the configuration sets them,
        the settings for which there is no task (`_SECTIONS_WITHOUT_TASK`), such as the guard.
        """
        names: tuple[str, ...] = ()  # no names: the whole configuration
        if self.section is not None:
            # A setting that has its default stays as it is installed.
            default = HostRoutingConfig()
            taskless = [
                name
                for name in _SECTIONS_WITHOUT_TASK
                if getattr(self.config, name) != getattr(default, name)
            ]
            names = (self.section, *taskless)
        return Request(self.config, names, self.allow_removal)

    def plan(self, ctx: phases.Context | None = None) -> Plan:
        """What do() would do on this host now, and what would make it fail; changes nothing.

        A process that is not root gets the plan of root, which it could not carry out. If the task
        checks the host, the plan has a check of the host as it would be after this task and the
        earlier ones in the same dry run.
        """
        ctx = ctx or phases.Context()
        steps = [] if ctx.root is None else ctx.root.walk()  # all of the dry run so far
        earlier = [step.result for step in steps if isinstance(step.result, Plan)]
        # `STEPS` has the names of the parts' steps, by which the run leaves parts out.
        parts = [part for part in self.parts if STEPS[part] not in ctx.skip]
        wanted = read_wanted(self.host, self.request)
        plan = plan_install(self.host, wanted, parts, is_dry_run=True, earlier=earlier)
        if HostLayout.program_path not in plan.files.written_paths:
            return plan
        newer = _find_newer_release(self.host.files)
        return attrs.evolve(plan, obstacles=(*plan.obstacles, *newer))

    def do(self, ctx: phases.Context) -> CheckResult | phases.Skip:
        return self.install(ctx, self.request)

    def install(self, ctx: phases.Context, request: Request) -> CheckResult | phases.Skip:
        """Make the host what `request` asks for: the request of the task, or that of its undo.
        `install.install` does it. A task for the whole configuration makes each part as a step of
        its own. What was installed before goes into `former_by_run`, for an undo.
        """
        return install(
            self.host,
            request,
            self.parts,
            ctx,
            wait=self.wait,
            as_steps=self.section is None,
            former_by_run=self.former_by_run,
        )

    def undo(self, ctx: phases.Context) -> CheckResult | phases.Skip:
        """Install again what was installed before: before the run that has just failed or, if
        undo() is called on its own, before the first run of this task that is not undone yet. If
        nothing was installed then, all is removed. A task for one section restores that section.

        HostError if the former configuration could not be read, or if another run has installed
        something else since.
        """
        to_undo = dict(self.former_by_run)
        if ctx.ran is not None:  # the run has just failed, and only that run is undone
            to_undo = {run: former for run, former in to_undo.items() if run == ctx.run_id}
        if not to_undo:
            return phases.Skip("it has changed nothing, or that is undone")
        former, *_ = to_undo.values()  # from before the first of these runs
        if former is None:
            sentence = (
                "what was installed before could not be read, so it cannot be installed again"
            )
            raise HostError(f"{sentence}; to remove everything, run Remove", what="file")
        request_to_undo = self.request
        names = request_to_undo.names
        if self.section is not None:
            # All settings without a task are restored, even those that the run was not asked to
            # set: it may have turned the guard off, because nothing was left to guard.
            names = (self.section, *_SECTIONS_WITHOUT_TASK)
        # From `undone`, `read_wanted` knows whether another run has changed the same part since.
        request = Request(former, names, allow_removal=True, undone=request_to_undo)
        # A copy of the task does this. It does not wait, because what the former routes need may
        # never come, and it has a `former_by_run` of its own, so the undo is not kept as a run.
        result = attrs.evolve(self, wait=0).install(ctx, request)
        for run in to_undo:
            del self.former_by_run[run]
        return result


def _find_newer_release(files: Files) -> Iterator[Finding]:
    """Yield a warning if the installed program, which a run would replace, is of a newer release
    than this library.
    """
    program = files.read_bytes(HostLayout.program_path) or b""
    # The sources in the program are not compressed.
    line = re.search(rb'^__version__ = "([0-9.]+)', program, re.MULTILINE)
    installed = line[1].decode() if line else ""
    if _numbers(installed) > _numbers(__version__):
        yield Finding(
            "route-differs",
            "warning",
            f"{HostLayout.program_path} is of release {installed}, and this command is of the "
            f"older release {__version__}, which apply would install",
            HostLayout.program_path,
            Remedy("use the newer release", f"{HostLayout.node_command} status"),
        )


def _numbers(release: str) -> list[int]:
    """The numbers of a release, by which releases are compared."""
    return [int(number) for number in re.findall(r"\d+", release)]
