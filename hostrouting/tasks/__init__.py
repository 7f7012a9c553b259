"""The tasks: what an agent puts into its pipeline. Each reads like its own description; the work is done below.

All of them are idempotent, may be cancelled at any moment, and are serialised by a lock on the host.

configure       Configure (all of them, in order) and Remove
static_routes   ConfigureStaticRoutes
overlap_check   CheckRouteOverlap
probe_rewrite   RewriteProbeSource
azure_cleanup   CleanStaleAzureVnet, and UndoAzureVnetCleanup; Configure runs neither
results         what they return, and what their plans are
boot            what the manager is told
"""

from hostrouting.tasks.azure_cleanup import CleanStaleAzureVnet, UndoAzureVnetCleanup
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.tasks.results import (
    CheckResult,
    CleanupResult,
    Preview,
    ProbeResult,
    RoutesResult,
    Standing,
    UndoResult,
)
from hostrouting.tasks.static_routes import ConfigureStaticRoutes, wanted_routes

__all__ = [
    "CheckResult",
    "CheckRouteOverlap",
    "CleanStaleAzureVnet",
    "CleanupResult",
    "Configure",
    "ConfigureStaticRoutes",
    "Preview",
    "ProbeResult",
    "Remove",
    "RewriteProbeSource",
    "RoutesResult",
    "Standing",
    "UndoAzureVnetCleanup",
    "UndoResult",
    "wanted_routes",
]
