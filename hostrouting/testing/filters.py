"""nftables, ebtables and the link layer in memory: texts, rules and neighbours, and the faults that
a test injects.

A table of nftables is listed as it was written, not as nft would print it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count

from hostrouting.azure_vnet.ebtables import BridgeRule, require_deletable
from hostrouting.azure_vnet.neighbours import LinkLayerView, Neighbour
from hostrouting.errors import BackendError, HostError
from hostrouting.testing.faults import Faulty

_COMMAND = re.compile(
    r"(add|delete) table ip6 (\w+)\n|(table ip6 (\w+) \{\n(?: .*\n)*\}\n)|\s*(?:#.*)?\n"
)


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
        tables, at = dict(self.tables), 0
        while at < len(text):
            command = _COMMAND.match(text, at)
            verb, name, table, created = command.groups() if command else ("", "", "", "")
            if command is None or (verb == "delete" and name not in tables):
                output = f"Error: in {text[at:].splitlines()[0]!r}"
                raise HostError(
                    "nft could not load a table", what="nft", kind="refused", output=output
                )
            if verb == "add":
                tables.setdefault(name, f"table ip6 {name} {{\n}}\n")
            elif verb == "delete":
                del tables[name]
            elif table:
                tables[created] = table
            at = command.end()
        return tables


_CHAINS = "PREROUTING OUTPUT POSTROUTING"


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
        if texts:
            with self.call():
                require_deletable(self._listed(), texts)
                for text in texts:
                    self.rules.remove(text)

    def _listed(self) -> tuple[BridgeRule, ...]:
        numbers: dict[str, count[int]] = defaultdict(lambda: count(1))
        chains = ((text.partition(" ")[0], text) for text in self.rules)
        ordered = sorted(chains, key=lambda pair: _CHAINS.find(pair[0]))
        return tuple(
            BridgeRule("ebtables-nft", next(numbers[chain]), text) for chain, text in ordered
        )


class FakeLinkLayer(Faulty[BackendError]):
    """The link layer in tables, for a test to change as another process would."""

    def __init__(self, view: LinkLayerView | None = None) -> None:
        super().__init__()
        view = view or LinkLayerView()
        self.macs, self.peers = dict(view.macs), dict(view.peers)
        self.neighbours, self.learned = list(view.neighbours), list(view.learned)

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
        return present in ([], [neighbour])
