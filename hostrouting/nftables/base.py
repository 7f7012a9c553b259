"""What the way to nftables promises. No program is run here, and nothing is decided.

It is the only way to the kernel's packet filter, real or fake: tables of the family ip6, by their names. The promises
are checked, on any of them, by the contract suite in `hostrouting.testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hostrouting.nftables.table import Table

__all__ = ["Nftables"]


class Nftables(Protocol):
    """The tables of the family ip6.

    Each verb raises an NftablesError where nft cannot be had (NftMissing, NftTooOld, NftNotPermitted), does not answer
    (NftTimeout) or refuses (NftRefused). None of them tries again. A name or a table that is not as we make them is a
    ValueError before anything is run.
    """

    def table(self, name: str) -> Table | None:
        """The table as it is now; None where there is none. Other tables are not read.

        A table with flags may be unreadable: nft 1.0.6 stops in the middle of such a listing. Then `is_readable` is
        False, there are no chains, and the flags are there as far as nft tells them.
        """
        ...

    def counters(self, name: str) -> tuple[int, ...]:
        """How many packets each counter of the table has counted, in the order of its rules.

        Empty for a table that is not there or cannot be read. `replace` sets them to 0.
        """
        ...

    def names(self) -> tuple[tuple[str, str], ...]:
        """The family and the name of every table of the host, in order; what is in them is not read."""
        ...

    def replace(self, table: Table, *, without: Sequence[str] = ()) -> None:
        """The table is exactly this afterwards, and the tables of the names in `without` are gone.

        One transaction: every reader and every packet gets either all of the old or all of the new. Idempotent, but an
        equal table is made anew as well, with new handles and its counters at 0: the caller compares first. A dormant
        table is in force afterwards. A name in `without` that no table has is fine, and the table's own name in it
        changes nothing. TableOwned where another process owns one of them; nothing was changed then. After an
        NftTimeout it may have been done or not.
        """
        ...

    def remove(self, *names: str) -> None:
        """The tables of these names are gone, in one transaction; fine where there is none, and without names.

        TableOwned where another process owns one of them; nothing was changed then. After an NftTimeout it may have
        been done or not.
        """
        ...
