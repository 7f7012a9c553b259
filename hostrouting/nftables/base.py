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
    (NftTimeout) or refuses (NftRefused). None of them tries again. A name or a table that we do not make is a
    ValueError, before anything is run: so nothing else is ever done than was asked for.
    """

    def table(self, name: str) -> Table | None:
        """The table as it is now; None where there is none. Other tables are not read.

        A table with flags may be unreadable: nft 1.0.6 stops in the middle of such a listing. Then `is_readable` is
        False, there are no chains, and the flags are there as far as nft tells them.
        """
        ...

    def counters(self, name: str) -> tuple[int, ...]:
        """How many packets each counter of the table has counted, in the order of its rules.

        None for a table that is not there or cannot be read. `replace` begins them anew.
        """
        ...

    def names(self) -> tuple[tuple[str, str], ...]:
        """The family and the name of every table of the host, in order; what is in them is not read."""
        ...

    def replace(self, table: Table, *, without: Sequence[str] = ()) -> None:
        """The table is exactly this afterwards, and the tables of the names in `without` are gone.

        One transaction: whoever looks, and every packet, meets all of the old or all of the new. Idempotent, but a
        table that is there already is made anew, with new handles and counters; whether that is needed is decided
        above. A dormant table is in force afterwards. A table that is not there is fine, also in `without`; its own
        name means nothing there. TableOwned where another process owns one of them, and nothing was changed then.
        After a NftTimeout it may have been done or not.
        """
        ...

    def remove(self, *names: str) -> None:
        """The tables of these names are gone, in one transaction; fine where there is none, and without names.

        TableOwned where another process owns one of them, and nothing was changed then.
        """
        ...
