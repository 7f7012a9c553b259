"""Somebody edits the installed config.json in its place: what protects the host stays as the
installed scripts have it, and the commands say what the edited file would take away.
"""

from collections.abc import Callable
from typing import Any

import pytest

from hostrouting.boot.unit_gates import APPLY
from tests.support.cli import say
from tests.support.incidents import GUARDED, KUBELET, apply_installed, config, edit_config, node
from tests.support.tasks import CIDR, LAYOUT, REPAIR, ours

EDITS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "WARN instead of STRICT": (
        lambda settings: settings["routeOverlap"].update(mode="WARN"),
        "STRICT is installed; with WARN, units start even if addresses escape",
    ),
    "a route less": (
        lambda settings: settings["staticRoutes"]["routes"].pop(),
        f"{REPAIR[1]} would lose the route that is installed",
    ),
    "another CIDR": (
        lambda settings: settings["routeOverlap"].update(expectedCidrs=["10.96.0.0/12"]),
        f"{CIDR} would no longer be checked",
    ),
    "kubelet is not gated": (
        lambda settings: settings["gate"].update(units=["systemd-nspawn@.service"]),
        "kubelet.service would no longer wait for the gate",
    ),
    "no guard": (
        lambda settings: settings.pop("guard"),
        "the guard that repairs routes would be removed",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_takes_nothing_away_unless_that_is_allowed(name: str) -> None:
    """`apply` refuses the edited file and changes nothing, until --allow-removal is typed."""
    edit, loss = EDITS[name]
    host = node(config(*REPAIR, guard=GUARDED))
    edit_config(host, edit)
    before = dict(host.files.texts)

    refused = apply_installed(host)
    assert refused.code == 2
    assert loss in refused.out
    assert host.files.texts == before
    assert len(ours(host)) == len(REPAIR)

    allowed = apply_installed(host, "--allow-removal")
    assert allowed.out.startswith(("DONE", "FAILED: addresses escape"))
    assert host.files.texts != before


@pytest.mark.parametrize("name", EDITS)
def test_status_says_what_an_edited_file_would_take_away(name: str) -> None:
    """`status` does not propose to apply the file, and does not take the file for what is in
    force.
    """
    edit, loss = EDITS[name]
    host = node(config(*REPAIR, guard=GUARDED))
    edit_config(host, edit)
    status = say("status", host=host)
    assert loss in status.lines[0]
    assert "apply would fail" in status.lines[0]
    assert f"{APPLY.command}\n" not in status.out
    assert f"{APPLY.command} --allow-removal" in status.out
    assert "mode STRICT; the guard runs" in status.out
    assert "UNIT-NOT-GATED" not in status.out


def test_an_edit_with_routes_that_would_wait() -> None:
    """The file of another node is copied here. The installed scripts go on, so the unit starts; the
    page says that it would not after `apply`, and does not propose to apply the file as it is.
    """
    host = node(config(*REPAIR))

    def copy_from_another_node(settings: dict[str, Any]) -> None:
        for route in settings["staticRoutes"]["routes"]:
            route["gateway"] = "10.9.9.1"

    edit_config(host, copy_from_another_node)
    status = say("status", host=host)
    needs = "need an address or route on eth0 that reaches the gateway 10.9.9.1 directly"
    assert status.lines[0] == (
        f"NOT READY: after apply, {KUBELET} could not start: "
        f"2 routes, such as {REPAIR[0]} via 10.9.9.1, {needs}"
    )
    commands = [line for line in status.lines if APPLY.command in line]
    assert commands == [
        f"  when {LAYOUT.config_path} is corrected, as root: {APPLY.command}",
    ]


def test_the_guard_is_kept_where_no_script_can_be_read() -> None:
    """The scripts say nothing of the guard then, but the guard's own script is there."""
    host = node(config(*REPAIR, guard=GUARDED))
    for step in (LAYOUT.routes_step, LAYOUT.check_step):
        host.files.texts[LAYOUT.step_path(step)] = "of another release\n"
    edit_config(host, lambda settings: settings.pop("guard"))
    refused = apply_installed(host)
    assert refused.code == 2
    assert "the guard that repairs routes would be removed" in refused.out
    assert LAYOUT.guard_path in host.files.texts


def test_a_unit_that_only_its_drop_in_gates() -> None:
    """A unit that was taken out of the file still starts through the gate,
    and `status` says why.
    """
    host = node(config(*REPAIR))
    edit_config(host, lambda settings: settings["gate"].update(units=["k3s.service"]))
    status = say("status", "kubelet", host=host)
    drop_in = f"is still gated by its drop-in, although {LAYOUT.config_path} does not gate it"
    assert f"{KUBELET} {drop_in}" in status.lines
    assert f"  {KUBELET} runs" in status.lines
