"""What is printed as a remedy: pasted and applied it closes the escapes, and takes nothing away."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostrouting.kernel.base import RouteRequest
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import OURS, Route
from hostrouting.model.rule import Rule
from hostrouting.testing import FakeHost, MemoryBackend, h200
from tests.support.cli import Said, say

CIDR, GATEWAY = "172.16.0.0/16", as_ip("10.0.0.1")
HALF, OTHER = {"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}
APART = {"destination": "10.99.0.0/16", "gateway": "10.0.0.2"}


def pasted(said: Said) -> dict[str, Any]:
    """The whole configuration that is printed."""
    at = said.lines.index('  {"staticRoutes": {"enabled": true, "routes": [')
    document: dict[str, Any] = json.JSONDecoder().raw_decode("\n".join(said.lines[at:]).strip())[0]
    return document


def items(said: Said) -> list[dict[str, Any]]:
    """The routes that are printed."""
    rows = [text for text in said.lines if text.startswith('    {"destination"')]
    return list(json.loads("[" + "".join(rows) + "]"))


def steps(host: FakeHost, path: str) -> list[str]:
    """What applying this would do to routes."""
    return [step["action"] for step in say("plan", "--config", path, "--json", host=host).json["steps"]]


@pytest.fixture
def bare(written: Callable[..., str]) -> FakeHost:
    """A host with two of our routes; one repairs half of the overlap."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", written(HALF, APART, mode="WARN"), host=host)
    return host


@pytest.mark.parametrize("command", ["check", "repair"])
def test_a_whole_configuration_keeps_the_routes_of_ours(bare: FakeHost, tmp_path: Path, command: str) -> None:
    """If no configuration is known a whole one is printed: with our present routes, the CIDRs and the mode."""
    bare.files.texts.clear()
    bare.files.links.clear()
    said = say(command, CIDR, host=bare)
    document = pasted(said)
    assert document["routeOverlap"] == {"expectedCidrs": [CIDR], "mode": "WARN"}
    path = tmp_path / "pasted.json"
    path.write_text(json.dumps(document))
    assert sorted(steps(bare, str(path))) == ["add", "keep", "keep"]
    assert say("apply", "--config", str(path), host=bare).code == 0
    assert say("check", CIDR, host=bare).code == 0
    assert "It includes the 2 routes of hostrouting that this host already has." in said.out


def test_a_configuration_is_added_to(bare: FakeHost, written: Callable[..., str]) -> None:
    """With a configuration only what it lacks is printed, to be added; with it, apply closes all and deletes nothing."""
    config = written(HALF, APART)
    said = say("check", "--config", config, host=bare)
    told = f"Permanently, add this to staticRoutes.routes of {config} and run, as root: hostrouting apply --config {config}"
    assert told in said.lines
    assert '"staticRoutes"' not in said.out
    added = written(HALF, APART, *items(said))
    assert sorted(steps(bare, added)) == ["add", "keep", "keep"]
    assert say("apply", "--config", added, host=bare).code == 0


def test_what_a_configuration_lacks_besides(bare: FakeHost, written: Callable[..., str]) -> None:
    """One of our routes that apply would delete, because the configuration lacks it, is among the routes to add."""
    said = say("check", "--config", written(OTHER), host=bare)
    assert [item["destination"] for item in items(said)] == ["172.16.0.0/17"]
    config = written(OTHER, *items(said))
    assert say("apply", "--config", config, "--allow-removal", host=bare).code == 0


def held(prefix: str) -> MemoryBackend:
    """An H200 node where another program has a route for the prefix into the fabric."""
    kernel = h200()
    kernel.ip_route("add", Route.to(prefix, dev="ib0", protocol=4))
    return kernel


@pytest.mark.parametrize("command", ["check", "repair"])
def test_a_configured_route_that_somebody_else_holds(written: Callable[..., str], command: str) -> None:
    """The remedy is to delete the impossible entry from the configuration; then the plan has no conflict."""
    host = FakeHost(kernel=held("172.16.0.0/17"))
    config = written(HALF, OTHER)
    said = say(command, "--config", config, host=host)
    assert (
        f"In {config}, delete the entry for 172.16.0.0/17: another program's route has this destination and metric, "
        "and hostrouting leaves that route as it is."
    ) in said.lines
    followed = written(OTHER, *items(said))
    assert "conflict" not in steps(host, followed)
    assert say("apply", "--config", followed, host=host).code == 0


def test_a_configuration_that_has_the_way_out_already(written: Callable[..., str]) -> None:
    """If the remaining routes repair it, the remedy is only to remove the entries that cannot be installed."""
    host = FakeHost(kernel=held("172.16.0.0/17"))
    quarters = ({"destination": "172.16.0.0/18"}, {"destination": "172.16.64.0/18"})
    config = written(HALF, OTHER, *quarters)
    said = say("check", "--config", config, host=host)
    told = (
        f"Permanently, in {config}, delete the entry for 172.16.0.0/17: another program's route has this destination "
        "and metric, and hostrouting leaves that route as it is. "
        f"The others repair it; run, as root: hostrouting apply --config {config}"
    )
    assert told in said.lines
    assert say("apply", "--config", written(OTHER, *quarters), host=host).code == 0


def test_cidrs_that_were_named_besides(written: Callable[..., str]) -> None:
    """The remedy for CIDRs given in addition to a configuration: add them to it, and enable it."""
    said = say("check", "172.16.0.0/17", "--config", written(), kernel=h200())
    assert "Also add to routeOverlap.expectedCidrs, unless they are there: 172.16.0.0/17" in said.lines
    assert "Also set staticRoutes.enabled to true." in said.lines
    assert "expectedDevs" not in said.out
    said = say("check", "--config", written(), "--dev", "eth0", kernel=h200())
    assert 'Also set routeOverlap.expectedDevs to ["eth0"].' in said.lines


def test_a_route_of_ours_that_holds_the_key_is_replaced() -> None:
    """A command replaces exactly where the holder of the key is ours, and the kernel takes each as it is printed."""
    kernel = h200()
    kernel.ip_route("add", Route.to("172.16.0.0/17", dev="ib0", protocol=213))
    said = say("check", CIDR, kernel=kernel)
    found = re.findall(r"^  ip route (\w+) (\S+) via (\S+) dev (\S+) proto 213$", said.out, re.MULTILINE)
    assert [(verb, prefix) for verb, prefix, *_ in found] == [("replace", "172.16.0.0/17"), ("add", "172.16.128.0/17")]
    commands = say("repair", CIDR, "--json", kernel=kernel).json["commands"]
    assert [text.split()[2] for text in commands] == ["replace", "add"]
    changes = [
        RouteRequest(
            "replace" if verb == "replace" else "add", Route.to(prefix, dev=dev, gateway=gateway, protocol=213)
        )
        for verb, prefix, gateway, dev in found
    ]
    with kernel.reopen() as backend:
        assert all(it.ok for it in backend.change(changes))
    assert say("check", CIDR, kernel=kernel).code == 0


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("installs", [False, True])
def test_a_repair_that_is_piped_into_apply(written: Callable[..., str], *, named: bool, installs: bool) -> None:
    """The configuration that repair prints alone can be applied as it is, keeps what was there, and closes all."""
    host = FakeHost(kernel=h200())
    config = written(HALF, APART, cidrs=(CIDR, "10.99.0.0/16"))
    if installs:
        say("apply", "--config", config, host=host)
    printed = say("repair", CIDR, "--as-config", *(("--config", config) if named else ()), host=host)
    assert printed.code == 0
    assert "the repair diverts addresses of 172.16.0.0/16 from ib0" in printed.err
    assert say("apply", "--config", "-", stdin=printed.out.encode(), host=host).code == 0
    assert say("check", CIDR, host=host).code == 0
    kept = HALF["destination"], APART["destination"]
    routes = {route["destination"] for route in printed.json["staticRoutes"]["routes"]}
    assert routes == (
        {*kept, OTHER["destination"]} if named or installs else {HALF["destination"], OTHER["destination"]}
    )
    overlap = printed.json["routeOverlap"]
    assert overlap["mode"] == ("STRICT" if named or installs else "WARN")
    assert set(overlap["expectedCidrs"]) == ({CIDR, "10.99.0.0/16"} if named or installs else {CIDR})
    if not named:
        assert printed.json == pasted(say("repair", CIDR, host=FakeHost(kernel=h200()))) or installs
    again = say("repair", CIDR, "--as-config", "--config", "-", stdin=printed.out.encode(), host=host)
    assert (again.code, again.json) == (0, printed.json)


def test_routes_of_the_other_family_are_kept() -> None:
    """With nothing installed, the configuration that repairs IPv4 has our present IPv6 routes, too.

    Kills: repair reads only the family of its question.
    """
    kernel = h200()
    six = "2001:db8::/32"
    kernel.ip_route("add", Route.to(six, dev="eth0", protocol=OURS))
    printed = say("repair", CIDR, "--as-config", kernel=kernel)
    assert {six} < {route["destination"] for route in printed.json["staticRoutes"]["routes"]}


def test_no_configuration_that_repairs(written: Callable[..., str]) -> None:
    """If no route can repair it, or the expected devices are unknown, no configuration is printed for apply."""
    refusing = h200()
    refusing.add_rule(Rule(family=4, priority=100, action="prohibit", dst=Prefix.parse(CIDR)))
    for kernel, code, told in (
        (refusing, 1, "no static route can repair it: 172.16.0.0"),
        (MemoryBackend(), 3, "NO-DEFAULT-ROUTE: there is no IPv4 default route"),
    ):
        said = say("repair", CIDR, "--as-config", kernel=kernel)
        assert (said.code, said.out) == (code, "")
        assert told in said.err
    host = FakeHost(kernel=h200())
    held = say("repair", "--as-config", "--config", written({"destination": CIDR}), host=host)
    assert (
        "left out of the configuration: the entry for 172.16.0.0/16: another program's route has this destination and"
        in held.err
    )
    assert say("apply", "--config", "-", stdin=held.out.encode(), host=host).code == 0


def test_a_repair_for_other_nodes_too() -> None:
    """The configuration leaves gateway and device open if those of the default route are right; given ones stay."""
    kernel = h200()
    with kernel.reopen() as backend:
        mine = Route.to("9.0.0.0/8", dev="eth0", gateway=GATEWAY, protocol=213)
        away = Route.to("11.0.0.0/8", dev="eth0", gateway=as_ip("10.0.0.9"), protocol=213)
        assert all(it.ok for it in backend.change([RouteRequest("add", mine), RouteRequest("add", away)]))

    def ways(*words: str) -> dict[str, tuple[str, str]]:
        routes = say("repair", CIDR, "--as-config", *words, kernel=kernel).json["staticRoutes"]["routes"]
        return {route["destination"]: (route["gateway"], route["dev"]) for route in routes}

    halves = HALF["destination"], OTHER["destination"]
    found = ways()
    assert {half: found[half] for half in (*halves, "9.0.0.0/8")} == dict.fromkeys((*halves, "9.0.0.0/8"), ("", ""))
    assert found["11.0.0.0/8"] == ("10.0.0.9", "eth0")
    assert {ways("--dev", "eth0")[half] for half in halves} == {("", "eth0")}


@pytest.mark.parametrize("installs", [False, True])
def test_a_repair_keeps_the_guard(tmp_path: Path, *, installs: bool) -> None:
    """The other sections of the installed configuration, or of the named one, are in the one that is printed."""
    path = tmp_path / "guarded.json"
    guard = {"enabled": True}
    path.write_text(json.dumps({"routeOverlap": {"expectedCidrs": [CIDR]}, "guard": guard}))
    host = FakeHost(kernel=h200())
    if installs:
        say("apply", "--config", str(path), host=host)
    printed = say("repair", "--as-config", *(() if installs else ("--config", str(path))), host=host)
    assert printed.json["guard"] == guard


@pytest.mark.parametrize(
    ("words", "mode"), [((), "WARN"), (("--mode", "STRICT"), "STRICT"), (("--mode", "warn"), "WARN")]
)
def test_the_mode_of_a_repair(words: tuple[str, ...], mode: str) -> None:
    """The mode of a new configuration is WARN unless --mode says otherwise, also of the one that is shown."""
    assert say("repair", CIDR, "--as-config", *words, kernel=h200()).json["routeOverlap"]["mode"] == mode
    assert pasted(say("repair", CIDR, *words, kernel=h200()))["routeOverlap"]["mode"] == mode


def test_another_mode_than_that_of_a_configuration(written: Callable[..., str]) -> None:
    """The given mode replaces the mode of the named configuration; if nothing else changes, the answer says so."""
    config = written(HALF, mode="WARN")
    words = ("repair", "--config", config, "--mode", "STRICT")
    assert say(*words, "--as-config", kernel=h200()).json["routeOverlap"]["mode"] == "STRICT"
    assert "Also set routeOverlap.mode to STRICT." in say(*words, kernel=h200()).lines
    assert "routeOverlap.mode" not in say("repair", "--config", config, kernel=h200()).out
