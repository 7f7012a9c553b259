"""What the arguments of a command mean: the configuration that is known, from a file or from this
host; the one to check or to repair, with the CIDRs and devices that are typed; the options as a
proposed command has them; the exit code with --fail-on.
"""

import argparse
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from hostrouting.check.check import check_snapshot
from hostrouting.check.repair_line import typed
from hostrouting.codes import PROBLEM
from hostrouting.command import AS_ROOT, Operator
from hostrouting.config.settings import GateConfig, HostRoutingConfig, gated_units
from hostrouting.errors import ConfigError, Fault, HostError
from hostrouting.finding import Finding
from hostrouting.host.host import Host
from hostrouting.install.host_check import HostCheck, check_host
from hostrouting.model.snapshot import Snapshot

T = TypeVar("T")


def bad_input(name: str, rule: str, remedy: str, value: str = "") -> ConfigError:
    """The error for an argument, or for its value."""
    return ConfigError([Fault(name, value, rule, remedy)])


def typed_name(path: str) -> str:
    """The file as it is typed in a shell, also one like an option; `-` is standard input again."""
    if path.startswith("-") and path != "-":
        path = f"./{path}"
    return shlex.quote(path)


def typed_options(arguments: argparse.Namespace) -> str:
    """The CIDRs and the file as they were typed, for a proposed command."""
    options = ""
    for cidr in arguments.cidrs:
        options += f" {shlex.quote(cidr)}"
    options += typed("--dev", arguments.dev)
    options += typed("--allow", _allowed(arguments))
    return options + typed_file(arguments)


def _allowed(arguments: argparse.Namespace) -> list[str]:
    """The devices and rules of --allow, which not every command has."""
    allowed: list[str] = getattr(arguments, "allow", [])
    return allowed


def typed_file(arguments: argparse.Namespace) -> str:
    """The option --config as it was typed, for a proposed command."""
    if arguments.config is None:
        return ""
    return f" --config {typed_name(arguments.config)}"


def as_whom(arguments: argparse.Namespace) -> Operator:
    """Who types what is printed, and where: a snapshot may be read anywhere."""
    who = AS_ROOT.who
    if getattr(arguments, "snapshot", None) is not None:
        who = f"on that host {who}"
    return Operator(who, arguments.program)


def read_config(path: str, gate: Iterable[str] = ()) -> HostRoutingConfig:
    """The configuration in this file, with these units, which are typed, gated, too."""
    config = HostRoutingConfig.load(path, required=True)
    added = tuple(gate)
    if not added:
        return config
    units = _each_once((*gated_units(config), *added))
    with _faults_of("--gate"):
        section = config.gate or GateConfig(units)
        return config._replace(gate=section._replace(units=units))


@contextmanager
def _faults_of(argument: str) -> Iterator[None]:
    """In the block, what is wrong with a value is a fault of this argument."""
    try:
        yield
    except ConfigError as error:
        faults = [fault._replace(path=argument) for fault in error.faults]
        raise ConfigError(faults, "the command line" if len(faults) > 1 else "") from error


def find_config(arguments: argparse.Namespace, host: Host) -> HostRoutingConfig:
    """The configuration in --config; without --config, the installed one; an empty one if none is
    installed, or this is about other hosts.
    """
    if arguments.config is not None:
        return read_config(arguments.config)
    is_elsewhere = arguments.snapshot is not None or getattr(arguments, "snapshots", None)
    if is_elsewhere or not host.may_have_ours:
        return HostRoutingConfig()
    from hostrouting.install.installed import read_installed  # noqa: PLC0415  see Host.may_have_ours

    return read_installed(host)


def find_config_or_warn(
    arguments: argparse.Namespace, host: Host
) -> tuple[HostRoutingConfig, tuple[Finding, ...]]:
    """As `find_config`, for a question that can be answered without: a warning says that the
    installed configuration is unusable.
    """
    try:
        return find_config(arguments, host), ()
    except (ConfigError, HostError) as error:
        if arguments.config is not None:
            raise
        return HostRoutingConfig(), (_not_used(error),)


def _not_used(error: ConfigError | HostError) -> Finding:
    """The warning that the installed configuration was not used, because of this error."""
    [finding] = error.findings  # one, also if config.json has several faults
    sentence = f"the installed configuration was not used: {finding.sentence}"
    return finding._replace(severity="warning", sentence=sentence)


def config_to_check(known: HostRoutingConfig, arguments: argparse.Namespace) -> HostRoutingConfig:
    """The known configuration, with the CIDRs and devices that are typed instead of its own; its
    serviceCidrs are checked, too. Raises ConfigError if nothing is expected.
    """
    section = known.route_overlap
    if arguments.cidrs:
        with _faults_of("CIDR"):
            section = section._replace(expected_cidrs=arguments.cidrs)
    if arguments.dev:
        with _faults_of("--dev"):
            section = section._replace(expected_devs=arguments.dev)
    if not section.cidrs:
        remedy = "name one, such as 172.16.64.0/24, or use a --config file that has some"
        raise bad_input("CIDR", "no expected CIDR is given, so there is nothing to check", remedy)
    return known._replace(route_overlap=section)


def config_to_repair(known: HostRoutingConfig, arguments: argparse.Namespace) -> HostRoutingConfig:
    """As `config_to_check`, but the CIDRs that are typed are expected beside those of the known
    configuration, and devices and rules are allowed beside its own: a repair takes none away.
    """
    section = config_to_check(known, arguments).route_overlap
    expected = (*known.route_overlap.expected_cidrs, *section.expected_cidrs)
    devs = [*section.allowed_devs]
    rules = [*section.intended_rules]
    for name in _allowed(arguments):
        if " " in name:  # the selectors of a rule have a name and a value
            rules.append(name)
        else:
            devs.append(name)
    with _faults_of("--allow"):
        section = section._replace(
            expected_cidrs=_each_once(expected),
            allowed_devs=_each_once(devs),
            intended_rules=_each_once(rules),
        )
    return known._replace(route_overlap=section)


def _each_once(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))


def check_or_load(
    arguments: argparse.Namespace,
    host: Host,
    config: HostRoutingConfig,
    *,
    to_repair: HostRoutingConfig,
) -> HostCheck:
    """The check of this host, or of the saved snapshot, as `check_host` makes it."""
    options = typed_options(arguments)
    if arguments.snapshot is None:
        return check_host(config, host, to_repair=to_repair, repair_options=options)
    report = check_snapshot(Snapshot.load(arguments.snapshot), config)
    return HostCheck.of_snapshot(report, config, repair_options=options)


def code_with(arguments: argparse.Namespace, code: int, findings: Iterable[Finding]) -> int:
    """The exit code, which is 1 if there is a warning, and --fail-on asks for that."""
    if not arguments.fail_on:
        return code
    for finding in findings:
        if finding.name not in arguments.ignore and finding.severity != "note":
            return PROBLEM
    return code
