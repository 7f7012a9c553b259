"""nftables in memory. A table is listed as it was written, not as nft would print it."""

from __future__ import annotations

from collections.abc import Iterator

from hostrouting.errors import HostError
from hostrouting.testing.faults import Faulty


class FakeNftables(Faulty[HostError]):
    """nftables in a dictionary; a test compares it with Linux."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, str] = {}
        """The listings of the family ip6, for a test to change as another program would."""

    def load(self, text: str) -> None:
        """See Nftables. A text with anything but whole tables of the family ip6 is refused."""
        with self.call():
            self.tables = _tables_after(text, self.tables)

    def listing(self, name: str) -> str | None:
        with self.call():
            return self.tables.get(name)


def _tables_after(text: str, before: dict[str, str]) -> dict[str, str]:
    """The tables once the text was loaded."""
    tables = dict(before)
    lines = iter(text.splitlines())
    for line in lines:
        command, _, _ = line.partition("#")
        match command.split():
            case []:
                continue
            case ["add", "table", "ip6", name]:
                tables.setdefault(name, f"table ip6 {name} {{\n}}\n")
            case ["delete", "table", "ip6", name] if name in tables:
                del tables[name]
            case ["table", "ip6", name, "{"]:
                tables[name] = tables.get(name, "") + _whole_table(line, lines)  # nft adds to it
            case _:
                raise _refused(line)
    return tables


def _whole_table(first: str, lines: Iterator[str]) -> str:
    """The table that begins with this line, and whose other lines come next."""
    table = [first]
    for line in lines:
        table.append(line)
        if line == "}":
            return "\n".join([*table, ""])
    raise _refused(first)


def _refused(line: str) -> HostError:
    """The error of a text whose command in this line failed."""
    output = f"Error: in {line!r}"
    return HostError("nft could not load a table", what="nft", kind="refused", output=output)
