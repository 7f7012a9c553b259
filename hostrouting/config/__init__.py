"""The operator's configuration, section by section. What is known about CNIs is in
`hostrouting.config.cni`.
"""

from hostrouting.config.settings import (
    AzureVnetCleanupConfig,
    GateConfig,
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
__all__ += ["AzureVnetCleanupConfig", "GateConfig", "GuardConfig", "Mode", "Network"]
