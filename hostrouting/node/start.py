"""The gate: what happens before each start of a gated unit.

1. The folders and files that root runs or believes must be root's, and writable by nobody else.
2. Other programs' scripts in gate.d are run if their names sort before `10-`, and then the steps of
   the configuration that come before the routes.
3. One pass is made under the lock of the host: static routes, table for probes, check, marker. What
   may still come, such as a default route, is awaited without the lock, and the pass made again.
4. The configuration has to gate this unit: otherwise, one that gates nothing would open every gate.
5. The other steps and scripts are run.

The unit starts if none of these holds it back. They have 75 s together: systemd gives a start 90.
An operator's opening of the gate is judged before, by the shell in the drop-in (`boot.units`),
because it has to work on a host whose Python does not.

A note of the decision is left in /run for `hostrouting status`.

Fifty units may start at once, and each start has its own Python. One that shares another's pass
loads nothing that it does not need: `typing`, `json`, `contextlib`, the errors, the findings or a
Host would each take as long as the rest of its work.
"""

from __future__ import annotations

import os
import time

from hostrouting.gate.start_note import StartNote, leave_note
from hostrouting.gate.trusted import find_untrusted, foreign_scripts
from hostrouting.gate.unit_names import template_of
from hostrouting.host.files import LocalFiles
from hostrouting.host.layout import HostLayout
from hostrouting.node.clock import MachineClock
from hostrouting.node.ending import TIME_LIMIT, Stopped, TimeLimit, stop_on_signals
from hostrouting.node.installed import open_kernel, parse_config, read_config
from hostrouting.node.journal import ERROR, INFO, NOTICE, WARNING, describe_failure, lines_of, say
from hostrouting.node.lock import HostLock
from hostrouting.node.running import start_again_if_replaced, when_it_began
from hostrouting.node.sharing import PassResult, read_shared, share
from hostrouting.node.waiting import WAIT, attempt_until_all_is_there
from hostrouting.release import PASSED, REFUSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from contextlib import AbstractContextManager
    from typing import NoReturn

    from hostrouting.finding import Finding
    from hostrouting.host.base import Files
    from hostrouting.host.host import Host
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.node.clock import NodeClock
    from hostrouting.node.outside import RunScript

_SORTS_AS = "10-"
"""A script whose name sorts before this is run before the pass."""
_ADVICE = (
    "to start ALL gated units without any check until the next boot, as root: "
    f"{HostLayout.opening_command}"
)


class Refused(Exception):  # noqa: N818  how a decision ends; what was wrong is logged by then
    """Something holds the unit back."""


def decide_start(unit: str) -> int:
    """Whether the unit may start, as the exit status of the gate."""
    stop_on_signals()
    return Start(unit, LocalFiles(), clock=MachineClock()).decide()


def _local_host() -> Host:
    from hostrouting.host.host import Host  # noqa: PLC0415  a shared pass needs none

    return Host.local()


def _run_script(*words: str) -> int:
    from hostrouting.node.outside import run_script  # noqa: PLC0415  only where there is a script

    return run_script(*words)


class Start:
    """One start of a gated unit."""

    def __init__(
        self,
        unit: str,
        files: Files,
        *,
        clock: NodeClock,
        find_host: Callable[[], Host] = _local_host,
        locked: Callable[[], AbstractContextManager[str]] = HostLock,
        run: RunScript = _run_script,
    ) -> None:
        self._unit = unit
        self._files = files
        self._find_host = find_host
        self._began = when_it_began(clock.now())
        self._seen_from = self._began
        """A pass that began earlier may not have seen what the host is like now."""
        self._clock = clock
        self._locked = locked
        self._run = run
        self._errors: list[str] = []
        self._activity = "it looked at its files"
        """What a signal, or the end of the time, interrupts."""
        self._held_by = ""
        """The script that runs, or the lock that is awaited."""

    def decide(self) -> int:
        """Decide, log the reasons, and leave the note; the exit status."""
        advice = _ADVICE
        try:
            with TimeLimit(self._seconds_left):
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
        say(ERROR, f"{self._unit} was refused: see the lines above")
        if advice:
            say(NOTICE, advice)
        self._leave_note(is_refused=True)
        return REFUSED

    def _pass_or_refuse(self) -> None:
        """All that has to succeed before the unit may start."""
        self._refuse_for(find_untrusted(self._files))
        scripts = foreign_scripts(self._files)
        for path in scripts:
            if os.path.basename(path) < _SORTS_AS:
                self._run_script(path, path)
        self._run_steps("before")

        result = attempt_until_all_is_there(
            self._open_kernel,
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

        self._run_steps("after")
        for path in scripts:
            if os.path.basename(path) >= _SORTS_AS:
                self._run_script(path, path)

    # The pass.

    def _make_or_share_pass(self) -> PassResult:
        """The result of a pass, whoever makes it."""
        self._activity = f"it waited for {HostLayout.lock_path}"
        self._held_by = HostLayout.lock_path
        with self._locked() as why_not_locked:
            self._held_by = ""
            start_again_if_replaced(self._began)
            self._activity = "it made the routing right"
            text = read_config(self._files)
            now = self._clock.now()
            result = read_shared(self._files, text, since=self._seen_from, now=now)
            if result is None:
                result = self._make_pass(text)
        self._seen_from = self._clock.now()
        if why_not_locked:
            result.lines = [(WARNING, why_not_locked), *result.lines]
        if result.waits:
            self._activity = f"it waited: {result.waits}"
        return result

    def _make_pass(self, text: str) -> PassResult:
        """Make a pass with this configuration, and share its result."""
        from hostrouting.config.settings import gated_units  # noqa: PLC0415  a shared pass needs none
        from hostrouting.upkeep.passes import run_pass  # noqa: PLC0415  as above

        config = parse_config(self._files, text)
        host = self._find_host()
        with open_kernel(host) as backend:
            began = self._clock.now()  # starts that began while this was loaded can share the pass
            outcome = run_pass(host, backend, config)
        result = PassResult(
            gated_units(config),
            lines=[*lines_of(outcome)],
            refuses=outcome.refuses,
            waits=outcome.waits,
        )
        share(self._files, text, result, began=began)
        return result

    def _open_kernel(self) -> AbstractContextManager[RouteBackend]:
        return self._find_host().open_kernel()

    def _require_gated(self, gated: Collection[str]) -> None:
        """Refused if neither this unit nor its template is among the gated units."""
        if {self._unit, template_of(self._unit)}.isdisjoint(gated):
            path = HostLayout.config_path
            sentence = (
                f"{path} does not gate {self._unit}, but the drop-in of that unit runs the gate; "
                f"as root: {HostLayout.node_command} apply --config {path}"
            )
            self._refuse_with(sentence)

    def _say_waiting(self, waits: str) -> None:
        seconds = self._began + WAIT - self._clock.now()
        say(INFO, f"{self._unit} waits for up to {seconds:.0f} s: {waits}")

    # Other programs' scripts, and an agent's steps.

    def _run_steps(self, when: str) -> None:
        """Run the steps of the configuration that come before the routes, or after the check."""
        text = read_config(self._files)
        # To read the rest of it takes time, and most have none. A backslash may spell a letter.
        if '"steps"' not in text and "\\" not in text:
            return
        gate = parse_config(self._files, text).gate
        for step in gate.steps if gate else ():
            if step.when == when:
                self._run_script(f"the step {step.name}", "-c", step.script, step.name)

    def _run_script(self, name: str, *words: str) -> None:
        """Have bash run these words; Refused if that fails."""
        self._activity = f"{name} ran"
        self._held_by = name
        try:
            status = self._run(*words, self._unit, str(max(1, int(self._seconds_left))))
        except OSError as error:
            self._refuse_with(f"{name} cannot be run: {error}")
        if status:
            self._refuse_with(f"{name} failed (exit {status})")
        self._held_by = ""
        self._seen_from = self._clock.now()

    # What is said.

    def _say(self, level: int, words: str) -> None:
        """Log a line; an error is also for the note."""
        if level == ERROR:
            self._errors.append(words)
        say(level, words)

    def _refuse_for(self, findings: Iterable[Finding]) -> None:
        """Log the findings; Refused if there are any."""
        lines = [finding.line for finding in findings]
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
        """What `status` reads of the last start of this unit. Without an ID of systemd's, this is
        not a start: an operator runs the gate.
        """
        invocation = os.environ.get("INVOCATION_ID", "")
        if not invocation:
            return
        note = StartNote(
            invocation,
            time.time(),
            refused=is_refused,
            held_by=self._held_by,
            errors=self._errors,
        )
        leave_note(self._files, self._unit, note)
