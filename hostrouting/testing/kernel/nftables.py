"""nftables in memory: tables in a dictionary, and the faults that a test injects.

Here: what nft and the kernel do with the tables that we create. Not here: the effect on packets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.errors import ProgramError
from hostrouting.kernel.nftables import program as refusal
from hostrouting.kernel.nftables.table import Table, listing, removing, replacing
from hostrouting.testing.kernel.faults import Faulty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["MemoryNftables"]


class MemoryNftables(Faulty[ProgramError]):
    """nftables in a dictionary, compared with Linux; `str()` is what `nft -n -s list ruleset` would print.

    A table with a flag is unreadable, as for nft 1.0.6: `Table("slb", flags=["dormant"])` is not active, and one with
    "owner" belongs to another process.
    """

    def __init__(self, *tables: Table, others: Iterable[tuple[str, str]] = ()) -> None:
        """Begin with these tables, and with these of other families."""
        super().__init__()
        self.tables = {table.name: table for table in tables}
        """The tables of the family ip6, for a test to change as another program would."""
        self.others = list(others)
        """Family and name of the tables of other families."""
        self.writes: list[str] = []
        """The changes, in order: "replace slb", "remove slb"."""
        self._counts: dict[str, tuple[int, ...]] = {}
        self.on_change: Callable[[], object] = lambda: None
        """Called after each change by a method. `FakeHost` reports it to the watches of its kernel."""

    def count(self, name: str, *packets: int) -> None:
        """Add these numbers of packets to the counters of the table."""
        table = self.tables[name]
        if len(packets) != table.counts:
            raise ValueError(f"{len(packets)} numbers for the table {name}, which has {table.counts} counters")
        self._counts[name] = tuple(was + more for was, more in zip(self._counted(table), packets, strict=True))

    def flush(self) -> None:
        """Do what `nft flush ruleset` does; a table that another process owns stays."""
        self.tables = {name: table for name, table in self.tables.items() if "owner" in table.flags}
        self.others.clear()
        self.on_change()

    def table(self, name: str) -> Table | None:
        """See Nftables."""
        listing(name)
        self.meet().strike()
        found = self.tables.get(name)
        if found is None or not found.flags:
            return found
        return Table(name, flags=found.flags, is_readable=False)

    def counters(self, name: str) -> tuple[int, ...]:
        """See Nftables."""
        found = self.table(name)
        return () if found is None else self._counted(found)

    def names(self) -> tuple[tuple[str, str], ...]:
        """See Nftables."""
        self.meet().strike()
        return tuple(sorted([*self.others, *(("ip6", name) for name in self.tables)]))

    def replace(self, table: Table, *, without: Sequence[str] = ()) -> None:
        """See Nftables."""
        replacing(table, without=without)
        self._change(f"replace {table.name}", [name for name in without if name != table.name], table)

    def remove(self, *names: str) -> None:
        """See Nftables."""
        removing(names)
        if names:
            self._change(f"remove {' '.join(names)}", names)

    def _change(self, told: str, gone: Sequence[str], made: Table | None = None) -> None:
        fault = self.meet()
        if not fault.done:
            fault.strike()
        for name in [made.name, *gone] if made else gone:
            if name in self.tables and "owner" in self.tables[name].flags:
                raise refusal.owned(name)
        for name in gone:
            self.tables.pop(name, None)
            self._counts.pop(name, None)
        if made is not None:
            self.tables[made.name] = made
            self._counts.pop(made.name, None)
        self.writes.append(told)
        self.on_change()
        fault.strike()

    def _counted(self, table: Table) -> tuple[int, ...]:
        found = self._counts.get(table.name, ())
        return found if len(found) == table.counts else (0,) * table.counts  # a test has changed the table

    def __str__(self) -> str:
        strange = [f"table {family} {name} {{\n}}" for family, name in self.others]
        return "\n".join([*strange, *(str(table) for table in self.tables.values())])
