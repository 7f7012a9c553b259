"""`completion`: the script with which bash completes this command line, written from the records of the commands.

Here: the tables of the script. The code that uses them is the same in every version, and is in `assets`; `@TABLES@` is
where the tables go.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from hostrouting.cli.command import FINE, Command, Reply
from hostrouting.cli.commands import every_command
from hostrouting.cli.entry_point import add_options, make_parser
from hostrouting.cli.output import line
from hostrouting.release import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from hostrouting.host.host import Host

_KINDS = {"FILE": "file", "PATH": "file", "DIR": "directory", "DEV": "device"}
"""What a shell can offer for a placeholder of the help; nothing is known about the others."""


def completion_script() -> str:
    """The completion script for bash."""
    loader: Any = __spec__.loader  # which reads from a folder or, for hostrouting.pyz, from an archive
    folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), "assets")
    text: bytes = loader.get_data(os.path.join(folder, "completion.bash"))
    before, _, after = text.decode().partition("@TABLES@\n")
    return before + "".join(f"{row}\n" for row in _tables()) + after


def _tables() -> Iterator[str]:
    yield "    # The words that can follow each command, and its options, each with what it takes."
    yield "    local -A words=("
    yield f"        [hostrouting]={_quoted(' '.join(command.name for command in every_command()))}"
    actions = {command.name: _actions(command) for command in every_command()}
    for name, its in actions.items():
        if choices := [choice for action in its if not action.option_strings for choice in action.choices or ()]:
            yield f"        [{name}]={_quoted(' '.join(choices))}"
    yield "    )"
    yield "    local -A options=("
    main = make_parser(__version__)._actions
    for name, its in {"hostrouting": main, **actions}.items():
        yield f"        [{name}]={_quoted(' '.join(_option(action) for action in its if action.option_strings))}"
    yield "    )"


def _actions(command: Command) -> list[argparse.Action]:
    parser = argparse.ArgumentParser()
    add_options(parser, command)
    return parser._actions


def _option(action: argparse.Action) -> str:
    long = next(name for name in action.option_strings if name.startswith("--"))
    kind = ",".join(action.choices or ()) or _KINDS.get(str(action.metavar), "other")
    return long if action.nargs == 0 else f"{long}={kind}"


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
