"""hostrouting.status: how a host compares with what is installed on it; tests/hostrouting/cli has
its pages, and carries out the commands that it proposes.
"""

from collections.abc import Callable

import attrs
import pytest

from hostrouting.errors import BackendError
from hostrouting.gate.unit_gates import APPLY
from hostrouting.install.typed_commands import repair_pipeline
from hostrouting.kernel.rights import Rights
from hostrouting.status import State, find_status
from hostrouting.testing import FakeHost, h200
from tests.hostrouting.cli.test_pages import (
    GARBLED,
    OPENED,
    applied,
    broken,
    of,
    silent,
    taken,
    with_full_run,
    with_kubelet,
    with_ours,
    without_default,
)
from tests.support.cli import say
from tests.support.tasks import CIDR, LAYOUT, document, lose_routes, manager_of


def lose_a_file(host: FakeHost) -> None:
    """The program is gone."""
    host.files.remove(LAYOUT.program_path)


def program_is_a_folder(host: FakeHost) -> None:
    """A folder is in the place of the program."""
    host.files.remove(LAYOUT.program_path)
    host.files.texts[f"{LAYOUT.program_path}/inside"] = ""


def config_is_a_folder(host: FakeHost) -> None:
    """A folder is in the place of config.json."""
    host.files.texts[f"{LAYOUT.config_path}/inside"] = host.files.texts.pop(LAYOUT.config_path)


HOSTS: dict[State, tuple[Callable[[], FakeHost], str]] = {
    "nothing": (of(h200), ""),
    "installed": (applied(), ""),
    "different": (applied(change=lose_routes), APPLY.command),
    "escaping": (applied(document(), lose_a_file), repair_pipeline()),
    "failing": (applied(change=program_is_a_folder), ""),
    "conflict": (applied(change=taken), repair_pipeline()),
    "waiting": (applied(document("9.0.0.0/8", cidrs=()), without_default), ""),
    "broken": (applied(change=GARBLED), ""),
    "unanswered": (silent, ""),
}


@pytest.mark.parametrize("state", HOSTS)
def test_each_state_and_what_to_type(state: State) -> None:
    """There is one host for each state; where one command makes it right, it is that."""
    make, command = HOSTS[state]
    status = find_status(make())
    assert status.state == state
    assert status.command == command
    may_apply = state not in {"broken", "conflict", "not-configured", "failing", "escaping"}
    assert may_apply or all(finding.remedy != APPLY for finding in status.findings)


@pytest.mark.parametrize(
    ("host", "code"),
    [
        (of(h200), 0),
        (applied(), 0),
        (applied(change=OPENED), 1),
        (applied(change=with_full_run), 1),
        (applied(change=broken), 2),
        (applied(change=GARBLED), 2),
        (applied(change=config_is_a_folder), 2),
        (silent, 3),
    ],
    ids=[
        "nothing",
        "right",
        "open",
        "/run is full",
        "broken and open",
        "broken",
        "a folder",
        "silent",
    ],
)
def test_exit_codes(host: Callable[[], FakeHost], code: int) -> None:
    """A problem is worse than a bad file, and that worse than no answer."""
    assert find_status(host()).code == code


def test_an_image_on_which_nothing_is_installed() -> None:
    """It has no kernel, which is not asked."""
    status = find_status(FakeHost.image())
    assert status.state == "nothing"
    assert status.unanswered == ()
    assert status.findings == ()


@pytest.mark.parametrize("unit", ["ssh.service", LAYOUT.guard_unit])
def test_a_unit_where_systemd_does_not_run(unit: str) -> None:
    """Nothing is known of the unit, and systemd is not asked."""
    host = applied()()
    manager_of(host).running = False
    status = find_status(host, unit)
    assert status.asked == ""
    assert status.unanswered == ()


def test_one_part_hides_no_other() -> None:
    """Without a plan, the check and systemd's answers are there; of a broken file, what the disk
    and systemd show.
    """
    host = applied()()
    host.faults.fail("snapshot", BackendError("no answer", kind="timeout"))
    status = find_status(host)
    assert status.check is not None
    assert status.guard == "is not enabled"
    [error] = status.unanswered
    assert status.findings[0] == error.findings[0]
    status = find_status(applied(change=broken)())
    assert [unit.state for unit in status.units] == ["runs", "was refused"]
    assert {finding.name for finding in status.findings} == {"file", "gate-open"}


def test_the_verdicts_of_the_check() -> None:
    """There are none where nothing is installed, or nothing is expected."""
    assert find_status(of(h200)()).report is None
    assert find_status(applied(document("9.0.0.0/8", cidrs=()))()).report is None
    status = find_status(applied()())
    assert status.check is not None
    assert status.report is status.check.report


def test_what_the_last_check_has_found() -> None:
    """The marker has it; a repair by hand since then makes the verdict another one."""
    host = applied(document(mode="WARN"))()
    assert find_status(host).last_check.startswith(f"OVERLAP: {CIDR} leaves through ib0")
    assert "the last check" not in say("status", host=host).out, "it is the verdict now"
    with_ours(host)
    status = find_status(host)
    assert status.check is not None
    assert status.check.report.verdict == "ok"
    assert status.last_check.partition(":")[0] == "OVERLAP"
    assert find_status(applied()()).last_check == "ok"
    assert find_status(of(h200)()).last_check == ""


@pytest.mark.parametrize("unit", [None, "systemd-nspawn@kube0.service"])
@pytest.mark.parametrize(
    "make",
    [
        applied(),
        applied(change=lose_routes),
        applied(change=with_kubelet),
    ],
    ids=["right", "different", "not gated"],
)
def test_a_full_run(make: Callable[[], FakeHost], unit: str | None) -> None:
    """No check can say what it finds, so a warning says why, to root, whatever else is wrong."""
    host = make()
    before = find_status(host, unit).findings
    with_full_run(host)
    after = find_status(host, unit).findings
    [full] = set(after).difference(before)
    assert len(after) == len(before) + 1
    assert (full.name, full.severity, full.target) == ("file", "warning", LAYOUT.state_directory)
    assert full.sentence == (
        "no result of a check can be written to /run/aks-flex-node: No space left on device; free "
        "some space, or inodes (df -i)"
    )
    of_user = attrs.evolve(host, rights=lambda: Rights(is_root=False))
    assert find_status(of_user, unit).findings == before


def test_an_image_that_is_mounted_read_only() -> None:
    """It gets a /run of its own when it boots."""
    host = attrs.evolve(applied()(), backend=None)
    before = find_status(host).findings
    with_full_run(host)
    assert find_status(host).findings == before


def test_a_full_run_where_nothing_is_checked() -> None:
    """It does not matter there."""
    assert find_status(applied(document("9.0.0.0/8", cidrs=()), with_full_run)()).findings == ()
