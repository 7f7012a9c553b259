"""A task about one section of the configuration: what it does to the kernel, and how it is run
alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

import phases
from hostrouting.errors import NotReady
from hostrouting.host.effects import Effects, effects_of, having_changed
from hostrouting.install.installed import read_installed
from hostrouting.install.task import InstallTask
from hostrouting.install.wanted import Wanted

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.install.plan import Plan
    from hostrouting.install.run import TaskRun
    from hostrouting.model.snapshot import Snapshot


class SectionTask(InstallTask[Effects]):
    """A task about one section of the configuration. Alone, it keeps all other sections as they are
    installed.

    A subclass says what its work on the kernel is: `planned` says what would change, and
    `carry_out` changes it.
    """

    section: ClassVar[str]
    """The attribute of the configuration that the task is about."""
    step: ClassVar[str]
    """The step of the gate that does the same work at boot."""
    checks_the_result: ClassVar[bool] = False
    """Whether the task judges what the others have done, so that a dry run judges the host as it
    would be.
    """
    needed: ClassVar[tuple[type[SectionTask], ...]] = ()
    """The tasks whose work is part of this task's work: when this task runs alone, it does their
    work first.
    """

    @abstractmethod
    def planned(self, wanted: Wanted, read_snapshot: Callable[[], Snapshot]) -> Plan:
        """What would be done to the kernel.

        All parts of a run get the same snapshot, which is read when the first of them needs it.
        """

    @abstractmethod
    def carry_out(self, ctx: phases.Context, wanted: Wanted) -> Effects | phases.Skip:
        """Wait for what the task needs, then change the kernel. The files are installed already."""

    def wanted(self) -> Wanted:
        """See InstallTask. The installed configuration with this section replaced."""
        installed = read_installed(self.host)
        return Wanted(installed.replaced(self.section, self.config), installed)

    def parts(self) -> tuple[SectionTask, ...]:
        """See InstallTask."""
        needed = [kind(self.config, host=self.host, wait=self.wait) for kind in self.needed]
        return (*needed, self)

    def own_part(self, config: HostRoutingConfig) -> object:
        """See InstallTask."""
        return getattr(config, self.section)

    def do_parts(self, run: TaskRun[Effects], effects: Effects) -> Effects | phases.Skip:
        """See InstallTask. All parts do their work in the step of this task."""
        result: Effects | phases.Skip = effects
        for part in run.chosen_parts:
            with having_changed(effects.changes, effects.files, effects.operations):
                result = run.do_part(part, run.ctx)
            effects += effects_of(result)
        if isinstance(result, phases.Skip) and not effects.changed:
            return result  # of the last part, which is this task itself
        return effects

    @contextmanager
    def changing(self, ctx: phases.Context, wanted: Wanted) -> Iterator[HostRoutingConfig]:
        """Hold the lock while the kernel is changed; yields the configuration that is installed
        then.
        """
        with self.host.locked(ctx):
            yield self.require_installed(wanted)

    def require_installed(self, wanted: Wanted) -> HostRoutingConfig:
        """The installed configuration; NotReady if another run has replaced this section of it."""
        installed = read_installed(self.host)
        if self.own_part(installed) != self.own_part(wanted.config):
            sentence = "another run has installed a different configuration in the meantime"
            raise NotReady(
                f"{sentence}; run this again if this configuration is the right one", kind="busy"
            )
        return installed
