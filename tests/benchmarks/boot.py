"""The boot scripts beside scripts that do the obvious: several calls of `ip` for each route, or for each CIDR.

Run as root: `PYTHONPATH=. python tests/benchmarks/boot.py [ROUNDS]`. Everything happens in private network namespaces.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from hostrouting.config import HostRoutingConfig, RouteOverlapConfig, StaticRoute, StaticRoutesConfig
from hostrouting.render import render_check_script, render_static_routes_script
from tests.support.namespace import Namespace, private_namespace

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


def in_turn(methods: Mapping[str, Callable[[], float]], *, rounds: int) -> dict[str, list[float]]:
    """The seconds that each method took in each round, after one round that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in methods}
    for number in range(rounds + 1):
        for name, method in methods.items():
            seconds = method()
            if number:
                times[name].append(seconds)
    return times


def report(title: str, times: Mapping[str, list[float]]) -> None:
    """Medians, and by how much the last method is faster than each."""
    *_, ours = times.values()
    for name, each in times.items():
        ratios = [one / own for one, own in zip(each, ours, strict=True)]
        spread = f"{statistics.median(ratios):.1f} ({min(ratios):.1f} … {max(ratios):.1f})"
        sys.stdout.write(f"{title:34} {name:10} {statistics.median(each) * 1e3:9.2f} ms  {spread} x\n")


class Bench:
    """A host, and scripts to run on it."""

    def __init__(self, namespace: Namespace, directory: Path) -> None:
        """Furnish the host: eth0 leads out, ib0 has a connected 172.16.0.0/16."""
        self._namespace, self._directory = namespace, directory
        for dev in ("eth0", "ib0"):
            namespace.batch([f"link add {dev} type veth peer name far-{dev}", f"link set {dev} up"])
            namespace.batch([f"link set far-{dev} up"])
        namespace.batch(["address add 10.0.0.4/24 dev eth0", "address add 172.16.1.5/16 dev ib0"])
        namespace.batch(["route add default via 10.0.0.1 dev eth0"])

    def script(self, name: str, text: str, *, clean: bool = False) -> Callable[[], float]:
        """What runs it and tells the seconds; `clean` takes our routes away before. Markers are as after a boot."""
        path = self._directory / name
        path.write_text(text)

        def run() -> float:
            if clean:
                self._namespace.ip("route", "flush", "proto", "213")
            for marker in (self._directory / "state").glob("*"):
                marker.unlink()
            began = time.perf_counter()
            self._namespace.run("/bin/bash", str(path), RUNTIME_DIRECTORY=str(self._directory / "state"))
            return time.perf_counter() - began

        return run


def compare(bench: Bench, count: int, *, rounds: int) -> None:
    """Both scripts with this many routes and CIDRs."""
    networks = [f"172.{16 + number // 16}.{number % 16 * 16}.0/20" for number in range(count)]
    routes = [StaticRoute(network) for network in networks]
    config = HostRoutingConfig(StaticRoutesConfig(enabled=True, routes=routes), RouteOverlapConfig(networks))
    words = " ".join(networks)
    obvious = OBVIOUS_ROUTES.format(words=words)
    ours = render_static_routes_script(config)
    for title, clean in (("routes, none there yet", True), ("routes, all there", False)):
        methods = {
            "obvious": bench.script("obvious-routes.sh", obvious, clean=clean),
            "ours": bench.script("static-routes.sh", ours, clean=clean),
        }
        report(f"{count} automatic {title}", in_turn(methods, rounds=rounds))
    methods = {
        "obvious": bench.script("obvious-check.sh", OBVIOUS_CHECK.format(words=words)),
        "ours": bench.script("check-route-overlap.sh", render_check_script(config)),
    }
    for title, clean in (("CIDRs, all repaired", False), ("CIDRs, all escaping", True)):
        if clean:
            bench.script("flush.sh", "ip route flush proto 213\n")()
        report(f"{count} {title}", in_turn(methods, rounds=rounds))


def main() -> None:
    """Ten and a hundred of each."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    for count in (10, 100):
        with private_namespace() as namespace, tempfile.TemporaryDirectory() as directory:
            compare(Bench(namespace, Path(directory)), count, rounds=rounds)


if __name__ == "__main__":
    main()
