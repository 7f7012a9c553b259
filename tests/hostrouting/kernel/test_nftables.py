"""Nftables: its promises, on Linux and on the fake; and the commands of nft."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hostrouting.errors import HostError
from hostrouting.kernel.nftables import Nftables, NftProgram
from hostrouting.kernel.programs import Ended
from hostrouting.testing import FakeNftables
from tests.support.kinds import raises
from tests.support.namespace import private_namespace
from tests.support.stand_ins import Programs

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINUX = pytest.param(NftProgram, marks=[pytest.mark.linux, pytest.mark.needs("root", "nft")])


@pytest.fixture(params=[_LINUX, FakeNftables])
def nft(request: pytest.FixtureRequest) -> Iterator[Nftables]:
    if request.param is FakeNftables:
        yield FakeNftables()
        return
    with private_namespace() as namespace, namespace.inside():
        yield NftProgram()


def table(name: str = "first") -> str:
    """A text that puts a table in the place of a former one."""
    return f"""add table ip6 {name}
delete table ip6 {name}
table ip6 {name} {{
  comment "contract: a table"
  chain incoming {{
    type filter hook prerouting priority -300; policy accept;
    iifname != "eth0" return comment "contract: another device"
    ip6 saddr fe80::5 counter ip6 saddr set 2001:db8::5 comment "contract: in"
  }}
}}
"""


def test_what_is_loaded_is_listed(nft: Nftables) -> None:
    """A listing shows any difference; a table is deleted whether it exists or not."""
    nft.load(table("second"))
    assert nft.listing("first") is None
    nft.load(table())
    listing = nft.listing("first") or ""
    assert listing.count('comment "contract: ') == 3
    assert "packets" not in listing
    nft.load(table())
    assert nft.listing("first") == listing
    nft.load(table().replace("fe80::5", "fe80::7"))
    assert nft.listing("first") not in {listing, None}
    for _ in range(2):
        nft.load("add table ip6 first\ndelete table ip6 first\n")
        assert nft.listing("first") is None
        assert nft.listing("second") is not None


def test_one_transaction(nft: Nftables) -> None:
    """If one command of a text fails, nothing of the text is done."""
    nft.load(table())
    before = nft.listing("first")
    for fault in ("delete table ip6 absent\n", "to be or not to be\n", "table ip6 first {\n"):
        with raises(HostError, "refused"):
            nft.load(f"delete table ip6 first\n{fault}")
        assert nft.listing("first") == before


def test_what_is_run() -> None:
    """An absent table is known by what nft prints, also in older versions."""
    programs = Programs(nft=Ended(0))
    nft = NftProgram(run=programs)
    nft.load("text\n")
    nft.listing("first")
    assert programs.asked == [
        (("nft", "-f", "-"), "text\n"),
        (("nft", "--numeric", "--stateless", "list", "table", "ip6", "first"), ""),
    ]
    printed = "<cmdline>:1:1-20: Error: Could not process rule: No such file or directory"
    assert NftProgram(run=Programs(nft=Ended(1, err=printed))).listing("first") is None


@pytest.mark.parametrize("printed", ["Error: strange", "nft: x.so.1: No such file or directory"])
def test_a_table_that_is_not_listed(printed: str) -> None:
    """A program that cannot be loaded prints the same words, and says nothing about the table."""
    nft = NftProgram(run=Programs(nft=Ended(1, err=printed)))
    with raises(HostError, "refused", match="nft could not list the table ip6 first"):
        nft.listing("first")
