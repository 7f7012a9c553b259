"""A machine that runs is never touched, whatever is done to the host's routing: it keeps its process, every time."""

import pytest

from hostrouting.config import Mode, StaticRoute
from tests.support.gate import (
    HALVES,
    KUBE1,
    LAYOUT,
    config,
    configure,
    end,
    gate_tests,
    host,
    many_times,
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


@many_times
def test_the_tasks() -> None:
    """Routes changed, the task run again, another protocol number, a task that fails, Remove: it runs on."""
    with host() as system:
        wanted = config(*HALVES, mode=Mode.STRICT)
        configure(system, wanted)
        machine = Running(system)
        configure(system, wanted)
        machine.untouched("the same again")
        configure(system, config(*HALVES, StaticRoute("10.77.0.0/16"), mode=Mode.STRICT))
        assert len(ours(system)) == 3
        machine.untouched("a route more")
        configure(system, config(*HALVES, mode=Mode.WARN, protocol=214))
        assert (len(ours(system)), len(ours(system, 214))) == (0, 2)
        machine.untouched("another protocol number, and WARN")
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


@many_times
def test_the_units() -> None:
    """Our units started, restarted, stopped, killed and failing, the manager reloaded and replaced: it runs on."""
    with host() as system:
        configure(system, config(*HALVES, mode=Mode.STRICT))
        machine = Running(system)
        units = (LAYOUT.routes_unit, LAYOUT.check_unit, LAYOUT.gate_unit)
        verbs = (
            "start",
            "restart",
            "stop",
            "try-restart",
            "kill",
            "reset-failed",
            "reenable",
            "disable",
            "mask",
            "unmask",
        )
        for unit in units:
            for verb in verbs:
                system.run("systemctl", verb, unit)
                machine.untouched(f"{verb} {unit}")
        assert system.run("systemctl", "is-enabled", LAYOUT.routes_unit).stdout == "disabled\n"
        configure(system, config(*HALVES, mode=Mode.STRICT))
        assert system.run("systemctl", "is-enabled", LAYOUT.routes_unit).stdout == "enabled\n"
        machine.untouched("enabled again by the task")
        for verb in ("daemon-reload", "daemon-reexec"):
            system.must("systemctl", verb)
            machine.untouched(verb)
        system.must("ip", "route", "replace", "172.16.0.0/17", "dev", "ib0", "proto", "static")
        for unit in units:
            assert system.run("systemctl", "restart", unit).returncode == 1
            machine.untouched(f"{unit} failing")
        for path in (
            *(LAYOUT.gate_drop_in(), LAYOUT.gate_unit_path, LAYOUT.routes_unit_path, LAYOUT.check_unit_path),
            *(LAYOUT.gate_steps_path, LAYOUT.gate_script_path, LAYOUT.routes_script_path, LAYOUT.check_script_path),
        ):
            system.must("rm", path)
        system.must("systemctl", "daemon-reload")
        machine.untouched("files removed by hand")


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


@many_times
def test_files_of_the_original_give_way() -> None:
    """Where the original's units are installed and a machine runs, Configure puts ours in their place under it.

    The machine requires them, and they remain active: neither may touch it, nor may it pass for a check that was made.
    """
    units = (LAYOUT.routes_unit, LAYOUT.check_unit)
    with host() as system:
        for unit in units:
            system.lay(f"/etc/systemd/system/{unit}", ORIGINAL_UNIT)
            system.must("systemctl", "enable", unit)
        system.must("systemctl", "daemon-reload")
        machine = Running(system)
        assert set(units) <= set(system.show(KUBE1, "Requires").split())
        assert [system.show(unit, "ActiveState") for unit in units] == ["active", "active"]
        configure(system, config(*HALVES, mode=Mode.STRICT))
        machine.untouched("Configure")
        assert not set(units) & set(system.show(KUBE1, "Requires").split())
        assert [system.show(unit, "ActiveState") for unit in units] == ["inactive", "inactive"]
        for unit in units:
            assert system.run("systemctl", "restart", unit).returncode == 0
            machine.untouched(f"{unit} restarted")
        end(system)
        assert start(system) == 0
        end(system)
        system.must("ip", "address", "add", "172.16.200.5/24", "dev", "ib0")
        assert start(system) == 1, "the check is made, not taken for made"


def test_the_original_can_be_removed() -> None:
    """Remove takes the original's units and ties away under a running machine, which stays."""
    units = (LAYOUT.routes_unit, LAYOUT.check_unit)
    with host() as system:
        for unit in units:
            system.lay(f"/etc/systemd/system/{unit}", ORIGINAL_UNIT)
            system.must("systemctl", "enable", unit)
        machine = Running(system)
        assert run_task(system, "Remove", config()).returncode == 0
        machine.untouched("Remove")
        assert not set(units) & set(system.show(KUBE1, "Requires").split())
        end(system)
        assert start(system) == 0


TIES = {
    "the instance's own": {f"/etc/systemd/system/{KUBE1}.requires/{{}}": "/etc/systemd/system/{}"},
    "of this boot": {"/run/systemd/system/systemd-nspawn@.service.requires/{}": "/etc/systemd/system/{}"},
    "a drop-in": {},
}
INSTANCE = "[Unit]\nRequires=static-routes.service check-route-overlap.service\n"


@pytest.mark.releases
@many_times
def test_ties_of_any_kind() -> None:
    """Whatever has the machine require our units, wherever it stands: neither Configure nor Remove touches it."""
    units = (LAYOUT.routes_unit, LAYOUT.check_unit)
    drop_in = f"/etc/systemd/system/{KUBE1}.d/10-tie.conf"
    with host() as system:
        for tie, links in TIES.items():
            assert not set(units) & set(system.show(KUBE1, "Requires").split()), tie
            for unit in units:
                system.lay(f"/etc/systemd/system/{unit}", ORIGINAL_UNIT)
                for path, target in links.items():
                    system.must("mkdir", "--parents", path.rpartition("/")[0])
                    system.must("ln", "--symbolic", target.format(unit), path.format(unit))
            if not links:
                system.lay(drop_in, INSTANCE)
            system.must("systemctl", "daemon-reload")
            machine = Running(system)
            assert set(units) <= set(system.show(KUBE1, "Requires").split()), tie
            configure(system, config(*HALVES, mode=Mode.STRICT))
            machine.untouched(f"Configure, with {tie}")
            configure(system, config(HALVES[0], mode=Mode.WARN))
            machine.untouched(f"another configuration, with {tie}")
            assert run_task(system, "Remove", config()).returncode == 0
            machine.untouched(f"Remove, with {tie}")
            end(system)
            for unit in units:
                system.run("rm", "-f", *(path.format(unit) for path in links), f"/etc/systemd/system/{unit}")
            system.must("systemctl", "daemon-reload")
