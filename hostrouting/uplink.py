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
    width_of,
)

__all__ = ["DesiredRoute", "Pending", "Uplink", "bare_leg", "default_route", "outbound_devs", "resolve_route"]


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


def resolve_route(desired: DesiredRoute, fib: Fib, *, protocol: int = OURS) -> Route | Pending:
    """The route that is meant, on this host as it is now; or what is missing for it.

    Nothing is concluded from routes that carry `protocol`, for those are ours and may go.
    """
    return Uplink(fib, protocol=protocol).resolve(desired)


def bare_leg(leg: NextHop) -> NextHop:
    """A leg as one would ask for it: without the state that the kernel shows."""
    return attrs.evolve(leg, linkdown=False, dead=False, pervasive=False)


class Uplink:
    """What `resolve_route` knows of a host, for resolving many routes on it."""

    def __init__(self, fib: Fib, *, protocol: int = OURS) -> None:
        """Take a host, and the protocol of the routes that say nothing about it because they are ours."""
        self._fib, self._protocol = fib, protocol
        self._links = {link.name: link for link in fib.snapshot.links}
        # Many routes leave by few ways.
        self._known: dict[tuple[int, IP | None, str | None], tuple[NextHop, ...] | str] = {}

    def resolve(self, desired: DesiredRoute) -> Route | Pending:
        """The route that is meant, or what is missing for it."""
        family = desired.destination.family
        way = (family, desired.gateway, desired.dev)
        legs = self._known.get(way)
        if legs is None:
            legs = self._legs(*way)
            if not isinstance(legs, str):
                legs = next(self._missing(legs), legs)
            self._known[way] = legs
        if isinstance(legs, str):
            return Pending(desired, legs)
        on_link = family == IPV4 and not any(leg.gateway for leg in legs)
        return Route(
            desired.destination,
            legs,
            metric=desired.metric or DEFAULT_METRIC[family],
            scope=SCOPE_LINK if on_link else SCOPE_UNIVERSE,
            protocol=self._protocol,
        )

    def _legs(self, family: int, gateway: IP | None, dev: str | None) -> tuple[NextHop, ...] | str:
        """The ways that are meant; or in words what is missing to tell them."""
        default = default_route(self._fib, family=family, dev=dev, besides=self._protocol)
        if gateway is not None and dev is not None:
            return (NextHop(dev, gateway=gateway),)
        if default is None:
            return f"an IPv{family} default route" + (f" on {dev}" if dev else "")
        if gateway is None:
            legs = tuple(bare_leg(leg) for leg in default.legs if dev in {None, leg.dev})
            # The kernel keeps a weight for legs among others only.
            return legs if len(legs) > 1 else (attrs.evolve(legs[0], weight=1),)
        reaching = (it for it in default.devs if self._reaches(it, gateway))
        return (NextHop(next(reaching, default.devs[0]), gateway=gateway),)

    def _missing(self, legs: tuple[NextHop, ...]) -> Iterator[str]:
        for leg in legs:
            link = self._links.get(leg.dev or "")
            if link is None:
                yield f"the device {leg.dev}"
            elif not link.up:
                yield f"the device {leg.dev} to be up"
            elif leg.gateway and not leg.onlink and not self._reaches(link.name, leg.gateway):
                yield f"an address or route on {leg.dev} that reaches the gateway {leg.gateway} directly"

    def _reaches(self, dev: str, gateway: IP) -> bool:
        """Whether the gateway is a neighbour on the device: the kernel refuses a route through any other."""
        family = gateway.version
        return any(
            leg.dev == dev and leg.gateway is None
            for length in range(width_of(family), -1, -1)
            for route in self._fib.routes(Prefix.around(family, int(gateway), length))
            if route.protocol != self._protocol and route.type == "unicast"
            for leg in route.legs
        )
