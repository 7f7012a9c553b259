"""hostrouting.tasks.guard.state and figures: what is counted, since when a verdict holds, and the text for a collector."""

from datetime import datetime, timedelta, timezone

import pytest

from hostrouting.finding import Finding
from hostrouting.tasks.guard.state import State, figures
from hostrouting.tasks.results import Look, Repair

BEGUN = datetime(2026, 1, 1, tzinfo=timezone.utc)
REPAIR = Repair("172.16.0.0/17", "[a]", "no route")


def after(*looks: Look) -> State:
    """The state after these looks, one in each minute."""
    state = State(since=BEGUN)
    for number, look in enumerate(looks, 1):
        state = state.after(look, (), BEGUN + timedelta(minutes=number))
    return state


def found(told: str) -> Finding:
    """A finding about something wrong."""
    return Finding("guard", "warning", told)


def test_counts() -> None:
    """Looks, repairs and failures are counted; the last repair keeps its time and its length."""
    state = after(Look(repairs=(REPAIR, REPAIR), repair_seconds=0.5), Look(failures={"check": "it broke"}), Look())
    assert (state.looks, state.repairs, state.failures) == (3, 2, 1)
    assert state.repaired == BEGUN + timedelta(minutes=1)
    assert state.repair_seconds == pytest.approx(0.5)


def test_an_attempt_that_could_not_look() -> None:
    """An attempt that could not look is a failure: the time and the length of the last look stay as they are."""
    looked = after(Look(verdict="ok", seconds=0.5, repairs=(REPAIR,), repair_seconds=0.2))
    state = looked.after_attempt(Look(verdict="ok", failures={"guard": "busy"}), ())
    assert (state.looks, state.looked, state.look.seconds) == (1, looked.looked, 0.5)
    assert (state.failures, state.repairs, state.repaired) == (1, 1, looked.repaired)
    assert (state.verdict_since, state.to_mapping()["failure"]) == (looked.verdict_since, "guard: busy")


def test_what_hinders_the_guard() -> None:
    """A hindrance counts as a problem and is part of the failure, but not as a failed look, until the next note."""
    state = after(Look(failures={"check": "x"}, findings=(found("a"),))).noted("reading", "b").noted("listening", "c")
    assert state.to_mapping()["failure"] == "check: x; b; c"
    assert "hostrouting_guard_problems 3" in figures(state, version="1").splitlines()
    state = state.noted("reading", "").after(Look(), (), BEGUN)
    assert (state.to_mapping()["failure"], state.failures) == ("c", 1)
    assert state.noted("listening", "").to_mapping()["failure"] is None


def test_since_when_the_verdict_holds() -> None:
    """Since the first look that had it; no check has no verdict."""
    ok, overlap = Look(verdict="ok"), Look(verdict="overlap")
    assert after(ok, ok, overlap, overlap).verdict_since == BEGUN + timedelta(minutes=3)
    assert after(ok, ok).verdict_since == BEGUN + timedelta(minutes=1)
    assert after(ok, Look()).verdict_since is None


def test_looks_are_added() -> None:
    """The looks of all tasks are one look."""
    one = Look(repairs=(REPAIR,), findings=(found("a"),), failures={"a": "x"}, routes=(1, 1, 1), seconds=1)
    other = Look(findings=(found("b"),), failures={"b": "y"}, verdict="ok", escapes={"10.0.0.0/8": 0}, repair_seconds=2)
    both = Look() + one + other
    assert (both.repairs, both.findings) == ((REPAIR,), (found("a"), found("b")))
    assert after(both).to_mapping()["failure"] == "a: x; b: y"
    assert (both.routes, both.verdict, both.escapes) == ((1, 1, 1), "ok", {"10.0.0.0/8": 0})
    assert (both.seconds, both.repair_seconds) == (1, 2)


def test_figures() -> None:
    """Each metric has its help and its type; labels are quoted; unknown values are left out."""
    verdicts, escapes = {"172.16.0.0/16": "overlap", "fd00::/48": "ok"}, {"172.16.0.0/16": 3, "fd00::/48": 0}
    look = Look(verdict="overlap", verdicts=verdicts, escapes=escapes, routes=(4, 3, 5))
    text = figures(after(look), version='1 "x"\n')
    lines = text.splitlines()
    assert 'hostrouting_build_info{version="1 \\"x\\"\\n"} 1' in lines
    assert 'hostrouting_escapes{cidr="172.16.0.0/16"} 3' in lines
    assert [line for line in lines if line.startswith("hostrouting_verdict") and line.endswith(" 1")] == [
        'hostrouting_verdict{cidr="172.16.0.0/16",verdict="overlap"} 1',
        'hostrouting_verdict{cidr="fd00::/48",verdict="ok"} 1',
    ]
    assert len([line for line in lines if line.startswith("hostrouting_verdict")]) == 8
    assert "hostrouting_routes_present 3" in lines
    assert "hostrouting_guard_start_time_seconds 1767225600.0" in lines
    assert "hostrouting_verdict" not in figures(State(since=BEGUN), version="1")
    assert "hostrouting_guard_last_look_time_seconds" not in figures(State(since=BEGUN), version="1")
