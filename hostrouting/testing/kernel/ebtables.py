"""ebtables in memory: the rules of table nat in a list, and the faults that a test injects.

Here: what ebtables does with whole rules. Not here: the effect on frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.errors import ProgramError
from hostrouting.kernel import ebtables as refusal
from hostrouting.kernel.ebtables import BACKENDS, missing_from, require_distinct, require_lines
from hostrouting.testing.kernel.faults import Faulty

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hostrouting.kernel.ebtables import Backend, OneBackend

_CHAINS = ("PREROUTING", "OUTPUT", "POSTROUTING")


class MemoryEbtables(Faulty[ProgramError]):
    """ebtables in a list, compared with Linux; `str()` is what ebtables-save would print."""

    def __init__(
        self,
        rules: Iterable[str] = (),
        *,
        backend: OneBackend = "nft",
        others: str = "",
        elsewhere: Iterable[str] = (),
    ) -> None:
        """Begin with these rules in table nat of this backend, other tables as text, and the other backend's rules."""
        super().__init__()
        self.rules = list(rules)
        """The rules of table nat, as ebtables-save prints them, without "-A"; for a test to change."""
        self.backend: OneBackend = backend
        """The backend that has them."""
        self.elsewhere = list(elsewhere)
        """The rules of the other backend."""
        self.others = others
        self.writes: list[str] = []
        """The changes, in order: "delete PREROUTING -p ARP -j DROP", "add …"."""

    def of(self, backend: Backend, *, alone: bool = False) -> _Asked:
        """See Ebtables."""
        return _Asked(self, backend, alone=alone)

    def program(self) -> str:
        """See Ebtables."""
        return f"ebtables-{self.backend}"

    def save(self) -> str:
        """See Ebtables."""
        self.meet().strike()
        return str(self)

    def delete(self, lines: Sequence[str]) -> None:
        """See Ebtables."""
        require_lines(lines)
        if lines:
            self._change("delete", lines)

    def delete_one(self, line: str) -> bool:
        """See Ebtables."""
        try:
            self.delete([line])
        except ProgramError as error:
            if not error.lines:
                raise
            return False
        return True

    def add(self, lines: Sequence[str]) -> None:
        """See Ebtables."""
        require_lines(lines)
        if lines:
            self._change("add", lines)

    def _change(self, verb: str, lines: Sequence[str]) -> None:
        fault = self.meet()
        if not fault.done:
            fault.strike()
        if verb == "add":
            self.rules += lines
        else:
            require_distinct(str(self), lines)
            if gone := missing_from(str(self), lines):
                raise refusal.no_such_rule(gone)
            for line in lines:
                self.rules.remove(line)
        self.writes += [f"{verb} {line}" for line in lines]
        fault.strike()

    def __str__(self) -> str:
        chains = dict.fromkeys([*_CHAINS, *(rule.partition(" ")[0] for rule in self.rules)])
        rules = [f"-A {rule}" for chain in chains for rule in self.rules if rule.partition(" ")[0] == chain]
        return "\n".join(["*nat", *(f":{chain} ACCEPT" for chain in chains), *rules, self.others])


class _Asked:
    """The same ebtables, with a requested backend."""

    def __init__(self, world: MemoryEbtables, backend: Backend, *, alone: bool) -> None:
        self._world = world
        self._backend = backend
        self._alone = alone

    def of(self, backend: Backend, *, alone: bool = False) -> _Asked:
        return _Asked(self._world, backend, alone=alone)

    def program(self) -> str:
        return self._there().program()

    def save(self) -> str:
        return self._there().save()

    def delete(self, lines: Sequence[str]) -> None:
        self._there().delete(lines)

    def delete_one(self, line: str) -> bool:
        return self._there().delete_one(line)

    def add(self, lines: Sequence[str]) -> None:
        self._there().add(lines)

    def _there(self) -> MemoryEbtables:
        world = self._world
        (name,) = (backend for backend in BACKENDS if backend != world.backend)
        other = MemoryEbtables(backend=name)
        other.rules = world.elsewhere
        having = [one for one in (world, other) if one.rules]
        if self._backend == "auto":
            if len(having) > 1:
                raise refusal.both_backends((one.backend, len(one.rules)) for one in having)
            return having[0] if having else world
        found, rest = (world, other) if self._backend == world.backend else (other, world)
        if rest.rules and not found.rules and not self._alone:
            raise refusal.wrong_backend(found.backend, rest.backend, len(rest.rules))
        return found
