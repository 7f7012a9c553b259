"""Every error of hostrouting and the facts it carries. Not here: what follows from an error (`cli`, `tasks`).

    HostRoutingError
    ├── ConfigError          operator: the configuration cannot be used; reports all its faults at once
    ├── SnapshotError        input: the text is not a saved snapshot
    ├── ForeignPhases        installation: the imported `phases` belongs to another project
    ├── RouteConflict        host: a route that is not ours has the destination and metric of a wanted one
    ├── ApplyError           host: routes could not be applied; says what is true now
    ├── RouteOverlapError    host: the mode is STRICT, and the verdict is overlap or no-default-route
    ├── CleanupRefused       host: it is not safe to delete what azure-vnet left behind
    ├── CleanupIncomplete    host: not everything could be deleted, or restored; says what is true now
    ├── UndoFileError        input: the file is not an undo file
    ├── ApprovedPlanError    input: the file is not a plan of a clean-up, or was made on another host
    ├── FleetIncomplete      executor: it cannot go on, so not every snapshot was judged; says how many were
    ├── WorkerLost           executor: the process that judged a snapshot ended, twice
    ├── JudgingFailed        hostrouting: a snapshot could not be judged, because of a bug or for lack of memory
    ├── PreflightFailed      host: something on it would make a bootstrap fail, or strand the node later
    ├── NotReady             host: something that the routes need was missing at the deadline
    ├── HostBusy             host: another process holds the lock
    ├── FileError            host: a file cannot be read, written or removed
    ├── MetadataError        cloud: its instance metadata service gives no usable answer
    ├── ManagerError         host: the service manager does not answer
    │   └── UnitFailed           a unit that was started has failed; includes its log lines
    ├── NftablesError        host: nft, or the kernel, did not do what was asked
    │   ├── NftMissing           the program nft is not installed
    │   ├── NftTooOld            this nft does not support JSON
    │   ├── NftNotPermitted      this process is not permitted to read or change nftables
    │   ├── NftTimeout           nft did not answer in time
    │   ├── TableOwned           another process owns the table, and only the owner may change it
    │   ├── TableNotInForce      the loaded table is gone or different: another program changes it
    │   └── NftRefused           nft or the kernel refused; includes the original text
    ├── EbtablesError        host: ebtables, or the kernel, did not do what was asked
    │   ├── EbtablesMissing      the programs of ebtables are not installed
    │   ├── EbtablesNotPermitted this process is not permitted to read or change the rules
    │   ├── EbtablesTooOld       this ebtables cannot change rules in one batch
    │   ├── EbtablesNotLoaded    the kernel does not have the table nat, or nf_tables: rules cannot be read
    │   ├── EbtablesWrongBackend the rules are in the other backend, or in both
    │   ├── EbtablesTimeout      ebtables did not answer in time
    │   ├── BadRule              a rule to delete does not exist; nothing was changed
    │   │   └── AmbiguousRule        ebtables might delete a similar rule instead; nothing was changed
    │   └── EbtablesRefused      ebtables or the kernel refused; includes the original text
    └── BackendError         kernel: it, or the connection to it, did not do what was asked
        ├── NotPermitted         this process may not change routing (EPERM)
        ├── NetlinkUnavailable   there is no netlink here: a container, another operating system
        ├── BackendTimeout       no answer in time
        ├── Unsettled            the tables changed faster than they could be read
        └── RouteRefused         the kernel refused one route; says which and why
            ├── RouteExists          another route has the same destination and metric (EEXIST)
            ├── NoSuchRoute          the route to delete does not exist (ESRCH)
            ├── NoSuchDevice         the device does not exist, or no longer exists (ENODEV)
            ├── DeviceDown           the device is down (ENETDOWN)
            ├── GatewayNotOnLink     the gateway cannot be reached through the device (ENETUNREACH, EHOSTUNREACH)
            └── InvalidRoute         the kernel does not accept such a route (EINVAL and similar)

There is one root, which catches all of them. The word before the colon says where the fault is. `can_retry`, which
every error has, says whether the same call may succeed later although nobody does anything about the error.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from hostrouting.finding import Finding

__all__ = [
    "AmbiguousRule",
    "ApplyError",
    "ApprovedPlanError",
    "BackendError",
    "BackendTimeout",
    "BadRule",
    "CleanupIncomplete",
    "CleanupRefused",
    "ConfigError",
    "DeviceDown",
    "EbtablesError",
    "EbtablesMissing",
    "EbtablesNotLoaded",
    "EbtablesNotPermitted",
    "EbtablesRefused",
    "EbtablesTimeout",
    "EbtablesTooOld",
    "EbtablesWrongBackend",
    "Fault",
    "FileError",
    "FleetIncomplete",
    "ForeignPhases",
    "GatewayNotOnLink",
    "HostBusy",
    "HostRoutingError",
    "InvalidRoute",
    "JudgingFailed",
    "ManagerError",
    "MetadataError",
    "NetlinkUnavailable",
    "NftMissing",
    "NftNotPermitted",
    "NftRefused",
    "NftTimeout",
    "NftTooOld",
    "NftablesError",
    "NoSuchDevice",
    "NoSuchRoute",
    "NotPermitted",
    "NotReady",
    "PreflightFailed",
    "RouteConflict",
    "RouteExists",
    "RouteOverlapError",
    "RouteRefused",
    "SnapshotError",
    "TableNotInForce",
    "TableOwned",
    "UndoFileError",
    "UnitFailed",
    "Unsettled",
    "WorkerLost",
    "is_denied",
]


class HostRoutingError(Exception):
    """The root of all errors: catch it to catch everything that hostrouting raises on purpose."""

    can_retry: bool = False
    """Whether the same call may succeed later although nobody does anything about the error."""

    def __reduce__(self) -> tuple[Callable[..., HostRoutingError], tuple[object, ...], dict[str, object]]:
        """Pickle the type, the arguments and the attributes, without calling the constructor again."""
        return _restore, (type(self), self.args), dict(self.__dict__)

    def to_mapping(self) -> dict[str, object]:
        """The kind and the facts as plain values, for a report; `str()` puts them into a sentence.

        `canRetry` is `can_retry`, and `effects` says what was changed before the error.
        """
        facts = {name: _plain(value) for name, value in vars(self).items() if not name.startswith("_")}
        plain = {name: value for name, value in facts.items() if value is not _NOT_PLAIN and name != "can_retry"}
        return {"kind": type(self).__name__, "canRetry": self.can_retry, **plain}


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


@attrs.frozen
class Fault:
    """One fault of a configuration; `str()` is the sentence that an operator reads."""

    path: str
    """Where it is: `hostRouting.staticRoutes.routes[1].gateway`, or the document's name if all of it is at fault."""
    value: str
    """The value found there, as printable JSON, shortened; empty if the fault is that it is missing."""
    rule: str
    """What is wrong with it."""
    remedy: str = ""
    """What to do about it; empty if this is not known."""

    def __str__(self) -> str:
        found = f"{self.value} {self.rule}" if self.value else self.rule
        return f"{self.path}: {found}; {self.remedy}" if self.remedy else f"{self.path}: {found}"


class ConfigError(HostRoutingError, ValueError):
    """The configuration cannot be used. Lists every fault, found before the host was changed."""

    def __init__(self, faults: Iterable[Fault], source: str | None = None) -> None:
        """Keep the faults in the order of the document, and the name of the file if there is one."""
        self.faults = tuple(faults)
        self.source = source
        super().__init__(self.faults, source)

    def __str__(self) -> str:
        return self.told(len(self.faults))

    def told(self, most: int) -> str:
        """The message with at most this many of the faults, and the number of all of them."""
        if len(self.faults) == 1:
            (fault,) = self.faults
            return str(fault) if self.source in (None, fault.path) else f"{self.source}: {fault}"
        where = self.source or "the configuration"
        return "\n".join([f"{where} has {len(self.faults)} faults:", *(f"  {fault}" for fault in self.faults[:most])])


class ForeignPhases(HostRoutingError, ImportError):  # noqa: N818  the name says what was found
    """The package `phases` that hostrouting includes is missing, or another project's package hides it."""

    def __init__(self, found: str, remedy: str) -> None:
        """Name the file that was found instead (empty if there is none), and the remedy."""
        self.found = found
        where = f"found at {found} is not the one that hostrouting includes" if found else "of hostrouting is missing"
        super().__init__(f"the package 'phases' {where}; {remedy}")


class SnapshotError(HostRoutingError, ValueError):
    """The text is not a saved snapshot."""

    def __init__(self, *, path: str, problem: str) -> None:
        """Name the place in the text, and what is wrong there."""
        self.path = path
        self.problem = problem
        super().__init__(f"snapshot: {path + ': ' if path else ''}{problem}")


class RouteConflict(HostRoutingError):  # noqa: N818  reads as what is wrong
    """Routes cannot be added: routes that are not ours have the same destination and metric. Nothing was changed."""

    def __init__(self, conflicts: Iterable[str]) -> None:
        """Name each route, the other route with its destination and metric, and the remedy."""
        self.conflicts = tuple(conflicts)
        super().__init__(self.conflicts)

    def __str__(self) -> str:
        return "; ".join(self.conflicts)


class ApplyError(HostRoutingError):
    """Routes could not be applied. `reasons` says why, `after` what is true now.

    `refused` has the keys (as in `Route.key`) of the routes that are the reason; without them, the plan may succeed. It
    is empty if the reason is none of the routes, such as a kernel that does not answer.
    """

    can_retry = True

    def __init__(self, *reasons: str, after: str, refused: Collection[object] = ()) -> None:
        """Keep the reasons, what is true now, and the keys of the routes that are the reason."""
        self.reasons = reasons
        self.after = after
        self.refused = frozenset(refused)
        super().__init__(*reasons, after)

    def __str__(self) -> str:
        shown = "; ".join(self.reasons[:_SHOWN])
        more = f" (and {len(self.reasons) - _SHOWN} more)" if len(self.reasons) > _SHOWN else ""
        return f"the routes could not be applied: {shown}{more}; {self.after}"


_SHOWN = 10  # reasons in one message


class RouteOverlapError(HostRoutingError):
    """In mode STRICT: expected CIDRs do not leave by the expected devices, or there is no default route.

    `report` is the `Examination`, which has the verdict and the findings, and `check` the same as the JSON value
    `hostrouting/check/1`. A default route can come later, so only that error `can_retry`.
    """

    def __init__(self, message: str, *, report: object = None, check: dict[str, Any] | None = None) -> None:
        """Keep the message, which names the escapes and the repair, and what the check found."""
        self.report = report
        self.check = check
        self.can_retry = "no-default-route" in {getattr(report, "verdict", ""), (check or {}).get("verdict")}
        super().__init__(message)

    @property
    def repair(self) -> tuple[dict[str, Any], ...]:
        """The static routes that repair it, as far as routes can, as values for `staticRoutes.routes`."""
        return tuple((self.check or {}).get("repair", ()))


class PreflightFailed(HostRoutingError):  # noqa: N818  reads as what happened
    """The task `Preflight` found errors: a bootstrap would fail, or strand the node later. Nothing was changed.

    `findings` has all of them, and the warnings. If every error is about something that may come later, such as a
    default route, it `can_retry`.
    """

    def __init__(self, message: str, *, findings: tuple[Finding, ...] = ()) -> None:
        """Keep the message, which has the first errors, and the findings."""
        self.findings = findings
        errors = [finding for finding in findings if finding.severity == "error"]
        self.can_retry = bool(errors) and all(finding.can_retry for finding in errors)
        super().__init__(message)

    @property
    def repair(self) -> tuple[dict[str, Any], ...]:
        """The static routes that repair what escapes, as values for `staticRoutes.routes`; empty if nothing does."""
        return tuple(
            route for finding in self.findings if finding.name == "action" for route in finding.facts["routes"]
        )


class CleanupRefused(HostRoutingError):  # noqa: N818  reads as what happened
    """Nothing was deleted, because it is not safe on this host. `reasons` says why, one sentence each."""

    can_retry = False

    def __init__(self, reasons: Iterable[str]) -> None:
        """Keep the reasons, each with its remedy."""
        self.reasons = tuple(reasons)
        super().__init__(self.reasons)

    def __str__(self) -> str:
        return f"nothing was deleted: {'; '.join(self.reasons)}"


class CleanupIncomplete(HostRoutingError):  # noqa: N818  reads as what is wrong
    """Not everything could be deleted, or restored. `left` lists what is left, each with the reason."""

    can_retry = True

    def __init__(self, message: str, left: Iterable[str]) -> None:
        """Say what was done, and what is left."""
        self.left = tuple(left)
        shown = "; ".join(self.left[:_SHOWN])
        more = f" (and {len(self.left) - _SHOWN} more)" if len(self.left) > _SHOWN else ""
        super().__init__(f"{message}: {shown}{more}")


class UndoFileError(HostRoutingError, ValueError):
    """The file is not an undo file of a clean-up. Nothing was changed."""

    def __init__(self, path: str, problem: str) -> None:
        """Name the file, and what is wrong in it."""
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}; pass the unchanged file that the clean-up named")


class ApprovedPlanError(HostRoutingError, ValueError):
    """The file is not a plan of a clean-up, or was made elsewhere or before the last boot. Nothing was changed."""

    def __init__(self, source: str, problem: str) -> None:
        """Name the file, and what is wrong with it."""
        self.source, self.problem = source, problem
        remedy = "make a plan on this host: hostrouting clean azure-vnet --config FILE --json > PLAN"
        super().__init__(f"{source}: {problem}; {remedy}")


class FleetIncomplete(HostRoutingError):  # noqa: N818  reads as what is wrong
    """Not every snapshot was judged, because the executor cannot go on. `judged` and `total` are numbers of nodes."""

    can_retry = True

    def __init__(self, reason: str, *, judged: int, total: int) -> None:
        """Give the reason, and how many of the snapshots were judged before."""
        self.judged, self.total = judged, total
        super().__init__(f"{judged:,} of {total:,} snapshots were judged, and then {reason}")


class WorkerLost(HostRoutingError):  # noqa: N818  reads as what happened
    """The process that judged a snapshot ended before it had a result, and so did a second one."""

    can_retry = True


class JudgingFailed(HostRoutingError):  # noqa: N818  reads as what happened
    """A snapshot could not be judged, because of a bug in hostrouting or for lack of memory."""

    can_retry = False


class NotReady(HostRoutingError):  # noqa: N818  reads as what is wrong
    """Something that the routes need was missing at the deadline. Says what was seen last."""

    can_retry = True


class HostBusy(HostRoutingError):  # noqa: N818  reads as what is wrong
    """Another process held the lock on the host until the timeout. Names the process if it is known."""

    can_retry = True


class FileError(HostRoutingError):
    """A file cannot be read, written or removed."""

    can_retry = False

    def __init__(self, message: str, *, path: str, errno: int | None = None, reason: str = "") -> None:
        """Keep the path, the errno, and the part of the message that could be the same for another path."""
        self.path = path
        self.errno = errno
        self.reason = reason
        super().__init__(message)


class MetadataError(HostRoutingError):
    """The cloud's instance metadata service gives no usable answer, so a setting that depends on it is unknown."""

    can_retry = True

    def __init__(self, url: str, reason: str, *, can_retry: bool = True) -> None:
        """Name the URL, and why there is no answer."""
        self.url = url
        self.reason = reason
        self.can_retry = can_retry
        super().__init__(
            f"the instance metadata service at {url} {reason}; make sure that this host can reach it, or set "
            "probeRewrite.condition to always or local-ipv6, or probeRewrite.imds.onUnknown to apply or skip"
        )


class ManagerError(HostRoutingError):
    """The service manager does not answer, or its answer is not usable."""

    can_retry = True


class UnitFailed(ManagerError):  # noqa: N818  reads as what happened
    """A unit that was started has failed. `words` are the lines that it wrote to the journal."""

    def __init__(self, unit: str, *, result: str, status: int, words: Iterable[str]) -> None:
        """Name the unit, systemd's reason, the exit status and the unit's log lines."""
        self.unit, self.result, self.status, self.words = unit, result, status, tuple(words)
        said = " | ".join(self.words[-_SHOWN:])
        super().__init__(
            f"{unit} failed ({result}, exit status {status}){f': {said}' if said else ''}; see `journalctl -u {unit}`"
        )


class NftablesError(HostRoutingError):
    """The program nft, or the kernel, did not do what was asked. `nft` is the text that nft printed, if any."""

    can_retry = True

    def __init__(self, message: str, *, nft: str = "") -> None:
        """Keep the message, which says what could not be done and what to do about it, and append nft's text."""
        self.nft = nft
        super().__init__(f"{message} (nft: {nft})" if nft else message)


class NftMissing(NftablesError):  # noqa: N818  reads as what is wrong
    """The program nft is not installed."""

    can_retry = False


class NftTooOld(NftablesError):  # noqa: N818  reads as what is wrong
    """The program nft does not support JSON: it is too old, or was built without it."""

    can_retry = False


class NftNotPermitted(NftablesError):  # noqa: N818  reads as what is wrong
    """The process is not permitted to read or change nftables."""

    can_retry = False


class NftTimeout(NftablesError):  # noqa: N818  reads as what happened
    """The program nft did not answer in time. The change may or may not have been made."""

    can_retry = True


class TableOwned(NftablesError):  # noqa: N818  reads as what is wrong
    """An nftables table is not ours: another process owns it, or another program created it. Nothing was changed."""

    can_retry = False


class TableNotInForce(NftablesError):  # noqa: N818  reads as what is wrong
    """The nftables table was loaded but is not in force: another program changed or deleted it at the same time."""

    can_retry = True


class NftRefused(NftablesError):  # noqa: N818  reads as what happened
    """The program nft, or the kernel, refused. Nothing was changed."""

    can_retry = False


class EbtablesError(HostRoutingError):
    """A program of ebtables, or the kernel, did not do what was asked. `ebtables` is the text it printed, if any."""

    can_retry = True

    def __init__(self, message: str, *, ebtables: str = "") -> None:
        """Keep the message, which says what could not be done and what to do about it, and append ebtables' text."""
        self.ebtables = ebtables
        super().__init__(f"{message} (ebtables: {ebtables})" if ebtables else message)


class EbtablesMissing(EbtablesError):  # noqa: N818  reads as what is wrong
    """The programs of ebtables are not installed."""

    can_retry = False


class EbtablesNotPermitted(EbtablesError):  # noqa: N818  reads as what is wrong
    """The process is not permitted to read or change the rules."""

    can_retry = False


class EbtablesTooOld(EbtablesError):  # noqa: N818  reads as what is wrong
    """The program cannot delete or add rules in one batch (`--noflush`). Nothing was changed."""

    can_retry = False


class EbtablesNotLoaded(EbtablesError):  # noqa: N818  reads as what is wrong
    """The kernel does not have the table nat, or nf_tables, so hostrouting cannot tell whether there are rules."""

    can_retry = False


class EbtablesWrongBackend(EbtablesError):  # noqa: N818  reads as what is wrong
    """The rules are in the other backend, or in both of them. Nothing was changed."""

    can_retry = False


class EbtablesTimeout(EbtablesError):  # noqa: N818  reads as what happened
    """A program of ebtables did not answer in time. The change may or may not have been made."""

    can_retry = True


class BadRule(EbtablesError):  # noqa: N818  ebtables calls it so
    """Rules to delete do not exist. `lines` are these rules. Nothing was changed."""

    can_retry = True

    def __init__(self, lines: Iterable[str], *, ebtables: str = "") -> None:
        """Name the rules."""
        self.lines = tuple(lines)
        more = f" (and {len(self.lines) - 1} more)" if len(self.lines) > 1 else ""
        super().__init__(
            f"table nat has no rule {self.lines[0]!r}{more}, so nothing was deleted; read the rules again",
            ebtables=ebtables,
        )


class AmbiguousRule(BadRule):
    """Ebtables cannot distinguish rules to delete from other rules. `lines` are the rules to delete."""

    can_retry = False

    def __init__(self, lines: Iterable[str], *, twin: str) -> None:
        """Name the rules, and one that ebtables might delete instead of the first of them."""
        self.lines, self.twin = tuple(lines), twin
        EbtablesError.__init__(
            self,
            f"ebtables cannot distinguish the rule {self.lines[0]!r} from {twin!r} and might delete the latter, so "
            "nothing was deleted; delete the rule by its number: `ebtables -t nat -L --Ln`, then `ebtables -t nat -D "
            "CHAIN NUMBER`",
        )


class EbtablesRefused(EbtablesError):  # noqa: N818  reads as what happened
    """A program of ebtables, or the kernel, refused. Nothing was changed."""

    can_retry = False


class BackendError(HostRoutingError):
    """The kernel, or the connection to it, did not do what was asked.

    `kernel` is the kernel's own text if it gave one, `errno` its error number. `fib` has the tables that a check had
    read before, if there was a check.
    """

    can_retry = True
    fib: object = None

    def __init__(
        self, message: str, *, errno: int | None = None, kernel: str = "", can_retry: bool | None = None
    ) -> None:
        """Keep the message, which says what could not be done and what to do about it, and append the kernel's text.

        `can_retry` is given if it is not the same as for other errors of this kind.
        """
        self.errno = errno
        self.kernel = kernel
        if can_retry is not None:
            self.can_retry = can_retry
        super().__init__(f"{message} (kernel: {kernel})" if kernel else message)


class NotPermitted(BackendError):  # noqa: N818  reads as what is wrong
    """The process may not change routing."""

    can_retry = False


class NetlinkUnavailable(BackendError):  # noqa: N818  reads as what is wrong
    """There is no netlink here."""

    can_retry = False


class BackendTimeout(BackendError):  # noqa: N818  reads as what happened
    """No answer came in time."""

    can_retry = True


class Unsettled(BackendError):  # noqa: N818  reads as what is wrong
    """The tables changed faster than they could be read. `last` is the last snapshot, which may be inconsistent."""

    can_retry = True

    def __init__(self, message: str, *, last: object = None, errno: int | None = None, kernel: str = "") -> None:
        """Keep the last snapshot if there is one."""
        self.last = last
        super().__init__(message, errno=errno, kernel=kernel)


class RouteRefused(BackendError):  # noqa: N818  reads as what happened
    """The kernel refused one route. `route` is the route as `ip route` prints it."""

    can_retry = False

    def __init__(self, message: str, *, route: str, errno: int | None = None, kernel: str = "") -> None:
        """Keep the route."""
        self.route = route
        super().__init__(message, errno=errno, kernel=kernel)


class RouteExists(RouteRefused):
    """Another route has the same destination and metric."""


class NoSuchRoute(RouteRefused):
    """The route to delete does not exist."""


class NoSuchDevice(RouteRefused):
    """The device does not exist, or no longer exists."""

    can_retry = True


class DeviceDown(RouteRefused):
    """The device is down."""

    can_retry = True


class GatewayNotOnLink(RouteRefused):
    """The gateway cannot be reached through the device."""

    can_retry = True


class InvalidRoute(RouteRefused):
    """The kernel does not accept such a route."""


_DENIED = {errno.EACCES, errno.EPERM}


def is_denied(error: BaseException | None) -> bool:
    """Whether an error of any edge says that this process lacks a permission, or was caused by one that does."""
    if error is None:
        return False
    denied = isinstance(error, NotPermitted | NftNotPermitted | EbtablesNotPermitted) or (
        isinstance(error, FileError) and error.errno in _DENIED
    )
    return denied or is_denied(error.__cause__)
