"""`npd` as a command: the files that it reads, its options, and the script that it prints."""

from __future__ import annotations

import argparse
import json
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from hostrouting.boot import render_npd_script
from hostrouting.cli.commands.npd import COMMAND
from hostrouting.fleet.npd import MAX_AGE, QUESTIONS
from hostrouting.tasks.guard import Look, State
from hostrouting.testing import FakeHost
from tests.support.cli import say
from tests.support.tasks import LAYOUT

if TYPE_CHECKING:
    from pathlib import Path


def guarded(verdict: str, directory: str = LAYOUT.state_directory) -> FakeHost:
    """A host whose guard has just found this verdict."""
    now = datetime.now(timezone.utc)
    host = FakeHost()
    text = json.dumps(State(since=now).after(Look(verdict=verdict), (), now).to_mapping())
    host.files.texts[f"{directory}/guard.json"] = text
    return host


@pytest.mark.parametrize(
    ("verdict", "code", "status", "begins"),
    [
        ("ok", 0, "ok", "OK: every expected CIDR leaves by an expected device; last look: 20"),
        ("overlap", 1, "problem", "OVERLAP: "),
        ("undecided", 3, "unknown", "UNKNOWN: the verdict is undecided; "),
    ],
)
def test_answer(verdict: str, code: int, status: str, begins: str) -> None:
    """One line on standard output, and its exit code; the same as JSON."""
    done = say("npd", host=guarded(verdict))
    assert (done.code, len(done.lines), done.err) == (code, 1, "")
    assert done.out.startswith(begins)
    document = say("npd", "--json", host=guarded(verdict)).json
    assert document["schema"] == "hostrouting/npd/1"
    assert (document["about"], document["status"], document["line"][: len(begins)]) == ("verdict", status, begins)


def test_the_other_question() -> None:
    """--about repairs asks about the guard's repairs."""
    done = say("npd", "--about", "repairs", host=guarded("overlap"))
    assert (done.code, done.out.partition(";")[0]) == (0, "OK: nothing is left to repair")


def test_another_directory() -> None:
    """--directory names the directory to read."""
    host = guarded("ok", "/mnt/state")
    assert say("npd", host=host).code == 3
    assert say("npd", "--directory", "/mnt/state", host=host).code == 0


def test_the_age_of_the_last_check() -> None:
    """--max-age says for how long the last check counts; its age is that of its file."""
    host = FakeHost()
    host.files.texts[LAYOUT.report_path] = '{"schema": "hostrouting/check/1", "verdict": "ok", "findings": []}'
    host.files.times[LAYOUT.report_path] = time.time() - 7200
    assert say("npd", host=host).code == 0
    assert say("npd", "--max-age", "3600", host=host).code == 3


def test_what_the_options_say() -> None:
    """The record of the command, which imports nothing, names the questions, the age and the directory as they are."""
    parser = argparse.ArgumentParser()
    COMMAND.options(parser)
    found = {it.dest: it for it in parser._actions}
    assert tuple(found["about"].choices or ()) == tuple(QUESTIONS)
    assert found["max_age"].default == MAX_AGE
    assert f"(default: {MAX_AGE}, a day)" in str(found["max_age"].help)
    assert f"(default: {LAYOUT.state_directory})" in str(found["directory"].help)


@pytest.mark.parametrize("path", [LAYOUT.guard_path, LAYOUT.report_path])
def test_not_a_file(path: str) -> None:
    """What cannot be read is unknown, in one line like any other answer."""
    host = FakeHost()
    host.files.strange[path] = "a fifo"
    done = say("npd", host=host)
    assert (done.code, done.err) == (3, "")
    assert done.out.startswith(f"UNKNOWN: {path.rpartition('/')[2]} cannot be read; ")


def test_script(tmp_path: Path) -> None:
    """--script prints the plugin as it is, and reads nothing."""
    assert say("npd", "--script", "--directory", str(tmp_path)).out == render_npd_script()
    assert say("npd", "--script", "--json").code == 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--about", "all"), "'all' is not a known QUESTION"),
        (("--max-age", "1h"), "'1h' is not a number of seconds, such as 3600"),
        (("--max-age", "-1"), "'-1' is not a number of seconds"),
        (("--directory", "run"), "'run' is not an absolute path"),
    ],
)
def test_bad_options(words: tuple[str, ...], why: str) -> None:
    """A mistake is named, and its exit code is neither 0 nor 1."""
    done = say("npd", *words)
    assert done.code == 2
    assert why in done.err
