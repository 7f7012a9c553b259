"""nftables: the contract of an edge that loads text in nft's language and lists tables, and the edge that runs nft.

Here: tables of the family ip6, by name; the commands of nft, how their exit codes are handled, and an error for each
kind of failure, with one sentence that is the same for nft and for a fake. Not here: what is in a table. Its text is
loaded as it is, and compared only with what nft listed before: nft prints a table in its own way, which depends on its
version. The fake is `hostrouting.testing.FakeNftables`; one contract suite checks both.

nft gets its text on the standard input, an argument list and a timeout, and no shell. Its errors are recognised by
their text, so it runs with LC_ALL=C.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from hostrouting.errors import HostError
from hostrouting.kernel.programs import Ended, Run, run_program, tool_environment


class Nftables(Protocol):
    """The tables of the family ip6.

    Each verb raises a HostError if nft cannot be used (missing, not-permitted), does not answer (timeout) or refuses
    (refused). No verb retries. A name that needs quotes raises ValueError before anything is run.
    """

    def load(self, text: str) -> None:
        """Carry out the text in one transaction: readers and packets see all of it or nothing.

        Raises an error (refused, or not-permitted if another process owns a table in it); then nothing was changed.
        After a timeout the change may or may not have been made.
        """

    def listing(self, name: str) -> str | None:
        """The table as nft lists it, without counts; None if it does not exist. Other tables are not read."""

    def counts(self, name: str) -> tuple[int, ...]:
        """The number of packets that each counter of the table has counted, in the order of its rules.

        Empty for a table that does not exist.
        """

    def names(self) -> tuple[tuple[str, str], ...]:
        """The family and the name of every table of the host, in order; their content is not read."""


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_COUNTS = re.compile(r"\bcounter packets (\d+) bytes")


def require_name(name: str) -> None:
    """Raise ValueError for a name that nft would not read as one word."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!a} is not a table name: use letters, digits and '_', not a digit first")


class NftProgram:
    """The nftables of this machine, or of the namespace entered by `words`: ["nsenter", "--net=/run/netns/a"].

    Nothing is kept between two calls.
    """

    def __init__(self, *, timeout: float = 10.0, words: Sequence[str] = (), run: Run = run_program) -> None:
        """Wait up to `timeout` seconds for each answer."""
        self._timeout = timeout
        self._words = tuple(words)
        self._program = run

    def load(self, text: str) -> None:
        """See Nftables."""
        self._require("load its input", self._run("-f", "-", what="load its input", text=text))

    def listing(self, name: str) -> str | None:
        """See Nftables."""
        return self._list(name, "--stateless")

    def counts(self, name: str) -> tuple[int, ...]:
        """See Nftables."""
        return tuple(map(int, _COUNTS.findall(self._list(name) or "")))

    def _list(self, name: str, *options: str) -> str | None:
        require_name(name)
        what = f"list the table ip6 {name}"
        done = self._run("--numeric", *options, "list", "table", "ip6", name, what=what)
        return None if done.code and _ABSENT in done.complaint else self._require(what, done)

    def names(self) -> tuple[tuple[str, str], ...]:
        """See Nftables."""
        done = self._require("list the tables", self._run("list", "tables", what="list the tables"))
        tables = (line.split(maxsplit=2) for line in done.splitlines())
        return tuple(sorted((words[1], words[2]) for words in tables if len(words) == 3 and words[0] == "table"))

    def _require(self, what: str, done: Ended) -> str:
        """What nft printed; an error if it has failed."""
        if done.signal:
            raise refused(what, f"the program was killed by {done.signal}")
        if done.code:
            raise refused(what, _tidied(done.complaint))
        return done.out

    def _run(self, *words: str, what: str, text: str = "") -> Ended:
        try:
            return self._program(
                *self._words, "nft", *words, text=text, timeout=self._timeout, environment=tool_environment()
            )
        except FileNotFoundError as error:
            raise missing() from error
        except TimeoutError as error:
            told = f"nft did not {what} within {self._timeout:g} s; check that `nft list tables` answers"
            raise _error(f"{told}, then try again", kind="timeout") from error
        except OSError as error:
            raise refused("be run", error.strerror or str(error)) from error


# Failures of nft

_ABSENT = "No such file or directory"
_DENIED = "Operation not permitted"

_error = partial(HostError, what="nft")


def missing() -> HostError:
    """The error for a program nft that is not installed."""
    return _error("the program nft was not found; install the package nftables", kind="missing")


def not_permitted(words: str = "") -> HostError:
    """The error for a process without the privilege, or a table of another process: the kernel does not say which."""
    told = (
        "this process may not read or change nftables, or another process owns the table: run it as root with the "
        "capability CAP_NET_ADMIN, and end that process"
    )
    return _error(told, kind="not-permitted", words=words)


def refused(what: str, words: str) -> HostError:
    """The error for a failed nft command, by its text."""
    if _DENIED in words:
        return not_permitted(words)
    return _error(f"nft could not {what}", kind="refused", words=words or "nft printed no message")


def _tidied(text: str) -> str:
    """Return nft's text as one line, without the location in its input and the markers under it."""
    told = (line.strip().removeprefix("internal:0:0-0: ") for line in text.splitlines())
    return " | ".join(dict.fromkeys(line for line in told if line.strip("^~ ")))
