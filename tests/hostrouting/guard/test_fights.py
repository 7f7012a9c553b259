"""hostrouting.tasks.guard.pace: how often a key is repaired, which fights are named, and that nothing is remembered for ever."""

from hypothesis import given
from hypothesis import strategies as st

from hostrouting.tasks.guard import Fights, Repair

KEYS = st.sampled_from(["172.16.0.0/17", "172.16.128.0/17", "10.0.0.0/8 metric 5"])
QUARTERS = st.integers(0, 120).map(lambda quarters: quarters / 4)  # sums of them are exact
NEEDS = st.lists(st.tuples(QUARTERS, KEYS), min_size=1, max_size=120)


def repair(key: str, found: str = "no route") -> Repair:
    """The repair of this key."""
    return Repair(key, f"[{key} dev eth0]", found)


def needed(fights: Fights, key: str, now: float) -> Fights:
    """After a repair was needed: it is made if it may be."""
    return fights.made([repair(key)], now) if fights.may_repair(repair(key), now) else fights.denied(repair(key), now)


@given(NEEDS)
def test_how_often(needs: list[tuple[float, str]]) -> None:
    """In any span of time, a key is repaired ten times and once more for each minute; the keys do not affect each other."""
    fights, now, made = Fights(), 0.0, list[tuple[float, str]]()
    alone = {key: Fights() for _, key in needs}
    for gap, key in needs:
        now += gap
        allowed = fights.may_repair(repair(key), now)
        assert allowed == alone[key].may_repair(repair(key), now)
        fights, alone[key] = needed(fights, key, now), needed(alone[key], key, now)
        made += [(now, key)] if allowed else []
    for begun, key in made:
        times = [at for at, its in made if its == key and at >= begun]
        assert all(nth < 10 + (at - begun) / 60 + 1e-6 for nth, at in enumerate(times))


@given(NEEDS)
def test_nothing_is_remembered_for_ever(needs: list[tuple[float, str]]) -> None:
    """An hour after the last repair of a key, nothing is left of it."""
    fights, now = Fights(), 0.0
    for gap, key in needs:
        now += gap
        fights = needed(fights.later(now), key, now)
    assert fights.named(now + 600) == ()
    assert fights.later(now + 3600) == Fights()


def test_named() -> None:
    """A fight is named at the fourth repair, with both sides as they were last, and is over when ten minutes were quiet."""
    fights = Fights()
    for at in (1, 2, 3):
        fights = needed(needed(fights, "b", at), "a", at)
    assert fights.named(3) == ()
    fights = needed(fights, "b", 4).made([repair("a", "theirs")], 4)
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
        fights = fights.later(number * 590).made([repair("a")], number * 590)
        rare = rare.later(number * 1800).made([repair("a")], number * 1800)
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
    """Each change of that is followed at once, and the pace begins anew; but if it never ends, it is named as well."""
    fights, back = Fights(), Repair("a", "[a via 10.0.0.2]", "[a via 10.0.0.1]")
    for number in range(40):
        one = repair("a") if number % 2 else back
        assert fights.may_repair(one, number)
        fights = fights.made([one], number)
    assert [(it.last, it.rounds) for it in fights.named(40)] == [(repair("a"), 40)]
    for number in range(9):
        assert fights.may_repair(repair("a"), 41 + number)
        fights = fights.made([repair("a")], 41 + number)
    assert not fights.may_repair(repair("a"), 50)
