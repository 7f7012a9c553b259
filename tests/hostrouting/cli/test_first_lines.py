"""The first line of `plan` and `apply` has the reason: what is missing, and when a run fails."""

import json

import pytest

from hostrouting.testing import FakeHost, plain_vm
from tests.support.cli import say
from tests.support.incidents import (
    KUBELET,
    add_ib0,
    apply,
    apply_installed,
    config,
    escaping_node,
    node,
    plan,
    plan_installed,
)
from tests.support.tasks import CIDR, REPAIR, type_routes
from tests.support.topologies import WithoutIPv6


def test_a_plan_of_an_ipv6_route_on_a_kernel_without_ipv6() -> None:
    """`apply` would not wait for what cannot come, but fail, and say why."""
    wanted = {"staticRoutes": {"enabled": True, "routes": [{"destination": "fd77::/48"}]}}
    host = FakeHost(kernel=WithoutIPv6())
    planned = plan(host, json.dumps(wanted))
    would = "WOULD FAIL: apply would change nothing, because fd77::/48 needs IPv6, "
    assert planned.lines[0].startswith(would)
    assert plan(host, json.dumps(wanted), "--json").json["wouldFail"].count("needs IPv6") == 1


NO_IPV6_ROUTE = "there is no IPv6 default route"


def of_both_families(mode: str) -> str:
    """A configuration that expects CIDRs of IPv4 and IPv6;
    the node has no default route for IPv6.
    """
    both = {"expectedCidrs": [CIDR, "fd00::/64"], "mode": mode}
    return json.dumps(config(*REPAIR, routeOverlap=both))


@pytest.mark.parametrize(("mode", "end"), [("STRICT", ", and then fail"), ("WARN", "")])
def test_a_plan_without_a_default_route(mode: str, end: str) -> None:
    """`plan` says which family has no default route, and what `apply` would do before it waits."""
    host = node(config(mode=mode), plain_vm)
    planned = plan(host, of_both_families(mode))
    would = f"so apply would make the changes below, wait for one{end}"
    assert planned.code == 3
    assert planned.lines[0] == f"NOT READY: {NO_IPV6_ROUTE}, {would}"


def require_attention(host: FakeHost, end: str) -> None:
    """Fail unless `plan` and `status` say what is missing after `apply`, too."""
    planned = say("plan", host=host).lines[0]
    assert planned == f"NOT READY: {NO_IPV6_ROUTE}, so apply would wait for one{end}"
    first = say("status", host=host).lines[0]
    assert first == f"WAITING: {NO_IPV6_ROUTE}, so no device is expected"


def test_an_apply_without_a_default_route() -> None:
    """In mode STRICT, `apply` fails because of the family that has no default route."""
    host = node(config(mode="STRICT"), plain_vm)
    first = apply(host, of_both_families("STRICT")).lines[0]
    assert first.startswith(f"FAILED: {NO_IPV6_ROUTE}, and the mode is STRICT")
    require_attention(host, ", and then fail")


def test_an_apply_that_only_warns() -> None:
    """In mode WARN, `apply` is done, and names the family that has no default route."""
    host = node(config(mode="WARN"), plain_vm)
    first = apply(host, of_both_families("WARN")).lines[0]
    assert first.endswith(f", but {NO_IPV6_ROUTE}, so no device is expected")
    require_attention(host, "")


def test_a_plan_of_what_is_installed_where_addresses_escape() -> None:
    """`apply` would change nothing, and fail; the last line of the page repairs that."""
    host = escaping_node()
    lines = say("plan", host=host).lines
    assert lines[0] == "WOULD FAIL: addresses escape, and the mode is STRICT"
    assert lines[-2:] == [
        "To repair that, as root:",
        "  hostrouting repair | hostrouting apply --config -",
    ]
    of_a_file = plan_installed(host).lines
    assert of_a_file[-1] == "  hostrouting repair --config FILE | hostrouting apply --config -"


def test_a_plan_that_is_refused_proposes_nothing_that_is_refused_as_well() -> None:
    """Neither to gate kubelet nor to repair the host: `apply` of this file has to be allowed."""
    machines = {"units": ["systemd-nspawn@.service"]}
    host = node(config(gate=machines), plain_vm)
    add_ib0(host)
    half = {"expectedCidrs": [REPAIR[0]], "mode": "STRICT"}
    planned = plan(host, json.dumps(config(gate=machines, routeOverlap=half)))
    assert planned.lines[0].startswith("WOULD FAIL: apply would change nothing, because ")
    assert "UNIT-NOT-GATED: kubelet.service" in planned.out
    assert "hostrouting apply" not in planned.out


@pytest.mark.parametrize("name", ["plan", "check"])
def test_a_unit_to_gate_beside_a_configuration_from_a_pipe(name: str) -> None:
    """The proposed line names a file: where it is typed, nothing is on standard input."""
    host = node(config(*REPAIR, gate={"units": ["systemd-nspawn@.service"]}))
    settings = json.dumps(config(*REPAIR, gate={"units": ["systemd-nspawn@.service"]}))
    said = say(name, "--config", "-", host=host, stdin=settings.encode())
    assert f"as root: hostrouting apply --config FILE --gate {KUBELET}\n" in said.out


def test_a_plan_says_when_apply_fails_only_after_its_changes() -> None:
    """WOULD FAIL does not mean that nothing is changed."""
    host = escaping_node()
    type_routes(host, *REPAIR)
    lost = "staticRoutes.routes: 172.16.0.0/16 would escape, and does not escape now"
    refused = f"WOULD FAIL: apply would change nothing, because {lost}"
    assert plan_installed(host).lines[0].startswith(refused)

    allowed = plan_installed(host, "--allow-removal")
    changes = "so apply would make the changes below, and then fail"
    assert allowed.lines[0] == f"WOULD FAIL: addresses escape, and the mode is STRICT, {changes}"
    assert "Nothing was changed." not in apply_installed(host, "--allow-removal").out


@pytest.mark.parametrize("mode", ["STRICT", "WARN"])
def test_apply_ends_with_what_status_says(mode: str) -> None:
    """After its own first line, the page of `apply` is that of `status`."""
    host = node(config(mode=mode), plain_vm)
    assert apply_installed(host).lines[1:] == say("status", host=host).lines[1:]


def test_a_failed_apply_ends_with_what_status_says() -> None:
    """In mode STRICT, an apply fails where addresses escape: its page ends with that of `status`,
    with the first line.
    """
    host = escaping_node()
    applied = apply_installed(host)
    page = say("status", host=host).lines
    assert applied.code == 1
    assert applied.lines[-len(page) :] == page


def test_an_apply_that_only_warns_ends_with_what_status_says() -> None:
    """In mode WARN, it has a first line of its own, and not that of `status`."""
    host = node(config(mode="WARN"), plain_vm)
    add_ib0(host)
    applied = apply_installed(host)
    headline, *page = say("status", host=host).lines
    assert applied.code == 0
    assert applied.lines[-len(page) :] == page
    assert headline not in applied.lines


@pytest.mark.parametrize("mode", ["STRICT", "WARN"])
def test_the_document_of_apply_has_what_status_finds(mode: str) -> None:
    """The findings and the check are those of `status --json`."""
    host = node(config(mode=mode), plain_vm)
    add_ib0(host)
    document = apply_installed(host, "--json").json
    now = say("status", "--json", host=host).json
    assert document["findings"] == now["findings"]
    assert document["check"] == now["check"]
    assert document["check"]["verdict"] == "overlap"
