"""The rules for Ethernet frames in table nat: the interface of what lists and deletes them
(`Ebtables`), and its implementation, which runs ebtables.

A rule is the text that ebtables prints, and is deleted by that text. `rules` reads it, and gives
the MAC addresses one spelling.

A host may have the programs of two backends, ebtables-nft and ebtables-legacy, and each sees only
its own rules: the wrong program seems to find none. So both are asked. To list the rules of the
legacy backend would load its kernel module, so its ebtables-save is asked first whether table nat
is loaded: it is a script that takes the names of the tables from /proc/modules. Of its output, only
these names count, because it may have run the program of the other backend to list the rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Protocol

from hostrouting.errors import HostError
from hostrouting.kernel.programs import RunProgram, run_program, run_tool, tool_error
from hostrouting.text import counted


class BridgeRule(NamedTuple):
    """A rule of table nat."""

    program: str
    """The program that lists it: "ebtables-nft" or "ebtables-legacy"."""
    text: str
    """The chain and the options, as ebtables prints them: "PREROUTING -p ARP -j DROP"."""


class Ebtables(Protocol):
    """The rules for Ethernet frames in table nat.

    Each verb raises the errors of `run_tool` if ebtables cannot be used or refuses.
    """

    def list_rules(self) -> tuple[BridgeRule, ...]:
        """The rules in order, chain by chain. Creates no table and loads no kernel module. Raises
        HostError (wrong-backend) if both ebtables-nft and ebtables-legacy have rules.
        """

    def delete(self, rules: Sequence[BridgeRule]) -> None:
        """Delete these rules, all or none: if one does not exist, ebtables refuses. All must have
        the same `program`, which is called to delete them. If a rule is given twice, two equal
        rules are deleted, the first ones.

        A known limit: ebtables-nft 1.8.9 ignores the masks of MAC addresses, and treats a rule
        without a MAC address as one with 00:00:00:00:00:00. So it may delete another rule that
        differs only in its MAC addresses.
        """


_BACKENDS = ("ebtables-nft", "ebtables-legacy")
_TWO_BACKENDS = (
    "both ebtables-nft and ebtables-legacy have rules in table nat; delete the rules of the "
    "backend that this node does not use"
)
_CHAIN = re.compile(r"Bridge chain: (\S+), entries: ")


class EbtablesProgram:
    """The rules in the network namespace of the calling thread, by the programs of ebtables.
    Nothing is kept between two calls.
    """

    def __init__(self, *, run: RunProgram = run_program) -> None:
        self._tool = partial(run_tool, what="ebtables", package="iptables or ebtables", run=run)

    def list_rules(self) -> tuple[BridgeRule, ...]:
        # Ask both ebtables-nft and ebtables-legacy, because each sees only its own rules. A host
        # may lack the program, or the kernel module, of one of them. If both have rules, raise an
        # error, because nobody knows which of them this node uses.
        lists: list[tuple[BridgeRule, ...]] = []
        absences: list[HostError] = []
        for program in _BACKENDS:
            try:
                lists.append(self._rules_of(program))
            except HostError as error:
                if not error.is_absent:
                    raise
                absences.append(error)
        if not lists:
            raise absences[0]
        not_empty = [rules for rules in lists if rules]
        if len(not_empty) > 1:
            raise HostError(_TWO_BACKENDS, what="ebtables", kind="wrong-backend")
        return not_empty[0] if not_empty else ()

    def delete(self, rules: Sequence[BridgeRule]) -> None:
        if not rules:
            return
        # ebtables-restore reads the name of the table, then a command for each rule. There is no
        # COMMIT at the end, because ebtables-legacy does not know it. The empty text ends the last
        # line: without that, ebtables-legacy crashes. Without --noflush, ebtables-restore would
        # first delete all rules of the table.
        lines = ["*nat", *(f"-D {rule.text}" for rule in rules), ""]
        purpose = f"delete {counted(len(rules), 'rule')}"
        text = "\n".join(lines)
        self._tool(f"{rules[0].program}-restore", "--noflush", text=text, purpose=purpose)

    def _rules_of(self, program: str) -> tuple[BridgeRule, ...]:
        """The rules of one backend, whose program is `program`; empty if it has no table nat."""
        # Ask ebtables-save first whether the table exists. `-L` would create a missing table, or
        # load its kernel module, depending on the backend.
        save = f"{program}-save"
        purpose = "list its rules"
        saved = self._tool(save, purpose=purpose)
        tables = [line.strip() for line in saved.out.splitlines()]
        if "*nat" in tables:
            listing = self._tool(program, "-t", "nat", "-L", purpose=purpose)
            return read_listing(listing.out, program)
        # The table nat is not listed. Usually it does not exist, and there are no rules. Whether
        # there are some is unknown if ebtables-save has warned that it cannot read the tables.
        if saved.err or "Table `nat' is incompatible" in saved.out:
            raise tool_error(saved, save, purpose=purpose, what="ebtables")
        return ()


def read_listing(text: str, program: str) -> tuple[BridgeRule, ...]:
    """The rules in the output of `ebtables -L`: each line below a chain's heading is a rule."""
    rules: list[BridgeRule] = []
    chain = ""  # the lines before the first heading are skipped
    for line in text.splitlines():
        heading = _CHAIN.match(line)
        if heading is not None:
            chain = heading[1]
        elif chain and line.strip():
            rules.append(BridgeRule(program, f"{chain} {line.strip()}"))
    return tuple(rules)
