"""hostrouting.tasks.guard.pace: when the next look is due, how often a key is repaired, and which fights are named."""

import itertools

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.tasks.guard.pace import Bucket, Fights, Pace
from hostrouting.tasks.results import Repair


def repair(key: str, found: str = "no route") -> Repair:
    """The repair of this key."""
    return Repair(key, f"[{key} dev eth0]", found)


def needed(fights: Fights, key: str, now: float) -> Fights:
    """The fights after a repair was needed: it is carried out if it is allowed."""
    return (
        fights.repaired([repair(key)], now) if fights.may_repair(repair(key), now) else fights.denied(repair(key), now)
    )


def test_named() -> None:
    """A fight is named at the fourth repair, with both sides as they were last, and is over when ten minutes were quiet."""
    fights = Fights()
    for at in (1, 2, 3):
        fights = needed(needed(fights, "b", at), "a", at)
    assert fights.named(3) == ()
    fights = needed(fights, "b", 4).repaired([repair("a", "theirs")], 4)
    assert [(it.last.key, it.last.found, it.rounds) for it in fights.named(4)] == [
        ("a", "theirs", 4),
        ("b", "no route", 4),
    ]
    assert len(fights.named(603)) == 2
    assert fights.named(604) == ()


def test_a_slow_fight() -> None:
    """What is undone every ten minutes is named as well, and never slowed; what is undone once in half an hour is not."""
    fights, rare = Fights(), Fights()
    for number in range(6):
        assert fights.may_repair(repair("a"), number * 590)
        fights = fights.later(number * 590).repaired([repair("a")], number * 590)
        rare = rare.later(number * 1800).repaired([repair("a")], number * 1800)
    assert [it.rounds for it in fights.named(5 * 590)] == [6]
    assert rare.named(5 * 1800) == ()


def test_how_long_it_waits() -> None:
    """After ten repairs at once, a minute for each further one; other keys do not wait."""
    fights = Fights()
    for _ in range(10):
        fights = needed(fights, "a", 1)
    assert fights.wait("a", 1) == 60
    assert fights.wait("a", 31) == 30
    assert fights.wait("another", 1) == 0


def test_what_belongs_there_changes() -> None:
    """A new default gateway is followed at once, and the pace begins again; endless changes are named as well."""
    fights, back = Fights(), Repair("a", "[a via 10.0.0.2]", "[a via 10.0.0.1]")
    for number in range(40):
        one = repair("a") if number % 2 else back
        assert fights.may_repair(one, number)
        fights = fights.repaired([one], number)
    assert [(it.last, it.rounds) for it in fights.named(40)] == [(repair("a"), 40)]
    for number in range(9):
        assert fights.may_repair(repair("a"), 41 + number)
        fights = fights.repaired([repair("a")], 41 + number)
    assert not fights.may_repair(repair("a"), 50)


# What comes back with time, and no more


@given(st.floats(0.01, 10), st.floats(0, 50))
def test_after_the_wait_it_is_there(rate: float, amount: float) -> None:
    """The wait that it names is long enough, with rounding too, and half of it is not."""
    bucket = Bucket(5, rate).take(amount, 0)
    wait = bucket.wait_for(1, 0)
    assert bucket.wait_for(1, wait) == 0
    if wait > 1e-6:
        assert bucket.now(wait / 2) < 1


def test_full() -> None:
    """The bucket is full at first, not after a withdrawal, and again when that amount was refilled."""
    bucket = Bucket(3, 0.5)
    assert bucket.now(0) == 3
    assert bucket.take(1, 0).now(1.9) < 3
    assert bucket.take(1, 0).now(2) == 3
    assert bucket.take(1, 0).now(100) == pytest.approx(3)


# When the next look is due, for any order of events, looks and failures


CHANCES = st.floats(0, 1)


def test_an_event() -> None:
    """The look comes 150 ms after the first event; further events do not postpone it."""
    pace = Pace.begin(0).looked(0, spent=0.01, failed=False, chance=0.5).with_event(10)
    assert pace.wait(10) == pytest.approx(0.15)
    assert pace.with_event(10.1).wait(10.1) == pytest.approx(0.05)


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
    """Looks after events or failures use at most a tenth of the time; a regular look is never delayed."""
    pace, now, spent, last, regular = Pace.begin(0), 0.0, 0.0, 0.0, 54.0
    for gap, seconds, failed in looks:
        pace = pace.with_event(now)
        now += max(gap, pace.wait(now))
        assert spent <= 0.1 * now + 2 + 1e-6 or now >= regular
        assert pace.wait(last + 66) == 0
        pace = pace.looked(now, spent=seconds, failed=failed, chance=chance)
        last, spent, regular = now, spent + seconds, now + 54 if failed else pace.due


def test_long_looks() -> None:
    """However long the looks take, the next one is at most 66 s later."""
    pace = Pace.begin(0)
    for _ in range(20):
        pace = pace.looked(0, spent=30, failed=False, chance=1)
    assert pace.with_event(0).wait(0) <= 66


def test_changes_that_never_end() -> None:
    """After ten idle looks at once, one comes a second, and ten seconds later ten at once again; others always come."""
    for idle, gap in ((True, 1.0), (False, 0.15)):
        pace, now, begun = Pace.begin(0).looked(0, spent=0, failed=False, chance=0.5), 0.0, list[float]()
        while now < 20:
            now += (pace := pace.with_event(now)).wait(now)
            begun.append(now)
            pace = pace.looked(now, spent=0.001, failed=False, chance=0.5, idle=idle)
        assert begun[9] < 1.6
        assert all(after - before == pytest.approx(gap) for before, after in itertools.pairwise(begun[12:]))
        assert pace.looks.now(now + 10) == pace.looks.size


def test_postponed_and_sooner() -> None:
    """A look that was not possible comes at the named moment; one that is wanted sooner comes sooner."""
    pace = Pace.begin(0).looked(0, spent=0, failed=False, chance=0.5).with_event(1).postponed(5)
    assert pace.wait(1) == pytest.approx(4)
    assert pace.sooner(3).wait(1) == pytest.approx(2)
    assert pace.sooner(9).wait(1) == pytest.approx(4)
    assert attrs.evolve(pace, due=0.5).wait(1) == 0


def test_nothing_is_remembered_for_ever() -> None:
    """An hour after the last repair of a key, nothing is left of it. Kills: fights that are kept for ever, or longer."""
    fights = needed(Fights(), "a", 0)
    assert (fights.later(3599), fights.later(3600)) == (fights, Fights())
