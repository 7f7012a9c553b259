"""A callback of Ansible for tests: appends the result of each task on each node to the file in RECORDER_FILE, as JSON."""

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    """The callback."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "recorder"

    def _record(self, status: str, told: Any) -> None:
        found = {"node": told._host.get_name(), "task": told._task.get_name(), "status": status}
        with open(os.environ["RECORDER_FILE"], "a", encoding="utf-8") as stream:
            stream.write(json.dumps({**found, "result": told._result}, default=str) + "\n")

    def v2_runner_on_ok(self, result: Any) -> None:
        """The task succeeded."""
        self._record("ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:  # noqa: FBT001, FBT002  Ansible's
        """The task failed."""
        self._record("ignored" if ignore_errors else "failed", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """The node could not be reached."""
        self._record("unreachable", result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        """The task was skipped."""
        self._record("skipped", result)
