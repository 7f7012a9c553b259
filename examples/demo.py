"""The whole problem in a second: a GPU node that cannot reach its cluster, the reason, the repair,
and the proof.

It builds the network of an Azure ND H200 (eth0 with the default route; ib0…ib7, each connected to
172.16.0.0/16) in a private network namespace, which ends with this program. The machine's own
network is not changed, no packet is sent, and the boot files are written to a temporary directory.
Without root, a fake host is used.
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

CIDR = "172.16.64.0/24"
ADDRESS = "172.16.64.9"
DEVICES = ("eth0", *(f"ib{number}" for number in range(8)))
NODE = [
    "link set lo up",
    *(f"link add {name} type veth peer name {name}-far" for name in DEVICES),
    *(f"link set {end} up" for name in DEVICES for end in (name, f"{name}-far")),
    "address add 10.0.0.4/24 dev eth0",
    *(f"address add 172.16.{number + 1}.{number + 10}/16 dev ib{number}" for number in range(8)),
    "route add default via 10.0.0.1 dev eth0 proto dhcp metric 100",
]
NEW_NET = 0x40000000


def enter_private_namespace() -> None:
    """Enter an empty network namespace. Raises OSError without root."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_NET):
        raise OSError(
            ctypes.get_errno(), os.strerror(ctypes.get_errno()), "a private network namespace"
        )


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


def way_out(host: Host) -> str:
    """The outgoing device for a packet to the address, according to the kernel."""
    assert host.backend is not None
    with host.backend() as kernel:
        [answer] = kernel.lookup([as_ip(ADDRESS)])
    return ", ".join(answer.route.devs) if answer.route else answer.kind


def demonstrate(host: Host) -> int:
    """Show the failure, the repair and the proof, and undo everything."""
    tell(
        f"1. The cluster uses {CIDR}. The node is Ready, but its pods cannot reach the cluster. "
        "Why?"
    )
    assert ask(host, "check", CIDR) == 1
    assert way_out(host) == "ib0"

    tell("2. Put the repair into the agent's configuration, and Configure into its pipeline.")
    sections = {
        "staticRoutes": {"enabled": True, "routes": [{"destination": CIDR, "metric": 2048}]},
        "routeOverlap": {"expectedCidrs": [CIDR], "mode": "STRICT"},
    }
    config = HostRoutingConfig.from_mapping(sections)
    configure = Configure(config, host=host)
    print(phases.plan(configure))
    report = phases.run(phases.serial(configure, name="bootstrap"))
    print(f"\n{report}", flush=True)
    assert report.ok, str(report)

    tell("3. The proof: the check covers every address of the CIDR, not only a sample.")
    assert ask(host, "check", CIDR) == 0
    print(f"\nFor {ADDRESS}, the kernel now answers: dev {way_out(host)}", flush=True)
    assert way_out(host) == "eth0"

    phases.undo(configure, ctx=phases.Context())
    assert way_out(host) == "ib0"
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
                "This is a fake host: a namespace cannot be made "
                f"({error.filename}: {error.strerror})."
            )
            return demonstrate(FakeHost(kernel=h200()))
        print(
            "It is in a private network namespace: this machine's network is not changed, and "
            "no packet is sent. Its devices are virtual, so nothing is said of RDMA."
        )
        return demonstrate(host)


if __name__ == "__main__":
    sys.exit(run())
