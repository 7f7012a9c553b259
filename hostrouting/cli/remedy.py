"""What to do about an overlap, in lines: what a repair costs, what it cannot close, and its routes to paste.

Shared by `check`, `repair` and `apply`, which differ in how much of it they show. What is pasted takes nothing away:
it has the routes of ours that are there, or is to be added to the configuration that has them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hostrouting.cli.changes import counted
from hostrouting.cli.page import SHOWN, Line, Painted, capped, line, spoken
from hostrouting.config import HostRoutingConfig
from hostrouting.tasks import wanted_routes
from hostrouting.wording import diversion_line, repair_document, unsafe_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.cli.examined import Examined
    from hostrouting.model import Route
    from hostrouting.repair import Diversion, Repair
    from hostrouting.uplink import DesiredRoute

__all__ = ["ip_commands", "remedy_lines", "route_lines"]

_THEIRS = "somebody else has a route there, which is not replaced"


def remedy_lines(
    it: Examined, *, config: str = "", cidrs: Sequence[str] = (), devs: Sequence[str] = (), again: str = ""
) -> Iterator[Line]:
    """What the repair costs and what it cannot close, before anyone pastes it; then it, as configuration and commands.

    `config` is the file of the configuration, where there is one, `cidrs` and `devs` are those that were named
    besides. With `again`, a long repair is left to that command.
    """
    repair = it.found.repair
    yield from _price(repair)
    if repair.routes:
        yield line()
        yield from _way_out(it, config, cidrs, devs, again)


def _way_out(it: Examined, config: str, cidrs: Sequence[str], devs: Sequence[str], again: str) -> Iterator[Line]:
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
    yield from (line("  ", command) for command in ip_commands(it))


def _added_to(
    it: Examined, routes: Sequence[DesiredRoute], config: str, cidrs: Sequence[str], devs: Sequence[str]
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


def _as_configuration(it: Examined, routes: Sequence[DesiredRoute]) -> Iterator[Line]:
    """A whole configuration: one that can be pasted, one line a route."""
    yield line(
        Painted("For good", "strong"),
        ", put this into the configuration and run, as root: hostrouting apply --config FILE",
    )
    yield line('  {"staticRoutes": {"enabled": true, "routes": [')
    yield from route_lines(routes)
    yield line("  ]},")
    usual, overlap = HostRoutingConfig(), it.lasting.to_mapping()
    common = {key: value for key, value in usual.route_overlap.to_mapping().items() if key != "mode"}
    overlap = {key: value for key, value in overlap.items() if value != common.get(key)}
    protocol = f', "protocol": {it.config.protocol}' if it.config.protocol != usual.protocol else ""
    yield line(f'  "routeOverlap": {json.dumps(overlap)}{protocol}}}')
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
        lines = (line("  ", Painted(unsafe_line(it), "bad")) for it in repair.unsafe[:SHOWN])
        yield from capped(lines, len(repair.unsafe))


def ip_commands(it: Examined) -> tuple[str, ...]:
    """What a shell would be told to have the repair's routes there; one of ours that holds a key is replaced."""
    return tuple(_command("replace" if it.is_held_by_us(route) else "add", route) for route in it.repair_routes)


def _command(verb: str, route: Route) -> str:
    words = [f"ip route {verb}", str(route.prefix)]
    words += [str(route.legs[0])] if len(route.legs) == 1 else []
    words += [f"metric {route.metric}"] if route.metric else []
    words.append(f"proto {route.protocol}")
    words += [f"nexthop {leg} weight {leg.weight}" for leg in route.legs] if len(route.legs) > 1 else []
    return " ".join(words)
