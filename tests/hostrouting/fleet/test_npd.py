"""hostrouting.fleet.npd: what node-problem-detector is told, by what was written and how old it is."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import attrs
import pytest

from hostrouting.fleet.npd import FRESH, MAX_AGE, QUESTIONS, PluginResult, Written, decide
from hostrouting.tasks import Configure
from hostrouting.tasks.guard import Look, Problem, Repair, State
from hostrouting.tasks.guard.pace import Bucket, Fight
from hostrouting.testing import FakeHost, MemoryBackend, h200
from tests.support.tasks import CIDR, LAYOUT, config, run

LOOKED = datetime(2026, 8, 1, 10, tzinfo=timezone.utc)
AT = int(LOOKED.timestamp())
STATE = State(since=LOOKED)
REPAIR = Repair("172.16.0.0/17", "[ours]", "no route")
FIGHT = Fight(REPAIR, 7, Bucket(10, 1, at=0), (), 0)
HELD = Problem("172.16.0.0/17: another route has the same destination and metric: [theirs]")
FINDING = Problem("OVERLAP: expected CIDR 172.16.0.0/16 (172.16.0.0–172.16.255.255) routes via ib0")  # noqa: RUF001


def guard(look: Look, *fights: Fight) -> str:
    """guard.json after this look, as the guard writes it."""
    return json.dumps(STATE.after(look, fights, LOOKED).to_mapping()) + "\n"


def report(kernel: MemoryBackend, *cidrs: str) -> str:
    """route-overlap.json after a check of this host, as the task writes it."""
    host = FakeHost(kernel=kernel)
    run(Configure(config(cidrs=cidrs or (CIDR,), mode="WARN"), host=host, wait=0))
    return host.files.texts[LAYOUT.report_path]


def written(**facts: Any) -> Written:
    """A state directory with these files; the report is as old as the look."""
    return Written(directory=LAYOUT.state_directory, reported=AT, **facts)


def said(question: str, files: Written, *, after: int = 10, max_age: int = MAX_AGE) -> PluginResult:
    """The answer so many seconds after the look or the check."""
    return decide(question, files, now=AT + after, max_age=max_age)


OVERLAP = "OVERLAP: addresses of 172.16.0.0/16 leave by ib0"
FOUND = report(h200())


@pytest.mark.parametrize(
    ("verdict", "code", "line"),
    [
        ("ok", 0, "OK: every expected CIDR leaves by an expected device; last look: 2026-08-01T10:00:00Z"),
        ("overlap", 1, f"{OVERLAP}; since 2026-08-01T10:00:00Z; on the host, run: hostrouting repair"),
        ("no-default-route", 1, "NO-DEFAULT-ROUTE: there is no default route; since 2026-08-01T10:00:00Z; "),
        ("undecided", 3, "UNKNOWN: the verdict is undecided; since 2026-08-01T10:00:00Z; "),
        ("", 3, "UNKNOWN: nothing is checked, because no expected CIDRs are configured; "),
    ],
)
def test_verdict_of_the_guard(verdict: str, code: int, line: str) -> None:
    """A guard's verdict decides; the report has the details if its verdict is the same."""
    files = written(guard=guard(Look(verdict=verdict)), report=FOUND if verdict == "overlap" else None)
    answer = said("verdict", files)
    assert answer.code == code
    assert answer.line.startswith(line)


def test_details_of_another_verdict() -> None:
    """The finding of a report with another verdict than the guard's is not named."""
    answer = said("verdict", written(guard=guard(Look(verdict="overlap")), report=report(h200(), "10.0.0.0/24")))
    assert answer.code == 1
    assert answer.line.startswith("OVERLAP: addresses of an expected CIDR do not leave by an expected device; since ")


@pytest.mark.parametrize(
    ("after", "code"), [(-FRESH - 1, 3), (-FRESH, 0), (0, 0), (FRESH, 0), (FRESH + 1, 3), (10 * MAX_AGE, 3)]
)
@pytest.mark.parametrize("question", QUESTIONS)
def test_age_of_a_look(question: str, after: int, code: int) -> None:
    """A look is new for three minutes, and no longer in the future: then the guard hangs, or the clock was set back."""
    answer = said(question, written(guard=guard(Look(verdict="ok"))), after=after)
    assert answer.code == code
    if after > FRESH:
        assert answer.line.startswith("UNKNOWN: the guard has not looked since 2026-08-01T10:00:00Z; ")
    if after < -FRESH:
        assert answer.line.startswith("UNKNOWN: the clock was set back: the guard last looked at 2026-08-01T10:00:00Z")


def test_a_silent_guard_is_believed_less_than_none() -> None:
    """After a guard has fallen silent, a new check does not count: somebody wanted the host to be guarded."""
    files = written(guard=guard(Look(verdict="ok")), report=report(h200(), "10.0.0.0/24"))
    assert said("verdict", attrs.evolve(files, reported=AT + 1000), after=1001).code == 3


@pytest.mark.parametrize(
    ("failures", "code"),
    [
        ({"check-route-overlap": "the kernel does not answer"}, 3),
        ({"guard": "the lock cannot be taken"}, 3),
        ({"configure-static-routes": "refused", "check-route-overlap": "no netlink"}, 3),
        ({"configure-static-routes": "the guard: refused"}, 1),
    ],
)
def test_a_look_that_failed(failures: dict[str, str], code: int) -> None:
    """If the check failed, its verdict is an old one, and unknown; if another task failed, it is that of this look."""
    files = written(guard=guard(Look(verdict="overlap", failures=failures)), report=FOUND)
    assert said("verdict", files).code == code
    answer = said("repairs", files)
    assert (answer.code, answer.line.partition(": ")[0]) == (1, "FAILED")


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '{"schema": "hostrouting/guard/2"}', "[" * 100_000])
@pytest.mark.parametrize("question", QUESTIONS)
def test_unreadable(question: str, text: str) -> None:
    """A file that is not what the guard or the check writes is unknown."""
    answer = said(question, written(guard=text, report=FOUND))
    assert (answer.code, answer.line[:33]) == (3, "UNKNOWN: guard.json cannot be rea")
    if question == "verdict":
        answer = said(question, written(report=text))
        assert (answer.code, answer.line[:42]) == (3, "UNKNOWN: route-overlap.json cannot be read")


@pytest.mark.parametrize("looked", [None, "yesterday", "2026-08-01", "2026-13-01T00:00:00Z", "2026-08-01T10:00:00"])
def test_a_look_at_an_unknown_time(looked: str | None) -> None:
    """A look without a time, or with a time in another form, is unknown."""
    document = {**json.loads(guard(Look(verdict="ok"))), "lastLook": looked}
    assert said("verdict", written(guard=json.dumps(document))).code == 3


@pytest.mark.parametrize(
    ("after", "max_age", "code"),
    [(MAX_AGE, MAX_AGE, 1), (MAX_AGE + 1, MAX_AGE, 3), (60, 60, 1), (61, 60, 3), (-FRESH, 60, 1), (-FRESH - 1, 60, 3)],
)
def test_verdict_of_the_last_check(after: int, max_age: int, code: int) -> None:
    """Without a guard the last check decides, until it is too old; the line has its time."""
    answer = said("verdict", written(report=FOUND), after=after, max_age=max_age)
    assert answer.code == code
    assert "2026-08-01T10:00:00Z" in answer.line
    if code == 1:
        told = f"{OVERLAP}; checked at 2026-08-01T10:00:00Z; on the host, run: hostrouting repair"
        assert answer.line == told


def test_nothing_there() -> None:
    """Without a directory, or without a result in it, the answer is unknown; a rule for an event keeps quiet."""
    assert said("verdict", written(is_there=False)).line.startswith(
        "UNKNOWN: there is no directory /run/aks-flex-node: "
    )
    assert said("repairs", written(is_there=False)).code == 3
    assert said("verdict", written()).line.startswith("UNKNOWN: there is no result of a check since this host booted; ")
    assert said("repairs", written(report=FOUND)).code == 0


@pytest.mark.parametrize(
    ("look", "fights", "code", "line"),
    [
        (Look(verdict="ok"), (), 0, "OK: nothing is left to repair; last look: 2026-08-01T10:00:00Z"),
        (Look(verdict="overlap", problems=(FINDING, Problem("and 3 more"))), (), 0, "OK: nothing is left to repair; "),
        (Look(verdict="ok", problems=(HELD,)), (), 1, f"NOT REPAIRED: {HELD.text}; on the host, run: journalctl"),
        (Look(verdict="ok", problems=(FINDING, HELD)), (), 1, "NOT REPAIRED: 172.16.0.0/17: "),
        (Look(problems=(Problem("déjà vu"),)), (), 1, "NOT REPAIRED: the guard cannot repair something; "),
        (Look(problems=(HELD,)), (FIGHT,), 1, "UNDONE: 172.16.0.0/17 does not stay repaired; "),
        (Look(failures={"a": 'said "no"'}), (FIGHT,), 1, "FAILED: the guard cannot look or repair; "),
    ],
)
def test_repairs(look: Look, fights: tuple[Fight, ...], code: int, line: str) -> None:
    """What the guard cannot repair is a problem; the findings of the check are not: the verdict is about them."""
    answer = said("repairs", written(guard=guard(look, *fights)))
    assert answer.code == code
    assert answer.line.startswith(line)


def test_a_problem_keeps_its_line() -> None:
    """As long as a problem lasts, the line is the same: NPD writes a changed one to the node each time."""
    state = STATE.after(Look(verdict="overlap"), (), LOOKED)
    lines = set()
    for seconds in range(0, 600, 60):
        now = datetime.fromtimestamp(AT + seconds, timezone.utc)
        state = state.after(Look(verdict="overlap"), (), now)
        files = written(guard=json.dumps(state.to_mapping()), report=FOUND)
        lines.add(said("verdict", files, after=seconds + 5).line)
    assert len(lines) == 1


@pytest.mark.parametrize(("code", "status"), [(0, "ok"), (1, "problem"), (3, "unknown")])
def test_status(code: int, status: str) -> None:
    """A code has a name."""
    assert PluginResult(code, "").status == status
