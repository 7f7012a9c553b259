"""A storm: a machine starts again and again while the configuration changes under it, at every moment of the start.

What is promised about the gate holds at any moment, not only when all is quiet: where the configuration before and the
one after both hold a machine back, it does not start in between, whoever is killed and whatever systemd is told
meanwhile; and where both let it start, it does.

A round settles the host in one configuration, starts the machine and, at a random moment from before the start to its
end, begins to apply another. That may be killed, or systemd may be told to reload or to execute itself anew. Then it
is looked whether the machine's own program was executed at all. What a configuration should come to is said by a table
here, which is compared with calm starts before the storm begins.

    python -m tests.system.storm --starts 1000 --seed 7 --tree DIRECTORY

Here: the rounds, and what came of them. Not here: how a system is booted and a task run in it (`tests.support`).
"""

import argparse
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import attrs

from hostrouting.config.settings import HostRoutingConfig, StaticRoute
from hostrouting.config.values import Mode
from tests.support.agents import Agent, Agents, Outcome, agents
from tests.support.gate import CIDR, HALVES, KUBE1, await_start, config, end, host
from tests.support.needs import absent
from tests.support.systemd import NEEDS, System, this_tree

PROTOCOLS = (213, 214)
WAITS = (0, 3)

# A program in the place of the machine's own, which it becomes after it has left word.
_WITNESS = """\
#!/bin/sh
echo "$INVOCATION_ID" >>/run/test-ran
exec /usr/bin/systemd-nspawn.real "$@"
"""
WORD = "/run/test-ran"

# Refers to the machine and stays active, so that systemd does not forget the machine's unit between two starts.
_KEEPER = "keeps-it-loaded.target"
_MORE = {f"/etc/systemd/system/{_KEEPER}": f"[Unit]\nAfter={KUBE1}\n"}


@attrs.frozen
class Setting:
    """What an operator may configure, and whether a machine may start then."""

    name: str
    routes: tuple[StaticRoute, ...]
    mode: Mode | None
    allows: bool
    """Whether a machine may start if it is applied to a host that has nothing."""

    @property
    def succeeds(self) -> bool:
        """Whether the routes of the setting can be installed."""
        return _TAKEN not in self.routes

    def allows_after(self, before: "Setting") -> bool:
        """Whether a machine may start if it is applied over another.

        If its routes cannot be installed, those of the other stay, and so does STRICT.
        """
        if self.succeeds or not (before.succeeds and before.routes):
            return self.allows
        return Mode.STRICT not in {self.mode, before.mode} or {*HALVES} <= {*before.routes}


_ELSEWHERE, _TAKEN = StaticRoute("10.77.0.0/16"), StaticRoute(CIDR)
_LOWER, _UPPER = HALVES

SETTINGS = {
    it.name: it
    for it in (
        Setting("strict", (), Mode.STRICT, allows=False),
        Setting("strict, routes elsewhere", (_ELSEWHERE,), Mode.STRICT, allows=False),
        Setting("strict, lower half", (_LOWER,), Mode.STRICT, allows=False),
        Setting("strict, upper half", (_UPPER,), Mode.STRICT, allows=False),
        Setting("strict, conflict", (_TAKEN,), Mode.STRICT, allows=False),
        Setting("strict, halves and conflict", (*HALVES, _TAKEN), Mode.STRICT, allows=False),
        Setting("strict, halves", tuple(HALVES), Mode.STRICT, allows=True),
        Setting("warn", (), Mode.WARN, allows=True),
        Setting("warn, routes elsewhere", (_ELSEWHERE,), Mode.WARN, allows=True),
        Setting("warn, conflict", (_TAKEN,), Mode.WARN, allows=False),
        Setting("halves", tuple(HALVES), None, allows=True),
        Setting("routes elsewhere", (_ELSEWHERE,), None, allows=True),
        Setting("conflict", (_TAKEN,), None, allows=False),
        Setting("nothing", (), None, allows=True),
    )
}


@attrs.frozen
class Choice:
    """A setting in one of its variants."""

    setting: Setting
    protocol: int = PROTOCOLS[0]
    wait: int = WAITS[0]

    @property
    def task(self) -> str:
        """The task that brings it about."""
        return "Configure" if self.setting.routes or self.setting.mode else "Remove"

    @property
    def config(self) -> HostRoutingConfig:
        """The configuration as the task takes it."""
        return config(*self.setting.routes, mode=self.setting.mode, protocol=self.protocol)

    def __str__(self) -> str:
        return f"{self.setting.name} (protocol {self.protocol}, wait {self.wait})"


NOTHING = Choice(SETTINGS["nothing"])

CALM, PLAIN, KILLED, RELOAD, REEXEC = "no apply", "apply", "apply killed", "daemon-reload", "daemon-reexec"
KINDS = {CALM: 4, PLAIN: 50, KILLED: 20, RELOAD: 16, REEXEC: 10}
"""What is done around a start, and how often that is drawn, in percent."""


@attrs.frozen
class Round:
    """One start of the machine, and what is done around it. Moments are seconds after the start."""

    before: Choice
    after: Choice
    kind: str
    begins: float
    """When the second configuration begins to be applied."""
    comes: float
    """When the process is killed, or which command systemd gets."""
    is_from_nothing: bool
    """Whether the first configuration is applied to a host that has none, or over that of the round before."""
    is_loaded: bool
    """Whether systemd knows the machine's unit before the start, and so does not look for its files then."""

    def verdict(self, *, is_cut_short: bool) -> bool | None:
        """Whether the machine has to run; None where it may.

        It may stay down when the start was not heard, or the second configuration not applied to its end.
        """
        before, after = self.before.setting, self.after.setting
        verdicts = {before.allows, after.allows_after(before)}
        return None if len(verdicts) > 1 or (is_cut_short and True in verdicts) else verdicts.pop()

    @property
    def labels(self) -> tuple[str, ...]:
        """What the round is counted under."""
        return (
            self.kind,
            "settled from nothing" if self.is_from_nothing else "settled over another",
            "unit loaded" if self.is_loaded else "unit not loaded",
            f"{self.before.setting.name} -> {self.after.setting.name}",
        )

    def __str__(self) -> str:
        settled = "from nothing" if self.is_from_nothing else "over the round before"
        loaded = "loaded" if self.is_loaded else "not loaded"
        words = [f"{self.before}, settled {settled}", f"start at 0 ms, the unit {loaded}"]
        if self.kind != CALM:
            words.append(f"{self.after} from {self.begins * 1000:.0f} ms on")
        if self.kind in {KILLED, RELOAD, REEXEC}:
            words.append(f"{self.kind} at {self.comes * 1000:.0f} ms")
        return "; ".join(words)


class Counted(Protocol):
    """A start of a machine that a tally can count."""

    @property
    def labels(self) -> tuple[str, ...]:
        """What the start is counted under, beside all."""

    def verdict(self, *, is_cut_short: bool) -> bool | None:
        """Whether the machine has to run; None where it may."""


FAULTS = ("violations", "false refusals")
_COLUMNS = ("starts", "ran", "refused", *FAULTS)


@attrs.define
class Tally:
    """What came of the rounds."""

    seed: int
    counts: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    """By the description of a round, and by its result."""
    first: dict[str, str] = attrs.field(factory=dict)
    """By fault, the first round that had it, with the journal of it."""
    surprises: list[str] = attrs.field(factory=list)
    """What else was not as it should be: a task that ended otherwise than the table says, a systemctl that failed.

    Not with daemon-reexec, during which whoever waits for systemd may lose it.
    """
    unheard: int = 0
    """Starts that systemd may not have received, because it executed itself again."""

    def count(self, one: Counted, *, ran: bool, is_cut_short: bool = False) -> str:
        """Take down a round; its fault, empty when it has none."""
        fault = "" if one.verdict(is_cut_short=is_cut_short) in {None, ran} else FAULTS[0] if ran else FAULTS[1]
        for label in ("all", *one.labels):
            for column in ("starts", "ran" if ran else "refused", *([fault] if fault else [])):
                self.counts[label, column] += 1
        return fault

    def total(self, column: str, label: str = "all") -> int:
        """One of the figures."""
        return self.counts[label, column]

    def __str__(self) -> str:
        labels = dict.fromkeys(label for label, _ in self.counts)
        faulty = [it for it in labels if any(self.counts[it, fault] for fault in FAULTS)]
        rows = sorted((label for label in labels if " -> " not in label), key=lambda label: (label != "all", label))
        rows += sorted((it for it in faulty if " -> " in it), key=lambda it: (-self.counts[it, FAULTS[0]], it))
        width = max(map(len, rows), default=0)
        lines = [f"seed {self.seed}", " " * width + "".join(f"{column:>16}" for column in _COLUMNS)]
        lines += [f"{row:{width}}" + "".join(f"{self.counts[row, name]:16}" for name in _COLUMNS) for row in rows]
        lines += [f"the first of the {fault}: {story}" for fault, story in self.first.items()]
        lines += [f"{self.unheard} starts may have been lost while systemd executed itself"] if self.unheard else []
        if self.surprises:
            lines += [f"{len(self.surprises)} surprises, such as:", *self.surprises[:5]]
        return "\n".join(lines)


class Storm:
    """A host on which rounds are played."""

    def __init__(self, system: System, crew: Agents, seed: int) -> None:
        """Keep the host, which `raging` has prepared."""
        self.system, self._crew = system, crew
        self._random = random.Random(seed)  # noqa: S311  no secret: the seed is told
        self._applying: dict[str, float] = {}
        self._starting: dict[str, float] = {}
        self.tally = Tally(seed)

    def compare(self, names: Iterable[str] = tuple(SETTINGS)) -> None:
        """Compare these lines of the table with calm starts, and take the time that each needs; rounds are drawn from them."""
        for name in names:
            setting = SETTINGS[name]
            self._tidy()
            self._settle(NOTHING)
            zero = time.monotonic()
            self._settle(Choice(setting))
            settled = time.monotonic()
            self.system.run("systemctl", "start", KUBE1)
            self._applying[name], self._starting[name] = settled - zero, time.monotonic() - settled
            if self._has_run() is not setting.allows or self.tally.surprises:
                raise RuntimeError(f"{name}: {self.tally.surprises} {self.system.journal(KUBE1)}")

    def draw(self, *, pairs: Sequence[tuple[str, str]] = (), kinds: Sequence[str] = tuple(KINDS)) -> Round:
        """Draw a round: as a rule both settings come to the same, since only then one outcome is wrong."""
        chance = self._random
        if pairs:
            first, second = chance.choice(pairs)
        else:
            first, is_alike = chance.choice(list(self._applying)), chance.random() < 0.95
            allows = SETTINGS[first].allows is is_alike
            seconds = [name for name in self._applying if SETTINGS[name].allows_after(SETTINGS[first]) is allows]
            second = chance.choice(seconds or [first])
        kind = chance.choices(kinds, [KINDS[it] for it in kinds])[0]
        before, after = (Choice(SETTINGS[it], chance.choice(PROTOCOLS), chance.choice(WAITS)) for it in (first, second))
        applying, starting = self._applying[second], self._starting[first]
        begins = chance.uniform(-applying, starting)
        comes = begins + chance.uniform(0, 1.2 * applying) if kind == KILLED else chance.uniform(-applying, starting)
        return Round(
            before,
            before if kind == CALM else after,
            kind,
            begins=begins,
            comes=comes,
            is_from_nothing=not before.setting.succeeds or chance.random() < 0.5,
            is_loaded=chance.random() < 0.3,
        )

    def play(self, one: Round) -> str:
        """Play a round; what was wrong with it."""
        self._tidy()
        self.system.must("systemctl", "start" if one.is_loaded else "stop", _KEEPER)
        if one.is_from_nothing:
            self._settle(NOTHING)
        self._settle(one.before)
        since = time.time()
        completed = self._rage(one)
        runs, ran = await_start(self.system), self._has_run()
        if runs and not ran:
            raise RuntimeError(f"the machine runs, and has not left word: {one}")
        fault = self.tally.count(one, ran=ran, is_cut_short=not completed)
        if fault and fault not in self.tally.first:
            self.tally.first[fault] = f"{one}\n{account(self.system, since)}"
        return fault

    def _rage(self, one: Round) -> bool:
        """Do everything at its moment; whether systemd heard of the start, and the task came to its own end."""
        begun: list[Agent] = []
        asked: dict[str, subprocess.Popen[str]] = {}

        def kill() -> None:
            begun[0].kill()

        def ask(*words: str) -> None:
            asked[words[0]] = subprocess.Popen(
                self.system.command("systemctl", *words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )

        agenda: list[tuple[float, Callable[[], None]]] = [(0.0, lambda: ask("start", "--no-block", KUBE1))]
        if one.kind != CALM:
            agenda.append((one.begins, lambda: begun.append(self._begin(one.after))))
        if one.kind == KILLED:
            agenda.append((one.comes, kill))
        elif one.kind in {RELOAD, REEXEC}:
            agenda.append((one.comes, lambda: ask(one.kind)))
        agenda.sort(key=lambda it: it[0])
        zero = time.monotonic() - agenda[0][0]
        for moment, act in agenda:
            time.sleep(max(0.0, zero + moment - time.monotonic()))
            act()
        failed = {word: said for word, process in asked.items() if (said := _failure(process))}
        if one.kind == REEXEC:
            self.tally.unheard += "start" in failed
        else:
            self.tally.surprises += [f"systemctl {word}: {said}: {one}" for word, said in failed.items()]
        ends = [self._expect(agent.wait(), one.after, str(one), kind=one.kind) for agent in begun]
        return "start" not in failed and all(ends)

    def _begin(self, choice: Choice) -> Agent:
        return self._crew.begin(choice.task, choice.config, wait=choice.wait)

    def _settle(self, choice: Choice) -> None:
        self._expect(self._begin(choice).wait(), choice, f"settling in {choice}")

    def _expect(self, outcome: Outcome, choice: Choice, story: str, *, kind: str = CALM) -> bool:
        """Whether the task has ended as the table says; a surprise where it has not, and nobody made it."""
        if outcome.returncode == (0 if choice.setting.allows else 1):
            return True
        if kind != REEXEC and (kind, outcome.returncode) != (KILLED, -signal.SIGKILL):
            self.tally.surprises.append(f"exit status {outcome.returncode}: {story}\n{outcome.stdout}")
        return False

    def _tidy(self) -> None:
        """Leave nothing of the machine or of our routes, whoever was killed in the round before."""
        end(self.system)
        self.system.outside(WORD).write_text("")
        self.system.run("systemctl", "reset-failed")
        self.system.run("ip", "-batch", "-", stdin="".join(f"route flush proto {protocol}\n" for protocol in PROTOCOLS))

    def _has_run(self) -> bool:
        return bool(self.system.outside(WORD).read_text())


def account(system: System, since: float) -> str:
    """The journal without what every start of a machine says, and the routes."""
    system.run("journalctl", "--sync")
    said = system.must("journalctl", "--quiet", "--output=short-precise", f"--since=@{since:.6f}")
    lines = [line for line in said.splitlines() if " systemd-nspawn[" not in line and "modprobe" not in line]
    return "\n".join((*lines, system.must("ip", "route")))


def leave_word(system: System) -> None:
    """Let each machine leave a line in `WORD` when its program is executed."""
    nspawn = "/usr/bin/systemd-nspawn"
    system.must("mv", nspawn, f"{nspawn}.real")
    system.lay(nspawn, _WITNESS, mode=0o755)
    system.lay(WORD, "")


@contextmanager
def raging(seed: int, *, tree: Path | None = None) -> Iterator[Storm]:
    """A host whose machine leaves word when it is executed, and a storm over it."""
    with host(more=_MORE, tree=tree) as system:
        leave_word(system)
        with agents(system) as crew:
            yield Storm(system, crew, seed)


def _failure(process: subprocess.Popen[str]) -> str:
    """Wait for it; what it said when it has failed."""
    said = process.communicate(timeout=60)[1]
    return said.strip() or f"exit status {process.returncode}" if process.returncode else ""


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.system.storm", description=__doc__.partition("\n")[0])
    parser.add_argument("--starts", type=int, default=100)
    parser.add_argument("--tree", type=Path, default=this_tree(), help="the root of the files to boot from")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    pair = parser.add_argument("--pair", nargs=2, action="append", default=[], metavar=("BEFORE", "AFTER"))
    pair.help = f"play these settings only: {'; '.join(SETTINGS)}"
    parser.add_argument("--kind", action="append", choices=KINDS, help="play rounds of this kind only")
    asked = parser.parse_args()
    if lacking := absent(NEEDS):
        parser.error(f"it needs {', '.join(lacking)}")
    with raging(asked.seed, tree=asked.tree) as storm:
        storm.compare()
        began = time.monotonic()
        for number in range(1, asked.starts + 1):
            drawn = storm.draw(pairs=asked.pair, kinds=asked.kind or tuple(KINDS))
            if fault := storm.play(drawn):
                sys.stdout.write(f"{number}: {fault}: {drawn}\n")
                sys.stdout.flush()
        sys.stdout.write(f"{time.monotonic() - began:.0f} s\n{storm.tally}\n")
    return 1 if storm.tally.total("violations") else 0


if __name__ == "__main__":
    sys.exit(_main())
