"""What a guard keeps of the kernel's lists: what Linux reports before its effect, or not at all."""

from __future__ import annotations

import socket
import time
from functools import partial

import pytest

from hostrouting.kernel._route_table import RouteTable
from hostrouting.kernel.concern import Concern
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.netlink.channel import HEADER
from hostrouting.kernel.netlink.keep import Kept
from hostrouting.model.route import Route
from tests.support.namespace import private_namespace, run_program
from tests.support.waiting import wait_for

LINK_OF_2 = HEADER.pack(32, 16, 0, 0, 0) + bytes([0, 0, 1, 0, 2, 0, 0, 0]) + bytes(8)
ROUTE_IN_MAIN = HEADER.pack(28, 24, 0, 0, 0) + bytes([2, 8, 0, 0, 254, 4, 0, 1]) + bytes(4)


@pytest.mark.parametrize("reports", [[LINK_OF_2], [ROUTE_IN_MAIN, LINK_OF_2], [b""]], ids=["device", "both", "lost"])
def test_a_table_that_is_read_too_early(monkeypatch: pytest.MonkeyPatch, reports: list[bytes]) -> None:
    """Routes go after the report about their device: a table that is read in between is not kept.

    Kills: keeping it as soon as it is read, also if it has changed itself, or reports were lost.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    reads, kept = list[int](), Kept(ours)

    def read(_: object) -> RouteTable:
        reads.append(1)
        return RouteTable.of([Route.to("10.0.0.0/8", dev="eth0")])

    def look() -> int:
        kept.table(4, 254, read)
        return len(reads)

    kept.name({2: "eth0"})
    assert [look(), look()] == [1, 1]
    monkeypatch.setattr("hostrouting.kernel.netlink.keep.reports", lambda _: iter([tuple(reports)]))
    assert [*kept.hear()] == reports
    assert [look(), look()] == [2, 3]
    now = time.monotonic()
    monkeypatch.setattr("hostrouting.kernel.netlink.keep.time.monotonic", lambda: now + 1)
    assert [look(), look()] == [4, 4]
    kept.close()
    theirs.close()


def test_an_event_of_a_wireless_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report with a device's name alone, as a wireless driver sends it, takes the place of nothing that is kept."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    reads, kept = list[int](), Kept(ours)

    def read() -> dict[int, bytes]:
        reads.append(1)
        return {2: LINK_OF_2}

    kept.messages("link", 0, read)
    monkeypatch.setattr("hostrouting.kernel.netlink.keep.reports", lambda _: iter([(LINK_OF_2,)]))
    assert [*kept.hear()] == [LINK_OF_2]
    kept.messages("link", 0, read)
    assert len(reads) == 2
    kept.close()
    theirs.close()


@pytest.mark.linux
@pytest.mark.needs("root")
def test_the_order_of_devices_and_addresses() -> None:
    """The first address of a device has its place as in a fresh reading. Kills: no order in take_snapshot."""
    about = partial(Concern.of, networks=(), protocols=())
    with private_namespace() as node, NetlinkBackend(netns=node.path) as kept:
        for name in ("a0", "a1"):
            node.batch([f"link add {name} type ifb", f"link set {name} addrgenmode none", f"link set {name} up"])
        node.batch(["address add fd00::1/64 dev a1 nodad"])
        kept.snapshot(about=about)
        node.batch(["address add fd01::1/64 dev a0 nodad"])

        def order(backend: NetlinkBackend) -> tuple[list[str], list[str]]:
            found = backend.snapshot(about=about)
            return [link.name for link in found.links], [str(address) for address in found.addresses]

        with NetlinkBackend(netns=node.path) as fresh:
            # Linux reports the address a moment after it has it.
            wait_for("the address in its place", lambda: order(kept) == order(fresh))


@pytest.mark.linux
@pytest.mark.needs("root")
def test_ipv6_of_a_device() -> None:
    """IPv6 that is enabled again, which has no report, is seen with the first address of the device."""
    about = partial(Concern.of, networks=(), protocols=())
    with private_namespace() as node, NetlinkBackend(netns=node.path) as backend:
        node.batch(["link add eth0 type veth peer name wire0", "link set wire0 up", "link set eth0 up"])

        def is_disabled() -> bool:
            links = {link.name: link for link in backend.snapshot(reached=True, about=about).links}
            return links["eth0"].ipv6_disabled

        assert not is_disabled()
        for setting, value in [("accept_dad", 0), ("disable_ipv6", 1), ("disable_ipv6", 0)]:
            words = (*node.enter, "sh", "-c", f"echo {value} > /proc/sys/net/ipv6/conf/eth0/{setting}")
            assert not run_program(words).returncode
            if setting == "disable_ipv6":
                wait_for(f"{setting}={value}", lambda: is_disabled() is bool(value))  # noqa: B023  called at once
