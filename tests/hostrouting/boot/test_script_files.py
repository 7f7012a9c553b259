"""The boot scripts as files: bash reads the beginning and awk the end. A truncated script fails."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hostrouting.boot.scripts import render_check_script, render_static_routes_script
from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig, StaticRoute, StaticRoutesConfig
from tests.support.awks import AWKS, only_awk, put_before
from tests.support.commands import LINKS, fabric_host, furnish
from tests.support.namespace import Namespace, private_namespace
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

CONFIG = HostRoutingConfig(
    StaticRoutesConfig(enabled=True, routes=[StaticRoute("172.16.0.0/16")]),
    RouteOverlapConfig(["172.16.0.0/16"], "STRICT"),
)
RENDERERS = {"routes": render_static_routes_script, "check": render_check_script}
each_script = pytest.mark.parametrize("which", ["routes", "check"])


@pytest.fixture(scope="module")
def host() -> Iterator[Namespace]:
    """A host with a default route and a fabric."""
    with fabric_host() as private:
        yield private


def run(host: Namespace, script: Path) -> subprocess.CompletedProcess[str]:
    """Run it, with the directory beside it as its state directory."""
    return host.run("/bin/bash", str(script), RUNTIME_DIRECTORY=str(script.parent / "state"))


@each_script
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1), awk=st.sampled_from(AWKS))
@example(place=1, awk=AWKS[0])
def test_cut_short(which: str, host: Namespace, tmp_path: Path, place: float, awk: str) -> None:
    """A script without its end fails, wherever it was cut, and does not print "ok"."""
    config = HostRoutingConfig(CONFIG.static_routes, RouteOverlapConfig(["192.168.0.0/16"], "STRICT"))
    text = RENDERERS[which](config, wait=0)
    text, _ = only_awk(text, awk, tmp_path).rstrip("\n").rsplit("}\n", 1)
    script = tmp_path / "script.sh"
    begin = text.index(" EXIT ")
    script.write_text(text[: begin + int(place * (len(text) - begin))])
    done = run(host, script)
    assert done.returncode, done.stderr
    assert "ok" not in {path.suffix for path in tmp_path.glob("state/*")}


@each_script
def test_without_its_settings(which: str, host: Namespace, tmp_path: Path) -> None:
    """A script whose settings are gone fails, instead of finding that nothing is to be done."""
    head, rest = RENDERERS[which](CONFIG, wait=0).split("configuration=(\n", 1)
    script = tmp_path / "script.sh"
    script.write_text(f"{head}configuration=(\n)\n{rest.split(')', 1)[1]}")
    done = run(host, script)
    assert done.returncode, done.stderr
    assert "ok" not in {path.suffix for path in tmp_path.glob("state/*")}


@each_script
def test_replaced_while_it_runs(which: str, tmp_path: Path) -> None:
    """A waiting script that is replaced by another file continues with its old text."""
    script, other = tmp_path / "script.sh", tmp_path / "other.sh"
    script.write_text(RENDERERS[which](CONFIG, wait=100))
    other.write_text("# nothing\n")
    with private_namespace() as namespace:
        furnish(namespace, LINKS, set())
        command = [*namespace.enter, "/bin/bash", str(script)]
        waiting = subprocess.Popen(command, env={**os.environ, "RUNTIME_DIRECTORY": str(tmp_path / "state")})
        try:
            children = Path(f"/proc/{waiting.pid}/task/{waiting.pid}/children")
            wait_for("bash to run its first command", children.read_text)
            time.sleep(0.3)
            assert waiting.poll() is None
            other.replace(script)
            namespace.batch(["route add default via 10.0.0.1 dev eth0"])
            assert waiting.wait(timeout=120) == 0
        finally:
            waiting.kill()
            waiting.wait()


@each_script
@pytest.mark.needs("mawk")
def test_the_awk_that_begins_quickest(which: str, host: Namespace, tmp_path: Path) -> None:
    """A host that has mawk uses it, even if another program is called awk. Kills: any awk."""
    script = tmp_path / "script.sh"
    program = put_before(RENDERERS[which](CONFIG, wait=0), {"awk": "exit 9"}, tmp_path)
    (tmp_path / "tools" / "mawk").unlink()
    script.write_text(program)
    done = run(host, script)
    assert "awk" not in done.stderr


def test_no_mawk(host: Namespace, tmp_path: Path) -> None:
    """Without mawk, the script uses awk."""
    script = tmp_path / "script.sh"
    script.write_text(render_check_script(CONFIG, wait=0).replace("/usr/sbin:/usr/bin:/sbin:/bin", str(tmp_path)))
    for tool in ("awk", "ip", "mkdir", "mv", "rm", "sed", "sh"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    done = run(host, script)
    assert done.returncode == 1
    assert (tmp_path / "state" / "route-overlap.detected").is_file(), done.stderr
