"""An installation of an earlier build, whose gate and guard are bash scripts, is replaced whole by
the first `apply`, and no gated unit starts unchecked meanwhile.
"""

import json
from threading import Thread

from hostrouting.boot.files import UNIT_OF_PART
from hostrouting.boot.units import GATE_MARK
from hostrouting.config.settings import GateConfig, GuardConfig
from tests.support import gate
from tests.support.gate import HALVES, LAYOUT, gate_tests
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

TEMPLATE = "agent@.service"
LAST = "agent@last.service"
RAN = "/run/agent-ran"
AGENT = f"[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo ran >>{RAN}'\n"
# Each moment of a run has a start that begins then: one that began before waits for the run.
STARTS = """\
n=0
touch /run/starts
while [ -e /run/starts ]; do
  n=$((n + 1))
  systemctl start --no-block agent@$n
  sleep 0.05
done
"""
CONFIG = gate.config(*HALVES[:1], mode="STRICT")._replace(
    gate=GateConfig((TEMPLATE,)), guard=GuardConfig(enabled=True)
)
"""With the second half of the routes missing, addresses escape."""

MARK = "# Written by hostrouting; changes are overwritten.\n"
_RUN = '/bin/bash -pc \'trap "exit 255" EXIT; . "$$0"\''
# As the former gate did: the queue, the shared lock, and each script in turn.
GATE = """\
exec 8<>/run/hostrouting/turn 9<>/run/hostrouting/lock
flock --exclusive 8
flock --shared 9
exec 8<&-
for step in 10-static-routes 20-check-route-overlap; do
  [[ -e /etc/hostrouting/gate.d/$step.sh ]] || exit 255
done
for script in /etc/hostrouting/gate.d/*.sh; do
  /bin/bash -p "$script" "$1" || exit 255
done
trap - EXIT
exit 0
"""
GUARD = """\
trap - EXIT
while :; do
  date +%s.%N >/run/former-guard
  sleep 0.1
done
"""


def former_files() -> dict[str, str]:
    """The files of the earlier build for this configuration, with the texts that matter."""
    document = {"writtenBy": "hostrouting 1.0.0rc0", "hostRouting": CONFIG.to_mapping()}
    scripts = {
        "10-static-routes.sh": "exit 0\n",
        "20-check-route-overlap.sh": "echo an address escapes >&2; exit 1\n",
    }
    files = {f"{LAYOUT.gate_directory}/{name}": text for name, text in scripts.items()}
    files |= {
        "/etc/hostrouting/gate.sh": GATE,
        "/etc/hostrouting/guard.sh": GUARD,
        LAYOUT.config_path: json.dumps(document),
        LAYOUT.drop_in_path(TEMPLATE): (
            f"{MARK}[Service]\nExecCondition=+{_RUN} /etc/hostrouting/gate.sh %n\n"
        ),
    }
    commands = {
        unit: f"gate.sh {unit} step\nType=oneshot\nRestart=on-failure\nRestartSec=60"
        for unit in UNIT_OF_PART.values()
    }
    commands[LAYOUT.guard_unit] = "guard.sh\nRestart=always\nRestartSec=1"
    for unit, command in commands.items():
        files[LAYOUT.unit_path(unit)] = (
            f"{MARK}[Service]\nExecStart={_RUN} /etc/hostrouting/{command}\n"
            "[Install]\nWantedBy=multi-user.target\n"
        )
    return files


def install_former(system: System) -> None:
    """Install the earlier build, whose guard runs."""
    system.must("mkdir", "-p", "/run/hostrouting")
    for path, text in former_files().items():
        system.lay(path, text, mode=0o755 if path.endswith(".sh") else 0o644)
    system.must("systemctl", "daemon-reload")
    system.must("systemctl", "enable", *UNIT_OF_PART.values(), LAYOUT.guard_unit)
    system.must("systemctl", "start", LAYOUT.guard_unit)
    wait_for("the former guard", lambda: system.read("/run/former-guard"))


def await_refusals(system: System, more: int) -> None:
    """Wait until so many more starts were refused."""

    def refused() -> int:
        units = ("systemctl", "list-units", "--plain", "--no-legend", "--failed", "agent@*")
        return len(system.must(*units).splitlines())

    before = refused()
    wait_for("starts to be refused", lambda: refused() >= before + more)


def test_it_is_replaced() -> None:
    """It is replaced while units start."""
    more = {f"/etc/systemd/system/{TEMPLATE}": AGENT}
    with gate.host(more=more, machines=()) as system:
        install_former(system)
        starting = Thread(target=system.run, args=("sh", "-c", STARTS))
        starting.start()
        await_refusals(system, 3)
        gate.apply(system, CONFIG, code=1)
        await_refusals(system, 3)
        system.must("rm", "/run/starts")
        starting.join()
        system.settled()
        assert system.read(RAN) is None, "an address escapes all the time"

        nothing_of_it_is_left(system)
        the_new_gate_and_guard_work(system)


def nothing_of_it_is_left(system: System) -> None:
    """The scripts are gone, and so is the process of the guard."""
    names = system.must("find", LAYOUT.config_directory, "-type", "f", "-printf", "%P\n")
    assert sorted(names.split()) == ["config.json", "hostrouting.pyz"]
    assert "bash" not in system.show(LAST, "ExecCondition")
    assert GATE_MARK in system.show(LAST, "ExecCondition")
    assert system.run("pgrep", "-f", "guard.sh").returncode


def the_new_gate_and_guard_work(system: System) -> None:
    """The unit starts when no address escapes any more."""
    assert len(gate.ours(system)) == 1
    system.must("ip", "route", "flush", "proto", "213")
    wait_for("the guard", lambda: len(gate.ours(system)) == 1)
    gate.overlap(system, "del")
    system.must("systemctl", "start", LAST)
    assert system.read(RAN) == "ran\n"
