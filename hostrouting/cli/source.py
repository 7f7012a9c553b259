"""The configuration that a command is about: from a file or from this host, with the CIDRs and
devices that are typed.
"""

import argparse
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from hostrouting.check.check import check_snapshot
from hostrouting.check.repair_line import typed
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, Fault
from hostrouting.host.host import Host
from hostrouting.install.host_check import HostCheck, check_host
from hostrouting.model.snapshot import Snapshot


def bad_input(name: str, rule: str, remedy: str, value: str = "") -> ConfigError:
    """The error for an argument, or for its value."""
    return ConfigError([Fault(name, value, rule, remedy)])


def typed_options(arguments: argparse.Namespace) -> str:
    """The CIDRs, devices and file as they were typed, to repeat them in a proposed command. Only
    `repair` has --allow.
    """
    options = "".join(f" {shlex.quote(cidr)}" for cidr in arguments.cidrs)
    options += typed("--dev", arguments.dev)
    options += typed("--allow", getattr(arguments, "allow", []))
    if arguments.config is not None:
        options += typed("--config", [arguments.config])
    return options


def find_config(arguments: argparse.Namespace, host: Host) -> HostRoutingConfig:
    """The configuration in --config, or else the installed one. It is empty if none is installed,
    or if snapshots are checked.
    """
    if arguments.config is not None:
        return HostRoutingConfig.load(arguments.config)
    if arguments.snapshot is not None or getattr(arguments, "snapshots", None):
        return HostRoutingConfig()  # what is installed here is not about other hosts
    from hostrouting.install.installed import read_installed  # noqa: PLC0415  not for a snapshot

    return read_installed(host)


@contextmanager
def _faults_of(argument: str) -> Iterator[None]:
    """In the block, the faults of a ConfigError get the name of this argument as their path."""
    try:
        yield
    except ConfigError as error:
        faults = [fault._replace(path=argument) for fault in error.faults]
        raise ConfigError(faults, "the command line") from error


def config_to_check(known: HostRoutingConfig, arguments: argparse.Namespace) -> HostRoutingConfig:
    """The known configuration, with the typed CIDRs as its expectedCidrs, and the devices of --dev
    as its expectedDevs, if there are any. It keeps its serviceCidrs, which are checked, too.
    Raises ConfigError if it has neither expectedCidrs nor serviceCidrs.
    """
    section = known.route_overlap
    if arguments.cidrs:
        with _faults_of("CIDR"):
            section = section._replace(expected_cidrs=arguments.cidrs)
    if arguments.dev:
        with _faults_of("--dev"):
            section = section._replace(expected_devs=arguments.dev)
    if not section.cidrs:
        raise bad_input(
            "CIDR",
            "no expected CIDR is given, so there is nothing to check",
            "name one, such as 172.16.64.0/24, or use a --config file that has some",
        )
    return known._replace(route_overlap=section)


def config_to_repair(known: HostRoutingConfig, arguments: argparse.Namespace) -> HostRoutingConfig:
    """As `config_to_check`, but the typed CIDRs are added to the expectedCidrs of the known
    configuration, and the devices of --allow to its allowedDevs: a repair takes nothing away.
    """
    section = config_to_check(known, arguments).route_overlap
    expected = (*known.route_overlap.expected_cidrs, *section.expected_cidrs)
    section = section._replace(expected_cidrs=tuple(dict.fromkeys(expected)))
    allowed = (*section.allowed_devs, *arguments.allow)
    with _faults_of("--allow"):
        section = section._replace(allowed_devs=tuple(dict.fromkeys(allowed)))
    return known._replace(route_overlap=section)


def check_or_load(
    arguments: argparse.Namespace, host: Host, config: HostRoutingConfig
) -> HostCheck:
    """The check of this host, or of the saved snapshot."""
    options = typed_options(arguments)
    if arguments.snapshot is None:
        return check_host(config, host, repair_options=options)
    report = check_snapshot(Snapshot.load(arguments.snapshot), config)
    return HostCheck.of_snapshot(report, config, repair_options=options)
