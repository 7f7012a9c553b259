"""A command is one module: another one is its own, which is this one, and one line in the table of commands."""

import argparse
import sys
from collections.abc import Callable

import pytest

from hostrouting.cli.command import FINE, Command, Reply
from hostrouting.cli.commands import COMMANDS
from hostrouting.cli.output import line
from hostrouting.errors import BackendError
from hostrouting.host.host import Host
from hostrouting.testing import h200
from tests.support.cli import say


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    if arguments.name == "nobody":
        raise BackendError("nobody may be greeted", kind="not-permitted")
    told = f"{arguments.name} on a host that {'has a' if host().backend else 'has no'} kernel"
    return Reply(FINE, lambda: {"schema": COMMAND.schema, "greeted": told}, lambda: [line("hello, ", told)])


COMMAND = Command(
    name="greet",
    answer=_answer,
    options=lambda parser: parser.add_argument("name", metavar="NAME"),
    more="Nobody is ever greeted by exit code 1.\n",
    examples="# a stranger\nhostrouting greet you\n",
    takes_snapshot=True,
)


@pytest.fixture(autouse=True)
def another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line."""
    monkeypatch.setitem(COMMANDS, "greet", "say hello")
    monkeypatch.setitem(sys.modules, "hostrouting.cli.commands.greet", sys.modules[__name__])


def test_it_is_in_the_help() -> None:
    """The list of commands has it, and its own help has its words, options, schema and exit codes."""
    assert "  greet       say hello" in say("--help").lines
    said = say("greet", "--help", COLUMNS="100").out
    for text in (
        "greet: say hello",
        "NAME",
        "--snapshot FILE",
        COMMAND.schema,
        "Nobody is",
        "examples:\n  # a stranger\n  hostrouting greet you\n",
        "success, whatever",
    ):
        assert text in said


def test_it_answers() -> None:
    """In lines and as a document."""
    assert say("greet", "you", kernel=h200()).lines == ["hello, you on a host that has a kernel"]
    assert say("greet", "you", "--json").json["schema"] == COMMAND.schema


def test_it_fails() -> None:
    """The error lists the command among those that work without root."""
    said = say("greet", "nobody")
    assert (said.code, said.err.splitlines()[1].rpartition(" and ")[2]) == (3, "greet work without root")
