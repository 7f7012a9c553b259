"""The commands that messages propose: each can be typed as it is, with a file in the place of FILE."""

import ast
import re
import shlex
from pathlib import Path

from hostrouting.cli.commands import COMMANDS
from hostrouting.cli.entry_point import make_parser

ROOT = Path(__file__).resolve().parents[3]
NAMES = "|".join(COMMANDS)
PROPOSED = re.compile(rf"(?:: |(?:[Rr]un|with) `?)(hostrouting (?:{NAMES})\b[^;,`()'\"\\\n]*)")
VALUE, SUFFIX = re.compile(r"\{[^}]*\}"), re.compile(r"(?<=\S)\{[^}]*\}")


def proposed() -> dict[str, str]:
    """Each proposed command with the file that proposes it; a value in it is a word."""
    texts: list[tuple[str, str]] = []
    for path in sorted((ROOT / "hostrouting").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
        parts = {id(part) for node in joined for part in node.values}
        whole = [node for node in nodes if isinstance(node, ast.Constant) and id(node) not in parts]
        texts += [(name, str(node.value)) for node in whole]
        texts += [
            (name, "".join(str(part.value) if isinstance(part, ast.Constant) else "{x}" for part in node.values))
            for node in joined
        ]
    texts += [(path.name, path.read_text(encoding="utf-8")) for path in (ROOT / "hostrouting").rglob("*.sh")]
    return {command.strip(): place for place, text in texts for command in PROPOSED.findall(text)}


def test_proposed_commands_can_be_typed() -> None:
    """Each proposed command has all required arguments and no unknown ones, so it gives no usage error."""
    found, parser = proposed(), make_parser()
    assert {"hostrouting status", "hostrouting repair", "hostrouting snapshot > FILE"} <= set(found)
    refused = {}
    for command, place in found.items():
        typed = VALUE.sub("value", SUFFIX.sub("", command))
        for end in (" > ", " # ", " | ", " reads it"):
            typed = typed.partition(end)[0]
        try:
            parser.parse_args(shlex.split(typed.rstrip(". "))[1:])
        except SystemExit:
            refused[place] = command
    assert not refused
