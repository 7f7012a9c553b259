"""Writes what is generated from the code: docs/commands.md.

`make commands` runs it. Here: the layout of the page. Not here: the help of each command (hostrouting.cli.commands), and what the keys
of its document mean (tests.tables.documents).
"""

from collections.abc import Iterator

from hostrouting.cli.commands import every_command
from hostrouting.cli.entry_point import exit_codes
from tests.support.pages import ROOT
from tests.support.words import words_of
from tests.tables.documents import ERROR, KEYS

PAGE = "docs/commands.md"


def commands_page() -> str:
    """The text of docs/commands.md."""
    return "\n".join(_commands()) + "\n"


def _commands() -> Iterator[str]:
    usual = dict(exit_codes())
    yield "# Commands"
    yield ""
    yield "<!-- `make commands` writes this page from the code in hostrouting/cli/commands: change that. -->"
    yield ""
    yield "`hostrouting COMMAND --help` prints the same. Results go to standard output, logs to standard error. `--json` works"
    yield "with every command, before or after its name. [Findings](findings.md#errors-and-exit-codes) explains the exit codes."
    yield ""
    yield "| command | what it does | requires root |"
    yield "|---|---|---|"
    for command in every_command():
        yield f"| [`{command.name}`](#{command.name}) | {command.summary} | {'yes' if command.changes else 'no'} |"
    yield ""
    yield "## The JSON documents"
    yield ""
    yield "In the names of keys, `[]` marks the items of a list, and `.` a key of an object. If a command could not run, it prints a"
    yield "`hostrouting/error/2` document instead, with these keys:"
    yield ""
    yield "| key | meaning |"
    yield "|---|---|"
    for key, meaning in ERROR.items():
        yield f"| `{key}` | {meaning} |"
    for command in every_command():
        yield ""
        yield f"## {command.name}"
        yield ""
        yield f"{command.summary[:1].upper()}{command.summary[1:]}{'' if command.summary.endswith('?') else '.'}"
        yield ""
        if command.more:
            yield "```text"
            yield command.more.strip("\n")
            yield "```"
            yield ""
        yield "```console"
        yield from (f"{'' if line.startswith('#') else '$ '}{line}" for line in command.examples.splitlines())
        yield "```"
        yield ""
        codes = dict(exit_codes(command))
        if 1 in codes:
            yield f"Exit code 1: {codes[1]}."
            yield ""
        if codes[2] != usual[2]:
            yield f"Exit code 2: {codes[2]}."
            yield ""
        yield "| argument | meaning |"
        yield "|---|---|"
        for word in words_of(command):
            if "--help" not in word.names:
                yield f"| `{word.usage}` | {word.meaning} |"
        yield ""
        if command.name not in KEYS:
            yield f"The document `{command.schema}` has the fields of `hostrouting.Snapshot`."
            continue
        yield f"| key in `{command.schema}` | meaning |"
        yield "|---|---|"
        for key, meaning in KEYS[command.name].items():
            yield f"| `{key}` | {meaning} |"


if __name__ == "__main__":
    (ROOT / PAGE).write_text(commands_page(), encoding="utf-8")
