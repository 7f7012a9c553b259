"""`check`: the verdict, what escapes, what repairs it, and how to allow it.

Type the networks that your cluster uses. Without a CIDR, check uses those of --config, or else of
the installed configuration. The configuration can name the expected devices; otherwise they are
those of the default route. Only routing tables and rules are checked, as they are now: not
firewalls, IPsec or eBPF programs. Nothing is changed.
"""

import argparse

from hostrouting.cli.check import check_lines
from hostrouting.cli.output import Answer
from hostrouting.cli.source import (
    as_whom,
    bad_input,
    check_or_load,
    code_with,
    config_to_check,
    config_to_repair,
    find_config,
    find_config_or_warn,
    typed_name,
    typed_options,
)
from hostrouting.command import Command, call
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.finding import Finding
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.install.host_check import HostCheck
from hostrouting.install.typed_commands import with_gate_command
from hostrouting.install.ungated import find_ungated

ARGUMENTS = ("cidrs", "--dev", "--config", "--snapshot", "--snapshots", "--fail-on", "--ignore")


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    if arguments.cidrs:
        known, unusable = find_config_or_warn(arguments, host)
    else:  # its CIDRs are checked
        known, unusable = find_config(arguments, host), ()
    config = config_to_check(known, arguments)
    if arguments.snapshots is not None:  # then nothing installed is read, or unusable
        return _check_nodes(arguments, config)
    to_repair = config_to_repair(known, arguments)
    check = check_or_load(arguments, host, config, to_repair=to_repair)
    findings = [*unusable, *check.findings]
    if unusable:  # a repair begins with the installed configuration
        findings = [*map(_without_repair, findings)]
    elif arguments.snapshot is None:
        ungated = find_ungated(config, host)
        findings += with_gate_command(ungated, _apply_command(arguments, check))
    check = check._replace(findings=tuple(findings))
    code = code_with(arguments, check.code(arguments.ignore), findings)
    return Answer(code, check.document(), check_lines(check, as_whom(arguments)))


def _without_repair(finding: Finding) -> Finding:
    """The finding without a command that repairs the host."""
    if finding.facts.keys().isdisjoint({"candidates", "mayAllow", "mayIntend"}):
        return finding
    return finding._replace(remedy=None)


def _check_nodes(arguments: argparse.Namespace, config: HostRoutingConfig) -> Answer:
    from hostrouting.cli.nodes import check_nodes

    if arguments.snapshot or arguments.fail_on or arguments.ignore:
        rule = "cannot be used with --snapshot, --fail-on or --ignore"
        raise bad_input("--snapshots", rule, "leave these out")
    return check_nodes(
        arguments.snapshots, config, call(f"check{typed_options(arguments)}"), as_whom(arguments)
    )


def _apply_command(arguments: argparse.Namespace, check: HostCheck) -> Command:
    """The line to type that applies the file, with a repair if addresses would escape."""
    if check.report.routes or check.named("route-not-configured"):
        return check.repair.line()
    file = HostLayout.config_path
    if arguments.config is not None:
        file = typed_name(arguments.config)
    return call(f"apply --config {file}")
