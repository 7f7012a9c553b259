"""`snapshot`: everything of this host on which an answer can depend, as JSON, to be looked at elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.cli.reply import FINE, Reply
from hostrouting.cli.source import looked_at

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from hostrouting.host import Host

__all__ = ["run"]


def run(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    """See the module."""
    with looked_at(arguments, host) as backend:
        taken = backend.snapshot()
    return Reply(FINE, taken.to_json)
