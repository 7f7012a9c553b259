"""The tasks, which an agent puts into its pipeline. They say what is done, in order; the modules below do the work.

All of them are idempotent, can be cancelled at any moment, and are serialised by a lock on the host.

configure       Configure (runs all tasks that are configured, in order) and Remove
static_routes   ConfigureStaticRoutes
overlap_check   CheckRouteOverlap
probe_rewrite   RewriteProbeSource
preflight       Preflight, which finds beforehand what would fail
guard_service   InstallGuard, which installs the service that runs Guard
guard           Guard, which keeps right what the others have installed
azure_cleanup   CleanStaleAzureVnet and UndoAzureVnetCleanup; Configure runs neither
results         what the tasks and their plans return
boot            their base class: the lock, the gate, and the run of the units
"""

from hostrouting.own_phases import require_own_phases

require_own_phases()

from hostrouting.tasks.azure_cleanup import CleanStaleAzureVnet, UndoAzureVnetCleanup  # noqa: E402  the check above comes first
from hostrouting.tasks.configure import Configure, Remove  # noqa: E402  the check above comes first
from hostrouting.tasks.guard import Guard, Orders  # noqa: E402  the check above comes first
from hostrouting.tasks.guard_service import InstallGuard  # noqa: E402  the check above comes first
from hostrouting.tasks.overlap_check import CheckRouteOverlap  # noqa: E402  the check above comes first
from hostrouting.tasks.preflight import Preflight  # noqa: E402  the check above comes first
from hostrouting.tasks.probe_rewrite import RewriteProbeSource  # noqa: E402  the check above comes first
from hostrouting.tasks.results import (  # noqa: E402  the check above comes first
    CheckResult,
    CleanupResult,
    GuardResult,
    PreflightResult,
    Preview,
    ProbeResult,
    RoutesResult,
    Standing,
    UndoResult,
)
from hostrouting.tasks.static_routes import (  # noqa: E402  the check above comes first
    ConfigureStaticRoutes,
    plan_static_routes,
    reply_destinations,
    wanted_routes,
)

__all__ = [
    "CheckResult",
    "CheckRouteOverlap",
    "CleanStaleAzureVnet",
    "CleanupResult",
    "Configure",
    "ConfigureStaticRoutes",
    "Guard",
    "GuardResult",
    "InstallGuard",
    "Orders",
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
    "plan_static_routes",
    "reply_destinations",
    "wanted_routes",
]
