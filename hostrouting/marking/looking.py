"""Looking for what can mark packets on this host: the programs that list it, and how their failures are told.

Here: which program is asked, and what could not be looked at. Not here: the meaning of what it prints. No rule is
changed. iptables-legacy-save creates the table that it is asked for, so it is only run for tables that exist.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hostrouting.marking.iptables_rules import iptables_rules
from hostrouting.marking.nft_rules import nft_rules
from hostrouting.marking.policies import ipsec_policies
from hostrouting.marking.setter import Marking, MarkingRules
from hostrouting.system.programs import run_program
from phases.text import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hostrouting.marking.setter import IpsecPolicy
    from hostrouting.system.programs import Run

__all__ = ["marking_of"]

_TIMEOUT = 10.0
_IPTABLES = {4: "iptables", 6: "ip6tables"}
_TABLES = {4: "/proc/net/ip_tables_names", 6: "/proc/net/ip6_tables_names"}
_OF_EBTABLES = '{"type": "target", "name": "mark"}'  # as nft lists it
_LONGEST = 120  # characters of a program's error


def marking_of(family: int, *, words: Sequence[str] = (), run: Run = run_program) -> Marking:
    """See MarkingOf: of this host, or of the namespace entered by `words`."""
    looking = _Looking(family, tuple(words), run)
    rules = [looking.nftables(), looking.iptables_nft(), *looking.iptables_legacy()]
    return Marking(
        tuple(setter for it in rules for setter in it.setters),
        frozenset(hook for it in rules for hook in it.hooks),
        looking.ipsec(),
        tuple(looking.unseen),
    )


class _Looking:
    """One look; `unseen` grows with what could not be looked at."""

    def __init__(self, family: int, words: tuple[str, ...], run: Run) -> None:
        self._family, self._words, self._program = family, words, run
        self._foreign = True  # whether there may be rules of iptables-nft
        self.unseen: list[str] = []

    def nftables(self) -> MarkingRules:
        """Rules of nftables."""
        text = self._ask("nftables", "nft", "-j", "-t", "list", "ruleset")
        self._foreign = not text or '"xt"' in text
        if _OF_EBTABLES in text:
            self.unseen.append("rules of ebtables that mark packets (hostrouting does not read them)")
        return self._read("nftables", lambda: nft_rules(text, family=self._family)) if text else MarkingRules()

    def iptables_nft(self) -> MarkingRules:
        """Rules of iptables in nftables; nft lists them without their arguments."""
        return self._iptables(f"{_IPTABLES[self._family]}-nft-save") if self._foreign else MarkingRules()

    def iptables_legacy(self) -> list[MarkingRules]:
        """Rules of iptables itself, of each table."""
        prefix = f"{_IPTABLES[self._family]}-legacy"
        try:
            self._run("test", "-e", _TABLES[self._family])
        except OSError:
            return []  # the kernel does not have it
        tables = self._ask(prefix, "cat", _TABLES[self._family]).split()
        return [self._iptables(f"{prefix}-save", "-t", table) for table in tables]

    def ipsec(self) -> tuple[IpsecPolicy, ...]:
        """IPsec policies."""
        text = self._ask("IPsec policies", "ip", "xfrm", "policy")
        try:
            return ipsec_policies(text, family=self._family)
        except ValueError as error:
            self.unseen.append(f"IPsec policies ({error})")
            return ()

    def _iptables(self, program: str, *options: str) -> MarkingRules:
        what = program.removesuffix("-save")
        text = self._ask(what, program, *options)
        return self._read(what, lambda: iptables_rules(text, program=what))

    def _read(self, what: str, read: Callable[[], MarkingRules]) -> MarkingRules:
        try:
            return read()
        except ValueError as error:
            self.unseen.append(f"{what} ({error})")
            return MarkingRules()

    def _ask(self, what: str, *words: str) -> str:
        """What the program prints; empty if it fails."""
        try:
            return self._run(*words)
        except OSError as error:
            self.unseen.append(f"{what} ({error})")
            return ""

    def _run(self, *words: str) -> str:
        """What the program prints; OSError with the reason if it fails."""
        try:
            done = self._program(*self._words, *words, timeout=_TIMEOUT, environment={**os.environ, "LC_ALL": "C"})
        except FileNotFoundError as error:
            raise OSError(f"the program {words[0]} is not installed") from error
        except TimeoutError as error:
            raise OSError(f"{words[0]} did not answer within {_TIMEOUT:g} s") from error
        if done.code:
            lines = done.err.strip().splitlines() or [f"{words[0]} failed"]
            raise OSError(escaped(lines[0])[:_LONGEST])
        return done.out
