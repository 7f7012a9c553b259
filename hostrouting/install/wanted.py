"""What a run is asked for, and what it brings onto a host because of that."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostError, HostRoutingError
from hostrouting.install.installed import read_installed

if TYPE_CHECKING:
    from hostrouting.host.host import Host
    from hostrouting.routes.keep import Purpose


@attrs.frozen
class Request:
    """What a run is asked for."""

    config: HostRoutingConfig
    names: tuple[str, ...] = ()
    """The attributes of the configuration that the run replaces, a section first: all others stay
    as they are installed. Empty if the run is about the whole configuration.
    """
    allow_removal: bool = False
    """Whether the run may take away what protects the host now."""
    undone: Request | None = None
    """In the request of an undo: the request of the run that is taken back. The `config` of the
    undo is what was installed before that run.
    """

    def own_part(self, config: HostRoutingConfig) -> object:
        """What the run is about in this configuration: the first of `names`, or all of it without
        names. The other names are what a task for one section sets as well, such as the guard.
        """
        if not self.names:
            return config
        return getattr(config, self.names[0])


def _as_installed(config: HostRoutingConfig) -> HostRoutingConfig:
    """Return the configuration as it is read back after the run: one that asks for nothing puts no
    config.json on the host, whatever else it says.
    """
    if config.asks_for_nothing:
        return HostRoutingConfig()
    return config


@attrs.frozen
class Wanted:
    """What a run brings onto a host."""

    config: HostRoutingConfig = attrs.field(converter=_as_installed)
    """The whole configuration."""
    former: HostRoutingConfig | None
    """What is installed; it asks for nothing if nothing is. None if it cannot be read."""
    allow_removal: bool
    """Whether the configuration may take away what protects the host now."""
    purpose: Purpose = "apply"
    """In an undo, the configuration was installed before. So what is wrong with it, such as a
    conflict of its routes, does not make the run fail before its first change.
    """


def read_wanted(host: Host, request: Request) -> Wanted:
    """Return what a run brings onto this host as it is now: the requested configuration or, if the
    request names sections, the installed one with these sections replaced. Only in the first case
    may the installed configuration be unreadable.

    HostError for an undo if another run has installed something else since: what the request is
    about is neither as the undone run left it, nor as it was before that.
    """
    installed: HostRoutingConfig | None = None
    if not request.names:
        with suppress(HostRoutingError):
            installed = read_installed(host)
        config = request.config
    else:
        installed = read_installed(host)
        names = request.names
        run = request.undone
        if run is not None and installed != request.config.replaced(run.names, run.config):
            # Another run has changed the host since, and may need the gate and the guard, which are
            # the other names: only the section is restored.
            names = names[:1]
        config = installed.replaced(names, request.config)
    if request.undone is None:
        return Wanted(config, installed, request.allow_removal)

    left_by_run = read_wanted(host, request.undone).config
    expected = (request.own_part(left_by_run), request.own_part(request.config))
    if installed is not None and request.own_part(installed) not in expected:
        sentence = "another run has installed a different configuration since, which stays"
        raise HostError(sentence, what="file")
    return Wanted(config, installed, request.allow_removal, purpose="undo")
