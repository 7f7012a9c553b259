"""nftables, ebtables and the link layer in memory: texts, rules and neighbours, and the faults that a test injects.

Here: what nft does with texts that create and delete tables of the family ip6, what ebtables does with whole rules of
table nat, and what Linux does with neighbours that are deleted. An nftables table is listed as it was
written, not as nft would print it. Not here: any effect on packets or frames.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from hostrouting.errors import BackendError, HostError
from hostrouting.kernel import ebtables as refusal
from hostrouting.kernel.ebtables import BACKENDS, Backend, missing_from, require_distinct, require_lines
from hostrouting.kernel.neighbours import LinkLayerView, Neighbour
from hostrouting.kernel.nftables import require_name
from hostrouting.testing.faults import Faulty

_COMMAND = re.compile(r"(add|delete) table ip6 (\w+)\n|(table ip6 (\w+) \{\n(?: .*\n)*\}\n)|\s*(?:#.*)?\n")


class FakeNftables(Faulty[HostError]):
    """nftables in a dictionary, compared with Linux."""

    def __init__(self) -> None:
        """Begin without a table."""
        super().__init__()
        self.tables: dict[str, str] = {}
        """The listings of the family ip6, for a test to change as another program would."""

    def load(self, text: str) -> None:
        """See Nftables. A text with anything but whole tables of the family ip6 is refused."""
        with self.change():
            self.tables = self._after(text)

    def listing(self, name: str) -> str | None:
        """See Nftables."""
        require_name(name)
        self.meet().strike()
        return self.tables.get(name)

    def _after(self, text: str) -> dict[str, str]:
        """The tables after a transaction."""
        tables, at = dict(self.tables), 0
        while at < len(text):
            command = _COMMAND.match(text, at)
            verb, name, table, created = command.groups() if command else ("", "", "", "")
            if command is None or (verb == "delete" and name not in tables):
                words = f"Error: in {text[at:].splitlines()[0]!r}"
                raise HostError("nft could not load a table", what="nft", kind="refused", words=words)
            if verb == "add":
                tables.setdefault(name, f"table ip6 {name} {{\n}}\n")
            elif verb == "delete":
                del tables[name]
            elif table:
                tables[created] = table
            at = command.end()
        return tables


_CHAINS = ("PREROUTING", "OUTPUT", "POSTROUTING")


class FakeEbtables(Faulty[HostError]):
    """ebtables in a list, compared with Linux; `str()` is what ebtables-save would print."""

    def __init__(
        self, rules: Iterable[str] = (), *, backend: Backend = "nft", others: str = "", elsewhere: Iterable[str] = ()
    ) -> None:
        """Begin with these rules in table nat of this backend, other tables as text, and the other backend's rules."""
        super().__init__()
        self.rules = list(rules)
        """The rules of table nat, as ebtables-save prints them, without "-A"; for a test to change."""
        self.backend: Backend = backend
        """The backend that has them."""
        self.elsewhere = list(elsewhere)
        """The rules of the other backend. If both have rules, every verb raises an error."""
        self.others = others
        self.writes: list[str] = []
        """The changes, in order: "delete PREROUTING -p ARP -j DROP"."""

    def program(self) -> str:
        """See Ebtables."""
        self._require_one_backend()
        return f"ebtables-{self.backend}"

    def save(self) -> str:
        """See Ebtables."""
        self.meet().strike()
        self._require_one_backend()
        return str(self)

    def delete(self, lines: Sequence[str]) -> None:
        """See Ebtables."""
        require_lines(lines)
        if not lines:
            return
        with self.change():
            self._require_one_backend()
            require_distinct(str(self), lines)
            if gone := missing_from(str(self), lines):
                raise refusal.no_such_rule(gone)
            for line in lines:
                self.rules.remove(line)
            self.writes += [f"delete {line}" for line in lines]

    def _require_one_backend(self) -> None:
        if self.rules and self.elsewhere:
            [other] = set(BACKENDS) - {self.backend}
            raise refusal.both_backends([(self.backend, len(self.rules)), (other, len(self.elsewhere))])

    def __str__(self) -> str:
        chains = dict.fromkeys([*_CHAINS, *(rule.partition(" ")[0] for rule in self.rules)])
        rules = [f"-A {rule}" for chain in chains for rule in self.rules if rule.partition(" ")[0] == chain]
        return "\n".join(["*nat", *(f":{chain} ACCEPT" for chain in chains), *rules, self.others])


class FakeLinkLayer(Faulty[BackendError]):
    """The link layer in tables, for a test to change as another process would."""

    def __init__(
        self,
        macs: Mapping[str, str] | None = None,
        peers: Mapping[str, str] | None = None,
        neighbours: Iterable[Neighbour] = (),
        learned: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Begin with this; see LinkLayerView."""
        super().__init__()
        self.macs, self.peers = dict(macs or {}), dict(peers or {})
        self.neighbours, self.learned = list(neighbours), list(learned)

    def look(self) -> LinkLayerView:
        """See LinkLayer."""
        self.meet().strike()
        return LinkLayerView(
            macs=dict(self.macs),
            peers=dict(self.peers),
            neighbours=tuple(sorted(self.neighbours, key=Neighbour.order)),
            learned=tuple(sorted(self.learned)),
        )

    def delete_neighbour(self, neighbour: Neighbour) -> bool:
        """See LinkLayer."""
        with self.change():
            key = (neighbour.ip, neighbour.dev)
            present = [entry for entry in self.neighbours if (entry.ip, entry.dev) == key]
            if present == [neighbour]:
                self.neighbours.remove(neighbour)
        return present in ([], [neighbour])
