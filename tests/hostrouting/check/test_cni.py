"""hostrouting.check.exceptions: the devices of CNIs, and their refusing routes, for a pod block of this host."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.check.examine import Examination, FamilyExamination
from hostrouting.check.exceptions import PodBlocks, is_like
from hostrouting.check.overlap import OverlapReport, check_overlap
from hostrouting.check.repair import Repair, propose_repair
from hostrouting.check.report import check_findings
from hostrouting.config.cni import DEFAULT_ALLOWED_DEVS
from hostrouting.fib.engine import Fib
from hostrouting.model.prefix import Prefix, ip_at
from hostrouting.model.route import OURS, Route, RouteType
from hostrouting.model.snapshot import Link, Snapshot
from tests.support.topologies import plain
from tests.tables.cni_blocks import CIDR, CNI_BLOCKS, POD_DEVS, CniBlock

ALLOWED = ("cali*", "cni0", *POD_DEVS)
STATIC, BIRD, BOOT, KERNEL, OVN = 4, 12, 3, 2, 85


def refuse(
    prefix: str = "172.20.40.0/26", *, kind: RouteType = "blackhole", protocol: int = STATIC, metric: int = 0
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
    ("dev", "made", "other"),
    [
        ("cni0", "bridge", None),
        ("cilium_host", "veth", None),
        ("lxc1a2b3c4d5e6f", "netkit", None),
        ("cali0123456789a", "veth", None),
        ("ovn0", "openvswitch", None),
        ("antrea-wg0", "wireguard", None),
        ("unbounded0", "dummy", None),
        ("eni0a1b2c3d4e5", "veth", ""),
        ("vlan0a1b2c3d4e", "veth", "vlan"),
        ("tun-1722074240", "ipip", "tun"),
        ("wg51821", "wireguard", "dummy"),
        ("vxlan0", "vxlan", "bridge"),
        ("gn2886729732", "geneve", "veth"),
        ("ip167772165", "ipip", "ipvlan"),
    ],
)
def test_devices_of_cnis(dev: str, made: str, other: str | None) -> None:
    """A check on a running node does not report the node's own CNI; of another kind, a device of such a name is not its."""
    assert is_like(dev, DEFAULT_ALLOWED_DEVS, made)
    assert other is None or not is_like(dev, DEFAULT_ALLOWED_DEVS, other)


@pytest.mark.parametrize(
    ("dev", "kind"),
    [
        ("wg0", "wireguard"),
        ("wg51900", "wireguard"),
        ("ipip1", "ipip"),
        ("vxlan1", "vxlan"),
        ("gn0", "geneve"),
        ("tun0", "tun"),
    ],
)
def test_private_tunnels(dev: str, kind: str) -> None:
    """A private VPN or overlay is not taken for that of a CNI."""
    assert not is_like(dev, DEFAULT_ALLOWED_DEVS, kind)


_CARDS = st.sampled_from(["eth", "en", "eni", "ib", "ip", "gn", "bond", "wl", "wg", "docker", "vlan", "vxlan", "tun-"])


@given(_CARDS, st.text("0123456789abcdefnopsx", max_size=9))
def test_no_network_card_is_allowed_by_default(start: str, rest: str) -> None:
    """The defaults allow no network card, and in particular no InfiniBand device: these have no kind, or ipoib."""
    for kind in ("", "ipoib"):
        assert not is_like(start + rest, DEFAULT_ALLOWED_DEVS, kind)


@pytest.mark.parametrize(("kind", "verdict"), [("wireguard", "ok"), ("dummy", "overlap"), ("", "overlap")])
def test_a_pattern_with_a_kind(kind: str, verdict: str) -> None:
    """A device that has the name but not the kind carries nothing that is expected elsewhere."""
    snapshot = plain().with_routes([Route.to("172.20.0.0/17", dev="wg7")])
    fib = Fib(attrs.evolve(snapshot, links=(*snapshot.links, Link(name="wg7", index=9, kind=kind))))
    assert check_overlap(fib, [CIDR], allowed_devs=["wg* wireguard"]).verdict == verdict


@pytest.mark.parametrize("row", CNI_BLOCKS.values(), ids=CNI_BLOCKS)
def test_own_blocks(row: CniBlock) -> None:
    """A route that a CNI adds for its pods' block is the host's own on a host that has this CNI; other refusing routes are not."""
    assert holds(row.route, *row.others, devs=row.devs) is row.is_own


def test_a_default_route_that_refuses() -> None:
    """A refusing default route is never a block of pods."""
    assert not holds(refuse("0.0.0.0/0", kind="unreachable", protocol=OVN))


def test_a_bridge_for_all_of_it() -> None:
    """The block is the host's own, too, if a route by an allowed device to all of it comes first."""
    assert holds(refuse("172.20.40.0/24", metric=100), Route.to("172.20.40.0/24", dev="cni0"))


def test_a_pod_in_table_main() -> None:
    """It says nothing about a refusing route in another table."""
    assert not holds(attrs.evolve(refuse(), table=100), pod("172.20.40.5"))


def examined(*routes: Route, allowed: tuple[str, ...] = ALLOWED) -> tuple[OverlapReport, Repair, Snapshot]:
    """The check of a host with these routes, and its repair."""
    snapshot = plain().with_routes(routes)
    fib = Fib(snapshot)
    report = check_overlap(fib, [CIDR], allowed_devs=allowed)
    return report, propose_repair(fib, report), snapshot


def test_calico() -> None:
    """On a healthy Calico node, the block that stays on it is reported once."""
    block = refuse(protocol=BIRD)
    report, repair, snapshot = examined(block, pod("172.20.40.5"), pod("172.20.40.9", "cali2"))
    assert (report.verdict, report.escapes, repair.routes) == ("ok", (), ())
    (note,) = check_findings(Examination((FamilyExamination(report, repair, Fib(snapshot)),)), mode="WARN")
    assert (note.name, note.target) == ("own-range", "172.20.40.0–172.20.40.63")  # noqa: RUF001  as printed


def test_a_repair_spares_the_block() -> None:
    """If something else escapes around it, the repair leaves the pods' block alone."""
    fabric = Route.to("172.20.0.0/16", dev="ib0", protocol=KERNEL)
    report, repair, snapshot = examined(refuse(protocol=BIRD), pod("172.20.40.5"), fabric)
    assert report.verdict == "overlap"
    new = [Route.to(route.destination, dev="eth0", gateway="10.0.0.1", protocol=OURS) for route in repair.routes]
    after = Fib(snapshot.with_routes(new))
    assert repair.proof.verdict == "ok"
    for address in range(Prefix.parse("172.20.40.0/26").first, Prefix.parse("172.20.40.0/26").last + 1):
        assert after.lookup(ip_at(4, address)).kind == ("unicast" if address & 63 == 5 else "blackhole")


def test_overriding_another_one_is_a_cost() -> None:
    """A repair that overrides a refusing route names it, like diverted traffic."""
    report, repair, _ = examined(refuse("172.20.4.0/24", kind="prohibit"))
    assert [finding.kind for finding in report.escapes] == ["prohibit"]
    (cost,) = repair.costs
    assert cost.sentence.startswith("the repair overrides [prohibit 172.20.4.0/24 proto static], which may be there")
