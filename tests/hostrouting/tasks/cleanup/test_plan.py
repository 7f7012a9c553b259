"""The plan of a clean-up as a value, converted to plain values and back."""

import json
from typing import Any, get_args

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.finding import Finding
from hostrouting.tasks.cleanup.plan import CleanupEntry, CleanupPlan, Fate, Kind

ENTRIES = st.builds(
    CleanupEntry,
    st.sampled_from(get_args(Kind)),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(get_args(Fate)),
    st.text(max_size=5),
)
PLANS = st.builds(
    CleanupPlan, entries=st.lists(ENTRIES, max_size=6).map(tuple), host=st.text(max_size=5), boot=st.text(max_size=5)
)


@given(PLANS)
def test_there_and_back(plan: CleanupPlan) -> None:
    """A plan that is written as JSON is read back without its findings, whatever other keys the document has."""
    told = attrs.evolve(plan, findings=(Finding("azure-vnet", "note", "it is so"),))
    document = json.loads(json.dumps({"schema": "x", **told.to_mapping()}))
    assert CleanupPlan.from_mapping(document) == plan


@given(PLANS, PLANS)
def test_what_was_shown(now: CleanupPlan, shown: CleanupPlan) -> None:
    """Each deletion was shown or was not, once for each time that it was shown; all other entries stay."""
    agreed, rest = now.split(CleanupPlan.from_mapping(shown.to_mapping()))
    assert sorted(map(str, (*agreed.deletions, *rest))) == sorted(map(str, now.deletions))
    assert [entry for entry in agreed.entries if entry.fate != "delete"] == [
        entry for entry in now.entries if entry.fate != "delete"
    ]
    left = [deletion.key for deletion in shown.deletions]
    for deletion in agreed.deletions:
        left.remove(deletion.key)
    assert not {it.key for it in rest} & set(left)


def test_a_dry_run_deletes_nothing() -> None:
    """The plan of a task that only reports has nothing to do, and says why."""
    plan = CleanupPlan(entries=(CleanupEntry("rule", "x", "delete", "dead"),))
    assert not plan.is_empty
    report = attrs.evolve(plan, is_dry_run=True)
    assert report.is_empty
    assert str(report) == "stale (dryRun) rule x    # dead"


ENTRY = {"kind": "rule", "spec": "x", "fate": "keep", "reason": ""}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"entries": None}, "entries is missing, or is not a list"),
        ({"entries": ["x"]}, "entries[0] is not an object"),
        ({"entries": [{**ENTRY, "reason": None}]}, "entries[0].reason is missing, or is not a string"),
        ({"entries": [ENTRY, {**ENTRY, "spec": 5}]}, "entries[1].spec is missing, or is not a string"),
        ({"entries": [{**ENTRY, "kind": "x"}]}, "entries[0].kind is 'x', not rule or neighbour or route"),
        ({"boot": 5}, "boot is missing, or is not a string"),
        ({"host": None}, "host is missing, or is not a string"),
    ],
)
def test_what_is_not_a_plan(changed: dict[str, Any], why: str) -> None:
    """The error names the first fault with its path."""
    with pytest.raises(ValueError, match="is") as caught:
        CleanupPlan.from_mapping({**CleanupPlan().to_mapping(), **changed})
    assert str(caught.value) == why
