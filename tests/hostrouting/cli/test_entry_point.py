"""From arguments to an exit code: what is printed on which stream, and what errors give."""

import io
import json
import sys
from contextlib import redirect_stdout
from unittest import mock

import pytest

from hostrouting.cli import main
from hostrouting.cli.failure import code_of
from hostrouting.errors import ApplyError, BackendError, FileError, HostRoutingError, NotReady, RouteOverlapError
from hostrouting.finding import Finding
from hostrouting.host.host import Host
from hostrouting.testing import FakeHost, h200
from phases.errors import ExceptionGroup
from tests.support.cli import say
from tests.support.programs import completed


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RouteOverlapError("x", findings=[Finding("no-default-route", "error", "x", can_retry=True)]), 3),
        (FileError("x", path="/x", errno=13), 3),
        (RuntimeError("a bug"), 3),
        (
            ExceptionGroup(
                "all of it", [BackendError("x", kind="not-permitted"), ExceptionGroup("more", [NotReady("y")])]
            ),
            3,
        ),
        (
            ExceptionGroup("all of it", [BackendError("x", kind="not-permitted"), FileError("x", path="/x", errno=30)]),
            1,
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_codes(error: Exception, code: int) -> None:
    """Each error has the exit code that the help says; a bug is never taken for a verdict."""
    assert code_of(error) == code


def test_a_failure_for_want_of_privilege() -> None:
    """An error because of a missing privilege also gives exit code 3."""
    error: HostRoutingError = ApplyError("x", after="y")
    error.__cause__ = BackendError("x", kind="not-permitted")
    assert code_of(error) == 3


def failing(error: BaseException) -> Host:
    """A host whose kernel raises this when it is asked."""
    return FakeHost(backend=mock.Mock(side_effect=error))


def test_not_permitted() -> None:
    """A command that is not permitted is an error that names what is permitted; with --json it is a document."""
    said = say("check", "10.0.0.0/8", host=failing(BackendError("this requires root", kind="not-permitted")))
    assert said.code == 3
    assert said.out == ""
    assert said.err.splitlines() == [
        "hostrouting: this requires root",
        "check, explain, repair, plan, status and snapshot work without root",
    ]
    told = say("check", "--json", "10.0.0.0/8", host=failing(BackendError("this requires root", kind="not-permitted")))
    assert told.json == {
        "schema": "hostrouting/error/2",
        "error": "BackendError",
        "kind": "not-permitted",
        "message": "this requires root",
        "canRetry": False,
        "findings": [Finding("kernel", "error", "this requires root").to_mapping()],
        "faults": [],
    }


def test_no_netlink() -> None:
    """Without netlink, the error names the commands that do not need it."""
    said = say("check", "10.0.0.0/8", host=failing(BackendError("there is none", kind="unavailable")))
    assert said.code == 3
    told = "check, explain, repair and plan work on a saved snapshot, with --snapshot FILE"
    assert said.err.splitlines()[1] == told


def test_a_bug() -> None:
    """The error of a bug says that it is a bug and where, and is not a verdict."""
    said = say("check", "10.0.0.0/8", host=failing(ZeroDivisionError("oops")))
    assert said.code == 3
    assert said.err.startswith("hostrouting: this is a bug in hostrouting, please report it with the following text\n")
    assert "ZeroDivisionError: oops" in said.err


def test_interrupted() -> None:
    """Ctrl-C ends a question as a shell expects it; to a program it is a document."""
    said, told = (say("check", *more, "10.0.0.0/8", host=failing(KeyboardInterrupt())) for more in ((), ("--json",)))
    assert (said.code, said.out, said.err) == (130, "", "hostrouting: interrupted\n")
    assert (told.code, told.json["error"]) == (130, "Interrupted")


@pytest.mark.linux
@pytest.mark.parametrize(
    "module", ["argparse", "hostrouting.cli.commands", "hostrouting.host.host", "hostrouting.cli.check"]
)
def test_interrupted_while_modules_load(module: str) -> None:
    """Ctrl-C ends a command as a shell expects it also while the command is still being loaded."""
    code = (
        "import runpy, signal, sys\n"
        f"hook = lambda event, about: event == 'import' and about[0] == {module!r} and signal.raise_signal(2)\n"
        "sys.addaudithook(hook)\n"
        "sys.argv = ['hostrouting', 'check', '10.0.0.0/8']\n"
        "runpy.run_module('hostrouting', run_name='__main__')"
    )
    done = completed([sys.executable, "-c", code])
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "hostrouting: interrupted\n")


@pytest.mark.linux
def test_a_part_of_python() -> None:
    """If a module of the standard library is missing, as with python3-minimal, the message names it and the package."""
    code = "import sys; sys.modules['ipaddress'] = None; from hostrouting.cli import main; sys.exit(main(['status']))"
    done = completed([sys.executable, "-c", code])
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(
        "hostrouting: the module ipaddress of Python's standard library is missing; install all of"
    )


@pytest.mark.parametrize(
    "words", [("check", "--json", "--bogus"), ("--json", "plan", "--config", "x", "--wait", "abc")]
)
def test_misuse_is_a_document_too(words: tuple[str, ...]) -> None:
    """An invalid command line gives programs exit code 2 and the document of an error."""
    said = say(*words)
    assert said.code == 2
    assert said.json["schema"] == "hostrouting/error/2"
    assert said.json["error"] == "Misused"
    assert said.json["message"] in said.err


@pytest.mark.linux
@pytest.mark.parametrize(
    ("words", "schema"),
    [
        ("check 172.16.0.0/16 --snapshot /nowhere --json", "hostrouting/error"),
        ("check --bogus --json", "hostrouting/error"),
    ],
)
def test_closed_standard_error(words: str, schema: str) -> None:
    """With standard error closed, its words are written nowhere: standard output has the document and nothing else."""
    start = ["sh", "-c", f"exec {sys.executable} -m hostrouting {words} 2>&-"]
    done = completed(start, input=h200().snapshot().to_json())
    assert json.loads(done.stdout)["schema"].startswith(schema)


@pytest.mark.parametrize("words", ["check --bogus --json", "--json"])
def test_without_standard_error(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller's process may have no standard error: it is None again afterwards, and the answer is one document.

    Kills: only the program opens another one.
    """
    monkeypatch.setattr(sys, "stderr", None)
    with redirect_stdout(io.StringIO()) as written, pytest.raises(SystemExit):
        main(words.split())
    assert (json.loads(written.getvalue())["schema"], sys.stderr) == ("hostrouting/error/2", None)


def test_json_before_the_command() -> None:
    """The option --json can also come before the command."""
    before = say("--json", "check", "172.16.0.0/16", kernel=h200())
    assert before == say("check", "172.16.0.0/16", "--json", kernel=h200())
    assert before.json["verdict"] == "overlap"


def test_answers_and_logs_do_not_mix() -> None:
    """Standard output has only the answer, and standard error nothing."""
    assert say("check", "172.16.0.0/16", kernel=h200()).err == ""
