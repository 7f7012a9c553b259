"""`completion`: the script with which a shell completes this command line."""

from __future__ import annotations

from hostrouting.cli.command import FINE, Command, Reply
from hostrouting.cli.output import line
from hostrouting.cli.shared import COMPLETIONS, shared_text

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from hostrouting.host.host import Host

__all__ = ["COMMAND"]


def _options(parser: argparse.ArgumentParser) -> None:
    known = list(COMPLETIONS)
    parser.add_argument("shell", metavar="SHELL", choices=known, help=f"the shell: {', '.join(known)}")


def _answer(arguments: argparse.Namespace, _: Callable[[], Host]) -> Reply:
    script = shared_text(COMPLETIONS[arguments.shell])
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
