"""hostrouting.check.report: findings, notes, repairs and packets in an operator's words, and written documents read again."""

import json
from collections.abc import Sequence

import attrs
import pytest

from hostrouting.check.examine import Correction, Examination, FamilyExamination, examine_snapshot
from hostrouting.check.overlap import OverlapReport, check_overlap
from hostrouting.check.repair import propose_repair
from hostrouting.check.report import (
    CHECK_SCHEMA,
    check_document,
    check_findings,
    deletion_lines,
    document_in,
    escapes_in,
    owner_name,
    packets_line,
    repair_document,
)
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.fib.decision import Condition
from hostrouting.fib.engine import Fib
from hostrouting.finding import ESCAPES, Finding
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import NextHop, Route, RouteType
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Link, Snapshot
from hostrouting.routes.uplink import DesiredRoute
from tests.support.topologies import h200, host, plain

DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16)
LOCAL, MAIN, LAST = default_rules(4)


def examined(fib: Fib, report: OverlapReport) -> Examination:
    """The report with its repair."""
    return Examination((FamilyExamination(report, propose_repair(fib, report), fib),))


def findings(snapshot: Snapshot, *names: str, devs: Sequence[str] = ()) -> list[Finding]:
    """The findings of a check with one of these names."""
    fib = Fib(snapshot)
    found = examined(fib, check_overlap(fib, ["172.16.0.0/16"], expected_devs=devs))
    return [finding for finding in check_findings(found, mode="STRICT") if finding.name in names]


def lines(snapshot: Snapshot, *devs: str) -> list[str]:
    """The escapes of a report, as lines."""
    return [finding.line for finding in findings(snapshot, *ESCAPES, devs=devs)]


@pytest.mark.parametrize("count", [20, 21])
def test_a_long_repair(count: int) -> None:
    """A log does not contain a repair that is too long to paste: the line says where to find it."""
    routes = [Route.to(f"10.{100 + at}.0.0/16", dev="ib0") for at in range(count)]
    fib = Fib(plain().with_routes(routes))
    report = check_overlap(fib, [route.prefix.halves()[0] for route in routes])
    repair = propose_repair(fib, report)
    assert len(repair.routes) == count
    [action] = [finding for finding in check_findings(examined(fib, report), mode="STRICT") if finding.name == "action"]
    assert action.facts["routes"] == repair_document(repair.routes)
    if count > 20:
        assert action.sentence == "add 21 routes to staticRoutes.routes; to print them: hostrouting repair"
    else:
        assert action.sentence == f"add to staticRoutes.routes: {json.dumps(action.facts['routes'])}"


def entries(*destinations: str, metric: int = 0) -> tuple[DesiredRoute, ...]:
    """Entries of a configuration."""
    return tuple(DesiredRoute(destination, metric=metric) for destination in destinations)


THEIRS = "another program's route has this destination and metric, and hostrouting leaves that route as it is"
OF_THEM = "other programs' routes have these destinations and metrics, and hostrouting leaves those as they are"
MANY = [f"10.{at}.0.0/16" for at in range(22)]


@pytest.mark.parametrize(
    ("replaced", "contested", "told"),
    [
        (entries("172.16.0.0/17"), (), ["the present entry for 172.16.0.0/17: the new one takes its place"]),
        (
            entries("172.16.0.0/17", "172.16.128.0/17"),
            entries("10.9.0.0/16", metric=7),
            [
                "the present entries for 172.16.0.0/17 and 172.16.128.0/17: the new ones take their place",
                f"the entry for 10.9.0.0/16 metric 7: {THEIRS}",
            ],
        ),
        ((), entries(*MANY), [f"the entries for {', '.join(MANY[:20])} and 2 more: {OF_THEM}"]),
    ],
)
def test_entries_to_delete(
    replaced: tuple[DesiredRoute, ...], contested: tuple[DesiredRoute, ...], told: list[str]
) -> None:
    """Entries that stand in the way are named with the reason, after the routes to add; also in the JSON."""
    found = examine_snapshot(h200(), HostRoutingConfig(route_overlap={"expectedCidrs": ["172.16.0.0/16"]}))
    document = check_document(found, mode="STRICT", correction=Correction(found.routes, replaced, contested))
    [action] = [finding for finding in document["findings"] if finding["name"] == "action"]
    add = f"add to staticRoutes.routes: {json.dumps(document['repair'])}"
    assert action["sentence"] == "; ".join([add, *(f"in staticRoutes.routes, delete {each}" for each in told)])
    lines = list(deletion_lines(replaced, contested, "/etc/my.json"))
    assert lines == [f"In /etc/my.json, delete {each}." for each in told]


def test_a_configuration_that_has_the_repair() -> None:
    """A correction that changes nothing asks to apply the configuration."""
    fib = Fib(h200())
    found = examined(fib, check_overlap(fib, ["172.16.0.0/16"]))
    [action] = [it for it in check_findings(found, mode="STRICT", correction=Correction()) if it.name == "action"]
    assert action.sentence == (
        "the configuration has the routes that repair it, but this host does not; apply the configuration"
    )


def test_overlap_line() -> None:
    """An overlap names the CIDR, the range, the device, the route and its owner, and what was expected."""
    holes = [Route.to(text, dev="eth0", gateway="10.0.0.1") for text in ("172.16.0.0/22", "172.16.4.0/24")]
    assert lines(h200().with_routes(holes)) == [
        (
            "OVERLAP: expected CIDR 172.16.0.0/16 (172.16.5.0–172.16.255.255) routes via ib0 "  # noqa: RUF001  as printed
            "[172.16.0.0/16 proto kernel], expected eth0"
        )
    ]


@pytest.mark.parametrize(
    ("devs", "told"),
    [
        (
            ["ib0"],
            "no device other than ib0 (172.16.0.4/16, InfiniBand, in 172.16.0.0/16) is up and has an IPv4 address",
        ),
        (["e0", "e1", "ib2"], "the device may be e1 (10.7.1.4/24) or e0 (172.16.0.4/16, in 172.16.0.0/16)"),
        (["wg0"], "no device is up and has an IPv4 address"),
    ],
)
def test_which_device_may_be_meant(devs: list[str], told: str) -> None:
    """Without a default route, devices that may be expected are named, those in the CIDRs last, and not InfiniBand.

    A rule without effect does not stand in the way of this remedy.
    """
    networks = ["172.16.0.4/16", "10.7.1.4/24", "10.7.2.4/24"]
    assert _remedy([*zip(devs, networks, strict=False)]) == told


@pytest.mark.parametrize(
    ("kind", "fact", "told"),
    [
        ("e", "", "the device may be {} or 1 more"),
        ("ib", ", InfiniBand", "no device other than {} and 1 more is up and has an IPv4 address"),
    ],
)
def test_many_devices_that_may_be_meant(kind: str, fact: str, told: str) -> None:
    """Of very many devices, twenty are named."""
    names = [f"{kind}{at} (10.7.{at}.4/24{fact})" for at in range(20)]
    assert _remedy([(f"{kind}{at}", f"10.7.{at}.4/24") for at in range(21)]) == told.format(", ".join(names))


def _remedy(interfaces: list[tuple[str, str]]) -> str:
    rules = [LOCAL, MAIN, LAST, Rule(family=4, priority=40_000, table=77)]
    config = HostRoutingConfig(route_overlap={"expectedCidrs": ["172.16.0.0/16"], "allowedDevs": ["wg*"]})
    first, *_ = check_findings(examine_snapshot(host(interfaces, rules=rules), config), mode="STRICT")
    assert first.name == "no-default-route"
    return first.remedy.removeprefix("add a default route, or name routeOverlap.expectedDevs: ")


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        (
            ("wireguard",),
            '; if wg7 (wireguard) is intended: "allowedDevs": ["...", "wg7"] ("..." stands for the defaults)',
        ),
        (
            ("vxlan", "geneve"),
            '; if wg7 (vxlan) and wg8 (geneve) are intended: "allowedDevs": ["...", "wg7", "wg8"] ("..." stands for the defaults)',
        ),
        (("",), ""),
        (("", "vxlan"), ""),
        (("ipoib",), ""),
    ],
)
def test_what_a_device_is(kinds: tuple[str, ...], told: str) -> None:
    """For a virtual device that was not named, the line has its kind, and how to allow it; not for network cards."""
    devs = [f"wg{at}" for at in range(7, 7 + len(kinds))]
    snapshot = plain().with_routes([Route(Prefix.parse("172.16.3.0/24"), tuple(map(NextHop, devs)), protocol=4)])
    links = [
        Link(name=dev, index=20 + at, kind=kind, type=ARPHRD_INFINIBAND if kind == "ipoib" else 1)
        for at, (dev, kind) in enumerate(zip(devs, kinds, strict=True))
    ]
    snapshot = attrs.evolve(snapshot, links=(*snapshot.links, *links))
    assert [line.partition("expected eth0")[2] for line in lines(snapshot)] == [told]


def test_the_gateway_of_an_escape() -> None:
    """Of a route with several next hops, the gateway is that of the device by which packets escape."""
    ways = [NextHop(dev, gateway=as_ip(f"10.0.{at}.1")) for at, dev in enumerate(("eth0", "wg0"))]
    (finding,) = findings(plain().with_routes([Route(Prefix.parse("172.16.0.0/16"), tuple(ways))]), "overlap")
    assert (finding.facts["via"]["dev"], finding.facts["via"]["gateway"]) == ("wg0", "10.0.1.1")


def test_no_route_line() -> None:
    """A CIDR without a route says so, and no route has an owner."""
    fib = Fib(host([("eth0", "10.0.0.4/24")]))
    assert [owner_name(it) for it in check_overlap(fib, ["172.16.0.0/16"], expected_devs=["eth0"]).escapes] == [""]
    assert lines(host([("eth0", "10.0.0.4/24")]), "eth0", "eth1") == [
        (
            "NO-ROUTE: expected CIDR 172.16.0.0/16 (172.16.0.0–172.16.255.255) has no IPv4 route; "  # noqa: RUF001  as printed
            "expected via eth0, eth1"
        )
    ]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("unreachable", "UNREACHABLE: {} is unreachable [unreachable 172.16.0.0/16 proto static]"),
        ("blackhole", "BLACKHOLE: {} is dropped by a blackhole [blackhole 172.16.0.0/16 proto static]"),
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
        [("eth0", "10.0.0.4/24")], [DEFAULT, Route.to("172.16.0.0/24", dev="wg0", table=52, protocol=3)], rules=rules
    )
    first, second = lines(snapshot)
    assert first.endswith("routes via wg0 [172.16.0.0/24 proto boot table 52, rule 7], expected eth0")
    assert second.endswith("is refused [rule 8: from all to 172.16.9.0/24 prohibit]; expected via eth0")


def test_note_line() -> None:
    """A note says for which packets the verdict does not hold, and where those go."""
    rule = Rule(family=4, priority=100, table=77, fwmark=1, fwmask=1, uids=(0, 99))
    snapshot = host(
        [("eth0", "10.0.0.4/24")],
        [DEFAULT, Route.to("172.16.4.0/24", dev="wg0", table=77, protocol=3)],
        rules=[LOCAL, rule, MAIN],
    )
    (note,) = findings(snapshot, "other-packets")
    assert (note.severity, note.target) == ("warning", "172.16.0.0/16")
    assert note.facts == {"cidr": "172.16.0.0/16", "first": "172.16.4.0", "last": "172.16.4.255", "known": ""}
    assert note.remedy.startswith('if this is intended, add to routeOverlap.intendedRules: [{"rule": "fwmark 0x1/0x1')
    assert note.sentence == (
        "expected CIDR 172.16.0.0/16 (172.16.4.0–172.16.4.255): packets with fwmark 0x1/0x1, "  # noqa: RUF001  as printed
        "of users 0-99 (rule 100) leave by wg0 [172.16.4.0/24 proto boot table 77, rule 100]; "
        "the verdict does not hold for these packets"
    )


@pytest.mark.parametrize("others", [(("iif-altname", "loop0"),), (("tun_id", "7"),)])
def test_a_rule_that_cannot_be_declared(others: tuple[tuple[str, str], ...]) -> None:
    """No entry is proposed that the configuration refuses. Kills: an entry of every rule."""
    snapshot = host(
        [("eth0", "10.0.0.4/24")],
        [DEFAULT, Route.to("172.16.4.0/24", dev="wg0", table=77, protocol=3)],
        rules=[LOCAL, Rule(family=4, priority=100, table=77, fwmark=1, fwmask=1, others=others), MAIN],
    )
    (note,) = findings(snapshot, "other-packets")
    renamed = "name the device of rule 100 by the name that ip link shows first, not by loop0"
    assert (note.severity, note.remedy) == ("warning", renamed * (others[0][0] == "iif-altname"))


def test_document() -> None:
    """The JSON of a check has exactly the documented shape."""
    config = HostRoutingConfig(route_overlap={"expectedCidrs": ["172.16.0.0/16"]})
    document = check_document(examine_snapshot(h200(), config), mode="STRICT")
    escape, action, cost = document.pop("findings")
    assert document == {
        "schema": "hostrouting/check/3",
        "verdict": "overlap",
        "verdicts": {"ipv4": "overlap"},
        "mode": "STRICT",
        "expectedDevs": {"ipv4": ["eth0"]},
        "repair": [
            {"destination": half, "gateway": "", "dev": "", "metric": 0}
            for half in ("172.16.0.0/17", "172.16.128.0/17")
        ],
    }
    assert escape.pop("sentence").startswith("expected CIDR 172.16.0.0/16 (")
    assert escape == {
        "name": "overlap",
        "severity": "error",
        "target": "172.16.0.0–172.16.255.255",  # noqa: RUF001  as printed
        "remedy": "",
        "facts": {
            "cidr": "172.16.0.0/16",
            "first": "172.16.0.0",
            "last": "172.16.255.255",
            "prefixes": ["172.16.0.0/16"],
            "devs": ["ib0"],
            "via": {
                "dev": "ib0",
                "gateway": None,
                "route": "172.16.0.0/16",
                "table": "main",
                "protocol": "kernel",
                "rule": 32766,
            },
        },
        "canRetry": False,
    }
    assert (action["name"], action["facts"]) == ("action", {"routes": document["repair"]})
    assert (cost["name"], cost["target"]) == ("repair-cost", "172.16.0.0/16")
    assert cost["sentence"].startswith("the repair diverts addresses of 172.16.0.0/16 from ib0, ib1, ")


def test_what_is_unsafe() -> None:
    """A range that cannot be repaired has its reason in words, and the route or rule that decides it."""
    theirs = Route.to("172.16.0.9/32", dev="ib0", gateway="10.0.0.8", protocol=3)
    escape, unsafe = findings(plain().with_routes([theirs]), "overlap", "unsafe", "action", "repair-cost")
    assert escape.facts["via"]["gateway"] == "10.0.0.8"
    ranges = [{"first": "172.16.0.9", "last": "172.16.0.9"}]
    assert (unsafe.severity, unsafe.target) == ("error", "172.16.0.9")
    assert unsafe.facts == {"reason": "longest-prefix", "ranges": ranges}
    told = "172.16.0.9 is matched by 172.16.0.9/32 proto boot: no prefix can be longer, and routes of others are never replaced"
    assert unsafe.sentence == told


@pytest.mark.parametrize(
    ("lasts", "told"),
    [
        ((9, 11), "172.16.0.9 and 172.16.0.11 are matched by 172.16.0.9/32 proto boot and 1 more route: "),
        ((9, 10), "172.16.0.9–172.16.0.10 is matched by 172.16.0.9/32 proto boot and 1 more route: "),  # noqa: RUF001
        (
            (9, 11, 13),
            "172.16.0.9, 172.16.0.11 and 172.16.0.13 are matched by 172.16.0.9/32 proto boot and 2 more routes: ",
        ),
        (
            (9, 11, 13, 15, 17),
            "172.16.0.9, 172.16.0.11, 172.16.0.13 and 2 more are matched by 172.16.0.9/32 proto boot and 4 more routes: ",
        ),
    ],
)
def test_ranges_of_one_cause(lasts: tuple[int, ...], told: str) -> None:
    """Ranges that follow each other are one; of many, three are named, and of their routes one."""
    theirs = [Route.to(f"172.16.0.{last}/32", dev="ib0", protocol=3) for last in lasts]
    (unsafe,) = findings(plain().with_routes(theirs), "unsafe")
    assert unsafe.sentence.startswith(told)


def noted(*rules: Rule, routes: tuple[Route, ...] = ()) -> list[str]:
    """What the notes of a check on 172.16.0.0/16 say, from the packets on."""
    snapshot = host([("eth0", "10.0.0.4/24")], [DEFAULT, *routes], rules=[LOCAL, *rules, MAIN])
    told = [finding.sentence for finding in findings(snapshot, "other-packets")]
    return [it.partition("): ")[2].partition("; the verdict does not")[0] for it in told]


def of_user(number: int, **does: object) -> Rule:
    """A rule for packets of one user."""
    return Rule(family=4, priority=100 + number, uids=(1000 + number, 1000 + number), **does)  # type: ignore[arg-type]  # a rule's own


AWAY = Route.to("172.16.0.0/16", dev="wg0", table=77, protocol=3)


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "packets of user 1000 (rule 100) leave by wg0 "),
        (2, "packets of user 1000 (rule 100), or of user 1001 (rule 101) leave by wg0 "),
        (4, ", or of user 1002 (rule 102), or of 1 more kind, leave by wg0 "),
        (9, ", or of user 1002 (rule 102), or of 6 more kinds, leave by wg0 "),
    ],
)
def test_note_of_many_rules(count: int, words: str) -> None:
    """Rules that do the same to the packets that they select are one note, which names the first few."""
    (line,) = noted(*(of_user(number, table=77) for number in range(count)), routes=(AWAY,))
    assert words in line
    assert line.endswith("[172.16.0.0/16 proto boot table 77, rule 100]")


@pytest.mark.parametrize(("numbers", "words"), [((3,), "1 more route"), ((3, 4, 9), "3 more routes")])
def test_note_of_many_routes(numbers: tuple[int, ...], words: str) -> None:
    """Packets that leave by one device through several routes are one note, which counts them."""
    more = [Route.to(f"172.16.{number}.0/24", dev="wg0", table=77, protocol=3) for number in numbers]
    (line,) = noted(of_user(0, table=77), routes=(*more, AWAY))
    assert line.endswith(f"leave by wg0 [172.16.0.0/16 proto boot table 77, rule 100 and {words}]")


def test_a_note_that_no_rule_makes() -> None:
    """Packets that a route takes by their type of service cannot be declared by a rule."""
    other = attrs.evolve(Route.to("172.16.4.0/24", dev="wg0"), tos=8)
    (note,) = findings(plain().with_routes([other]), "other-packets")
    assert (note.severity, note.remedy) == ("warning", "")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (of_user(0, action="blackhole"), "vanish in a blackhole [rule 100: from all uidrange 1000-1000 blackhole]"),
        (of_user(0, action="prohibit"), "are refused [rule 100: from all uidrange 1000-1000 prohibit]"),
        (of_user(0, action="unreachable"), "are refused [rule 100: from all uidrange 1000-1000 unreachable]"),
        (of_user(0, action="goto", target=40000), "find no route [no rule]"),
    ],
)
def test_note_of_packets_that_do_not_leave(rule: Rule, words: str) -> None:
    """Packets that a rule drops do not "leave": the report says what happens to them."""
    beyond = Rule(family=4, priority=40000, table=99)
    snapshot = host([("eth0", "10.0.0.4/24")], [DEFAULT], rules=[LOCAL, rule, MAIN, beyond])
    (note,) = findings(snapshot, "other-packets")
    assert f"packets of user 1000 (rule 100) {words}; the verdict does not hold for these packets" in note.sentence


def test_note_of_packets_that_fare_well() -> None:
    """If all other packets escape, the line says which leave as expected, and which stay on the host."""
    captured = Route.to("172.16.0.0/16", dev="ib0", protocol=2)
    well = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=77)
    own = Route(Prefix.parse("0.0.0.0/0"), Route.to("0.0.0.0/0", dev="lo").legs, table=78, type="local")
    lines = noted(of_user(0, table=77), of_user(1, table=78), routes=(captured, well, own))
    assert lines == [
        "packets of user 1000 (rule 100) leave as expected, by eth0 [default proto unspec table 77, rule 100]",
        "packets of user 1001 (rule 101) stay on this host [local default proto unspec table 78, rule 101]",
    ]


def test_a_range_that_the_host_keeps() -> None:
    """A whole range of type local is not an escape, and has a line: its packets never leave."""
    legs = Route.to("0.0.0.0/0", dev="lo").legs
    anyip = Route(Prefix.parse("172.16.0.0/17"), legs, table=255, type="local", protocol=3)
    snapshot = host([("eth0", "10.0.0.4/24"), ("eth1", "172.16.200.1/24")], [DEFAULT, anyip])
    (kept,) = findings(snapshot, "own-range")
    assert (kept.severity, kept.target) == ("note", "172.16.0.0–172.16.127.255")  # noqa: RUF001  as printed
    assert kept.sentence == (
        "expected CIDR 172.16.0.0/16 (172.16.0.0–172.16.127.255) is this host's own "  # noqa: RUF001  as printed
        "[local 172.16.0.0/17 proto boot table local, rule 0]: packets for it never leave"
    )


def test_a_route_that_only_says_it_is_the_kernels() -> None:
    """The line ends with it when no address explains a route of the kernel's; what it begins with stays as it is."""
    hidden = Route.to("172.16.0.0/16", dev="ib0", protocol=2)
    (line,) = lines(host([("eth0", "10.0.0.4/24"), ("ib0", "10.2.0.4/24")], [DEFAULT, hidden]))
    assert line.endswith(
        "routes via ib0 [172.16.0.0/16 proto kernel], expected eth0; owner: kernel (but no address on ib0 makes the kernel add this route)"
    )
    (known,) = lines(host([("eth0", "10.0.0.4/24"), ("ib0", "172.16.1.10/16")], [DEFAULT]))
    assert known.endswith("[172.16.0.0/16 proto kernel], expected eth0")


def test_a_lost_carrier_is_told() -> None:
    """A route whose device has no carrier wins anyway: the line says so."""
    legs = tuple(attrs.evolve(leg, linkdown=True) for leg in Route.to("0.0.0.0/0", dev="ib0").legs)
    route = Route(Prefix.parse("172.16.0.0/16"), legs, protocol=2)
    (line,) = lines(plain().with_routes([route]))
    assert "routes via ib0 [172.16.0.0/16 proto kernel linkdown], expected eth0" in line


def test_what_is_taken_from_a_tunnel() -> None:
    """If no network is connected no neighbours are lost, but a tunnel no longer carries the range."""
    halves = [Route.to(text, dev="wg0", protocol=3) for text in ("0.0.0.0/1", "128.0.0.0/1")]
    fib = Fib(host([("eth0", "10.0.0.4/24")], [DEFAULT, *halves], links=[]))
    found = examined(fib, check_overlap(fib, [Prefix.parse("172.16.0.0/16")]))
    assert [cost.sentence for cost in found.costs] == [
        "the repair diverts addresses of 128.0.0.0/1 from wg0: packets for the repaired range no longer go there"
    ]


@pytest.mark.parametrize(
    ("rules", "devs", "words"),
    [
        (
            [LOCAL, attrs.evolve(MAIN, invert=True, dst=Prefix.parse("172.16.0.0/16"))],
            ["eth0"],
            "is not looked up in table main by any policy rule, so a route there cannot help: see 'ip rule'",
        ),
        (
            [LOCAL, MAIN],
            ["eht0"],
            "cannot be repaired: this needs the device eht0, which expectedDevs names; this host has eth0",
        ),
        (
            [LOCAL, Rule(family=4, priority=9, action="prohibit", dst=Prefix.parse("172.16.0.0/16")), MAIN],
            ["eth0"],
            "is decided by rule 9: from all to 172.16.0.0/16 prohibit before table main is looked up; no route in table main can change that",
        ),
    ],
)
def test_why_there_is_no_repair(rules: list[Rule], devs: list[str], words: str) -> None:
    """The line about a range that no route can repair names the obstacle, or what is missing."""
    (unsafe,) = findings(host([("eth0", "10.0.0.4/24")], [DEFAULT], rules=rules), "unsafe", devs=devs)
    assert unsafe.sentence == f"172.16.0.0–172.16.255.255 {words}"  # noqa: RUF001  as printed


# The packets that rules match, in words


RULE = Rule(family=4, priority=100)


def about(*selectors: tuple[str, str], holds: bool = True) -> Condition:
    """One condition of a rule."""
    return Condition(RULE, selectors, holds)


@pytest.mark.parametrize(
    ("selector", "words", "opposite"),
    [
        (("from", "10.0.0.0/8"), "from 10.0.0.0/8", "not from 10.0.0.0/8"),
        (("from", "fd00::5/128"), "from fd00::5", "not from fd00::5"),
        (("iif", "lo"), "sent by this host", "forwarded by this host"),
        (("uidrange", "0-0"), "of user 0", "not of user 0"),
        (("fwmark", "0x1/0xff"), "with fwmark 0x1/0xff", "without fwmark 0x1/0xff"),
        (("tun_id", "5"), "with tun_id 5", "without tun_id 5"),
    ],
)
def test_each_selector(selector: tuple[str, str], words: str, opposite: str) -> None:
    """A selector and its opposite are worded as properties of packets; the plain cases are in `model/test_rule`."""
    assert packets_line(((about(selector),),)) == f"packets {words} (rule 100)"
    assert packets_line(((about(selector, holds=False),),)) == f"packets {opposite} (rule 100)"


def test_a_reachable_gateway() -> None:
    """A condition about the host is worded without a rule."""
    gateway = ("reachable", "fe80::1 dev e0")
    assert packets_line(((about(gateway),),)) == "packets sent while fe80::1 dev e0 is reachable"
    assert packets_line(((about(gateway, holds=False),),)) == "packets sent while fe80::1 dev e0 is not reachable"


def test_several_selectors_of_one_rule() -> None:
    """All conditions are true; or the packets are all except those for which all are true."""
    both = (("fwmark", "0x1/0xff"), ("uidrange", "0-0"))
    assert packets_line(((about(*both),),)) == "packets with fwmark 0x1/0xff, of user 0 (rule 100)"
    assert packets_line(((about(*both, holds=False),),)) == (
        "packets except those with fwmark 0x1/0xff and of user 0 (rule 100)"
    )


def test_no_sentence_without_end() -> None:
    """Only the first few of many conditions or kinds are listed, with the number of the remaining ones."""
    many = [about(("uidrange", f"0-{number}"), holds=False) for number in range(200)]
    line = packets_line((tuple(many), *((condition,) for condition in many[:9])))
    assert line == (
        "packets not of user 0 (rule 100) and not of users 0-1 (rule 100) and not of users 0-2 (rule 100) "
        "and not of users 0-3 (rule 100) and 196 more conditions, "
        "or not of user 0 (rule 100), or not of users 0-1 (rule 100), or of 7 more kinds,"
    )
    assert packets_line((tuple(many[:5]),)).endswith(" and 1 more condition")
    assert packets_line(tuple((condition,) for condition in many[:4])).endswith(", or of 1 more kind,")


# Documents that were written on a host, read again


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"schema": "hostrouting/check/3", "verdict": "ok"}', True),
        ('{"verdict": "ok", "schema": "hostrouting/guard/2"}\n', False),
        ('{"schema": "hostrouting/check/1"}', False),
        ('{"schema": ["hostrouting/check/3"]}', False),
        ("{}", False),
        ('["hostrouting/check/3"]', False),
        ("[" * 100_000, False),
        ("not JSON", False),
        ("", False),
        (None, False),
    ],
)
def test_documents_read_again(text: str | None, found: bool) -> None:  # noqa: FBT001  a table of what is found
    """A document with the schema is found; anything else is an empty one."""
    assert bool(document_in(text, CHECK_SCHEMA)) is found


@pytest.mark.parametrize("found", [None, "none", 1, [], ["overlap"], [{"name": "expiry"}], [{}]])
def test_a_document_without_escapes(found: object) -> None:
    """Only findings about escapes are taken from a document, whatever it has in their place."""
    escape = {"name": "overlap"}
    assert escapes_in({"findings": found}) == []
    assert escapes_in({"findings": [*found, escape] if isinstance(found, list) else [escape]}) == [escape]
