"""A check, and the host that it was made on: everything that a page or a document about it is made of.

Here: facts, each computed when it is asked for. Not here: sentences and tables (`check`, `remedy`).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import attrs

from hostrouting.cli.picture import stretches_of
from hostrouting.cli.source import expected_of, installed_config, looked_at, quiet_context, start_command
from hostrouting.fib import Fib
from hostrouting.kernel import Examination, examine
from hostrouting.model import IPV4, TABLE_MAIN, NextHop, Prefix, Route, route_keys
from hostrouting.overlap import check_overlap
from hostrouting.plan import RoutePlan, plan_routes
from hostrouting.repair import propose_repair
from hostrouting.tasks import wanted_routes
from hostrouting.uplink import DesiredRoute, bare_leg, resolve_route
from hostrouting.wording import check_document

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from hostrouting.config import HostRoutingConfig, RouteOverlapConfig
    from hostrouting.host import Host
    from hostrouting.model import Snapshot

__all__ = ["Examined", "examined"]


class Examined:
    """What was found, and the host that it was found on, before and after the repair."""

    def __init__(
        self,
        found: Examination,
        config: HostRoutingConfig,
        installed: HostRoutingConfig | None = None,
        *,
        start: str = "",
    ) -> None:
        """Keep all of them; nothing more is computed until it is asked for.

        `installed` is what the boot files say, and `start` the command that does it.
        """
        self.found, self.fib, self.config, self.installed, self.start = found, found.fib, config, installed, start

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
        return cls(Examination(report, propose_repair(fib, report, protocol=config.protocol), fib), config)

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

    @cached_property
    def _plan(self) -> RoutePlan:
        return plan_routes(wanted_routes(self.config), self.fib.snapshot, protocol=self.config.protocol)

    @property
    def is_ready(self) -> bool:
        """Whether the static routes of the configuration can be applied as they are, and would change something."""
        return bool(self._plan.changes) and not self._plan.conflicts and not self._plan.pending

    @cached_property
    def contested(self) -> tuple[DesiredRoute, ...]:
        """The static routes of the configuration that cannot be had, for somebody else holds their keys."""
        keys = {step.route.key for step in self._plan.conflicts}
        return tuple(wish for wish in wanted_routes(self.config) if wish.key in keys)

    @cached_property
    def lacking(self) -> tuple[DesiredRoute, ...]:
        """What the configuration lacks: the repair of the host as it would be once the configuration is applied."""
        if not self._plan.changes:
            return self.found.repair.routes
        return Examined.of(self._plan.apply_to(self.fib.snapshot), self.config).found.repair.routes

    @property
    def whole(self) -> tuple[DesiredRoute, ...]:
        """All static routes that a configuration of its own would have: those of ours, and what closes the escapes.

        Ours are those that are installed, as they were written, and can be had; where that is not known, those that
        are there.
        """
        closing = self.found.repair.routes if self.installed is None else self.lacking
        ours = self.kept if self.installed is None else wanted_routes(self.installed)
        taken = {wish.key for wish in (*closing, *self.contested)}
        return (*(wish for wish in ours if wish.key not in taken), *closing)

    @property
    def lasting(self) -> RouteOverlapConfig:
        """The check that such a configuration would have: the one that is installed, and the CIDRs that were asked."""
        asked = self.config.route_overlap
        if self.installed is None or not self.installed.route_overlap.expected_cidrs:
            return asked
        check = self.installed.route_overlap
        devs = asked.expected_devs or check.expected_devs
        return attrs.evolve(check, expected_cidrs=(*check.expected_cidrs, *asked.expected_cidrs), expected_devs=devs)

    @property
    def kept(self) -> tuple[DesiredRoute, ...]:
        """The routes of ours that are there and stay when the repair is applied."""
        return tuple(map(_as_wish, self._staying))

    @property
    def forked(self) -> tuple[Route, ...]:
        """Those of them with several ways, where the default route's, which a configuration means, are others."""
        several = [it for it in self._staying if len(it.legs) > 1]
        then = [resolve_route(_as_wish(it), self.fib, protocol=self.config.protocol) for it in several]
        pairs = zip(several, then, strict=True)
        return tuple(it for it, other in pairs if not isinstance(other, Route) or _ways(other) != _ways(it))

    @cached_property
    def _staying(self) -> tuple[Route, ...]:
        taken = {wish.key for wish in self.found.repair.routes}
        found: dict[tuple[object, ...], Route] = {}
        routes = self.fib.snapshot.routes
        for at in (at for at, key in enumerate(route_keys(routes)) if key[4] == self.config.protocol):
            route = routes[at]
            if _is_static(route) and route.key not in taken:
                found.setdefault(route.key, route)
        return tuple(found.values())

    def takes_place_of(self, wishes: Iterable[DesiredRoute]) -> bool:
        """Whether the configuration has other routes with the destination and metric of one of these."""
        return not {wish.key for wish in wishes}.isdisjoint(wish.key for wish in wanted_routes(self.config))

    def is_held_by_us(self, route: Route) -> bool:
        """Whether the first route with the key of this one is ours."""
        holder = next((it for it in self.fib.routes(route.prefix, table=route.table) if it.key == route.key), None)
        return holder is not None and holder.protocol == self.config.protocol

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
    here = arguments.config is None and arguments.snapshot is None
    installed = installed_config(host()) if here else None
    start = "" if installed is None else start_command(host())
    config = expected_of(arguments, installed)
    with looked_at(arguments, host) as backend:
        found = examine(quiet_context(), backend, config, wait=0.0 if arguments.snapshot else arguments.wait)
        return Examined(found, config, installed, start=start)


def _is_static(route: Route) -> bool:
    """Whether a configuration can say it."""
    in_main = route.table == TABLE_MAIN and not route.tos
    reached = all(leg.gateway is None or leg.gateway.version == IPV4 for leg in route.legs)
    return in_main and reached and route.type == "unicast" and route.prefix.family == IPV4 and bool(route.prefix.length)


def _ways(route: Route) -> tuple[NextHop, ...]:
    return tuple(map(bare_leg, route.legs))


def _as_wish(route: Route) -> DesiredRoute:
    """The route as a configuration says it; of one with several legs it can only say that they are the default's."""
    leg = route.legs[0] if len(route.legs) == 1 else NextHop()
    return DesiredRoute(route.prefix, gateway=leg.gateway, dev=leg.dev, metric=route.metric)
