"""The text of the nftables table that rewrites the source of load-balancer probes.

The load balancer probes over IPv6 from a link-local address, and a node does not forward such
packets. Before anything else sees the packets, the table gives them a global source address, and it
restores the link-local one in the replies. `probe.load` decides when the table is loaded.

The text begins with the deletion of the table, so that nft replaces the table in one transaction.
The comment of the table contains a digest of the rules: the table is in force if nft lists it with
this comment and those of all rules.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hostrouting.model.prefix import LINK_LOCAL, MULTICAST

if TYPE_CHECKING:
    from hostrouting.config.settings import ProbeRewriteConfig

TABLE = "hostrouting_slb"
"""The name of the table. Other agents delete tables with azureslbprobe in their name."""
PRIORITY = -300
"""The priority of the chains: before connection tracking (-200), which so sees only the global
address.
"""
_DISCOVERY = "130, 131, 132, 133, 134, 135, 136, 137, 143"
"""The ICMPv6 types of MLD and neighbour discovery, which are never forwarded."""

PROBE_DELETION = f"add table ip6 {TABLE}\ndelete table ip6 {TABLE}\n"
"""The text that deletes the table. It first adds it, because nft cannot delete an absent table."""


def render_probe_table(config: ProbeRewriteConfig) -> str:
    """The nft text that loads the table that rewrites probes, in the place of an older one. The
    comment of the table has a digest of its rules. `probe.load` compares only comments, and so sees
    whether any rule differs.
    """
    import hashlib  # noqa: PLC0415  a check of the host makes no table

    rules = _rules(config)
    digest = hashlib.sha256(rules.encode()).hexdigest()[:16]
    comment = f"hostrouting: IPv6 probes of the load balancer, {digest}"
    return f'{PROBE_DELETION}table ip6 {TABLE} {{\n  comment "{comment}"\n{rules}}}\n'


def probe_comments(config: ProbeRewriteConfig) -> tuple[str, ...]:
    """The comment of the table, which has the digest, and those of its rules, as nft lists them."""
    return tuple(re.findall('comment "[^"]*"', render_probe_table(config)))


def _rules(config: ProbeRewriteConfig) -> str:
    """The two chains of the table, as nft text. The load balancer probes from a link-local address,
    and Linux does not forward such a packet. So the first chain gives a probe a global source
    address, and the second chain puts the link-local address back into the reply. The rule "not a
    probe" comes first, so that nearly every packet costs only one comparison.
    """
    probe = config.link_local
    after_rewrite = config.global_address
    uplinks = "{ " + ", ".join(f'"{dev}"' for dev in config.interfaces) + " }"
    on_link = "{ " + f"{LINK_LOCAL}, {MULTICAST}" + " }"
    back = 'comment "back to the address of the probe"'
    return f"""\
  chain prerouting {{
    type filter hook prerouting priority {PRIORITY}; policy accept;
    ip6 saddr != {probe} return comment "not a probe"
    iifname != {uplinks} return comment "did not come in by an uplink"
    ip6 daddr {on_link} return comment "stays on the link"
    icmpv6 type {{ {_DISCOVERY} }} return comment "neighbour discovery and MLD"
    counter ip6 saddr set {after_rewrite} comment "from an address that may be forwarded"
  }}
  chain postrouting {{
    type filter hook postrouting priority {PRIORITY}; policy accept;
    ip6 daddr {after_rewrite} oifname {uplinks} counter ip6 daddr set {probe} {back}
  }}
"""
