"""If nothing is configured or installed, nothing happens, as a trace of the system calls shows."""

import sys
from pathlib import Path

import pytest

from hostrouting.testing import plain_vm
from tests.support.commands import commands_of
from tests.support.namespace import private_namespace
from tests.support.tracing import BEGIN, END, Trace, command

pytestmark = [pytest.mark.linux, pytest.mark.needs("root", "strace")]

# The edges of this host, with files of ours looked for below another folder.
PROGRAM = f"""
import os, subprocess, sys
import attrs, phases
from hostrouting import Configure, Host, HostLayout, HostRoutingConfig

root, text = sys.argv[1:]
host = attrs.evolve(Host.local(), layout=HostLayout(root=root))
task = Configure(HostRoutingConfig.from_json(text), host=host)
os.access({BEGIN!r}, os.F_OK)
phases.execute(task, phases.Context(observers=[]))
if text != "{{}}":
    subprocess.run(["true"])
os.access({END!r}, os.F_OK)
"""
SOMETHING = '{"staticRoutes": {"enabled": true, "routes": [{"destination": "10.77.0.0/16"}]}}'


def trace(text: str, directory: Path) -> Trace:
    """Run the task, on a host with a default route and a fabric, with this configuration."""
    root = directory / "root"
    root.mkdir()
    with private_namespace() as namespace:
        namespace.batch(commands_of(plain_vm()))
        before = namespace.routes(4)
        program = command([sys.executable, "-B", "-c", PROGRAM, str(root), text], directory / "trace")
        done = namespace.run(*program)
        assert done.returncode == 0, done.stderr
        assert (namespace.routes(4) == before) == (text == "{}")
    return Trace.read(directory / "trace")


def test_nothing_is_configured(tmp_path: Path) -> None:
    """No process is started, no file is created or opened for writing, and netlink is only read."""
    seen = trace("{}", tmp_path)
    assert seen.processes == ()
    assert seen.files == ()
    assert seen.connections == ()
    assert seen.messages, "whether any route is ours was asked"
    assert not [kind for kind in seen.messages if not kind.startswith("RTM_GET")]
    assert not list((tmp_path / "root").iterdir())


def test_the_witness_sees(tmp_path: Path) -> None:
    """With something configured, the same trace has the route, the files and the process."""
    seen = trace(SOMETHING, tmp_path)
    assert "RTM_NEWROUTE" in seen.messages
    assert "unknown" not in seen.messages
    assert any("static-routes.sh" in line for line in seen.files)
    assert any("symlink" in line and "multi-user.target.wants" in line for line in seen.files)
    assert any('"true"' in line for line in seen.processes)
