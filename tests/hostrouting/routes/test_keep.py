"""hostrouting.routes.keep: the routes are made right, once."""

import errno
import socket
from collections.abc import Callable
from unittest.mock import Mock

import pytest
from hypothesis import given, settings

from hostrouting.config.settings import ProbeRewriteConfig, StaticRoute
from hostrouting.errors import ApplyError, NotReady, RouteConflict
from hostrouting.kernel.base import RouteBackend, RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IPV4, IPV6, Prefix, as_ip, ip_at
from hostrouting.model.route import OURS, Route
from hostrouting.routes.keep import keep_routes
from hostrouting.routes.steps import RoutePlan
from hostrouting.testing import FakeKernel, FaultyBackend
from tests.hostrouting.routes.own_routes import configured, fake, hosts, put, wishes
from tests.support.commands import ports, up
from tests.support.examples import scaled
from tests.support.ip_text import route_of, text_rows
from tests.support.namespace import Namespace, private_namespace
from tests.support.near import LeavesOut
from tests.support.sections import static


@pytest.fixture
def kernel() -> FakeKernel:
    """A host with a default route, and a route of ours that is not configured."""
    kernel = fake()
    kernel.ip_route("add", route_of("default via 10.0.0.1 dev eth0"))
    kernel.ip_route("add", route_of("20.2.0.0/16 via 10.0.0.1 dev eth0 proto ours"))
    return kernel


def test_what_cannot_be_set(kernel: FakeKernel) -> None:
    """An apply changes nothing. A route that waits may come; a conflict beside it would not end."""
    before, ends = kernel.snapshot(), Mock(side_effect=EOFError)
    with pytest.raises(EOFError):
        keep_routes(kernel, configured(), done=[], raise_if_cancelled=ends)
    waiting = [static(place, dev="eth9") for place in ("20.3.0.0/16", "20.4.0.0/16")]
    config = configured(static("20.1.0.0/16"), *waiting)
    with pytest.raises(NotReady) as waits:
        keep_routes(kernel, config, done=[], purpose="apply")
    [finding] = waits.value.findings
    assert finding.sentence.startswith(f"2 routes, such as {waiting[0]}, need the device eth9, ")
    assert (finding.severity, finding.can_retry, waits.value.can_retry) == ("error", True, True)
    assert kernel.snapshot() == before

    kernel.ip_route("add", route_of("20.1.0.0/16 dev eth1 proto 4"))
    with pytest.raises(RouteConflict) as conflict:
        keep_routes(kernel, config, done=[], purpose="apply")
    names = [finding.name for finding in conflict.value.findings]
    assert names == ["route-conflict", "route-waits"]
    assert ours(kernel) == ["20.2.0.0/16"]


@pytest.mark.parametrize("rival", ["20.3.0.0/16 dev eth1 proto 4", ""])
def test_one_of_two_cannot_be_set(kernel: FakeKernel, rival: str) -> None:
    """The guard and the gate set the other one again, and delete nothing."""
    dev = None if rival else "eth9"
    if rival:
        kernel.ip_route("add", route_of(rival))
    with pytest.raises((NotReady, RouteConflict), match=r"20\.3\.0\.0/16"):
        keep_routes(
            kernel, configured(static("20.1.0.0/16"), static("20.3.0.0/16", dev=dev)), done=[]
        )
    assert sorted(ours(kernel)) == ["20.1.0.0/16", "20.2.0.0/16"]


def test_what_an_undo_deletes(kernel: FakeKernel) -> None:
    """What is not configured; but no route in whose place another one would come. Others move."""
    waits = static("20.4.0.0/16", dev="eth9")
    elsewhere = static("20.2.0.0/16", "10.0.0.9")
    for routes, left in (([waits, elsewhere], ["20.2.0.0/16"]), ([waits], [])):
        with pytest.raises(NotReady):
            keep_routes(kernel, configured(*routes), done=[], purpose="undo")
        assert ours(kernel) == left
    kernel.ip_route("add", route_of("20.2.0.0/16 dev eth1 proto ours"))
    plan = keep_routes(kernel, configured(static("20.2.0.0/16")), done=[], purpose="undo")
    assert [step.action for step in plan.steps] == ["delete", "add"]


def test_linux_refuses_the_route_for_replies() -> None:
    """It is left out with a warning, as without IPv6. If another one is refused, none is set."""
    rewrite = ProbeRewriteConfig(enabled=True, interfaces=("eth1",))
    config = configured(static("20.1.0.0/16", "10.0.0.1", dev="eth0"))._replace(
        probe_rewrite=rewrite
    )
    kernel = FaultyBackend(fake())
    kernel.fail("change", errno.EACCES, nth=1)
    with pytest.raises(ApplyError):
        keep_routes(kernel, config, done=[])
    assert ours(kernel) == []

    kernel.fail("change", errno.EACCES, nth=2)
    done: list[RouteRequest] = []
    [warning] = keep_routes(kernel, config, done=done).warnings
    assert warning.severity == "warning"
    assert "cannot add 2603:1062:0:1:fe80:1234:5678:9abc/128 dev eth1" in warning.sentence
    assert ours(kernel) == [str(change.route.prefix) for change in done] == ["20.1.0.0/16"]

    assert keep_routes(kernel, config, done=done).warnings == ()
    assert ours(kernel) == [str(change.route.prefix) for change in done]

    own = static("2603:1062:0:1:fe80:1234:5678:9abc/128", "fe80::1", dev="eth1", metric=1024)
    kernel = FaultyBackend(fake())
    kernel.fail("change", errno.EACCES)
    with pytest.raises(ApplyError):
        keep_routes(kernel, configured(own)._replace(probe_rewrite=rewrite), done=[])


def ours(kernel: RouteBackend) -> list[str]:
    return [str(route.prefix) for route in kernel.snapshot().routes if route.protocol == OURS]


def test_a_far_route_beside_one_that_goes(kernel: FakeKernel) -> None:
    """Ours is back after a fault, though the backend left out another program's of its key."""
    kernel.ip_route("add", route_of("20.1.0.0/16 via 10.0.0.1 dev eth0 proto 186"))
    kernel.ip_route("append", route_of("20.2.0.0/16 via 10.0.0.1 dev eth0 proto 186"))
    kernel.ip_route("add", route_of("20.3.0.0/16 via 10.0.0.1 dev eth0 proto ours"))
    before = {*map(str, kernel.snapshot().routes)}
    backend = LeavesOut(kernel)
    backend.fail("change", errno.ENOBUFS, nth=2)
    with pytest.raises(ApplyError):
        keep_routes(backend, configured(), done=[])
    assert {*map(str, kernel.snapshot().routes)} == before


@given(hosts(), wishes())
@settings(max_examples=scaled(100))
def test_far_routes_do_not_matter(there: list[Route], desired: list[StaticRoute]) -> None:
    """What is done is the same if the backend leaves out what is not asked for."""
    elsewhere = {IPV4: as_ip("19.0.0.0"), IPV6: as_ip("fd19::")}
    far: list[Route] = []
    for route in there:
        family, _, length = route.prefix
        if length:
            far.append(route._replace(prefix=Prefix(family, int(elsewhere[family]), length)))

    def keep(
        backend_of: Callable[[FakeKernel], RouteBackend],
    ) -> tuple[RoutePlan | str, list[RouteRequest], str]:
        kernel = fake()
        put(kernel, [*far, *there])
        done: list[RouteRequest] = []
        try:
            plan = keep_routes(backend_of(kernel), configured(*desired), done=done)
        except (RouteConflict, ApplyError, NotReady) as error:
            return str(error), done, str(kernel)
        return plan, done, str(kernel)

    assert keep(LeavesOut) == keep(lambda kernel: kernel)


def refuses(host: str, *, patience: float) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as client:
        client.settimeout(patience)
        return client.connect_ex((host, 9)) == errno.ECONNREFUSED


@pytest.mark.linux
@pytest.mark.needs("root")
@text_rows(
    """
10.9.9.9/32 | 169.254.7.2/30 | 169.254.7.1/30 | 172.16.1.10/17 | 172.16.64.0/24
fd09::9/128 | fe80::2/64     | fe80::1/64     | fd16::10/60    | fd16:0:0:1::/64
"""
)
def test_a_fabric_that_knows_only_the_address_of_lo(row: list[str]) -> None:
    """Answers come back, because the static route has the source of the default route."""
    of_lo, uplink, router, rail, cluster = row
    own, gateway = of_lo.partition("/")[0], router.partition("/")[0]
    network = Prefix.parse(cluster)
    peer = str(ip_at(network.family, network.first + 1))
    with private_namespace() as here, private_namespace() as fabric:
        here.batch([f"link add eth0 type veth peer name eth0 netns {fabric.path}", *ports("ib0")])
        has(fabric, "eth0", router)
        has(here, "eth0", uplink)
        has(here, "ib0", rail)
        has(here, "lo", of_lo)
        here.batch([f"route add default via {gateway} dev eth0 src {own}"], family=network.family)
        way_back = f"{own} via {uplink.partition('/')[0]} dev eth0"
        fabric.batch([f"route add local {cluster} dev lo", f"route add {way_back}"])
        # The router knows its neighbour; the rest of a fabric does not.
        rules = [f"pref 4 to {own} lookup main", f"pref 5 from {cluster} unreachable"]
        fabric.batch([f"rule add {rule}" for rule in rules], family=network.family)
        with here.inside(), NetlinkBackend() as linux:
            without_source = Route.to(network, dev="eth0", gateway=gateway, protocol=OURS)
            linux.change([RouteRequest("add", without_source)])
            assert not refuses(peer, patience=0.3)
            config = configured(static(cluster))

            plan = keep_routes(linux, config, done=[])

            assert [step.action for step in plan.steps] == ["delete", "add"]
            assert refuses(peer, patience=5)
            assert keep_routes(linux, config, done=[]).changes == ()
            keep_routes(linux, configured(), done=[])
            assert OURS not in {route.protocol for route in linux.snapshot().routes}


def has(host: Namespace, dev: str, address: str) -> None:
    nodad = " nodad" if ":" in address else ""
    host.batch(["link set lo up", *up(dev), f"address add {address} dev {dev}{nodad}"])
