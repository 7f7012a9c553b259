"""`check`: the verdict, what escapes, the repair, and what limits the verdict."""

from pathlib import Path

import pytest

from hostrouting.kernel.base import RouteRequest
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeKernel, cni_node, ecmp_node, h200, plain_vm, vpn_node
from tests.support.cli import say
from tests.support.topologies import marked_vm, refusing

CIDR = "172.16.0.0/16"


def test_the_whole_page() -> None:
    """The verdict, what escapes, the repair until the next boot and permanently, its cost, and the limits."""
    said = say("check", CIDR, kernel=h200())
    assert (said.code, said.err) == (1, "")
    assert said.lines == [
        "OVERLAP: all of 172.16.0.0/16 leaves by ib0; expected: eth0",
        "",
        "  ESCAPES        LEAVES BY  ROUTE          TABLE  OWNER                       RULE",
        "  172.16.0.0/16  ib0        172.16.0.0/16  main   the kernel, for an address  32766",
        "",
        "Until the next boot, as root:",
        "  ip route replace 172.16.0.0/17 proto 213 via 10.0.0.1 dev eth0",
        "  ip route replace 172.16.128.0/17 proto 213 via 10.0.0.1 dev eth0",
        "Permanently, as root:",
        "  hostrouting repair 172.16.0.0/16 --as-config | hostrouting apply --config -",
        "",
        (
            "REPAIR-COST: the repair takes a part of 172.16.0.0/16: neighbours there are no longer reached by ib0 "
            "over IP"
        ),
        "",
        "Only routing tables and rules are checked, as they are now; not firewalls, IPsec or eBPF programs.",
        "To see what is installed on the host, and whether it survives a reboot: hostrouting status",
    ]


@pytest.mark.parametrize(
    ("kernel", "cidr", "code", "answer"),
    [
        (plain_vm(), CIDR, 0, "OK: every address of 172.16.0.0/16 leaves by eth0, or is this host's own"),
        (cni_node(), "10.244.0.0/16", 0, "OK: every address of 10.244.0.0/16 leaves by eth0, or by cni0 (bridge),"),
        (ecmp_node(), CIDR, 0, "OK: every address of 172.16.0.0/16 leaves by eth0 or eth1"),
        (h200(), "172.16.5.9/12", 1, "OVERLAP: a part of 172.16.0.0/12 leaves by ib0; expected: eth0"),
        (vpn_node(), CIDR, 3, "UNDECIDED: packets to 172.16.0.0"),
        (marked_vm(), CIDR, 3, "UNDECIDED: some packets to 172.16.0.0"),
        (FakeKernel(), CIDR, 3, "NO-DEFAULT-ROUTE: there is no IPv4 default route, so no device is expected for"),
    ],
)
def test_each_verdict(kernel: FakeKernel, cidr: str, code: int, answer: str) -> None:
    """The first line has the verdict, the CIDR and the devices, and the exit code and the document the same."""
    said = say("check", cidr, kernel=kernel)
    assert said.lines[0].startswith(answer)
    document = say("check", cidr, "--json", kernel=kernel).json
    assert (said.code, document["verdict"]) == (code, answer.partition(":")[0].lower())
    assert document.keys() == {"schema", "verdict", "verdicts", "mode", "expectedDevs", "findings", "repair"}


def test_what_no_route_can_repair() -> None:
    """A range that an earlier rule refuses is named, with the reason, beside the repair of the others."""
    said = say("check", CIDR, kernel=refusing())
    reason = "a rule decides before table main is looked up, and no route in table main changes that"
    assert f"UNSAFE: 172.16.0.0–172.16.0.255 cannot be repaired by routes: {reason}" in said.lines  # noqa: RUF001


def test_how_to_allow_it() -> None:
    """Last comes how to allow a device that is not hardware."""
    kernel = plain_vm()
    kernel.add_link(Link(name="docker0", index=0, kind="bridge"))
    kernel.add_address("docker0", "172.17.0.1/16")
    said = say("check", "172.16.0.0/12", kernel=kernel)
    assert said.lines[-4] == 'If docker0 (bridge) is intended, add to routeOverlap.allowedDevs: ["docker0"]'


def test_a_configuration_says_what_is_expected(tmp_path: Path) -> None:
    """The CIDRs, devices and mode are those of the configuration; CIDRs that are typed take the place of its own."""
    path = tmp_path / "config.json"
    path.write_text('{"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "expectedDevs": ["ib0"], "mode": "STRICT"}}')
    assert say("check", "--config", str(path), kernel=h200()).code == 0
    said = say("check", "--config", str(path), "--json", "10.9.0.0/16", kernel=h200())
    assert (said.code, said.json["mode"], said.json["findings"][0]["facts"]["cidr"]) == (1, "STRICT", "10.9.0.0/16")


def test_a_thousand_escapes() -> None:
    """Of a thousand escapes twenty are shown, and the rest is counted; the JSON has all."""
    kernel = plain_vm()
    kernel.add_link(Link(name="eth7", index=0))
    routes = [Route.to(f"172.16.{at // 64}.{at % 64 * 4}/31", dev="eth7") for at in range(1000)]
    assert all(outcome.ok for outcome in kernel.change(RouteRequest("add", route) for route in routes))
    said = say("check", CIDR, kernel=kernel)
    assert said.code == 1
    assert "  … and 980 more; --json shows all" in said.lines
    assert len(said.lines) < 60
    findings = say("check", CIDR, "--json", kernel=kernel).json["findings"]
    assert [finding["name"] for finding in findings].count("overlap") == 1000
