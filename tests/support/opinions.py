"""What a failure says about a host that is judged wrongly: the findings of the check, and the rules
of the judge that have an opinion there.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from hostrouting.check.check import check_snapshot
from hostrouting.check.judge import first_opinion
from hostrouting.check.results import CheckReport, Opinion
from hostrouting.check.sentences import check_findings
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.model.snapshot import Snapshot


def explained(report: CheckReport, config: HostRoutingConfig) -> Iterator[str]:
    """What this check says, and by which rules."""
    yield f"The verdict is {report.verdict}. Rules that have an opinion on this host:"
    for rule in rules_with_an_opinion(report.snapshot, config):
        yield f"  {rule}"
    yield "Findings:"
    for finding in check_findings(report, mode="STRICT"):
        yield f"  {finding.name}: {finding}"


def rules_with_an_opinion(snapshot: Snapshot, config: HostRoutingConfig) -> list[str]:
    """The functions of `hostrouting.check` that decide about this host, each with its opinion."""
    deciding: dict[str, None] = {}  # each once, in their order

    def recorded(rule: Callable[..., Opinion | None]) -> Callable[..., Opinion | None]:
        def recording(*subject: Any) -> Opinion | None:
            opinion = rule(*subject)
            if opinion is not None:
                where = f"{rule.__module__.removeprefix('hostrouting.')}.{rule.__name__}"
                about = f"{opinion.grade.name.lower()} {opinion.name} {opinion.reason}"
                deciding[f"{where}: {about}".rstrip()] = None
            return opinion

        return recording

    def first_recorded(rules: Iterable[Callable[..., Opinion | None]], *subject: Any) -> Opinion:
        return first_opinion(map(recorded, rules), *subject)

    with pytest.MonkeyPatch.context() as patch:
        for module in ("judge", "other_packets"):
            patch.setattr(f"hostrouting.check.{module}.first_opinion", first_recorded)
        check_snapshot(snapshot, config)
    return list(deciding)
