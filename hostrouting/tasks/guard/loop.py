"""Guard keeps the routing of a host right until it is stopped.

Here: the loop, which waits, looks, repairs through the tasks, and reports what has changed. Not here: when to look and
what may be repaired (`pace`), and how something is repaired (the tasks themselves).
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, cast

import attrs

import phases
from hostrouting.boot.gate import Gate
from hostrouting.boot.gate_state import find_edits, opening_findings
from hostrouting.config.settings import HostRoutingConfig, needs_config
from hostrouting.errors import BackendError, FileError, HostBusy, HostRoutingError
from hostrouting.finding import ESCAPES, Finding
from hostrouting.host.host import Host, needs_host
from hostrouting.host.systemd import Line, NoService, Service
from hostrouting.release import __version__
from hostrouting.tasks.configure import make_tasks
from hostrouting.tasks.guard.pace import Fight, Fights, Pace
from hostrouting.tasks.guard.state import State, figures
from hostrouting.tasks.results import Look, Repair
from phases.errors import ExceptionGroup

if TYPE_CHECKING:
    from typing_extensions import Self

    from hostrouting.host.files import Lock
    from hostrouting.kernel.base import RouteBackend, Watch
    from hostrouting.tasks.base import HostTask

_REPAIRED = "6d1f2c0a5f0b4f5a9a1d7b0f4c7e2a11"
_VERDICT = "9b3d7c54e2a84d0f8c6f1e5a0d924b72"
_PROBLEM = "c07a4e8b1d6249d3b5f2a9e603c81f73"
_FIGHT = "e58b0f6d93c14a7db2c6d4179a5f0e74"
"""The MESSAGE_ID of each kind of line: journalctl MESSAGE_ID=… finds them."""

_NO_KERNEL = "an image does not have a running kernel, so there is nothing to guard"
_LOCK_AGAIN = 1.0  # seconds until the next attempt to lock the host, while another run holds it
_LOCK_BY = 90.0  # seconds after which that is a failure
_CALM_AGAIN = 1.0  # seconds until the next attempt to read tables that change too fast
_CALM_BY = 120.0  # seconds after which that is a failure; until then the former answer holds
_LONGEST = 30.0  # seconds of one wait: after a suspension, the clock that waits has stood still
_JUMP = 5.0  # seconds by which the two clocks may differ after a wait
_SETTLING = 1.0  # seconds of one sleep between an event and its look, so that orders do not wait longer
_LINES = 20  # lines about problems of one name that begin or end with one look
_FEW = 3  # routes that do not stay; more begin together for one reason, such as a link that flaps, and get one line


def _spent() -> float:
    """The processor time of this thread and of the programs that it has run."""
    return time.thread_time() + sum(os.times()[2:4])


def _by_chance() -> float:
    """A random number from 0 to 1; to import `random` takes longer."""
    return int.from_bytes(os.urandom(4), "big") / (1 << 32)


class Orders:
    """Orders to a running guard from outside: to read its configuration again."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._reload = False
        self._wake: Callable[[], object] = lambda: None

    def reload(self) -> None:
        """Read the configuration again before the next look. May be called in a signal handler."""
        self._reload = True
        self._wake()

    def taken(self) -> bool:
        """Whether `reload` was called since the last time."""
        if not self._reload:
            return False
        # An order that comes before this line is done with the one that was seen; one that comes after it stays.
        self._reload = False
        return True

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Iterator[None]:
        """Call `wake` after each order, while the block runs."""
        self._wake = wake
        try:
            yield
        finally:
            self._wake = lambda: None


@attrs.frozen
class Guard:
    """Look at the host after each change that matters and once a minute, repair it, and keep the verdict true.

    It runs until it is cancelled; its end changes nothing. A gated unit is never started or stopped. It watches what is
    configured: the static routes, the expected CIDRs, the probe rewrite.
    """

    name: ClassVar[str] = "guard"
    config: HostRoutingConfig = attrs.field(validator=needs_config)
    host: Host = attrs.field(factory=Host.local, validator=needs_host, kw_only=True)
    again: Callable[[], HostRoutingConfig] | None = attrs.field(default=None, kw_only=True)
    """Reads the configuration again when that is ordered."""
    follows: bool = attrs.field(default=False, kw_only=True)
    """Whether the configuration is also read before each look: that of the host, which another run may change."""
    orders: Orders = attrs.field(factory=Orders, kw_only=True, eq=False, repr=False)
    service: Service = attrs.field(factory=NoService, kw_only=True, eq=False, repr=False)
    chance: Callable[[], float] = attrs.field(default=_by_chance, kw_only=True, eq=False, repr=False)
    """Returns a random number from 0 to 1, so that a thousand nodes do not look at the same moment."""
    spent: Callable[[], float] = attrs.field(default=_spent, kw_only=True, eq=False, repr=False)
    """Returns the seconds of processor time that were used so far."""

    def do(self, ctx: phases.Context) -> phases.Skip | None:
        """See the class."""
        if self.host.backend is None:
            return phases.Skip(_NO_KERNEL)
        self.host.rights().require_network()
        with (
            self._alone() as alone,
            self.host.backend() as backend,
            backend.watch() as watch,
            ctx.on_cancel(watch.wake),
            self.orders.waking(watch.wake),
        ):
            watching = _Watching(self, ctx, watch, alone)
            self.service.notify("READY=1")
            try:
                watching.run()
            finally:
                watching.close()
                self.service.notify("STOPPING=1")
        return None

    @contextmanager
    def _alone(self) -> Iterator[Callable[[], None]]:
        """Hold the lock of the guard: two guards on one host would take each other for another program.

        What is returned takes the lock again if its file was deleted.
        """
        lock = self._lock("a guard already runs on this host: {}; stop it first")

        def stay_alone() -> None:
            nonlocal lock
            if not lock.is_whole():
                lock.release()
                lock = self._lock("the lock was deleted, and another guard now runs on this host: {}")

        try:
            yield stay_alone
        finally:
            lock.release()

    def _lock(self, refusal: str) -> Lock:
        files, path = self.host.files, self.host.layout.guard_lock_path
        lock = files.try_lock(path)
        if lock is None:
            raise HostBusy(refusal.format(files.holder(path)))
        return lock


class _Lent:
    """A backend that several tasks use: closing it does nothing."""

    def __init__(self, backend: RouteBackend) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


class _Watching:
    """One run of a guard."""

    def __init__(self, guard: Guard, ctx: phases.Context, watch: Watch, stay_alone: Callable[[], None]) -> None:
        """Listen before the first look, so that no change is missed."""
        self._stay_alone = stay_alone
        self._guard, self._ctx, self._clock, self._service = guard, ctx, ctx.clock, guard.service
        self._orders, self._watch = guard.orders, watch
        # If another run holds the host, the guard comes again instead of waiting for the lock.
        self._host = attrs.evolve(guard.host, lock_wait=0.0, backend=self._lend)
        self._backend: RouteBackend | None = None  # of the looks since the last full one
        self._pace = Pace.begin(self._clock.now())
        self._fights = Fights()
        self._denied: list[str] = []  # the keys whose repair has to wait
        self._answers: dict[str, Look] = {}  # the last answer of each task
        self._restless: dict[str, float] = {}  # the tasks that could not read the tables, and since when
        self._state = State(since=self._clock.utc())
        self._told = self._state  # what the lines in the journal say so far
        self._held_since: float | None = None  # since when another run holds the host
        self._listed: str | None = ""  # the gate's list with which the configuration was read; not known yet
        self._use(guard.config)

    def _use(self, config: HostRoutingConfig) -> None:
        """Use this configuration from now on. A task's former answer holds until its next one."""
        self._config = config
        self._answers = {
            task.name: self._answers[task.name]
            for task in self._tasks()
            if task.name in self._answers and task.is_wanted
        }
        self._restless.clear()
        self._fights = Fights()  # a change of the configuration is not a fight
        self._watch.listen(nftables=config.probe_rewrite.enabled)

    def _tasks(self, host: Host | None = None) -> tuple[HostTask[Any], ...]:
        return make_tasks(self._config, host or self._host, wait=0)

    def _lend(self) -> RouteBackend:
        """One backend for all tasks and looks: unchanged parts are read once. A full look opens another."""
        if self._backend is None and self._guard.host.backend is not None:
            self._backend = self._guard.host.backend()
        return cast("RouteBackend", _Lent(cast("RouteBackend", self._backend)))

    def close(self) -> None:
        """Close the backend: the next look reads everything."""
        if self._backend is not None:
            self._backend.close()
            self._backend = None

    def run(self) -> None:
        """Wait and look, until the run is cancelled."""
        while True:
            self._ctx.check()
            self._stay_alone()
            if self._orders.taken():
                self._reload()
            seconds = self._pace.wait(self._clock.now())
            if seconds <= 0:
                self._look()
            else:
                self._wait(seconds)
            self._alive()

    def _alive(self) -> None:
        """Tell the manager that the guard is alive."""
        self._service.notify("WATCHDOG=1")

    def _wait(self, seconds: float) -> None:
        limit = _LONGEST if self._service.watchdog is None else min(_LONGEST, self._service.watchdog / 3)
        seconds = min(seconds, limit)
        begun, at = self._clock.now(), self._clock.utc()
        if self._pace.event is not None:
            self._ctx.sleep(min(seconds, _SETTLING))  # an event was heard: what comes with it is not counted
        elif self._watch.wait(seconds, clock=self._clock):
            self._pace = self._pace.with_event(self._clock.now())
        passed = self._clock.now() - begun
        if abs((self._clock.utc() - at).total_seconds() - passed) > _JUMP:
            self._pace = self._pace.with_event(self._clock.now())  # the machine was suspended, or its time was set

    def _look(self) -> None:
        """Look and repair, or report why not; then decide when to look again."""
        begun, spent = self._clock.now(), self._guard.spent()
        self._discard_events()
        self._denied.clear()
        try:
            look = self._ask_tasks()
        except HostBusy:
            if self._held_since is None:
                self._held_since = begun
            if begun - self._held_since < _LOCK_BY:
                self._pace = self._pace.postponed(self._clock.now() + _LOCK_AGAIN)
                return
            look = self._report_failure(self._told_holder())
        except HostRoutingError as error:  # the host cannot be locked
            look = self._report_failure(str(error))
        else:
            look = self._report(attrs.evolve(look, seconds=self._clock.now() - begun))
        self._watch.heed(look.concerns)
        ended, spent = self._clock.now(), self._guard.spent() - spent
        self._pace = self._pace.looked(
            ended,
            spent=spent,
            failed=bool(look.failures),
            chance=self._guard.chance(),
            idle=not (look.repairs or look.lost or look.waiting),
        )
        if any(ended - since < _CALM_BY for since in self._restless.values()):
            self._pace = self._pace.again(ended, _CALM_AGAIN)
        for concern in look.concerns or ():
            if concern.expires is not None:  # whole seconds, so the route ends before one more has passed
                self._pace = self._pace.sooner(begun + concern.expires + 1.0)
        if self._denied:
            self._pace = self._pace.sooner(ended + min(self._fights.wait(key, ended) for key in self._denied))

    def _discard_events(self) -> None:
        """Discard the events before a look. Some changes have no event, so everything is read once a minute."""
        if self._pace.event is not None:
            self._watch.wait(0, clock=self._clock)
        if self._pace.event is None or self._pace.failures or self._clock.now() >= self._pace.due:
            self.close()

    def _ask_tasks(self) -> Look:
        """The answers of all tasks. No other run can change the host or its configuration meanwhile."""
        found = Look()
        with self._host.locked(self._ctx) as host:
            self._held_since = None
            if self._guard.follows:
                self._take_configuration()
            for task in self._tasks(host):
                self._alive()
                found += self._ask(task)
        return found + self._look_at_gate()

    def _look_at_gate(self) -> Look:
        """Findings for `apply` to mend: edited files that decide about a start, and unknown tasks."""
        try:
            gate = Gate(self._host)
            edits = [edit for edit in find_edits(gate) if edit.name == "gate-open"]
            opened = opening_findings(self._host, self._clock.utc()) if gate.gated else ()
            return Look(findings=(*edits, *opened))
        except FileError as error:
            return Look(failures={"gate": str(error)})

    def _ask(self, task: HostTask[Any]) -> Look:
        """The answer of one task; its former one if it cannot answer now."""
        former = _without_repairs(self._answers.get(task.name, Look()))
        try:
            found = task.keep(self._ctx, self._may_repair, self._alive) if task.is_wanted else Look()
        except (HostRoutingError, ExceptionGroup) as error:
            if isinstance(error, BackendError) and error.kind == "unsettled":
                now = self._clock.now()
                if now - self._restless.setdefault(task.name, now) < _CALM_BY:
                    return attrs.evolve(former, unknown=(task.name,))
            else:
                self._restless.pop(task.name, None)
            found = attrs.evolve(former, failures={task.name: str(error)}, unknown=(task.name,))
        else:
            self._restless.pop(task.name, None)
        self._answers[task.name] = found
        return found

    def _told_holder(self) -> str:
        holder = self._host.files.holder(self._host.layout.lock_path)
        held = f"another run of hostrouting has held this host for more than {_LOCK_BY:g} s: {holder}"
        return f"{held}; wait for it, or stop it if it hangs"

    def _report(self, look: Look) -> Look:
        """Write the results of this look, and report what is new."""
        now = self._clock.now()
        self._fights = self._fights.later(now).without(look.waiting).repaired((*look.repairs, *look.lost), now)
        self._publish(self._state.after(look, self._fights.named(now), self._clock.utc()))
        return look

    def _report_failure(self, text: str) -> Look:
        """Write and report why there was no look. The tasks' former answers still hold."""
        look = sum(map(_without_repairs, self._answers.values()), Look(failures={"guard": text}, concerns=None))
        self._publish(self._state.after_attempt(look, self._fights.named(self._clock.now())))
        return look

    def _publish(self, state: State) -> None:
        self._state = state
        self._note("listening", _told_troubles(self._watch.troubles))
        try:
            self._write()
        finally:
            self._tell()

    def _may_repair(self, repair: Repair) -> bool:
        if self._fights.may_repair(repair, self._clock.now()):
            return True
        self._fights = self._fights.denied(repair, self._clock.now())
        self._denied.append(repair.key)
        return False

    def _reload(self) -> None:
        """Read the configuration again, as ordered, and look at once.

        The host's own configuration is read by the look, under the lock.
        """
        self._service.notify("RELOADING=1", f"MONOTONIC_USEC={int(self._clock.now() * 1e6)}")
        if not self._guard.follows:
            self._take_configuration()
        self._pace = self._pace.sooner(self._clock.now())
        self._service.notify("READY=1")

    def _take_configuration(self) -> None:
        """Use the present configuration; if it cannot be read as a whole, keep the former one.

        Raises the error if a run has changed what is installed since: the former one would undo that.
        """
        if self._guard.again is None:
            return
        # It has a digest of each file: a run that changes any of them changes it, too.
        listed = self._host.files.read(self._host.layout.gate_steps_path) if self._guard.follows else ""
        try:
            found = self._guard.again()
        except HostRoutingError as error:
            if listed != self._listed:
                raise
            self._note("reading", f"the configuration stays as it was: {error}")
            return
        self._listed = listed
        self._note("reading", "")
        if found != self._config:
            self._line("the configuration has changed; the new one is used from now on", 6)
            self._use(found)

    def _note(self, about: str, text: str) -> None:
        """Keep this sentence about a problem of the guard itself; an empty one removes it."""
        self._state = self._state.noted(about, text)

    def _tell(self) -> None:
        """Log one line for each change since the last call."""
        before, self._told = self._told, self._state
        now, then = self._state.look, before.look
        for repair in now.repairs[:_LINES]:
            told = f"repaired {repair.key}: there was {repair.found}, now there is {repair.ours}"
            self._line(told, 5, _REPAIRED, **_names(repair))
        if len(now.repairs) > _LINES:
            self._line(f"repaired {len(now.repairs) - _LINES:,} more like these", 5, _REPAIRED)
        if now.verdict and now.verdict != then.verdict:
            told = f" (it was {then.verdict})" if then.verdict else ""
            level = 6 if now.verdict == "ok" else 4
            self._line(f"the verdict is {now.verdict}{told}", level, _VERDICT, VERDICT=now.verdict)
        self._tell_findings("", now.findings, then.findings, 4)
        self._tell_findings("no longer: ", then.findings, now.findings, 6)
        faults, former = self._state.faults, before.faults
        for name in {**former, **faults}:
            if name not in faults:
                self._line(f"no longer: {former[name]}", 6, _PROBLEM)
            elif faults[name] != former.get(name):
                self._line(faults[name], 3, _PROBLEM)
        known = {fight.last.key for fight in before.fights}
        new = [fight for fight in self._state.fights if fight.last.key not in known]
        routes = [fight for fight in new if not _is_table(fight)]
        if len(routes) > _FEW:
            told = f"{len(routes):,} routes do not stay; one of them: {routes[0].last.key} {_told_fight(routes[0])}"
            self._line(told, 4, _FIGHT, **_names(routes[0].last))
            new = [fight for fight in new if _is_table(fight)]
        for fight in new:
            self._line(f"{fight.last.key} does not stay: it {_told_fight(fight)}", 4, _FIGHT, **_names(fight.last))

    def _tell_findings(self, words: str, found: Iterable[Finding], known: Iterable[Finding], level: int) -> None:
        """Write a line for each new finding; above a limit for each name, one line counts the others."""
        identities = set(map(_identity, known))
        new: dict[str, list[Finding]] = {}
        for finding in found:
            if _identity(finding) not in identities:
                new.setdefault(finding.name, []).append(finding)
        for alike in new.values():
            for finding in alike[:_LINES]:
                line = attrs.evolve(finding, remedy="").line if words else finding.line  # nothing is left to do
                self._line(f"{words}{line}", level, _PROBLEM, **_fields(finding))
            if len(alike) > _LINES:
                self._line(f"{words}{len(alike) - _LINES:,} more findings like these", level, _PROBLEM)

    def _line(self, text: str, level: int, kind: str = "", **fields: str) -> None:
        """Write one line to the journal or, without one, to the run's log; `kind` is its MESSAGE_ID."""
        named = {f"HOSTROUTING_{name}": value for name, value in fields.items()}
        if not self._service.tell(Line(text, level, {**({"MESSAGE_ID": kind} if kind else {}), **named})):
            (self._ctx.log.info if level > 4 else self._ctx.log.warning)("%s", text)

    def _write(self) -> None:
        """Write the figures for a collector, then the state for `status`, which includes an error of the first."""
        import json  # noqa: PLC0415  other tasks do not need it

        self._note("writing", "")
        layout = self._host.layout
        self._write_file(layout.figures_path, figures(self._state, version=__version__))
        self._write_file(layout.guard_path, json.dumps(self._state.to_mapping()) + "\n")

    def _write_file(self, path: str, text: str) -> None:
        try:
            self._host.files.write(path, text)
        except FileError as error:
            if error.errno == errno.EROFS and self._service.watchdog is not None:
                raise  # the directory was deleted and made again: only a new start of the service may write into it
            self._note("writing", str(error))


def _without_repairs(look: Look) -> Look:
    """The look without its repairs and times, which must count only once."""
    return attrs.evolve(
        look, repairs=(), lost=(), waiting=(), unknown=(), concerns=None, seconds=0.0, repair_seconds=0.0
    )


def _told_troubles(troubles: Iterable[str]) -> str:
    text = "; ".join(troubles)
    return text and f"{text}; until that works again, these changes are noticed once a minute"


def _identity(finding: Finding) -> tuple[object, ...]:
    """The unchanging part of a finding; its sentence may change, as with seconds that are left."""
    return finding.name, finding.target, finding.facts.get("held", finding.sentence)


def _fields(finding: Finding) -> dict[str, str]:
    """The fields by which a line can be found in the journal."""
    fields = {"FINDING": finding.name, "TARGET": finding.target}
    if finding.name in ESCAPES:
        fields |= {"CIDR": finding.facts["cidr"], "DEV": " ".join(finding.facts["devs"])}
    return fields | ({"PREFIX": finding.target} if finding.name.startswith("route-") else {})


def _names(repair: Repair) -> dict[str, str]:
    """The fields by which a line can be found in the journal: the key and, for a route, the prefix."""
    prefix = repair.key.partition(" metric ")[0]
    return {"KEY": repair.key, **({} if " " in prefix else {"PREFIX": prefix})}


def _told_fight(fight: Fight) -> str:
    found, ours = fight.last.found, fight.last.ours
    return (
        f"was repaired {fight.rounds} times, and the last time there was {found} instead of {ours}; to see what "
        f"changes it, run: {'nft monitor' if _is_table(fight) else 'ip monitor'}"
    )


def _is_table(fight: Fight) -> bool:
    """Whether the fight is about a table of nftables and not about a route."""
    return fight.last.key.startswith("nftables")
