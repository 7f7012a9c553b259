"""Every error of hostrouting and the facts it carries.

    HostRoutingError
    ├── ConfigError         input: a configuration or a snapshot cannot be used; has all its faults
    ├── RequirementError    host: what the configuration needs is missing, or a gate is cancelled
    ├── RouteConflict       host: a route that is not ours has the key of a wanted one
    ├── ApplyError          host: routes could not be applied; says what is true now
    ├── RouteOverlapError   host: the mode is STRICT, and the verdict holds units back
    ├── NotReady            host: something was missing at the deadline, or the lock is held
    ├── HostError           host: a file, systemd, nft or ebtables did not do what was asked
    └── BackendError        kernel: routes could not be read or changed

The word before the colon says where the fault is.
"""

import errno
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeAlias

from hostrouting.codes import BAD_INPUT, CANNOT_DECIDE, CODE_OF_VERDICT, PROBLEM
from hostrouting.finding import Finding, Name, Remedy
from hostrouting.text import first_few

HostPart: TypeAlias = Literal["file", "systemd", "nft", "ebtables", "azure-vnet"]

_KINDS_TO_RETRY = {
    "failed",
    "incomplete",
    "timeout",
    "unsettled",
    "no-answer",
    "unit-failed",
    "device-down",
    "gateway-not-on-link",
    "no-such-device",
}
"""The kinds that may go away by themselves, so that the next attempt succeeds."""


class HostRoutingError(Exception):
    """The root of all errors: catch it to catch everything that hostrouting raises on purpose.

    `kind` is more precise than the class, where that is needed. `can_retry` says whether the same
    call may succeed later without any action. `findings` are messages for an operator: what led to
    the error, or the error itself. A ConfigError has faults instead.
    """

    _code = PROBLEM

    def __init__(
        self, message: str = "", *, kind: str = "", findings: Iterable[Finding] = ()
    ) -> None:
        # `kind` is more precise than the class, such as "timeout"; empty if the class says enough.
        # `findings` say to an operator what led to the error. Without a message, they are the
        # message.
        self.kind = kind
        self.findings = tuple(findings)
        sentences = [str(finding) for finding in self.findings]
        super().__init__(message or "\n".join(first_few(sentences)))
        errors = [finding for finding in self.findings if finding.severity == "error"]
        self.can_retry = kind in _KINDS_TO_RETRY
        if errors:  # these decide instead: each has to be one that may go away by itself
            self.can_retry = all(error.can_retry for error in errors)

    @property
    def has_no_answer(self) -> bool:
        """Whether a request got no answer. Nobody knows then whether it was carried out."""
        return self.kind in {"no-answer", "timeout"}

    @property
    def exit_code(self) -> int:
        """The exit code of a run that fails with this error. It is CANNOT_DECIDE if a permission is
        missing or a request got no answer, because nobody knows then how the host is. Otherwise it
        is the code of the class.
        """
        if is_denied(self) or self.has_no_answer:
            return CANNOT_DECIDE
        return self._code

    def _make_finding(self, name: Name, target: str = "") -> None:
        """Replace the findings by one with this name, whose sentence is the message."""
        self.findings = (Finding(name, "error", str(self), target, can_retry=self.can_retry),)

    def to_mapping(self) -> dict[str, object]:
        """The error as a JSON value, for the report of a run: its class, its kind, and its public
        attributes, such as `effects`, which says what was changed. `notes` has what was added with
        `add_note`.
        """
        mapping: dict[str, object] = {
            "error": type(self).__name__,
            "kind": self.kind,
            "canRetry": self.can_retry,
            "exitCode": self.exit_code,
        }
        for name, value in vars(self).items():
            if name == "__notes__":  # here Python keeps the notes
                mapping["notes"] = value
            # `can_retry` is there already, `findings` follow below, and a report is not JSON.
            elif name not in {"can_retry", "findings", "report"}:
                mapping[name] = value.to_mapping() if hasattr(value, "to_mapping") else value
        mapping["findings"] = [finding.to_mapping() for finding in self.findings]
        return mapping


class Fault(NamedTuple):
    """A fault of an input; `str()` is the sentence that an operator reads."""

    path: str
    """Where it is: `hostRouting.staticRoutes.routes[1].gateway`; empty for the whole document."""
    value: str
    """The value at this path, as printable JSON, shortened; empty if the value is missing."""
    rule: str
    remedy: str = ""
    """What to do about it; empty if this is not known."""

    def __str__(self) -> str:
        # "dev is not there", and not "dev: is not there": the path is the subject of the rule.
        is_predicate = not self.value and self.rule.startswith("is ")
        path = self.path
        if path and not is_predicate:
            path += ":"
        words = " ".join(filter(None, (path, self.value, self.rule)))
        return f"{words}; {self.remedy}" if self.remedy else words


class ConfigError(HostRoutingError, ValueError):
    """A configuration or a saved snapshot cannot be used; `faults` lists every reason. Nothing was
    changed.

    With a `remedy` for all of them, the error is also a finding. A `headline` replaces the first
    line.
    """

    _code = BAD_INPUT

    def __init__(
        self,
        faults: Iterable[Fault],
        source: str = "",
        *,
        headline: str = "",
        remedy: Remedy | None = None,
    ) -> None:
        # `source` is the file with the faults, in words; empty if there is none. `headline` stands
        # in place of the usual first line. With a `remedy` for all faults, the error also has a
        # finding, with this remedy.
        self.faults = tuple(faults)
        self.source = source
        first, *others = self._describe_faults(headline)
        lines = [first, *(f"  {line}" for line in others)]
        findings: list[Finding] = []
        if remedy is not None:
            sentence = f"{first} {'; '.join(first_few(others, 3))}".strip()
            findings.append(Finding("file", "error", sentence, source, remedy))
            lines += [f"  {way.line}" for way in remedy.ways()]
        super().__init__("\n".join(lines), findings=findings)

    def _describe_faults(self, headline: str) -> list[str]:
        """The lines of the message: one line for a single fault; for several faults, a headline and
        a line for each. `headline` takes the place of the usual one ("FILE has 2 faults:").
        """
        where = self.source or "the configuration"
        if headline or len(self.faults) > 1:
            return [
                headline or f"{where} has {len(self.faults)} faults:",
                *map(Fault.__str__, self.faults),
            ]
        [fault] = self.faults
        if fault.path and not self.source:
            return [str(fault)]  # the path says where
        # With neither a path nor a value, the fault is about the whole file, and continues the
        # sentence: "new.json is empty".
        colon = ":" if fault.path or fault.value else ""
        return [f"{where}{colon} {fault}"]

    def to_mapping(self) -> dict[str, object]:
        """See HostRoutingError."""
        return {**super().to_mapping(), "faults": [fault._asdict() for fault in self.faults]}


class RequirementError(HostRoutingError):
    """The host lacks what the configuration needs, such as a program, and nothing was changed. Or
    another program cancels a gate in STRICT, after the files were written. A finding for each.
    """


class RouteConflict(HostRoutingError):  # noqa: N818  reads as what is wrong
    """Routes cannot be added: other programs' routes, or next hops, have the same destination and
    metric. The routes are as they were.
    """


class ApplyError(HostRoutingError):
    """Routes could not be applied. `reasons` says why, `after` how the routes are now."""

    def __init__(self, *reasons: str, after: str, can_retry: bool) -> None:
        self.reasons = reasons
        self.after = after
        sentences = "; ".join((*first_few(reasons), after))  # why, and how the routes are now
        super().__init__(f"the routes could not be applied: {sentences}")
        self.can_retry = can_retry
        self._make_finding("requirement")  # the host refuses what a run requires


class RouteOverlapError(HostRoutingError):
    """The check of a run in STRICT has a verdict that holds units back: an expected CIDR escapes,
    there is no default route, or the verdict is undecided and `"undecided": "refuse"` is set.

    `report` is the CheckReport, and `check` the same as the JSON value `hostrouting/check/1`. A
    default route may come later, so `can_retry` is true if nothing else is wrong.
    """

    def __init__(
        self,
        message: str,
        *,
        findings: Iterable[Finding] = (),
        report: Any = None,  # a CheckReport
        check: Any = None,  # the JSON value `hostrouting/check/1` of the report
    ) -> None:
        super().__init__(message, findings=findings)
        self.report = report
        self.check = check

    @property
    def exit_code(self) -> int:
        """The exit code of a run that fails with this error. It is CANNOT_DECIDE if the verdict is
        undecided, or a default route is missing. Otherwise an address escapes for certain: PROBLEM.
        """
        return CODE_OF_VERDICT.get(getattr(self.report, "verdict", ""), PROBLEM)


class NotReady(HostRoutingError):  # noqa: N818  reads as what is wrong
    """Something was missing at the deadline, and the message says what was seen last; or the lock
    was held (busy).
    """

    _code = CANNOT_DECIDE

    def __init__(
        self, message: str, *, kind: Literal["", "busy"] = "", findings: Iterable[Finding] = ()
    ) -> None:
        super().__init__(message, kind=kind, findings=findings)
        self.can_retry = True
        # "busy": another process has held the lock of the host. Without a kind, the findings that
        # the caller gives say what was missing.
        if kind:
            self._make_finding("lock")


class HostError(HostRoutingError):
    """A part of the host did not do what was asked: a file, systemd, or a program such as nft.

    `what` is the part and `target` the path, unit or program. `output` is what a program printed,
    `errno` is set for a file, and `lines` are the rules, log lines or entries that it is about.
    After a timeout the change may have been made.
    """

    def __init__(
        self,
        message: str,
        *,
        what: HostPart,
        kind: str = "",
        target: str = "",
        errno: int | None = None,
        output: str = "",
        lines: Iterable[str] = (),
    ) -> None:
        # `what` is the part of the host, and `target` the path, unit or program there. `output` is
        # what a program has printed. The error is about `lines`: log lines, rules or entries.
        self.what = what
        self.target = target or what
        self.errno = errno
        self.output = output
        self.lines = tuple(lines)
        super().__init__(f"{message} ({what}: {output})" if output else message, kind=kind)
        # Two parts give the finding their own name.
        self._make_finding(what if what in {"file", "azure-vnet"} else "requirement", self.target)

    @property
    def is_absent(self) -> bool:
        """Whether the program is not installed, or its part of the kernel is not loaded."""
        return self.kind in {"missing", "not-loaded"}


class BackendError(HostRoutingError):
    """The kernel, or the connection to it, did not do what was asked.

    `kernel` is the kernel's own text if it gave one, `errno` its error number. `route` is the route
    that the kernel refused, as `ip route` prints it; empty if it is not about one route.
    """

    _code = CANNOT_DECIDE

    def __init__(
        self,
        message: str,
        *,
        kind: str = "failed",
        errno: int | None = None,
        kernel: str = "",
        route: str = "",
    ) -> None:
        # `kind` is more precise than the class, such as "device-down". `kernel` are the kernel's
        # own words, and `route` is the route that it has refused; empty if there are none.
        self.errno = errno
        self.kernel = kernel
        self.route = route
        super().__init__(f"{message} (kernel: {kernel})" if kernel else message, kind=kind)
        self._make_finding("requirement")  # the host refuses what a run requires


def is_denied(error: BaseException | None) -> bool:
    """Whether this process lacks a permission, according to this error or one that caused it."""
    if error is None:
        return False
    return (
        (isinstance(error, HostError | OSError) and error.errno in {errno.EACCES, errno.EPERM})
        or (isinstance(error, HostRoutingError) and error.kind == "not-permitted")
        or is_denied(error.__cause__)
    )
