"""The commands that an operator types to repair a host for good, and their options."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from hostrouting.command import Command, call, joined
from hostrouting.finding import Finding, Remedy
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_GUARD = HostLayout.guard_unit
UNMASK_GUARD = f"systemctl unmask {_GUARD}"
GUARD_IS_MASKED = Finding(
    "requirement",
    "error",
    f"{_GUARD} is masked, so apply cannot start it, and fails",
    _GUARD,
    Remedy(command=UNMASK_GUARD),
)
"""Before this command is typed, `apply` fails if the guard is configured."""


def repair_pipeline(
    options: str = "", *, needs_consent: bool = False, into: str = "apply", more: str = ""
) -> Command:
    """The line to type that repairs a host for good, or goes into `plan`, which shows what would
    change. `repair` gets these options, and the other command `more`. With `needs_consent`, the
    repair takes something away that protects the host now.
    """
    if needs_consent:
        more += " --allow-removal"
    return joined(" | ", call(f"repair{options}"), call(f"{into} --config -{more}"))


def with_typed_options(
    findings: Iterable[Finding], options: str, *, needs_consent: bool = False
) -> tuple[Finding, ...]:
    """The findings; a command that names or allows a device or rule also gets these options."""
    if not options:
        return tuple(findings)
    typed: list[Finding] = []
    for finding in findings:
        remedy = finding.remedy
        if remedy is not None and "candidates" in finding.facts:
            devs = finding.facts["candidates"]
            remedy = _naming(devs, remedy, options, needs_consent=needs_consent)
        elif remedy is not None and not finding.facts.keys().isdisjoint({"mayAllow", "mayIntend"}):
            allowed = finding.facts.get("mayAllow") or [finding.facts["mayIntend"]]
            command = repair_pipeline(
                f"{options}{allow_options(allowed)}", needs_consent=needs_consent
            )
            remedy = remedy._replace(command=command)
        typed.append(finding._replace(remedy=remedy))
    return tuple(typed)


def _naming(devs: Sequence[str], remedy: Remedy, options: str, *, needs_consent: bool) -> Remedy:
    """The remedy, whose command names the first device, and whose other ways name one of the others
    each.
    """
    if not remedy.command:
        return remedy
    dev, *others = devs
    otherwise = remedy.otherwise
    if otherwise is not None:
        otherwise = _naming(others, otherwise, options, needs_consent=needs_consent)
    typed = f"{options} --dev {shlex.quote(dev)}"
    command = repair_pipeline(typed, needs_consent=needs_consent)
    return remedy._replace(command=command, otherwise=otherwise)


def allow_options(devs: Iterable[str]) -> str:
    """The options of `repair` that allow these devices, or rules with these selectors."""
    return "".join(f" --allow {shlex.quote(dev)}" for dev in devs)


def gate_options(units: Iterable[str]) -> str:
    """The options of `apply` that gate these units, too."""
    return "".join(f" --gate {shlex.quote(unit)}" for unit in units)


def with_gate_command(findings: Iterable[Finding], apply: str) -> tuple[Finding, ...]:
    """The findings; to gate the units that are not gated, this command is typed with their names.

    Without a command, they have no remedy.
    """
    findings = tuple(findings)
    units = [finding.target for finding in findings if finding.name == "unit-not-gated"]
    remedy = None
    if apply:
        remedy = Remedy(command=joined("", apply, gate_options(units)))
    changed: list[Finding] = []
    for finding in findings:
        if finding.name == "unit-not-gated":
            changed.append(finding._replace(remedy=remedy))
        else:
            changed.append(finding)
    return tuple(changed)
