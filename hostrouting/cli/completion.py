"""Completes what is typed in a shell, by argcomplete, which is an extra."""

import os

from hostrouting.cli.parser import make_parser


def complete() -> None:
    """End this process with the completions of what is typed, for the shell that has started it."""
    try:
        import argcomplete  # noqa: PLC0415  an extra
    except ImportError:
        return
    _, *words = os.environ["COMP_LINE"].split()
    argcomplete.autocomplete(make_parser(words or ["--help"]))
