"""No test reads or writes what hostrouting, an agent or an administrator has written on the host that runs the tests.

The tests run on a host with a wrong gate, and the kernel is asked which of its files were read (tests/support/decoy.py).
Here a few run so, of each kind that could look at the host; `make hermetic` runs all of them so, every night. In the
process of the tests themselves, tests/conftest.py refuses such a path at once.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.decoy import furnish
from tests.support.programs import completed
from tests.support.systemd import HOST_FOLDERS, NEEDS

PROJECT = Path(__file__).resolve().parents[1]
SOME = (
    "tests/examples/test_bootstrap.py::test_on_a_host",
    "tests/hostrouting/boot/test_boot_files.py::TestReaders::test_systemd_analyze",
    "tests/hostrouting/cli/test_on_linux.py::test_no_iproute2",
    "tests/system/test_harness.py::test_an_agent_is_killed",
)


def with_decoy(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command on a host with a wrong gate."""
    return completed(
        [sys.executable, "-m", "tests.support.decoy", *command],
        cwd=PROJECT,
        env={name: text for name, text in os.environ.items() if not name.startswith("PYTEST")},
    )


@pytest.mark.parametrize("folder", HOST_FOLDERS)
def test_this_process_is_refused(folder: str) -> None:
    """A test that opens, lists, creates or removes a file of the host is named, even if the file does not exist."""
    for attempt in (
        lambda: Path(f"{folder}/some").read_text(),
        lambda: Path(f"{folder}/some").write_text(""),
        lambda: os.listdir(folder),
        lambda: list(os.scandir(folder)),
        lambda: Path(folder).mkdir(),
        lambda: Path(f"{folder}/some").unlink(),
        lambda: Path("/nowhere").rename(f"{folder}/some"),
        lambda: os.listdir(os.fsencode(folder)),
        lambda: os.rmdir(os.fsencode(f"{folder}/some")),
    ):
        with pytest.raises(PermissionError, match=f"a test tried to reach {folder}.* of the host"):
            attempt()
    with pytest.raises(FileNotFoundError):  # another folder, although its name begins alike
        Path(f"{folder}-other/some").read_text()


@pytest.mark.linux
@pytest.mark.needs("root")
def test_what_was_touched_is_told() -> None:
    """Each file that a command reads or changes is named, and makes it fail; the host's own files remain as they are."""
    script = """
    grep -q . /etc/hostrouting/host-routing-gate.conf
    ls /etc/systemd/nspawn >/dev/null
    mkdir /etc/systemd/some
    rm /run/hostrouting/guard.json
    echo >>/etc/hostrouting/static-routes.sh
    """
    there = [path for path in HOST_FOLDERS if Path(path).exists()]
    done = with_decoy("sh", "-c", script)
    told = [
        *("created /etc/systemd/some", "read /etc/hostrouting/host-routing-gate.conf", "read /etc/systemd/nspawn"),
        *("removed /run/hostrouting/guard.json", "wrote /etc/hostrouting/static-routes.sh", "wrote /etc/systemd"),
        "wrote /run/hostrouting",
    ]
    assert done.stderr.splitlines() == [f"decoy: the command {line} of the host" for line in told]
    assert done.returncode == 1
    assert [path for path in HOST_FOLDERS if Path(path).exists()] == there
    assert not Path("/etc/systemd/some").exists()


def test_the_gate_is_installed(tmp_path: Path) -> None:
    """The files are those of a gate as Configure installs it, and of others."""
    furnish(tmp_path)
    for path in (
        "etc/systemd/system/host-routing-gate.service",
        "etc/systemd/system/systemd-nspawn@.service.d/00-host-routing.conf",
        "etc/hostrouting/host-routing-gate.conf",
        "run/aks-flex-node/route-overlap.ok",
    ):
        assert (tmp_path / path).is_file()


@pytest.mark.boot
@pytest.mark.needs(*NEEDS, "systemd-analyze")
def test_some_of_each_kind(tmp_path: Path) -> None:
    """Examples, command lines, systemd's own programs and booted systems: none notices the host's gate, or looks at it."""
    done = with_decoy(sys.executable, "-m", "pytest", "-q", "-n0", f"--basetemp={tmp_path / 'inner'}", *SOME)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
