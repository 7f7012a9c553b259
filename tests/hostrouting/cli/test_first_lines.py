"""The first line of `status`, `plan` and `apply` has the reason: what differs, what is missing, and when
a run would fail.
"""

import json
from collections.abc import Callable

import pytest

from hostrouting.testing import FakeHost, plain_vm
from tests.support.cli import say
from tests.support.incidents import (
    GUARDED,
    KUBELET,
    add_ib0,
    apply,
    apply_installed,
    config,
    escaping_node,
    node,
    plan,
    plan_installed,
)
from tests.support.tasks import CIDR, LAYOUT, REPAIR, lose_routes, manager_of, type_routes


def stop_guard(host: FakeHost) -> None:
    """Somebody stops the guard."""
    manager_of(host).stop(LAYOUT.guard_unit)


def lose_routes_and_guard(host: FakeHost) -> None:
    """The routes are lost while the guard does not run; nothing escapes here."""
    stop_guard(host)
    lose_routes(host)


def edit_step(host: FakeHost) -> None:
    """Somebody edits a step of the gate."""
    host.files.texts[LAYOUT.step_path(LAYOUT.routes_step)] += "# mine\n"


def delete_gate(host: FakeHost) -> None:
    """Somebody deletes two files without which kubelet cannot start."""
    host.files.remove(LAYOUT.gate_path)
    host.files.remove(LAYOUT.step_path(LAYOUT.routes_step))


DIFFERENCES: dict[str, Callable[[FakeHost], None]] = {
    "2 routes are missing and the guard does not run": lose_routes_and_guard,
    "the guard does not run": stop_guard,
    f"{LAYOUT.step_path(LAYOUT.routes_step)} is not as installed": edit_step,
    f"{KUBELET} cannot start, and 2 files are not as installed": delete_gate,
}


@pytest.mark.parametrize("reason", DIFFERENCES)
def test_what_differs(reason: str) -> None:
    """`status` names the routes, the guard and the files that are not as installed."""
    host = node(config(*REPAIR, guard=GUARDED), plain_vm)
    DIFFERENCES[reason](host)
    assert say("status", host=host).lines[0] == f"DIFFERENT: {reason}"


@pytest.mark.parametrize(
    ("shut", "first"),
    [
        (["kubelet.service"], "pods.service can start unchecked and kubelet.service cannot start"),
        (
            ["kubelet.service", "systemd-nspawn@.service"],
            "pods.service can start unchecked and the other units cannot start",
        ),
    ],
)
def test_one_of_several_units_is_open_and_the_gate_is_shut(shut: list[str], first: str) -> None:
    """`status` says which unit starts unchecked, and which ones cannot start."""
    host = node(config(*REPAIR, gate={"units": ["pods.service", *shut]}), plain_vm)
    counts_as_success = {"LoadState": "loaded", "SuccessExitStatus": "255"}
    manager_of(host).properties["pods.service"] = counts_as_success
    host.files.remove(LAYOUT.gate_path)
    missing = f"{LAYOUT.gate_path} is not as installed"
    assert say("status", host=host).lines[0] == f"DIFFERENT: {first}, and {missing}"


@pytest.mark.parametrize(("mode", "end"), [("STRICT", ", and then fail"), ("WARN", "")])
def test_a_family_without_a_default_route(mode: str, end: str) -> None:
    """`plan` says which family has no default route, and what `apply` would do before it waits."""
    host = node(config(mode=mode), plain_vm)
    both = {"expectedCidrs": [CIDR, "fd00::/64"], "mode": mode}
    text = json.dumps(config(*REPAIR, routeOverlap=both))
    missing = "there is no IPv6 default route"

    planned = plan(host, text)
    would = f"so apply would make the changes below, wait for one{end}"
    assert planned.code == 3
    assert planned.lines[0] == f"NOT READY: {missing}, {would}"

    first = apply(host, text).lines[0]
    if mode == "STRICT":
        assert first.startswith(f"FAILED: {missing}, and the mode is STRICT")
    else:
        assert first.endswith(f", but {missing}")

    again = say("plan", host=host).lines[0]
    assert again == f"NOT READY: {missing}, so apply would wait for one{end}"
    assert say("status", host=host).lines[0] == f"ATTENTION: {missing}"


def test_a_plan_of_what_is_installed_where_addresses_escape() -> None:
    """`apply` would change nothing, and fail; the last line of the page repairs that."""
    host = escaping_node()
    lines = say("plan", host=host).lines
    assert lines[0] == "WOULD FAIL: addresses escape, and the mode is STRICT"
    assert lines[-2:] == [
        "To repair that, as root:",
        "  hostrouting repair | hostrouting apply --config -",
    ]
    of_a_file = plan_installed(host).lines
    assert of_a_file[-1] == "  hostrouting repair --config FILE | hostrouting apply --config -"


def test_a_plan_says_when_apply_fails_only_after_its_changes() -> None:
    """WOULD FAIL does not mean that nothing is changed."""
    host = escaping_node()
    type_routes(host, *REPAIR)
    deletion = "apply would delete routes that are not in the configuration"
    refused = f"WOULD FAIL: apply would change nothing, because {deletion}"
    assert plan_installed(host).lines[0].startswith(refused)

    allowed = plan_installed(host, "--allow-removal")
    changes = "so apply would make the changes below, and then fail"
    assert allowed.lines[0] == f"WOULD FAIL: addresses escape, and the mode is STRICT, {changes}"
    assert deletion in allowed.out
    assert "Nothing was changed." not in apply_installed(host, "--allow-removal").out


@pytest.mark.parametrize("mode", ["STRICT", "WARN"])
def test_apply_ends_with_what_status_says(mode: str) -> None:
    """The page of `apply` ends with that of `status`: after a failure with its first line, too, which
    the first line of `apply` has otherwise.
    """
    host = node(config(mode=mode), plain_vm)
    assert apply_installed(host).lines[1:] == say("status", host=host).lines[1:]
    add_ib0(host)
    text = json.dumps(config(mode=mode))
    applied = apply(host, text)
    headline, *page = say("status", host=host).lines
    if mode == "STRICT":
        assert applied.code == 1
        assert applied.lines[-len(page) - 1 :] == [headline, *page]
    else:
        assert applied.code == 0
        assert applied.lines[-len(page) :] == page
        assert headline not in applied.lines

    document = apply(host, text, "--json").json
    now = say("status", "--json", host=host).json
    assert document["findings"] == now["findings"]
    assert document["check"] == now["check"]
