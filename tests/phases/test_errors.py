"""Groups of exceptions and notes: the same on every version of Python."""

import builtins
import sys
import traceback

import pytest

from phases import Failure, TaskFailed
from phases import errors as python310
from phases.errors import BaseExceptionGroup, ExceptionGroup, add_note
from tests.support.notes import notes_of
from tests.support.programs import completed


def printed(error: BaseException) -> list[str]:
    """The lines of the traceback that Python prints, without the name of the package that a group comes from."""
    return "".join(traceback.format_exception(error)).replace("exceptiongroup.", "").splitlines()


def test_notes_are_printed() -> None:
    """A traceback has the notes of an error after its message, in the order in which they were added."""
    error = OSError("full")
    add_note(error, "first")
    add_note(error, "second\nof two lines")
    assert notes_of(error) == ["first", "second\nof two lines"]
    assert printed(error) == ["OSError: full", "first", "second", "of two lines"]


def test_a_group_is_printed() -> None:
    """The traceback of a TaskFailed has every error of its group, each with its notes."""
    one, other = OSError("full"), KeyboardInterrupt()
    add_note(one, "a note")
    failed = TaskFailed([Failure(("both", "a"), one), Failure(("both", "b"), other)])
    assert printed(failed)[:8] == [
        "  | BaseExceptionGroup: 2 tasks failed (2 sub-exceptions)",
        "  +-+---------------- 1 ----------------",
        "    | OSError: full",
        "    | a note",
        "    +---------------- 2 ----------------",
        "    | KeyboardInterrupt",
        "    +------------------------------------",
        "",
    ]


def test_a_group_of_exceptions_is_an_exception() -> None:
    """Errors that are all an Exception make a group that `except Exception` catches."""
    assert type(BaseExceptionGroup("both", [OSError(), ValueError()])) is ExceptionGroup
    assert issubclass(ExceptionGroup, Exception)
    assert not isinstance(BaseExceptionGroup("both", [KeyboardInterrupt()]), Exception)


def test_builtin_where_there_is_one() -> None:
    """From Python 3.11 on, the groups are the builtin ones; before, builtins has none."""
    for name in ("BaseExceptionGroup", "ExceptionGroup"):
        assert hasattr(builtins, name) is (sys.version_info >= (3, 11))
        assert getattr(builtins, name, getattr(python310, name)) is getattr(python310, name)


@pytest.mark.linux
def test_newer_versions_load_no_package_for_it() -> None:
    """From Python 3.11 on, a failed run does not load the package that 3.10 takes the groups from."""
    code = (
        "import sys, phases.testing\n"
        "report = phases.run(phases.testing.StubTask('a', always=OSError()), observers=[])\n"
        "print(report.ok, 'phases.errors' in sys.modules, 'exceptiongroup' in sys.modules)"
    )
    done = completed([sys.executable, "-c", code], check=True)
    assert done.stdout.split() == ["False", "True", str(sys.version_info < (3, 11))]
