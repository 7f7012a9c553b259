"""hostrouting.check.exceptions: which packets that a rule treats differently are known, and which nobody can know."""

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest

from hostrouting.check.examine import examine_snapshot
from hostrouting.check.exceptions import Exceptions
from hostrouting.check.overlap import check_overlap
from hostrouting.check.report import check_findings
from hostrouting.config.settings import HostRoutingConfig, IntendedRule
from hostrouting.errors import ConfigError
from hostrouting.fib.decision import Condition
from hostrouting.fib.engine import Fib
from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import TABLE_MAIN, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Link
from hostrouting.testing import FakeHost, MemoryBackend, h200, plain_vm, vpn_node
from tests.support.cli import say
from tests.support.commands import ports
from tests.support.machine import private_machine
from tests.support.namespace import private_namespace

CIDR = "172.16.0.0/16"
ETH0 = ("address add 10.0.0.4/24 dev eth0", "route add default via 10.0.0.1 dev eth0 proto dhcp metric 100")
ENI = (
    *ETH0,
    "address add 10.0.32.7/24 dev eth1",
    "route add default via 10.0.32.1 dev eth1 table 2",
    "route add 10.0.40.5 dev eni1 scope link",
)
HEALTHY = {
    "the rails' own addresses": (
        *ETH0,
        *(f"address add 172.16.0.1{at}/16 dev rail{at}" for at in (0, 1)),
        "route del 172.16.0.0/16 dev rail0",
        "route del 172.16.0.0/16 dev rail1",
        *(f"route add {CIDR} dev rail{at} table 30{at}" for at in (0, 1)),
        *(f"rule add pref 30{at} from 172.16.0.1{at} lookup 30{at}" for at in (0, 1)),
    ),
    "a pod of the VPC CNI": (
        *ENI,
        "rule add pref 512 to 10.0.40.5 lookup main",
        "rule add pref 1536 from 10.0.40.5 lookup 2",
    ),
    "a pod of Terway": (
        *ENI,
        "rule add pref 512 to 10.0.40.5 lookup main",
        "rule add pref 2048 from 10.0.40.5 iif eni1 lookup 2",
    ),
    "a full-tunnel VPN": (
        *ETH0,
        "address add 10.8.0.2/32 dev wg0",
        "route add default dev wg0 table 51820",
        "rule add pref 32764 not fwmark 51820 lookup 51820",
        "rule add pref 32763 lookup main suppress_prefixlength 0",
    ),
}


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_nodes(name: str, tmp_path: Path) -> None:
    """Each is OK for `check`, and INSTALLED for `status`. Kills: whatever a rule treats differently is unknown."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"routeOverlap": {"expectedCidrs": [CIDR], "mode": "STRICT"}}))
    with private_machine() as machine:
        machine.batch(["link set lo up", *ports("eth0", "eth1", "eni1", "wg0", "rail0", "rail1"), *HEALTHY[name]])
        checked = machine.hostrouting("check", CIDR)
        applied = machine.hostrouting("apply", "--config", str(config))
        status = machine.hostrouting("status")
    assert (checked.returncode, checked.stdout.partition(":")[0]) == (0, "OK"), checked.stdout
    assert (applied.returncode, status.returncode, status.stdout.partition(":")[0]) == (0, 0, "INSTALLED"), status
    assert "no rule treats some" not in checked.stdout


def node(
    *rules: Rule, dev: str = "ib0", prefix: str = "0.0.0.0/0", kernel: MemoryBackend | None = None, own: str = ""
) -> MemoryBackend:
    """A host with these rules, which look up table 77: its route to `prefix` leaves by `dev`.

    ib0 has 172.31.0.9, and eth1 may have an address of its `own`.
    """
    kernel = kernel or plain_vm()
    if kernel.snapshot().link("ib0") is None:
        kernel.add_link(Link(name="ib0", index=0, type=ARPHRD_INFINIBAND))
    kernel.add_link(Link(name="eth1", index=0))
    kernel.add_address("ib0", "172.31.0.9/24")
    if own:
        kernel.add_address("eth1", own)
    for rule in rules:
        kernel.add_rule(attrs.evolve(rule, table=rule.table or 77))
    kernel.ip_route("add", Route.to(prefix, dev=dev, table=77))
    return kernel


def over_ib() -> MemoryBackend:
    """A host whose default route leaves by InfiniBand."""
    kernel = MemoryBackend()
    kernel.add_link(Link(name="ib0", index=0, type=ARPHRD_INFINIBAND))
    assert all(done.ok for done in kernel.change([RouteRequest("add", Route.to("0.0.0.0/0", dev="ib0"))]))
    return kernel


def by(priority: int = 100, **selectors: Any) -> Rule:
    """A rule."""
    return Rule(family=4, priority=priority, **selectors)


def of(*sources: str) -> list[Rule]:
    """A rule for each of these sources."""
    return [by(100 + at, src=Prefix.parse(source)) for at, source in enumerate(sources)]


MARK = by(fwmark=1, fwmask=0xFF)
OWN, ETH0_OWN = "172.31.0.9/32", "10.0.0.4/32"
CASES: dict[str, tuple[MemoryBackend, str, tuple[str, ...]]] = {
    "an own address, by its device": (node(*of(OWN)), "ok", ("own-address",)),
    "an own address, with a mark": (node(by(src=Prefix.parse(OWN), fwmark=1, fwmask=1)), "ok", ("own-address",)),
    "an own address, by another device": (node(*of(ETH0_OWN)), "undecided", ("",)),
    "an own address, by no device": (node(by(src=Prefix.parse(OWN), action="prohibit")), "undecided", ("",)),
    "a block with an own address": (node(*of("172.31.0.0/24")), "ok", ("forwarded",)),
    "a block with the address of another device": (node(*of("10.0.0.0/24")), "undecided", ("",)),
    "all but the only own address": (node(by(src=Prefix.parse(ETH0_OWN), invert=True), dev="eth1"), "undecided", ("",)),
    "all but the own address of eth0": (
        node(by(src=Prefix.parse(ETH0_OWN), invert=True), dev="eth1", own="10.1.0.4/24"),
        "ok",
        ("own-address",),
    ),
    "another host's address": (node(*of("10.244.3.7/32")), "ok", ("forwarded",)),
    "what arrives on a device": (node(by(iif="eth0")), "ok", ("forwarded",)),
    "what arrives, from the block of eth0": (
        node(by(src=Prefix.parse("10.0.0.0/24"), iif="eth0"), dev="eth1"),
        "ok",
        ("forwarded",),
    ),
    "a socket bound to the device": (node(by(oif="ib0")), "ok", ("bound",)),
    "a socket bound to another device": (node(by(oif="eth0", fwmark=1, fwmask=1)), "undecided", ("",)),
    "a mark": (node(MARK), "undecided", ("",)),
    "a user": (node(by(uids=(1000, 1000))), "undecided", ("",)),
    "a mark, and an own address": (node(by(99, fwmark=1, fwmask=1), *of(OWN)), "undecided", ("own-address", "")),
    "a mark, after an own address": (node(*of(OWN), by(200, fwmark=1, fwmask=1)), "undecided", ("own-address", "")),
    "a VPN": (vpn_node(), "ok", ("tunnel",)),
    "a VPN with a user's own rule": (node(by(uids=(5, 5)), kernel=vpn_node()), "undecided", ("", "tunnel")),
    "a VPN by the rule of its mark": (
        node(by(90, fwmark=1, fwmask=1, table=TABLE_MAIN), by(), dev="eth1"),
        "ok",
        ("tunnel",),
    ),
    "a VPN beside the fabric": (
        node(by(fwmark=1, fwmask=1, invert=True), dev="eth1", kernel=h200()),
        "undecided",
        ("",),
    ),
    "a VPN over InfiniBand": (
        node(by(fwmark=1, fwmask=1, invert=True), dev="eth1", kernel=over_ib()),
        "undecided",
        ("",),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_kind_of_packets(name: str) -> None:
    """Known packets leave the verdict certain; an own address or a mark that leads into the fabric does not."""
    kernel, verdict, known = CASES[name]
    report = check_overlap(Fib(kernel.snapshot()), [CIDR])
    assert (report.verdict, sorted(note.known for note in report.notes)) == (verdict, sorted(known))


IB0 = ("address add 172.31.0.9/24 dev ib0", "route add default dev ib0 table 77")
RAIL = (*IB0, "rule add pref 100 from 172.31.0.9 lookup 77")
# Commands, whether TCP's packets to the CIDR leave by ib0, and the verdict.
CHOSEN_SOURCES: dict[str, tuple[tuple[str, ...], bool, str]] = {
    "eth0 has an address": ((*ETH0, *RAIL), False, "ok"),
    "a cloud's rule for the address of eth0, with a default route of its own": (
        (*ETH0, "rule add pref 100 from 10.0.0.4 lookup 77", "route add default via 10.0.0.1 dev eth0 table 77"),
        False,
        "ok",
    ),
    "eth0 has none": ((*RAIL, "route add default via 10.0.0.1 dev eth0 onlink"), True, "undecided"),
    "eth0 has none, another device has the first": (
        ("address add 10.0.9.4/24 dev lo", *RAIL, "route add default via 10.0.0.1 dev eth0 onlink"),
        False,
        "ok",
    ),
    "eth0 has none, and the device with the lowest number came last": (
        (
            *("link del ib0", "link add ib0 index 50 type veth peer name peer-ib0", "link set peer-ib0 up"),
            *(
                "link set ib0 up",
                "link add eth1 index 2 type veth peer name peer-eth1",
                "address add 10.0.9.4/24 dev eth1",
            ),
            *(*RAIL, "route add default via 10.0.0.1 dev eth0 onlink"),
        ),
        True,
        "undecided",
    ),
    "its default route prefers that of ib0": (
        (*ETH0, *RAIL, "route change default via 10.0.0.1 dev eth0 proto dhcp metric 100 src 172.31.0.9"),
        True,
        "undecided",
    ),
    "another route prefers that of ib0": ((*ETH0, *RAIL, "route add 10.9.0.0/16 dev ib0 src 172.31.0.9"), False, "ok"),
    "both have one address": (
        (*ETH0, *IB0, "address add 10.0.0.4/32 dev ib0", "rule add pref 100 from 10.0.0.4 lookup 77"),
        True,
        "undecided",
    ),
    "both have one address, and a block is selected": (
        (*ETH0, *IB0, "address add 10.0.0.4/32 dev ib0", "rule add pref 100 from 10.0.0.0/24 lookup 77"),
        True,
        "undecided",
    ),
    "a route to pods prefers that of the pods' bridge": (
        (
            *(*ETH0, *IB0, "address add 10.244.0.5/32 dev cali1", f"route add {CIDR} dev cali1 src 10.244.0.5"),
            "rule add pref 100 from 10.244.0.0/24 lookup 77",
        ),
        True,
        "undecided",
    ),
    "a pod's device has one of scope site": (
        (
            *(*ETH0, *IB0, "address add 10.244.0.5/32 dev cali1 scope 200", f"route add {CIDR} dev cali1"),
            "rule add pref 100 from 10.244.0.5 lookup 77",
        ),
        True,
        "undecided",
    ),
    "eth0 has one of scope link": (
        ("address add 169.254.3.4/16 dev eth0 scope link", "route add default via 169.254.0.1 dev eth0", *RAIL),
        True,
        "undecided",
    ),
    "a bridge of pods, and what they send is selected": (
        (*ETH0, "address add 172.16.0.1/16 dev cali1", *IB0, f"rule add pref 100 from {CIDR} iif cali1 lookup 77"),
        False,
        "ok",
    ),
    "a pod's device has none, and eth0 has the lowest number": (
        (*("link del ib0", *ports("ib0"), *ETH0, *RAIL), f"route add {CIDR} dev cali1"),
        False,
        "ok",
    ),
    "a pod's device has none": ((*RAIL, *ETH0, f"route add {CIDR} dev cali1"), True, "undecided"),
}


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize("name", CHOSEN_SOURCES)
def test_sources_that_linux_chooses(name: str) -> None:
    """TCP looks up the route with the chosen source: a rule may send it out by the device of this source.

    Kills: each own address on the device is that of a reply; preferred sources of other routes; the last address;
    the address of the first device by number, or of any where eth0 is the first.
    """
    commands, escapes, verdict = CHOSEN_SOURCES[name]
    devs = ("ib0", "eth0", "cali1")
    near = [f"neighbour add 172.16.5.9 lladdr 02:00:00:00:00:01 dev {dev}" for dev in devs]
    with private_namespace() as namespace:
        namespace.batch(["link set lo up", *ports(*devs), *commands, *near])
        with closing(NetlinkBackend(netns=namespace.path)) as backend:
            report = check_overlap(Fib(backend.snapshot()), [CIDR], expected_devs=["eth0"], allowed_devs=["cali*"])
        namespace.run("timeout", "0.05", "bash", "-c", "exec 3<>/dev/tcp/172.16.5.9/80")
        [ib0] = json.loads(namespace.ip("-s", "-j", "link", "show", "ib0").stdout)
    assert (ib0["stats64"]["tx"]["packets"] > 0, report.verdict) == (escapes, verdict)


def test_sources_that_linux_chooses_in_ipv6() -> None:
    """A device without an address takes any of the host's; one of a pod has none, and does not count.

    Kills: the first address, as in IPv4; pods' devices as in IPv4.
    """
    own = Prefix.parse("fd00:31::9/128")
    for at_home, dev, verdict in ((False, "eth0", "undecided"), (True, "eth0", "ok"), (True, "cali1", "ok")):
        kernel = MemoryBackend()
        for name in ("eth1", "eth0", "cali1", "ib0"):
            kernel.add_link(name)
        kernel.add_address("eth1", "fd00:1::4/64")
        kernel.add_address("ib0", "fd00:31::9/64")
        if at_home:
            kernel.add_address("eth0", "fd00:99::4/64")
        kernel.add_rule(Rule(family=6, priority=100, src=own, table=77))
        routes = [Route.to("::/0", dev=dev), Route.to("::/0", dev="ib0", table=77)]
        assert all(done.ok for done in kernel.change([RouteRequest("add", route) for route in routes]))
        fib = Fib(kernel.snapshot())
        report = check_overlap(fib, ["fd00:16::/32"], expected_devs=["eth0"], allowed_devs=["cali*"])
        assert report.verdict == verdict, dev


IB0_IPV6 = ("address add fd00:31::9/64 dev ib0 nodad", "route add ::/0 dev ib0 table 77")


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize(("words", "verdict"), [("preferred_lft 0", "undecided"), ("", "ok")])
def test_a_deprecated_address(words: str, verdict: str) -> None:
    """IPv6 rather uses an address of any other device, and then meets the rule from this source.

    Kills: each address is preferred; the addresses of the device are enough.
    """
    devs = ("ib0", "eth0")
    near = [f"neighbour add fd00:16::9 lladdr 02:00:00:00:00:01 dev {dev}" for dev in devs]
    uplink = (f"address add fd00:99::4/64 dev eth0 nodad {words}", "route add ::/0 dev eth0")
    with private_namespace() as namespace:
        namespace.batch(["link set lo up", *ports(*devs)])
        namespace.batch([*uplink, *IB0_IPV6, "rule add pref 100 from fd00:31::9 lookup 77", *near], family=6)
        with closing(NetlinkBackend(netns=namespace.path)) as backend:
            report = check_overlap(Fib(backend.snapshot()), ["fd00:16::/32"], expected_devs=["eth0"])
        chosen = namespace.run("ip", "-6", "-j", "route", "get", "fd00:16::9").stdout
    escapes = json.loads(chosen)[0]["prefsrc"] == "fd00:31::9"
    assert (escapes, report.verdict) == (verdict != "ok", verdict)


def test_each_route_in_turn_has_its_sources() -> None:
    """A default route without a preferred source takes the first address. Kills: one that another route prefers."""
    kernel = MemoryBackend()
    for name, own in (("ib0", "172.31.0.9/24"), ("eth0", "10.0.0.4/24"), ("tun0", "")):
        kernel.add_link(name)
        if own:
            kernel.add_address(name, own)
    kernel.add_rule(by(src=Prefix.parse(OWN), table=77))
    kernel.ip_route("add", Route.to("0.0.0.0/0", dev="ib0", table=77))
    theirs = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", metric=100)
    turns = [
        attrs.evolve(theirs, prefsrc=as_ip("10.0.0.4")),
        Route.to("0.0.0.0/0", dev="tun0", gateway="10.7.0.1", metric=100),
    ]
    before = kernel.snapshot()
    hosts = (attrs.evolve(before, routes=[*before.routes, *turns[:count]]) for count in (1, 2))
    reports = [check_overlap(Fib(host), [CIDR], expected_devs=["eth0", "tun0"]) for host in hosts]
    assert [report.verdict for report in reports] == ["ok", "undecided"]


def test_the_address_of_the_pods_own_bridge() -> None:
    """The host's address on an allowed device counts as one of the pods. Kills: the host answers from there."""
    kernel = node(*of("10.244.3.0/24"), dev="eth1")
    kernel.add_link("cni0")
    kernel.add_address("cni0", "10.244.3.1/24")
    fib = Fib(kernel.snapshot())
    assert check_overlap(fib, [CIDR], allowed_devs=["cni*"]).verdict == "ok"
    assert check_overlap(fib, [CIDR]).verdict == "undecided"


@pytest.mark.linux
@pytest.mark.needs("root")
def test_the_words_of_a_rule() -> None:
    """A rule is declared in the words in which `ip rule` prints it. Kills: numbers in another form."""
    told = [
        "from 10.0.0.0/8 to 10.1.0.0/16 fwmark 0x1/0xff",
        "from 10.0.0.4 fwmark 0xca6c",
        "from all tos 0x10 iif eth1 uidrange 1000-1999",
        "not from all oif eth1 ipproto tcp sport 53 dport 1-1023",
    ]
    with private_namespace() as namespace:
        namespace.batch([*ports("eth1"), *(f"rule add pref {at} {rule} lookup 77" for at, rule in enumerate(told, 1))])
        printed = [
            line.partition(":")[2].split(" lookup")[0].strip()
            for line in namespace.run("ip", "rule").stdout.splitlines()
        ]
        with closing(NetlinkBackend(netns=namespace.path)) as backend:
            rules = [rule for rule in backend.snapshot().rules if rule.family == 4 and rule.table == 77]
    assert set(told) <= set(printed)
    declared = [IntendedRule(rule, "a test").rule for rule in told]
    assert [rule.selection for rule in rules] == declared


DECLARED = {"rule": "from all fwmark 0x1/0xff", "reason": "storage, by the fabric"}


def overlap(*declared: dict[str, str]) -> HostRoutingConfig:
    """The check of the CIDR, with these rules declared."""
    return HostRoutingConfig(route_overlap={"expectedCidrs": [CIDR], "mode": "STRICT", "intendedRules": declared})


def test_a_declared_rule() -> None:
    """The verdict is OK, and the note stays, with the reason. Kills: the note of a declared rule is left out."""
    found = examine_snapshot(node(MARK).snapshot(), overlap(DECLARED))
    assert found.verdict == "ok"
    [note] = check_findings(found, mode="STRICT")
    assert (note.name, note.severity, note.facts["known"]) == ("other-packets", "note", "intended")
    assert note.sentence.endswith("routeOverlap.intendedRules declares this: storage, by the fabric")
    assert examine_snapshot(node(MARK, by(200, uids=(5, 5))).snapshot(), overlap(DECLARED)).verdict == "undecided"


def test_a_declared_rule_that_is_not_there() -> None:
    """An entry that matches no rule is a note. Kills: nobody learns that an entry is spelled otherwise."""
    found = examine_snapshot(plain_vm().snapshot(), overlap(DECLARED))
    assert found.verdict == "ok"
    [note] = check_findings(found, mode="STRICT")
    assert (note.name, note.severity, note.target) == ("unmatched-rule", "note", "fwmark 0x1/0xff")


def test_a_declared_rule_is_installed(tmp_path: Path) -> None:
    """The declaration is read back from what is installed: `check` and `status` without arguments are OK."""
    config = tmp_path / "config.json"
    reason = 'storage (50 % of it), by the fabric = "ib0"; ü~'
    config.write_text(overlap({**DECLARED, "reason": reason}).to_json())
    host = FakeHost(kernel=node(MARK))
    assert say("apply", "--config", str(config), host=host).code == 0
    said = say("check", host=host)
    assert (said.code, reason in said.out) == (0, True)
    assert say("status", host=host).lines[0].startswith("INSTALLED")


@pytest.mark.linux
@pytest.mark.needs("root")
def test_a_rule_that_cannot_be_declared() -> None:
    """What is proposed for a rule by an alternative name is accepted, and helps. Kills: it is to be declared."""
    with private_namespace() as namespace, closing(NetlinkBackend(netns=namespace.path)) as backend:
        alternative = "link property add dev cali1 altname enp9s0"
        rule = "rule add pref 100 from {} iif {} lookup 77".format
        namespace.batch(["link set lo up", *ports("eth0", "ib0", "cali1"), *ETH0, *IB0, alternative])
        namespace.batch([rule("all", "enp9s0")])
        found = examine_snapshot(backend.snapshot(), overlap())
        [open_note] = [note for note in check_findings(found, mode="STRICT") if note.severity == "warning"]
        assert "intendedRules" not in open_note.remedy
        assert open_note.remedy == "name the device of rule 100 by the name that ip link shows first, not by enp9s0"
        namespace.batch(["rule del pref 100", rule("all", "cali1")])
        assert (found.verdict, examine_snapshot(backend.snapshot(), overlap()).verdict) == ("undecided", "ok")


def test_what_to_declare() -> None:
    """An undecided check says what to write if it is intended; with it the check is OK."""
    said = say("check", CIDR, kernel=node(MARK))
    [line] = [line for line in said.lines if "intendedRules" in line]
    entries = json.loads(line.partition("intendedRules: ")[2])
    assert examine_snapshot(node(MARK).snapshot(), overlap(*entries)).verdict == "ok"


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ({"rule": "mark 1", "reason": "x"}, "has 'mark', which is not one of the selectors"),
        ({"rule": "from all", "reason": "x"}, "is not a list of selectors"),
        ({"rule": "fwmark", "reason": "x"}, "is not a list of selectors"),
        ({"rule": "iif 'x'", "reason": "x"}, "has characters that no selector has"),
        ({"rule": "fwmark 1", "reason": "x\ny"}, "is not a reason in one line"),
        ({"rule": "fwmark 1"}, "write why it is intended"),
    ],
)
def test_faults_of_a_declaration(entry: dict[str, str], fault: str) -> None:
    """Each fault has its path."""
    with pytest.raises(ConfigError, match=re.escape(fault)) as caught:
        overlap(entry)
    assert "routeOverlap.intendedRules[0]" in str(caught.value)


class TestWhatHoldsForAllPackets:
    """The sentence about packets without an exception is true."""

    def test_packets_of_pods_that_a_rule_drops(self, tmp_path: Path) -> None:
        """If pods' packets are dropped and the host's leave by ib0, the note about all packets has only the latter."""
        config = tmp_path / "config.json"
        check = {"expectedCidrs": [CIDR], "podCidrs": ["10.244.0.0/24"]}
        config.write_text(json.dumps({"routeOverlap": check}))
        rule = by(src=Prefix.parse("10.244.0.0/24"), action="blackhole")
        said = say("check", "--config", str(config), kernel=node(rule, kernel=h200()))
        assert "Holds for all IPv4 packets that this host itself sends." in said.out


MAIN_RULE, OTHER_RULE, NOT_RULE = by(table=TABLE_MAIN), by(table=77), by(table=77, invert=True)


@pytest.mark.parametrize(
    ("rule", "selectors", "holds", "known"),
    [
        (OTHER_RULE, {"from": "10.0.0.4/32"}, True, "own-address"),
        (OTHER_RULE, {"from": "127.0.0.1/32"}, True, "forwarded"),
        (OTHER_RULE, {"from": "10.9.0.0/16"}, False, "forwarded"),
        (OTHER_RULE, {"from": "10.9.0.0/16", "fwmark": "0x1"}, False, ""),
        (OTHER_RULE, {"iif": "lo"}, False, "forwarded"),
        (OTHER_RULE, {"iif": "lo"}, True, ""),
        (MAIN_RULE, {"fwmark": "0x1"}, True, "tunnel"),
        (NOT_RULE, {"fwmark": "0x1"}, True, "tunnel"),
        (OTHER_RULE, {"fwmark": "0x1"}, True, ""),
        (MAIN_RULE, {"fwmark": "0x1"}, False, ""),
        (MAIN_RULE, {"tos": "0x10"}, True, ""),
    ],
)
def test_one_condition(rule: Rule, selectors: dict[str, str], holds: bool, known: str) -> None:  # noqa: FBT001
    """What is known of the packets that meet it, or do not, and leave by the default route."""
    kernel = plain_vm()
    fib = Fib(kernel.snapshot())
    decision = fib.lookup("8.8.8.8")
    exceptions = Exceptions(fib, 4, expected_devs=(), allowed_devs=(), intended=[IntendedRule("fwmark 0x1", "WHY")])
    case = (Condition(rule, tuple(selectors.items()), holds=holds),)
    assert exceptions.known(case, decision) == known
    assert exceptions.reasons((case,)) == ()
