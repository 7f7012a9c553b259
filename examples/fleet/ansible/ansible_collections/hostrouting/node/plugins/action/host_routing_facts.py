# Copyright (c) The hostrouting developers
# SPDX-License-Identifier: MIT
"""Takes the snapshot of a node with a shell script, and checks it on the controller.

The documentation of the module is in plugins/modules/host_routing_facts.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.hostrouting.node.plugins.plugin_utils.node_action import (
    CONFIG_ARGUMENTS,
    CONFIG_EXCLUSIVE,
    NodeAction,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

ARGUMENTS: dict[str, Any] = {
    "argument_spec": {**CONFIG_ARGUMENTS, "snapshot": {"type": "bool", "default": False}},
    "mutually_exclusive": CONFIG_EXCLUSIVE,
}


class ActionModule(NodeAction):
    """The action of `host_routing_facts`."""

    def run(self, tmp: str | None = None, task_vars: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run the script on the node; return the facts."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(**ARGUMENTS)
        self.require_hostrouting()
        from hostrouting.boot.scripts import render_snapshot_script
        from hostrouting.fleet import routing_facts

        found = routing_facts(self.run_on_node("sh", render_snapshot_script()), self.config_of(arguments))
        result.update(changed=False, failed=found.failed, msg=found.message, verdict=found.verdict)
        if not found.failed:
            facts = {"message": found.message, "verdict": found.verdict, "check": found.check}
            if arguments["snapshot"]:  # thousands of these fill the memory of the controller
                facts["snapshot"] = found.snapshot
            result["ansible_facts"] = {"host_routing": facts}
            result["_ansible_verbose_override"] = True  # with -v, Ansible does not print the facts
        return result
