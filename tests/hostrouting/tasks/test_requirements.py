"""hostrouting.tasks.requirements: what a configuration would take away."""

from ipaddress import IPv4Network

from hypothesis import given
from hypothesis import strategies as st

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.tasks.requirements import find_losses

# Few enough that routes often cover each other, as a whole or by halves.
NETWORKS = st.sampled_from(
    [part for length in range(24, 28) for part in IPv4Network("10.0.0.0/24").subnets(new_prefix=length)]
)
ROUTES = st.lists(NETWORKS, max_size=6, unique=True)


def routes(networks: list[IPv4Network]) -> HostRoutingConfig:
    """A configuration with routes to these networks."""
    return HostRoutingConfig({"enabled": bool(networks), "routes": [{"destination": str(to)} for to in networks]})


@given(before=ROUTES, after=ROUTES)
def test_law_a_route_is_lost_where_no_other_that_is_as_long_takes_its_place(
    before: list[IPv4Network], after: list[IPv4Network]
) -> None:
    """Address by address: halves take the place of a route, and a shorter route does not."""
    is_lost = any(
        not any(address in other and other.prefixlen >= route.prefixlen for other in after)
        for route in before
        for address in route
    )
    faults = {fault.path for fault in find_losses(routes(before), routes(after))}
    assert ("staticRoutes.routes" in faults) is is_lost
