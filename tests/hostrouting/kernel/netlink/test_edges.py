"""NetlinkBackend with extreme numbers and rare answers of the kernel."""

import errno
import struct

import attrs
import pytest

from hostrouting.errors import BackendError
from hostrouting.kernel._fib.packet import Flow
from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.netlink import numbers as n
from hostrouting.kernel.netlink.channel import Channel, KernelError, Lost, open_socket
from hostrouting.kernel.netlink.read import Names
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import NextHop, Route
from hostrouting.model.snapshot import Snapshot
from tests.support.kinds import kind_of, raises
from tests.support.namespace import Namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

ROUTE = Route.to("1.0.0.0/8", dev="eth0", gateway="10.0.0.1", protocol=213)


def test_sequence_numbers_begin_anew(backend: NetlinkBackend) -> None:
    """After two billion messages everything works as before."""
    routes = [Route.to(Prefix(4, 20 << 24 | low, 32), dev="eth0", protocol=213) for low in range(300)]
    for first in range(0x7FFFFFFF - 400, 0x7FFFFFFF, 57):
        backend._channel._sequence = first  # noqa: SLF001 RUF100
        assert all(outcome.ok for outcome in backend.change(RouteRequest("add", route) for route in routes))
        assert len(backend.lookup([route.prefix.ip for route in routes])) == len(routes)
        assert all(outcome.ok for outcome in backend.change(RouteRequest("delete", route) for route in routes))
        assert 0 < backend._channel._sequence < 0x7FFFFFFF  # noqa: SLF001 RUF100


def test_names_one_by_one(backend: NetlinkBackend) -> None:
    """The kernel is asked for the name of one device, and the number of no device gives no name."""
    names = Names(backend._channel)  # noqa: SLF001 RUF100
    assert names[1] == "lo"
    assert 4711 not in names


def test_an_answer_after_a_loss_does_not_make_up_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """If answers were lost, the last one that arrives does not decide the results of the others."""
    done = struct.pack("=IHHIIi16x", 36, n.NLMSG_ERROR, 0, 2, 0, 0)
    answers: list[bytes | Lost] = [Lost(), done, b""]

    def receive(_: Channel, *, wait: bool = True) -> bytes:
        assert wait == (len(answers) == 3)
        answer = answers.pop(0)
        if isinstance(answer, Lost):
            raise answer
        return answer

    monkeypatch.setattr(Channel, "receive", receive)
    monkeypatch.setattr(Channel, "send", lambda *_: None)
    channel = Channel(open_socket, 1.0)
    assert channel.submit([bytes(16), bytes(16)], 1, {})
    channel.close()


def test_a_next_hop_object_is_no_legs_of_its_own(namespace: Namespace, backend: NetlinkBackend) -> None:
    """A route with a nexthop object differs from one with the same next hops, and from one with another object."""
    namespace.batch([f"nexthop add id {number} via 10.0.0.9 dev eth0" for number in (5, 6)])
    plain = attrs.evolve(ROUTE, legs=(NextHop("eth0", gateway=as_ip("10.0.0.9")),))
    five, six = (attrs.evolve(ROUTE, legs=(), nexthop_id=number) for number in (5, 6))
    for standing, others in ((five, (plain, six)), (plain, (five, six))):
        assert backend.change([RouteRequest("add", standing)])[0].ok
        for other in others:
            assert kind_of(backend.change([RouteRequest("delete", other)])[0].error) == "no-such-route"
        assert backend.change([RouteRequest("delete", standing)])[0].ok


def test_what_is_wrong_with_the_question_is_no_answer(backend: NetlinkBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error with an explanation means that the request is wrong: it is not read as a blackhole."""
    with pytest.raises(BackendError, match="Unsupported ip proto"):
        backend.lookup([as_ip("10.0.0.9")], Flow(ipproto=200))
    words = struct.pack("=HH", 20, n.NLMSGERR_ATTR_MSG) + b"Wrong question.\0"
    head = struct.pack("=IHHIIi", 56, n.NLMSG_ERROR, n.NLM_F_CAPPED | n.NLM_F_ACK_TLVS, 1, 0, -errno.EINVAL)
    said = head + struct.pack("=IHHII", 16, n.RTM_GETROUTE, 0, 1, 0) + words
    monkeypatch.setattr(Channel, "inquire", lambda _channel, _messages, first: [(first, said)])
    with pytest.raises(BackendError, match="Wrong question"):
        backend.lookup([as_ip("10.0.0.9")])


@pytest.mark.parametrize("lost", [False, True], ids=["all answers", "some lost"])
def test_not_permitted_is_for_a_batch_of_which_nothing_is_done(
    backend: NetlinkBackend, monkeypatch: pytest.MonkeyPatch, *, lost: bool
) -> None:
    """If the kernel permits nothing, the error says so."""

    def submit(_: Channel, messages: list[bytes], first: int, errors: dict[int, KernelError]) -> bool:
        errors |= {first + at: KernelError(errno.EPERM) for at in range(lost, len(messages))}
        return lost

    monkeypatch.setattr(Channel, "submit", submit)
    with raises(BackendError, "not-permitted", match="CAP_NET_ADMIN"):
        backend.change([RouteRequest("add", ROUTE), RouteRequest("append", ROUTE)])


def test_a_permission_that_is_lost_in_the_middle_of_a_batch(
    backend: NetlinkBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes made before the permission was lost have their outcome, and the rest is refused one by one."""

    def submit(_: Channel, messages: list[bytes], first: int, errors: dict[int, KernelError]) -> bool:
        errors |= {first + at: KernelError(errno.EPERM) for at in range(1, len(messages))}
        return False

    monkeypatch.setattr(Channel, "submit", submit)
    done, refused = backend.change([RouteRequest("add", ROUTE), RouteRequest("append", ROUTE)])
    assert done.ok
    assert kind_of(refused.error) == "refused"
    assert "this process may no longer change routing" in str(refused.error)


@pytest.mark.parametrize("family", [4, 6])
def test_hears_when_lost_carriers_begin_to_count(namespace: Namespace, backend: NetlinkBackend, family: int) -> None:
    """Setting ignore_routes_with_linkdown is a change like any other, in both families."""
    with backend.watch() as watch:
        namespace.sysctl(f"ipv{family}/conf/ib0/ignore_routes_with_linkdown", 1)
        assert watch.wait(5)


def test_devices_without_ipv6(namespace: Namespace, backend: NetlinkBackend) -> None:
    """The backend knows the devices where IPv6 is disabled, and its listener hears when IPv6 is enabled."""

    def disabled() -> set[str]:
        return {link.name for link in backend.snapshot().links if link.ipv6_disabled}

    assert not disabled()
    namespace.sysctl("ipv6/conf/ib0/disable_ipv6", 1)
    namespace.run("ip", "link", "set", "eth0", "mtu", "1279")  # less than IPv6 needs
    assert disabled() == {"eth0", "ib0"}
    with backend.watch() as watch:
        namespace.sysctl("ipv6/conf/ib0/disable_ipv6", 0)
        assert watch.wait(5)
    assert disabled() == {"eth0"}


def test_a_name_that_is_no_text(namespace: Namespace, backend: NetlinkBackend) -> None:
    """A device whose name is not UTF-8 is shown readably, can be saved, and cannot be named by a route."""
    namespace.run("sh", "-c", r"ip link add $(printf 'n\377x') type veth")
    snapshot = backend.snapshot()
    assert "n\\xffx" in {link.name for link in snapshot.links}
    assert Snapshot.from_json(snapshot.to_json()) == snapshot
    for name in ("n\\xffx", "n\udcffx"):
        (outcome,) = backend.change([RouteRequest("add", Route.to("1.0.0.0/8", dev=name))])
        assert kind_of(outcome.error) == "no-such-device"
