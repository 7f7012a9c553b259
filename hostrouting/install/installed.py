"""The configuration that is installed on a host, which is what config.json says, and the one that
takes its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.boot.files import asks_for_nothing
from hostrouting.boot.on_disk import proof_of_installation
from hostrouting.command import call
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, Fault, HostRoutingError
from hostrouting.finding import Remedy
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    path = HostLayout.config_path
    text = host.files.read(path)
    if text is None:
        ours = proof_of_installation(host.files)
        if not ours:
            return HostRoutingConfig()
        # Another run may have installed it since: it writes config.json before these.
        text = host.files.read(path)
        if text is None:
            raise _unknown(host.files, _how_it_is_missing(host.files), ours)
    try:
        config = HostRoutingConfig.from_json(text, required=True)
    except ConfigError as error:
        raise _unusable(host.files, error.faults) from error
    if asks_for_nothing(config):  # apply writes no such file: somebody has emptied it
        others = proof_of_installation(host.files)
        if others:
            raise _unknown(host.files, "configures nothing", others)
    return config


def installed_or_none(host: Host) -> HostRoutingConfig | None:
    """The same, but None if it cannot be read."""
    try:
        return read_installed(host)
    except HostRoutingError:
        return None


def _how_it_is_missing(files: Files) -> str:
    if files.look(HostLayout.config_directory) is None:
        return f"is missing, with all of {HostLayout.config_directory}"
    return "is missing"


def _unknown(files: Files, what: str, ours: Sequence[str]) -> ConfigError:
    """The error for a config.json that does not say what these files are for."""
    rule = f"{what}, although {ours[0]} is still there"
    fault = Fault("", "", f"{rule}, so the installed configuration is unknown")
    return _unusable(files, [fault])


def _unusable(files: Files, faults: Iterable[Fault]) -> ConfigError:
    """The error for config.json. What to do about several faults is the same for all."""
    faults = [*faults]
    if len(faults) > 1:
        faults = [fault._replace(remedy="") for fault in faults]
    return ConfigError(faults, HostLayout.config_path, remedy=remedy_without_config(files))


def remedy_without_config(files: Files) -> Remedy:
    """What to do about a config.json that cannot be used, or is not there: nothing else says what
    was installed.
    """
    removal = Remedy(
        "to remove hostrouting (the routes go, nothing holds units back, and addresses may escape)",
        call("remove"),
    )
    backup = Remedy(
        "with a backup, or another file, whose path you type at the end (--allow-removal, because "
        "nothing says what the new file would take away)",
        call("apply --allow-removal --config"),
        otherwise=removal,
    )
    if files.look(HostLayout.config_path) is None:
        return backup
    words = f"correct {HostLayout.config_path}, then"
    return Remedy(words, call("status"), needs_root=False, otherwise=backup)
