"""Writes the completion scripts of bash, zsh and fish from the command line.

Here: the tables of each script. What is done with them is the same in every version, and stands in completion.bash,
completion.zsh and completion.fish beside this file; `@TABLES@` is where the tables go.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.support.command_line import CommandLine, Word

__all__ = ["completion_of"]

_HEAD = "# Completion of hostrouting for {shell}. `make messages` writes this file from the code: change that."


def completion_of(shell: str, line: CommandLine) -> str:
    """The completion script of one shell."""
    body = Path(__file__).with_name(f"completion.{shell}").read_text(encoding="utf-8")
    before, _, after = body.partition("@TABLES@\n")
    tables = "".join(f"{row}\n" for row in _TABLES[shell](line))
    return before.replace("@HEAD@", _HEAD.format(shell=shell)) + tables + after


def _bash(line: CommandLine) -> Iterator[str]:
    yield "    # The words that can follow each command, and its options, each with what it takes."
    yield "    local -A words=("
    yield f"        [hostrouting]={_quoted(' '.join(it.name for it in line.commands))}"
    for part in line.commands:
        if choices := [choice for word in part.arguments for choice in word.choices]:
            yield f"        [{part.name}]={_quoted(' '.join(choices))}"
    yield "    )"
    yield "    local -A options=("
    yield f"        [hostrouting]={_quoted(' '.join(map(_bash_option, line.options)))}"
    yield from (f"        [{it.name}]={_quoted(' '.join(map(_bash_option, it.options)))}" for it in line.commands)
    yield "    )"


def _bash_option(word: Word) -> str:
    kind = ",".join(word.choices) if word.kind == "choice" else word.kind
    return f"{word.long}={kind}" if word.takes else word.long


def _zsh(line: CommandLine) -> Iterator[str]:
    yield "    local -a subcommands=("
    yield from (f"        {_quoted(f'{it.name}:{it.summary}')}" for it in line.commands)
    yield "    )"
    yield "    local -a flags=("
    yield from (f"        {_quoted(spec)}" for word in line.options for spec in _zsh_specs(word))
    yield "    )"
    yield "    local -A specs=("
    for part in line.commands:
        specs = [spec for word in (*part.options, *part.arguments) for spec in _zsh_specs(word)]
        yield f"        {part.name} {_quoted(chr(10).join(specs))}"
    yield "    )"


def _zsh_specs(word: Word) -> Iterator[str]:
    """What _arguments is told about an option, once for each spelling, or about an argument."""
    meaning, taken = (text.translate(_ZSH_SPECIAL) for text in (word.meaning, word.takes))
    # If nothing can be offered, the name is shown, but not where an option is typed.
    unknown = f"_message {taken}" if word.names else f"_guard '^-*' {taken}"
    actions = {**_ZSH_ACTIONS, "choice": f"({' '.join(word.choices)})", "other": unknown}
    value = f":{taken}:{actions[word.kind]}" if word.takes else ""
    if not word.names:
        yield f"{'*' if word.repeats else ''}{value}"
    for name in word.names:
        others = "- : *" if {"--help", "--version"} & {*word.names} else " ".join((*word.names, *word.excludes))
        before = "*" if word.repeats else f"({others})"
        yield f"{before}{name}{'=' if value and name.startswith('--') else ''}[{meaning}]{value}"


_ZSH_SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\[]:"})
_ZSH_ACTIONS = {"file": "_files", "directory": "_files -/", "device": "_hostrouting_devices"}


def _fish(line: CommandLine) -> Iterator[str]:
    for word in line.options:
        yield _fish_option(word, "__hostrouting_command")
    for part in line.commands:
        yield ""
        yield f"complete -c hostrouting -n __hostrouting_command -a {part.name} -d {_fish_quoted(part.summary)}"
        for word in part.options:
            yield _fish_option(word, f"__hostrouting_command {part.name}")
        for word in part.arguments:
            choices = " ".join(word.choices)
            here = f"__hostrouting_command {part.name}; and not __fish_seen_subcommand_from {choices}"
            if choices:
                yield f"complete -c hostrouting -n {_fish_quoted(here)} -a '{choices}' -d {_fish_quoted(word.meaning)}"


def _fish_option(word: Word, where: str) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in word.names]
    values = f" -x -a '{' '.join(word.choices)}'" if word.kind == "choice" else _FISH_VALUES[word.kind]
    return f"complete -c hostrouting -n '{where}' {' '.join(names)}{values} -d {_fish_quoted(word.meaning)}"


_FISH_VALUES = {
    "nothing": "",
    "file": " -r -F",
    "directory": " -x -a '(__fish_complete_directories)'",
    "device": " -x -a '(__hostrouting_devices)'",
    "other": " -x",
}


def _fish_quoted(text: str) -> str:
    """The text as one word of fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _quoted(text: str) -> str:
    """The text as one word of bash or zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


_TABLES: dict[str, Callable[[CommandLine], Iterable[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
