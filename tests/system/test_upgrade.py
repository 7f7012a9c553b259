"""An upgrade: this version applies over the files of the former one, with starts in between.

Both run with this host's Python, so in a system with its files. The former version is that of the newest tag. While there
is none, it is the commit below. A clone with a short history may have neither: then it is the oldest commit that is there,
and the test is worth as much as its distance.
"""

import io
import json
import subprocess
import tarfile
from pathlib import Path

import attrs
import pytest

from hostrouting.config.settings import GuardConfig
from hostrouting.config.values import Mode
from tests.support.gate import HALVES, LAYOUT, boot_tests, config, end, host, markers, ours, pid, start
from tests.support.systemd import PROGRAM, System
from tests.support.waiting import wait_for

pytestmark = boot_tests

ROOT = Path(__file__).resolve().parents[2]
BEFORE_TAGS = "d14fc44f771cf5c62a1479851a97fdab5d0b4e98"
TREE = "/opt/former"
FORMER = f"{TREE}/bin/hostrouting"


def git(*words: str) -> bytes:
    """What git says in this checkout; nothing if it cannot."""
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=False).stdout


def former() -> bytes:
    """The files of the former version."""
    [tag, *_] = [*git("tag", "--merged", "HEAD~1", "--sort=-creatordate").decode().split(), ""]
    [oldest] = git("rev-list", "HEAD").decode().split()[-1:] or [""]
    trees = (git("archive", commit, "hostrouting", "phases") for commit in (tag, BEFORE_TAGS, oldest) if commit)
    files = next(filter(None, trees), b"")
    return files or pytest.skip("this is not a clone of the repository")


def refuses(system: System) -> None:
    """A machine does not start while an address escapes, and does afterwards."""
    capture = ("172.16.7.0/24", "dev", "ib0")
    system.must("ip", "route", "add", *capture)
    assert start(system) == 1
    assert markers(system) == {LAYOUT.detected_path}
    system.must("ip", "route", "delete", *capture)
    assert start(system) == 0
    assert markers(system) == {LAYOUT.ok_path}
    assert len(ours(system)) == 2
    end(system)


def test_upgrade() -> None:
    """The gate holds before and after it, also after a boot, a running machine stays, and the guard repairs in its sandbox."""
    files = former()

    def finish(root: Path) -> None:
        with tarfile.open(fileobj=io.BytesIO(files)) as archive:
            archive.extractall(root / TREE[1:], filter="data")

    settings = attrs.evolve(config(*HALVES, mode=Mode.STRICT), guard=GuardConfig(enabled=True, program=PROGRAM))
    agent = json.dumps(settings.to_mapping())
    with host(tree=Path("/"), finish=finish, more={"/root/agent.json": agent}) as system:
        text = (system.read(PROGRAM) or "").replace("PYTHONPATH=/opt/project", f"PYTHONPATH={TREE}")
        system.lay(FORMER, text, mode=0o755)
        asked = text.replace('-m hostrouting "$@"', '-c "import hostrouting; print(hostrouting.__file__)"')
        assert system.must("sh", "-c", asked) == f"{TREE}/hostrouting/__init__.py\n"

        running = 0
        for program in (FORMER, PROGRAM):
            system.must(program, "apply", "--config", "/root/agent.json")
            assert json.loads(system.must(program, "status", "--json"))["installed"]
            if running:
                assert pid(system) == running
                end(system)
            refuses(system)
            system.reboot()
            system.settled()
            refuses(system)
            assert start(system) == 0
            running = pid(system)
            system.must("ip", "route", "delete", "172.16.0.0/17")
            wait_for("the guard", lambda: len(ours(system)) == 2)
        system.must(PROGRAM, "remove")
        assert ours(system) == []
        assert pid(system) == running
