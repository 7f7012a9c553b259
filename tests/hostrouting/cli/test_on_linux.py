"""The command line as a process, on a private machine: its own network, /etc, /run and /var/lib, on
this kernel.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostrouting.check.check import check_kernel
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.files import LocalFiles
from hostrouting.host.layout import HostLayout
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.testing import h200
from tests.support.commands import commands_of
from tests.support.compiled import compiled_program
from tests.support.inside import CommandLines
from tests.support.namespace import Namespace
from tests.support.programs import completed, modules_loaded_by
from tests.support.tasks import CIDR, LAYOUT, REPAIR, document

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

H200 = commands_of(h200())
PROGRAM = (sys.executable, "-m", "hostrouting")
NOT_FOR_A_CHECK = {
    *("attrs", "dataclasses", "difflib", "hashlib", "importlib.resources", "inspect", "logging"),
    *("shutil", "subprocess", "tempfile", "threading", "zipfile"),
    *("hostrouting.boot.program", "hostrouting.install.plan", "hostrouting.upkeep", "phases"),
}
"""What takes long to load, and a check does not need."""
# Anyone may read the library and the files of the test, wherever they are.
_READS = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
AS_ANYONE = ("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", *_READS)
# If the process of the test is killed, its end of the pipe is closed, and cat ends. Of /etc only
# the loader's cache and the links of Debian's alternatives, such as ebtables, are needed: hundreds,
# which are mounted, because to copy them takes longer than all the rest. /run is empty, so no
# systemd is found. Until then, the host's /etc is there.
SETUP = """
mount --bind /etc /run && mount -t tmpfs -o size=16m,mode=755 tmpfs /etc || exit
if [ -e /run/ld.so.cache ]; then
  cp /run/ld.so.cache /etc
fi
if [ -d /run/alternatives ]; then
  mkdir /etc/alternatives && mount -o bind,ro /run/alternatives /etc/alternatives || exit
fi
mount -t tmpfs -o size=1m,mode=755 tmpfs /run && mount -t tmpfs -o size=1m tmpfs /var/lib || exit
echo ready && exec cat
"""


class Machine(Namespace):
    """The network of the machine, as for any namespace, and `hostrouting` in the machine."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"/proc/{pid}/ns/net")
        self.root = f"/proc/{pid}/root"
        self.enter = ("nsenter", f"--target={pid}", "--net", "--mount")
        self.command_lines = CommandLines(pid)

    def _program(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        # Linux lets no process with several threads enter a mount namespace. `inside` and `sysctl`
        # need only the network.
        return completed([*self.enter, *words], **options)

    def hostrouting(self, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return self.command_lines.carry_out(words, {"PATH": os.environ["PATH"]}, text)

    def shell(self, script: str) -> str:
        done = self._program("bash", "-c", script, cwd="/", check=True)
        return done.stdout + done.stderr


@pytest.fixture
def machine() -> Iterator[Machine]:
    """An H200 node. It is removed at the end of the test, or when this process ends."""
    holder = subprocess.Popen(
        ["unshare", "--net", "--mount", "sh", "-c", SETUP],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        for name in ("net", "mnt"):
            entered = Path(f"/proc/{holder.pid}/ns/{name}").readlink()
            assert entered != Path(f"/proc/self/ns/{name}").readlink()
        machine = Machine(holder.pid)
        machine.forget_the_hosts_settings()
        machine.batch(H200)
        try:
            yield machine
        finally:
            machine.command_lines.close()
    finally:
        holder.kill()
        holder.communicate()


@pytest.fixture
def repaired(tmp_path: Path) -> str:
    """The file of a configuration that repairs the node, and is strict about it."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(document(*REPAIR, mode="STRICT")))
    return str(path)


def test_from_nothing_to_the_proof(machine: Machine, repaired: str) -> None:
    """Each command exits by what is so, and nothing is left at the end."""
    routes_before = machine.routes(4)
    files_before = machine.shell("find /etc -type f")
    for command, code in (("check", 1), ("apply", 0), ("plan", 0), ("check", 0)):
        assert machine.hostrouting(command, "--config", repaired).returncode == code, command
    status = machine.hostrouting("status")
    names = [line.split()[0].strip(":") for line in status.stdout.splitlines()]
    assert [name for name in names if name.isupper()] == ["DIFFERS", "OK"]
    assert status.stdout.startswith("DIFFERS: systemd does not run here")
    [answer] = machine.get(4, ["172.16.200.1"])
    assert not isinstance(answer, str)
    assert answer.devs == ("eth0",)

    machine.shell("chmod 777 /etc/hostrouting")
    status = machine.hostrouting("status")
    assert "users other than root can change /etc/hostrouting" in status.stdout
    machine.shell(f"chmod 755 /etc/hostrouting && rm {LAYOUT.unit_path(LAYOUT.check_unit)}")
    machine.shell("mount -o remount,ro /etc")
    status = machine.hostrouting("status")
    assert "/etc/hostrouting is on a read-only file system, so apply would fail" in status.stdout
    assert "To make this host right" not in status.stdout
    machine.shell("mount -o remount,rw /etc")
    assert "To make this host right" in machine.hostrouting("status").stdout

    assert machine.run(LAYOUT.program_path, "remove").returncode == 0, "it deletes itself first"
    assert machine.routes(4) == routes_before
    assert machine.shell("find /etc -type f") == files_before
    assert machine.shell("find /run -type f").split() == [HostLayout.lock_path]
    folders = machine.shell("find /etc -type d").split()
    units = HostLayout().unit_directory
    assert "/etc/hostrouting" not in folders
    assert f"{units}/systemd-nspawn@.service.d" not in folders
    assert units in folders, "it belongs to another package"


@pytest.mark.needs("systemctl")
def test_what_a_check_loads(machine: Machine, repaired: str) -> None:
    config_file = Path(f"{machine.root}{HostLayout.config_path}")
    config_file.parent.mkdir()
    config_file.write_text(Path(repaired).read_text())
    loaded = modules_loaded_by([*machine.enter, *PROGRAM, "check"])
    assert "hostrouting.kernel.netlink.backend" in loaded
    assert loaded & NOT_FOR_A_CHECK == set()


def test_not_root(machine: Machine, repaired: str) -> None:
    """Without root one can look; what would change the host says that it requires root."""
    # So that no command has to compile it.
    LocalFiles(machine.root).write(LAYOUT.program_path, compiled_program(), mode=0o755)
    for words, code in {f"check {CIDR}": 1, "status": 0}.items():
        assert machine.run(*AS_ANYONE, *PROGRAM, *words.split()).returncode == code, words
    done = machine.run(*AS_ANYONE, *PROGRAM, "apply", "--config", repaired)
    assert done.returncode == 3
    assert "run as root" in done.stdout


SET_BY_HAND = "\n  ".join(
    f"ip route add {half} metric 2048 via 10.0.0.1 dev eth0" for half in REPAIR
)


def test_what_is_printed_does_what_the_page_says(machine: Machine) -> None:
    """Nothing escapes after it was typed."""
    in_path = f"PATH={Path(sys.executable).parent}:$PATH"
    page = machine.shell(f"{in_path}\nhostrouting check {CIDR} || true")
    assert f"  {SET_BY_HAND}\n" in page
    said = machine.shell(SET_BY_HAND)
    with machine.inside(), NetlinkBackend() as kernel:
        of_check = HostRoutingConfig.from_mapping(document())
        assert check_kernel(kernel, of_check).verdict == "ok", said
