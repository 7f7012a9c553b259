"""`repair`: the routes as commands or as a configuration, what they cost, and what they cannot close."""

import json
from pathlib import Path

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule
from hostrouting.testing import FakeHost, FakeKernel, h200, plain_vm
from tests.support.cli import say
from tests.support.tasks import REPAIR, config, configured
from tests.support.topologies import refusing

CIDR = "172.16.0.0/16"


def destinations(text: str) -> list[str]:
    """The destinations of the static routes in a configuration."""
    return [route["destination"] for route in json.loads(text)["staticRoutes"]["routes"]]


def test_the_whole_page() -> None:
    """The verdict, how many routes there are, the commands, and the cost."""
    said = say("repair", CIDR, kernel=h200())
    assert said.code == 0
    assert said.lines[:3] == [
        "OVERLAP: all of 172.16.0.0/16 leaves by ib0; expected: eth0",
        "2 static routes repair all of it, proved on the present tables.",
        "",
    ]
    assert said.lines[-1].startswith("REPAIR-COST: the repair takes a part of 172.16.0.0/16")
    document = say("repair", CIDR, "--json", kernel=h200()).json
    assert [route["destination"] for route in document["routes"]] == list(REPAIR)
    assert all(f"  {command}" in said.lines for command in document["commands"])


def test_nothing_to_repair() -> None:
    """Without an escape there is nothing to repair."""
    said = say("repair", CIDR, kernel=plain_vm())
    assert (said.code, said.lines[1:]) == (0, ["There is nothing to repair."])


def test_no_repair() -> None:
    """Where no route can repair anything, nothing is printed but the reason; without a default route likewise."""
    kernel = plain_vm()
    kernel.add_rule(Rule(family=4, priority=100, action="prohibit", dst=Prefix.parse(CIDR)))
    said = say("repair", CIDR, kernel=kernel)
    assert (said.code, said.out) == (1, "")
    assert "a rule decides before table main is looked up" in said.err
    said = say("repair", CIDR, "--as-config", kernel=FakeKernel())
    assert (said.code, said.out) == (3, "")
    assert "name the expected device: --dev DEV" in said.err


def test_a_part() -> None:
    """If some of it cannot be repaired, the exit code says so."""
    said = say("repair", CIDR, kernel=refusing())
    assert (said.code, "repair a part of it" in said.lines[1]) == (1, True)


def test_as_a_configuration() -> None:
    """The configuration has the check and its repair, and apply reads it; its cost is on standard error."""
    said = say("repair", CIDR, "--as-config", "--mode", "STRICT", kernel=h200())
    config = HostRoutingConfig.from_json(said.out)
    assert (destinations(said.out), config.route_overlap.mode) == (list(REPAIR), "STRICT")
    assert "neighbours there" in said.err


def test_the_installed_configuration_is_kept() -> None:
    """A configuration that is installed, or named, keeps its routes and CIDRs, and gets what it lacks."""
    host = configured(config("10.9.0.0/16", REPAIR[0], cidrs=("10.0.0.0/8",), mode="WARN"))
    said = say("repair", CIDR, "--as-config", host=host)
    assert destinations(said.out) == ["10.9.0.0/16", REPAIR[0], REPAIR[1]]
    assert json.loads(said.out)["routeOverlap"]["expectedCidrs"] == ["10.0.0.0/8", CIDR]


def test_an_entry_that_cannot_be_added(tmp_path: Path) -> None:
    """An entry whose destination another program's route holds is left out, and named."""
    kernel = h200()
    kernel.ip_route("add", Route.to("10.9.0.0/16", dev="ib3", protocol=3))
    path = tmp_path / "agent.json"
    path.write_text(config("10.9.0.0/16", cidrs=(CIDR,)).to_json())
    said = say("repair", "--config", str(path), "--as-config", host=FakeHost(kernel=kernel))
    assert destinations(said.out) == list(REPAIR)
    assert "left out of the configuration: 10.9.0.0/16 cannot be installed" in said.err
