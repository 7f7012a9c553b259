"""tests.benchmarks.report: what a run found, as text and as a document."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks.contest import Contest, Goal, LeftOut, Ratio, comparisons
from tests.benchmarks.growth import per_route
from tests.benchmarks.machine import Machine, this_machine
from tests.benchmarks.report import document, goal_words, markdown, quantity, ratio_words, summary, terminal

MACHINE = Machine(2, "6.1.0", "3.11.7")
CONTESTS = (
    Contest(
        "read 10 routes",
        {"ours": [0.002, 0.004], "C": [0.001, 0.001], "ip -j": [0.2, 0.4]},
        (Goal("ours", 2.5, "C"), Goal("ours", 1 / 40, "ip -j")),
        notes=("in a namespace",),
    ),
    Contest("memory", {"ours": [80.0]}, (Goal("ours", 120),), unit="MB"),
)
LEFT_OUT = (LeftOut("boot", "there is no `ip` here"),)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (2, "2.00 s"),
        (0.1234, "123 ms"),
        (0.01234, "12.3 ms"),
        (0.001234, "1.23 ms"),
        (1.2e-5, "12.0 µs"),
        (3e-8, "0.03 µs"),
    ],
)
def test_seconds_are_said_in_the_unit_that_fits(value: float, words: str) -> None:
    """Three digits, and s, ms or µs."""
    assert quantity(value, "s") == words


def test_megabytes_are_said_as_they_are_and_less_in_bytes() -> None:
    """The memory of one route is in bytes, because in megabytes it would be too small to read."""
    assert quantity(96.4, "MB") == "96 MB"
    assert quantity(312e-6, "MB") == "312 B"


def test_a_ratio_below_one_is_said_as_faster() -> None:
    """The spread is turned around with it, the least first."""
    assert ratio_words(Ratio(0.25, 0.2, 0.5)) == "4.00 × faster (2.00 × … 5.00 ×)"
    assert ratio_words(Ratio(1.5, 1.25, 120.0)) == "1.50 × (1.25 × … 120 ×)"


def test_goals_are_said_as_they_were_set() -> None:
    """A limit below one is how many times faster; one without a peer is in the unit of the contest."""
    found = [goal_words(it) for contest in CONTESTS for it in comparisons(contest)]
    assert found == ["≤ 2.5 ×", "≥ 40 × faster", "≤ 120 MB"]
    (h200,) = comparisons(Contest("check", {"ours": [0.001]}, (Goal("ours", 0.002),)))
    assert goal_words(h200) == "≤ 2 ms"


def test_the_table_names_goal_and_verdict_of_each_row() -> None:
    """Missed goals are highlighted; rows below the first do not repeat the work and the method."""
    lines = markdown(CONTESTS, LEFT_OUT, MACHINE).split("\n")
    assert lines[0] == "Linux 6.1.0 on 2 cores, Python 3.11.7. 2 of 3 goals met."
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert {len(row) for row in rows} == {6}
    assert [row[0] for row in rows[2:]] == ["read 10 routes", "", "memory"]
    assert [row[1] for row in rows[2:]] == ["ours: 3.00 ms", "", "ours: 80 MB"]
    assert [row[4:] for row in rows[2:]] == [["≤ 2.5 ×", "**missed**"], ["≥ 40 × faster", "met"], ["≤ 120 MB", "met"]]
    assert lines[-2:] == ["- read 10 routes: in a namespace", "- not measured: boot (there is no `ip` here)"]


def test_the_table_leaves_to_the_plot_what_is_only_for_it() -> None:
    """A size that has no goal and a place in the plot is not a row of that table; on the terminal it is one."""
    small = Contest("read 3 routes", {"ours": [0.001]}, panel="read", size=3)
    assert "read 3 routes" not in markdown([small, *CONTESTS], (), MACHINE)
    assert "read 3 routes" in terminal([small, *CONTESTS], (), MACHINE)


def test_the_terminal_has_the_same_in_columns() -> None:
    """Every word of the table is there, and columns begin under each other."""
    text = terminal(CONTESTS, LEFT_OUT, MACHINE)
    head, first, *_ = text.split("\n")
    assert head.index("goal") == first.index("≤ 2.5 ×")
    assert "missed" in text
    assert "*" not in text
    assert text.endswith(f"{MACHINE}. {summary(CONTESTS)}.")


def test_the_document_keeps_every_round() -> None:
    """Programs get the same figures as people, and each round as well; the document is a JSON value."""
    found = json.loads(json.dumps(document(CONTESTS, LEFT_OUT, MACHINE)))
    assert found["schema"] == "hostrouting/benchmark/1"
    assert found["machine"] == {"cores": 2, "kernel": "6.1.0", "python": "3.11.7"}
    first, memory = found["contests"]
    assert first["values"]["ip -j"] == [0.2, 0.4]
    assert [it["met"] for it in first["comparisons"]] == [False, True]
    assert memory["comparisons"][0]["limit"] == 120
    assert found["leftOut"] == [{"work": "boot", "reason": "there is no `ip` here"}]


def test_what_a_route_costs_is_what_all_cost_over_their_number() -> None:
    """Among many it may cost half as much again as among few."""
    contest = per_route("read", {1000: [0.001, 0.002], 1_000_000: [1.4, 2.8]})
    assert contest.values == {"each of 1,000,000": [1.4e-6, 2.8e-6], "each of 1,000": [1e-6, 2e-6]}
    (found,) = comparisons(contest)
    assert (found.ratio and round(found.ratio.median, 6), found.met) == (1.4, True)


def test_a_machine_is_described_without_telling_whose_it_is() -> None:
    """Of the kernel's release only the numbers are said, and at least one core is there."""
    here = this_machine()
    assert here.cores >= 1
    assert set(here.kernel) <= set("0123456789.")
    assert here.kernel.strip(".") == here.kernel
