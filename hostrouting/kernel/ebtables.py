"""The rules for Ethernet frames: the contract of an edge that reads and deletes them, and the edge that uses ebtables.

Here: rules as lines of ebtables-save, the commands, how their exit codes are handled, and an error for each kind of
failure, with one sentence that is the same for ebtables and for a fake. Not here: the meaning of a rule, and which ones
are wanted. The contract suite in `hostrouting.testing` checks the contract on any implementation.

A host may have the programs of two backends, and each sees only the rules of its own backend. With the wrong program
there seem to be no rules. So unless a backend is named, both are read. Legacy ebtables-save
prints only a header if the kernel module of the table is not loaded, and exits with 0: here that is an error, and never
"no rules".

The programs get an argument list, rules on standard input, and a timeout, and no shell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Literal, Protocol, TypeAlias

import attrs

from hostrouting.errors import HostError
from hostrouting.kernel.programs import Ended, Run, run_program, tool_environment

Backend: TypeAlias = Literal["nft", "legacy"]
"""Where the kernel keeps the rules: nf_tables, or ebtables' own tables. A program sees only those of its backend."""

BACKENDS: tuple[Backend, ...] = ("nft", "legacy")


class Ebtables(Protocol):
    """The rules for Ethernet frames. Rules are deleted in table nat.

    A line is a rule as ebtables-save prints it, without the leading "-A": "PREROUTING -p ARP -j DROP". Text with
    several lines, or without a chain at the start, raises ValueError before anything is run.

    The backend is the one with rules in table nat; if neither has any, that of the program `ebtables`.

    Each verb raises a HostError if ebtables cannot be used (missing, not-permitted, not-loaded), if both backends
    have rules (wrong-backend), if there is no answer (timeout), or if ebtables refuses (refused). The kind too-old
    means that it cannot delete rules in one batch, and has changed nothing. A deletion that is refused although every
    rule exists is retried a few times; nothing else is retried.
    """

    def program(self) -> str:
        """The program of the backend, without "-save" and "-restore": ebtables-nft, ebtables-legacy or ebtables."""

    def save(self) -> str:
        """The rules, as ebtables-save prints them: "*nat", its chains, then each rule after "-A". No counters.

        The text may include other tables. If it has no table nat, there are no rules in nat. Raises HostError
        (refused) if nat has rules that were created with nft and that ebtables cannot read. Changes nothing and loads
        no kernel module.
        """

    def delete(self, lines: Sequence[str]) -> None:
        """Delete all of these rules, or none of them.

        Each line is one rule; a line given twice deletes two equal rules, the first ones first. If some of the rules do
        not exist, the error names them (no-such-rule); if ebtables might delete different rules instead, it names those
        in question (ambiguous-rule). In both cases nothing was changed. No lines are fine. After a timeout the change
        may or may not have been made.
        """


_TRIES = 3
"""How often a deletion is tried if it is refused although every rule exists: another process was changing rules."""

_NO_PROGRAM = 127
"""The exit code of nsenter if the program does not exist; without `words` that is a FileNotFoundError."""


@attrs.frozen
class _Saved:
    """The rules of one backend, and the prefix of its programs' names."""

    backend: Backend
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
        backend: Backend | None = None,
        *,
        timeout: float = 10.0,
        words: Sequence[str] = (),
        run: Run = run_program,
    ) -> None:
        """Wait up to `timeout` seconds for each answer."""
        self._backend = backend
        self._timeout = timeout
        self._words = tuple(words)
        self._program = run

    def program(self) -> str:
        """See Ebtables."""
        return self._find().prefix

    def save(self) -> str:
        """See Ebtables."""
        return self._find().text

    def delete(self, lines: Sequence[str]) -> None:
        """See Ebtables."""
        require_lines(lines)
        if not lines:
            return
        what = f"delete {len(lines)} rule{'s' * (len(lines) != 1)}"
        found = self._find()
        require_distinct(found.text, lines)
        for tries_left in reversed(range(_TRIES)):
            program = f"{found.prefix}-restore"
            done = self._run(program, "--noflush", text=batch(lines), what=what)
            if not knows_batches(done.err):
                raise too_old(program, tidied(done.complaint))
            if not done.code:
                return
            error = refused(what, tidied(done.complaint))
            if error.kind != "refused":
                raise error
            # The error for a missing rule has a different text in each version, and in some none.
            if gone := missing_from(self._save(found.backend).text, lines):
                raise no_such_rule(gone, error.words)
            if not tries_left:
                raise error

    def _find(self) -> _Saved:
        """The named backend or the one that has rules, and its rules."""
        return self._find_any() if self._backend is None else self._save(self._backend)

    def _find_any(self) -> _Saved:
        tried = {backend: self._try(backend) for backend in BACKENDS}
        having = [saved for saved in tried.values() if isinstance(saved, _Saved) and saved.count]
        if len(having) > 1:
            raise both_backends([(saved.backend, saved.count) for saved in having])
        if having:
            return having[0]
        plain = self._plain()
        for found in (tried[backend] for backend in sorted(BACKENDS, key=lambda backend: backend != plain)):
            if isinstance(found, _Saved):
                return found
            if found.kind == "not-loaded":
                raise found
        raise missing()

    def _try(self, backend: Backend) -> _Saved | HostError:
        try:
            return self._save(backend)
        except HostError as error:
            if error.kind not in {"missing", "not-loaded"}:
                raise
            return error

    def _save(self, backend: Backend) -> _Saved:
        """The rules of the backend. Its own programs are asked first: `ebtables` may belong to the other one."""
        prefix = f"ebtables-{backend}"
        try:
            text = self._ask(f"{prefix}-save")
        except HostError as error:
            if error.kind != "missing" or self._plain() != backend:
                raise
            prefix = "ebtables"
            text = self._ask(f"{prefix}-save")
        if odd := next((line for line in text.splitlines() if not _SAVED.match(line)), None):
            raise refused("be understood", f"{prefix}-save printed {odd[:80]!a}")
        if is_incomplete(text):
            raise refused("list the table nat", "it is not compatible with ebtables; see `nft list table bridge nat`")
        if backend == "legacy":
            if not has_nat(text):
                raise not_loaded()
            # Its ebtables-save is a script that runs /usr/sbin/ebtables, which may be the program of the other backend.
            text = text.splitlines()[0] + "\n" + listed(self._ask(prefix, "-t", "nat", "-L"))
        return _Saved(backend, prefix, text)

    def _plain(self) -> Backend | None:
        """The backend of the program `ebtables`."""
        try:
            return "nft" if "nf_tables" in self._ask("ebtables", "--version") else "legacy"
        except HostError as error:
            if error.kind != "missing":
                raise
            return None

    def _ask(self, *words: str) -> str:
        what = "list its rules"
        done = self._run(*words, what=what)
        if done.code:
            raise refused(
                what, tidied(done.complaint) or f"{words[0]} ended with exit code {done.code}, without a message"
            )
        return done.out

    def _run(self, *words: str, what: str, text: str = "") -> Ended:
        environment = {**tool_environment(), "EBTABLES_SAVE_COUNTER": "no"}  # equal rules have equal lines
        try:
            done = self._program(*self._words, *words, text=text, timeout=self._timeout, environment=environment)
        except FileNotFoundError as error:
            raise missing(words[0]) from error
        except TimeoutError as error:
            raise timed_out(what, self._timeout) from error
        except OSError as error:
            raise refused("be run", error.strerror or str(error)) from error
        if done.signal:
            raise refused(what, f"the program was killed by {done.signal}")
        if done.code == _NO_PROGRAM and self._words:
            raise missing(words[0])
        return done


# The text of ebtables-save and ebtables-restore

_TABLE = "*nat"
_INCOMPATIBLE = "# Table `nat' is incompatible"
_SAVED = re.compile(r"\s*(?:$|#|:|\*|-A |COMMIT$)")
"""The beginning of each line of ebtables-save: nothing, a comment, a chain, a table, a rule, or the end of a table."""
_LINE = re.compile(r"[^\s:#*-][^\s]*(?: [^\s].*)?")
_ANY_MAC = re.compile(r" -[sd] (?:! )?(?:Unicast|0{1,2}(?::0{1,2}){5})(?:/\S+)?(?= |$)")
_MASK = re.compile(r"( -[sd] (?:! )?[^ /]+)/\S+")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_CHAIN = re.compile(r"Bridge chain: (\S+), entries: \d+, policy: (\S+)")


def nat_rules(text: str) -> tuple[str, ...]:
    """The rules of table nat, in order, without the leading "-A"."""
    rules, table = [], ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line.strip()
        elif table == _TABLE and line.startswith("-A "):
            rules.append(line.removeprefix("-A ").strip())
    return tuple(rules)


def has_nat(text: str) -> bool:
    """Whether the text contains table nat, with rules or without."""
    return any(line.strip() == _TABLE for line in text.splitlines())


def is_incomplete(text: str) -> bool:
    """Whether the text says that nft has created chains or rules in nat that ebtables cannot show."""
    return any(line.startswith(_INCOMPATIBLE) for line in text.splitlines())


def missing_from(text: str, lines: Iterable[str]) -> tuple[str, ...]:
    """The lines that are not among the rules of nat, each as often as it is missing."""
    return tuple((Counter(lines) - Counter(nat_rules(text))).elements())


def require_distinct(text: str, lines: Sequence[str]) -> None:
    """Raise an error (ambiguous-rule) if nat has other rules that ebtables might delete instead of these.

    When ebtables-nft 1.8.9 searches for a rule, it compares MAC addresses without their masks, and treats a missing one
    as zeros. "Unicast" is zeros with a mask: a rule for any source and one for "-s Unicast" look the same to it.
    """
    seen: dict[str, set[str]] = {}
    for rule in (*nat_rules(text), *lines):
        seen.setdefault(_without_masks(rule), set()).add(rule)
    unclear = [line for line in lines if len(seen[_without_masks(line)]) > 1]
    if unclear:
        twin, *_ = sorted(seen[_without_masks(unclear[0])] - {unclear[0]})
        raise _error(
            f"ebtables cannot distinguish the rule {unclear[0]!r} from {twin!r} and might delete the latter, so "
            "nothing was deleted; delete the rule by its number: `ebtables -t nat -L --Ln`, then `ebtables -t nat -D "
            "CHAIN NUMBER`",
            kind="ambiguous-rule",
            lines=unclear,
        )


def _without_masks(line: str) -> str:
    return _MASK.sub(r"\1", _ANY_MAC.sub("", line))


def require_lines(lines: Sequence[str]) -> None:
    """ValueError for text that ebtables-restore would not read as a single rule."""
    for line in lines:
        if not _LINE.fullmatch(line) or _UNPRINTABLE.search(line):
            raise ValueError(
                f"{line!a} is not a rule: write one line that begins with a chain, as in 'PREROUTING -p ARP'"
            )


def batch(lines: Iterable[str]) -> str:
    """The input with which ebtables-restore deletes each of the rules."""
    return "\n".join([_TABLE, *(f"-D {line}" for line in lines), ""])


def listed(listing: str) -> str:
    """The output of `ebtables -t nat -L`, in the format of ebtables-save."""
    chains, rules, chain = [], [], ""
    for line in listing.splitlines():
        if found := _CHAIN.fullmatch(line.strip()):
            chain = found[1]
            chains.append(f":{chain} {found[2]}")
        elif chain and line.strip():
            rules.append(f"-A {chain} {line.strip()}")
    return "\n".join([_TABLE, *chains, *rules, ""])


# Failures of ebtables

_DENIED = ("Operation not permitted", "Permission denied", "must be root")
_NOT_LOADED = "The kernel doesn't support the ebtables"
_NO_NF_TABLES = "Failed to initialize nft"
_BATCH, _USAGE = "--noflush", "Usage: "
_NOISE = ("Try `", "Perhaps ")


_error = partial(HostError, what="ebtables")


def missing(program: str = "ebtables") -> HostError:
    """The error for a program that is not installed."""
    told = f"the program {program} was not found; install the package iptables or ebtables"
    return _error(told, kind="missing")


def not_permitted(words: str = "") -> HostError:
    """The error for a process without the privilege."""
    told = "this process may not read or change the rules of ebtables"
    return _error(f"{told}; run it as root with the capability CAP_NET_ADMIN", kind="not-permitted", words=words)


def not_loaded(words: str = "") -> HostError:
    """The error for a kernel without the table nat of legacy ebtables."""
    return _error(
        "the kernel module ebtable_nat is not loaded, so legacy ebtables cannot list its rules; "
        "load it (modprobe ebtable_nat)",
        kind="not-loaded",
        words=words,
    )


def no_nf_tables(words: str = "") -> HostError:
    """The error for a kernel without nf_tables, which the backend nft needs."""
    return _error(
        "this kernel has no nf_tables, where the nft backend of ebtables keeps its rules",
        kind="not-loaded",
        words=words,
    )


def too_old(program: str, words: str) -> HostError:
    """The error for a program without --noflush, the option that keeps the other rules."""
    return _error(
        f"{program} does not know --noflush, so rules cannot be deleted in one batch, and nothing was "
        "changed; install ebtables 2.0.11, iptables 1.8.2 or newer",
        kind="too-old",
        words=words,
    )


def knows_batches(words: str) -> bool:
    """Whether the program knows the option; else its error names the option. Its usage text does not count.

    The restore of ebtables 2.0.10 is a script that takes the option for the name of a file, and ends well without it.
    """
    return not any(_BATCH in line for line in words.splitlines() if not line.startswith(_USAGE))


def both_backends(counts: Iterable[tuple[str, int]]) -> HostError:
    """The error for rules in both backends."""
    found = " and ".join(f"{count} in {backend}" for backend, count in counts)
    return _error(
        f"both backends of ebtables have rules in table nat ({found}); "
        "delete those of the backend that this node does not use",
        kind="wrong-backend",
    )


def no_such_rule(lines: Sequence[str], words: str = "") -> HostError:
    """The error for rules that were to be deleted and do not exist."""
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    told = f"table nat has no rule {lines[0]!r}{more}, so nothing was deleted; read the rules again"
    return _error(told, kind="no-such-rule", words=words, lines=lines)


def timed_out(what: str, seconds: float) -> HostError:
    """The error for a program that did not answer in time."""
    told = f"ebtables did not {what} within {seconds:g} s; check that `ebtables-save` answers, then try again"
    return _error(told, kind="timeout")


def refused(what: str, words: str) -> HostError:
    """The error for a failed ebtables command, by its text."""
    if any(phrase in words for phrase in _DENIED):
        return not_permitted(words)
    if _NOT_LOADED in words:
        return not_loaded(words)
    if _NO_NF_TABLES in words:
        return no_nf_tables(words)
    return _error(f"ebtables could not {what}", kind="refused", words=words or "ebtables printed no message")


def tidied(text: str) -> str:
    """The text of ebtables as one line, without its advice."""
    told = (line.strip() for line in text.splitlines())
    return " | ".join(dict.fromkeys(line for line in told if line and not line.startswith(_NOISE)))
