"""Incidents as an operator meets them: what `status` says of a host, and what happens when the
obvious command is typed there.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from hostrouting.boot.health import AGAIN
from hostrouting.model.route import OURS, Route
from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeHost, FakeKernel, h200, plain_vm
from tests.support.cli import Said, say
from tests.support.tasks import CIDR, LAYOUT, REPAIR, manager_of, ours

KUBELET = "kubelet.service"
DROP_IN = LAYOUT.drop_in_path(KUBELET)
OVERRIDE = f"{LAYOUT.unit_directory}/{KUBELET}.d/10-kubeadm.conf"
GUARDED: dict[str, object] = {"enabled": True}


def config(*routes: str, mode: str = "STRICT", **more: object) -> dict[str, Any]:
    """A configuration with these routes, which gates kubelet."""
    static = {"enabled": bool(routes), "routes": [{"destination": route} for route in routes]}
    check = {"expectedCidrs": [CIDR], "mode": mode}
    return {"staticRoutes": static, "routeOverlap": check, "gate": {"units": [KUBELET]}, **more}


def node(settings: dict[str, Any], kernel: Callable[[], FakeKernel] = h200) -> FakeHost:
    """A node on which kubelet runs, and this configuration is applied."""
    host = FakeHost(kernel=kernel())
    manager = manager_of(host)
    manager.states[KUBELET] = "active"
    manager.properties[KUBELET] = {"LoadState": "loaded", "UnitFileState": "enabled"}
    apply(host, json.dumps(settings))
    return host


def apply(host: FakeHost, text: str, *options: str) -> Said:
    """Apply this text."""
    return say("apply", "--wait", "0", "--config", "-", *options, host=host, stdin=text.encode())


def apply_installed(host: FakeHost, *options: str) -> Said:
    """Type the command that so many pages print."""
    return apply(host, host.files.texts[LAYOUT.config_path], *options)


def edited(host: FakeHost, edit: Callable[[dict[str, Any]], object]) -> None:
    """Somebody edits the installed config.json."""
    document = json.loads(host.files.texts[LAYOUT.config_path])
    edit(document["hostRouting"])
    host.files.texts[LAYOUT.config_path] = json.dumps(document, indent=2) + "\n"


def type_repair(host: FakeHost) -> None:
    """Somebody types the repair until the next boot."""
    for half in REPAIR:
        host.kernel.ip_route("add", Route.to(half, dev="eth0", gateway="10.0.0.1", protocol=OURS))


def with_ib0(kernel: FakeKernel) -> None:
    """A card gets an address in the expected network."""
    kernel.add_link(Link(name="ib0", index=0))
    kernel.add_address("ib0", "172.16.1.10/16")


def refuse(host: FakeHost, unit: str = KUBELET) -> None:
    """The gate has refused the unit."""
    condition = f"{{ path={LAYOUT.gate_path} ; argv[]={LAYOUT.gate_path} ; status=255 }}"
    manager = manager_of(host)
    manager.states[unit] = "failed"
    manager.properties[unit] = {
        "LoadState": "loaded",
        "ExecCondition": condition,
        "ActiveState": "failed",
        "StateChangeTimestamp": "Thu 03:02 UTC",
        "InvocationID": "1f",
    }
    manager.errors["1f"] = ("check-route-overlap: overlap",)


# config.json was edited where it lies.

EDITS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "WARN instead of STRICT": (
        lambda settings: settings["routeOverlap"].update(mode="WARN"),
        "STRICT is installed; with WARN, units start even if addresses escape",
    ),
    "a route less": (
        lambda settings: settings["staticRoutes"]["routes"].pop(),
        f"takes away the route to {REPAIR[1]}",
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


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_in_place_takes_nothing_away_unless_that_is_allowed(edit: str) -> None:
    """What protects the host is what the installed scripts do, and not what the edited file says."""
    change, loss = EDITS[edit]
    host = node(config(*REPAIR, guard=GUARDED))
    edited(host, change)
    before = dict(host.files.texts)
    refused = apply_installed(host)
    assert refused.code == 2
    assert loss in refused.out
    assert host.files.texts == before
    assert len(ours(host)) == len(REPAIR)
    assert apply_installed(host, "--allow-removal").out.startswith(("DONE", "FAILED: the verdict"))


@pytest.mark.parametrize("edit", EDITS)
def test_status_says_what_an_edited_file_would_take_away(edit: str) -> None:
    """It does not propose to apply the file, and does not take the file for what is in force."""
    change, loss = EDITS[edit]
    host = node(config(*REPAIR, guard=GUARDED))
    edited(host, change)
    status = say("status", host=host)
    assert loss in status.lines[0]
    assert "apply would fail" in status.lines[0]
    assert f"{AGAIN.command}\n" not in status.out
    assert f"{AGAIN.command} --allow-removal" in status.out
    assert "mode STRICT; the guard runs" in status.out
    assert "UNIT-NOT-GATED" not in status.out


# Drop-ins.


def test_an_overriding_drop_in_is_named_before_systemd_reads_it() -> None:
    """To apply would have systemd read it, which opens the gate: it is refused, and changes nothing."""
    host = node(config(*REPAIR))
    host.files.write(OVERRIDE, "[Service]\nExecCondition=\n")
    calls = list(manager_of(host).calls)
    status = say("status", host=host)
    assert status.code == 1
    assert OVERRIDE in status.lines[0]
    assert f"{AGAIN.command}\n" not in status.out
    refused = apply_installed(host)
    assert refused.code == 1
    assert OVERRIDE in refused.out
    assert manager_of(host).calls == calls


def test_a_drop_in_that_adds_a_condition_takes_nothing_away() -> None:
    """Only an empty ExecCondition= resets the list."""
    host = node(config(*REPAIR))
    host.files.write(OVERRIDE, "[Service]\nExecCondition=/bin/true\n")
    assert "GATE-OPEN" not in say("status", host=host).out
    assert apply_installed(host).code == 0


def test_our_own_drop_in_was_overwritten() -> None:
    """The page names this file, and no other drop-in; what must fail is not proposed."""
    host = node(config(*REPAIR))
    host.files.write(DROP_IN, "[Service]\n")
    manager_of(host).reload()
    status = say("status", host=host)
    assert "another drop-in" not in status.out
    assert f"starts unchecked: {DROP_IN} was overwritten" in status.out
    assert "apply would fail" in status.lines[0]
    assert AGAIN.command not in status.out


# Routes that somebody has typed.


def test_routes_that_were_typed_are_not_deleted_where_the_run_must_fail_then() -> None:
    """In STRICT, apply is refused before it deletes what keeps addresses from escaping."""
    host = node(config(), plain_vm)
    with_ib0(host.kernel)
    type_repair(host)
    refused = apply_installed(host)
    assert refused.code == 1
    assert len(ours(host)) == len(REPAIR)
    assert "Nothing was changed." in refused.out
    assert "hostrouting repair | hostrouting apply --config -" in refused.out
    assert (
        "WOULD FAIL"
        in say(
            "plan", "--config", "-", host=host, stdin=host.files.texts[LAYOUT.config_path].encode()
        ).out
    )
    assert apply_installed(host, "--allow-removal").code == 1
    assert not ours(host)
