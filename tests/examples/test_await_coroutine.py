"""examples/await_coroutine.py: a coroutine in a task."""

import pytest

from tests.support.programs import example


@pytest.mark.linux
def test_by_itself() -> None:
    """At the deadline, the coroutine is cancelled, and has ended before its task is undone."""
    done = example("await_coroutine.py")
    assert done.stderr == ""
    first, second, *report = done.stdout.splitlines()
    assert (first, second) == ("the coroutine has ended", "what it did is undone")
    assert "DeadlineExceeded: not finished within 0.5 s" in report[0]
