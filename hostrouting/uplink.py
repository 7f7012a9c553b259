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
    TABLE_MAIN,
    NextHop,
    Prefix,
    Route,
    Snapshot,
    width_of,
)

__all__ = ["DesiredRoute", "Pending", "bare_leg", "default_route", "outbound_devs", "resolve_route"]


@attrs.frozen
class DesiredRoute:
    """A static route that somebody wants: what is None is taken from the default route."""

    destination: Prefix
    gateway: IP | None = attrs.field(default=None, kw_only=True)
    dev: str | None = attrs.field(default=None, kw_only=True)
    metric: int = attrs.field(default=0, kw_only=True)

    @property
    def key(self) -> tuple[int, Prefix, int, int]:
        """What the kernel will tell the route apart by, as in `Route.key`."""
        return (TABLE_MAIN, self.destination, 0, self.metric or DEFAULT_METRIC[self.destination.family])

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


def default_route(fib: Fib, *, family: int = IPV4, dev: str | None = None, besides: int | None = None) -> Route | None:
    """The default route that packets take, of all or of those by one device; a dead one is none.

    Of several, the one with the lowest metric, and among those the first in the list. Those of the protocol
    `besides` do not count.
    """
    return next(
        (
            route
            for route in fib.routes(Prefix(family, 0, 0))
            if route.type == "unicast"
            and not route.tos
            and route.protocol != besides
            and any(not leg.dead and dev in {None, leg.dev} for leg in route.legs)
        ),
        None,
    )


def outbound_devs(fib: Fib, *, family: int = IPV4) -> tuple[str, ...]:
    """The devices of the default route, all of them when it is ECMP; empty when there is none."""
    route = default_route(fib, family=family)
    return route.devs if route else ()


def resolve_route(
    desired: DesiredRoute, fib: Fib, *, protocol: int = OURS, beside: tuple[Route, ...] = ()
) -> Route | Pending:
    """The route that is meant, on this host as it is now; or what is missing for it.

    Nothing is concluded from routes that carry `protocol`, for those are ours and may go; `beside` are on-link
    routes that will be there too.
    """
    family = desired.destination.family
    near = _Neighbours(fib, protocol, beside)
    default = default_route(fib, family=family, dev=desired.dev, besides=protocol)
    if desired.gateway is None:
        if default is None:
            where = f" on {desired.dev}" if desired.dev else ""
            return Pending(desired, f"an IPv{family} default route{where}")
        legs = tuple(bare_leg(leg) for leg in default.legs if desired.dev in {None, leg.dev})
        if len(legs) == 1:
            # The kernel keeps a weight for legs among others only.
            legs = (attrs.evolve(legs[0], weight=1),)
    elif desired.dev is not None:
        legs = (NextHop(desired.dev, gateway=desired.gateway),)
    elif default is None:
        return Pending(desired, f"an IPv{family} default route")
    else:
        reaching = [dev for dev in default.devs if near.reach(dev, desired.gateway)]
        legs = (NextHop(next(iter(reaching or default.devs)), gateway=desired.gateway),)
    missing = next(_missing(fib.snapshot, legs, near), None)
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


def bare_leg(leg: NextHop) -> NextHop:
    """A leg as one would ask for it: without the state that the kernel shows."""
    return attrs.evolve(leg, linkdown=False, dead=False, pervasive=False)


def _missing(snapshot: Snapshot, legs: tuple[NextHop, ...], near: "_Neighbours") -> Iterator[str]:
    for leg in legs:
        link = snapshot.link(leg.dev or "")
        if link is None:
            yield f"the device {leg.dev}"
        elif not link.up:
            yield f"the device {leg.dev} to be up"
        elif leg.gateway and not leg.onlink and not near.reach(link.name, leg.gateway):
            yield f"an address or route on {leg.dev} that reaches the gateway {leg.gateway} directly"


class _Neighbours:
    """Who is a neighbour on which device: the kernel refuses a route through a gateway that is none."""

    def __init__(self, fib: Fib, besides: int, beside: tuple[Route, ...]) -> None:
        self._fib, self._besides, self._beside = fib, besides, beside

    def reach(self, dev: str, gateway: IP) -> bool:
        family = gateway.version
        covering = (
            route
            for length in range(width_of(family), -1, -1)
            for route in self._fib.routes(Prefix.around(family, int(gateway), length))
            if route.protocol != self._besides
        )
        also = (route for route in self._beside if gateway in route.prefix)
        return any(
            leg.dev == dev and leg.gateway is None
            for route in (*covering, *also)
            if route.type == "unicast"
            for leg in route.legs
        )
