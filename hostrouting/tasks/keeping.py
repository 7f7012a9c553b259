"""KeepForeign lets systemd-networkd keep what it calls foreign. Not here: our routes, which the guard keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hostrouting.boot.gate import Part
from hostrouting.boot.units import render_networkd_drop_in
from hostrouting.config.values import Upkeep
from hostrouting.host.effects import Effects
from hostrouting.host.fileset import OURS, File, FileSet
from hostrouting.tasks.base import HostTask

if TYPE_CHECKING:
    import phases
    from hostrouting.tasks.results import Change

NETWORKD = "systemd-networkd.service"
"""The unit that reads the drop-in."""


class KeepForeign(HostTask[Effects]):
    """Tell systemd-networkd, by a drop-in, to keep routes and rules that it does not know.

    systemd-networkd reads it when it starts. Nothing restarts it here: that is for the operator to decide.
    """

    name: ClassVar[str] = "keep-foreign"
    nothing: ClassVar[str] = "manageForeign is not set, and nothing of it is installed"
    section: ClassVar[str] = "manageForeign"
    loss: ClassVar[str] = "the drop-in that tells systemd-networkd to keep our routes"

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
