"""The states of a task, in text and in JSON."""

import json

import pytest

from phases import Status


@pytest.mark.parametrize("status", Status)
def test_status_in_text(status: Status) -> None:
    """On every version of Python, a state in a text or in JSON is its word."""
    word = status.value
    assert (str(status), f"{status}", f"{status:>9}", json.dumps(status)) == (word, word, f"{word:>9}", f'"{word}"')
    assert (status == word, Status(word)) == (True, status)
