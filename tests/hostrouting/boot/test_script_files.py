"""The boot scripts as files: a step that is truncated or has lost its settings fails, and prints no verdict."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostrouting.boot.scripts import render_check_script, render_probe_script, render_static_routes_script
from hostrouting.config.settings import (
    HostRoutingConfig,
    ProbeRewriteConfig,
    RouteOverlapConfig,
    StaticRoute,
    StaticRoutesConfig,
)
from tests.support.check_script import command
from tests.support.commands import fabric_host
from tests.support.namespace import Namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root", "nft")]

CONFIG = HostRoutingConfig(
    StaticRoutesConfig(enabled=True, routes=[StaticRoute("172.16.0.0/16")]),
    RouteOverlapConfig(["192.168.0.0/16"], "STRICT"),
    probe_rewrite=ProbeRewriteConfig(enabled=True, interfaces=["eth0"]),
)
TEXTS = {
    "routes": render_static_routes_script(CONFIG),
    "check": render_check_script(CONFIG),
    "probe": render_probe_script(CONFIG),
}


@pytest.fixture(scope="module")
def host() -> Iterator[Namespace]:
    """A host with a default route and a fabric."""
    with fabric_host() as private:
        yield private


def run(host: Namespace, text: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the text as the gate runs a step."""
    script = directory / "script.sh"
    script.write_text(text)
    return host.run(*command(script, "kubelet.service", "0"))


@pytest.mark.parametrize("which", TEXTS)
def test_a_damaged_script_fails(which: str, host: Namespace, tmp_path: Path) -> None:
    """Without its settings, or cut before its last function ends, it fails, and leaves no marker of a verdict ok."""
    text = TEXTS[which]
    head, rest = text.split("configuration=(\n", 1)
    end = text.rindex("\n}\n")
    cuts = [text[: end * part // 12] for part in range(13)]
    for damaged in (f"{head}configuration=(\n)\n{rest.split(')', 1)[1]}", *cuts):
        done = run(host, damaged, tmp_path)
        assert done.returncode, done.stderr
        assert not [*tmp_path.glob("run/aks-flex-node/*.ok")]
