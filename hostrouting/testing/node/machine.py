"""Node: a simulated host. Time passes, and systemd, the gate, the boot scripts and the guard do their work.

Here: whose turn it is, and what systemd does. Not here: what has to hold (`laws`), what others do to the host
(`actors`), and when (`life`); the host itself is a FakeHost.

All of it happens in one thread, on the node's clock. Whatever is due while the guard or a pipeline waits is done inside
that wait. So that others can also come between any two actions of theirs, each snapshot, lookup, change, write and call
of systemd is a *moment*, at which a fault can strike or the next step of the life is taken. If only the guard runs and
nothing has happened for a while, the clock jumps to what is due next.

A boot script has the effect of the task that it belongs to: static-routes.sh applies the plan of its routes, and
check-route-overlap.sh examines the kernel and writes the markers. That the scripts decide like the tasks is compared
elsewhere (tests/hostrouting/boot). The gate's protocol is that of host-routing-gate.sh; tests/system compares it with
systemd.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

import phases
from hostrouting.boot.gate_files import parse_gate_steps
from hostrouting.boot.installed import installed_config, kept_config
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError, FileError, HostRoutingError, NotReady, RouteConflict, RouteOverlapError
from hostrouting.host.systemd import Line, NoService
from hostrouting.kernel.neighbours import Neighbour
from hostrouting.model.prefix import IPV4, IPV6
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule, missing_rules
from hostrouting.model.snapshot import Address, Link
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.guard.loop import Guard
from hostrouting.tasks.keeping import KeepKernelRules
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing.host import FakeFiles, FakeHost, FakeManager, shown
from hostrouting.testing.kernel.faults import Moment
from hostrouting.testing.kernel.filters import MemoryLinkLayer
from hostrouting.testing.node import laws
from hostrouting.testing.topologies import h200
from phases.errors import ExceptionGroup
from phases.testing import FakeClock, FakeEvent

if TYPE_CHECKING:
    from threading import Thread

    from hostrouting.tasks.base import HostTask
    from hostrouting.testing.kernel import MemoryBackend
    from hostrouting.testing.node.actors import Act, Thing, Verb

Kind: TypeAlias = Moment | Literal["file", "manager"]
"""What hostrouting does at a moment."""
Pipeline: TypeAlias = "Callable[[FakeHost, HostRoutingConfig], phases.Task[Any]]"

PROMISED = 200.0
"""The seconds after the last disturbance within which the guard has repaired what it can, and named the rest."""
ROOM = 1 << 30
"""The bytes in /run/systemd, if nothing fills it."""
EMPTY = HostRoutingConfig()
_PAUSES = (0.05, 1.0, 40.0, 3000.0, 20_000.0)  # seconds after which what passes is undone
_BACK: dict[Verb, Verb] = {"add": "delete", "delete": "add", "down": "up", "up": "down"}
_LINKS: dict[Verb, str] = {"add": "add_link", "delete": "delete_link", "up": "set_up", "down": "set_down"}
_SETTLED = 5.0  # seconds without a step or a fault after which the clock jumps, except in a rest
_KEPT = (RouteConflict, NotReady, RouteOverlapError)  # after these, the unit starts with the last good routes
_STORY = 400  # events that are remembered
_LINE = 250  # characters of a line in a story
_NEIGHBOUR = Neighbour("10.0.0.1", "02:00:00:00:00:01", "eth0")
_OWN_RULES = [rule for family in (IPV4, IPV6) for rule in missing_rules((), family)]


class Killed(BaseException):
    """The running process ends at once."""


class _Rebooted(Killed):
    """All processes end."""


class _Over(BaseException):
    """The life is over."""


class BrokenLaw(AssertionError):  # noqa: N818  reads as what happened
    """A law does not hold; `law` is its sentence, `at` when that was found, and `story` what came before."""

    def __init__(self, law: str, told: str, story: Iterable[str], at: float) -> None:
        """Take the sentence, what is wrong, the story and the time."""
        self.law, self.told, self.story, self.at = law, told, tuple(story), at
        super().__init__("\n".join((f"{law}: {told}", *self.story)))


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
        self.clock, self._agenda, self._count = _Clock(self), list[Any](), itertools.count()
        self.story: deque[str] = deque(maxlen=_STORY)
        self.files = FakeFiles(on_change=self._on_change)
        self.wanted: HostRoutingConfig = configs[0]
        """The configuration that was applied last, or is to be applied first."""
        self.is_applied = False
        """Whether the last run of the pipeline has succeeded."""
        self.failure: HostRoutingError | None = None
        """Why it has failed, if it was not killed."""
        self.good: HostRoutingConfig | None = None
        """The configuration with routes that a later run that fails has to leave as they are, for the unit to start."""
        self.may_hold: tuple[HostRoutingConfig | None, ...] = (None,)
        """The configurations one of which is in force; after a run that was killed, this is the former or the new."""
        self.full_until = 0.0
        """Until when the disk is full, without the file systems in memory."""
        self.foreign_files: dict[str, str] = {}
        """Files of others, with their texts, which no run may change."""
        self.counts: Counter[str] = Counter()
        """How many starts, refusals, applies, failed applies, kills and boots there were, and how often
        each law applied."""
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
        self.kernel: MemoryBackend = self._make_kernel()
        self.manager = FakeManager(files=self.files, on_call=self._on_call)
        self.manager.properties[self.unit] = {}  # it is enabled, so systemd knows this instance of its template
        with self.kernel.watch() as watch:
            watch.wait(0, clock=self.clock)  # from now on, routes expire as time passes on it
        self.kernel.faults.on_moment = self.moment
        self.born = self.kernel.snapshot()
        """The kernel as it was after the last boot."""
        self.neighbours = MemoryLinkLayer(neighbours=[_NEIGHBOUR])

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

    def _end(self) -> None:
        raise _Over

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
                self.clock.pass_to(end)

    def next_step(self) -> None:
        """Do the next due step now, also in the middle of hostrouting's work."""
        if self._agenda:
            at, _, happening = heapq.heappop(self._agenda)
            self.clock.pass_to(at)
            self._awake = max(self._awake, self.now + _SETTLED)
            happening()

    def wait(self, timeout: float | None, is_over: Callable[[], bool]) -> None:
        """A wait of the guard or a pipeline: time passes, and what is due happens."""
        if timeout != 0 and not is_over():
            self.pass_time(math.inf if timeout is None else timeout, is_over)
        self._end_stopped()

    # What others do.

    def act(self, act: Act, chance: Random) -> None:
        """Let somebody act."""
        self._disturbances += act.disturbs
        done, pause = act.do(self, chance), chance.choice(_PAUSES)
        changes = [*(done or ())]
        if act.at == "step" and (changes or done is None):
            which = " ".join(map(str, changes[0])) if len(changes) == 1 else ""
            what = ": ".join(filter(None, (act.what, which)))
            self.tell(act.who, f"{what}, for {pause:g} s" if act.passes else what)
        for verb, thing in changes:
            self.put(verb, thing)
        for verb, thing in reversed(changes if act.passes else ()):
            self.after(pause, partial(self.put, _BACK[verb], thing))

    def _act_at(self, at: str) -> None:
        for act in self.acts:
            if act.at == at:
                self.act(act, Random(str(self.now)))  # noqa: S311  not a secret

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

    def rest(self) -> None:
        """End all faults, let the actors bring back what the node needs, and later assert the laws."""
        self._faults.clear()
        self.full_until, self.manager.room = 0.0, ROOM
        self.tell("all", f"rest for {PROMISED:g} s")
        self._awake = self.now + PROMISED
        self._act_at("rest")
        self.after(PROMISED / 2, self._rest_on)

    def _rest_on(self) -> None:
        self._act_at("rest")  # what was not possible at once may be possible now
        self.after(PROMISED / 2, partial(self._rested, self._disturbances))

    def _rested(self, before: int) -> None:
        if before == self._disturbances:
            laws.at_rest(self)
        else:
            self.rest()  # what an actor did for a time has just ended

    def tell(self, who: str, what: str) -> None:
        """Add to the story."""
        days, seconds = divmod(self.now, 86_400)
        self.story.append(f"day {days:g} {timedelta(seconds=seconds)} {who}: {what[:_LINE]}")

    def require(self, law: str, wrong: object) -> None:
        """Count that this law applied, and raise BrokenLaw if something is wrong."""
        self.counts[law] += 1
        if wrong:
            raise BrokenLaw(law, ", ".join(wrong) if isinstance(wrong, list) else str(wrong), self.story, self.now)

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
        """Require that a change by hostrouting has left the routes and rules of others as before."""
        before, self._before = self._before, None
        if before is not None:
            now = self._others()
            self.require("nothing of others changes", before != now and ([*{*before} ^ {*now}] or "their order"))

    def _others(self) -> list[str]:
        """The routes of others in every table, and the rules; Linux's own rules may be added."""
        is_ours, self._is_ours = self._is_ours, False
        snapshot, self._is_ours = self.kernel.snapshot(), is_ours
        numbers = {config.protocol for config in self.configs}
        routes = [str(route) for route in snapshot.routes if route.protocol not in numbers]
        return [*routes, *(repr(rule) for rule in snapshot.rules if rule not in _OWN_RULES)]

    @property
    def disturbed(self) -> tuple[int, ...]:
        """A count of what others have done that can change the host."""
        return self._disturbances, self.counts["applies"], self.counts["starts"]

    def _on_change(self, verb: str, path: str) -> None:
        self.moment("file")
        if self._is_ours and self.now < self.full_until and verb != "remove" and not path.startswith(laws.PASSING):
            reason = f"cannot {verb} {path}: No space left on device; free some space"
            raise FileError(reason, path=path, errno=errno.ENOSPC)

    def _on_call(self, verb: str, unit: str) -> None:
        """What systemd does when it starts or stops a unit; at boot, nobody has to ask it."""
        if self.processes != [unit]:
            self.moment("manager")
        if verb == "stop":
            self.processes[:] = ["" if name == unit else name for name in self.processes]
        if unit == self.host.layout.guard_unit:
            self.is_guarded = verb == "start"
        elif verb == "start":
            has_failed = not self.run_script(unit.removesuffix(".service"))
            self.manager.failing = {unit: ("a simulated script failed",)} if has_failed else {}

    def kill(self, *, is_reboot: bool = False) -> None:
        """End the running process; in a reboot, all."""
        self.counts["kills"] += not is_reboot
        self._dying = _Rebooted() if is_reboot else Killed()
        raise self._dying

    def _end_stopped(self) -> None:
        """End the process whose turn it is, if systemd has stopped it."""
        if self.processes and not self.processes[-1]:
            self.kill()

    @contextmanager
    def _process(self, name: str) -> Iterator[None]:
        """A process of hostrouting, which may fail or be killed. A reboot also ends the process that started it."""
        self.processes.append(name)
        try:
            with self._turn(is_ours=True):
                yield
        except HostRoutingError as error:
            self.tell(name, f"failed: {error}")
        except _Rebooted:
            raise
        except Killed:
            self._dying = None
            self.tell(name, "was killed")
        finally:
            self.processes.pop()

    # What runs on the node.

    def _context(self) -> phases.Context:
        return phases.Context(clock=self.clock, observers=[])

    @property
    def is_locked(self) -> bool:
        """Whether a run holds the lock."""
        return self.host.layout.lock_path in self.files.locked

    def apply(self, config: HostRoutingConfig | None) -> None:
        """Run the pipeline or, without a configuration, remove all; another run that holds the lock comes first."""
        if self.is_locked:
            self.after(1.0, lambda: self.apply(config))
            return
        task = Remove(EMPTY, host=self.host) if config is None else self.pipeline(self.host, config)
        name = "the removal" if config is None else f"configuration {(*self.configs, config).index(config)}"
        config = config or EMPTY
        self.counts["applies"] += 1
        self.may_hold = (*self.may_hold, config)
        is_routes, before = False, laws.Seen.on(self)
        former_good, good = self.good, None
        failure: HostRoutingError | None = None
        with self._process(name):
            self.is_applied, self.failure = False, None
            try:
                phases.execute(task, self._context())
                self.is_applied, good = True, config
                self.tell(name, "is done")
            except phases.TaskFailed as failed:
                failure, is_routes = _first(failed), ConfigureStaticRoutes.name in failed.path
                self.counts["failed applies"] += 1
                self.is_applied = isinstance(failure, RouteOverlapError)
                # A note says that the former script could not be put back. Beside another's change, it need not be.
                keeps = isinstance(failure, _KEPT) and is_routes and not getattr(failure, "__notes__", ())
                script = self.host.layout.routes_script_path
                keeps &= before.disturbed == self.disturbed or before.files.get(script) == self.files.texts.get(script)
                good = config if self.is_applied else former_good if keeps else None
                raise failure from failed
            finally:
                self.wanted, self.failure = config, failure
                self.good = good if good is not None and good.static_routes.routes else None
                former = [] if self.is_applied else [*self.may_hold]
                if config in former:
                    former.remove(config)
                # A step that takes protection away is changed after the routes, so not if these fail.
                is_kept = bool(former) and is_routes and not self.is_applied and not laws.is_strict(config)
                self.may_hold = (*former, *([] if is_kept else [config]))
        if before.disturbed == self.disturbed:
            laws.after_run(self, before, failure, is_routes=is_routes, is_removal=isinstance(task, Remove))
        touched = [path for path, text in self.foreign_files.items() if self.files.texts.get(path) != text]
        touched += [] if _NEIGHBOUR in self.neighbours.look().neighbours else [str(_NEIGHBOUR)]
        self.require("no file or neighbour of others changes", touched)

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
                self.manager.start(unit, timeout=60)

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

    def start(self) -> bool:
        """Start the gated unit as systemd does, from the files that it has read; return whether it runs."""
        layout, disturbances = self.host.layout, self._disturbances
        has_gate = layout.gate_script in shown(self.unit, self.manager.read).get("ExecStartPre", "")
        if has_gate and self.is_locked and self.files.is_there(layout.gate_steps_path):
            self.after(1.0, self.start)  # the gate waits for the lock
            return False
        self.counts["starts"] += 1
        refusal = None if has_gate else ""
        while refusal is None:  # again if it was killed, as systemd's stop does when hostrouting changes the gate
            with self._process(layout.gate_unit):
                refusal = self._ask_gate()
        self.counts["refusals"] += bool(refusal)
        self.tell("systemd", f"does not start {self.unit}: {refusal}" if refusal else f"starts {self.unit}")
        if not refusal and disturbances == self._disturbances and all(map(laws.is_strict, self.may_hold)):
            found = [laws.escapes(self, config) for config in self.may_hold if config]
            self.require("in STRICT, nothing starts while an address escapes", all(found) and found[0])
        return not refusal

    def _ask_gate(self) -> str:
        """Run the scripts in the list, as host-routing-gate.sh does; return why the unit must not start."""
        layout, texts = self.host.layout, self.files.texts
        if layout.gate_script_path not in texts or layout.gate_steps_path not in texts:
            is_gated = any(self.files.is_there(layout.gate_drop_in(unit)) for unit in (layout.machine_unit, self.unit))
            return "its script or its list of steps is missing" if is_gated else ""
        try:
            steps = parse_gate_steps(texts[layout.gate_steps_path])
        except ValueError as error:
            return str(error)
        for step in steps:
            if step.kind == "changing":
                return f"{step.name} is being changed"
            if not self.run_script(step.name) and step.kind == "requires":
                return f"{step.name} failed"
        return ""

    def run_script(self, name: str) -> bool:
        """Have the effect of a boot script, and return whether it succeeds. An unknown script succeeds."""
        layout = self.host.layout
        path = f"{layout.config_directory}/{name}.sh"
        config = installed_config(self.host) or EMPTY
        tasks: dict[str, tuple[type[HostTask[Any]], object]] = {
            layout.routes_script_path: (ConfigureStaticRoutes, config.static_routes.routes),
            layout.rules_script_path: (KeepKernelRules, config.kernel_rules == "keep"),
            layout.check_script_path: (CheckRouteOverlap, config.route_overlap.expected_cidrs),
        }
        if path not in tasks or not self.files.is_there(path):
            return self.files.is_there(path)
        kind, section = tasks[path]
        self.require("what is installed can be read", "" if section else path)
        task = kind(config, host=self.host, wait=0)
        try:
            task.carry_out(self._context(), task.change(up=True), up=True)
        except HostRoutingError as error:
            self.tell(path, f"failed: {error}")
            return False
        finally:
            self.files.texts.pop(layout.report_path, None)  # the script does not write it
        return True


def _first(failed: phases.TaskFailed) -> HostRoutingError:
    """The error of hostrouting; a removal goes on after one, and has several."""
    error = failed.error
    if isinstance(error, ExceptionGroup):
        error = next((each for each in error.exceptions if isinstance(each, HostRoutingError)), error)
    if isinstance(error, HostRoutingError):
        return error
    raise (error if isinstance(error, BrokenLaw) else failed) from failed


@attrs.frozen
class _Journal(NoService):
    """The guard's lines, which become a part of the story."""

    node: Node = attrs.field(kw_only=True)

    def tell(self, line: Line) -> bool:
        if line.level < 6:
            self.node.tell("the guard", line.text)
        return True


class _Clock(FakeClock):
    """The clock of the node. Its waits are the node's, and nothing is cancelled from outside."""

    def __init__(self, node: Node) -> None:
        super().__init__(autojump=False)
        self.node = node

    def event(self) -> _Flag:
        return _Flag(self)

    def start(self, target: Callable[[], None], *, name: str) -> Thread:  # noqa: ARG002  it would wait to be cancelled
        return super().start(lambda: None, name=name)

    def pass_to(self, moment: float) -> None:
        """Let it be this moment, if it is later."""
        if moment > self.now():
            self.advance(moment - self.now())


class _Flag(FakeEvent):
    _clock: _Clock

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.node.wait(timeout, self.is_set)
        return self.is_set()
