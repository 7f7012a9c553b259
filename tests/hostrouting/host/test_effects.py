"""An error that ends a task has the effects from before the error."""

import pytest

import phases
from hostrouting.errors import ApplyError, RouteOverlapError
from hostrouting.host.effects import Effects, effects_of, having_changed, tell_effects
from hostrouting.host.fileset import FileChanges
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route
from hostrouting.routes.apply import apply_plan
from hostrouting.routes.plan import plan_routes
from hostrouting.routes.uplink import DesiredRoute
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeHost, FaultyBackend, h200
from tests.support.tasks import CIDR, REPAIR, config

ROUTE = Route.to("172.16.0.0/17", dev="eth0", gateway="10.0.0.1", protocol=213)


def test_what_says_nothing() -> None:
    """A result or an error without effects has changed nothing, whatever the result calls `files`."""
    assert effects_of(None) == effects_of(ValueError()) == effects_of(FileChanges()) == Effects()
    assert Effects(files=("/a", "/a", "/b")).files == ("/a", "/b")


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, phases.Cancelled])
def test_whatever_comes_out_carries_it(kind: type[BaseException]) -> None:
    """Every error can have effects, including Cancelled; earlier changes come first."""
    with pytest.raises(kind) as caught, having_changed([RouteRequest("add", ROUTE)], ["/a"]):
        raise tell_effects(kind("x"), files=["/b", "/a"])
    assert effects_of(caught.value) == Effects((RouteRequest("add", ROUTE),), ("/a", "/b"))


def test_a_transaction_that_was_told_to_stop() -> None:
    """A change that was rolled back appears twice: the change and its reversal."""
    kernel = h200()
    before = kernel.snapshot(family=4)
    wishes = [DesiredRoute(Prefix.parse(it)) for it in REPAIR]
    orders = iter([None, phases.Cancelled("stop")])

    def check() -> None:
        if order := next(orders):
            raise order

    with pytest.raises(phases.Cancelled) as caught:
        apply_plan(plan_routes(wishes, before), kernel, before=before, check=check)
    verbs = [change.verb for change in effects_of(caught.value).changes]
    assert verbs == ["add", "add", "delete", "delete"]
    faulty = FaultyBackend(kernel)
    faulty.fail("change", 22, nth=2)
    with pytest.raises(ApplyError) as failed:
        apply_plan(plan_routes(wishes, before), faulty, before=before)
    assert [change.verb for change in effects_of(failed.value).changes] == ["add", "delete"]


def test_a_task_that_failed_behind_its_gate() -> None:
    """If the check fails after the routes were applied, routes and files remain, and the report names them."""
    host = FakeHost(kernel=h200())
    report = phases.run(Configure(config(REPAIR[0], cidrs=(CIDR,)), host=host), observers=[])
    [failure] = report.failures
    assert isinstance(failure.error, RouteOverlapError)
    results = [effects_of(node.result) for node in report.walk()]
    assert [str(change.route.prefix) for result in results for change in result.changes] == [REPAIR[0]]
    files = {path for path in host.files.texts if not path.startswith("/run/")} | {*host.files.links}
    assert set(effects_of(report.error).files) == files
