"""The nftables table that rewrites the source of load-balancer probes, and the script and unit that load it at boot.

Here: text, rendered from the configuration. The table is one text: `apply` and the guard load it, and the script has it
among its settings and loads the same. It begins by deleting a former table of its name, so to load it is one
transaction, whatever was there. Not here: when it is loaded, and what is done if it is not in force (`tasks`).
"""

from __future__ import annotations

from typing import NamedTuple

from hostrouting.boot.scripts import DEFAULT_WAIT, KnownSettings, filled, settings_in
from hostrouting.boot.units import FLUSHERS, GRACE, render_oneshot
from hostrouting.config.probe_rewrite import ProbeRewriteConfig
from hostrouting.host.layout import PLACES, HostLayout
from hostrouting.model.prefix import IPV6, LINK_LOCAL, MULTICAST
from hostrouting.model.route import DEFAULT_METRIC, OURS

TABLE = "hostrouting_slb"
"""The name of the table. Another agent on Azure deletes every table with azureslbprobe in its name."""
_PRIORITY = -300
"""After defragmentation, which has -400, and before connection tracking, which has -200."""
OUR_COMMENT = 'comment "hostrouting: '
"""What nft lists of our table: the table and its rules have comments that begin like this."""
ON_LINK = (LINK_LOCAL, MULTICAST[IPV6])
"""Destinations of packets that are not forwarded, so their source stays as it is."""
PROBE_DELETION = f"add table ip6 {TABLE}\ndelete table ip6 {TABLE}\n"
"""The text that deletes the table. It first creates the table, because nft cannot delete an absent one."""
_DISCOVERY = "130, 131, 132, 133, 134, 135, 136, 137, 143"
"""The ICMPv6 types of MLD and neighbour discovery."""
_ANSWERS = ("no", "yes")


class ProbeScript(NamedTuple):
    """The settings of probe-rewrite.sh."""

    config: ProbeRewriteConfig
    wait: int = DEFAULT_WAIT


def render_probe_table(config: ProbeRewriteConfig) -> str:
    """The nft text that replaces the table with the one that is configured.

    Addresses are compared before devices, because that decides nearly every packet with one comparison. On a node that
    forwards 184,000 small packets per second, these rules cost 7 % of them, two empty chains 4 %, and the same rules
    with devices first 8 %.
    """
    probe, known, says = config.link_local, config.global_address, OUR_COMMENT
    uplinks = "{ " + ", ".join(f'"{dev}"' for dev in config.interfaces) + " }"
    on_link = "{ " + ", ".join(map(str, ON_LINK)) + " }"
    return f"""\
{PROBE_DELETION}table ip6 {TABLE} {{
  {says}IPv6 probes of the load balancer"
  chain prerouting {{
    type filter hook prerouting priority {_PRIORITY}; policy accept;
    ip6 saddr != {probe} return {says}not a probe"
    iifname != {uplinks} return {says}did not come in by an uplink"
    ip6 daddr {on_link} return {says}stays on the link"
    icmpv6 type {{ {_DISCOVERY} }} return {says}neighbour discovery and MLD"
    counter ip6 saddr set {known} {says}from an address that may be forwarded"
  }}
  chain postrouting {{
    type filter hook postrouting priority {_PRIORITY}; policy accept;
    ip6 daddr {known} oifname {uplinks} counter ip6 daddr set {probe} {says}back to the address of the probe"
  }}
}}
"""


def render_probe_script(told: ProbeScript, *, layout: HostLayout = PLACES) -> str:
    """The script that loads the table, and adds the route for the replies."""
    config = told.config
    settings = [
        f"table {TABLE}",
        f"link-local {config.link_local}",
        f"global {config.global_address}",
        *(f"interface {name}" for name in config.interfaces),
        f"route {_ANSWERS[config.ensure_route]}",
        f"protocol {OURS}",
        f"metric {DEFAULT_METRIC[IPV6]}",
        f"wait {told.wait}",
        f"state {layout.runtime_directory}",
        *(f"nft {line}" for line in render_probe_table(config).splitlines()),
    ]
    return filled("probe-rewrite.sh", settings)


def parse_probe_script(text: str) -> ProbeScript:
    """The settings that were rendered; ValueError if the text is not such a script."""
    settings = settings_in(text)
    known = KnownSettings(settings)
    config = ProbeRewriteConfig(
        enabled=True,
        interfaces=[value for key, value in settings if key == "interface"],
        link_local=known["link-local"],
        global_address=known["global"],
        ensure_route=known["route"] == _ANSWERS[True],
    )
    return ProbeScript(config, int(known["wait"]))


def render_probe_unit(layout: HostLayout = PLACES, *, wait: int = DEFAULT_WAIT) -> str:
    """The oneshot that sets up the rewrite of probes at every boot, whether or not a gated unit starts."""
    return render_oneshot(
        "Let IPv6 probes of the load balancer reach the pods",
        after=FLUSHERS,
        command=layout.probe_script,
        timeout=wait + GRACE,
        folders=(layout.runtime_directory,),
        capabilities="CAP_NET_ADMIN",
        wanted_by="multi-user.target",
    )
