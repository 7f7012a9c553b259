"""systemd, the service manager of a host: what systemctl does for us, and why a unit failed."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from hostrouting.errors import HostError
from hostrouting.kernel.programs import (
    Ended,
    RunProgram,
    run_program,
    run_tool,
    tool_environment,
)
from hostrouting.text import command_of

_TURN_SYSTEMCTL_OFF = {"SYSTEMD_OFFLINE", "SYSTEMD_IN_CHROOT"}
"""Variables with which systemctl succeeds and does nothing. They are not passed on: a caller in a
chroot that has the /run of this machine is meant to reach its systemd, because an image is written
with `Host.offline`, which has no manager. In any other chroot `is_running` says no.
"""
# Without ignore-dependencies, a machine that was made to require our unit would be stopped or
# restarted with the unit. And a start must not wait for a target that may itself be waiting for the
# caller.
_OPTIONS = ("--no-ask-password", "--no-pager", "--job-mode=ignore-dependencies")
_EXIT_CODES = range(10)  # of a systemctl that ran to its end; a signal is a number below zero
_EXIT_NOT_LOADED = 5  # the exit code for a unit that does not exist
_TIMEOUT = 30.0  # seconds, for every command but a start; our units stop within 10
_NEVER = "n/a"  # a time that systemd has never set, as versions before 250 print it
_SUFFIXES = (
    ".service", ".socket", ".target", ".timer", ".path", ".mount", ".automount", ".swap",
    ".device", ".slice", ".scope",
)  # fmt: skip


def unit_failed(unit: str, *, result: str, status: str, lines: tuple[str, ...]) -> HostError:
    """Make the error for a unit that failed when it was started. `result` is systemd's word for the
    failure, `status` the exit status of the main process, and `lines` are from the unit's log.
    """
    printed = ""
    if lines:
        printed = f": {' | '.join(lines)}"
    reason = result
    if status != "0":  # 0 if the main process was not started, for example because the gate refused
        reason += f", exit status {status}"
    log = command_of("journalctl -u", unit)
    sentence = f"{unit} failed ({reason}){printed}; see `{log}`"
    return HostError(sentence, what="systemd", kind="unit-failed", target=unit, lines=lines)


class Manager(Protocol):
    """A service manager. Methods raise the HostError of `run_tool` if it does not answer. A unit
    without a suffix is a service, as for systemctl: `kubelet` is kubelet.service.
    """

    def is_running(self) -> bool:
        """Whether a manager runs; false for an image and in most containers."""

    def reload(self) -> None:
        """Make the manager read the unit files again (daemon-reload)."""

    def start(self, unit: str, *, timeout: float) -> None:
        """Start the unit and wait until it runs, or, if it is a oneshot, until it has ended.
        HostError after `timeout` seconds, or, with the reason and the output, if the unit fails.

        A unit that is active stays as it is: to restart it, stop it first. Units that depend on it
        are not touched. A unit that has reached its limit of starts is started, too. A start that
        systemd skips, because a condition of the unit is not met, is not an error.

        If the wait ends early, by the timeout or by Ctrl-C, the unit is stopped again, unless its
        start was already under way before this call.
        """

    def stop(self, unit: str) -> None:
        """Stop the unit, if it exists and runs. Units that require it are not touched."""

    def show(self, names: Sequence[str], *units: str) -> tuple[Mapping[str, str], ...]:
        """Read the properties with these names, as systemd prints them: one mapping for each unit.
        First come the units that are given by name, in their order, then the loaded units that
        match a pattern (`a@*.service`).

        A property such as ExecStart can have several commands: its value is all of them, separated
        by spaces. The value of a time that systemd has not set is empty.
        """

    def errors_of(self, unit: str, since: str) -> tuple[str, ...]:
        """Return the errors that say why the unit does not run. For a gated unit, these are the
        lines that its gate, the check before its start, has logged as errors; for a service of
        ours, the lines that the service has logged as errors.

        Only lines after the time `since` count, each once; the time is the value of a property such
        as ConditionTimestamp. No lines if `since` is empty, or if the journal does not answer.
        """


def unit_name(name: str) -> str:
    """The full name of a unit: a name without a suffix of systemd gets ".service". A pattern stays
    as it is. Only the known suffixes count, because a name itself may have a dot, as in
    systemd-nspawn@my.machine.
    """
    if name.endswith(_SUFFIXES) or "*" in name:
        return name
    return f"{name}.service"


class SystemdManager:
    """The systemd of this host."""

    def __init__(self, *, run: RunProgram = run_program) -> None:
        self._run_program = run

    def is_running(self) -> bool:
        """Whether systemd runs: only then this folder exists. systemctl is not asked, because
        without a manager it may succeed and do nothing.
        """
        return os.path.isdir("/run/systemd/system")

    def reload(self) -> None:
        self._run("daemon-reload")

    def start(self, unit: str, *, timeout: float) -> None:
        unit = unit_name(unit)
        [shown] = self.show(("ActiveState",), unit)
        before = shown["ActiveState"]
        if before in {"active", "reloading"}:
            return
        # A unit at its limit of starts (StartLimitBurst=) has failed, and needs reset-failed first.
        if before == "failed":
            self._run("reset-failed", unit)
        try:
            # `_run` accepts any exit code here, because `_failure` explains it better.
            started = self._run("start", unit, fine_codes=_EXIT_CODES, timeout=timeout)
        except BaseException:
            # After a timeout, a signal or Ctrl-C, systemctl no longer waits, but systemd goes on
            # with the start, so the unit is stopped. A start that was under way before this call is
            # left alone, because it is not ours, but the boot's or an operator's.
            if before != "activating":
                with suppress(HostError):
                    self.stop(unit)
            raise
        if started.code:
            raise self._failure(unit, started)

    def _failure(self, unit: str, started: Ended) -> HostError:
        """Make the error for a start that has failed, with the lines that say why: what the unit
        logged during this start, or else what systemctl printed. The unit's log does not count if
        the unit itself has not failed, for example because it is missing or its job was cancelled.
        """
        [failed] = self.show(("Result", "ExecMainStatus", "ConditionTimestamp"), unit)
        lines: tuple[str, ...] = ()
        if failed["Result"] != "success":
            # systemd checks a unit's conditions first, so this is when the start began.
            lines = self._journal(unit, failed["ConditionTimestamp"])
        if not lines:
            lines = (started.failure_output.strip(),)
        return unit_failed(
            unit, result=failed["Result"], status=failed["ExecMainStatus"], lines=lines
        )

    def stop(self, unit: str) -> None:
        self._run("stop", unit, fine_codes=(0, _EXIT_NOT_LOADED))

    def show(self, names: Sequence[str], *units: str) -> tuple[Mapping[str, str], ...]:
        text = self._run("show", "--all", "--property", ",".join(names), "--", *units).out
        shown: list[Mapping[str, str]] = []
        # A blank line separates two units. Each line is NAME=VALUE. A property with several
        # commands has a line for each command. If no unit matches, the text is empty.
        for lines_of_unit in filter(None, text.strip("\n").split("\n\n")):
            values: dict[str, list[str]] = {}
            for line in lines_of_unit.split("\n"):
                name, _, value = line.partition("=")
                # For a time that was never set, systemd before 250 prints "n/a", and later versions
                # print nothing.
                if value == _NEVER:
                    value = ""
                values.setdefault(name, []).append(value)
            shown.append({name: " ".join(values.get(name, ())) for name in names})
        return tuple(shown)

    def errors_of(self, unit: str, since: str) -> tuple[str, ...]:
        # Errors of the gate and of our services count. Other programs can log lines that look the
        # same, so two fields of the journal have to match. (For a unit of root whose command begins
        # with env, both match: its errors cannot be told from those of the gate.)
        #
        # _UID=0 leaves out what the unit's program logs as another user than root.
        #
        # SYSLOG_IDENTIFIER leaves out what a container prints: systemd-nspawn logs this as root.
        # The identifier is the first program of a command (the gate's is env), unless the unit has
        # SyslogIdentifier= (in our services: hostrouting).
        #
        # _COMM would miss lines: a busy journald reads some only after their process has ended, and
        # then stores no _COMM.
        return self._journal(
            unit_name(unit),
            since,
            "--priority=err",
            "_UID=0",
            "SYSLOG_IDENTIFIER=env",
            "SYSLOG_IDENTIFIER=hostrouting",
        )

    def _journal(self, unit: str, since: str, *options: str) -> tuple[str, ...]:
        """The last lines that the unit has logged since a time, each once (`Manager.errors_of`).
        `options` of journalctl can select fewer. No lines if the journal does not answer.
        """
        if not since:
            return ()
        # Without --sync, the last lines may not be in the journal yet. If --sync hangs or fails,
        # the query below reads what is there.
        with suppress(OSError):
            self._run_program("journalctl", "--sync", timeout=2.0)
        with suppress(OSError):
            text = self._run_program(
                "journalctl",
                "--no-pager",
                "--quiet",
                "--output=cat",
                "--lines=20",
                f"--since={since}",  # as systemctl has printed it, in the time zone of this process
                *options,
                # The InvocationID of the start would miss lines: a busy journald reads some only
                # after their process has ended, and then stores the unit with them, but no
                # InvocationID.
                f"_SYSTEMD_UNIT={unit}",
                timeout=_TIMEOUT,
            ).out
            # `since` has whole seconds. Several starts in one second can log the same refusal.
            return tuple(dict.fromkeys(filter(str.strip, text.splitlines())))
        return ()

    def _run(
        self,
        *arguments: str,
        fine_codes: Collection[int] = (0,),
        timeout: float = _TIMEOUT,
    ) -> Ended:
        """Run systemctl with these arguments. HostError if it cannot be run, or if its exit code is
        not one of `fine_codes`.
        """
        environment = tool_environment()
        # With one of these variables, systemctl does nothing, and still succeeds.
        for name in _TURN_SYSTEMCTL_OFF:
            environment.pop(name, None)
        # Without this one, systemctl does nothing where it suspects a chroot.
        environment["SYSTEMD_IGNORE_CHROOT"] = "1"
        return run_tool(
            "systemctl",
            *_OPTIONS,
            *arguments,
            purpose=" ".join(arguments),
            what="systemd",
            # If systemctl is missing, the error says "install the package", and then this text.
            package="systemd, or write into an image (the command render)",
            fine_codes=fine_codes,
            timeout=timeout,
            environment=environment,
            run=self._run_program,
        )
