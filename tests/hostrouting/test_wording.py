"""hostrouting.wording: findings, notes and repairs in an operator's words."""

import attrs
import pytest

from hostrouting.fib import Fib
from hostrouting.model import Prefix, Route, RouteType, Rule, Snapshot, default_rules
from hostrouting.overlap import check_overlap
from hostrouting.repair import propose_repair
from hostrouting.wording import check_document, diversion_line, finding_line, note_line, unsafe_line
from tests.support.topologies import h200, host, plain

DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16)
LOCAL, MAIN, LAST = default_rules(4)


def lines(snapshot: Snapshot, cidr: str = "172.16.0.0/16", *devs: str) -> list[str]:
    """The findings of a check, as lines."""
    report = check_overlap(Fib(snapshot), [Prefix.parse(cidr)], devs=devs)
    return [finding_line(finding, report.expected_devs) for finding in report.findings]


def test_overlap_line() -> None:
    """An overlap names the CIDR, the range, the device, the route and its owner, and what was expected."""
    holes = [Route.to(text, dev="eth0", gateway="10.0.0.1") for text in ("172.16.0.0/22", "172.16.4.0/24")]
    assert lines(h200().with_routes(holes)) == [
        (
            "OVERLAP: expected CIDR 172.16.0.0/16 (172.16.5.0–172.16.255.255) routes via ib0 "  # noqa: RUF001  as printed
            "[172.16.0.0/16 proto kernel], expected eth0"
        )
    ]


def test_no_route_line() -> None:
    """A CIDR without a route says so."""
    assert lines(host([("eth0", "10.0.0.4/24")]), "172.16.0.0/16", "eth0", "eth1") == [
        (
            "NO-ROUTE: expected CIDR 172.16.0.0/16 (172.16.0.0–172.16.255.255) has no IPv4 route; "  # noqa: RUF001  as printed
            "expected via eth0, eth1"
        )
    ]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("unreachable", "UNREACHABLE: {} is unreachable [unreachable 172.16.0.0/16 proto static]"),
        ("blackhole", "BLACKHOLE: {} vanishes in a blackhole [blackhole 172.16.0.0/16 proto static]"),
        ("prohibit", "PROHIBIT: {} is refused [prohibit 172.16.0.0/16 proto static]"),
    ],
)
def test_refusal_lines(kind: RouteType, words: str) -> None:
    """A route that refuses is named with its type."""
    route = Route.to("172.16.0.0/16", type=kind, protocol=4)
    what = "expected CIDR 172.16.0.0/16 (172.16.0.0–172.16.255.255)"  # noqa: RUF001  as printed
    assert lines(plain().with_routes([route])) == [words.format(what) + "; expected via eth0"]


def test_other_tables_and_rules_are_named() -> None:
    """What is decided outside of main says by which table and rule; a rule that decides alone is quoted."""
    rules = [
        LOCAL,
        Rule(family=4, priority=7, table=52),
        Rule(family=4, priority=8, dst=Prefix.parse("172.16.9.0/24"), action="prohibit"),
        MAIN,
    ]
    snapshot = host(
        [("eth0", "10.0.0.4/24")],
        [DEFAULT, Route.to("172.16.0.0/24", dev="wg0", table=52, protocol=3)],
        rules=rules,
    )
    first, second = lines(snapshot)
    assert first.endswith("routes via wg0 [172.16.0.0/24 proto boot table 52 by rule 7], expected eth0")
    assert second.endswith("is refused [rule 8: from all to 172.16.9.0/24 prohibit]; expected via eth0")


def test_note_line() -> None:
    """A note says for which packets the verdict does not hold, and where those go."""
    rule = Rule(family=4, priority=100, table=77, fwmark=1, fwmask=1, uids=(0, 99))
    snapshot = host(
        [("eth0", "10.0.0.4/24")],
        [DEFAULT, Route.to("172.16.4.0/24", dev="wg0", table=77, protocol=3)],
        rules=[LOCAL, rule, MAIN],
    )
    (note,) = check_overlap(Fib(snapshot), [Prefix.parse("172.16.0.0/16")]).notes
    assert note_line(note) == (
        "expected CIDR 172.16.0.0/16 (172.16.4.0–172.16.4.255): packets with fwmark 0x1/0x1, "  # noqa: RUF001  as printed
        "uidrange 0-99 (rule 100) leave by wg0 [172.16.4.0/24 proto boot table 77 by rule 100]; "
        "the verdict is about all others"
    )


def test_document() -> None:
    """The JSON of a check has exactly the documented shape."""
    fib = Fib(h200())
    report = check_overlap(fib, [Prefix.parse("172.16.0.0/16")])
    document = check_document(report, propose_repair(fib, report), mode="STRICT")
    notes = document.pop("notes")
    assert document == {
        "schema": "hostrouting/check/1",
        "verdict": "overlap",
        "mode": "STRICT",
        "expectedDevs": ["eth0"],
        "findings": [
            {
                "cidr": "172.16.0.0/16",
                "first": "172.16.0.0",
                "last": "172.16.255.255",
                "prefixes": ["172.16.0.0/16"],
                "kind": "overlap",
                "via": {
                    "dev": "ib0",
                    "gateway": None,
                    "route": "172.16.0.0/16",
                    "table": "main",
                    "protocol": "kernel",
                    "rule": 32766,
                },
            }
        ],
        "repair": [
            {"destination": half, "gateway": "10.0.0.1", "dev": "eth0", "metric": 0}
            for half in ("172.16.0.0/17", "172.16.128.0/17")
        ],
        "unsafe": [],
    }
    (note,) = notes
    assert note.startswith("the repair diverts addresses of 172.16.0.0/16 from ib0, ib1, ")


def test_document_of_what_is_unsafe() -> None:
    """What cannot be repaired is in the document, with its reason in words and who holds it."""
    theirs = Route.to("172.16.0.9/32", dev="ib0", gateway="10.0.0.8", protocol=3)
    snapshot = attrs.evolve(plain(), routes=[*plain().routes, theirs])
    fib = Fib(snapshot)
    report = check_overlap(fib, [Prefix.parse("172.16.0.0/16")])
    repair = propose_repair(fib, report)
    document = check_document(report, repair, mode="WARN")
    assert document["findings"][0]["via"]["gateway"] == "10.0.0.8"
    assert document["unsafe"] == [
        {
            "first": "172.16.0.9",
            "last": "172.16.0.9",
            "reason": "longest-prefix",
            "text": unsafe_line(repair.unsafe[0]),
        }
    ]
    assert unsafe_line(repair.unsafe[0]) == (
        "172.16.0.9 is held by 172.16.0.9/32 proto boot, and no longer prefix is free; "
        "that route is not ours to replace"
    )
    assert [diversion_line(it) for it in repair.diverted] == []


def test_note_of_a_source() -> None:
    """Of packets by their source a note says where they are from."""
    rule = Rule(family=4, priority=100, table=77, src=Prefix.parse("10.0.0.5/32"))
    away = Route.to("172.16.0.0/16", dev="wg0", table=77, protocol=3)
    snapshot = host([("eth0", "10.0.0.4/24")], [DEFAULT, away], rules=[LOCAL, rule, MAIN])
    (note,) = check_overlap(Fib(snapshot), [Prefix.parse("172.16.0.0/16")]).notes
    assert ": packets from 10.0.0.5/32 (rule 100) leave by wg0 " in note_line(note)
