"""NetlinkBackend needs no socket but netlink's, and no file: sandboxes of units have nothing else
(RestrictAddressFamilies=AF_NETLINK, ProcSubset=pid).
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from hostrouting.kernel.base import Answer, Outcome, RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import as_ip
from hostrouting.model.route import OURS, Route
from hostrouting.model.snapshot import Snapshot
from tests.support.children import in_child
from tests.support.namespace import Namespace
from tests.support.sandbox import enter_sandbox

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

WANTED = Route.to("192.0.2.0/24", dev="eth0", gateway="10.0.0.1", protocol=OURS)
BY_NO_DEVICE = Route.to("198.51.100.0/24", dev="eth9", protocol=OURS)
DESTINATIONS = (as_ip("10.0.0.9"), as_ip("192.0.2.1"), as_ip("fd00:99::9"))


@pytest.mark.parametrize("forwards", [False, True])
def test_a_sandbox(
    namespace: Namespace, backend: NetlinkBackend, tmp_path: Path, *, forwards: bool
) -> None:
    """Routes are changed, read and looked up as outside of it, also by the names of devices; and
    whether the host forwards IPv6 is known.
    """
    namespace.sysctl("ipv6/conf/all/forwarding", int(forwards))

    def within() -> tuple[Sequence[Outcome], Snapshot, Sequence[Answer]]:
        enter_sandbox(tmp_path)
        with NetlinkBackend() as inside:
            outcomes = inside.change(RouteRequest("add", route) for route in (WANTED, BY_NO_DEVICE))
            return outcomes, inside.snapshot(), inside.lookup(DESTINATIONS)

    (added, refused), snapshot, answers = in_child(within)

    assert added.ok
    assert refused.error is not None
    assert "device eth9 does not exist" in str(refused.error)
    assert snapshot == backend.snapshot()
    assert snapshot.ipv6_forwarding is forwards
    assert WANTED in snapshot.routes
    assert answers == backend.lookup(DESTINATIONS)
    assert [answer.route.devs for answer in answers if answer.route] == [("eth0",)] * 3
