"""A status as metrics, in the text format of Prometheus, for the folder of the node exporter.

What is not known has no line. Times are those of events, so that the age of what they are about
also grows while nobody writes them again.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, get_args

from hostrouting.boot.unit_states import State
from hostrouting.check.results import Verdict
from hostrouting.check.sentences import finding_name
from hostrouting.finding import ESCAPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.check.results import CheckReport
    from hostrouting.status import Status

_PREFIX = "hostrouting"


class _Metric(NamedTuple):
    """A gauge with its values, by the labels of each as they are printed."""

    name: str
    help: str
    values: dict[str, float]

    def lines(self) -> Iterator[str]:
        if not self.values:
            return
        name = f"{_PREFIX}_{self.name}"
        yield f"# HELP {name} {self.help}"
        yield f"# TYPE {name} gauge"
        for labels, value in self.values.items():
            yield f"{name}{labels} {value:.16g}"


def metric_lines(status: Status) -> Iterator[str]:
    """Every metric with its help and its type."""
    for metric in _metrics(status):
        yield from metric.lines()


def _metrics(status: Status) -> Iterator[_Metric]:
    is_installed = status.state != "nothing"
    yield _Metric("installed", "Whether anything is installed.", {"": is_installed})
    yield _Metric(
        "unanswered",
        "How many parts of the host did not answer, or could not be read.",
        {"": len(status.unanswered)},
    )
    if status.check is not None:
        yield from _of_the_check(status.check.report)
    if not is_installed:
        return
    yield _Metric(
        "in_force",
        "Whether the host matches the installed configuration, which survives a boot.",
        {"": status.state == "installed"},
    )
    is_open = any(finding.name == "gate-open" for finding in status.findings)
    yield _Metric("gate_open", "Whether a gated unit can start unchecked.", {"": is_open})
    counts = Counter(unit.state for unit in status.units)
    if status.guard:
        yield _Metric(
            "gated_units",
            "How many gated units are in this state.",
            {_labels(state=state): counts[state] for state in get_args(State)},
        )
        yield _Metric(
            "guard_enabled",
            "Whether the guard is enabled.",
            {"": status.guard != "is not enabled"},
        )
        yield _Metric("guard_running", "Whether the guard runs.", {"": status.guard == "runs"})
    if status.boot_check is not None:
        yield _Metric(
            "boot_check_success",
            "Whether the last check at boot has succeeded.",
            {"": status.boot_check.succeeded},
        )
        yield _Metric(
            "boot_check_timestamp_seconds",
            "When the last check at boot has ended, in seconds since 1970.",
            {"": status.boot_check.ended},
        )


def _of_the_check(report: CheckReport) -> Iterator[_Metric]:
    verdicts: dict[str, float] = {}
    escapes: dict[str, float] = {}
    for family in report.families:
        name = f"ipv{family.family}"
        for verdict in get_args(Verdict):
            verdicts[_labels(family=name, verdict=verdict)] = family.verdict == verdict
        names = Counter(finding_name(escape) for escape in family.escapes)
        for kind in ESCAPES:
            escapes[_labels(family=name, kind=kind)] = names[kind]
    yield _Metric("verdict", "1 for the verdict of the check now, else 0.", verdicts)
    yield _Metric("escapes", "How many ranges of expected CIDRs escape now.", escapes)


def _labels(**labels: str) -> str:
    """The labels as they are printed. No value has a character that must be escaped."""
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
