"""`clean azure-vnet`: what it says, and what it does when told so."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostrouting.testing import FakeFiles, FakeHost
from tests.support import azure_leftovers as azure
from tests.support.cli import say

UNDO = "/var/lib/hostrouting/azure-vnet-1.undo"
ACTIVE = {"/etc/cni/net.d/10-azure.conflist": '{"plugins": [{"type": "azure-vnet"}]}'}


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A configuration that names the networks only; the path."""
    path = tmp_path / "agent.json"
    path.write_text(json.dumps({"hostRouting": {"azureVnetCleanup": {"managed": list(azure.MANAGED)}}}))
    return str(path)


@pytest.fixture
def host() -> FakeHost:
    """A host that azure-vnet has left."""
    return azure.host()


def test_the_plan(config: str, host: FakeHost) -> None:
    """Without --apply, the page has what is stale, what stays, and the command that deletes; nothing changes."""
    before = str(host.bridge_rules)
    said = say("clean", "azure-vnet", "--config", config, host=host)
    assert said.code == 1
    assert said.lines[0] == "STALE: 13 things of azure-vnet to delete"
    stale = f"  rule {azure.STALE_RULES[0]}    # another CNI manages 10.1.0.5, and no device has the MAC"
    assert any(line.startswith(stale) for line in said.lines)
    assert "In conflict, and kept (two CNIs may use one address):" in said.lines
    assert said.lines[-1] == f"To delete this, as root: hostrouting clean azure-vnet --config {config} --apply"
    assert str(host.bridge_rules) == before
    assert not host.files.writes


def test_apply(config: str, host: FakeHost) -> None:
    """--apply deletes it and says how to bring it back; a second time there is nothing to do."""
    applied = say("clean", "azure-vnet", "--config", config, "--apply", host=host)
    assert (applied.code, applied.lines[0]) == (0, "DONE: 13 things deleted")
    assert applied.lines[-1] == f"To restore it, as root: sh {UNDO}"
    again = say("clean", "azure-vnet", "--config", config, "--apply", host=host)
    nothing = "NOTHING TO DO: nothing of azure-vnet is stale"
    assert (again.code, again.lines[0]) == (0, nothing)
    assert say("clean", "azure-vnet", "--config", config, host=host).lines[0] == nothing
    assert host.bridge_rules.rules == list(azure.KEPT_RULES)


def stale(document: dict[str, Any]) -> list[Any]:
    """The stale entries of a plan."""
    return [entry for entry in document["entries"] if entry["fate"] == "delete"]


def test_json(config: str, host: FakeHost) -> None:
    """As a document: what is stale, what was done, and the file that brings it back."""
    plan = say("clean", "azure-vnet", "--config", config, "--json", host=host).json
    assert (plan["ok"], len(stale(plan)), plan["undoFile"]) == (True, 13, None)
    applied = say("clean", "azure-vnet", "--config", config, "--apply", "--json", host=host).json
    assert stale(applied) == stale(plan)
    assert (len(applied["operations"]), applied["undoFile"]) == (13, UNDO)


def test_refused(config: str) -> None:
    """If azure-vnet is active, the plan says that --apply would be refused, and it is."""
    host = azure.host(files=FakeFiles(dict(ACTIVE)))
    why = "/etc/cni/net.d/10-azure.conflist says that azure-vnet manages this node's pods"
    planned = say("clean", "azure-vnet", "--config", config, host=host)
    assert planned.code == 1
    assert planned.lines[0].startswith(f"REFUSED: --apply would delete nothing: {why}")
    applied = say("clean", "azure-vnet", "--config", config, "--apply", host=host)
    assert applied.code == 1
    assert applied.lines[0].startswith(f"FAILED: nothing was deleted: {why}")
    assert host.bridge_rules.writes == []


def test_a_part_is_left(config: str, host: FakeHost) -> None:
    """The answer lists the failures first, then what was still deleted, and how to restore that."""
    host.kernel.faults.fail("change", 105)
    said = say("clean", "azure-vnet", "--config", config, "--apply", host=host)
    assert said.code == 1
    assert said.lines[0].startswith(f"FAILED: 12 of 13 entries were deleted, and are saved in {UNDO}; not deleted: ")
    assert said.lines[2] == "What it has changed before it failed:"
    assert said.lines[-1].endswith(f": sh {UNDO}")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("clean", "azure-vnet"), 2, "azureVnetCleanup: missing; name a configuration"),
        (("clean", "azure-vnet", "--apply"), 2, "azureVnetCleanup: missing; name a configuration"),
        (("clean", "cilium"), 2, "'cilium' is not a known CNI"),
    ],
)
def test_bad_usage(words: tuple[str, ...], code: int, told: str, host: FakeHost) -> None:
    """A missing or malformed file is bad input."""
    said = say(*words, host=host)
    assert said.code == code
    assert told in said.err
