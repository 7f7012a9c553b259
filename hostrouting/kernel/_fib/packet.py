"""The fields of a packet without its destination, and whether it meets the selectors of a rule."""

from collections.abc import Collection, Mapping
from ipaddress import IPv4Address
from typing import NamedTuple

import attrs

from hostrouting.kernel._rule import SELECTORS, TO, FullRule, tos_bits
from hostrouting.model.prefix import IP, IPV4, as_ip
from hostrouting.model.rule import Rule


def has_tos(packet: int, asked: int, family: int = IPV4) -> bool:
    """Whether a packet matches the tos of a rule or a route; tos 0 matches every packet."""
    bits, _, seen = tos_bits(asked, family)
    return not bits or packet & seen == bits


def _as_ip(value: str | IP | None) -> IP | None:
    return None if value is None else as_ip(value)


class Sought(NamedTuple):
    """The fields of a packet that matter inside a table; None for unknown ones."""

    tos: int | None = 0
    # The device that the packet's socket is bound to.
    oif: str = ""
    source: int | None = 0
    # The device that the packet came in by; empty for packets of the host itself.
    iif: str = ""


@attrs.frozen(kw_only=True)
class Flow:
    """The known fields of a packet without its destination; None for unknown ones.

    `iif` is "lo" for packets that the host itself sends; `oif` is the device that their socket is bound to, "" if it is
    not bound; a `source` of 0.0.0.0 has not been chosen yet.

    For a bound socket the answer is what the tables have for that device. If they have nothing, Linux still sends the
    packet out there, as if the destination were a neighbour. Packets within a VRF are not covered: a snapshot does not
    show which table they use.
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
        """The same packet, with the fields of a plain packet where they are unknown."""
        return Flow(
            **{
                name: getattr(PLAIN, name) if (value := getattr(self, name)) is None else value
                for name in attrs.fields_dict(Flow)
            }
        )

    def sought(self, family: int) -> Sought:
        """What a table of this family needs to know."""
        source = self.source
        number = None if source is None else int(source) if source.version == family else 0
        return Sought(self.tos, self.oif or "", number, "" if self.iif in {None, "lo"} else self.iif or "")

    def known(self, family: int) -> dict[str, int]:
        """The known fields as numbers, by name."""
        return {
            selector.flow: selector.number(value, family)
            for selector in SELECTORS
            if selector.flow and (value := getattr(self, selector.flow)) is not None
        }


# Nothing is known: a lookup assumes the fields of a plain packet.
ANY = Flow()
# The packet of `ip route get`: sent by this host as root, without a mark, from a socket that is not bound. For IPv4 the
# kernel assumes UDP (17) and port 0 at both ends unless the request says otherwise.
PLAIN = Flow(source=IPv4Address(0), iif="lo", oif="", mark=0, tos=0, uid=0, ipproto=17, sport=0, dport=0)


def meets(rule: Rule, known: Mapping[str, int], devs: Collection[str]) -> bool:
    """Whether the packet meets all selectors of the rule but that of the destination.

    A rule for a device that does not exist matches no packet ("[detached]"), and one with an unknown selector none.
    """
    full = FullRule.of(rule)
    if full.others:
        return False
    for selector in SELECTORS:
        if selector is TO or not selector.says(full):
            continue
        low, high, mask = selector.bounds(full)
        number = known.get(selector.flow)
        if number is None or not selector.possible(full, devs):
            return False
        if not (low <= number <= high if mask is None else not (number ^ low) & mask):
            return False
    return True
