"""ebtables by its programs: an argument list, rules on standard input, a timeout, and no shell.

Here: the commands, and how their exit codes are handled. Not here: the text (`saved`) and the messages (`refusal`).

A host may have the programs of two backends, and each sees only the rules of its own backend. With the wrong program
there seem to be no rules. So if one backend has no rules in table nat, the other one is read too. Legacy ebtables-save
prints only a header if the kernel module of the table is not loaded, and exits with 0: here that is an error, and never
"no rules".
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

import attrs

from hostrouting.ebtables import refusal
from hostrouting.ebtables.base import BACKENDS, Backend, OneBackend
from hostrouting.ebtables.saved import (
    batch,
    has_nat,
    is_incomplete,
    listed,
    missing_from,
    nat_rules,
    require_distinct,
    require_lines,
)
from hostrouting.errors import BadRule, EbtablesError, EbtablesMissing, EbtablesNotLoaded, EbtablesRefused
from hostrouting.system.programs import run_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hostrouting.system.programs import Ended, Run

__all__ = ["EbtablesProgram"]

_TRIES = 3
"""How often a deletion is tried if it is refused although every rule exists: another process was changing rules."""


@attrs.frozen
class _Saved:
    """The rules of one backend, and the prefix of its programs' names."""

    backend: OneBackend
    prefix: str
    text: str

    @property
    def count(self) -> int:
        """The number of rules in table nat."""
        return len(nat_rules(self.text))


class EbtablesProgram:
    """The ebtables of this machine, or of the namespace entered by `words`: ["nsenter", "--net=/run/netns/a"].

    Nothing is kept between two calls.
    """

    def __init__(
        self,
        backend: Backend = "auto",
        *,
        timeout: float = 10.0,
        words: Sequence[str] = (),
        run: Run = run_program,
        alone: bool = False,
    ) -> None:
        """Wait up to `timeout` seconds for each answer; for `alone` see `of`."""
        self._backend = backend
        self._alone = alone
        self._timeout = timeout
        self._words = tuple(words)
        self._program = run

    def of(self, backend: Backend, *, alone: bool = False) -> EbtablesProgram:
        """See Ebtables."""
        return EbtablesProgram(backend, timeout=self._timeout, words=self._words, run=self._program, alone=alone)

    def program(self) -> str:
        """See Ebtables."""
        return self._find().prefix

    def save(self) -> str:
        """See Ebtables."""
        return self._find().text

    def delete(self, lines: Sequence[str]) -> None:
        """See Ebtables."""
        self._change("-D", lines)

    def delete_one(self, line: str) -> bool:
        """See Ebtables."""
        try:
            self._change("-D", [line])
        except BadRule:
            return False
        return True

    def add(self, lines: Sequence[str]) -> None:
        """See Ebtables."""
        self._change("-A", lines)

    def _change(self, verb: Literal["-A", "-D"], lines: Sequence[str]) -> None:
        require_lines(lines)
        if not lines:
            return
        what = f"{'add' if verb == '-A' else 'delete'} {len(lines)} rule{'s' * (len(lines) != 1)}"
        found = self._find()
        if verb == "-D":
            require_distinct(found.text, lines)
        for tries_left in reversed(range(_TRIES)):
            program = f"{found.prefix}-restore"
            done = self._run(program, "--noflush", text=batch(verb, lines), what=what)
            if not refusal.knows_batches(done.err):
                raise refusal.too_old(program, _words(done))
            if not done.code:
                return
            error = refusal.refused(what, _words(done))
            if verb == "-A" or not isinstance(error, EbtablesRefused):
                raise error
            # The error for a missing rule has a different text in each version, and in some none.
            if gone := missing_from(self._save(found.backend).text, lines):
                raise BadRule(gone, ebtables=error.ebtables)
            if not tries_left:
                raise error

    def _find(self) -> _Saved:
        """The requested backend, and its rules."""
        if self._backend == "auto":
            return self._find_any()
        return self._save(self._backend) if self._alone else self._find_one(self._backend)

    def _find_one(self, asked: OneBackend) -> _Saved:
        found = self._try(asked)
        if not isinstance(found, _Saved) or not found.count:
            (other,) = (it for it in BACKENDS if it != asked)
            try:
                elsewhere = self._save(other).count
            except EbtablesError:
                elsewhere = 0  # it was not requested, so its errors are ignored
            if elsewhere:
                raise refusal.wrong_backend(asked, other, elsewhere)
        if not isinstance(found, _Saved):
            raise found
        return found

    def _find_any(self) -> _Saved:
        tried = {backend: self._try(backend) for backend in BACKENDS}
        having = [it for it in tried.values() if isinstance(it, _Saved) and it.count]
        if len(having) > 1:
            raise refusal.both_backends([(it.backend, it.count) for it in having])
        if having:
            return having[0]
        plain = self._plain()
        for found in (tried[it] for it in sorted(BACKENDS, key=lambda it: it != plain)):
            if isinstance(found, _Saved):
                return found
            if isinstance(found, EbtablesNotLoaded):
                raise found
        raise refusal.missing()

    def _try(self, backend: OneBackend) -> _Saved | EbtablesMissing | EbtablesNotLoaded:
        try:
            return self._save(backend)
        except (EbtablesMissing, EbtablesNotLoaded) as error:
            return error

    def _save(self, backend: OneBackend) -> _Saved:
        """The rules of the backend; its own programs are tried first, because `ebtables` can belong to either."""
        prefix = f"ebtables-{backend}"
        try:
            text = self._ask(f"{prefix}-save")
        except EbtablesMissing:
            if self._plain() != backend:
                raise
            prefix = "ebtables"
            text = self._ask(f"{prefix}-save")
        if is_incomplete(text):
            raise refusal.refused(
                "list the table nat", "it is not compatible with ebtables; see `nft list table bridge nat`"
            )
        if backend == "legacy":
            if not has_nat(text):
                raise refusal.not_loaded()
            # Its ebtables-save is a script that runs /usr/sbin/ebtables, which may be the program of the other backend.
            text = text.splitlines()[0] + "\n" + listed(self._ask(prefix, "-t", "nat", "-L"))
        return _Saved(backend, prefix, text)

    def _plain(self) -> OneBackend | None:
        """The backend of the program `ebtables`."""
        try:
            return "nft" if "nf_tables" in self._ask("ebtables", "--version") else "legacy"
        except EbtablesMissing:
            return None

    def _ask(self, *words: str) -> str:
        what = "list its rules"
        done = self._run(*words, what=what)
        if done.code:
            raise refusal.refused(what, _words(done))
        return done.out

    def _run(self, *words: str, what: str, text: str = "") -> Ended:
        # Errors are recognised by their text, and counters would make the lines of equal rules differ.
        environment = {**os.environ, "LC_ALL": "C", "EBTABLES_SAVE_COUNTER": "no"}
        try:
            done = self._program(*self._words, *words, text=text, timeout=self._timeout, environment=environment)
        except FileNotFoundError as error:
            raise refusal.missing(words[0]) from error
        except TimeoutError as error:
            raise refusal.timed_out(what, self._timeout) from error
        except OSError as error:
            raise refusal.refused("be run", error.strerror or str(error)) from error
        if done.signal:
            raise refusal.refused(what, f"the program was killed by {done.signal}")
        if done.code == _NO_PROGRAM and self._words:
            raise refusal.missing(words[0])
        return done


_NO_PROGRAM = 127
"""The exit code of nsenter if the program does not exist; without `words` that is a FileNotFoundError."""


def _words(done: Ended) -> str:
    return refusal.tidied((done.err or done.out).splitlines())
