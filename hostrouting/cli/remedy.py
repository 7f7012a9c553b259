"""What to do about an overlap, in lines: routes to paste, what they cost, and what they cannot close.

Shared by `check` and `repair`, which differ in how much of it they show.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hostrouting.cli.page import SHOWN, Line, Painted, capped, line
from hostrouting.wording import diversion_line, repair_document, unsafe_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.model import Route
    from hostrouting.repair import Repair

__all__ = ["ip_command", "remedy_lines"]


def remedy_lines(repair: Repair, routes: Sequence[Route], *, again: str = "", configured: str = "") -> Iterator[Line]:
    """The repair as configuration and as commands; what it costs, and what it cannot close.

    With `again`, a long one is left to that command. `configured` is a file that has these routes already.
    """
    count = len(repair.routes)
    if count and configured:
        yield line()
        yield line(
            Painted(f"{configured} has the routes that close it", "strong"),
            f"; install them, as root, with: hostrouting apply --config {configured}",
        )
    elif count and (not again or count <= SHOWN):
        yield line()
        yield line(
            Painted("For good", "strong"), ", put this into the configuration and run: hostrouting apply --config FILE"
        )
        yield from _as_configuration(repair)
        yield line()
        yield line(Painted("Until the next boot", "strong"), ", as root:")
        yield from (line("  ", ip_command(route)) for route in routes)
    elif count:
        yield line()
        yield line(Painted(f"{count:,} static routes", "strong"), f" close it; print them with: {again}")
    if repair.diverted:
        yield line()
        yield line(Painted("What it costs", "strong"), ":")
        lines = (line("  ", Painted(diversion_line(it), "warn")) for it in repair.diverted[:SHOWN])
        yield from capped(lines, len(repair.diverted))
    if repair.unsafe:
        yield line()
        yield line(Painted("What no static route can close", "strong"), ":")
        lines = (line("  ", Painted(unsafe_line(it), "bad")) for it in repair.unsafe[:SHOWN])
        yield from capped(lines, len(repair.unsafe))


def _as_configuration(repair: Repair) -> Iterator[Line]:
    """The routes as a configuration: one that can be pasted, one line a route."""
    documents = [json.dumps(it) for it in repair_document(repair.routes)]
    yield line('  {"staticRoutes": {"enabled": true, "routes": [')
    for at, text in enumerate(documents, start=1):
        yield line(f"    {text}{',' if at < len(documents) else ''}")
    yield line("  ]}}")


def ip_command(route: Route) -> str:
    """What a shell would be told to add the route."""
    words = ["ip route add", str(route.prefix)]
    words += [str(route.legs[0])] if len(route.legs) == 1 else []
    words += [f"metric {route.metric}"] if route.metric else []
    words.append(f"proto {route.protocol}")
    words += [f"nexthop {leg} weight {leg.weight}" for leg in route.legs] if len(route.legs) > 1 else []
    return " ".join(words)
