"""`completion`: the script with which bash completes this command line, written from the records of the commands.

Here: the tables of the script. The code that uses them is the same in every version, and is in `assets`; `@TABLES@` is
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


def completion_script() -> str:
    """The completion script for bash."""
    loader: Any = __spec__.loader  # which reads from a folder or, for hostrouting.pyz, from an archive
    folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), "assets")
    text: bytes = loader.get_data(os.path.join(folder, "completion.bash"))
    before, _, after = text.decode().partition("@TABLES@\n")
    tables = _tables(main_words(), {command: words_of(command) for command in every_command()})
    return before + "".join(f"{row}\n" for row in tables) + after


def _tables(main: Sequence[Word], commands: Commands) -> Iterator[str]:
    yield "    # The words that can follow each command, and its options, each with what it takes."
    yield "    local -A words=("
    yield f"        [hostrouting]={_quoted(' '.join(command.name for command in commands))}"
    for command, words in commands.items():
        if choices := [choice for word in words if not word.names for choice in word.choices]:
            yield f"        [{command.name}]={_quoted(' '.join(choices))}"
    yield "    )"
    yield "    local -A options=("
    for name, words in [("hostrouting", main), *((command.name, words) for command, words in commands.items())]:
        yield f"        [{name}]={_quoted(' '.join(_option(word) for word in words if word.names))}"
    yield "    )"


def _option(word: Word) -> str:
    kind = ",".join(word.choices) if word.kind == "choice" else word.kind
    return f"{word.long}={kind}" if word.takes else word.long


def _quoted(text: str) -> str:
    """The text as one word of bash."""
    return "'" + text.replace("'", "'\\''") + "'"


def _answer(_arguments: argparse.Namespace, _host: Callable[[], Host]) -> Reply:
    script = completion_script()
    document = {"schema": COMMAND.schema, "script": script}
    return Reply(FINE, lambda: document, lambda: map(line, script.splitlines()))


COMMAND = Command(
    name="completion",
    answer=_answer,
    more="""\
The script completes commands, options, files and the network devices of this host. It starts no program.
""",
    examples="""\
# for this shell; in ~/.bashrc, for every shell
source <(hostrouting completion)
""",
    about_host=False,
)
