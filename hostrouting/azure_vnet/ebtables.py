"""The rules for Ethernet frames in table nat: the contract of an edge that lists and deletes them,
and the edge that runs ebtables.

A rule is its chain and its options, as ebtables prints them ("PREROUTING -p ARP -j DROP"), and is
deleted by that text. `rules` reads it, and gives the MAC addresses one spelling.

To list the rules could create their table, or load its kernel module. So ebtables-save is asked
first whether there is one.

Not judged: which backend `ebtables` is. A host may have the programs of two (nft and legacy), each
of which sees only its own rules; azure-vnet runs the same `ebtables`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from hostrouting.errors import HostError
from hostrouting.kernel.programs import Run, run_program, run_tool, tool_error
from hostrouting.text import counted


class Ebtables(Protocol):
    """The rules for Ethernet frames in table nat.

    Each verb raises the errors of `run_tool` if ebtables cannot be used or refuses.
    """

    def list_rules(self) -> tuple[str, ...]:
        """The rules in order, chain by chain. Creates no table and loads no kernel module."""

    def delete(self, rules: Sequence[str]) -> None:
        """Delete these rules, all or none; one that is given twice means the first two of the equal
        ones.

        If some do not exist, the error names them (no-such-rule), and nothing was changed.
        """


_CHAIN = re.compile(r"Bridge chain: (\S+), entries: ")


class EbtablesProgram:
    """The ebtables of the network namespace of the calling thread. Nothing is kept between two
    calls.
    """

    def __init__(self, *, run: Run = run_program) -> None:
        self._tool = partial(run_tool, what="ebtables", package="iptables or ebtables", run=run)

    def list_rules(self) -> tuple[str, ...]:
        purpose = "list its rules"
        saved = self._tool("ebtables-save", purpose=purpose)
        tables = [line.strip() for line in saved.out.splitlines()]
        if "*nat" in tables:
            return read_listing(self._tool("ebtables", "-t", "nat", "-L", purpose=purpose).out)
        # The program warns if the kernel does not say what is loaded, or if nft created rules that
        # it cannot show. (A table that it can name shows such a fault when it is listed, above.)
        if saved.err or "Table `nat' is incompatible" in saved.out:
            raise tool_error(saved, "ebtables-save", purpose=purpose, what="ebtables")
        return ()

    def delete(self, rules: Sequence[str]) -> None:
        if not rules:
            return
        require_deletable(self.list_rules(), rules)
        # A legacy ebtables-restore does not know COMMIT, and crashes if the last line has no end.
        lines = ["*nat", *(f"-D {rule}" for rule in rules), ""]
        purpose = f"delete {counted(len(rules), 'rule')}"
        self._tool("ebtables-restore", "--noflush", text="\n".join(lines), purpose=purpose)


def read_listing(text: str) -> tuple[str, ...]:
    """The rules in the output of `ebtables -L`: each line of a chain is one."""
    rules: list[str] = []
    chain = ""
    for line in text.splitlines():
        heading = _CHAIN.match(line)
        if heading is not None:
            chain = heading[1]
        elif chain and line.strip():
            rules.append(f"{chain} {line.strip()}")
    return tuple(rules)


def require_deletable(present: Sequence[str], rules: Sequence[str]) -> None:
    """Raise the error of `delete` unless all these rules are present.

    Not judged: whether ebtables deletes another rule that differs from one of them only in its MAC
    addresses. ebtables-nft 1.8.9 compares these without their masks, and treats a missing address
    as zeros.
    """
    missing = tuple((Counter(rules) - Counter(present)).elements())
    if missing:
        sentence = f"table nat no longer has the rule {missing[0]!r}, so nothing was deleted"
        text = f"{sentence}; run this again"
        raise HostError(text, what="ebtables", kind="no-such-rule", lines=missing)
