"""Messages of the kernel's as values: devices, addresses and rules. Routes are in `routes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hostrouting.backends.netlink.codec import attributes_of, decode
from hostrouting.backends.netlink.numbers import FAMILY_OF
from hostrouting.backends.netlink.routes import ip_of, name_of
from hostrouting.backends.netlink.selectors import Selectors, read_selectors
from hostrouting.model import Address, Link, Prefix, Rule, as_ip

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hostrouting.backends.netlink.codec import Message
    from hostrouting.model import RuleAction

__all__ = ["Settings", "read_addresses", "read_links", "read_rules", "read_settings"]

_IFF_UP = 0x1
_FIB_RULE_INVERT = 0x2
_UNSET = 0xFFFFFFFF
_ACTIONS: dict[int, RuleAction] = {
    1: "to_table",
    2: "goto",
    3: "nop",
    6: "blackhole",
    7: "unreachable",
    8: "prohibit",
}


class Settings(NamedTuple):
    """What is set for a device, or for all of them, about routing."""

    wary: bool = False  # routes are ignored while it has no carrier
    rp_filter: int = 0


def read_links(messages: Iterable[bytes], settings: Mapping[int, Settings]) -> tuple[Link, ...]:
    """The devices, and what is set for each by its number."""
    parsed = [decode("link", data) for data in messages]
    names = {link.field("index"): _text(link.get("IFLA_IFNAME")) for link in parsed}
    return tuple(_link(link, names, settings.get(link.field("index"), Settings())) for link in parsed)


def _text(name: str | bytes) -> str:
    """A device's name; what is no text in it can be read, and is no name by which a device is found."""
    return name if isinstance(name, str) else name.decode(errors="backslashreplace")


def _link(link: Message, names: Mapping[int, str], settings: Settings) -> Link:
    index = link.field("index")
    made_by = link.nested("IFLA_LINKINFO")
    carrier = link.get("IFLA_CARRIER")
    peer = link.get("IFLA_LINK_NETNSID")
    return Link(
        name=names[index],
        index=index,
        kind=(made_by and made_by.get("IFLA_INFO_KIND")) or "",
        type=link.field("ifi_type"),
        up=bool(link.field("flags") & _IFF_UP),
        carrier=carrier is None or bool(carrier),
        master=names.get(link.get("IFLA_MASTER") or 0),
        group=link.get("IFLA_GROUP") or 0,
        peer_namespace=None if peer is None or peer < 0 else peer,
        ignore_routes_with_linkdown=settings.wary,
        rp_filter=settings.rp_filter,
    )


def read_settings(messages: Iterable[bytes]) -> dict[int, Settings]:
    """What is set, by the number of the device."""
    parsed = (decode("netconf", data) for data in messages)
    return {
        int(one.get("NETCONFA_IFINDEX")): Settings(
            bool(one.get("NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN")), one.get("NETCONFA_RP_FILTER") or 0
        )
        for one in parsed
        if one.get("NETCONFA_IFINDEX") is not None
    }


def read_addresses(messages: Iterable[bytes], names: Mapping[int, str]) -> tuple[Address, ...]:
    """The host's own addresses."""
    return tuple(_address(decode("address", data), names) for data in messages)


def _address(address: Message, names: Mapping[int, str]) -> Address:
    # Where both are given, LOCAL is ours and ADDRESS the other end's (of which IPv4 repeats ours).
    ours = as_ip(address.get("IFA_LOCAL") or address.get("IFA_ADDRESS"))
    other = ip_of(address.get("IFA_ADDRESS"))
    return Address(
        ip=ours,
        length=address.field("prefixlen"),
        dev=name_of(address.field("index"), names),
        scope=address.field("scope"),
        peer=None if other == ours else other,
        broadcast=ip_of(address.get("IFA_BROADCAST")),
    )


def read_rules(messages: Iterable[bytes]) -> tuple[Rule, ...]:
    """The rules, except those that are for neither IPv4 nor IPv6."""
    parsed = ((decode("rule", data), attributes_of("rule", data)) for data in messages)
    return tuple(_rule(rule, read_selectors(raw)) for rule, raw in parsed if rule.field("family") in FAMILY_OF)


def _rule(rule: Message, selectors: Selectors) -> Rule:
    family = FAMILY_OF[rule.field("family")]
    action = _ACTIONS.get(rule.field("action"), "nop")
    target = rule.get("FRA_GOTO")

    def block(name: str, length: str) -> Prefix | None:
        bits, text = rule.field(length), rule.get(name)
        return Prefix.around(family, int(as_ip(text)), bits) if bits and text else None

    def span(name: str) -> tuple[int, int] | None:
        low, _, high = (rule.get(name) or "").partition(":")
        return (int(low), int(high)) if low and name not in selectors.masked else None

    def limit(name: str) -> int | None:
        value = rule.get(name)
        return None if value in {None, _UNSET} else int(value)

    return Rule(
        family=family,
        priority=rule.get("FRA_PRIORITY") or 0,
        action=action,
        table=(rule.get("FRA_TABLE") or rule.field("table")) if action == "to_table" else 0,
        target=target if action == "goto" else None,
        invert=bool(rule.field("flags") & _FIB_RULE_INVERT),
        src=block("FRA_SRC", "src_len"),
        dst=block("FRA_DST", "dst_len"),
        iif=rule.get("FRA_IIFNAME"),
        oif=rule.get("FRA_OIFNAME"),
        fwmark=rule.get("FRA_FWMARK") or 0,
        fwmask=rule.get("FRA_FWMASK") or 0,
        tos=selectors.tos or rule.field("tos"),
        uids=span("FRA_UID_RANGE"),
        ipproto=rule.get("FRA_IP_PROTO") or 0,
        sports=span("FRA_SPORT_RANGE"),
        dports=span("FRA_DPORT_RANGE"),
        others=selectors.others,
        l3mdev=bool(rule.get("FRA_L3MDEV")),
        suppress_prefixlength=limit("FRA_SUPPRESS_PREFIXLEN"),
        suppress_ifgroup=limit("FRA_SUPPRESS_IFGROUP"),
        protocol=rule.get("FRA_PROTOCOL") or 0,
    )
