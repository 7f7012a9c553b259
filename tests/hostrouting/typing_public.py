"""Read by mypy, not run: the types of what the public functions take and return.

A line with a type: ignore is one that must be refused; mypy --strict complains when it is not.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address, ip_network
from typing import Literal

from typing_extensions import assert_type

import hostrouting as hr
import phases
from hostrouting import fleet
from hostrouting.check import CheckReport, Escape, Verdict
from hostrouting.fib import Decision, Fib
from hostrouting.finding import Remedy
from hostrouting.kernel import Answer, Outcome, RouteRequest
from hostrouting.model import NextHop, Prefix, default_rules
from hostrouting.routes.apply import apply_plan
from hostrouting.routes.plan import plan_static_routes
from hostrouting.routes.steps import RoutePlan
from hostrouting.status import HostStatus, find_status

# The configuration.
config = hr.HostRoutingConfig.from_json("{}")
assert_type(config.static_routes.routes, tuple[hr.StaticRoute, ...])
assert_type(config.route_overlap.mode, Literal["WARN", "STRICT"])
route = hr.StaticRoute(ip_network("10.0.0.0/8"), ip_address("10.0.0.1"), dev="eth0", metric=50)
section = hr.StaticRoutesConfig(enabled=True, routes=(route,))
assert_type(config._replace(static_routes=section), hr.HostRoutingConfig)
hr.StaticRoute(route.destination, gatway=None)  # type: ignore[call-arg]
hr.StaticRoute("10.0.0.0/8")  # type: ignore[arg-type]
hr.HostRoutingConfig(section.routes)  # type: ignore[arg-type]
config._replace(static_route=section)  # type: ignore[call-arg]
config.static_routes = section  # type: ignore[misc]

# The tasks, on any host.
host = hr.Host.local()
assert_type(
    phases.execute(hr.ConfigureStaticRoutes(config, host=host)), hr.CheckResult | phases.Skip
)
assert_type(
    phases.run(
        phases.serial(hr.Configure(config), phases.when(lambda _: True, hr.Remove(host=host)))
    ),
    phases.Step,
)
hr.Configure("agent.json")  # type: ignore[arg-type]
hr.Configured()  # type: ignore[attr-defined]
hr.Configure(config, host=hr.Host.local)  # type: ignore[arg-type]

# Conclusions, from values to values.
snapshot = hr.Snapshot.from_json("{}")
fib = Fib(snapshot, 4)
assert_type(fib.lookup(ip_address("172.16.0.1")), Decision)
hr.Route.to("10.0.0.0/8", metrc=7)  # type: ignore[call-arg]
hr.Snapshot((), (), default_rules(4), (hr.Route(Prefix.parse("10.0.0.0/8"), (NextHop("eth0"),)),))
report = hr.check_snapshot(snapshot, config)
assert_type(report.verdict, Verdict)
assert_type(report.escapes, tuple[Escape, ...])
assert_type(hr.check_findings(report, mode="WARN"), tuple[hr.Finding, ...])
assert_type(hr.check_findings(report, mode="WARN")[0].remedy, Remedy | None)
assert_type(find_status(hr.Host.local()), HostStatus)
plan = plan_static_routes(config, snapshot)
assert_type(plan, RoutePlan)


# A kernel.
def use(backend: hr.RouteBackend, change: RouteRequest) -> Iterator[object]:
    """What each verb takes and returns."""
    yield assert_type(backend.snapshot(), hr.Snapshot)
    yield assert_type(backend.lookup([ip_address("172.16.0.1")]), tuple[Answer, ...])
    yield assert_type(hr.check_kernel(backend, config), CheckReport)
    yield assert_type(backend.change([change]), tuple[Outcome, ...])
    done: list[RouteRequest] = []
    apply_plan(plan, backend, before=snapshot, done=done)


use(hr.NetlinkBackend(), RouteRequest("add", hr.Route.to("10.0.0.0/8")))

# Many nodes.
results = fleet.check_snapshots("nodes", config, ThreadPoolExecutor())
assert_type(results, "Iterator[tuple[str, fleet.NodeProblem]]")
groups = fleet.group_nodes(results)
assert_type(groups, dict[fleet.NodeProblem, list[str]])
fleet.check_snapshots("nodes")  # type: ignore[call-arg]  # no configuration, no executor
