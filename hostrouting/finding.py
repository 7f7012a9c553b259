"""One message for an operator, from any part of hostrouting: its name, how bad it is, what it is
about, what to do.

The sentences are written where the thing is found, or in `check.sentences`. docs/findings.md
explains each name.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

Severity: TypeAlias = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")

EscapeName: TypeAlias = Literal["overlap", "refused", "own-range", "no-route", "pods-hidden"]
"""What happens to the packets of a range of an expected CIDR that does not leave through an
expected device.
"""
ESCAPES: tuple[EscapeName, ...] = get_args(EscapeName)
Name: TypeAlias = Literal[
    EscapeName, "no-default-route",
    # what makes a verdict undecided
    "default-routes", "two-cnis", "doubtful-route", "other-packets", "missing-rule", "not-judged",
    "kernel-differs",
    # what explains a verdict; what a repair is; our routes
    "allowed", "action", "unsafe", "route-conflict", "route-waits", "route-stays", "route-differs",
    # the host
    "gate-open", "gate-shut", "file", "lock", "requirement", "unit", "fight",
    "unit-not-gated", "removal", "probe-rewrite", "azure-vnet",
]  # fmt: skip
"""Every name of a finding. A name says what the finding is, and not how bad it is here."""
NAMES: tuple[Name, ...] = get_args(Name)
WRONG: tuple[Name, ...] = (*ESCAPES, "no-default-route")
"""The findings of a check because of which a run fails in mode STRICT, and no gated unit starts."""


class Remedy(NamedTuple):
    """What to do about a finding: words, or a command, after words that say when or what for."""

    words: str = ""
    command: str = ""
    needs_root: bool = True
    """Whether only root can run the command."""
    otherwise: "Remedy | None" = None
    """Another way."""

    def ways(self) -> Iterator["Remedy"]:
        """Each way to settle the finding as a remedy of its own: this one, and then the others,
        which `otherwise` has.
        """
        yield self._replace(otherwise=None)
        if self.otherwise is not None:
            yield from self.otherwise.ways()

    @property
    def line(self) -> str:
        """A line for this way, without the others: only its words, or its command after the words:
        "until the next boot, as root: ip route add …".
        """
        if not self.command:
            return self.words
        before = [self.words] if self.words else []
        if self.needs_root:
            before.append("as root")
        return f"{', '.join(before)}: {self.command}"

    def __str__(self) -> str:
        return "; or, ".join(way.line for way in self.ways())


class Finding(NamedTuple):
    """A message for an operator."""

    name: Name
    severity: Severity
    """An error makes something fail, a warning may, a note does not."""
    sentence: str
    """The thing, what is wrong with it, and why."""
    target: str = ""
    """What the finding is about: a range, route, file, unit, program or device."""
    remedy: Remedy | None = None
    """What to do about it, if anything can be done."""
    facts: Mapping[str, Any] = {}
    """The facts for programs, as JSON values; docs/findings.md has those of an escape."""
    can_retry: bool = False

    @property
    def level(self) -> int:
        """The log level for a finding that makes no run fail: INFO for a note, else WARNING."""
        # These are the numbers of INFO and WARNING: to load `logging` for their names takes long.
        return 20 if self.severity == "note" else 30

    @property
    def line(self) -> str:
        """The finding as one line of a log or a marker file; it begins with the name."""
        return f"{self.name.upper()}: {self}"

    def to_mapping(self) -> dict[str, Any]:
        """The finding as JSON: the schema hostrouting/findings/1 is a list of these."""
        remedy = ""
        commands: list[str] = []
        if self.remedy is not None:
            remedy = str(self.remedy)
            commands = [way.command for way in self.remedy.ways() if way.command]
        return {
            "name": self.name,
            "severity": self.severity,
            "target": self.target,
            "sentence": self.sentence,
            "remedy": remedy,
            "commands": commands,
            "facts": dict(self.facts),
            "canRetry": self.can_retry,
        }

    def __hash__(self) -> int:  # not of all fields: the facts are a dict, which has no hash
        return hash(self.sentence)

    def __str__(self) -> str:
        if self.remedy is None:
            return self.sentence
        return f"{self.sentence}; {self.remedy}"


def with_severity(severity: Severity, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """These findings with this severity."""
    return tuple(finding._replace(severity=severity) for finding in findings)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort the findings, with errors first and notes last, and leave out repetitions."""
    return tuple(
        sorted(dict.fromkeys(findings), key=lambda finding: SEVERITIES.index(finding.severity))
    )
