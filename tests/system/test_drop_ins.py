"""Drop-ins of others beside that of the gate, under a real systemd: one takes the gate away, and
the condition of docs/library.md holds a unit back for a reason of its own.
"""

import json
import re
from functools import partial

from hostrouting.config.settings import GateConfig
from tests.support.gate import CONFIG, HALVES, apply, config, gate_tests, host, hostrouting
from tests.support.systemd import PROJECT, System

pytestmark = gate_tests

UNIT = "kubelet.service"
FOREIGN = f"/etc/systemd/system/{UNIT}.d/50-foreign.conf"
FILES = {
    f"/etc/systemd/system/{UNIT}": "[Service]\nExecStart=/bin/sleep infinity\n",
    FOREIGN: "[Service]\nExecCondition=\n",
}
SENTENCE = f"{UNIT} starts unchecked: another drop-in takes the ExecCondition= of the gate away"
STRICT, WARN = (
    config(*HALVES, mode=mode)._replace(gate=GateConfig((UNIT,))) for mode in ("STRICT", "WARN")
)


def test_drop_ins_of_others() -> None:
    """Each story begins where the last one has ended."""
    with host(more=FILES, machines=()) as system:
        a_gate_that_is_cancelled(system)
        a_condition_of_ones_own(system)


def a_gate_that_is_cancelled(system: System) -> None:
    """In STRICT each run fails, with its work done; in WARN it warns, and so does status."""
    say = partial(hostrouting, system)
    for _ in range(2):
        system.lay(CONFIG, json.dumps(STRICT.to_mapping()))
        done = say("apply", "--wait", "0", "--config", CONFIG)
        assert (done.returncode, SENTENCE in done.stdout + done.stderr) == (1, True)
        planned = say("plan", "--config", CONFIG)
        assert (planned.returncode, SENTENCE in planned.stdout) == (1, True)
        assert SENTENCE in say("status").stdout
        system.must("ip", "route", "flush", "proto", "213")
    apply(system, STRICT, code=1)
    assert system.must("ip", "route", "show", "proto", "213").count("\n") == len(HALVES)
    system.lay(CONFIG, json.dumps(WARN.to_mapping()))
    done = say("apply", "--wait", "0", "--allow-removal", "--config", CONFIG)
    assert (done.returncode, SENTENCE in done.stdout + done.stderr) == (0, True)
    system.must("rm", FOREIGN)
    apply(system, STRICT)
    assert say("status").returncode == 0
    system.must("systemctl", "start", UNIT)


def a_condition_of_ones_own(system: System) -> None:
    """It holds back a unit that the gate has let pass, and says why; then it lets it start."""
    page = (PROJECT / "docs/library.md").read_text(encoding="utf-8")
    [(path, text)] = re.findall(r"```ini\n# (\S+)\n(.*?)```", page, re.DOTALL)
    system.lay(path, text)
    system.must("systemctl", "daemon-reload")
    assert system.run("systemctl", "restart", UNIT).returncode != 0
    assert "no licence" in system.journal(UNIT)
    assert system.journal(UNIT).count("hostrouting: OK") == 2
    system.lay("/etc/licence", "a licence\n")
    system.must("systemctl", "start", UNIT)
    assert system.show(UNIT, "ActiveState") == "active"
