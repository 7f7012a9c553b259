"""The gate: what happens before each start of a gated unit.

1. The folders and files that root runs or believes must be root's, and writable by nobody else.
2. A pass is made under the lock of the host: static routes, table for probes, check, marker. What
   may still come, such as a default route, is awaited without the lock, and the pass made again.
3. The configuration has to gate this unit: otherwise, one that gates nothing would open every gate.

The unit starts if none of these holds it back. They have 75 s together: systemd gives a start 90.
An operator's opening of the gate is judged before, by the shell in the drop-in (`boot.units`),
because it has to work on a host whose Python does not.
"""

from __future__ import annotations

from hostrouting.config.settings import gated_units
from hostrouting.gate.trusted import find_untrusted
from hostrouting.gate.unit_names import template_of
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.node.clock import MachineClock, NodeClock
from hostrouting.node.ending import TIME_LIMIT, TimeLimit, stop_on_signals
from hostrouting.node.installed import await_installed_pass
from hostrouting.node.journal import ERROR, NOTICE, say, say_failure
from hostrouting.release import PASSED, REFUSED

_ADVICE = (
    "to start ALL gated units without any check until the next boot, as root: "
    f"{HostLayout.opening_command}"
)


def decide_start(unit: str) -> int:
    """Decide whether the unit may start on this machine; return the exit status of the gate."""
    stop_on_signals()
    return decide(unit, Host.local(), clock=MachineClock())


def decide(unit: str, host: Host, *, clock: NodeClock) -> int:
    """Decide whether the unit may start on this host; return PASSED or REFUSED, and log why."""
    try:
        with TimeLimit(TIME_LIMIT):
            if _may_start(unit, host, clock):
                return PASSED
    except BaseException as error:  # noqa: BLE001  whatever it is, the unit must not start
        say_failure(error)
    say(ERROR, f"{unit} was refused: see the lines above")
    say(NOTICE, _ADVICE)
    return REFUSED


def _may_start(unit: str, host: Host, clock: NodeClock) -> bool:
    """Return whether nothing holds the unit back; log what does."""
    # The gate must not run or believe what other users can change.
    untrusted = [*find_untrusted(host.files)]
    for finding in untrusted:
        say(ERROR, finding.line)
    if untrusted:
        return False

    outcome = await_installed_pass(host, clock=clock)
    # Refuse a unit that runs the gate although the configuration does not gate it. Otherwise, a
    # configuration that gates nothing would let every unit start.
    if {unit, template_of(unit)}.isdisjoint(gated_units(outcome.config)):
        say(
            ERROR,
            f"{HostLayout.config_path} does not gate {unit}, but the drop-in of that unit runs the "
            f"gate; as root: {HostLayout.node_command} apply --config {HostLayout.config_path}",
        )
        return False
    return not outcome.refuses
