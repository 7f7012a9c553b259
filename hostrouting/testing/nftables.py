"""nftables in memory. A table is listed as it was written, not as nft would print it."""

from __future__ import annotations

import re

from hostrouting.errors import HostError
from hostrouting.testing.faults import Faulty

_TEXT = re.compile(
    r"add table ip6 (?P<name>\S+)\n"
    r"delete table ip6 (?P=name)\n"
    r"(?P<table>table ip6 (?P=name) \{\n.*\n\}\n)?",
    re.DOTALL,
)
"""A text that deletes a table, whether it exists or not, and may make it again."""


class FakeNftables(Faulty[HostError]):
    """nftables as a dictionary. A test of this project compares it with Linux."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, str] = {}
        """By name: the listing of each table of the family ip6. A test can change them, as another
        program would.
        """

    def load(self, text: str) -> None:
        """See Nftables. Only texts such as hostrouting writes are accepted: they replace one table,
        or delete it.
        """
        with self.call_that_may_fail():
            parts = _TEXT.fullmatch(text)
            if parts is None:
                raise HostError(f"nft could not load {text!r}", what="nft", kind="refused")
            self.tables.pop(parts["name"], None)
            if parts["table"]:  # None if the text only deletes the table
                self.tables[parts["name"]] = parts["table"]

    def listing(self, name: str) -> str | None:
        with self.call_that_may_fail():
            return self.tables.get(name)
