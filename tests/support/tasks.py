"""Helpers for tests of tasks on fake hosts."""

from collections.abc import Callable
from typing import Any

import pytest

import phases
from hostrouting.config.settings import GuardConfig, HostRoutingConfig
from hostrouting.host.layout import HostLayout
from hostrouting.model.route import OURS, Route
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.testing import FakeHost, FakeKernel, FakeManager, h200
from phases.testing import FakeClock

LAYOUT = HostLayout()
CIDR = "172.16.0.0/16"
REPAIR = ("172.16.0.0/17", "172.16.128.0/17")


def config(
    *destinations: str, cidrs: tuple[str, ...] = (), mode: str = "STRICT", **route: object
) -> HostRoutingConfig:
    """A configuration with these static routes, of which each has these fields, and CIDRs."""
    routes = [{"destination": destination, **route} for destination in destinations]
    static = {"enabled": bool(routes), "routes": routes}
    return HostRoutingConfig.from_mapping(document(staticRoutes=static, cidrs=cidrs, mode=mode))


def document(
    *destinations: str, cidrs: tuple[str, ...] = (CIDR,), mode: str = "STRICT", **sections: object
) -> dict[str, Any]:
    """The document of these routes, CIDRs and sections; without CIDRs, in mode WARN."""
    routes = [{"destination": destination} for destination in destinations]
    if not cidrs:
        mode = "WARN"
    return {
        "staticRoutes": {"enabled": bool(routes), "routes": routes},
        "routeOverlap": {"expectedCidrs": list(cidrs), "mode": mode},
        **sections,
    }


WANTED = config(*REPAIR, cidrs=(CIDR,))
"""The configuration that repairs an H200 node; the mode is STRICT."""
GUARDED = WANTED._replace(guard=GuardConfig(enabled=True))


def context() -> phases.Context:
    """A run on a fake clock, of which nothing is logged."""
    return phases.Context(clock=FakeClock())


def run(task: phases.Task[object]) -> object:
    return phases.execute(task, context())


def undo(task: Any) -> object:
    """Take back what the runs of this task have done; return the result of that."""
    return run(phases.task("undo")(task.undo))


def configured(settings: HostRoutingConfig, *, kernel: FakeKernel | None = None) -> FakeHost:
    """A host with this kernel, or that of an H200 node, on which this configuration is applied."""
    host = FakeHost(kernel=kernel or h200())
    run(Configure(settings, host=host))
    return host


def failure_of(
    call: Callable[..., object],
    *given: Any,
    of: type[Exception] = Exception,
    match: str | None = None,
    **named: Any,
) -> Any:
    """Call this, whose task fails because of an error of this class; return it."""
    with pytest.raises(phases.TaskFailed, match=match) as caught:
        call(*given, **named)
    assert isinstance(caught.value.error, of)
    return caught.value.error


def left_to_do(task: Configure | Remove) -> str:
    """What a plan of the task says that it would still do; empty if there is nothing to do."""
    plan = task.plan()
    return "" if plan.is_empty else str(plan)


def manager_of(host: FakeHost) -> FakeManager:
    assert host.manager is not None
    return host.manager


def type_routes(host: FakeHost, *destinations: str, protocol: int = OURS) -> None:
    """Add these routes as somebody does who types the commands of `check`."""
    for destination in destinations:
        typed = Route.to(destination, dev="eth0", gateway="10.0.0.1", protocol=protocol)
        host.kernel.ip_route("add", typed)


def paths_on(host: FakeHost) -> set[str]:
    return {*host.files.texts, *host.files.programs, *host.files.links}


def lose_routes(host: FakeHost) -> None:
    for route in our_routes(host):
        host.kernel.ip_route("delete", route)


def ours(host: FakeHost) -> list[str]:
    return [*map(str, our_routes(host))]


def our_routes(host: FakeHost) -> tuple[Route, ...]:
    return tuple(route for route in host.kernel.snapshot().routes if route.protocol == OURS)


def our_destinations(host: FakeHost) -> list[str]:
    return [str(route.prefix) for route in our_routes(host)]
