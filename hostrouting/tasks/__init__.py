"""The tasks: what an agent puts into its pipeline. Each reads like its own description; the work is done below.

All of them are idempotent, may be cancelled at any moment, and are serialised by a lock on the host.

configure       Configure (all of them, in order) and Remove
static_routes   ConfigureStaticRoutes
overlap_check   CheckRouteOverlap
probe_rewrite   RewriteProbeSource
results         what they return, and what their plans are
boot            what the manager is told
"""

from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.tasks.results import CheckResult, Preview, ProbeResult, RoutesResult, Standing
from hostrouting.tasks.static_routes import ConfigureStaticRoutes, wanted_routes

__all__ = [
    "CheckResult",
    "CheckRouteOverlap",
    "Configure",
    "ConfigureStaticRoutes",
    "Preview",
    "ProbeResult",
    "Remove",
    "RewriteProbeSource",
    "RoutesResult",
    "Standing",
    "wanted_routes",
]
