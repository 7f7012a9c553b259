"""A machine that runs is never touched, whatever is done to the host's routing."""

from typing import NamedTuple

from hostrouting.config.settings import GuardConfig, HostRoutingConfig, StaticRoute
from tests.support import gate
from tests.support.gate import CIDR, HALVES, KUBE1, LAYOUT, gate_tests
from tests.support.sections import static
from tests.support.systemd import System

pytestmark = gate_tests

STRICT = gate.config(*HALVES, mode="STRICT")
UNITS = (LAYOUT.routes_unit, LAYOUT.check_unit)


class Running:
    """A machine that was started; `untouched` says whether it is still the same."""

    def __init__(self, system: System) -> None:
        """Start it."""
        assert gate.start(system) == 0
        self._system, self._pid = system, gate.pid(system)
        assert self._pid

    def untouched(self, after: str) -> None:
        """The machine has the process that it was started with."""
        shown = self._system.must(
            "systemctl", "show", "-p", "MainPID,ActiveState,NRestarts", KUBE1
        ).split()
        assert sorted(shown) == ["ActiveState=active", f"MainPID={self._pid}", "NRestarts=0"], after


class Change(NamedTuple):
    """A configuration that is applied, and the exit code of that."""

    config: HostRoutingConfig
    code: int = 0


def guarded(*routes: StaticRoute) -> HostRoutingConfig:
    """A configuration with these routes, which the guard keeps."""
    return gate.config(*routes, mode="STRICT")._replace(guard=GuardConfig(enabled=True))


CONFIGURATIONS = {
    "the same routes": Change(guarded(*HALVES)),
    "a route that repairs a part": Change(guarded(static("172.16.0.0/18")), code=1),
    "a route that conflicts": Change(guarded(static(CIDR)), code=1),
}
ORIGINAL = """\
[Unit]
Before=systemd-nspawn@.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
[Install]
RequiredBy=systemd-nspawn@.service
"""


def required(system: System) -> set[str]:
    """Which of the units the machine requires."""
    return set(UNITS) & set(system.show(KUBE1, "Requires").split())


def test_whatever_is_done() -> None:
    """Other configurations, failures, restarts, reloads, removal: the machine runs on."""
    with gate.host() as system:
        for unit in UNITS:
            system.lay(f"{LAYOUT.unit_directory}/{unit}", ORIGINAL)
            system.must("systemctl", "enable", unit)
        machine = Running(system)
        assert required(system) == set(UNITS)
        gate.apply(system, STRICT)
        machine.untouched("apply")
        assert not required(system)

        for name, change in CONFIGURATIONS.items():
            gate.apply(system, change.config, code=change.code)
            if name != "a route that conflicts":
                wanted = change.config.static_routes.routes
                assert len(gate.ours(system)) == len(wanted), name
            machine.untouched(name)

        for command in ("restart", "stop"):
            for unit in (*UNITS, LAYOUT.guard_unit):
                system.run("systemctl", command, unit)
                machine.untouched(f"{command} {unit}")
        for command in ("daemon-reload", "daemon-reexec"):
            system.must("systemctl", command)
            machine.untouched(command)

        gate.remove(system)

        machine.untouched("remove")
        assert not gate.ours(system)
        assert not gate.markers(system)
        for name in ("*hostrouting*", "*host-routing*"):
            assert system.must("find", "/etc", "-name", name) == ""
        assert system.run("systemctl", "cat", *UNITS).returncode != 0
        gate.end(system)
        assert gate.start(system) == 0, "nothing of ours holds it back any more"
