"""Devices, addresses, rules, routes and settings as pyroute2 parses them: an independent oracle for the backend's parser."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Literal, TypeAlias

from hostrouting.kernel.netlink.read import Settings
from hostrouting.model.prefix import IP, Prefix, as_ip
from hostrouting.model.route import PATHLESS, ROUTE_TYPES, NextHop, Preference, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Address, Link
from tests.support.rules import rule

Shape: TypeAlias = Literal["link", "address", "rule", "route", "nexthop", "netconf"]
_ACTIONS: Any = {1: "to_table", 2: "goto", 3: "nop", 6: "blackhole", 7: "unreachable", 8: "prohibit"}
_FAMILIES = {2: 4, 10: 6}
_UNSET = 0xFFFFFFFF
_NOPREFIXROUTE, _UNPREFERRED = 0x200, 0x28


def parse(shape: Shape, data: bytes) -> Any:
    """The message as pyroute2 decodes it."""
    message = _classes()[shape](data)
    message.decode()
    return message


def encode(
    shape: Shape,
    kind: int,
    flags: int = 0,
    *,
    fields: Mapping[str, int] | None = None,
    attributes: Iterable[tuple[str, Any]] = (),
) -> bytes:
    """The message as pyroute2 encodes it."""
    message = _classes()[shape]()
    message["header"] = {"type": kind, "flags": flags, "sequence_number": 0, "pid": 0}
    for name, value in (fields or {}).items():
        message[name] = value
    message["attrs"] = list(attributes)
    message.encode()
    return bytes(message.data) + bytes(-len(message.data) % 4)


def link_of(data: bytes, names: Mapping[int, str]) -> Link:
    """The device, without its settings."""
    link = parse("link", data)
    made_by, carrier = link.get_attr("IFLA_LINKINFO"), link.get_attr("IFLA_CARRIER")
    of_families = link.get_attr("IFLA_AF_SPEC")
    ipv6 = of_families and of_families.get_attr("AF_INET6")
    settings = ipv6 and ipv6.get_attr("IFLA_INET6_CONF")
    return Link(
        name=link.get_attr("IFLA_IFNAME"),
        index=link["index"],
        kind=(made_by and made_by.get_attr("IFLA_INFO_KIND")) or "",
        type=link["ifi_type"],
        up=bool(link["flags"] & 1),
        carrier=carrier is None or bool(carrier),
        master=names.get(link.get_attr("IFLA_MASTER") or 0),
        group=link.get_attr("IFLA_GROUP") or 0,
        ipv6_disabled=not settings or bool(settings["disable_ipv6"]),
    )


def setting_of(data: bytes) -> Settings:
    """The settings."""
    one = parse("netconf", data)
    forwarding = one.get_attr("NETCONFA_FORWARDING")
    return Settings(
        bool(one.get_attr("NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN")), None if forwarding is None else bool(forwarding)
    )


def address_of(data: bytes, names: Mapping[int, str]) -> Address:
    """An address of the host."""
    address = parse("address", data)
    ours = as_ip(address.get_attr("IFA_LOCAL") or address.get_attr("IFA_ADDRESS"))
    other, broadcast = address.get_attr("IFA_ADDRESS"), address.get_attr("IFA_BROADCAST")
    return Address(
        ip=ours,
        length=address["prefixlen"],
        dev=names[address["index"]],
        scope=address["scope"],
        peer=None if other is None or as_ip(other) == ours else as_ip(other),
        broadcast=None if broadcast is None else as_ip(broadcast),
        metric=address.get_attr("IFA_RT_PRIORITY") or 0,
        prefix_route=not (address.get_attr("IFA_FLAGS") or 0) & _NOPREFIXROUTE,
        preferred=not (address.get_attr("IFA_FLAGS") or 0) & _UNPREFERRED,
    )


def rule_of(data: bytes) -> Rule:
    """A rule, with the attributes that pyroute2 knows."""
    raw = parse("rule", data)
    family, action = _FAMILIES[raw["family"]], _ACTIONS.get(raw["action"], "blackhole")

    def block(name: str, length: str) -> Prefix | None:
        bits, text = raw[length], raw.get_attr(name)
        return Prefix.around(family, int(as_ip(text)), bits) if bits and text else None

    def span(name: str) -> tuple[int, int] | None:
        low, _, high = (raw.get_attr(name) or "").partition(":")
        return (int(low), int(high)) if low else None

    def limit(name: str) -> int | None:
        value = raw.get_attr(name)
        return None if value in {None, _UNSET} else int(value)

    return rule(
        family=family,
        priority=raw.get_attr("FRA_PRIORITY") or 0,
        action=action,
        table=(raw.get_attr("FRA_TABLE") or raw["table"]) if action == "to_table" else 0,
        target=raw.get_attr("FRA_GOTO") if action == "goto" else None,
        invert=bool(raw["flags"] & 2),
        src=block("FRA_SRC", "src_len"),
        dst=block("FRA_DST", "dst_len"),
        iif=raw.get_attr("FRA_IIFNAME"),
        oif=raw.get_attr("FRA_OIFNAME"),
        fwmark=raw.get_attr("FRA_FWMARK") or 0,
        fwmask=raw.get_attr("FRA_FWMASK") or 0,
        tos=raw["tos"],
        uids=span("FRA_UID_RANGE"),
        ipproto=raw.get_attr("FRA_IP_PROTO") or 0,
        sports=span("FRA_SPORT_RANGE"),
        dports=span("FRA_DPORT_RANGE"),
        l3mdev=bool(raw.get_attr("FRA_L3MDEV")),
        suppress_prefixlength=limit("FRA_SUPPRESS_PREFIXLEN"),
        suppress_ifgroup=limit("FRA_SUPPRESS_IFGROUP"),
        protocol=raw.get_attr("FRA_PROTOCOL") or 0,
    )


def route_of(data: bytes, names: Mapping[int, str], nexthops: Mapping[int, tuple[NextHop, ...]]) -> Route:
    """A route; without next hops of its own, it gets those of its nexthop object."""
    route = parse("route", data)
    family, kind = _FAMILIES[route["family"]], ROUTE_TYPES[route["type"]]
    text, metrics, number = (route.get_attr(f"RTA_{name}") for name in ("DST", "METRICS", "NH_ID"))
    legs = [_leg(hop, hop["oif"], names, hop["hops"] + 1) for hop in route.get_attr("RTA_MULTIPATH") or ()]
    device = route.get_attr("RTA_OIF")
    if not legs and (device or _gateway(route)):
        legs = [_leg(route, device, names, 1)]
    if not legs and number is not None:
        legs = list(nexthops.get(number, ()))
    return Route(
        Prefix.around(family, int(as_ip(text)), route["dst_len"]) if text else Prefix(family, 0, 0),
        () if kind in PATHLESS else tuple(legs),
        table=route.get_attr("RTA_TABLE") or route["table"],
        metric=route.get_attr("RTA_PRIORITY") or 0,
        tos=route["tos"],
        type=kind,
        scope=route["scope"],
        protocol=route["proto"],
        prefsrc=_ip(route.get_attr("RTA_PREFSRC")),
        mtu=metrics and metrics.get_attr("RTAX_MTU"),
        advmss=metrics and metrics.get_attr("RTAX_ADVMSS"),
        nexthop_id=number,
        source=Prefix.around(family, int(as_ip(route.get_attr("RTA_SRC"))), route["src_len"])
        if route["src_len"]
        else None,
        preference=_PREFERENCES.get(route.get_attr("RTA_PREF"), "medium"),
        expires=_expires(route),
        unread=tuple(_unread(route, metrics)),
    )


_PREFERENCES: dict[int | None, Preference] = {1: "high", 3: "low"}


def _expires(route: Any) -> int | None:
    if asked := route.get_attr("RTA_EXPIRES"):
        return int.from_bytes(bytes.fromhex(asked.replace(":", "")), "little") if isinstance(asked, str) else int(asked)
    info = route.get_attr("RTA_CACHEINFO")
    ticks = info["rta_expires"] if info else 0
    return (ticks - (ticks >> 31 << 32)) // 100 if ticks else None


_METRICS = (
    *("LOCK", "WINDOW", "RTT", "RTTVAR", "SSTHRESH", "CWND", "REORDERING", "HOPLIMIT", "INITCWND", "FEATURES"),
    *("RTO_MIN", "INITRWND", "QUICKACK"),
)


def _unread(route: Any, metrics: Any) -> Iterator[str]:
    """The names of the attributes without a field."""
    yield from (name.lower() for name in _METRICS if metrics and metrics.get_attr(f"RTAX_{name}"))
    yield from (["congctl"] if metrics and metrics.get_attr("RTAX_CC_ALGO") else [])
    yield from (word for name, word in (("FLOW", "realm"),) if route.get_attr(f"RTA_{name}"))


def _leg(hop: Any, device: int | None, names: Mapping[int, str], weight: int) -> NextHop:
    flags = {"dead": 1, "pervasive": 2, "onlink": 4, "linkdown": 16}
    state: Any = {name: bool(hop["flags"] & bit) for name, bit in flags.items()}
    name = names.get(device, f"if{device}") if device else None
    return NextHop(name, gateway=_gateway(hop), weight=weight, **state)


def _gateway(hop: Any) -> IP | None:
    via = hop.get_attr("RTA_VIA")
    return _ip(via["addr"] if via else hop.get_attr("RTA_GATEWAY"))


def _ip(text: str | None) -> IP | None:
    return as_ip(text) if text else None


@cache
def _classes() -> dict[Shape, Any]:
    """pyroute2's class with additional attributes. It is declared again, because a class that was used cannot be extended."""
    nlmsg = import_module("pyroute2.netlink").nlmsg
    names = {"link": "ifinfmsg", "address": "ifaddrmsg", "rule": "fibmsg", "route": "rtmsg"}
    found: Any = {shape: getattr(import_module(f"pyroute2.netlink.rtnl.{name}"), name) for shape, name in names.items()}
    route, rule = import_module("pyroute2.netlink.rtnl.rtmsg").rtmsg_base, found["rule"]
    dscp = {"nla_map": (*rule.nla_map[:24], (25, "FRA_DSCP", "uint8"))}
    more = (
        *((25, "UID", "uint32"), (27, "IP_PROTO", "uint8"), (28, "SPORT", "be16"), (29, "DPORT", "be16")),
        (30, "NH_ID", "uint32"),
    )
    asked = {
        "nla_map": (
            *((number, name, kind) for number, (name, kind) in enumerate(route.nla_map[:24])),
            *((number, f"RTA_{name}", kind) for number, name, kind in more),
        )
    }
    netconf = {
        "fields": (("family", "B"), ("__pad", "3x")),
        "prefix": "NETCONFA_",
        "nla_map": (
            (1, "NETCONFA_IFINDEX", "int32"),
            (2, "NETCONFA_FORWARDING", "int32"),
            (6, "NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN", "int32"),
        ),
    }
    nexthop = {
        "fields": (("family", "B"), ("__pad", "3x"), ("flags", "I")),
        "prefix": "NHA_",
        "nla_map": (
            (1, "NHA_ID", "uint32"),
            (2, "NHA_GROUP", "cdata"),
            (5, "NHA_OIF", "uint32"),
            (6, "NHA_GATEWAY", "cdata"),
        ),
    }
    public = {name: value for name, value in vars(rule).items() if not name.startswith("_")}
    found |= {
        "rule": type("rule", (nlmsg,), public | dscp),
        "route": type("route", (route, nlmsg), asked),
        "netconf": type("netconf", (nlmsg,), netconf),
        "nexthop": type("nexthop", (nlmsg,), nexthop),
    }
    return dict(found)
