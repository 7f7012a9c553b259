"""static-routes.sh, run in a private namespace with a /run of its own."""

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hostrouting.boot.scripts import render_static_routes_script
from hostrouting.config.settings import (
    HostRoutingConfig,
    ProbeRewriteConfig,
    RouteOverlapConfig,
    StaticRoute,
    StaticRoutesConfig,
)
from hostrouting.model.prefix import IPV4, IPV6
from hostrouting.model.route import OURS, Route
from hostrouting.routes.plan import plan_static_routes
from hostrouting.routes.steps import RoutePlan
from tests.support.awks import AWKS, put_before
from tests.support.check_script import command
from tests.support.explaining import on_failure, output_of
from tests.support.namespace import Namespace
from tests.support.own_routes import configured
from tests.support.sections import static
from tests.support.systemd import THIS_HOST
from tests.support.waiting import wait_for

_STAYS = "<4>static-routes: ROUTE-STAYS: "
HALVES = [static("172.16.0.0/17"), static("172.16.128.0/17")]
HALF = HALVES[0]
ETH0 = "via 10.0.0.1 dev eth0"
ROUTER = "route add ::/0 via fe80::1 dev eth0 proto ra expires 600 hoplimit 64"
IS_WRITING = '[[ "$*" == *-batch* && "$*" != *" -o "* ]]'  # whether `ip` is called to change routes


def words(
    wanted: Iterable[StaticRoute],
    directory: Path,
    *,
    unit: str = "kubelet.service",
    wait: int = 0,
    awk: str = AWKS[0],
    tree: Path = THIS_HOST,
    tools: Mapping[str, str] | None = None,
    before: str = "",
    rewrite: ProbeRewriteConfig | None = None,
    expected: Iterable[str] = (),
) -> list[str]:
    """The command that runs the script for these routes, as the gate does.

    `tools` replace the usual programs; `before` is done first, with mounts of its own.
    """
    wanted = tuple(wanted)
    config = HostRoutingConfig(
        StaticRoutesConfig(bool(wanted), wanted),
        route_overlap=RouteOverlapConfig(expected_devs=tuple(expected)),
        probe_rewrite=rewrite or ProbeRewriteConfig(),
    )
    script = directory / "static-routes.sh"
    script.write_text(
        put_before(render_static_routes_script(config), directory, tools, awk=awk, tree=tree)
    )
    # A test may signal all its processes.
    return ["setsid", "--wait", *command(script, unit, str(wait), before=before)]


class Ran:
    """One run of the script: its exit status, and its output."""

    def __init__(
        self,
        namespace: Namespace,
        wanted: Iterable[StaticRoute],
        directory: Path,
        **options: object,
    ) -> None:
        """Render the script and run it; the options are those of `words`."""
        command = words(wanted, directory, **options)  # type: ignore[arg-type]  # passed on
        done = namespace.run(*command)
        self.changes = [
            *map(int, re.findall("<6>static-routes: changed routes: ([0-9]+), ", done.stderr))
        ]
        self.first_changes = re.findall(", beginning with: (.*)\n", done.stderr)
        said = re.sub("<6>static-routes: changed routes: .*\n", "", done.stderr)
        self.said = re.sub(r"(gave up after |waiting \()[0-9]+", r"\1N", said)
        self.status, self.lines = done.returncode, []
        self.stays: list[str] = []
        """What it says of routes that would have to wait after a reboot."""
        for line in self.said.splitlines():
            if line.startswith(_STAYS):
                self.stays.append(line.removeprefix(_STAYS))
            else:
                self.lines.append(line)
        on_failure("the last run of static-routes.sh", lambda: output_of(done))
        assert not done.stdout


def planned(namespace: Namespace, *wanted: StaticRoute) -> RoutePlan:
    """What Python would do for these routes on this host."""
    return plan_static_routes(configured(*wanted), namespace.snapshot())


def our_routes(namespace: Namespace, family: int = IPV4) -> list[Route]:
    """The routes of ours."""
    return [route for route in namespace.routes(family) if route.protocol == OURS]


def ours(namespace: Namespace, family: int = IPV4) -> list[str]:
    """The destinations of our routes."""
    return [str(route.prefix) for route in our_routes(namespace, family)]


def listed(namespace: Namespace) -> list[str]:
    """The routes of table main, of both families, by their destinations. Of several IPv4 routes
    with one destination, the first stays first: Linux uses it. The order among IPv6 next hops means
    nothing.
    """
    ipv4 = _lines(namespace, IPV4)
    ipv6 = _lines(namespace, IPV6)
    return [
        *sorted(ipv4, key=_destination),
        *sorted(" ".join(sorted(line.split())) for line in ipv6),
    ]


def _lines(namespace: Namespace, family: int) -> list[str]:
    shown = namespace.ip(f"-{family}", "-N", "-o", "route").stdout
    return re.sub(r" expires \w+", "", shown).splitlines()


def _destination(line: str) -> str:
    """The first word that is a prefix; before it, there may be the number of a type."""
    return next(word for word in line.split() if word == "default" or "." in word)


@contextmanager
def events(namespace: Namespace, path: Path) -> Iterator[list[str]]:
    """The events of routes during the block; the list is filled at its end."""
    first_mark, last_mark = "9.9.9.9", "8.8.8.8"
    lines: list[str] = []

    def is_seen(mark: str) -> bool:
        namespace.batch([f"route {verb} {mark} dev eth0" for verb in ("add", "del")])
        return mark in path.read_text()

    with (
        path.open("w") as out,
        subprocess.Popen([*namespace.enter, "ip", "-N", "monitor", "route"], stdout=out) as watch,
    ):
        try:
            wait_for("the watcher to listen", lambda: is_seen(first_mark))
            yield lines
            wait_for("the watcher to see all", lambda: is_seen(last_mark))
        finally:
            watch.kill()  # or a failed test would wait for its end
    of_marks = re.compile(f"{first_mark}|{last_mark}")
    lines += [line for line in path.read_text().splitlines() if not of_marks.search(line)]
