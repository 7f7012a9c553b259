"""Every error of hostrouting and the facts it carries. Not here: what follows from an error (`cli`, `tasks`).

    HostRoutingError
    ├── ConfigError         operator: the configuration cannot be used; reports all its faults at once
    ├── InputError          operator: a file is not the snapshot that it should be
    ├── RouteConflict       host: a route that is not ours has the destination and metric of a wanted one
    ├── ApplyError          host: routes could not be applied; says what is true now
    ├── RouteOverlapError   host: the mode is STRICT, and the verdict is overlap or no-default-route
    ├── RequirementError    host: it lacks something that the configuration needs; nothing was changed
    ├── CleanupError        host: what azure-vnet left behind could not be deleted
    ├── NotReady            host: something that the routes need was missing at the deadline
    ├── HostBusy            host: another process holds the lock
    ├── FileError           host: a file cannot be read, written or removed
    ├── ManagerError        host: the service manager does not answer
    │   └── UnitFailed          a unit that was started has failed; includes its log lines
    ├── ProgramError        host: nft, ebtables or the kernel behind them did not do what was asked
    ├── FleetError          executor, or hostrouting: snapshots could not be judged
    └── BackendError        kernel: it, or the connection to it, did not do what was asked
        └── RouteRefused        the kernel refused one route; says which and why

The root catches all of them. The word before the colon says where the fault is. Every error has three attributes:
`kind` is more precise than the class, where that is needed; `can_retry` says whether the same call may succeed later
without any action; `findings` are what there is to tell an operator.

A kind means the same in every class. The place that meets a failure writes the sentence.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from hostrouting.finding import Finding, of_severity

__all__ = [
    "ApplyError",
    "BackendError",
    "BackendKind",
    "CleanupError",
    "CleanupKind",
    "ConfigError",
    "Fault",
    "FileError",
    "FleetError",
    "FleetKind",
    "HostBusy",
    "HostRoutingError",
    "InputError",
    "ManagerError",
    "NotReady",
    "ProgramError",
    "ProgramKind",
    "Refusal",
    "RequirementError",
    "RouteConflict",
    "RouteKind",
    "RouteOverlapError",
    "RouteRefused",
    "UnitFailed",
    "is_denied",
]

CleanupKind: TypeAlias = Literal["refused", "incomplete"]
FleetKind: TypeAlias = Literal["incomplete", "worker-lost", "judging-failed"]
Refusal: TypeAlias = Literal["refused", "owned", "not-in-force", "no-such-rule", "ambiguous-rule"]
"""The program did answer; with the other kinds of a ProgramError it did not."""
ProgramKind: TypeAlias = (
    Refusal | Literal["missing", "too-old", "not-permitted", "not-loaded", "wrong-backend", "timeout"]
)
BackendKind: TypeAlias = Literal["failed", "not-permitted", "unavailable", "unusable", "timeout", "unsettled"]
RouteKind: TypeAlias = Literal[
    "refused", "exists", "no-such-route", "no-such-device", "device-down", "gateway-not-on-link", "invalid"
]

_RETRIED = {"failed", "incomplete", "timeout", "unsettled", "worker-lost", "not-in-force", "no-such-rule"}
_RETRIED |= {"device-down", "gateway-not-on-link", "no-such-device"}
"""The kinds that may go away by themselves, so that the next attempt succeeds."""

_SHOWN = 10  # reasons in one message


class HostRoutingError(Exception):
    """The root of all errors: catch it to catch everything that hostrouting raises on purpose."""

    kind: str = ""
    """What was refused, or why; empty if the class says all."""
    can_retry: bool = False
    """Whether the same call may succeed later without any action."""
    _findings: tuple[Finding, ...] = ()
    _name: ClassVar[str] = ""  # of the finding that the error is by itself
    _target = ""  # of that finding

    def __init__(self, *args: object, kind: str = "", findings: Iterable[Finding] = ()) -> None:
        """Keep the message, the kind and the findings. The findings say whether to try again."""
        super().__init__(*args)
        if kind:
            self.kind, self.can_retry = kind, kind in _RETRIED
        if found := tuple(findings):
            errors = [*of_severity(found, "error")]
            self._findings, self.can_retry = found, bool(errors) and all(error.can_retry for error in errors)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings that led to the error, or the error itself as one finding; may be empty."""
        if not self._name:
            return self._findings
        return (Finding(self._name, "error", str(self), self._target, can_retry=self.can_retry),)

    @property
    def repair(self) -> tuple[dict[str, Any], ...]:
        """The static routes that repair what escapes, as values for `staticRoutes.routes`; empty if nothing does."""
        return tuple(route for found in self._findings if found.name == "action" for route in found.facts["routes"])

    def add(self, sentence: str) -> None:
        """Put a sentence about what is true now behind the message."""
        self.args = (f"{self}; {sentence}",)

    def __reduce__(self) -> tuple[Callable[..., HostRoutingError], tuple[object, ...], dict[str, object]]:
        """Pickle the type, the arguments and the attributes, without calling the constructor again."""
        return _restore, (type(self), self.args), dict(self.__dict__)

    def to_mapping(self) -> dict[str, object]:
        """The class, the kind and the facts as plain values, for a report; `str()` puts them into a sentence.

        `canRetry` is `can_retry`, and `effects` says what was changed before the error.
        """
        facts = {name: _plain(fact) for name, fact in vars(self).items() if name != "can_retry" and name[0] != "_"}
        plain = {name: fact for name, fact in facts.items() if fact is not _NOT_PLAIN}
        return {"error": type(self).__name__, "kind": self.kind, "canRetry": self.can_retry, **plain}


_NOT_PLAIN = object()


def _plain(fact: object) -> object:
    """An attribute of an error as a JSON value; tables and snapshots are left out."""
    if fact is None or isinstance(fact, str | int | dict):
        return fact
    if isinstance(fact, tuple) and all(isinstance(member, str | Fault) for member in fact):
        return [attrs.asdict(member) if isinstance(member, Fault) else member for member in fact]
    offer = getattr(fact, "to_mapping", None)
    return offer() if callable(offer) and not isinstance(fact, type) else _NOT_PLAIN


def _restore(kind: type[HostRoutingError], args: tuple[object, ...]) -> HostRoutingError:
    return kind.__new__(kind, *args)


def _first(reasons: tuple[str, ...]) -> str:
    """The first reasons, and the number of the others."""
    more = f" (and {len(reasons) - _SHOWN} more)" if len(reasons) > _SHOWN else ""
    return "; ".join(reasons[:_SHOWN]) + more


@attrs.frozen
class Fault:
    """One fault of a configuration; `str()` is the sentence that an operator reads."""

    path: str
    """Where it is: `hostRouting.staticRoutes.routes[1].gateway`; the document's name or empty for all of it."""
    value: str
    """The value found there, as printable JSON, shortened; empty if the fault is that it is missing."""
    rule: str
    """What is wrong with the value."""
    remedy: str = ""
    """What to do about it; empty if this is not known."""

    def __str__(self) -> str:
        words = " ".join(filter(None, (self.path and f"{self.path}:", self.value, self.rule)))
        return f"{words}; {self.remedy}" if self.remedy else words


class _FaultyInput(HostRoutingError, ValueError):  # noqa: N818  no class that anybody catches
    _what: ClassVar[str]

    def __init__(self, faults: Iterable[Fault], source: str | None = None) -> None:
        """Keep the faults in the order of the document, and the name of the file if there is one."""
        self.faults = tuple(faults)
        self.source = source
        super().__init__(self.faults, source)

    def __str__(self) -> str:
        return self.summary(len(self.faults))

    def summary(self, most: int) -> str:
        """The message with at most this many of the faults, and the number of all of them."""
        if len(self.faults) == 1:
            (fault,) = self.faults
            return str(fault) if self.source in (None, fault.path) else f"{self.source}: {fault}"
        where = self.source or self._what
        return "\n".join([f"{where} has {len(self.faults)} faults:", *(f"  {fault}" for fault in self.faults[:most])])


class ConfigError(_FaultyInput):
    """The configuration cannot be used. Lists every fault, found before the host was changed."""

    _what = "the configuration"


class InputError(_FaultyInput):
    """An input file is not a usable snapshot. Lists every fault."""

    kind: Literal["snapshot"] = "snapshot"
    _what = "the snapshot"


class RouteConflict(HostRoutingError):  # noqa: N818  reads as what is wrong
    """Routes cannot be added: routes that are not ours have the same destination and metric. Nothing was changed."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        """Keep a finding for each route: the route that holds its destination and metric, and the remedy."""
        found = tuple(findings)
        super().__init__("; ".join(map(str, found)), findings=found)


class ApplyError(HostRoutingError):
    """Routes could not be applied. `reasons` says why, `after` how the routes are now.

    `refused` has the keys (as in `Route.key`) of the routes that are the reason; without them, the plan may succeed. It
    is empty if the reason is not a route, such as a kernel that does not answer.
    """

    can_retry = True

    def __init__(self, *reasons: str, after: str, refused: Collection[object] = ()) -> None:
        """Keep the reasons, how the routes are now, and the keys of the routes that are the reason."""
        self.reasons, self.after, self.refused = reasons, after, frozenset(refused)
        super().__init__(f"the routes could not be applied: {_first(reasons)}; {after}")


class RouteOverlapError(HostRoutingError):
    """In mode STRICT: expected CIDRs do not leave by the expected devices, or there is no default route.

    `report` is the `Examination`, which has the verdict and the escapes, and `check` the same as the JSON value
    `hostrouting/check/3`. A default route can come later, so only that error `can_retry`.
    """

    def __init__(
        self,
        message: str,
        *,
        findings: Iterable[Finding] = (),
        report: object = None,
        check: dict[str, Any] | None = None,
    ) -> None:
        """Keep the message, which names the escapes and the repair, and what the check found."""
        super().__init__(message, findings=findings)
        self.report, self.check = report, check


class RequirementError(HostRoutingError):
    """The host lacks something that the configuration needs, such as a program. Nothing was changed."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        """Keep a finding for each thing that is missing."""
        lacking = tuple(findings)
        super().__init__("; ".join(map(str, lacking)), findings=lacking)


class CleanupError(HostRoutingError):
    """A clean-up was refused because it is not safe, or is incomplete. `reasons` says why, or what is left and why."""

    kind: CleanupKind
    _name = "azure-vnet"

    def __init__(self, message: str, reasons: Iterable[str], *, kind: CleanupKind) -> None:
        """Keep the reasons, and put them behind the message."""
        self.reasons = tuple(reasons)
        super().__init__(f"{message}: {_first(self.reasons)}", kind=kind)


class NotReady(HostRoutingError):  # noqa: N818  reads as what is wrong
    """Something that the routes need was missing at the deadline. Says what was seen last."""

    can_retry = True


class HostBusy(HostRoutingError):  # noqa: N818  reads as what is wrong
    """Another process held the lock on the host until the timeout. Names the process if it is known."""

    can_retry = True
    _name = "lock"


class FileError(HostRoutingError):
    """A file cannot be read, written or removed."""

    _name = "file"

    def __init__(self, message: str, *, path: str, errno: int | None = None, reason: str = "") -> None:
        """Keep the path, the errno, and the message without the path, which other paths may share."""
        self.path = self._target = path
        self.errno, self.reason = errno, reason
        super().__init__(message)


class ManagerError(HostRoutingError):
    """The service manager does not answer, or its answer is not usable."""

    can_retry = True
    _name = _target = "systemd"


class UnitFailed(ManagerError):  # noqa: N818  reads as what happened
    """A unit that was started has failed. `words` are the lines that it wrote to the journal."""

    def __init__(self, unit: str, *, result: str, status: int, words: Iterable[str]) -> None:
        """Name the unit, systemd's reason, the exit status and the unit's log lines."""
        self.unit, self.result, self.status, self.words = unit, result, status, tuple(words)
        said = " | ".join(self.words[-_SHOWN:])
        super().__init__(
            f"{unit} failed ({result}, exit status {status}){f': {said}' if said else ''}; see `journalctl -u {unit}`"
        )


class ProgramError(HostRoutingError):
    """The program `program` (nft or ebtables), or the kernel, did not do what was asked. `words` is what it printed.

    After a timeout, the change may or may not have been made. If another program has changed the table since, the kind
    is not-in-force. After any other error, nothing was changed. `lines` are the rules that are the reason.
    """

    kind: ProgramKind

    def __init__(
        self, message: str, *, program: str, kind: ProgramKind, words: str = "", lines: Iterable[str] = ()
    ) -> None:
        """Keep the message, which says what could not be done and what to do about it, and append the words."""
        self.program, self.words, self.lines = program, words, tuple(lines)
        super().__init__(f"{message} ({program}: {words})" if words else message, kind=kind)


class FleetError(HostRoutingError):
    """Not all snapshots of a fleet were judged (kind incomplete), or one could not be judged (the other kinds)."""

    kind: FleetKind


class BackendError(HostRoutingError):
    """The kernel, or the connection to it, did not do what was asked.

    `kernel` is the kernel's own text if it gave one, `errno` its error number. `last` is the last snapshot if the
    tables did not settle; it may be inconsistent. `fib` has the tables that a check had read before, if there was a
    check.
    """

    kind: BackendKind | RouteKind
    fib: object = None
    _name = "kernel"

    def __init__(
        self,
        message: str,
        *,
        kind: BackendKind | RouteKind = "failed",
        errno: int | None = None,
        kernel: str = "",
        last: object = None,
    ) -> None:
        """Keep the message, which says what could not be done and what to do about it, and append the kernel's text."""
        self.errno, self.kernel, self.last = errno, kernel, last
        super().__init__(f"{message} (kernel: {kernel})" if kernel else message, kind=kind)


class RouteRefused(BackendError):  # noqa: N818  reads as what happened
    """The kernel refused one route. `route` is the route as `ip route` prints it."""

    kind: RouteKind

    def __init__(
        self, message: str, *, route: str, kind: RouteKind = "refused", errno: int | None = None, kernel: str = ""
    ) -> None:
        """Keep the route."""
        self.route = route
        super().__init__(message, kind=kind, errno=errno, kernel=kernel)


_DENIED = {errno.EACCES, errno.EPERM}


def is_denied(error: BaseException | None) -> bool:
    """Whether this error, or one that caused it, says that this process lacks a permission."""
    if error is None:
        return False
    denied = getattr(error, "kind", "") == "not-permitted" or (isinstance(error, FileError) and error.errno in _DENIED)
    return denied or is_denied(error.__cause__)
