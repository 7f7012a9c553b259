"""hostrouting.routes.connected: the routes that will not last, and what lasts instead."""

from ipaddress import IPv4Network
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Address
from hostrouting.routes.apply import apply_plan
from hostrouting.routes.plan import plan_routes
from hostrouting.routes.uplink import DesiredRoute
from hostrouting.testing import MemoryBackend, plain_vm
from tests.support.examples import scaled

CIDR = Prefix.parse("172.16.0.0/16")
PREFIXES = [CIDR, *CIDR.halves(), Prefix.parse("172.16.0.0/18"), Prefix.parse("172.16.1.10/32")]
DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16, metric=100)

ADDRESSES = st.builds(
    lambda number, length, dev, metric, brings: Address(
        ip=as_ip(f"172.16.{number}.10"), length=length, dev=dev, metric=metric, prefix_route=brings
    ),
    st.sampled_from([1, 2, 130]),
    st.sampled_from([16, 16, 17, 18, 32]),
    st.sampled_from(["ib0", "ib1"]),
    st.sampled_from([0, 0, 0, 5]),
    st.sampled_from([True, True, True, False]),
)
WISHES = st.lists(
    st.builds(
        lambda prefix, gateway, metric: DesiredRoute(prefix, gateway=gateway and as_ip(gateway), metric=metric),
        st.sampled_from(PREFIXES),
        st.sampled_from([None, "10.0.0.9"]),
        st.sampled_from([0, 0, 5]),
    ),
    max_size=4,
    unique_by=lambda wish: wish.key,
)


def furnished(*addresses: Address) -> MemoryBackend:
    """A plain VM with two more devices that have these addresses, each once; their kernel routes are gone."""
    kernel = plain_vm()
    for dev in ("ib0", "ib1"):
        kernel.add_link(dev)
    for address in {(it.dev, it.ip): it for it in addresses}.values():
        kernel.add_address(address.dev, address)
    for route in kernel.snapshot().routes:
        if route.table == 254 and {"ib0", "ib1"} & set(route.devs):
            kernel.ip_route("delete", route)
    return kernel


def rebooted(kernel: MemoryBackend) -> MemoryBackend:
    """The same host after all its devices were down, our routes gone, and the InfiniBand ones back first."""
    for dev in ("eth0", "ib0", "ib1"):
        kernel.set_down(dev)
    for dev in ("ib0", "ib1", "eth0"):
        kernel.set_up(dev)
    kernel.ip_route("add", DEFAULT)
    return kernel


@given(addresses=st.lists(ADDRESSES, max_size=3), wishes=WISHES, others=st.booleans())
@settings(max_examples=scaled(200))
def test_law_what_is_foreseen_comes(addresses: list[Address], wishes: list[DesiredRoute], *, others: bool) -> None:
    """After a boot, exactly the foreseen routes cannot be added."""
    kernel = furnished(*addresses)
    if others:
        kernel.ip_route("append", Route.to(CIDR, dev="eth0", gateway="10.0.0.1", protocol=3))
    before = kernel.snapshot()
    plan = plan_routes(wishes, before)
    had = [wish for wish in wishes if wish.key not in {step.route.key for step in plan.conflicts}]
    apply_plan(plan_routes(had, before), kernel, before=before)
    later = plan_routes(had, rebooted(kernel).snapshot())
    fleeting = {(finding.target, finding.facts["metric"]) for finding in plan.foreseen}
    assert fleeting == {(str(step.route.prefix), step.route.metric) for step in later.conflicts}
    # The suggested routes can be added, then and later.
    kept = {wish.key: wish for wish in had if (str(wish.destination), wish.metric) not in fleeting}
    instead = [
        DesiredRoute(route["destination"], gateway=route["gateway"] or None, metric=route["metric"])
        for finding in plan.foreseen
        for route in finding.facts["instead"]
    ]
    kept |= {wish.key: wish for wish in instead}
    assert plan_routes(kept.values(), kernel.snapshot()).conflicts == ()


def told(*addresses: Address, **wish: Any) -> str:
    """The message about the one wanted route; empty if it lasts."""
    snapshot = furnished(*addresses).snapshot()
    destination = Prefix.of(IPv4Network(wish.pop("destination", "172.16.0.0/16")))
    found = plan_routes([DesiredRoute(destination, **wish)], snapshot).foreseen
    return "".join(map(str, found))


IB0 = Address(ip=as_ip("172.16.1.10"), length=16, dev="ib0")
IB1 = Address(ip=as_ip("172.16.2.11"), length=16, dev="ib1")


@pytest.mark.parametrize(
    ("addresses", "wish", "end"),
    [
        ([IB0], {}, "instead, configure 172.16.0.0/17 and 172.16.128.0/17, which take precedence"),
        ([IB0], {"metric": 5}, ""),
        ([attrs.evolve(IB0, prefix_route=False)], {}, ""),
        ([attrs.evolve(IB0, metric=5)], {"metric": 5}, "instead, configure one with metric 0, which takes precedence"),
        (
            [attrs.evolve(IB0, metric=5), IB1],
            {"metric": 5},
            "instead, configure 172.16.0.0/17 and 172.16.128.0/17, which take precedence",
        ),
        (
            [IB0, attrs.evolve(IB1, length=17)],
            {},
            "that no other route has (172.16.0.0/17 and 172.16.128.0/17 are not both free)",
        ),
        (
            [attrs.evolve(IB0, length=32, peer=as_ip("172.16.9.9"))],
            {"destination": "172.16.9.9/32"},
            "no prefix can be longer and no metric lower: remove either the route or the address",
        ),
    ],
)
def test_the_way_round(addresses: list[Address], wish: dict[str, Any], end: str) -> None:
    """The suggested routes have free keys now, and also when all devices have their kernel routes again."""
    said = told(*addresses, **wish)
    assert said.endswith(end)
    assert bool(said) is bool(end)


def test_who_brings_it() -> None:
    """The route comes first, then the first of the devices with its address; the others are counted."""
    assert told(IB0).startswith(
        "172.16.0.0/16 via 10.0.0.1 dev eth0 does not last: ib0 has the address 172.16.1.10/16, so"
    )
    assert "ib0 has the address 172.16.1.10/16 (and 1 more device is on the same network), so the kernel" in told(
        IB0, IB1
    )


@pytest.mark.parametrize(
    ("address", "others", "end"),
    [
        (IB0, [("172.16.0.0/17", 5), ("172.16.128.0/17", 5)], "instead, configure 172.16.0.0/17 and 172.16.128.0/17, which take precedence"),
        (IB0, [("172.16.0.0/17", 0), ("172.16.128.0/17", 0)], "remove it: 172.16.0.0/17 and 172.16.128.0/17 are configured too, and take precedence"),
        (attrs.evolve(IB0, metric=5), [("172.16.0.0/16", 0)], "remove it: one with metric 0 is configured too, and takes precedence"),
    ],
)  # fmt: skip
def test_what_lasts_is_configured(address: Address, others: list[tuple[str, int]], end: str) -> None:
    """A route that will not last can go, if what lasts instead is configured."""
    wishes = [
        DesiredRoute(CIDR, metric=address.metric),
        *(DesiredRoute(prefix, metric=metric) for prefix, metric in others),
    ]
    [finding] = plan_routes(wishes, furnished(address).snapshot()).foreseen
    assert str(finding).endswith(end)
