"""A host with machines and a real systemd, which hostrouting configures as an image or running."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig, StaticRoute, StaticRoutesConfig
from hostrouting.host.files import LocalFiles
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.tasks.configure import Configure
from tests.support.compiled import compiled_program
from tests.support.inside import CONFIGURE
from tests.support.sections import expect, static
from tests.support.systemd import NEEDS, System, booted
from tests.support.waiting import wait_for

LAYOUT = HostLayout()
KUBE1 = "systemd-nspawn@kube1.service"
CIDR = "172.16.0.0/16"
CONFIG = "/root/config.json"
HALVES = [static("172.16.0.0/17"), static("172.16.128.0/17")]

gate_tests = [pytest.mark.boot, pytest.mark.needs(*NEEDS), pytest.mark.releases]
"""The marks of a story that has to be true with every systemd."""

_NETWORK = """\
# eth0 has the default route; ib0 is a fabric whose network captures the cluster's.
set -e
ip -batch - <<END
link add eth0 type veth peer name peer-eth0
link add ib0 type veth peer name peer-ib0
link set eth0 up
link set ib0 up
link set peer-eth0 up
link set peer-ib0 up
address add 10.0.0.4/24 dev eth0
address add 172.16.1.5/16 dev ib0
END
ip route add default via 10.0.0.1 dev eth0
{then}
"""
_NETWORK_UNIT = """\
[Unit]
DefaultDependencies=no
Wants=network.target
Before=network.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh /etc/test-network.sh
"""


def config(*routes: StaticRoute, mode: str | None = None) -> HostRoutingConfig:
    """These static routes, and the check of the cluster's network in this mode."""
    check = expect(*([CIDR] if mode else []), mode=mode)
    return HostRoutingConfig(StaticRoutesConfig(bool(routes), routes), check)


@contextmanager
def host(
    image: HostRoutingConfig | None = None,
    *,
    then: str = "",
    more: Mapping[str, str] | None = None,
    machines: tuple[str, ...] = ("kube1",),
    is_compiled: bool = True,
) -> Iterator[System]:
    """A booted host whose image was configured. `then` are commands after those for the network.
    With a compiled program, which no image gets, each start takes 0.2 s less, and an apply 0.3 s.
    """

    def furnish(root: str) -> None:
        if image is not None:
            task = Configure(image, host=Host.offline(root), wait=0)
            phases.execute(task, phases.Context())
        if is_compiled:
            LocalFiles(root).write(LAYOUT.program_path, compiled_program(), mode=0o755)

    folder = "/etc/systemd/system"
    files = {
        "/etc/test-network.sh": _NETWORK.format(then=then),
        f"{folder}/test-network.service": _NETWORK_UNIT,
        f"{folder}/sysinit.target.d/network.conf": "[Unit]\nWants=test-network.service\n",
        **(more or {}),
    }
    with booted(files, machines=machines, furnish=furnish) as system:
        system.settled()
        try:
            yield system
        except BaseException:
            journal = ["journalctl", "--quiet", "--boot", "--output=cat", "--lines=200"]
            sys.stdout.write(system.run(*journal).stdout)  # shown with the failure of the test
            raise


def hostrouting(system: System, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command line of hostrouting on the host, as root."""
    environment = {"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]}
    done = system.command_lines.carry_out(words, environment, stdin)
    sys.stdout.write(done.stdout + done.stderr)  # shown if the test fails
    return done


def apply(system: System, settings: HostRoutingConfig, *, code: int = 0, wait: int = 0) -> None:
    """Apply the configuration, which must end with this exit code."""
    system.lay(CONFIG, json.dumps(settings.to_mapping()))
    done = hostrouting(system, CONFIGURE, CONFIG, str(wait))
    assert done.returncode == code, done.stdout + done.stderr


def remove(system: System) -> None:
    done = hostrouting(system, "remove")
    assert done.returncode == 0, done.stdout + done.stderr


def overlap(system: System, verb: str) -> None:
    """Let ib0 capture the cluster's network (`add`), or end that (`del`)."""
    system.must("ip", "address", verb, "172.16.1.5/16", "dev", "ib0")


def lock(system: System) -> None:
    """Have holder.service lock the host."""
    script = f"exec 9<>{LAYOUT.lock_path}; flock 9; exec sleep infinity"
    system.must("mkdir", "-p", "/run/hostrouting")
    system.must("systemd-run", "--quiet", "--unit=holder", "bash", "-c", script)
    shared = ("flock", "--shared", "--nonblock", LAYOUT.lock_path, "true")
    wait_for("the service to lock", lambda: system.run(*shared).returncode)


def start(system: System) -> int:
    """Start the machine as an operator does; return the exit status."""
    return system.run("machinectl", "start", "kube1").returncode


def begin_start(system: System) -> None:
    system.must("systemctl", "start", "--no-block", KUBE1)


def is_in_the_gate(system: System) -> bool:
    return system.show(KUBE1, "SubState") == "condition"


def has_started(system: System) -> bool:
    """Wait until every start has finished; return whether the machine is running."""
    system.settled()
    return bool(pid(system))


def pid(system: System) -> int:
    return int(system.show(KUBE1, "MainPID"))


def end(system: System) -> None:
    """Kill the machine's first process if it is running: while it boots, it ignores a stop."""
    # systemd-machined's file about the machine, and its control group: no process is started.
    known = system.outside("/run/systemd/machines/kube1")
    group = system.outside(f"/sys/fs/cgroup/machine.slice/{KUBE1}")
    if known.exists():
        with suppress(FileNotFoundError):  # it may just have ended
            [leader] = re.findall(r"^LEADER=(\d+)$", known.read_text(), re.MULTILINE)
            system.run("kill", "-KILL", leader)
        wait_for("the machine to be forgotten", lambda: not (known.exists() or group.exists()))
    ended = {"inactive", "failed"}
    wait_for("the machine to end", lambda: system.show(KUBE1, "ActiveState") in ended)
    system.run("systemctl", "reset-failed", KUBE1)


def markers(system: System) -> set[str]:
    return {path for path in LAYOUT.markers if system.read(path) is not None}


def foreign(system: System) -> list[str]:
    """The IPv4 routes of others and all rules, without the numbers of nexthop objects."""
    listed = system.must("sh", "-ec", "ip -4 -N route show table all; ip -4 rule; ip -6 rule")
    lines = listed.splitlines()
    return [re.sub(r" nhid \d+", "", line) for line in lines if " proto 213 " not in line]


def ours(system: System) -> list[str]:
    """The destinations of our IPv4 routes."""
    lines = system.must("ip", "-4", "-N", "route", "show", "proto", "213").splitlines()
    return [line.split()[0] for line in lines]
