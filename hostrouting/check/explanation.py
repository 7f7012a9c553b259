"""How one packet is routed, and what the check says of it: the answer to "why does it leave
there?".
"""

from typing import NamedTuple

from hostrouting.check.check import check_family, check_live_family
from hostrouting.check.judge import Judge
from hostrouting.check.results import FamilyReport
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.fib.engine import Decision, Fib, Outcome
from hostrouting.fib.trace import Tried, trace_rules
from hostrouting.kernel.base import RouteBackend
from hostrouting.model.prefix import IP, Prefix
from hostrouting.model.snapshot import Snapshot


class Explanation(NamedTuple):
    """What Linux does with a packet to one address, and what the check says of it."""

    address: IP
    report: FamilyReport
    """The check of this address alone."""
    is_expected: bool
    """Whether the address is in an expected CIDR; true if none is configured."""
    rules: tuple[Tried, ...]
    """The rules that are tried, in their order."""
    decision: Decision
    others: tuple[Outcome, ...]
    """Where packets end that a rule tells from the plain one."""


def explain_packet(
    snapshot: Snapshot,
    address: IP,
    config: HostRoutingConfig,
    backend: RouteBackend | None = None,
) -> Explanation:
    """What becomes of a plain packet from this host to the address; `backend` is the kernel of a
    live host, which is asked what a snapshot does not show.
    """
    fib = Fib(snapshot, address.version)
    judge = Judge(fib, config.route_overlap)
    if backend is None:
        report = check_family(judge, [Prefix.of(address)])
    else:
        report = check_live_family(judge, backend, [Prefix.of(address)])
    cidrs = [Prefix.of(cidr) for cidr in config.route_overlap.cidrs]
    is_expected = not cidrs or any(address in cidr for cidr in cidrs)
    rules = tuple(trace_rules(fib, address))
    decision, others = fib.outcomes(int(address))
    return Explanation(address, report, is_expected, rules, decision, others)
