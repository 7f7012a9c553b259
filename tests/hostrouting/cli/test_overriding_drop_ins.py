"""A drop-in of another program takes the gate away from a unit: it is named, before systemd reads
it and afterwards, with the command that ends that.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from hostrouting.gate.unit_gates import APPLY
from hostrouting.testing import FakeHost
from tests.support.cli import Said, say
from tests.support.incidents import (
    KUBELET,
    apply_installed,
    config,
    node,
    plan_installed,
)
from tests.support.programs import completed
from tests.support.tasks import LAYOUT, REPAIR, manager_of

DROP_IN = LAYOUT.drop_in_path(KUBELET)
OVERRIDE = f"{LAYOUT.unit_directory}/{KUBELET}.d/10-kubeadm.conf"


def with_loaded_override(mode: str = "STRICT") -> FakeHost:
    """A node on which a drop-in that systemd has loaded takes the gate away."""
    host = node(config(*REPAIR, mode=mode))
    host.files.write(OVERRIDE, "[Service]\nExecCondition=\n")
    manager_of(host).reload()
    return host


def gate_open(said: Said) -> str:
    """The line of the page with the finding GATE-OPEN."""
    [line] = [line for line in said.lines if line.startswith("GATE-OPEN")]
    return line


def test_an_overriding_drop_in_is_named_before_systemd_reads_it() -> None:
    """`apply` would have systemd read it, which opens the gate: it is refused, and changes
    nothing.
    """
    host = node(config(*REPAIR))
    host.files.write(OVERRIDE, "[Service]\nExecCondition=\n")
    calls = list(manager_of(host).calls)
    status = say("status", host=host)
    assert status.code == 1
    assert OVERRIDE in status.lines[0]
    assert f"{APPLY.command}\n" not in status.out
    refused = apply_installed(host)
    assert refused.code == 1
    assert OVERRIDE in refused.out
    assert manager_of(host).calls == calls


@pytest.mark.parametrize(("mode", "code"), [("STRICT", 1), ("WARN", 0)])
@pytest.mark.parametrize("command", [plan_installed, apply_installed])
def test_an_overriding_drop_in_that_systemd_has_loaded(
    command: Callable[[FakeHost], Said], mode: str, code: int
) -> None:
    """Nothing that `apply` does ends that, so `plan` and `apply` say it, and fail in STRICT."""
    said = command(with_loaded_override(mode))
    first = f"NOTHING TO DO: this host matches the configuration, but {KUBELET} can start unchecked"
    assert said.code == code
    assert said.lines[0] == first
    line = gate_open(said)
    assert f'the line "ExecCondition=" in {OVERRIDE} cancels the gate' in line
    assert line.endswith(f"/d' {OVERRIDE} && systemctl daemon-reload")


@pytest.mark.linux
def test_the_command_that_deletes_the_line_which_cancels_the_gate(tmp_path: Path) -> None:
    """The command on the page deletes this line, and no other."""
    line = gate_open(say("status", host=with_loaded_override()))
    sed, _, reload = line.partition("as root: ")[2].partition(" && ")
    assert reload == "systemctl daemon-reload"
    drop_in = tmp_path / "drop-in.conf"
    drop_in.write_text("[Service]\n ExecCondition = \nExecCondition=/bin/true\nRestart=always\n")
    completed(["bash", "-c", sed.replace(OVERRIDE, str(drop_in))], check=True)
    assert drop_in.read_text() == "[Service]\nExecCondition=/bin/true\nRestart=always\n"


def test_an_override_that_plan_is_told_to_ignore() -> None:
    """It does not count with --ignore; in WARN it does with --fail-on warning."""
    strict = with_loaded_override("STRICT")
    assert plan_installed(strict, "--fail-on", "warning", "--ignore", "gate-open").code == 0
    warn = with_loaded_override("WARN")
    assert plan_installed(warn, "--fail-on", "warning").code == 1


def test_a_repaired_drop_in_that_systemd_has_not_read() -> None:
    """`apply` has systemd read it, so no second command is proposed for that."""
    host = with_loaded_override()
    host.files.write(OVERRIDE, "[Service]\n")
    status = say("status", host=host)
    reason = f"{KUBELET} can start unchecked, and systemd has not read its files"
    assert status.lines[0] == f"DIFFERENT: {reason}"
    assert status.lines[2] == f"  {APPLY.command}"
    assert "GATE-OPEN: kubelet.service starts unchecked: systemd still uses" in status.out
    assert "systemctl daemon-reload" not in status.out
    assert apply_installed(host).code == 0
    assert say("status", host=host).code == 0


def test_a_drop_in_that_adds_a_condition_takes_nothing_away() -> None:
    """Only an empty ExecCondition= resets the list."""
    host = node(config(*REPAIR))
    host.files.write(OVERRIDE, "[Service]\nExecCondition=/bin/true\n")
    assert "GATE-OPEN" not in say("status", host=host).out
    assert apply_installed(host).code == 0


def test_our_own_drop_in_was_overwritten() -> None:
    """The page names this file, and no other drop-in;
    an `apply` that would fail is not proposed.
    """
    host = node(config(*REPAIR))
    host.files.write(DROP_IN, "[Service]\nExecCondition=\n")
    manager_of(host).reload()
    status = say("status", host=host)
    assert "another drop-in" not in status.out
    assert "cancels the gate" not in status.out
    assert f"starts unchecked: {DROP_IN} was overwritten" in status.out
    assert "apply would fail" in status.lines[0]
    assert APPLY.command not in status.out
