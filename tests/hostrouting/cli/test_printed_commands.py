"""What a page prints is typed in a shell on a machine with the real kernel, gate and guard, by the
three ways of calling. test_incidents types all that is printed, on fake hosts.

After it, each gated unit is started, and the guard makes a pass: what was repaired stays so.
"""

import json
import re
import shlex
import sys
from collections.abc import Callable
from contextlib import nullcontext
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import pytest

from hostrouting.boot.on_disk import gated_on_disk
from hostrouting.boot.units import DROP_IN_TEXT
from hostrouting.check.check import check_kernel
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.files import LocalFiles
from hostrouting.host.host import Host
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.node.clock import MachineClock
from hostrouting.node.guard import Guard
from tests.hostrouting.cli.machine import H200, Machine, private_machine
from tests.hostrouting.cli.terminal import ATerminal
from tests.support.compiled import compiled_program
from tests.support.incidents import GUARDED, config
from tests.support.tasks import CIDR, LAYOUT, REPAIR

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

_CONDITION = re.search(r"/bin/sh -c '(.*)' hostrouting-gate", DROP_IN_TEXT)
assert _CONDITION is not None
GATE = _CONDITION[1].replace("$$", "$").replace("%%", "%")
"""What a shell runs as the condition of a gated unit."""
ENV = Path(sys.executable).parent
WAYS = {
    "hostrouting": f"PATH={ENV}:$PATH",
    f"{ENV}/hostrouting": "",
    f"{ENV}/python hostrouting.pyz": "",
}
"""How hostrouting is called, and what the shell needs for that."""
NODE = [line for line in H200 if re.search(r"\b(?:peer-)?ib[124567]\b", line) is None]
"""The commands that make a node with two of its eight cards, which is quicker."""
WITHOUT, WITH = config(), config(*REPAIR, guard=GUARDED)
BACKUP = "/run/backup.json"


def lose_routes(machine: Machine) -> None:
    """Another program deletes our routes."""
    machine.ip("route", "flush", "proto", "213")


def type_routes(machine: Machine) -> None:
    """Somebody has typed what repairs the host, with our protocol."""
    machine.batch(f"route add {half} proto 213 via 10.0.0.1 dev eth0" for half in REPAIR)


def take_place(machine: Machine) -> None:
    """Another program's route has the place of one of ours."""
    machine.batch([f"route del {REPAIR[0]}", f"route add {REPAIR[0]} dev ib3 proto static"])


def mark_packets(machine: Machine) -> None:
    """A rule sends packets with a mark elsewhere."""
    machine.batch(["route add default dev ib0 table 77", "rule add fwmark 0x7 lookup 77"])


def break_config(machine: Machine) -> None:
    """Somebody has broken config.json."""
    machine.shell(f"echo '{{' >{LAYOUT.config_path}")


class Row(NamedTuple):
    """What was applied and has happened then, whose page is read, and the lines that it prints."""

    applied: dict[str, object] | None
    happens: Callable[[Machine], object]
    page: str
    typed: str


REPAIR_LINE = "hostrouting repair | hostrouting apply --config -"
ROWS = {
    "fresh": Row(
        None,
        lambda _: None,
        f"check {CIDR}",
        "\n  ".join(f"ip route add {half} via 10.0.0.1 dev eth0" for half in REPAIR),
    ),
    "fresh, for good": Row(
        None,
        lambda _: None,
        f"check {CIDR}",
        f"hostrouting repair {CIDR} | hostrouting apply --config - --confirm 60",
    ),
    "not configured": Row(WITHOUT, type_routes, "check", REPAIR_LINE),
    "lost": Row(WITH, lose_routes, "status", f"hostrouting apply --config {LAYOUT.config_path}"),
    "taken": Row(WITH, take_place, "status", REPAIR_LINE),
    "marked": Row(
        WITH,
        mark_packets,
        "status",
        "hostrouting repair --allow 'fwmark 0x7' | hostrouting apply --config -",
    ),
    "broken": Row(
        WITH,
        break_config,
        "status",
        "hostrouting apply --allow-removal --config",
    ),
}


@pytest.mark.parametrize(("name", "called"), [*zip(ROWS, cycle(WAYS), strict=False)])
def test_what_is_printed_does_what_the_page_says(name: str, called: str, tmp_path: Path) -> None:
    """Nothing escapes afterwards, also when a unit has started and the guard has made a pass."""
    row = ROWS[name]
    (tmp_path / "hostrouting.pyz").write_bytes(compiled_program(sys.executable))
    with private_machine() as machine:
        machine.batch(NODE)
        machine.outside(BACKUP).write_text(json.dumps(WITH))
        if row.applied is not None:
            settings = json.dumps(row.applied)
            words = ("apply", "--config", "-", "--wait", "0", "--allow-removal")
            machine.hostrouting(*words, text=settings)
        row.happens(machine)

        page = type_in(machine, f"{called} {row.page}", called, tmp_path)
        line = row.typed.replace("hostrouting repair", f"{called} repair")
        line = line.replace("hostrouting apply", f"{called} apply")
        assert line in page
        if line.endswith("--config"):
            line += f" {BACKUP}"
        said = type_in(machine, line, called, tmp_path)

        assert escapes_nothing(machine), said
        assert all(pass_gate(machine, unit) for unit in gated_on_disk(files_of(machine)))
        pass_guard(machine)
        assert escapes_nothing(machine), said


def type_in(machine: Machine, lines: str, called: str, folder: Path) -> str:
    """Type these lines in a shell of the machine, and press Enter where that is asked."""
    script = f"cd {shlex.quote(str(folder))}\n{WAYS[called]}\n{lines}"
    terminal = ATerminal(*machine.enter, "bash", "-c", script)
    try:
        if "--confirm" in lines:
            terminal.await_text("Press Enter")
            terminal.type("\n")
        terminal.await_end()
    finally:
        terminal.kill()
    return terminal.shown.replace("\r", "")


def escapes_nothing(machine: Machine) -> bool:
    """Whether the verdict is OK with what is installed; by a check here, which is quicker."""
    path = machine.outside(LAYOUT.config_path)
    known = HostRoutingConfig.from_mapping(WITHOUT)
    if path.exists():
        known = HostRoutingConfig.load(str(path))
    with machine.inside(), NetlinkBackend() as kernel:
        return check_kernel(kernel, known).verdict == "ok"


def pass_gate(machine: Machine, unit: str) -> bool:
    """Run the gate for this unit as systemd does, and see whether it lets the unit start.

    Process 1 is in the network of the machine, because the gate enters that.
    """
    alone = ("unshare", "--pid", "--mount-proc", "--fork", "--kill-child")
    done = machine.run(*alone, "/bin/sh", "-c", GATE, "hostrouting-gate", unit)
    sys.stdout.write(done.stderr)  # shown if the test fails
    return done.returncode == 0


def files_of(machine: Machine) -> LocalFiles:
    """The files of the machine, as this process reads them."""
    return LocalFiles(str(machine.outside("/")))


def pass_guard(machine: Machine) -> None:
    """Let the guard make a pass, if there is one."""
    if not machine.outside(LAYOUT.unit_path(LAYOUT.guard_unit)).exists():
        return
    host = Host(backend=NetlinkBackend, files=files_of(machine), manager=None)
    with machine.inside(), host.open_kernel() as kernel:
        Guard(host, kernel, clock=MachineClock(), locked=lambda: nullcontext("")).make_next_pass()
