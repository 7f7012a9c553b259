"""The services at boot: each makes one part of a pass, and waits for what may still come.

No gated unit depends on them, because its gate makes the whole pass. They set the routes of a host
whose gated units start late or never, and an operator can start one by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from hostrouting.host.host import Host
from hostrouting.node.clock import MachineClock, NodeClock
from hostrouting.node.ending import TIME_LIMIT, TimeLimit, stop_on_signals
from hostrouting.node.installed import await_installed_pass
from hostrouting.node.journal import say_failure

if TYPE_CHECKING:
    from hostrouting.config.settings import PassPart


def run_service(part: str) -> int:
    """In the process of a service at boot, make this part of a pass: set the static routes, load
    the table for probes, or check. Return the exit status.
    """
    stop_on_signals()
    return make_part(cast("PassPart", part), Host.local(), clock=MachineClock())


def make_part(part: PassPart, host: Host, *, clock: NodeClock) -> int:
    """Make this part of a pass (set the static routes, load the table for probes, or check), again
    and again while it waits for something that may still come. Log what is wrong. Return the exit
    status of the service: 1 if the part fails, or would keep a gated unit from starting, else 0.
    """
    try:
        with TimeLimit(TIME_LIMIT):
            outcome = await_installed_pass(host, [part], clock=clock)
    except BaseException as error:  # noqa: BLE001  whatever it is, the journal has to have it
        say_failure(error)
        return 1
    if outcome.refuses:
        return 1
    # A finding of this part says that the table for probes could not be loaded. This holds
    # no unit back, but the service fails, so that systemd tries it again.
    if part == "probe_rewrite" and outcome.findings:
        return 1
    return 0
