"""nftables in memory: texts in a dictionary, and the faults that a test injects.

Here: what nft does with texts that create and delete tables of the family ip6. A table is listed as it was written,
not as nft would print it. Rules have no effect on packets.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hostrouting.errors import ProgramError
from hostrouting.kernel.nftables import refused, require_name
from hostrouting.testing.kernel.faults import Faulty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_COMMAND = re.compile(r"(add|delete) table ip6 (\w+)\n|(table ip6 (\w+) \{\n(?: .*\n)*\}\n)|\s*(?:#.*)?\n")


class MemoryNftables(Faulty[ProgramError]):
    """nftables in a dictionary, compared with Linux; `str()` is what `nft list ruleset` would print."""

    def __init__(self, text: str = "", *, others: Iterable[tuple[str, str]] = ()) -> None:
        """Begin with the tables in this text, and with these of other families."""
        super().__init__()
        self.on_change: Callable[[], object] = lambda: None
        """Called after each change by a method. `FakeHost` reports it to the watches of its kernel."""
        self.tables: dict[str, str] = {}
        """The listings of the family ip6, for a test to change as another program would."""
        self.others = list(others)
        """Family and name of the tables of other families."""
        self.writes: list[str] = []
        """The texts that were loaded, in order."""
        self._counts: dict[str, tuple[int, ...]] = {}
        if text:
            self.load(text)
            self.writes.clear()

    def count(self, name: str, *packets: int) -> None:
        """Set the numbers of packets that the counters of the table have counted."""
        self._counts[name] = packets

    def flush(self) -> None:
        """Do what `nft flush ruleset` does."""
        self.tables.clear()
        self.others.clear()
        self.on_change()

    def load(self, text: str) -> None:
        """See Nftables. A text with anything but whole tables of the family ip6 is refused."""
        fault = self.meet()
        if not fault.done:
            fault.strike()
        self.tables = self._after(text)
        self.writes.append(text)
        self.on_change()
        fault.strike()

    def listing(self, name: str) -> str | None:
        """See Nftables."""
        require_name(name)
        self.meet().strike()
        return self.tables.get(name)

    def counts(self, name: str) -> tuple[int, ...]:
        """See Nftables."""
        counters = re.findall(r"\bcounter\b", self.listing(name) or "")
        found = self._counts.get(name, ())
        return found if len(found) == len(counters) else (0,) * len(counters)

    def names(self) -> tuple[tuple[str, str], ...]:
        """See Nftables."""
        self.meet().strike()
        return tuple(sorted([*self.others, *(("ip6", name) for name in self.tables)]))

    def _after(self, text: str) -> dict[str, str]:
        """The tables after a transaction."""
        found, at = dict(self.tables), 0
        while at < len(text):
            command = _COMMAND.match(text, at)
            if command is None:
                raise refused("load its input", f"Error: syntax error in {text[at:].splitlines()[0]!r}")
            verb, name, table, made = command.groups()
            if verb == "add":
                found.setdefault(name, f"table ip6 {name} {{\n}}\n")
            elif verb == "delete":
                if found.pop(name, None) is None:
                    raise refused("load its input", "Error: Could not process rule: No such file or directory")
            elif table:
                found[made] = table
            at = command.end()
        return found

    def __str__(self) -> str:
        strange = [f"table {family} {name} {{\n}}\n" for family, name in self.others]
        return "".join([*strange, *self.tables.values()])
