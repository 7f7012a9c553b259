"""Whether addresses of an expected CIDR are lost on a host, which static routes repair that, and
the report.

Decisions are functions from values to values. Only `marker` changes a host.
"""

from hostrouting.check.check import check_kernel, check_snapshot
from hostrouting.check.document import check_document
from hostrouting.check.results import (
    CheckReport,
    Escape,
    FamilyReport,
    Repair,
    Unrepairable,
    Verdict,
)
from hostrouting.check.sentences import check_findings, repair_commands

__all__ = [
    "check_kernel",
    "check_snapshot",
    "CheckReport",
    "FamilyReport",
    "Verdict",
    "Escape",
    "Repair",
    "Unrepairable",
    "check_findings",
    "check_document",
    "repair_commands",
]
