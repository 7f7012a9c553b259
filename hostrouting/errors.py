"""Every error of hostrouting and the facts it carries, and nothing else.

    HostRoutingError
    ├── ConfigError          the operator's: the configuration cannot be used; all its faults at once
    ├── SnapshotError        the giver's: the text given as a saved snapshot is not one
    ├── ForeignPhases        the installation's: the `phases` that was imported is another project's
    ├── RouteConflict        the host's: a key that is wanted is held by a route that is not ours
    ├── ApplyError           the host's: routes could not be applied; says what is true now
    ├── RouteOverlapError    the host's: expected CIDRs do not leave as expected, and the mode is STRICT
    ├── CleanupRefused       the host's: something on it speaks against deleting what azure-vnet left behind
    ├── CleanupIncomplete    the host's: not everything could be deleted, or brought back; says what is true now
    ├── UndoFileError        the giver's: the text given as an undo file is not one
    ├── ApprovedPlanError    the giver's: what was given as the approved plan is not one, or is about another host
    ├── NotReady             the host's: what the routes need was not there by the deadline
    ├── HostBusy             the host's: another run, or another process, does not let go of the lock
    ├── FileError            the host's: a file cannot be read, written or removed
    ├── MetadataError        the cloud's: its instance metadata service gives no usable answer
    ├── ManagerError         the host's: the service manager does not answer
    │   └── UnitFailed           a unit that was started has failed; has its own words
    ├── NftablesError        the host's: nft, or the kernel behind it, did not do what was asked
    │   ├── NftMissing           there is no program nft
    │   ├── NftTooOld            this nft does not speak JSON
    │   ├── NftNotPermitted      this process may neither read nftables nor change it
    │   ├── NftTimeout           nft did not answer in time
    │   ├── TableOwned           another process owns the table, and it alone may change it
    │   ├── TableNotInForce      what was loaded is not there any more: another program changes the table
    │   └── NftRefused           nft or the kernel refused; has their own words
    ├── EbtablesError        the host's: ebtables, or the kernel behind it, did not do what was asked
    │   ├── EbtablesMissing      the programs of ebtables are not there
    │   ├── EbtablesNotPermitted this process may neither read the rules nor change them
    │   ├── EbtablesTooOld       this ebtables cannot change rules in one batch
    │   ├── EbtablesNotLoaded    the kernel does not have the table nat, or nf_tables: rules cannot be read
    │   ├── EbtablesWrongBackend the rules are in the other backend, or in both
    │   ├── EbtablesTimeout      ebtables did not answer in time
    │   ├── BadRule              a rule to delete is not there; nothing was changed
    │   │   └── AmbiguousRule        ebtables would take another rule for it; nothing was changed
    │   └── EbtablesRefused      ebtables or the kernel refused; has their own words
    └── BackendError         the kernel's: it, or the way to it, did not do what was asked
        ├── NotPermitted         this process may not change routing (EPERM)
        ├── NetlinkUnavailable   there is no netlink here: a container, another system
        ├── BackendTimeout       no answer in time
        ├── Unsettled            the tables changed faster than they could be read
        └── RouteRefused         the kernel refused one route; says which and why
            ├── RouteExists          another route holds the key (EEXIST)
            ├── NoSuchRoute          there is no such route to delete (ESRCH)
            ├── NoSuchDevice         the device is not there, or no more (ENODEV)
            ├── DeviceDown           the device is down (ENETDOWN)
            ├── GatewayNotOnLink     the gateway cannot be reached through the device (ENETUNREACH, EHOSTUNREACH)
            └── InvalidRoute         the kernel will not have such a route at all (EINVAL and its like)

One root, so that a caller can catch all of it; each subclass says whose fault it is. `can_retry` says whether the same
call may go well later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
    "ForeignPhases",
    "GatewayNotOnLink",
    "HostBusy",
    "HostRoutingError",
    "InvalidRoute",
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
]


class HostRoutingError(Exception):
    """The root: catch this to catch everything that hostrouting raises on purpose."""

    def __reduce__(self) -> tuple[Callable[..., HostRoutingError], tuple[object, ...], dict[str, object]]:
        """Cross to another process as what it is: its words and facts are taken along, not made anew."""
        return _restore, (type(self), self.args), dict(self.__dict__)

    def to_mapping(self) -> dict[str, object]:
        """Its kind and its facts as plain values, for a report; `str()` has them in a sentence.

        `canRetry` says whether the same call may go well later, and `effects` what was changed before it was raised.
        """
        facts = {name: _plain(value) for name, value in vars(self).items() if not name.startswith("_")}
        plain = {name: value for name, value in facts.items() if value is not _NOT_PLAIN and name != "can_retry"}
        return {"kind": type(self).__name__, "canRetry": getattr(self, "can_retry", None), **plain}


_NOT_PLAIN = object()


def _plain(fact: object) -> object:
    """What an error carries, as JSON can hold it; tables and snapshots stay with the error."""
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
    """One thing wrong with a configuration; `str()` is the sentence that an operator reads."""

    path: str
    """Where: `hostRouting.staticRoutes.routes[1].gateway`, or the document's name when it is all of it."""
    value: str
    """What was found there, as printable JSON and shortened; empty where the absence is the fault."""
    rule: str
    """What is wrong with it."""
    remedy: str = ""
    """What to do about it; empty where nobody can know."""

    def __str__(self) -> str:
        found = f"{self.value} {self.rule}" if self.value else self.rule
        return f"{self.path}: {found}; {self.remedy}" if self.remedy else f"{self.path}: {found}"


class ConfigError(HostRoutingError, ValueError):
    """The configuration cannot be used: every fault in it, found before anything touched the host."""

    def __init__(self, faults: Iterable[Fault], source: str | None = None) -> None:
        """Carry the faults in the order of the document, and the file they are in where there is one."""
        self.faults = tuple(faults)
        self.source = source
        super().__init__(self.faults, source)

    def __str__(self) -> str:
        return self.told(len(self.faults))

    def told(self, most: int) -> str:
        """The message with so many of the faults at most; how many there are is in it."""
        if len(self.faults) == 1:
            (fault,) = self.faults
            return str(fault) if self.source in (None, fault.path) else f"{self.source}: {fault}"
        where = self.source or "the configuration"
        return "\n".join([f"{where} has {len(self.faults)} faults:", *(f"  {fault}" for fault in self.faults[:most])])


class ForeignPhases(HostRoutingError, ImportError):  # noqa: N818  the name says what was found
    """Another project's `phases` is in the place of the one that hostrouting brings, or none is there."""

    def __init__(self, found: str, remedy: str) -> None:
        """Name the file that was found in our place, or none, and what mends it."""
        self.found = found
        where = f"found at {found} is not the one that hostrouting brings" if found else "of hostrouting is missing"
        super().__init__(f"the package 'phases' {where}; {remedy}")


class SnapshotError(HostRoutingError, ValueError):
    """Text that was given as a saved snapshot is not one; the giver can mend it."""

    def __init__(self, *, path: str, problem: str) -> None:
        """Keep the place and what is wrong there."""
        self.path = path
        self.problem = problem
        super().__init__(f"snapshot: {path + ': ' if path else ''}{problem}")


class RouteConflict(HostRoutingError):  # noqa: N818  reads as what is wrong
    """Routes cannot be had, for somebody else's hold their keys. Nothing was changed."""

    can_retry = False

    def __init__(self, conflicts: Iterable[str]) -> None:
        """Name each route, its holder and the way out."""
        self.conflicts = tuple(conflicts)
        super().__init__(self.conflicts)

    def __str__(self) -> str:
        return "; ".join(self.conflicts)


class ApplyError(HostRoutingError):
    """Routes could not be applied. `reasons` says why, `after` what is true now."""

    can_retry = True

    def __init__(self, *reasons: str, after: str) -> None:
        """Say why, and what is true now."""
        self.reasons = reasons
        self.after = after
        super().__init__(*reasons, after)

    def __str__(self) -> str:
        shown = "; ".join(self.reasons[:_SHOWN])
        more = f" (and {len(self.reasons) - _SHOWN} more)" if len(self.reasons) > _SHOWN else ""
        return f"the routes could not be applied: {shown}{more}; {self.after}"


_SHOWN = 10  # reasons in one message


class RouteOverlapError(HostRoutingError):
    """Expected CIDRs do not leave by the expected devices, and the mode is STRICT.

    `report` has all of it, and `check` the same as the JSON value `hostrouting/check/1`.
    """

    can_retry = False

    def __init__(self, message: str, *, report: object = None, check: dict[str, Any] | None = None) -> None:
        """Say what escapes and what repairs it."""
        self.report = report
        self.check = check
        super().__init__(message)


class CleanupRefused(HostRoutingError):  # noqa: N818  reads as what happened
    """Nothing was deleted, for something about the host speaks against it. `reasons` are those, each a sentence."""

    can_retry = False

    def __init__(self, reasons: Iterable[str]) -> None:
        """Say why, and what to do about it."""
        self.reasons = tuple(reasons)
        super().__init__(self.reasons)

    def __str__(self) -> str:
        return f"nothing was deleted: {'; '.join(self.reasons)}"


class CleanupIncomplete(HostRoutingError):  # noqa: N818  reads as what is wrong
    """Not everything could be deleted, or brought back. `left` is what that is about, each with the reason."""

    can_retry = True

    def __init__(self, message: str, left: Iterable[str]) -> None:
        """Say what was done all the same, and what is left."""
        self.left = tuple(left)
        shown = "; ".join(self.left[:_SHOWN])
        more = f" (and {len(self.left) - _SHOWN} more)" if len(self.left) > _SHOWN else ""
        super().__init__(f"{message}: {shown}{more}")


class UndoFileError(HostRoutingError, ValueError):
    """A file that was given as one of what a clean-up has deleted is not one. Nothing was changed."""

    def __init__(self, path: str, problem: str) -> None:
        """Name the file, and what is wrong in it."""
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}; give the file that the clean-up named, as it was written")


class ApprovedPlanError(HostRoutingError, ValueError):
    """What was given as an approved plan is not one, or is about another host. Nothing was changed."""

    def __init__(self, source: str, problem: str) -> None:
        """Name where it came from, and what is wrong with it."""
        self.source, self.problem = source, problem
        remedy = "make one here: hostrouting clean azure-vnet --config FILE --json > PLAN"
        super().__init__(f"{source}: {problem}; {remedy}")


class NotReady(HostRoutingError):  # noqa: N818  reads as what is wrong
    """What the routes need was not there by the deadline; says what was seen last."""

    can_retry = True


class HostBusy(HostRoutingError):  # noqa: N818  reads as what is wrong
    """Another process holds the lock on the host for longer than is waited; says which, where that is known."""

    can_retry = True


class FileError(HostRoutingError):
    """A file cannot be read, written or removed."""

    can_retry = False

    def __init__(self, message: str, *, path: str, errno: int | None = None) -> None:
        """Name the path besides."""
        self.path = path
        self.errno = errno
        super().__init__(message)


class MetadataError(HostRoutingError):
    """The cloud's instance metadata service gives no usable answer, so that what it was asked stays unknown."""

    def __init__(self, url: str, reason: str, *, can_retry: bool = True) -> None:
        """Name what was asked, and why there is no answer."""
        self.url = url
        self.reason = reason
        self.can_retry = can_retry
        super().__init__(
            f"the instance metadata service at {url} {reason}; see that this host can reach it, or set "
            "probeRewrite.condition to another than imds, or probeRewrite.imds.onUnknown to apply or skip"
        )


class ManagerError(HostRoutingError):
    """The service manager does not answer, or not with what was asked."""

    can_retry = True


class UnitFailed(ManagerError):  # noqa: N818  reads as what happened
    """A unit that was started has failed. `words` are the lines that it wrote to the journal."""

    def __init__(self, unit: str, *, result: str, status: int, words: Iterable[str]) -> None:
        """Name the unit, the manager's reason, its exit status and its own words."""
        self.unit, self.result, self.status, self.words = unit, result, status, tuple(words)
        said = " | ".join(self.words[-_SHOWN:])
        super().__init__(
            f"{unit} failed ({result}, exit status {status}){f': {said}' if said else ''}; see `journalctl -u {unit}`"
        )


class NftablesError(HostRoutingError):
    """The program nft, or the kernel behind it, did not do what was asked. `nft` is its own text, where it gave one."""

    can_retry = False

    def __init__(self, message: str, *, nft: str = "") -> None:
        """Say in an operator's words what could not be done, and what to do about it."""
        self.nft = nft
        super().__init__(f"{message} (nft: {nft})" if nft else message)


class NftMissing(NftablesError):  # noqa: N818  reads as what is wrong
    """There is no program nft."""


class NftTooOld(NftablesError):  # noqa: N818  reads as what is wrong
    """The program nft does not speak JSON: it is older than that, or was built without it."""


class NftNotPermitted(NftablesError):  # noqa: N818  reads as what is wrong
    """The process may neither read nftables nor change it."""


class NftTimeout(NftablesError):  # noqa: N818  reads as what happened
    """No answer came in time. A change may have been made or not."""

    can_retry = True


class TableOwned(NftablesError):  # noqa: N818  reads as what is wrong
    """A table is not ours: another process owns it or somebody else has made it. Nothing was changed."""


class TableNotInForce(NftablesError):  # noqa: N818  reads as what is wrong
    """The table was loaded and is not in force: another program changes it, or deletes it, at the same time."""

    can_retry = True


class NftRefused(NftablesError):  # noqa: N818  reads as what happened
    """The program nft, or the kernel, refused. Nothing was changed."""


class EbtablesError(HostRoutingError):
    """A program of ebtables, or the kernel behind it, did not do what was asked.

    `ebtables` is its own text, where it gave one.
    """

    can_retry = False

    def __init__(self, message: str, *, ebtables: str = "") -> None:
        """Say in an operator's words what could not be done, and what to do about it."""
        self.ebtables = ebtables
        super().__init__(f"{message} (ebtables: {ebtables})" if ebtables else message)


class EbtablesMissing(EbtablesError):  # noqa: N818  reads as what is wrong
    """The programs of ebtables are not there."""


class EbtablesNotPermitted(EbtablesError):  # noqa: N818  reads as what is wrong
    """The process may neither read the rules nor change them."""


class EbtablesTooOld(EbtablesError):  # noqa: N818  reads as what is wrong
    """The program cannot delete or add rules in one batch (`--noflush`). Nothing was changed."""


class EbtablesNotLoaded(EbtablesError):  # noqa: N818  reads as what is wrong
    """The kernel does not have what the backend keeps its rules in: whether there are any cannot be read."""


class EbtablesWrongBackend(EbtablesError):  # noqa: N818  reads as what is wrong
    """The rules are in the other backend, or in both of them. Nothing was changed."""


class EbtablesTimeout(EbtablesError):  # noqa: N818  reads as what happened
    """No answer came in time. A change may have been made or not."""

    can_retry = True


class BadRule(EbtablesError):  # noqa: N818  ebtables calls it so
    """Rules that were to be deleted are not there. `lines` are those. Nothing was changed."""

    can_retry = True

    def __init__(self, lines: Iterable[str], *, ebtables: str = "") -> None:
        """Name the rules."""
        self.lines = tuple(lines)
        more = f" (and {len(self.lines) - 1} more)" if len(self.lines) > 1 else ""
        super().__init__(
            f"the table nat has no rule {self.lines[0]!r}{more}, so nothing was deleted; read the rules again",
            ebtables=ebtables,
        )


class AmbiguousRule(BadRule):
    """There are rules that ebtables does not tell from those that were to be deleted. `lines` are the latter."""

    can_retry = False

    def __init__(self, lines: Iterable[str], *, twin: str) -> None:
        """Name the rules, and one that the first of them might be taken for."""
        self.lines, self.twin = tuple(lines), twin
        EbtablesError.__init__(
            self,
            f"ebtables does not tell the rule {self.lines[0]!r} from {twin!r} and might delete the latter, so nothing "
            "was deleted; delete it by its number: `ebtables -t nat -L --Ln`, then `ebtables -t nat -D CHAIN NUMBER`",
        )


class EbtablesRefused(EbtablesError):  # noqa: N818  reads as what happened
    """A program of ebtables, or the kernel, refused. Nothing was changed."""


class BackendError(HostRoutingError):
    """The kernel, or the way to it, did not do what was asked.

    `kernel` is the kernel's own text where it gave one, `errno` its number. `fib` are the tables that a check had read
    before, where there was one.
    """

    can_retry = False
    fib: object = None

    def __init__(self, message: str, *, errno: int | None = None, kernel: str = "") -> None:
        """Say in an operator's words what could not be done, and what to do about it."""
        self.errno = errno
        self.kernel = kernel
        super().__init__(f"{message} (kernel: {kernel})" if kernel else message)


class NotPermitted(BackendError):  # noqa: N818  reads as what is wrong
    """The process may not change routing."""


class NetlinkUnavailable(BackendError):  # noqa: N818  reads as what is wrong
    """There is no netlink here."""


class BackendTimeout(BackendError):  # noqa: N818  reads as what happened
    """No answer came in time."""

    can_retry = True


class Unsettled(BackendError):  # noqa: N818  reads as what is wrong
    """The tables changed faster than they could be read. `last` is the last reading, of more than one moment."""

    can_retry = True

    def __init__(self, message: str, *, last: object = None, errno: int | None = None, kernel: str = "") -> None:
        """Keep the last reading besides, where there is one."""
        self.last = last
        super().__init__(message, errno=errno, kernel=kernel)


class RouteRefused(BackendError):  # noqa: N818  reads as what happened
    """The kernel refused one route. `route` is the route, in the words of `ip route`."""

    def __init__(self, message: str, *, route: str, errno: int | None = None, kernel: str = "") -> None:
        """Name the route besides."""
        self.route = route
        super().__init__(message, errno=errno, kernel=kernel)


class RouteExists(RouteRefused):
    """Another route holds the key."""


class NoSuchRoute(RouteRefused):
    """There is no such route to delete."""


class NoSuchDevice(RouteRefused):
    """The device is not there, or no more."""

    can_retry = True


class DeviceDown(RouteRefused):
    """The device is down."""

    can_retry = True


class GatewayNotOnLink(RouteRefused):
    """The gateway cannot be reached through the device."""

    can_retry = True


class InvalidRoute(RouteRefused):
    """The kernel will not have such a route at all."""
