# Copyright (c) The hostrouting developers
# SPDX-License-Identifier: MIT
"""Runs `hostrouting preflight` and `plan`, `apply` or `remove` on a node, and reports what it did.

The documentation of the module is in plugins/modules/host_routing.py.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible_collections.hostrouting.node.plugins.plugin_utils.node_action import (
    CONFIG_ARGUMENTS,
    CONFIG_EXCLUSIVE,
    NodeAction,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.fleet import Outcome, Ran

ARGUMENTS: dict[str, Any] = {
    "argument_spec": {
        **CONFIG_ARGUMENTS,
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "pyz": {"type": "path"},
        "program": {"type": "str", "default": "/usr/local/bin/hostrouting"},
        "wait": {"type": "float"},
        "timeout": {"type": "int", "default": 600},
    },
    "mutually_exclusive": CONFIG_EXCLUSIVE,
    "required_if": [("state", "present", ("config", "config_file"), True)],
}

_TIMED_OUT, _KILLED = 124, 137  # of timeout: the program ended after SIGTERM; it was killed, perhaps by timeout

_OLDEST = (3, 10)  # of Python on the node
_HERE, _VERSION = "hostrouting: here", "hostrouting: Python "
_EXECUTABLE, _WRITABLE = "hostrouting: executable", "hostrouting: writable"
_DIGEST = re.compile("[0-9a-f]{64}")

# Each answer is a line of its own, because the start file of a shell may print lines too.
_LOOK = f"""\
echo '{_HERE}'
{{python}} -c 'import sys; sys.stdout.write("{_VERSION}%d.%d\\n" % sys.version_info[:2])'
[ -f {{path}} ] && sha256sum <{{path}}
[ -x {{path}} ] && echo '{_EXECUTABLE}'
"""
_LOOK_AT_FOLDER = f"""\
it={{folder}}; until [ -e "$it" ]; do it=$(dirname "$it"); done; [ -d "$it" ] && [ -w "$it" ] && echo '{_WRITABLE}'
"""
# Reads a file from standard input, and puts it in place only if it arrived whole.
_RECEIVE = """\
umask 022; mkdir -p {folder} && new=$(mktemp {path}.XXXXXX) && {{
  cat >"$new" && [ "$(sha256sum <"$new")" = '{digest}  -' ] && chmod 755 "$new" && mv -f "$new" {path} ||
  {{ rm -f "$new"; exit 1; }}
}}"""


class NoPython(AnsibleActionFail):
    """The node has no Python that can run the program."""


def _unwritten(path: str, why: str) -> str:
    return (
        f"{path} could not be written on the node; {why}; name another path with program (in roll_out.yml, with"
        " hostrouting_program)"
    )


class ActionModule(NodeAction):
    """The action of `host_routing`."""

    def run(self, tmp: str | None = None, task_vars: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Bring the program to the node if needed, run it, and return the outcome."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(**ARGUMENTS)
        self.require_hostrouting()
        if not arguments["program"].startswith("/"):
            raise AnsibleActionFail(f"program: {arguments['program']!r} is not an absolute path on the node")
        config = self._with_guard(self.config_of(arguments), arguments)
        try:
            words, before, after = self._program(arguments, task_vars or {})
        except NoPython as error:
            return {**result, "changed": False, "failed": True, "python": False, "msg": str(error)}
        outcome = self._outcome(words, arguments, config)
        result.update(
            changed=outcome.changed or before != after,
            failed=outcome.failed,
            python=True,
            msg=outcome.message,
            verdict=outcome.verdict,
            steps=[dict(step) for step in outcome.steps if step["action"] != "keep"],
            findings=[dict(finding) for finding in outcome.findings],
            repair=[dict(route) for route in outcome.repair],
        )
        if outcome.warnings:
            result["warnings"] = list(outcome.warnings)
        if self._task.diff:
            result["diff"] = {"before": before + outcome.before, "after": after + outcome.after}
        return result

    @staticmethod
    def _with_guard(config: HostRoutingConfig, arguments: Mapping[str, Any]) -> HostRoutingConfig:
        """The configuration, where the service of the guard runs `program` unless it names another one.

        By itself, the program on the node cannot know it: it may run from a temporary copy.
        """
        import attrs

        from hostrouting import ConfigError

        if not config.guard.enabled or config.guard.program:
            return config
        try:
            return attrs.evolve(config, guard=attrs.evolve(config.guard, program=arguments["program"]))
        except ConfigError as error:
            raise AnsibleActionFail(f"program: the service of the guard cannot run this path: {error}") from error

    def _program(self, arguments: Mapping[str, Any], task_vars: Mapping[str, Any]) -> tuple[list[str], str, str]:
        """The words that start the program on the node, and its line in the difference, before and after.

        A dry run and a removal leave `program` as it is. If it is not the given one, they use a temporary copy.
        """
        path, pyz = arguments["program"], arguments["pyz"]
        if pyz is None:
            if self.run_on_node(f"test -x {shlex.quote(path)}").code:
                raise AnsibleActionFail(
                    f"the node has no program {path}; either set pyz to hostrouting.pyz on the controller, which is"
                    " then copied to that path, or set program to the path of hostrouting on the node"
                )
            return [path], "", ""
        content = Path(self._find_needle("files", pyz)).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        python = self._python(task_vars)
        dry, absent = self._task.check_mode, arguments["state"] == "absent"
        found = self._found(path, python, dry=dry and not absent)
        if digest in found and _EXECUTABLE in found:
            return [*python, path], f"file {path}\n", f"file {path}\n"
        difference = "not executable" if digest in found else "different"
        before = f"file {path} ({difference})\n" if any(_DIGEST.fullmatch(word) for word in found) else ""
        if not (dry or absent):
            self._send(content, digest, path)
            return [*python, path], before, f"file {path}\n"
        if not absent and _WRITABLE not in found:
            raise AnsibleActionFail(_unwritten(path, "its directory is read-only"))
        if self._connection._shell.tmpdir is None:
            self._make_tmp_path()
        folder = self._connection._shell.tmpdir
        copy = self._connection._shell.join_path(folder, "hostrouting.pyz")
        self._send(content, digest, copy, sudoable=False)
        self._fixup_perms2([folder, copy], execute=False)
        return [*python, copy], before, before if absent else f"file {path}\n"

    def _found(self, path: str, python: list[str], *, dry: bool) -> frozenset[str]:
        """What is known about `program` on the node: its digest, and the words of _LOOK.

        Raises NoPython if this Python is too old or cannot be started.
        """
        folder = shlex.quote(path.rpartition("/")[0] or "/")
        look = _LOOK.format(path=shlex.quote(path), python=shlex.join(python))
        ran = self.run_on_node(look + (_LOOK_AT_FOLDER.format(folder=folder) if dry else ""))
        lines = [line.strip() for line in ran.output.splitlines()]
        if _HERE not in lines:  # for example, sudo refused
            raise AnsibleActionFail(f"a command could not be run on the node; it {ran.ending}")
        versions = [line.removeprefix(_VERSION) for line in lines if line.startswith(_VERSION)]
        if not versions or tuple(int(word) for word in versions[0].split(".")) < _OLDEST:
            name = shlex.join(python)
            what = f"{name} is Python {versions[0]}" if versions else f"{name} could not be started"
            raise NoPython(
                f"there is no Python {'.'.join(map(str, _OLDEST))} or newer on the node: {what}; install one, and"
                " name it with ansible_python_interpreter if it has another name"
            )
        return frozenset(line.removesuffix("  -") for line in lines)

    def _send(self, content: bytes, digest: str, path: str, *, sudoable: bool = True) -> None:
        """Write the file on the node, whole or not at all."""
        folder = shlex.quote(path.rpartition("/")[0] or "/")
        command = _RECEIVE.format(folder=folder, path=shlex.quote(path), digest=digest)
        sent = self.run_on_node(command, content, sudoable=sudoable)
        if sent.code:
            raise AnsibleActionFail(_unwritten(path, f"the command {sent.ending}"))

    def _python(self, task_vars: Mapping[str, Any]) -> list[str]:
        """The words that start Python on the node: what the operator has named, else what Ansible has found there."""
        named = constants.config.get_config_value("INTERPRETER_PYTHON", variables=task_vars)
        named = str(self._templar.template(named))
        if not named.startswith("auto"):
            return shlex.split(named)
        return [str(task_vars.get("ansible_facts", {}).get("discovered_interpreter_python") or "python3")]

    def _outcome(self, words: list[str], arguments: Mapping[str, Any], config: HostRoutingConfig) -> Outcome:
        """Run the commands, and read what they print."""
        from hostrouting.fleet import outcome_of

        dry = self._task.check_mode
        if arguments["state"] == "absent":
            options = ["--dry-run"] if dry else []
            return outcome_of({"remove": self._ran("remove", words, options, arguments, config)})
        allow = "--allow-removal"  # that is asked of a person; the playbook has decided
        options = [allow] if arguments["wait"] is None else [allow, "--wait", f"{arguments['wait']:g}"]
        ran: dict[str, Ran] = {}
        if dry:
            ran["preflight"] = self._ran("preflight", words, [allow], arguments, config)
        if dry or self._task.diff:
            ran["plan"] = self._ran("plan", words, options, arguments, config)
            planned = outcome_of(ran)
            if dry or not planned.documents:  # if plan fails, apply would fail too
                return planned
        ran["apply"] = self._ran("apply", words, options, arguments, config)
        return outcome_of(ran)

    def _ran(
        self,
        command: str,
        words: list[str],
        options: list[str],
        arguments: Mapping[str, Any],
        config: HostRoutingConfig,
    ) -> Ran:
        """Run one command of the program on the node, with the configuration as its standard input."""
        limit = ["timeout", "-k", "10", str(arguments["timeout"])]
        typed = shlex.join([*limit, *words, command, "--config", "-", *options, "--json"])
        started = time.monotonic()
        try:
            ran: Ran = self.run_on_node(typed, config.to_json(indent=None))
        except AnsibleConnectionFailure as error:
            if command == "plan" or self._task.check_mode:
                raise
            raise AnsibleConnectionFailure(
                f"the connection was lost while 'hostrouting {command}' ran on the node, so it is not known what it"
                f" did there; to see it, run the play again with --check --diff: {error}"
            ) from error
        late = time.monotonic() - started >= arguments["timeout"]
        if ran.code == _TIMED_OUT or (ran.code == _KILLED and late):
            raise AnsibleActionFail(
                f"'hostrouting {command}' did not end within {arguments['timeout']} s on the node, and was stopped;"
                " run 'hostrouting status' there, or give it more seconds with timeout"
            )
        return ran
