"""What the operator wrote, checked whole: the catalogue of the configuration, and no rule of its own.

settings         the frozen classes, and the doors in and out: JSON, mapping, file
probe_rewrite    the section of that name, whole: classes and rules
azure_vnet       the same for azureVnetCleanup
values           the rule of each single value
objects          JSON objects and lists in general: paths, keys, faults; knows nothing of routing
jsontext         text, bytes and files to JSON values
"""

from hostrouting.config.azure_vnet import (
    AzureVnetCleanupConfig,
    CleanupScope,
    EbtablesChoice,
    IfAzureVnetActive,
)
from hostrouting.config.probe_rewrite import ImdsConfig, OnUnknown, ProbeCondition, ProbeRewriteConfig
from hostrouting.config.settings import (
    HostRoutingConfig,
    RouteOverlapConfig,
    StaticRoute,
    StaticRoutesConfig,
    needs_config,
)
from hostrouting.config.values import DEFAULT_ALLOWED_DEVS, Mode

__all__ = [
    "AzureVnetCleanupConfig",
    "CleanupScope",
    "DEFAULT_ALLOWED_DEVS",
    "EbtablesChoice",
    "HostRoutingConfig",
    "IfAzureVnetActive",
    "ImdsConfig",
    "Mode",
    "OnUnknown",
    "ProbeCondition",
    "ProbeRewriteConfig",
    "RouteOverlapConfig",
    "StaticRoute",
    "StaticRoutesConfig",
    "needs_config",
]
