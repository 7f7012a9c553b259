"""node-problem-detector's custom plugin monitor in Python, because no package of it can be installed here.

Here: what NPD does with a configuration, in the order of its source. Each part names the function that shows it, in
kubernetes/node-problem-detector, as of August 2026. Not here: its own intervals, logs, metrics and the API server.

pkg/custompluginmonitor/types/config.go    defaults, and what keeps NPD from starting
pkg/custompluginmonitor/plugin/plugin.go   one run of one rule
pkg/custompluginmonitor/custom_plugin_monitor.go    from a result to conditions and events
pkg/util/exec_unix.go    the process group, and how it is killed
pkg/exporters/k8sexporter    what the node then has
"""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import attrs

__all__ = ["FOLDER", "PLUGIN", "Condition", "Event", "Fatal", "Npd", "Result", "seconds_of"]

FOLDER = Path(__file__).resolve().parents[2] / "examples/fleet/npd"
PLUGIN = (FOLDER / "hostrouting-npd.sh").read_text(encoding="utf-8")
"""The plugin."""

_BUFFER = 4096  # plugin.go: maxCustomPluginBufferBytes
_STATUS = {0: "False", 1: "True"}  # custom_plugin_monitor.go: toConditionStatus; anything else is Unknown
_SPACE = " \t\n\v\f\r\x85\xa0"  # what strings.TrimSpace takes away, of Latin-1
# time.ParseDuration
_DURATION = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class Fatal(Exception):  # noqa: N818  glog.Fatalf, which ends NPD
    """NPD would end at its start."""


@attrs.frozen
class Result:
    """One run of a rule: 0, 1, or 2 for unknown; and what NPD keeps of the output."""

    status: int
    message: str


@attrs.frozen
class Condition:
    """A condition of the node."""

    type: str
    status: str
    reason: str
    message: str


@attrs.frozen
class Event:
    """An event of the node."""

    severity: str
    reason: str
    message: str


def seconds_of(text: str) -> float:
    """A duration in Go's notation, such as 1m30s."""
    parts = _DURATION.findall(text)
    if not parts or "".join(parts) != text:
        raise Fatal(f"error in parsing {text!r}")
    return sum(float(part.rstrip("nuµmsh")) * _UNITS[part.lstrip("0123456789.")] for part in parts)


class Npd:
    """A custom plugin monitor with one configuration file, and the node that it reports to.

    If it runs in a container, `root` is the path of the container's root here, and `enter` are the words that start a
    program in it.
    """

    def __init__(self, text: str, *, root: str = "", enter: tuple[str, ...] = ()) -> None:
        """NewCustomPluginMonitorOrDie: read, fill in defaults, validate. Raises Fatal where NPD ends."""
        try:
            self.config: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise Fatal(f"failed to unmarshal: {error}") from error
        self._root, self._enter = root, enter
        settings = self.config.get("pluginConfig", {})
        # ApplyConfiguration
        self.timeout = seconds_of(settings.get("timeout", "5s"))
        self.interval = seconds_of(settings.get("invoke_interval", "30s"))
        self.most: int = settings.get("max_output_length", 80)
        self.concurrency: int = settings.get("concurrency", 3)
        skips: bool = settings.get("skip_initial_status", False)
        self.tells_changes: bool = settings.get("enable_message_change_based_condition_update", False)
        self.rules: list[dict[str, Any]] = self.config["rules"]
        self._validate()
        self.events: list[Event] = []
        # initializeConditions: each is False before any rule has run
        self.conditions = [
            Condition(condition["type"], "False", condition["reason"], condition["message"])
            for condition in self.config["conditions"]
        ]
        # sendInitialStatus
        self.told = () if skips else tuple(self.conditions)

    def _validate(self) -> None:
        """Validate, in config.go."""
        if self.config.get("plugin") != "custom":
            raise Fatal("only the plugin custom is supported")
        for rule in self.rules:
            if "timeout" in rule and seconds_of(rule["timeout"]) > self.timeout:
                raise Fatal(f"plugin timeout is greater than global timeout: {rule}")
        for rule in self.rules:
            if not os.path.exists(self._root + rule["path"]):
                raise Fatal(f"rule path {rule['path']} does not exist")
        known = {condition["type"] for condition in self.config["conditions"]}
        for rule in self.rules:
            if rule["type"] == "permanent" and rule.get("condition") not in known:
                raise Fatal(f"permanent problem {rule.get('condition')} does not have a default condition")

    def condition(self, kind: str) -> Condition:
        """The condition of the node with this type. It is an error if the node has none yet."""
        [found] = [it for it in self.told if it.type == kind]
        return found

    def tick(self) -> list[Result]:
        """runRules, then monitorLoop: run every rule, so many at a time, and report each result."""
        with ThreadPoolExecutor(self.concurrency) as pool:
            results = list(pool.map(self.run, self.rules))
        for rule, result in zip(self.rules, results, strict=True):
            self._report(rule, result)
            self.told = tuple(self.conditions)
        return results

    def run(self, rule: Mapping[str, Any]) -> Result:
        """Run, in plugin.go: one rule."""
        limit = min(seconds_of(rule.get("timeout", "1000h")), self.timeout)
        try:
            # util.Exec: a process group of its own
            process = subprocess.Popen(
                [*self._enter, rule["path"], *rule.get("args", ())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError:
            return Result(2, "Error in starting plugin. Please check the error log")
        assert process.stdout is not None
        assert process.stderr is not None
        output, timed_out = _read((process.stdout, process.stderr), limit)
        if timed_out:
            with contextlib.suppress(ProcessLookupError):  # util.Kill: the whole group
                os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        process.stdout.close()
        process.stderr.close()
        kept = output.strip(_SPACE.encode("latin-1"))
        if timed_out:
            state = f"exit status {code}" if code >= 0 else f"signal: {signal.Signals(-code).name[3:].lower()}"
            state = "signal: killed" if code == -signal.SIGKILL else state
            kept = f'Timeout when running plugin "{rule["path"]}": state - {state}. output - ""'.encode()
        # A message is bytes in Go: it is cut in the middle of a character.
        message = kept[: self.most].decode("utf-8", "surrogateescape")
        return Result(code if code in {0, 1} else 2, message)

    def _report(self, rule: Mapping[str, Any], result: Result) -> None:
        """See generateStatus."""
        if rule["type"] == "temporary":
            if result.status:  # 1, and also what is unknown
                self.events.append(Event("Warning", rule["reason"], result.message))
            return
        status = _STATUS.get(result.status, "Unknown")
        for place, now in enumerate(self.conditions):
            if now.type != rule["condition"]:
                continue
            usual = next(condition for condition in self.config["conditions"] if condition["type"] == now.type)
            if status == "True":
                changed = now.reason != rule["reason"] or (self.tells_changes and now.message != result.message)
                if now.status == "True" and not changed:
                    continue
                reason, message = rule["reason"], result.message
            elif status == now.status:
                continue
            else:
                reason, message = usual["reason"], usual["message"] if status == "False" else result.message
            self.conditions[place] = Condition(now.type, status, reason, message)
            # GenerateConditionChangeEvent
            told = f'Node condition {now.type} is now: {status}, reason: {reason}, message: "{message}"'
            self.events.append(Event("Warning" if status == "True" else "Normal", reason, told))


def _read(pipes: tuple[IO[bytes], IO[bytes]], limit: float) -> tuple[bytes, bool]:
    """See readFromReader: the first bytes of the first pipe; the rest is read and thrown away, until both are closed.

    Returns also whether that took too long. A process that was left behind keeps a pipe open.
    """
    end, kept, left = time.monotonic() + limit, b"", set(pipes)
    while left:
        ready, _, _ = select.select(list(left), [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return kept, True
        for pipe in ready:
            data = os.read(pipe.fileno(), 65536)
            if not data:
                left.discard(pipe)
            elif pipe is pipes[0]:
                kept = (kept + data)[:_BUFFER]
    return kept, False
