"""The link layer: its promises, on Linux and on the fake, and as `ip` and `bridge` print it."""

from __future__ import annotations

import json
import os
from socket import AF_BRIDGE
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from hostrouting.azure_vnet.neighbours import KernelLinkLayer, LinkLayer, LinkLayerView, Neighbour
from hostrouting.errors import BackendError
from hostrouting.kernel.netlink.numbers import RTM_GETLINK
from hostrouting.kernel.netlink.socket import Netlink
from hostrouting.testing import FakeLinkLayer
from tests.support.children import in_child
from tests.support.examples import scaled
from tests.support.kinds import raises
from tests.support.namespace import Namespace, private_namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

POD, OTHER, NODE = "0a:00:00:00:00:55", "0a:00:00:00:00:66", "0a:00:00:00:00:01"
FIRST = Neighbour("10.1.0.5", "0a:00:00:00:00:05", "azure0")
SECOND = Neighbour("fd00::5", "0a:00:00:00:00:05", "azure0")
NEAR = {"near0": "0a:00:00:00:00:04", "near1": "0a:00:00:00:00:03"}
"""By an end of a veth whose ends are both on the node: the MAC address of the other one."""
VIEW = LinkLayerView(
    macs={
        "lo": "00:00:00:00:00:00",
        "azure0": NODE,
        "pod0": "0a:00:00:00:00:02",
        "other": OTHER,
        "above": "0a:00:00:00:00:77",
        "near0": NEAR["near1"],
        "near1": NEAR["near0"],
    },
    peers={"pod0": POD} | NEAR,
    neighbours=(FIRST, SECOND),
    learned=(("0a:00:00:00:00:88", "pod0"), ("0a:00:00:00:00:99", "pod0")),
)
"""A bridge of which a pod's veth is a port, a device above another one, and two neighbours."""
NO_NEIGHBOURS = [f"neigh flush all{nud}" for nud in ("", " nud permanent", " nud noarp")]
"""Without a state, entries with these two stay."""
GOING = ["link add gone type ifb", f"neigh add 10.1.0.9 lladdr {POD} dev gone nud permanent"]
RTM_GETNEIGH = 30
_ON_LINUX = [pytest.mark.linux, pytest.mark.needs("root")]


@pytest.fixture(scope="module")
def node_with_pod() -> Iterator[Namespace]:
    """The node. The pod's end has the index 77, as does another device of the node."""
    with private_namespace() as node, private_namespace() as pod:
        # From the pod's side: not every `ip` takes an index for the peer.
        at_the_node = f"peer name pod0 address {VIEW.macs['pod0']} netns {node.path}"
        pod.batch([f"link add eth0 index 77 address {POD} type veth {at_the_node}"])
        node.batch(
            [
                f"link add azure0 address {NODE} type bridge mcast_snooping 0",
                f"link add other index 77 address {OTHER} type ifb",
                # It names another device, too, which is not its other end.
                f"link add above link other address {VIEW.macs['above']} type macvlan",
                "link set pod0 master azure0",
                f"link add near0 address {NEAR['near1']} type veth peer name near1",
                f"link set near1 address {NEAR['near0']}",
                "tuntap add dev tun0 mode tun",  # it has no MAC address
            ]
        )
        for mac, dev in reversed(VIEW.learned):
            node.run("bridge", "fdb", "add", mac, "dev", dev, "master", "static")
        yield node


@pytest.fixture
def node(node_with_pod: Namespace) -> Iterator[Namespace]:
    """The node with its two neighbours; the test runs there."""
    node = node_with_pod
    node.batch(NO_NEIGHBOURS)
    node.batch(
        f"neigh replace {entry.ip} lladdr {entry.mac} dev azure0 nud permanent"
        for entry in VIEW.neighbours
    )
    with node.inside():
        yield node


@pytest.fixture(params=[pytest.param(KernelLinkLayer, marks=_ON_LINUX), FakeLinkLayer])
def layer(request: pytest.FixtureRequest) -> LinkLayer:
    """The link layer of the node, and the same in memory."""
    if request.param is FakeLinkLayer:
        layer = FakeLinkLayer(VIEW)
        layer.learned.reverse()
        return layer
    request.getfixturevalue("node")
    return KernelLinkLayer()


def test_delete(layer: LinkLayer) -> None:
    """An entry is deleted by all of its fields, and counts as deleted if none has its address."""
    assert layer.delete_neighbour(attrs.evolve(FIRST, mac="0a:00:00:00:00:06")) is False
    for other in ({"ip": "10.1.0.6"}, {"dev": "none"}, {"dev": "other"}):
        assert layer.delete_neighbour(attrs.evolve(FIRST, **other)) is True, other
    assert layer.look() == VIEW
    for _ in range(2):
        assert layer.delete_neighbour(FIRST) is True
        assert layer.look().neighbours == (SECOND,)


_STATES = ("permanent", "stale", "failed", "noarp", "reachable", "permanent extern_learn")
_ENTRIES = st.dictionaries(
    st.sampled_from(["10.2.0.1", "10.2.0.2", "10.2.0.3", "fd02::1", "fd02::2"]),
    st.tuples(
        st.sampled_from(["azure0", "other"]),
        st.sampled_from([POD, OTHER]),
        st.sampled_from(_STATES),
    ),
)


def neighbours_by_ip(node: Namespace) -> list[Neighbour]:
    shown = node.ip("-j", "neigh", "show", "nud", "all").stdout
    return [
        Neighbour(entry["dst"], entry["lladdr"], entry["dev"])
        for entry in json.loads(shown)
        if "PERMANENT" in entry["state"] and "extern_learn" not in entry
    ]


def before_each_list(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[Netlink, int, int], None]
) -> None:
    """Do this before each list is read: with its socket, its kind and its family."""
    dump = Netlink.dump

    def listed(self: Netlink, kind: int, body: bytes) -> Iterator[bytes]:
        act(self, kind, body[0])
        return dump(self, kind, body)

    monkeypatch.setattr(Netlink, "dump", listed)


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.usefixtures("node")
class TestOnLinux:
    @settings(max_examples=scaled(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @example(
        dict.fromkeys([f"10.2.0.{last}" for last in range(1, 9)], ("azure0", POD, "permanent"))
    )
    @given(_ENTRIES)
    def test_as_ip_prints_it(
        self, node: Namespace, entries: dict[str, tuple[str, str, str]]
    ) -> None:
        """Of any entries, the permanent ones are listed; proxies are not."""
        commands = [*NO_NEIGHBOURS, "neigh replace proxy 10.2.0.9 dev other"]
        for ip, (dev, mac, state) in entries.items():
            commands.append(f"neigh replace {ip} dev {dev} lladdr {mac} nud {state}")
        node.batch(commands)

        neighbours = KernelLinkLayer().look().neighbours
        assert list(neighbours) == sorted(neighbours_by_ip(node), key=str)

    def test_without_privilege(self) -> None:
        """Without the privilege the other ends are not known, and nothing can be changed."""

        def ask() -> tuple[Any, str]:
            os.setuid(65534)
            view = KernelLinkLayer().look()
            try:
                KernelLinkLayer().delete_neighbour(FIRST)
            except BackendError as error:
                return view.peers, error.kind
            return view.peers, ""

        assert in_child(ask) == (NEAR, "not-permitted")

    def test_lists_that_change_while_they_are_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """They are read again, a few times; the fifth time is an error. An entry may be missing
        there, so that it does not count as deleted.
        """
        left = [True] * 5

        def change(netlink: Netlink, kind: int, _family: int) -> None:
            if kind == RTM_GETLINK and left:
                netlink.list_has_changed = left.pop()

        before_each_list(monkeypatch, change)
        with raises(BackendError, "unsettled", match="read devices and neighbours"):
            KernelLinkLayer().look()
        left += [True] * 4
        assert KernelLinkLayer().look() == VIEW

        before_each_list(monkeypatch, lambda each, *_: setattr(each, "list_has_changed", True))
        assert KernelLinkLayer().delete_neighbour(attrs.evolve(FIRST, ip="10.1.0.6")) is False

    def test_an_entry_that_another_program_maintains(self, node: Namespace) -> None:
        """It is neither listed nor deleted, even if it has the address and the MAC address."""
        words = f"lladdr {FIRST.mac} dev azure0 nud permanent extern_learn"
        node.batch([f"neigh replace {FIRST.ip} {words}"])
        assert KernelLinkLayer().look().neighbours == (SECOND,)
        assert KernelLinkLayer().delete_neighbour(FIRST) is False
        assert str(FIRST.ip) in node.ip("neigh", "show", "dev", "azure0").stdout

    def test_an_entry_that_goes_just_before_it_is_deleted(
        self, node: Namespace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By itself or with its device."""
        node.batch(GOING)
        events = ["link del gone", f"neigh del {FIRST.ip} dev azure0"]
        send_changes = Netlink.send_changes

        def go(self: Netlink, messages: Sequence[bytes]) -> object:
            node.batch([events.pop()])
            return send_changes(self, messages)

        monkeypatch.setattr(Netlink, "send_changes", go)
        for neighbour in (FIRST, Neighbour("10.1.0.9", POD, "gone")):
            assert KernelLinkLayer().delete_neighbour(neighbour) is True

    def test_who_is_alive_is_read_last(
        self, node: Namespace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neighbours are read before devices: what comes meanwhile is alive, and not stale."""
        node.batch(GOING)
        asked: list[tuple[int, int]] = []

        def note(_netlink: Netlink, kind: int, family: int) -> None:
            asked.append((kind, family))
            if kind == RTM_GETLINK:
                node.ip("link", "del", "gone")

        before_each_list(monkeypatch, note)
        assert KernelLinkLayer().look() == VIEW
        assert asked == [(RTM_GETNEIGH, 0), (RTM_GETLINK, 0), (RTM_GETNEIGH, AF_BRIDGE)]

    def test_a_port_that_appears_while_lists_are_read(
        self, node: Namespace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All is read again, so what a bridge has learned there is not left out."""
        appears = ["link add new master azure0 type ifb"]

        def add(_netlink: Netlink, _kind: int, family: int) -> None:
            if family == AF_BRIDGE and appears:
                node.batch([appears.pop()])
                node.run("bridge", "fdb", "add", POD, "dev", "new", "master", "static")

        before_each_list(monkeypatch, add)
        try:
            view = KernelLinkLayer().look()
        finally:
            node.ip("link", "del", "new")
        assert (POD, "new") in view.learned
        assert "new" in view.macs
