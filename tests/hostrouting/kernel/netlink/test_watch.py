"""NetlinkWatch: sockets that cannot be opened or fail, events of nftables, which changes disturb a reading, and no descriptor that stays open."""

import errno
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path

import pytest

from hostrouting.errors import BackendError
from hostrouting.kernel.base import Source
from hostrouting.kernel.concern import Concern
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.netlink.watch import EVERYTHING, NetlinkWatch, Wanted, disturbed, reports
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import TABLE_LOCAL, TABLE_MAIN, Route
from hostrouting.model.snapshot import Snapshot
from tests.support.namespace import private_namespace


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closed at the end of the test."""
    with ExitStack() as found:
        yield found


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that failed is opened again after a tenth of a second."""
    monkeypatch.setattr("hostrouting.kernel.netlink.watch._AGAIN", 0.1)


class Broken(socket.socket):
    """A socket that fails as soon as a message has arrived."""

    def recv(self, *given: int) -> bytes:
        """Fail if a message has arrived."""
        super().recv(*given)
        raise OSError(errno.EIO, "Input/output error")


def pair(stack: ExitStack, kind: type[socket.socket] = socket.socket) -> tuple[socket.socket, socket.socket]:
    """A socket to listen to, and the one that sends to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return kind(fileno=ours.detach()), stack.enter_context(theirs)


def troubles(watch: NetlinkWatch) -> list[str]:
    """What the watch says now."""
    return list(watch.troubles)


def open_descriptors() -> int:
    """The number of descriptors of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.needs("root", "nft")
@pytest.mark.linux
def test_nftables_of_the_kernel() -> None:
    """Another program's change of nftables is heard as long as the watch listens to it; no thread is needed for that."""
    with private_namespace() as namespace, NetlinkBackend(netns=namespace.path) as backend, backend.watch() as watch:
        namespace.run("nft", "add", "table", "ip6", "nobody")
        assert not watch.wait(0.1)
        before = open_descriptors(), threading.active_count()
        watch.listen(nftables=True)
        assert troubles(watch) == []
        assert not watch.wait(0.1)
        assert threading.active_count() == before[1]
        for words in ("add table ip6 someone", "flush ruleset"):
            namespace.run("nft", *words.split())
            assert watch.wait(30)
            while watch.wait(0.2):  # the end of the transaction
                pass
        watch.listen(nftables=False)
        namespace.run("nft", "add", "table", "ip6", "someone")
        assert not watch.wait(0.1)
        assert open_descriptors() == before[0]


class Overflowing(socket.socket):
    """A socket whose buffer overflows once a message has arrived."""

    def recv(self, *given: int) -> bytes:
        """Report the overflow instead of the message."""
        super().recv(*given)
        raise OSError(errno.ENOBUFS, "No buffer space available")


def route_message(network: str, *, table: int = TABLE_MAIN) -> bytes:
    """What Linux reports about a new IPv4 route by device 9."""
    prefix = Prefix.parse(network)
    body = struct.pack("=8BI", 2, prefix.length, 0, 0, min(table, 252), 4, 0, 1, 0)
    body += struct.pack("=HHI", 8, 15, table) + struct.pack("=HH4s", 8, 1, prefix.network.to_bytes(4, "big"))
    return struct.pack("=IHHII", 16 + len(body), 24, 0, 0, 0) + body


def setting_message(device: int) -> bytes:
    """What Linux reports about an IPv4 setting of the device with this number."""
    return struct.pack("=IHHIIB3xHHi", 28, 80, 0, 0, 0, 2, 8, 1, device)


NEAR = Concern.of(Snapshot(), [Prefix.parse("172.16.0.0/16")], protocols={213})


@pytest.mark.parametrize(
    ("messages", "heard"),
    [
        ([], False),
        ([route_message("20.0.0.0/8")], False),
        ([route_message("172.16.5.0/24")], True),
        ([route_message("20.0.0.0/8"), route_message("172.16.5.0/24")], True),
        ([route_message("20.0.0.0/8") + route_message("172.16.5.0/24")], True),
        ([route_message("172.16.5.0/24", table=1000)], False),
        ([struct.pack("=IHHII", 28, 32, 0, 0, 0) + bytes(12)], True),
        ([setting_message(9)], False),
        ([setting_message(-1)], True),
    ],
    ids=["none", "far", "near", "behind it", "in one", "table", "rule", "of a device", "of all devices"],
)
def test_what_does_not_matter_is_left_out(stack: ExitStack, messages: list[bytes], *, heard: bool) -> None:
    """Of many messages, one that matters is enough; what is not understood, such as a rule, matters."""
    ours, theirs = pair(stack)
    with NetlinkWatch(lambda _: ours) as watch:
        watch.heed((NEAR,))
        for message in messages:
            theirs.send(message)
        assert watch.wait(0) is heard
        assert not watch.wait(0), "all of it was read"
        theirs.send(route_message("20.0.0.0/8"))
        watch.heed(None)
        assert watch.wait(0)


def test_an_overflow_always_matters(stack: ExitStack) -> None:
    """What was lost might have mattered."""
    ours, theirs = pair(stack, Overflowing)
    with NetlinkWatch(lambda _: ours) as watch:
        watch.heed((NEAR,))
        theirs.send(route_message("20.0.0.0/8"))
        assert watch.wait(0)


def test_a_socket_that_fails(stack: ExitStack) -> None:
    """That counts as a change and is a trouble; a new one is opened later, which counts as a change and ends the trouble."""
    first, sender = pair(stack, Broken)
    later, other = pair(stack)
    made, is_full = iter([first, later]), False

    def make(_: Source) -> socket.socket:
        if is_full:
            raise BackendError("too many open files")
        return next(made)

    with NetlinkWatch(make) as watch:
        is_full = True
        sender.send(b"x")
        assert watch.wait(5)
        assert troubles(watch) == ["cannot listen to changes of routes: netlink failed (kernel: Input/output error)"]
        begun = time.monotonic()
        assert not watch.wait(0.15)
        assert time.monotonic() - begun >= 0.15
        while "netlink failed" in troubles(watch)[0]:  # on a busy machine, that wait may end before the next attempt
            assert not watch.wait(0.01)
        assert troubles(watch) == ["cannot listen to changes of routes: too many open files"]
        is_full = False
        assert watch.wait(5)
        assert troubles(watch) == []
        assert not watch.wait(0)
        other.send(b"x")
        assert watch.wait(5)
        assert not watch.wait(0)
    assert later.fileno() < 0


def test_a_socket_that_can_never_be_read(stack: ExitStack) -> None:
    """A socket that can never be read is a trouble, not a change. It is opened again after a pause, not at once."""
    opened = 0

    def make(source: Source) -> socket.socket:
        nonlocal opened
        if source == "routes":
            return pair(stack)[0]
        opened += 1
        ours, theirs = pair(stack, Broken)
        theirs.send(b"x")
        return ours

    with NetlinkWatch(make) as watch:
        watch.listen(nftables=True)
        assert not watch.wait(0.35)
        assert "Input/output error" in troubles(watch)[0]
        assert opened <= 5


@pytest.mark.parametrize("deaf", ["routes", "nftables"])
def test_one_of_two_cannot_be_opened(stack: ExitStack, deaf: Source) -> None:
    """The other watch still works; a wait ends with its changes, at its timeout, and when both are open."""
    senders, opens = dict[str, socket.socket](), True

    def make(source: Source) -> socket.socket:
        if source == deaf and not opens:
            raise BackendError("no namespace")
        ours, senders[source] = pair(stack, Broken if source == deaf and source not in senders else socket.socket)
        return ours

    with NetlinkWatch(make) as watch:
        watch.listen(nftables=True)
        opens = False
        senders[deaf].send(b"x")
        assert watch.wait(5)
        assert not watch.wait(0.15)
        [other] = set(senders) - {deaf}
        senders[other].send(b"x")
        assert watch.wait(5)
        assert not watch.wait(0)
        assert troubles(watch) == [f"cannot listen to changes of {deaf}: no namespace"]
        opens = True
        assert watch.wait(5)
        assert troubles(watch) == []
        assert not watch.wait(0)
        for sender in senders.values():
            sender.send(b"x")
            assert watch.wait(5)
            assert not watch.wait(0)


@pytest.mark.linux
@pytest.mark.needs("root")
def test_no_descriptor_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often sockets fail, none is left; if a watch cannot be made, that is a BackendError."""
    monkeypatch.setattr("hostrouting.kernel.netlink.watch._AGAIN", 0.0)
    with private_namespace() as namespace, NetlinkBackend(netns=namespace.path) as backend:
        with backend.watch() as watch:
            watch.listen(nftables=True)
            before = open_descriptors()
            for _ in range(50):
                for listener in watch._listeners.values():  # nothing else makes a real socket fail
                    listener.close()
                assert watch.wait(0)
            assert open_descriptors() == before

        def refuse(_: Source) -> socket.socket:
            raise BackendError("in a sandbox")

        def no_pipe(_flags: int) -> tuple[int, int]:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        before = open_descriptors()
        monkeypatch.setattr(os, "pipe2", no_pipe)
        with pytest.raises(BackendError, match="this process has too many open files"):
            backend.watch()
        monkeypatch.undo()
        with pytest.raises(BackendError, match="in a sandbox"):
            NetlinkWatch(refuse)
        assert open_descriptors() == before


@pytest.mark.linux
@pytest.mark.needs("root")
def test_a_watch_outlives_its_backend() -> None:
    """A watch whose socket fails after its backend was closed says so."""
    with private_namespace() as namespace:
        backend = NetlinkBackend(netns=namespace.path)
        with backend.watch() as watch:
            backend.close()
            watch.listen(nftables=True)
            assert troubles(watch) == ["cannot listen to changes of nftables: this backend was closed"]
            assert not watch.wait(0)


# The changes that spoil the reading of a few routes, and those that do not


HERE = Prefix.parse("20.0.0.0/16")
THERE = Prefix.parse("fd00::/16")


def route_to(prefix: Prefix, *, table: int = TABLE_MAIN) -> Route:
    """A route that was changed."""
    return Route(prefix, table=table)


@pytest.mark.parametrize(
    ("wanted", "changed", "disturbs"),
    [
        (EVERYTHING, route_to(HERE, table=100), True),
        (Wanted(table=TABLE_MAIN), route_to(HERE), True),
        (Wanted(table=TABLE_MAIN), route_to(HERE, table=100), False),
        # The two tables are merged until the first custom rule.
        (Wanted(table=TABLE_MAIN), route_to(HERE, table=TABLE_LOCAL), True),
        (Wanted(table=TABLE_LOCAL), route_to(HERE, table=TABLE_MAIN), True),
        (Wanted(table=100), route_to(HERE, table=TABLE_LOCAL), False),
        # Among routes that begin at one address, the kernel counts.
        (Wanted(protocol=213), route_to(HERE), True),
        (Wanted(prefixes=frozenset({HERE})), route_to(HERE), True),
        (Wanted(prefixes=frozenset({HERE})), route_to(Prefix.parse("20.0.0.0/24")), True),
        (Wanted(prefixes=frozenset({HERE})), route_to(Prefix.parse("20.0.1.0/24")), False),
        # In IPv6 it counts the routes of the whole table.
        (Wanted(prefixes=frozenset({THERE})), route_to(Prefix.parse("fd01::/16")), True),
        (Wanted(table=TABLE_MAIN, prefixes=frozenset({THERE})), route_to(Prefix.parse("fd01::/16"), table=100), False),
    ],
)
def test_what_disturbs(wanted: Wanted, changed: Route, *, disturbs: bool) -> None:
    """A change disturbs only where the kernel could lose its position because of it."""
    assert wanted.disturbed_by(changed) == disturbs


IPV6_ROUTE = struct.pack("=IHHII", 36, 24, 0, 0, 0) + struct.pack("=8BI", 10, 16, 0, 0, 254, 4, 0, 1, 0)
IPV6_ROUTE += struct.pack("=HH2s2x", 6, 1, b"\xfd\x01")
LINK = struct.pack("=IHHII", 32, 16, 0, 0, 0) + struct.pack("=BxHiII", 0, 1, 9, 1, 0)


@pytest.mark.parametrize(
    ("network", "message", "disturbs"),
    [
        ("172.16.0.0/16", route_message("20.0.0.0/8"), False),
        ("172.16.0.0/16", route_message("172.0.0.0/8"), True),
        # It begins where one that matters may begin, and the kernel counts the routes that begin there.
        ("172.16.128.0/17", route_message("172.16.0.0/24"), True),
        ("172.16.0.0/16", LINK, False),
        ("172.16.0.0/16", IPV6_ROUTE, False),
        ("fd00::/16", route_message("20.0.0.0/8"), False),
        # The kernel counts the routes of the table, so it could lose its position among those that matter.
        ("fd00::/16", IPV6_ROUTE, True),
    ],
)
def test_what_disturbs_an_answer(stack: ExitStack, network: str, message: bytes, *, disturbs: bool) -> None:
    """A reading for one answer is disturbed by less than one of everything."""
    ours, theirs = pair(stack)
    stack.enter_context(ours)
    for wanted, expected in (
        (EVERYTHING, True),
        (Wanted(about=partial(Concern.of, networks=[Prefix.parse(network)], protocols={213})), disturbs),
    ):
        theirs.send(message)
        ours.settimeout(0)
        assert disturbed(chain.from_iterable(reports(ours)), wanted, Snapshot()) == expected
