"""The record of the rewrite's tables and routes that may be in the kernel."""

from ipaddress import IPv6Address

from hypothesis import given
from hypothesis import strategies as st

from hostrouting.tasks.probe_rewrite import NotedRoute, Record

ROUTES = st.builds(
    NotedRoute,
    st.integers(0, 2**128 - 1).map(IPv6Address),
    st.sampled_from(["eth0", "a.b-c_d"]),
    st.integers(5, 255),
)
RECORDS = st.builds(
    Record,
    st.lists(st.from_regex("[a-z][a-z0-9_]{0,9}", fullmatch=True), unique=True).map(tuple),
    st.lists(ROUTES, unique=True).map(tuple),
)


@given(RECORDS)
def test_what_is_written_is_read(record: Record) -> None:
    """A record that is written as text is read back the same."""
    assert Record.parse(str(record)) == record


@given(RECORDS, RECORDS)
def test_both(one: Record, other: Record) -> None:
    """A sum contains everything of both records once; adding the same record again changes nothing."""
    both = one + other
    assert set(both.tables) == {*one.tables, *other.tables}
    assert both + other == both


def test_what_is_not_understood_is_left_out() -> None:
    """A truncated or unknown line is skipped, and the others are read."""
    text = "table one\nroute 2001:db8::1 dev\nroute nonsense dev eth0 protocol 213\n\nelse\ntable two\n"
    assert Record.parse(text) == Record(("one", "two"))
