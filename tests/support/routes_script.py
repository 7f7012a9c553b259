"""static-routes.sh, run in a private namespace."""

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from hostrouting.boot.scripts import render_static_routes_script
from hostrouting.config.probe_rewrite import ProbeRewriteConfig
from hostrouting.config.settings import HostRoutingConfig, StaticRoute, StaticRoutesConfig
from hostrouting.model.prefix import IPV4
from tests.support.awks import AWKS, only_awk, put_before
from tests.support.namespace import Namespace
from tests.support.systemd import THIS_HOST

__all__ = ["HALVES", "Ran", "ours"]

HALVES = [StaticRoute("172.16.0.0/17"), StaticRoute("172.16.128.0/17")]


class Ran:
    """One run of the script: its exit status, and its output."""

    def __init__(
        self,
        namespace: Namespace,
        wanted: Iterable[StaticRoute],
        directory: Path,
        *,
        wait: int = 0,
        awk: str = AWKS[0],
        tree: Path = THIS_HOST,
        tools: Mapping[str, str] | None = None,
        before: str = "",
        argument: str = "",
        rewrite: ProbeRewriteConfig | None = None,
        absent: str = "",
        **environment: str,
    ) -> None:
        """Render the script and run it. `tools` replace the usual programs; `before` is done first, with mounts of its own.

        `argument` is the script's time limit in seconds. The script does not see the file `absent`.
        """
        wanted = tuple(wanted)
        script = directory / "static-routes.sh"
        config = HostRoutingConfig(StaticRoutesConfig(bool(wanted), wanted), probe_rewrite=rewrite)
        text = put_before(render_static_routes_script(config, wait=wait), tools or {}, directory)
        if absent:
            assert absent in text
            text = text.replace(absent, f"{directory}/absent")
        script.write_text(only_awk(text, awk, directory, tree=tree) if "awk" not in (tools or {}) else text)
        # As the gate and the unit run it: they complain about a script that ends without an exit.
        words = ["bash", "-pc", '. "$0"; echo "the script has no exit" >&2', str(script), *argument.split()]
        if before:
            words = ["unshare", "--mount", "bash", "-c", f"{before} && exec {shlex.join(words)}"]
        done = namespace.run(*words, **environment)
        self.status, self.said, self.lines = done.returncode, done.stderr, done.stderr.splitlines()
        assert not done.stdout


def ours(namespace: Namespace, family: int = IPV4) -> list[str]:
    """The destinations of our routes."""
    return [str(route.prefix) for route in namespace.routes(family) if route.protocol == 213]
