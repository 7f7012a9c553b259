"""A check as the JSON document `hostrouting/check/1`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hostrouting.check.results import CheckReport
    from hostrouting.config.settings import Mode
    from hostrouting.finding import Finding

_EMPTY_ROUTE = {"destination": "", "gateway": "", "dev": "", "metric": 0}
"""The keys that a proposed route may leave out. Each route in the document has all of them."""


def check_document(
    report: CheckReport, *, mode: Mode, findings: Iterable[Finding]
) -> dict[str, Any]:
    """The JSON document of a check. `findings` are those of the check, and perhaps some that a
    command adds.
    """
    families = {f"ipv{family.family}": family for family in report.families}
    return {
        "schema": "hostrouting/check/1",
        "verdict": report.verdict,
        "verdicts": {name: family.verdict for name, family in families.items()},
        "mode": mode,
        "expectedDevs": {name: list(family.expected_devs) for name, family in families.items()},
        "findings": [finding.to_mapping() for finding in findings],
        # `to_mapping` leaves out keys with their default value; programs get all keys.
        "repair": [{**_EMPTY_ROUTE, **route.to_mapping()} for route in report.routes],
    }
