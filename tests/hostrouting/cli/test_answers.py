"""What the commands say of one host agrees, and they say what is to be typed next."""

import json
import re
import signal
from typing import Any

import pytest
from hypothesis import Phase, given, settings, strategies as st

from hostrouting.host.layout import HostLayout
from hostrouting.model.prefix import Prefix, width_of
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import FakeFiles, FakeHost, FakeKernel, h200
from tests.support.cli import Said, say
from tests.support.incidents import (
    config,
    node as node_with,
)
from tests.support.nodes import BITS, block_of, nodes
from tests.support.statuses import INCIDENTS
from tests.support.tasks import CIDR, REPAIR, lose_routes, manager_of, type_routes
from tests.support.topologies import (
    cni_node,
    refusing,
    vpn_node,
)


def routes_to(*destinations: str) -> dict[str, Any]:
    """A configuration with these static routes."""
    routes = [{"destination": destination} for destination in destinations]
    return {"staticRoutes": {"enabled": True, "routes": routes}}


def apply(host: FakeHost, settings: dict[str, Any], *options: str) -> Said:
    """Apply this configuration."""
    stdin = json.dumps(settings).encode()
    return say("apply", *options, "--config", "-", host=host, stdin=stdin)


# A host and its snapshot.

HOSTS = {
    "h200": h200,
    "vpn": vpn_node,
    "cni": cni_node,
    "refusing": refusing,
}


def of_a_snapshot(host: FakeHost, *words: str) -> Said:
    """What the command says of a snapshot, on a host with kubelet where nothing can be read."""
    saved = say("snapshot", host=host).out.encode()
    elsewhere = FakeHost(files=FakeFiles({HostLayout.config_path: "{"}))
    manager_of(elsewhere).properties["kubelet.service"] = {"LoadState": "loaded"}
    manager_of(elsewhere).states["kubelet.service"] = "active"
    return say(*words, "--snapshot", "-", host=elsewhere, stdin=saved)


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("words", ["check 172.16.0.0/12 10.0.0.0/8", "repair 172.16.0.0/12"])
def test_a_snapshot_is_judged_as_the_host_itself(name: str, words: str) -> None:
    """Whatever is installed where it is judged. The page says where a command is to be typed."""
    host = FakeHost(kernel=HOSTS[name]())
    for options in ([], ["--json"]):
        here = say(*words.split(), *options, host=host)
        there = of_a_snapshot(host, *words.split(), *options)
        assert (there.code, there.out) == (here.code, here.out)


# To shrink a failing node takes minutes, and its page says what is missing.
@settings(phases=set(Phase) - {Phase.shrink})
@given(node=nodes(), block=st.integers(0, BITS))
def test_the_page_has_each_finding(node: tuple[int, Snapshot], block: int) -> None:
    """In the verdict, or under its name; a repair and its cost are elsewhere, or not shown."""
    family, snapshot = node
    half = Prefix(family, block_of(family).first, width_of(family) - block)
    words = ("check", str(block_of(family)), str(half), "--snapshot", "-")
    saved = snapshot.to_json().encode()
    page = say(*words, stdin=saved).out
    for finding in say(*words, "--json", stdin=saved).json["findings"]:
        if finding["name"] != "action":
            what_happens, *_ = re.split("; expected: |, and should leave", finding["sentence"])
            assert what_happens in page


# Repairs: what is printed, and what has been typed already.


def test_a_deletion_is_proposed_once() -> None:
    """Where a blackhole hides pods, `check` and `repair` have its deletion once."""
    kernel = cni_node()
    kernel.ip_route("add", Route(Prefix.parse("10.244.0.128/25"), type="blackhole", protocol=4))
    command = "ip route del 10.244.0.128/25 table main proto 4"
    assert say("check", "10.244.0.0/24", kernel=kernel).out.count(command) == 1
    assert say("repair", "10.244.0.0/24", kernel=kernel).err.count(command) == 1


def test_a_repair_that_was_typed_already() -> None:
    """`repair` has no route for the next boot then, and says so."""
    host = FakeHost(kernel=h200())
    lines = say("check", CIDR, host=host).lines
    first = lines.index("Permanently, as root on the node:")
    assert first < lines.index("Or, only until the next boot, as root on the node:")
    sentence = "nothing escapes now, so no route is added"
    assert sentence not in say("repair", CIDR, host=host).err
    type_routes(host, *REPAIR, protocol=3)
    repaired = say("repair", CIDR, host=host)
    assert repaired.code == 0
    assert "staticRoutes" not in repaired.out
    assert sentence in repaired.err


def test_what_is_piped_is_empty() -> None:
    """As after a `repair` that has failed."""
    said = say("apply", "--config", "-", host=FakeHost(kernel=h200()), stdin=b"")
    assert said.code == 2
    assert said.err == "hostrouting: standard input is empty\n"


# `plan`, `apply` and then `status`.


def test_a_stopped_run() -> None:
    """The page says what was changed, and how the host is; the document has the reason."""
    host = FakeHost(kernel=FakeKernel())  # without a default route, so apply waits
    host.faults.meanwhile("snapshot", lambda: signal.raise_signal(signal.SIGINT), nth=2)
    said = apply(host, routes_to("9.0.0.0/8"))
    assert said.code == 130
    first, second, third, *others = said.lines
    assert first == "STOPPED: SIGINT; not everything was done"
    assert second == "What this run has changed:"
    assert third == f"  wrote {HostLayout.program_path}"
    assert "WAITING: 9.0.0.0/8 needs an IPv4 default route" in others

    host = FakeHost(kernel=FakeKernel())
    host.faults.meanwhile("snapshot", lambda: signal.raise_signal(signal.SIGTERM), nth=2)
    stopped = apply(host, routes_to("9.0.0.0/8"), "--json").json
    failed = apply(host, routes_to("9.0.0.0/8"), "--json", "--wait", "0.1")
    assert (stopped["failures"], stopped["stopped"]) == ([], "SIGTERM")
    assert failed.json["failures"]
    assert failed.json["stopped"] == ""
    assert re.match("waiting for up to .* s: 9.0.0.0/8 needs an IPv4 default route", failed.err)


# One family is asked for, and another one has no default route; and what nobody expects.


NO_IPV6 = "there is no IPv6 default route, so no device is expected"


def test_a_repair_of_one_family_does_not_say_that_the_other_is_right() -> None:
    """What is right once the configuration is applied may escape now."""
    host = node_with(config(*REPAIR))
    lose_routes(host)
    refused = say("repair", "fd00::/64", host=host)
    assert refused.code == 3
    assert NO_IPV6 in refused.err


def test_a_repair_of_one_family_says_what_the_other_lacks() -> None:
    """What is printed repairs only a part then, and the exit code says so."""
    said = say("repair", CIDR, "fd00::/64", kernel=h200())
    assert said.code == 1
    assert REPAIR[1] in said.out
    assert NO_IPV6 in said.err


def test_a_card_is_to_be_named_before_a_repair() -> None:
    """The repair would lead through the card that Linux prefers, and move routes that are right."""
    name = "differs: another card has a better default route, and addresses escape"
    page = say("check", host=INCIDENTS[name]())
    assert "Permanently" not in page.out
    assert "name the intended devices with --dev NAME, or in routeOverlap.expectedDevs" in page.out
