"""The examples in the help of each command, run by a shell, each on an H200 node of its own."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostrouting.cli.commands import every_command
from hostrouting.testing import h200
from tests.support.machine import H200, Machine, private_machine
from tests.support.needs import require
from tests.support.programs import completed

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = [line for it in every_command() for line in it.examples.splitlines() if not line.startswith("#")]
CONFIG = {
    "staticRoutes": {"enabled": True, "routes": [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}]},
    "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"},
    "azureVnetCleanup": {"managed": ["10.240.0.0/16"]},
}
APPLY, AZURE = "hostrouting apply --config agent.json", "hostrouting clean azure-vnet --config agent.json"
RULES = "ebtables -t nat -A PREROUTING -i nothing -j ACCEPT"

# Exit code, and what is printed first; for some, what has to be done before.
OUTCOMES: dict[str, tuple[int, str] | tuple[int, str, str]] = {
    "hostrouting check 172.16.0.0/16": (1, "OVERLAP: all of 172.16.0.0/16 leaves by ib0; expected: eth0"),
    "hostrouting check --snapshot node.json 172.16.0.0/16": (
        1,
        "OVERLAP: all of 172.16.0.0/16 leaves by ib0; expected: eth0",
    ),
    "hostrouting explain 172.16.5.9": (0, "172.16.5.9 leaves by ib0"),
    "hostrouting explain 172.16.5.9 --snapshot node.json": (0, "172.16.5.9 leaves by ib0"),
    "hostrouting repair 172.16.0.0/16": (0, "OVERLAP: all of 172.16.0.0/16 leaves by ib0; expected: eth0"),
    "hostrouting repair 172.16.0.0/16 --as-config | hostrouting apply --config -": (0, "DONE: 2 routes added"),
    "hostrouting plan --config agent.json": (1, "TO DO: add 2 routes"),
    "hostrouting plan --config agent.json --snapshot node.json": (1, "TO DO: add 2 routes"),
    "hostrouting status": (0, "", APPLY),
    "hostrouting status --json": (0, "{", APPLY),
    "hostrouting snapshot > node.json": (0, ""),
    APPLY: (0, "DONE: 2 routes added"),
    "hostrouting apply --config agent.json --wait 300 --json": (0, "{"),
    "hostrouting remove --dry-run": (0, "TO DO: delete 2 routes", APPLY),
    "hostrouting remove": (0, "DONE: 2 routes", APPLY),
    AZURE: (0, "", RULES),
    f"{AZURE} --apply": (0, "", RULES),
    "hostrouting render --config agent.json --root /mnt/image": (0, "DONE: "),
    "hostrouting repair 172.16.0.0/16 --as-config --mode STRICT > new.json": (0, ""),
}


@pytest.fixture
def machine() -> Iterator[Machine]:
    """An H200 node with a bridge for pods, and an image that is mounted."""
    with private_machine() as machine:
        machine.batch([*H200, "link add cni0 type bridge", "address add 10.244.0.1/24 dev cni0", "link set cni0 up"])
        machine.shell("mount -t tmpfs -o size=1m tmpfs /mnt && mkdir -p /mnt/image/etc")
        machine.shell("ln -sf /usr/sbin/ebtables-nft /etc/alternatives/ebtables")
        yield machine


def test_every_example_is_run() -> None:
    """A new example has a row here, and each command has one or two examples, or one for each of its ways."""
    assert set(EXAMPLES) == set(OUTCOMES)
    assert len(EXAMPLES) == len(OUTCOMES)
    for command in every_command():
        lines = command.examples.splitlines()
        assert 2 <= len(lines) <= 6
        assert [line.startswith("#") for line in lines] == [True, False] * (len(lines) // 2)
        assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize("example", EXAMPLES)
def test_example(machine: Machine, example: str, tmp_path: Path) -> None:
    """Each is understood and answered, with the files that it names, and writes those that it redirects to."""
    code, begins, *before = OUTCOMES[example]
    (tmp_path / "agent.json").write_text(json.dumps(CONFIG))
    (tmp_path / "nodes").mkdir()
    for name in ("node.json", "nodes/gpu1.json"):
        (tmp_path / name).write_text(h200().snapshot().to_json())
    done = run(machine, example, tmp_path, *before)
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith(begins)
    for name in re.findall(r" > (\S+)", example):
        assert (tmp_path / name.removeprefix("~/")).read_text()


def run(machine: Machine, example: str, folder: Path, *before: str) -> subprocess.CompletedProcess[str]:
    """Run it in this directory of the machine, where `ssh node` runs a command in the same machine."""
    programs = folder / "programs"
    programs.mkdir()
    for name, body in (
        ("hostrouting", f'exec {sys.executable} -m hostrouting "$@"'),
        ("ssh", 'shift; exec sh -c "$*"'),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    if "azure-vnet" in example:
        require("ebtables-nft")
    quietly = "".join(f"({it}) >/dev/null 2>&1\n" for it in before)
    return completed(
        [*machine.enter, "bash", "-c", f"cd {folder}\n{quietly}{example}"],
        env={
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
            "LC_ALL": "C.UTF-8",
        },
    )
