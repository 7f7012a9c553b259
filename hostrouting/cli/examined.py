"""A check, and the host that it was made on: everything that a page or a document about it is made of.

Here: facts, each computed when it is asked for. Not here: sentences and tables (`check`, `remedy`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from hostrouting.cli.picture import stretches_of
from hostrouting.cli.source import expected_of, looked_at, quiet_context
from hostrouting.fib import Fib
from hostrouting.kernel import Examination, examine
from hostrouting.model import Prefix, Route
from hostrouting.overlap import check_overlap
from hostrouting.plan import plan_routes
from hostrouting.repair import propose_repair
from hostrouting.tasks import wanted_routes
from hostrouting.uplink import resolve_route
from hostrouting.wording import check_document

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from hostrouting.config import HostRoutingConfig
    from hostrouting.host import Host
    from hostrouting.model import Snapshot

__all__ = ["Examined", "examined"]


class Examined:
    """What was found, and the host that it was found on, before and after the repair."""

    def __init__(self, found: Examination, fib: Fib, config: HostRoutingConfig) -> None:
        """Keep all three; nothing more is computed until it is asked for."""
        self.found, self.fib, self.config = found, fib, config

    def document(self) -> dict[str, Any]:
        """The check as the JSON value `hostrouting/check/1`; where the kernel surprises, that is among its notes."""
        document = check_document(self.found.report, self.found.repair, mode=self.config.route_overlap.mode)
        return {**document, "verdict": self.found.verdict, "notes": [*document["notes"], *self.found.surprises]}

    @classmethod
    def of(cls, snapshot: Snapshot, config: HostRoutingConfig) -> Self:
        """The check of a snapshot alone; no kernel is asked."""
        fib, settings = Fib(snapshot), config.route_overlap
        cidrs = [Prefix.of(cidr) for cidr in settings.expected_cidrs]
        report = check_overlap(fib, cidrs, devs=settings.expected_devs, allowed=settings.allowed_devs)
        return cls(Examination(report, propose_repair(fib, report, protocol=config.protocol)), fib, config)

    @property
    def allowed_devs(self) -> tuple[str, ...]:
        """The devices that carry a part of it and may, although they are not the expected ones."""
        report = self.found.report
        names = (
            it.label
            for cidr in report.cidrs
            for it in stretches_of(self.fib, cidr, expected=report.expected_devs, allowed=report.allowed)
            if it.sort == "allowed"
        )
        return tuple(dict.fromkeys(names))

    @property
    def is_configured(self) -> bool:
        """Whether the static routes of the configuration, once they are there, close all that routes can close."""
        report, wanted = self.found.report, wanted_routes(self.config)
        if not report.findings or not wanted:
            return False
        plan = plan_routes(wanted, self.fib.snapshot, protocol=self.config.protocol)
        if plan.conflicts or plan.pending or not plan.changes:
            return False
        after = Examined.of(plan.apply_to(self.fib.snapshot), self.config).found.report
        return after.findings == self.found.repair.proof.findings

    @property
    def repair_routes(self) -> tuple[Route, ...]:
        """The repair as the kernel will have it: device and gateway filled in."""
        wishes = self.found.repair.routes
        resolved = [resolve_route(wish, self.fib, protocol=self.config.protocol) for wish in wishes]
        return tuple(it for it in resolved if isinstance(it, Route))

    @property
    def repaired(self) -> Fib | None:
        """The host with the repair applied; None where there is no repair."""
        routes = self.repair_routes
        if not routes:
            return None
        keys = {route.key for route in routes}
        ours = [
            it
            for route in routes
            for it in self.fib.routes(route.prefix)
            if it.key in keys and it.protocol == self.config.protocol
        ]
        return Fib(self.fib.snapshot.with_routes(routes, without=ours))


def examined(arguments: argparse.Namespace, host: Callable[[], Host]) -> Examined:
    """Do the check on what the arguments name."""
    config = expected_of(arguments)
    with looked_at(arguments, host) as backend:
        found = examine(quiet_context(), backend, config, wait=0.0 if arguments.snapshot else arguments.wait)
        return Examined(found, Fib(backend.last), config)
