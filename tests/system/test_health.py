"""What `status` finds is what systemd does: another drop-in, an older text, or a setting that lets
a unit start unchecked.
"""

import json
import re
from typing import NamedTuple

import pytest

from hostrouting.config.settings import GateConfig, HostRoutingConfig
from hostrouting.gate.drop_ins import drop_ins_of
from hostrouting.gate.unit_gates import find_ineffective_gates
from hostrouting.host.files import LocalFiles
from hostrouting.host.host import Host
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
    "no condition for this instance": DropIn(UNIT, RESET),
    "another file with the name of ours": DropIn(UNIT, "[Unit]\n", name="00-host-routing.conf"),
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


FOLDER = "/etc/systemd/system/a-b.service.d"
FOREIGN_DROP_INS = {
    "/usr/lib/systemd/system/a-b.service.d/50-vendor.conf": RESET,
    f"{FOLDER}/60-own.conf": "[Service]\n",
    "/usr/local/lib/systemd/system/a-b.service.d/60-own.conf": RESET,
    "/etc/systemd/system.control/a-b.service.d/75-control.conf": "[Service]\n",
    "/etc/systemd/system/service.d/80-kind.conf": RESET,
    "/etc/systemd/system/a-b@.service.d/60-own.conf": "[Service]\n",
    "/etc/systemd/system/a-b@1.service.d/60-own.conf": RESET,
    "/usr/lib/systemd/system/a-b@1.service.d/90-prefix.conf": "[Service]\n",
}
IN_FORCE = [
    "/etc/systemd/system/service.d/80-kind.conf",
    "/etc/systemd/system/a-b@1.service.d/60-own.conf",
]
"""Those that reset the conditions, and that no other file replaces."""


def the_drop_ins_that_systemd_reads(system: System) -> None:
    """Systemd looks in the same folders, in the same order; also for the resets of a first gate.

    Those for all units whose names begin alike (`a-.service.d`) are not judged beforehand.
    """
    for unit in ("a-b.service", "a-b@.service"):
        system.lay(f"/etc/systemd/system/{unit}", "[Service]\nExecStart=/bin/true\n")
    for path, text in FOREIGN_DROP_INS.items():
        system.lay(path, text)
    system.must("ln", "-s", "/dev/null", f"{FOLDER}/50-vendor.conf")
    system.must("systemctl", "daemon-reload")
    inside = Host(files=LocalFiles(str(system.outside("/"))), manager=InsideManager(system))
    for unit in ("a-b.service", "a-b@1.service", "a-b@2.service"):
        assert list(drop_ins_of(inside.files, unit)) == drop_ins_that_systemd_has_read(system, unit)
    findings = find_ineffective_gates(inside, ["a-b.service", "a-b@.service"])
    said = "\n".join(str(finding) for finding in findings)
    assert [path for path in FOREIGN_DROP_INS if path in said] == IN_FORCE


def drop_ins_that_systemd_has_read(system: System, unit: str) -> list[str]:
    """Their paths, in the order in which they count; /lib is a link to /usr/lib."""
    paths = system.show(unit, "DropInPaths").split()
    return [re.sub("^/lib/", "/usr/lib/", path) for path in paths]


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
    the_drop_ins_that_systemd_reads,
)


def test_health(subtests: pytest.Subtests) -> None:
    """Each story begins on a host whose gate refuses the unit, by a script of another program,
    and where all gates are closed; the last one leaves its files.
    """
    with host(CONFIG, more=FILES, scripts={FOREIGN: "exit 1\n"}, machines=()) as system:
        for story in STORIES:
            system.must("systemctl", "daemon-reload")
            assert open_gates(system) == []
            with subtests.test(story.__name__):
                story(system)
