"""The tables of nftables: the contract of an edge that reads and changes them, and the edge that uses the program nft.

Here: tables of the family ip6, by name; the commands of nft, how their exit codes are handled, and an error for each
kind of failure, with one sentence that is the same for nft and for a fake. Not here: what is in a table, and nft's JSON
(`nftables.table`), and which tables are wanted. The contract suite in `hostrouting.testing` checks the contract on any
implementation.

nft gets JSON on its standard input, an argument list and a timeout, and no shell. Its errors are recognised by their
text, so it runs with LC_ALL=C.
"""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING, Protocol

from hostrouting.errors import ProgramError
from hostrouting.kernel.nftables.table import TableText, listing, read_table, removing, replacing
from hostrouting.kernel.programs import run_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hostrouting.kernel.nftables.table import Table
    from hostrouting.kernel.programs import Ended, Run

__all__ = [
    "NftProgram",
    "Nftables",
    "is_about_permission",
    "is_absent",
    "missing",
    "not_permitted",
    "owned",
    "refused",
    "tidied",
    "timed_out",
    "too_old",
]


class Nftables(Protocol):
    """The tables of the family ip6.

    Each verb raises a ProgramError if nft cannot be used (missing, too-old, not-permitted), does not answer (timeout)
    or refuses (refused). No verb retries. A name or a table that this library would not create raises ValueError before
    anything is run.
    """

    def table(self, name: str) -> Table | None:
        """The present table; None if it does not exist. Other tables are not read.

        A table with flags may be unreadable: nft 1.0.6 stops in the middle of its listing. Then `is_readable` is False,
        there are no chains, and only the flags that nft printed are there.
        """
        ...

    def counters(self, name: str) -> tuple[int, ...]:
        """The number of packets that each counter of the table has counted, in the order of its rules.

        Empty for a table that does not exist or cannot be read. `replace` resets them to 0.
        """
        ...

    def names(self) -> tuple[tuple[str, str], ...]:
        """The family and the name of every table of the host, in order; their content is not read."""
        ...

    def replace(self, table: Table, *, without: Sequence[str] = ()) -> None:
        """Make the table exactly this, and remove the tables named in `without`.

        One transaction: every reader and every packet gets either all of the old or all of the new. Idempotent, but an
        equal table is also created again, with new handles and its counters at 0: the caller compares first. A dormant
        table becomes active. Names in `without` may be absent; the table's own name in it has no effect. Raises
        an error (owned) if another process owns one of the tables; then nothing was changed. After a timeout the change
        may or may not have been made.
        """
        ...

    def remove(self, *names: str) -> None:
        """Remove the tables with these names in one transaction; absent tables and no names are fine.

        Raises an error (owned) if another process owns one of them; then nothing was changed. After a timeout the
        change may or may not have been made.
        """
        ...


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
            raise refused("list the tables", tidied(done.complaint))
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
        said = tidied(done.complaint)
        if is_about_permission(said):
            # The kernel has one error for both: another process owns the table, or this process lacks the privilege.
            for name in names:
                flags, owner = self._flags(name)
                if "owner" in flags:
                    raise owned(name, owner)
        raise refused(what, said)

    def _read(self, name: str) -> TableText | None:
        what = f"list the table ip6 {name}"
        # On standard input, because nft parses a name on the command line as part of its syntax.
        done = self._run("-j", "-f", "-", text=listing(name), what=what)
        if done.code:
            said = tidied(done.complaint)
            if is_absent(said):
                return None
            raise refused(what, said)
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
            raise missing() from error
        except TimeoutError as error:
            raise timed_out(what, self._timeout) from error
        except OSError as error:
            raise refused("be run", error.strerror or str(error)) from error
        if done.signal:
            raise refused(what, f"the program was killed by {done.signal}")
        return done


# Failures of nft

_ABSENT = "No such file or directory"
_DENIED = "Operation not permitted"
_NO_JSON = ("JSON support not compiled-in", "invalid option -- 'j'", "unrecognized option: j")


_error = partial(ProgramError, program="nft")


def missing() -> ProgramError:
    """The program nft is not installed."""
    return _error("the program nft is not in PATH; install the package nftables", kind="missing")


def too_old(words: str = "") -> ProgramError:
    """The program nft has no JSON support."""
    told = "this nft has no JSON support, which exists since 0.9.0; install a newer package nftables"
    return _error(told, kind="too-old", words=words)


def not_permitted(words: str = "") -> ProgramError:
    """The process lacks the privilege."""
    told = "this process may not read or change nftables; run it as root with the capability CAP_NET_ADMIN"
    return _error(told, kind="not-permitted", words=words)


def timed_out(what: str, seconds: float) -> ProgramError:
    """No answer came in time."""
    told = f"nft did not {what} within {seconds:g} s; check that `nft list tables` answers, then try again"
    return _error(told, kind="timeout")


def owned(name: str, owner: str = "") -> ProgramError:
    """Another process owns the table; `owner` is the name of the program, if nft prints it."""
    whose = f"another process ({owner})" if owner else "another process"
    return _error(
        f"the table ip6 {name} is owned by {whose}, and only its owner may change it; "
        "stop that process (the kernel then deletes the table), or choose another name for the table",
        kind="owned",
    )


def refused(what: str, words: str) -> ProgramError:
    """The error for a failed nft command, by its text, which does not say whether another process owns the table."""
    if any(phrase in words for phrase in _NO_JSON):
        return too_old(words)
    if is_about_permission(words):
        return not_permitted(words)
    return _error(f"nft could not {what}", kind="refused", words=words or "nft printed no message")


def is_about_permission(words: str) -> bool:
    """Whether something was not permitted: to this process, or because another process owns the table."""
    return _DENIED in words


def is_absent(words: str) -> bool:
    """Whether the requested object does not exist."""
    return _ABSENT in words


def tidied(text: str) -> str:
    """Return nft's text as one line, without the location in its input and the markers under it."""
    told = (line.strip().removeprefix("internal:0:0-0: ") for line in text.splitlines())
    return " | ".join(dict.fromkeys(line for line in told if line.strip("^~ ")))
