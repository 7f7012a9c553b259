"""The guard that should set lost routes again does not run, is masked, or has not set them:
`status` says why, and what to type.
"""

import json
from typing import Any

import attrs
import pytest

from hostrouting.gate.unit_gates import APPLY
from hostrouting.status import find_status
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
    start_vpn,
)
from tests.support.tasks import LAYOUT, REPAIR, lose_routes, manager_of, ours

GUARD = LAYOUT.guard_unit
UNMASK = f"systemctl unmask {GUARD}"
STATES = {
    "does not run": {"ActiveState": "inactive", "LoadState": "loaded"},
    "has failed": {
        "ActiveState": "failed",
        "LoadState": "loaded",
        "ExecMainStartTimestamp": "Thu 03:02 UTC",
    },
    "is masked": {"ActiveState": "inactive", "LoadState": "masked"},
    # systemd 254 and later, while the start waits for another unit.
    "is being restarted": {"ActiveState": "activating", "SubState": "auto-restart-queued"},
}


@pytest.mark.parametrize("state", STATES)
def test_a_guard_that_does_not_run(state: str) -> None:
    """Each reason has its own words; a guard that has failed has what it logged, too."""
    host = node(config(*REPAIR, guard=GUARDED))
    manager_of(host).properties[GUARD] = STATES[state]
    manager_of(host).errors[GUARD] = ("fork failed",)
    status = say("status", host=host)
    assert status.code == 1
    assert f"the guard {state}" in status.out
    assert ("fork failed" in status.out) == (state == "has failed")
    assert ("systemctl unmask" in status.out) == (state == "is masked")
    has_more = state in {"has failed", "is being restarted"}
    assert (f"    see: journalctl -u {GUARD}" in status.lines) is has_more


def test_a_guard_that_systemd_starts_again() -> None:
    """It waits for that until a second has passed."""
    host = node(config(*REPAIR, guard=GUARDED))
    manager_of(host).properties[GUARD] = {"ActiveState": "activating", "SubState": "auto-restart"}
    assert find_status(host).guard == "is being restarted"


def test_a_guard_that_is_masked_while_it_is_being_restarted() -> None:
    """Systemd will not start it, and the page says how to unmask it."""
    host = node(config(*REPAIR, guard=GUARDED))
    manager_of(host).properties[GUARD] = {**STATES["is being restarted"], "LoadState": "masked"}
    assert find_status(host).guard == "is masked"


# A masked guard.


def mask_file(host: FakeHost) -> None:
    """The mask of systemd is a link in the place of the file."""
    path = LAYOUT.unit_path(GUARD)
    host.files.remove(path)
    host.files.links[path] = "/dev/null"
    manager_of(host).stop(GUARD)
    manager_of(host).reload()


def mask_unit(host: FakeHost) -> None:
    """The file is as it should be, and systemd masks the unit all the same."""
    manager_of(host).properties[GUARD] = dict(STATES["is masked"])


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


def test_the_first_line_says_what_is_wrong_and_the_next_lines_what_to_type(
    masked: FakeHost,
) -> None:
    """The page and the document say that addresses escape, that the guard is masked, and what to
    type.
    """
    status = say("status", host=masked)
    command = f"{UNMASK} && {APPLY.command}"
    assert status.lines[:3] == [
        "DIFFERENT: addresses escape: 2 routes are missing and the guard is masked",
        "To make it match, as root:",
        f"  {command}",
    ]
    assert status.out.count("systemctl unmask") == 1
    assert "remove the link" not in status.out
    document = say("status", "--json", host=masked).json
    assert document["headline"] == status.lines[0]
    assert document["command"] == command
    unmask(masked)
    assert apply_installed(masked).code == 0
    assert say("status", host=masked).code == 0


def test_a_masked_guard_where_apply_alone_ends_no_escape() -> None:
    """Behind the command that unmasks it comes that of the repair."""
    host = node(config(guard=GUARDED), plain_vm)
    add_ib0(host)
    mask_unit(host)
    status = say("status", host=host)
    assert status.lines[2] == f"  {UNMASK} && hostrouting repair | hostrouting apply --config -"


def test_a_masked_guard_where_nothing_is_checked() -> None:
    """Without an expected CIDR, nothing can escape: the line is that of apply."""
    host = node(config(*REPAIR, guard=GUARDED, routeOverlap={}))
    lose_routes(host)
    mask_unit(host)
    assert say("status", host=host).lines[2] == f"  {UNMASK} && {APPLY.command}"


def test_a_masked_guard_is_not_the_only_reason_to_fail(masked: FakeHost) -> None:
    """The first line says that apply would fail, because no single command makes the host match."""
    masked.files.texts[f"{LAYOUT.gate_directory}/40-site.sh"] = "exit 0\n"
    headline = say("status", host=attrs.evolve(masked, missing={"bash"})).lines[0]
    assert "the guard is masked, and apply would fail: " in headline


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
    assert "the guard runs" in say("status", host=host).out


# A guard that runs.

RUNS = "; the guard runs\n"
HAS_NOT_SET_THEM = "; the guard runs, but has not set 2 missing routes"


def test_a_guard_that_runs_and_has_not_set_the_routes() -> None:
    """The guard should have set them; but not while these routes wait for a device."""
    host = node(config(*REPAIR, guard=GUARDED))
    assert RUNS in say("status", host=host).out
    lose_routes(host)
    status = say("status", host=host)
    assert HAS_NOT_SET_THEM in status.out
    again = f"to start it again, as root: systemctl restart {GUARD}"
    assert f"    it has logged no error; {again}" in status.lines
    assert f"    see: journalctl -u {GUARD}" in status.lines
    start_vpn(host)
    assert RUNS in say("status", host=host).out


def test_what_a_guard_that_runs_has_logged() -> None:
    """That says why it has not set the routes; where none is missing, it is old."""
    host = node(config(*REPAIR, guard=GUARDED))
    started = {"ActiveState": "active", "ExecMainStartTimestamp": "Thu 03:02 UTC"}
    manager_of(host).properties[GUARD] = started
    manager_of(host).errors[GUARD] = ("cannot lock the routes",)
    assert "cannot lock" not in say("status", host=host).out
    lose_routes(host)
    status = say("status", host=host)
    assert "    cannot lock the routes" in status.lines
    assert "it has logged no error" not in status.out


def test_a_guard_that_waits_for_one_of_its_routes() -> None:
    """It sets all of them or none, so it is not blamed for those that could be set."""
    settings = config(*REPAIR, guard=GUARDED)
    settings["staticRoutes"]["routes"][0]["dev"] = "eth0"  # which a VPN does not put in doubt
    host = node(settings)
    lose_routes(host)
    start_vpn(host)
    status = say("status", host=host)
    assert "NOT READY" in status.out
    assert RUNS in status.out


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
    assert "the guard does not run" not in say("status", host=host).out
