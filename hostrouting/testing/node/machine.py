"""Node: a host in memory that lives. Time passes, and systemd, the gate, the boot scripts and the guard do their work.

Here: the edges, through which hostrouting reaches the host; what systemd does; the laws. Not here: what others do to
the host (`actors`), and when (`life`).

All of it happens in one thread. The guard waits on the node's clock, and whatever is due then is done inside that wait.
A pipeline runs at one moment, on a clock of its own. So that others can still come between any two of its actions, each
snapshot, lookup, change, write and call of systemd is a *moment*, at which a fault can strike or the next step of the
life is taken. If nothing has happened for a while, the clock jumps to what is due next.

A boot script has the effect of the task that it belongs to: static-routes.sh applies the plan of its routes, and
check-route-overlap.sh examines the kernel. That the scripts decide like the tasks is compared elsewhere
(tests/hostrouting/boot). The gate's protocol is that of host-routing-gate.sh; tests/system compares it with systemd.
"""

from __future__ import annotations

import errno
import fnmatch
import heapq
import itertools
import json
import math
from collections import Counter, deque
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

import phases
from hostrouting.boot import parse_check_script, parse_gate_steps, parse_static_routes_script
from hostrouting.check.examine import examine
from hostrouting.config import HostRoutingConfig, Mode, Upkeep
from hostrouting.errors import FileError, HostRoutingError, RouteOverlapError, UnitFailed
from hostrouting.fib import PLAIN
from hostrouting.host import UnitState
from hostrouting.model import IPV4, IPV6, TABLE_MAIN, Prefix, Snapshot, ip_at, missing_rules
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.guard.loop import Guard
from hostrouting.tasks.keeping import KeepKernelRules
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing.host import FakeFiles, FakeHost, FakeManager, Visit, shown
from hostrouting.testing.topologies import h200
from phases.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hostrouting.fib import Flow
    from hostrouting.host.systemd import Line
    from hostrouting.kernel.base import Answer, Outcome, RouteRequest, Watch
    from hostrouting.model import IP, Route, Rule
    from hostrouting.testing.kernel import MemoryBackend
    from phases.context import Thread

__all__ = ["PROMISED", "BrokenLaw", "Event", "Kind", "Node", "Pipeline"]

Kind: TypeAlias = Literal["snapshot", "lookup", "change", "watch", "file", "manager"]
"""What hostrouting does at a moment."""
Pipeline: TypeAlias = "Callable[[FakeHost, HostRoutingConfig], phases.Task[Any]]"

PROMISED = 200.0
"""The seconds after the last disturbance within which the guard has repaired what it can, and named the rest."""
_SETTLED = 240.0  # seconds without a step or a fault after which the clock jumps
_PASSING = "/run"
_BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
_NOBODY = {IPV4: "198.51.100.1", IPV6: "2001:db8:ffff::1"}
_HERE = {"local", "broadcast", "multicast", "anycast"}
_STORY = 400  # events that are remembered
_ASKS = 60
_LINE = 250  # characters of a line in a story


class Killed(BaseException):
    """The process that is running ends at once; with `is_reboot`, all of them."""

    is_reboot = False


class _Over(BaseException):
    """The life is over."""


class BrokenLaw(AssertionError):  # noqa: N818  reads as what happened
    """A law does not hold; `law` is its sentence, and `story` what came before."""

    def __init__(self, law: str, told: str, story: Iterable[Event] = ()) -> None:
        """Take the sentence, what is wrong, and the story."""
        self.law, self.told, self.story = law, told, tuple(story)
        super().__init__("\n".join((f"{law}: {told}", *map(str, self.story))))


@attrs.frozen
class Event:
    """What somebody did."""

    at: float
    who: str
    what: str

    def __str__(self) -> str:
        days, seconds = divmod(self.at, 86_400)
        return f"day {days:g} {_BEGIN + timedelta(seconds=seconds):%H:%M:%S.%f} {self.who}: {self.what}"


@attrs.define
class _Fault:
    left: int
    kinds: tuple[Kind, ...]
    strike: Callable[[Kind], object]


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
        self.configs, self.pipeline, self.unit = configs, pipeline, unit
        self._make_kernel = kernel
        self.on_boot: Sequence[Callable[[], object]] = ()
        """What the actors do at each boot."""
        self.is_running = False
        """Whether the gated unit runs."""
        self.clock, self._agenda, self._count = _Clock(self), list[Any](), itertools.count()
        self.story: deque[Event] = deque(maxlen=_STORY)
        self.files = _Files(node=self)
        self.config: HostRoutingConfig | None = None
        """The configuration that was applied last."""
        self.is_applied = False
        """Whether the last run of the pipeline has succeeded, and nothing of it was removed since."""
        self.failure: HostRoutingError | None = None
        """Why it has failed, if it was not killed."""
        self.may_hold: tuple[HostRoutingConfig | None, ...] = (None,)
        """The configurations one of which is in force; after a run that was killed, this is the former or the new."""
        self.is_full = False
        """Whether the disk is full, without the file systems in memory."""
        self.foreign_files: dict[str, str] = {}
        """Files of others, with their texts, which no run may change."""
        self.counts: Counter[str] = Counter()
        """How many starts, refusals, applies, failed applies, kills and boots there were."""
        self._faults: list[_Fault] = []
        self._active_at = 0.0
        self._disturbances = 0
        self._is_guarded = self._guard_ends = self._gate_was_stopped = False
        self._dying: Killed | None = None
        self.kernel, self.manager = kernel(), _Systemd(node=self, files=self.files)

    # Time.

    @property
    def now(self) -> float:
        """The seconds since the life began."""
        return self.clock.now()

    def after(self, seconds: float, happening: Callable[[], object]) -> None:
        """Do this after so many seconds."""
        heapq.heappush(self._agenda, (self.now + seconds, next(self._count), happening))

    def live(self, seconds: float) -> None:
        """Let so much time pass, with everything that happens meanwhile."""
        self.after(seconds, self._end)
        while True:
            try:
                if self._is_guarded:
                    self._guard()
                else:
                    self.pass_time(seconds, lambda: self._is_guarded)
            except _Over:
                return
            except Killed:
                self.boot()

    def pass_time(self, seconds: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Let time pass until it is over, and do what is due; longer, if nothing has happened for a while."""
        end = max(self.now + seconds, math.nextafter(self.now, math.inf))
        if self.now - self._active_at > _SETTLED and self._agenda:
            lifetimes = [route.expires for route in self.kernel.reopen().snapshot(family=IPV6).routes if route.expires]
            end = max(end, min(self._agenda[0][0], self.now + min(lifetimes, default=math.inf)))
        while not is_over() and self._agenda and self._agenda[0][0] <= end:
            self.next_step()
        if not is_over():
            self.clock.seconds = max(self.now, end)

    def next_step(self) -> None:
        """Do what is due next, now; others do so in the middle of what hostrouting does."""
        if self._agenda:
            at, _, happening = heapq.heappop(self._agenda)
            self.clock.seconds = self._active_at = max(self.now, at)
            happening()

    def tell(self, who: str, what: str) -> None:
        """Add to the story."""
        self.story.append(Event(self.now, who, what))

    def disturb(self) -> None:
        """Note that somebody changes the host now, who is not hostrouting."""
        self._disturbances += 1

    def _end(self) -> None:
        raise _Over

    # The edges.

    @property
    def host(self) -> FakeHost:
        """The host as a pipeline sees it."""
        return FakeHost(
            kernel=self.kernel, backend=lambda: _Backend(self.kernel, node=self), files=self.files, manager=self.manager
        )

    def arm(self, strike: Callable[[Kind], object], *, nth: int, kinds: tuple[Kind, ...] = ()) -> None:
        """Let a fault strike at the nth moment from now, or at the next one after it that is of such a kind."""
        self._faults.append(_Fault(nth, kinds, strike))

    def disarm(self) -> None:
        """No fault strikes any more, and the disk has room."""
        self._faults.clear()
        self.is_full = False

    def moment(self, kind: Kind) -> None:
        """Count what hostrouting is about to do. At most one fault strikes; who is dying does nothing more."""
        if self._dying is not None:
            raise self._dying
        for fault in tuple(self._faults):
            fault.left -= 1
            if fault.left <= 0 and (not fault.kinds or kind in fault.kinds) and fault in self._faults:
                self._faults.remove(fault)
                self._active_at = self.now
                fault.strike(kind)
                return

    def fill_disk(self, _: Kind) -> None:
        """Let the disk be full, until the faults end."""
        self.is_full = True

    def kill(self, *, is_reboot: bool = False) -> None:
        """End the process that runs now, or, in a reboot, all."""
        self.counts["kills"] += not is_reboot
        self._dying = Killed()
        self._dying.is_reboot = is_reboot
        raise self._dying

    @contextmanager
    def others_untouched(self) -> Iterator[None]:
        """A change by hostrouting, which leaves the routes and rules of others alone."""
        self.moment("change")
        before = self._others(self.kernel.snapshot())
        try:
            yield
        finally:
            now = self._others(self.kernel.snapshot())
            if before != now:
                changed = [*({*before} ^ {*now})] or ["their order"]
                raise self.broken("no route or rule of others changes", ", ".join(changed))

    def _others(self, snapshot: Snapshot) -> list[str]:
        """The routes of others and the rules; to add a rule of Linux itself is allowed."""
        numbers = {config.protocol for config in self.configs}
        own = [rule for family in (IPV4, IPV6) for rule in missing_rules((), family)]
        routes = [str(route) for route in snapshot.routes if route.protocol not in numbers]
        return [*routes, *(repr(rule) for rule in snapshot.rules if rule not in own)]

    def broken(self, law: str, told: str) -> BrokenLaw:
        """The error for a law that does not hold, with the story."""
        return BrokenLaw(law, told, self.story)

    # What runs on the node.

    def apply(self, config: HostRoutingConfig) -> None:
        """Run the pipeline; another run that holds the lock comes first."""
        if self._is_locked:
            self.after(1.0, lambda: self.apply(config))
            return
        self.counts["applies"] += 1
        before, self.may_hold = self.may_hold, (*self.may_hold, config)
        self.config, self.is_applied, self.failure = config, False, None
        name = f"configuration {self.configs.index(config)}"
        with self._process(name):
            try:
                phases.execute(self.pipeline(self.host, config), self._context())
                self.is_applied = True
                self.tell(name, "is applied")
            except phases.TaskFailed as failed:
                self.counts["failed applies"] += 1
                self.is_applied = isinstance(failed.error, RouteOverlapError)
                if ConfigureStaticRoutes.name in failed.path and not _is_strict(config):
                    self.may_hold = before  # a step that takes protection away is changed after these
                if isinstance(failed.error, HostRoutingError):
                    self.failure = failed.error
                raise (failed.error if isinstance(failed.error, HostRoutingError | BrokenLaw) else failed) from failed
            finally:
                self.may_hold = (config,) if self.is_applied else self.may_hold
        for path, text in self.foreign_files.items():
            if self.files.texts.get(path) != text:
                raise self.broken("no file of others changes", path)

    def _context(self) -> phases.Context:
        """A run at this moment, on a clock of its own."""
        return phases.Context(clock=FakeClock(start=self.clock.utc()), observers=[])

    @property
    def _is_locked(self) -> bool:
        return self.host.layout.lock_path in self.files.locked

    def lay(self, path: str, text: str) -> None:
        """Write a file of another program, which no run of hostrouting may change, and reload systemd."""
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
        files = self.files
        files.locked.clear()
        self.remove(_PASSING)
        self.kernel, self.manager = self._make_kernel(), _Systemd(node=self, files=files)
        self._dying, self._active_at = None, self.now
        self._is_guarded = self._guard_ends = False
        self.tell("systemd", "boots")
        for happening in self.on_boot:
            happening()
        wants = f"{self.host.layout.unit_directory}/multi-user.target.wants"
        for unit in sorted(files.names(wants)):
            with self._process(unit):
                self.manager.start(unit, timeout=60)

    @contextmanager
    def _process(self, name: str) -> Iterator[None]:
        """A process, which may fail or be killed; a reboot ends what has started it, too."""
        try:
            yield
        except HostRoutingError as error:
            self.tell(name, f"failed: {error}"[:_LINE])
        except Killed as killed:
            if killed.is_reboot:
                raise
            self._dying = None
            self.tell(name, "was killed")

    def run_unit(self, unit: str) -> None:
        """What happens when systemd starts a unit of ours; UnitFailed if it fails."""
        layout = self.host.layout
        if unit == layout.guard_unit:
            self._is_guarded, self._guard_ends = True, False
        elif not self._run_script(f"{layout.config_directory}/{unit.removesuffix('.service')}.sh"):
            self.manager.states[unit] = UnitState("loaded", "failed", "exit-code", 1)
            raise UnitFailed(unit, result="exit-code", status=1, words=("a simulated script failed",))

    def stop_unit(self, unit: str) -> None:
        """What happens when systemd stops one."""
        layout = self.host.layout
        if unit == layout.guard_unit:
            self._guard_ends, self._is_guarded = self._is_guarded, False
        elif unit == layout.gate_unit:
            self._gate_was_stopped = True

    def _guard(self) -> None:
        """Run the guard until something ends it; systemd starts it again."""
        guard = Guard(
            self._installed(),
            host=self.host,
            again=self._installed,
            follows=True,
            service=_Journal(self),
            chance=lambda: 0.5137,
            spent=lambda: 0.0,
        )
        with self._process("the guard"):
            guard.do(phases.Context(clock=self.clock, observers=[]))
        self._guard_ends = False
        self.pass_time(1.0)  # systemd starts it again

    def _installed(self) -> HostRoutingConfig:
        """The configuration that the guard finds in the files of the host."""
        layout, texts = self.host.layout, self.files.texts
        found = HostRoutingConfig(
            kernel_rules=Upkeep.KEEP if layout.rules_script_path in texts else Upkeep.LEAVE,
        )
        if text := texts.get(layout.check_script_path):
            found = attrs.evolve(found, route_overlap=parse_check_script(text).config)
        if text := texts.get(layout.routes_script_path):
            script = parse_static_routes_script(text)
            found = attrs.evolve(found, static_routes=script.config, protocol=script.protocol)
        return found

    # The gate.

    def start(self) -> None:
        """Start the gated unit as systemd does, by the files that it has read."""
        layout = self.host.layout
        drop_in = layout.gate_script in shown(self.unit, self.manager.read).get("ExecStartPre", "")
        if drop_in and self._is_locked and self.files.is_there(layout.gate_steps_path):
            self.after(1.0, self.start)  # the gate waits for the lock
            return
        self.counts["starts"] += 1
        disturbances, escaped = self._disturbances, self._must_hold()
        if drop_in and (reason := self._ask_gate()):
            self.counts["refusals"] += 1
            self.is_running = False
            self.tell("systemd", f"does not start {self.unit}: {reason}")
            return
        self.is_running = True
        self.tell("systemd", f"starts {self.unit}")
        if escaped and disturbances == self._disturbances and (escaped := self._must_hold()):
            raise self.broken("in STRICT, nothing starts while an address escapes", escaped)

    def _must_hold(self) -> str:
        """Why the unit must not start: whichever configuration is in force, it is strict, and an address escapes."""
        found = [self.escapes(config) if config and _is_strict(config) else "" for config in self.may_hold]
        return found[0] if all(found) else ""

    def _ask_gate(self) -> str:
        """Run the gate's service, again if a run of hostrouting has stopped it; the reason of a refusal, or nothing."""
        refused = "the gate has not finished"
        for _ in range(_ASKS):
            self._gate_was_stopped = False
            with self._process(self.host.layout.gate_unit):
                refused = self._take_steps()
            if not self._gate_was_stopped:
                break
        return refused

    def _take_steps(self) -> str:
        layout, files = self.host.layout, self.files
        gated = any(files.is_there(layout.gate_drop_in(unit)) for unit in (layout.machine_unit, self.unit))
        if not files.is_there(layout.gate_script_path):
            return f"{layout.gate_script} is missing" if gated else ""
        listed = files.texts.get(layout.gate_steps_path)
        if listed is None:
            return f"{layout.gate_steps} is missing" if gated else ""
        try:
            steps = parse_gate_steps(listed)
        except ValueError as error:
            return str(error)
        for step in steps:
            if step.kind == "changing":
                return f"{step.name} is being changed"
            if not self._run_script(f"{layout.config_directory}/{step.name}.sh") and step.kind == "requires":
                return f"{step.name} failed"
            if self._gate_was_stopped:
                return ""
        return ""

    def _run_script(self, path: str) -> bool:
        """Have the effect of a boot script; whether it succeeds. A script that this module does not know succeeds."""
        layout = self.host.layout
        if not self.files.is_there(path):
            return False
        ctx = self._context()
        try:
            if path == layout.routes_script_path:
                routes = ConfigureStaticRoutes(self._installed(), host=self.host, wait=0)
                routes.carry_out(ctx, routes.change(up=True), up=True)
            elif path == layout.rules_script_path:
                rules = KeepKernelRules(self._installed(), host=self.host)
                rules.carry_out(ctx, rules.change(up=True), up=True)
            elif path == layout.check_script_path:
                return self._run_check(ctx, self._installed())
        except HostRoutingError as error:
            self.tell(path, f"failed: {error}"[:_LINE])
            return False
        return True

    def _run_check(self, ctx: phases.Context, config: HostRoutingConfig) -> bool:
        layout = self.host.layout
        found = examine(ctx, _Backend(self.kernel, node=self), config, wait=0)
        is_bad = found.verdict in {"overlap", "no-default-route"}
        for path in (layout.ok_path, layout.detected_path, layout.report_path):
            self.files.texts.pop(path, None)
        self.files.texts[layout.detected_path if is_bad else layout.ok_path] = f"{found.verdict}\n"
        return not (is_bad and _is_strict(config))

    # The laws of a node at rest.

    def escapes(self, config: HostRoutingConfig) -> str:
        """An address of the expected CIDRs that does not leave as it should, by the kernel's answers alone.

        The kernel is asked at each address at which the prefix of a route or a rule begins, or has just ended.
        """
        snapshot, check = self.kernel.reopen().snapshot(), config.route_overlap
        for cidr in map(Prefix.of, check.expected_cidrs):
            expected = check.expected_devs or self._uplinks(cidr.family)
            if not expected:
                return f"{cidr}: there is no default route"
            prefixes = {
                prefix
                for prefix in (*(route.prefix for route in snapshot.routes), *(rule.dst for rule in snapshot.rules))
                if prefix is not None and prefix.family == cidr.family
            }
            ends = {end for prefix in prefixes for end in (prefix.first, prefix.last + 1)}
            places = [
                ip_at(cidr.family, place) for place in sorted({cidr.first, *ends}) if cidr.first <= place <= cidr.last
            ]
            kinds = {link.name: link.kind for link in snapshot.links}
            for place, answer in zip(places, self.kernel.lookup(places), strict=True):
                devs = () if answer.route is None else answer.route.devs
                fine = answer.kind == "unicast" and all(
                    dev in expected or _is_allowed(dev, kinds.get(dev, ""), check.allowed_devs) for dev in devs
                )
                if not (fine or answer.kind in _HERE):
                    return f"{place} of {cidr} is {answer.kind}, by {' and '.join(devs) or 'no device'}, not {expected}"
        return ""

    def _uplinks(self, family: int) -> tuple[str, ...]:
        """The devices of the default route that decides, by the kernel's answer for an address of nobody."""
        [answer] = self.kernel.lookup([_NOBODY[family]])
        is_default = answer.kind == "unicast" and answer.route is not None and answer.route.prefix.length == 0
        return answer.route.devs if answer.route is not None and is_default else ()

    def require_rest(self) -> None:
        """The laws of a node that nobody has disturbed for the promised time."""
        config = self.config
        if config is None or not self.is_applied:
            findings = () if self.failure is None else self.failure.findings
            if self.failure is not None and not any(finding.remedy for finding in findings):
                raise self.broken("what cannot be done is told with a remedy", str(self.failure))
            return
        if self._is_guarded:
            self._require_told(config)
            self._require_marked(config)
        lost, escaped = self._lost(config), self.escapes(config)
        if left := self._left_over(config):
            raise self.broken("no route of ours is left over", ", ".join(left))
        self.is_running = False
        self.start()
        if not lost and not (escaped and _is_strict(config)) and not self.is_running:
            raise self.broken("what is right starts", f"{self.unit} does not start")
        if self.is_running:
            self._require_marked(config)

    def _require_marked(self, config: HostRoutingConfig) -> None:
        layout, escaped = self.host.layout, self.escapes(config)
        marked = [path for path in (layout.detected_path, layout.ok_path) if self.files.is_there(path)]
        if config.route_overlap.expected_cidrs and marked != [layout.detected_path if escaped else layout.ok_path]:
            raise self.broken("the markers say what is so", f"{marked}, but: {escaped or 'no escape'}")

    def _require_told(self, config: HostRoutingConfig) -> None:
        """What the guard has written is so, and whatever is not as configured is named there."""
        text = self.files.texts.get(self.host.layout.guard_path, "{}")
        said = json.loads(text)
        for prefix in self._lost(config):
            if str(prefix) not in text and not said.get("failure"):
                raise self.broken("what the guard cannot repair is named", f"there is no route to {prefix}: {text}")
        if config.route_overlap.expected_cidrs:
            escaped, verdict = self.escapes(config), said.get("verdict")
            if verdict != "undecided" and bool(escaped) is not (verdict in {"overlap", "no-default-route"}):
                raise self.broken("the guard's verdict is so", f"{verdict}, but: {escaped or 'no escape'}")

    def _lost(self, config: HostRoutingConfig) -> list[Prefix]:
        """The configured destinations for which there is no route, neither of ours nor by an uplink."""
        snapshot = self.kernel.reopen().snapshot(table=TABLE_MAIN)
        wanted = [Prefix.of(route.destination) for route in config.static_routes.routes]
        uplinks = {family: {*self._uplinks(family)} for family in (IPV4, IPV6)}

        def leads(route: Route) -> bool:
            return route.protocol == config.protocol or (
                bool(route.devs) and {*route.devs} <= uplinks[route.prefix.family]
            )

        there = {route.prefix for route in snapshot.routes if leads(route)}
        return [prefix for prefix in wanted if prefix not in there]

    def _left_over(self, config: HostRoutingConfig) -> list[str]:
        """The routes with our protocol numbers that are not configured."""
        wanted = {(Prefix.of(route.destination), config.protocol) for route in config.static_routes.routes}
        numbers = {known.protocol for known in self.configs}
        found = [route for route in self.kernel.snapshot().routes if route.protocol in numbers]
        return [str(route) for route in found if (route.prefix, route.protocol) not in wanted]


def _is_strict(config: HostRoutingConfig) -> bool:
    return config.route_overlap.mode is Mode.STRICT and bool(config.route_overlap.expected_cidrs)


def _is_allowed(dev: str, kind: str, allowed: Iterable[str]) -> bool:
    words = (pattern.partition(" ") for pattern in allowed)
    return any(fnmatch.fnmatchcase(dev, name) and only in {"", kind} for name, _, only in words)


# The edges: each counts the moments of a node.


@attrs.define
class _Backend(Visit):
    """The node's kernel as hostrouting sees it."""

    node: Node = attrs.field(kw_only=True)

    def snapshot(self, **only: Any) -> Snapshot:
        self.node.moment("snapshot")
        return super().snapshot(**only)

    def lookup(self, destinations: Sequence[IP | str], flow: Flow = PLAIN) -> tuple[Answer, ...]:
        self.node.moment("lookup")
        return super().lookup(destinations, flow)

    def change(self, changes: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        return tuple(outcome for change in changes for outcome in self._change(change))

    def _change(self, change: RouteRequest) -> tuple[Outcome, ...]:
        with self.node.others_untouched():
            return super().change([change])

    def change_rule(self, verb: Literal["add", "delete"], rule: Rule) -> bool:
        with self.node.others_untouched():
            return super().change_rule(verb, rule)

    def watch(self) -> Watch:
        self.node.moment("watch")
        return super().watch()


@attrs.define(kw_only=True)
class _Files(FakeFiles):
    node: Node

    def _count(self, verb: str, path: str) -> None:
        self.node.moment("file")
        if self.node.is_full and verb != "remove" and not path.startswith(f"{_PASSING}/"):
            reason = f"cannot {verb} {path}: No space left on device; free some space"
            raise FileError(reason, path=path, errno=errno.ENOSPC)

    def write(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        if not self.holds(path, text, mode=mode):
            self._count("write", path)
        return super().write(path, text, mode=mode)

    def link(self, path: str, target: str) -> bool:
        if not self.leads(path, target):
            self._count("link", path)
        return super().link(path, target)

    def remove(self, path: str) -> bool:
        if self.is_there(path):
            self._count("remove", path)
        return super().remove(path)


@attrs.define(kw_only=True)
class _Systemd(FakeManager):
    node: Node

    def reload(self) -> None:
        self.node.moment("manager")
        super().reload()

    def start(self, unit: str, *, timeout: float) -> None:
        self.node.moment("manager")
        super().start(unit, timeout=timeout)
        self.node.run_unit(unit)

    def stop(self, unit: str) -> None:
        self.node.moment("manager")
        super().stop(unit)
        self.node.stop_unit(unit)


@attrs.define
class _Journal:
    """The guard's lines, which become a part of the story."""

    node: Node
    watchdog: None = None

    def notify(self, *assignments: str) -> None:
        """See Service."""

    def tell(self, line: Line) -> bool:
        self.node.tell("the guard", line.text[:_LINE])
        return True


@attrs.define
class _Clock:
    """The clock of the node, on which the guard waits. It starts no thread: nothing here is cancelled from outside."""

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
        """It has never run."""


@attrs.define
class _Flag:
    node: Node
    up: bool = False

    def set(self) -> None:
        self.up = True

    def is_set(self) -> bool:
        return self.up

    def wait(self, timeout: float | None = None) -> bool:
        if not self.up:
            self.node.pass_time(math.inf if timeout is None else timeout, self.is_set)
        if self.node._guard_ends:
            raise Killed
        return self.up
