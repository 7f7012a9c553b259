"""ConfigureStaticRoutes: the static routes of the configuration, now and at every boot."""

from __future__ import annotations

from hostrouting.install.install import STEPS
from hostrouting.tasks.task import InstallTask


class ConfigureStaticRoutes(InstallTask):
    """Set the static routes of the configuration, now and at every boot, before any gated unit
    starts.

    A route without a gateway or a device uses those of the default route, for which the task waits.
    Either all routes are set or none. If another program has a route with the same destination and
    metric, RouteConflict is raised, and the route is not changed. Routes of hostrouting (protocol
    213) that are not configured any more are deleted.
    """

    name = STEPS["static_routes"]
    section = "static_routes"
    parts = ("static_routes",)
