"""What to do about an overlap: what a repair costs, what it cannot close, and its routes to paste.

Shared by `check`, `repair` and `apply`, which differ in how much of it they show. A pasted repair does not delete any
of our routes: the text includes those that exist, or is an addition to the configuration that has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.check.examine import Correction, find_correction
from hostrouting.check.report import contested_clause, deletion_lines, entries_name, repair_document, unsafe_findings
from hostrouting.cli.output import SHOWN, Line, Painted, below, line, named_lines
from hostrouting.config.settings import HostRoutingConfig, StaticRoutesConfig
from hostrouting.model.route import OURS, TABLE_MAIN, NextHop, Route
from hostrouting.routes.uplink import DesiredRoute, Uplink, wanted_routes, wanted_routes_of
from hostrouting.text import counted, spoken

if TYPE_CHECKING:
    from hostrouting.cli.check import Check


class _Remedy:
    """The facts that are needed before a repair can be pasted."""

    def __init__(self, check: Check, mode: str | None = None) -> None:
        """Use this check; `mode` is that of a complete configuration, if it was given."""
        self.check, self.mode = check, mode
        self.config, self.installed = check.config, check.installed
        self.correction = find_correction(check.found, check.config)

    def routes(self, named: HostRoutingConfig | None = None) -> tuple[DesiredRoute, ...]:
        """All static routes of a complete configuration: those that are kept, and those that close the escapes.

        Kept are those of the `named` configuration or of the installed one that can be added, as they were configured;
        if neither is known, ours in the route table.
        """
        base = named or self.installed
        closing = self.check.found.routes if base is None else self.correction.add
        ours = self.kept if base is None else wanted_routes_of(base.static_routes)
        taken = {wish.key for wish in (*closing, *self.correction.contested)}
        return (*(wish for wish in ours if wish.key not in taken), *closing)

    def configuration(self, named: HostRoutingConfig | None = None) -> HostRoutingConfig:
        """The `named` or the installed configuration, or a new one, with all routes and the CIDRs of this check."""
        base, asked = named or self.installed or HostRoutingConfig(), self.config.route_overlap
        its, routes = base.route_overlap, self.routes(named)
        overlap = attrs.evolve(
            its,
            expected_cidrs=(*its.expected_cidrs, *asked.expected_cidrs),
            expected_devs=asked.expected_devs or its.expected_devs,
            mode=self.mode or (its if its.expected_cidrs else asked).mode,
        )
        static = StaticRoutesConfig(enabled=bool(routes), routes=repair_document(routes))
        return attrs.evolve(base, static_routes=static, route_overlap=overlap)

    @cached_property
    def kept(self) -> tuple[DesiredRoute, ...]:
        """Our present routes that stay when the repair is applied, and that a configuration can express."""
        fib = self.check.fib
        taken = {wish.key for wish in self.check.found.routes}
        replies = {wish.destination for wish in wanted_routes(self.config) if wish.is_optional}
        found: dict[object, Route] = {}
        for route in fib.snapshot.routes.only(protocol=OURS):
            if _is_static(route) and route.key not in taken and route.prefix not in replies:
                found.setdefault(route.key, route)
        return tuple(Uplink(fib).leave_open(_as_wish(route)) for route in found.values())


def _is_static(route: Route) -> bool:
    """Whether a configuration can express this route."""
    in_main = route.table == TABLE_MAIN and not route.tos
    family = route.prefix.family
    reached = all(leg.gateway is None or leg.gateway.version == family for leg in route.legs)
    return in_main and reached and route.type == "unicast" and route.source is None and bool(route.prefix.length)


def _as_wish(route: Route) -> DesiredRoute:
    """The route as a configuration writes it; several next hops can only be those of the default route."""
    leg = route.legs[0] if len(route.legs) == 1 else NextHop()
    return DesiredRoute(route.prefix, gateway=leg.gateway, dev=leg.dev, metric=route.metric)


def remedy_lines(
    check: Check,
    *,
    config: str = "",
    cidrs: Sequence[str] = (),
    devs: Sequence[str] = (),
    mode: str | None = None,
    again: str = "",
) -> Iterator[Line]:
    """What the repair cannot close, and its cost; then the repair itself, as configuration and as commands.

    `config` is the file of the configuration, if there is one; `cidrs`, `devs` and `mode` are those from the command
    line. With `again`, a long repair is not printed; the line names that command instead.
    """
    found = check.found
    yield from below(named_lines([*unsafe_findings(found.unsafe, "error"), *found.costs]))
    if found.routes:
        yield line()
        yield from _way_out(_Remedy(check, mode), config, cidrs, devs, again)


def _way_out(remedy: _Remedy, config: str, cidrs: Sequence[str], devs: Sequence[str], again: str) -> Iterator[Line]:
    correction, apply = remedy.correction, f"hostrouting apply --config {config}"
    routes = correction.add if config else remedy.routes()
    if remedy.installed is not None and not correction.add and not correction.contested:
        start = f"; add them, as root, with: {remedy.check.start}"
        yield line(Painted("The installed configuration has the routes that repair it", "strong"), start)
        return
    if config and not routes and correction.contested:
        [told] = deletion_lines((), correction.contested, config)
        told = f", {told[0].lower()}{told[1:]} The others repair it; run, as root: {apply}"
        yield line(Painted("Permanently", "strong"), told)
        return
    if config and not routes:
        from hostrouting.routes.plan import plan_static_routes  # noqa: PLC0415  only a named configuration has a plan

        plan = plan_static_routes(remedy.config, remedy.check.fib.snapshot)
        is_ready = plan.changes and not plan.conflicts and not plan.pending
        told = f"install them, as root, with: {apply}" if is_ready else f"see: hostrouting plan --config {config}"
        yield line(Painted(f"{config} has the routes that repair it", "strong"), f"; {told}")
        return
    if again and len(routes) > SHOWN:
        yield line(Painted(counted(len(routes), "static route"), "strong"), f" repair it; print them with: {again}")
        return
    yield from _added_to(remedy, config, cidrs, devs) if config else _as_configuration(remedy, routes)
    yield line()
    yield line(Painted("Until the next boot", "strong"), ", as root:")
    yield from (line("  ", command) for command in ip_commands(remedy.check))


def _added_to(remedy: _Remedy, config: str, cidrs: Sequence[str], devs: Sequence[str]) -> Iterator[Line]:
    """What to change in an existing configuration."""
    yield line(
        Painted("Permanently", "strong"),
        f", add this to staticRoutes.routes of {config} and run, as root: hostrouting apply --config {config}",
    )
    yield from route_lines(repair_document(remedy.correction.add))
    yield from correction_lines(remedy.correction, remedy.config, config)
    if cidrs:
        yield line(f"Also add to routeOverlap.expectedCidrs, unless they are there: {', '.join(cidrs)}")
    if devs:
        yield line(f"Also set routeOverlap.expectedDevs to {json.dumps(devs)}.")
    if remedy.mode is not None and remedy.mode != remedy.config.route_overlap.mode:
        yield line(f"Also set routeOverlap.mode to {remedy.mode}.")


def correction_lines(correction: Correction, config: HostRoutingConfig, name: str) -> Iterator[Line]:
    """The changes of static routes in the configuration `name` that are not additions."""
    yield from (line(Painted(text, "warn")) for text in deletion_lines(correction.replaced, correction.contested, name))
    if not config.static_routes.enabled:
        yield line("Also set staticRoutes.enabled to true.")


def _differing(settings: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    """The settings that differ from the defaults."""
    return {key: value for key, value in settings.items() if value != usual.get(key)}


def _beside_routes(config: HostRoutingConfig) -> dict[str, Any]:
    """A configuration without its routes, as JSON: the mode, and the settings that differ from the defaults."""
    usual, found = HostRoutingConfig().to_mapping(), config.to_mapping()
    del usual["routeOverlap"]["mode"], found["staticRoutes"]
    first = {"routeOverlap": found["routeOverlap"]}
    return {
        key: _differing(value, usual.get(key) or {}) if isinstance(value, dict) else value
        for key, value in {**first, **_differing(found, usual)}.items()
    }


def repaired_configuration(check: Check, named: HostRoutingConfig | None, *, mode: str | None = None) -> dict[str, Any]:
    """The installed configuration, or the `named` one, as JSON with the routes that close what can be closed.

    With a `mode`, it has this one.
    """
    config = _Remedy(check, mode).configuration(named)
    return {"staticRoutes": config.static_routes.to_mapping(), **_beside_routes(config)}


def warning_lines(check: Check) -> Iterator[str]:
    """What to know before the configuration is applied, one sentence each."""
    contested = _Remedy(check).correction.contested
    yield from map(str, check.found.costs)
    yield from (f"no static route can repair it: {lost}" for lost in unsafe_findings(check.found.unsafe))
    if contested:
        yield f"left out of the configuration: the {entries_name(contested)}: {contested_clause(contested)}"


def _as_configuration(remedy: _Remedy, routes: Sequence[DesiredRoute]) -> Iterator[Line]:
    """A complete configuration that can be pasted, with one line for each route."""
    yield line(
        Painted("Permanently", "strong"),
        ", put this into the configuration and run, as root: hostrouting apply --config FILE",
    )
    yield line('  {"staticRoutes": {"enabled": true, "routes": [')
    yield from route_lines(repair_document(routes))
    yield line("  ]},")
    rest = _beside_routes(remedy.configuration()).items()
    yield line(f"  {', '.join(f'{json.dumps(key)}: {json.dumps(value)}' for key, value in rest)}}}")
    if remedy.installed is not None:
        yield line(f"It includes what is installed here: {_said(remedy.installed)}.")
        if contested := remedy.correction.contested:
            sentence = f"It leaves out the {entries_name(contested)}: {contested_clause(contested)}."
            yield line(Painted(sentence, "warn"))
        return
    if remedy.kept:
        count = "the 1 route" if len(remedy.kept) == 1 else f"the {len(remedy.kept):,} routes"
        yield line(
            f"It includes {count} of hostrouting that this host already has. If you have its configuration, "
            "use --config FILE to keep its CIDRs and mode."
        )


def _said(installed: HostRoutingConfig) -> str:
    routes, check = wanted_routes_of(installed.static_routes), installed.route_overlap
    parts = [counted(len(routes), "static route")] if routes else []
    cidrs = spoken(tuple(map(str, check.expected_cidrs)))
    parts += [f"the check of {cidrs} in {check.mode}"] if cidrs else []
    return "; ".join(parts)


def route_lines(routes: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """The routes as lines to paste into the list in a configuration."""
    for at, route in enumerate(routes, start=1):
        yield line(f"    {json.dumps(route)}{',' if at < len(routes) else ''}")


def ip_commands(check: Check) -> tuple[str, ...]:
    """The shell commands that add the repair's routes; a route of ours with the same key is replaced."""
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
    holder = next(
        (other for other in check.fib.routes(route.prefix, table=route.table) if other.key == route.key), None
    )
    return holder is not None and holder.protocol == OURS
