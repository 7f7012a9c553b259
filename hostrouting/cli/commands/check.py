"""`check`: the verdict, what escapes, what repairs it, and how to allow it.

Type the networks that your cluster uses. Without a CIDR, check uses those of --config, or else of
the installed configuration. The configuration can name the expected devices; otherwise they are
those of the default route. Only routing tables and rules are checked, as they are now: not
firewalls, IPsec or eBPF programs. Nothing is changed.
"""

import argparse
from collections.abc import Iterator

from hostrouting.check.sentences import repair_commands
from hostrouting.cli.output import Answer
from hostrouting.cli.source import check_or_load, config_to_check, find_config
from hostrouting.host.host import Host
from hostrouting.install.host_check import HostCheck
from hostrouting.install.ungated import find_ungated
from hostrouting.lines import finding_lines


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config = config_to_check(find_config(arguments, host), arguments)
    if arguments.snapshots is not None:
        from hostrouting.cli.nodes import check_nodes

        return check_nodes(arguments.snapshots, config)
    check = check_or_load(arguments, host, config)
    if arguments.snapshot is None:
        check = check._replace(findings=(*check.findings, *find_ungated(config, host)))
    return Answer(check.code(), check.document(), check_lines(check))


def check_lines(check: HostCheck) -> Iterator[str]:
    """The verdicts and what escapes, the findings, and the repair, now and for good."""
    said: set[str] = set()
    for family in check.report.families:
        yield str(family)
        said.add(family.sentence)
    others = [each for each in check.findings if each.remedy or each.sentence not in said]
    yield from finding_lines([each for each in others if each.name != "action"])
    if not check.report.routes or check.named("default-routes"):  # a card has to be named first
        return
    commands = repair_commands(check.report)
    if commands:
        yield "Until the next boot, as root:"
        for command in commands:
            yield f"  {command}"
    yield "Permanently, as root:"
    yield f"  {check.repair}"
