"""What the snapshot script reads on a node, judged elsewhere: the answer is that of `hostrouting check`."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostrouting import HostRoutingConfig
from hostrouting.boot.scripts import render_snapshot_script
from hostrouting.fleet import Ran, routing_facts
from tests.support.cli import say
from tests.support.machine import H200, private_machine

CIDR = "172.16.0.0/16"
NODES = {
    "overlap": H200,
    "ok": [*H200, "route add 172.16.0.0/17 via 10.0.0.1", "route add 172.16.128.0/17 via 10.0.0.1"],
    "undecided": [
        *(line for line in H200 if "172.16." not in line),
        "rule add fwmark 0x10 lookup 100",
        "route add default dev ib0 table 100",
    ],
    "no-default-route": H200[:-1],
}
"""A node for each verdict."""
BOTH = [*H200, "address add 2001:db8::4/64 dev eth0 nodad", "-6 route add default via fe80::1 dev eth0"]


def config_for(*cidrs: str) -> dict[str, Any]:
    """A configuration that expects these CIDRs."""
    return {"routeOverlap": {"expectedCidrs": list(cidrs)}}


def read_on(lines: list[str]) -> Ran:
    """What the script prints on a node with these devices, addresses, rules and routes."""
    with private_machine() as node:
        for line in lines:
            node.ip(*line.split())
        done = node.run("sh", text=render_snapshot_script())
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.needs("root")
@pytest.mark.linux
@pytest.mark.parametrize("verdict", [*NODES, "both families"])
def test_the_answer_of_the_command(tmp_path: Path, verdict: str) -> None:
    """The check is the document of `hostrouting check --snapshot`, and the snapshot can be checked again."""
    both = verdict == "both families"
    ran, config = read_on(BOTH if both else NODES[verdict]), config_for(CIDR, *(["2001:db8:5::/64"] if both else []))
    found = routing_facts(ran, HostRoutingConfig.from_mapping(config))
    (tmp_path / "script.json").write_text(ran.output)
    (tmp_path / "facts.json").write_text(json.dumps(found.snapshot))
    (tmp_path / "config.json").write_text(json.dumps(config))
    by = ("--config", str(tmp_path / "config.json"), "--json")
    told, again = (say("check", "--snapshot", str(tmp_path / f"{it}.json"), *by).json for it in ("script", "facts"))
    assert told == again
    assert found.check is not None
    assert found.verdict == ("overlap" if both else verdict)
    assert found.check == {key: told[key] for key in found.check}
    # The command also looks for other tasks.
    assert set(told) - set(found.check) <= {"standings"}
    assert found.message.startswith(f"{told['verdict'].upper()}: ")


@pytest.mark.needs("root")
@pytest.mark.linux
def test_nothing_expected() -> None:
    """If no CIDR is expected, there is a snapshot and no check."""
    found = routing_facts(read_on(NODES["ok"]), HostRoutingConfig())
    assert (found.check, found.verdict, found.failed) == (None, None, False)
    assert found.message == "the snapshot was taken; no CIDR is expected, so nothing was checked"
    assert found.snapshot is not None
    assert {"eth0", "ib0"} <= {link["name"] for link in found.snapshot["links"]}


FAILURES = {
    "the script": (
        Ran(1, "", "hostrouting snapshot: this host does not have the ip of iproute2; install iproute2\n"),
        "the snapshot script did not print a snapshot; it ended with exit code 1; its message: hostrouting snapshot: ",
    ),
    "nothing": (Ran(0, "\n"), "it ended with exit code 0, without a message"),
    "no snapshot": (Ran(0, "Welcome!\n"), "snapshot: "),
    "half of it": (Ran(0, '{"schema": "hostrouting/ip-snapshot/1"}'), "snapshot: "),
    "bytes that are no text": (Ran(0, "\udcff"), "snapshot: "),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failures(failure: str) -> None:
    """If the node did not print a snapshot, the facts have failed, with the reason."""
    ran, told = FAILURES[failure]
    found = routing_facts(ran, HostRoutingConfig())
    assert (found.failed, found.snapshot, found.check) == (True, None, None)
    assert told in found.message


@pytest.mark.needs("root")
@pytest.mark.linux
def test_routes_that_the_configuration_has() -> None:
    """If the configuration has the routes of the repair already, the message asks for nothing but to apply it."""
    routes = [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}]
    ran = read_on(H200)
    for have, action in (
        (routes, "apply the configuration"),
        (routes[:1], '[{"destination": "172.16.128.0/17", "gateway": "", "dev": "", "metric": 0}]'),
    ):
        config = {**config_for(CIDR), "staticRoutes": {"enabled": True, "routes": have}}
        message = routing_facts(ran, HostRoutingConfig.from_mapping(config)).message
        assert message.partition("; ACTION: ")[2].endswith(action)
