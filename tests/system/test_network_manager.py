"""What NetworkManager takes away, in each release of Debian; so the simulated one does (`hostrouting.testing.node`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.systemd import booted
from tests.support.waiting import wait_for
from tests.system.test_networkd_restart import move_the_local_rule, rules
from tests.tables.network_manager import KEPT, ROUTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.systemd import System

pytestmark = [pytest.mark.linux, pytest.mark.boot, pytest.mark.releases]

SETTINGS = """\
[main]
plugins=keyfile
no-auto-default=*
[keyfile]
unmanaged-devices=except:interface-name:eth0
"""
CONNECTION = """\
[connection]
id=eth0
type=ethernet
interface-name=eth0
[ipv4]
method=manual
address1=10.0.0.5/24,10.0.0.1
[ipv6]
method=disabled
"""
TOLD = {
    "is restarted": "systemctl restart NetworkManager",
    "applies eth0 again": "nmcli device reapply eth0",
    "activates eth0": "nmcli connection up eth0",
}


@pytest.fixture
def system() -> Iterator[System]:
    """A host whose eth0 NetworkManager configures."""
    with booted({"/etc/NetworkManager/NetworkManager.conf": SETTINGS}) as found:
        found.lay("/etc/NetworkManager/system-connections/eth0.nmconnection", CONNECTION, mode=0o600)
        found.must("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "r0")
        found.must("ip", "link", "add", "ib0", "type", "veth", "peer", "name", "r1")
        for link in ("r0", "ib0"):
            found.must("ip", "link", "set", link, "up")
        do(found, "is restarted")
        yield found


def do(system: System, what: str) -> None:
    """Have NetworkManager do this, and wait until it has configured eth0."""
    system.must("sh", "-c", TOLD[what])
    wait_for(
        "eth0 to be configured",
        lambda: (
            "(connected)" in system.run("nmcli", "-f", "GENERAL.STATE", "device", "show", "eth0").stdout
            and "default via 10.0.0.1" in system.must("ip", "route")
        ),
    )


def test_what_it_takes_away(system: System) -> None:
    """A restart takes nothing; applied again, routes of the device in table main; activated, all of it. Rules stay."""
    version = int(system.must("NetworkManager", "--version").split(".")[1])
    move_the_local_rule(system)
    system.must("ip", "rule", "add", "to", "10.9.0.0/16", "lookup", "100", "pref", "500")
    before = rules(system)
    for what, kept in KEPT.items():
        for route in ROUTES.values():
            system.run("ip", "route", "add", *route.split())
        do(system, what)
        listed = system.must("ip", "route", "show", "table", "all")
        assert {name for name, route in ROUTES.items() if route in listed} == kept[
            max(since for since in kept if since <= version)
        ], what
    assert rules(system) == before
