"""What a run says of a host before its first write, beside test_dry_run."""

from pathlib import Path

import pytest

from hostrouting.config.settings import MACHINES, GateConfig
from hostrouting.gate.health import find_faults
from hostrouting.host.host import Host
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeHost, FakeManager, h200
from tests.support.tasks import LAYOUT, WANTED, configured, run

KUBELET = "kubelet.service"
MACHINE = "systemd-nspawn@hostrouting-probe.service"
GATED = WANTED._replace(gate=GateConfig((KUBELET, MACHINES)))
ENVIRONMENTS = {
    "LD_PRELOAD=/opt/a.so HOME=/root LD_DEBUG=files": "LD_DEBUG and LD_PRELOAD",
    '"GCONV_PATH=/with blanks"': "GCONV_PATH",
    r'"OPTS=say \"hi\" LD_PRELOAD=x LOCPATH=y"': "",
    '"A=it\'s LD_PRELOAD=x" LD_AUDIT=y': "LD_AUDIT",
    "LD_BIND_NOW=1 TMPDIR=/tmp\u2028LD_AUDIT=x MALLOC_ARENA_MAX=2": "",
    '"A=what systemd would not print LD_PRELOAD=x': "LD_PRELOAD",
    "": "",
}
"""By what a unit has in its environment, as systemd shows it: what the gate takes away."""


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_variables_that_a_unit_loses(environment: str) -> None:
    """The run that gates the unit warns of them."""
    names = ENVIRONMENTS[environment]
    properties = {KUBELET: {"Environment": environment, "LoadState": "loaded"}}
    properties[MACHINE] = {"LoadState": "not-found"}  # a missing template is usual
    host = FakeHost(kernel=h200(), manager=FakeManager(properties=properties))
    plan = Configure(GATED, host=host).plan()
    if not names:
        assert plan.findings == ()
        return
    [finding] = plan.findings
    assert plan.would_fail == ""
    assert (finding.severity, finding.target) == ("warning", KUBELET)
    assert finding.sentence.startswith(f"{KUBELET} loses {names}, which its Environment= sets")
    run(Configure(GATED, host=host))
    assert Configure(GATED._replace(manage_foreign="keep"), host=host).plan().findings == ()


def test_another_mode_of_the_program() -> None:
    host = configured(WANTED)
    host.files.modes[LAYOUT.program_path] = 0o644
    plan = Configure(WANTED, host=host).plan()
    assert plan.files.written_paths == (LAYOUT.program_path,)
    [warning] = plan.findings
    assert (warning.severity, warning.target) == ("warning", LAYOUT.program_path)
    assert warning.sentence == f"{LAYOUT.program_path} has the mode 644, and not 755"


def test_an_interpreter_that_others_can_change() -> None:
    """It is named, and root does not run it, neither to find out more nor to compile."""
    python = "/usr/bin/python3"
    for host in (FakeHost(kernel=h200()), configured(GATED)):
        host.files.programs[python] = b""
        host.files.owners[python] = 1
        host.interpreter.broken = "it was run"
        host.files.programs.pop(LAYOUT.program_path, None)  # so it has to be compiled
        plan = Configure(GATED, host=host).plan()
        assert plan.would_fail.startswith(f"users other than root can change {python}, so ")
        assert "it was run" not in str(plan.findings) + plan.would_fail
    [untrusted] = find_faults(host, [KUBELET])
    assert untrusted.target == python


def test_an_image_that_a_group_may_write(tmp_path: Path) -> None:
    """A user's umask may have made it: the booted host is judged, by its gate and its status."""
    (tmp_path / "etc").mkdir(mode=0o775)
    (tmp_path / "etc").chmod(0o775)
    assert Configure(GATED, host=Host.offline(tmp_path)).plan().would_fail == ""
