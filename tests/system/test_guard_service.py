"""hostrouting-guard.service under a real systemd: started, watched, restarted, stopped, and what it keeps."""

import json
import re
from pathlib import Path

import attrs
import pytest

from hostrouting.config.settings import GuardConfig, HostRoutingConfig
from hostrouting.config.values import Mode
from tests.support.azure_leftovers import DEAD
from tests.support.azure_rules import pod_rules
from tests.support.gate import HALVES, LAYOUT, config, configure, gate_tests, host, markers, ours, run_task
from tests.support.pages import BLOCK, page
from tests.support.systemd import PROGRAM, System
from tests.support.waiting import wait_for

pytestmark = gate_tests

UNIT = LAYOUT.guard_unit
STUB = "/opt/agent/bin/stub"
# It says that it is ready and then waits, as the guard does. A tree of another distribution has no suitable Python.
STUB_TEXT = """\
#!/usr/bin/perl
use Socket;
socket(S, PF_UNIX, SOCK_DGRAM, 0); send(S, "READY=1", 0, sockaddr_un($ENV{NOTIFY_SOCKET}));
sleep;
"""


def guarded(program: str) -> HostRoutingConfig:
    """The repair, the check, and a guard that runs this program."""
    return attrs.evolve(config(*HALVES, mode=Mode.STRICT), guard=GuardConfig(enabled=True, program=program))


def leader(system: System) -> int:
    """The process of the guard; 0 if there is none."""
    return int(system.show(UNIT, "MainPID"))


@pytest.mark.releases
def test_the_unit() -> None:
    """The unit is sandboxed, starts at boot, restarts when killed, and goes with Remove; systemd finds no fault."""
    with host(scripts={STUB: STUB_TEXT}) as system:
        configure(system, guarded(STUB))
        assert system.show(UNIT, "ActiveState") == "active"
        first = leader(system)
        configure(system, guarded(STUB))
        assert leader(system) == first
        said = system.must("systemd-analyze", "security", "--no-pager", UNIT)
        (level,) = re.findall(r"exposure level for \S+: ([0-9.]+)", said)
        assert float(level) <= 2.0
        said = system.run("systemd-analyze", "verify", UNIT).stderr
        assert not [line for line in said.splitlines() if UNIT in line]
        assert system.show(UNIT, "RestartUSec") == "5s"
        system.lay(f"/run/systemd/system/{UNIT}.d/sooner.conf", "[Service]\nRestartSec=100ms\n")
        system.must("systemctl", "daemon-reload")
        system.must("systemctl", "kill", "--signal=KILL", UNIT)
        wait_for("the guard to be restarted", lambda: leader(system) not in {0, first})
        system.must("systemctl", "enable", "multi-user.target")
        system.reboot()
        system.settled()
        wait_for("the guard to run", lambda: system.show(UNIT, "ActiveState") == "active")
        assert run_task(system, "Remove", config()).returncode == 0
        assert system.run("systemctl", "cat", UNIT).returncode
        assert not leader(system)


def log(system: System) -> list[str]:
    """What the guard has logged."""
    return system.journal(UNIT).splitlines()


def overlaps(system: System) -> list[str]:
    """Where the guard has logged that the verdict became overlap."""
    return [line for line in log(system) if "the verdict is overlap" in line]


def test_it_keeps_the_host_right() -> None:
    """What is undone comes back, a change of the verdict is logged once, a new configuration is kept, an end undoes nothing."""
    with host(tree=Path("/")) as system:
        settings = guarded(PROGRAM)
        configure(system, settings)
        wait_for("its first look", lambda: "the verdict is ok" in "\n".join(log(system)))
        system.must("ip", "route", "del", "172.16.0.0/17")
        wait_for("the route", lambda: len(ours(system)) == 2)
        system.must("ip", "link", "set", "eth0", "down")
        system.must("ip", "link", "set", "eth0", "up")
        system.must("ip", "route", "add", "default", "via", "10.0.0.1", "dev", "eth0")
        wait_for("the routes", lambda: len(ours(system)) == 2)
        wait_for("the verdict", lambda: markers(system) == {LAYOUT.ok_path})
        # A look can fall between the default route and our own routes.
        before = len(overlaps(system))
        system.must("ip", "route", "add", "172.16.7.0/24", "dev", "ib0")
        wait_for("the verdict", lambda: markers(system) == {LAYOUT.detected_path})
        system.must("ip", "route", "del", "172.16.7.0/24", "dev", "ib0")
        wait_for("the verdict", lambda: markers(system) == {LAYOUT.ok_path})
        assert len(overlaps(system)) == before + 1
        found = system.run(PROGRAM, "status")
        assert found.returncode == 0, found.stdout
        assert "IN FORCE: the guard" in found.stdout
        assert "repairs: " in found.stdout
        system.must("systemctl", "reload", UNIT)
        first = leader(system)
        configure(system, attrs.evolve(settings, static_routes={"enabled": True, "routes": [
            *({"destination": str(half.destination)} for half in HALVES), {"destination": "10.99.0.0/16"}]}))  # fmt: skip
        assert leader(system) == first
        system.must("ip", "route", "del", "10.99.0.0/16")
        wait_for("the new route", lambda: len(ours(system)) == 3)
        system.must("systemctl", "stop", UNIT)
        assert system.show(UNIT, "Result") == "success"
        assert len(ours(system)) == 3
        found = system.run(PROGRAM, "status")
        assert found.returncode == 1
        assert "NOT IN FORCE: the guard" in found.stdout


@pytest.mark.needs("ebtables-nft")
def test_it_cleans_up_after_azure_vnet() -> None:
    """In its sandbox, the guard deletes stale rules, neighbours and listed pods, and writes the undo file."""
    listed = {"Id": "old", "HostIfName": "azvgone", "IPAddresses": [{"IP": "10.1.0.6"}]}
    networks = {"azure": {"Endpoints": {"old": listed}}}
    state = json.dumps({"Network": {"ExternalInterfaces": {"eth0": {"Networks": networks}}}})
    cleanup = {"managed": ["10.1.0.0/16"], "dryRun": False, "repeat": True, "stateFile": "prune", "uplinks": ["eth0"]}
    settings = attrs.evolve(guarded(PROGRAM), azure_vnet_cleanup=cleanup)
    with host(tree=Path("/")) as system:
        configure(system, guarded(PROGRAM))
        first = leader(system)
        configure(system, settings)
        assert leader(system) not in {0, first}
        system.lay("/run/azure-vnet.json", state)
        for rule in pod_rules("10.1.0.6", DEAD):
            system.must("ebtables-nft", "-t", "nat", "-A", *rule.split())
        system.must("ip", "link", "add", "azure0", "type", "bridge")
        system.must("ip", "link", "set", "azure0", "up")
        system.must("ip", "link", "set", "eth0", "master", "azure0")
        neighbour = ("10.1.0.6", "lladdr", DEAD, "dev", "azure0", "nud", "permanent")
        system.must("ip", "neigh", "add", *neighbour)
        wait_for("the rules to go", lambda: DEAD not in system.must("ebtables-nft-save"))
        wait_for("the neighbour to go", lambda: DEAD not in system.must("ip", "neigh"))
        wait_for("the pod to go", lambda: "azvgone" not in system.must("cat", "/run/azure-vnet.json"))
        assert DEAD in system.must("cat", "/var/lib/hostrouting/azure-vnet-1.undo")
        assert "repaired listed pod old (10.1.0.6)" in "\n".join(log(system))


def test_a_task_of_another_project() -> None:
    """The guard finds it by its entry point, and its sandbox lets it repair a setting of the network."""
    (text,) = [block for _, block in BLOCK.findall(page("agents")) if "class ValidMark" in block]
    setting, folder = "net.ipv4.conf.all.src_valid_mark", "/opt/acme"
    program = f"{folder}/hostrouting"
    with host(tree=Path("/")) as system:
        inner = system.outside(PROGRAM).read_text().replace("=/opt/project ", f"=/opt/project:{folder} ")
        system.lay(program, inner, mode=0o755)
        system.lay(f"{folder}/valid_mark.py", text.partition("\nconfig = ")[0])
        system.lay(f"{folder}/valid_mark-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: valid-mark\nVersion: 1\n")
        entry = "[hostrouting.tasks]\nvalid-mark = valid_mark:ValidMark\n"
        system.lay(f"{folder}/valid_mark-1.dist-info/entry_points.txt", entry)
        wanted = attrs.evolve(guarded(program), extensions={"valid-mark": {"enabled": True}})
        system.lay("/root/config.json", wanted.to_json())
        system.must(program, "apply", "--config", "/root/config.json")
        assert system.must("sysctl", "-n", setting) == "1\n"
        system.must("sysctl", "-q", f"{setting}=0")
        system.must("systemctl", "reload", UNIT)
        wait_for("the setting", lambda: system.must("sysctl", "-n", setting) == "1\n")
        system.must("systemctl", "stop", UNIT)
        system.must("sysctl", "-q", f"{setting}=0")
        system.must("systemctl", "start", "valid-mark.service")
        assert system.must("sysctl", "-n", setting) == "1\n"
        system.lay("/run/systemd/system/valid-mark.service.d/slow.conf", "[Service]\nExecStartPre=/bin/sleep 1\n")
        system.must("systemctl", "daemon-reload")
        system.must("sysctl", "-q", f"{setting}=0")
        system.must("systemctl", "start", "--no-block", "valid-mark.service")
        system.must("systemctl", "start", LAYOUT.gate_unit)  # which waits for the unit
        assert system.must("sysctl", "-n", setting) == "1\n"
        system.must(program, "remove")
        assert system.must("sysctl", "-n", setting) == "0\n"
        assert system.run("systemctl", "cat", "valid-mark.service").returncode
