"""What health finds is what systemd does: another drop-in, an older text, or a setting that lets a
unit start unchecked.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from hostrouting.boot.health import find_faults
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
    "the gate is not found": DropIn(MACHINES, "[Service]\nRootDirectory=/srv\n", "gate-shut"),
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
