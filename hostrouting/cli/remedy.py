"""What to do about an overlap: what a repair costs, what it cannot close, and its routes to paste.

Shared by `check`, `repair` and `apply`, which differ in how much of it they show. Pasting it does not delete any of our
routes: the text includes those that exist, or is an addition to the configuration that has them.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.cli.check import Check
from hostrouting.cli.page import SHOWN, Painted, capped, counted, line, spoken
from hostrouting.config import HostRoutingConfig
from hostrouting.configured_routes import plan_static_routes, reply_destinations, wanted_routes
from hostrouting.model import TABLE_MAIN, NextHop, Route
from hostrouting.uplink import DesiredRoute, bare_leg, resolve_route
from hostrouting.wording import diversion_line, filtered_line, repair_document, unsafe_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hostrouting.cli.page import Line
    from hostrouting.config import RouteOverlapConfig
    from hostrouting.examination import Examination
    from hostrouting.plan import RoutePlan
    from hostrouting.repair import Diversion

__all__ = ["ip_commands", "remedy_lines", "repaired_configuration", "route_lines", "warning_lines"]

_THEIRS = "another program's route has the same destination and metric, and is never replaced"


class _Remedy:
    """The facts that are needed before a repair can be pasted."""

    def __init__(self, check: Check) -> None:
        """Use this check."""
        self.check, self.found, self.fib = check, check.found, check.fib
        self.config, self.installed, self.start = check.config, check.installed, check.start

    @cached_property
    def _plan(self) -> RoutePlan:
        return plan_static_routes(self.config, self.fib.snapshot)

    @property
    def is_ready(self) -> bool:
        """Whether the static routes of the configuration can be applied as they are, and would change something."""
        return bool(self._plan.changes) and not self._plan.conflicts and not self._plan.pending

    @cached_property
    def contested(self) -> tuple[DesiredRoute, ...]:
        """The static routes of the configuration that cannot be added: routes that are not ours hold their keys."""
        keys = {step.route.key for step in self._plan.conflicts}
        return tuple(wish for wish in wanted_routes(self.config) if wish.key in keys)

    @cached_property
    def lacking(self) -> tuple[DesiredRoute, ...]:
        """The routes that the configuration lacks: the repair of the host after the configuration was applied."""
        if not self._plan.changes:
            return self.found.routes
        return Check.of(self._plan.apply_to(self.fib.snapshot), self.config, gateway=self.check.gateway).found.routes

    @property
    def whole(self) -> tuple[DesiredRoute, ...]:
        """All static routes of a complete configuration: our present routes, and those that close the escapes.

        Our present routes are the installed ones that can be added, as they were configured; if the installed
        configuration is not known, those in the route table.
        """
        closing = self.found.routes if self.installed is None else self.lacking
        ours = self.kept if self.installed is None else wanted_routes(self.installed)
        taken = {wish.key for wish in (*closing, *self.contested)}
        return (*(wish for wish in ours if wish.key not in taken), *closing)

    def configuration(self, named: HostRoutingConfig | None) -> HostRoutingConfig:
        """A complete configuration with all of them; or the `named` one, with the routes that it lacks added."""
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
        """The check of a complete configuration: the installed one, with the CIDRs of this check added."""
        asked = self.config.route_overlap
        if self.installed is None or not self.installed.route_overlap.expected_cidrs:
            return asked
        check = self.installed.route_overlap
        devs = asked.expected_devs or check.expected_devs
        return attrs.evolve(check, expected_cidrs=(*check.expected_cidrs, *asked.expected_cidrs), expected_devs=devs)

    @property
    def kept(self) -> tuple[DesiredRoute, ...]:
        """Our present routes that stay when the repair is applied."""
        return tuple(map(_as_wish, self._staying))

    @property
    def forked(self) -> tuple[Route, ...]:
        """Those with several next hops that differ from the default route's, which a configuration would use."""
        several = [it for it in self._staying if len(it.legs) > 1]
        then = [resolve_route(_as_wish(it), self.fib, protocol=self.config.protocol) for it in several]
        pairs = zip(several, then, strict=True)
        return tuple(it for it, other in pairs if not isinstance(other, Route) or _ways(other) != _ways(it))

    @cached_property
    def _staying(self) -> tuple[Route, ...]:
        taken, replies = {wish.key for wish in self.found.routes}, reply_destinations(self.config)
        found: dict[tuple[object, ...], Route] = {}
        for route in self.fib.snapshot.routes.only(protocol=self.config.protocol):
            if _is_static(route) and route.key not in taken and route.prefix not in replies:
                found.setdefault(route.key, route)
        return tuple(found.values())

    def takes_place_of(self, wishes: Iterable[DesiredRoute]) -> bool:
        """Whether the configuration has a route with the destination and metric of one of these."""
        return not {wish.key for wish in wishes}.isdisjoint(wish.key for wish in wanted_routes(self.config))


def _is_static(route: Route) -> bool:
    """Whether a configuration can express this route."""
    in_main = route.table == TABLE_MAIN and not route.tos
    family = route.prefix.family
    reached = all(leg.gateway is None or leg.gateway.version == family for leg in route.legs)
    return in_main and reached and route.type == "unicast" and route.source is None and bool(route.prefix.length)


def _ways(route: Route) -> tuple[NextHop, ...]:
    return tuple(map(bare_leg, route.legs))


def _as_wish(route: Route) -> DesiredRoute:
    """The route as a configuration expresses it; several next hops can only be expressed as the default route's."""
    leg = route.legs[0] if len(route.legs) == 1 else NextHop()
    return DesiredRoute(route.prefix, gateway=leg.gateway, dev=leg.dev, metric=route.metric)


def remedy_lines(
    check: Check, *, config: str = "", cidrs: Sequence[str] = (), devs: Sequence[str] = (), again: str = ""
) -> Iterator[Line]:
    """First what the repair costs and what it cannot close; then the repair, as configuration and as commands.

    `config` is the file of the configuration, if there is one; `cidrs` and `devs` are those from the command line. With
    `again`, a long repair is not printed; the line names that command instead.
    """
    found = check.found
    yield from _price(found)
    lost = next((it for it in found.families if any(unsafe.reason == "no-way" for unsafe in it.repair.unsafe)), None)
    if check.gateway is None and lost is not None:
        # A named device is expected in both families, so those of the other family are named as well.
        expected = dict.fromkeys(dev for it in (lost, *found.families) for dev in it.report.expected_devs)
        named = " ".join(f"--dev {dev}" for dev in expected)
        yield line(
            f"If you know a router on {next(iter(expected))}, name it to get a repair: {named} --gateway ADDRESS"
        )
    if found.routes:
        yield line()
        yield from _way_out(_Remedy(check), config, cidrs, devs, again)


def _way_out(it: _Remedy, config: str, cidrs: Sequence[str], devs: Sequence[str], again: str) -> Iterator[Line]:
    routes = it.lacking if config else it.whole
    if it.installed is not None and not it.lacking and not it.contested:
        start = f"; add them, as root, with: {it.start}"
        yield line(Painted("The installed configuration has the routes that repair it", "strong"), start)
        return
    if config and not routes and it.contested:
        told = (
            f", remove {_named(it.contested)} from staticRoutes.routes of {config}: {_THEIRS}. The others repair it; "
        )
        yield line(Painted("Permanently", "strong"), f"{told}run, as root: hostrouting apply --config {config}")
        return
    if config and not routes:
        verb = "install them, as root, with: hostrouting apply" if it.is_ready else "see: hostrouting plan"
        yield line(Painted(f"{config} has the routes that repair it", "strong"), f"; {verb} --config {config}")
        return
    if again and len(routes) > SHOWN:
        yield line(Painted(counted(len(routes), "static route"), "strong"), f" repair it; print them with: {again}")
        return
    yield from _added_to(it, routes, config, cidrs, devs) if config else _as_configuration(it, routes)
    yield line()
    yield line(Painted("Until the next boot", "strong"), ", as root:")
    yield from (line("  ", command) for command in ip_commands(it.check))


def _added_to(
    it: _Remedy, routes: Sequence[DesiredRoute], config: str, cidrs: Sequence[str], devs: Sequence[str]
) -> Iterator[Line]:
    """What to add to an existing configuration."""
    yield line(
        Painted("Permanently", "strong"),
        f", add this to staticRoutes.routes of {config} and run, as root: hostrouting apply --config {config}",
    )
    yield from route_lines(routes)
    if it.contested:
        yield line(Painted(f"Also remove {_named(it.contested)}: {_THEIRS}.", "warn"))
    if it.takes_place_of(routes):
        yield line("Replace the entries that have the same destination and metric.")
    if not it.config.static_routes.enabled:
        yield line("Also set staticRoutes.enabled to true.")
    if cidrs:
        yield line(f"Also add to routeOverlap.expectedCidrs, unless they are there: {', '.join(cidrs)}")
    if devs:
        yield line(f"Also set routeOverlap.expectedDevs to {json.dumps(devs)}.")


def _differing(settings: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    """The settings that differ from the defaults."""
    return {key: value for key, value in settings.items() if value != usual.get(key)}


def _beside_routes(config: HostRoutingConfig) -> dict[str, Any]:
    """A configuration without its routes, as JSON: the mode, and the settings that differ from the defaults."""
    usual, found = HostRoutingConfig().to_mapping(), config.to_mapping()
    del usual["routeOverlap"]["mode"]
    rest = _differing(found, usual)
    document = {"routeOverlap": _differing(found["routeOverlap"], usual["routeOverlap"])}
    document |= {"protocol": rest["protocol"]} if "protocol" in rest else {}
    if "probeRewrite" in rest:
        document["probeRewrite"] = _differing(rest["probeRewrite"], usual["probeRewrite"])
    return document


def repaired_configuration(check: Check, named: HostRoutingConfig | None) -> dict[str, Any]:
    """The JSON of a configuration that closes what can be closed, and keeps the installed one or the `named` one."""
    config = _Remedy(check).configuration(named)
    return {"staticRoutes": config.static_routes.to_mapping(), **_beside_routes(config)}


def warning_lines(check: Check) -> Iterator[str]:
    """What to know before it is applied, one sentence each."""
    contested = _Remedy(check).contested
    yield from map(diversion_line, check.found.diverted)
    yield from map(filtered_line, check.found.filtered)
    yield from (f"no static route can repair it: {text}" for text in unsafe_lines(check.found.unsafe))
    if contested:
        yield f"left out of the configuration: {_named(contested)}: {_THEIRS}"


def _as_configuration(it: _Remedy, routes: Sequence[DesiredRoute]) -> Iterator[Line]:
    """A complete configuration that can be pasted, with one line for each route."""
    yield line(
        Painted("Permanently", "strong"),
        ", put this into the configuration and run, as root: hostrouting apply --config FILE",
    )
    yield line('  {"staticRoutes": {"enabled": true, "routes": [')
    yield from route_lines(routes)
    yield line("  ]},")
    rest = _beside_routes(it.configuration(None)).items()
    yield line(f"  {', '.join(f'{json.dumps(key)}: {json.dumps(value)}' for key, value in rest)}}}")
    if it.installed is not None:
        yield line(f"It includes what is installed here: {_said(it.installed)}.")
        if it.contested:
            yield line(Painted(f"It leaves out {_named(it.contested)}: {_THEIRS}.", "warn"))
        return
    told = "has several next hops, which a configuration cannot express: as printed, it uses the default route's."
    forked = it.forked
    yield from capped((line(Painted(f"{route.prefix} {told}", "warn")) for route in forked[:SHOWN]), len(forked))
    if it.kept:
        count = "1 route that is" if len(it.kept) == 1 else f"{len(it.kept):,} routes that are"
        yield line(
            f"It includes hostrouting's {count} already here. If you have this host's configuration, use --config FILE "
            "to keep its CIDRs and mode."
        )


def _named(wishes: Sequence[DesiredRoute]) -> str:
    """The wishes as a phrase: destination, and metric unless it is 0."""
    names = [f"{it.destination}{f' metric {it.metric}' if it.metric else ''}" for it in wishes]
    return spoken(names, most=SHOWN)


def _said(installed: HostRoutingConfig) -> str:
    routes, check = wanted_routes(installed), installed.route_overlap
    parts = [counted(len(routes), "static route")] if routes else []
    cidrs = spoken(tuple(map(str, check.expected_cidrs)))
    parts += [f"the check of {cidrs} in {check.mode}"] if cidrs else []
    return "; ".join(parts)


def route_lines(routes: Sequence[DesiredRoute]) -> Iterator[Line]:
    """The routes as JSON to paste into a list, one line each."""
    documents = [json.dumps(it) for it in repair_document(routes)]
    for at, text in enumerate(documents, start=1):
        yield line(f"    {text}{',' if at < len(documents) else ''}")


def _price(found: Examination) -> Iterator[Line]:
    if found.diverted:
        yield line()
        yield line(Painted("What the repair costs", "strong"), ":")
        alike: dict[object, list[Diversion]] = {}
        for it in found.diverted:
            alike.setdefault((it.devs, it.connected, it.refused), []).append(it)
        told = [diversion_line(them[0], of=spoken([str(it.prefix) for it in them])) for them in alike.values()]
        told += map(filtered_line, found.filtered)
        yield from capped((line("  ", Painted(text, "warn")) for text in told[:SHOWN]), len(told))
    if found.unsafe:
        yield line()
        yield line(Painted("What no static route can repair", "strong"), ":")
        causes = tuple(unsafe_lines(found.unsafe))
        yield from capped((line("  ", Painted(text, "bad")) for text in causes[:SHOWN]), len(causes))


def ip_commands(check: Check) -> tuple[str, ...]:
    """The shell commands that add the routes of the repair; if one of our routes holds a key, it is replaced."""
    return tuple(_command("replace" if _is_held_by_us(check, route) else "add", route) for route in check.repair_routes)


def _command(verb: str, route: Route) -> str:
    words = [f"ip route {verb}", str(route.prefix)]
    words += route.ways if len(route.legs) == 1 else ()
    words += [f"metric {route.metric}"] if route.metric else []
    words.append(f"proto {route.protocol}")
    if len(route.legs) > 1:
        words += [f"nexthop {way} weight {leg.weight}" for way, leg in zip(route.ways, route.legs, strict=True)]
    return " ".join(words)


def _is_held_by_us(check: Check, route: Route) -> bool:
    """Whether the first route with the key of this one is ours."""
    holder = next((it for it in check.fib.routes(route.prefix, table=route.table) if it.key == route.key), None)
    return holder is not None and holder.protocol == check.config.protocol
