"""What is worked on: routes, and expected CIDRs around them, the same ones in every run and in both families."""

import random

from hostrouting.model.prefix import IPV4, IPV6, Prefix, as_ip
from hostrouting.model.route import DEFAULT_METRIC, NextHop, Route
from tests.benchmarks.private import GATEWAY

__all__ = ["batch_line", "cidrs_among", "equal_routes", "in_family", "mixed_cidrs", "mixed_routes"]

_BASE = 20 << 24  # a million blocks of sixteen addresses fill 20.0.0.0/8
_SPACE = Prefix.parse("30.0.0.0/8")
_FEW = 100
_LEAD = 0xFD00_0000


def in_family(prefix: Prefix, family: int) -> Prefix:
    """The IPv4 prefix; or the same bits behind fd00::/32, so that 10.1.0.0/16 is fd00:0:a01::/48."""
    if family == IPV4:
        return prefix
    return Prefix(IPV6, _LEAD << 96 | prefix.network << 64, 32 + prefix.length)


def equal_routes(count: int, *, begin: int = 0, family: int = IPV4) -> list[Route]:
    """Neighbouring /28 by one gateway; each with objects of its own, as they come out of a configuration."""
    places = range(begin, begin + count)
    return [_route(in_family(Prefix(IPV4, _BASE + 16 * place, 28), family), 100) for place in places]


def cidrs_among(count: int) -> list[Prefix]:
    """A hundred CIDRs, spread evenly over equal routes; each CIDR contains at most a tenth of the routes."""
    bits = max(1, count // 1000).bit_length() - 1
    return [Prefix.around(IPV4, _BASE + 16 * (count * place // 100), 28 - bits) for place in range(100)]


def mixed_routes(count: int, *, family: int = IPV4) -> list[Route]:
    """Routes of the usual lengths all over 30.0.0.0/8: some inside others."""
    rng = random.Random(213)  # noqa: S311  the same routes every time
    lengths = [12, 16, 20, 24] if count <= _FEW else [16, 20, 22, 24, 24, 24, 28, 32]
    found: set[Prefix] = set()
    while len(found) < count:
        found.add(Prefix.around(IPV4, rng.randrange(_SPACE.first, _SPACE.last), rng.choice(lengths)))
    return [_route(in_family(prefix, family), DEFAULT_METRIC[family]) for prefix in sorted(found)]


def mixed_cidrs() -> list[Prefix]:
    """A hundred /16 all over 30.0.0.0/8."""
    rng = random.Random(7)  # noqa: S311  the same CIDRs every time
    found: set[Prefix] = set()
    while len(found) < 100:
        found.add(Prefix.around(IPV4, rng.randrange(_SPACE.first, _SPACE.last), 16))
    return sorted(found)


def batch_line(verb: str, route: Route) -> str:
    """What `ip -batch` reads."""
    return f"route {verb} {route.prefix} via {GATEWAY[route.prefix.family]} dev eth0 metric {route.metric} proto {route.protocol}"


def _route(prefix: Prefix, metric: int) -> Route:
    gateway = as_ip(GATEWAY[prefix.family])
    return Route(prefix, (NextHop("eth0", gateway=gateway),), metric=metric, protocol=213)
