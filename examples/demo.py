"""The whole problem in a second: a GPU node that cannot reach its cluster, the reason, the repair,
and the proof.

It builds the network of an Azure ND H200 (eth0 with the default route; ib0…ib7, each connected to
172.16.0.0/16) in a private network namespace, which ends with this program. The machine's own
network is not changed, no packet is sent, and the boot files are written to a temporary directory.
If the machine does not allow namespaces, a fake host is used.

With --dual-stack, the same in IPv4 and IPv6: ib0…ib7 are also connected to fd16::/48.
"""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import tempfile

import phases
from hostrouting import Configure, Host, HostRoutingConfig
from hostrouting.cli import main
from hostrouting.host import LocalFiles
from hostrouting.model.prefix import as_ip
from hostrouting.testing import FakeHost, h200

CIDRS = {"172.16.64.0/24": "172.16.64.9"}  # with an address in each
REPAIR: list[dict[str, object]] = [{"destination": "172.16.64.0/24"}]
DEVICES = ("eth0", *(f"ib{number}" for number in range(8)))
NODE = [
    "link set lo up",
    *(f"link add {name} type veth peer name {name}-far" for name in DEVICES),
    *(f"link set {end} up" for name in DEVICES for end in (name, f"{name}-far")),
    "address add 10.0.0.4/24 dev eth0",
    *(f"address add 172.16.{number + 1}.{number + 10}/16 dev ib{number}" for number in range(8)),
    "route add default via 10.0.0.1 dev eth0 proto dhcp metric 100",
]
if "--dual-stack" in sys.argv:
    CIDRS["fd16::/48"] = "fd16::5:9"
    # In IPv6 a connected route has metric 256, so one route with a lower metric is enough.
    REPAIR.append({"destination": "fd16::/48", "metric": 1})
    NODE += [
        "address add 2001:db8::4/64 dev eth0 nodad",
        *(f"address add fd16::{number + 10:x}/48 dev ib{number} nodad" for number in range(8)),
        "route add ::/0 via fe80::1 dev eth0 proto ra",
    ]
NEW_USER, NEW_NET = 0x10000000, 0x40000000


def enter_private_namespace() -> None:
    """Enter an empty network namespace; without root, inside a new user namespace. Raises OSError
    if refused.
    """
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_NET if user == 0 else NEW_USER | NEW_NET):
        raise OSError(
            ctypes.get_errno(), os.strerror(ctypes.get_errno()), "a private network namespace"
        )
    if user:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"0 {user} 1"),
            ("gid_map", f"0 {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
                stream.write(text)


def node_on_linux(root: str) -> Host:
    """Create the node in a network namespace of this machine. Raises OSError if that is not
    possible.
    """
    enter_private_namespace()
    batch = "".join(f"{line}\n" for line in NODE)
    command = ["ip", "-batch", "-"]
    done = subprocess.run(  # noqa: S603  a fixed command
        command, input=batch, capture_output=True, text=True, check=False, timeout=30
    )
    if "--dual-stack" in sys.argv:
        # As on a node of Kubernetes. On a host that does not forward, IPv6 uses other routes while
        # a gateway is silent.
        with open("/proc/sys/net/ipv6/conf/all/forwarding", "w", encoding="ascii") as stream:
            stream.write("1")
    if done.returncode:
        raise OSError(done.returncode, done.stderr.strip().splitlines()[0], "ip")
    return Host(files=LocalFiles(root), manager=None)


def tell(text: str) -> None:
    """Print a heading at once, even into a pipe."""
    strong = (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "dumb") != "dumb"
    )
    print(f"\n\033[1m{text}\033[0m\n" if strong else f"\n{text}\n", flush=True)


def ask(host: Host, *words: str) -> int:
    """Run a command as an operator of the node would type it; return its exit code."""
    print(f"$ hostrouting {' '.join(words)}", flush=True)
    code = main(words, host=host)
    print(f"(exit code {code})", flush=True)
    return code


def way_out(host: Host, address: str) -> str:
    """The outgoing device for a packet to the address, according to the kernel."""
    assert host.backend is not None
    with host.backend() as kernel:
        [answer] = kernel.lookup([as_ip(address)])
    return ", ".join(answer.route.devs) if answer.route else answer.kind


def ways_out(host: Host) -> set[str]:
    """The outgoing devices for all addresses."""
    return {way_out(host, address) for address in CIDRS.values()}


def demonstrate(host: Host) -> int:
    """Show the failure, the repair and the proof, and undo everything."""
    tell(
        f"1. The cluster uses {' and '.join(CIDRS)}. The node is Ready, but its pods cannot "
        "reach the cluster. Why?"
    )
    assert ask(host, "check", *CIDRS) == 1
    assert ways_out(host) == {"ib0"}

    tell("2. Put the repair into the agent's configuration, and Configure into its pipeline.")
    sections = {
        "staticRoutes": {"enabled": True, "routes": REPAIR},
        "routeOverlap": {"expectedCidrs": [*CIDRS], "mode": "STRICT"},
    }
    config = HostRoutingConfig.from_mapping(sections)
    configure = Configure(config, host=host)
    print(phases.plan(configure))
    report = phases.run(phases.serial(configure, name="bootstrap"), observers=[])
    print(f"\n{report}", flush=True)
    assert report.ok, str(report)

    tell("3. The proof: the check covers every address of the CIDR, not only a sample.")
    assert ask(host, "check", *CIDRS) == 0
    print()
    for address in CIDRS.values():
        print(f"For {address}, the kernel now answers: dev {way_out(host, address)}", flush=True)
    assert ways_out(host) == {"eth0"}

    phases.undo(configure, phases.Context(observers=[]))
    assert ways_out(host) == {"ib0"}
    tell(
        "4. All of this was undone: its routes and files are gone, and InfiniBand's own "
        "routes are as they were."
    )
    return 0


def run() -> int:
    """Create the node in a namespace, or as a fake host, and run the demonstration."""
    # The demonstration says itself what happens.
    logging.getLogger().addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory(prefix="hostrouting-demo-") as root:
        print(
            "A node like an Azure ND H200: eth0 has the default route, ib0 to ib7 are all "
            "connected to 172.16.0.0/16."
        )
        try:
            host = node_on_linux(root)
        except OSError as error:
            print(
                "This is a fake host: the machine does not allow a namespace "
                f"({error.filename}: {error.strerror})."
            )
            return demonstrate(FakeHost(kernel=h200(dual_stack="--dual-stack" in sys.argv)))
        print(
            "It is in a private network namespace: this machine's network is not changed, and "
            "no packet is sent. Its devices are virtual, so the check also says how to allow ib0; "
            "on a node, InfiniBand is hardware, and that line is missing."
        )
        return demonstrate(host)


if __name__ == "__main__":
    sys.exit(run())
