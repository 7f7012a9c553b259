"""hostrouting.check.doubts: what is in doubt, and the ways to name the device that is intended."""

import pytest

from hostrouting.check.sentences import check_findings
from hostrouting.testing import plain_vm
from tests.support.topologies import checked, vm_of

TWO = ("default via 10.0.0.1 dev eth0 metric 5", "default via 10.1.0.1 dev eth1 metric 5")


@pytest.mark.parametrize(
    ("host", "candidates", "now"),
    [
        pytest.param("; ".join(TWO), ["eth0", "eth1"], "eth0 or eth1", id="two equal ones"),
        pytest.param("; ".join(TWO[::-1]), ["eth0", "eth1"], "eth0 or eth1", id="in another order"),
        pytest.param("default dev wg1", ["eth0", "wg1"], "wg1", id="a tunnel's before a card's"),
    ],
)
def test_a_doubtful_default_route(host: str, candidates: list[str], now: str) -> None:
    """Whoever reads that the uplink is unclear reads by which device packets leave now; programs
    read which devices it may be.
    """
    worse = "link eth2 nic; default via 10.2.0.1 dev eth2 metric 900"
    [family] = checked(vm_of(f"{host}; {worse}")).families
    assert family.flaws == ()  # eth2 does not compete as well
    [doubt] = family.doubts
    assert doubt.name == "default-routes"
    words = f"should leave through {' or '.join(candidates)}; they leave through {now} now"
    assert doubt.sentence.endswith(words)
    assert doubt.facts == {"candidates": candidates}


def test_only_a_tunnel_has_a_default_route() -> None:
    """The card with an address has none, and may be meant all the same: it has a command, too."""
    [doubt] = check_findings(checked(vm_of("-default; default dev wg1; link eth1 nic")))
    assert doubt.sentence.endswith("through wg1 or a network card; they leave through wg1 now")
    assert doubt.facts == {"candidates": ["wg1", "eth0"]}
    assert doubt.remedy is not None
    wg1, eth0 = doubt.remedy.ways()
    assert " --dev wg1 | " in wg1.command
    assert eth0.words == "if eth0 is intended (address 10.0.0.4)"
    assert " --dev eth0 | " in eth0.command


def test_a_card_was_renamed() -> None:
    """The card with the default route is named, and not another one, which would be the outage."""
    host = vm_of("address 10.1.0.4/24 dev eth1")
    findings = check_findings(checked(host, "172.16.0.0/16", expected_devs=["eth9"]))
    [unsafe] = [finding for finding in findings if finding.name == "unsafe"]
    assert unsafe.facts["candidates"] == ["eth0"]
    assert "--dev eth0 | " in str(unsafe.remedy)
    assert checked(plain_vm().snapshot(), expected_devs=["eth0"]).verdict == "ok"


def test_a_route_that_may_lose_packets() -> None:
    """Programs read that its device may be allowed."""
    [doubt] = check_findings(checked(vm_of("172.16.5.0/24 dev eth0 proto 3")))
    assert doubt.name == "doubtful-route"
    assert doubt.facts == {"mayAllow": {"eth0": ""}}
