"""What is worked on: routes, and expected CIDRs around them, the same ones in every run."""

from __future__ import annotations

import random

from hostrouting.model import DEFAULT_METRIC, IPV4, NextHop, Prefix, Route, as_ip
from tests.benchmarks.private import GATEWAY

__all__ = ["batch_line", "cidrs_among", "equal_routes", "mixed_cidrs", "mixed_routes"]

_BASE = 20 << 24  # a million blocks of sixteen addresses fill 20.0.0.0/8
_SPACE = Prefix.parse("30.0.0.0/8")
_FEW = 100


def equal_routes(count: int, *, begin: int = 0) -> list[Route]:
    """Neighbouring /28 by one gateway; each with objects of its own, as they come out of a configuration."""
    return [_route(Prefix(IPV4, _BASE + 16 * place, 28), 100) for place in range(begin, begin + count)]


def cidrs_among(count: int) -> list[Prefix]:
    """A hundred CIDRs, evenly among so many equal routes, a tenth of which or less is in one of them."""
    bits = max(1, count // 1000).bit_length() - 1
    return [Prefix.around(IPV4, _BASE + 16 * (count * place // 100), 28 - bits) for place in range(100)]


def mixed_routes(count: int) -> list[Route]:
    """Routes of the usual lengths all over 30.0.0.0/8: some inside others."""
    rng = random.Random(213)  # noqa: S311  the same routes every time
    lengths = [12, 16, 20, 24] if count <= _FEW else [16, 20, 22, 24, 24, 24, 28, 32]
    found: set[Prefix] = set()
    while len(found) < count:
        found.add(Prefix.around(IPV4, rng.randrange(_SPACE.first, _SPACE.last), rng.choice(lengths)))
    return [_route(prefix, DEFAULT_METRIC[IPV4]) for prefix in sorted(found)]


def mixed_cidrs() -> list[Prefix]:
    """A hundred /16 all over 30.0.0.0/8."""
    rng = random.Random(7)  # noqa: S311  the same CIDRs every time
    found: set[Prefix] = set()
    while len(found) < 100:
        found.add(Prefix.around(IPV4, rng.randrange(_SPACE.first, _SPACE.last), 16))
    return sorted(found)


def batch_line(verb: str, route: Route) -> str:
    """What `ip -batch` reads."""
    return f"route {verb} {route.prefix} via {GATEWAY} dev eth0 metric {route.metric} proto {route.protocol}"


def _route(prefix: Prefix, metric: int) -> Route:
    return Route(prefix, (NextHop("eth0", gateway=as_ip(GATEWAY)),), metric=metric, protocol=213)
