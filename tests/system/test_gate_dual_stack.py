"""A host with IPv4 and IPv6 under a real systemd: both boot scripts treat both families."""

import json
import re

from hostrouting.config import HostRoutingConfig
from tests.support.gate import KUBE1, LAYOUT, configure, gate_tests, host, markers, ours, pid, run_task, start

pytestmark = gate_tests

CIDRS = ["172.16.0.0/16", "fd16::/48"]
# The IPv6 default route, as from a router that advertises itself.
IPV6 = """\
ip address add 2001:db8::4/64 dev eth0 nodad
ip address add fd16::5/48 dev ib0 nodad
ip -6 route add default via fe80::1 dev eth0 proto ra metric 1024 expires 1800
"""


def wanted(*routes: dict[str, object]) -> HostRoutingConfig:
    """The check of both networks in STRICT, and these routes."""
    return HostRoutingConfig(
        {"enabled": bool(routes), "routes": list(routes)}, {"expectedCidrs": CIDRS, "mode": "STRICT"}
    )


def test_both_families_block_and_both_are_repaired() -> None:
    """STRICT: the overlap of each family is named; with the proposed routes of both, the machine starts."""
    with host(then=IPV6) as system:
        failed = run_task(system, "Configure", wanted())
        assert failed.returncode == 1
        assert start(system) == 1
        assert not pid(system)
        said = system.journal(LAYOUT.gate_unit)
        for cidr in CIDRS:
            assert f"OVERLAP: expected CIDR {cidr} " in said
        assert markers(system) == {LAYOUT.detected_path}
        assert f"ACTION: run: hostrouting repair {CIDRS[0]} {CIDRS[1]}; " in said
        repair = json.loads(re.findall(r"ACTION: add to staticRoutes.routes: (\[.*?\])", failed.stdout)[0])
        assert [it["destination"] for it in repair] == ["172.16.0.0/17", "172.16.128.0/17", "fd16::/48"]
        configure(system, wanted(*repair))
        assert start(system) == 0
        assert pid(system)
        assert markers(system) == {LAYOUT.ok_path}


def test_a_late_default_route_of_ipv6_is_awaited_at_boot() -> None:
    """At each boot the routes of both families are back before the machine, with what the default route says."""
    routes: list[dict[str, object]] = [
        {"destination": "172.16.0.0/17"},
        {"destination": "172.16.128.0/17"},
        {"destination": "fd16::/48", "metric": 1},
    ]
    enabled = "/etc/systemd/system/machines.target.wants/" + KUBE1
    with host(wanted(*routes), late=3, then=IPV6, wait=60) as system:
        system.link(enabled, "/lib/systemd/system/systemd-nspawn@.service")
        system.must("systemctl", "enable", "machines.target")
        system.reboot()
        system.settled()
        assert pid(system)
        assert ours(system) == ["172.16.0.0/17", "172.16.128.0/17"]
        assert ours(system, family=6) == ["fd16::/48"]
        assert "via fe80::1 dev eth0" in system.must("ip", "-6", "route", "show", "proto", "213")
        assert markers(system) == {LAYOUT.ok_path}
        order = [int(system.show(it, "ExecMainStartTimestampMonotonic")) for it in (LAYOUT.routes_unit, KUBE1)]
        assert order == sorted(order)
