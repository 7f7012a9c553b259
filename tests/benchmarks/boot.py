"""The boot scripts beside scripts that do the obvious: several calls of `ip` for each route, or for each CIDR.

The scripts that do the obvious behave as the original's do. Everything happens in private network namespaces.

Ours take mawk where there is one, and the obvious ones what is called awk. Where that is another, ten routes and CIDRs,
for which the start of programs is nearly all, are also compared with mawk for both.

The least that a script needs which starts the same programs as ours: these programs, with nothing to do.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hostrouting.boot.scripts import render_check_script, render_static_routes_script
from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig, StaticRoute, StaticRoutesConfig
from hostrouting.model.prefix import IPV4, Prefix
from tests.benchmarks.contest import Contest, Goal
from tests.benchmarks.private import FABRIC, GATEWAY
from tests.benchmarks.turns import in_turn
from tests.support.awks import put_before
from tests.support.commands import ports
from tests.support.namespace import Namespace, private_namespace

__all__ = ["boot_contests"]

# What one writes first: every route asks for the default device and gateway, waits for the device, looks whether the
# route is there, and replaces it.
OBVIOUS_ROUTES = """\
#!/bin/bash
value_after() {{ awk -v word="$1" '{{ for (i = 1; i < NF; i++) if ($i == word) {{ print $(i + 1); exit }} }}'; }}
set -euo pipefail
for destination in {words}; do
  dev=$(ip -{family} route show default | value_after dev)
  gateway=$(ip -{family} route show default dev "$dev" | value_after via)
  for attempt in 1 2 3 4 5; do ip link show dev "$dev" up | grep -q . && break; sleep 1; done
  ip -{family} route show "$destination" | grep -q "via $gateway dev $dev" && continue
  ip -{family} route replace "$destination" via "$gateway" dev "$dev" proto 213
  ip -{family} route show "$destination" | grep -q "dev $dev" || exit 1
done
"""
# One address of each CIDR stands for all of it.
OBVIOUS_CHECK = """\
#!/bin/bash
value_after() {{ awk -v word="$1" '{{ for (i = 1; i < NF; i++) if ($i == word) {{ print $(i + 1); exit }} }}'; }}
set -uo pipefail
dev=$(ip -{family} route show default | value_after dev)
for cidr in {words}; do
  # Our CIDRs end in .0 or in ::.
  probe=$(awk -F/ '{{ sub(/0$/, "", $1); print $1 "1" }}' <<<"$cidr")
  actual=$(ip -{family} route get "$probe" 2>/dev/null | value_after dev)
  [[ $actual == "$dev" ]] && continue
  route=$(ip -{family} route show match "$probe" | tail -n 1)
  echo "OVERLAP: $cidr routes via $actual ($route), expected $dev"
done
"""


# A script is measured where it runs: to go into the namespace is no part of it.
TIMED = 'begin=$EPOCHREALTIME; /bin/bash "$1" >&2; status=$?; echo $((${EPOCHREALTIME/./} - ${begin/./})); exit $status'

# Where systemd is, the state directory is in memory.
MEMORY = Path("/dev/shm")  # noqa: S108  a directory of a name that nobody can guess is made there


FEW, MANY = 10, 100
_ALONE = "its programs, with nothing to do"
# What our scripts start, by name, as a command that does nothing.
_IDLE = {
    "ip": "ip -V >/dev/null",
    "mawk": "mawk 'BEGIN {}'",
    "sort": "sort </dev/null",
    "mv": "mv --version >/dev/null",
    "rm": "rm -f",
}


class _Kind(NamedTuple):
    """One of our scripts, and the obvious one that does the same."""

    ours: str
    render: Callable[[HostRoutingConfig], str]
    theirs: str
    obvious: str


ROUTES = _Kind("static-routes.sh", render_static_routes_script, "calls of `ip` for each route", OBVIOUS_ROUTES)
CHECK = _Kind("check-route-overlap.sh", render_check_script, "calls of `ip` for each CIDR", OBVIOUS_CHECK)


class Node:
    """A host, and scripts to run on it."""

    def __init__(self, namespace: Namespace, directory: Path) -> None:
        """Furnish the host: eth0 leads out, and ib0 is connected to the fabric, in both families."""
        self._namespace, self._directory = namespace, directory
        namespace.batch(
            [*ports("eth0", "ib0"), "address add 10.0.0.4/24 dev eth0", "address add 172.16.1.5/16 dev ib0"]
        )
        namespace.batch([f"address add {FABRIC[6].replace('::/', ':1::5/')} dev ib0 nodad"])
        namespace.batch(f"route add default via {gateway} dev eth0" for gateway in GATEWAY.values())

    def script(self, name: str, text: str, **environment: str) -> Callable[[], float]:
        """A function that runs the script and returns how many seconds that took."""
        path = self._directory / name
        path.write_text(text)
        environment |= {"LC_ALL": "C", "RUNTIME_DIRECTORY": str(self._directory / "state")}

        def run() -> float:
            done = self._namespace.run("/bin/bash", "-c", TIMED, name, str(path), **environment)
            if done.returncode:
                raise RuntimeError(f"{name}: {done.stderr}")
            return int(done.stdout) / 1e6

        return run

    def programs_alone(self, name: str, text: str) -> dict[str, Callable[[], float]]:
        """What starts the same programs as this script, one after the other, with nothing to do."""
        noted = self._directory / f"programs-of-{name}"
        noted.unlink(missing_ok=True)
        tools = {tool: f'echo {tool} >>{noted}; exec {tool} "$@"' for tool in _IDLE}
        self.script(name, put_before(text, tools, self._directory))()
        lines = [_IDLE[tool] for tool in noted.read_text().split()]
        return {_ALONE: self.script(f"alone-{name}", "\n".join(["#!/bin/bash", *lines, ""]))}

    def by_mawk(self, name: str, text: str) -> dict[str, Callable[[], float]]:
        """A function that runs the script with mawk as awk; none if awk is mawk."""
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
    """Both scripts, for ten and for a hundred routes and CIDRs of IPv4."""
    for count in (FEW, MANY):
        with (
            private_namespace() as namespace,
            tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory,
        ):
            yield from _contests(Node(namespace, Path(directory)), count)


def _contests(node: Node, count: int) -> Iterator[Contest]:
    networks = [str(Prefix(IPV4, (172 << 24) + (16 << 16) + (number << 12), 20)) for number in range(count)]
    config = HostRoutingConfig(
        StaticRoutesConfig(enabled=True, routes=[StaticRoute(network) for network in networks]),
        RouteOverlapConfig(networks),
    )

    def measured(kind: _Kind, work: str, forget: Callable[[Node], None], limit: float | None) -> Iterator[Contest]:
        obvious, rendered = kind.obvious.format(words=" ".join(networks), family=IPV4), kind.render(config)
        forget(node)
        methods = {
            kind.ours: node.script(kind.ours, rendered),
            kind.theirs: node.script(f"obvious-{kind.ours}", obvious),
            **(node.programs_alone(kind.ours, rendered) if count == FEW else {}),
            **(node.by_mawk(f"obvious-{kind.ours}", obvious) if count == FEW else {}),
        }
        times = in_turn(methods, rounds=15, before=partial(forget, node))
        goals = [] if limit is None else [Goal(kind.ours, limit, kind.theirs)]
        if goals and count == FEW:
            # Starting its programs is nearly all that a script does for so few.
            takes = "fewer lines of bash, or one program less"
            goals = [
                Goal(kind.ours, 1.5, _ALONE, takes),
                *(Goal(name, None, kind.theirs) for name in (kind.ours, _ALONE)),
            ]
        yield Contest(f"boot: {count} {work}", times, tuple(goals))

    yield from measured(ROUTES, "routes", Node.forget_routes, 1 / 10)
    yield from measured(ROUTES, "routes, all there", lambda _: None, None)
    yield from measured(CHECK, "CIDRs, all repaired", Node.forget_markers, 1 / 5)
    node.forget_routes()
    yield from measured(CHECK, "CIDRs, all escaping", Node.forget_markers, 1 / 5)
