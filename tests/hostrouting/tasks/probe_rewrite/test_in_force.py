"""When the rules and the route are there: with a link that is down, without an address, with IPv6 off, or in the way.

Here: the boot script and the task on one node with a real kernel. Not here: what the rules do to packets
(`test_packets`), and how the guard keeps them (`tasks/guard`).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.balancer import GLOBAL, NODE, POD, PROBE, Lab, laboratory, nft, ping
from tests.support.rewriting import Rewriting
from tests.support.tasks import failure_of

pytestmark = [pytest.mark.linux, pytest.mark.needs("root", "nft")]

TABLE = "hostrouting_slb"


@pytest.fixture
def lab() -> Iterator[Lab]:
    """The three hosts, without rules."""
    with laboratory() as made:
        yield made


def listed(lab: Lab) -> str:
    """The table with the handles of its parts; empty if there is none."""
    return lab.node.run("nft", "--handle", "--stateless", "list", "table", "ip6", TABLE).stdout


def has_route(lab: Lab) -> bool:
    """Whether the node has the route for the replies."""
    return "dev eth0" in lab.node.run("ip", "-6", "route", "show", GLOBAL).stdout


def after_a_reboot(lab: Lab) -> Rewriting:
    """The task on a node that has its files, and neither the table nor the route."""
    rewriting = Rewriting(lab.node, wait=1)
    rewriting.apply()
    lab.node.batch([f"route delete {GLOBAL}/128 dev eth0"])
    nft(lab.node, "flush ruleset")
    return rewriting


def test_a_boot_before_the_address(lab: Lab, tmp_path: Path) -> None:
    """The script loads rules and route on a node without an address; when DHCPv6 brings it, the rules work."""
    rewriting = after_a_reboot(lab)
    lab.node.batch([f"address delete {NODE}/64 dev eth0"])
    assert rewriting.boot(tmp_path) == ""
    assert (PROBE in listed(lab), has_route(lab)) == (True, True)
    assert rewriting.standing().is_right
    lab.node.batch([f"address add {NODE}/64 dev eth0 nodad"])
    ping(lab.balancer, PROBE, POD)
    assert rewriting.standing().is_right
    assert rewriting.plan().is_empty


def test_a_link_that_is_down_when_a_machine_starts(lab: Lab, tmp_path: Path) -> None:
    """The machine starts without a wait, the table stays; with the link up again, the next start adds the route."""
    rewriting = after_a_reboot(lab)
    rewriting.boot(tmp_path)
    lab.node.batch(["link set eth0 down"])
    said = rewriting.boot(tmp_path, "15")
    assert "no route by eth0 within 0 s (Error: Nexthop device is not up.)" in said
    assert (bool(listed(lab)), has_route(lab)) == (True, False)
    assert rewriting.standing().is_in_force
    assert rewriting.plan().operations == ()
    lab.node.batch(["link set eth0 up"])
    assert (rewriting.boot(tmp_path, "15"), has_route(lab)) == ("", True)


def test_ipv6_is_off(lab: Lab, tmp_path: Path) -> None:
    """With IPv6 off on the uplink, script and task load the rules, wait for nothing, and name the setting."""
    rewriting = after_a_reboot(lab)
    lab.node.sysctl("ipv6/conf/eth0/disable_ipv6", 1)
    said = rewriting.boot(tmp_path)
    assert f"{GLOBAL}: IPv6 is off on eth0, so no probe arrives there: set net.ipv6.conf.eth0.disable_ipv6 to 0" in said
    before = listed(lab)
    assert before
    rewriting.apply()
    assert (listed(lab), rewriting.standing().is_right) == (before, True)


@pytest.mark.parametrize("theirs", ["", "flags dormant;", "chain mine {\n }"])
def test_a_foreign_table_stays(lab: Lab, tmp_path: Path, theirs: str) -> None:
    """A table of our name that another program has made is neither loaded over nor deleted, and is reported."""
    rewriting = after_a_reboot(lab)
    nft(lab.node, f"table ip6 {TABLE} {{\n {theirs}\n }}")
    before = listed(lab)
    with pytest.raises(AssertionError, match="is not ours"):
        rewriting.boot(tmp_path)
    assert "is not ours" in str(rewriting.standing().findings[0])
    failure_of(rewriting.apply, match="is not ours")
    rewriting.remove()
    assert listed(lab) == before
