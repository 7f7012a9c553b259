"""SavedBackend: a saved host answers as the host did."""

from __future__ import annotations

import pytest

from hostrouting.errors import BackendError
from hostrouting.fib import Flow
from hostrouting.host.saved import SavedBackend
from hostrouting.kernel.base import Change
from hostrouting.model import Prefix, Route, as_ip
from hostrouting.testing import MemoryBackend, cni_node, ecmp_node, h200, vpn_node

ADDRESSES = [as_ip(text) for text in ("172.16.5.9", "8.8.8.8", "10.0.0.4", "10.244.0.7", "127.0.0.1", "224.0.0.1")]


@pytest.mark.parametrize("make", [h200, vpn_node, ecmp_node, cni_node])
def test_it_answers_as_the_host(make: type[MemoryBackend]) -> None:
    """Its lookups and snapshots are those of the kernel that it was taken from, with any filter."""
    with make() as kernel:
        saved = SavedBackend(kernel.snapshot())
        for address, here, there in zip(ADDRESSES, saved.lookup(ADDRESSES), kernel.lookup(ADDRESSES), strict=True):
            if not address.is_multicast:  # of which a kernel's lookup says what its route is
                assert here.kind == there.kind
                assert (here.route and here.route.devs) == (there.route and there.route.devs)
        for chosen in ({}, {"family": 4}, {"family": 6}, {"table": 254}, {"protocol": 16, "family": 4}):
            assert saved.snapshot(**chosen) == kernel.snapshot(**chosen)  # type: ignore[arg-type]  # as listed above
        some = {Prefix.parse("172.16.0.0/16")}
        assert saved.snapshot(prefixes=some) == kernel.snapshot(prefixes=some)
        assert saved.lookup(ADDRESSES[:2], Flow(mark=51820))[1].route is not None


def test_nothing_can_be_changed_and_nothing_changes() -> None:
    """A change is refused, and a wait ends at once."""
    with h200() as kernel, SavedBackend(kernel.snapshot()) as saved:
        with pytest.raises(BackendError, match="a saved snapshot cannot be changed"):
            saved.change([Change("add", Route.to("9.0.0.0/8", dev="eth0"))])
        with saved.watch() as watch:
            watch.wake()
            assert not watch.wait(60)
