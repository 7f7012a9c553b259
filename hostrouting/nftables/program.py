"""nftables by the program nft: JSON on its standard input, an argument list, a timeout, and no shell.

Here: the commands, and how their exit codes are handled. Not here: the JSON (`listing`) and the messages (`refusal`).
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from hostrouting.nftables import refusal
from hostrouting.nftables.listing import TableText, listing, read_table, removing, replacing
from hostrouting.system.programs import run_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hostrouting.nftables.table import Table
    from hostrouting.system.programs import Ended, Run

__all__ = ["NftProgram"]

_FLAGS = re.compile(r"^\s*flags ([a-z, ]+)$", re.MULTILINE)
_OWNER = re.compile(r"^table .*\{ # progname (\S+)$", re.MULTILINE)


class NftProgram:
    """The nftables of this machine, or of the namespace entered by `words`: ["nsenter", "--net=/run/netns/a"].

    Nothing is kept between two calls.
    """

    def __init__(self, *, timeout: float = 10.0, words: Sequence[str] = (), run: Run = run_program) -> None:
        """Wait up to `timeout` seconds for each answer."""
        self._timeout = timeout
        self._words = tuple(words)
        self._program = run

    def table(self, name: str) -> Table | None:
        """See Nftables."""
        found = self._read(name)
        return None if found is None else found.table

    def counters(self, name: str) -> tuple[int, ...]:
        """See Nftables."""
        found = self._read(name)
        return () if found is None else found.counters

    def names(self) -> tuple[tuple[str, str], ...]:
        """See Nftables."""
        # Not as JSON: nft 1.0.6 prints broken JSON as soon as any table has flags.
        done = self._run("list", "tables", what="list the tables")
        if done.code:
            raise refusal.refused("list the tables", _words(done))
        tables = (line.split(maxsplit=2) for line in done.out.splitlines())
        return tuple(sorted((words[1], words[2]) for words in tables if len(words) == 3 and words[0] == "table"))

    def replace(self, table: Table, *, without: Sequence[str] = ()) -> None:
        """See Nftables."""
        text = replacing(table, without=without)
        self._change(text, f"replace the table ip6 {table.name}", [table.name, *without])

    def remove(self, *names: str) -> None:
        """See Nftables."""
        text = removing(names)
        if names:
            self._change(text, f"remove the table ip6 {', '.join(names)}", names)

    def _change(self, text: str, what: str, names: Iterable[str]) -> None:
        done = self._run("-j", "-f", "-", text=text, what=what)
        if not done.code:
            return
        said = _words(done)
        if refusal.is_about_permission(said):
            # The kernel has one error for both: another process owns the table, or this process lacks the privilege.
            for name in names:
                flags, owner = self._flags(name)
                if "owner" in flags:
                    raise refusal.owned(name, owner)
        raise refusal.refused(what, said)

    def _read(self, name: str) -> TableText | None:
        what = f"list the table ip6 {name}"
        # On standard input, because nft parses a name on the command line as part of its syntax.
        done = self._run("-j", "-f", "-", text=listing(name), what=what)
        if done.code:
            said = _words(done)
            if refusal.is_absent(said):
                return None
            raise refusal.refused(what, said)
        found = read_table(done.out, name)
        return found if found.table.is_readable else read_table("", name, flags=self._flags(name)[0])

    def _flags(self, name: str) -> tuple[tuple[str, ...], str]:
        """The flags of a table and the program that owns it, from nft's text listing; empty if there are none."""
        done = self._run("-s", "list", "table", "ip6", name, what=f"list the table ip6 {name}")
        if done.code:
            return (), ""  # deleted meanwhile, not permitted, or a name that is a keyword of nft
        flags, owner = _FLAGS.search(done.out), _OWNER.search(done.out)
        return tuple(re.findall(r"[a-z]+", flags[1])) if flags else (), owner[1] if owner else ""

    def _run(self, *words: str, what: str, text: str = "") -> Ended:
        environment = {**os.environ, "LC_ALL": "C"}  # errors are recognised by their text
        try:
            done = self._program(*self._words, "nft", *words, text=text, timeout=self._timeout, environment=environment)
        except FileNotFoundError as error:
            raise refusal.missing() from error
        except TimeoutError as error:
            raise refusal.timed_out(what, self._timeout) from error
        except OSError as error:
            raise refusal.refused("be run", error.strerror or str(error)) from error
        if done.signal:
            raise refusal.refused(what, f"the program was killed by {done.signal}")
        return done


def _words(done: Ended) -> str:
    return refusal.tidied((done.err or done.out).splitlines())
