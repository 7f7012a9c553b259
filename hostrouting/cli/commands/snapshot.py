"""`snapshot`: everything on this host that an answer can depend on, as JSON, to examine elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hostrouting.boot.scripts import render_snapshot_script
from hostrouting.cli.command import FINE, Command, Reply
from hostrouting.cli.output import SHOWN
from hostrouting.cli.source import cidrs_of, open_kernel, saved_snapshot
from hostrouting.cli.terminal import remark
from hostrouting.errors import ConfigError, Fault
from hostrouting.host.redaction import Redaction
from hostrouting.text import spoken

if TYPE_CHECKING:
    import argparse

    from hostrouting.host.host import Host
    from hostrouting.model.snapshot import Snapshot


def _options(parser: argparse.ArgumentParser) -> None:
    meaning = (
        "print a shell script that takes the snapshot without hostrouting; needs iproute2, not root; not with --json"
    )
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--script", action="store_true", help=meaning)
    meaning = (
        "replace addresses and device names, to show it to strangers; standard error has the new form of each CIDR"
    )
    ways.add_argument("--redact", metavar="CIDR", nargs="*", help=meaning)


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:

    if arguments.script and arguments.json:
        raise ConfigError([Fault("--script", "", "prints a shell script, and no JSON", "leave out --json")])
    if arguments.script:
        return Reply(FINE, lambda: render_snapshot_script().removesuffix("\n"))
    taken = saved_snapshot(arguments)
    if taken is None:
        with open_kernel(host) as kernel:
            taken = kernel.snapshot()
    if arguments.redact is not None:
        taken = _redacted(taken, arguments.redact)
    return Reply(FINE, taken.to_json)


def _redacted(taken: Snapshot, given: list[str]) -> Snapshot:
    """The redacted snapshot. Only standard error has the new names of the CIDRs and devices that were given."""
    redaction = Redaction()
    cidrs = [str(redaction.network(cidr)) for cidr in cidrs_of(given)]
    found = redaction.snapshot(taken)
    remark(f"to check it: hostrouting check --snapshot FILE {' '.join(cidrs) or 'CIDR'}")
    devs = [f"{name} is {new}" for name, new in redaction.devices.items() if new.startswith("dev")]
    if devs:
        remark(f"in it, which only you know: {spoken(devs, most=SHOWN)}")
    return found


COMMAND = Command(
    name="snapshot",
    answer=_answer,
    options=_options,
    more="""\
With --redact, addresses that share a prefix share one of the same length afterwards, so check of the redacted snapshot
has the same verdict. The devices of CNIs keep the part of their names that shows their CNI; others become dev1, dev2
and so on. Lengths of prefixes, metrics, tables, marks, users and ports stay visible. With --snapshot, a saved snapshot
is redacted, such as that of the script.
""",
    examples="""\
# on the faulty host, for check, explain, repair and plan on any other
hostrouting snapshot > node.json
# from a node without hostrouting; it needs iproute2 only
hostrouting snapshot --script | ssh node sh > node.json
# for a bug report: without the addresses and names of your site
hostrouting snapshot --redact 172.16.0.0/16 > redacted.json
""",
    takes_snapshot=True,
)
