"""hostrouting.check.doubts: what is in doubt, and the ways to name the device that is intended."""

import pytest

from hostrouting.check.sentences import check_findings
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.testing import plain_vm
from tests.support.topologies import address, checked, vm_with, vpn_node

ANYWHERE = Prefix.parse("0.0.0.0/0")
ETH1 = Link(name="eth1", index=9)
WG0 = Link(name="wg0", index=9, kind="wireguard", type=65534)
BY_WG0 = Route.to(ANYWHERE, dev="wg0")


def second_default(metric: int) -> Route:
    """The default route of a second card."""
    return Route.to(ANYWHERE, dev="eth1", gateway="10.1.0.1", protocol=16, metric=metric)


def with_the_last_route_first(host: Snapshot) -> Snapshot:
    """The same host, whose routes were added in another order."""
    return host._replace(routes=host.routes[::-1])


def only_by_wg0() -> Snapshot:
    """A plain VM whose only default route is a tunnel's."""
    vm = plain_vm().snapshot()
    others = [route for route in vm.routes if route.prefix.length]
    return vm._replace(routes=(BY_WG0, *others), links=(*vm.links, WG0))


@pytest.mark.parametrize(
    ("host", "candidates", "now"),
    [
        pytest.param(
            vm_with(second_default(100), links=(ETH1,)),
            ["eth0", "eth1"],
            "eth0 or eth1",
            id="two equal ones",
        ),
        pytest.param(
            with_the_last_route_first(vm_with(second_default(100), links=(ETH1,))),
            ["eth0", "eth1"],
            "eth0 or eth1",
            id="two equal ones in another order",
        ),
        pytest.param(
            vm_with(BY_WG0, links=(WG0,)),
            ["eth0", "wg0"],
            "wg0",
            id="a tunnel's before a card's",
        ),
    ],
)
def test_a_doubtful_default_route(host: Snapshot, candidates: list[str], now: str) -> None:
    """Whoever reads that the uplink is unclear reads by which device packets leave now; programs
    read which devices it may be.
    """
    [doubt] = checked(host).doubts
    assert doubt.name == "default-routes"
    words = f"should leave through {' or '.join(candidates)}; they leave through {now} now"
    assert doubt.sentence.endswith(words)
    assert doubt.facts == {"candidates": candidates}


def test_only_a_tunnel_has_a_default_route() -> None:
    """The card has none, and may be meant all the same: it has a command, too."""
    [doubt] = check_findings(checked(only_by_wg0()))
    assert doubt.sentence.endswith("through wg0 or a network card; they leave through wg0 now")
    assert doubt.facts == {"candidates": ["wg0", "eth0"]}
    assert doubt.remedy is not None
    wg0, eth0 = doubt.remedy.ways()
    assert " --dev wg0 | " in wg0.command
    assert eth0.words == "if eth0 is intended (address 10.0.0.4)"
    assert " --dev eth0 | " in eth0.command


def test_a_card_was_renamed() -> None:
    """The card with the default route is named, and not another one, which would be the outage."""
    host = vm_with(links=(ETH1,), addresses=(address("10.1.0.4/24", "eth1"),))
    findings = check_findings(checked(host, "172.16.0.0/16", expected_devs=["eth9"]))
    [unsafe] = [finding for finding in findings if finding.name == "unsafe"]
    assert unsafe.facts["candidates"] == ["eth0"]


def test_a_route_that_may_lose_packets() -> None:
    """The device is allowed or the route is deleted, by a command."""
    on_link = Route.to("172.16.5.0/24", dev="eth0", protocol=3)
    [doubt] = check_findings(checked(vm_with(on_link)))
    assert doubt.name == "doubtful-route"
    assert doubt.facts == {"mayAllow": {"eth0": ""}}
    assert doubt.remedy is not None
    allow, delete = doubt.remedy.ways()
    assert allow.words == "if leaving through eth0 is intended"
    assert " --allow eth0 | " in allow.command
    assert delete.command == "ip route del 172.16.5.0/24 dev eth0 table main proto boot"


def test_one_doubt_about_several_cidrs_is_one_finding() -> None:
    """It is about the host, and not about a CIDR."""
    report = checked(vpn_node().snapshot(), "172.16.0.0/16", "10.96.0.0/12", "192.168.0.0/16")
    [doubt] = report.doubts
    assert doubt.name == "default-routes"
