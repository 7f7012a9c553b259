"""A real systemd, booted in half a second on a temporary copy of this host's files, with machines.

It has its own namespaces, its files are on a tmpfs, and it ends with the block, even if the run is
killed. But no test may change what Linux has once for all namespaces: the clock, modules, sysctls.

Other versions of systemd boot from root file systems that `make roots` creates. HOSTROUTING_TREE
names the one to boot instead of this host's files; with several in HOSTROUTING_TREES, each test
that is marked `releases` boots one after the other. The command line of hostrouting runs with this
host's Python in all of them (inside.py); what it installs there is run by the tree's own.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from tests.support.inside import CommandLines
from tests.support.waiting import wait_for

PROJECT = Path(__file__).resolve().parents[2]

HOST_FOLDERS = (
    "/etc/hostrouting",
    "/etc/aks-flex-node",
    "/etc/systemd",
    "/run/aks-flex-node",
    "/run/hostrouting",
    "/var/lib/hostrouting",
)
"""The folders that no test may read or write on the host; a booted system has them empty."""

MASKED = ("modprobe@.service", "systemd-logind.service")
"""Units for modules and log-ins, which no test needs: they would make every boot longer."""

NEEDS = ("root", "systemd-nspawn")
"""What booting a systemd needs."""

MACHINE_SETTINGS = """\
[Exec]
Capability=all
PrivateUsers=no
SystemCallFilter=@keyring bpf

[Network]
VirtualEthernet=no

[Files]
BindReadOnly=/usr
"""


def trees() -> list[Path]:
    """The root file systems that HOSTROUTING_TREES names, with colons between them."""
    return [
        Path(tree).resolve() for tree in os.environ.get("HOSTROUTING_TREES", "").split(":") if tree
    ]


class System:
    def __init__(self, outer: subprocess.Popen[str], work: Path) -> None:
        self._outer, self._work = outer, work
        self.leader = 0
        """The process id of its systemd, in this process's namespace; 0 before the boot."""
        self.command_lines = CommandLines(self.leader)

    def lay(self, path: str, text: str, *, mode: int = 0o644) -> None:
        """Write a file, before the boot or later."""
        target = self.outside(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)

    def load(self, path: str, text: str) -> None:
        """Write a file of a unit, and have systemd read it."""
        self.lay(path, text)
        self.must("systemctl", "daemon-reload")

    def unload(self, path: str) -> None:
        """Remove a file of a unit, if it is there, and have systemd read what is left."""
        self.outside(path).unlink(missing_ok=True)
        self.must("systemctl", "daemon-reload")

    def link(self, path: str, target: str) -> None:
        place = self.outside(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    def add_machine(self, name: str) -> None:
        """Create a machine for `machinectl start`, with programs but without settings."""
        for directory in ("dev", "etc", "proc", "run", "sys", "tmp", "usr", "var", "root"):
            self.outside(f"/var/lib/machines/{name}/{directory}").mkdir(parents=True)
        for directory in ("bin", "sbin", "lib", "lib64"):
            self.link(f"/var/lib/machines/{name}/{directory}", f"usr/{directory}")
        etc = f"/var/lib/machines/{name}/etc"
        self.lay(f"{etc}/machine-id", "")
        self.lay(f"{etc}/os-release", "ID=test\n")
        self.lay(f"{etc}/passwd", "root:x:0:0:root:/root:/bin/sh\n")
        self.lay(f"{etc}/group", "root:x:0:\n")
        self.lay(f"{etc}/systemd/system-preset/00-nothing.preset", "disable *\n")
        # Its systemd starts no unit: whatever those did would be the distribution's work, and most
        # of a start's time.
        self.lay(f"{etc}/systemd/system/default.target", "[Unit]\nDefaultDependencies=no\n")
        self.lay(f"/etc/systemd/nspawn/{name}.nspawn", MACHINE_SETTINGS)

    def start(self, stdin: IO[str]) -> None:
        stdin.write("go\n")
        stdin.flush()
        self._await_boot(0)

    def run(
        self, *command: str, stdin: str = "", timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a program inside; the caller checks its exit status."""
        options: Any = {"capture_output": True, "text": True, "timeout": timeout, "input": stdin}
        # To start nsenter would cost as much as most programs.
        return self.command_lines.ask(partial(subprocess.run, command, **options))

    def must(self, *command: str) -> str:
        """The output of a program that must succeed."""
        done = self.run(*command)
        if done.returncode:
            raise AssertionError(
                f"{' '.join(command)} failed ({done.returncode}): {done.stdout}{done.stderr}"
            )
        return done.stdout

    def show(self, unit: str, name: str) -> str:
        return self.must("systemctl", "show", "--value", "-p", name, unit).strip()

    def journal(self, unit: str) -> str:
        """The log of a unit since the boot."""
        lines = f"journalctl --quiet --boot --output=cat --unit='{unit}'"
        return self.must("sh", "-c", f"journalctl --sync && exec {lines}")

    def read(self, path: str) -> str | None:
        """The text of a file; None if it does not exist."""
        place = Path(path)
        parts = [place, *place.parents[:-1]]
        if any(self.outside(str(part)).is_symlink() for part in parts):
            # Where an absolute link leads is not to be seen from outside.
            done = self.run("cat", path)
            return None if done.returncode else done.stdout
        with suppress(FileNotFoundError, NotADirectoryError):
            return self.outside(path).read_text()
        return None

    def reboot(self) -> None:
        """Shut the system down properly, and boot it again."""
        before = self.leader
        self.run("systemctl", "reboot")
        self._await_boot(before)

    def settled(self) -> None:
        self.run("systemctl", "is-system-running", "--wait")
        jobs = ("systemctl", "list-jobs", "--no-legend")
        wait_for("the jobs of systemd", lambda: self.must(*jobs) == "")

    def outside(self, path: str) -> Path:
        """The path of the same file outside the system."""
        if self.leader:
            return Path(f"/proc/{self.leader}/root{path}")
        return Path(f"/proc/{_children(self._outer.pid)[0]}/root{self._work}/root{path}")

    def _await_boot(self, before: int) -> None:
        def answers() -> bool:
            if self._outer.poll() is not None:
                raise RuntimeError(f"the system ended with status {self._outer.returncode}")
            leader = _descendant(self._outer.pid, "systemd")
            if leader in {0, before}:
                return False
            if leader != self.leader:
                self.command_lines.close()
                self.leader, self.command_lines = leader, CommandLines(leader)
            # Before this socket exists, systemctl cannot get an answer.
            if not self.outside("/run/systemd/private").exists():
                return False
            state = self.run("systemctl", "is-system-running").stdout.strip()
            return state not in {"", "offline", "unknown"}

        try:
            wait_for("systemd to answer", answers)
        except TimeoutError as error:
            console = Path(f"/proc/{_children(self._outer.pid)[0]}/root{self._work}/console")
            raise TimeoutError(
                f"{error}; its console:\n{console.read_text(errors='replace')[-4000:]}"
            ) from None


@contextmanager
def booted(
    files: Mapping[str, str], *, machines: tuple[str, ...], furnish: Callable[[str], None]
) -> Iterator[System]:
    """A system with these files on top of a tree; `furnish` gets its root before the boot."""
    work = Path(tempfile.mkdtemp(prefix="hostrouting-system-"))
    with _prepared(work) as outer:
        assert outer.stdin is not None
        system = System(outer, work)
        for unit in MASKED:
            system.link(f"/etc/systemd/system/{unit}", "/dev/null")
        for path, text in files.items():
            system.lay(path, text)
        for name in machines:
            system.add_machine(name)
        furnish(str(system.outside("/")))
        try:
            system.start(outer.stdin)
            yield system
        finally:
            system.command_lines.close()


@contextmanager
def _prepared(work: Path) -> Iterator[subprocess.Popen[str]]:
    """The process that boots a tree in this folder when told to, and is killed at the end."""
    script = PROJECT / "tests" / "support" / "boot_system.sh"
    command = ["setpriv", "--pdeathsig", "KILL"]
    command += ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    tree = os.environ.get("HOSTROUTING_TREE") or "/"
    command += [str(script), str(work), work.name, str(PROJECT), tree, *HOST_FOLDERS]
    outer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert outer.stdin is not None
    assert outer.stdout is not None
    try:
        if outer.stdout.readline() != "ready\n":
            raise RuntimeError(f"no system could be prepared (status {outer.wait(10)})")
        yield outer
    finally:
        outer.kill()
        outer.wait()
        outer.stdin.close()
        outer.stdout.close()
        work.rmdir()
        wait_for("the control groups to be gone", lambda: _is_cleared_away(work.name))


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(child) for child in children.split()]
    return []


def _descendant(pid: int, name: str) -> int:
    """The first descendant process with this name; 0 if there is none yet."""
    below = _children(pid)
    while below:
        pid = below.pop(0)
        with suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text() == f"{name}\n":
                return pid
        below += _children(pid)
    return 0


def _is_cleared_away(name: str) -> bool:
    """Remove the control groups of a system that has ended, unless a process is left."""
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    groups = [Path(words[4]) / name for words in lines if words[words.index("-") + 1] == "cgroup2"]
    for group in groups:
        for directory, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):
                Path(directory).rmdir()
    return not any(group.exists() for group in groups)
