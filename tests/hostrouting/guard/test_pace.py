"""hostrouting.tasks.guard.pace: when the next look is due, for any order of events, looks and failures."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.tasks.guard import Pace

CHANCES = st.floats(0, 1)


def test_an_event() -> None:
    """The look comes 150 ms after the first event; further events do not postpone it."""
    pace = Pace.begin(0).looked(0, spent=0.01, failed=False, chance=0.5).heard(10)
    assert pace.wait(10) == pytest.approx(0.15)
    assert pace.heard(10.1).wait(10.1) == pytest.approx(0.05)


@given(CHANCES)
def test_without_an_event(chance: float) -> None:
    """The look comes after 60 s, 10 % more or less."""
    assert 54 <= Pace.begin(0).looked(0, spent=0, failed=False, chance=chance).wait(0) <= 66


@given(st.lists(CHANCES, min_size=1, max_size=40))
def test_failures(chances: list[float]) -> None:
    """The attempts come later after each failure, at most 60 s later; a success ends that."""
    pace, waits = Pace.begin(0), []
    for chance in chances:
        pace = pace.looked(0, spent=0, failed=True, chance=chance)
        waits.append(pace.wait(0))
    assert all(0.05 * 2**number <= wait <= 0.1 * 2**number for number, wait in enumerate(waits[:9]))
    assert all(30 <= wait <= 60 for wait in waits[10:])
    assert pace.looked(0, spent=0, failed=False, chance=0).looked(0, spent=0, failed=True, chance=1).wait(
        0
    ) == pytest.approx(0.1)


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 3), st.booleans()), min_size=1, max_size=60), CHANCES)
def test_the_share_of_the_time(looks: list[tuple[float, float, bool]], chance: float) -> None:
    """Looks after events or failures take at most a tenth of the time, 2 s and the last look; a regular one is never later."""
    pace, now, spent, last = Pace.begin(0), 0.0, 0.0, 0.0
    for gap, seconds, failed in looks:
        pace = pace.heard(now)
        now += max(gap, pace.wait(now))
        assert spent <= 0.1 * now + 2 + 1e-6 or now >= last + 54
        assert pace.wait(last + 66) == 0
        pace = pace.looked(now, spent=seconds, failed=failed, chance=chance)
        last, spent = now, spent + seconds


def test_long_looks() -> None:
    """However long the looks take, the next one is at most 66 s later."""
    pace = Pace.begin(0)
    for _ in range(20):
        pace = pace.looked(0, spent=30, failed=False, chance=1)
    assert pace.heard(0).wait(0) <= 66


def test_postponed_and_sooner() -> None:
    """A look that was not possible comes at the named moment; one that is wanted sooner comes sooner."""
    pace = Pace.begin(0).looked(0, spent=0, failed=False, chance=0.5).heard(1).postponed(5)
    assert pace.wait(1) == pytest.approx(4)
    assert pace.sooner(3).wait(1) == pytest.approx(2)
    assert pace.sooner(9).wait(1) == pytest.approx(4)
    assert attrs.evolve(pace, due=0.5).wait(1) == 0
