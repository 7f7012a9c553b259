# Copyright (c) The hostrouting developers
# SPDX-License-Identifier: MIT
"""What the actions of this collection share: the configuration, and a program that runs on the node.

Here: what both need from Ansible. Not here: the meaning of what the program prints (`hostrouting.fleet`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

try:
    from hostrouting import ConfigError, HostRoutingConfig
    from hostrouting.fleet import Ran
except ImportError as error:
    MISSING: ImportError | None = error
else:
    MISSING = None

CONFIG_ARGUMENTS: dict[str, Any] = {"config": {"type": "dict"}, "config_file": {"type": "path"}}
CONFIG_EXCLUSIVE = [("config", "config_file")]


class NodeAction(ActionBase):
    """An action that works on the controller and runs one program at a time on the node."""

    TRANSFERS_FILES = False

    def require_hostrouting(self) -> None:
        """Fail if the Python that runs Ansible has no hostrouting."""
        if MISSING is not None:
            raise AnsibleActionFail(
                f"the Python that runs Ansible on the controller cannot import hostrouting ({MISSING}); install it"
                f" there: {sys.executable} -m pip install hostrouting"
            )

    def config_of(self, arguments: Mapping[str, Any]) -> HostRoutingConfig:
        """The configuration in the arguments, checked; an empty one if there is none."""
        mapping, path = arguments.get("config"), arguments.get("config_file")
        try:
            if path is not None:
                found = self._find_needle("files", path)
                decrypted = self._loader.get_real_file(found)
                try:
                    return HostRoutingConfig.from_json(Path(decrypted).read_bytes(), source=found)
                finally:  # of an encrypted file, this is a copy that is not encrypted
                    self._loader.cleanup_tmp_file(decrypted)
            return HostRoutingConfig.from_json(json.dumps(_plain(mapping or {})), source="config")
        except ConfigError as error:
            raise AnsibleActionFail(str(error)) from error

    def run_on_node(self, command: str, given: str | bytes = "", *, sudoable: bool = True) -> Ran:
        """Run a shell command on the node with this standard input; the task's environment is its environment."""
        if not self._connection.has_pipelining:
            raise AnsibleActionFail(
                f"the connection plugin {self._connection.transport} cannot give a program its standard input, which"
                " this needs; use ssh, local, or another plugin that supports pipelining"
            )
        if environment := self._compute_environment_string().strip():
            command = f"export {environment}; {command}"
        # With an empty input, Ansible asks ssh for a terminal, which mixes the two outputs of the program.
        data = (given.encode() if isinstance(given, str) else given) or b"\n"
        done = self._low_level_execute_command(command, in_data=data, sudoable=sudoable)
        return Ran(done["rc"], _from_the_document(done["stdout"]), done["stderr"])


def _plain(value: Any) -> Any:
    """The same value of Python's own types; Ansible marks the values of a task with types of its own."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    return str(value)


def _from_the_document(output: str) -> str:
    """The output without the lines before its JSON: the start file of a shell may have printed them."""
    _, found, rest = f"\n{output}".partition("\n{")
    return f"{{{rest}" if found else output
