"""A guard that is masked, or that ends as soon as it was started: the commands say so, and what to
type.
"""

import json
from typing import Any

import attrs
import pytest

from hostrouting.gate.unit_gates import APPLY
from hostrouting.testing import FakeHost, FakeManager, plain_vm
from tests.support.cli import say
from tests.support.incidents import (
    GUARDED,
    add_ib0,
    apply,
    apply_installed,
    config,
    garble,
    node,
    plan_installed,
)
from tests.support.tasks import LAYOUT, REPAIR, lose_routes, manager_of, ours

GUARD = LAYOUT.guard_unit
UNMASK = f"systemctl unmask {GUARD}"


def mask_file(host: FakeHost) -> None:
    """The mask of systemd is a link in the place of the file."""
    path = LAYOUT.unit_path(GUARD)
    host.files.remove(path)
    host.files.links[path] = "/dev/null"
    manager_of(host).stop(GUARD)
    manager_of(host).reload()


def mask_unit(host: FakeHost) -> None:
    """The file is as it should be, and systemd masks the unit all the same."""
    manager_of(host).properties[GUARD] = {"ActiveState": "inactive", "LoadState": "masked"}


def unmask(host: FakeHost) -> None:
    """What systemctl unmask does."""
    host.files.links.pop(LAYOUT.unit_path(GUARD), None)
    manager_of(host).properties.pop(GUARD, None)
    manager_of(host).reload()


@pytest.fixture(params=[mask_file, mask_unit])
def masked(request: pytest.FixtureRequest) -> FakeHost:
    """A host of which somebody has masked the guard, and which has lost its routes since."""
    host = node(config(*REPAIR, guard=GUARDED))
    request.param(host)
    lose_routes(host)
    return host


def test_a_masked_guard_is_named_before_anything_is_changed(masked: FakeHost) -> None:
    """A masked guard cannot be started, so the run would fail."""
    planned = plan_installed(masked)
    assert planned.code == 1
    assert planned.lines[0].startswith("WOULD FAIL")
    assert UNMASK in planned.out
    refused = apply_installed(masked)
    assert refused.code == 1
    assert UNMASK in refused.out
    assert "Nothing was changed." in refused.out
    assert not ours(masked)


def test_the_last_line_unmasks_the_guard_and_makes_all_right(masked: FakeHost) -> None:
    """Behind the command that unmasks it comes that of apply, or of the repair where apply alone
    ends no escape.
    """
    assert say("status", host=masked).lines[-1] == f"  {UNMASK} && {APPLY.command}"
    unmask(masked)
    assert apply_installed(masked).code == 0
    assert say("status", host=masked).code == 0
    host = node(config(guard=GUARDED), plain_vm)
    add_ib0(host)
    mask_unit(host)
    repair = "hostrouting repair | hostrouting apply --config -"
    assert say("status", host=host).lines[-1] == f"  {UNMASK} && {repair}"


def test_a_check_knows_that_the_guard_is_masked(masked: FakeHost) -> None:
    """What unmasks it stands before the repair."""
    page = say("check", host=masked).out
    masked_line = f"REQUIREMENT: {GUARD} is masked, so apply cannot start it, and fails"
    assert f"\n{masked_line}; as root: {UNMASK}\n" in page
    assert page.index(UNMASK) < page.index("Permanently")
    unmask(masked)
    assert "unmask" not in say("check", host=masked).out
    assert apply_installed(masked).code == 0


def test_a_check_of_a_host_that_needs_no_repair_says_how_to_unmask_the_guard() -> None:
    """There is no line before a repair that could say it."""
    host = node(config(*REPAIR, guard=GUARDED))
    mask_unit(host)
    assert say("check", host=host).out.count(UNMASK) == 1


def test_a_check_beside_a_broken_file_says_how_to_unmask_the_guard(masked: FakeHost) -> None:
    """The file that is named brings the guard back, so its repair fails while the guard is
    masked.
    """
    settings = json.dumps(config(*REPAIR, guard=GUARDED)).encode()
    garble(masked)
    page = say("check", "--config", "-", host=masked, stdin=settings).out
    assert page.count(UNMASK) == 1
    assert "The repair takes something away: /etc/hostrouting/config.json" in page
    assert "hostrouting apply --config - --allow-removal" in page
    unmask(masked)
    assert UNMASK not in say("check", "--config", "-", host=masked, stdin=settings).out


def test_a_guard_that_was_unmasked_runs_after_apply() -> None:
    """The state that a test gives to a unit ends when the unit is started."""
    host = node(config(*REPAIR, guard=GUARDED))
    mask_unit(host)
    lose_routes(host)
    manager_of(host).properties[GUARD]["LoadState"] = "loaded"
    assert apply_installed(host).code == 0
    assert f"  {GUARD} runs" in say("status", host=host).lines


@attrs.define
class DyingManager(FakeManager):
    """systemd starts a simple service without waiting whether it lives."""

    def start(self, unit: str, **options: Any) -> None:
        """See FakeManager. The unit ends at once."""
        super().start(unit, **options)
        self.states[unit] = "failed"


def test_apply_is_not_done_while_the_guard_does_not_run() -> None:
    """A guard that ends as soon as it was started is a failure."""
    host = node(config(*REPAIR))
    former = manager_of(host)
    errors: dict[str, tuple[str, ...]] = {GUARD: ("fork failed",)}
    dying = DyingManager(properties=former.properties, files=former.files, errors=errors)
    host = attrs.evolve(host, manager=dying)
    applied = apply(host, json.dumps(config(*REPAIR, guard=GUARDED)))
    assert applied.code == 1
    assert applied.lines[0].startswith(f"FAILED: {GUARD} failed")
    assert f"  {GUARD} fails by itself (exit-code, exit status 1)" in say("status", host=host).lines
