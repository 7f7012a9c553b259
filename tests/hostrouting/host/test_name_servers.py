"""The name servers of a host: which file says it, and what a bad one does."""

import pytest

from hostrouting.model.prefix import as_ip
from hostrouting.testing import FakeHost

RESOLVED, PLAIN = "/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"


@pytest.mark.parametrize(
    ("texts", "servers"),
    [
        ({}, []),
        (
            {PLAIN: "# by hand\nnameserver 10.0.0.2\nnameserver fe80::1%eth0\nsearch x\n"},
            ["10.0.0.2", "fe80::1"],
        ),
        ({PLAIN: "nameserver 127.0.0.53\n", RESOLVED: "nameserver\t9.9.9.9 \n"}, ["9.9.9.9"]),
        ({PLAIN: "nameserver 127.0.0.53\n"}, ["127.0.0.53"]),
        (
            {
                PLAIN: "nameserver 127.0.0.53\nnameserver 1.1.1.1\n",
                RESOLVED: "nameserver 9.9.9.9\n",
            },
            ["9.9.9.9", "1.1.1.1"],
        ),
        ({PLAIN: "nameserver 1.1.1.1\n", RESOLVED: "nameserver 9.9.9.9\n"}, ["1.1.1.1"]),
        ({PLAIN: "nameserver\nnameserver here\n nameserver 1.1.1.1\nnameservers 1.1.1.1\n"}, []),
    ],
)
def test_files_with_name_servers(texts: dict[str, str], servers: list[str]) -> None:
    """Where programs ask systemd-resolved, the servers that it asks count. Elsewhere, its file may
    be left from before. What is no address is skipped.
    """
    host = FakeHost()
    host.files.texts.update(texts)
    assert host.name_servers == tuple(map(as_ip, servers))
    assert host.take_snapshot().name_servers == host.name_servers


def test_a_file_that_cannot_be_read() -> None:
    """The check goes on without name servers."""
    host = FakeHost()
    host.files.texts[f"{PLAIN}/in-a-folder"] = ""
    assert host.name_servers == ()
