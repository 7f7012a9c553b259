"""The link layer of Linux: the results of requests by pyroute2, the errors, and the contract of LinkLayer."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import Self

from hostrouting.errors import BackendError
from hostrouting.kernel import neighbours
from hostrouting.kernel.neighbours import KernelLinkLayer, LinkLayerView, Neighbour, PeerMac, UnknownPeer
from tests.support.children import in_child, refuse_netlink
from tests.support.filter_contracts import LinkLayerContract, contract_view
from tests.support.kinds import raises
from tests.support.namespace import Namespace, private_namespace

NEIGHBOUR = Neighbour("10.1.0.5", "0a:00:00:00:00:05", "pod0")
POD, OTHER = "0a:00:00:00:00:55", "0a:00:00:00:00:66"


@pytest.fixture(scope="module")
def node() -> Iterator[Namespace]:
    """A node with a veth to a pod: the other end has the index 77, as does another device of the node."""
    with private_namespace() as node, private_namespace() as pod:
        node.batch(
            [
                f"link add pod0 type veth peer name eth0 index 77 address {POD} netns {pod.path}",
                f"link add other index 77 address {OTHER} type ifb",
                "link set pod0 up",
                "neigh add 10.1.0.5 lladdr 0a:00:00:00:00:05 dev pod0 nud permanent",
            ]
        )
        yield node


@pytest.mark.needs("root")
@pytest.mark.linux
class TestOnLinux:
    """The real kernel."""

    def test_the_other_end_is_asked_for_in_its_own_namespace(self, node: Namespace) -> None:
        """A device with the same index on the node is not taken for it."""
        with node.inside():
            view = KernelLinkLayer().look()
        links = {link.name: link for link in view.links}
        assert links["pod0"].peer == PeerMac(POD)
        assert (links["other"].index, links["other"].mac, links["other"].peer) == (77, OTHER, None)

    def test_an_end_that_moves(self, node: Namespace) -> None:
        """An end in a third namespace is read there, and deleting it deletes both ends."""
        with private_namespace() as first, private_namespace() as second:
            node.batch([f"link add near type veth peer name far address {OTHER} netns {first.path}"])
            first.batch([f"link set far netns {second.path}"])
            with node.inside():
                link = KernelLinkLayer().look().link("near")
                assert link is not None
                assert link.peer == PeerMac(OTHER)
                second.batch(["link del far"])
                assert KernelLinkLayer().look().link("near") is None

    def test_states(self, node: Namespace) -> None:
        """Each state of a neighbour has its name, and proxy entries are not neighbours."""
        states = ("stale", "failed", "noarp", "reachable")
        node.batch(f"neigh add 10.2.0.{at} lladdr {OTHER} dev pod0 nud {it}" for at, it in enumerate(states))
        node.batch(["neigh add proxy 10.2.0.9 dev pod0"])
        try:
            with node.inside():
                found = {str(neighbour.ip): neighbour.state for neighbour in KernelLinkLayer().look().neighbours}
        finally:
            node.batch(f"neigh del 10.2.0.{at} dev pod0" for at in range(len(states)))
        assert {ip: state for ip, state in found.items() if ip.startswith("10.2.")} == {
            f"10.2.0.{at}": it for at, it in enumerate(states)
        }

    def test_without_privilege(self, node: Namespace) -> None:
        """Without the privilege the other ends are UnknownPeer, and nothing can be changed."""

        def ask() -> tuple[Any, str]:
            KernelLinkLayer().look()  # loads pyroute2, whose files the other user may not be able to read
            os.setuid(65534)
            link = KernelLinkLayer().look().link("pod0")
            said = ""
            try:
                KernelLinkLayer().delete_neighbour(NEIGHBOUR)
            except BackendError as error:
                said = str(error)
            return link and link.peer, said

        with node.inside():
            peer, said = in_child(ask)
        assert isinstance(peer, UnknownPeer)
        assert "in namespace 0: Permission denied" in peer.reason
        assert said.split(";")[0] == f"this process may not delete the neighbour {NEIGHBOUR}"

    def test_without_netlink(self) -> None:
        """Without netlink, the error says so."""

        def ask() -> None:
            refuse_netlink()
            KernelLinkLayer().look()

        with raises(BackendError, "unavailable", match="run this on the host"):
            in_child(ask)

    def test_in_time(self, node: Namespace) -> None:
        """A call that takes too long ends with a timeout."""
        with node.inside(), raises(BackendError, "timeout", match=r"read devices and neighbours within 0 s"):
            KernelLinkLayer(timeout=0.0).look()


class _Message(dict[Any, Any]):
    """A message of pyroute2: fields by index, attributes by `get`."""


class _Wire:
    """A stand-in for pyroute2: a host with one veth, which changes while it is listed."""

    def __init__(self, **link: Any) -> None:
        """Take this device; its list is interrupted this many times."""
        self.interrupted = link.pop("interrupted", 0)
        self.error: Exception | None = link.pop("error", None)
        fields: dict[Any, Any] = {"index": 2, "flags": 1, "ifname": "pod0", ("linkinfo", "kind"): "veth"}
        self.device = _Message(fields | link)
        self.asked: list[str] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def link(self, verb: str, **_: Any) -> Any:
        self.asked.append(f"link {verb}")
        if self.error is not None:
            raise self.error
        return self._listed() if verb == "dump" else [self.device]

    async def neigh(self, verb: str, **_: Any) -> Any:
        self.asked.append(f"neigh {verb}")
        return self._nothing()

    async def fdb(self, verb: str) -> Any:
        self.asked.append(f"fdb {verb}")
        return self._nothing()

    async def _listed(self) -> AsyncIterator[_Message]:
        self.interrupted -= 1
        yield _Message({**self.device, "header": {"flags": 0x10 if self.interrupted >= 0 else 0}})

    async def _nothing(self) -> AsyncIterator[_Message]:
        for it in list[_Message]():
            yield it


class _NetlinkError(Exception):
    """pyroute2's error: the kernel's errno and text."""

    def __init__(self, code: int, *words: str) -> None:
        super().__init__(code, *words)
        self.code = code


class TestStandIn:
    """Rare answers of the kernel."""

    def look(self, monkeypatch: pytest.MonkeyPatch, wire: _Wire) -> LinkLayerView:
        """Use the stand-in."""
        library = SimpleNamespace(AsyncIPRoute=lambda **_: wire, NetlinkError=_NetlinkError)
        monkeypatch.setattr(neighbours, "_pyroute2", lambda: library)
        return KernelLinkLayer().look()

    def test_a_list_that_was_interrupted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A list that changed while it was read is read again, and gives up in the end."""
        assert len(self.look(monkeypatch, _Wire(interrupted=4)).links) == 1
        with raises(BackendError, "unsettled", match="changed during each of 5 attempts"):
            self.look(monkeypatch, _Wire(interrupted=5))

    def test_who_is_alive_is_read_last(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Neighbours are read before devices, so a new pod's device is in the view that has its neighbour."""
        wire = _Wire(link=5, link_netnsid=0)
        self.look(monkeypatch, wire)
        assert wire.asked == ["neigh dump", "neigh dump", "link dump", "link get", "fdb dump"]

    @pytest.mark.parametrize(
        ("link", "reason"),
        [
            ({}, "the kernel does not report its index"),
            ({"link": 5, "link_netnsid": -1}, "its namespace has no id in this namespace"),
            ({"link": 5}, "index 5 is not a veth"),
            ({"link": 5, "link_netnsid": 0}, "index 5 is not a veth"),
        ],
    )
    def test_an_end_that_cannot_be_asked(self, monkeypatch: pytest.MonkeyPatch, link: Any, reason: str) -> None:
        """An end that is not found, or has no MAC address, is unknown."""
        (found,) = self.look(monkeypatch, _Wire(**link)).links
        assert found.peer == UnknownPeer(reason)

    @pytest.mark.parametrize(
        ("error", "words"),
        [
            (_NetlinkError(95, "never heard of"), r"refused to read devices and neighbours \(kernel: never heard of\)"),
            (_NetlinkError(95), r"\(kernel: Operation not supported\)"),
            (
                _NetlinkError(13, "no"),
                r"this process may not read devices and neighbours; run it as root with the capability CAP_NET_ADMIN \(kernel: no\)",
            ),
            (OSError(105, "No buffer space available"), r"\(kernel: No buffer space available\)"),
            (OSError("strange"), r"\(kernel: strange\)"),
            (OSError(97, "Address family not supported"), "netlink is not available"),
        ],
    )
    def test_errors(self, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str) -> None:
        """pyroute2's errors become ours, with the kernel's text."""
        with pytest.raises(BackendError, match=words):
            self.look(monkeypatch, _Wire(error=error))

    def test_without_pyroute2(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """If pyroute2 cannot be loaded, the error says how to install it."""

        def fail(_name: str) -> None:
            raise ImportError("no such module")

        monkeypatch.setattr(neighbours, "import_module", fail)
        neighbours._pyroute2.cache_clear()
        try:
            with pytest.raises(BackendError, match=r"ImportError: no such module\); install it with `pip install"):
                KernelLinkLayer().look()
        finally:
            neighbours._pyroute2.cache_clear()


# The contract of LinkLayer, on Linux, in private network namespaces for each test


@pytest.mark.linux
@pytest.mark.needs("root")
class TestKernelLinkLayer(LinkLayerContract):
    """Every promise, on the real kernel."""

    @contextmanager
    def make(self) -> Iterator[KernelLinkLayer]:
        """The contract's host, created with `ip`."""
        view = contract_view()
        with private_namespace() as node, private_namespace() as pod:
            _, bridge, port, one, two = view.links
            assert isinstance(port.peer, PeerMac)
            pair = f"type veth peer name {two.name} index {two.index} address {two.mac}"
            far = f"type veth peer name eth0 address {port.peer} netns {pod.path}"
            node.batch(
                [
                    f"link add {bridge.name} index {bridge.index} address {bridge.mac} type bridge",
                    f"link add {port.name} index {port.index} address {port.mac} {far}",
                    f"link add {one.name} index {one.index} address {one.mac} {pair}",
                    f"link set {port.name} master {bridge.name}",
                    *(f"link set {link.name} up" for link in view.links if link.up),
                    *(f"neigh add {_entry(str(neighbour))}" for neighbour in view.neighbours),
                ]
            )
            with node.inside():
                yield KernelLinkLayer()


def _entry(shown: str) -> str:
    """The output of `ip neigh`, as it can be passed back."""
    return shown.replace(" PERMANENT", " nud permanent")
