"""One message for an operator, from any part of hostrouting: its name, how bad it is, what it is
about, what to do.

The sentences are written where the thing is found, or in `check.sentences`. docs/findings.md
explains each name.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

Severity: TypeAlias = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")

Escape: TypeAlias = Literal["overlap", "refused", "own-range", "no-route"]
"""What happens to the packets of a range of an expected CIDR that does not leave through an
expected device.
"""
ESCAPES: tuple[Escape, ...] = get_args(Escape)
WRONG = (*ESCAPES, "no-default-route")
"""The findings of a check because of which a run fails in mode STRICT, and no gated unit starts."""

Name: TypeAlias = Literal[
    Escape, "no-default-route", "missing-rule", "service-network-holds-host",
    # what makes a verdict undecided
    "default-routes", "two-cnis", "doubtful-route", "other-packets", "not-judged", "kernel-differs",
    # what explains a verdict; what a repair is, lacks and costs; our routes
    "allowed", "action", "unsafe", "repair-cost", "route-conflict", "route-waits", "route-stays",
    "node-ip", "route-not-configured",
    # the host
    "session-at-risk", "gate-open", "gate-shut", "file", "lock", "requirement", "unit",
    "unit-not-gated", "removal", "probe-rewrite", "azure-vnet",
]  # fmt: skip
"""Every name of a finding. A name says what the finding is, and not how bad it is here."""
NAMES: tuple[Name, ...] = get_args(Name)


class Finding(NamedTuple):
    """One message for an operator."""

    name: Name
    severity: Severity
    """An error makes something fail, a warning may, a note does not."""
    sentence: str
    """The thing, what is wrong with it, and why."""
    target: str = ""
    """What the finding is about: a range, route, file, unit, program or device."""
    remedy: str = ""
    """What to do about it: one command or clause."""
    facts: Mapping[str, Any] = {}
    """The facts for programs, as JSON values; docs/findings.md lists them by name."""
    can_retry: bool = False

    @property
    def level(self) -> int:
        """The log level for this finding. An error is usually raised; the code that catches it logs
        it.
        """
        return (
            20 if self.severity == "note" else 30
        )  # INFO and WARNING of logging, which takes long to load

    @property
    def line(self) -> str:
        """The finding as one line of a log or a marker file; it begins with the name."""
        return f"{self.name.upper()}: {self}"

    def to_mapping(self) -> dict[str, Any]:
        """The finding as JSON: the schema hostrouting/findings/1 is a list of these."""
        values = {
            name: getattr(self, name)
            for name in ("name", "severity", "target", "sentence", "remedy")
        }
        return {**values, "facts": dict(self.facts), "canRetry": self.can_retry}

    def __hash__(self) -> int:  # the facts are a dict, which has no hash
        return hash(self.sentence)

    def __str__(self) -> str:
        return f"{self.sentence}; {self.remedy}" if self.remedy else self.sentence


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Each finding once, errors before warnings before notes."""
    return tuple(
        sorted(dict.fromkeys(findings), key=lambda finding: SEVERITIES.index(finding.severity))
    )
