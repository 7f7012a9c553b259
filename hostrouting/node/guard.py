"""The guard: one process that hears what Linux reports, and makes the routing right again.

There are two kinds of pass. A change starts one that only sets the routes, at once. A whole pass
follows as soon as the last whole pass is 10 s ago; without a change, one is made each minute. A
pass changes only what is wrong, or it would wake the guard again. After a pass, the guard rests for
a time that depends on how much work the pass was, so that both kinds together use at most a
twentieth of a processor; but never for more than a minute.

When its program was replaced, the guard ends, and systemd starts the new one.

What a pass finds is logged once, until a pass of its kind does not find it; and again each hour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from hostrouting.errors import HostRoutingError
from hostrouting.node.clock import MachineClock
from hostrouting.node.ending import TIME_LIMIT, Stopped, TimeLimit, stop_on_signals
from hostrouting.node.installed import open_kernel, parse_config, read_config
from hostrouting.node.journal import ERROR, NOTICE, WARNING, describe_failure, lines_of, say
from hostrouting.node.lock import HostLock
from hostrouting.node.running import is_replaced

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host
    from hostrouting.kernel.base import RouteBackend, Watch
    from hostrouting.node.clock import NodeClock
    from hostrouting.node.journal import Line
    from hostrouting.upkeep.passes import PassOutcome

_Kind: TypeAlias = Literal["routes", "all"]

# In seconds.
_GATHER = 0.02
"""So long after a change, others belong to it."""
_SHORTEST_REST = 0.1
_LONGEST_REST = 60.0
_WHOLE_AGAIN_AFTER = 10.0
_WHOLE_AGAIN_UNTIL = 60.0
_SAY_AGAIN = 3600.0
_REST_FACTORS: dict[_Kind, int] = {"routes": 25, "all": 100}
"""By kind: a rest is this many times as long as the work of the pass before it. Routes are made
right again soon; the rest of the twentieth is for whole passes.
"""


def run_guard() -> int:
    """Guard this host until a signal ends it; the exit status of the service."""
    try:
        stop_on_signals()
        from hostrouting.host.host import Host  # noqa: PLC0415  a signal may come while it is loaded

        host = Host.local()
        with open_kernel(host) as backend, backend.watch() as watch:
            Guard(host, backend, clock=MachineClock()).run(watch)
    except (Stopped, Replaced):
        return 0
    except BaseException as error:  # noqa: BLE001  whatever it is, the journal has to have it
        for line in describe_failure(error, "it made a pass"):
            say(ERROR, line)
    return 1


class Replaced(BaseException):
    """The program was replaced: this one could take back what the run has done that replaced it."""


class Guard:
    """What the guard knows from one pass to the next."""

    def __init__(
        self,
        host: Host,
        backend: RouteBackend,
        *,
        clock: NodeClock,
        locked: Callable[[], AbstractContextManager[str]] = HostLock,
    ) -> None:
        self._host = host
        self._backend = backend
        self._clock = clock
        self._locked = locked
        self._config_text = ""
        self._config: HostRoutingConfig | None = None
        """The configuration of this text; None if that has none."""
        self._whole_pass_from = clock.now()
        """The next whole pass is made then, or later."""
        self._said: dict[_Kind, set[Line]] = {}
        """By the kind of a pass: what the last one found."""
        self._say_again_at = 0.0
        self._has_failed = False
        """Whether units are held back, as far as the last passes say."""

    def run(self, watch: Watch) -> None:
        """Make passes for ever; the first is a whole one."""
        while True:
            idle_time = self.make_next_pass()
            has_changed = watch.wait(idle_time, clock=self._clock.for_watch)
            if has_changed:
                self._clock.sleep(_GATHER)
                watch.wait(0.0)  # what was reported meanwhile belongs to the same change

    def make_next_pass(self) -> float:
        """Make a pass, and rest; return the time until the next one if nothing changes, which may
        be over.
        """
        if self._clock.now() >= self._whole_pass_from:
            rest = self._make_pass("all")
            self._whole_pass_from = self._clock.now() + max(rest, _WHOLE_AGAIN_AFTER)
            # Not all of that rest: the routes may need a repair before it is over.
            self._clock.sleep(_SHORTEST_REST)
            return _WHOLE_AGAIN_UNTIL
        self._clock.sleep(self._make_pass("routes"))
        return self._whole_pass_from - self._clock.now()

    def _make_pass(self, kind: _Kind) -> float:
        """Make a pass of this kind, and say what is new; return how long to rest after it."""
        with TimeLimit(TIME_LIMIT), self._locked() as why_not_locked:
            if is_replaced():
                raise Replaced
            began = self._clock.processor_time()
            lines, refuses = self._find_lines(kind)
            seconds = self._clock.processor_time() - began
        if why_not_locked:
            lines.append((WARNING, why_not_locked))
        self._say_new(kind, lines)
        if refuses:
            self._has_failed = True
        elif kind == "all" and self._has_failed:
            self._has_failed = False
            say(NOTICE, "the guard: all is right again")
        return min(max(seconds * _REST_FACTORS[kind], _SHORTEST_REST), _LONGEST_REST)

    def _find_lines(self, kind: _Kind) -> tuple[list[Line], bool]:
        """What a pass finds, and whether it holds units back."""
        try:
            outcome = self._run_pass(kind)
        except HostRoutingError as error:
            return [(ERROR, words) for words in describe_failure(error, "it made a pass")], True
        return [*lines_of(outcome)], outcome.refuses

    def _run_pass(self, kind: _Kind) -> PassOutcome:
        from hostrouting.upkeep.passes import PARTS, run_pass  # noqa: PLC0415  after it listens

        text = read_config(self._host.files)
        if self._config is None or text != self._config_text:
            self._config = parse_config(self._host.files, text)
            self._config_text = text
        parts = PARTS if kind == "all" else ("routes",)
        return run_pass(self._host, self._backend, self._config, parts=parts)

    def _say_new(self, kind: _Kind, lines: list[Line]) -> None:
        """Log the lines that the last pass of this kind did not have, or that are due again."""
        if self._clock.now() >= self._say_again_at:
            self._said.clear()
            self._say_again_at = self._clock.now() + _SAY_AGAIN
        for line in lines:
            if line not in self._said.get(kind, ()):
                say(*line)
        self._said[kind] = {*lines}
