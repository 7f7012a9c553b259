"""A private machine: its own network, /etc, /run and /var/lib, on this kernel."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hostrouting.testing import h200
from tests.support.commands import commands_of
from tests.support.inside import CommandLines
from tests.support.namespace import Namespace
from tests.support.programs import completed

ROOT = Path(__file__).resolve().parents[3]
H200 = commands_of(h200())
# If the process of the test is killed, its end of the pipe is closed, and cat ends. Of /etc only
# the loader's cache and the links of Debian's alternatives, such as ebtables, are needed: hundreds,
# which are mounted, because to copy them takes longer than all the rest. /run is empty, so no
# systemd is found. Until then, the host's /etc is there.
_SETUP = """
mount --bind /etc /run && mount -t tmpfs -o size=16m tmpfs /etc || exit
if [ -e /run/ld.so.cache ]; then
  cp /run/ld.so.cache /etc
fi
if [ -d /run/alternatives ]; then
  mkdir /etc/alternatives && mount -o bind,ro /run/alternatives /etc/alternatives || exit
fi
mount -t tmpfs -o size=1m tmpfs /run && mount -t tmpfs -o size=1m tmpfs /var/lib || exit
echo ready && exec cat
"""


class Machine(Namespace):
    """The network of the machine, as for any namespace, and `hostrouting` in the machine."""

    def __init__(self, pid: int) -> None:
        """Enter the namespaces of this process."""
        super().__init__(f"/proc/{pid}/ns/net")
        self.pid = pid
        self.enter = ("nsenter", f"--target={pid}", "--net", "--mount")
        self.command_lines = CommandLines(pid)

    def _program(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        # Linux lets no process with several threads enter a mount namespace. `inside` and `sysctl`
        # need only the network.
        return completed([*self.enter, *words], **options)

    def outside(self, path: str) -> Path:
        """The path of the same file outside the machine."""
        return Path(f"/proc/{self.pid}/root{path}")

    def command(self, *words: str) -> list[str]:
        """The command that runs a `hostrouting` command line in the machine."""
        return [*self.enter, sys.executable, "-m", "hostrouting", *words]

    def hostrouting(
        self, *words: str, before: tuple[str, ...] = (), text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command line in the machine; with `before`, as a new process of those words."""
        environment = {"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        if not before:
            return self.command_lines.carry_out(words, environment, text)
        return completed(
            [*self.enter, *before, sys.executable, "-m", "hostrouting", *words],
            env=environment,
            cwd="/",
            input=text,
        )

    def shell(self, script: str) -> str:
        """Run a bash script in the machine; return its output."""
        done = completed(
            [*self.enter, "bash", "-c", script],
            env={
                **os.environ,
                "LC_ALL": "C.UTF-8",
                "PYTHONPATH": str(ROOT),
                "PYTHON": sys.executable,
            },
            cwd="/",
            check=True,
        )
        return done.stdout + done.stderr


@contextmanager
def private_machine() -> Iterator[Machine]:
    """Create a machine. It is removed at the end of the block, or when this process ends."""
    holder = subprocess.Popen(
        ["unshare", "--net", "--mount", "sh", "-c", _SETUP],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert holder.stdout is not None
        if holder.stdout.readline() != "ready\n":
            raise RuntimeError("the private machine could not be created")
        assert Path(f"/proc/{holder.pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
        assert Path(f"/proc/{holder.pid}/ns/mnt").readlink() != Path("/proc/self/ns/mnt").readlink()
        machine = Machine(holder.pid)
        machine.forget_the_hosts_settings()
        try:
            yield machine
        finally:
            machine.command_lines.close()
    finally:
        holder.kill()
        holder.communicate()
