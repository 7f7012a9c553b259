"""hostrouting.check.report: documents that were written on a host, read again."""

import pytest

from hostrouting.check.report import CHECK_SCHEMA, CHECK_SCHEMA_BY_FAMILY, GUARD_SCHEMA, document_in


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"schema": "hostrouting/check/1", "verdict": "ok"}', True),
        ('{"verdict": "ok", "schema": "hostrouting/check/2"}\n', True),
        ('{"schema": "hostrouting/guard/1"}', False),
        ('{"schema": ["hostrouting/check/1"]}', False),
        ("{}", False),
        ('["hostrouting/check/1"]', False),
        ("[" * 100_000, False),
        ("not JSON", False),
        ("", False),
        (None, False),
    ],
)
def test_document(text: str | None, found: bool) -> None:  # noqa: FBT001  a table of what is found
    """A document with one of the schemas is found; anything else is an empty one."""
    assert bool(document_in(text, CHECK_SCHEMA, CHECK_SCHEMA_BY_FAMILY)) is found


def test_schemas() -> None:
    """The names are those that other programs look for."""
    assert (CHECK_SCHEMA, CHECK_SCHEMA_BY_FAMILY) == ("hostrouting/check/1", "hostrouting/check/2")
    assert GUARD_SCHEMA == "hostrouting/guard/1"
