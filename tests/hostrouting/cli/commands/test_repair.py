"""`repair`: the routes to paste, what they cost, and what they cannot close."""

import pytest

from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeHost, MemoryBackend, ecmp_node, h200, plain_vm, vpn_node
from tests.support.cli import say

CIDR = "172.16.0.0/16"


def test_the_whole_page() -> None:
    """First how many routes; then what they cost, before anyone can paste; then they, as configuration and as commands."""
    said = say("repair", CIDR, kernel=h200())
    assert said.code == 0
    assert said.lines == [
        "REPAIR: 2 static routes repair every escape; this was proved on the present tables",
        "",
        (
            "REPAIR-COST: the repair diverts addresses of 172.16.0.0/16 from ib0, ib1, ib2, ib3, ib4, ib5, ib6, ib7: neighbours "
            "there, in the repaired range, become unreachable over IP"
        ),
        "",
        "Permanently, put this into the configuration and run, as root: hostrouting apply --config FILE",
        '  {"staticRoutes": {"enabled": true, "routes": [',
        '    {"destination": "172.16.0.0/17", "gateway": "", "dev": "", "metric": 0},',
        '    {"destination": "172.16.128.0/17", "gateway": "", "dev": "", "metric": 0}',
        "  ]},",
        '  "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "WARN"}}',
        "",
        "Until the next boot, as root:",
        "  ip route add 172.16.0.0/17 via 10.0.0.1 dev eth0 proto 213",
        "  ip route add 172.16.128.0/17 via 10.0.0.1 dev eth0 proto 213",
    ]


@pytest.mark.parametrize(
    ("kernel", "code", "answer"),
    [
        (plain_vm(), 0, "OK: every address of 172.16.0.0/16 leaves by eth0"),
        (MemoryBackend(), 3, "NO-DEFAULT-ROUTE: there is no IPv4 default route"),
    ],
)
def test_nothing_to_repair(kernel: MemoryBackend, code: int, answer: str) -> None:
    """Without an escape there is nothing to repair; an unknown verdict gives no proposal."""
    said = say("repair", CIDR, kernel=kernel)
    assert said.code == code
    assert said.lines[0].startswith(answer)
    assert said.lines[1] == ("No static route can be proposed." if code else "There is nothing to repair.")
    assert len(said.lines) == (5 if code else 2)


def test_the_other_family_has_no_default_route() -> None:
    """The routes repair what is known; the family without a default route is named, and the exit code says so."""
    said = say("repair", CIDR, "2001:db8:99::/48", kernel=h200())
    assert said.code == 3
    assert said.lines[:2] == [
        "REPAIR: 2 static routes repair every known escape; this was proved on the present tables",
        "NO-DEFAULT-ROUTE: there is no IPv6 default route, so no device is expected for 2001:db8:99::/48",
    ]
    assert say("repair", CIDR, "2001:db8:99::/48", "--json", kernel=h200()).json["closes"] == "some"


def rails() -> MemoryBackend:
    """An H200 host where the packets of a user leave by a rail: for each a rule, and a table of its own."""
    kernel = h200()
    for number in range(8):
        kernel.add_rule(Rule(family=4, priority=1000 + number, uids=(2000 + number, 2000 + number), table=300 + number))
        kernel.ip_route("add", Route.to(CIDR, dev=f"ib{number}", table=300 + number))
    return kernel


def test_what_check_says_afterwards() -> None:
    """The verdict after the repair is announced, and so is that only plain packets are repaired. Kills: "every escape"."""
    kernel = rails()
    said, document = (say("repair", CIDR, *more, kernel=kernel.reopen()) for more in ((), ("--json",)))
    assert (said.code, document.code, document.json["closes"]) == (3, 3, "some")
    verdict = (
        "UNDECIDED: a plain packet to 172.16.0.0/16 leaves by eth0; packets of user 2000 (rule 1000) leave by ib0;"
        " packets of 7 more kinds escape, too"
    )
    assert said.lines[:2] == [
        "REPAIR: 2 static routes repair every escape of plain packets; this was proved on the present tables",
        f"Afterwards: {verdict}",
    ]
    config = say("repair", CIDR, "--as-config", kernel=kernel.reopen())
    host = FakeHost(kernel=kernel.reopen())
    applied = say("apply", "--config", "-", host=host, stdin=config.out.encode())
    assert applied.lines[1] == verdict
    # Each kind of packets is in the log, and only there.
    kinds = [f"packets of user {2000 + number} (rule" for number in range(8)]
    assert [applied.err.count(kind) for kind in kinds] == [1] * 8
    assert [applied.out.count(kind) for kind in kinds] == [1, *[0] * 7]
    assert "Other packets are routed differently; to see which: hostrouting check" in applied.lines
    after = say("check", host=host)
    assert (after.code, after.lines[0]) == (3, verdict)
    assert [after.out.count(kind) for kind in kinds] == [2, *[1] * 7]


def test_what_no_route_can_close() -> None:
    """What is decided before table main is looked up is reported as out of reach: exit code 1."""
    kernel = plain_vm()
    kernel.add_rule(Rule(family=4, priority=100, action="prohibit", dst=Prefix.parse("172.16.0.0/24")))
    said = say("repair", CIDR, kernel=kernel)
    assert said.code == 1
    assert said.lines[0] == "NO REPAIR: no static route can repair the escapes"
    assert said.lines[2].startswith("UNSAFE: 172.16.0.0")


def test_what_is_not_repaired_costs_nothing() -> None:
    """Kills: the cost of a repair that was given up."""
    kernel = plain_vm()
    kernel.ip_route("add", Route.to("239.0.0.0/8", type="unreachable"))
    said = say("repair", "239.0.0.0/8", kernel=kernel)
    assert (said.lines[0], "REPAIR-COST" in said.out) == ("NO REPAIR: no static route can repair the escapes", False)


def test_a_part_of_it() -> None:
    """If routes can repair only a part, the answer lists both parts: exit code 1."""
    kernel = h200()
    kernel.add_rule(Rule(family=4, priority=100, action="prohibit", dst=Prefix.parse("10.99.0.0/16")))
    said = say("repair", CIDR, "10.99.0.0/16", kernel=kernel)
    assert said.code == 1
    assert said.lines[0] == "PARTLY: 2 static routes repair what can be repaired; the rest is listed first"
    [lost] = [text for text in said.lines if text.startswith("UNSAFE: ")]
    assert said.lines.index(lost) < said.lines.index("Until the next boot, as root:")


def test_many_costs_hide_no_loss() -> None:
    """What no route can repair comes before the costs, which are too many to show. Kills: the costs come first."""
    kernel = plain_vm()
    for number in range(30):
        kernel.add_link(Link(name=f"d{number}", index=0))
        kernel.add_address(f"d{number}", f"172.20.{number}.1/24")
    kernel.add_rule(Rule(family=4, priority=100, action="prohibit", dst=Prefix.parse("9.9.9.0/24")))
    for command in ("check", "repair"):
        said = say(command, "172.20.0.0/16", "9.9.9.0/24", kernel=kernel.reopen())
        told = [text.partition(":")[0] for text in said.lines]
        assert [name for name in told if name in {"UNSAFE", "REPAIR-COST"}] == ["UNSAFE", *["REPAIR-COST"] * 19]


def test_a_default_route_that_is_not_used() -> None:
    """The page and the document say which default route the proposed routes pass over. Kills: only check says it."""
    kernel = vpn_node()
    kernel.ip_route("add", Route.to(CIDR, dev="eth0"))
    [found] = [one for one in say("repair", CIDR, "--json", kernel=kernel).json["findings"] if one["target"] == "eth0"]
    assert found["name"] == "unused-default-route"
    assert f"UNUSED-DEFAULT-ROUTE: {found['sentence']}" in say("repair", CIDR, kernel=kernel.reopen()).lines


def test_ecmp() -> None:
    """With two uplinks the configuration leaves the gateways open, and the commands spell out both."""
    kernel = ecmp_node()
    kernel.ip_route("add", Route.to("172.16.0.0/16", type="blackhole"))
    document = say("repair", CIDR, "--json", kernel=kernel).json
    assert document["routes"][0] == {"destination": "172.16.0.0/17", "gateway": "", "dev": "", "metric": 0}
    assert document["commands"][0] == (
        "ip route add 172.16.0.0/17 proto 213 nexthop via 10.0.0.1 dev eth0 weight 1 nexthop via 10.1.0.1 dev eth1 weight 1"
    )
