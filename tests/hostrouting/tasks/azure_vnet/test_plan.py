"""The plan of a clean-up as a value, converted to plain values and back."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.tasks.azure_vnet import CleanupPlan, Deletion, Kept

KINDS = st.sampled_from(["rule", "neighbour", "route"])
TEXTS = st.lists(st.text(max_size=5), max_size=2).map(tuple)
SPECS = st.sampled_from(["a", "b", "c"])


def things(kind: type[Kept]) -> st.SearchStrategy[tuple[Kept, ...]]:
    """The entries of one part of a plan, including duplicates."""
    return st.lists(st.builds(kind, KINDS, SPECS, st.text(max_size=5)), max_size=4).map(tuple)


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "deletions": things(Deletion),
    **{name: things(Kept) for name in ("kept", "conflicts", "inert")},
    **dict.fromkeys(("unreadable", "bridges", "uplinks", "hindrances", "notes"), TEXTS),
    "host": st.text(max_size=5),
    "boot": st.text(max_size=5),
}
PLANS = st.builds(CleanupPlan, **FIELDS)


@given(PLANS)
def test_there_and_back(plan: CleanupPlan) -> None:
    """A plan that is written as JSON is read back as the same plan, whatever other keys the document has."""
    document = json.loads(json.dumps({"schema": "x", **plan.to_mapping()}))
    assert CleanupPlan.from_mapping(document) == plan


def test_every_field_is_drawn() -> None:
    """The test above covers every field of a plan, so it fails if the document lacks one."""
    assert FIELDS.keys() == attrs.fields_dict(CleanupPlan).keys()


@given(PLANS, PLANS)
def test_within_and_beyond(now: CleanupPlan, shown: CleanupPlan) -> None:
    """Each deletion is either within the shown plan or beyond it, and a plan that was read back gives the same result."""
    read = CleanupPlan.from_mapping(shown.to_mapping())
    agreed, rest = now.within(read), now.beyond(read)
    assert sorted(map(str, (*agreed.deletions, *rest))) == sorted(map(str, now.deletions))
    shown_keys = [it.key for it in shown.deletions]
    for it in agreed.deletions:
        shown_keys.remove(it.key)
    assert not {it.key for it in rest} & set(shown_keys)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"deletions": None}, "deletions is not a list"),
        ({"deletions": ["x"]}, "deletions[0] is not an object"),
        ({"deletions": [{"kind": "rule", "spec": "x"}]}, "deletions[0].reason is missing"),
        ({"kept": [{"kind": "rule", "spec": 5, "reason": ""}]}, "kept[0].spec is not a string"),
        (
            {"inert": [{"kind": "x", "spec": "", "reason": ""}]},
            "inert[0].kind is 'x', not one of rule, neighbour, route",
        ),
        ({"notes": [5]}, "notes[0] is not a string"),
        ({"boot": 5}, "boot is not a string"),
    ],
)
def test_what_is_not_a_plan(changed: dict[str, object], why: str) -> None:
    """The error names the first fault with its path."""
    with pytest.raises(ValueError, match="is") as caught:
        CleanupPlan.from_mapping({**CleanupPlan().to_mapping(), **changed})
    assert str(caught.value) == why


@pytest.mark.parametrize("name", [it for it in CleanupPlan().to_mapping() if it != "unreadable"])
def test_what_is_missing(name: str) -> None:
    """Each key is required, because without one the plan may be truncated. The number of lines is only for the reader."""
    values = CleanupPlan().to_mapping()
    del values[name]
    with pytest.raises(ValueError, match=f"^{name} is missing$"):
        CleanupPlan.from_mapping(values)
