"""An error that ends a task has the effects from before the error."""

from types import SimpleNamespace

import pytest

import phases
from hostrouting.check.check import check_snapshot
from hostrouting.finding import Finding
from hostrouting.host.effects import Effects, effects_of, recorded_in_errors
from hostrouting.host.operation import Operation
from hostrouting.install.results import CheckResult
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.route import Route
from hostrouting.testing import plain_vm
from tests.support.tasks import config

ROUTE = Route.to("172.16.0.0/17", dev="eth0", gateway="10.0.0.1", protocol=213)


def test_in_a_log() -> None:
    """It has the numbers of changes; a warning is no change."""
    create = Operation("create", "a table", "it was missing")
    effects = Effects((RouteRequest("add", ROUTE),), ("/a",), (create,))
    assert effects.log_fields() == {"routes": 1, "operations": 1, "files": 1}
    for one in (effects.changes, (), ()), ((), ("/a",), ()), ((), (), (create,)):
        assert Effects(*one).changed
    warned = Effects(warnings=(Finding("unit", "warning", "x"),))
    assert not warned.changed
    assert warned.log_fields() == {"warnings": 1}
    assert warned.to_mapping()["warnings"] == [warned.warnings[0].to_mapping()]
    assert Effects().log_fields() == {}


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, phases.Cancelled])
def test_whatever_comes_out_carries_it(kind: type[BaseException]) -> None:
    """Every error can have effects, including Cancelled; earlier changes come first."""
    add, delete = RouteRequest("add", ROUTE), RouteRequest("delete", ROUTE)
    start, stop = Operation("start", "x", ""), Operation("stop", "x", "")
    warning = Finding("unit", "warning", "x")
    first = recorded_in_errors(warnings=(warning,))
    earlier = recorded_in_errors([add], ["/a"], [start])
    last = recorded_in_errors([delete], ["/b", "/a"], [stop])
    with pytest.raises(kind) as caught, first, earlier, last:
        raise kind("x")
    expected = Effects((add, delete), ("/a", "/b"), (start, stop), (warning,))
    assert effects_of(caught.value) == expected
    two = SimpleNamespace(failures=[SimpleNamespace(error=caught.value)] * 2)
    assert effects_of(two) == expected + expected


def test_the_sum() -> None:
    """Both warnings are in it, and what only the last one has."""
    one, other = (Finding("unit", "warning", words) for words in ("one", "other"))
    report = check_snapshot(plain_vm().snapshot(), config(cidrs=("10.9.0.0/16",)))
    whole = Effects(warnings=(one,)) + CheckResult(warnings=(other,), report=report)
    assert whole == CheckResult(warnings=(one, other), report=report)
