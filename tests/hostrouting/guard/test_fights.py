"""hostrouting.guard.fights: how often a key is repaired, which fights are named, and that nothing is remembered for ever."""

from hypothesis import given
from hypothesis import strategies as st

from hostrouting.guard import Fights, Repair

KEYS = st.sampled_from(["172.16.0.0/17", "172.16.128.0/17", "10.0.0.0/8 metric 5"])
NEEDS = st.lists(st.tuples(st.floats(0, 90), KEYS), min_size=1, max_size=80)


def repair(key: str) -> Repair:
    """The repair of this key."""
    return Repair(key, f"[{key} dev eth0]", "no route")


@given(NEEDS)
def test_how_often(needs: list[tuple[float, str]]) -> None:
    """In any span of time, a key is repaired three times and once more for each minute; the keys do not affect each other."""
    fights, now, made = Fights(), 0.0, list[tuple[float, str]]()
    alone = {key: Fights() for _, key in needs}
    for gap, key in needs:
        now += gap
        allowed = fights.may_repair(key, now)
        assert allowed == alone[key].may_repair(key, now)
        fights = fights.made(repair(key), now) if allowed else fights.denied(repair(key))
        alone[key] = alone[key].made(repair(key), now) if allowed else alone[key].denied(repair(key))
        made += [(now, key)] if allowed else []
    for begun, key in made:
        times = [at for at, its in made if its == key and at >= begun]
        assert all(nth < 3 + (at - begun) / 60 + 1e-6 for nth, at in enumerate(times))


@given(NEEDS)
def test_nothing_is_remembered_for_ever(needs: list[tuple[float, str]]) -> None:
    """Three minutes after the last repair of a key, nothing is left of it."""
    fights, now = Fights(), 0.0
    for gap, key in needs:
        now += gap
        fights = fights.later(now)
        fights = fights.made(repair(key), now) if fights.may_repair(key, now) else fights.denied(repair(key))
    assert fights.later(now + 240.001) == Fights()


def test_named() -> None:
    """A fight is named when a repair has to wait, with both sides as they were last; the oldest comes first."""
    fights = Fights()
    for key in ("b", "a"):
        for _ in range(3):
            fights = fights.made(repair(key), 1)
    assert fights.named == ()
    fights = fights.denied(Repair("a", "ours", "theirs")).denied(repair("b"))
    assert [(it.last.key, it.last.found, it.rounds) for it in fights.named] == [
        ("a", "theirs", 3),
        ("b", "no route", 3),
    ]
    assert fights.wait("a", 1) == 60
    assert fights.wait("another", 1) == 0
