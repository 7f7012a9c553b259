"""Whether addresses of an expected CIDR are lost on a host, which static routes repair that, and
the report.

Decisions are functions from values to values. Hosts are changed by `routes` and `tasks`, and `cli`
prints.
"""

from hostrouting.check.check import (
    CheckReport,
    Escape,
    FamilyReport,
    Verdict,
    check_kernel,
    check_snapshot,
)
from hostrouting.check.repair import Repair, Unsafe
from hostrouting.check.report import check_document, check_findings, repair_commands

__all__ = [
    "check_kernel",
    "check_snapshot",
    "CheckReport",
    "FamilyReport",
    "Verdict",
    "Escape",
    "Repair",
    "Unsafe",
]
__all__ += ["check_findings", "check_document", "repair_commands"]
