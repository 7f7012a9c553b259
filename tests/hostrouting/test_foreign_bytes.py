"""The readers of bytes that other programs wrote accept them, and refuse what is broken by an error of their own."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostRoutingError
from hostrouting.host.saved import snapshot_in
from hostrouting.kernel.ebtables import read_listing
from hostrouting.tasks.cleanup.judge import active_file, pod_rule, read_state
from hostrouting.testing.topologies import h200


def text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    """The reader of a text, which is read as Python reads a file or the output of a program."""
    return lambda data: read(data.decode("utf-8", "surrogateescape"))


READERS: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    "configuration": (
        HostRoutingConfig.from_json,
        (
            b'{"staticRoutes": {"enabled": true, "routes": [{"destination": "172.16.0.0/17", "gateway": "10.0.0.1", "metric": 4}]},'
            b' "routeOverlap": {"expectedCidrs": ["fd00::/8"], "intendedRules": [{"rule": "fwmark 0x1", "reason": "storage"}]}}'
        ),
    ),
    "snapshot": (snapshot_in, h200().snapshot().to_json().encode()),
    "ebtables": (
        text(lambda words: [pod_rule(rule.text) for rule in read_listing(words, "ebtables")]),
        (
            b"Bridge chain: PREROUTING, entries: 1, policy: ACCEPT\n-p ARP --arp-op Request --arp-ip-dst 10.240.0.9 -j arpreply --arpreply-mac"
            b" aa:bb:cc:dd:ee:ff --arpreply-target DROP\n"
        ),
    ),
    "conflist": (
        text(lambda words: active_file({"10-a.conflist": words})),
        b'{"cniVersion": "0.3.0", "name": "azure", "plugins": [{"type": "azure-vnet", "mode": "bridge"}]}',
    ),
    "state": (
        text(read_state),
        (
            b'{"Network": {"ExternalInterfaces": {"eth0": {"Networks": {"azure": {"Endpoints": {"1": {"HostIfName": "azv1",'
            b' "MacAddress": "qrvM3e7/", "IPAddresses": [{"IP": "10.240.0.9", "Mask": "//8AAA=="}]}}}}}}}}'
        ),
    ),
}


@pytest.mark.parametrize(("read", "seed"), READERS.values(), ids=READERS)
def test_foreign_bytes(read: Callable[[bytes], object], seed: bytes) -> None:
    """What is cut off, changed in one byte or nested deeply is read, or refused as HostRoutingError or ValueError."""
    read(seed)
    ends = range(0, len(seed), 1 + len(seed) // 50)
    broken = [piece for end in ends for piece in (seed[:end], seed[:end] + b"\xff" + seed[end + 1 :])]
    for data in (*broken, b"[" * 20_000, b'{"a":' * 20_000):
        with suppress(HostRoutingError, ValueError):
            read(data)
