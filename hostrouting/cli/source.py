"""The configuration that a command is about: from a file or from this host, with the CIDRs and
devices that are typed.
"""

import argparse
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from hostrouting.check.check import check_kernel, check_snapshot
from hostrouting.check.repair_line import repeated_option
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, Fault
from hostrouting.host.host import Host
from hostrouting.install.host_check import HostCheck
from hostrouting.model.snapshot import Snapshot


def bad_input(name: str, rule: str, remedy: str, value: str = "") -> ConfigError:
    """The error for an argument, or for its value."""
    return ConfigError([Fault(name, value, rule, remedy)])


def repair_options(arguments: argparse.Namespace) -> str:
    """The options, as text, of the command `hostrouting repair` that a page proposes: the CIDRs,
    devices and file as they were typed. A configuration from standard input, or another pipe,
    cannot be read again, so the command has the word FILE: the operator has to save the
    configuration in a file.
    """
    options = "".join(f" {shlex.quote(cidr)}" for cidr in arguments.cidrs)
    options += repeated_option("--dev", arguments.dev)
    options += repeated_option("--allow", getattr(arguments, "allow", []))  # `check` has no --allow
    if arguments.config is not None:
        is_pipe = arguments.config.startswith(("-", "/dev/fd/", "/dev/stdin", "/proc/"))
        options += repeated_option("--config", ["FILE" if is_pipe else arguments.config])
    return options


def find_config(arguments: argparse.Namespace, host: Host) -> HostRoutingConfig:
    """The configuration in the file of --config, or else the one that is installed on this host.
    Without --config, it is empty if nothing is installed, or if a snapshot is checked.
    """
    if arguments.config is not None:
        return HostRoutingConfig.load(arguments.config)
    # Only `check` has --snapshots.
    if arguments.snapshot is not None or getattr(arguments, "snapshots", None):
        return HostRoutingConfig()  # what is installed here is not for the host of a snapshot
    from hostrouting.install.installed import read_installed  # noqa: PLC0415  not for a snapshot

    return read_installed(host)


@contextmanager
def _faults_named(argument: str) -> Iterator[None]:
    """The block puts the value of an argument into a configuration. If the value is wrong, raise
    the error again with the name of the argument in place of the key, which the user has not typed.
    """
    try:
        yield
    except ConfigError as error:
        faults = [fault._replace(path=argument) for fault in error.faults]
        raise ConfigError(faults, "the command line") from error


def config_to_check(known: HostRoutingConfig, arguments: argparse.Namespace) -> HostRoutingConfig:
    """The configuration by which `check` judges: `known`, from a file or installed, changed by what
    is typed. Typed CIDRs replace expectedCidrs, and devices of --dev replace expectedDevs. The
    serviceCidrs stay, and are checked, too. ConfigError if there are no CIDRs to check.
    """
    section = known.route_overlap
    if arguments.cidrs:
        with _faults_named("CIDR"):
            section = section._replace(expected_cidrs=arguments.cidrs)
    if arguments.dev:
        with _faults_named("--dev"):
            section = section._replace(expected_devs=arguments.dev)
    if not section.cidrs:
        raise bad_input(
            "CIDR",
            "no expected CIDR is given, so there is nothing to check",
            "name one, such as 172.16.64.0/24, or use a --config file that has some",
        )
    return known._replace(route_overlap=section)


def config_to_repair(known: HostRoutingConfig, arguments: argparse.Namespace) -> HostRoutingConfig:
    """The configuration to which `repair` adds routes: `known`, from a file or installed, changed
    by what is typed. Typed CIDRs are added to expectedCidrs, and devices of --allow to allowedDevs:
    whoever applies the result wants to keep what is checked and allowed now. Devices of --dev
    replace expectedDevs.
    """
    section = config_to_check(known, arguments).route_overlap
    expected = (*known.route_overlap.expected_cidrs, *section.expected_cidrs)
    section = section._replace(expected_cidrs=tuple(dict.fromkeys(expected)))
    allowed = (*section.allowed_devs, *arguments.allow)
    with _faults_named("--allow"):
        section = section._replace(allowed_devs=tuple(dict.fromkeys(allowed)))
    return known._replace(route_overlap=section)


def check_host_or_snapshot(
    arguments: argparse.Namespace, host: Host, config: HostRoutingConfig
) -> HostCheck:
    """Check this host, or the saved snapshot that --snapshot names, against `config`. The commands
    in the findings repeat the options that were typed.
    """
    if arguments.snapshot is None:
        with host.open_kernel() as kernel:
            report = check_kernel(kernel, config)
    else:
        report = check_snapshot(Snapshot.load(arguments.snapshot), config)
    return HostCheck.of_report(report, config, repair_options=repair_options(arguments))
