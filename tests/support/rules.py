"""Rules with selectors that a `Rule` has as text."""

from typing import Any

from hostrouting.model.rule import Rule

_PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "ipv6-icmp"}


def rule(
    *,
    tos: int = 0,
    dscp: tuple[int, int] | None = None,
    oif: str | None = None,
    uids: tuple[int, int] | None = None,
    ipproto: int = 0,
    sports: tuple[int, int] | None = None,
    dports: tuple[int, int] | None = None,
    others: tuple[tuple[str, str], ...] = (),
    **fields: Any,
) -> Rule:
    """A rule with these selectors, each in the words and in the order of `ip rule`."""
    texts = {
        "tos": f"{tos:#x}" if tos else None,
        "dscp": f"{dscp[0]:#x}/{dscp[1]:#x}".removesuffix("/0x3f") if dscp else None,
        "oif": oif,
        "uidrange": f"{uids[0]}-{uids[1]}" if uids else None,
        "ipproto": _PROTOCOLS.get(ipproto, str(ipproto)) if ipproto else None,
        "sport": _ports(sports),
        "dport": _ports(dports),
    }
    return Rule(**fields, others=(*((word, text) for word, text in texts.items() if text is not None), *others))


def _ports(ports: tuple[int, int] | None) -> str | None:
    if ports is None:
        return None
    low, high = ports
    return str(low) if low == high else f"{low}-{high}"
