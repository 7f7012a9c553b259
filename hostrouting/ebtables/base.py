"""What the way to ebtables promises. No program is run here, and nothing is decided.

It is the only way to the rules for Ethernet frames, real or fake. The promises are checked, on any of them, by the
contract suite in `hostrouting.testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BACKENDS", "PROGRAMS", "Backend", "Ebtables", "OneBackend"]

OneBackend: TypeAlias = Literal["nft", "legacy"]
"""Where the kernel keeps rules: in nf_tables, or in ebtables' own tables. A program sees those of its backend only."""

Backend: TypeAlias = Literal["auto", "nft", "legacy"]
"""One backend, or the one that has rules in its table nat: where neither has any, that of the program `ebtables`."""

BACKENDS: tuple[OneBackend, ...] = ("nft", "legacy")

PROGRAMS: dict[str, OneBackend] = {f"ebtables-{it}": it for it in BACKENDS}
"""By the name of a program: the backend that it is for. `ebtables` is not here, since it may be for either."""


class Ebtables(Protocol):
    """The rules for Ethernet frames. What is changed is changed in the table nat.

    A line is a rule as ebtables-save spells it, without the leading "-A": "PREROUTING -p ARP -j DROP". One that is
    more than a line, or does not begin with a chain, is a ValueError before anything is run.

    Each verb raises an EbtablesError where ebtables cannot be had (EbtablesMissing, EbtablesNotPermitted,
    EbtablesNotLoaded), the rules are in another backend than the one that was asked for, or "auto" finds some in both
    (EbtablesWrongBackend), it does not answer (EbtablesTimeout), or it refuses (EbtablesRefused). One that cannot
    change rules in one batch is EbtablesTooOld, and has changed nothing. A deletion that is refused although every rule
    is there is tried again a few times; nothing else is.
    """

    def of(self, backend: Backend, *, alone: bool = False) -> Ebtables:
        """The same host's, of this backend. Nothing is run yet.

        With `alone` it does not matter whether the other backend has rules, so one that was named is never
        EbtablesWrongBackend: for whoever knows that its rules were there. It changes nothing for "auto".
        """
        ...

    def program(self) -> str:
        """The program for a single rule of this backend: a key of PROGRAMS, or ebtables where it has no other name."""
        ...

    def save(self) -> str:
        """The rules, as ebtables-save prints them: "*nat", its chains, then each rule after "-A". No counters.

        Other tables may be in it too. A text without a table nat means that there are no rules in it. EbtablesRefused
        where nat has rules that ebtables cannot read, since nft made them. Changes nothing and loads no kernel module.
        """
        ...

    def delete(self, lines: Sequence[str]) -> None:
        """None of these rules is there any more: all at once, or none of them.

        Each line is one rule; one that is given twice is deleted twice, the first one first. BadRule, with those that
        are not there, where one is not; AmbiguousRule, which is a BadRule too, where ebtables might take another rule
        for one of them. Nothing was changed then. Fine without lines. After an EbtablesTimeout it may have been done
        or not.
        """
        ...

    def delete_one(self, line: str) -> bool:
        """Delete one such rule, the first; False where there is none, or ebtables might take another one for it."""
        ...

    def add(self, lines: Sequence[str]) -> None:
        """Each of these rules is there once more, at the end of its chain: all at once, or none of them.

        Not idempotent: ebtables takes the same rule any number of times. Fine without lines. After an EbtablesTimeout
        it may have been done or not.
        """
        ...
