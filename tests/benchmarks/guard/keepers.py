"""What keeps the routes of a node: the guard, with and without events, and the ways of other programs.

Here: the wanted routes, and the command of each keeper. Not here: what happens to the routes (`kinds`).
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["GATEWAY", "HALVES", "MANY", "METRICS", "OTHERS", "command", "configuration", "install"]

HALVES = ("172.16.0.0/17", "172.16.128.0/17")
MANY = tuple(f"10.{number // 250 + 100}.{number % 250}.0/24" for number in range(300))
GATEWAY = "10.0.0.1"

OTHERS = ("loop", "keepalived", "frr", "nobody")
"""Keepers that are not ours. They know neither a verdict nor nftables."""

METRICS = {"frr": 20}
"""The metric of a keeper's routes, if it is not 0."""

_HOSTROUTING = (sys.executable, "-m", "hostrouting")
# A guard whose sockets hear nothing: what it repairs, it finds by its regular looks.
_DEAF = """\
import socket, sys
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.cli import main
others = []
def deaf(backend, source):
    ours, other = socket.socketpair()
    others.append(other)
    return ours
NetlinkBackend._listener_to = deaf
sys.exit(main(["guard"]))
"""
_FRR = """\
mkdir -p /run/frr && chown frr:frr /run/frr || exit
/usr/lib/frr/zebra -A 127.0.0.1 -f /run/frr.conf -i /run/frr/zebra.pid -z /run/frr/zserv.api &
until [ -e /run/frr/zserv.api ]; do sleep 0.1; done
exec /usr/lib/frr/staticd -A 127.0.0.1 -f /run/frr.conf -i /run/frr/staticd.pid -z /run/frr/zserv.api
"""


def configuration(*, rewrite: bool) -> dict[str, Any]:
    """The configuration of a node."""
    document: dict[str, Any] = {
        "staticRoutes": {"enabled": True, "routes": [{"destination": half} for half in (*HALVES, *MANY)]},
        "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"},
    }
    if rewrite:
        document["probeRewrite"] = {"enabled": True, "interfaces": ["eth0"]}
    return document


def install(*, rewrite: bool) -> None:
    """Install the routes in this node."""
    config = Path("/run/agent.json")
    config.write_text(json.dumps(configuration(rewrite=rewrite)))
    words = [*_HOSTROUTING, "apply", "--config", str(config), "--wait", "0"]
    subprocess.run(words, check=True, capture_output=True)


def command(keeper: str) -> list[str]:
    """The command that keeps the routes of this node; its configuration is written."""
    routes = (*HALVES, *MANY)
    match keeper:
        case "guard":
            return [*_HOSTROUTING, "guard"]
        case "deaf":
            return [sys.executable, "-c", _DEAF]
        case "loop":
            lines = [f"route replace {route} via {GATEWAY} dev eth0 proto 213\n" for route in routes]
            Path("/run/routes").write_text("".join(lines))
            return ["bash", "-c", "while :; do ip -force -batch /run/routes; sleep 60; done"]
        case "keepalived":
            told = "\n".join(f"    {route} via {GATEWAY} dev eth0" for route in routes)
            Path("/run/keepalived.conf").write_text(f"static_routes {{\n{told}\n}}\n")
            return ["keepalived", "-n", "-f", "/run/keepalived.conf", "-p", "/run/keepalived.pid"]
        case "frr":
            Path("/run/frr.conf").write_text("".join(f"ip route {route} {GATEWAY} eth0\n" for route in routes))
            return ["bash", "-c", _FRR]
        case "nobody":
            return ["sleep", "infinity"]
        case _:
            raise ValueError(keeper)
