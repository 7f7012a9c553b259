"""`check`: the answer, the evidence, the remedy and what it holds for."""

import json
from pathlib import Path

import pytest

from hostrouting.kernel.base import RouteRequest
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Link
from hostrouting.testing import MemoryBackend, cni_node, ecmp_node, h200, plain_vm, vpn_node
from tests.support.cli import say
from tests.support.topologies import marked_vm
from tests.tables.topologies import TOPOLOGIES, devs_of, escapes_of, repair_of

CIDR = "172.16.0.0/16"


def test_the_whole_page() -> None:
    """First the answer, then the evidence, then what to do and what it costs, then what it holds for."""
    said = say("check", CIDR, kernel=h200())
    assert said.code == 1
    assert not said.err
    assert said.lines[:4] == [
        "OVERLAP: 172.16.0.0/16 leaves by ib0, not by eth0",
        "",
        "  ESCAPES        LEAVES BY  ROUTE          TABLE  OWNER   RULE",
        "  172.16.0.0/16  ib0        172.16.0.0/16  main   kernel  32766",
    ]
    # Its costs and what to paste are those of `repair`, whose test has them.
    repair = say("repair", CIDR, kernel=h200()).lines
    assert said.lines[4 : 3 + len(repair)] == repair[1:]
    assert said.lines[-3].startswith("Holds for all IPv4 packets")
    assert said.lines[-2:] == [
        "Only routing tables and rules are checked, as they are now; not firewalls, IPsec or eBPF programs.",
        "To see what is installed on the host, and whether it survives a reboot: hostrouting status",
    ]


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_each_host(name: str) -> None:
    """On each host of the table, exit code and JSON say what the table says."""
    row = TOPOLOGIES[name]
    said = say("check", "--config", "-", "--json", kernel=row.kernel(), stdin=row.config.to_json().encode())
    assert said.code == {"ok": 0, "overlap": 1}.get(row.verdict, 3)
    document = said.json
    assert (document["verdict"], devs_of(document)) == (row.verdict, list(row.devs))
    assert (escapes_of(document), repair_of(document)) == (row.escapes, row.repair)


@pytest.mark.parametrize(
    ("kernel", "cidr", "answer"),
    [
        (plain_vm(), CIDR, "OK: every address of 172.16.0.0/16 leaves by eth0"),
        (h200(), "172.16.0.0/12", "OVERLAP: a part of 172.16.0.0/12 leaves by ib0, not by eth0"),
        (cni_node(), "10.244.0.0/16", "OK: every address of 10.244.0.0/16 leaves by eth0 or by cni0 (allowed)"),
        (ecmp_node(), CIDR, "OK: every address of 172.16.0.0/16 leaves by eth0 or eth1"),
        (vpn_node(), CIDR, "OK: every address of 172.16.0.0/16 leaves by wg0"),
        (marked_vm(), CIDR, "UNDECIDED: a plain packet to 172.16.0.0/16 leaves by eth0; packets with fwmark"),
        (MemoryBackend(), CIDR, "NO-DEFAULT-ROUTE: there is no IPv4 default route"),
        (h200(), "172.16.5.9/32", "OVERLAP: 172.16.5.9/32 leaves by ib0, not by eth0"),
        (h200(), "172.16.5.9/12", "OVERLAP: a part of 172.16.0.0/12 leaves by ib0"),
    ],
)
def test_first_lines(kernel: MemoryBackend, cidr: str, answer: str) -> None:
    """The first line has the verdict, the CIDR and the devices."""
    assert say("check", cidr, kernel=kernel).lines[0].startswith(answer)


def test_a_configuration_says_what_is_expected(tmp_path: Path) -> None:
    """The CIDRs, devices and mode are those of the configuration; CIDRs that are typed take the place of its own."""
    path = tmp_path / "config.json"
    path.write_text('{"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "expectedDevs": ["ib0"], "mode": "STRICT"}}')
    assert say("check", "--config", str(path), kernel=h200()).code == 0
    told = say("check", "--config", str(path), "--json", "10.9.0.0/16", kernel=h200())
    assert (told.code, told.json["mode"], told.json["findings"][0]["facts"]["cidr"]) == (1, "STRICT", "10.9.0.0/16")


def test_a_configuration_that_has_the_repair_already(repaired: str) -> None:
    """If the configured routes are missing but would repair it, the answer is to install them, not to paste any."""
    said = say("check", "--config", repaired, kernel=h200())
    assert said.code == 1
    told = (
        f"{repaired} has the routes that repair it; install them, as root, with: hostrouting apply --config {repaired}"
    )
    assert told in said.lines
    assert "Permanently" not in said.out


def many(count: int) -> MemoryBackend:
    """A host with so many stray routes, each to a block of its own."""
    kernel = plain_vm()
    kernel.add_link(Link(name="fifteen_letters", index=0))
    routes = [Route.to(f"172.16.{at // 64}.{at % 64 * 4}/31", dev="fifteen_letters") for at in range(count)]
    assert all(outcome.ok for outcome in kernel.change(RouteRequest("add", route) for route in routes))
    return kernel


def test_a_thousand_findings() -> None:
    """Of a thousand findings twenty are shown, in columns that align, and the rest is counted; the JSON has all."""
    kernel = many(1000)
    said = say("check", CIDR, kernel=kernel)
    assert said.code == 1
    assert said.lines[0] == "OVERLAP: 1,000 ranges of 172.16.0.0/16 leave by fifteen_letters, not by eth0"
    assert sum("fifteen_letters  " in text for text in said.lines) == 20
    assert "  … and 980 more; --json shows all" in said.lines
    assert len(said.lines) < 60
    found = say("check", CIDR, "--json", kernel=kernel).json["findings"]
    assert [finding["name"] for finding in found].count("overlap") == 1000


def test_a_long_repair_is_left_to_the_command_that_prints_it() -> None:
    """A repair of many routes is not half shown: the page says how to print it, and that prints all of it."""
    kernel = many(100)
    words = ("172.16.0.0/16", "10.244.0.0/16")
    [pointer] = [text for text in say("check", *words, kernel=kernel).lines if "print them with" in text]
    asked = pointer.partition("print them with: hostrouting ")[2].split()
    assert asked == ["repair", *words]
    said = say(*asked, kernel=kernel)
    assert said.out.count('{"destination"') == int(pointer.split()[0].replace(",", ""))


def test_remarks_below_the_answer() -> None:
    """A remark stands after its name, which the page of the findings explains."""
    lines = say("check", CIDR, kernel=vpn_node()).lines
    assert any(text.startswith("UNUSED-DEFAULT-ROUTE: the default route by eth0") for text in lines)
    row = TOPOLOGIES["the rules of wg-quick, eth0 expected"]
    said = say("check", "--config", "-", kernel=row.kernel(), stdin=row.config.to_json().encode())
    assert any(text.startswith(f"OTHER-PACKETS: expected CIDR {CIDR}") for text in said.lines)
    declared = {"expectedCidrs": [CIDR], "intendedRules": [{"rule": "fwmark 0x77", "reason": "WHY"}]}
    said = say("check", "--config", "-", kernel=plain_vm(), stdin=json.dumps({"routeOverlap": declared}).encode())
    [told] = [text for text in said.lines if text.startswith("UNMATCHED-RULE: routeOverlap.intendedRules: ")]
    assert told.endswith(", or remove the entry")


def test_addresses_that_go_nowhere() -> None:
    """Escapes that have no device are said in words: no route, or what refuses them; none of several devices has them."""
    kernel = plain_vm()
    routes = [Route.to("172.16.0.0/17", type="blackhole"), Route.to("172.16.128.0/17", type="unreachable")]
    assert all(outcome.ok for outcome in kernel.change(RouteRequest("add", route) for route in routes))
    said = say("check", CIDR, kernel=kernel)
    assert said.lines[0] == (
        "OVERLAP: 2 ranges of 172.16.0.0/16 leave by no device (blackhole and unreachable), not by eth0"
    )
    assert any(row.split()[:4] == ["172.16.0.0/17", "blackhole", "blackhole", "172.16.0.0/17"] for row in said.lines)
    several = ecmp_node()
    several.ip_route("add", Route.to(CIDR, type="blackhole"))
    assert say("check", CIDR, kernel=several).lines[0].endswith("by no device (blackhole), not by eth0 or eth1")


def without_default() -> MemoryBackend:
    """An H200 node before DHCP."""
    kernel = h200()
    [default] = [route for route in kernel.snapshot(family=4).routes if not route.prefix.length]
    kernel.ip_route("delete", default)
    return kernel


def test_a_virtual_device() -> None:
    """Below the table, a virtual device is named with its kind and the setting that allows it."""
    kernel = h200()
    kernel.add_link(Link(name="wg7", index=0, kind="wireguard", type=65534))
    kernel.ip_route("add", Route.to("172.16.4.0/24", dev="wg7"))
    told = 'If wg7 (wireguard) is intended: "allowedDevs": ["...", "wg7"] ("..." stands for the defaults).'
    assert told in say("check", CIDR, kernel=kernel).lines
    assert "intended" not in say("check", CIDR, kernel=h200()).out


@pytest.mark.parametrize("command", ["check", "repair", "explain"])
def test_devices_that_are_named(command: str, tmp_path: Path) -> None:
    """Named devices are the expected ones, also without a default route, and with a configuration."""
    path = tmp_path / "config.json"
    path.write_text('{"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "expectedDevs": ["eth0"]}}')
    what = "172.16.5.9" if command == "explain" else CIDR
    kernel = without_default()
    for more in ((), ("--config", str(path))):
        document = say(command, what, "--dev", "ib0", "--dev", "ib1", *more, "--json", kernel=kernel).json
        assert document.get("verdict", "ok") == "ok"
        devs = document.get("expectedDevs", ["ib0", "ib1"])
        assert devs in (["ib0", "ib1"], {"ipv4": ["ib0", "ib1"]})
    said = say(command, what, "--dev", "eth 0", kernel=kernel)
    assert said.code == 2
    assert said.err.startswith('hostrouting: --dev: "eth 0" is not a device name')


@pytest.mark.parametrize("command", ["check", "repair", "explain"])
def test_a_named_device_that_is_not_there(command: str) -> None:
    """A device that is named and that the host does not have is bad input: those that there are, and the likely one."""
    what = "172.16.5.9" if command == "explain" else CIDR
    said = say(command, what, "--dev", "eth0", "--dev", "etho", "--dev", "nope", kernel=plain_vm())
    assert (said.code, said.out) == (2, "")
    assert said.err.splitlines() == [
        "hostrouting: the command line has 2 faults:",
        "  --dev: 'etho' is not a device of this host; did you mean eth0? The devices are lo and eth0",
        "  --dev: 'nope' is not a device of this host; the devices are lo and eth0",
    ]
    alone = say(command, what, "--dev", "etho", "--snapshot", "-", stdin=plain_vm().snapshot().to_json().encode())
    told = "hostrouting: --dev: 'etho' is not a device of the host of this snapshot; did you mean eth0? The devices are lo and eth0\n"
    assert (alone.code, alone.err) == (2, told)


def test_no_default_route_yet(tmp_path: Path) -> None:
    """Without a default route, the answer says what there is and what to do."""
    kernel = without_default()
    said = say("check", CIDR, kernel=kernel)
    assert said.code == 3
    candidates, *known = said.lines[2:]
    assert candidates == "The device may be eth0 (10.0.0.4/24)."
    [found] = say("check", CIDR, "--json", kernel=kernel).json["findings"]
    assert found["name"] == "no-default-route"
    assert found["remedy"].endswith(f"expectedDevs: t{candidates[1:-1]}")
    assert say("repair", CIDR, kernel=kernel).lines[3:] == [candidates, known[0]]
    assert known == [
        "Name the expected device (--dev DEV).",
        "To see its present route: hostrouting explain 172.16.0.0",
    ]
    path = tmp_path / "node.json"
    path.write_text(say("snapshot", kernel=kernel).out)
    assert say("check", CIDR, "--snapshot", str(path)).lines[3:] == [known[0], f"{known[1]} --snapshot {path}"]
    kernel.ip_route("add", Route.to("0.0.0.0/0", type="unreachable"))
    assert (
        say("check", CIDR, kernel=kernel)
        .lines[0]
        .endswith("; there is a default route that refuses packets (unreachable)")
    )


def test_what_is_typed_stays_in_what_is_typed_next() -> None:
    """The command that prints a long repair has the device, and so has the configuration to paste."""
    kernel = h200()
    routes = [Route.to(f"10.{at}.0.0/16", dev="ib3") for at in range(100, 130)]
    assert all(it.ok for it in kernel.change(RouteRequest("add", route) for route in routes))
    again = "hostrouting repair 10.0.0.0/8 --dev eth0"
    assert again in say("check", "10.0.0.0/8", "--dev", "eth0", kernel=kernel).out
    printed = say(*again.split()[1:], kernel=kernel).out
    assert '"expectedDevs": ["eth0"]' in printed


def test_several_cidrs() -> None:
    """If several CIDRs are checked, each row says which one it is about."""
    cidrs = ["172.16.0.0/16", "172.16.0.0/17", "172.16.0.0/18", "172.16.0.0/19"]
    said = say("check", *cidrs, kernel=h200())
    assert "  CIDR           ESCAPES        LEAVES BY  ROUTE          TABLE  OWNER   RULE" in said.lines


def test_a_snapshot_of_a_newer_version() -> None:
    """A snapshot with unknown keys is judged, and the page says once what was skipped; so does the JSON.

    Kills: no note, a note for each family, and none below a verdict without a default route.
    """
    told = "SKIPPED-KEYS: this version of hostrouting does not know a part of the snapshot, and skips it: new in a Snapshot;"
    for kernel, code in ((h200(), 1), (MemoryBackend(), 3)):
        document = {**json.loads(kernel.snapshot().to_json()), "new": 1}
        words = ("check", "--snapshot", "-", CIDR, "fd00:99::/64")
        said = say(*words, stdin=json.dumps(document).encode())
        assert (said.code, sum(text.startswith(told) for text in said.lines)) == (code, 1)
        found = say(*words, "--json", stdin=json.dumps(document).encode()).json["findings"]
        assert [finding["severity"] for finding in found if finding["name"] == "skipped-keys"] == ["note"]
