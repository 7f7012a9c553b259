"""A gate that another program's drop-in cancels, under a real systemd."""

import json
from functools import partial

from hostrouting.config.settings import GateConfig
from tests.support.gate import CONFIG, HALVES, apply, config, gate_tests, host, hostrouting
from tests.support.waiting import wait_for

pytestmark = gate_tests

UNIT = "kubelet.service"
FOREIGN = f"/etc/systemd/system/{UNIT}.d/50-foreign.conf"
FILES = {f"/etc/systemd/system/{UNIT}": "[Service]\nExecStart=/bin/sleep infinity\n"}
RESET = "[Service]\nExecCondition=\n"
SENTENCE = f"{UNIT} starts unchecked: another drop-in takes the ExecCondition= of the gate away"


def test_a_gate_that_is_cancelled() -> None:
    """In STRICT each run fails, with its work done; in WARN it warns, and so does status."""
    strict, warn = (
        config(*HALVES, mode=mode)._replace(gate=GateConfig((UNIT,))) for mode in ("STRICT", "WARN")
    )
    with host(more={**FILES, FOREIGN: RESET}, machines=()) as system:
        say = partial(hostrouting, system)
        for _ in range(2):
            system.lay(CONFIG, json.dumps(strict.to_mapping()))
            done = say("apply", "--wait", "0", "--config", CONFIG)
            assert (done.returncode, SENTENCE in done.stdout + done.stderr) == (1, True)
            planned = say("plan", "--config", CONFIG)
            assert (planned.returncode, SENTENCE in planned.stdout) == (1, True)
            assert SENTENCE in say("status").stdout
            system.must("ip", "route", "flush", "proto", "213")
        apply(system, strict, code=1)
        assert system.must("ip", "route", "show", "proto", "213").count("\n") == len(HALVES)
        system.lay(CONFIG, json.dumps(warn.to_mapping()))
        done = say("apply", "--wait", "0", "--allow-removal", "--config", CONFIG)
        assert (done.returncode, SENTENCE in done.stdout + done.stderr) == (0, True)
        system.must("rm", FOREIGN)
        apply(system, strict)
        assert say("status").returncode == 0
        system.must("systemctl", "start", "--no-block", UNIT)
        wait_for("kubelet", lambda: system.show(UNIT, "ActiveState") == "active")
