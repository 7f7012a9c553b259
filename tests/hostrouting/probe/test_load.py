"""hostrouting.probe.load, with a real nft: the table is in force only as it was loaded."""

from collections.abc import Iterator

import pytest

from hostrouting.config.settings import ProbeRewriteConfig
from hostrouting.kernel.nftables import NftProgram
from hostrouting.probe.load import find_difference, load_table
from hostrouting.probe.table import TABLE
from tests.support.namespace import Namespace, private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root", "nft")]

SETTINGS = ProbeRewriteConfig(enabled=True, interfaces=("eth0", "eth1"), ensure_route=False)


@pytest.fixture(name="namespace")
def _namespace() -> Iterator[Namespace]:
    with private_namespace() as namespace:
        yield namespace


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
        "flush table ip6 {}",
    ],
)
def test_a_table_that_another_program_has_changed(namespace: Namespace, change: str) -> None:
    """It is seen, whatever was inserted, deleted or switched, and loading the table mends it.

    Kills: a table is in force if all comments of its rules are listed.
    """
    with namespace.inside():
        nftables = NftProgram()
        load_table(nftables, SETTINGS)
        assert find_difference(nftables, SETTINGS) == ""
        done = namespace.run("nft", change.format(TABLE))
        assert done.returncode == 0, done.stderr
        assert find_difference(nftables, SETTINGS) == "different"
        assert load_table(nftables, SETTINGS) == "different"
        assert find_difference(nftables, SETTINGS) == ""
