"""What health finds is what systemd does: another drop-in, an older text, or a setting that lets a
unit start unchecked.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from hostrouting.boot.drop_ins import drop_ins_of
from hostrouting.boot.health import find_faults
from hostrouting.boot.unit_gates import find_ineffective_gates
from hostrouting.config.settings import MACHINES, GateConfig, HostRoutingConfig
from hostrouting.host.files import LocalFiles
from hostrouting.host.host import Host
from hostrouting.host.systemd import SystemdManager
from hostrouting.install.difference import needs_reload
from hostrouting.kernel.programs import Ended
from tests.support import gate
from tests.support.gate import KUBE1, LAYOUT, await_start, begin_start, end, gate_tests
from tests.support.systemd import System

pytestmark = gate_tests

FOREIGN = f"{LAYOUT.gate_directory}/90-no.sh"
CONFIG = HostRoutingConfig(gate=GateConfig((MACHINES,)))
RESET = "[Service]\nExecCondition=\n"
OURS = LAYOUT.drop_in_path(MACHINES)


class InsideManager(SystemdManager):
    """The systemd inside this system."""

    def __init__(self, system: System) -> None:
        super().__init__(run=lambda *words, **_: Ended(*self._end(system, words)))

    @staticmethod
    def _end(system: System, words: tuple[str, ...]) -> tuple[int, str, str]:
        done = system.run(*words)
        return done.returncode, done.stdout, done.stderr

    def is_running(self) -> bool:
        """See Manager. It is booted before it is asked."""
        return True


@pytest.fixture
def system() -> Iterator[System]:
    """A host whose gate refuses the machine: by a step of somebody else."""
    with gate.host(CONFIG, scripts={FOREIGN: "exit 1\n"}) as system:
        yield system


def names(system: System) -> list[tuple[str, str]]:
    """Name and target of each fault."""
    host = Host(files=LocalFiles(str(system.outside("/"))), manager=InsideManager(system))
    return [
        (fault.name, fault.target)
        for fault in find_faults(host, CONFIG)
        if not fault.target.endswith(FOREIGN)
    ]


class DropIn(NamedTuple):
    """A drop-in of somebody else."""

    folder: str
    text: str
    fault: str
    """What health finds then; empty if the gate still decides."""
    name: str = "50-x.conf"


DROP_INS = {
    "no condition for any machine": DropIn(MACHINES, "[Service]\nExecCondition=\n", "gate-open"),
    "no condition for this machine": DropIn(KUBE1, "[Service]\nExecCondition=\n", "gate-open"),
    "another file with the name of ours": DropIn(
        KUBE1, "[Unit]\n", "gate-open", name="00-host-routing.conf"
    ),
    "the gate's refusal is a success": DropIn(
        MACHINES, "[Service]\nSuccessExitStatus=3 255\n", "gate-open"
    ),
    "settings that leave the gate alone": DropIn(
        MACHINES, "[Service]\nExecCondition=/bin/true\nExecStartPre=\nSuccessExitStatus=3\n", ""
    ),
}


def test_drop_ins(system: System) -> None:
    """With each of them, the unit starts although the gate refuses exactly if health says that the
    gate is open.
    """
    assert names(system) == []
    for what, drop_in in DROP_INS.items():
        path = f"{LAYOUT.unit_directory}/{drop_in.folder}.d/{drop_in.name}"
        system.lay(path, drop_in.text)
        system.must("systemctl", "daemon-reload")
        faults = [(drop_in.fault, drop_in.folder)] if drop_in.fault else []
        assert names(system) == faults, what
        begin_start(system)
        assert await_start(system) is (drop_in.fault == "gate-open"), what
        end(system)
        system.outside(path).unlink()
    system.must("systemctl", "daemon-reload")
    assert names(system) == []


def test_a_drop_in_that_was_not_read(system: System) -> None:
    """A unit that systemd has loaded before is unchecked until the next reload."""
    text = system.read(OURS) or ""
    system.outside(OURS).unlink()
    system.must("systemctl", "daemon-reload")
    begin_start(system)
    assert await_start(system)
    system.lay(OURS, text)
    assert names(system) == [("gate-open", KUBE1)]
    system.must("systemctl", "daemon-reload")
    assert names(system) == []
    # The removal waits for the reload, too: the unit would still run the gate, which is gone by
    # then.
    assert not needs_reload(InsideManager(system), CONFIG)
    system.outside(OURS).unlink()
    assert needs_reload(InsideManager(system), CONFIG)
    end(system)


def test_the_drop_ins_that_systemd_reads(system: System) -> None:
    """Systemd looks in the same folders, in the same order; also for the resets of a first gate.

    Those for all units whose names begin alike (`a-.service.d`) are not judged beforehand.
    """
    texts = {
        "/usr/lib/systemd/system/a-b.service.d/50-vendor.conf": RESET,
        "/etc/systemd/system/a-b.service.d/60-own.conf": "[Service]\n",
        "/usr/local/lib/systemd/system/a-b.service.d/60-own.conf": RESET,
        "/etc/systemd/system.control/a-b.service.d/75-control.conf": "[Service]\n",
        "/etc/systemd/system/service.d/80-kind.conf": RESET,
        "/etc/systemd/system/a-b@.service.d/60-own.conf": "[Service]\n",
        "/etc/systemd/system/a-b@1.service.d/60-own.conf": RESET,
        "/usr/lib/systemd/system/a-b@1.service.d/90-prefix.conf": "[Service]\n",
    }
    for unit in ("a-b.service", "a-b@.service"):
        system.lay(f"/etc/systemd/system/{unit}", "[Service]\nExecStart=/bin/true\n")
    for path, text in texts.items():
        system.lay(path, text)
    system.must("ln", "-s", "/dev/null", "/etc/systemd/system/a-b.service.d/50-vendor.conf")
    system.must("systemctl", "daemon-reload")
    files, manager = LocalFiles(str(system.outside("/"))), InsideManager(system)
    for unit in ("a-b.service", "a-b@1.service", "a-b@2.service"):
        [shown] = manager.show(("DropInPaths",), unit)
        read = [re.sub("^/lib/", "/usr/lib/", path) for path in shown["DropInPaths"].split()]
        assert [*drop_ins_of(files, unit)] == read
    host = Host(files=files, manager=manager)
    gated = ["a-b.service", "a-b@.service"]
    findings = [*find_ineffective_gates(host, gated)]
    assert {path for path in texts if any(path in str(finding) for finding in findings)} == {
        "/etc/systemd/system/service.d/80-kind.conf",
        "/etc/systemd/system/a-b@1.service.d/60-own.conf",
    }


def test_a_template_is_read_when_its_instance_starts(system: System) -> None:
    """A drop-in for all machines needs no reload to open the gate, unlike that of a service."""
    system.lay(f"{OURS.rpartition('/')[0]}/50-x.conf", RESET)
    assert ("gate-open", MACHINES) in names(system)
    manager = InsideManager(system)
    assert not needs_reload(manager, CONFIG)
