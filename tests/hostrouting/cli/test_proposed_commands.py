"""The commands that messages propose: each can be typed as it stands, with a file in the place of FILE."""

from __future__ import annotations

import ast
import re
import shlex

from hostrouting.cli.commands import COMMANDS
from hostrouting.cli.entry_point import make_parser
from hostrouting.release import __version__
from tests.support.pages import ROOT
from tests.support.sentences import sentences, sentences_of
from tests.support.write_pages import notes

NAMES = "|".join(COMMANDS)
PROPOSED = re.compile(rf"(?:: |(?:[Rr]un|with) `?)(hostrouting (?:{NAMES})\b[^;,`()]*)")
VALUE, SUFFIX = re.compile(r"\{[^}]*\}"), re.compile(r"(?<=\S)\{[^}]*\}")


def proposed() -> dict[str, str]:
    """Each proposed command with the place of a message that proposes it; a value in it is a word."""
    texts = [(it.place, it.text) for it in sentences()]
    for path in sorted((ROOT / "hostrouting/cli").rglob("*.py")):  # most of these are not on the page of messages
        name = path.relative_to(ROOT).as_posix()
        texts += [(it.place, it.text) for it in sentences_of(name, ast.parse(path.read_text(encoding="utf-8")))]
    texts += [(f"docs/messages.toml: {it['title']}", it["do"]) for it in notes()["entry"]]
    texts += [(f"docs/messages.toml: {it['begins']}", it["do"]) for it in notes()["line"]]
    texts += [(f"docs/messages.toml: {name}", remedy) for name, remedy in notes()["errors"].items()]
    return {command.strip(): place for place, text in texts for command in PROPOSED.findall(text)}


def test_proposed_commands_can_be_typed() -> None:
    """Each has every argument that it requires, and no unknown one: who types what a message says gets no usage error."""
    found = proposed()
    assert {"hostrouting status", "hostrouting repair", "hostrouting snapshot > FILE"} <= set(found)
    refused = {}
    for command, place in found.items():
        typed = VALUE.sub("value", SUFFIX.sub("", command))
        for end in (" > ", " # ", " | ", " reads it"):
            typed = typed.partition(end)[0]
        try:
            make_parser(__version__).parse_args(shlex.split(typed.rstrip(". "))[1:])
        except SystemExit:
            refused[place] = command
    assert not refused
