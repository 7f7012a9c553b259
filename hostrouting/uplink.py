"""What the default route says: by which devices a host leaves, and what a route becomes that leaves things open.

Here: the automatic device, gateway and legs, and what is missing while they cannot be told yet. Not here: whether
the route conflicts with others (`plan`), or what makes it wanted.
"""

from collections.abc import Iterator

import attrs

from hostrouting.fib import Fib
from hostrouting.model import (
    DEFAULT_METRIC,
    IP,
    IPV4,
    OURS,
    SCOPE_LINK,
    SCOPE_UNIVERSE,
    NextHop,
    Prefix,
    Route,
    width_of,
)

__all__ = ["DesiredRoute", "Pending", "default_route", "outbound_devs", "resolve_route"]


@attrs.frozen
class DesiredRoute:
    """A static route that somebody wants: what is None is taken from the default route."""

    destination: Prefix
    gateway: IP | None = attrs.field(default=None, kw_only=True)
    dev: str | None = attrs.field(default=None, kw_only=True)
    metric: int = attrs.field(default=0, kw_only=True)

    def __str__(self) -> str:
        words = [str(self.destination)]
        words += [f"via {self.gateway}"] if self.gateway else []
        words += [f"dev {self.dev}"] if self.dev else []
        words += [f"metric {self.metric}"] if self.metric else []
        return " ".join(words)


@attrs.frozen
class Pending:
    """A desired route that the host is not ready for, and what it waits for."""

    desired: DesiredRoute
    missing: str

    def __str__(self) -> str:
        return f"{self.desired}: waiting for {self.missing}"


def default_route(fib: Fib, *, family: int = IPV4, dev: str | None = None) -> Route | None:
    """The default route that packets take, of all or of those by one device; a dead one is none.

    Of several, the one with the lowest metric, and among those the first in the list.
    """
    return next(
        (
            route
            for route in fib.routes(Prefix(family, 0, 0))
            if route.type == "unicast"
            and not route.tos
            and any(not leg.dead and dev in {None, leg.dev} for leg in route.legs)
        ),
        None,
    )


def outbound_devs(fib: Fib, *, family: int = IPV4) -> tuple[str, ...]:
    """The devices of the default route, all of them when it is ECMP; empty when there is none."""
    route = default_route(fib, family=family)
    return route.devs if route else ()


def resolve_route(desired: DesiredRoute, fib: Fib, *, protocol: int = OURS) -> Route | Pending:
    """The route that is meant, on this host as it is now; or what is missing for it."""
    family = desired.destination.family
    default = default_route(fib, family=family, dev=desired.dev)
    if desired.gateway is None:
        if default is None:
            where = f" on {desired.dev}" if desired.dev else ""
            return Pending(desired, f"an IPv{family} default route{where}")
        legs = tuple(_bare(leg) for leg in default.legs if desired.dev in {None, leg.dev})
    elif desired.dev is not None:
        legs = (NextHop(desired.dev, gateway=desired.gateway),)
    elif default is None:
        return Pending(desired, f"an IPv{family} default route")
    else:
        reaching = [leg.dev for leg in default.legs if leg.dev and _reaches(fib, leg.dev, desired.gateway)]
        legs = (NextHop(next(iter(reaching or default.devs)), gateway=desired.gateway),)
    missing = next(_missing(fib, legs), None)
    if missing:
        return Pending(desired, missing)
    on_link = family == IPV4 and not any(leg.gateway for leg in legs)
    return Route(
        desired.destination,
        legs,
        metric=desired.metric or DEFAULT_METRIC[family],
        scope=SCOPE_LINK if on_link else SCOPE_UNIVERSE,
        protocol=protocol,
    )


def _bare(leg: NextHop) -> NextHop:
    """A leg as one would ask for it: without the state that the kernel shows."""
    return attrs.evolve(leg, linkdown=False, dead=False, pervasive=False)


def _missing(fib: Fib, legs: tuple[NextHop, ...]) -> Iterator[str]:
    for leg in legs:
        link = fib.snapshot.link(leg.dev or "")
        if link is None:
            yield f"the device {leg.dev}"
        elif not link.up:
            yield f"the device {leg.dev} to be up"
        elif leg.gateway and not leg.onlink and not _reaches(fib, link.name, leg.gateway):
            yield f"an address or route on {leg.dev} that reaches the gateway {leg.gateway} directly"


def _reaches(fib: Fib, dev: str, gateway: IP) -> bool:
    """Whether the gateway is a neighbour on the device: the kernel refuses a route through any other."""
    family = gateway.version
    covering = (
        route
        for length in range(width_of(family), -1, -1)
        for route in fib.routes(Prefix.around(family, int(gateway), length))
        if route.type == "unicast"
        for leg in route.legs
        if leg.dev == dev and leg.gateway is None
    )
    return next(covering, None) is not None
