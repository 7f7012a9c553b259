"""What to do about an overlap: what a repair costs, what it cannot close, and its routes to paste.

Shared by `check`, `repair` and `apply`, which differ in how much of it they show. What is pasted takes nothing away:
it has the routes of ours that are there, or is to be added to the configuration that has them.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.cli.check import Check
from hostrouting.cli.page import SHOWN, Painted, capped, counted, line, spoken
from hostrouting.config import HostRoutingConfig
from hostrouting.model import IPV4, TABLE_MAIN, NextHop, Route
from hostrouting.plan import RoutePlan, plan_routes
from hostrouting.tasks import wanted_routes
from hostrouting.uplink import DesiredRoute, bare_leg, resolve_route
from hostrouting.wording import diversion_line, repair_document, unsafe_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hostrouting.cli.page import Line
    from hostrouting.config import RouteOverlapConfig
    from hostrouting.repair import Diversion, Repair

__all__ = ["ip_commands", "remedy_lines", "repaired_configuration", "route_lines", "warning_lines"]

_THEIRS = "somebody else has a route there, which is not replaced"


class _Remedy:
    """What there is to know before a repair is pasted."""

    def __init__(self, check: Check) -> None:
        """Of this check."""
        self.check, self.found, self.fib = check, check.found, check.fib
        self.config, self.installed, self.start = check.config, check.installed, check.start

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
        return Check.of(
            self._plan.apply_to(self.fib.snapshot), self.config, gateway=self.check.gateway
        ).found.repair.routes

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

    def configuration(self, named: HostRoutingConfig | None) -> HostRoutingConfig:
        """A configuration of its own with all of them; or the `named` one, with what it lacks in its place."""
        if named is None:
            routes, overlap, base = self.whole, self.lasting, self.installed or HostRoutingConfig()
        else:
            base, asked = named, self.config.route_overlap
            taken = {wish.key for wish in (*self.lacking, *self.contested)}
            routes = (*(wish for wish in wanted_routes(named) if wish.key not in taken), *self.lacking)
            cidrs = (*named.route_overlap.expected_cidrs, *asked.expected_cidrs)
            overlap = attrs.evolve(asked, expected_cidrs=cidrs)
        static = {"enabled": bool(routes), "routes": repair_document(routes)}
        return HostRoutingConfig(static, overlap, self.config.protocol, probe_rewrite=base.probe_rewrite)

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
        for route in self.fib.snapshot.routes.only(protocol=self.config.protocol):
            if _is_static(route) and route.key not in taken:
                found.setdefault(route.key, route)
        return tuple(found.values())

    def takes_place_of(self, wishes: Iterable[DesiredRoute]) -> bool:
        """Whether the configuration has other routes with the destination and metric of one of these."""
        return not {wish.key for wish in wishes}.isdisjoint(wish.key for wish in wanted_routes(self.config))


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


def remedy_lines(
    check: Check, *, config: str = "", cidrs: Sequence[str] = (), devs: Sequence[str] = (), again: str = ""
) -> Iterator[Line]:
    """What the repair costs and what it cannot close, before anyone pastes it; then it, as configuration and commands.

    `config` is the file of the configuration, where there is one, `cidrs` and `devs` are those that were named
    besides. With `again`, a long repair is left to that command.
    """
    repair = check.found.repair
    yield from _price(repair)
    if check.gateway is None and any(it.reason == "no-way" for it in repair.unsafe):
        dev = next(iter(check.found.report.expected_devs))
        yield line(f"Where a router on {dev} is known, name it for a repair: --dev {dev} --gateway ADDRESS")
    if repair.routes:
        yield line()
        yield from _way_out(_Remedy(check), config, cidrs, devs, again)


def _way_out(it: _Remedy, config: str, cidrs: Sequence[str], devs: Sequence[str], again: str) -> Iterator[Line]:
    routes = it.lacking if config else it.whole
    if it.installed is not None and not it.lacking and not it.contested:
        start = f"; start them, as root: {it.start}"
        yield line(Painted("What is installed has the routes that close it", "strong"), start)
        return
    if config and not routes and it.contested:
        told = f", take out {_named(it.contested)} of staticRoutes.routes of {config}: {_THEIRS}. The others close it; "
        yield line(Painted("For good", "strong"), f"{told}run, as root: hostrouting apply --config {config}")
        return
    if config and not routes:
        verb = "install them, as root, with: hostrouting apply" if it.is_ready else "see: hostrouting plan"
        yield line(Painted(f"{config} has the routes that close it", "strong"), f"; {verb} --config {config}")
        return
    if again and len(routes) > SHOWN:
        yield line(Painted(counted(len(routes), "static route"), "strong"), f" close it; print them with: {again}")
        return
    yield from _added_to(it, routes, config, cidrs, devs) if config else _as_configuration(it, routes)
    yield line()
    yield line(Painted("Until the next boot", "strong"), ", as root:")
    yield from (line("  ", command) for command in ip_commands(it.check))


def _added_to(
    it: _Remedy, routes: Sequence[DesiredRoute], config: str, cidrs: Sequence[str], devs: Sequence[str]
) -> Iterator[Line]:
    """What is to be added to a configuration that is there."""
    yield line(
        Painted("For good", "strong"),
        f", add this to staticRoutes.routes of {config} and run, as root: hostrouting apply --config {config}",
    )
    yield from route_lines(routes)
    if it.contested:
        yield line(Painted(f"And take out {_named(it.contested)}: {_THEIRS}.", "warn"))
    if it.takes_place_of(routes):
        yield line("It takes the place of what is there with the same destination and metric.")
    if not it.config.static_routes.enabled:
        yield line("Set staticRoutes.enabled to true as well.")
    if cidrs:
        yield line(f"Add to routeOverlap.expectedCidrs, too, what it lacks of: {', '.join(cidrs)}")
    if devs:
        yield line(f"Set routeOverlap.expectedDevs to {json.dumps(devs)} as well.")


def _differing(settings: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    """Those of the settings that are not the usual ones."""
    return {key: value for key, value in settings.items() if value != usual.get(key)}


def _beside_routes(config: HostRoutingConfig) -> dict[str, Any]:
    """What a configuration says but its routes, as JSON has it: the mode, and else what is not as usual."""
    usual, found = HostRoutingConfig().to_mapping(), config.to_mapping()
    del usual["routeOverlap"]["mode"]
    rest = _differing(found, usual)
    document = {"routeOverlap": _differing(found["routeOverlap"], usual["routeOverlap"])}
    document |= {"protocol": rest["protocol"]} if "protocol" in rest else {}
    if "probeRewrite" in rest:
        document["probeRewrite"] = _differing(rest["probeRewrite"], usual["probeRewrite"])
    return document


def repaired_configuration(check: Check, named: HostRoutingConfig | None) -> dict[str, Any]:
    """The JSON of a configuration that closes what can be closed, and keeps all that is in force or was `named`."""
    config = _Remedy(check).configuration(named)
    return {"staticRoutes": config.static_routes.to_mapping(), **_beside_routes(config)}


def warning_lines(check: Check) -> Iterator[str]:
    """What there is to know before it is applied, a sentence each."""
    repair, contested = check.found.repair, _Remedy(check).contested
    yield from map(diversion_line, repair.diverted)
    yield from (f"no static route can close it: {text}" for text in unsafe_lines(repair.unsafe))
    if contested:
        yield f"left out of the configuration: {_named(contested)}: {_THEIRS}"


def _as_configuration(it: _Remedy, routes: Sequence[DesiredRoute]) -> Iterator[Line]:
    """A whole configuration: one that can be pasted, one line a route."""
    yield line(
        Painted("For good", "strong"),
        ", put this into the configuration and run, as root: hostrouting apply --config FILE",
    )
    yield line('  {"staticRoutes": {"enabled": true, "routes": [')
    yield from route_lines(routes)
    yield line("  ]},")
    rest = _beside_routes(it.configuration(None)).items()
    yield line(f"  {', '.join(f'{json.dumps(key)}: {json.dumps(value)}' for key, value in rest)}}}")
    if it.installed is not None:
        yield line(f"It has what is installed here, too: {_said(it.installed)}.")
        if it.contested:
            yield line(Painted(f"It is without {_named(it.contested)}: {_THEIRS}.", "warn"))
        return
    told = "has several ways here, which no configuration can name: printed, it takes those of the default route."
    forked = it.forked
    yield from capped((line(Painted(f"{route.prefix} {told}", "warn")) for route in forked[:SHOWN]), len(forked))
    if it.kept:
        count = "1 route of ours that is" if len(it.kept) == 1 else f"{len(it.kept):,} routes of ours that are"
        yield line(
            f"It has the {count} here already. Where this host's configuration is known, ask with --config FILE: "
            "then its CIDRs and mode stay, too."
        )


def _named(wishes: Sequence[DesiredRoute]) -> str:
    """Wishes by what tells them from each other."""
    names = [f"{it.destination}{f' metric {it.metric}' if it.metric else ''}" for it in wishes]
    return spoken(names, most=SHOWN)


def _said(installed: HostRoutingConfig) -> str:
    routes, check = wanted_routes(installed), installed.route_overlap
    parts = [counted(len(routes), "static route")] if routes else []
    cidrs = spoken(tuple(map(str, check.expected_cidrs)))
    parts += [f"the check of {cidrs} in {check.mode}"] if cidrs else []
    return "; ".join(parts)


def route_lines(routes: Sequence[DesiredRoute]) -> Iterator[Line]:
    """The routes as they are pasted into a list of them, one line each."""
    documents = [json.dumps(it) for it in repair_document(routes)]
    for at, text in enumerate(documents, start=1):
        yield line(f"    {text}{',' if at < len(documents) else ''}")


def _price(repair: Repair) -> Iterator[Line]:
    if repair.diverted:
        yield line()
        yield line(Painted("What the repair costs", "strong"), ":")
        alike: dict[object, list[Diversion]] = {}
        for it in repair.diverted:
            alike.setdefault((it.devs, it.connected), []).append(it)
        told = [diversion_line(them[0], of=spoken([str(it.prefix) for it in them])) for them in alike.values()]
        yield from capped((line("  ", Painted(text, "warn")) for text in told[:SHOWN]), len(told))
    if repair.unsafe:
        yield line()
        yield line(Painted("What no static route can close", "strong"), ":")
        causes = tuple(unsafe_lines(repair.unsafe))
        yield from capped((line("  ", Painted(text, "bad")) for text in causes[:SHOWN]), len(causes))


def ip_commands(check: Check) -> tuple[str, ...]:
    """What a shell would be told to have the repair's routes there; one of ours that holds a key is replaced."""
    return tuple(_command("replace" if _is_held_by_us(check, route) else "add", route) for route in check.repair_routes)


def _command(verb: str, route: Route) -> str:
    words = [f"ip route {verb}", str(route.prefix)]
    words += [str(route.legs[0])] if len(route.legs) == 1 else []
    words += [f"metric {route.metric}"] if route.metric else []
    words.append(f"proto {route.protocol}")
    words += [f"nexthop {leg} weight {leg.weight}" for leg in route.legs] if len(route.legs) > 1 else []
    return " ".join(words)


def _is_held_by_us(check: Check, route: Route) -> bool:
    """Whether the first route with the key of this one is ours."""
    holder = next((it for it in check.fib.routes(route.prefix, table=route.table) if it.key == route.key), None)
    return holder is not None and holder.protocol == check.config.protocol
