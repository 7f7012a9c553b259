"""The services at boot: each makes one part of a pass, and waits for what may still come.

No gated unit depends on them, because its gate makes the whole pass. They set the routes of a host
whose gated units start late or never, and an operator can start one by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hostrouting.node.clock import MachineClock
from hostrouting.node.ending import TIME_LIMIT, TimeLimit, stop_on_signals
from hostrouting.node.installed import open_kernel, parse_config, read_config
from hostrouting.node.journal import ERROR, INFO, WARNING, describe_failure, lines_of, say
from hostrouting.node.lock import HostLock
from hostrouting.node.running import start_again_if_replaced, when_it_began
from hostrouting.node.waiting import WAIT, attempt_until_all_is_there

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from hostrouting.host.host import Host
    from hostrouting.node.clock import NodeClock
    from hostrouting.upkeep.passes import Part, PassOutcome

_FAILED = 1


def run_service(part: str) -> int:
    """Make this part of a pass; the exit status of the service."""
    stop_on_signals()
    from hostrouting.host.host import Host  # noqa: PLC0415  a signal may come while it is loaded
    from hostrouting.upkeep.passes import PARTS  # noqa: PLC0415  as above

    [known] = [each for each in PARTS if each == part]
    return make_part(known, Host.local(), clock=MachineClock())


def make_part(
    part: Part,
    host: Host,
    *,
    clock: NodeClock,
    locked: Callable[[], AbstractContextManager[str]] = HostLock,
) -> int:
    """Make the part, and log what is wrong; 0 if it is done, and holds no unit back."""
    began = when_it_began(clock.now())

    def attempt() -> PassOutcome:
        from hostrouting.upkeep.passes import run_pass  # noqa: PLC0415  as above

        with locked() as why_not_locked:
            start_again_if_replaced(began)
            if why_not_locked:
                say(WARNING, why_not_locked)
            config = parse_config(host.files, read_config(host.files))
            with open_kernel(host) as backend:
                return run_pass(host, backend, config, parts=[part])

    try:
        with TimeLimit(began + TIME_LIMIT - clock.now()):
            outcome = attempt_until_all_is_there(
                host.open_kernel,
                attempt,
                until=began + WAIT,
                clock=clock,
                say_waiting=lambda waits: say(INFO, f"waiting for up to {WAIT:g} s: {waits}"),
            )
    except BaseException as error:  # noqa: BLE001  whatever it is, the journal has to have it
        for line in describe_failure(error, f"it made the part {part}"):
            say(ERROR, line)
        return _FAILED
    for level, words in lines_of(outcome):
        say(level, words)
    # Probes hold no unit back, but systemd has to try again.
    is_table_missing = part == "probes" and bool(outcome.findings)
    return _FAILED if outcome.refuses or is_table_missing else 0
