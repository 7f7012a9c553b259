"""The boot scripts beside scripts that do the obvious: several calls of `ip` for each route, or for each CIDR.

The scripts that do the obvious behave as the original's do. Everything happens in private network namespaces.

Ours take mawk where there is one, and the obvious ones what is called awk. Where that is another, ten routes and CIDRs,
for which the start of programs is nearly all, are also compared with mawk for both.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hostrouting.config import HostRoutingConfig, RouteOverlapConfig, StaticRoute, StaticRoutesConfig
from hostrouting.render import render_check_script, render_static_routes_script
from tests.benchmarks.contest import Contest, Goal
from tests.benchmarks.turns import in_turn
from tests.support.namespace import private_namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.namespace import Namespace

__all__ = ["boot_contests"]

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


# A script is measured where it runs: to go into the namespace is no part of it.
TIMED = 'begin=$EPOCHREALTIME; /bin/bash "$1" >&2; status=$?; echo $((${EPOCHREALTIME/./} - ${begin/./})); exit $status'

# Where systemd is, the state directory is in memory.
MEMORY = Path("/dev/shm")  # noqa: S108  a directory of a name that nobody can guess is made there


FEW, MANY = 10, 100


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

    def script(self, name: str, text: str, **environment: str) -> Callable[[], float]:
        """What runs it, and says how many seconds that took."""
        path = self._directory / name
        path.write_text(text)
        environment |= {"LC_ALL": "C", "RUNTIME_DIRECTORY": str(self._directory / "state")}

        def run() -> float:
            done = self._namespace.run("/bin/bash", "-c", TIMED, name, str(path), **environment)
            if done.returncode:
                raise RuntimeError(f"{name}: {done.stderr}")
            return int(done.stdout) / 1e6

        return run

    def by_mawk(self, name: str, text: str) -> dict[str, Callable[[], float]]:
        """What runs it with mawk for awk, where that is another."""
        awk, mawk = shutil.which("awk"), shutil.which("mawk")
        if not awk or not mawk or Path(awk).samefile(mawk):
            return {}
        programs = self._directory / "programs"
        programs.mkdir(exist_ok=True)
        (programs / "awk").unlink(missing_ok=True)
        (programs / "awk").symlink_to(mawk)
        return {"the same by mawk": self.script(name, text, PATH=f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin")}

    def forget_markers(self) -> None:
        """As after a boot, there are none."""
        for marker in (self._directory / "state").glob("*"):
            marker.unlink()

    def forget_routes(self) -> None:
        """As after a boot, there are none of ours."""
        self._namespace.ip("route", "flush", "proto", "213")


def boot_contests() -> Iterator[Contest]:
    """Both scripts, for ten and for a hundred routes and CIDRs."""
    for count in (FEW, MANY):
        place = MEMORY if MEMORY.is_dir() else None
        with private_namespace(seconds=600) as namespace, tempfile.TemporaryDirectory(dir=place) as directory:
            yield from _contests(Node(namespace, Path(directory)), count)


def _contests(node: Node, count: int) -> Iterator[Contest]:
    networks = [f"172.{16 + number // 16}.{number % 16 * 16}.0/20" for number in range(count)]
    routes = [StaticRoute(network) for network in networks]
    config = HostRoutingConfig(StaticRoutesConfig(enabled=True, routes=routes), RouteOverlapConfig(networks))
    words = " ".join(networks)
    ours, theirs = "static-routes.sh", "calls of `ip` for each route"
    obvious = OBVIOUS_ROUTES.format(words=words)
    methods = {
        ours: node.script(ours, render_static_routes_script(config)),
        theirs: node.script("obvious-routes.sh", obvious),
    }
    if count == FEW:
        methods |= node.by_mawk("obvious-routes-by-mawk.sh", obvious)
    goals = (Goal(ours, 1 / 10, theirs),)
    yield Contest(f"boot: {count} routes", in_turn(methods, rounds=15, before=node.forget_routes), goals)
    yield Contest(f"boot: {count} routes, all there", in_turn(methods, rounds=15))
    ours, theirs = "check-route-overlap.sh", "calls of `ip` for each CIDR"
    obvious = OBVIOUS_CHECK.format(words=words)
    methods = {
        ours: node.script(ours, render_check_script(config)),
        theirs: node.script("obvious-check.sh", obvious),
    }
    if count == FEW:
        methods |= node.by_mawk("obvious-check-by-mawk.sh", obvious)
    goals = (Goal(ours, 1 / 5, theirs),)
    times = in_turn(methods, rounds=15, before=node.forget_markers)
    yield Contest(f"boot: {count} CIDRs, all repaired", times, goals)
    node.forget_routes()
    times = in_turn(methods, rounds=15, before=node.forget_markers)
    yield Contest(f"boot: {count} CIDRs, all escaping", times, goals)
