"""A machine starts again and again beside a unit that flushes nftables at every such start.

The node agent ships nftables-flush.service, which every start of a machine pulls in, and which is ordered after and
before nothing that matters. What is promised: when the machine's own program is executed, the table is in force.

    python -m tests.system.flushing --starts 1000
    python -m tests.system.flushing --starts 100 --unordered --late 0.2

Here: the host, its starts, and what was in force at each. Not here: what the table does to packets.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import phases
from hostrouting.boot.gate import Gate, Part
from hostrouting.boot.gate_files import GateStep, StepKind
from hostrouting.boot.probe import ProbeScript, render_probe_script, render_probe_unit
from hostrouting.boot.units import FLUSHERS, render_preset
from hostrouting.config.probe_rewrite import ProbeRewriteConfig
from hostrouting.host.fileset import File, FileSet, unit_file
from hostrouting.host.host import Host
from tests.support.gate import KUBE1, LAYOUT, await_start, end
from tests.support.needs import absent
from tests.support.systemd import NEEDS, System, booted
from tests.support.waiting import wait_for

CONFIG = ProbeRewriteConfig(enabled=True, interfaces=["eth0"], required=True)
TABLE, TOLD = CONFIG.table, ProbeScript(CONFIG, wait=5)
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
# In the place of the machine's own program, which it becomes after it has left word.
_WITNESS = f"""\
#!/bin/sh
nft list table ip6 {TABLE} >/dev/null 2>&1 && word=in-force || word=missing
echo "$word $*" >>/run/test-ran
exec /usr/bin/systemd-nspawn.real "$@"
"""
WORD = "/run/test-ran"
_LATE = """\
#!/bin/bash
exec sleep "$(printf '%d.%03d' 0 "$((RANDOM % {most}))")"
"""


def part(host: Host, told: ProbeScript = TOLD) -> Part:
    """The script, which runs at every start of a machine, and the unit that runs it at every boot."""
    layout = host.layout
    unit = unit_file(layout.probe_unit_path, render_probe_unit(layout), layout=layout)
    preset = File(layout.probe_preset_path, render_preset(layout.probe_unit))
    files = FileSet(
        (unit, preset), links=((layout.probe_enabled_path, f"{layout.unit_directory}/{layout.probe_unit}"),)
    )
    script = File(layout.probe_script_path, render_probe_script(told, layout=layout), mode=0o755)
    kind: StepKind = "requires" if told.config.required else "wants"
    return Part(GateStep(70, kind, "probe-rewrite"), files, layout.probe_unit, FileSet((script,)))


@contextmanager
def flushing(
    *,
    is_ordered: bool = True,
    late: float = 0,
    after: str = "",
    machines: tuple[str, ...] = ("kube1",),
    more: Mapping[str, str] | None = None,
    steps: str = "",
    told: ProbeScript = TOLD,
    tree: Path | None = None,
) -> Iterator[System]:
    """A booted host with the gate, the script behind it, and the unit that flushes.

    Unless `is_ordered`, the gate does not come after that unit. `late` is by how many seconds it flushes later than it
    could; it flushes once the file `after` has text. `steps` are further lines in the list of the gate.
    """
    units = {f"/etc/systemd/system/{FLUSH}": _FLUSH_UNIT, "/etc/systemd/system/test-network.service": _NETWORK_UNIT}
    if after:
        until = f"until [ -s {after} ]; do sleep 0.02; done"
        units[f"/etc/systemd/system/{FLUSH}.d/after.conf"] = f"[Service]\nExecStartPre=/bin/sh -c '{until}'\n"
    if late:
        units[f"/etc/systemd/system/{FLUSH}.d/late.conf"] = f"[Service]\nExecStartPre=/bin/sleep {late}\n"

    def furnish(root: str) -> None:
        host = Host.offline(root)
        Gate(host).change(phases.Context(observers=[]), (part(host, told),))
        paths = host.layout
        listed = host.files.read(paths.gate_steps_path) or ""
        host.files.write(paths.gate_steps_path, listed.replace("end\n", f"{steps}end\n"))
        if not is_ordered:
            text = host.files.read(paths.gate_unit_path) or ""
            host.files.write(paths.gate_unit_path, text.replace(f" {FLUSHERS}", ""))

    links = {
        f"/etc/systemd/system/systemd-nspawn@.service.requires/{FLUSH}": f"/etc/systemd/system/{FLUSH}",
        "/etc/systemd/system/sysinit.target.wants/test-network.service": "/etc/systemd/system/test-network.service",
    }
    with booted({**units, **(more or {})}, links=links, machines=machines, furnish=furnish, tree=tree) as system:
        system.settled()
        nspawn = "/usr/bin/systemd-nspawn"
        system.must("mv", nspawn, f"{nspawn}.real")
        system.lay(nspawn, _WITNESS, mode=0o755)
        yield system


def has_table(system: System) -> bool:
    """Whether the table is in the kernel."""
    return system.run("nft", "list", "table", "ip6", TABLE).returncode == 0


def in_force(system: System, name: str = "kube1") -> list[bool]:
    """For each start of the machine so far, whether the table was in force when its program was executed."""
    words = system.outside(WORD)
    lines = words.read_text().splitlines() if words.exists() else []
    return [line.startswith("in-force ") for line in lines if f"--machine={name}" in line]


def start_once(system: System) -> str:
    """Start the machine, end it, and tell what came of it.

    `in force`: the table was there when the machine's program was executed, and when all was done. `missing`: it was
    not. `refused`: the machine has not started.
    """
    before = len(in_force(system))
    system.must("systemctl", "reset-failed")  # else systemd refuses the sixth flush in ten seconds
    system.must("systemctl", "start", "--no-block", KUBE1)
    runs = await_start(system)
    found = in_force(system)[before:]
    wait_for("the flush", lambda: system.show(FLUSH, "ActiveState") in {"inactive", "failed"})
    stayed, has_flushed = has_table(system), system.show(FLUSH, "Result") == "success"
    end(system)
    if not runs and has_flushed and not found:
        return "refused"
    if not (runs and has_flushed and len(found) == 1):
        said = "".join(map(system.journal, (FLUSH, KUBE1, LAYOUT.gate_unit)))
        raise RuntimeError(
            f"the machine has not started once, after one flush: {runs}, {has_flushed}, {found}\n{said[-3000:]}"
        )
    return "in force" if found[0] and stayed else "missing"


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.system.flushing", description=__doc__.partition("\n")[0])
    parser.add_argument("--starts", type=int, default=100)
    parser.add_argument("--unordered", action="store_true", help="have the gate not come after the unit that flushes")
    parser.add_argument(
        "--late", type=float, default=0, help="flush up to so many seconds later, less than one, at random"
    )
    asked = parser.parse_args()
    if lacking := absent(NEEDS):
        parser.error(f"it needs {', '.join(lacking)}")
    began, counts = time.monotonic(), Counter[str]()
    late = "/etc/systemd/system/nftables-flush.service.d/late.conf"
    with flushing(is_ordered=not asked.unordered) as system:
        if asked.late:
            # No daemon-reload between two starts: a program that draws how long it sleeps.
            system.lay("/usr/local/bin/late", _LATE.format(most=max(1, int(asked.late * 1000))), mode=0o755)
            system.lay(late, "[Service]\nExecStartPre=/usr/local/bin/late\n")
            system.must("systemctl", "daemon-reload")
        for number in range(1, asked.starts + 1):
            counts[outcome := start_once(system)] += 1
            if outcome != "in force":
                sys.stdout.write(f"start {number}: {outcome}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{asked.starts} starts in {time.monotonic() - began:.0f} s: {dict(counts)}\n")
    return 0 if counts["in force"] == asked.starts else 1


if __name__ == "__main__":
    sys.exit(_main())
