"""The contract suite of Nftables, for any implementation: the real one, the fake, or your own.

Here: the promises of `hostrouting.nftables.base` that its own methods can check, one test for each sentence. Not here:
tables that another program has changed or owns, and an nft that is missing or refuses.

Subclass it in a module that pytest collects, and override `make` to create an object::

    class TestMine(NftablesContract):
        @contextmanager
        def make(self) -> Iterator[Nftables]:
            yield MyNftables()

Each test gets a new object, for a host without tables.
"""

# These are tests, so they use assert.
# ruff: noqa: S101
from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import attrs

from hostrouting.nftables.table import Chain, Counter, Match, Rewrite, Rule, Table, Unknown, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from hostrouting.nftables.base import Nftables

__all__ = ["NftablesContract", "contract_table"]


def contract_table(name: str = "first") -> Table:
    """A table with every statement that our tables can have."""
    return Table(
        name,
        chains=[
            Chain(
                "incoming",
                [
                    Rule([Match("iifname", ["eth1", "eth0"], negated=True), Verdict("return")], "by another device"),
                    Rule([Match("ip6 daddr", ["fe80::/10", "ff00::/8"]), Counter(), Verdict("return")]),
                    Rule([Match("icmpv6 type", [143, 130]), Verdict("return")]),
                    Rule([Match("ip6 saddr", ["fe80::5"]), Counter(), Rewrite("ip6 saddr", "2001:db8::5")]),
                ],
                hook="prerouting",
                priority=-300,
            ),
            Chain("outgoing", [Rule([Match("oifname", ["eth0"]), Counter()])], hook="postrouting", priority=-300),
            Chain("spare", []),
        ],
    )


@contextmanager
def _refuses() -> Iterator[None]:
    try:
        yield
    except ValueError:
        return
    raise AssertionError("ValueError was not raised")


class NftablesContract:
    """Subclass it, and override `make`."""

    def make(self) -> AbstractContextManager[Nftables]:
        """Create an Nftables for a host without tables, and clean up at the end of the `with` block."""
        raise NotImplementedError("override make() so that it yields your Nftables")

    # reading

    def test_there_is_no_table(self) -> None:
        """A table that does not exist is None, and has no counters."""
        with self.make() as nft:
            assert nft.table("first") is None
            assert nft.counters("first") == ()
            assert nft.names() == ()

    def test_what_was_put_there_is_read_back(self) -> None:
        """A table is read back as it was loaded: the statements, their order, the comments, the order of the chains."""
        with self.make() as nft:
            nft.replace(contract_table())
            assert nft.table("first") == contract_table()
            nft.replace(Table("first"))
            assert nft.table("first") == Table("first")

    def test_names(self) -> None:
        """Every table is listed with its family, in order."""
        with self.make() as nft:
            for name in ("second", "first"):
                nft.replace(contract_table(name))
            assert nft.names() == (("ip6", "first"), ("ip6", "second"))

    def test_counters(self) -> None:
        """Each counter has a number, in the order of the rules; without packets it is 0."""
        with self.make() as nft:
            nft.replace(contract_table())
            assert nft.counters("first") == (0, 0, 0)

    # replace

    def test_a_replaced_table_is_exactly_this(self) -> None:
        """Nothing of the previous table is left: no chain, rule or priority."""
        with self.make() as nft:
            nft.replace(contract_table())
            head = attrs.evolve(contract_table().chains[0], rules=(), priority=-250, policy="drop")
            nft.replace(Table("first", [head]))
            assert nft.table("first") == Table("first", [head])

    def test_replace_twice(self) -> None:
        """The same table can be loaded again."""
        with self.make() as nft:
            for _ in range(2):
                nft.replace(contract_table())
            assert nft.table("first") == contract_table()

    def test_replace_without_others(self) -> None:
        """The tables in `without` are deleted; they need not exist; all other tables stay."""
        with self.make() as nft:
            for name in ("first", "second", "third"):
                nft.replace(contract_table(name))
            nft.replace(Table("first"), without=["second", "none", "second"])
            assert nft.names() == (("ip6", "first"), ("ip6", "third"))
            assert nft.table("third") == contract_table("third")

    def test_replace_without_itself(self) -> None:
        """The table's own name in `without` is ignored."""
        with self.make() as nft:
            nft.replace(contract_table(), without=["first"])
            assert nft.table("first") == contract_table()

    # remove

    def test_remove(self) -> None:
        """The named tables are deleted, others stay; a name may be missing or repeated, and no names are needed."""
        with self.make() as nft:
            for name in ("first", "second", "third"):
                nft.replace(contract_table(name))
            for _ in range(2):
                nft.remove("first", "none", "third", "first")
                assert nft.names() == (("ip6", "second"),)
            nft.remove()
            assert nft.table("second") == contract_table("second")

    # tables that are refused

    def test_names_that_we_do_not_make(self) -> None:
        """An invalid name raises ValueError in every method, and nothing is changed."""
        with self.make() as nft:
            nft.replace(contract_table())
            for name in ("", "a b", "a;flush ruleset", 'a"', "1st", "\u00e4", "a\n", "x" * 65):
                verbs: list[Callable[[], object]] = [
                    partial(nft.table, name),
                    partial(nft.counters, name),
                    partial(nft.remove, "first", name),
                    partial(nft.replace, Table(name)),
                    partial(nft.replace, Table("first"), without=[name]),
                    partial(nft.replace, Table("first", [Chain(name, [])])),
                ]
                for verb in verbs:
                    with _refuses():
                        verb()
            assert nft.table("first") == contract_table()

    def test_tables_that_we_do_not_make(self) -> None:
        """A table that nft would parse differently, or not print back, raises ValueError, and nothing is changed."""
        counting = Rule([Counter()])
        chains = [
            Chain("a", [Rule([Unknown("{}")])]),
            Chain("a", [Rule([])]),
            Chain("a", [Rule([Verdict("return"), Counter()])]),
            Chain("a", [attrs.evolve(counting, comment='say "no"')]),
            Chain("a", [attrs.evolve(counting, comment="x" * 128)]),
            Chain("a", [attrs.evolve(counting, comment="one\ntwo")]),
            Chain("a", [], hook="ingress"),
            Chain("a", [], hook="input", type="nat"),
            Chain("a", [], hook="input", policy="continue"),
            Chain("a", [], hook="input", priority=2**31),
            Chain("a", [], priority=5),
            Chain("a", [], policy="drop"),
        ]
        tables = [
            *(Table("first", [chain]) for chain in chains),
            Table("first", [Chain("a", []), Chain("a", [])]),
            Table("first", flags=["dormant"]),
            Table("first", is_readable=False),
            Table("first", others=[Unknown("{}")]),
        ]
        with self.make() as nft:
            nft.replace(contract_table())
            for table in tables:
                with _refuses():
                    nft.replace(table, without=["first"])
            assert nft.table("first") == contract_table()
