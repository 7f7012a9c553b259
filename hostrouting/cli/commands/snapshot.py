"""`snapshot`: everything on this host that an answer can depend on, as JSON, to examine elsewhere."""

from __future__ import annotations

from hostrouting.cli.command import FINE, Command, Reply

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from hostrouting.host.host import Host

__all__ = ["COMMAND"]


def _options(parser: argparse.ArgumentParser) -> None:
    told = "print a shell script that takes the snapshot of a host without hostrouting; it needs iproute2, not root; "
    told += "not with --json"
    parser.add_argument("--script", action="store_true", help=told)


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    from hostrouting.cli.source import looked_at

    if arguments.script:
        from hostrouting.boot import render_snapshot_script

        return Reply(FINE, lambda: render_snapshot_script().removesuffix("\n"))
    with looked_at(arguments, host) as backend:
        taken = backend.snapshot()
    return Reply(FINE, taken.to_json)


COMMAND = Command(
    "snapshot",
    "print devices, addresses, rules and routes as JSON, to examine elsewhere",
    answer=_answer,
    options=_options,
    examples="""\
# on the faulty host, for check, explain, repair and plan on any other
hostrouting snapshot > node.json
# snapshot and check in one step
ssh node hostrouting snapshot | hostrouting check --snapshot - 172.16.0.0/16
# from a node without hostrouting; it needs iproute2 only
hostrouting snapshot --script | ssh node sh > node.json
""",
    no_json={"script": "it prints a shell script"},
    keys={},  # it has the fields of `hostrouting.Snapshot`
)
