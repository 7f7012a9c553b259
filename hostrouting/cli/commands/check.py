"""`check`: the verdict, what escapes, what repairs it, and how to allow it.

Type the networks that your cluster uses. Without a CIDR, check uses those of --config, or else of
the installed configuration. The configuration can name the expected devices; otherwise they are
those of the default route. Only routing tables and rules are checked, as they are now: not
firewalls, IPsec or eBPF programs. Nothing is changed.
"""

import argparse

from hostrouting.cli.check import code_with, make_check, with_gate_command
from hostrouting.cli.output import Answer
from hostrouting.cli.source import (
    adding_typed,
    as_whom,
    bad_input,
    find_config,
    find_config_or_warn,
    typed_name,
    typed_options,
    with_typed,
)
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.install.obstacles import find_ungated

ARGUMENTS = ("cidrs", "--dev", "--config", "--snapshot", "--snapshots", "--fail-on", "--ignore")


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    if arguments.cidrs:
        known, unusable = find_config_or_warn(arguments, host)
    else:
        known, unusable = find_config(arguments, host), ()
    config, file = with_typed(known, arguments), arguments.config
    options = typed_options(arguments)
    if arguments.snapshots is not None:
        from hostrouting.cli.nodes import check_nodes

        if arguments.snapshot or arguments.fail_on or arguments.ignore:
            raise bad_input(
                "--snapshots",
                "cannot be used with --snapshot, --fail-on or --ignore",
                "leave these out",
            )
        return check_nodes(arguments.snapshots, config, options)
    repaired = adding_typed(known, arguments)
    check = make_check(config, host, arguments.snapshot, repaired=repaired)
    check = check._replace(findings=(*unusable, *check.findings))
    if arguments.snapshot is None:
        named = HostLayout.config_path if file is None else typed_name(file)
        ungated = with_gate_command(find_ungated(config, host), check.gate_command(options, named))
        check = check._replace(findings=(*check.findings, *ungated))
    code = code_with(arguments, check.code(arguments.ignore), check.findings)
    copied = (
        f", with a copy of {typed_name(file)}"
        if file is not None and arguments.snapshot is not None
        else ""
    )
    return Answer(
        code, check.document(), check.lines(options, as_whom(arguments), copied), check.report
    )
