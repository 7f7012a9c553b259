"""What is valid in a configuration, and may yet have been typed wrong."""

from collections.abc import Iterator

from hostrouting.config.settings import HostRoutingConfig, typed_with_host_bits
from hostrouting.finding import Finding, Name, Remedy
from hostrouting.model.prefix import Prefix

MISTYPES: tuple[Name, ...] = ("cidr-masked", "route-unchecked")
"""The names of these findings. What was applied with them is not told again by `status`."""


def find_mistypes(config: HostRoutingConfig, family: int) -> Iterator[Finding]:
    """What may have been typed wrong of one family: expected CIDRs with host bits, which the
    original allows, and static routes to no expected CIDR.
    """
    cidrs = [cidr for cidr in config.route_overlap.cidrs if cidr.version == family]
    for cidr in cidrs:
        typed = typed_with_host_bits(cidr)
        if typed:
            sentence = f"{typed} has host bits set, so {cidr} is checked"
            remedy = Remedy("if that is not the network that was meant, correct it")
            yield Finding("cidr-masked", "warning", sentence, str(cidr), remedy)
    expected = [Prefix.of(cidr) for cidr in cidrs]
    for route in config.static_routes.routes:
        destination = Prefix.of(route.destination)
        if destination.family == family and not any(map(destination.overlaps, expected)):
            sentence = f"{destination} has a static route and is in no expected CIDR"
            remedy = Remedy("correct the route, or add it to routeOverlap.expectedCidrs")
            yield Finding("route-unchecked", "warning", sentence, str(destination), remedy)
