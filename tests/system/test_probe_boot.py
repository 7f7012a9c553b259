"""The rewriting of probes under a real systemd: in its sandbox, at boot, and when machines start beside a flush."""

import re

import attrs
import pytest

from hostrouting.boot.probe import render_probe_table
from tests.support.gate import LAYOUT, await_start, begin_start, gate_tests, is_starting
from tests.support.systemd import System
from tests.support.waiting import wait_for
from tests.system.flushing import FLUSH, TABLE, TOLD, WORD, flushing, has_table, in_force, start_once

pytestmark = gate_tests

# A step that goes on while somebody holds it.
SLOW = {f"{LAYOUT.config_directory}/slow.sh": "while [[ -e /run/held ]]; do sleep 0.02; done\nexit 0\n"}


@pytest.mark.releases
def test_at_boot_and_at_every_start() -> None:
    """The table and the route are there after a boot, and at every start of a machine, which flushes all tables first."""
    with flushing(late=0.15) as system:
        assert system.show(LAYOUT.probe_unit, "Result") == "success"
        assert has_table(system), system.journal(LAYOUT.probe_unit)
        known = str(TOLD.config.global_address)
        told = f"table {TABLE}\nroute {known} protocol 213\n\n{render_probe_table(TOLD.config)}"
        listing = system.must("nft", "-n", "-s", "list", "table", "ip6", TABLE)
        assert system.read(LAYOUT.probe_applied_path) == told + listing
        assert "dev eth0" in system.must("ip", "-6", "route", "show", known)
        assert [start_once(system) for _ in range(3)] == ["in force"] * 3
        for unit in (LAYOUT.gate_unit, LAYOUT.probe_unit):
            assert {FLUSH, "nftables.service"} <= set(system.show(unit, "After").split())
        system.must("nft", "flush", "ruleset")
        system.must("systemctl", "restart", LAYOUT.probe_unit)
        assert has_table(system)


@pytest.mark.releases
def test_without_the_order() -> None:
    """A gate that does not come after the unit that flushes loses the table: so the order is what the others show."""
    with flushing(is_ordered=False, after=WORD) as system:
        assert start_once(system) == "missing"


def test_a_second_machine_while_the_gate_runs_for_the_first() -> None:
    """A machine whose start flushes the tables, while the gate runs for another one, is not let pass by that run."""
    with flushing(machines=("kube1", "kube2"), more=SLOW, steps="80 requires slow\n") as system:
        system.lay("/run/held", "")
        begin_start(system)
        wait_for("the gate to have loaded the table", lambda: has_slowed(system))
        assert has_table(system)
        begin_start(system, "kube2")
        wait_for("the flush", lambda: not has_table(system))
        assert not is_starting(system, "kube2")
        system.must("rm", "/run/held")
        assert await_start(system, "kube2")
        assert in_force(system, "kube2") == [True]


@pytest.mark.parametrize("required", [False, True])
def test_a_machine_whose_probes_are_lost(required: bool) -> None:  # noqa: FBT001
    """If nft fails, the rewrite fails and says so; it holds a machine back only if it is required."""
    told = TOLD._replace(config=attrs.evolve(TOLD.config, required=required))
    with flushing(told=told) as system:
        system.lay("/usr/sbin/nft", '#!/bin/sh\n[ "$1" = flush ]\n', mode=0o755)
        begin_start(system)
        assert await_start(system) is not required
        said = system.journal(LAYOUT.gate_unit)
        assert f"nft refuses table ip6 {TABLE}" in said
        end = "systemd-nspawn@.service must not start: probe-rewrite.sh failed" if required else "may start anyway"
        assert end in said


def has_slowed(system: System) -> bool:
    """Whether the gate is in its slow step."""
    return "sleep 0.02" in system.run("systemctl", "status", "--no-pager", LAYOUT.gate_unit).stdout


def test_what_takes_too_long() -> None:
    """In the sandbox nobody may end an nft that hangs: the unit fails in time, and systemd ends what is left of it.

    A run that waits for its link says so when it is stopped, and has not failed; what it could do is done.
    """
    with flushing(machines=(), told=TOLD._replace(wait=40)) as system:
        script = system.must("cat", LAYOUT.probe_script_path)
        system.lay(LAYOUT.probe_script_path, script.replace("LIMIT=5", "LIMIT=1"), mode=0o755)
        system.must("mv", "/usr/sbin/nft", "/usr/sbin/nft.real")
        system.lay("/usr/sbin/nft", "#!/bin/sh\nexec sleep 1000\n", mode=0o755)
        done = system.run("systemctl", "start", LAYOUT.probe_unit)
        assert done.returncode == 1
        assert re.search("'nft [^']*' did not end within 1 s", system.journal(LAYOUT.probe_unit))
        wait_for("its end", lambda: not system.run("pgrep", "-f", "sleep 1000").stdout)
        system.lay(LAYOUT.probe_script_path, script, mode=0o755)
        system.must("mv", "/usr/sbin/nft.real", "/usr/sbin/nft")

        system.must("nft", "flush", "ruleset")
        system.must("ip", "link", "del", "eth0")
        system.must("systemctl", "start", "--no-block", LAYOUT.probe_unit)
        wait_for("the script to wait", lambda: "sleep" in system.run("systemctl", "status", LAYOUT.probe_unit).stdout)
        assert has_table(system)
        system.must("systemctl", "stop", LAYOUT.probe_unit)
        assert system.show(LAYOUT.probe_unit, "ActiveState") == "inactive"
        assert "stopped before the work was done" in system.journal(LAYOUT.probe_unit)
