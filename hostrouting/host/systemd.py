"""systemd, the service manager of a host, and the units that it runs.

Here: the commands of systemctl, with an argument list and a timeout, and why a unit failed. Not here: when the commands
are run (`tasks`). The fake is `hostrouting.testing.FakeManager`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from hostrouting.errors import HostError
from hostrouting.kernel.programs import Run, run_program

_DO_NOTHING = {"SYSTEMD_OFFLINE", "SYSTEMD_IN_CHROOT"}
# Otherwise a machine whose administrator made it require our unit would be stopped or restarted with the unit. And a
# start must not wait for a target that may itself be waiting for the caller.
_ALONE = "--job-mode=ignore-dependencies"
# A stop job is cancelled if the unit is started at that moment, for example by the start of a machine.
_STOPS = 10


_SHOWN = 10  # lines of a unit's log in one message
_ROOM = 16  # MiB: with less in /run/systemd, systemd refuses a daemon-reload


def require_room(free: int) -> None:
    """Raise the HostError of a daemon-reload if so few bytes are free in /run/systemd that systemd refuses it."""
    if free < _ROOM << 20:
        sentence = f"systemd reads no new units with less than {_ROOM} MiB of free space in /run/systemd"
        raise HostError(
            f"{sentence}, which has {free >> 20} MiB; to see what fills it, run: du -xh /run | sort -h",
            what="systemd",
            kind="no-answer",
        )


def unit_failed(unit: str, *, result: str, status: int, words: Iterable[str]) -> HostError:
    """The error for a unit that was started and has failed: systemd's reason, the exit status, and its log lines."""
    lines = tuple(words)
    printed = f": {' | '.join(lines[-_SHOWN:])}" if lines else ""
    sentence = f"{unit} failed ({result}, exit status {status}){printed}; see `journalctl -u {unit}`"
    return HostError(sentence, what="systemd", kind="unit-failed", target=unit, lines=lines)


class UnitState(NamedTuple):
    """What the manager knows about a unit; the values are those of systemd."""

    load: str
    active: str
    result: str = "success"
    status: int = 0
    invocation: str = ""


class Manager(Protocol):
    """A service manager. Methods raise HostError if it does not answer."""

    def is_running(self) -> bool:
        """Whether a manager runs; false for an image and in most containers."""

    def reload(self) -> None:
        """Make the manager read the unit files again (daemon-reload)."""

    def require_room(self) -> None:
        """Raise the HostError of a `reload` that would be refused for lack of space; change nothing."""

    def start(self, unit: str, *, timeout: float) -> None:
        """Start the unit and wait; for a oneshot, until its end. HostError has the reason and the output.

        If the unit is running, that run is ended first. Units that depend on this unit are not touched.
        """

    def stop(self, unit: str) -> None:
        """Stop the unit, if it exists and runs. Units that require it are not touched."""

    def state(self, unit: str) -> UnitState:
        """The state of the unit; of one that does not exist, `load` is "not-found"."""

    def show(self, names: Sequence[str], *units: str) -> tuple[Mapping[str, str], ...]:
        """The given properties of each unit, as systemd prints them. A pattern (`a@*.service`) means the loaded units.

        If a property has several commands, the value is all of them, separated by spaces. Without a unit, the
        properties are those of the manager itself, such as Version.
        """


class SystemdManager:
    """The systemd of this host."""

    def __init__(self, *, timeout: float = 30.0, run: Run = run_program) -> None:
        """`timeout` is in seconds, for every command but a start."""
        self._timeout = timeout
        self._program = run

    def is_running(self) -> bool:
        """See Manager. Without a manager, systemctl may succeed and do nothing, so it is not asked."""
        return os.path.isdir("/run/systemd/system")

    def reload(self) -> None:
        """See Manager."""
        self._ask("daemon-reload")

    def require_room(self) -> None:
        """See Manager."""
        with suppress(OSError):
            found = os.statvfs("/run/systemd")
            require_room(found.f_bfree * found.f_bsize)

    def start(self, unit: str, *, timeout: float) -> None:
        """See Manager."""
        # `systemctl start` would join a run in progress, and would not run a oneshot that remained active.
        try:
            code, words = self._run(_ALONE, "restart", unit, timeout=timeout)
        except BaseException:
            # After a timeout, a signal or Ctrl-C, systemctl no longer waits, but systemd continues the job.
            with suppress(HostError):
                self.stop(unit)
            raise
        if code:
            state = self.state(unit)
            raise unit_failed(unit, result=state.result, status=state.status, words=self._journal(state) or (words,))

    def stop(self, unit: str) -> None:
        """See Manager."""
        words = ""
        for _ in range(_STOPS):
            code, words = self._run(_ALONE, "stop", unit)
            if code in {0, 5}:  # 5: the unit does not exist
                return
        raise HostError(f"systemctl stop {unit}: {words}", what="systemd", kind="no-answer")

    def state(self, unit: str) -> UnitState:
        """See Manager."""
        names = {
            "LoadState": "load",
            "ActiveState": "active",
            "Result": "result",
            "ExecMainStatus": "status",
            "InvocationID": "invocation",
        }
        [found] = self.show(tuple(names), unit)
        known = {field: found[name] for name, field in names.items() if found[name]}
        return UnitState(
            load=known.get("load", "not-found"),
            active=known.get("active", "inactive"),
            result=known.get("result", "success"),
            status=int(known.get("status", 0)),
            invocation=known.get("invocation", ""),
        )

    def show(self, names: Sequence[str], *units: str) -> tuple[Mapping[str, str], ...]:
        """See Manager."""
        text = self._ask("show", "--all", "--property", ",".join(names), "--", *units)
        found = []
        for block in filter(None, text.strip("\n").split("\n\n")):
            known: dict[str, list[str]] = {}
            for line in block.splitlines():
                name, _, value = line.partition("=")
                known.setdefault(name, []).append(value)  # a property has one line per command, and none if it has none
            found.append({name: " ".join(known.get(name, ())) for name in names})
        return tuple(found)

    def _journal(self, state: UnitState) -> tuple[str, ...]:
        """The output of the unit in the run that failed."""
        if not state.invocation:
            return ()
        query = ["--no-pager", "--quiet", "--output=cat", "--lines=20", f"_SYSTEMD_INVOCATION_ID={state.invocation}"]
        said = ""
        # The unit's last lines may not be in the journal yet. If the sync hangs, read the journal without them.
        for words, limit in ((["--sync"], min(2.0, self._timeout)), (query, self._timeout)):
            with suppress(OSError):
                said = self._program("journalctl", *words, timeout=limit).out
        return tuple(line for line in said.splitlines() if line.strip())

    def _ask(self, *words: str) -> str:
        code, text = self._run(*words)
        if code:
            raise HostError(
                f"systemctl {' '.join(words)}: {text or f'exit code {code}'}", what="systemd", kind="no-answer"
            )
        return text

    def _run(self, *words: str, timeout: float | None = None) -> tuple[int, str]:
        limit = self._timeout if timeout is None else timeout
        # With one of these variables, or if systemctl takes this for a chroot, it succeeds without doing anything.
        kept = {name: value for name, value in os.environ.items() if name not in _DO_NOTHING}
        environment = {**kept, "SYSTEMD_IGNORE_CHROOT": "1"}
        options = ("--no-ask-password", "--no-pager")
        try:
            done = self._program("systemctl", *options, *words, timeout=limit, environment=environment)
        except FileNotFoundError as error:
            raise HostError(
                "the program systemctl was not found; install systemd, or write into an image (hostrouting render)",
                what="systemd",
                kind="no-answer",
            ) from error
        except TimeoutError as error:
            raise HostError(
                f"systemctl {' '.join(words)} did not answer within {limit:g} s; see `systemctl list-jobs`",
                what="systemd",
                kind="no-answer",
            ) from error
        except OSError as error:
            raise HostError(f"systemctl cannot be run: {error.strerror}", what="systemd", kind="no-answer") from error
        if done.signal:
            raise HostError(
                f"systemctl {' '.join(words)} was killed by {done.signal}", what="systemd", kind="no-answer"
            )
        return done.code, done.complaint.strip() if done.code else done.out
