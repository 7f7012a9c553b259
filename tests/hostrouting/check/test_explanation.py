"""hostrouting.check.explanation: the road of one packet beside the verdict on its address."""

import pytest

from hostrouting.check.explanation import explain_packet
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.model.prefix import as_ip
from hostrouting.testing import h200
from tests.support.sections import expect


@pytest.mark.parametrize(
    ("address", "dev", "verdict", "is_expected"),
    [
        ("172.16.5.9", "ib0", "overlap", True),
        ("10.0.0.9", "eth0", "ok", False),
    ],
)
def test_a_packet(address: str, dev: str, verdict: str, *, is_expected: bool) -> None:
    """The last rule that was tried has the route of the decision; the address alone is judged."""
    config = HostRoutingConfig(route_overlap=expect("172.16.0.0/12", "192.168.0.0/16"))
    explained = explain_packet(h200().snapshot(), as_ip(address), config)
    assert explained.decision.devs == (dev,)
    assert explained.rules[-1].route == explained.decision.route
    assert explained.report.verdict == verdict
    assert explained.is_expected == is_expected
    without_cidrs = explain_packet(h200().snapshot(), as_ip(address), HostRoutingConfig())
    assert without_cidrs.is_expected
    assert [str(escape.cidr) for escape in explained.report.escapes] == (
        [f"{address}/32"] if is_expected else []
    )
