"""Devices, addresses, rules and settings by pyroute2: a foreign oracle for what the backend reads and asks by hand."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hostrouting.model import Address, Link, Prefix, Rule, as_ip

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Shape", "address_of", "encode", "link_of", "parse", "rule_of", "setting_of"]

Shape: TypeAlias = Literal["link", "address", "rule", "route", "nexthop", "netconf"]
_ACTIONS: Any = {1: "to_table", 2: "goto", 3: "nop", 6: "blackhole", 7: "unreachable", 8: "prohibit"}
_FAMILIES = {2: 4, 10: 6}
_UNSET = 0xFFFFFFFF
_NOPREFIXROUTE = 0x200


def parse(shape: Shape, data: bytes) -> Any:
    """The message as pyroute2 reads it."""
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
    """The message as pyroute2 writes it."""
    message = _classes()[shape]()
    message["header"] = {"type": kind, "flags": flags, "sequence_number": 0, "pid": 0}
    for name, value in (fields or {}).items():
        message[name] = value
    message["attrs"] = list(attributes)
    message.encode()
    return bytes(message.data) + bytes(-len(message.data) % 4)


def link_of(data: bytes, names: Mapping[int, str]) -> Link:
    """The device; nothing is known of its settings."""
    link = parse("link", data)
    made_by, carrier = link.get_attr("IFLA_LINKINFO"), link.get_attr("IFLA_CARRIER")
    peer = link.get_attr("IFLA_LINK_NETNSID")
    return Link(
        name=link.get_attr("IFLA_IFNAME"),
        index=link["index"],
        kind=(made_by and made_by.get_attr("IFLA_INFO_KIND")) or "",
        type=link["ifi_type"],
        up=bool(link["flags"] & 1),
        carrier=carrier is None or bool(carrier),
        master=names.get(link.get_attr("IFLA_MASTER") or 0),
        group=link.get_attr("IFLA_GROUP") or 0,
        peer_namespace=None if peer is None or peer < 0 else peer,
    )


def setting_of(data: bytes) -> tuple[int, bool, int]:
    """The device, whether its routes are ignored without a carrier, and its rp_filter."""
    one = parse("netconf", data)
    return (
        one.get_attr("NETCONFA_IFINDEX"),
        bool(one.get_attr("NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN")),
        one.get_attr("NETCONFA_RP_FILTER") or 0,
    )


def address_of(data: bytes, names: Mapping[int, str]) -> Address:
    """An address of the host's own."""
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
    )


def rule_of(data: bytes) -> Rule:
    """A rule, as far as pyroute2 knows what there is."""
    rule = parse("rule", data)
    family, action = _FAMILIES[rule["family"]], _ACTIONS.get(rule["action"], "nop")

    def block(name: str, length: str) -> Prefix | None:
        bits, text = rule[length], rule.get_attr(name)
        return Prefix.around(family, int(as_ip(text)), bits) if bits and text else None

    def span(name: str) -> tuple[int, int] | None:
        low, _, high = (rule.get_attr(name) or "").partition(":")
        return (int(low), int(high)) if low else None

    def limit(name: str) -> int | None:
        value = rule.get_attr(name)
        return None if value in {None, _UNSET} else int(value)

    return Rule(
        family=family,
        priority=rule.get_attr("FRA_PRIORITY") or 0,
        action=action,
        table=(rule.get_attr("FRA_TABLE") or rule["table"]) if action == "to_table" else 0,
        target=rule.get_attr("FRA_GOTO") if action == "goto" else None,
        invert=bool(rule["flags"] & 2),
        src=block("FRA_SRC", "src_len"),
        dst=block("FRA_DST", "dst_len"),
        iif=rule.get_attr("FRA_IIFNAME"),
        oif=rule.get_attr("FRA_OIFNAME"),
        fwmark=rule.get_attr("FRA_FWMARK") or 0,
        fwmask=rule.get_attr("FRA_FWMASK") or 0,
        tos=rule["tos"],
        uids=span("FRA_UID_RANGE"),
        ipproto=rule.get_attr("FRA_IP_PROTO") or 0,
        sports=span("FRA_SPORT_RANGE"),
        dports=span("FRA_DPORT_RANGE"),
        l3mdev=bool(rule.get_attr("FRA_L3MDEV")),
        suppress_prefixlength=limit("FRA_SUPPRESS_PREFIXLEN"),
        suppress_ifgroup=limit("FRA_SUPPRESS_IFGROUP"),
        protocol=rule.get_attr("FRA_PROTOCOL") or 0,
    )


@cache
def _classes() -> dict[Shape, Any]:
    names = {"link": "ifinfmsg", "address": "ifaddrmsg", "rule": "fibmsg", "route": "rtmsg"}
    found: Any = {shape: getattr(import_module(f"pyroute2.netlink.rtnl.{name}"), name) for shape, name in names.items()}
    nlmsg = import_module("pyroute2.netlink").nlmsg
    # A class that has its attributes looked up already would hand its table down; and what pyroute2 does not know of.
    fresh = {"_nlmsg_base__compiled_nla": False}
    netconf = {
        "fields": (("family", "B"), ("__pad", "3x")),
        "prefix": "NETCONFA_",
        "nla_map": (
            (1, "NETCONFA_IFINDEX", "int32"),
            (3, "NETCONFA_RP_FILTER", "int32"),
            (6, "NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN", "int32"),
        ),
    }
    nexthop = {"fields": (("family", "B"), ("__pad", "3x"), ("flags", "I")), "nla_map": ()}
    dscp = {"nla_map": (*found["rule"].nla_map[:24], (25, "FRA_DSCP", "uint8"))}
    numbers = enumerate(found["route"].nla_map[:24])
    more = ((25, "UID", "uint32"), (27, "IP_PROTO", "uint8"), (28, "SPORT", "be16"), (29, "DPORT", "be16"))
    asked = {
        "nla_map": (
            *((number, name, kind) for number, (name, kind) in numbers),
            *((number, f"RTA_{name}", kind) for number, name, kind in more),
        )
    }
    found |= {
        "rule": type("rule", (found["rule"],), fresh | dscp),
        "route": type("route", (found["route"],), fresh | asked),
        "netconf": type("netconf", (nlmsg,), fresh | netconf),
        "nexthop": type("nexthop", (nlmsg,), fresh | nexthop),
    }
    return dict(found)
