"""The host of the contract suite on Linux: a network namespace of its own.

Needs root, and `ip` of iproute2. Nothing of the machine's own network is changed.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.testing.contract import ADDRESSES, RULES, contract_host

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLONE_NEWNET = 0x40000000  # os.CLONE_NEWNET, which Python has since 3.12
_DEVICES = """\
link set lo up
# Without a delay, a port forwards at once, and nothing changes later.
link add br0 type bridge forward_delay 0
link set br0 up
link add eth0 type veth peer name far-eth0
link add ib0 type veth peer name far-ib0
link add idle0 type veth peer name far-idle0
link add port0 type veth peer name far-port0
link set far-eth0 up
link set far-ib0 up
link set far-port0 up
link set eth0 up
link set ib0 up
link set port0 up
link set port0 master br0
"""


@contextmanager
def linux_host() -> Iterator[None]:
    """Run the block on a new host, as `contract_host` describes it: in a network namespace of its
    own, to which this thread moves. Sockets and processes that are made in the block stay there.
    """
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    _call("unshare", _CLONE_NEWNET)
    try:
        _ip(_DEVICES)
        for dev, address in ADDRESSES:
            usable_at_once = "nodad" if ":" in address else ""
            _ip(f"address add {address} dev {dev} {usable_at_once}")
        # A rule as text is "100: from all …", but `ip rule add` takes no colon.
        for rule in RULES:
            _ip(f"rule add pref {rule}".replace(":", "", 1), f"-{rule.family}")
        _await_routes()
        yield
    finally:
        _call("setns", home, 0)  # 0: whatever kind of namespace `home` is
        os.close(home)


def _ip(lines: str, *options: str) -> None:
    command = ["ip", *options, "-batch", "-"]
    subprocess.run(command, input=lines, text=True, check=True)  # noqa: S603  no shell


def _await_routes() -> None:
    """Wait until the host has all routes that its fake twin (`contract_host`) has. Linux adds some
    of them a little later: it first has to notice that a new device has a carrier, and it adds the
    route of an IPv6 address late.
    """
    promised = set(contract_host().snapshot().routes)
    with NetlinkBackend() as backend, backend.watch() as watch:
        while not promised <= set(backend.snapshot().routes):
            watch.wait(1)


def _call(function: str, *arguments: int) -> None:
    # Call a function of the C library: Python has `os.unshare` and `os.setns` only since 3.12.
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments):  # not 0: an error
        raise OSError(ctypes.get_errno(), function)
