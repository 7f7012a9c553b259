"""What health finds is what systemd does: another drop-in, an older text, or a setting that lets a
unit start unchecked.
"""

from collections.abc import Iterator

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


@pytest.mark.parametrize(
    ("folder", "name", "text", "starts"),
    [
        (MACHINES, "50-x.conf", "[Service]\nExecCondition=\n", True),
        (KUBE1, "50-x.conf", "[Service]\nExecCondition=\n", True),
        (KUBE1, "00-host-routing.conf", "[Unit]\n", True),
        (MACHINES, "50-x.conf", "[Service]\nSuccessExitStatus=3 255\n", True),
        (MACHINES, "50-x.conf", "[Service]\nRootDirectory=/srv\n", False),
        (
            MACHINES,
            "50-x.conf",
            "[Service]\nExecCondition=/bin/true\nExecStartPre=\nSuccessExitStatus=3\n",
            None,
        ),
    ],
)
def test_a_drop_in(
    system: System, folder: str, name: str, text: str, *, starts: bool | None
) -> None:
    """The unit starts although the gate refuses, exactly if health says so; None: the gate is not
    touched.
    """
    path = f"{LAYOUT.unit_directory}/{folder}.d/{name}"
    assert names(system) == []
    system.lay(path, text)
    system.must("systemctl", "daemon-reload")
    try:
        assert names(system) == (
            [] if starts is None else [("gate-open" if starts else "gate-shut", folder)]
        )
        begin_start(system)
        assert await_start(system) is bool(starts)
    finally:
        end(system)
        system.outside(path).unlink()
        system.must("systemctl", "daemon-reload")


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
