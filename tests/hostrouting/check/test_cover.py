"""hostrouting.check.cover: the puzzle by itself, against every set of prefixes there is."""

from itertools import accumulate, combinations, pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hostrouting.check.cover import Zone, ZoneKind, cover
from hostrouting.model.prefix import Prefix
from tests.support.examples import scaled

BLOCK = Prefix.parse("172.16.0.0/29")
EVERY = [BLOCK]
for _prefix in EVERY:
    EVERY += _prefix.halves() if _prefix.length < 32 else ()


@st.composite
def puzzles(draw: st.DrawFn) -> list[Zone]:
    """The block cut into ranges of any kind, each taken from any length on."""
    kinds: list[ZoneKind] = ["open", "open", "keep", "free"]
    cuts = sorted({0, *draw(st.sets(st.integers(1, 7), max_size=5)), 8})
    return [
        Zone(BLOCK.first + begin, BLOCK.first + end - 1, draw(st.sampled_from(kinds)), draw(st.integers(28, 32)))
        for begin, end in pairwise(cuts)
    ]


def solves(chosen: tuple[Prefix, ...], zones: list[Zone]) -> bool:
    """Whether every open address is taken and no kept one is, by looking at each."""
    for zone in zones:
        for address in range(zone.first, zone.last + 1):
            longest = max((it.length for it in chosen if it.first <= address <= it.last), default=-1)
            if zone.kind != "free" and (longest >= zone.length) != (zone.kind == "open"):
                return False
    return True


def taken(chosen: tuple[Prefix, ...], zones: list[Zone]) -> int:
    """How many free addresses lie in the chosen prefixes."""
    return sum(
        1
        for it in chosen
        for zone in zones
        for address in range(zone.first, zone.last + 1)
        if zone.kind == "free" and it.first <= address <= it.last
    )


def cut(*zones: tuple[int, ZoneKind, int]) -> list[Zone]:
    """The block cut into zones: each with its number of addresses, its kind and its length."""
    ends = accumulate((size for size, _, _ in zones), initial=BLOCK.first)
    return [Zone(begin, end - 1, *zone[1:]) for (begin, end), zone in zip(pairwise(ends), zones, strict=True)]


@given(puzzles(), st.sets(st.sampled_from(EVERY), max_size=4))
@example(cut((1, "open", 30), (1, "free", 28), (1, "open", 32), (5, "open", 28)), set())  # lengths that are not alike
@example(cut((5, "free", 30), (3, "open", 28)), set())  # the block takes more of what is free
@settings(max_examples=scaled(300))
def test_as_good_as_brute_force(zones: list[Zone], held: set[Prefix]) -> None:
    """The choice solves the puzzle with usable prefixes only, and none is smaller or takes less that is free."""
    choice = cover(BLOCK, zones, usable=lambda prefix: prefix not in held)
    usable = [prefix for prefix in EVERY if prefix not in held]
    sizes = range(5 if choice is None else min(len(choice) + 1, 5))
    best = next(
        (found for size in sizes if (found := [few for few in combinations(usable, size) if solves(few, zones)])), None
    )
    if choice is None:
        assert best is None
        return
    assert solves(choice, zones)
    assert not held & set(choice)
    if best is not None:
        assert len(choice) == len(best[0])
        assert taken(choice, zones) == min(taken(few, zones) for few in best)


def test_large_ranges_are_quick() -> None:
    """A wide range without other routes is one prefix; no attempt is made to divide it."""
    block = Prefix.parse("::/0")
    zones = [Zone(block.first, block.last, "open", 1)]
    assert cover(block, zones, usable=lambda prefix: prefix.length > 1) == tuple(
        quarter for half in block.halves() for quarter in half.halves()
    )
