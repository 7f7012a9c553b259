"""What is known of a packet apart from its destination, and what a rule's selectors make of it.

Here: one packet against one selector, answered yes, no, or nobody knows. Not here: the order of rules.
"""

from collections.abc import Collection, Iterator
from ipaddress import IPv4Address

import attrs

from hostrouting.model import IP, Rule, as_ip

__all__ = ["ANY", "PLAIN", "Flow", "answers", "same_tos"]

# The two lowest bits of tos belong to congestion notification; routing has not looked at them since Linux 5.18.
_DSCP = 0xFC


def same_tos(one: int, other: int) -> bool:
    """Whether two tos bytes are one to routing."""
    return not (one ^ other) & _DSCP


def _as_ip(value: str | IP | None) -> IP | None:
    return None if value is None else as_ip(value)


@attrs.frozen(kw_only=True)
class Flow:
    """What a lookup can know of a packet besides where it goes; None is "not known".

    `iif` is "lo" for packets that the host makes itself; `oif` is the device that their socket is bound to, ""
    when it is bound to none; a `source` of 0.0.0.0 is one that is yet to be chosen.
    """

    source: IP | None = attrs.field(default=None, converter=_as_ip)
    iif: str | None = None
    oif: str | None = None
    mark: int | None = None
    tos: int | None = None
    uid: int | None = None
    ipproto: int | None = None
    sport: int | None = None
    dport: int | None = None

    def assumed(self) -> "Flow":
        """The same packet, as plain as it may be where it is not known."""
        return Flow(
            **{
                name: getattr(PLAIN, name) if (value := getattr(self, name)) is None else value
                for name in attrs.fields_dict(Flow)
            }
        )


# Nothing is known: the answer names every rule that could make it another.
ANY = Flow()
# What `ip route get` asks: the host's own packet, by root, without a mark, from a socket that is not bound. The
# kernel takes it for one of UDP (17) between the ports 0, unless it is told otherwise.
PLAIN = Flow(source=IPv4Address(0), iif="lo", oif="", mark=0, tos=0, uid=0, ipproto=17, sport=0, dport=0)


def answers(rule: Rule, flow: Flow, devs: Collection[str]) -> Iterator[tuple[tuple[str, str], bool | None]]:
    """What each selector of the rule except `to` says of the packet: yes, no, or (None) that it is not known.

    A rule for a device that the host does not have is no rule for any packet ("[detached]").
    """
    for name, value in rule.selectors():
        if name in {"iif", "oif"} and value != "lo" and value not in devs:
            yield (name, value), False
        elif name != "to":
            yield (name, value), _answer(rule, name, flow)


def _answer(rule: Rule, selector: str, flow: Flow) -> bool | None:
    match selector:
        case "from":
            return None if flow.source is None or rule.src is None else flow.source in rule.src
        case "iif":
            return None if flow.iif is None else flow.iif == rule.iif
        case "oif":
            return None if flow.oif is None else flow.oif == rule.oif
        case "fwmark":
            return None if flow.mark is None else not (flow.mark ^ rule.fwmark) & rule.fwmask
        case "tos":
            return None if flow.tos is None else same_tos(flow.tos, rule.tos)
        case "uidrange":
            return _within(flow.uid, rule.uids)
        case "ipproto":
            return None if flow.ipproto is None else flow.ipproto == rule.ipproto
        case "sport":
            return _within(flow.sport, rule.sports)
        case _:
            return _within(flow.dport, rule.dports)


def _within(value: int | None, span: tuple[int, int] | None) -> bool | None:
    return None if value is None or span is None else span[0] <= value <= span[1]
