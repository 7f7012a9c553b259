"""The guard: one process that hears what Linux reports, and makes the routing right again.

A change starts a pass that only sets the routes, at once. A whole pass follows as soon as the last
whole pass is 10 s ago; without a change, one is made each minute. A pass changes only what is
wrong, or it would wake the guard again. After a pass, the guard rests for 25 times as long as the
pass has worked, so that it uses little of a processor while much changes. A rest ends after 2 s, so
that a route is back within 3 s on a host with very many routes, too.

Linux reports what it has refused, too. After a pass whose requests it has refused, the guard
discards all reports, or it would wake itself for ever. A report of what ended the refusal may be
among them. So the guard soon makes another pass, and later ones while the refusal lasts.

A finding is logged once, and again only after a pass of the same kind has not had it. In a fight
(`node.fight`), it is logged once until the end of the fight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.config.settings import PARTS, PassPart
from hostrouting.errors import HostRoutingError
from hostrouting.host.host import Host
from hostrouting.node.clock import MachineClock
from hostrouting.node.ending import TIME_LIMIT, Stopped, TimeLimit, stop_on_signals
from hostrouting.node.fight import Fight
from hostrouting.node.installed import read_config
from hostrouting.node.journal import (
    ERROR,
    WARNING,
    describe_failure,
    lines_of,
    say,
    say_failure,
)
from hostrouting.upkeep.passes import Done, markers_removed_on_failure, run_pass

if TYPE_CHECKING:
    from collections.abc import Collection

    from hostrouting.kernel.base import RouteBackend, Watch
    from hostrouting.node.clock import NodeClock
    from hostrouting.node.journal import Line

# In seconds.
_GATHERING_TIME = 0.02  # what is reported so soon after a change belongs to it
_SHORTEST_REST = 0.1
_LONGEST_REST = 2.0
_WHOLE_INTERVAL = 10.0  # at least, between the beginnings of two whole passes
_IDLE_TIME = 55.0  # at most, from the rest after a pass to the next pass, if nothing changes
_RETRY_AFTER = {1: 0.2, 2: 10.0, 3: 40.0}
"""How long after its rest a refused pass is followed by another one, if nothing changes: by the
number of refused passes in a row. With the longest rest, the first is still within 3 s.
"""
_REST_FACTOR = 25
"""A rest is this many times as long as the work of the pass before it."""


def guard_host() -> int:
    """Guard this host until a signal ends this process; return the exit status of the service."""
    try:
        stop_on_signals()
        host = Host.local()
        # Other programs read the verdict of the last check in the markers. A pass that fails
        # removes them; without a kernel, there is no pass.
        with markers_removed_on_failure(host.files):
            kernel = host.open_kernel()
        with kernel as backend, backend.watch() as watch:
            Guard(host, backend, watch, clock=MachineClock()).run()
    except Stopped:
        return 0
    except BaseException as error:  # noqa: BLE001  whatever it is, the journal has to have it
        say_failure(error)
    return 1


class Guard:
    """Repairs the routing of a host, pass after pass, and keeps what the next pass has to know."""

    def __init__(
        self,
        host: Host,
        backend: RouteBackend,
        watch: Watch,
        *,
        clock: NodeClock,
    ) -> None:
        self._host = host
        self._backend = backend
        self._watch = watch
        self._clock = clock
        self._whole_pass_from = clock.now()
        """From this time on, the next pass is a whole one: it also loads the table that rewrites
        probes, and checks the host. Other passes only set the routes.
        """
        self._refusals = 0
        """In how many passes in a row, up to the last one, Linux has refused all changes."""
        self._fight = Fight(host.files)
        self._said: dict[bool, set[Line]] = {False: set(), True: set()}
        """What was logged, so that it is not logged again: the lines of the last whole pass (True),
        and of the last other pass (False). While another program undoes each repair (a fight), the
        lines of earlier passes stay, too.
        """

    def run(self) -> None:
        """Repair the routing again and again, until an exception ends this: make a pass whenever
        Linux reports a change, and also from time to time.
        """
        try:
            while True:
                idle_time = self.make_next_pass()
                # A fake kernel waits by the clock `for_watch`. The real kernel has its own clock.
                if self._watch.wait(idle_time, clock=self._clock.for_watch):
                    self._clock.sleep(_GATHERING_TIME)
                    # Discard what was reported meanwhile: it belongs to the same change.
                    self._watch.wait(0.0)
        finally:
            # Otherwise the file of a fight would say that another program still undoes repairs.
            self._fight.end()

    def make_next_pass(self) -> float:
        """Make a pass, and rest. Return in how many seconds the next pass is due if nothing changes
        until then; zero or less means at once.

        A whole pass also checks; any other pass only sets the routes. A whole pass is made if the
        last one began at least `_WHOLE_INTERVAL` ago.
        """
        is_whole = self._clock.now() >= self._whole_pass_from
        if is_whole:
            self._whole_pass_from = self._clock.now() + _WHOLE_INTERVAL
        rest = self._make_pass(is_whole=is_whole)  # it also counts `_refusals`
        self._clock.sleep(rest)  # even if something changes, so that the guard takes little time
        # A pass that Linux has refused is repeated sooner, at least the first times.
        idle_time = _RETRY_AFTER.get(self._refusals, _IDLE_TIME)
        if is_whole:
            return idle_time
        # A whole pass has to follow this one soon, to check what it has done.
        return min(idle_time, self._whole_pass_from - self._clock.now())

    def _make_pass(self, *, is_whole: bool) -> float:
        """Make a pass, and log what is new. Return how many seconds to rest after it: longer after
        a pass that has worked longer, so that the guard uses little of a processor.
        """
        with TimeLimit(TIME_LIMIT):
            # Processor time, because a wait for the lock is not work.
            began = self._clock.processor_time()
            lines = self._make_parts(PARTS if is_whole else ("static_routes",))
            seconds = self._clock.processor_time() - began
        self._say_new(lines, self._said[is_whole])  # each kind of pass has its own lines
        return min(max(seconds * _REST_FACTOR, _SHORTEST_REST), _LONGEST_REST)

    def _make_parts(self, parts: Collection[PassPart]) -> list[Line]:
        """Make these parts of a pass. Return the lines for the journal."""
        done = Done()  # `run_pass` notes its changes there
        # Only a pass that Linux refuses continues the count of refusals; any other sets it to 0.
        refusals_in_a_row = self._refusals + 1
        self._refusals = 0
        try:
            with self._clock.locked():
                config = read_config(self._host)
                outcome = run_pass(self._host, self._backend, config, done=done, parts=parts)
            if outcome.has_requested_changes and not done.changes:
                # Linux has refused a request, and the changes before it were taken back. Read the
                # reports of these now: they would start the next pass at once.
                self._watch.wait(0.0)
                self._refusals = refusals_in_a_row
        except HostRoutingError as error:
            return [(ERROR, line) for line in describe_failure(error)]
        lines = [*lines_of(outcome, done)]
        # A fight: another program undoes again and again what the guard repairs.
        about_fight = self._fight.note(done, self._clock.now())
        if about_fight:
            lines.append((WARNING, about_fight))
            if not self._fight.is_on:
                self._said[True].clear()  # the fight is over: say anew how the host is
        return lines

    def _say_new(self, lines: list[Line], said: set[Line]) -> None:
        """Log those lines of a pass that are not in `said`, the lines of the last pass of the same
        kind (whole, or only setting the routes). Then put the lines of this pass into `said`, for
        the next one.
        """
        for line in lines:
            if line not in said:
                say(*line)
        # While another program undoes each repair, `said` also keeps the lines of earlier passes:
        # otherwise two lines that alternate would be logged again and again. It keeps about
        # 200 kB, even of lines that are always new.
        if not self._fight.is_on or len(said) > 1_000:
            said.clear()
        said.update(lines)
