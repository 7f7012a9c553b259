"""The .deb on a node of each distribution: installed, upgraded and removed by its dpkg."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostrouting.config.settings import GateConfig
from tests.support.compiled import compiled_program
from tests.support.gate import CONFIG, HALVES, LAYOUT, config, gate_tests, host, ours
from tests.support.newer import VERSION, newer_program
from tests.support.systemd import System

pytestmark = [*gate_tests, pytest.mark.ships, pytest.mark.needs("dpkg-deb")]

ROOT = Path(__file__).resolve().parents[2]
UNIT = "pods.service"
TEXT = "[Service]\nExecStart=/bin/sleep infinity\n"
SETTINGS = config(*HALVES, mode="STRICT")._replace(gate=GateConfig((UNIT,)))
OF_A_NODE = "find /etc/hostrouting /etc/systemd/system -exec stat --format='%n %i %y' {} +"


def packages(folder: Path) -> list[Path]:
    """The .deb of this release, and the one of a newer release."""
    words = ["hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, check=True, capture_output=True, timeout=300
    )
    for program in (compiled_program(), newer_program()):
        place = folder / "hostrouting.pyz"
        place.write_bytes(program)
        place.chmod(0o755)
        env = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
        subprocess.run([".github/release/deb.sh", folder], cwd=ROOT, check=True, env=env)
    return sorted(folder.glob("*.deb"))


def version(system: System) -> str:
    """That of the command, as a shell of the node finds it."""
    return system.must("env", "-i", "PATH=/usr/bin", "hostrouting", "--version").split()[1]


def test_the_package(tmp_path: Path) -> None:
    """Only `apply` changes the node; an upgrade waits for it, and a removal leaves what it did."""
    older, newer = packages(tmp_path)
    unit = {f"/etc/systemd/system/{UNIT}": TEXT}
    with host(more=unit, machines=(), is_compiled=False) as system:
        for package in (older, newer):
            system.outside(f"/root/{package.name}").write_bytes(package.read_bytes())
        list_files = ("sh", "-c", OF_A_NODE.replace("/etc/hostrouting ", ""))
        before = system.must(*list_files)
        system.must("dpkg", "--install", f"/root/{older.name}")
        assert system.must(*list_files) == before
        assert version(system) != VERSION
        assert system.must("hostrouting", "status").startswith("NOTHING: ")

        system.lay(CONFIG, json.dumps(SETTINGS.to_mapping()))
        system.must("hostrouting", "apply", "--config", CONFIG)
        system.must("systemctl", "start", UNIT)
        assert len(ours(system)) == len(HALVES)
        list_files = ("sh", "-c", OF_A_NODE)
        applied = system.must(*list_files)

        system.must("dpkg", "--install", f"/root/{newer.name}")
        assert version(system) == VERSION
        assert system.must(*list_files) == applied
        system.must("dpkg", "--remove", "hostrouting")
        assert system.run("sh", "-c", "command -v hostrouting").returncode
        assert system.must(*list_files) == applied
        assert len(ours(system)) == len(HALVES)
        system.must("systemctl", "restart", UNIT)
        assert system.must(LAYOUT.program_path, "status").startswith("IN FORCE: ")
