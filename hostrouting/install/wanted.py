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
    """What a run is asked to install: a whole configuration, or some attributes of one."""

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
        """The part of this configuration that the run is about: all of it if there are no `names`;
        else the section with the first of these names. The other names are settings that the run
        also sets, such as the guard, but that other runs may need, too. An undo compares only this
        part, to see whether another run has changed it since.
        """
        if not self.names:
            return config
        return getattr(config, self.names[0])


def _as_installed(config: HostRoutingConfig) -> HostRoutingConfig:
    """Return the configuration as it can be read back after the run. A configuration that asks for
    nothing puts no config.json on the host, so the empty one is read back, whatever else it says.
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
    """Return the whole configuration that a run installs on this host: the requested one or, if the
    request has names, the installed one in which the attributes with these names are replaced.

    In an undo, HostError if another run has since changed what the request is about (`own_part`).
    """
    installed: HostRoutingConfig | None = None
    if not request.names:
        with suppress(HostRoutingError):  # unreadable: the run replaces all of it anyway
            installed = read_installed(host)
        config = request.config
    else:
        installed = read_installed(host)
        names = request.names
        undone = request.undone
        # The undone run found `request.config` installed, and replaced some attributes in it. If
        # something else is installed now, another run has changed the host since, and may need the
        # gate and the guard as they are. So only the section is restored, the first of the names.
        if undone and installed != request.config.replaced(undone.names, undone.config):
            names = names[:1]
        config = installed.replaced(names, request.config)
    if request.undone is None:
        return Wanted(config, installed, request.allow_removal)

    # The part that this undo is about must be as the undone run left it, or as it was before that
    # run. What the run left in this part is what it would install again now.
    left_by_run = read_wanted(host, request.undone).config
    expected = (request.own_part(left_by_run), request.own_part(request.config))
    if installed is not None and request.own_part(installed) not in expected:
        sentence = "another run has installed a different configuration since, which stays"
        raise HostError(sentence, what="file")
    return Wanted(config, installed, request.allow_removal, purpose="undo")
