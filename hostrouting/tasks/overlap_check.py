"""CheckRouteOverlap: the check that every address of the expected CIDRs leaves through an expected
device.
"""

from __future__ import annotations

from hostrouting.install.install import STEPS
from hostrouting.tasks.task import InstallTask


class CheckRouteOverlap(InstallTask):
    """Check that every address of the expected CIDRs leaves through an expected device, now and at
    gated starts.

    In WARN an overlap is logged; in STRICT it raises RouteOverlapError. The markers under /run tell
    other programs; if no marker can be written, this is logged as a warning, because only the
    routes decide.
    """

    name = STEPS["route_overlap"]
    section = "route_overlap"
    parts = ("route_overlap",)
