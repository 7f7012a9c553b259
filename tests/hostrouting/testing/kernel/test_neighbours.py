"""The fake link layer: what a test can set up with it; its values, and its contract."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from hostrouting.kernel.neighbours import EthernetLink, Neighbour, PeerMac, UnknownPeer, canonical_mac
from hostrouting.testing.filters import FakeLinkLayer
from tests.support.filter_contracts import LinkLayerContract, contract_view

if TYPE_CHECKING:
    from collections.abc import Iterator


NEIGHBOUR = contract_view().neighbours[0]


def fake() -> FakeLinkLayer:
    """The host of the contract."""
    return FakeLinkLayer(contract_view().links, contract_view().neighbours)


def test_text() -> None:
    """Devices and neighbours are printed, neighbours as `ip neigh` does."""
    assert str(fake()) == (
        "lo hardware 00:00:00:00:00:00 up\n"
        "azure0 bridge 0a:00:00:00:00:01 up\n"
        "pod0 veth 0a:00:00:00:00:02 up master azure0 peer 0a:00:00:00:00:55\n"
        "one veth 0a:00:00:00:00:03 up peer 0a:00:00:00:00:04\n"
        "two veth 0a:00:00:00:00:04 down peer 0a:00:00:00:00:03\n"
        "10.1.0.5 dev azure0 lladdr 0a:00:00:00:00:05 PERMANENT\n"
        "fd00::5 dev azure0 lladdr 0a:00:00:00:00:05 extern_learn PERMANENT\n"
    )
    unknown = EthernetLink(name="a", index=1, kind="veth", peer=UnknownPeer("not permitted"))
    assert str(unknown) == "a veth no MAC address up peer unknown (not permitted)"
    assert str(Neighbour("10.1.0.5", "", "a", "failed")) == "10.1.0.5 dev a FAILED"


def test_mac_addresses_have_one_spelling() -> None:
    """Capitals and missing zeros make no difference."""
    assert canonical_mac("A:B:0C:0d:E:F") == "0a:0b:0c:0d:0e:0f"
    assert Neighbour("10.1.0.5", "A:B:C:D:E:F", "a") == Neighbour("10.1.0.5", "0a:0b:0c:0d:0e:0f", "a")
    assert PeerMac("A:B:C:D:E:F") == PeerMac("0a:0b:0c:0d:0e:0f")
    for text in ("", "0a:0b:0c:0d:0e:0g", "0a0b0c0d0e0f", "0a:0b:0c:0d:0e:", "0a:0b:0c:0d:0e:0f\n"):
        with pytest.raises(ValueError, match="is not a MAC address; write hexadecimal bytes with colons"):
            canonical_mac(text)


# The fake link layer fulfils the contract of LinkLayer


class TestMemoryLinkLayer(LinkLayerContract):
    """Every promise, on two lists."""

    @contextmanager
    def make(self) -> Iterator[FakeLinkLayer]:
        """The contract's host."""
        view = contract_view()
        yield FakeLinkLayer(view.links, view.neighbours)
