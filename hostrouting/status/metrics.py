"""A status as metrics, in the text format of Prometheus, for the folder of the node exporter.

What is not known has no line. A time is that of an event, and not its age: the age grows while
nobody writes the metrics again, too.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, get_args

from hostrouting.check.results import Verdict
from hostrouting.check.sentences import finding_name
from hostrouting.errors import HostError
from hostrouting.finding import ESCAPES
from hostrouting.gate.unit_states import State
from hostrouting.host.layout import HostLayout
from hostrouting.status.status import Status
from phases.arguments import must_be

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.errors import HostRoutingError

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
"""The help of each metric, by its short name."""


def metric_lines(status: Status) -> Iterator[str]:
    """Every metric that is known, with its help and its type."""
    must_be(Status, status, "metric_lines: status", "a Status: find_status(host) returns one")
    former = ""
    for short_name, labels, value in _samples(status):
        name = f"hostrouting_{short_name}"
        if short_name != former:
            yield f"# HELP {name} {_HELP[short_name]}"
            yield f"# TYPE {name} gauge"
        former = short_name
        yield f"{name}{labels} {value:.16g}"


def _samples(status: Status) -> Iterator[tuple[str, str, float]]:
    """The short name of a metric, its labels as they are printed, and its value."""
    yield "installed", "", status.state != "nothing"
    if status.matches is not None:
        yield "in_force", "", status.matches
    if status.is_broken or status.config is not None:  # else this user may not read it
        yield "config_usable", "", status.config is not None
    yield from _samples_of_check(status)
    yield from _samples_of_units(status)
    yield "unanswered", "", len(status.unanswered)


def _samples_of_check(status: Status) -> Iterator[tuple[str, str, float]]:
    for family, verdict in _verdicts(status).items():
        for name in (*get_args(Verdict), "unknown"):
            yield "verdict", _labels(family=f"ipv{family}", verdict=name), name == verdict
    if status.check is not None:
        for report in status.check.report.families:
            counts = Counter(finding_name(escape) for escape in report.escapes)
            for kind in ESCAPES:
                yield "escapes", _labels(family=f"ipv{report.family}", kind=kind), counts[kind]


def _samples_of_units(status: Status) -> Iterator[tuple[str, str, float]]:
    """Those of the gate, the gated units and the guard."""
    is_gate_known = not any(map(_hides_the_gate, status.unanswered))
    is_open = any(finding.name == "gate-open" for finding in status.findings)
    if status.state != "nothing" and (is_open or is_gate_known):
        yield "gate_open", "", is_open
    checked = max((unit.checked for unit in status.units), default=0)
    if checked:
        yield "gate_timestamp_seconds", "", checked
    if status.guard is None:
        return
    if is_gate_known:
        states = Counter(unit.state for unit in status.units)
        for state in get_args(State):
            yield "gated_units", _labels(state=state), states[state]
    yield "guard_enabled", "", status.guard.state != "unknown"
    yield "guard_running", "", status.guard.state == "runs"


def _labels(**labels: object) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def _verdicts(status: Status) -> dict[int, str]:
    """The verdict on each family; "unknown" if something is expected, and nothing has answered."""
    if status.check is not None:
        return {report.family: report.verdict for report in status.check.report.families}
    if status.config is not None:
        return {cidr.version: "unknown" for cidr in status.config.route_overlap.cidrs}
    return {}


def _hides_the_gate(error: HostRoutingError) -> bool:
    """Whether, after this error, nobody knows how the gate and the units are. Drop-ins and systemd
    tell that, so a config.json that cannot be used or read does not hide it.
    """
    return isinstance(error, HostError) and error.target != HostLayout.config_path
