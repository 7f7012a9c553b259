"""The contract suite of LinkLayer, for any implementation: the real one, the fake, or your own.

Here: the promises of `hostrouting.neighbours.base` that its own methods can check, one test for each sentence. Not
here: veths whose other end cannot be read, and a kernel that does not answer.

Subclass it in a module that pytest collects, and override `make` to create the host that `contract_view` describes::

    class TestMine(LinkLayerContract):
        @contextmanager
        def make(self) -> Iterator[LinkLayer]:
            yield MyLinkLayer(...)

Each test gets a new object.
"""

# These are tests, so they use assert.
# ruff: noqa: S101
from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.errors import BackendError
from hostrouting.neighbours.base import EthernetLink, LinkLayerView, Neighbour, PeerMac

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from hostrouting.neighbours.base import LinkLayer

__all__ = ["LinkLayerContract", "contract_view"]

_POD, _NODE = "0a:00:00:00:00:55", "0a:00:00:00:00:01"
_FIRST = Neighbour("10.1.0.5", "0a:00:00:00:00:05", "azure0")


def contract_view() -> LinkLayerView:
    """A bridge with a veth whose other end is in another namespace, a veth pair in this one, and two neighbours."""
    return LinkLayerView(
        links=[
            EthernetLink(name="lo", index=1, mac="00:00:00:00:00:00"),
            EthernetLink(name="azure0", index=2, kind="bridge", mac=_NODE),
            EthernetLink(
                name="pod0", index=3, kind="veth", mac="0a:00:00:00:00:02", master="azure0", peer=PeerMac(_POD)
            ),
            EthernetLink(name="one", index=4, kind="veth", mac="0a:00:00:00:00:03", peer=PeerMac("0a:00:00:00:00:04")),
            EthernetLink(
                name="two", index=5, kind="veth", mac="0a:00:00:00:00:04", up=False, peer=PeerMac("0a:00:00:00:00:03")
            ),
        ],
        neighbours=[_FIRST, Neighbour("fd00::5", "0a:00:00:00:00:05", "azure0", externally_learned=True)],
    )


class LinkLayerContract:
    """Subclass it, and override `make`."""

    def make(self) -> AbstractContextManager[LinkLayer]:
        """Create a LinkLayer for the host in `contract_view`, and clean up at the end of the `with` block."""
        raise NotImplementedError("override make() so that it yields your LinkLayer")

    # look

    def test_devices(self) -> None:
        """Each device has a kind, a MAC address, a bridge, a state, and the MAC address of the other end."""
        with self.make() as link_layer:
            assert link_layer.look().links == contract_view().links

    def test_neighbours(self) -> None:
        """The neighbours of both families are listed, and whether another program has added them."""
        with self.make() as link_layer:
            assert _permanent(link_layer) == contract_view().neighbours

    # delete_neighbour

    def test_delete(self) -> None:
        """An entry is deleted, the others stay, and it may be deleted again."""
        with self.make() as link_layer:
            for _ in range(2):
                assert link_layer.delete_neighbour(_FIRST) is True
                assert _permanent(link_layer) == contract_view().neighbours[1:]
            assert link_layer.delete_neighbour(contract_view().neighbours[1]) is True
            assert _permanent(link_layer) == ()

    def test_another_entry_stays(self) -> None:
        """An entry that differs in any attribute from the given one is not deleted."""
        with self.make() as link_layer:
            for other in (
                attrs.evolve(_FIRST, mac="0a:00:00:00:00:06"),
                attrs.evolve(_FIRST, state="stale"),
                attrs.evolve(_FIRST, externally_learned=True),
            ):
                assert link_layer.delete_neighbour(other) is False
            assert _permanent(link_layer) == contract_view().neighbours

    def test_delete_what_is_not_there(self) -> None:
        """If the address or the device does not exist, the entry counts as deleted."""
        with self.make() as link_layer:
            assert link_layer.delete_neighbour(attrs.evolve(_FIRST, ip="10.1.0.6")) is True
            assert link_layer.delete_neighbour(attrs.evolve(_FIRST, dev="none")) is True
            assert link_layer.delete_neighbour(attrs.evolve(_FIRST, dev="one")) is True
            assert _permanent(link_layer) == contract_view().neighbours

    # add_neighbour

    def test_add(self) -> None:
        """A deleted entry can be restored as it was, and may be added again."""
        with self.make() as link_layer:
            for neighbour in contract_view().neighbours:
                link_layer.delete_neighbour(neighbour)
            for neighbour in contract_view().neighbours * 2:
                assert link_layer.add_neighbour(neighbour) is True
            assert _permanent(link_layer) == contract_view().neighbours

    def test_add_where_another_is(self) -> None:
        """A different entry for the same address is not overwritten."""
        with self.make() as link_layer:
            assert link_layer.add_neighbour(attrs.evolve(_FIRST, mac="0a:00:00:00:00:06")) is False
            assert _permanent(link_layer) == contract_view().neighbours

    def test_add_without_a_device(self) -> None:
        """If the device does not exist, the entry cannot be added, and the error names the device."""
        with self.make() as link_layer:
            said = ""
            try:
                link_layer.add_neighbour(attrs.evolve(_FIRST, dev="none"))
            except BackendError as error:
                said = str(error)
            assert "device none of the neighbour 10.1.0.5 dev none" in said

    def test_only_permanent_entries_are_added(self) -> None:
        """An entry that is not permanent, or does not have a complete MAC address, raises ValueError."""
        with self.make() as link_layer:
            for other in (
                attrs.evolve(_FIRST, state="stale"),
                attrs.evolve(_FIRST, mac=""),
                attrs.evolve(_FIRST, mac="0a:00"),
            ):
                try:
                    link_layer.add_neighbour(other)
                except ValueError:
                    continue
                raise AssertionError("ValueError was not raised")


def _permanent(link_layer: LinkLayer) -> tuple[Neighbour, ...]:
    """The permanent entries; the kernel itself adds others, for multicast."""
    return tuple(it for it in link_layer.look().neighbours if it.state == "permanent")
