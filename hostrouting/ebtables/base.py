"""The contract of an ebtables edge. This module runs no program and makes no decisions.

It is the only access to the rules for Ethernet frames, real or fake. The contract suite in `hostrouting.testing` checks
these promises on any implementation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BACKENDS", "PROGRAMS", "Backend", "Ebtables", "OneBackend"]

OneBackend: TypeAlias = Literal["nft", "legacy"]
"""Where the kernel keeps the rules: nf_tables, or ebtables' own tables. A program sees only those of its backend."""

Backend: TypeAlias = Literal["auto", "nft", "legacy"]
"""One backend, or (auto) the one with rules in table nat; if neither has any, that of the program `ebtables`."""

BACKENDS: tuple[OneBackend, ...] = ("nft", "legacy")

PROGRAMS: dict[str, OneBackend] = {f"ebtables-{it}": it for it in BACKENDS}
"""The backend of each program, by name. `ebtables` is missing, because it can belong to either."""


class Ebtables(Protocol):
    """The rules for Ethernet frames. All changes are made in table nat.

    A line is a rule as ebtables-save prints it, without the leading "-A": "PREROUTING -p ARP -j DROP". Text with
    several lines, or without a chain at the start, raises ValueError before anything is run.

    Each verb raises an EbtablesError if ebtables cannot be used (EbtablesMissing, EbtablesNotPermitted,
    EbtablesNotLoaded), if the rules are in a different backend than the requested one, or "auto" finds rules in both
    (EbtablesWrongBackend), if it does not answer (EbtablesTimeout), or if it refuses (EbtablesRefused). EbtablesTooOld
    means that it cannot change rules in one batch, and has changed nothing. A deletion that is refused although every
    rule exists is retried a few times; nothing else is retried.
    """

    def of(self, backend: Backend, *, alone: bool = False) -> Ebtables:
        """The same host's ebtables with this backend. Nothing is run yet.

        With `alone` the rules of the other backend are not checked, so a named backend never raises
        EbtablesWrongBackend: for callers that know where their rules were. It has no effect with "auto".
        """
        ...

    def program(self) -> str:
        """The program for a single rule of this backend: a key of PROGRAMS, or ebtables if it has no other name."""
        ...

    def save(self) -> str:
        """The rules, as ebtables-save prints them: "*nat", its chains, then each rule after "-A". No counters.

        The text may include other tables. If it has no table nat, there are no rules in nat. Raises EbtablesRefused if
        nat has rules that were created with nft and that ebtables cannot read. Changes nothing and loads no kernel
        module.
        """
        ...

    def delete(self, lines: Sequence[str]) -> None:
        """Delete all of these rules, or none of them.

        Each line is one rule; a line given twice deletes two equal rules, the first ones first. Raises BadRule, with
        the missing lines, if a rule does not exist; AmbiguousRule, a subclass of BadRule, if ebtables might delete a
        different rule instead of one of them. In both cases nothing was changed. No lines are fine. After an
        EbtablesTimeout the change may or may not have been made.
        """
        ...

    def delete_one(self, line: str) -> bool:
        """Delete the first such rule; False if there is none, or if ebtables might delete a different rule instead."""
        ...

    def add(self, lines: Sequence[str]) -> None:
        """Add all of these rules, each at the end of its chain, or none of them.

        Not idempotent: ebtables accepts equal rules any number of times. No lines are fine. After an EbtablesTimeout
        the change may or may not have been made.
        """
        ...
