"""The tasks: what an agent puts into its pipeline. Each reads like its own description; the work is done below.

All of them are idempotent, may be cancelled at any moment, and are serialised by a lock on the host.

configure       Configure (all of them, in order) and Remove
static_routes   ConfigureStaticRoutes
overlap_check   CheckRouteOverlap
probe_rewrite   RewriteProbeSource
preflight       Preflight, which finds beforehand what would fail
azure_cleanup   CleanStaleAzureVnet, and UndoAzureVnetCleanup; Configure runs neither
results         what they return, and what their plans are
boot            what the manager is told
"""

from hostrouting.own_phases import require_own_phases

require_own_phases()

from hostrouting.tasks.azure_cleanup import CleanStaleAzureVnet, UndoAzureVnetCleanup  # noqa: E402  not with a foreign phases
from hostrouting.tasks.configure import Configure, Remove  # noqa: E402  not with a foreign phases
from hostrouting.tasks.overlap_check import CheckRouteOverlap  # noqa: E402  not with a foreign phases
from hostrouting.tasks.preflight import Preflight  # noqa: E402  not with a foreign phases
from hostrouting.tasks.probe_rewrite import RewriteProbeSource  # noqa: E402  not with a foreign phases
from hostrouting.tasks.results import (  # noqa: E402  not with a foreign phases
    CheckResult,
    CleanupResult,
    PreflightResult,
    Preview,
    ProbeResult,
    RoutesResult,
    Standing,
    UndoResult,
)
from hostrouting.tasks.static_routes import ConfigureStaticRoutes, wanted_routes  # noqa: E402  not with a foreign phases

__all__ = [
    "CheckResult",
    "CheckRouteOverlap",
    "CleanStaleAzureVnet",
    "CleanupResult",
    "Configure",
    "ConfigureStaticRoutes",
    "Preflight",
    "PreflightResult",
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
