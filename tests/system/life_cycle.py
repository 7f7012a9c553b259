"""A machine starts again and again as an agent for Kubernetes nodes drives it, and the gate decides each start.

Two machines take turns: an update of the node stops the old one, writes the files of the new one, starts it, and removes
those of the old one. Before each start the agent writes the machine's own drop-ins and its .nspawn file, and tells
systemd to reload. The start itself pulls in what the agent installed: a unit that flushes nftables, one that writes the
machine's files again and reloads once more, and one that configures RDMA, which here brings the address that captures
the cluster's network, or takes it away. A reset of the node removes all of the agent's files, and its whole folder; the
next bootstrap writes them again, and configures the gate before the next start or only after it. A refused machine is
restarted every 10 s.

What is promised: the machine's program is executed exactly if no address escapes when the gate is asked, which is after
those units.

    python -m tests.system.life_cycle --starts 1000 --seed 7 --tree DIRECTORY

Here: the agent's files and what the agent does. Not here: how starts are counted (`storm`).
"""

import argparse
import random
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from hostrouting.config.values import Mode
from tests.support.agents import Agents, agents
from tests.support.gate import LAYOUT, config, end, host
from tests.support.needs import absent
from tests.support.systemd import MACHINE_SETTINGS, NEEDS, System, this_tree
from tests.support.waiting import wait_for
from tests.system.storm import WORD, Tally, account, leave_word

MACHINES = ("kube1", "kube2")
PLAIN, RELOAD, HEALED = "start", "written during the start", "restarted when repaired"
RESET, KEPT = "configured after a reset", "not configured after a reset"
KINDS = {PLAIN: 60, RELOAD: 25, RESET: 6, KEPT: 6, HEALED: 3}
"""What happens around a start, and how often that is drawn, in percent."""

_UNITS = "/etc/systemd/system"
_FLUSH, _RDMA = "nftables-flush.service", "ib_rdma_configure.service"
_CAPTURES, _STATE = "172.16.1.5/16", "/run/test-rdma"
_HELPER = "/usr/local/bin/agent-helper"
_CHANGING = 0.4  # seconds after the beginning of a start: until then the agent may write its files again

_FLUSH_UNIT = """\
[Unit]
Before=systemd-nspawn@.service
After=iptables.service nftables.service
StartLimitIntervalSec=0
[Service]
Type=oneshot
ExecStart=/usr/sbin/nft flush ruleset
[Install]
RequiredBy=systemd-nspawn@.service
"""
_RDMA_UNIT = f"""\
[Unit]
StartLimitIntervalSec=0
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'ip -4 address flush dev ib0; xargs -r ip address add dev ib0 <{_STATE}'
"""
_REGENERATION = """\
[Unit]
Wants=systemd-udev-settle.service
After=systemd-udev-settle.service
StartLimitIntervalSec=0
[Service]
Type=oneshot
ExecStart={helper} {machine}
"""
_OVERRIDE = """\
# {number}
[Unit]
Requires={regeneration}
After={regeneration}
StartLimitIntervalSec=0
[Service]
Restart=on-failure
RestartSec=10s
ExecStartPre=-/usr/bin/machinectl terminate {machine}
ExecStartPre=/bin/mkdir -p /run/bpffs/{machine}
ExecStartPre=/bin/sh -c 'mountpoint -q /run/bpffs/{machine} || mount -t tmpfs bpf /run/bpffs/{machine}'
ExecStartPost=/bin/true
Environment=SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 NUMBER={number}
DeviceAllow=char-ipvtap rwm
"""
_DEPENDENCIES = f"""\
[Unit]
Requires={_RDMA}
After={_RDMA} systemd-udev-settle.service
"""
# Writes the machine's files as they are, but with another number, as new files.
_HELPER_TEXT = f"""\
#!/bin/sh -e
for file in {_UNITS}/systemd-nspawn@"$1".service.d/override.conf /etc/systemd/nspawn/"$1".nspawn; do
  sed "1s/.*/# written during the start $(date +%N)/" "$file" >"$file.own"
  mv "$file.own" "$file"
done
systemctl daemon-reload
"""


@attrs.frozen
class Start:
    """One start of a machine, and what happens around it."""

    machine: str
    kind: str
    is_right: bool
    """Whether no address escapes once the units that the start pulls in have run."""
    moment: float
    """When the agent writes the files again, in seconds after the beginning, if it does."""

    @property
    def labels(self) -> tuple[str, ...]:
        """What the start is counted under."""
        return (self.kind, self.machine, "routes right" if self.is_right else "routes wrong")

    def verdict(self, *, is_cut_short: bool) -> bool:
        """Whether the machine has to run; nothing is cut short here."""
        return self.is_right or is_cut_short


class LifeCycle:
    """A node, and its agent."""

    def __init__(self, system: System, crew: Agents, seed: int) -> None:
        """Take a node as `living` furnishes it."""
        self.system, self._crew = system, crew
        self._random = random.Random(seed)  # noqa: S311  no secret: the seed is told
        self._number = 0
        self.tally = Tally(seed)
        self._bootstrap()
        self._configure()

    def draw(self, kinds: Sequence[str] = tuple(KINDS)) -> Start:
        """Draw a start of the other machine."""
        chance = self._random
        kind = chance.choices(kinds, [KINDS[kind] for kind in kinds])[0]
        machine = MACHINES[(self._number + 1) % len(MACHINES)]
        is_right = kind == HEALED or chance.random() < 0.6
        return Start(machine, kind, is_right=is_right, moment=chance.uniform(0, _CHANGING))

    def play(self, one: Start) -> str:
        """Carry a start out; what was wrong with it."""
        self._number += 1
        for machine in MACHINES:
            self._stop(machine)
        if one.kind in {RESET, KEPT}:
            self._reset()
            self._bootstrap()
        if one.kind == RESET:
            self._configure()
        self._write(one.machine)
        since, word = time.time(), self.system.outside(WORD)
        word.write_text("")
        self._set_rdma(is_right=one.is_right and one.kind != HEALED)
        self.system.must("systemctl", "start", "--no-block", _unit(one.machine))
        if one.kind == RELOAD:
            time.sleep(one.moment)
            self._write(one.machine)
        runs = self._await_start(one.machine)
        if one.kind == HEALED and not runs and not word.read_text():
            self._set_rdma(is_right=True)
            self.system.must("ip", "-4", "address", "flush", "dev", "ib0")
            wait_for("the restart", word.read_text)
            runs = self._await_start(one.machine)
        executed = len(word.read_text().splitlines())
        if executed > 1 or runs != bool(executed):
            self.tally.surprises.append(
                f"executed {executed} times, runs: {runs}: {one}\n{account(self.system, since)}"
            )
        fault = self.tally.count(one, ran=bool(executed))
        if fault and fault not in self.tally.first:
            self.tally.first[fault] = f"{one}\n{account(self.system, since)}"
        if one.kind == KEPT:
            self._configure()
        return fault

    def _bootstrap(self) -> None:
        """Write the files that all machines share."""
        lay = self.system.lay
        lay(f"{LAYOUT.agent_directory}/config.json", "{}\n")
        lay(f"{_UNITS}/{_FLUSH}", _FLUSH_UNIT)
        lay(f"{_UNITS}/{_RDMA}", _RDMA_UNIT)
        lay(_HELPER, _HELPER_TEXT, mode=0o755)
        tie = f"{_UNITS}/systemd-nspawn@.service.requires/{_FLUSH}"
        if not self.system.outside(tie).is_symlink():
            self.system.link(tie, f"{_UNITS}/{_FLUSH}")

    def _configure(self) -> None:
        outcome = self._crew.begin("Configure", config(mode=Mode.STRICT)).wait()
        # The check of the bootstrap judges the host as the last start left it: in STRICT its error is a verdict.
        if outcome.returncode and "OVERLAP" not in outcome.stdout:
            self.tally.surprises.append(f"Configure failed: {outcome.stdout}")

    def _reset(self) -> None:
        """Remove what the agent wrote: of each machine, of all of them, and its folder with whatever is there."""
        for machine in MACHINES:
            self._clear(machine)
        for path in (f"{_UNITS}/systemd-nspawn@.service.requires", LAYOUT.agent_directory):
            shutil.rmtree(self.system.outside(path))
        for path in (f"{_UNITS}/{_FLUSH}", f"{_UNITS}/{_RDMA}", _HELPER):
            self.system.outside(path).unlink()
        self.system.must("systemctl", "daemon-reload")

    def _write(self, machine: str) -> None:
        """Write the files of a machine, remove those of the other, and reload, as before each start."""
        for other in MACHINES:
            if other != machine:
                self._clear(other)
        regeneration = _regeneration(machine)
        told = {"machine": machine, "regeneration": regeneration, "number": self._random.random(), "helper": _HELPER}
        for path, text in {
            f"{_UNITS}/{regeneration}": _REGENERATION.format(**told),
            f"{_UNITS}/{_unit(machine)}.d/override.conf": _OVERRIDE.format(**told),
            f"{_UNITS}/{_unit(machine)}.d/10-dependencies.conf": _DEPENDENCIES,
            f"/etc/systemd/nspawn/{machine}.nspawn": f"# {told['number']}\n{MACHINE_SETTINGS}",
        }.items():
            self.system.lay(f"{path}.new", text)
            self.system.outside(f"{path}.new").rename(self.system.outside(path))
        self.system.must("systemctl", "daemon-reload")

    def _clear(self, machine: str) -> None:
        """Remove the files of a machine."""
        shutil.rmtree(self.system.outside(f"{_UNITS}/{_unit(machine)}.d"), ignore_errors=True)
        for path in (f"{_UNITS}/{_regeneration(machine)}", f"/etc/systemd/nspawn/{machine}.nspawn"):
            self.system.outside(path).unlink(missing_ok=True)

    def _stop(self, machine: str) -> None:
        self.system.run("systemctl", "stop", "--no-block", _unit(machine))
        end(self.system, machine)

    def _set_rdma(self, *, is_right: bool) -> None:
        self.system.outside(_STATE).write_text("" if is_right else f"{_CAPTURES}\n")

    def _await_start(self, machine: str) -> bool:
        """Wait until the start has ended, or systemd waits for the next; return whether the machine runs."""
        found: dict[str, str] = {}

        def has_ended() -> bool:
            said = self.system.must("systemctl", "show", "-p", "Job,ActiveState,SubState", _unit(machine))
            found.update({"Job": "", **dict(line.split("=", 1) for line in said.splitlines())})
            is_over = found["ActiveState"] in {"active", "inactive", "failed"}
            return found["Job"] in {"", "0"} and (is_over or found["SubState"].startswith("auto-restart"))

        wait_for(f"the start of {machine} to end", has_ended)
        return found["ActiveState"] == "active"


def _unit(machine: str) -> str:
    return f"systemd-nspawn@{machine}.service"


def _regeneration(machine: str) -> str:
    return f"unbounded-agent-regenerate-config@{machine}.service"


@contextmanager
def living(seed: int, *, tree: Path | None = None) -> Iterator[LifeCycle]:
    """A node whose machines leave word when they are executed."""
    with host(machines=MACHINES, tree=tree) as system:
        leave_word(system)
        with agents(system) as crew:
            yield LifeCycle(system, crew, seed)


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.system.life_cycle", description=__doc__.partition("\n")[0])
    parser.add_argument("--starts", type=int, default=100)
    parser.add_argument("--tree", type=Path, default=this_tree(), help="the root of the files to boot from")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--kind", action="append", choices=KINDS, help="starts of this kind only")
    asked = parser.parse_args()
    if lacking := absent(NEEDS):
        parser.error(f"it needs {', '.join(lacking)}")
    with living(asked.seed, tree=asked.tree) as life:
        began = time.monotonic()
        for number in range(1, asked.starts + 1):
            drawn = life.draw(asked.kind or tuple(KINDS))
            if fault := life.play(drawn):
                sys.stdout.write(f"{number}: {fault}: {drawn}\n")
                sys.stdout.flush()
        sys.stdout.write(f"{time.monotonic() - began:.0f} s\n{life.tally}\n")
    return 1 if life.tally.first or life.tally.surprises else 0


if __name__ == "__main__":
    sys.exit(_main())
