"""The fake ebtables: what a test can set up with them, and their contract."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from hostrouting.errors import HostError
from hostrouting.testing.filters import FakeEbtables
from tests.support.filter_contracts import CONTRACT_RULES, EbtablesContract
from tests.support.kinds import raises

if TYPE_CHECKING:
    from collections.abc import Iterator

ARP = CONTRACT_RULES[0]


def test_what_happens_meanwhile() -> None:
    """Another program may delete a rule just before our deletion."""
    ebtables = FakeEbtables([ARP, ARP])
    ebtables.meanwhile(lambda: ebtables.rules.remove(ARP))
    with raises(HostError, "no-such-rule", match="has no rule 'PREROUTING -p ARP"):
        ebtables.delete([ARP, ARP])
    ebtables.delete([ARP])
    assert ebtables.writes == [f"delete {ARP}"]


def test_both_backends() -> None:
    """If both have rules, nothing is read and nothing is deleted."""
    ebtables = FakeEbtables([ARP], elsewhere=[CONTRACT_RULES[1]])
    for verb in (ebtables.save, ebtables.program, partial(ebtables.delete, [ARP])):
        with raises(HostError, "wrong-backend", match=r"\(1 in nft and 1 in legacy\)"):
            verb()
    assert ebtables.rules == [ARP]


def test_text() -> None:
    """The text has every chain, the rules chain by chain, and the other tables."""
    ebtables = FakeEbtables([CONTRACT_RULES[3], "mine -j DROP", ARP], others="*filter\n")
    assert re.findall(r"^(?:[*:]\S+|-A \S+)", str(ebtables), re.MULTILINE) == [
        "*nat",
        *(":PREROUTING", ":OUTPUT", ":POSTROUTING", ":mine"),
        *("-A PREROUTING", "-A POSTROUTING", "-A mine"),
        "*filter",
    ]


# The fake ebtables fulfil the contract of Ebtables


class TestMemoryEbtables(EbtablesContract):
    """Every promise, on a list."""

    @contextmanager
    def make(self, *rules: str) -> Iterator[FakeEbtables]:
        """With these rules."""
        yield FakeEbtables(rules)
