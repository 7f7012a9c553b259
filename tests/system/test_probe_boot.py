"""The rewriting of probes under a real systemd: in its sandbox, at boot, and when a machine starts beside a flush.

The node agent ships nftables-flush.service, which every start of a machine pulls in, and which is ordered after and
before nothing that matters. What is promised: when the machine's own program is executed, the table is in force.
"""

import phases
from hostrouting.boot.gate import Gate, Part
from hostrouting.boot.gate_files import GateStep
from hostrouting.boot.probe import TABLE, ProbeScript, render_probe_script, render_probe_table, render_probe_unit
from hostrouting.boot.units import render_preset
from hostrouting.config.probe_rewrite import ProbeRewriteConfig
from hostrouting.host.fileset import File, FileSet, unit_file
from hostrouting.host.host import Host
from tests.support.gate import KUBE1, LAYOUT, await_start, end, gate_tests
from tests.support.systemd import System, booted
from tests.support.waiting import wait_for

pytestmark = gate_tests

CONFIG = ProbeRewriteConfig(enabled=True, interfaces=["eth0"])
TOLD = ProbeScript(CONFIG, wait=5)
FLUSH = "nftables-flush.service"

_FLUSH_UNIT = """\
[Unit]
Description=Flush nftables
Before=systemd-nspawn@.service
[Service]
Type=oneshot
ExecStart=/usr/sbin/nft flush ruleset
[Install]
RequiredBy=systemd-nspawn@.service
"""
_NETWORK_UNIT = """\
[Unit]
DefaultDependencies=no
Wants=network.target
Before=network.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/ip link add eth0 type veth peer name peer-eth0
ExecStart=/bin/ip link set peer-eth0 up
ExecStart=/bin/ip link set eth0 up
ExecStart=/bin/ip -6 address add fd00::4/64 dev eth0 nodad
"""
WORD = "/run/test-ran"
# In the place of the machine's own program, which it becomes after it has left word.
_WITNESS = f"""\
#!/bin/sh
nft list table ip6 {TABLE} >/dev/null 2>&1 && word=in-force || word=missing
echo "$word $*" >>{WORD}
exec /usr/bin/systemd-nspawn.real "$@"
"""


def furnish(root: str) -> None:
    """Install the gate, the script behind it, and the unit that runs the script at every boot."""
    host = Host.offline(root)
    layout = host.layout
    unit = unit_file(layout.probe_unit_path, render_probe_unit(layout), layout=layout)
    preset = File(layout.probe_preset_path, render_preset(layout.probe_unit))
    files = FileSet(
        (unit, preset), links=((layout.probe_enabled_path, f"{layout.unit_directory}/{layout.probe_unit}"),)
    )
    script = File(layout.probe_script_path, render_probe_script(TOLD, layout=layout), mode=0o755)
    part = Part(GateStep(70, "wants", "probe-rewrite"), files, layout.probe_unit, FileSet((script,)))
    Gate(host).change(phases.Context(observers=[]), (part,))


def has_table(system: System) -> bool:
    """Whether the table is in the kernel."""
    return system.run("nft", "list", "table", "ip6", TABLE).returncode == 0


def start_once(system: System) -> tuple[str, bool]:
    """Start the machine and end it: what its program saw when it was executed, and whether the table has stayed."""
    system.must("systemctl", "reset-failed")  # else systemd refuses the sixth flush in ten seconds
    system.must("rm", "-f", WORD)
    system.must("systemctl", "start", "--no-block", KUBE1)
    assert await_start(system)
    wait_for("the flush", lambda: system.show(FLUSH, "ActiveState") in {"inactive", "failed"})
    assert system.show(FLUSH, "Result") == "success"
    seen, stayed = system.must("cat", WORD).split()[0], has_table(system)
    end(system)
    return seen, stayed


def test_at_boot_and_at_every_start() -> None:
    """The table and the route are there after a boot, and at every start of a machine, which flushes all tables first."""
    units = {
        f"/etc/systemd/system/{FLUSH}": _FLUSH_UNIT,
        f"/etc/systemd/system/{FLUSH}.d/late.conf": "[Service]\nExecStartPre=/bin/sleep 0.15\n",
        "/etc/systemd/system/test-network.service": _NETWORK_UNIT,
    }
    links = {
        f"/etc/systemd/system/systemd-nspawn@.service.requires/{FLUSH}": f"/etc/systemd/system/{FLUSH}",
        "/etc/systemd/system/sysinit.target.wants/test-network.service": "/etc/systemd/system/test-network.service",
    }
    with booted(units, links=links, machines=("kube1",), furnish=furnish) as system:
        system.settled()
        system.must("mv", "/usr/bin/systemd-nspawn", "/usr/bin/systemd-nspawn.real")
        system.lay("/usr/bin/systemd-nspawn", _WITNESS, mode=0o755)
        assert system.show(LAYOUT.probe_unit, "Result") == "success"
        assert has_table(system), system.journal(LAYOUT.probe_unit)
        known = str(TOLD.config.global_address)
        told = f"route {known}\n\n{render_probe_table(TOLD.config)}"
        listing = system.must("nft", "-n", "-s", "list", "table", "ip6", TABLE)
        assert system.read(LAYOUT.probe_applied_path) == told + listing
        assert "dev eth0" in system.must("ip", "-6", "route", "show", known)
        assert [start_once(system) for _ in range(3)] == [("in-force", True)] * 3
        system.must("nft", "flush", "ruleset")
        system.must("systemctl", "restart", LAYOUT.probe_unit)
        assert has_table(system)
