"""nftables, ebtables and the link layer in memory: texts, rules and neighbours, and the faults that
a test injects.

A table of nftables is listed as it was written, not as nft would print it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hostrouting.azure_vnet.ebtables import BridgeRule, require_deletable
from hostrouting.azure_vnet.neighbours import LinkLayerView, Neighbour
from hostrouting.errors import BackendError, HostError
from hostrouting.testing.faults import Faulty

_COMMAND = re.compile(
    r"(?P<verb>add|delete) table ip6 (?P<name>\w+)\n"
    r"|(?P<listing>table ip6 (?P<listed>\w+) \{\n(?: .*\n)*\}\n)"
    r"|\s*(?:#.*)?\n"
)
"""A command about a table, a whole table, or a line without a command."""


class FakeNftables(Faulty[HostError]):
    """nftables in a dictionary; a test compares it with Linux."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, str] = {}
        """The listings of the family ip6, for a test to change as another program would."""

    def load(self, text: str) -> None:
        """See Nftables. A text with anything but whole tables of the family ip6 is refused."""
        with self.call():
            self.tables = self._after(text)

    def listing(self, name: str) -> str | None:
        with self.call():
            return self.tables.get(name)

    def _after(self, text: str) -> dict[str, str]:
        """The tables once the text was loaded."""
        tables = dict(self.tables)
        rest = text
        while rest:
            command = _COMMAND.match(rest)
            if command is None:
                raise _refused(rest)
            name = command["name"]
            if command["verb"] == "add":
                tables.setdefault(name, f"table ip6 {name} {{\n}}\n")
            elif command["verb"] == "delete":
                if name not in tables:
                    raise _refused(rest)
                del tables[name]
            elif command["listing"]:
                tables[command["listed"]] = command["listing"]
            rest = rest[command.end() :]
        return tables


def _refused(rest: str) -> HostError:
    """The error of a text whose rest begins with the command that failed."""
    output = f"Error: in {rest.splitlines()[0]!r}"
    return HostError("nft could not load a table", what="nft", kind="refused", output=output)


_CHAINS = ("PREROUTING", "OUTPUT", "POSTROUTING")
"""The chains that ebtables lists first; those of a user come after them."""


class FakeEbtables(Faulty[HostError]):
    """ebtables in a list; a test compares it with Linux."""

    def __init__(self, rules: Iterable[str] = ()) -> None:
        super().__init__()
        self.rules = list(rules)
        """The text of each rule, as ebtables prints it; for a test to change."""

    def list_rules(self) -> tuple[BridgeRule, ...]:
        with self.call():
            return self._listed()

    def delete(self, texts: Sequence[str]) -> None:
        if not texts:
            return
        with self.call():
            require_deletable(self._listed(), texts)
            for text in texts:
                self.rules.remove(text)

    def _listed(self) -> tuple[BridgeRule, ...]:
        """The rules chain by chain, each with its place in its chain."""
        rules: list[BridgeRule] = []
        chains_of_rules = [text.partition(" ")[0] for text in self.rules]
        for chain in dict.fromkeys((*_CHAINS, *chains_of_rules)):
            texts = [text for text in self.rules if text.startswith(f"{chain} ")]
            for number, text in enumerate(texts, start=1):
                rules.append(BridgeRule("ebtables-nft", number, text))
        return tuple(rules)


class FakeLinkLayer(Faulty[BackendError]):
    """The link layer in tables, for a test to change as another process would."""

    def __init__(self, view: LinkLayerView | None = None) -> None:
        super().__init__()
        view = view or LinkLayerView()
        self.macs = dict(view.macs)
        self.peers = dict(view.peers)
        self.neighbours = list(view.neighbours)
        self.learned = list(view.learned)

    def look(self) -> LinkLayerView:
        with self.call():
            return LinkLayerView(
                macs=dict(self.macs),
                peers=dict(self.peers),
                neighbours=tuple(sorted(self.neighbours, key=str)),
                learned=tuple(sorted(self.learned)),
            )

    def delete_neighbour(self, neighbour: Neighbour) -> bool:
        with self.call():
            key = (neighbour.ip, neighbour.dev)
            present = [entry for entry in self.neighbours if (entry.ip, entry.dev) == key]
            if present == [neighbour]:
                self.neighbours.remove(neighbour)
                return True
            return not present
