"""The configuration that is installed on a host, which is what config.json says, and the one that
takes its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.boot.files import asks_for_nothing
from hostrouting.boot.on_disk import proof_of_installation
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, Fault, HostRoutingError
from hostrouting.finding import Remedy
from hostrouting.host.layout import HostLayout
from hostrouting.release import call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hostrouting.finding import Finding
    from hostrouting.host.base import Files
    from hostrouting.host.host import Host
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
    allow_removal: bool = True
    """Whether the configuration may take away what protects the host now."""
    is_undo: bool = False
    """Whether a run is taken back: this configuration was installed before, with all that is wrong
    with it.
    """
    notes: tuple[Finding, ...] = ()
    """What the run leaves out of the configuration that it was given, or takes away as an undo."""

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
        return configured_keys(self.former)


def configured_keys(config: HostRoutingConfig | None) -> set[RouteKey]:
    """The keys of the static routes of a configuration; none if it could not be read."""
    if config is None:
        return set()
    return {route.key for route in config.static_routes.routes}


def read_installed(host: Host) -> HostRoutingConfig:
    """The configuration that is installed on this host, which asks for nothing if none is.

    Raises ConfigError if files of ours exist, but config.json is missing, unusable or empty. An
    empty configuration would be wrong then: a run would remove all that is installed.
    """
    files = host.files
    text = files.read(HostLayout.config_path)
    if text is None:
        if not proof_of_installation(files):
            return HostRoutingConfig()
        # Another run may have installed it since: it writes config.json before these.
        text = files.read(HostLayout.config_path)
    faults: Sequence[Fault]
    try:
        config = HostRoutingConfig.from_json(text or "")
    except ConfigError as error:
        faults = error.faults
    else:
        ours = proof_of_installation(files)
        if not asks_for_nothing(config) or not ours:
            return config
        # `apply` writes no such file: somebody has emptied it.
        faults = [Fault("", "", f"configures nothing, although {ours[0]} is still there")]
    if text is None:
        faults = [Fault("", "", "is missing, although files of hostrouting are still there")]
    raise ConfigError(faults, HostLayout.config_path, remedy=_remedy(files))


def installed_or_none(host: Host) -> HostRoutingConfig | None:
    """The same, but None if it cannot be read."""
    try:
        return read_installed(host)
    except HostRoutingError:
        return None


def _remedy(files: Files) -> Remedy:
    """What to do about a config.json that cannot be used, or is not there: nothing else says what
    was installed.
    """
    words = "to remove hostrouting (the routes go, and nothing holds units back)"
    removal = Remedy(words, call("remove"))
    words = "with a backup, or another file"
    backup = Remedy(words, call("apply --allow-removal --config"), otherwise=removal)
    if files.look(HostLayout.config_path) is None:
        return backup
    words = f"correct {HostLayout.config_path}, then"
    return Remedy(words, call("status"), needs_root=False, otherwise=backup)
