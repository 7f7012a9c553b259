"""Routes that refuse packets in an expected CIDR, on some host, and whether they are for this host's own pods."""

import attrs

from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route, RouteType

CIDR = Prefix.parse("172.20.0.0/16")
POD_DEVS = ("veth*",)
"""The devices that lead to pods; they are allowed."""
_KERNEL, _BOOT, _STATIC, _BIRD, _DHCP, _FELIX = 2, 3, 4, 12, 16, 80


@attrs.frozen
class CniBlock:
    """A refusing route, whether it is for the host's own pods, and further devices and routes of the host."""

    route: Route
    is_own: bool = False
    devs: tuple[str, ...] = ()
    others: tuple[Route, ...] = ()


def _refuse(prefix: str, protocol: int, kind: RouteType = "blackhole") -> Route:
    return Route.to(prefix, type=kind, protocol=protocol)


def _pod(address: str, dev: str = "veth7", *, table: int = 254) -> Route:
    return Route.to(f"{address}/32", dev=dev, protocol=_BOOT, table=table)


_BLOCK = _refuse("172.20.6.0/24", _STATIC)
CNI_BLOCKS = {
    "the pod block of Calico": CniBlock(_refuse("172.20.5.0/26", _BIRD), True),
    "the pod block of Felix": CniBlock(_refuse("172.20.5.0/26", _FELIX, "prohibit"), True),
    "a blackhole of Felix": CniBlock(_refuse("172.20.5.0/26", _FELIX), True),
    "a blackhole of another program": CniBlock(_refuse("172.20.5.0/26", _STATIC)),
    "a blackhole of DHCP": CniBlock(_refuse("172.20.5.0/26", _DHCP)),
    "unreachable, of BIRD": CniBlock(_refuse("172.20.5.0/26", _BIRD, "unreachable")),
    "a blackhole for the whole CIDR": CniBlock(_refuse("172.20.0.0/16", _BIRD)),
    "a blackhole beyond the CIDR": CniBlock(_refuse("172.20.0.0/15", _BIRD)),
    "the pod block of Flannel": CniBlock(_refuse("172.20.5.0/24", _BOOT), True, ("flannel.1",)),
    "a blackhole without Flannel": CniBlock(_refuse("172.20.5.0/24", _BOOT)),
    "a pod of Cilium that is gone": CniBlock(_refuse("172.20.5.7/32", _BOOT, "unreachable"), True, ("cilium_host",)),
    "another pod of Cilium": CniBlock(_refuse("172.20.5.7/32", _KERNEL, "unreachable"), True, ("cilium_net",)),
    "a pod without Cilium": CniBlock(_refuse("172.20.5.7/32", _KERNEL, "unreachable")),
    "a blackhole beside Cilium": CniBlock(_refuse("172.20.5.7/32", _KERNEL), False, ("cilium_host",)),
    "more than a pod of Cilium": CniBlock(_refuse("172.20.5.6/31", _BOOT, "unreachable"), False, ("cilium_host",)),
    "a blackhole around a pod": CniBlock(_BLOCK, True, ("veth7",), (_pod("172.20.6.9"),)),
    "a blackhole beside a pod": CniBlock(_BLOCK, False, ("veth7",), (_pod("172.20.7.0"),)),
    "a blackhole around what is not a pod": CniBlock(_BLOCK, False, (), (_pod("172.20.6.9", "ib0"),)),
    "a pod in another table": CniBlock(_BLOCK, False, ("veth7",), (_pod("172.20.6.9", table=100),)),
    "a pod in the whole CIDR": CniBlock(_refuse("172.20.0.0/16", _STATIC), False, ("veth7",), (_pod("172.20.6.9"),)),
}
