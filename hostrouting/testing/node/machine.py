"""Node: a simulated host. Time passes, and systemd, the gate, the boot scripts and the guard do their work.

Here: whose turn it is, what systemd does, and the laws. Not here: what others do to the host (`actors`), and when
(`life`); the host itself is a FakeHost.

All of it happens in one thread, on the node's clock. Whatever is due while the guard or a pipeline waits is done inside
that wait. So that others can also come between any two actions of theirs, each snapshot, lookup, change, write and call
of systemd is a *moment*, at which a fault can strike or the next step of the life is taken. If only the guard runs and
nothing has happened for a while, the clock jumps to what is due next.

A boot script has the effect of the task that it belongs to: static-routes.sh applies the plan of its routes, and
check-route-overlap.sh examines the kernel. That the scripts decide like the tasks is compared elsewhere
(tests/hostrouting/boot). The gate's protocol is that of host-routing-gate.sh; tests/system compares it with systemd.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import json
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

import phases
from hostrouting.boot.gate_files import parse_gate_steps
from hostrouting.boot.installed import installed_config, kept_config
from hostrouting.check.examine import examine
from hostrouting.check.exceptions import is_like
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.config.values import Mode, Upkeep
from hostrouting.errors import (
    BackendError,
    FileError,
    HostRoutingError,
    NotReady,
    RouteConflict,
    RouteOverlapError,
    UnitFailed,
)
from hostrouting.host.systemd import Line, NoService, UnitState
from hostrouting.kernel.neighbours import Neighbour
from hostrouting.model.prefix import IPV4, IPV6, Prefix, ip_at
from hostrouting.model.route import TABLE_MAIN, NextHop, Route
from hostrouting.model.rule import Rule, missing_rules
from hostrouting.model.snapshot import Address, Link
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.guard.loop import Guard
from hostrouting.tasks.keeping import KeepKernelRules
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing.host import FakeFiles, FakeHost, FakeManager, shown
from hostrouting.testing.kernel.faults import Due, Faults, Moment, Strike
from hostrouting.testing.kernel.filters import MemoryLinkLayer
from hostrouting.testing.topologies import h200
from phases.errors import ExceptionGroup

if TYPE_CHECKING:
    from hostrouting.testing.kernel import MemoryBackend
    from hostrouting.testing.node.actors import Act, Thing, Verb
    from phases.context import Thread

Kind: TypeAlias = Literal["snapshot", "lookup", "change", "watch", "wait", "listen", "file", "manager"]
"""What hostrouting does at a moment."""
Pipeline: TypeAlias = "Callable[[FakeHost, HostRoutingConfig], phases.Task[Any]]"

PROMISED = 200.0
"""The seconds after the last disturbance within which the guard has repaired what it can, and named the rest."""
_PAUSES = (0.05, 1.0, 40.0, 3000.0)  # seconds after which what passes is undone
_BACK: dict[Verb, Verb] = {"add": "delete", "delete": "add", "down": "up", "up": "down"}
_LINKS: dict[Verb, str] = {"add": "add_link", "delete": "delete_link", "up": "set_up", "down": "set_down"}
_SETTLED = 5.0  # seconds without a step or a fault after which the clock jumps, except in a rest
_ROOM = 1 << 30  # bytes in /run/systemd
_PASSING = "/run/"
EMPTY = HostRoutingConfig()
_KEPT = (RouteConflict, NotReady, RouteOverlapError)
"""Failures after which the last good routes stay, and the unit starts with them."""
_NAMES = ("hostrouting", "host-routing", "static-routes", "route-overlap", "kernel-rules")
_BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
_NOBODY = {IPV4: "198.51.100.1", IPV6: "2001:db8:ffff::1"}
_HERE = {"local", "broadcast", "multicast", "anycast"}
_STORY = 400  # events that are remembered
_ASKS = 60
_LINE = 250  # characters of a line in a story


class Killed(BaseException):
    """The running process ends at once; with `is_reboot`, all processes end."""

    is_reboot = False


class _Over(BaseException):
    """The life is over."""


class _Refused(Exception):  # noqa: N818  reads as what happened
    """The gate does not let a unit start. The message says why."""


class BrokenLaw(AssertionError):  # noqa: N818  reads as what happened
    """A law does not hold; `law` is its sentence, and `story` what came before."""

    def __init__(self, law: str, told: str, story: Iterable[Event] = ()) -> None:
        """Take the sentence, what is wrong, and the story."""
        self.law, self.told, self.story = law, told, tuple(story)
        super().__init__("\n".join((f"{law}: {told}", *map(str, self.story))))


@attrs.frozen
class Event:
    """Something that was done, for the story."""

    at: float
    who: str
    what: str

    def __str__(self) -> str:
        days, seconds = divmod(self.at, 86_400)
        return f"day {days:g} {_BEGIN + timedelta(seconds=seconds):%H:%M:%S.%f} {self.who}: {self.what}"


@attrs.frozen
class _Seen:
    """The host before or after a run."""

    others: tuple[int, ...]
    """What others have done so far."""
    routes: list[Route]
    """Our routes."""
    files: dict[str, str]
    """The files that a reboot keeps."""
    marks: dict[str, str | None]
    """The markers."""
    installed: HostRoutingConfig
    has_room: bool = attrs.field(kw_only=True)
    """Whether systemd has room for a daemon-reload."""


class Node:
    """A node of a cluster: its kernel, files, systemd, and everything of hostrouting that runs there."""

    def __init__(
        self,
        *configs: HostRoutingConfig,
        pipeline: Pipeline = lambda host, config: Configure(config, host=host),
        kernel: Callable[[], MemoryBackend] = h200,
        unit: str = "systemd-nspawn@kube1.service",
    ) -> None:
        """Take the configurations that are applied in the life, the pipeline that applies them, and the gated unit.

        `kernel` makes the host as it is after each boot.
        """
        self.configs, self.pipeline, self.unit, self._make_kernel = configs, pipeline, unit, kernel
        self.favourites: Sequence[HostRoutingConfig] = configs
        """The configurations that are applied in this life, beside the first."""
        self.acts: Sequence[Act] = ()
        """What actors do; the node itself takes only those at each boot and rest."""
        self.is_running = False
        """Whether the gated unit runs."""
        self.clock, self._agenda, self._count = _Clock(self), list[Any](), itertools.count()
        self.story: deque[Event] = deque(maxlen=_STORY)
        self.files = FakeFiles(on_change=self._on_change)
        self.wanted = configs[0]
        """The configuration that was applied last, or is to be applied first."""
        self.is_applied = False
        """Whether the last run of the pipeline has succeeded, and nothing of it was removed since."""
        self.failure: HostRoutingError | None = None
        """Why it has failed, if it was not killed."""
        self.good: HostRoutingConfig | None = None
        """The configuration whose routes a later run that fails has to leave as they are, for the unit to start."""
        self.may_hold: tuple[HostRoutingConfig | None, ...] = (None,)
        """The configurations one of which is in force; after a run that was killed, this is the former or the new."""
        self.full_until = 0.0
        """Until when the disk is full, without the file systems in memory."""
        self.foreign_files: dict[str, str] = {}
        """Files of others, with their texts, which no run may change."""
        self.counts: Counter[str] = Counter()
        """How many starts, refusals, applies, failed applies, kills and boots there were."""
        self._faults: list[list[Any]] = []
        self._awake = 0.0  # until when the clock does not jump
        self._disturbances = 0
        self.is_guarded = self._is_ours = False
        self.processes: list[str] = []
        """What runs, the innermost last; empty if systemd has stopped it."""
        self._dying: Killed | None = None
        self._before: list[str] | None = None
        self._boot()

    def _boot(self) -> None:
        """Take a fresh kernel and a fresh systemd."""
        self.kernel, self.manager = self._make_kernel(), _Systemd(node=self, files=self.files)
        with self.kernel.watch() as watch:
            watch.wait(0, clock=self.clock)  # from now on, routes expire as time passes on it
        self.kernel.faults = _Moments(self)
        self.born = self.kernel.snapshot()
        """The kernel as it was after the last boot."""
        self.neighbours = _LinkLayer(self)

    # Time.

    @property
    def now(self) -> float:
        """The seconds since the life began."""
        return self.clock.now()

    def after(self, seconds: float, happening: Callable[[], object]) -> None:
        """Do this after these seconds."""
        heapq.heappush(self._agenda, (self.now + seconds, next(self._count), happening))

    def live(self, seconds: float) -> None:
        """Let this time pass, with everything that happens meanwhile."""
        self.after(seconds, self._end)
        turn = self._go_on
        while True:
            try:
                turn()
                turn = self._go_on
            except _Over:
                return
            except Killed:
                turn = self.boot

    def _go_on(self) -> None:
        if self.is_guarded:
            self._guard()
        else:
            self.pass_time(math.inf, lambda: self.is_guarded)

    def pass_time(self, seconds: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Let time pass and do what is due; longer if nothing has happened for a while."""
        with self._turn(is_ours=False):
            end = max(self.now + seconds, math.nextafter(self.now, math.inf))
            if self.now > self._awake and self._agenda and {*self.processes} <= {self.host.layout.guard_unit}:
                lifetimes = [route.expires for route in self.kernel.snapshot(family=IPV6).routes if route.expires]
                end = max(end, min(self._agenda[0][0], self.now + min(lifetimes, default=math.inf)))
            while not is_over() and self._agenda and self._agenda[0][0] <= end:
                self.next_step()
            if not is_over():
                self.clock.seconds = max(self.now, end)

    def next_step(self) -> None:
        """Do the next due step now, also in the middle of hostrouting's work."""
        if self._agenda:
            at, _, happening = heapq.heappop(self._agenda)
            self.clock.seconds = max(self.now, at)
            self._awake = max(self._awake, self.now + _SETTLED)
            happening()

    def act(self, act: Act, chance: Random) -> None:
        """Let somebody act."""
        self._disturbances += act.disturbs
        done = act.do(self, chance)
        changes = None if done is None else [*done]
        seconds = f", for {(pause := chance.choice(_PAUSES)):g} s" if act.passes else ""
        if changes != [] and act.at == "step":
            which = " ".join(map(str, changes[0])) if changes and len(changes) == 1 else ""
            self.tell(act.who, f"{act.what}{': ' * bool(act.what and which)}{which}{seconds}")
        for verb, thing in changes or ():
            self.put(verb, thing)
        if act.passes:
            for verb, thing in reversed(changes or ()):
                self.after(pause, partial(self.put, _BACK[verb], thing))

    def put(self, verb: Verb, thing: Thing) -> None:
        """Add, delete, set up or down; if the kernel refuses, nothing happens."""
        self._disturbances += 1
        kernel, is_new = self.kernel, verb == "add"
        with suppress(BackendError):
            match thing:
                case Route():
                    kernel.ip_route("add" if is_new else "delete", thing)
                case Rule():
                    (kernel.add_rule if is_new else kernel.delete_rule)(thing)
                case Address():
                    (kernel.add_address if is_new else kernel.delete_address)(thing.dev, thing)
                case Link():
                    getattr(kernel, _LINKS[verb])(thing if is_new else thing.name)

    def rest(self) -> None:
        """End all faults, let the actors bring back what the node needs, and later assert the laws."""
        self._faults.clear()
        self.full_until, self.manager.room = 0.0, _ROOM
        self.tell("all", f"rest for {PROMISED:g} s")
        self._awake = self.now + PROMISED
        self._act_at("rest")
        self.after(PROMISED / 2, partial(self._act_at, "rest"))  # what was not possible at once may be possible now
        self.after(PROMISED, self.require_rest)

    def _act_at(self, at: str) -> None:
        for act in self.acts:
            if act.at == at:
                self.act(act, Random(str(self.now)))  # noqa: S311  not a secret

    def tell(self, who: str, what: str) -> None:
        """Add to the story."""
        self.story.append(Event(self.now, who, what[:_LINE]))

    def _end(self) -> None:
        raise _Over

    # Whose turn it is.

    @property
    def host(self) -> FakeHost:
        """The host as a pipeline sees it."""
        return FakeHost(kernel=self.kernel, files=self.files, manager=self.manager, neighbours=self.neighbours)

    def arm(self, strike: Callable[[Kind], object], *, nth: int, kinds: tuple[Kind, ...] = ()) -> None:
        """Let a fault strike at the nth moment from now, or at the next moment of its kind after that."""
        self._faults.append([nth, kinds, strike])

    def moment(self, kind: Kind) -> None:
        """Count a moment of hostrouting. At most one fault strikes; a dying process does nothing more."""
        if not self._is_ours:
            return
        self._require_untouched()
        if self._dying is not None:
            raise self._dying
        for fault in self._faults:
            fault[0] -= 1
        if due := next((fault for fault in self._faults if fault[0] <= 0 and kind in (fault[1] or (kind,))), None):
            self._faults.remove(due)
            self._awake = max(self._awake, self.now + _SETTLED)
            with self._turn(is_ours=False):
                due[2](kind)
            self._end_stopped()
        if kind == "change":
            self._before = self._others()

    @contextmanager
    def _turn(self, *, is_ours: bool) -> Iterator[None]:
        """Say whether hostrouting or others act; moments of others are not counted."""
        self._require_untouched()
        before, self._is_ours = self._is_ours, is_ours
        try:
            yield
        finally:
            self._require_untouched()
            self._is_ours = before

    def _require_untouched(self) -> None:
        """Require that a change by hostrouting has left the routes, rules and neighbours of others as before."""
        before, self._before = self._before, None
        if before is not None and before != (now := self._others()):
            raise self.broken("nothing of others changes", ", ".join({*before} ^ {*now}) or "their order")

    def _others(self) -> list[str]:
        """The routes of others in every table, the rules, and the neighbours; Linux's own rules may be added."""
        is_ours, self._is_ours = self._is_ours, False
        snapshot, self._is_ours = self.kernel.snapshot(), is_ours
        numbers = {config.protocol for config in self.configs}
        own = [rule for family in (IPV4, IPV6) for rule in missing_rules((), family)]
        routes = [str(route) for route in snapshot.routes if route.protocol not in numbers]
        return [*routes, *(repr(rule) for rule in snapshot.rules if rule not in own), str(self.neighbours)]

    def fill_disk(self) -> None:
        """Let the disk be full for an hour, or until the next rest."""
        self.full_until = self.now + 3600.0

    def _on_change(self, verb: str, path: str) -> None:
        self.moment("file")
        if self._is_ours and self.now < self.full_until and verb != "remove" and not path.startswith(_PASSING):
            reason = f"cannot {verb} {path}: No space left on device; free some space"
            raise FileError(reason, path=path, errno=errno.ENOSPC)

    def kill(self, *, is_reboot: bool = False) -> None:
        """End the running process; in a reboot, all."""
        self.counts["kills"] += not is_reboot
        self._dying = Killed()
        self._dying.is_reboot = is_reboot
        raise self._dying

    def broken(self, law: str, told: str) -> BrokenLaw:
        """The error for a law that does not hold, with the story."""
        return BrokenLaw(law, told, self.story)

    # What runs on the node.

    def apply(self, config: HostRoutingConfig | None) -> None:
        """Run the pipeline or, without a configuration, remove all; another run that holds the lock comes first."""
        if self._is_locked:
            self.after(1.0, lambda: self.apply(config))
            return
        task = Remove(EMPTY, host=self.host) if config is None else self.pipeline(self.host, config)
        name = "the removal" if config is None else f"configuration {(*self.configs, config).index(config)}"
        config = config or EMPTY
        self.counts["applies"] += 1
        self.may_hold = (*self.may_hold, config)
        good, is_routes, before = self.good, False, self._seen()
        failure: HostRoutingError | None = None
        with self._process(name):
            self.is_applied, self.failure, self.good = False, None, None
            try:
                phases.execute(task, self._context())
                self.is_applied, self.good = True, config
                self.tell(name, "is done")
            except phases.TaskFailed as failed:
                failure, is_routes = _first(failed), ConfigureStaticRoutes.name in failed.path
                self.counts["failed applies"] += 1
                self.is_applied = isinstance(failure, RouteOverlapError)
                self.good = config if self.is_applied else good if isinstance(failure, _KEPT) and is_routes else None
                raise failure from failed
            finally:
                self.wanted, self.failure = config, failure
                former = [] if self.is_applied else [*self.may_hold]
                if config in former:
                    former.remove(config)
                # A step that takes protection away is changed after the routes, so not if these fail.
                is_kept = bool(former) and is_routes and not self.is_applied and not _is_strict(config)
                self.may_hold = (*former, *([] if is_kept else [config]))
        if before.others == self._others_did:
            self._require_run(before, name, config, failure, is_routes=is_routes)
        for path, text in self.foreign_files.items():
            if self.files.texts.get(path) != text:
                raise self.broken("no file of others changes", path)

    @property
    def _others_did(self) -> tuple[int, ...]:
        """A count of what can change the host."""
        return self._disturbances, self.counts["applies"], self.counts["starts"]

    def _seen(self) -> _Seen:
        texts = {**self.files.texts, **self.files.links}
        return _Seen(
            self._others_did,
            self.ours(),
            {path: texts[path] for path in texts if not path.startswith(_PASSING)},
            {path: texts.get(path) for path in (self.host.layout.ok_path, self.host.layout.detected_path)},
            self._installed(),
            has_room=self.manager.room == _ROOM,
        )

    def _require_run(
        self, before: _Seen, name: str, config: HostRoutingConfig, failure: HostRoutingError | None, *, is_routes: bool
    ) -> None:
        """Require what a run has promised that nobody disturbed."""
        if failure is not None:
            self._require_kept(before, failure)
            if is_routes:
                self._require_fallback(before, config, failure)
        [shown] = self.manager.show(("NeedDaemonReload",), self.unit)
        if self.is_applied and shown["NeedDaemonReload"] == "yes":
            raise self.broken("systemd has read what is installed", name)
        if self.is_applied and failure is None and (left := self._left_over(config)):
            raise self.broken("nothing of ours is left over", ", ".join(left))

    def _require_kept(self, before: _Seen, error: HostRoutingError) -> None:
        """What a run that has failed says to be as before."""
        now = self._seen()
        if "every change was rolled back" in str(error) and now.routes != before.routes:
            raise self.broken("what was rolled back is as before", f"{error}; {before.routes} became {now.routes}")
        if "/run/systemd" in str(error) and not before.has_room and now.files != before.files:
            changed = ", ".join(path for path, _ in {*now.files.items()} ^ {*before.files.items()})
            raise self.broken("a run that systemd has no room for changes nothing", changed)

    def _require_fallback(self, before: _Seen, config: HostRoutingConfig, error: HostRoutingError) -> None:
        """What stays when the routes have failed: the last good script, all protection, and perhaps the verdict."""
        now, check = self._seen(), self.host.layout.check_script_path
        is_same = isinstance(error, RouteConflict) and now.files.get(check) == before.files.get(check)
        former, left = before.installed, now.installed
        if is_same and now.marks != before.marks:
            raise self.broken("a conflict leaves the last verdict", f"{before.marks} became {now.marks}")
        if self.good is not None and former.static_routes.routes and left.static_routes != former.static_routes:
            raise self.broken("a run whose routes fail leaves the last good script", str(error))
        if _is_strict(former) and not _is_strict(left):
            raise self.broken("a run whose routes fail takes no protection away", str(error))
        if isinstance(error, NotReady) and not self._lacking(config):
            raise self.broken("a run fails only for a reason", str(error))

    def _lacking(self, config: HostRoutingConfig) -> list[int]:
        """The families of the configured routes that have no default route, apart from rules that a run adds."""
        there = {
            route.prefix.family for route in self.kernel.snapshot(table=TABLE_MAIN).routes if not route.prefix.length
        }
        keeps = config.kernel_rules is Upkeep.KEEP
        families = {Prefix.of(route.destination).family for route in config.static_routes.routes}
        return [family for family in families if (family not in there if keeps else not self._legs(family))]

    def _context(self) -> phases.Context:
        return phases.Context(clock=self.clock, observers=[])

    @property
    def _is_locked(self) -> bool:
        return self.host.layout.lock_path in self.files.locked

    def lay(self, path: str, text: str) -> None:
        """Write a file of another program, which hostrouting may not change, and reload systemd."""
        self._disturbances += 1
        self.files.texts[path] = self.foreign_files[path] = text
        self.manager.boot()

    def remove(self, folder: str) -> None:
        """Remove a folder with all that is in it, as another program."""
        for files in (self.files.texts, self.files.links, self.foreign_files):
            for path in [path for path in files if path.startswith(f"{folder}/")]:
                del files[path]

    def boot(self) -> None:
        """Boot: what was in memory is lost."""
        self.counts["boots"] += 1
        self.files.locked.clear()
        self.remove("/run")
        self._boot()
        self._dying, self.is_guarded = None, False
        self.tell("systemd", "boots")
        self._act_at("boot")
        for unit in sorted(self.files.names(f"{self.host.layout.unit_directory}/multi-user.target.wants")):
            with self._process(unit):
                self.manager.begin(unit)

    @contextmanager
    def _process(self, name: str) -> Iterator[None]:
        """A process of hostrouting, which may fail or be killed. A reboot also ends the process that started it."""
        self.processes.append(name)
        try:
            with self._turn(is_ours=True):
                yield
        except HostRoutingError as error:
            self.tell(name, f"failed: {error}")
        except Killed as killed:
            if killed.is_reboot:
                raise
            self._dying = None
            self.tell(name, "was killed")
        finally:
            self.processes.pop()

    def _guard(self) -> None:
        """Run the guard until something ends it; systemd starts it again."""
        with self._process(self.host.layout.guard_unit):
            guard = Guard(
                kept_config(self.host),
                host=self.host,
                again=partial(kept_config, self.host),
                follows=True,
                service=_Journal(node=self),
                chance=lambda: 0.5137,
                spent=lambda: 0.0,
            )
            guard.do(self._context())
        self.pass_time(1.0)  # systemd starts it again

    def wait(self, timeout: float | None, is_over: Callable[[], bool]) -> None:
        """A wait of the guard or a pipeline: time passes, and what is due happens."""
        if timeout != 0 and not is_over():
            self.pass_time(math.inf if timeout is None else timeout, is_over)
        self._end_stopped()

    def _end_stopped(self) -> None:
        """End the process whose turn it is, if systemd has stopped it."""
        if self.processes and not self.processes[-1]:
            self.kill()

    def _installed(self) -> HostRoutingConfig:
        return installed_config(self.host) or EMPTY

    # The gate.

    def start(self) -> None:
        """Start the gated unit as systemd does, from the files that it has read."""
        layout = self.host.layout
        drop_in = layout.gate_script in shown(self.unit, self.manager.read).get("ExecStartPre", "")
        if drop_in and self._is_locked and self.files.is_there(layout.gate_steps_path):
            self.after(1.0, self.start)  # the gate waits for the lock
            return
        self.counts["starts"] += 1
        disturbances = self._disturbances
        try:
            if drop_in:
                self._ask_gate()
        except _Refused as refused:
            self.counts["refusals"] += 1
            self.is_running = False
            self.tell("systemd", f"does not start {self.unit}: {refused}")
            return
        self.is_running = True
        self.tell("systemd", f"starts {self.unit}")
        if disturbances == self._disturbances and (escaped := self._must_hold()):
            raise self.broken("in STRICT, nothing starts while an address escapes", escaped)

    def _must_hold(self) -> str:
        """Why the unit must not start: every configuration that may be in force is STRICT, and an address escapes."""
        found = [self.escapes(config) if config and _is_strict(config) else "" for config in self.may_hold]
        return found[0] if all(found) else ""

    def _ask_gate(self) -> None:
        """Run the gate's service; again if it was killed, as systemd's stop does when hostrouting changes the gate."""
        for _ in range(_ASKS):
            has_finished = False
            with self._process(self.host.layout.gate_unit):
                self._take_steps()
                has_finished = True
            if has_finished:
                return
        raise _Refused("the gate has not finished")

    def _take_steps(self) -> None:
        """Run the scripts in the list, as host-routing-gate.sh does."""
        layout, texts = self.host.layout, self.files.texts
        if layout.gate_script_path not in texts or layout.gate_steps_path not in texts:
            if any(self.files.is_there(layout.gate_drop_in(unit)) for unit in (layout.machine_unit, self.unit)):
                raise _Refused("its script or its list of steps is missing")
            return
        try:
            steps = parse_gate_steps(texts[layout.gate_steps_path])
        except ValueError as error:
            raise _Refused(str(error)) from error
        for step in steps:
            if step.kind == "changing":
                raise _Refused(f"{step.name} is being changed")
            if not self.run_script(step.name) and step.kind == "requires":
                raise _Refused(f"{step.name} failed")

    def run_script(self, name: str) -> bool:
        """Have the effect of a boot script, and return whether it succeeds. An unknown script succeeds."""
        layout, config = self.host.layout, self._installed()
        path = f"{layout.config_directory}/{name}.sh"
        if not self.files.is_there(path):
            return False
        try:
            if path == layout.routes_script_path:
                routes = ConfigureStaticRoutes(config, host=self.host, wait=0)
                routes.carry_out(self._context(), routes.change(up=True), up=True)
            elif path == layout.rules_script_path:
                rules = KeepKernelRules(config, host=self.host)
                rules.carry_out(self._context(), rules.change(up=True), up=True)
            elif path == layout.check_script_path:
                return self._run_check(config)
        except HostRoutingError as error:
            self.tell(path, f"failed: {error}")
            return False
        return True

    def _run_check(self, config: HostRoutingConfig) -> bool:
        found = examine(self._context(), self.kernel, config, wait=0)
        layout, is_bad = self.host.layout, found.verdict in {"overlap", "no-default-route"}
        for path in (layout.ok_path, layout.detected_path, layout.report_path):
            self.files.texts.pop(path, None)
        self.files.texts[layout.detected_path if is_bad else layout.ok_path] = f"{found.verdict}\n"
        return not (is_bad and _is_strict(config))

    # The laws of a node at rest.

    def escapes(self, config: HostRoutingConfig) -> str:
        """An address of the expected CIDRs that leaves by another device, from the kernel's answers alone.

        The kernel is asked at each address at which the prefix of a route or a rule begins, or has just ended.
        """
        snapshot, check = self.kernel.snapshot(), config.route_overlap
        kinds = {link.name: link.kind for link in snapshot.links}
        for cidr in map(Prefix.of, check.expected_cidrs):
            expected = check.expected_devs or tuple(leg.dev for leg in self._legs(cidr.family) if leg.dev)
            if not expected:
                return f"{cidr}: there is no default route"
            prefixes = {*(route.prefix for route in snapshot.routes), *(rule.dst for rule in snapshot.rules)}
            ends = {cidr.first} | {
                end
                for prefix in prefixes
                if prefix is not None and prefix.family == cidr.family
                for end in (prefix.first, prefix.last + 1)
                if cidr.first <= end <= cidr.last
            }
            places = [ip_at(cidr.family, end) for end in sorted(ends)]
            for place, answer in zip(places, self.kernel.lookup(places), strict=True):
                devs = () if answer.route is None else answer.route.devs
                fine = answer.kind == "unicast" and all(
                    dev in expected or is_like(dev, check.allowed_devs, kinds.get(dev, "")) for dev in devs
                )
                if not (fine or answer.kind in _HERE):
                    return f"{place} of {cidr} is {answer.kind}, by {' and '.join(devs) or 'no device'}, not {expected}"
        return ""

    def _legs(self, family: int) -> tuple[NextHop, ...]:
        """The next hops of the deciding default route, from the kernel's answer for an unused address."""
        [answer] = self.kernel.lookup([_NOBODY[family]])
        is_default = answer.kind == "unicast" and answer.route is not None and answer.route.prefix.length == 0
        return answer.route.legs if is_default and answer.route is not None else ()

    def require_rest(self) -> None:
        """Require what holds for a node that was undisturbed for the promised time."""
        if self._is_locked:
            self.after(1.0, self.require_rest)
            return
        config, layout = self.wanted, self.host.layout
        if not self.is_applied:
            self._require_reason(config)
            return
        lost, escaped = self._lost(config), self.escapes(config)
        if self.is_guarded:
            self._require_told(config, lost, escaped)
        if config.guard.enabled is not self.is_guarded:
            raise self.broken("the guard runs if it is enabled", f"enabled: {config.guard.enabled}")
        if left := self._left_over(config):
            raise self.broken("nothing of ours is left over", ", ".join(left))
        is_started = self._restart()
        if not lost and not (escaped and _is_strict(config)) and not is_started:
            raise self.broken("a unit starts if the routing is right", f"{self.unit} does not start")
        marked = [path for path in (layout.detected_path, layout.ok_path) if self.files.is_there(path)]
        right = [layout.detected_path if (escaped := self.escapes(config)) else layout.ok_path]
        if config.route_overlap.expected_cidrs and marked != right and (self.is_guarded or is_started):
            raise self.broken("the markers are true", f"{marked}, but: {escaped or 'no escape'}")

    def _restart(self) -> bool:
        """Start the unit, and return whether it runs."""
        self.is_running = False
        self.start()
        return self.is_running

    def _require_reason(self, config: HostRoutingConfig) -> None:
        """Require that the reason of a run that has failed is still so, and that the unit starts as before it."""
        if (failure := self.failure) is None:
            return
        if not any(finding.remedy for finding in failure.findings):
            raise self.broken("a run that cannot do its work says so, with a remedy", str(failure))
        is_so = (
            self._held(config)
            if isinstance(failure, RouteConflict)
            else self._lacking(config)
            if isinstance(failure, NotReady)
            else ()
        )
        if not is_so:
            raise self.broken("what can be done is done", f"{type(failure).__name__}: {failure}")
        if (good := self.good) is None or not good.static_routes.routes or self._held(good) or self._lost(good):
            return
        if not (self.escapes(config) or self.escapes(good) or self._restart()):
            raise self.broken("what was right before a run that has failed starts", str(failure))

    def _held(self, config: HostRoutingConfig) -> list[Route]:
        """The routes of others in the places of the configured ones."""
        keys = {Prefix.of(route.destination) for route in config.static_routes.routes}
        numbers = {known.protocol for known in self.configs}
        routes = self.kernel.snapshot(table=TABLE_MAIN).routes
        return [route for route in routes if route.prefix in keys and route.protocol not in numbers]

    def _require_told(self, config: HostRoutingConfig, lost: Sequence[Prefix], escaped: str) -> None:
        """Require that the guard's reports are true and name whatever is not as configured."""
        text = self.files.texts.get(self.host.layout.guard_path, "{}")
        said = json.loads(text)
        for prefix in lost:
            is_waiting = "route-waits" in text and not self._legs(prefix.family)
            if str(prefix) not in text and not is_waiting and not said.get("failure"):
                raise self.broken("what the guard cannot repair is named", f"there is no route to {prefix}: {text}")
        verdict = said.get("verdict")
        is_right = verdict == "undecided" or bool(escaped) is (verdict in {"overlap", "no-default-route"})
        if config.route_overlap.expected_cidrs and not is_right:
            raise self.broken("the guard's verdict is true", f"{verdict}, but: {escaped or 'no escape'}")

    def _lost(self, config: HostRoutingConfig) -> list[Prefix]:
        """The configured destinations for which there is no route by the next hop of the default route."""
        ways = {(family, leg.dev, leg.gateway) for family in (IPV4, IPV6) for leg in self._legs(family)}
        routes = self.kernel.snapshot(table=TABLE_MAIN).routes
        there = {
            route.prefix
            for route in routes
            if {(route.prefix.family, leg.dev, leg.gateway) for leg in route.legs} & ways
        }
        there |= {
            Prefix.of(route.destination) for route in config.static_routes.routes if route.gateway or route.dev
        } & {route.prefix for route in self.ours()}
        wanted = [Prefix.of(route.destination) for route in config.static_routes.routes]
        return [prefix for prefix in wanted if prefix not in there]

    def ours(self) -> list[Route]:
        """The routes with a protocol number of the configurations."""
        numbers = {known.protocol for known in self.configs}
        is_ours, self._is_ours = self._is_ours, False
        snapshot, self._is_ours = self.kernel.snapshot(), is_ours
        return [route for route in snapshot.routes if route.protocol in numbers]

    def _left_over(self, config: HostRoutingConfig) -> list[str]:
        """The routes with our protocol numbers that are not configured, and, if nothing is configured, our files."""
        wanted = {(Prefix.of(route.destination), config.protocol) for route in config.static_routes.routes}
        left = [str(route) for route in self.ours() if (route.prefix, route.protocol) not in wanted]
        files = (*self.files.texts, *self.files.links) if config == EMPTY else ()
        return left + [path for path in files if not path.startswith(_PASSING) and any(map(path.__contains__, _NAMES))]


def _first(failed: phases.TaskFailed) -> HostRoutingError:
    """The error of hostrouting; a removal goes on after one, and has several."""
    error = failed.error
    if isinstance(error, ExceptionGroup):
        error = next((each for each in error.exceptions if isinstance(each, HostRoutingError)), error)
    if isinstance(error, HostRoutingError):
        return error
    raise (error if isinstance(error, BrokenLaw) else failed) from failed


def _is_strict(config: HostRoutingConfig) -> bool:
    return config.route_overlap.mode is Mode.STRICT and bool(config.route_overlap.expected_cidrs)


# The edges: each counts the moments of a node.


class _Moments(Faults):
    """The faults of the fake kernel, which it asks at each of its moments."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._node = node

    def strike(self, moment: Moment) -> Strike:
        self._node.moment(moment)
        return super().strike(moment)


class _LinkLayer(MemoryLinkLayer):
    def __init__(self, node: Node) -> None:
        super().__init__(neighbours=[Neighbour("10.0.0.1", "02:00:00:00:00:01", "eth0")])
        self._node = node

    def meet(self) -> Due[BackendError]:
        self._node.moment("change")
        return super().meet()


@attrs.define(kw_only=True)
class _Systemd(FakeManager):
    node: Node

    def reload(self) -> None:
        self.node.moment("manager")
        super().reload()

    def start(self, unit: str, *, timeout: float) -> None:  # noqa: ARG002  as in Manager
        self.node.moment("manager")
        self.begin(unit)

    def begin(self, unit: str) -> None:
        """Start a unit as systemd does at boot, without a request that can fail."""
        super().start(unit, timeout=60)
        if unit == self.node.host.layout.guard_unit:
            self.node.is_guarded = True
        elif not self.node.run_script(unit.removesuffix(".service")):
            self.states[unit] = UnitState("loaded", "failed", "exit-code", 1)
            raise UnitFailed(unit, result="exit-code", status=1, words=("a simulated script failed",))

    def stop(self, unit: str) -> None:
        self.node.moment("manager")
        super().stop(unit)
        if unit == self.node.host.layout.guard_unit:
            self.node.is_guarded = False
        self.node.processes[:] = ["" if name == unit else name for name in self.node.processes]


@attrs.frozen
class _Journal(NoService):
    """The guard's lines, which become a part of the story."""

    node: Node = attrs.field(kw_only=True)

    def tell(self, line: Line) -> bool:
        if line.level < 6:
            self.node.tell("the guard", line.text)
        return True


@attrs.define
class _Clock:
    """The clock of the node for the guard's waits. Starts no threads: nothing is cancelled from outside."""

    node: Node
    seconds: float = 0.0

    def now(self) -> float:
        return self.seconds

    def utc(self) -> datetime:
        return _BEGIN + timedelta(seconds=self.seconds)

    def event(self) -> _Flag:
        return _Flag(self.node)

    def start(self, target: Callable[[], None], *, name: str) -> Thread:  # noqa: ARG002  see the class
        return _NoThread()


class _NoThread:
    def join(self) -> None:
        """Nothing to wait for: the thread never ran."""


@attrs.define
class _Flag:
    node: Node
    up: bool = False

    def set(self) -> None:
        self.up = True

    def is_set(self) -> bool:
        return self.up

    def wait(self, timeout: float | None = None) -> bool:
        self.node.wait(timeout, self.is_set)
        return self.up
