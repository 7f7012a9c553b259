"""The manual page: man and mandoc accept it without a warning, and it says what the help says."""

import os
import re
import subprocess
from collections.abc import Sequence

import pytest

import hostrouting
from hostrouting.cli.command import Command
from hostrouting.cli.commands import every_command
from hostrouting.cli.entry_point import exit_codes
from tests.support.manual import WRITTEN, manual_page
from tests.support.needs import require
from tests.support.pages import ROOT, page, tables
from tests.support.programs import completed
from tests.support.words import words_of

SOURCE = manual_page(every_command())


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with the page."""
    file = tmp_path_factory.mktemp("man") / "hostrouting.1"
    file.write_text(SOURCE, encoding="ascii")
    return str(file)


def ran(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program; skip if it is not installed."""
    require(words[0])
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MANPAGER": "cat"}
    return completed(words, env=environment)


@pytest.fixture(scope="module", params=[["man", "-l"], ["mandoc", "-T", "utf8"]], ids=" ".join)
def shown(request: pytest.FixtureRequest, path: str) -> str:
    """The page as a reader sees it, on one line."""
    done = ran([*request.param, path])
    assert not done.returncode
    return " ".join(re.sub(".\x08", "", done.stdout).split())


@pytest.mark.linux
@pytest.mark.parametrize(
    "words",
    [["man", "--warnings", "-l"], ["groff", "-ww", "-man", "-Tutf8", "-z"], ["mandoc", "-T", "lint", "-W", "all"]],
    ids=" ".join,
)
def test_no_warning(words: list[str], path: str) -> None:
    """The programs that show manual pages have nothing to say about this one."""
    done = ran([*words, path])
    assert (done.returncode, done.stderr) == (0, "")
    assert words[0] == "man" or not done.stdout


@pytest.mark.linux
def test_one_line_about_it(path: str) -> None:
    """Man-db finds the line for apropos and whatis."""
    done = ran(["lexgrog", path])
    told = "show which devices a host's packets leave by, and correct its routes"
    assert done.stdout.strip() == f'{path}: "hostrouting - {told}"'


@pytest.mark.linux
def test_everything_is_in_it(shown: str) -> None:
    """Each command, option, exit code, variable and example is in the page, word for word as in the help or its table."""
    texts = [f"{code} {capital(meaning)}." for code, meaning in exit_codes()]
    for command in every_command():
        # The section about all commands has --json, without the name of the document.
        words = [it for it in words_of(command) if "--json" not in it.names]
        texts += [f"{word.usage} {capital(word.meaning)}" for word in words]
        texts += [capital(command.summary), command.examples, command.schema, *command.more.split("\n\n")]
    for name, meaning in tables(page("operators"), "environment"):
        texts.append(f"{name} {capital(meaning)}.".replace("`", ""))
    for text in texts:
        assert " ".join(text.split()) in shown


def test_every_directory_is_in_it() -> None:
    """Each of our files is in one of the directories of the page, or is listed there."""
    listed = re.findall(r"^\\fI(/.*)\\fR$", SOURCE.replace("\\-", "-"), re.MULTILINE)
    for name, _ in tables(page("configuration"), "files"):
        assert name.strip("`").startswith(tuple(listed)), name


def capital(text: str) -> str:
    """The text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def test_odd_texts() -> None:
    """A text that looks like a macro, or has characters that roff replaces, is shown as it is."""
    more, examples = ".so /etc/passwd\n'br\n\\fBx\\n(yr `a' ~ ^ - \\", ".TH\n'x\n"
    text = manual_page([Command(name="check", answer=every_command()[0].answer, more=more, examples=examples)])
    assert "\\&.so /etc/passwd \\(aqbr \\efBx\\en(yr \\(gaa\\(aq \\(ti \\(ha \\- \\e\n" in text
    assert "\n\\&.TH\n\\(aqx\n" in text


def test_it_names_the_version() -> None:
    """The page has the version of the package."""
    assert f'"hostrouting {hostrouting.__version__}"' in SOURCE


def test_date() -> None:
    """Once the version is released, the page has the date of the release."""
    assert f".TH HOSTROUTING 1 {WRITTEN} " in SOURCE
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    [date] = re.findall(rf"^## {re.escape(hostrouting.__version__)} - (.*)$", changes, re.MULTILINE)
    assert date in {"unreleased", WRITTEN}
