"""What is promised for every backend, also for one of somebody else."""

from typing import Any

import pytest

from hostrouting.errors import BackendError
from hostrouting.kernel.base import counted
from tests.support.kinds import raises


@pytest.mark.parametrize(("answers", "count"), [(None, 0), ((), 0), ([7, 8], 2)])
def test_answers_that_are_too_few_or_too_many(answers: Any, count: int) -> None:
    """The error names the call; as many as were asked for are passed on."""
    with raises(BackendError, "unusable", match=f"wrong: change returned {count} of 1 answers"):
        counted(answers, 1, "change")
    assert counted([7], 1, "change") == [7]
