"""Configurations: reading one with many routes, beside the least that any program would do with it."""

import json
from ipaddress import ip_address, ip_network

from hostrouting.config.settings import HostRoutingConfig
from tests.benchmarks.contest import Contest, Goal
from tests.benchmarks.private import GATEWAY
from tests.benchmarks.turns import in_turn
from tests.benchmarks.workload import equal_routes

__all__ = ["configuration_contest"]

_OURS, _PARSED = "HostRoutingConfig.from_json", "json and ipaddress, unchecked"


def configuration_contest() -> Contest:
    """1,000 routes, each with all of its keys."""
    routes = [
        {"destination": str(route.prefix), "gateway": GATEWAY[4], "dev": "eth0", "metric": route.metric}
        for route in equal_routes(1_000)
    ]
    text = json.dumps({"staticRoutes": {"enabled": True, "routes": routes}})

    def parsed() -> None:
        for route in json.loads(text)["staticRoutes"]["routes"]:
            ip_network(route["destination"])
            ip_address(route["gateway"])

    methods = {_OURS: lambda: HostRoutingConfig.from_json(text), _PARSED: parsed}
    return Contest("read a configuration of 1,000 routes", in_turn(methods, rounds=15), (Goal(_OURS, 3, _PARSED),))
