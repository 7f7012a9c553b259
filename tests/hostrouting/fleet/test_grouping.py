"""Nodes with the same problem are grouped, with the repair that works for all of them."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.errors import Fault, FleetError, InputError
from hostrouting.fleet import NodeEscape, NodeResult, group_nodes
from hostrouting.fleet.judge import Question, judge
from hostrouting.model.prefix import Prefix
from hostrouting.routes.uplink import DesiredRoute
from hostrouting.testing import FakeKernel, h200
from tests.support.fleets import ASKED, CIDR, HALVES, config_of, escape, node


@pytest.mark.parametrize(
    ("escapes", "problem"),
    [
        ([escape("ib3")], "172.16.0.0/16 by ib3"),
        ([escape("ib3", "ib9")], "172.16.0.0/16 by ib3 and ib9"),
        ([escape("ib9", "ib10", "ib11")], "172.16.0.0/16 by ib9…ib11"),
        ([escape("wg0", "ib1", "ib0", "ib2", "ib7", "eth1")], "172.16.0.0/16 by eth1, ib0…ib2, ib7 and wg0"),
        ([escape("ib", "ib0")], "172.16.0.0/16 by ib and ib0"),
        ([escape()], "172.16.0.0/16 by an unknown device"),
        ([escape("ib0", part=5), escape("ib1", part=9)], "a part of 172.16.0.0/16 by ib0 and ib1"),
        (
            [
                attrs.evolve(escape("ib0"), last=(172 << 24) + (16 << 16) + 32767),
                attrs.evolve(escape("ib3"), first=(172 << 24) + (16 << 16) + 32768),
            ],
            "172.16.0.0/16 by ib0 and ib3",
        ),
        ([escape(kind="no-route")], "172.16.0.0/16 by no device (no route)"),
        ([escape("ib0", packets="what pods send")], "what pods send: 172.16.0.0/16 by ib0"),
        (
            [
                escape("ib0"),
                escape("ib0", cidr=Prefix.parse("fd16::/48")),
                escape("wg0", cidr=Prefix.parse("10.0.0.0/8")),
            ],
            "172.16.0.0/16 and fd16::/48 by ib0 and 10.0.0.0/8 by wg0",
        ),
    ],
)
def test_words(escapes: list[NodeEscape], problem: str) -> None:
    """A problem is named by CIDR, devices and packets."""
    [group] = group_nodes([node("a", *escapes)])
    assert group.problem == problem


def test_different_problems() -> None:
    """Another CIDR, a part of one, another kind of device or another fate is another problem."""
    results = [
        node("a", escape("ib0")),
        node("b", escape("wg0")),
        node("c", escape("ib0", part=1)),
        node("d", escape(kind="blackhole")),
        node("e", escape("ib0", cidr=Prefix.parse("10.0.0.0/8"))),
        node("f", escape("ib0"), escape("ib0", cidr=Prefix.parse("10.0.0.0/8"))),
        node("g", escape("ib0", packets="what pods send")),
    ]
    assert len(group_nodes(results)) == len(results)


def test_the_worst_comes_first() -> None:
    """First what escapes, then what could not be judged, then what is open; and more nodes before fewer."""
    file = InputError([Fault("links", "5", "is not a list")])
    results = [
        NodeResult("ok", verdict="ok"),
        NodeResult("open", verdict="undecided", doubts=("default-routes", "other-packets")),
        NodeResult("lost", verdict="no-default-route", without_default=(4, 6)),
        NodeResult("file", "/nodes/a.json", failure=file),
        NodeResult("other file", "/nodes/b.json", failure=file),
        NodeResult("dead", failure=FleetError("it ended", kind="worker-lost")),
        node("one", escape("wg0")),
        node("two", escape("ib0")),
        node("three", escape("ib1")),
    ]
    assert [(group.verdict, group.problem, group.nodes) for group in group_nodes(results)] == [
        ("overlap", "172.16.0.0/16 by ib0 and ib1", ("three", "two")),
        ("overlap", "172.16.0.0/16 by wg0", ("one",)),
        (None, "links: 5 is not a list", ("file", "other file")),
        (None, "it ended", ("dead",)),
        ("no-default-route", "no IPv4 default route and no IPv6 default route", ("lost",)),
        ("undecided", "default-routes and other-packets", ("open",)),
        ("ok", "", ("ok",)),
    ]


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ([node("a", escape("ib0")), node("b", escape("ib1"))], [("ab", HALVES, "one repair for all")]),
        (
            [node("a", escape("ib0")), node("c", escape("ib1"), repair=HALVES[:1]), node("b", escape("ib1"))],
            [("ab", HALVES, "one repair for all"), ("c", HALVES[:1], "a repair")],
        ),
        (
            [
                node("d", escape("ib1"), whole=False),
                node("a", escape("ib0")),
                node("c", escape("ib0"), whole=False, repair=()),
                node("b", escape("ib1")),
            ],
            [("ab", HALVES, "one repair for all"), ("cd", (), "no route can repair all of it")],
        ),
    ],
)
def test_one_repair_for_all(nodes: list[NodeResult], found: list[tuple[str, tuple[DesiredRoute, ...], str]]) -> None:
    """Nodes with one problem that need different repairs are different groups, so that each is shown, whole ones first.

    Kills: one group with two repairs, which can show neither; and a repair that does not close everything.
    """
    assert [("".join(group.nodes), group.repair, group.repair_words) for group in group_nodes(nodes)] == found


def test_no_default_route() -> None:
    """A host without a default route has that problem; if another family escapes, both are named."""
    nothing = judge(FakeKernel().snapshot().to_json().encode(), ASKED)
    both = judge(h200().snapshot().to_json().encode(), Question(config_of(CIDR, "fd00::/8")))
    assert [group.problem for group in group_nodes([nothing, both])] == [
        "172.16.0.0/16 by ib0 and no IPv6 default route",
        "no IPv4 default route",
    ]


@given(st.lists(st.sampled_from(["a", "b", "c", "odd", "ok", "broken"]), max_size=30))
def test_each_node_is_in_one_group(kinds: list[str]) -> None:
    """Whatever the results and their order: each node is in exactly one group, and groups differ in what can be done."""
    made = {
        "a": node("", escape("ib0")),
        "b": node("", escape("ib5")),
        "c": node("", escape("wg0")),
        "odd": node("", escape("ib0"), whole=False),
        "ok": NodeResult(verdict="ok"),
        "broken": NodeResult(failure=InputError([Fault("", "", "is empty")])),
    }
    results = [attrs.evolve(made[kind], name=f"{kind}{number}") for number, kind in enumerate(kinds)]
    groups = group_nodes(results)
    assert sorted(name for group in groups for name in group.nodes) == sorted(result.name for result in results)
    assert len({(group.verdict, group.problem, group.is_repairable) for group in groups}) == len(groups)
    other_way = group_nodes(reversed(results))
    assert [(it.problem, it.nodes, it.repair) for it in other_way] == [
        (group.problem, group.nodes, group.repair) for group in groups
    ]
