"""Each finding of a check in words, on a node that has it."""

from typing import Any

import pytest

from hostrouting.check.sentences import (
    check_findings,
    repair_commands,
)
from hostrouting.config.settings import Mode
from hostrouting.finding import WRONG, Finding
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.testing import plain_vm
from tests.support.topologies import WG1, checked, cni_node, vm_of, vm_with

CIDR = "172.16.0.0/16"
ANYWHERE = Prefix.parse("0.0.0.0/0")
ETH1 = Link(name="eth1", index=9)
VM = plain_vm().snapshot()


def without(priority: int) -> Snapshot:
    """A plain VM without the rule of this priority."""
    return VM._replace(rules=tuple(rule for rule in VM.rules if rule.priority != priority))


NO_DEFAULT = vm_of("-default")
DOCKER = Link(name="docker0", index=9, kind="bridge")


def findings(
    snapshot: Snapshot, *cidrs: str, mode: Mode = "STRICT", **section: Any
) -> tuple[Finding, ...]:
    """The findings of that check."""
    return check_findings(checked(snapshot, *cidrs, **section), mode=mode)


def named(
    name: str, snapshot: Snapshot, *cidrs: str, mode: Mode = "STRICT", **section: Any
) -> list[Finding]:
    """The findings of that check that have this name."""
    return [each for each in findings(snapshot, *cidrs, mode=mode, **section) if each.name == name]


CNI = cni_node().snapshot()
HIDING = Route.to("10.244.0.0/25", dev="docker0", protocol=2)
"""A route that hides pods of cni0."""
BY_ETH1 = "default via 10.1.0.1 dev eth1 table 2"

HOSTS: dict[str, Snapshot | str] = {
    "own range": "local 172.16.5.0/24 dev lo proto 2 table 255 scope 0",
    "no route": "throw 172.16.5.0/24",
    "blackhole": "blackhole 172.16.5.0/24 proto 12",
    "unreachable": "unreachable 172.16.5.0/24 proto 4; unreachable 172.16.9.9/32 proto 4",
    "a rule that refuses": "rule pref 50 to 172.16.5.0/24 prohibit",
    "no default route": "-default",
    "by InfiniBand": "-default; default dev ib0 proto 16",
    "by the loopback device": "-default; default dev lo",
    "by a dead end": "-default; link ifb0 ifb; default dev ifb0",
    "in a table without a rule": "-default; default dev eth1 table 7",
    "on link": "172.16.5.0/24 dev eth0 proto 3",
    "a repair of one route": "link docker0 bridge; 172.16.5.0/24 dev docker0 proto 2 metric 9",
    "not proven": "link docker0 bridge; 172.16.5.7/32 dev docker0",
    "beside a rule in doubt": "link docker0 bridge; 172.16.5.0/24 dev docker0; "
    "default dev docker0 table 100; rule pref 50 fwmark 1/1",
    "competing defaults": "default via 10.1.0.1 dev eth1 proto 16 metric 200",
    "equal defaults": "default via 10.1.0.1 dev eth1 proto 16 metric 100",
    "a tunnel, which does not compete": "default dev wg1 metric 500",
    "not judged": "rule pref 50 goto 100",
    "services that hold the host": VM,
    "a network of a tunnel and of a card": "172.16.0.0/17 dev wg1 metric 9; "
    "172.16.128.0/17 dev eth1",
    "two rails": "link ib1 ib; 172.16.0.0/16 via 172.16.0.1 dev ib0; 172.16.1.0/24 dev ib1; "
    "address 172.16.0.9/24 dev ib0; address 172.16.1.9/24 dev ib1",
    "a bridge of containers": "link docker0 bridge; 172.16.0.0/16 dev docker0 proto 2",
    "a bridge with a card": "link docker0 bridge; link eth1 nic docker0; "
    "172.16.0.0/16 dev docker0 proto 2",
    "what a static route lacks": "-default; 172.16.0.0/16 dev ib0; "
    "default via 10.0.0.1 dev eth0 proto 16 metric 100 mtu 9000 advmss 8960",
    "a default route of a card that is not expected": "default via 10.1.0.1 dev eth1 proto 16 "
    "metric 50",
    "a rule that decides first": "172.16.0.0/17 dev wg1 table 52; 172.16.128.0/17 dev ib0 table 52;"
    "rule pref 5270 lookup 52",
    "a rule for the pods of a second card": f"{BY_ETH1}; rule pref 1536 from 10.0.1.7/32 lookup 2",
    "a rule for all but what is sent": f"{BY_ETH1}; rule pref 50 iif lo lookup 254; "
    "rule pref 60 lookup 2",
    "a rule for connections": f"{BY_ETH1}; rule pref 50 from 10.0.0.4/32 lookup 2; "
    "rule pref 40 to 172.16.5.0/24 prohibit",
    "in table local": "multicast 172.16.0.0/16 dev ib0 table 255",
    "as specific as a route can be": "link docker0 bridge; 172.16.5.5/32 dev docker0 proto 4",
    "our own, as specific as a route can be": "ipv6; fd16::5/128 dev ib0 metric 100 proto ours",
    "what hides pods": CNI.with_routes([HIDING, Route.to("10.244.128.0/17", dev="wg1")])._replace(
        links=(*CNI.links, DOCKER, WG1)
    ),
    "a rule that hides pods": "address 10.244.0.1/24 dev cni0; 10.244.0.0/24 dev cni0; "
    "10.244.0.0/25 dev eth1 table 7; 10.244.0.128/25 dev eth1; rule; "
    "default via 10.1.0.1 dev eth1 table 100",
    "a blackhole that hides pods": CNI.with_routes(
        [HIDING._replace(type="blackhole", next_hops=())]
    ),
    "two next hops": "link ib1 ib; "
    "172.16.5.0/24 proto 3 nexthop dev eth0 nexthop dev ib0 nexthop dev ib1",
    "no local rule": without(0),
    "no main rule": without(32766),
}
CIDRS = {
    "our own, as specific as a route can be": "fd16::/64",
    "what hides pods": "10.244.0.0/16",
    "a rule that hides pods": "10.244.0.0/16",
    "a blackhole that hides pods": "10.244.0.0/16",
}
SECTIONS: dict[str, dict[str, Any]] = {
    "equal defaults": {"expected_devs": ["eth0"]},
    "services that hold the host": {"service_cidrs": ["10.0.0.0/16"]},
    "a default route of a card that is not expected": {"expected_devs": ["eth0"]},
}


def test_no_device_is_to_be_allowed_while_a_route_hides_pods() -> None:
    """With docker0 allowed, the check would be OK while pods of cni0 are unreachable."""
    host = HOSTS["what hides pods"]
    assert isinstance(host, Snapshot)
    of_both = findings(host, "10.244.0.0/16", mode="WARN")
    assert "--allow" not in "".join(str(finding.remedy) for finding in of_both)


@pytest.mark.parametrize(
    "link",
    [
        pytest.param(Link("ib0.8001", index=10, kind="ipoib", type=32), id="InfiniBand"),
        pytest.param(Link("bond1", index=10, kind="bond"), id="a card"),
        pytest.param(Link("eth1", index=10, kind="veth"), id="a card of a machine"),
        pytest.param(Link("lo", index=1, type=772), id="no device to leave by"),
        pytest.param(Link("dummy0", index=10, kind="dummy"), id="a dead end"),
    ],
)
def test_to_allow_a_card_is_no_remedy(link: Link) -> None:
    """It has a kind, as virtual devices do, and is the outage that a check is for."""
    host = vm_with(Route.to(CIDR, dev=link.name), links=(link,))
    [escape, *_] = findings(host, mode="WARN")
    assert escape.name == "overlap"
    assert escape.remedy is None
    assert "mayAllow" not in escape.facts


def test_the_cost_of_a_repair() -> None:
    """It names what the routes take, and not an address for which no route is longer."""
    host = vm_of("172.16.5.0/24 dev eth1; link docker0 bridge; 172.16.5.9/32 dev docker0")
    [action] = named("action", host)
    told = "hosts in 172.16.5.0-172.16.5.8 and 172.16.5.10-172.16.5.255 are then no longer reached"
    assert f"{told} through eth1" in action.sentence
    assert "docker0" not in action.sentence


def test_what_a_repair_needs_is_not_what_another_device_needs() -> None:
    """The reason is that of the routes that were tried last."""
    host = vm_of(
        "default via 10.1.0.1 dev eth1 metric 50; link docker0 bridge; 172.16.5.9/32 dev docker0"
    )
    [unsafe] = named("unsafe", host, expected_devs=["eth0"])
    assert "eth1" not in unsafe.sentence


def test_the_sentence_of_a_verdict_with_several_doubts() -> None:
    """The first doubt is told, and how many more there are."""
    to_100 = Rule(family=4, priority=50, action="goto", target=100)
    rules = (to_100, to_100._replace(target=200), to_100._replace(target=300))
    [family] = checked(vm_with(rules=rules)).families
    assert family.sentence == "hostrouting does not judge rule 50: from all goto 100; and 2 more"


@pytest.mark.parametrize(("key", "count"), [("metric 9 proto 4", 1), ("proto ours", 0)])
def test_a_route_of_ours_has_the_place_of_a_command(key: str, count: int) -> None:
    """Then only a configuration repairs the host."""
    host = vm_of(f"172.16.0.0/15 dev eth1; 172.16.0.0/16 dev ib0 {key}")
    assert len(repair_commands(checked(host, "172.16.0.0/16"))) == count


def test_each_line(snapshot: object) -> None:
    """The line names the thing, the reason and the remedy: __snapshots__ has those of each host,
    and the severities. Without the text of a route or a rule, a sentence is short; and only what
    fails in STRICT is an error.
    """
    lines: list[str] = []
    for name, text in HOSTS.items():
        host = vm_of(text) if isinstance(text, str) else text
        for finding in findings(host, CIDRS.get(name, CIDR), **SECTIONS.get(name, {})):
            lines.append(f"{name}: {finding.severity}: {finding.line}")
            quotes_a_route_or_rule = "[" in finding.sentence or "rule" in finding.sentence
            assert quotes_a_route_or_rule or len(finding.sentence) < 180, finding.sentence
            assert finding.severity != "error" or finding.name in {*WRONG, "unsafe"}
    assert snapshot == "\n".join(lines)
