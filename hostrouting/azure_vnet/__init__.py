"""What azure-vnet left behind for pods that another CNI manages now, and which of it may go. Values in, values out.

cleanup      facts about a host make a plan: what is stale, what stays, each with its reason
plan         that plan as a value, and as plain values
saved_rules  the text of ebtables-save, and the rules in it that azure-vnet makes for a pod
state_file   azure-vnet's own list of pods
conflist     whether the CNI configuration says that azure-vnet is active
undo_file    what was deleted, as commands that bring it back
"""

from hostrouting.azure_vnet.cleanup import Facts, azure_bridges, plan_cleanup
from hostrouting.azure_vnet.conflist import active_file
from hostrouting.azure_vnet.plan import CleanupPlan, Deletion, Kept, Kind
from hostrouting.azure_vnet.saved_rules import NotAPodRule, PodRule, SavedRule, SavedRules, pod_rule, read_saved
from hostrouting.azure_vnet.state_file import Endpoint, StateFileUnreadable, read_state
from hostrouting.azure_vnet.undo_file import UndoLog

__all__ = [
    # what is stale
    "CleanupPlan",
    "Deletion",
    "Facts",
    "Kept",
    "Kind",
    "azure_bridges",
    "plan_cleanup",
    # what a host says
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
    # the way back
    "UndoLog",
]
