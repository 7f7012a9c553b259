"""A network namespace of this process's own: what is measured on a kernel is measured here, never on the host's.

Here: going there, and the host that is furnished there. As root, or in a user namespace where those are allowed.
"""

import ctypes
import os
import subprocess
from pathlib import Path

__all__ = ["FABRIC", "GATEWAY", "empty", "enter_private_network", "furnish", "ip"]

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
# By family. In IPv6 the gateway is the address with which a router announces itself.
GATEWAY = {4: "10.0.0.1", 6: "fe80::1"}
FABRIC = {4: "172.16.0.0/16", 6: "fd00:0:ac10::/48"}
_DEFAULTS = [f"route add default via {gateway} dev eth0 proto 16 metric 100" for gateway in GATEWAY.values()]


def enter_private_network() -> str:
    """Go into a new network namespace, which this process does not leave again; why not, where that cannot be."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_CLONE_NEWNET if user == 0 else _CLONE_NEWUSER | _CLONE_NEWNET):
        return f"a private network namespace requires root or a user namespace: {os.strerror(ctypes.get_errno())}"
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            Path("/proc/self", name).write_text(text, encoding="ascii")
    return ""


def furnish() -> None:
    """The host that all of this is about: eth0 leads out, and ib0 … ib7 are all connected to the fabric, in both families."""
    pairs = [("eth0", "far"), *((f"ib{number}", f"ib{number + 1}") for number in range(0, 8, 2))]
    fabric = [dev for pair in pairs[1:] for dev in pair]
    ip(
        "link set lo up",
        *(f"link add {one} type veth peer name {other}" for one, other in pairs),
        *(f"link set {dev} up" for pair in pairs for dev in pair),
        "address add 10.0.0.4/24 dev eth0",
        *(f"address add 172.16.{number + 1}.{number + 10}/16 dev {dev}" for number, dev in enumerate(fabric)),
        # Nobody else has them: without `nodad` Linux looks for a second or two whether somebody does.
        *(f"address add fd00:0:ac10:{number + 1}::a/48 dev {dev} nodad" for number, dev in enumerate(fabric)),
        *_DEFAULTS,
    )


def empty() -> None:
    """Take away every route by eth0 at once, except those that the host was furnished with."""
    ip("link set eth0 down", "link set eth0 up", *_DEFAULTS)


def ip(*lines: str) -> None:
    """Carry out commands of `ip`."""
    text = "".join(f"{line}\n" for line in lines)
    subprocess.run(["ip", "-batch", "-"], input=text, check=True, text=True, stdout=subprocess.DEVNULL)
