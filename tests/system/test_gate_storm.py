"""The gate in a storm: a few rounds of `storm`, and a test that `storm` finds violations."""

import os
import random
import time

import pytest

from tests.support.examples import LONG
from tests.support.gate import KUBE1, gate_tests
from tests.system.storm import CALM, KILLED, KINDS, PLAIN, SETTINGS, Choice, Round, Tally, raging

pytestmark = gate_tests

STARTS = 4
PARTS = 10 if LONG else 3
SEED = 0 if os.environ.get("CI") else time.time_ns() % 1_000_000
OVERRIDE = f"/etc/systemd/system/{KUBE1}.d/99-override.conf"


def round_of(before: str, after: str, kind: str = PLAIN) -> Round:
    """A round in which all parts begin at the same time."""
    first, second = (Choice(SETTINGS[name]) for name in (before, after))
    return Round(first, second, kind, begins=0, comes=0, is_from_nothing=True, is_loaded=False)


def drawn(seed: int) -> list[str]:
    """Settings for a storm of few starts: three with which a machine starts, and three that hold it back."""
    chance, names = random.Random(seed), list[str]()  # noqa: S311  no secret
    for allows in (True, False):
        names += chance.sample([setting.name for setting in SETTINGS.values() if setting.allows is allows], 3)
    return names


@pytest.mark.nightly
def test_what_settings_come_to() -> None:
    """With each setting of the table, a machine starts or does not start, as the table says."""
    with raging(0) as storm:
        storm.compare()


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_the_gate_holds(part: int) -> None:
    """A machine does not start where both configurations hold it back, and starts where neither does, at any moment."""
    with raging(SEED + part) as storm:
        storm.compare(SETTINGS if LONG else drawn(SEED + part))
        for _ in range(STARTS):
            storm.play(storm.draw())
    told = f"\n{storm.tally}"
    assert storm.tally.total("violations") == 0, told
    assert storm.tally.total("false refusals") == 0, told
    assert not storm.tally.surprises, told


@pytest.mark.nightly
def test_what_a_storm_sees() -> None:
    """A gate that was opened by hand is a violation, one that was blocked is a false refusal, in a calm round already."""
    with raging(0) as storm:
        storm.system.lay(OVERRIDE, "[Service]\nExecStartPre=\n")
        assert storm.play(round_of("strict", "strict", CALM)) == "violations"
        assert storm.play(round_of("strict", "conflict")) == "violations"
        storm.system.lay(OVERRIDE, "[Service]\nExecStartPre=/bin/false\n")
        assert storm.play(round_of("warn", "warn", CALM)) == "false refusals"
        assert storm.play(round_of("warn", "strict")) == ""
    assert storm.tally.total("starts") == 4
    assert "strict -> conflict" in str(storm.tally)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ran", [True, False])
def test_what_a_round_comes_to(kind: str, ran: bool) -> None:  # noqa: FBT001  it is a parameter
    """Both verdicts alike: that one is right. Otherwise, and where a task was cut short that might allow, either is."""
    tally = Tally(seed=0)
    assert tally.count(round_of("strict", "conflict", kind), ran=ran) == ("violations" if ran else "")
    assert tally.count(round_of("warn", "nothing", kind), ran=ran) == ("" if ran else "false refusals")
    assert tally.count(round_of("halves", "strict, conflict", kind), ran=ran) == ("" if ran else "false refusals")
    assert not tally.count(round_of("warn", "strict", kind), ran=ran)
    for settings in (("strict", "strict"), ("strict", "halves"), ("halves", "halves")):
        fault = tally.count(round_of(*settings, KILLED), ran=ran, is_cut_short=True)
        assert fault == ("violations" if ran and settings == ("strict", "strict") else "")
    assert tally.total("starts") == 7
