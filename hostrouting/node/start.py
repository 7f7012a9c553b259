"""The gate: what happens before each start of a gated unit.

1. The folders and files that root runs or believes must be root's, and writable by nobody else.
2. Other programs' scripts in gate.d, if their names sort before `10-`, are run.
3. One pass is made under the lock of the host: static routes, table for probes, check, marker. What
   may still come, such as a default route, is awaited without the lock, and the pass made again.
4. The configuration has to gate this unit: otherwise, one that gates nothing would open every gate.
5. The other scripts are run.

The unit starts if none of these holds it back. They have 75 s together: systemd gives a start 90.
An operator's opening of the gate is judged before, by the shell in the drop-in (`boot.units`),
because it has to work on a host whose Python does not.

A note of the decision is left in /run for `hostrouting status`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, NoReturn

from hostrouting.command import call
from hostrouting.errors import HostError
from hostrouting.gate.trusted import find_untrusted, foreign_scripts
from hostrouting.gate.unit_names import template_of
from hostrouting.host.layout import HostLayout
from hostrouting.node import PASSED, REFUSED
from hostrouting.node.clock import MachineClock, NodeClock
from hostrouting.node.ending import Stopped, limited_to, stop_on_signals
from hostrouting.node.installed import parse_config, read_config
from hostrouting.node.journal import (
    ERROR,
    INFO,
    NOTICE,
    ON_THE_NODE,
    WARNING,
    describe_failure,
    lines_of,
    say,
)
from hostrouting.node.lock import host_locked
from hostrouting.node.outside import RunScript, run_script
from hostrouting.node.running import RunningProgram
from hostrouting.node.sharing import PassKey, PassResult, read_shared, share
from hostrouting.node.waiting import WAIT, attempt_until_all_is_there

if TYPE_CHECKING:
    from hostrouting.finding import Finding
    from hostrouting.host.host import Host

TIME_LIMIT = 75.0
"""Seconds for everything."""
_SORTS_AS = "10-"
"""A script whose name sorts before this is run before the pass."""
_BEGAN = "HOSTROUTING_BEGAN"
"""The variable that says when this start began, if the gate has started itself again since."""
_ADVICE = (
    "to start ALL gated units without any check until the next boot, as root: "
    f"{HostLayout.opening_command}"
)


class Refused(Exception):  # noqa: N818  how a decision ends; what was wrong is logged by then
    """Something holds the unit back."""


def decide_start(unit: str) -> int:
    """Whether the unit may start, as the exit status of the gate."""
    stop_on_signals()
    from hostrouting.host.host import Host  # noqa: PLC0415  a signal may come while it is loaded

    clock = MachineClock()
    began = float(os.environ.setdefault(_BEGAN, str(clock.now())))
    return Start(unit, Host.local(), began=began, clock=clock).decide()


class Start:
    """One start of a gated unit."""

    def __init__(
        self,
        unit: str,
        host: Host,
        *,
        began: float,
        clock: NodeClock,
        locked: Callable[[], AbstractContextManager[str]] = host_locked,
        program: RunningProgram | None = None,
        run: RunScript = run_script,
    ) -> None:
        self._unit = unit
        self._host = host
        self._began = began
        self._clock = clock
        self._locked = locked
        self._program = program or RunningProgram()
        self._run = run
        self._errors: list[str] = []
        self._activity = "it looked at its files"
        """What a signal, or the end of the time, interrupts."""

    def decide(self) -> int:
        """Decide, log the reasons, and leave the note; the exit status."""
        advice = _ADVICE
        try:
            with limited_to(self._seconds_left):
                self._pass_or_refuse()
        except Refused:
            pass
        except BaseException as error:  # noqa: BLE001  whatever it is, the unit must not start
            for line in describe_failure(error, self._activity):
                self._say(ERROR, line)
            if isinstance(error, Stopped):
                advice = ""  # an operator who stops a unit that is starting needs none
        else:
            self._leave_note(is_refused=False)
            return PASSED
        say(ERROR, f"{self._unit} was not started: see the lines above")
        if advice:
            say(NOTICE, advice)
        self._leave_note(is_refused=True)
        return REFUSED

    def _pass_or_refuse(self) -> None:
        """All that has to succeed before the unit may start."""
        self._refuse_for(find_untrusted(self._host.files))
        scripts = foreign_scripts(self._host.files)
        for path in scripts:
            if os.path.basename(path) < _SORTS_AS:
                self._run_script(path)

        result = attempt_until_all_is_there(
            self._host,
            self._make_or_share_pass,
            until=self._began + WAIT,
            clock=self._clock,
            say_waiting=self._say_waiting,
        )
        for level, words in result.lines:
            self._say(level, words)
        self._require_gated(result.units)
        if result.refuses:
            raise Refused

        for path in scripts:
            if os.path.basename(path) >= _SORTS_AS:
                self._run_script(path)

    # The pass.

    def _make_or_share_pass(self) -> PassResult:
        """The result of a pass that begins after this call, whoever makes it. An earlier one may
        not have seen what the host is like now.
        """
        files = self._host.files
        asked = self._clock.now()
        self._activity = f"it waited for {HostLayout.lock_path}"
        with self._locked() as why_not_locked:
            if self._program.was_replaced():
                self._program.start_again()
            self._activity = "it made the routing right"
            config_text = read_config(self._host)
            key = PassKey(config_text, self._program.identity)
            pass_began = self._clock.now()
            result = read_shared(files, key, since=asked, now=pass_began)
            if result is None:
                result = _make_pass(self._host, config_text)
                share(files, key, result, began=pass_began)
        if why_not_locked:
            result = result._replace(lines=((WARNING, why_not_locked), *result.lines))
        if result.waits:
            self._activity = f"it waited: {result.waits}"
        return result

    def _require_gated(self, gated: Collection[str]) -> None:
        """HostError if neither this unit nor its template is among the gated units."""
        if {self._unit, template_of(self._unit)}.isdisjoint(gated):
            path = HostLayout.config_path
            apply = ON_THE_NODE.line(call(f"apply --config {path}"))
            sentence = (
                f"{path} does not gate {self._unit}, but the drop-in of that unit runs the gate; "
                f"as root: {apply}"
            )
            raise HostError(sentence, what="file", target=path)

    def _say_waiting(self, waits: str) -> None:
        seconds = self._began + WAIT - self._clock.now()
        say(INFO, f"{self._unit} waits for up to {seconds:.0f} s: {waits}")

    # Other programs' scripts.

    def _run_script(self, path: str) -> None:
        """Run it; Refused if it fails."""
        self._activity = f"{path} ran"
        try:
            status = self._run(path, self._unit, str(max(1, int(self._seconds_left))))
        except OSError as error:
            self._refuse_with(f"{path} cannot be run: {error}")
        if status:
            self._refuse_with(f"{path} failed (exit {status})")

    # What is said.

    def _say(self, level: int, words: str) -> None:
        """Log a line; an error is also for the note."""
        if level == ERROR:
            self._errors.append(words)
        say(level, words)

    def _refuse_for(self, findings: Iterable[Finding]) -> None:
        """Log the findings; Refused if there are any."""
        lines = [finding.line_for(ON_THE_NODE) for finding in findings]
        for line in lines:
            self._say(ERROR, line)
        if lines:
            raise Refused

    def _refuse_with(self, reason: str) -> NoReturn:
        self._say(ERROR, reason)
        raise Refused

    @property
    def _seconds_left(self) -> float:
        return self._began + TIME_LIMIT - self._clock.now()

    def _leave_note(self, *, is_refused: bool) -> None:
        """What `status` reads of the last start of this unit. If it cannot be written, that changes
        no decision. Without an ID of systemd's, this is not a start: an operator runs the gate.
        """
        import json  # noqa: PLC0415  only when everything else is done

        invocation = os.environ.get("INVOCATION_ID", "")
        if not invocation:
            return
        note = {
            "invocation": invocation,
            "refused": is_refused,
            "time": time.time(),
            "seconds": round(self._clock.now() - self._began, 3),
            "errors": self._errors,
        }
        with suppress(HostError):
            self._host.files.write(HostLayout.note_path(self._unit), json.dumps(note))


def _make_pass(host: Host, config_text: str) -> PassResult:
    """Make a pass with this configuration, and have its result in words."""
    from hostrouting.config.settings import gated_units  # noqa: PLC0415  a shared pass needs none
    from hostrouting.upkeep.passes import run_pass  # noqa: PLC0415  as above

    config = parse_config(host, config_text)
    with host.open_kernel() as backend:
        outcome = run_pass(host, backend, config)
    lines = tuple(lines_of(outcome))
    return PassResult(gated_units(config), lines, outcome.refuses, outcome.waits)
