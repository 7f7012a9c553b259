"""The boot scripts as files: a step that is truncated or has lost its settings fails, and prints no verdict."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hostrouting.boot.scripts import render_check_script, render_static_routes_script
from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig, StaticRoute, StaticRoutesConfig
from tests.support.awks import AWKS, only_awk
from tests.support.check_script import command
from tests.support.commands import fabric_host
from tests.support.namespace import Namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

CONFIG = HostRoutingConfig(
    StaticRoutesConfig(enabled=True, routes=[StaticRoute("172.16.0.0/16")]),
    RouteOverlapConfig(["192.168.0.0/16"], "STRICT"),
)
TEXTS = {"routes": render_static_routes_script(CONFIG), "check": render_check_script(CONFIG)}
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


def markers(directory: Path) -> set[str]:
    """The endings of the markers that a run has left."""
    return {path.suffix for path in directory.glob("run/aks-flex-node/*")}


@each_script
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1), awk=st.sampled_from(AWKS))
@example(place=1, awk=AWKS[0])
def test_a_script_without_its_end_fails(which: str, host: Namespace, tmp_path: Path, place: float, awk: str) -> None:
    """Wherever a script was cut before its last function ends, it fails and leaves no marker of a verdict ok."""
    text, _ = only_awk(TEXTS[which], awk, tmp_path).rsplit("\n}\n", 1)
    done = run(host, text[: int(place * len(text))], tmp_path)
    assert done.returncode, done.stderr
    assert ".ok" not in markers(tmp_path)


@each_script
def test_a_script_without_its_settings_fails(which: str, host: Namespace, tmp_path: Path) -> None:
    """A script whose settings are gone does not find that nothing is to be done."""
    head, rest = TEXTS[which].split("configuration=(\n", 1)
    done = run(host, f"{head}configuration=(\n)\n{rest.split(')', 1)[1]}", tmp_path)
    assert done.returncode, done.stderr
    assert ".ok" not in markers(tmp_path)
