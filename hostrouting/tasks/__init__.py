"""The tasks, which an agent puts into its pipeline. They say what is done, in order; the rooms below do the work.

All of them are idempotent, can be cancelled at any moment, and are serialised by a lock on the host.

configure       Configure (runs all tasks that are configured, in order) and Remove
static_routes   ConfigureStaticRoutes
overlap_check   CheckRouteOverlap
probe_rewrite   RewriteProbeSource
preflight       Preflight, which finds beforehand what would fail
guard           Guard, which keeps right what the others have installed, and InstallGuard, which installs its service
azure_vnet      CleanStaleAzureVnet and UndoCleanup; Configure runs neither
results         what the tasks and their plans return
base            their base class: the lock, the gate, and the run of the units
"""

from hostrouting.installation import require_own_phases

require_own_phases()

import phases  # noqa: E402  the check above comes first

TYPE_CHECKING = False  # as in the package above
if TYPE_CHECKING:
    from hostrouting.tasks.cleanup.azure_vnet import CleanStaleAzureVnet
    from hostrouting.tasks.cleanup.plan import CleanupEntry, CleanupFacts, CleanupPlan
    from hostrouting.tasks.cleanup.task import Cleanup, UndoCleanup
    from hostrouting.tasks.configure import Configure, Remove
    from hostrouting.tasks.guard.loop import Guard, Orders
    from hostrouting.tasks.guard.service import InstallGuard
    from hostrouting.tasks.overlap_check import CheckRouteOverlap
    from hostrouting.tasks.preflight import Preflight
    from hostrouting.tasks.probe_rewrite.task import RewriteProbeSource
    from hostrouting.tasks.results import (
        Change,
        CheckResult,
        CleanupResult,
        GuardResult,
        PreflightResult,
        ProbeResult,
        RoutesResult,
        Standing,
        UndoResult,
    )
    from hostrouting.tasks.static_routes import ConfigureStaticRoutes

__all__ = [
    "CheckResult",
    "CheckRouteOverlap",
    "CleanStaleAzureVnet",
    "Cleanup",
    "CleanupEntry",
    "CleanupFacts",
    "CleanupPlan",
    "CleanupResult",
    "Configure",
    "ConfigureStaticRoutes",
    "Guard",
    "GuardResult",
    "InstallGuard",
    "Orders",
    "Preflight",
    "PreflightResult",
    "Change",
    "ProbeResult",
    "Remove",
    "RewriteProbeSource",
    "RoutesResult",
    "Standing",
    "UndoCleanup",
    "UndoResult",
]

# The module of each name; it is imported when the name is first used, because a command needs few of them.
_HOMES = {
    "cleanup.azure_vnet": ("CleanStaleAzureVnet",),
    "cleanup.plan": ("CleanupEntry", "CleanupFacts", "CleanupPlan"),
    "cleanup.task": ("Cleanup", "UndoCleanup"),
    "configure": ("Configure", "Remove"),
    "guard.loop": ("Guard", "Orders"),
    "guard.service": ("InstallGuard",),
    "overlap_check": ("CheckRouteOverlap",),
    "preflight": ("Preflight",),
    "probe_rewrite.task": ("RewriteProbeSource",),
    "results": (
        "CheckResult",
        "CleanupResult",
        "GuardResult",
        "PreflightResult",
        "Change",
        "ProbeResult",
        "RoutesResult",
        "Standing",
        "UndoResult",
    ),
    "static_routes": ("ConfigureStaticRoutes",),
}

if not TYPE_CHECKING:  # if a type checker saw it, it would accept any name
    __getattr__ = phases.lazily(__name__, _HOMES, globals())


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
