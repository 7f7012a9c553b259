"""NetlinkBackend under bad conditions: no privilege, no netlink, no answer, constant changes."""

import asyncio
import errno
import gc
import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hostrouting.errors import BackendError
from hostrouting.kernel._fib.decision import Kind
from hostrouting.kernel._fib.packet import ANY, Flow
from hostrouting.kernel.base import RouteBackend, RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.netlink import backend as backend_module
from hostrouting.kernel.netlink import numbers as n
from hostrouting.kernel.netlink import read as reading
from hostrouting.kernel.netlink.channel import (
    Channel,
    Interrupted,
    KernelError,
    Listing,
    Lost,
    inside,
    open_namespace,
    open_socket,
)
from hostrouting.kernel.netlink.watch import NetlinkWatch, Wanted, disturbed
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Snapshot
from tests.support.children import enter_namespace, in_child, refuse_netlink, refuse_strict_checking
from tests.support.kinds import raises
from tests.support.namespace import Namespace
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

NOBODY = 65534
ROUTE = Route.to("1.0.0.0/8", dev="eth0", gateway="10.0.0.1", protocol=213)


def everything(backend: RouteBackend) -> tuple[Snapshot, tuple[bool, ...], list[Kind]]:
    """Use every verb once, and leave everything unchanged."""
    with backend.watch() as watch:
        done = backend.change([RouteRequest("add", ROUTE), RouteRequest("delete", ROUTE)])
        assert watch.wait(5)
    kinds = [answer.kind for answer in backend.lookup([as_ip("10.0.0.9"), as_ip("9.9.9.9")])]
    return backend.snapshot(), tuple(outcome.ok for outcome in done), kinds


class TestNamespaces:
    """Using another namespace without entering it."""

    def test_by_path_without_leaving(self, namespace: Namespace, backend: NetlinkBackend) -> None:
        """The backend uses the given namespace while this thread stays in its own."""
        before = Path("/proc/thread-self/ns/net").readlink()
        snapshot, done, kinds = everything(backend)
        assert (done, kinds) == ((True, True), ["unicast", "no-route"])
        assert snapshot.links == namespace.links()
        assert Path("/proc/thread-self/ns/net").readlink() == before
        assert not [thread for thread in threading.enumerate() if "netns" in thread.name]

    def test_by_name(self, namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A name is one that `ip netns` lists."""
        (tmp_path / "fabric").symlink_to(namespace.path)
        monkeypatch.setattr("hostrouting.kernel.netlink.channel._NAMED", str(tmp_path))
        with NetlinkBackend(netns="fabric") as backend:
            assert backend.snapshot().links == namespace.links()

    @pytest.mark.parametrize(
        ("netns", "words"),
        [
            ("no-such-one", "network namespace 'no-such-one' does not exist: /run/netns/no-such-one: No such file"),
            ("/nowhere/at/all", "'/nowhere/at/all'"),
            ("nul\0byte", "null byte"),
            ("/proc/self/ns/mnt", "not a network namespace"),
            ("/dev/null", "not a network namespace"),
        ],
    )
    def test_a_wrong_one_is_an_error(self, netns: str, words: str) -> None:
        """A name that is not an existing network namespace is refused, and nothing is created."""
        with raises(BackendError, "unavailable") as caught:
            NetlinkBackend(netns=netns)
        assert words in str(caught.value)
        assert not Path("/run/netns/no-such-one").exists()

    def test_outlives_its_path(self, namespace: Namespace) -> None:
        """Once open, the namespace is held, even if its path is deleted."""
        descriptor = os.open(namespace.path, os.O_RDONLY)
        path = f"/proc/self/fd/{descriptor}"
        with NetlinkBackend(netns=path) as backend:
            os.close(descriptor)
            assert everything(backend)[1] == (True, True)


class TestPlaces:
    """Threads, event loops and children."""

    def test_beside_a_running_loop(self, backend: NetlinkBackend) -> None:
        """A running event loop does not matter, in its own thread or in another."""

        async def use() -> tuple[object, object]:
            return everything(backend), await asyncio.to_thread(everything, backend)

        here, there = asyncio.run(use())
        assert here == there == everything(backend)

    def test_in_a_forked_child(self, backend: NetlinkBackend) -> None:
        """A child has its own connection; its parent's is not disturbed."""
        expected = everything(backend)
        with backend.watch() as watch:

            def child() -> tuple[bool, bool, object]:
                # Changes may have been missed in this child: it must read again once.
                first, second = watch.wait(0), watch.wait(0)
                return first, second, everything(backend)

            assert in_child(child) == (True, False, expected)
            assert watch.wait(5)
        assert everything(backend) == expected

    def test_closes_twice_and_lets_go(self, namespace: Namespace) -> None:
        """Closing twice is fine; anything else is an error then, and no descriptor stays open."""
        before = len([*Path("/proc/self/fd").iterdir()])
        backend = NetlinkBackend(netns=namespace.path)
        watch = backend.watch()
        for thing in (watch, backend, watch, backend):
            thing.close()
        watch.wake()
        for use in (backend.snapshot, lambda: backend.change([]), backend.watch, lambda: watch.wait(0)):
            with pytest.raises(BackendError, match="was closed"):
                use()
        gc.collect()
        assert len([*Path("/proc/self/fd").iterdir()]) == before


class TestPrivileges:
    """The verbs that require privilege, and those that do not."""

    def test_reading_takes_none(self, namespace: Namespace, backend: NetlinkBackend) -> None:
        """An ordinary user may take snapshots, look up and listen; changing anything is not permitted."""
        everything(backend)  # so that what it takes is loaded: nobody may not be let into where that is kept

        def child() -> tuple[Snapshot, list[Kind], bool, list[str]]:
            enter_namespace(namespace.path)
            os.setgroups([])
            os.setresuid(NOBODY, NOBODY, NOBODY)
            nobody, refused = NetlinkBackend(), []
            # The second does not exist, and the third names a missing device: permission is checked first.
            missing = Route.to("2.0.0.0/8", dev="nope")
            for wanted in (RouteRequest("add", ROUTE), RouteRequest("delete", ROUTE), RouteRequest("replace", missing)):
                try:
                    nobody.change([wanted])
                except BackendError as error:
                    refused.append(str(error))
            kinds = [answer.kind for answer in nobody.lookup([as_ip("10.0.0.9"), as_ip("9.9.9.9")])]
            with nobody.watch() as watch:
                heard = watch.wait(0)
            return nobody.snapshot(), kinds, heard, refused

        snapshot, kinds, heard, refused = in_child(child)
        assert snapshot == backend.snapshot()
        assert kinds == ["unicast", "no-route"]
        assert not heard
        words = "this process may not change routes or rules; this requires root or the capability CAP_NET_ADMIN"
        assert refused == [f"{words} (kernel: Operation not permitted)"] * 3

    def test_a_question_is_about_packets_of_root(self, namespace: Namespace, backend: NetlinkBackend) -> None:
        """Whoever asks, the packet is root's, unless the flow has a user. Kills: the user who asks."""
        rules = [f"rule add pref {at} uidrange {user}-{user} blackhole" for at, user in ((9, 0), (10, NOBODY))]
        namespace.batch(rules[:1])
        backend.snapshot()  # so that what it takes is loaded

        def child() -> list[Kind]:
            enter_namespace(namespace.path)
            os.setgroups([])
            os.setresuid(NOBODY, NOBODY, NOBODY)
            flows = (ANY, Flow(iif="lo"), Flow(uid=NOBODY))
            return [NetlinkBackend().lookup([as_ip("10.0.0.9")], flow)[0].kind for flow in flows]

        assert in_child(child) == ["blackhole", "blackhole", "unicast"]
        namespace.batch(["rule del pref 9", *rules[1:]])
        assert in_child(child) == ["unicast", "unicast", "blackhole"]

    def test_no_netlink(self) -> None:
        """In a sandbox without netlink, the error says so."""

        def child() -> None:
            refuse_netlink()
            NetlinkBackend()

        with raises(BackendError, "unavailable", match="sandbox") as caught:
            in_child(child)
        assert caught.value.errno == errno.EAFNOSUPPORT

    def test_another_system(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without netlink in the socket module, the error says that Linux is required."""
        monkeypatch.delattr(socket, "AF_NETLINK")
        with raises(BackendError, "unavailable", match="requires Linux"):
            NetlinkBackend()

    @pytest.mark.parametrize(
        ("number", "fine"), [(errno.EOPNOTSUPP, True), (errno.EINVAL, False), (errno.ENOENT, False)]
    )
    def test_a_list_that_is_refused(
        self, namespace: Namespace, backend: NetlinkBackend, monkeypatch: pytest.MonkeyPatch, number: int, *, fine: bool
    ) -> None:
        """A kernel without next hop objects has none; any other refusal is an error, not an empty list."""
        namespace.sysctl("ipv4/nexthop_compat_mode", 0)
        namespace.batch(["nexthop add id 7 via 10.0.0.1 dev eth0", "route add 9.0.0.0/8 nhid 7"])
        listing = Channel.listing

        def refuse(channel: Channel, request: Callable[[int], bytes]) -> Iterator[Listing]:
            if struct.unpack_from("=H", request(1), 4) == (n.RTM_GETNEXTHOP,):
                raise KernelError(number)
            yield from listing(channel, request)

        monkeypatch.setattr(Channel, "listing", refuse)
        if fine:
            assert backend.snapshot().routes
        else:
            with pytest.raises(BackendError, match=rf"did not return its nexthops \(kernel: {os.strerror(number)}\)"):
                backend.snapshot()

    def test_no_strict_checking(self, namespace: Namespace, backend: NetlinkBackend) -> None:
        """On a kernel that cannot filter lists the result is the same, but slower."""
        namespace.batch(["route add 1.0.0.0/8 via 10.0.0.1 proto 213", "route add 2.0.0.0/8 via 10.0.0.1 table 100"])
        questions: list[dict[str, Any]] = [
            {},
            {"family": 4},
            {"family": 6},
            {"table": 100},
            {"protocol": 213},
            {"family": 4, "table": 254, "protocol": 213},
            {"protocol": 0},
            {"prefixes": [Prefix.parse("1.0.0.0/8"), Prefix.parse("2001::/16")]},
        ]

        def child() -> tuple[bool, list[Snapshot], bool]:
            enter_namespace(namespace.path)
            refuse_strict_checking()
            with NetlinkBackend(timeout=2.0) as old:
                snapshots = [old.snapshot(**question) for question in questions]
                deleted = all(it.ok for it in old.change([RouteRequest("add", DOOMED), RouteRequest("delete", DOOMED)]))
            return Channel(open_socket, 1.0).strict, snapshots, deleted

        strict, snapshots, deleted = in_child(child)
        assert not strict
        assert deleted
        assert snapshots == [backend.snapshot(**question) for question in questions]


DOOMED = Route.to("3.0.0.0/8", dev="eth0", gateway="10.0.0.1", protocol=213)


class TestTime:
    """Every request ends."""

    def test_a_kernel_that_never_answers(
        self, namespace: Namespace, backend: NetlinkBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Every verb ends with a timeout; afterwards the backend works again."""
        expected = everything(backend)
        held = []

        def deaf(_: int = 0) -> socket.socket:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            held.append(theirs)
            return ours

        patient = NetlinkBackend(netns=namespace.path, timeout=0.05)
        patient._channel.close()  # noqa: SLF001 RUF100  so that the next use opens another
        with monkeypatch.context() as patch:
            patch.setattr(backend_module, "open_socket", deaf)
            patch.setattr(Channel, "strict", True)
            for use in (
                patient.snapshot,
                lambda: patient.lookup([as_ip("1.2.3.4")]),
                lambda: patient.change([RouteRequest("add", ROUTE)]),
                lambda: patient.change([RouteRequest("delete", ROUTE)]),
            ):
                begun = time.monotonic()
                with raises(BackendError, "timeout", match=r"within 0\.05 s") as caught:
                    use()
                assert caught.value.can_retry
                assert 0.04 < time.monotonic() - begun < 20
        patient._channel.timeout = 30  # noqa: SLF001 RUF100  the machine may be busy
        assert everything(patient) == expected
        patient.close()
        for end in held:
            end.close()

    def test_wake_ends_a_wait(self, backend: NetlinkBackend) -> None:
        """A wait ends with False after wake() from another thread, before or during it; once for several calls."""
        with backend.watch() as watch:
            timer = threading.Timer(0.05, watch.wake)
            timer.start()
            begun = time.monotonic()
            assert not watch.wait(100)
            assert time.monotonic() - begun < 50
            timer.join()
            for _ in range(70_000):
                watch.wake()
            assert not watch.wait(100)
            begun = time.monotonic()
            assert not watch.wait(0.05)
            assert time.monotonic() - begun >= 0.05


@contextmanager
def churning(namespace: Namespace) -> Iterator[None]:
    """Meanwhile another process keeps replacing two routes; at every moment at least one of them exists."""
    steps = [f"route {verb} {prefix} via 10.0.0.1" for verb, prefix in MOVES]
    churn = subprocess.Popen(
        [*namespace.enter, "ip", "-batch", "-"],
        stdin=subprocess.PIPE,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert churn.stdin is not None
    pipe, over = churn.stdin, threading.Event()

    def feed() -> None:
        while not over.is_set():
            pipe.write("".join(f"{step}\n" for step in steps * 50))

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        over.set()
        feeder.join(20)
        pipe.close()
        assert churn.wait(20) == 0


FIRST, LAST = "20.0.0.0/32", "20.0.7.255/32"
MOVES = [("add", LAST), ("del", FIRST), ("add", FIRST), ("del", LAST)]


class TestPeace:
    """Changes during a reading."""

    def test_a_snapshot_is_of_one_moment(
        self, namespace: Namespace, backend: NetlinkBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """While routes change quickly, a snapshot is either consistent or an error (unsettled)."""
        namespace.batch([f"route add 20.0.{high}.{low} via 10.0.0.1" for high in range(8) for low in range(1, 255)])
        namespace.batch([f"route add {FIRST} via 10.0.0.1"])
        heard: list[bool] = []
        asked = disturbed

        def listening(messages: Iterable[bytes], wanted: Wanted, found: Snapshot) -> bool:
            heard.append(asked(messages, wanted, found))
            return heard[-1]

        monkeypatch.setattr(reading, "disturbed", listening)
        ends = {20 << 24, 20 << 24 | 0x7FF}
        with churning(namespace):

            def took_many() -> bool:
                for _ in range(20):
                    try:
                        snapshot = backend.snapshot(family=4)
                    except BackendError as error:
                        assert error.kind == "unsettled"  # noqa: PT017  most attempts raise nothing
                    else:
                        assert ends & {route.prefix.network for route in snapshot.routes if route.prefix.length == 32}
                return any(heard)

            wait_for("a change during a snapshot", took_many)

    def test_a_listing_that_was_interrupted_is_known(self) -> None:
        """The kernel's flag for an interrupted list is noticed at any position."""
        for marked in range(3):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            messages = [
                struct.pack("=IHHII12x", 28, n.RTM_NEWROUTE, 2 | n.NLM_F_DUMP_INTR * (at == marked), 1, 0)
                for at in range(2)
            ]
            done = struct.pack("=IHHIIi", 20, n.NLMSG_DONE, 2 | n.NLM_F_DUMP_INTR * (marked == 2), 1, 0, 0)
            theirs.send(b"".join([*messages, done]))
            channel = Channel(lambda made=ours: made, 5.0)  # type: ignore[misc]  # a default binds it now
            channel.begin()
            with pytest.raises(Interrupted):
                list(channel.listing(lambda _: b"x"))
            theirs.close()

    def test_an_answer_to_an_older_question_is_passed_over(self) -> None:
        """A late answer is not taken for the answer to another request."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

        def said(number: int, sequence: int) -> bytes:
            return struct.pack("=IHHIIi16x", 36, n.NLMSG_ERROR, 0, sequence, 0, -number)

        route = struct.pack("=IHHII12x", 28, n.RTM_NEWROUTE, 2, 3, 0)
        done = struct.pack("=IHHIIi", 20, n.NLMSG_DONE, 2, 3, 0, 0)
        for answer in (said(errno.EPERM, 77), said(errno.ESRCH, 1), said(errno.EPERM, 1), said(0, 2), route, done):
            theirs.send(answer)
        channel = Channel(lambda: ours, 5.0)
        channel.begin()
        with pytest.raises(KernelError) as caught:
            channel.ask(lambda _: b"question")
        assert caught.value.number == errno.ESRCH
        errors: dict[int, KernelError] = {}
        assert not channel.submit([bytes(16)], channel.number(), errors)
        assert errors == {}
        assert [len([*part]) for part in channel.listing(lambda _: b"question")] == [1, 0]
        theirs.close()
        channel.close()

    def test_a_burst_that_was_too_large_is_one_change(self, namespace: Namespace) -> None:
        """If the buffer overflows, the watch returns True once, and continues to listen."""
        descriptor = open_namespace(namespace.path)
        with NetlinkWatch(lambda _: inside(descriptor, partial(open_socket, n.groups(), buffer=1))) as watch:
            namespace.batch([f"route add 20.0.0.{low} via 10.0.0.1" for low in range(256)])
            assert watch.wait(5)
            assert not watch.wait(0)
            namespace.batch(["route add 21.0.0.0/8 via 10.0.0.1"])
            assert watch.wait(5)
            assert not watch.wait(0)
        descriptor.close()

    def test_answers_that_were_lost_are_found_out(self, namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
        """If the buffer is too small for the answers, done and refused changes are still distinguished."""
        namespace.batch([f"route add 20.0.0.{low} via 10.0.0.2" for low in range(0, 256, 2)])
        monkeypatch.setattr(backend_module, "open_socket", partial(open_socket, buffer=1))
        with NetlinkBackend(netns=namespace.path) as cramped:
            assert cramped._channel.capacity < 3  # noqa: SLF001 RUF100
            wanted = [Route.to(f"20.0.0.{low}/32", dev="eth0", gateway="10.0.0.1", protocol=213) for low in range(256)]
            with monkeypatch.context() as patch:
                patch.setattr(Channel, "capacity", 128)
                outcomes = cramped.change([RouteRequest("add", route) for route in wanted])
                # Fewer are requested at a time until the answers fit.
                assert len(cramped.lookup([route.prefix.ip for route in wanted])) == len(wanted)
            assert [outcome.ok for outcome in outcomes] == [False, True] * 128
            assert any("answer was lost" in str(outcome.error) for outcome in outcomes)
            # By default it requests only as many answers at a time as fit.
            again = cramped.change([RouteRequest("add", route) for route in wanted])
            assert {outcome.error.errno for outcome in again if outcome.error} == {errno.EEXIST}
            assert not any(outcome.ok for outcome in again)
            answers = cramped.lookup([route.prefix.ip for route in wanted])
            assert [answer.route and str(answer.route.legs[0].gateway) for answer in answers] == [
                "10.0.0.2",
                "10.0.0.1",
            ] * 128

    def test_a_single_answer_that_was_lost_is_asked_for_again(
        self, backend: NetlinkBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The name of a device is resolved even if the first answer is lost."""
        receive, lost = Channel.receive, [Lost()]

        def lossy(channel: Channel, *, wait: bool = True) -> bytes:
            data = receive(channel, wait=wait)
            if lost:
                raise lost.pop()
            return data

        monkeypatch.setattr(Channel, "receive", lossy)
        (outcome,) = backend.change([RouteRequest("add", ROUTE)])
        assert outcome.ok
        assert not lost

    def test_an_answer_that_never_arrives(self, namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
        """A request whose every answer is lost ends with a timeout."""

        def lossy(_: Channel, *, wait: bool = True) -> bytes:  # noqa: ARG001  as it is called
            raise Lost

        with NetlinkBackend(netns=namespace.path, timeout=0.05) as patient:
            monkeypatch.setattr(Channel, "receive", lossy)
            with raises(BackendError, "timeout"):
                patient.change([RouteRequest("add", ROUTE)])

    def test_a_route_that_went_before_it_was_deleted(
        self, namespace: Namespace, backend: NetlinkBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If another program is faster, the kernel's own answer is the outcome."""
        backend.change([RouteRequest("add", ROUTE)])
        send = Channel.send

        def snatch(channel: Channel, data: bytes) -> None:
            if data[4:6] == struct.pack("=H", n.RTM_DELROUTE):
                namespace.batch(["route del 1.0.0.0/8"])
            send(channel, data)

        monkeypatch.setattr(Channel, "send", snatch)
        (outcome,) = backend.change([RouteRequest("delete", ROUTE)])
        assert outcome.error is not None
        assert outcome.error.kind == "no-such-route"
        assert outcome.error.kernel == "No such process"
