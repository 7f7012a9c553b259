"""Whether a change of routes moves the packets of the session in which it is typed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from hostrouting.fib.engine import Fib
from hostrouting.finding import Finding, Remedy
from hostrouting.model.prefix import Prefix

if TYPE_CHECKING:
    from hostrouting.fib.engine import Decision
    from hostrouting.host.host import Host
    from hostrouting.model.snapshot import Snapshot


def find_session_at_risk(
    host: Host, changed: Collection[Prefix], before: Snapshot, after: Snapshot
) -> Iterator[Finding]:
    """That packets to the client of this session would take another way after routes to these
    prefixes have changed.
    """
    if not changed:
        return
    client = host.client()
    if client is None or not any(Prefix.of(client) in prefix for prefix in changed):
        return
    now = Fib(before, client.version).lookup(client)
    then = Fib(after, client.version).lookup(client)
    if _way(now) == _way(then):
        return
    sentence = (
        f"this session comes from {client}, and the change moves its packets from [{now}] "
        f"to [{then}]: the session may end"
    )
    remedy = Remedy("with --confirm 60, apply takes everything back if it does")
    yield Finding("session-at-risk", "warning", sentence, str(client), remedy)


def _way(decision: Decision) -> object:
    """What the answers of a TCP connection depend on: the devices and gateways."""
    if decision.route is None:
        return decision.kind
    return [(hop.dev, hop.gateway) for hop in decision.route.next_hops]
