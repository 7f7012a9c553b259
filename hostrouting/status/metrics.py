"""A status as metrics, in the text format of Prometheus, for the folder of the node exporter."""

from __future__ import annotations

from collections import Counter
from json import dumps
from typing import TYPE_CHECKING

from hostrouting.boot.program import version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hostrouting.status.status import HostStatus


def metric_lines(status: HostStatus) -> Iterator[str]:
    """The metrics of a host: its state, what is wrong, and the state of each gated unit and of the
    guard.
    """
    yield from _metric("build", "The program that says this.", {f'version="{version()}"': 1})
    yield from _metric("state", "What status begins with.", {f'state="{status.state}"': 1})
    yield from _metric(
        "findings",
        "What is wrong, by the names of findings.",
        Counter(f'name="{finding.name}"' for finding in status.wrong),
    )
    # The guard notes a fight: another program undoes its repairs again and again. The finding about
    # it has the number of these repairs; no other finding has any.
    repairs = sum(finding.facts.get("repairs", 0) for finding in status.wrong)
    yield from _metric("guard_repairs", "Repairs of a fight that lasts.", {"": repairs})
    yield from _metric(
        "unit",
        "The state of each gated unit and of the guard.",
        {f'unit={dumps(unit.unit)},state="{unit.state}"': 1 for unit in status.units},
    )


def _metric(name: str, meaning: str, values: Mapping[str, int]) -> Iterator[str]:
    # A metric as Prometheus reads it: what it means, its type, and a line for each value. The keys
    # of `values` are the labels of each line, such as `name="unit"`.
    yield f"# HELP hostrouting_{name} {meaning}"
    yield f"# TYPE hostrouting_{name} gauge"
    for labels, value in values.items():
        yield f"hostrouting_{name}{{{labels}}} {value}"
