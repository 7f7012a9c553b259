"""`completion`: the script with which a shell completes this command line, written from the records of the commands.

Here: the tables of each script. The code that uses them is the same in every version, and is in `assets`; `@TABLES@` is
where the tables go.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hostrouting.cli.command import FINE, Command, Reply
from hostrouting.cli.commands import every_command
from hostrouting.cli.output import line
from hostrouting.cli.words import main_words, words_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, TypeAlias

    from hostrouting.cli.words import Word
    from hostrouting.host.host import Host

    Commands: TypeAlias = "Mapping[Command, Sequence[Word]]"

SHELLS = ("bash", "zsh", "fish")


def completion_of(shell: str) -> str:
    """The completion script of one shell."""
    loader: Any = __spec__.loader  # which reads from a folder or, for hostrouting.pyz, from an archive
    folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), "assets")
    text: bytes = loader.get_data(os.path.join(folder, f"completion.{shell}"))
    before, _, after = text.decode().partition("@TABLES@\n")
    tables = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](
        main_words(), {command: words_of(command) for command in every_command()}
    )
    return before + "".join(f"{row}\n" for row in tables) + after


def _bash(main: Sequence[Word], commands: Commands) -> Iterator[str]:
    yield "    # The words that can follow each command, and its options, each with what it takes."
    yield "    local -A words=("
    yield f"        [hostrouting]={_quoted(' '.join(command.name for command in commands))}"
    for command, words in commands.items():
        if choices := [choice for word in words if not word.names for choice in word.choices]:
            yield f"        [{command.name}]={_quoted(' '.join(choices))}"
    yield "    )"
    yield "    local -A options=("
    for name, words in [("hostrouting", main), *((command.name, words) for command, words in commands.items())]:
        yield f"        [{name}]={_quoted(' '.join(_bash_option(word) for word in words if word.names))}"
    yield "    )"


def _bash_option(word: Word) -> str:
    kind = ",".join(word.choices) if word.kind == "choice" else word.kind
    return f"{word.long}={kind}" if word.takes else word.long


def _zsh(main: Sequence[Word], commands: Commands) -> Iterator[str]:
    yield "    local -a subcommands=("
    yield from (f"        {_quoted(f'{command.name}:{command.summary}')}" for command in commands)
    yield "    )"
    yield "    local -a flags=("
    yield from (f"        {_quoted(spec)}" for word in main for spec in _zsh_specs(word))
    yield "    )"
    yield "    local -A specs=("
    for command, words in commands.items():
        specs = "\n".join(spec for word in words for spec in _zsh_specs(word))
        yield f"        {command.name} {_quoted(specs)}"
    yield "    )"


def _zsh_specs(word: Word) -> Iterator[str]:
    """The specifications for zsh's _arguments: one for each spelling of an option, or one for an argument."""
    special = str.maketrans({char: f"\\{char}" for char in "\\[]:"})
    meaning, taken = (text.translate(special) for text in (word.meaning, word.takes))
    action = {
        "nothing": "",
        "file": "_files",
        "directory": "_files -/",
        "device": "_hostrouting_devices",
        "choice": f"({' '.join(word.choices)})",
        # If nothing can be offered, the name is shown, but not where an option is typed.
        "other": f"_message {taken}" if word.names else f"_guard '^-*' {taken}",
    }[word.kind]
    value = f":{taken}:{action}" if word.takes else ""
    if not word.names:
        yield f"{'*' if word.repeats else ''}{value}"
    for name in word.names:
        others = "- : *" if {"--help", "--version"} & {*word.names} else " ".join((*word.names, *word.excludes))
        before = "*" if word.repeats else f"({others})"
        yield f"{before}{name}{'=' if value and name.startswith('--') else ''}[{meaning}]{value}"


def _fish(main: Sequence[Word], commands: Commands) -> Iterator[str]:
    yield from (_fish_option(word, "__hostrouting_command") for word in main)
    for command, words in commands.items():
        here = f"__hostrouting_command {command.name}"
        yield ""
        yield f"complete -c hostrouting -n __hostrouting_command -a {command.name} -d {_fish_quoted(command.summary)}"
        for word in words:
            if word.names:
                yield _fish_option(word, here)
            elif choices := " ".join(word.choices):
                where = _fish_quoted(f"{here}; and not __fish_seen_subcommand_from {choices}")
                yield f"complete -c hostrouting -n {where} -a '{choices}' -d {_fish_quoted(word.meaning)}"


def _fish_option(word: Word, where: str) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in word.names)
    value = {
        "nothing": "",
        "file": " -r -F",
        "directory": " -x -a '(__fish_complete_directories)'",
        "device": " -x -a '(__hostrouting_devices)'",
        "choice": f" -x -a '{' '.join(word.choices)}'",
        "other": " -x",
    }[word.kind]
    return f"complete -c hostrouting -n '{where}' {names}{value} -d {_fish_quoted(word.meaning)}"


def _fish_quoted(text: str) -> str:
    """The text as one word of fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _quoted(text: str) -> str:
    """The text as one word of bash or zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=f"the shell: {', '.join(SHELLS)}")


def _answer(arguments: argparse.Namespace, _: Callable[[], Host]) -> Reply:
    script = completion_of(arguments.shell)
    document = {"schema": COMMAND.schema, "shell": arguments.shell, "script": script}
    return Reply(FINE, lambda: document, lambda _style: map(line, script.splitlines()))


COMMAND = Command(
    name="completion",
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
)
