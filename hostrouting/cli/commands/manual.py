"""`manual`: the manual page, for an installation that did not put it where `man` looks."""

from __future__ import annotations

from hostrouting.cli.command import FINE, Command, Reply
from hostrouting.cli.output import line
from hostrouting.cli.shared import MANUAL, shared_text

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from hostrouting.host.host import Host

__all__ = ["COMMAND"]


def _answer(_arguments: argparse.Namespace, _host: Callable[[], Host]) -> Reply:
    page = shared_text(MANUAL)
    document = {"schema": COMMAND.schema, "page": page}
    return Reply(FINE, lambda: document, lambda _style: map(line, page.splitlines()))


COMMAND = Command(
    "manual",
    "print the manual page, hostrouting(1)",
    answer=_answer,
    examples="""\
# where `man hostrouting` does not find it
hostrouting manual | man -l -
""",
    about_host=False,
    keys={"page": "the page, with the macros of man(7)"},
)
