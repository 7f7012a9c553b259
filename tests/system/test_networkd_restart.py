"""What systemd-networkd takes away when it starts again, in each release, and what keeps it."""

from tests.support.gate import HALVES, LAYOUT, apply, config, gate_tests, host, ours, remove
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

LINK_PATH = "/etc/systemd/network/10-eth0.network"
LINK = """\
[Match]
Name=eth0
[Network]
Address=10.0.0.5/24
Gateway=10.0.0.1
IPv6AcceptRA=no
LinkLocalAddressing=no
"""
"""Not eth0's own address 10.0.0.4: Linux refuses to add that again while it is being deleted."""
AS_OFTEN_AS_ASKED = {
    "/etc/systemd/system/systemd-networkd.service.d/limit.conf": "[Unit]\nStartLimitIntervalSec=0\n"
}
"""By default systemd refuses the sixth start in ten seconds."""


def restart(system: System) -> None:
    """Start systemd-networkd again, and wait until it has configured eth0."""
    system.must("systemctl", "restart", "systemd-networkd")
    wait_for(
        "eth0 to be configured",
        lambda: "(configured)" in system.must("networkctl", "status", "eth0"),
    )


def test_what_it_takes_away() -> None:
    """By default systemd-networkd deletes our routes; with the drop-in, they stay."""
    with host(more=AS_OFTEN_AS_ASKED, machines=()) as system:
        system.lay(LINK_PATH, LINK)
        restart(system)
        apply(system, config(*HALVES))
        assert len(ours(system)) == len(HALVES)
        restart(system)
        # In some releases the restart deletes them, and in others this does.
        system.must("networkctl", "reconfigure", "eth0")
        wait_for("the routes to be deleted", lambda: ours(system) == [])

        apply(system, config(*HALVES)._replace(manage_foreign="keep"), wait=10)
        restart(system)
        assert len(ours(system)) == len(HALVES)
        remove(system)
        assert system.read(LAYOUT.networkd_path) is None, "a removal removes the drop-in, too"
