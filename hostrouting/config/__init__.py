"""The operator's configuration, section by section. What is known about CNIs is in
`hostrouting.config.cni`.
"""

from hostrouting.config.settings import (
    AzureVnetCleanupConfig,
    GateConfig,
    GateStep,
    GuardConfig,
    HostRoutingConfig,
    Mode,
    Network,
    ProbeRewriteConfig,
    RouteOverlapConfig,
    StaticRoute,
    StaticRoutesConfig,
)

__all__ = [
    "HostRoutingConfig",
    "StaticRoutesConfig",
    "StaticRoute",
    "RouteOverlapConfig",
    "ProbeRewriteConfig",
]
__all__ += ["AzureVnetCleanupConfig", "GateConfig", "GateStep", "GuardConfig", "Mode", "Network"]
