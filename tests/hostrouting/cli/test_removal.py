"""`remove` says what escapes without hostrouting, and is not hindered by what is broken."""

import shlex
from unittest import mock

import pytest

from hostrouting.errors import BackendError
from hostrouting.testing import plain_vm
from tests.support.cli import say
from tests.support.incidents import KUBELET, config, node
from tests.support.tasks import CIDR, LAYOUT, REPAIR


def test_a_removal_says_before_and_after_what_escapes() -> None:
    """It also says which units start unchecked then, and why the routes are deleted."""
    host = node(config(*REPAIR))
    verdict = f"OVERLAP: all of {CIDR} leaves through ib0; expected: eth0"
    dry_run = say("remove", "--dry-run", host=host)
    assert dry_run.code == 1
    assert dry_run.out.count("# delete: hostrouting is removed") == len(REPAIR)
    assert f"Then nothing holds back {KUBELET}." in dry_run.lines
    assert dry_run.lines[-2:] == ["The verdict afterwards:", verdict]

    assert f"To be able to go back, copy {LAYOUT.config_path} first." in dry_run.lines

    removed = say("remove", host=host)
    assert removed.code == 0
    assert removed.lines[-2:] == [verdict, f"To see what repairs that: hostrouting check {CIDR}"]


def test_the_proposed_check_gives_the_same_verdict() -> None:
    """It expects the devices that were expected: the installed configuration, which had them, is
    gone.
    """
    expected = {"expectedCidrs": [CIDR], "expectedDevs": ["ib1", "ib2"], "mode": "WARN"}
    host = node(config(*REPAIR, routeOverlap=expected))
    *_, verdict, proposal = say("remove", host=host).lines
    assert verdict == f"OVERLAP: all of {CIDR} leaves through ib0; expected: ib1 or ib2"
    command = proposal.removeprefix("To see what repairs that: hostrouting ")
    checked = say(*shlex.split(command), host=host).lines[0]
    assert checked.startswith(f"OVERLAP: {CIDR} leaves through ib0 ")
    assert checked.endswith("; expected: ib1 or ib2")


def test_a_removal_that_lets_nothing_escape() -> None:
    """Then there is nothing to repair."""
    said = say("remove", host=node(config(), plain_vm))
    assert "OK: every address of" in said.out
    assert "repairs" not in said.out


def test_a_kernel_that_does_not_answer_does_not_hinder_a_removal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is only no verdict."""
    host = node(config(*REPAIR))
    no_answer = mock.Mock(side_effect=BackendError("no answer", kind="timeout"))
    monkeypatch.setattr("hostrouting.cli.commands.remove.check_snapshot", no_answer)
    removed = say("remove", host=host)
    assert removed.code == 0
    assert removed.lines[0].startswith("DONE: ")
    assert "verdict" not in removed.out


def test_a_missing_configuration_does_not_hinder_a_removal() -> None:
    """Nothing says what was expected, so there is no verdict. Nor is there a file to copy."""
    host = node(config(*REPAIR))
    host.files.remove(LAYOUT.config_path)
    dry_run = say("remove", "--dry-run", host=host)
    assert dry_run.lines[0].startswith("TO DO")
    assert f"Then nothing holds back {KUBELET}." in dry_run.lines
    assert "To be able to go back" not in dry_run.out
    removed = say("remove", host=host)
    assert removed.code == 0
    assert "verdict" not in removed.out
