"""The readers of bytes that other programs wrote accept them, and refuse what is broken by an error
of their own.
"""

from collections.abc import Callable
from contextlib import suppress

import pytest

from hostrouting.azure_vnet.conflists import FOLDER, active_file
from hostrouting.azure_vnet.ebtables import read_listing
from hostrouting.azure_vnet.rules import pod_rule
from hostrouting.azure_vnet.state import read_state
from hostrouting.errors import HostRoutingError
from hostrouting.testing import FakeFiles

READERS: dict[str, tuple[Callable[[str], object], bytes]] = {
    "ebtables": (
        lambda words: [pod_rule(rule.text) for rule in read_listing(words, "ebtables")],
        (
            b"Bridge chain: PREROUTING, entries: 1, policy: ACCEPT\n"
            b"-p ARP --arp-op Request --arp-ip-dst 10.240.0.9 "
            b"-j arpreply --arpreply-mac aa:bb:cc:dd:ee:ff --arpreply-target DROP\n"
        ),
    ),
    "conflist": (
        lambda words: active_file(FakeFiles({f"{FOLDER}/10-a.conflist": words})),
        (
            b'{"cniVersion": "0.3.0", "name": "azure", '
            b'"plugins": [{"type": "azure-vnet", "mode": "bridge"}]}'
        ),
    ),
    "state": (
        read_state,
        (
            b'{"Network": {"ExternalInterfaces": {"eth0": {"Networks": {"azure": {"Endpoints": {'
            b'"1": {"HostIfName": "azv1", "MacAddress": "qrvM3e7/", '
            b'"IPAddresses": [{"IP": "10.240.0.9", "Mask": "//8AAA=="}]}'
            b"}}}}}}}"
        ),
    ),
}


@pytest.mark.parametrize(("read", "seed"), READERS.values(), ids=READERS)
def test_foreign_bytes(read: Callable[[str], object], seed: bytes) -> None:
    """What is cut off, changed in one byte or nested deeply is read, or refused as HostRoutingError
    or ValueError.
    """
    read(seed.decode())
    broken = [b"[" * 20_000, b'{"a":' * 20_000]
    for end in range(0, len(seed), 1 + len(seed) // 50):
        broken.append(seed[:end])
        broken.append(seed[:end] + b"\xff" + seed[end + 1 :])
    for data in broken:
        # As Python reads a file, or what a program prints
        text = data.decode("utf-8", "surrogateescape")
        with suppress(HostRoutingError, ValueError):
            read(text)
