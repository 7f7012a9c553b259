"""hostrouting.config.mistypes: what is valid and may be typed wrong, as a check says it."""

import pytest

from hostrouting.check.check import check_snapshot
from hostrouting.config.settings import HostRoutingConfig
from tests.support.topologies import vm_with

CHECKED = {"expectedCidrs": ["172.16.0.0/16", "fd16::/64"], "mode": "STRICT"}


def flaws(destination: str, *cidrs: str) -> list[str]:
    """What is said of this static route, and of expected CIDRs that were written like this."""
    section = {**CHECKED, "expectedCidrs": cidrs} if cidrs else CHECKED
    routes = {"enabled": True, "routes": [{"destination": destination}]}
    config = HostRoutingConfig.from_mapping({"staticRoutes": routes, "routeOverlap": section})
    report = check_snapshot(vm_with(), config)
    findings = [flaw for family in report.families for flaw in family.flaws]
    return [f"{flaw.name}: {flaw.sentence}" for flaw in findings]


@pytest.mark.parametrize(
    ("destination", "is_said"),
    [
        pytest.param("172.61.0.0/16", True, id="a number typed wrong"),
        pytest.param("fd61::/64", True, id="in IPv6"),
        pytest.param("172.16.0.0/17", False, id="a half of a CIDR"),
        pytest.param("172.0.0.0/8", False, id="around a CIDR"),
    ],
)
def test_a_static_route_in_no_expected_cidr(destination: str, *, is_said: bool) -> None:
    """The check does not look at it, so a number that was typed wrong would pass in STRICT."""
    sentence = f"route-unchecked: {destination} has a static route and is in no expected CIDR"
    assert (sentence in flaws(destination)) is is_said


def test_a_cidr_with_host_bits() -> None:
    """It is said what it became; host bits of another family, or none, are not."""
    said = flaws("172.16.0.0/17", "172.16.0.0/6", "fd16::/64")
    assert said == ["cidr-masked: 172.16.0.0/6 has host bits set, so 172.0.0.0/6 is checked"]
