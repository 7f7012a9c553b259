"""A machine that runs is never touched, whatever is done to the host's routing."""

from hostrouting.config.settings import GuardConfig
from tests.support import gate
from tests.support.gate import CIDR, HALVES, KUBE1, LAYOUT, gate_tests
from tests.support.sections import static
from tests.support.systemd import System

pytestmark = gate_tests

GUARD = GuardConfig(enabled=True)
UNITS = (LAYOUT.routes_unit, LAYOUT.check_unit)
# As the Go original has it.
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
    return set(UNITS) & set(system.show(KUBE1, "Requires").split())


def test_whatever_is_done() -> None:
    """Other configurations, failures, restarts, reloads, removal: the machine runs on."""
    with gate.host(is_compiled=False) as system:
        for unit in UNITS:
            system.lay(f"{LAYOUT.unit_directory}/{unit}", ORIGINAL)
            system.must("systemctl", "enable", unit)
        assert gate.start(system) == 0
        process = gate.pid(system)
        assert process

        def machine_is_untouched(after: object) -> None:
            shown = system.must("systemctl", "show", "-p", "MainPID,ActiveState,NRestarts", KUBE1)
            state = ["ActiveState=active", f"MainPID={process}", "NRestarts=0"]
            assert sorted(shown.split()) == state, after

        assert required(system) == set(UNITS)
        gate.apply(system, gate.config(*HALVES, mode="STRICT"))
        machine_is_untouched("apply")
        assert not required(system)

        repairs_a_part, conflicts = [static("172.16.0.0/18")], [static(CIDR)]
        for routes, code in ((HALVES, 0), (repairs_a_part, 1), (conflicts, 1)):
            wanted = gate.config(*routes, mode="STRICT")._replace(guard=GUARD)
            gate.apply(system, wanted, code=code)
            machine_is_untouched(routes)
            if routes is not conflicts:
                assert len(gate.ours(system)) == len(routes)

        for command in ("restart", "stop"):
            for unit in (*UNITS, LAYOUT.guard_unit):
                system.run("systemctl", command, unit)
                machine_is_untouched(f"{command} {unit}")
        for command in ("daemon-reload", "daemon-reexec"):
            system.must("systemctl", command)
            machine_is_untouched(command)

        gate.remove(system)
        machine_is_untouched("remove")
        assert not gate.ours(system)
        assert not gate.markers(system)
        for name in ("*hostrouting*", "*host-routing*"):
            assert system.must("find", "/etc", "-name", name) == ""
        assert system.run("systemctl", "cat", *UNITS).returncode != 0
        gate.end(system)
        assert gate.start(system) == 0, "nothing of ours holds it back any more"
