"""systemd, the service manager of a host: the units that it runs, and the messages of a service to it.

Here: the commands of systemctl, with an argument list and a timeout; why a unit failed; and systemd's two datagram
protocols, sd_notify and the journal's native one. Not here: when the commands are run, and what is said (`tasks`). The
fake is `hostrouting.testing.FakeManager`.

systemd tells a service by its environment where to report that it is ready and alive, and whether its lines belong in
the journal. Outside systemd, nothing is notified, and the lines go to the log of the run.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from hostrouting.errors import ManagerError, UnitFailed
from hostrouting.finding import Finding
from hostrouting.kernel.programs import Run, run_program

_DO_NOTHING = {"SYSTEMD_OFFLINE", "SYSTEMD_IN_CHROOT"}
# Otherwise a machine whose administrator made it require our unit would be stopped or restarted with the unit. And a
# start must not wait for a target that may itself be waiting for the caller.
_ALONE = "--job-mode=ignore-dependencies"
# A stop job is cancelled if the unit is started at that moment, for example by the start of a machine.
_STOPS = 10


_ROOM = 16  # MiB: with less in /run/systemd, systemd refuses a daemon-reload


def require_room(free: int) -> None:
    """Raise the ManagerError of a daemon-reload if so few bytes are free in /run/systemd that systemd refuses it."""
    if free < _ROOM << 20:
        sentence = f"systemd reads no new units with less than {_ROOM} MiB of free space in /run/systemd"
        raise ManagerError(f"{sentence}, which has {free >> 20} MiB; to see what fills it, run: du -xh /run | sort -h")


class UnitState(NamedTuple):
    """What the manager knows about a unit; the values are those of systemd."""

    load: str
    active: str
    result: str = "success"
    status: int = 0
    invocation: str = ""

    @property
    def ok(self) -> bool:
        """Whether the last run of the unit succeeded."""
        return self.result == "success" and self.status == 0


class Manager(Protocol):
    """A service manager. Methods raise ManagerError if it does not answer."""

    def is_running(self) -> bool:
        """Whether a manager runs; false for an image and in most containers."""

    def reload(self) -> None:
        """Make the manager read the unit files again (daemon-reload)."""

    def require_room(self) -> None:
        """Raise the ManagerError of a `reload` that would be refused for lack of space; change nothing."""

    def start(self, unit: str, *, timeout: float) -> None:
        """Start the unit and wait; for a oneshot, until its end. UnitFailed has the reason and the output.

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
            if code in {0, 5}:  # 5: the unit does not exist
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
            raise ManagerError(f"systemctl {' '.join(words)}: {text or f'exit code {code}'}")
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
            raise ManagerError(
                "the program systemctl was not found; install systemd, or write into an image (hostrouting render)"
            ) from error
        except TimeoutError as error:
            raise ManagerError(
                f"systemctl {' '.join(words)} did not answer within {limit:g} s; see `systemctl list-jobs`"
            ) from error
        except OSError as error:
            raise ManagerError(f"systemctl cannot be run: {error.strerror}") from error
        if done.signal:
            raise ManagerError(f"systemctl {' '.join(words)} was killed by {done.signal}")
        return done.code, done.complaint.strip() if done.code else done.out


# What a service tells

_JOURNAL = "/run/systemd/journal/socket"


class Line(NamedTuple):
    """One line for the journal: its text, its level (as in syslog), and fields to search by."""

    text: str
    level: int = 6
    fields: Mapping[str, str] = {}


class Service(Protocol):
    """The messages of a service to its manager. No method raises, and none blocks."""

    @property
    def watchdog(self) -> float | None:
        """The seconds within which `notify` has to be called again, or the manager restarts the service."""

    def notify(self, *assignments: str) -> None:
        """Send these assignments of sd_notify, such as READY=1."""

    def tell(self, line: Line) -> bool:
        """Write the line to the journal; False if there is none, and then the caller logs it."""


class NoService:
    """A run that no manager started: nothing is sent."""

    watchdog: float | None = None

    def notify(self, *assignments: str) -> None:
        """See Service."""

    def tell(self, _line: Line) -> bool:
        """See Service."""
        return False


class SystemdService(NamedTuple):
    """The service that systemd started, as the environment says."""

    notify_path: str = ""
    watchdog: float | None = None
    has_journal: bool = False
    """Whether standard error is the journal; only then its lines belong there."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> SystemdService:
        """The service that NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID and JOURNAL_STREAM describe."""
        seconds = None
        if environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            with suppress(KeyError, ValueError):
                seconds = int(environment["WATCHDOG_USEC"]) / 1e6
        return cls(
            environment.get("NOTIFY_SOCKET", ""), seconds, environment.get("JOURNAL_STREAM") == _standard_error()
        )

    def notify(self, *assignments: str) -> None:
        """See Service."""
        if self.notify_path:
            path = f"\0{self.notify_path[1:]}" if self.notify_path.startswith("@") else self.notify_path
            _send(path, "\n".join(assignments).encode())

    def tell(self, line: Line) -> bool:
        """See Service."""
        if not self.has_journal:
            return False
        fields = {"MESSAGE": line.text, "PRIORITY": str(line.level), "SYSLOG_IDENTIFIER": "hostrouting", **line.fields}
        return _send(_JOURNAL, b"".join(_field(name, text) for name, text in fields.items()))


def _standard_error() -> str:
    """Standard error, if it is what JOURNAL_STREAM names: a process may inherit the variable and write elsewhere."""
    try:
        found = os.fstat(2)
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def _field(name: str, text: str) -> bytes:
    """One field in the journal's native protocol, where a text of several lines follows its length."""
    data = text.encode(errors="backslashreplace")
    if b"\n" not in data:
        return name.encode() + b"=" + data + b"\n"
    return name.encode() + b"\n" + len(data).to_bytes(8, "little") + data + b"\n"


def _send(path: str, data: bytes) -> bool:
    import socket  # noqa: PLC0415  only a service sends anything, and every command loads this module

    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.settimeout(0)
        sender.sendto(data, path)
        return True
    return False


# The units in which kubelet runs, other than machines: of kubeadm and others, of k3s, and of RKE2.
_KUBELETS = ("kubelet.service", "k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service")


def find_ungated(manager: Manager | None, units: Collection[str]) -> tuple[Finding, ...]:
    """The kubelets that run under this manager and are not among the gated `units`. Nothing is changed."""
    found = () if manager is None else manager.show(("Id", "ActiveState"), *_KUBELETS)
    ungated = [one["Id"] for one in found if one["ActiveState"] == "active" and one["Id"] not in units]
    findings = []
    for unit in ungated:
        sentence = f"{unit} runs here and is not gated, so it starts whatever the routes are"
        # With each unit that is gated, because apply refuses a configuration that takes one out of the gate.
        names = ", ".join(f'"{name}"' for name in sorted({*units, unit}))
        remedy = f'to hold it back while the routing is wrong, the configuration needs "gate": {{"units": [{names}]}}'
        findings.append(Finding("not-gated", "note", sentence, unit, remedy))
    return tuple(findings)
