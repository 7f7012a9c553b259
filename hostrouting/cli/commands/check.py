"""`check`: the verdict, what escapes, what repairs it, and how to allow it.

Type the networks that your cluster uses. Without a CIDR, check uses those of
--config, or else of the installed configuration. The configuration can name
the expected devices; otherwise they are those of the default route. Only
routing tables and rules are checked, as they are now: not firewalls, IPsec
or eBPF programs. Nothing is changed.
"""

import argparse
from collections.abc import Iterator

from hostrouting.check.repair_line import line_to_allow
from hostrouting.check.sentences import repair_commands
from hostrouting.cli.output import Page
from hostrouting.cli.source import check_host_or_snapshot, config_to_check, find_config
from hostrouting.codes import CODE_OF_VERDICT
from hostrouting.host.host import Host
from hostrouting.install.host_check import HostCheck
from hostrouting.install.ungated import find_ungated
from hostrouting.lines import finding_lines, remedy_lines
from hostrouting.text import spoken


def run(arguments: argparse.Namespace, host: Host) -> Page:
    # Check this host, a saved snapshot, or all snapshots of a folder.
    config = config_to_check(find_config(arguments, host), arguments)
    if arguments.snapshots is not None:
        from hostrouting.cli.nodes import check_nodes

        return check_nodes(arguments.snapshots, config)
    check = check_host_or_snapshot(arguments, host, config)
    if arguments.snapshot is None:  # a snapshot says nothing about units
        check = check._replace(findings=(*check.findings, *find_ungated(config, host)))
    return Page(CODE_OF_VERDICT[check.report.verdict], check.document(), check_lines(check))


def check_lines(check: HostCheck) -> Iterator[str]:
    """The page of a check: a line for each family (IPv4, IPv6) with its verdict, the findings that
    these lines do not have yet, the commands that repair the host, and the command that allows
    devices instead.
    """
    printed: set[str] = set()
    for family in check.report.families:
        yield str(family)
        # The line of the family has its first sentence. So of the finding with this sentence, only
        # the remedy is printed.
        first_sentence = family.sentences[0]
        printed.add(first_sentence)
        for finding in check.findings:
            if finding.sentence == first_sentence:
                yield from remedy_lines(finding.remedy)
    yield from finding_lines(
        [
            finding
            for finding in check.findings
            if finding.sentence not in printed and finding.name != "action"
        ]
    )
    repairs = check.named("action")
    if not repairs:
        return
    [repair] = repairs
    yield repair.sentence
    # There is no remedy if the repair would replace routes of ours, because they may be right.
    if repair.remedy:
        yield "Permanently, as root on the node:"
        yield f"  {repair.remedy.command}"
        yield "Or, only until the next boot, as root on the node:"
        for command in repair_commands(check.report):
            yield f"  {command}"
    # Not in STRICT: somebody whose unit does not start might allow what should be repaired.
    if check.mode == "WARN":
        yield from _how_to_allow(check)


def _how_to_allow(check: HostCheck) -> Iterator[str]:
    """The command that allows packets to leave through more devices, in place of a repair. It names
    the devices through which packets may leave on purpose: findings about escapes have them in
    their fact `mayAllow`.
    """
    kind_of_dev: dict[str, str] = {}
    for finding in check.named("overlap"):
        if finding.remedy is None:  # a remedy allows the devices of its finding already
            kind_of_dev |= finding.facts.get("mayAllow", {})
    if kind_of_dev:
        yield f"If packets may leave through {spoken([*kind_of_dev])}, too, as root:"
        yield f"  {line_to_allow(check.repair_options, kind_of_dev)}"
