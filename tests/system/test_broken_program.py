"""Without a program that works, no gated unit starts, and `status` says why in one sentence.

HOSTROUTING_CUTS says at how many places the program is cut, one after the other.
"""

import json
import os
from collections.abc import Callable

import pytest

from hostrouting.config.settings import GateConfig
from tests.support.gate import HALVES, LAYOUT, config, gate_tests, host, hostrouting
from tests.support.systemd import System

pytestmark = gate_tests

CUTS = int(os.environ.get("HOSTROUTING_CUTS", "2"))
UNIT = "agent.service"
FILES = {
    f"/etc/systemd/system/{UNIT}": "[Unit]\nStartLimitIntervalSec=0\n"
    "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n"
}
PROGRAM, PYTHON = LAYOUT.program_path, LAYOUT.python_path
# It runs the code that it gets, after this.
_PYTHON_THAT = """\
#!/bin/sh
shift 3
code=$1
shift
exec /usr/bin/python3 -I -S -c "import sys; {}; $code" "$@"
"""


def _python(text: str, mode: int = 0o755) -> Callable[[System], object]:
    """Put a file with this text in the place of the interpreter."""

    def put(system: System) -> None:
        system.must("rm", "-f", PYTHON)
        system.lay(PYTHON, text, mode=mode)

    return put


def _link(target: str) -> Callable[[System], object]:
    """Have the link to the interpreter lead there."""
    return lambda system: system.must("ln", "-sfn", target, PYTHON)


def _run(command: str) -> Callable[[System], object]:
    return lambda system: system.must("sh", "-c", command)


BREAKS = {
    "no program": _run(f"rm {PROGRAM}"),
    "an empty program": _run(f"truncate -s 0 {PROGRAM}"),
    "zeros for a program": _run(f"truncate -s 0 {PROGRAM}; truncate -s 1M {PROGRAM}"),
    "no interpreter": _run(f"rm {PYTHON}"),
    "an interpreter that is gone": _link("/usr/bin/python3.99"),
    "an interpreter that is empty": _python(""),
    "an older interpreter": _python(_PYTHON_THAT.format("sys.version_info = (3, 9, 2)")),
    "an interpreter without json": _python(_PYTHON_THAT.format("sys.modules['json'] = None")),
}


def start_is_refused(system: System, name: str) -> None:
    """The unit does not start."""
    assert system.run("systemctl", "start", UNIT).returncode == 1, name
    assert system.show(UNIT, "ActiveState") == "failed", name


def status_says_why(system: System, name: str) -> None:
    """One sentence names the program, or its interpreter."""
    document = json.loads(hostrouting(system, "status", "--json").stdout)
    said = [finding for finding in document["findings"] if finding["name"] == "gate-shut"]
    assert [finding["target"] for finding in said] in ([PROGRAM], [PYTHON]), name
    [finding] = said
    assert "\n" not in finding["sentence"]


def restore(system: System) -> None:
    """Bring the program and the interpreter back."""
    system.must(
        "sh", "-c", f"rm -rf {PROGRAM} {PYTHON}; cp -a /root/whole/* {LAYOUT.config_directory}"
    )


def test_no_unit_starts(subtests: pytest.Subtests) -> None:
    """Whatever is broken, the unit starts when it is whole again."""
    gated = config(*HALVES, mode="WARN")._replace(gate=GateConfig((UNIT,)))
    with host(gated, more=FILES, machines=()) as system:
        system.must("sh", "-c", f"mkdir /root/whole; cp -a {PROGRAM} {PYTHON} /root/whole")
        for name, put in BREAKS.items():
            with subtests.test(name):
                put(system)
                start_is_refused(system, name)
                status_says_why(system, name)
            restore(system)

        whole = system.outside(PROGRAM).read_bytes()
        for number in range(CUTS):
            at = len(whole) * number // CUTS
            system.outside(PROGRAM).write_bytes(whole[:at])
            start_is_refused(system, f"cut at {at}")
            status_says_why(system, f"cut at {at}")
        restore(system)

        assert system.run("systemctl", "start", UNIT).returncode == 0
        assert hostrouting(system, "status").returncode == 0
