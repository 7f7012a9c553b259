"""The operator's configuration, fully checked: this module only lists the public names.

settings         the whole of it: the frozen classes, and reading and writing them: JSON, mapping, file
probe_rewrite    the section probeRewrite: classes and rules
azure_vnet       the section azureVnetCleanup: classes and rules
cni              the devices and the refusing routes of known CNIs, as tables
values           the rule for each single value
json             files, JSON objects and lists in general: paths, keys, faults; nothing about routing
"""

from hostrouting.config.azure_vnet import AzureVnetCleanupConfig, EbtablesChoice, StateFile
from hostrouting.config.cni import DEFAULT_ALLOWED_DEVS
from hostrouting.config.probe_rewrite import ImdsConfig, OnUnknown, ProbeCondition, ProbeRewriteConfig
from hostrouting.config.settings import (
    GateConfig,
    GuardConfig,
    HostRoutingConfig,
    IntendedRule,
    RouteOverlapConfig,
    StaticRoute,
    StaticRoutesConfig,
    needs_config,
)
from hostrouting.config.values import Mode, Upkeep

__all__ = [
    "AzureVnetCleanupConfig",
    "DEFAULT_ALLOWED_DEVS",
    "EbtablesChoice",
    "GateConfig",
    "GuardConfig",
    "HostRoutingConfig",
    "ImdsConfig",
    "IntendedRule",
    "Mode",
    "OnUnknown",
    "ProbeCondition",
    "ProbeRewriteConfig",
    "RouteOverlapConfig",
    "StateFile",
    "StaticRoute",
    "StaticRoutesConfig",
    "Upkeep",
    "needs_config",
]
