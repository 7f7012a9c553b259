"""A status as metrics, in the text format of Prometheus, for the folder of the node exporter.

What is not known has no line. Times are those of events, so that the age of what they are about
also grows while nobody writes them again.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias, get_args

from hostrouting.boot.unit_states import State
from hostrouting.check.results import Verdict
from hostrouting.check.sentences import finding_name
from hostrouting.errors import HostError, is_denied
from hostrouting.finding import ESCAPES
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.check.results import CheckReport
    from hostrouting.errors import HostRoutingError
    from hostrouting.status import Status

Samples: TypeAlias = "dict[str, float]"
"""By its labels as they are printed: the value of each sample of a metric."""

_HELP = {
    "installed": "Whether anything is installed.",
    "in_force": "Whether the host matches the installed configuration, which survives a boot.",
    "config_usable": "Whether the installed configuration can be used.",
    "verdict": "1 for the verdict of the check now, else 0; unknown if nothing has answered.",
    "escapes": "How many ranges of expected CIDRs escape now.",
    "gate_open": "Whether a gated unit can start unchecked.",
    "gated_units": "How many gated units are in this state.",
    "guard_enabled": "Whether the guard is enabled.",
    "guard_running": "Whether the guard runs.",
    "gate_timestamp_seconds": "When a gated unit was last checked at its start.",
    "unanswered": "How many parts of the host did not answer, or could not be read.",
}


def metric_lines(status: Status) -> Iterator[str]:
    """Every metric that is known, with its help and its type."""
    metrics = _metrics(status)
    for short_name, words in _HELP.items():
        name = f"hostrouting_{short_name}"
        samples = metrics.get(short_name, {})
        if samples:
            yield f"# HELP {name} {words}"
            yield f"# TYPE {name} gauge"
        for labels, value in samples.items():
            yield f"{name}{labels} {value:.16g}"


def _metrics(status: Status) -> dict[str, Samples]:
    is_installed = status.state != "nothing"
    metrics: dict[str, Samples] = {}
    metrics["installed"] = {"": is_installed}
    metrics["unanswered"] = {"": len(status.unanswered)}
    metrics["verdict"] = _verdicts(status)
    if status.report is not None:
        metrics["escapes"] = _escapes(status.report)
    if status.config is not None or status.state == "broken":  # else it may not be read
        metrics["config_usable"] = {"": status.config is not None}
    if is_installed and status.state != "unanswered":
        metrics["in_force"] = {"": status.state == "installed"}
    is_gate_known = not any(map(_hides_the_gate, status.unanswered))
    is_open = any(finding.name == "gate-open" for finding in status.findings)
    if is_installed and (is_open or is_gate_known):
        metrics["gate_open"] = {"": is_open}
    if status.guard and is_gate_known:
        counts = Counter(unit.state for unit in status.units)
        metrics["gated_units"] = {
            f'{{state="{state}"}}': counts[state] for state in get_args(State)
        }
    if status.guard:
        metrics["guard_enabled"] = {"": status.guard != "is not enabled"}
        metrics["guard_running"] = {"": status.guard == "runs"}
    checked = max((unit.checked for unit in status.units), default=0)
    if checked:
        metrics["gate_timestamp_seconds"] = {"": checked}
    return metrics


def _hides_the_gate(error: HostRoutingError) -> bool:
    """Whether it is not known because of this how the gate and the units are. Drop-ins and systemd
    say that, also beside a config.json that cannot be used.
    """
    if isinstance(error, HostError) and error.target == HostLayout.config_path:
        return is_denied(error)
    return isinstance(error, HostError)


def _verdicts(status: Status) -> Samples:
    """1 for the verdict of each family; for "unknown" if something is expected, and nothing has
    answered.
    """
    found: dict[int, str] = {}
    if status.report is not None:
        found = {report.family: report.verdict for report in status.report.families}
    else:
        expected = status.config or status.enforced
        for cidr in expected.route_overlap.cidrs:
            found[cidr.version] = "unknown"
    samples: Samples = {}
    for family, verdict in sorted(found.items()):
        for name in (*get_args(Verdict), "unknown"):
            samples[f'{{family="ipv{family}",verdict="{name}"}}'] = name == verdict
    return samples


def _escapes(report: CheckReport) -> Samples:
    samples: Samples = {}
    for family in report.families:
        counts = Counter(finding_name(escape) for escape in family.escapes)
        for kind in ESCAPES:
            samples[f'{{family="ipv{family.family}",kind="{kind}"}}'] = counts[kind]
    return samples
