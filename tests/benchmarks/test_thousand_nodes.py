"""tests.benchmarks.thousand_nodes: the same run with a dozen nodes, and that it ends where something is not as it has to be."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import attrs
import pytest

from hostrouting.fleet import NodeResult, group_nodes
from tests.benchmarks.thousand_nodes.answers import Differs, require_found, require_groups
from tests.benchmarks.thousand_nodes.kinds import CIDR, KINDS, plan_fleet
from tests.benchmarks.thousand_nodes.story import Escaped, in_batches, tell_story
from tests.support.fleets import escape, node

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.benchmarks.thousand_nodes.answers import Document
    from tests.benchmarks.thousand_nodes.kinds import Plan


@pytest.mark.nightly
@pytest.mark.linux
@pytest.mark.needs("root")
def test_a_dozen_nodes(tmp_path: Path) -> None:
    """One node of each kind is broken, found, repaired if routes can do that, and verified; sound nodes stay as they were."""
    rng, told = random.Random(23), list[str]()  # noqa: S311  no secret
    plans = plan_fleet(14, broken=len(KINDS), rng=rng)
    figures = tell_story(plans, tmp_path, at_once=4, batch=5, rng=rng, say=told.append)
    repaired = [plan.name for plan in plans if plan.kind and plan.kind.is_repairable]
    assert len(repaired) == 8
    assert figures.counts == {
        "nodes": 14,
        "broken nodes": len(KINDS),
        **{it.name: 1 for it in KINDS},
        "repaired nodes": len(repaired),
        "addresses that kernels were asked for": (len(repaired) + 2) * 100,
    }
    assert told[1].startswith("14 nodes: 10 overlap, 1 no verdict, 1 no-default-route, 2 ok\n")
    batches = [it.partition(": ")[2].split(", ") for it in told[2:]]
    assert list(map(len, batches)) == [5, 3]
    assert sorted(name for it in batches for name in it) == repaired


def test_plans_by_seed() -> None:
    """A seed gives the same nodes each time, and another seed others; a tenth is broken, in all ways equally often."""
    one, again, other = (plan_fleet(480, broken=48, rng=random.Random(seed)) for seed in (1, 1, 2))  # noqa: S311  no secret
    assert one == again != other
    for kind in KINDS:
        assert len([plan for plan in one if plan.kind == kind]) == 4
    assert len({plan.lines for plan in one}) == 480


def test_a_batch_that_is_not_repaired() -> None:
    """After a batch on which something is still wrong, no other batch is begun, and the error names the node."""
    begun: list[Sequence[str]] = []

    def repair(names: Sequence[str]) -> dict[str, str]:
        begun.append(names)
        return {"c": "172.16.0.0/16 by ib0"} if "c" in names else {}

    batches = in_batches(["a", "b", "c", "d", "e"], 2, repair=repair)
    assert next(batches) == ["a", "b"]
    with pytest.raises(
        Escaped, match=r"^2 nodes were repaired; after the next 2, this is wrong: c: 172.16.0.0/16 by ib0$"
    ):
        next(batches)
    assert begun == [["a", "b"], ["c", "d"]]


OK: Document = {"verdict": "ok", "findings": [], "unsafe": []}
CAPTURED: Document = {
    "verdict": "overlap",
    "findings": [{"kind": "overlap", "via": {"dev": "ib0"}, "prefixes": [CIDR]}],
    "unsafe": [],
}


def two_plans() -> dict[str, Plan]:
    """A sound node, and one where ib0 has captured the CIDR."""
    sound, broken = plan_fleet(2, broken=1, rng=random.Random(0))  # noqa: S311  no secret
    if sound.kind:
        sound, broken = broken, sound
    wrong = attrs.evolve(broken.wrong, escapes=(("overlap", "ib0", CIDR),))
    return {"sound": sound, "broken": attrs.evolve(broken, wrong=wrong)}


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ({"sound": OK}, r"^the nodes that were judged: \['sound'\], and not \['broken', 'sound'\]$"),
        ({"sound": OK, "broken": OK}, r"^the nodes that are not ok: \[\], and not \['broken'\]$"),
        (
            {"sound": {"error": "InputError"}, "broken": CAPTURED},
            r"^the nodes that are not ok: \['broken', 'sound'\]",
        ),
        (
            {"sound": OK, "broken": {**CAPTURED, "findings": [{**CAPTURED["findings"][0], "via": {"dev": "ib1"}}]}},
            r"^what is said about broken \(captured by ib0…ib7\): .*'ib1'.*'ib0'",
        ),
        (
            {"sound": OK, "broken": {**CAPTURED, "unsafe": [{"reason": "no-way"}]}},
            r"^what is said about broken .*no-way",
        ),
        ({"sound": OK, "broken": {**CAPTURED, "verdict": "undecided"}}, r"^what is said about broken .*undecided"),
    ],
)
def test_answers_that_differ(documents: dict[str, Document], message: str) -> None:
    """A node that is missing, is wrongly found or not found, or has another reason than it was given, ends the run."""
    require_found({"sound": OK, "broken": CAPTURED}, two_plans())
    with pytest.raises(Differs, match=message):
        require_found(documents, two_plans())


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (
            [NodeResult("sound", verdict="ok"), NodeResult("broken", verdict="ok")],
            r"^the groups that differ: \[\('broken', 'sound'\)\], and not \[\('broken',\), \('sound',\)\]$",
        ),
        (
            [NodeResult("sound", verdict="ok"), node("broken", escape("wg0"))],
            r"172.16.0.0/16 by wg0.: False, and not True$",
        ),
        (
            [NodeResult("sound", verdict="ok"), node("broken", escape("ib0"), whole=False)],
            r"^whether .* can be repaired: ",
        ),
        ([NodeResult("sound", verdict="ok"), node("broken", escape("ib0"), repair=())], r"^the one repair for all of "),
    ],
)
def test_groups_that_differ(results: list[NodeResult], message: str) -> None:
    """A group with other nodes, another problem or another repair ends the run."""
    right = [NodeResult("sound", verdict="ok"), node("broken", escape("ib0"))]
    require_groups(group_nodes(right), two_plans())
    with pytest.raises(Differs, match=message):
        require_groups(group_nodes(results), two_plans())
