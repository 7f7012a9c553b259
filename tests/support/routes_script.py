"""static-routes.sh, run in a private namespace with a /run of its own."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from hostrouting.boot.scripts import render_static_routes_script
from hostrouting.config.settings import (
    HostRoutingConfig,
    ProbeRewriteConfig,
    RouteOverlapConfig,
    StaticRoute,
    StaticRoutesConfig,
)
from hostrouting.model.prefix import IPV4
from tests.support.awks import AWKS, put_before
from tests.support.check_script import command
from tests.support.namespace import Namespace
from tests.support.sections import static
from tests.support.systemd import THIS_HOST

_STAYS = "<4>static-routes: ROUTE-STAYS: "
HALVES = [static("172.16.0.0/17"), static("172.16.128.0/17")]


def words(
    wanted: Iterable[StaticRoute],
    directory: Path,
    *,
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
    return ["setsid", "--wait", *command(script, "kubelet.service", str(wait), before=before)]


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
        done = namespace.run(*words(wanted, directory, **options))  # type: ignore[arg-type]  # they are passed on
        self.changes = [
            *map(int, re.findall("<6>static-routes: changed routes: (.*)\n", done.stderr))
        ]
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
        assert not done.stdout


def ours(namespace: Namespace, family: int = IPV4) -> list[str]:
    """The destinations of our routes."""
    return [str(route.prefix) for route in namespace.routes(family) if route.protocol == 213]
