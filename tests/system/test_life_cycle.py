"""Starts as an agent makes them: a few runs of `life_cycle`, and a test that `life_cycle` finds faults."""

import os
import time

import pytest

from tests.support.examples import LONG
from tests.support.gate import gate_tests
from tests.system.life_cycle import HEALED, KEPT, KINDS, PLAIN, RELOAD, RESET, LifeCycle, Start, living

pytestmark = gate_tests

SEED = 0 if os.environ.get("CI") else time.time_ns() % 1_000_000


def as_it_should_be(life: LifeCycle) -> None:
    """Nothing was wrong with any start."""
    told = f"\n{life.tally}"
    assert not life.tally.first, told
    assert not life.tally.surprises, told


@pytest.mark.releases
def test_each_kind() -> None:
    """Whatever an agent does around a start: the machine runs with right routes only, the first and after a reset."""
    with living(SEED) as life:
        for number, (kind, is_right) in enumerate([(RELOAD, False), (RESET, True), (KEPT, False)]):
            drawn = life.draw([kind])
            assert drawn.machine == f"kube{2 - number % 2}", "the machines take turns"
            life.play(Start(drawn.machine, kind, is_right=is_right, moment=drawn.moment))
    as_it_should_be(life)
    assert (life.tally.total("ran"), life.tally.total("refused")) == (1, 2)


@pytest.mark.releases
@pytest.mark.nightly
def test_many() -> None:
    """The same with starts that are drawn; a refused machine runs without help once the routes are right."""
    with living(SEED) as life:
        life.play(life.draw([HEALED]))
        for _ in range(1000 if LONG else 100):
            life.play(life.draw(list(KINDS)))
    as_it_should_be(life)


@pytest.mark.nightly
def test_what_is_seen() -> None:
    """A gate that was opened by hand is a violation, and one that refuses without a reason a false refusal."""
    override = "/etc/systemd/system/systemd-nspawn@.service.d/99-override.conf"
    with living(SEED) as life:
        life.system.lay(override, "[Service]\nExecStartPre=\n")
        assert life.play(Start("kube1", PLAIN, is_right=False, moment=0)) == "violations"
        life.system.lay(override, "[Service]\nExecStartPre=/bin/false\n")
        assert life.play(Start("kube2", RESET, is_right=True, moment=0)) == "false refusals"
    assert life.tally.total("starts") == 2
