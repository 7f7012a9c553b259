"""A status as metrics, in the text format of Prometheus, for the folder of the node exporter.

What is not known has no line. A time is that of an event, and not its age: the age grows while
nobody writes the metrics again, too.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias, get_args

from hostrouting.check.results import Verdict
from hostrouting.check.sentences import finding_name
from hostrouting.errors import HostError
from hostrouting.finding import ESCAPES
from hostrouting.gate.unit_states import State
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.errors import HostRoutingError
    from hostrouting.status.status import Status

Samples: TypeAlias = "dict[str, float]"
"""By its labels as they are printed: the value of each sample of a metric; empty if nothing is
known.
"""


def metric_lines(status: Status) -> Iterator[str]:
    """Every metric that is known, with its help and its type."""
    for short_name, (words, samples_of) in _METRICS.items():
        name = f"hostrouting_{short_name}"
        samples = samples_of(status)
        if samples:
            yield f"# HELP {name} {words}"
            yield f"# TYPE {name} gauge"
        for labels, value in samples.items():
            yield f"{name}{labels} {value:.16g}"


def _labels(**labels: object) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def _installed(status: Status) -> Samples:
    return {"": status.state != "nothing"}


def _in_force(status: Status) -> Samples:
    if status.is_broken:
        return {"": False}
    if status.plan is None:
        return {}
    return {"": status.plan.is_empty}


def _config_usable(status: Status) -> Samples:
    if status.config is None and not status.is_broken:  # this user may not read it
        return {}
    return {"": status.config is not None}


def _verdicts(status: Status) -> Samples:
    """1 for the verdict of each family; for "unknown" if something is expected, and nothing has
    answered.
    """
    verdicts: dict[int, str] = {}
    if status.check is not None:
        for report in status.check.report.families:
            verdicts[report.family] = report.verdict
    elif status.config is not None:
        for cidr in status.config.route_overlap.cidrs:
            verdicts[cidr.version] = "unknown"
    samples: Samples = {}
    for family, verdict in sorted(verdicts.items()):
        for name in (*get_args(Verdict), "unknown"):
            samples[_labels(family=f"ipv{family}", verdict=name)] = name == verdict
    return samples


def _escapes(status: Status) -> Samples:
    samples: Samples = {}
    if status.check is not None:
        for family in status.check.report.families:
            counts = Counter(finding_name(escape) for escape in family.escapes)
            for kind in ESCAPES:
                samples[_labels(family=f"ipv{family.family}", kind=kind)] = counts[kind]
    return samples


def _gate_open(status: Status) -> Samples:
    is_open = any(finding.name == "gate-open" for finding in status.findings)
    if status.state != "nothing" and (is_open or _is_gate_known(status)):
        return {"": is_open}
    return {}


def _is_gate_known(status: Status) -> bool:
    return not any(map(_hides_the_gate, status.unanswered))


def _hides_the_gate(error: HostRoutingError) -> bool:
    """Whether, after this error, nobody knows how the gate and the units are. Drop-ins and systemd
    tell that, so a config.json that cannot be used or read does not hide it.
    """
    return isinstance(error, HostError) and error.target != HostLayout.config_path


def _gated_units(status: Status) -> Samples:
    samples: Samples = {}
    if status.guard is not None and _is_gate_known(status):
        counts = Counter(unit.state for unit in status.units)
        for state in get_args(State):
            samples[_labels(state=state)] = counts[state]
    return samples


def _guard_enabled(status: Status) -> Samples:
    if status.guard is None:
        return {}
    return {"": status.guard.state != "unknown"}


def _guard_running(status: Status) -> Samples:
    if status.guard is None:
        return {}
    return {"": status.guard.state == "runs"}


def _gate_timestamp(status: Status) -> Samples:
    checked = max((unit.checked for unit in status.units), default=0)
    return {"": checked} if checked else {}


def _unanswered(status: Status) -> Samples:
    return {"": len(status.unanswered)}


_METRICS = {
    "installed": ("Whether anything is installed.", _installed),
    "in_force": (
        "Whether the host matches the installed configuration, which survives a boot.",
        _in_force,
    ),
    "config_usable": ("Whether the installed configuration can be used.", _config_usable),
    "verdict": (
        "1 for the verdict of the check now, else 0; unknown if nothing has answered.",
        _verdicts,
    ),
    "escapes": ("How many ranges of expected CIDRs escape now.", _escapes),
    "gate_open": ("Whether a gated unit can start unchecked.", _gate_open),
    "gated_units": ("How many gated units are in this state.", _gated_units),
    "guard_enabled": ("Whether the guard is enabled.", _guard_enabled),
    "guard_running": ("Whether the guard runs.", _guard_running),
    "gate_timestamp_seconds": (
        "When a gated unit was last checked at its start.",
        _gate_timestamp,
    ),
    "unanswered": (
        "How many parts of the host did not answer, or could not be read.",
        _unanswered,
    ),
}
"""By the short name of each metric: its help, and what makes its samples."""
