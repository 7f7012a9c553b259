"""What azure-vnet left behind for pods that another CNI manages now, and what can be deleted. Values in, values out.

cleanup      what a host's files say about azure-vnet; what is stale, what is kept, each with its reason: the plan
saved_rules  parses the output of ebtables-save, and finds the rules that azure-vnet adds for a pod
undo         what was deleted, as commands that restore it
task         CleanStaleAzureVnet and UndoAzureVnetCleanup, which read the host, delete and restore
"""

from hostrouting.tasks.azure_vnet.cleanup import (
    CleanupPlan,
    Deletion,
    Endpoint,
    Facts,
    Kept,
    Kind,
    StateFileUnreadable,
    active_file,
    azure_bridges,
    plan_cleanup,
    read_state,
)
from hostrouting.tasks.azure_vnet.saved_rules import NotAPodRule, PodRule, SavedRule, SavedRules, pod_rule, read_saved
from hostrouting.tasks.azure_vnet.undo import UndoLog

__all__ = [
    # what is stale
    "CleanupPlan",
    "Deletion",
    "Facts",
    "Kept",
    "Kind",
    "azure_bridges",
    "plan_cleanup",
    # what a host's files contain
    "Endpoint",
    "NotAPodRule",
    "PodRule",
    "SavedRule",
    "SavedRules",
    "StateFileUnreadable",
    "active_file",
    "pod_rule",
    "read_saved",
    "read_state",
    # undo
    "UndoLog",
]
