"""The boot scripts as files: a step that is truncated or has lost its settings fails, and prints no verdict."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hostrouting.boot.scripts import render_check_script, render_probe_script, render_static_routes_script
from hostrouting.config.settings import (
    HostRoutingConfig,
    ProbeRewriteConfig,
    RouteOverlapConfig,
    StaticRoute,
    StaticRoutesConfig,
)
from tests.support.awks import AWKS, put_before
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
each_script = pytest.mark.parametrize("which", TEXTS)


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


@each_script
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1), awk=st.sampled_from(AWKS))
@example(place=1, awk=AWKS[0])
def test_a_damaged_script_fails(which: str, host: Namespace, tmp_path: Path, place: float, awk: str) -> None:
    """Cut before its last function ends, or without its settings, it fails, and leaves no marker of a verdict ok."""
    text = put_before(TEXTS[which], tmp_path, awk=awk)
    head, rest = text.split("configuration=(\n", 1)
    for damaged in (text[: int(place * text.rindex("\n}\n"))], f"{head}configuration=(\n)\n{rest.split(')', 1)[1]}"):
        done = run(host, damaged, tmp_path)
        assert done.returncode, done.stderr
        assert not [*tmp_path.glob("run/aks-flex-node/*.ok")]
