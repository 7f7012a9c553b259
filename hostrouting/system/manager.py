"""The service manager of a host: systemd, spoken to by systemctl with an argument list and a time-out.

Here: what it is told, and what it says of a unit that failed. Not here: when it is told (`tasks`). The double is
`hostrouting.testing.FakeManager`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import attrs

from hostrouting.errors import ManagerError, UnitFailed
from hostrouting.system.programs import run_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hostrouting.system.programs import Run

__all__ = ["Manager", "SystemdManager", "UnitState"]

_DO_NOTHING = {"SYSTEMD_OFFLINE", "SYSTEMD_IN_CHROOT"}
# A machine that requires our unit, by whatever tie of its own, would be stopped or restarted with it; and a start waits
# for no target that may itself be waiting for whoever starts it.
_ALONE = "--job-mode=ignore-dependencies"
# A stop is cancelled when somebody starts the unit at that moment, as a machine does whose start waits for it.
_STOPS = 10


@attrs.frozen
class UnitState:
    """What the manager knows of a unit, in systemd's own words."""

    load: str
    active: str
    result: str = "success"
    status: int = 0
    invocation: str = ""

    @property
    def ok(self) -> bool:
        """Whether its last run ended well."""
        return self.result == "success" and self.status == 0


class Manager(Protocol):
    """A service manager. ManagerError when it does not answer."""

    def is_running(self) -> bool:
        """Whether there is one: not in an image, nor in most containers."""
        ...

    def reload(self) -> None:
        """Have it read the unit files anew."""
        ...

    def start(self, unit: str, *, timeout: float) -> None:
        """Start the unit anew and wait: of a oneshot, until it is done. UnitFailed has the reason and its own words.

        A run that goes on is ended first, not joined. Of the units that are tied to this one, none is touched.
        """
        ...

    def stop(self, unit: str) -> None:
        """Stop the unit; fine when it does not run, or is not there. Whoever requires it is not touched."""
        ...

    def state(self, unit: str) -> UnitState:
        """What it knows of the unit."""
        ...

    def show(self, names: Sequence[str], *units: str) -> tuple[Mapping[str, str], ...]:
        """These properties of each unit, in systemd's words; for a pattern (`a@*.service`), of each that is loaded.

        Without a unit, they are the manager's own, such as its Version. Several commands of one property are one after
        the other.
        """
        ...


class SystemdManager:
    """The systemd of this machine."""

    def __init__(self, *, timeout: float = 30.0, run: Run = run_program) -> None:
        """Wait so many seconds for an answer."""
        self._timeout = timeout
        self._program = run

    def is_running(self) -> bool:
        """See Manager. Where there is none, systemctl may succeed without doing anything."""
        return os.path.isdir("/run/systemd/system")

    def reload(self) -> None:
        """See Manager."""
        self._ask("daemon-reload")

    def start(self, unit: str, *, timeout: float) -> None:
        """See Manager."""
        # A start would join a run that goes on, and do nothing about a oneshot that remained active.
        try:
            code, words = self._run(_ALONE, "restart", unit, timeout=timeout)
        except BaseException:
            # A time-out, a signal, Ctrl-C: whatever ends a systemctl that waits, its job goes on.
            with suppress(ManagerError):
                self.stop(unit)
            raise
        if code:
            state = self.state(unit)
            raise UnitFailed(unit, result=state.result, status=state.status, words=self._journal(state) or (words,))

    def stop(self, unit: str) -> None:
        """See Manager."""
        words = ""
        for _ in range(_STOPS):
            code, words = self._run(_ALONE, "stop", unit)
            if code in {0, 5}:  # 5: there is no such unit
                return
        raise ManagerError(f"systemctl stop {unit}: {words}")

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
                known.setdefault(name, []).append(value)  # of several commands each has a line, of none there is none
            found.append({name: " ".join(known.get(name, ())) for name in names})
        return tuple(found)

    def _journal(self, state: UnitState) -> tuple[str, ...]:
        """The unit's own words in the run that failed."""
        if not state.invocation:
            return ()
        query = ["--no-pager", "--quiet", "--output=cat", "--lines=20", f"_SYSTEMD_INVOCATION_ID={state.invocation}"]
        said = ""
        # A unit's last words may be on their way to the journal still; where that hangs, they are done without.
        for words, limit in ((["--sync"], min(2.0, self._timeout)), (query, self._timeout)):
            with suppress(OSError):
                said = self._program("journalctl", *words, timeout=limit).out
        return tuple(line for line in said.splitlines() if line.strip())

    def _ask(self, *words: str) -> str:
        code, text = self._run(*words)
        if code:
            raise ManagerError(f"systemctl {' '.join(words)}: {text or f'exit code {code}'}")
        return text

    def _run(self, *words: str, timeout: float | None = None) -> tuple[int, str]:
        limit = self._timeout if timeout is None else timeout
        # With one of these, or where it takes this for a chroot, systemctl succeeds without doing anything.
        kept = {name: value for name, value in os.environ.items() if name not in _DO_NOTHING}
        environment = {**kept, "SYSTEMD_IGNORE_CHROOT": "1"}
        options = ("--no-ask-password", "--no-pager")
        try:
            done = self._program("systemctl", *options, *words, timeout=limit, environment=environment)
        except FileNotFoundError as error:
            raise ManagerError(
                "there is no systemctl here; install systemd, or write into an image (hostrouting render)"
            ) from error
        except TimeoutError as error:
            raise ManagerError(
                f"systemctl {' '.join(words)} did not answer within {limit:g} s; look at `systemctl list-jobs`"
            ) from error
        except OSError as error:
            raise ManagerError(f"systemctl cannot be run: {error.strerror}") from error
        if done.signal:
            raise ManagerError(f"systemctl {' '.join(words)} was ended by {done.signal}")
        return done.code, (done.err or done.out).strip() if done.code else done.out
