"""The configuration that is installed on a host, which is what config.json says, and the one that
takes its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.boot.files import gated_on_disk, owned_paths
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, Fault, HostRoutingError
from hostrouting.host.layout import HostLayout
from hostrouting.install.restoring import remedy_without_config

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hostrouting.host.host import Host
    from hostrouting.model.route import RouteKey


@attrs.frozen
class Wanted:
    """What a run brings onto a host."""

    config: HostRoutingConfig
    """The whole configuration."""
    former: HostRoutingConfig | None
    """What is installed; it asks for nothing if nothing is. None if it cannot be read."""

    @property
    def former_keys(self) -> set[RouteKey]:
        """The keys of the static routes that are configured now."""
        if self.former is None:
            return set()
        return {route.key for route in self.former.static_routes.routes}


def read_installed(host: Host) -> HostRoutingConfig:
    """The configuration that is installed on this host, which asks for nothing if none is.

    Raises ConfigError if files of ours exist, but config.json is missing or unusable. An empty
    configuration would be wrong then: a run would remove all that is installed.
    """
    path = HostLayout.config_path
    text = host.files.read(path)
    if text is None:
        ours = owned_paths(host.files)
        if not ours:
            return HostRoutingConfig()
        # Another run may have installed it since: it writes config.json first.
        text = host.files.read(path)
        if text is None:
            rule = f"is missing, although {ours[0]} is still there"
            fault = Fault("", "", f"{rule}, so the installed configuration is unknown")
            raise _unusable(host, [fault])
    try:
        return HostRoutingConfig.from_json(text, required=True)
    except ConfigError as error:
        raise _unusable(host, error.faults) from error


def readable_installed(host: Host) -> HostRoutingConfig | None:
    """The same, but None if it cannot be read."""
    try:
        return read_installed(host)
    except HostRoutingError:
        return None


def _unusable(host: Host, faults: Iterable[Fault]) -> ConfigError:
    """The error for config.json: what to do about it is the same for all faults."""
    faults = [fault._replace(remedy="") for fault in faults]
    remedy = remedy_without_config(gated_on_disk(host.files))
    return ConfigError(faults, HostLayout.config_path, remedy=remedy)
