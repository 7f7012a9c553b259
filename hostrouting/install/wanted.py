"""The configuration that takes the place of the installed one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.boot.files import asks_for_nothing
from hostrouting.config.settings import HostRoutingConfig

if TYPE_CHECKING:
    from hostrouting.model.route import RouteKey


def _as_installed(config: HostRoutingConfig) -> HostRoutingConfig:
    """The configuration as it is read again: one that asks for no file has no config.json."""
    if asks_for_nothing(config):
        return HostRoutingConfig()
    return config


@attrs.frozen
class Wanted:
    """What a run brings onto a host."""

    config: HostRoutingConfig = attrs.field(converter=_as_installed)
    """The whole configuration."""
    former: HostRoutingConfig | None
    """What is installed; it asks for nothing if nothing is. None if it cannot be read."""
    is_undo: bool = False
    """Whether a run is taken back: this configuration was installed before, with all that is wrong
    with it.
    """

    @property
    def is_on_new_host(self) -> bool:
        """Whether nothing is installed yet."""
        return self.former == HostRoutingConfig()

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is wanted, and nothing was installed when this was read. A host on which
        nothing is left to do for another configuration has just been changed by another run, and
        still has to be checked.
        """
        return self.is_on_new_host and self.config == HostRoutingConfig()

    @property
    def former_keys(self) -> set[RouteKey]:
        """The keys of the static routes that are configured now."""
        return configured_keys(self.former)


def configured_keys(config: HostRoutingConfig | None) -> set[RouteKey]:
    """The keys of the static routes of a configuration; none if it could not be read."""
    if config is None:
        return set()
    return {route.key for route in config.static_routes.routes}
