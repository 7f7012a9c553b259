"""`snapshot`: everything of this host on which an answer can depend, as JSON, to be looked at elsewhere."""

from __future__ import annotations

from hostrouting.cli.command import FINE, Command, Reply

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from hostrouting.host import Host

__all__ = ["COMMAND"]

_EXAMPLES = """\
On the sick host:   hostrouting snapshot > node.json
On any other:       hostrouting check --snapshot node.json 172.16.0.0/16
Or in one go:       ssh node hostrouting snapshot | hostrouting check --snapshot - 172.16.0.0/16
"""


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    from hostrouting.cli.source import looked_at

    with looked_at(arguments, host) as backend:
        taken = backend.snapshot()
    return Reply(FINE, taken.to_json)


COMMAND = Command(
    "snapshot",
    "links, addresses, rules and routes as JSON, to be looked at elsewhere with --snapshot",
    answer=_answer,
    more=_EXAMPLES,
    keys={},  # it has the fields of `hostrouting.Snapshot`
)
