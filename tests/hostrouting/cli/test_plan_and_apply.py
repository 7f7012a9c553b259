"""What `plan` says of a run, and whether and when `apply` fails."""

import json

from hostrouting.testing import FakeHost, plain_vm
from tests.support.incidents import (
    KUBELET,
    apply,
    apply_installed,
    config,
    node,
    plan_installed,
    start_vpn,
)
from tests.support.statuses import OVERRIDE
from tests.support.tasks import CIDR, REPAIR, manager_of

NO_IPV6_ROUTE = "there is no IPv6 default route"


def of_both_families(mode: str) -> str:
    """It expects CIDRs of both families; the node has no default route for IPv6."""
    both = {"expectedCidrs": [CIDR, "fd00::/64"], "mode": mode}
    return json.dumps(config(*REPAIR, routeOverlap=both))


def test_an_apply_without_a_default_route() -> None:
    """In mode STRICT, `apply` fails because of the family that has no default route."""
    host = node(config(mode="STRICT"), plain_vm)
    first = apply(host, of_both_families("STRICT")).lines[0]
    assert first.startswith(f"FAILED: {NO_IPV6_ROUTE}")
    assert plan_installed(host).lines[0].startswith("WOULD FAIL: ")


# A drop-in that takes the gate away.


def with_loaded_override(mode: str = "STRICT") -> FakeHost:
    """A node on which a drop-in that systemd has loaded takes the gate away."""
    host = node(config(*REPAIR, mode=mode))
    host.files.write(OVERRIDE, "[Service]\nExecCondition=\n")
    manager_of(host).reload()
    return host


def test_an_overriding_drop_in_that_systemd_has_loaded() -> None:
    """Nothing that `apply` does ends that, so it fails; in WARN, it only says so."""
    sentence = f"{KUBELET} starts unchecked: another drop-in takes "
    said = apply_installed(with_loaded_override())
    assert said.code == 1
    assert said.lines[0].startswith(f"FAILED: {sentence}")
    said = apply_installed(with_loaded_override("WARN"))
    assert said.code == 0
    assert sentence in said.out


# A device that has to be chosen.


def test_what_the_page_says_is_not_logged_before() -> None:
    """The page has that routes stay, so standard error has not."""
    host = node(config(*REPAIR))
    start_vpn(host)
    applied = apply_installed(host)
    assert "2 routes, such as 172.16.0.0/17, will wait" in applied.out
    assert applied.err == ""
