"""What the gate adds to the start of a machine, under a real systemd; beside it, what the original's units add.

The machine is a program that does nothing, so that all that is measured of a start is what comes before the machine.
"""

import json
import statistics
import sys
from collections.abc import Iterator

from hostrouting.config.values import Mode
from tests.benchmarks.boot import OBVIOUS_CHECK, OBVIOUS_ROUTES
from tests.benchmarks.contest import Contest, Goal, LeftOut
from tests.support.gate import CIDR, HALVES, config, host
from tests.support.needs import absent
from tests.support.systemd import NEEDS

__all__ = ["gate_contests"]

_WORK = "start of a machine"
_ROUNDS = 25
_UNITS = "/etc/systemd/system"
_STUB = """\
[Unit]
StartLimitIntervalSec=0
[Service]
ExecStart=
ExecStart=/bin/true
Type=exec
"""
# The published construction, which orders nothing: the machine starts beside the scripts.
_ORIGINAL = """\
[Unit]
Before=systemd-nspawn@.service
StartLimitIntervalSec=0
[Service]
Type=oneshot
ExecStart=/bin/bash /etc/{name}.sh
"""
# The least that can hold a machine back in this way: it starts a unit, waits for it, and the unit does nothing.
_LEAST = """\
[Service]
ExecStartPre=/bin/bash -c "systemctl start nothing.service"
"""
_NOTHING = """\
[Unit]
StartLimitIntervalSec=0
[Service]
Type=oneshot
ExecStart=/bin/bash -c :
"""
# In turn, in the system itself: what systemctl takes for each machine, round by round.
_TIMES = """\
import json, subprocess, sys, time
times = {name: [] for name in sys.argv[2:]}
for number in range(int(sys.argv[1]) + 1):
    for name in times:
        begin = time.perf_counter()
        subprocess.run(["systemctl", "start", f"systemd-nspawn@{name}.service"], check=True)
        if number:
            times[name].append(time.perf_counter() - begin)
print(json.dumps(times))
"""


def gate_contests() -> Iterator[Contest | LeftOut]:
    """One contest: the gate, and the original's units."""
    if lacking := absent(NEEDS):
        yield LeftOut(_WORK, f"it needs {', '.join(lacking)}")
        return
    words = " ".join(str(route.destination) for route in HALVES)
    requires = "[Unit]\nRequires=original-routes.service original-check.service\n"
    template = "systemd-nspawn@{}.service.d"
    files = {
        f"{_UNITS}/{template.format('')}/90-stub.conf": _STUB,
        f"{_UNITS}/{template.format('original')}/50-original.conf": requires,
        f"{_UNITS}/{template.format('least')}/50-least.conf": _LEAST,
        f"{_UNITS}/nothing.service": _NOTHING,
        f"{_UNITS}/original-routes.service": _ORIGINAL.format(name="original-routes"),
        f"{_UNITS}/original-check.service": _ORIGINAL.format(name="original-check"),
        "/etc/original-routes.sh": OBVIOUS_ROUTES.format(words=words, family=4),
        "/etc/original-check.sh": OBVIOUS_CHECK.format(words=CIDR, family=4),
    }
    with host(config(*HALVES, mode=Mode.STRICT), more=files, machines=()) as system:
        for machine in ("bare", "original", "least"):
            system.link(f"{_UNITS}/{template.format(machine)}/00-host-routing.conf", "/dev/null")
        system.must("systemctl", "daemon-reload")
        program = [sys.executable, "-c", _TIMES, str(_ROUNDS), "bare", "gated", "original", "least"]
        done = system.run(*program, timeout=300)
    if done.returncode:
        raise RuntimeError(f"the machines do not start: {done.stderr}")
    times = json.loads(done.stdout)
    added = {
        name: [one - bare for one, bare in zip(times[name], times["bare"], strict=True)]
        for name in ("gated", "original", "least")
    }
    beside = statistics.median(added["original"]) * 1e3
    note = f"the original's units, which run beside the machine and hold nothing back, add {beside:.0f} ms"
    gate = "what the gate adds"
    values = {gate: added["gated"], "a gate whose unit does nothing": added["least"]}
    yield Contest(_WORK, values, (Goal(gate, 0.080),), notes=(note,))
