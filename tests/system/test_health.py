"""What `status` finds is what systemd does: another drop-in, an older text, or a setting that lets
a unit start unchecked.
"""

import json
from typing import NamedTuple

import pytest

from hostrouting.config.settings import GateConfig, HostRoutingConfig
from hostrouting.install.difference import needs_reload
from tests.support.gate import LAYOUT, gate_tests, host, hostrouting
from tests.support.systemd import System
from tests.system.inside_manager import InsideManager

pytestmark = gate_tests

FOREIGN = f"{LAYOUT.gate_directory}/90-no.sh"
TEMPLATE = "agent@.service"
UNIT = "agent@a.service"
FILES = {f"{LAYOUT.unit_directory}/{TEMPLATE}": "[Service]\nExecStart=/bin/sleep infinity\n"}
CONFIG = HostRoutingConfig(gate=GateConfig((TEMPLATE,)))
RESET = "[Service]\nExecCondition=\n"
OURS = LAYOUT.drop_in_path(TEMPLATE)


def starts(system: System) -> bool:
    """Start the unit; whether it runs. It is stopped again."""
    has_started = system.run("systemctl", "start", UNIT).returncode == 0
    system.must("systemctl", "stop", UNIT)
    system.run("systemctl", "reset-failed", UNIT)
    return has_started


def open_gates(system: System) -> list[str]:
    """The units whose gate is open, as `status` says; else it has only notes, such as that there is
    a script of another program, and that systemd has not read its files.
    """
    document = json.loads(hostrouting(system, "status", "--json").stdout)
    units: list[str] = []
    for finding in document["findings"]:
        if finding["name"] == "gate-open":
            units.append(finding["target"])
        elif finding["severity"] != "note":
            assert finding["target"] == "systemd"
    return units


class DropIn(NamedTuple):
    """A drop-in of somebody else."""

    unit: str
    text: str
    opens_gate: bool = True
    name: str = "50-x.conf"


DROP_INS = {
    "no condition for any instance": DropIn(TEMPLATE, RESET),
    "the gate's refusal is a success": DropIn(TEMPLATE, "[Service]\nSuccessExitStatus=3 255\n"),
    "settings that leave the gate alone": DropIn(
        TEMPLATE,
        "[Service]\nExecCondition=/bin/true\nExecStartPre=\nSuccessExitStatus=3\n",
        opens_gate=False,
    ),
}


def drop_ins_of_somebody_else(system: System) -> None:
    """With each of them, the unit starts although the gate refuses exactly if `status` says that
    the gate is open.
    """
    for what, drop_in in DROP_INS.items():
        path = f"{LAYOUT.unit_directory}/{drop_in.unit}.d/{drop_in.name}"
        system.lay(path, drop_in.text)
        system.must("systemctl", "daemon-reload")
        assert open_gates(system) == ([drop_in.unit] if drop_in.opens_gate else []), what
        assert starts(system) is drop_in.opens_gate, what
        system.outside(path).unlink()


def a_drop_in_that_was_not_read(system: System) -> None:
    """A unit that systemd has loaded before is unchecked until the next reload."""
    text = system.read(OURS)
    assert text is not None
    system.outside(OURS).unlink()
    system.must("systemctl", "daemon-reload")
    system.must("systemctl", "start", UNIT)
    system.lay(OURS, text)
    assert open_gates(system) == [UNIT]
    system.must("systemctl", "daemon-reload")
    assert open_gates(system) == []
    # The removal waits for the reload, too: the unit would still run the gate, which is gone by
    # then.
    assert not needs_reload(InsideManager(system), CONFIG)
    system.outside(OURS).unlink()
    assert needs_reload(InsideManager(system), CONFIG)
    system.must("systemctl", "stop", UNIT)
    system.lay(OURS, text)


def a_template_is_read_when_its_instance_starts(system: System) -> None:
    """A drop-in for all instances needs no reload to open the gate, unlike that of a service."""
    path = f"{LAYOUT.unit_directory}/{TEMPLATE}.d/50-x.conf"
    system.lay(path, RESET)
    assert TEMPLATE in open_gates(system)
    assert not needs_reload(InsideManager(system), CONFIG)
    system.outside(path).unlink()


STORIES = (
    drop_ins_of_somebody_else,
    a_drop_in_that_was_not_read,
    a_template_is_read_when_its_instance_starts,
)


def test_health(subtests: pytest.Subtests) -> None:
    """Each story begins on a host whose gate refuses the unit, by a script of another program,
    and where all gates are closed.
    """
    with host(CONFIG, more=FILES, scripts={FOREIGN: "exit 1\n"}, machines=()) as system:
        for story in STORIES:
            system.must("systemctl", "daemon-reload")
            assert open_gates(system) == []
            with subtests.test(story.__name__):
                story(system)
