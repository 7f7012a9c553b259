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


def to_delete(said: Said) -> str:
    """The line of the page with the command that deletes the line of the drop-in."""
    [line] = [line for line in said.lines if "sed -i" in line]
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
    first = f"NOTHING TO DO: this host matches the configuration, but {KUBELET} starts unchecked: "
    assert said.code == code
    assert said.lines[0].startswith(first)
    assert f'the line "ExecCondition=" in {OVERRIDE} cancels the gate' in said.out
    assert to_delete(said).endswith(f"/d' {OVERRIDE} && systemctl daemon-reload")


@pytest.mark.linux
def test_the_command_that_deletes_the_line_which_cancels_the_gate(tmp_path: Path) -> None:
    """The command on the page deletes this line, and no other."""
    line = to_delete(say("status", host=with_loaded_override()))
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


def test_a_drop_in_that_adds_a_condition_takes_nothing_away() -> None:
    """Only an empty ExecCondition= resets the list."""
    host = node(config(*REPAIR))
    host.files.write(OVERRIDE, "[Service]\nExecCondition=/bin/true\n")
    assert "GATE-OPEN" not in say("status", host=host).out
    assert apply_installed(host).code == 0
