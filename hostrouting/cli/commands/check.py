"""`check`: the verdict, what escapes, what repairs it, and how to allow it.

Without a configuration, the CIDRs are those given here, and the expected devices those of the default route. CIDRs
given here replace those of a configuration. With neither, the installed check is made. Only routing tables and rules
are checked, as they are now: not firewalls, IPsec or eBPF programs. Nothing is changed.
"""

from __future__ import annotations

import argparse

from hostrouting.cli.check import code_with, make_check
from hostrouting.cli.output import Answer
from hostrouting.cli.source import GetHost, read_question

ARGUMENTS = ("cidrs", "--dev", "--config", "--snapshot", "--snapshots", "--fail-on", "--ignore")


def run(arguments: argparse.Namespace, host: GetHost) -> Answer:
    """See the module."""
    if arguments.snapshots:
        from hostrouting.cli.nodes import check_nodes

        return check_nodes(arguments, host)
    question = read_question(arguments, host)
    check = make_check(arguments, question.config, host)
    code = code_with(arguments, check.code(arguments.ignore), check.findings)
    lines = check.lines(question.repair, is_saved=arguments.snapshot is not None)
    return Answer(code, check.document(), lines, check.report)
