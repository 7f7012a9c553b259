"""Nodes with a real sshd, each a private machine, and a controller with Ansible that reaches them over private links.

Here: the network, the daemons, and running Ansible. Not here: what the collection should do (tests/examples).
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs

from tests.support.machine import H200, ROOT, Machine, private_machine
from tests.support.namespace import Namespace, private_namespace
from tests.support.programs import completed
from tests.support.waiting import wait_for

EXAMPLE = ROOT / "examples/fleet/ansible"
PROGRAM = "/mnt/bin/hostrouting"
_SECONDS = 600  # for one run of Ansible

# /etc and /run are private already, and /mnt becomes so. Ansible logs in as a user without rights.
_SSHD = """
set -e
mount -t tmpfs -o size=20m tmpfs /mnt
mkdir -p /run/sshd /etc/ssh /etc/pam.d /mnt/home
chown 1000:1000 /mnt/home
cat >/etc/passwd <<'END'
root:x:0:0:root:/nonexistent:/bin/sh
admin:x:1000:1000:admin:/mnt/home:/bin/sh
sshd:x:100:65534::/run/sshd:/usr/sbin/nologin
END
printf 'root:x:0:\nadmin:x:1000:\n' >/etc/group
# Any user becomes root without a password.
for kind in auth account session; do echo "$kind sufficient pam_permit.so"; done >/etc/pam.d/su
ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/host
cat >/etc/ssh/config <<'END'
HostKey /etc/ssh/host
AuthorizedKeysFile /etc/ssh/authorized
PidFile none
UsePAM no
StrictModes no
PermitRootLogin no
UseDNS no
PrintMotd no
END
"""
# Every python of the system cannot be started in this machine any more.
_NO_PYTHON = 'for it in {paths}; do mount --bind /dev/null "$it"; done'


@attrs.frozen
class Node:
    """A machine with an sshd."""

    name: str
    address: str
    machine: Machine
    daemon: subprocess.Popen[bytes]

    def die(self) -> None:
        """End the sshd and everything that it has started."""
        self.daemon.kill()
        self.daemon.wait()

    def files(self) -> str:
        """The files of hostrouting on the node."""
        return self.machine.shell("find /etc/hostrouting /etc/systemd /etc/iproute2 -type f 2>/dev/null | sort; true")

    def left(self) -> str:
        """The files that Ansible, or the collection, has left on the node."""
        return self.machine.shell("find /mnt -type f | sort")

    def routes(self) -> list[str]:
        """The routes of hostrouting on the node."""
        return self.machine.ip("route", "show", "proto", "213").stdout.splitlines()


@attrs.frozen
class Task:
    """Ansible's result of a task on a node."""

    node: str
    task: str
    status: str
    result: Mapping[str, Any]


@attrs.frozen
class Played:
    """A run of Ansible that has ended."""

    code: int
    out: str
    tasks: tuple[Task, ...]

    def of(self, node: str, task: str = "") -> Task:
        """The result of this task on this node, or of the only one."""
        [found] = [it for it in self.tasks if it.node == node and task in {"", it.task}]
        return found

    def statuses(self, node: str) -> dict[str, str]:
        """The status of each task on this node, by its name."""
        return {task.task: task.status for task in self.tasks if task.node == node}


@attrs.frozen
class Controller:
    """Where Ansible runs: a copy of the example, in a network namespace that reaches the nodes."""

    network: Namespace
    folder: Path
    """The copy of examples/fleet/ansible, with an inventory of these nodes."""
    short: str
    """A directory with a short path: the path of a socket has at most 107 bytes."""
    nodes: Mapping[str, Node]

    def run(self, *words: str, **environment: str) -> Played:
        """Run a program of Ansible in the folder."""
        record = Path(self.short) / "record"
        record.write_text("")
        binaries = str(Path(sys.executable).parent)
        done = completed(
            [*self.network.enter, *words],
            cwd=self.folder,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "SSH_"))},
                "PATH": f"{binaries}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "ANSIBLE_HOME": f"{self.short}/home",
                "ANSIBLE_LOCAL_TEMP": f"{self.short}/local",
                "ANSIBLE_SSH_CONTROL_PATH_DIR": f"{self.short}/cp",
                "ANSIBLE_HOST_KEY_CHECKING": "false",
                "ANSIBLE_SSH_COMMON_ARGS": "-F /dev/null -o IdentitiesOnly=yes -o UserKnownHostsFile=/dev/null -o ConnectTimeout=20",
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/support/ansible_callbacks"),
                "ANSIBLE_CALLBACKS_ENABLED": "recorder",
                "RECORDER_FILE": str(record),
                **environment,
            },
        )
        tasks = [Task(**json.loads(line)) for line in record.read_text().splitlines()]
        return Played(done.returncode, done.stdout + done.stderr, tuple(tasks))

    def play(self, tasks: Sequence[Mapping[str, Any]], *options: str, hosts: str = "all", **keywords: Any) -> Played:
        """Run a play with these tasks."""
        play = {"hosts": hosts, "gather_facts": False, "tasks": tasks, **keywords}
        (self.folder / "play.yml").write_text(json.dumps([play]))
        return self.run("ansible-playbook", "play.yml", *options)


@contextmanager
def ansible_fleet(
    names: Sequence[str], *, pyz: Path, config: Mapping[str, Any], no_python: Sequence[str] = ()
) -> Iterator[Controller]:
    """Start nodes with these names, each an H200, and a controller that is configured to reach them."""
    with ExitStack() as stack:
        short = stack.enter_context(TemporaryDirectory(prefix="a", dir="/tmp"))
        network = stack.enter_context(private_namespace())
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{short}/key"], check=True, timeout=30)
        nodes: dict[str, Node] = {}
        for number, name in enumerate(names, start=1):
            machine = stack.enter_context(private_machine())
            node = _started(name, number, machine, network, f"{short}/key.pub", without_python=name in no_python)
            nodes[name] = node
            stack.callback(node.die)
        folder = Path(short) / "example"
        shutil.copytree(EXAMPLE, folder)
        inventory = {
            "nodes": {
                "hosts": {it.name: {"ansible_host": it.address} for it in nodes.values()},
                "vars": {
                    "ansible_user": "admin",
                    "ansible_become_method": "ansible.builtin.su",
                    "ansible_ssh_private_key_file": f"{short}/key",
                    "ansible_python_interpreter": sys.executable,
                    "hostrouting_pyz": str(pyz),
                    "hostrouting_program": PROGRAM,
                    "hostrouting_config": config,
                },
            }
        }
        (folder / "inventory.yml").write_text(json.dumps(inventory))
        for node in nodes.values():
            _await_daemon(node, network)
        yield Controller(network, folder, short, nodes)


def _started(name: str, number: int, machine: Machine, network: Namespace, key: str, *, without_python: bool) -> Node:
    """A node whose sshd has been started."""
    ours, address = "192.0.2.1", f"192.0.2.{10 + number}"
    link = ["link", "add", f"to-{number}", "type", "veth", "peer", "name", "mgmt0", "netns", str(machine.pid)]
    network.batch([" ".join(link), f"link set to-{number} up", f"address add {ours} peer {address} dev to-{number}"])
    machine.batch([*H200, "link set mgmt0 up", f"address add {address} peer {ours} dev mgmt0"])
    machine.shell(_SSHD)
    machine.run("sh", "-c", "cat >/etc/ssh/authorized", text=Path(key).read_text())
    if without_python:
        folders = {*os.environ["PATH"].split(":"), "/usr/bin", "/usr/local/bin", str(Path(sys.executable).parent)}
        pythons = {str(path.resolve()) for folder in folders for path in Path(folder).glob("python3*")}
        machine.shell(_NO_PYTHON.format(paths=" ".join(sorted(python for python in pythons if Path(python).is_file()))))
    # Its sessions end with it, because its process namespace does.
    daemon = subprocess.Popen(
        [*machine.enter, "unshare", "--pid", "--fork", "--kill-child", "/usr/sbin/sshd", "-D", "-f", "/etc/ssh/config"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return Node(name, address, machine, daemon)


def _await_daemon(node: Node, network: Namespace) -> None:
    """Wait until the sshd accepts connections."""

    def answers() -> bool:
        if node.daemon.poll() is not None:
            raise RuntimeError(f"the sshd of {node.name} has ended with exit code {node.daemon.poll()}")
        return network.run("bash", "-c", f"exec 3<>/dev/tcp/{node.address}/22").returncode == 0

    wait_for(f"the sshd of {node.name} to answer", answers)
