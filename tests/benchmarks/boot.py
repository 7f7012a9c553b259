"""The boot scripts beside scripts that do the obvious: several calls of `ip` for each route, or for each CIDR.

Takes root; everything happens in private network namespaces. `make bench` runs it; alone it is
`python -m tests.benchmarks.boot [ROUNDS]`.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from hostrouting.config import HostRoutingConfig, RouteOverlapConfig, StaticRoute, StaticRoutesConfig
from hostrouting.render import render_check_script, render_static_routes_script
from tests.benchmarks.turns import in_turn, table
from tests.support.namespace import Namespace, private_namespace

__all__ = ["boot_scripts"]

# What one writes first: every route asks for the default device and gateway, waits for the device, looks whether the
# route is there, and replaces it.
OBVIOUS_ROUTES = """\
#!/bin/bash
value_after() {{ awk -v word="$1" '{{ for (i = 1; i < NF; i++) if ($i == word) {{ print $(i + 1); exit }} }}'; }}
set -euo pipefail
for destination in {words}; do
  dev=$(ip -4 route show default | value_after dev)
  gateway=$(ip -4 route show default dev "$dev" | value_after via)
  for attempt in 1 2 3 4 5; do ip link show dev "$dev" up | grep -q . && break; sleep 1; done
  ip -4 route show "$destination" | grep -q "via $gateway dev $dev" && continue
  ip route replace "$destination" via "$gateway" dev "$dev" proto 213
  ip -4 route show "$destination" | grep -q "dev $dev" || exit 1
done
"""
# One address of each CIDR stands for all of it.
OBVIOUS_CHECK = """\
#!/bin/bash
value_after() {{ awk -v word="$1" '{{ for (i = 1; i < NF; i++) if ($i == word) {{ print $(i + 1); exit }} }}'; }}
set -uo pipefail
dev=$(ip -4 route show default | value_after dev)
for cidr in {words}; do
  probe=$(awk -F'[./]' '{{ print $1 "." $2 "." $3 "." $4 + 1 }}' <<<"$cidr")
  actual=$(ip -4 route get "$probe" 2>/dev/null | value_after dev)
  [[ $actual == "$dev" ]] && continue
  route=$(ip -4 route show match "$probe" | tail -n 1)
  echo "OVERLAP: $cidr routes via $actual ($route), expected $dev"
done
"""


class Node:
    """A host, and scripts to run on it."""

    def __init__(self, namespace: Namespace, directory: Path) -> None:
        """Furnish the host: eth0 leads out, ib0 has a connected 172.16.0.0/16."""
        self._namespace, self._directory = namespace, directory
        for dev in ("eth0", "ib0"):
            namespace.batch([f"link add {dev} type veth peer name far-{dev}", f"link set {dev} up"])
            namespace.batch([f"link set far-{dev} up"])
        namespace.batch(["address add 10.0.0.4/24 dev eth0", "address add 172.16.1.5/16 dev ib0"])
        namespace.batch(["route add default via 10.0.0.1 dev eth0"])

    def script(self, name: str, text: str) -> Callable[[], object]:
        """What runs it."""
        path = self._directory / name
        path.write_text(text)
        state = str(self._directory / "state")
        return lambda: self._namespace.run("/bin/bash", str(path), RUNTIME_DIRECTORY=state)

    def forget_markers(self) -> None:
        """As after a boot, there are none."""
        for marker in (self._directory / "state").glob("*"):
            marker.unlink()

    def forget_routes(self) -> None:
        """As after a boot, there are none of ours."""
        self._namespace.ip("route", "flush", "proto", "213")


def contests(node: Node, count: int, *, rounds: int) -> Iterator[str]:
    """Both scripts with this many routes and CIDRs."""
    networks = [f"172.{16 + number // 16}.{number % 16 * 16}.0/20" for number in range(count)]
    routes = [StaticRoute(network) for network in networks]
    config = HostRoutingConfig(StaticRoutesConfig(enabled=True, routes=routes), RouteOverlapConfig(networks))
    words = " ".join(networks)
    methods = {
        "several calls of `ip` a route": node.script("obvious-routes.sh", OBVIOUS_ROUTES.format(words=words)),
        "static-routes.sh": node.script("static-routes.sh", render_static_routes_script(config)),
    }
    yield table(f"{count} static routes at boot", in_turn(methods, rounds=rounds, before=node.forget_routes))
    yield table(f"{count} static routes, all there", in_turn(methods, rounds=rounds))
    methods = {
        "several calls of `ip` a CIDR": node.script("obvious-check.sh", OBVIOUS_CHECK.format(words=words)),
        "check-route-overlap.sh": node.script("check-route-overlap.sh", render_check_script(config)),
    }
    yield table(f"{count} CIDRs, all repaired", in_turn(methods, rounds=rounds, before=node.forget_markers))
    node.forget_routes()
    yield table(f"{count} CIDRs, all escaping", in_turn(methods, rounds=rounds, before=node.forget_markers))


def boot_scripts(rounds: int = 9) -> Iterator[str]:
    """Tables for ten and a hundred of each."""
    for count in (10, 100):
        with private_namespace(seconds=600) as namespace, tempfile.TemporaryDirectory() as directory:
            yield from contests(Node(namespace, Path(directory)), count, rounds=rounds)


if __name__ == "__main__":
    for text in boot_scripts(*map(int, sys.argv[1:])):
        sys.stdout.write(f"{text}\n\n")
