"""hostrouting.gate.unit_gates: which opening of the gate is a problem of its own."""

import pytest

from hostrouting.config.settings import HostRoutingConfig, Mode
from hostrouting.finding import Finding, Name, Severity
from hostrouting.gate.unit_gates import starts_unchecked
from tests.support.sections import expect


@pytest.mark.parametrize(
    ("mode", "name", "severity", "ignored", "is_problem"),
    [
        ("STRICT", "gate-open", "error", (), True),
        ("STRICT", "gate-open", "warning", (), False),  # an administrator has opened it
        ("STRICT", "gate-shut", "error", (), False),
        ("STRICT", "gate-open", "error", ("gate-open",), False),
        ("WARN", "gate-open", "error", (), False),
    ],
)
def test_a_unit_that_starts_unchecked(
    mode: Mode, name: Name, severity: Severity, ignored: tuple[str, ...], *, is_problem: bool
) -> None:
    """Only in STRICT, only if nobody has opened the gate on purpose, and not if it is ignored."""
    config = HostRoutingConfig(route_overlap=expect("172.16.0.0/16", mode=mode))
    finding = Finding(name, severity, "a sentence")
    assert starts_unchecked(config, [finding], ignored) is is_problem
