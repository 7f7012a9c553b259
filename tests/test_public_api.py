"""What is public is what tests/public_api.txt lists: a break cannot slip through."""

import re

from tests.support.public_api import LISTED, breaks, public_lines


def test_nothing_that_was_public_is_gone() -> None:
    """A line that is gone or different needs a new major version, or a document's new number: see docs/stability.md."""
    before = LISTED.read_text(encoding="utf-8").splitlines()[1:]
    assert not breaks(before, public_lines()), "if this is meant, run: make public"


def test_everything_public_is_listed() -> None:
    """New names are in the list as well."""
    before = LISTED.read_text(encoding="utf-8").splitlines()[1:]
    assert public_lines() == before, "run: make public"


def test_the_list_is_not_empty_where_it_matters() -> None:
    """Each kind of line is there."""
    lines = public_lines()
    kinds = {line.partition(":")[0] for line in lines if re.match(r"[a-zA-Z_ ]+: ", line)}
    assert kinds >= {"configuration", "command", "exit code", "document", "schema", "file", "figure", "MESSAGE_ID"}
