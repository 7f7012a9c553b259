"""The configuration that a run brings onto a host, and what it takes the place of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.config.settings import HostRoutingConfig

if TYPE_CHECKING:
    from hostrouting.model.route import RouteKey


def _as_installed(config: HostRoutingConfig) -> HostRoutingConfig:
    """The configuration as it is read again: one that asks for no file has no config.json."""
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
        """Whether nothing is wanted."""
        return self.config == HostRoutingConfig()

    @property
    def former_keys(self) -> set[RouteKey]:
        """The keys of the static routes that are configured now."""
        if self.former is None:
            return set()
        return {route.key for route in self.former.static_routes.routes}
