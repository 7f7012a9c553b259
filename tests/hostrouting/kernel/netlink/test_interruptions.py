"""NetlinkBackend interrupted, out of time, out of memory, forked or moved: it stays usable."""

import errno
import gc
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace

import pytest

from hostrouting.errors import BackendError
from hostrouting.kernel._fib.packet import Flow
from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.netlink import channel as sockets_module
from hostrouting.kernel.netlink.channel import Channel, KernelError
from hostrouting.kernel.netlink.read import RouteReader
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import Route
from tests.support.children import enter_namespace, in_child
from tests.support.kinds import raises
from tests.support.namespace import Namespace, private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

ROUTE = Route.to("1.0.0.0/8", dev="eth0", gateway="10.0.0.1", protocol=213)
MANY = [Route.to(Prefix(4, (20 << 24) + low, 32), dev="eth0", gateway="10.0.0.1", protocol=213) for low in range(4000)]


@pytest.fixture
def backend(namespace: Namespace) -> Iterator[NetlinkBackend]:
    """A backend in that namespace, with 4,000 routes."""
    with NetlinkBackend(netns=namespace.path) as made:
        assert all(outcome.ok for outcome in made.change(RouteRequest("add", route) for route in MANY))
        yield made


class TestInterruptions:
    """Ctrl-C, and other exceptions in the middle of a call."""

    def test_a_listing_that_is_broken_off_disturbs_no_later_one(
        self, backend: NetlinkBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After an interruption in any part of any list, by one exception or another, the next snapshot is correct."""
        expected = backend.snapshot()
        receive, broken_off = Channel.receive, 0
        stops = cycle((KeyboardInterrupt, SystemExit, RuntimeError))
        for nth in range(1, 1000):
            left = nth

            def broken(channel: Channel, *, wait: bool = True) -> bytes:
                nonlocal left
                data = receive(channel, wait=wait)
                left -= 1
                if not left:
                    raise next(stops)
                return data

            monkeypatch.setattr(Channel, "receive", broken)
            try:
                backend.snapshot()
            except (KeyboardInterrupt, SystemExit, RuntimeError):
                broken_off += 1
            monkeypatch.setattr(Channel, "receive", receive)
            if left > 0:
                break
            assert backend.snapshot() == expected
        assert broken_off > 10

    def test_reading_a_part_that_is_broken_off_disturbs_no_later_one(
        self, backend: NetlinkBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Even while somebody holds the exception, the next list is read. Kills: no closing of the first one."""

        def stopped(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(RouteReader, "take", stopped)
            with pytest.raises(KeyboardInterrupt) as held:
                backend.snapshot()
        assert [outcome.ok for outcome in backend.change([RouteRequest("delete", MANY[0])])] == [True]
        assert held.type is KeyboardInterrupt

    def test_a_next_hop_object_is_read_after_the_list(self, namespace: Namespace, backend: NetlinkBackend) -> None:
        """A socket carries one list at a time, and that of 4,000 routes comes in parts. Kills: read at once."""
        namespace.sysctl("ipv4/nexthop_compat_mode", 0)
        namespace.batch(["nexthop add id 7 via 10.0.0.1 dev eth0", "route add 9.0.0.0/8 nhid 7"])
        [route] = (route for route in backend.snapshot().routes if route.nexthop_id)
        assert (str(route.prefix), route.devs) == ("9.0.0.0/8", ("eth0",))

    def test_a_batch_that_is_broken_off_disturbs_no_later_one(
        self, backend: NetlinkBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Late answers are not taken for those to the next batch."""
        submit = Channel.submit

        def broken(channel: Channel, messages: list[bytes], first: int, errors: dict[int, KernelError]) -> bool:
            monkeypatch.setattr(Channel, "receive", stopped)
            return submit(channel, messages, first, errors)

        def stopped(_: Channel, *, wait: bool = True) -> bytes:  # noqa: ARG001  as it is called
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Channel, "submit", broken)
            with pytest.raises(KeyboardInterrupt):
                backend.change([RouteRequest("add", MANY[0]), RouteRequest("add", ROUTE)])
        monkeypatch.undo()
        assert [
            outcome.ok for outcome in backend.change([RouteRequest("delete", ROUTE), RouteRequest("add", ROUTE)])
        ] == [True] * 2


class TestTimeOuts:
    """A call ends at its timeout even while answers keep coming."""

    @pytest.mark.parametrize("verb", ["snapshot", "change", "delete", "lookup"])
    def test_also_when_each_piece_is_in_time(self, namespace: Namespace, backend: NetlinkBackend, verb: str) -> None:
        """A call with a lot to do and very little time ends with a timeout, and leaves no trace."""
        uses: dict[str, Callable[[NetlinkBackend], object]] = {
            "snapshot": lambda it: it.snapshot(),
            "change": lambda it: it.change(RouteRequest("replace", route) for route in MANY),
            "delete": lambda it: it.change(RouteRequest("delete", route) for route in MANY),
            "lookup": lambda it: it.lookup([route.prefix.ip for route in MANY]),
        }
        with NetlinkBackend(netns=namespace.path, timeout=0.0005) as hasty:
            with raises(BackendError, "timeout", match=r"within 0\.0005 s"):
                uses[verb](hasty)
            hasty._channel.timeout = 5.0  # noqa: SLF001 RUF100  the same conversation, with time enough
            assert hasty.snapshot() == backend.snapshot()


class TestMeans:
    """Sockets that cannot be opened or configured."""

    @pytest.mark.parametrize("number", [errno.ENOPROTOOPT, errno.EPERM, errno.EINVAL])
    def test_buffers_that_cannot_be_set(
        self, namespace: Namespace, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        """If the buffer size cannot be set, forced or not, the socket is used as it is."""
        refuse(monkeypatch, "setsockopt", number, when=lambda arguments: arguments[0] == socket.SOL_SOCKET)
        with NetlinkBackend(netns=namespace.path) as backend:
            assert backend.snapshot().links == namespace.links()
            assert all(outcome.ok for outcome in backend.change([RouteRequest("add", route) for route in MANY]))
            assert len(backend.lookup([route.prefix.ip for route in MANY])) == len(MANY)

    @pytest.mark.parametrize(
        ("number", "kind", "words"),
        [
            (errno.EPERM, "not-permitted", "a sandbox does not allow this process to open a netlink socket"),
            (errno.ENOBUFS, "failed", "not enough memory to open a socket"),
            (errno.EINVAL, "unavailable", "netlink is not available"),
        ],
    )
    def test_a_socket_that_may_not_be_bound(
        self, monkeypatch: pytest.MonkeyPatch, number: int, kind: str, words: str
    ) -> None:
        """A sandbox may refuse any step of opening a socket: each has its own message."""
        refuse(monkeypatch, "bind", number)
        with raises(BackendError, kind, match=words) as caught:
            NetlinkBackend()
        assert caught.value.errno == number

    def test_groups_that_may_not_be_joined(self, namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
        """If listening for changes is forbidden, a snapshot reports that, and raises no OSError."""
        refuse(monkeypatch, "bind", errno.EPERM, when=lambda arguments: arguments != ((0, 0),))
        with NetlinkBackend(netns=namespace.path) as backend, raises(BackendError, "not-permitted"):
            backend.snapshot()

    def test_no_thread(self, namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
        """If no thread can be started to enter another namespace, the error says so."""

        def refused(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", refused)
        with pytest.raises(BackendError, match="cannot start a thread"):
            NetlinkBackend(netns=namespace.path)

    def test_what_is_not_closed_is_let_go_all_the_same(self, namespace: Namespace) -> None:
        """A backend and a watch that were not closed leave no descriptor open, and a warning is issued."""
        before = len([*Path("/proc/self/fd").iterdir()])

        def forget() -> None:
            for _ in range(5):
                NetlinkBackend(netns=namespace.path).watch()
            gc.collect()

        with pytest.warns(ResourceWarning):
            forget()
        assert len([*Path("/proc/self/fd").iterdir()]) == before

    def test_a_flow_that_no_packet_has(self, backend: NetlinkBackend) -> None:
        """A number that does not fit into the request raises BackendError with the number."""
        with pytest.raises(BackendError, match="1099511627776"):
            backend.lookup([as_ip("10.0.0.9")], Flow(mark=1 << 40))


def refuse(
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    number: int,
    *,
    when: Callable[[tuple[object, ...]], bool] = lambda _: True,
) -> None:
    """From now on the kernel refuses this call for every socket of the backend, or some of its calls."""
    real = getattr(socket.socket, method)

    def refusing(made: socket.socket, *arguments: object) -> object:
        if when(arguments):
            raise OSError(number, os.strerror(number))
        return real(made, *arguments)

    changed = type("Socket", (socket.socket,), {method: refusing})
    names = {**vars(socket), "socket": changed}
    monkeypatch.setattr(sockets_module, "socket", SimpleNamespace(**names))


class TestForks:
    """A child has its own connection."""

    def test_a_child_wakes_itself_and_not_its_parent(self, backend: NetlinkBackend) -> None:
        """`wake` in a child ends the child's next wait, and not its parent's; then the child must read again."""
        with backend.watch() as watch:

            def child() -> tuple[bool, bool, bool]:
                watch.wake()
                return watch.wait(0), watch.wait(0), watch.wait(0)

            assert in_child(child) == (False, True, False)
            begun = time.monotonic()
            assert not watch.wait(0.1)
            assert time.monotonic() - begun >= 0.1

    def test_to_wait_for_ever(self, backend: NetlinkBackend) -> None:
        """Any timeout is fine, including infinity."""
        with backend.watch() as watch:
            watch.wake()
            assert not watch.wait(float("inf"))
            backend.change([RouteRequest("add", ROUTE)])
            assert watch.wait(1e300)

    def test_wake_and_close_at_the_same_time(self, backend: NetlinkBackend) -> None:
        """`wake` from another thread while the watch is closed never touches a descriptor that was reused."""
        for _ in range(50):
            watch = backend.watch()
            threads = [threading.Thread(target=partial(repeat, watch.wake, 20)) for _ in range(2)]
            for thread in threads:
                thread.start()
            watch.close()
            held = [os.pipe() for _ in range(4)]
            for thread in threads:
                thread.join(20)
            for reader, writer in held:
                os.set_blocking(reader, False)
                os.close(writer)
                assert os.read(reader, 1) == b""
                os.close(reader)


def repeat(work: Callable[[], object], times: int) -> None:
    """Do it this many times."""
    for _ in range(times):
        work()


class TestMoves:
    """A thread that enters another namespace."""

    def test_a_backend_stays_in_its_namespace(self, namespace: Namespace) -> None:
        """Without `netns`, a thread that entered another namespace is refused: it neither reads nor changes it."""
        with private_namespace() as other:

            def child() -> tuple[list[str], list[str]]:
                enter_namespace(namespace.path)
                backend, refused = NetlinkBackend(), []
                there = [link.name for link in backend.snapshot().links]
                enter_namespace(other.path)
                uses: list[Callable[[], object]] = [backend.snapshot, backend.watch]
                backend._channel.close()  # noqa: SLF001 RUF100  as after a time-out: the next use opens another
                uses.append(lambda: backend.change([RouteRequest("add", ROUTE)]))
                for use in uses:
                    try:
                        use()
                    except BackendError as error:
                        refused.append(str(error))
                return there, refused

            there, refused = in_child(child)
        assert there == [link.name for link in namespace.links()]
        assert len(refused) == 3
        assert all("a different network namespace" in words for words in refused)
