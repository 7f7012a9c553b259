"""Somebody edits the installed config.json in its place: the file says what is configured, and
`status` compares the host with it.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.cli import say
from tests.support.incidents import (
    GUARDED,
    KUBELET,
    apply_installed,
    config,
    edit_config,
    node,
    plan_installed,
)
from tests.support.tasks import LAYOUT, REPAIR

LAYOUTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "one line": json.dumps,
    "sorted": lambda document: json.dumps(document, indent=8, sort_keys=True),
    "a default that is written out": lambda document: json.dumps(
        document | {"hostRouting": document["hostRouting"] | {"manageForeign": None}}
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_another_layout_is_no_difference(layout: Callable[[dict[str, Any]], str]) -> None:
    """The file says the same, so it stays as it is written."""
    host = node(config(*REPAIR))
    before = host.files.texts[LAYOUT.config_path]
    text = layout(json.loads(before))
    assert text != before
    host.files.texts[LAYOUT.config_path] = text
    status = say("status", host=host)
    assert status.code == 0
    assert status.lines[0].startswith("INSTALLED: ")
    assert plan_installed(host).lines[0].startswith("NOTHING TO DO: ")
    assert apply_installed(host).code == 0
    assert host.files.texts[LAYOUT.config_path] == text


def test_another_layout_with_another_mode() -> None:
    """Who may write the file is compared all the same."""
    host = node(config(*REPAIR))
    document = json.loads(host.files.texts[LAYOUT.config_path])
    host.files.texts[LAYOUT.config_path] = json.dumps(document)
    host.files.modes[LAYOUT.config_path] = 0o666
    status = say("status", host=host)
    assert status.code == 1
    assert f"GATE-SHUT: users other than root can write to {LAYOUT.config_path}, " in status.out
    assert apply_installed(host).code == 0
    assert say("status", host=host).code == 0


EDITS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a route less": (
        lambda settings: settings["staticRoutes"]["routes"].pop(),
        f"{REPAIR[1]} would escape, and does not escape now",
    ),
    "kubelet is not gated": (
        lambda settings: settings["gate"].update(units=["systemd-nspawn@.service"]),
        f"  remove {LAYOUT.drop_in_path(KUBELET)}",
    ),
    "no guard": (lambda settings: settings.pop("guard"), f"  stop {LAYOUT.guard_unit}"),
}


@pytest.mark.parametrize(("edit", "words"), EDITS.values(), ids=EDITS)
def test_what_is_left_of_the_former_configuration(
    edit: Callable[[dict[str, Any]], object], words: str
) -> None:
    """`status` names what is on the host and not in the file any more."""
    host = node(config(*REPAIR, guard=GUARDED))
    edit_config(host, edit)
    status = say("status", host=host)
    assert status.code == 1
    assert status.lines[0].startswith("DIFFERENT: ")
    assert words in status.out


def test_a_unit_that_only_its_drop_in_gates() -> None:
    """A unit that was taken out of the file still starts through the gate, and `status` says
    why.
    """
    host = node(config(*REPAIR))
    edit_config(host, lambda settings: settings["gate"].update(units=["k3s.service"]))
    status = say("status", "kubelet", host=host)
    drop_in = f"is still gated by its drop-in, although {LAYOUT.config_path} does not gate it"
    assert f"{KUBELET} {drop_in}" in status.lines
    assert f"  {KUBELET} runs" in status.lines
