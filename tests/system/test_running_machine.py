"""A machine that runs is never touched, whatever is done to the host's routing: it keeps its process, every time."""

from hostrouting.config.settings import StaticRoute
from hostrouting.config.values import Mode
from tests.support.gate import (
    HALVES,
    KUBE1,
    LAYOUT,
    config,
    configure,
    end,
    gate_tests,
    host,
    markers,
    ours,
    pid,
    run_task,
    start,
)
from tests.support.systemd import System

pytestmark = gate_tests


class Running:
    """A machine that was started; `untouched` says whether it is still the same, after what was done."""

    def __init__(self, system: System) -> None:
        """Start it."""
        assert start(system) == 0
        self._system, self._pid = system, pid(system)
        assert self._pid

    def untouched(self, after: str) -> None:
        """The machine has the process that it was started with."""
        shown = self._system.must("systemctl", "show", "-p", "MainPID,ActiveState,NRestarts", KUBE1).split()
        assert sorted(shown) == ["ActiveState=active", f"MainPID={self._pid}", "NRestarts=0"], after


def test_the_tasks() -> None:
    """Routes changed, the task run again, a task that fails, Remove: it runs on."""
    with host() as system:
        wanted = config(*HALVES, mode=Mode.STRICT)
        configure(system, wanted)
        machine = Running(system)
        configure(system, wanted)
        machine.untouched("the same again")
        configure(system, config(*HALVES, StaticRoute("10.77.0.0/16"), mode=Mode.STRICT))
        assert len(ours(system)) == 3
        machine.untouched("a route more")
        configure(system, config(*HALVES, mode=Mode.WARN))
        assert len(ours(system)) == 2
        machine.untouched("a route less, and WARN")
        assert run_task(system, "Configure", config(StaticRoute("172.16.0.0/18"), mode=Mode.STRICT)).returncode == 1
        assert ours(system) == ["172.16.0.0/18"]
        machine.untouched("most of the CIDR escapes")
        assert run_task(system, "Configure", config(StaticRoute("172.16.0.0/16"), mode=Mode.STRICT)).returncode == 1
        machine.untouched("a route that cannot be had")
        assert run_task(system, "Remove", config()).returncode == 0
        assert not ours(system)
        machine.untouched("Remove")
        assert not markers(system)
        assert system.run("systemctl", "cat", LAYOUT.routes_unit, LAYOUT.check_unit).returncode != 0
        end(system)
        assert start(system) == 0, "nothing of ours holds it back any more"


ORIGINAL_UNIT = """\
[Unit]
Before=systemd-nspawn@.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
[Install]
RequiredBy=systemd-nspawn@.service
"""


TIES = {
    f"/etc/systemd/system/{KUBE1}.requires/{{}}": "/etc/systemd/system/{}",  # the instance's own
    "/run/systemd/system/systemd-nspawn@.service.requires/{}": "/etc/systemd/system/{}",  # of this boot
}
INSTANCE = "[Unit]\nRequires=static-routes.service check-route-overlap.service\n"
UNITS = (LAYOUT.routes_unit, LAYOUT.check_unit)


def lay_originals(system: System) -> None:
    """Install the original's units, each of which the machine requires."""
    for unit in UNITS:
        system.lay(f"/etc/systemd/system/{unit}", ORIGINAL_UNIT)
        system.must("systemctl", "enable", unit)


def required(system: System) -> set[str]:
    """Which of the units the machine requires."""
    return set(UNITS) & set(system.show(KUBE1, "Requires").split())


def test_files_of_the_original_give_way() -> None:
    """Where the original's units are installed and a machine runs, Configure and Remove take them away under it.

    The machine requires them, and they remain active: neither may touch it, nor may it pass for a check that was made.
    Whatever else has the machine require units of these names, wherever it stands: neither task touches it.
    """
    wanted = config(*HALVES, mode=Mode.STRICT)
    with host() as system:
        lay_originals(system)
        machine = Running(system)
        assert required(system) == set(UNITS)
        assert [system.show(unit, "ActiveState") for unit in UNITS] == ["active", "active"]
        configure(system, wanted)
        machine.untouched("Configure")
        assert not required(system)
        assert [system.show(unit, "ActiveState") for unit in UNITS] == ["inactive", "inactive"]
        system.must("systemctl", "restart", *UNITS)
        machine.untouched("units restarted")
        end(system)
        assert start(system) == 0
        end(system)
        system.must("ip", "address", "add", "172.16.200.5/24", "dev", "ib0")
        assert start(system) == 1, "the check is made, not taken for made"
        system.must("ip", "address", "del", "172.16.200.5/24", "dev", "ib0")
        assert run_task(system, "Remove", config()).returncode == 0

        lay_originals(system)
        machine = Running(system)
        assert run_task(system, "Remove", config()).returncode == 0
        machine.untouched("Remove")
        assert not required(system)
        end(system)
        assert start(system) == 0
        end(system)

        lay_originals(system)
        for unit in UNITS:
            for path, target in TIES.items():
                system.must("mkdir", "--parents", path.rpartition("/")[0])
                system.must("ln", "--symbolic", target.format(unit), path.format(unit))
        system.lay(f"/etc/systemd/system/{KUBE1}.d/10-tie.conf", INSTANCE)
        system.must("systemctl", "daemon-reload")
        machine = Running(system)
        configure(system, wanted)
        machine.untouched("Configure, with ties of any kind")
        configure(system, config(HALVES[0], mode=Mode.WARN))
        machine.untouched("another configuration, with ties of any kind")
        assert run_task(system, "Remove", config()).returncode == 0
        machine.untouched("Remove, with ties of any kind")
