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

from hostrouting.check.examine import Correction, Examination, find_correction
from hostrouting.check.report import contested_clause, deletion_lines, entries_name, repair_document, unsafe_findings
from hostrouting.cli.output import SHOWN, Line, Painted, finding_lines, line
from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig, StaticRoutesConfig
from hostrouting.model.route import TABLE_MAIN, NextHop, Route
from hostrouting.routes.plan import plan_static_routes, reply_destinations, wanted_routes
from hostrouting.routes.uplink import DesiredRoute, Uplink
from hostrouting.text import counted, spoken

if TYPE_CHECKING:
    from hostrouting.cli.check import Check


class _Remedy:
    """The facts that are needed before a repair can be pasted."""

    def __init__(self, check: Check, mode: str | None = None) -> None:
        """Use this check; `mode` is that of a complete configuration, if it was given."""
        self.mode = mode
        self.check, self.found, self.fib = check, check.found, check.fib
        self.config, self.installed, self.start = check.config, check.installed, check.start

    @cached_property
    def correction(self) -> Correction:
        """What to change in the configuration."""
        return find_correction(self.found, self.config, gateway=self.check.gateway)

    @property
    def is_ready(self) -> bool:
        """Whether the static routes of the configuration can be applied as they are, and would change something."""
        plan = plan_static_routes(self.config, self.fib.snapshot)
        return bool(plan.changes) and not plan.conflicts and not plan.pending

    @property
    def contested(self) -> tuple[DesiredRoute, ...]:
        """The static routes of the configuration that cannot be added: routes that are not ours hold their keys."""
        return self.correction.contested

    @property
    def lacking(self) -> tuple[DesiredRoute, ...]:
        """The routes to add to the configuration: the repair of the host as this configuration would leave it."""
        return self.correction.add

    @property
    def all_routes(self) -> tuple[DesiredRoute, ...]:
        """All static routes of a complete configuration: our present routes, and those that close the escapes.

        Our present routes are the installed ones that can be added, as they were configured; if the installed
        configuration is not known, those in the route table.
        """
        closing = self.found.routes if self.installed is None else self.lacking
        ours = self.kept if self.installed is None else wanted_routes(self.installed)
        taken = {wish.key for wish in (*closing, *self.contested)}
        return (*(wish for wish in ours if wish.key not in taken), *closing)

    def configuration(self, named: HostRoutingConfig | None) -> HostRoutingConfig:
        """A complete configuration with all routes; or the `named` one with the missing routes added."""
        if named is None:
            routes, overlap, base = self.all_routes, self.lasting, self.installed or HostRoutingConfig()
        else:
            base, asked = named, self.config.route_overlap
            taken = {wish.key for wish in (*self.lacking, *self.contested)}
            routes = (*(wish for wish in wanted_routes(named) if wish.key not in taken), *self.lacking)
            cidrs = (*named.route_overlap.expected_cidrs, *asked.expected_cidrs)
            overlap = attrs.evolve(asked, expected_cidrs=cidrs)
        if self.mode is not None:
            overlap = attrs.evolve(overlap, mode=self.mode)
        static = StaticRoutesConfig(enabled=bool(routes), routes=repair_document(routes))
        return attrs.evolve(base, static_routes=static, route_overlap=overlap, protocol=self.config.protocol)

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
        uplink = Uplink(self.fib, protocol=self.config.protocol)
        return tuple(uplink.leave_open(_as_wish(route)) for route in self._staying)

    @cached_property
    def _staying(self) -> tuple[Route, ...]:
        taken, replies = {wish.key for wish in self.found.routes}, reply_destinations(self.config)
        found: dict[tuple[object, ...], Route] = {}
        for route in self.fib.snapshot.routes.only(protocol=self.config.protocol):
            if _is_static(route) and route.key not in taken and route.prefix not in replies:
                found.setdefault(route.key, route)
        return tuple(found.values())


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
    """The cost of the repair and what it cannot close; then the repair itself, as configuration and as commands.

    `config` is the file of the configuration, if there is one; `cidrs`, `devs` and `mode` are those from the command
    line. With `again`, a long repair is not printed; the line names that command instead.
    """
    found = check.found
    yield from _price(found)
    lost = next(
        (family for family in found.families if any(unsafe.reason == "no-way" for unsafe in family.repair.unsafe)), None
    )
    if check.gateway is None and lost is not None:
        # A named device is expected in both families, so those of the other family are named as well.
        expected = dict.fromkeys(dev for family in (lost, *found.families) for dev in family.report.expected_devs)
        named = " ".join(f"--dev {dev}" for dev in expected)
        yield line(
            f"If you know a router on {next(iter(expected))}, name it to get a repair: {named} --gateway ADDRESS"
        )
    if found.routes:
        yield line()
        yield from _way_out(_Remedy(check, mode), config, cidrs, devs, again)


def _way_out(remedy: _Remedy, config: str, cidrs: Sequence[str], devs: Sequence[str], again: str) -> Iterator[Line]:
    routes = remedy.lacking if config else remedy.all_routes
    if remedy.installed is not None and not remedy.lacking and not remedy.contested:
        start = f"; add them, as root, with: {remedy.start}"
        yield line(Painted("The installed configuration has the routes that repair it", "strong"), start)
        return
    if config and not routes and remedy.contested:
        [told] = deletion_lines((), remedy.contested, config)
        told = f", {told[0].lower()}{told[1:]} The others repair it; run, as root: hostrouting apply --config {config}"
        yield line(Painted("Permanently", "strong"), told)
        return
    if config and not routes:
        install, see = f"hostrouting apply --config {config}", f"hostrouting plan --config {config}"
        told = f"install them, as root, with: {install}" if remedy.is_ready else f"see: {see}"
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
    yield from route_lines(repair_document(remedy.lacking))
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
    contested = _Remedy(check).contested
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
    rest = _beside_routes(remedy.configuration(None)).items()
    yield line(f"  {', '.join(f'{json.dumps(key)}: {json.dumps(value)}' for key, value in rest)}}}")
    if remedy.installed is not None:
        yield line(f"It includes what is installed here: {_said(remedy.installed)}.")
        if remedy.contested:
            sentence = f"It leaves out the {entries_name(remedy.contested)}: {contested_clause(remedy.contested)}."
            yield line(Painted(sentence, "warn"))
        return
    if remedy.kept:
        count = "the 1 route" if len(remedy.kept) == 1 else f"the {len(remedy.kept):,} routes"
        yield line(
            f"It includes {count} of hostrouting that this host already has. If you have its configuration, "
            "use --config FILE to keep its CIDRs and mode."
        )


def _said(installed: HostRoutingConfig) -> str:
    routes, check = wanted_routes(installed), installed.route_overlap
    parts = [counted(len(routes), "static route")] if routes else []
    cidrs = spoken(tuple(map(str, check.expected_cidrs)))
    parts += [f"the check of {cidrs} in {check.mode}"] if cidrs else []
    return "; ".join(parts)


def route_lines(routes: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """The routes as lines to paste into the list in a configuration."""
    for at, route in enumerate(routes, start=1):
        yield line(f"    {json.dumps(route)}{',' if at < len(routes) else ''}")


def _price(found: Examination) -> Iterator[Line]:
    for head, findings in (
        ("What the repair costs", found.costs),
        ("What no static route can repair", [*unsafe_findings(found.unsafe, "error")]),
    ):
        if findings:
            yield line()
            yield line(Painted(head, "strong"), ":")
            yield from finding_lines(findings)


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
    return holder is not None and holder.protocol == check.config.protocol
