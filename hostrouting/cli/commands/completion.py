"""`completion` and `manual`: the files that go below /usr/share, or that of a user or an environment.

A shell completes this command line with the first, and `man` shows the second; the commands print them for an
installation that did not put them where they are looked for. Here: reading them. They are in the folder `share`, each
where it belongs below /usr/share, and `make messages` writes them from the records of the commands.
"""

from __future__ import annotations

import os

from hostrouting.cli.command import FINE, Command, Reply
from hostrouting.cli.output import line

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

    from hostrouting.host.host import Host

__all__ = ["COMMAND", "COMPLETIONS", "MANUAL", "MANUAL_COMMAND"]

COMPLETIONS = {
    "bash": "bash-completion/completions/hostrouting",
    "zsh": "zsh/site-functions/_hostrouting",
    "fish": "fish/vendor_completions.d/hostrouting.fish",
}
MANUAL = "man/man1/hostrouting.1"


def _shared_text(name: str) -> str:
    """The text of one of these files."""
    share = os.path.join(os.path.dirname(os.path.dirname(__file__)), "share")
    loader: Any = __spec__.loader  # which reads from a folder or, for hostrouting.pyz, from an archive
    text: bytes = loader.get_data(os.path.join(share, name))
    return text.decode()


def _options(parser: argparse.ArgumentParser) -> None:
    known = list(COMPLETIONS)
    parser.add_argument("shell", metavar="SHELL", choices=known, help=f"the shell: {', '.join(known)}")


def _answer(arguments: argparse.Namespace, _: Callable[[], Host]) -> Reply:
    script = _shared_text(COMPLETIONS[arguments.shell])
    document = {"schema": COMMAND.schema, "shell": arguments.shell, "script": script}
    return Reply(FINE, lambda: document, lambda _style: map(line, script.splitlines()))


COMMAND = Command(
    "completion",
    "print the script that completes this command line in bash, zsh or fish",
    answer=_answer,
    options=_options,
    more="""\
The script completes commands, options, files and the network devices of this host. It starts no program.
""",
    examples="""\
# bash: for this shell; in ~/.bashrc, for every shell
source <(hostrouting completion bash)
# zsh: the same, in ~/.zshrc after compinit
source <(hostrouting completion zsh)
# fish: for every shell
hostrouting completion fish > ~/.config/fish/completions/hostrouting.fish
""",
    about_host=False,
    keys={"shell": "the shell", "script": "its script"},
)


def _answer_manual(_arguments: argparse.Namespace, _host: Callable[[], Host]) -> Reply:
    page = _shared_text(MANUAL)
    document = {"schema": MANUAL_COMMAND.schema, "page": page}
    return Reply(FINE, lambda: document, lambda _style: map(line, page.splitlines()))


MANUAL_COMMAND = Command(
    "manual",
    "print the manual page, hostrouting(1)",
    answer=_answer_manual,
    examples="""\
# where `man hostrouting` does not find it
hostrouting manual | man -l -
""",
    about_host=False,
    keys={"page": "the page, with the macros of man(7)"},
)
