"""The manual page: man and mandoc accept it without a warning, and it says what the help says."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import attrs
import pytest

import hostrouting
from hostrouting.cli.commands.completion import MANUAL
from tests.support.cli import say
from tests.support.command_line import command_line
from tests.support.manual_page import date_of, manual_page
from tests.support.needs import require
from tests.support.pages import page, tables
from tests.support.shells import SHARE

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = SHARE / MANUAL
SOURCE = PAGE.read_text(encoding="utf-8")


def ran(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program; skip if it is not installed."""
    require(words[0])
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MANPAGER": "cat"}
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module", params=[["man", "-l"], ["mandoc", "-T", "utf8"]], ids=" ".join)
def shown(request: pytest.FixtureRequest) -> str:
    """The page as a reader sees it, on one line."""
    done = ran([*request.param, str(PAGE)])
    assert not done.returncode
    return " ".join(re.sub(".\x08", "", done.stdout).split())


@pytest.mark.linux
@pytest.mark.parametrize(
    "words",
    [
        ["man", "--warnings", "-l"],
        ["groff", "-ww", "-man", "-Tutf8", "-z"],
        ["mandoc", "-T", "lint", "-W", "all"],
    ],
    ids=" ".join,
)
def test_no_warning(words: list[str]) -> None:
    """The programs that show manual pages have nothing to say about this one."""
    done = ran([*words, str(PAGE)])
    assert (done.returncode, done.stderr) == (0, "")
    assert words[0] == "man" or not done.stdout


@pytest.mark.linux
def test_one_line_about_it() -> None:
    """Man-db finds the line for apropos and whatis."""
    done = ran(["lexgrog", str(PAGE)])
    told = "show which devices a host's packets leave by, and correct its routes"
    assert done.stdout.strip() == f'{PAGE}: "hostrouting - {told}"'


@pytest.mark.linux
def test_everything_is_in_it(shown: str) -> None:
    """Each command, option, exit code, file and example is in the page, word for word as in the help or its table."""
    line = command_line()
    texts = [f"{code} {capital(meaning)}." for code, meaning in line.codes]
    for command in line.commands:
        # The section about all commands has --json, without the name of the document.
        words = [it for it in (*command.arguments, *command.options) if "--json" not in it.names]
        texts += [f"{word.usage} {capital(word.meaning)}" for word in words]
        texts += [capital(command.summary), command.examples, command.schema, *command.more.split("\n\n")]
    for path, meaning in tables(page("configuration"), "files"):
        texts.append(f"{path.strip('`')} {capital(meaning.replace('`', ''))}")
    for text in texts:
        assert " ".join(text.split()) in shown


def capital(text: str) -> str:
    """The text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def test_odd_texts() -> None:
    """A text that looks like a macro, or has characters that roff replaces, is shown as it is."""
    line = command_line()
    odd = attrs.evolve(line.commands[0], more=".so /etc/passwd\n'br\n\\fBx\\n(yr `a' ~ ^ - \\", examples=".TH\n'x\n")
    text = manual_page(attrs.evolve(line, commands=(odd,)))
    assert "\\&.so /etc/passwd \\(aqbr \\efBx\\en(yr \\(gaa\\(aq \\(ti \\(ha \\- \\e\n" in text
    assert "\n\\&.TH\n\\(aqx\n" in text


def test_it_names_the_version() -> None:
    """The page has the version of the package."""
    assert f'"hostrouting {hostrouting.__version__}"' in SOURCE


def test_date() -> None:
    """Once a version is released, the page has the date of the release; a version without a heading is a mistake."""
    changes = "# Changelog\n\n## 1.1 - unreleased\n\n## 1.0 — 2027-02-03\n\n## 0.9 - 2026-12-01\n"
    assert [date_of(version, changes) for version in ("1.0", "0.9")] == ["2027-02-03", "2026-12-01"]
    assert date_of("1.1", changes) in SOURCE
    with pytest.raises(ValueError, match="no heading for this version"):
        date_of("2.0", changes)


def test_printed() -> None:
    """The command prints the file as it is, for `man -l -`."""
    said = say("manual")
    assert (said.code, said.out) == (0, SOURCE)
    assert said.out.isascii()
    assert say("manual", "--json").json["page"] == SOURCE
