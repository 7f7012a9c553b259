"""A task about one section of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from hostrouting.errors import NotReady
from hostrouting.install.install import InstallTask
from hostrouting.install.installed import read_installed
from hostrouting.install.part import Part
from hostrouting.install.wanted import Wanted

if TYPE_CHECKING:
    import phases
    from hostrouting.config.settings import HostRoutingConfig


class SectionTask(InstallTask, Part):
    """A task about one section of the configuration, whose work on the kernel is a part of an
    installation (`install.part`). Alone, it keeps all other sections as they are installed.
    """

    section: ClassVar[str]
    """The attribute of the configuration that the task is about."""
    needed: ClassVar[tuple[type[SectionTask], ...]] = ()
    """The tasks whose work is part of this task's work: when this task runs alone, it does their
    work first.
    """

    def wanted(self) -> Wanted:
        """See InstallTask. The installed configuration with this section replaced."""
        installed = read_installed(self.host)
        config = installed.replaced(self.section, self.config)
        return Wanted(config, installed, self.allow_removal)

    def parts(self) -> tuple[SectionTask, ...]:
        """See InstallTask."""
        needed = [kind(self.config, host=self.host, wait=self.wait) for kind in self.needed]
        return (*needed, self)

    def own_part(self, config: HostRoutingConfig) -> object:
        """See InstallTask."""
        return getattr(config, self.section)

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
