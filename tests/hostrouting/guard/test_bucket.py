"""hostrouting.tasks.guard.pace: what comes back with time, and no more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.tasks.guard.pace import Bucket

GAPS = st.lists(st.floats(0, 100), min_size=1, max_size=20)


@given(GAPS, st.floats(0.01, 10), st.integers(1, 5))
def test_never_more_than_its_size_and_what_came_back(gaps: list[float], rate: float, size: int) -> None:
    """Whoever takes one whenever one is there gets at most the size, and what has come back since."""
    bucket, now, taken = Bucket(size, rate), 0.0, 0
    for gap in gaps:
        now += gap
        while bucket.wait_for(1, now) == 0:
            bucket, taken = bucket.take(1, now), taken + 1
    assert taken <= size + now * rate + 1e-6


@given(st.floats(0.01, 10), st.floats(0, 50))
def test_after_the_wait_it_is_there(rate: float, amount: float) -> None:
    """The wait that it names is long enough, with rounding too, and half of it is not."""
    bucket = Bucket(5, rate).take(amount, 0)
    wait = bucket.wait_for(1, 0)
    assert bucket.wait_for(1, wait) == 0
    if wait > 1e-6:
        assert bucket.now(wait / 2) < 1


def test_full() -> None:
    """It is full at first, not after a withdrawal, and full again when that has come back."""
    bucket = Bucket(3, 0.5)
    assert bucket.is_full(0)
    assert not bucket.take(1, 0).is_full(1.9)
    assert bucket.take(1, 0).is_full(2)
    assert bucket.take(1, 0).now(100) == pytest.approx(3)
