"""Agents: programs that run tasks on a booted system, of any distribution, and can be killed at any moment.

An agent enters all namespaces of the system. Then the files, the kernel, systemctl and the lock are the system's, through
the same edges as in production (`Host.local`). The template (template.py) forks one process that enters the system, and
that process forks an agent for each task.

Here: requests for agents (`agents`), and the program that enters the system. Not here: which task runs when (the tests).
"""

import logging
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe

import attrs

import hostrouting
import phases
from hostrouting.config.settings import HostRoutingConfig
from tests.support.systemd import System
from tests.support.template import enter


@attrs.frozen
class Outcome:
    """How an agent ended: the exit status, negative for a signal, and all its output."""

    returncode: int
    stdout: str


class Agent:
    """A task that is being run."""

    def __init__(self, crew: "Agents", pid: int) -> None:
        """Represent the forked process `pid`; the crew receives its outcome."""
        self._crew, self._pid = crew, pid

    def kill(self) -> None:
        """Kill it, as the kernel does when memory runs out; no effect if it has ended already."""
        self._crew.ask(("kill", self._pid))

    def wait(self, seconds: float = 120) -> Outcome:
        """Wait until it has ended."""
        return self._crew.outcome(self._pid, seconds)


class Agents:
    """The connection to the process that has entered a system and forks an agent for each task."""

    def __init__(self, connection: Connection) -> None:
        """Use this connection to the process."""
        self._connection = connection
        self._ended: dict[int, Outcome] = {}

    def begin(self, task: str, config: HostRoutingConfig, *, wait: float = 0) -> Agent:
        """Begin a task: Configure, ConfigureStaticRoutes, CheckRouteOverlap, Guard or Remove."""
        return Agent(self, self.ask(("run", task, config.to_json(), wait)))

    def ask(self, request: tuple[object, ...]) -> int:
        """Send a request; return the id of the process that it was about."""
        self._connection.send(request)
        while not (pid := self._heard(60)):
            pass
        return pid

    def outcome(self, pid: int, seconds: float) -> Outcome:
        """Wait until an agent has ended."""
        end = time.monotonic() + seconds
        while pid not in self._ended:
            self._heard(max(0.0, end - time.monotonic()))
        return self._ended.pop(pid)

    def _heard(self, seconds: float) -> int:
        """Receive one message: return the process id of an answer, or 0 if the message says that an agent has ended."""
        if not self._connection.poll(seconds):
            raise TimeoutError("the agents have not answered in time")
        kind, pid, *rest = self._connection.recv()
        if kind == "ended":
            self._ended[pid] = Outcome(*rest)
            return 0
        return int(pid)


@contextmanager
def agents(system: System) -> Iterator[Agents]:
    """Agents that can work on this system, until the block ends or the system reboots."""
    ours, theirs = Pipe()
    with ours:
        with theirs:
            enter(system.leader, _agents, theirs.fileno())
        if not ours.poll(60) or ours.recv() != "ready":
            raise RuntimeError("no agent could enter the system")
        yield Agents(ours)


def _agents(descriptor: int) -> None:
    connection = Connection(descriptor)
    connection.send("ready")
    with suppress(EOFError, ConnectionError):
        _serve(connection)


def _serve(connection: Connection) -> None:
    """Fork an agent for each task, and report how each ended, until the other side closes the connection."""
    running: dict[int, tuple[int, int]] = {}
    while True:
        ready = select.select([connection.fileno(), *running], [], [])[0]
        for handle in set(ready) & running.keys():
            pid, output = running.pop(handle)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.close(handle)
            os.lseek(output, 0, os.SEEK_SET)
            with os.fdopen(output, errors="replace") as stream:
                connection.send(("ended", pid, code, stream.read()))
        if connection.fileno() not in ready:
            continue
        kind, *request = connection.recv()
        if kind == "kill":
            (pid,) = request
            if pid in {it for it, _ in running.values()}:
                os.kill(pid, signal.SIGKILL)
        else:
            output = os.memfd_create("output")
            pid = os.fork()
            if not pid:
                _become_agent(output, *request)
            running[os.pidfd_open(pid)] = pid, output
        connection.send(("done", pid))


def _become_agent(output: int, name: str, settings: str, wait: float) -> None:
    """Run the task in this process, which was forked for it, and end."""
    code = 70  # the task did not even begin
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
        config = hostrouting.HostRoutingConfig.from_json(settings)
        more = {} if name in {"Guard", "Remove"} else {"wait": wait}
        task = getattr(hostrouting, name)(config, **more)
        report = phases.run(task)
        sys.stdout.write(f"{report}\n")
        code = report.exit_code
    except BaseException:  # noqa: BLE001  the caller is the forking process, which must not see it
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)
