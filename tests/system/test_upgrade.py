"""Two releases on one node: this one, and its sources with another version, key and unit."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import CompletedProcess

import pytest

from hostrouting.boot.program import sources_digest
from hostrouting.config.settings import GateConfig, GuardConfig
from tests.support import gate
from tests.support.gate import CONFIG, HALVES, LAYOUT, apply, gate_tests, hostrouting, ours
from tests.support.newer import KEY, RESTARTS_AFTER, VERSION, newer_program
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = [*gate_tests, pytest.mark.ships]

UNIT = "pods.service"
STARTED = "/run/started"
"""What the unit writes when it has started."""
TEXT = f"[Service]\nExecStart=/bin/sh -c 'touch {STARTED}; exec sleep infinity'\n"
SETTINGS = gate.config(*HALVES, mode="STRICT")._replace(
    gate=GateConfig((UNIT,)), guard=GuardConfig(enabled=True)
)
NEWER = "/usr/local/bin/newer.pyz"
ESCAPE = ("172.16.200.7/32", "dev", "ib0")
STARTS = f"while :; do systemctl start {UNIT}; systemctl reset-failed {UNIT}; done"


def newer(system: System, *words: str) -> CompletedProcess[str]:
    """A command line of the newer release, which the Python of the node runs."""
    return system.run("/usr/bin/python3", NEWER, *words)


def with_the_key() -> str:
    """The same configuration, with a key that only the newer release knows."""
    mapping = SETTINGS.to_mapping()
    mapping["routeOverlap"][KEY] = True
    return json.dumps({"hostRouting": mapping})


@contextmanager
def escaping(system: System) -> Iterator[None]:
    """Another program leads an address into the fabric during the block."""
    system.must("ip", "route", "add", *ESCAPE)
    try:
        yield
    finally:
        system.must("ip", "route", "del", *ESCAPE)


def sources(program: bytes) -> str:
    """The digest of the sources of a program of the node, which stands in its second line."""
    return program.split(b"\n", 2)[1].decode()


def installed(system: System) -> str:
    return sources(system.outside(LAYOUT.program_path).read_bytes())


def is_refused(system: System) -> str:
    """That a start is refused; what the journal has about it."""
    system.run("systemctl", "stop", UNIT)
    assert system.run("systemctl", "start", UNIT).returncode == 1
    system.run("systemctl", "reset-failed", UNIT)
    return system.journal(UNIT)


def starts(system: System) -> None:
    """The unit starts, and runs on for the next story."""
    system.must("systemctl", "restart", UNIT)


def an_upgrade(system: System) -> None:
    """The older program decides until the apply, which touches no running unit."""
    starts(system)
    pid = system.show(UNIT, "MainPID")
    said = newer(system, "status")
    assert said.returncode == 1
    assert f"{LAYOUT.config_path} is not applied yet" in said.stdout
    assert "UNCHECKED" not in said.stdout
    assert f"  write {LAYOUT.unit_path(LAYOUT.routes_unit)}" in said.stdout
    assert f"  hostrouting {VERSION} (sources " in said.stdout

    system.lay(CONFIG, with_the_key())
    done = newer(system, "apply", "--config", CONFIG)
    assert done.returncode == 0, done.stdout + done.stderr
    assert installed(system) == sources(newer_program())
    assert newer(system, "status").stdout.startswith("IN FORCE: ")
    new_text = f"\nRestartSec={RESTARTS_AFTER}\n"
    assert new_text in system.must("systemctl", "cat", LAYOUT.routes_unit)
    assert system.show(UNIT, "MainPID") == pid
    with escaping(system):
        assert "172.16.200.7 leaves through ib0" in is_refused(system)
    starts(system)


def an_older_command(system: System) -> None:
    """It names the key that it does not know, and changes nothing; the newer program decides."""
    before = installed(system)
    done = hostrouting(system, "apply", "--config", LAYOUT.config_path)
    assert done.returncode == 2
    assert KEY in done.stderr
    said = hostrouting(system, "status")
    assert said.returncode == 2
    assert KEY in said.stdout
    assert installed(system) == before
    starts(system)


def the_way_back(system: System) -> None:
    """Without the key, the older release can be applied again."""
    apply(system, SETTINGS)
    assert installed(system) == sources_digest()
    with escaping(system):
        assert "172.16.200.7 leaves through ib0" in is_refused(system)
    starts(system)


def starts_meanwhile(system: System) -> None:
    """While one release takes the other's place, the unit never starts with an escape."""
    system.must("systemctl", "stop", UNIT)
    system.run("rm", "-f", STARTED)
    refused = f"{UNIT} was refused"
    before = system.journal(UNIT).count(refused)
    with escaping(system):
        system.must("systemd-run", "--quiet", "--unit=starts", "sh", "-c", STARTS)
        system.lay(CONFIG, with_the_key())
        assert newer(system, "apply", "--config", CONFIG).returncode == 1
        apply(system, SETTINGS, code=1)
        assert system.journal(UNIT).count(refused) > before + 2
        assert system.run("test", "-e", STARTED).returncode == 1
    wait_for("the unit", lambda: system.show(UNIT, "ActiveState") == "active")
    system.must("systemctl", "stop", "starts.service")
    assert len(ours(system)) == len(HALVES)
    assert hostrouting(system, "status").returncode == 0


STORIES = (an_upgrade, an_older_command, the_way_back, starts_meanwhile)


def test_two_releases(subtests: pytest.Subtests) -> None:
    """Each story begins where the last one has ended."""
    unit = {f"/etc/systemd/system/{UNIT}": TEXT}
    with gate.host(SETTINGS, more=unit, machines=()) as system:
        system.outside(NEWER).write_bytes(newer_program())
        for story in STORIES:
            with subtests.test(story.__name__):
                story(system)
