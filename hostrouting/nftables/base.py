"""The contract of an nftables edge. This module runs no program and makes no decisions.

It is the only access to the kernel's packet filter, real or fake: tables of the family ip6, by name. The contract suite
in `hostrouting.testing` checks these promises on any implementation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hostrouting.nftables.table import Table

__all__ = ["Nftables"]


class Nftables(Protocol):
    """The tables of the family ip6.

    Each verb raises an NftablesError if nft cannot be used (NftMissing, NftTooOld, NftNotPermitted), does not answer
    (NftTimeout) or refuses (NftRefused). No verb retries. A name or a table that this library would not create raises
    ValueError before anything is run.
    """

    def table(self, name: str) -> Table | None:
        """The present table; None if it does not exist. Other tables are not read.

        A table with flags may be unreadable: nft 1.0.6 stops in the middle of its listing. Then `is_readable` is False,
        there are no chains, and only the flags that nft printed are there.
        """
        ...

    def counters(self, name: str) -> tuple[int, ...]:
        """The number of packets that each counter of the table has counted, in the order of its rules.

        Empty for a table that does not exist or cannot be read. `replace` resets them to 0.
        """
        ...

    def names(self) -> tuple[tuple[str, str], ...]:
        """The family and the name of every table of the host, in order; their content is not read."""
        ...

    def replace(self, table: Table, *, without: Sequence[str] = ()) -> None:
        """Make the table exactly this, and remove the tables named in `without`.

        One transaction: every reader and every packet gets either all of the old or all of the new. Idempotent, but an
        equal table is also created again, with new handles and its counters at 0: the caller compares first. A dormant
        table becomes active. Names in `without` may be absent; the table's own name in it has no effect. Raises
        TableOwned if another process owns one of the tables; then nothing was changed. After an NftTimeout the change
        may or may not have been made.
        """
        ...

    def remove(self, *names: str) -> None:
        """Remove the tables with these names in one transaction; absent tables and no names are fine.

        Raises TableOwned if another process owns one of them; then nothing was changed. After an NftTimeout the change
        may or may not have been made.
        """
        ...
