"""examples/fleet/ansible/clean_up.yml, run by Ansible over ssh on nodes that azure-vnet has left."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ansible_fleet import PROGRAM, Controller, Node, ansible_fleet
from tests.support.azure_rules import pod_rules
from tests.support.machine import ROOT
from tests.support.pages import page

pytestmark = [pytest.mark.linux, pytest.mark.nightly, pytest.mark.needs("root", "ssh", "sshd", "ebtables-nft")]

CONFIG = {"azureVnetCleanup": {"managed": ["10.1.0.0/16"], "ebtables": "nft"}}
SHOWN = re.findall(r"^\$ (ansible-playbook clean_up\.yml.*)$", page("fleet"), re.MULTILINE)
DEAD = "02:00:00:00:00:09"
FIRST, SECOND, LATE = (pod_rules(f"10.1.0.{number}", DEAD)[0] for number in (5, 6, 7))


def add(node: Node, *rules: str) -> None:
    """Add ebtables rules on the node, as azure-vnet does."""
    for rule in rules:
        node.machine.shell(f"ebtables-nft -t nat -A {rule}")


def rules(node: Node) -> list[str]:
    """The ebtables rules on the node."""
    return re.findall(r"^-A (.*)$", node.machine.shell("ebtables-nft-save"), re.MULTILINE)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Controller]:
    """Two nodes with stale rules, and one without, which each have the program."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from hostrouting.cli import main; sys.exit(main())"
    with ansible_fleet(["a-1", "a-2", "a-3"], pyz=tmp_path, config=CONFIG) as controller:
        for node in controller.nodes.values():
            node.machine.shell(f"mkdir -p {PROGRAM.rpartition('/')[0]}; echo {shlex.quote(program)} >{PROGRAM}")
            # ebtables knows by this file what ARP is, and the machine's /etc is empty.
            node.machine.run("sh", "-c", "cat >/etc/ethertypes", text=Path("/etc/ethertypes").read_text())
            node.machine.batch(["link add cilium0 type bridge", "link set cilium0 up"])
        for name in ("a-1", "a-2"):
            add(controller.nodes[name], FIRST, SECOND)
        yield controller


def test_the_story(fleet: Controller) -> None:
    """The first command changes nothing and writes what a person reads; the second deletes that, if it is still stale."""
    one, two, three = (fleet.nodes[name] for name in ("a-1", "a-2", "a-3"))
    planned = fleet.run(*shlex.split(SHOWN[0]))
    assert planned.code == 0, planned.out
    assert rules(one) == rules(two) == [FIRST, SECOND]
    review = (fleet.folder / "plans/review.txt").read_text()
    assert re.findall(r"^(\S+): (.*)$", review, re.MULTILINE) == [
        ("a-1", "2 to delete"),
        ("a-2", "2 to delete"),
        ("a-3", "0 to delete"),
    ]
    assert f"  rule {FIRST}    # 10.1.0.5 is managed by another CNI" in review

    add(two, LATE)
    two.machine.shell(f"ebtables-nft -t nat -D {FIRST}")
    approved = fleet.run(*shlex.split(SHOWN[1]))
    assert approved.code == 0, approved.out
    assert (rules(one), rules(two)) == ([], [LATE])
    changed = {task.node for task in approved.tasks if task.result.get("changed")}
    assert changed == {"a-1", "a-2"}
    told = json.loads(approved.of("a-2", "Delete").result["stdout"])
    assert [entry["spec"] for entry in told["unapproved"]] == [LATE]
    assert [node.left() for node in (one, two, three)] == [f"{PROGRAM}\n"] * 3
    assert FIRST in one.machine.shell("cat /var/lib/hostrouting/azure-vnet-1.undo")


def test_what_stops_it(fleet: Controller) -> None:
    """A node that does not answer is on the page; one that fails or dies is in the last batch; nothing is deleted unread."""
    one, two, three = (fleet.nodes[name] for name in ("a-1", "a-2", "a-3"))
    unread = fleet.run(*shlex.split(SHOWN[1]))
    assert unread.code != 0
    assert "run this playbook first without hostrouting_approved" in unread.out
    assert rules(one) == [FIRST, SECOND]
    three.die()
    planned = fleet.run(*shlex.split(SHOWN[0]))
    assert planned.code != 0
    assert "a-3: NO PLAN: the node did not answer" in (fleet.folder / "plans/review.txt").read_text()
    one.machine.shell('mkdir -p /etc/cni/net.d; echo \'{"type": "azure-vnet"}\' >/etc/cni/net.d/10.conf')
    stopped = fleet.run(*shlex.split(SHOWN[1]))
    assert stopped.code != 0
    assert "azure-vnet manages this node's pods" in stopped.of("a-1", "Delete").result["stdout"]
    assert rules(one) == rules(two) == [FIRST, SECOND]
    one.die()
    assert fleet.run(*shlex.split(SHOWN[1])).code != 0
    assert rules(two) == [FIRST, SECOND]


def test_a_plan_that_nobody_has_read(fleet: Controller) -> None:
    """A node that gave a plan once, and none the last time, is left alone: the page that was read does not have that plan."""
    one, two = (fleet.nodes[name] for name in ("a-1", "a-2"))
    assert fleet.run(*shlex.split(SHOWN[0])).code == 0
    two.machine.shell(f"mv {PROGRAM} {PROGRAM}.away")
    assert fleet.run(*shlex.split(SHOWN[0])).code != 0
    assert "a-2: NO PLAN" in (fleet.folder / "plans/review.txt").read_text()
    two.machine.shell(f"mv {PROGRAM}.away {PROGRAM}")
    assert fleet.run(*shlex.split(SHOWN[1])).code == 0
    assert (rules(one), rules(two)) == ([], [FIRST, SECOND])
