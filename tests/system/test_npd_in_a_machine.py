"""The plugin for node-problem-detector inside a machine, which sees the host's state directory as docs/fleet.md says."""

import re
import subprocess

from hostrouting.config.values import Mode
from tests.support.gate import HALVES, LAYOUT, config, configure, end, gate_tests, host, start
from tests.support.pages import PAGES
from tests.support.programs import EXAMPLES
from tests.support.systemd import MACHINE_SETTINGS, System

pytestmark = gate_tests

PLUGIN = (EXAMPLES / "fleet/npd/hostrouting-npd.sh").read_text(encoding="utf-8")

[BIND] = re.findall(r"```ini\n( *\[Files\]\n.*?)```", PAGES["docs/fleet.md"], re.DOTALL)


def in_the_machine(system: System, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script where the machine's first process sees its files."""
    leader = system.must("machinectl", "show", "--property=Leader", "--value", "kube1").strip()
    return system.run("nsenter", f"--target={leader}", "--mount", "--", "sh", "-s", stdin=script)


def answer(system: System) -> tuple[int, str]:
    """The exit code and the line of the plugin, run in the machine."""
    done = in_the_machine(system, PLUGIN)
    return done.returncode, done.stdout


def test_it_sees_what_the_host_writes() -> None:
    """The directory is there before the machine starts; later checks are seen, and cannot be changed from inside.

    Without the bind, the plugin says that the directory is not there.
    """
    settings = MACHINE_SETTINGS + re.sub(r"^ +", "", BIND, flags=re.MULTILINE)
    with host() as system:
        configure(system, config(mode=Mode.WARN))
        assert start(system) == 0
        code, line = answer(system)
        assert (code, line.partition(":")[0]) == (3, "UNKNOWN")
        assert f"there is no directory {LAYOUT.state_directory}: " in line
        end(system)
        system.lay("/etc/systemd/nspawn/kube1.nspawn", settings)
        system.must("rm", "-r", LAYOUT.state_directory)
        assert start(system) == 0
        code, line = answer(system)
        assert code == 1
        assert line.startswith("OVERLAP: expected CIDR ")
        configure(system, config(*HALVES, mode=Mode.WARN))
        code, line = answer(system)
        assert (code, line[:3]) == (0, "OK:")
        assert "Read-only file system" in in_the_machine(system, f"echo >{LAYOUT.report_path}").stderr
        end(system)
