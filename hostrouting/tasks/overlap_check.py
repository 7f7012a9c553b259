"""CheckRouteOverlap: the check that every address of the expected CIDRs leaves through an expected
device.
"""

from __future__ import annotations

from hostrouting.install.install import STEPS
from hostrouting.tasks.task import InstallTask


class CheckRouteOverlap(InstallTask):
    """Check that every address of the expected CIDRs leaves through an expected device, now and at
    gated starts.

    In WARN an overlap is logged; in STRICT it raises RouteOverlapError. Other programs read the
    result in the markers under /run. If no marker can be written, that is only a warning.
    """

    name = STEPS["route_overlap"]
    section = "route_overlap"
    parts = ("route_overlap",)
