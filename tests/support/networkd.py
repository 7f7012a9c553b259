"""A host whose uplink systemd-networkd configures by DHCP, beside a router with two addresses, under a real systemd."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.systemd import System, booted
from tests.support.waiting import wait_for

# The router is a network namespace of its own, with two addresses; its DHCP server names one of them.
NETWORK = """\
#!/bin/sh
set -e
ip netns add router
ip link add eth0 type veth peer name r0 netns router
ip link add ib0 type veth peer name peer-ib0
ip link set ib0 up
ip link set peer-ib0 up
ip address add 172.16.1.5/16 dev ib0
ip -n router address add 10.0.0.1/24 dev r0
ip -n router address add 10.0.0.2/24 dev r0
ip -n router link set r0 up
"""
SERVER = """\
#!/bin/sh
printf '%s\\n' 'start 10.0.0.100' 'end 10.0.0.100' 'interface r0' 'lease_file /run/leases' 'pidfile /run/udhcpd.pid' \
  'option subnet 255.255.255.0' "option router $1" 'option lease 600' >/run/udhcpd.conf
: >>/run/leases
if read -r old </run/udhcpd.pid; then
  kill "$old"
  while kill -0 "$old"; do sleep 0.1; done
fi 2>/dev/null
ip netns exec router busybox udhcpd /run/udhcpd.conf
"""
UNIT = """\
[Unit]
DefaultDependencies=no
Before=network-pre.target systemd-networkd.service
Wants=network-pre.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/etc/test-network.sh
ExecStart=/etc/test-dhcp.sh 10.0.0.1
KillMode=none
"""
LINK = "[Match]\nName=eth0\n[Network]\nDHCP=ipv4\nIPv6AcceptRA=no\nLinkLocalAddressing=no\n"


@contextmanager
def networkd_host() -> Iterator[System]:
    """The host, with a lease that names the router's first address, 10.0.0.1. `/etc/test-dhcp.sh GATEWAY` changes that."""
    wants, unit = "/etc/systemd/system/sysinit.target.wants", "/etc/systemd/system/test-network.service"
    with booted(
        {unit: UNIT, "/etc/systemd/network/10-eth0.network": LINK},
        scripts={"/etc/test-network.sh": NETWORK, "/etc/test-dhcp.sh": SERVER},
        links={
            f"{wants}/test-network.service": unit,
            f"{wants}/systemd-networkd.service": "/lib/systemd/system/systemd-networkd.service",
        },
        tree=Path("/"),
    ) as found:
        found.settled()
        wait_for("a lease", lambda: "default via 10.0.0.1" in found.must("ip", "route"))
        yield found
