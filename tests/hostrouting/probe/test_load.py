"""hostrouting.probe.load: the table is in force only as it was loaded."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from hostrouting.config.settings import ProbeRewriteConfig
from hostrouting.errors import HostError
from hostrouting.kernel.nftables import Nftables, NftProgram
from hostrouting.probe.load import find_operation, load_table
from hostrouting.probe.table import TABLE, render_probe_table
from hostrouting.testing.nftables import FakeNftables
from tests.support.namespace import Namespace, private_namespace

if TYPE_CHECKING:
    from hostrouting.host.operation import Operation

SETTINGS = ProbeRewriteConfig(enabled=True, interfaces=("eth0", "eth1"), ensure_route=False)
OFF = ProbeRewriteConfig()


def loaded(nftables: Nftables, settings: ProbeRewriteConfig) -> list[str]:
    """Make the table as these settings want it; return what was done to it."""
    done: list[Operation] = []
    load_table(nftables, settings, done=done)
    return [operation.verb for operation in done]


@pytest.fixture(name="namespace")
def _namespace() -> Iterator[Namespace]:
    with private_namespace() as namespace:
        yield namespace


@pytest.mark.linux
@pytest.mark.needs("root", "nft")
@pytest.mark.parametrize(
    "change",
    [
        "insert rule ip6 {} prerouting drop",
        "add rule ip6 {} postrouting counter drop",
        'insert rule ip6 {} prerouting drop comment "not a probe"',
        "flush chain ip6 {} prerouting",
        "add chain ip6 {} prerouting {{ policy drop; }}",
        "add chain ip6 {} late {{ type filter hook forward priority 0; policy drop; }}",
        "add table ip6 {} {{ flags dormant; }}",
        "flush chain ip6 {0} postrouting; add rule ip6 {0} postrouting counter drop",
    ],
)
def test_a_table_that_another_program_has_changed(namespace: Namespace, change: str) -> None:
    """It is seen, whatever was inserted, deleted or switched, and loading the table mends it."""
    with namespace.inside():
        nftables = NftProgram()
        loaded(nftables, SETTINGS)
        assert find_operation(nftables, SETTINGS) is None
        done = namespace.run("nft", change.format(TABLE))
        assert done.returncode == 0, done.stderr
        assert loaded(nftables, SETTINGS) == ["replace"]
        assert find_operation(nftables, SETTINGS) is None


@pytest.mark.linux
@pytest.mark.needs("root", "nft")
def test_other_settings(namespace: Namespace) -> None:
    """The table of other settings is replaced, and goes with the rewrite."""
    other = SETTINGS._replace(interfaces=("eth2",))
    with namespace.inside():
        nftables = NftProgram()
        assert loaded(nftables, OFF) == []
        for settings, verb in ((SETTINGS, "create"), (other, "replace"), (OFF, "delete")):
            assert loaded(nftables, settings) == [verb]
            assert loaded(nftables, settings) == []


def test_the_table_of_another_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is replaced if its rules differ, although the settings are the same; else it stays."""
    assert "df009bda01ce4611" in render_probe_table(SETTINGS)  # whichever process renders it
    nftables = FakeNftables()
    loaded(nftables, SETTINGS)
    monkeypatch.setattr("hostrouting.probe.table.PRIORITY", -299)
    assert loaded(nftables, SETTINGS) == ["replace"]


def test_a_table_that_another_program_deletes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is loaded twice, as something may flush nftables just then; if it always does, no more."""
    nftables = FakeNftables()
    nftables.fail(HostError("nft failed", what="nft"), nth=2)
    done: list[Operation] = []
    with pytest.raises(HostError, match="nft failed"):
        load_table(nftables, SETTINGS, done=done)
    assert done == []
    nftables.meanwhile(nftables.tables.clear, nth=3)
    assert loaded(nftables, SETTINGS) == ["create", "create"]
    assert find_operation(nftables, SETTINGS) is None
    texts: list[str] = []
    monkeypatch.setattr(nftables, "load", texts.append)
    with pytest.raises(HostError, match="something on this host changes nftables"):
        loaded(nftables, OFF)
    assert len(texts) == 2
