"""The result of a task that brings a configuration onto a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.check.document import check_document
from hostrouting.check.sentences import check_findings
from hostrouting.host.effects import Effects

if TYPE_CHECKING:
    from hostrouting.check.results import CheckReport
    from hostrouting.finding import Finding


@attrs.frozen
class CheckResult(Effects):
    """What a task has done and, if it has checked the host, what it has found."""

    report: CheckReport | None = attrs.field(default=None, kw_only=True)
    """None without a check: for an image, and where no CIDRs are expected."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the check found, as in the JSON document; empty if there was no check."""
        if self.report is None:
            return ()
        # In STRICT, an escape makes the task fail, so that there is no result. So each result has
        # the findings of mode WARN.
        return check_findings(self.report, mode="WARN")

    def log_fields(self) -> dict[str, object]:
        """The fields of a log record: the effects and, after a check, what it found."""
        fields = super().log_fields()
        if self.report is None:
            return fields
        return {"verdict": self.report.verdict, "findings": len(self.findings), **fields}

    def to_mapping(self) -> dict[str, object]:
        """What was done and, as in `hostrouting/check/1`, what was found."""
        values = super().to_mapping()
        if self.report is None:
            return values
        document = check_document(self.report, mode="WARN", findings=self.findings)
        del document["schema"], document["mode"]  # a result of a task has neither
        return values | document
