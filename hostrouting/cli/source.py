"""The input of a command: this host's kernel or a saved snapshot, and the configuration.

Here: converting arguments to values, and their faults to ConfigError or InputError. Not here: any conclusion.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

import attrs

import phases
from hostrouting.arguments import HOST_OF_A_SNAPSHOT, require_devices
from hostrouting.cli.terminal import log_to_stderr
from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig
from hostrouting.errors import BackendError, ConfigError, Fault
from hostrouting.model.document import STANDARD_INPUT, name_of

if TYPE_CHECKING:
    import argparse

    from hostrouting.config.values import Network
    from hostrouting.host.host import Host
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.model.prefix import IP
    from hostrouting.model.snapshot import Snapshot

_PLACEHOLDER = "FILE"


def config_of(arguments: argparse.Namespace) -> HostRoutingConfig:
    """The configuration from --config, or an empty one; with the devices from --dev."""
    if not hasattr(arguments, "loaded"):  # a pipe can be read only once
        arguments.loaded = _loaded(arguments)
    return _with_devs(arguments.loaded, arguments)


def _loaded(arguments: argparse.Namespace) -> HostRoutingConfig:
    path = arguments.config
    if path is None:
        return HostRoutingConfig()
    if path == STANDARD_INPUT == getattr(arguments, "snapshot", None):
        fault = Fault("--config", "'-'", "is standard input, and so is --snapshot", "name a file for one of the two")
        raise ConfigError([fault])
    is_piped = path == STANDARD_INPUT or pathlib.Path(path).is_fifo()
    config = HostRoutingConfig.load(path, is_ours=True)
    if is_piped:
        # A pipe has no name that could be typed again. Printed commands have FILE in its place.
        arguments.config, arguments.piped = _PLACEHOLDER, name_of(path)
    return config


def _with_devs(config: HostRoutingConfig, arguments: argparse.Namespace) -> HostRoutingConfig:
    devs = getattr(arguments, "devs", None)
    if not devs:
        return config
    try:
        return attrs.evolve(config, route_overlap=attrs.evolve(config.route_overlap, expected_devs=devs))
    except ConfigError as error:
        raise ConfigError(attrs.evolve(fault, path="--dev") for fault in error.faults) from error


def installed_config(host: Host) -> HostRoutingConfig | None:
    """The configuration that is installed on this host; None if nothing is. ConfigError if it is not known."""
    if not host.may_have_ours:
        return None
    from hostrouting.tasks.install import read_installed  # noqa: PLC0415  only a host that may have some of ours needs it

    return read_installed(host)


def expected_of(arguments: argparse.Namespace, installed: HostRoutingConfig | None = None) -> HostRoutingConfig:
    """The configuration to check by: from --config, or the installed one. Raises ConfigError if it expects no CIDR.

    CIDRs from the command line replace those of the configuration. They replace all check settings of an installed
    configuration, so that the result is the same as for a snapshot of this host; its routes stay.
    """
    config = installed or config_of(arguments)
    if arguments.cidrs:
        settings = config.route_overlap if installed is None else RouteOverlapConfig()
        config = attrs.evolve(config, route_overlap=attrs.evolve(settings, expected_cidrs=cidrs_of(arguments.cidrs)))
    config = _with_devs(config, arguments)
    if not config.route_overlap.cidrs:
        where = getattr(arguments, "piped", arguments.config) or "CIDR"
        remedy = "name one, such as 172.16.0.0/16, or use a --config that has some"
        raise ConfigError([Fault(where, "", "no expected CIDR is given, so there is nothing to check", remedy)])
    return config


def cidrs_of(given: Sequence[str]) -> tuple[Network, ...]:
    """The CIDRs from the command line, parsed by the rules of the configuration."""
    found: dict[Network, None] = {}
    faults: list[Fault] = []
    for text in given:
        try:
            found |= dict.fromkeys(RouteOverlapConfig(expected_cidrs=[text]).expected_cidrs)
        except ConfigError as error:
            faults += [attrs.evolve(fault, path="CIDR") for fault in error.faults]
    if faults:
        raise ConfigError(faults, "the command line" if len(faults) > 1 else None)
    return tuple(found)


def known_devices(arguments: argparse.Namespace, snapshot: Snapshot) -> None:
    """Raise ConfigError if an option names a device that does not exist; the message has those that do."""
    typed = [("--dev", dev) for dev in arguments.devs]
    require_devices(typed, snapshot, host="this host" if arguments.snapshot is None else HOST_OF_A_SNAPSHOT)


def address_of(text: str, name: str) -> IP:
    """The address in `text`; `name` is the name of the argument. Raises ConfigError if it is not an address."""
    try:
        address = ip_address(text)
    except ValueError as error:
        fault = Fault(name, repr(text), "is not an address", "write one address, such as 172.16.5.9")
        raise ConfigError([fault]) from error
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        bare = text.partition("%")[0]
        fault = Fault(name, repr(text), "has a zone", f"write {bare}")
        raise ConfigError([fault])
    return address


def saved_snapshot(arguments: argparse.Namespace) -> Snapshot | None:
    """The saved snapshot, if one is named instead of this host."""
    if arguments.snapshot is None:
        return None
    from hostrouting.host.saved import read_snapshot  # noqa: PLC0415  for a snapshot only

    return read_snapshot(arguments.snapshot)


def open_kernel(host: Callable[[], Host]) -> RouteBackend:
    """The routing of this host's kernel."""
    backend = host().backend
    if backend is None:
        raise BackendError(
            "an image has no kernel to ask; use a snapshot of its host with --snapshot", kind="unavailable"
        )
    return backend()


def quiet_context() -> phases.Context:
    """A context for reading the host: it logs waiting, but no start and no end."""
    log_to_stderr()
    return phases.Context(observers=[])
