"""Guard keeps the routing of a host right until it is told to stop.

Here: the loop, which waits, looks, repairs through the tasks, and reports what has changed. Not here: when to look and
what may be repaired (`hostrouting.guard`), and how something is repaired (the tasks themselves).
"""

from __future__ import annotations

import errno
import os
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs

import phases
from hostrouting.config import needs_config
from hostrouting.errors import BackendError, FileError, HostBusy, HostRoutingError, Unsettled
from hostrouting.guard import Fights, Look, Pace, State, figures
from hostrouting.host import Host, needs_host
from hostrouting.release import __version__
from hostrouting.system.service import Line, NoService, Service
from hostrouting.tasks.configure import TASKS
from phases.python310 import ExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from hostrouting.backends.base import Watch
    from hostrouting.config import HostRoutingConfig
    from hostrouting.guard import Fight, Problem, Repair
    from hostrouting.tasks.boot import HostTask

__all__ = ["Guard", "Orders"]

_REPAIRED = "6d1f2c0a5f0b4f5a9a1d7b0f4c7e2a11"
_VERDICT = "9b3d7c54e2a84d0f8c6f1e5a0d924b72"
_PROBLEM = "c07a4e8b1d6249d3b5f2a9e603c81f73"
_FIGHT = "e58b0f6d93c14a7db2c6d4179a5f0e74"
"""The MESSAGE_ID of each kind of line: journalctl MESSAGE_ID=… finds them."""

_NO_KERNEL = "an image does not have a running kernel, so there is nothing to guard"
_BUSY = 1.0  # seconds until the next attempt if another run holds the host
_LONGEST = 30.0  # seconds of one wait: after a suspension, the clock that waits has stood still
_JUMP = 5.0  # seconds by which the two clocks may differ after a wait
_SETTLING = 1.0  # seconds of one sleep between an event and its look, so that orders do not wait longer
_LINES = 20  # lines about problems that begin or end with one look
_RESTLESS = 120.0  # seconds of a former answer while the tables change too fast, or another run holds the host


def _spent() -> float:
    """The processor time of this thread and of the programs that it has run."""
    return time.thread_time() + sum(os.times()[2:4])


def _by_chance() -> float:
    """A random number from 0 to 1; to import `random` takes longer."""
    return int.from_bytes(os.urandom(4), "big") / (1 << 32)


class Orders:
    """What reaches a running guard from outside: its configuration is to be read again, or something has changed."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._lock = threading.RLock()  # a signal handler may interrupt the thread that holds it
        self._given: set[str] = set()
        self._wake: Callable[[], object] = lambda: None

    def reload(self) -> None:
        """Read the configuration again before the next look. May be called in a signal handler."""
        self._give("reload")

    def look(self) -> None:
        """Something has changed on the host."""
        self._give("look")

    def taken(self, order: Literal["reload", "look"]) -> bool:
        """Whether this order was given; it is then done with."""
        with self._lock:
            found = order in self._given
            self._given.discard(order)
        return found

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Iterator[None]:
        """Call `wake` after each order, while the block runs."""
        self._wake = wake
        try:
            yield
        finally:
            self._wake = lambda: None

    def _give(self, order: str) -> None:
        with self._lock:
            self._given.add(order)
        self._wake()


@attrs.frozen
class Guard:
    """Look at the host after every event and once a minute, repair what has changed, and keep the verdict true.

    It runs until it is cancelled; its end changes nothing. A machine is never started or stopped. It watches what is
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
            self._alone(),
            self.host.backend() as backend,
            backend.watch() as watch,
            ctx.on_cancel(watch.wake),
            self.orders.waking(watch.wake),
            ExitStack() as ears,
        ):
            watching = _Watching(self, ctx, watch, ears)
            self.service.notify("READY=1")
            try:
                watching.run()
            finally:
                self.service.notify("STOPPING=1")
        return None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the guard: two on one host would count each other's repairs as another program's doing."""
        files, path = self.host.files, self.host.layout.guard_lock_path
        lock = files.try_lock(path)
        if lock is None:
            raise HostBusy(f"a guard already runs on this host: {files.holder(path)}; stop it first")
        try:
            yield
        finally:
            lock.release()


class _Watching:
    """One run of a guard."""

    def __init__(self, guard: Guard, ctx: phases.Context, watch: Watch, ears: ExitStack) -> None:
        """Listen before the first look, so that no change is missed. `ears` is closed at the end."""
        self._guard, self._ctx, self._clock, self._service = guard, ctx, ctx.clock, guard.service
        self._orders, self._watch, self._ears = guard.orders, watch, ears
        # If another run holds the host, the guard comes again instead of waiting for the lock.
        self._host = attrs.evolve(guard.host, lock_wait=0.0)
        self._pace = Pace.begin(self._clock.now())
        self._fights = Fights()
        self._denied: list[str] = []  # the keys whose repair has to wait
        self._looks: dict[str, Look] = {}  # the last answer of each task
        self._restless: dict[str, float] = {}  # the tasks that could not read the tables, and since when
        self._state = State(since=self._clock.utc())
        self._busy_since: float | None = None  # since when another run holds the host
        self._said: dict[str, str] = {}  # what is wrong with reading, writing or listening, so that it is said once
        self._use(guard.config)

    def _use(self, config: HostRoutingConfig) -> None:
        """Use this configuration from now on; nftables is listened to only if it is about nftables."""
        self._config = config
        self._looks.clear()
        self._restless.clear()
        self._ears.close()
        if self._host.nft_events is not None and config.probe_rewrite.enabled:
            self._ears.enter_context(self._host.nft_events(self._orders.look))

    def run(self) -> None:
        """Wait and look, until the run is cancelled."""
        while True:
            self._ctx.check()
            if self._orders.taken("reload"):
                self._reload()
            seconds = self._pace.wait(self._clock.now())
            if seconds <= 0:
                self._look()
            else:
                self._wait(seconds)
            self._service.notify("WATCHDOG=1")

    def _wait(self, seconds: float) -> None:
        limit = _LONGEST if self._service.watchdog is None else min(_LONGEST, self._service.watchdog / 3)
        seconds = min(seconds, limit)
        begun, at = self._clock.now(), self._clock.utc()
        if self._pace.event is not None:
            self._ctx.sleep(min(seconds, _SETTLING))  # an event was heard: what comes with it is not counted
        elif self._hears(seconds) or self._orders.taken("look"):
            self._pace = self._pace.heard(self._clock.now())
        passed = self._clock.now() - begun
        if abs((self._clock.utc() - at).total_seconds() - passed) > _JUMP:
            self._pace = self._pace.heard(self._clock.now())  # the machine was suspended, or its time was set

    def _hears(self, seconds: float) -> bool:
        """Whether something was heard within this time. If listening fails, that is said once, and tried again soon."""
        try:
            heard = self._watch.wait(seconds, clock=self._clock)
        except BackendError as error:
            self._say_once("listen", f"changes are not noticed until the next regular look: {error}", 3)
            self._ctx.sleep(min(seconds, _SETTLING))
            return False
        self._said.pop("listen", None)
        return heard

    def _look(self) -> None:
        begun, spent = self._clock.now(), self._guard.spent()
        self._hear_nothing()
        self._denied.clear()
        try:
            look = self._looked()
        except HostBusy as error:
            if self._busy_since is None:
                self._busy_since = begun
            if begun - self._busy_since < _RESTLESS:
                self._pace = self._pace.postponed(self._clock.now() + _BUSY)
                return
            look = self._former(failures={"guard": str(error)})
        except HostRoutingError as error:  # the host cannot be locked
            look = self._former(failures={"guard": str(error)})
        ended = self._clock.now()
        look = attrs.evolve(look, seconds=ended - begun)
        self._fights = self._fights.later(ended)
        self._fights = self._fights.made((*look.repairs, *look.lost), ended)
        named = self._fights.named(ended)
        before, self._state = self._state, self._state.after(look, named, self._clock.utc())
        self._tell(before)
        self._write()
        spent = self._guard.spent() - spent
        self._pace = self._pace.looked(ended, spent=spent, failed=bool(look.failures), chance=self._guard.chance())
        if any(ended - since < _RESTLESS for since in self._restless.values()):
            self._pace = self._pace.again(ended, _BUSY)
        if self._denied:
            self._pace = self._pace.sooner(ended + min(self._fights.wait(key, ended) for key in self._denied))

    def _hear_nothing(self) -> None:
        """What was heard before a look is done with."""
        self._orders.taken("look")
        if self._pace.event is not None:
            self._hears(0)

    def _looked(self) -> Look:
        """Look while no other run can change the host, or the configuration that is installed on it."""
        found = Look()
        with self._host.locked(self._ctx) as host:
            self._busy_since = None
            if self._guard.follows:
                self._read_again()
            for make in TASKS:
                self._service.notify("WATCHDOG=1")
                found += self._kept(make(self._config, host=host, wait=0))
        return found

    def _kept(self, task: HostTask[Any]) -> Look:
        """The answer of one task. If there is none now, the former one still holds."""
        former = _known(self._looks.get(task.name, Look()))
        try:
            found = task.keep(self._ctx, self._may_repair)
        except Unsettled as error:
            now = self._clock.now()
            since = self._restless.setdefault(task.name, now)
            if now - since < _RESTLESS:
                return former
            found = attrs.evolve(former, failures={task.name: str(error)})
        except (HostRoutingError, ExceptionGroup) as error:
            self._restless.pop(task.name, None)
            found = attrs.evolve(former, failures={task.name: str(error)})
        else:
            self._restless.pop(task.name, None)
        self._looks[task.name] = found
        return found

    def _former(self, *, failures: dict[str, str]) -> Look:
        """What all tasks have found, without a new look."""
        found = Look()
        for look in self._looks.values():
            found += _known(look)
        return found + Look(failures=failures)

    def _may_repair(self, repair: Repair) -> bool:
        if self._fights.may_repair(repair, self._clock.now()):
            return True
        self._fights = self._fights.denied(repair, self._clock.now())
        self._denied.append(repair.key)
        return False

    def _reload(self) -> None:
        """Read the configuration again because that was ordered, and look at once."""
        self._service.notify("RELOADING=1", f"MONOTONIC_USEC={int(self._clock.now() * 1e6)}")
        self._read_again()
        self._pace = self._pace.sooner(self._clock.now())
        self._service.notify("READY=1")

    def _read_again(self) -> None:
        """Use the configuration as it is now: all of it, or, if it cannot be read, the former one."""
        if self._guard.again is None:
            return
        try:
            found = self._guard.again()
        except HostRoutingError as error:
            self._say_once("read", f"the configuration stays as it was: {error}", 3)
            return
        self._said.pop("read", None)
        if found != self._config:
            self._line("the configuration has changed; the new one is used from now on", 6)
            self._use(found)

    def _say_once(self, about: str, text: str, level: int) -> None:
        if self._said.get(about) != text:
            self._line(text, level, _PROBLEM)
        self._said[about] = text

    def _tell(self, before: State) -> None:
        """One line for each change; none if nothing has changed."""
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
        self._tell_problems("", now.problems, set(then.problems), 4)
        self._tell_problems("no longer: ", then.problems, set(now.problems), 6)
        for name in {**then.failures, **now.failures}:
            text = now.failures.get(name)
            if text != then.failures.get(name):
                told = f"{name}: {text}" if text else f"no longer: {name}: {then.failures[name]}"
                self._line(told, 3 if text else 6, _PROBLEM)
        known = {it.last.key for it in before.fights}
        for fight in (it for it in self._state.fights if it.last.key not in known):
            self._line(_fight_line(fight), 4, _FIGHT, **_names(fight.last))

    def _tell_problems(self, words: str, problems: Iterable[Problem], known: Collection[Problem], level: int) -> None:
        """One line for each problem that is not known, but not thousands."""
        new = [it for it in problems if it not in known]
        for it in new[:_LINES]:
            self._line(f"{words}{it.text}", level, _PROBLEM, **dict(it.fields))
        if len(new) > _LINES:
            self._line(f"{words}{len(new) - _LINES:,} more problems like these", level, _PROBLEM)

    def _line(self, text: str, level: int, kind: str = "", **fields: str) -> None:
        """Write one line to the journal, or, if there is none, to the log of the run; `kind` is its MESSAGE_ID."""
        named = {f"HOSTROUTING_{name}": value for name, value in fields.items()}
        if not self._service.tell(Line(text, level, {**({"MESSAGE_ID": kind} if kind else {}), **named})):
            (self._ctx.log.info if level > 4 else self._ctx.log.warning)("%s", text)

    def _write(self) -> None:
        """Write what status and a collector read; if that fails, it is said once."""
        import json  # noqa: PLC0415  other tasks do not need it

        files, layout = self._host.files, self._host.layout
        try:
            files.write(layout.guard_path, json.dumps(self._state.to_mapping()) + "\n")
            files.write(layout.figures_path, figures(self._state, version=__version__))
        except FileError as error:
            self._say_once("write", str(error), 4)
            if error.errno == errno.EROFS and self._service.watchdog is not None:
                raise  # the directory was deleted and made again: only a new start of the service may write into it
        else:
            self._said.pop("write", None)


def _known(look: Look) -> Look:
    """What is still known after a look: its repairs were made once."""
    return attrs.evolve(look, repairs=(), lost=())


def _names(repair: Repair) -> dict[str, str]:
    """The fields by which the journal finds the line: the prefix of a route, and the key."""
    prefix = repair.key.partition(" metric ")[0]
    return {"KEY": repair.key, **({} if " " in prefix else {"PREFIX": prefix})}


def _fight_line(fight: Fight) -> str:
    it = fight.last
    return (
        f"{it.key} does not stay: it was repaired {fight.rounds} times, and the last time there was {it.found} instead "
        f"of {it.ours}; to see what changes it, run: {'nft monitor' if it.key.startswith('nftables') else 'ip monitor'}"
    )
