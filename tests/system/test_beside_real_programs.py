"""Beside the programs that change the routes of real nodes, ours stay right and theirs stay theirs.

The story of each program is told twice in one boot: alone, and then beside our route, gate and
guard. After each step the routes and rules of others must be what they were the first time.
"""

from itertools import cycle
from typing import NamedTuple

import pytest

from hostrouting.config.settings import GateConfig, GuardConfig
from tests.support.gate import CIDR, LAYOUT, apply, config, foreign, host, markers, remove
from tests.support.sections import expect, static
from tests.support.systemd import NEEDS, System
from tests.support.waiting import wait_for
from tests.system.test_networkd_restart import LINK, LINK_PATH

pytestmark = [pytest.mark.boot, pytest.mark.needs(*NEEDS)]

ROUTE = "172.16.0.0/17"
GATED = "pods.service"
"""The unit that is gated; it stands for kubelet."""
PODS = "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/sleep infinity\n"
WATCHED = "/run/watched"
"""What happened to any route at any moment, as `ip monitor` wrote it."""

# Two routers are behind eth0, and what they lead to: the VPN's server. eth1 is a second card.
NETWORK = """\
ip link delete ib0
ip netns add internet
ip link set peer-eth0 netns internet
ip -n internet -batch - <<END
link set lo up
link set peer-eth0 up
address add 10.0.0.1/24 dev peer-eth0
address add 10.0.0.2/24 dev peer-eth0
address add 203.0.113.1/32 dev lo
END
ip -batch - <<END
link add eth1 type veth peer name peer-eth1
link set eth1 up
link set peer-eth1 up
address add 10.1.0.4/24 dev eth1
END
"""


class Step(NamedTuple):
    """Something that the program, or its operator, does, and what is true afterwards."""

    command: str
    until: str = ""
    """The program is done when a route or rule of others has this text."""
    until_no: str = ""
    """The program is done when none has this text."""
    gateway: str | None = "10.0.0.1"
    """That of our route. None: our route is gone and cannot be set, so a gated start waits."""
    marker: str = LAYOUT.ok_path
    """That of the verdict on the story's networks."""


class Story(NamedTuple):
    """What one program does; the last step leads back to where the first begins."""

    files: dict[str, str]
    steps: tuple[Step, ...]
    prepare: str = ""
    """What is done once, before the story begins."""
    needs: tuple[str, ...] = ()
    cidrs: tuple[str, ...] = (CIDR,)


OPENVPN_FILES = {
    "/etc/systemd/system/openvpn-server@.service.d/netns.conf": (
        "[Service]\nNetworkNamespacePath=/run/netns/internet\n"
    ),
    "/etc/openvpn/server/vpn.conf": """\
dev tun0
local 203.0.113.1
topology subnet
server 10.8.0.0 255.255.255.0
dh none
cert server.crt
key server.key
""",
    "/etc/openvpn/client/vpn.conf": """\
client
dev tun0
remote 203.0.113.1
cert client.crt
key client.key
""",
}
# Each end has a key of its own, and knows the other's certificate by its fingerprint.
OPENVPN_PREPARE = """\
cd /etc/openvpn
for name in server client; do
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
    -subj "/CN=$name" -keyout "$name/$name.key" -out "$name/$name.crt"
done
fingerprint() {
  openssl x509 -in "$1/$1.crt" -noout -fingerprint -sha256 | cut -d= -f2
}
echo "peer-fingerprint $(fingerprint client)" >>server/vpn.conf
echo "peer-fingerprint $(fingerprint server)" >>client/vpn.conf
echo redirect-gateway >>client/vpn.conf
systemctl start openvpn-server@vpn
"""
VPN = "systemctl {} openvpn-client@vpn"
GATEWAY = "sed -i 's/^redirect-gateway.*/redirect-gateway {}/' /etc/openvpn/client/vpn.conf; "
ALL_BY_TUN0 = "default via 10.8.0.1 dev tun0"
HALF_BY_TUN0 = "128.0.0.0/1 via 10.8.0.1 dev tun0"
FLUSH = "ip route flush proto 213"
DELETIONS = (
    FLUSH,
    f"ip route del {ROUTE}",
    f"ip route del {ROUTE}; ip route add {ROUTE} via 10.0.0.9 dev eth0 metric 7 proto 213",
)
"""What somebody does to our route: one of these after each step from which it can come back."""

INTERFACES = """\
auto eth0
iface eth0 inet static
  address 10.0.0.4/24
  gateway 10.0.0.1
"""
OTHER_ROUTER = "sed -i 's/gateway .*/gateway {}/' /etc/network/interfaces"

FRR_FILES = {
    "/etc/frr/daemons": "zebra=yes\nstaticd=yes\n",
    "/etc/frr/frr.conf": "ip route 10.244.9.0/24 blackhole\nip route 172.16.4.0/24 10.1.0.1\n",
}
BY_ETH1 = "172.16.4.0/24 via 10.1.0.1 dev eth1"
BY_ETH0 = "10.244.9.0/24 via 10.0.0.1 dev eth0"
FRR_TYPED = """\
vtysh -c 'configure terminal' \
  -c 'no ip route 172.16.4.0/24 10.1.0.1' -c 'ip route 172.16.4.0/24 10.0.0.1' \
  -c 'no ip route 10.244.9.0/24 blackhole' -c 'ip route 10.244.9.0/24 10.0.0.1'
"""

NETWORK_MANAGER_CONF = """\
[main]
plugins=keyfile
dns=none
no-auto-default=*
[keyfile]
unmanaged-devices=except:interface-name:eth0
"""
# NetworkManager reads no profile that others than root can read.
NETWORK_MANAGER_PROFILE = """\
umask 077
cat >/etc/NetworkManager/system-connections/eth0.nmconnection <<END
[connection]
id=eth0
type=ethernet
interface-name=eth0
[ipv4]
method=manual
address1=10.0.0.4/24
gateway=10.0.0.1
[ipv6]
method=disabled
END
"""
NM_UP = "nmcli --wait 60 connection up eth0"
NM_DOWN = "nmcli connection down eth0"
NM_GATEWAY = "nmcli connection modify eth0 ipv4.gateway {} && " + NM_UP

# To configure a device again, systemd-networkd deletes our route.
NETWORKD_GATEWAY = f"sed -i 's/Gateway=.*/Gateway={{}}/' {LINK_PATH}; networkctl reload"
ONLINE = "/usr/lib/systemd/systemd-networkd-wait-online --interface=eth0"

STORIES = {
    "OpenVPN": Story(
        needs=("openvpn", "openssl", "/dev/net/tun"),
        files=OPENVPN_FILES,
        prepare=OPENVPN_PREPARE,
        steps=(
            Step(VPN.format("start"), ALL_BY_TUN0, marker=LAYOUT.undecided_path),
            # Nobody can tell where our route would have to go now.
            Step(FLUSH, gateway=None, marker=LAYOUT.undecided_path),
            Step(VPN.format("stop"), "default via 10.0.0.1 dev eth0"),
            Step(
                GATEWAY.format("def1") + VPN.format("start"),
                HALF_BY_TUN0,
                marker=LAYOUT.undecided_path,
            ),
            Step(GATEWAY.format("") + VPN.format("stop"), until_no="128.0.0.0/1 "),
        ),
    ),
    "FRR": Story(
        needs=("vtysh",),
        files=FRR_FILES,
        cidrs=("10.244.0.0/16", CIDR),
        steps=(
            Step("systemctl start frr", BY_ETH1, marker=LAYOUT.detected_path),
            Step(FRR_TYPED, BY_ETH0),
            # What was typed is forgotten: the file has the other router.
            Step("systemctl restart frr", BY_ETH1, marker=LAYOUT.detected_path),
            Step("systemctl stop frr", until_no="172.16.4.0/24 "),
        ),
    ),
    "ifupdown": Story(
        needs=("ifup",),
        files={"/etc/network/interfaces": INTERFACES},
        prepare="ip address flush dev eth0; ifup eth0",
        steps=(
            Step("ifdown eth0", until_no="default ", gateway=None, marker=LAYOUT.detected_path),
            Step("ifup eth0"),
            Step(
                f"ifdown eth0; {OTHER_ROUTER.format('10.0.0.2')}; ifup eth0",
                "default via 10.0.0.2 dev eth0 onlink",
                gateway="10.0.0.2",
            ),
            Step(
                f"ifdown eth0; {OTHER_ROUTER.format('10.0.0.1')}; ifup eth0",
                "default via 10.0.0.1 dev eth0 onlink",
            ),
        ),
    ),
    "NetworkManager": Story(
        needs=("nmcli",),
        files={"/etc/NetworkManager/NetworkManager.conf": NETWORK_MANAGER_CONF},
        prepare=f"{NETWORK_MANAGER_PROFILE}systemctl start NetworkManager; {NM_UP}",
        steps=(
            Step(NM_GATEWAY.format("10.0.0.2"), "default via 10.0.0.2 ", gateway="10.0.0.2"),
            Step(
                "systemctl restart NetworkManager && nm-online --quiet --wait-for-startup",
                "default via 10.0.0.2 ",
                gateway="10.0.0.2",
            ),
            Step(NM_DOWN, until_no="default ", gateway=None, marker=LAYOUT.detected_path),
            Step(NM_GATEWAY.format("10.0.0.1"), "default via 10.0.0.1 "),
        ),
    ),
    "systemd-networkd": Story(
        files={LINK_PATH: LINK},
        prepare=f"ip address flush dev eth0; systemctl start systemd-networkd; {ONLINE}",
        steps=(
            Step(NETWORKD_GATEWAY.format("10.0.0.2"), "default via 10.0.0.2 ", gateway="10.0.0.2"),
            Step(
                f"systemctl restart systemd-networkd; {ONLINE}",
                "default via 10.0.0.2 ",
                gateway="10.0.0.2",
            ),
            Step(NETWORKD_GATEWAY.format("10.0.0.1"), "default via 10.0.0.1 "),
        ),
    ),
}


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(story, marks=pytest.mark.needs(*story.needs), id=name)
        for name, story in STORIES.items()
    ],
)
def test_beside(story: Story) -> None:
    """After each step our route is right, and the routes of others are as they are without us."""
    files = {**story.files, f"/etc/systemd/system/{GATED}": PODS}
    with host(then=NETWORK, more=files, machines=()) as system:
        carry_out(system, story.prepare)
        watch = f"systemd-run --unit=watch --property=StandardOutput=file:{WATCHED}"
        carry_out(system, f"{watch} ip -N -o monitor route")
        before = foreign(system)
        alone = [done_alone(system, step) for step in story.steps]
        assert foreign(system) == before

        settings = config(static(ROUTE))._replace(
            route_overlap=expect(*story.cidrs, mode="STRICT"),
            gate=GateConfig((GATED,)),
            guard=GuardConfig(enabled=True),
        )
        apply(system, settings)
        deletions = cycle(DELETIONS)
        for step, expected in zip(story.steps, alone, strict=True):
            carry_out(system, step.command)
            await_routes(system, step, expected)
            # If the default route has the gateway of our route, a deleted one comes back.
            if any(line.startswith(f"default via {step.gateway} dev eth0") for line in expected):
                carry_out(system, next(deletions))
                await_routes(system, step, expected)
            gate_decides(system, step)
            assert ours(system) == wanted(step)
            assert foreign(system) == expected

        remove(system)
        assert foreign(system) == before
        never_by_another_device(system)


def carry_out(system: System, command: str) -> None:
    system.must("bash", "-euc", command)


def done_alone(system: System, step: Step) -> list[str]:
    """Carry out the step without hostrouting; return the routes and rules of others after it."""
    carry_out(system, step.command)

    def is_done() -> bool:
        text = "\n".join(foreign(system))
        return step.until in text and not (step.until_no and step.until_no in text)

    wait_for(f"what {step.command!r} does", is_done)
    return foreign(system)


def ours(system: System) -> list[str]:
    """Our routes, without the attributes that follow their device."""
    lines = system.must("ip", "-4", "route", "show", "table", "all", "proto", "213").splitlines()
    return [" ".join(line.split()[:5]) for line in lines]


def wanted(step: Step) -> list[str]:
    if step.gateway is None:
        return []
    return [f"{ROUTE} via {step.gateway} dev eth0"]


def await_routes(system: System, step: Step, expected: list[str]) -> None:
    """Wait until the program has done its work, and the guard has done ours."""

    def are_right() -> bool:
        return ours(system) == wanted(step) and foreign(system) == expected

    wait_for(f"our routes after {step.command!r}", are_right)


def gate_decides(system: System, step: Step) -> None:
    """A gated start passes, waits, or is refused as the rules say, and leaves its verdict."""
    if step.gateway is None:
        system.must("systemctl", "start", "--no-block", GATED)
        wait_for("the start to wait", lambda: is_waiting(system))
        wait_for(f"the verdict after {step.command!r}", lambda: markers(system) == {step.marker})
        return
    # If a start waited after the last step, this is the same one: it goes on now.
    is_refused = step.marker == LAYOUT.detected_path
    assert system.run("systemctl", "start", GATED).returncode == int(is_refused)
    assert markers(system) == {step.marker}, step.command
    system.must("systemctl", "stop", GATED)


def is_waiting(system: System) -> bool:
    this_start = system.show(GATED, "InvocationID")
    said = system.must("journalctl", "--quiet", f"_SYSTEMD_INVOCATION_ID={this_start}")
    return "waiting for up to" in said


def never_by_another_device(system: System) -> None:
    """At no moment did our route lead through another device than eth0."""

    def changes() -> list[str]:
        lines = (system.read(WATCHED) or "").splitlines()
        return [line for line in lines if " proto 213 " in line]

    # Other programs may change their routes after the last change of ours.
    wait_for("our route to go", lambda: changes()[-1].startswith(f"Deleted {ROUTE} "))
    assert [line for line in changes() if " dev eth0 " not in line] == []
