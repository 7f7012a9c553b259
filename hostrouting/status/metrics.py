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
    """The metrics of a host: the version of the program that says this, the host's state, the
    number of findings with each name, and the state of each gated unit and of the guard.
    """
    yield from _metric("build", {f'version="{version()}"': 1})
    yield from _metric("state", {f'state="{status.state}"': 1})
    yield from _metric("findings", Counter(f'name="{finding.name}"' for finding in status.wrong))
    # The name of a unit can have a backslash, which Prometheus wants escaped as in JSON (`dumps`).
    yield from _metric(
        "unit",
        {f'unit={dumps(unit.unit)},state="{unit.state}"': 1 for unit in status.units},
    )


def _metric(name: str, values: Mapping[str, int]) -> Iterator[str]:
    # A metric as Prometheus reads it: its type, and a line for each value. The keys of `values` are
    # the labels of each line, such as `name="unit"`.
    yield f"# TYPE hostrouting_{name} gauge"
    for labels, value in values.items():
        yield f"hostrouting_{name}{{{labels}}} {value}"
