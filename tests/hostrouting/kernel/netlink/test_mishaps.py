"""What goes wrong between this process and the kernel."""

import errno
import os
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any
from unittest import mock

import pytest

from hostrouting.errors import BackendError
from hostrouting.kernel.base import Answer, RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.netlink.host import AskedNames, list_rules
from hostrouting.kernel.netlink.lists import list_routes
from hostrouting.kernel.netlink.numbers import GROUPS_OF_CHANGES, RTM_GETRULE, text_of
from hostrouting.kernel.netlink.requests import lookup_routes
from hostrouting.kernel.netlink.routes import _expired
from hostrouting.kernel.netlink.socket import (
    HEADER,
    NLM_F_DUMP_INTR,
    KernelError,
    Netlink,
    attribute,
    attributes_of,
    kernel_errors,
)
from hostrouting.kernel.netlink.watch import NetlinkWatch
from hostrouting.kernel.refusals import refusal
from hostrouting.model.prefix import IPV6, as_ip
from hostrouting.model.route import OURS, Route
from hostrouting.model.snapshot import Snapshot
from tests.support.children import in_child
from tests.support.kinds import raises
from tests.support.namespace import Namespace
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

ROUTE = Route.to("192.0.2.0/24", dev="eth0", gateway="10.0.0.1", protocol=OURS)
ASIDE = ROUTE._replace(table=1001)


def calm_snapshot(backend: NetlinkBackend) -> Snapshot:
    """A snapshot after the kernel's last word about new devices, which may come a little later."""
    with backend.watch() as watch:
        wait_for("the last word about new devices", lambda: not watch.wait(0.05))
    return backend.snapshot()


def test_a_host_that_changes_while_it_is_read(
    backend: NetlinkBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read again, up to three times in all; what changes between readings does not count."""
    calm_snapshot(backend)
    disturbed: tuple[int, ...] = ()
    read: list[int] = []

    def disturb(*_: object) -> None:
        with NetlinkBackend() as other:
            other.change([RouteRequest(verb, ASIDE) for verb in ("add", "delete")])

    def meanwhile(netlink: Netlink, family: int, *arguments: Any) -> list[Route]:
        read.append(family)
        if family == IPV6 and read.count(IPV6) in disturbed:
            disturb()
        return list_routes(netlink, family, *arguments)

    monkeypatch.setattr("hostrouting.kernel.netlink.backend.list_routes", meanwhile)
    monkeypatch.setattr("hostrouting.kernel.netlink.backend.time.sleep", disturb)
    for disturbed, readings in (((), 1), ((1,), 2), ((1, 2), 3), ((1, 2, 3), 3)):
        read.clear()
        assert backend.snapshot().restless is (3 in disturbed)
        assert read.count(IPV6) == readings


@pytest.mark.usefixtures("backend")
def test_messages_of_another_process() -> None:
    """Those to the socket's port are refused, and those to a group are no answers or reports. If
    they fill the buffer, a report of the kernel may be among those that were lost.
    """
    refusal = HEADER.pack(20, 2, 0, 0, 0) + struct.pack("=i", -errno.ENETUNREACH)
    with (
        closing(Netlink(groups=1)) as netlink,
        closing(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)) as other,
    ):
        with pytest.raises(ConnectionRefusedError):
            other.sendto(refusal, netlink._socket.getsockname())
        for _ in range(2):
            other.sendto(refusal, (0, 1))
        [answer] = lookup_routes(netlink, [as_ip("127.0.0.1")])
        other.sendto(refusal, (0, 1))
        assert not netlink.take_reports()
        netlink._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        for _ in range(100):
            with suppress(OSError):  # the buffer is full
                other.sendto(HEADER.pack(HEADER.size, 2, 0, 0, 0), (0, 1))
        assert netlink.take_reports()
    assert answer.kind == "local"


def test_a_list_of_which_linux_says_that_it_changed(
    backend: NetlinkBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After three readings, the last one is returned as restless, and nothing in it is missing.
    An answer that is cut short is an error, and never a shorter list.
    """
    calm, receive = calm_snapshot(backend), Netlink.receive

    def marked(netlink: Netlink) -> bytes:
        answer = bytearray(receive(netlink))
        answer[6] |= NLM_F_DUMP_INTR * (answer[4] != 3)  # the flags, but not at the list's end
        return bytes(answer)

    monkeypatch.setattr(Netlink, "receive", marked)
    assert backend.snapshot() == calm._replace(restless=True)
    for longest in (100, 101, 1024):
        monkeypatch.setattr("hostrouting.kernel.netlink.socket._LONGEST_PART", longest)
        with raises(BackendError, "failed", match="cut short"):
            backend.snapshot()


def test_an_interrupt(backend: NetlinkBackend) -> None:
    """Whatever ends a call, the backend stays usable, and no later answer is taken for another."""
    backend.change([RouteRequest("add", ROUTE)])
    addresses = [as_ip(f"192.0.2.{number}") for number in range(9)]
    for call in (
        backend.snapshot,
        lambda: backend.lookup(addresses),
        lambda: backend.change([RouteRequest("add", ROUTE)] * 9),
    ):
        interrupted = mock.patch.object(Netlink, "receive", side_effect=KeyboardInterrupt)
        with interrupted, pytest.raises(KeyboardInterrupt):
            call()
        assert {answer.route for answer in backend.lookup(addresses)} == {ROUTE}


def test_a_kernel_that_does_not_answer(namespace: Namespace) -> None:
    """No answer in time is a timeout."""
    in_a_microsecond = mock.patch(f"{Netlink.__module__}._TIMEOUT", struct.pack("=qq", 0, 1))
    with (
        namespace.inside(),
        in_a_microsecond,
        closing(Netlink()) as netlink,
        raises(BackendError, "timeout", match="the kernel did not answer in time"),
        kernel_errors("listen"),
    ):
        netlink.receive()


def test_without_rights(backend: NetlinkBackend) -> None:
    """Without CAP_NET_ADMIN routes are read; a change raises, and changes nothing."""

    def unprivileged() -> tuple[bool, str]:
        os.setuid(65534)
        with NetlinkBackend() as mine:
            before, [answer] = mine.snapshot(), mine.lookup([as_ip("10.0.0.9")])
            with raises(BackendError, "not-permitted", match="run this as root, or with the cap"):
                mine.change([RouteRequest("add", ROUTE)])
            return len(before.routes) > 3 and mine.snapshot() == before, answer.kind

    assert in_child(unprivileged) == (True, "unicast")
    assert ROUTE not in backend.snapshot().routes


def test_a_lookup_is_for_a_plain_packet(namespace: Namespace, backend: NetlinkBackend) -> None:
    """It is ICMP of root, whoever asks; the answer has the table."""
    rules = ["rule add pref 8 ipproto udp prohibit", "rule add pref 9 uidrange 0-0 lookup 100"]
    namespace.batch([*rules, "route add 10.8.0.0/16 dev ib0 table 100"])

    def unprivileged() -> str:
        os.setuid(65534)
        [answer] = backend.lookup([as_ip("10.8.0.1")])
        return str(answer.route)

    assert in_child(unprivileged) == "10.8.0.0/16 dev ib0 table 100 proto boot scope link"


NO_SOCKET = {errno.EAFNOSUPPORT: "unavailable", errno.EPERM: "not-permitted"}


@pytest.mark.parametrize("number", NO_SOCKET)
def test_no_socket(number: int) -> None:
    """A system without netlink, and a sandbox that forbids it, are told apart."""
    no_socket = mock.patch("socket.socket", side_effect=OSError(number, "refused"))
    with no_socket, raises(BackendError, NO_SOCKET[number], match="cannot use netlink"):
        NetlinkBackend()


def test_lost_answers(backend: NetlinkBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change raises if the buffer overflows; then the backend shows what was done."""
    refused = [RouteRequest("delete", ASIDE)] * 100
    send_changes = Netlink.send_changes

    def with_a_small_buffer(netlink: Netlink, messages: Sequence[bytes]) -> dict[int, KernelError]:
        netlink._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        return send_changes(netlink, messages)

    with monkeypatch.context() as patch:
        patch.setattr(Netlink, "send_changes", with_a_small_buffer)
        with raises(BackendError, "unsettled", match="cannot change routes: answers were lost"):
            backend.change([RouteRequest("add", ROUTE), *refused])
    assert ROUTE in backend.snapshot().routes
    outcomes = backend.change([RouteRequest("delete", ROUTE), *refused])
    assert [outcome.ok for outcome in outcomes] == [True, *[False] * 100]


@pytest.mark.usefixtures("backend")
def test_a_list_that_is_refused() -> None:
    refused = "Invalid values in header for fib rule dump request"
    with closing(Netlink()) as netlink, pytest.raises(KernelError, match=refused):
        list(netlink.dump(RTM_GETRULE, b"\xff" * 12))


def test_a_deletion_by_a_device_that_is_gone(backend: NetlinkBackend) -> None:
    """It has taken its routes along, so nothing is left to do, as where one to append exists."""
    route = Route.to("192.0.2.0/24", dev="gone")
    requests = [RouteRequest("delete", route), RouteRequest("add", route)]
    requests += [RouteRequest("add", ROUTE), RouteRequest("append", ROUTE)]
    outcomes = [(outcome.ok, outcome.is_done) for outcome in backend.change(requests)]
    assert outcomes == [(False, True), (False, False), (True, True), (False, True)]


def test_a_refusal_with_another_number() -> None:
    """It is explained by the words for the number, which says whether to try again."""
    error = refusal(RouteRequest("add", ROUTE), errno.EIO)
    assert (error.kind, error.kernel) == ("refused", "Input/output error")
    assert refusal(RouteRequest("delete", ROUTE), errno.ENOENT).kind == "no-such-route"
    for number in (errno.EAGAIN, errno.EBUSY, errno.ENOBUFS, errno.ENOMEM):
        assert refusal(RouteRequest("add", ROUTE), number).can_retry


# Messages.


def test_attributes_that_end_nowhere() -> None:
    """Reading ends, also where a length is 0 or more than there is. Bytes are read as they are."""
    assert attributes_of(bytes(8)) == {0: b""}
    assert attributes_of(attribute(0x8000 | 7, b"")) == {7: b""}  # the flag says: nested
    assert attributes_of(struct.pack("=HHI", 200, 7, 1)) == {7: struct.pack("=I", 1)}
    assert attributes_of(b"abc") == {}
    assert text_of(b"eth\xff\0x") == "eth\\xff"
    assert [_expired(struct.pack("=8xi", ticks)) for ticks in (-1, 0, 1)] == [True, None, False]


def test_a_question_that_the_kernel_does_not_understand() -> None:
    """EINVAL means a blackhole; with words, a wrong question. A kernel may have no rules."""
    netlink, address = mock.Mock(), as_ip("192.0.2.1")
    netlink.dump.return_value = []
    refused = [KernelError(errno.EINVAL)]
    netlink.ask.side_effect = lambda _, questions: refused * len(questions)
    assert lookup_routes(netlink, [address]) == (Answer("blackhole", None),)
    for error in (KernelError(errno.EINVAL, "Invalid header"), KernelError(errno.ENOMEM)):
        refused = [error]
        with pytest.raises(KernelError, match=r"Invalid header|Cannot allocate memory"):
            lookup_routes(netlink, [address])
    assert AskedNames(netlink)[7] == "if7", "the device is gone"
    netlink.dump.side_effect = KernelError(errno.EAFNOSUPPORT)
    assert list_rules(netlink, IPV6) == ()
    netlink.dump.side_effect = KernelError(errno.ENOMEM)
    with pytest.raises(KernelError):
        list_rules(netlink, IPV6)


# Watches.


CHANGES = (
    (4, "link set ib0 down"),
    (4, "address add 10.7.0.1/24 dev ib0"),
    (4, "rule add pref 77 lookup 100"),
    (4, "route add 9.0.0.0/8 via 10.0.0.1"),
    (4, "nexthop add id 5 via 10.0.0.9 dev eth0"),
    (6, "address add fd00:7::1/64 dev ib0"),
    (6, "rule add pref 77 lookup 100"),
    (6, "route add 2001::/16 via fd00:99::1"),
    # Whether next hops are dead on a device without a carrier, whose routes Linux does not report.
    (4, "ipv4/conf/eth1/ignore_routes_with_linkdown"),
    (6, "ipv6/conf/all/forwarding"),
)


def test_every_kind_of_change_is_reported(namespace: Namespace, backend: NetlinkBackend) -> None:
    with backend.watch() as watch:
        for family, command in CHANGES:
            wait_for("the last word about a change", lambda: not watch.wait(0.02))
            if "conf" in command:
                namespace.sysctl(command, 1)
            else:
                namespace.batch([command], family=family)
            assert watch.wait(60), command


def test_more_reports_than_fit(namespace: Namespace, backend: NetlinkBackend) -> None:
    """A burst that overflows the buffer is one change, and the watch goes on."""
    with NetlinkWatch() as watch:
        watch._socket._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        wanted = [
            Route.to(f"20.0.{number}.0/24", dev="eth0", gateway="10.0.0.1") for number in range(200)
        ]
        backend.change(RouteRequest("add", route) for route in wanted)
        assert watch.wait(60)
        wait_for("the burst to end", lambda: not watch.wait(0))
        began = time.thread_time()
        assert not watch.wait(0.3)
        assert time.thread_time() - began < 0.15, "the watch sleeps"
        namespace.batch(["route add 9.0.0.0/8 via 10.0.0.1"])
        assert watch.wait(60)


def test_a_flood_of_another_process(namespace: Namespace) -> None:
    """A wait ends though more comes than is read, and a change is seen among it."""
    with (
        namespace.inside(),
        closing(NetlinkWatch()) as watch,
        closing(watch._socket._socket) as ours,
        closing(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)) as other,
    ):

        def read(*arguments: int) -> Any:
            other.sendto(bytes(30000), (0, GROUPS_OF_CHANGES))
            return ours.recvfrom(*arguments)

        watch._socket._socket = mock.Mock(wraps=ours, recvfrom=read)
        assert not watch.wait(0.0)
        namespace.batch(["route add 9.0.0.0/8 via 10.0.0.1"])
        assert watch.wait(0.0)
        watch._socket._socket.recvfrom = mock.Mock(side_effect=OSError("without a number"))
        with raises(BackendError, "failed", match="to changes of routes any more .*Input/output"):
            watch.wait(0.0)
