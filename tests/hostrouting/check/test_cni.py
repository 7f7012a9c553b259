"""hostrouting.check.cni: the refusing routes of a CNI, for a pod block of this host."""

import attrs
import pytest

from hostrouting.check.cni import PodBlocks
from hostrouting.check.examine import Examination, FamilyExamination
from hostrouting.check.overlap import OverlapReport, check_overlap
from hostrouting.check.repair import Repair, propose_repair
from hostrouting.check.report import notes_lines
from hostrouting.fib import Fib
from hostrouting.model import OURS, Link, Prefix, Route, RouteType, Snapshot, ip_at
from tests.support.topologies import plain

CIDR = Prefix.parse("172.16.0.0/16")
ALLOWED = ("cali*", "cni0", "lxc*")
STATIC, BIRD, CALICO, BOOT, KERNEL, DHCP, OVN = 4, 12, 80, 3, 2, 16, 85


def refuse(
    prefix: str = "172.16.40.0/26", *, kind: RouteType = "blackhole", protocol: int = STATIC, metric: int = 0
) -> Route:
    """A route that refuses packets."""
    return Route.to(prefix, type=kind, protocol=protocol, metric=metric)


def pod(address: str, dev: str = "cali1") -> Route:
    """The route to one pod."""
    return Route.to(f"{address}/32", dev=dev, protocol=BOOT)


def holds(route: Route, *others: Route, devs: tuple[str, ...] = ()) -> bool:
    """Whether the route is for this host's own block, with these other routes and devices."""
    snapshot = plain().with_routes([route, *others])
    links = (*snapshot.links, *(Link(name=dev, index=at) for at, dev in enumerate(devs, start=50)))
    fib = Fib(attrs.evolve(snapshot, links=links))
    return PodBlocks(fib, (CIDR,), ALLOWED).holds(route)


@pytest.mark.parametrize(
    ("route", "devs"),
    [
        (refuse(protocol=BIRD), ()),
        (refuse(protocol=CALICO), ()),
        (refuse(kind="prohibit", protocol=CALICO), ()),
        (refuse("172.16.40.7/32", kind="unreachable", protocol=KERNEL), ("cilium_host",)),
        (refuse("172.16.40.7/32", kind="unreachable", protocol=BOOT), ("cilium_net",)),
        (refuse("172.16.40.0/24", protocol=BOOT), ("flannel.1",)),
    ],
    ids=str,
)
def test_what_cnis_leave(route: Route, devs: tuple[str, ...]) -> None:
    """A route that a CNI adds for its pods' block is the host's own, on a host that has this CNI."""
    assert holds(route, devs=devs)
    assert not devs or not holds(route)


@pytest.mark.parametrize(
    "route",
    [
        refuse(),
        refuse(protocol=DHCP),
        refuse(kind="unreachable", protocol=BIRD),
        refuse("172.16.0.0/16", protocol=BIRD),
        refuse("172.0.0.0/8", protocol=BIRD),
        refuse("0.0.0.0/0", kind="unreachable", protocol=OVN),
        refuse("172.16.40.0/26", kind="unreachable", protocol=KERNEL),
        refuse("172.16.40.7/32", kind="blackhole", protocol=KERNEL),
    ],
    ids=str,
)
def test_what_others_leave(route: Route) -> None:
    """Other refusing routes are not, including those for a whole CIDR or more, or for the block of another node."""
    assert not holds(route, devs=("cilium_host",))


def test_pods_within() -> None:
    """Whoever added it: it is the host's own if a route by an allowed device is inside its block, in the same table."""
    assert holds(refuse(), pod("172.16.40.5"))
    assert holds(refuse("172.16.40.0/24", metric=100), Route.to("172.16.40.0/24", dev="cni0"))
    assert not holds(refuse(), pod("172.16.41.5"))
    assert not holds(refuse(), pod("172.16.40.5", "eth1"))
    assert not holds(refuse(), attrs.evolve(pod("172.16.40.5"), table=77))
    assert not holds(refuse("172.16.0.0/16"), pod("172.16.40.5"))


def examined(*routes: Route, allowed: tuple[str, ...] = ALLOWED) -> tuple[OverlapReport, Repair, Snapshot]:
    """The check of a host with these routes, and its repair."""
    snapshot = plain().with_routes(routes)
    fib = Fib(snapshot)
    report = check_overlap(fib, [CIDR], allowed_devs=allowed)
    return report, propose_repair(fib, report), snapshot


def test_calico() -> None:
    """On a healthy Calico node, the block that stays on it is reported once."""
    block = refuse(protocol=BIRD)
    report, repair, snapshot = examined(block, pod("172.16.40.5"), pod("172.16.40.9", "cali2"))
    assert (report.verdict, report.findings, repair.routes) == ("ok", (), ())
    (note,) = notes_lines(Examination((FamilyExamination(report, repair, Fib(snapshot)),)))
    assert "172.16.40.63) is this host's own [blackhole 172.16.40.0/26 proto bird]: packets for it never leave" in note


def test_a_repair_spares_the_block() -> None:
    """If something else escapes around it, the repair leaves the pods' block alone."""
    fabric = Route.to("172.16.0.0/16", dev="ib0", protocol=KERNEL)
    report, repair, snapshot = examined(refuse(protocol=BIRD), pod("172.16.40.5"), fabric)
    assert report.verdict == "overlap"
    new = [Route.to(it.destination, dev="eth0", gateway="10.0.0.1", protocol=OURS) for it in repair.routes]
    after = Fib(snapshot.with_routes(new))
    assert repair.proof.verdict == "ok"
    for address in range(Prefix.parse("172.16.40.0/26").first, Prefix.parse("172.16.40.0/26").last + 1):
        assert after.lookup(ip_at(4, address)).kind == ("unicast" if address & 63 == 5 else "blackhole")


def test_overriding_another_one_is_a_cost() -> None:
    """A repair that overrides a refusing route names it, like diverted traffic."""
    report, repair, snapshot = examined(refuse("172.16.4.0/24", kind="prohibit"))
    assert [finding.kind for finding in report.findings] == ["prohibit"]
    (note,) = notes_lines(Examination((FamilyExamination(report, repair, Fib(snapshot)),)))
    assert note.startswith("the repair overrides [prohibit 172.16.4.0/24 proto static], which may be there")
