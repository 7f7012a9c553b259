"""Each finding of a check in words, on a node that has it."""

import pytest

from hostrouting.check.document import check_document
from hostrouting.check.sentences import check_findings, repair_commands
from hostrouting.finding import WRONG, Finding
from tests.support.topologies import checked_as, vm_of

BY_ETH1 = "default via 10.1.0.1 dev eth1 table 2"
PODS = "address 10.244.0.1/24 dev cni0; 10.244.0.0/24 dev cni0 proto 2 src 10.244.0.1"
FLANNEL = "link flannel.1 vxlan; 172.16.2.0/24 dev flannel.1"

HOSTS = {
    "own range": "local 172.16.5.0/24 dev lo proto 2 table 255 scope 0",
    "no route": "throw 172.16.5.0/24",
    "blackhole": "blackhole 172.16.5.0/24 proto 12",
    "unreachable": "unreachable 172.16.5.0/24 proto 4; unreachable 172.16.9.9/32 proto 4",
    "a rule that refuses": "rule pref 50 to 172.16.5.0/24 prohibit",
    "no default route": "-default; -addresses",
    "on link": "172.16.5.0/24 dev eth0 proto 3",
    "a repair of one route": "link docker0 bridge; 172.16.5.0/24 dev docker0 proto 2 metric 9",
    "not proven": "link docker0 bridge; 172.16.5.7/32 dev docker0",
    "beside a rule in doubt": "link docker0 bridge; 172.16.5.0/24 dev docker0; "
    "default dev docker0 table 100; rule pref 50 fwmark 1/1",
    "competing defaults": "default via 10.1.0.1 dev eth1 proto 16 metric 200; link eth2 nic; "
    "default dev eth2 metric 300; address 10.2.0.4/24 dev eth2; rule from 10.2.0.4/32 lookup 254; "
    "ipv6; ::/0 via fe80::2 dev eth1 metric 2000",
    "equal defaults": "default via 10.1.0.1 dev eth1 proto 16 metric 100",
    "a tunnel, which does not compete": "default dev wg1 metric 500",
    "two networks in doubt": "default dev wg1 metric 50; default dev eth1 metric 900",
    "not judged": "rule pref 50 goto 100; rule pref 50 goto 200; rule pref 50 goto 300",
    "a network of a tunnel and of a card": "172.16.0.0/17 dev wg1 metric 9; "
    "172.16.128.0/17 dev eth1",
    "a default route of a card that is not expected": "default via 10.1.0.1 dev eth1 proto 16 "
    "metric 50; link cali1 veth",
    "a rule that decides first": "172.16.0.0/17 dev wg1 table 52; 172.16.128.0/17 dev ib0 table 52;"
    "rule pref 5270 lookup 52",
    "a rule for the pods of a second card": f"{BY_ETH1}; rule pref 1536 from 10.0.1.7/32 lookup 2",
    "a rule for all but what is sent": f"{BY_ETH1}; rule pref 50 iif lo lookup 254; "
    "rule pref 60 lookup 2",
    "a rule for connections": f"{BY_ETH1}; rule pref 50 from 10.0.0.4/32 lookup 2; "
    "rule pref 40 to 172.16.5.0/24 prohibit",
    "in table local": "multicast 172.16.0.0/16 dev ib0 table 255",
    "our own, as specific as a route can be": "ipv6; fd16::5/128 dev ib0 metric 100 proto ours",
    "what hides pods": f"{PODS}; link docker0 bridge; 10.244.0.0/25 dev docker0 proto 2; "
    "10.244.128.0/17 dev wg1",
    "a rule that hides pods": f"{PODS}; 10.244.0.0/25 dev eth1 table 7; "
    "10.244.0.128/25 dev eth1; rule; default via 10.1.0.1 dev eth1 table 100",
    "a blackhole that hides pods": f"{PODS}; blackhole 10.244.0.0/25 proto 2",
    "by a gateway, which hides pods": f"{PODS}; 10.244.0.0/26 via 10.1.0.1 dev eth0 proto ours; "
    "10.244.0.64/26 via 10.1.0.1 dev eth0 proto 4; 10.244.0.128/26 dev eth0 proto 2",
    "two next hops": "link ib1 ib; "
    "172.16.5.0/24 proto 3 nexthop dev eth0 nexthop dev ib0 nexthop dev ib1",
    "no local rule": "rule pref 0 lookup 254; local 10.1.0.4/32 dev eth1 table 10; "
    "address 10.1.0.4/24 dev eth1",
    "no main rule": "-main",
}
ASKED = {
    "our own, as specific as a route can be": "fd16::/64",
    "what hides pods": "10.244.0.0/16",
    "a rule that hides pods": "10.244.0.0/16",
    "a blackhole that hides pods": "10.244.0.0/16",
    "by a gateway, which hides pods": "10.244.0.0/16",
    "competing defaults": "172.16.0.0/16 fd16::/48",
    "equal defaults": "dev=eth0",
    "two networks in doubt": "172.16.0.0/16 10.96.0.0/12",
    "a default route of a card that is not expected": "dev=eth0",
}


def findings(host: str, asked: str = "") -> tuple[Finding, ...]:
    return check_findings(checked_as(vm_of(host), asked), mode="STRICT")


@pytest.mark.parametrize("kind", ["ipoib", "bond", "dummy", "nic"])
def test_to_allow_a_card_is_no_remedy(kind: str) -> None:
    """Virtual cards have a kind, as bridges have, and are the outage that a check is for."""
    both = "nexthop via 10.0.0.1 dev eth0 nexthop dev dev0"
    [escape, *_] = findings(f"link dev0 {kind}; 172.16.0.0/16 {both}")
    assert escape.name == "overlap"
    assert escape.remedy is None
    assert "mayAllow" not in escape.facts
    facts = [escape.facts[key] for key in ("first", "last", "devs")]
    assert facts == ["172.16.0.0", "172.16.255.255", ["dev0"]]


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("overlap", f"{FLANNEL}; 172.16.2.0/25 dev wg1 proto ours"),
        ("overlap", f"{FLANNEL}; 172.16.0.0/16 dev wg1 table 100; rule pref 0"),
        (
            "pods-hidden",
            "172.16.2.7/32 dev cali1; rule; 172.16.2.0/24 via 10.1.0.9 dev eth1 proto 80 table 100",
        ),
        ("overlap", "link cali1 veth; 172.16.2.0/24 dev ib0 proto 80"),
    ],
)
def test_to_allow_what_hides_a_cni_is_no_remedy(name: str, host: str) -> None:
    """With the device allowed, the check would be OK while pods are not reached. Nor is a route of
    ours deleted, or one in the table of a VPN.
    """
    [escape, *_] = findings(host, "172.16.2.7/32")
    assert (escape.name, escape.remedy) == (name, None)
    assert "mayAllow" not in escape.facts


def test_what_a_repair_needs_is_not_what_another_device_needs() -> None:
    """The reason is that of the routes that were tried last."""
    by_eth1 = "default via 10.1.0.1 dev eth1 metric 50"
    said = findings(f"{by_eth1}; link docker0 bridge; 172.16.5.9/32 dev docker0", "dev=eth0")
    [unsafe] = [finding for finding in said if finding.name == "unsafe"]
    assert "eth1" not in unsafe.sentence


def test_the_sentence_of_a_verdict_with_several_doubts() -> None:
    """The first doubt is told, and how many more there are."""
    [family] = checked_as(vm_of(HOSTS["not judged"]), "").families
    assert family.sentence == "hostrouting does not judge rule 50: from all goto 100; and 2 more"


@pytest.mark.parametrize(("key", "count", "metric"), [("metric 9", 1, 1), ("proto ours", 0, 0)])
def test_a_route_of_ours_has_the_place_of_a_command(key: str, count: int, metric: int) -> None:
    """Then only a configuration repairs the host. Programs get all keys of the route."""
    report = checked_as(vm_of(f"172.16.0.0/15 dev eth1; 172.16.0.0/16 dev ib0 {key}"), "")
    assert len(repair_commands(report)) == count
    document = check_document(report, mode="STRICT", findings=check_findings(report))
    assert (document["mode"], document["expectedDevs"]) == ("STRICT", {"ipv4": ["eth0"]})
    assert [finding["name"] for finding in document["findings"]] == ["overlap", "action"]
    [route] = document["repair"]
    assert route == {"destination": "172.16.0.0/16", "gateway": "", "dev": "", "metric": metric}


def test_each_line(snapshot: object) -> None:
    """__snapshots__ has the lines. Without a route or a rule, a sentence is short."""
    lines: list[str] = []
    for name, host in HOSTS.items():
        for finding in findings(host, ASKED.get(name, "")):
            lines.append(f"{name}: {finding.severity}: {finding.line}")
            quotes_a_route_or_rule = "[" in finding.sentence or "rule" in finding.sentence
            assert quotes_a_route_or_rule or len(finding.sentence) < 180, finding.sentence
            assert finding.severity != "error" or finding.name in {*WRONG, "unsafe"}
    assert snapshot == "\n".join(lines)
