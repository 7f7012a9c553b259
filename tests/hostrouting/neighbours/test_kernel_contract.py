"""The contract of LinkLayer, on Linux, in private network namespaces for each test."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from hostrouting.kernel.neighbours import KernelLinkLayer, PeerMac
from hostrouting.testing.filter_contracts import LinkLayerContract, contract_view
from tests.support.namespace import private_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]


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
                    *(f"link set {it.name} up" for it in view.links if it.up),
                    *(f"neigh add {_entry(str(it))}" for it in view.neighbours),
                ]
            )
            with node.inside():
                yield KernelLinkLayer()


def _entry(shown: str) -> str:
    """The output of `ip neigh`, as it can be passed back."""
    return shown.replace(" PERMANENT", " nud permanent")
