"""`check`: the verdict, what escapes, what repairs it, and how to allow it.

Type the networks that your cluster uses. Without a CIDR, check uses those of --config, or else of the
installed configuration. The configuration can name the expected devices; otherwise they are those of the default route.
Only routing tables and rules are checked, as they are now: not firewalls, IPsec or eBPF programs. Nothing is changed.
"""

import argparse
from shlex import quote

from hostrouting.cli.check import code_with, make_check
from hostrouting.cli.output import Answer
from hostrouting.cli.source import as_whom, bad_input, find_config, typed_name, with_cidrs
from hostrouting.host.host import Host

ARGUMENTS = ("cidrs", "--config", "--snapshot", "--snapshots", "--fail-on", "--ignore")


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config = with_cidrs(find_config(arguments, host), arguments.cidrs)
    if arguments.snapshots is not None:
        from hostrouting.cli.nodes import check_nodes

        if arguments.snapshot or arguments.fail_on or arguments.ignore:
            raise bad_input("--snapshots", "cannot be used with --snapshot, --fail-on or --ignore", "leave these out")
        return check_nodes(arguments.snapshots, config)
    check = make_check(config, host, arguments.snapshot)
    code = code_with(arguments, check.code(arguments.ignore), check.findings)
    repair = ["hostrouting repair", *map(quote, arguments.cidrs)]
    repair += [] if arguments.config is None else ["--config", typed_name(arguments.config)]
    return Answer(code, check.document(), check.lines(" ".join(repair), as_whom(arguments)), check.report)
