"""hostrouting.check.rules: what is wrong with the rules and the default routes of a host, on Linux and on fake hosts."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import phases
from hostrouting.check.examine import Examination, examine
from hostrouting.check.report import check_findings
from hostrouting.finding import ESCAPES, Finding
from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route
from hostrouting.testing import FakeHost, MemoryBackend, plain_vm
from phases.testing import FakeClock
from tests.support.cli import say
from tests.support.commands import lose_carriers, ports
from tests.support.namespace import Namespace, private_namespace
from tests.support.tasks import config

CIDR, CIDR6 = "172.16.0.0/16", "fd00:16::/32"
HOST = (
    "link set lo up",
    *ports("eth0", "eth1"),
    "address add 10.0.0.4/24 dev eth0",
    "address add 10.9.0.4/24 dev eth1",
    "address add fd00:99::4/64 dev eth0 nodad",
    "address add fd00:9::4/64 dev eth1 nodad",
)
DEFAULT = "route add default via 10.0.0.1 dev eth0 metric 100"
SECOND = "route add default via 10.9.0.1 dev eth1 metric 100"
APPENDED = SECOND.replace("add", "append")
TWO_WAYS = "route add default nexthop via 10.0.0.1 dev eth0 nexthop via 10.9.0.1 dev eth1"


@pytest.fixture
def host() -> Iterator[Namespace]:
    """A host with two devices and no default route."""
    with private_namespace() as namespace:
        namespace.batch(HOST)
        yield namespace


def examined(host: Namespace, *lines: str, cidr: str = CIDR, devs: tuple[str, ...] = ()) -> Examination:
    """The check of the host after these commands."""
    host.batch(list(lines), family=6 if ":" in cidr else 4)
    asked = config(cidrs=(cidr,))
    if devs:
        asked = type(asked)(route_overlap={"expectedCidrs": [cidr], "expectedDevs": devs})
    with closing(NetlinkBackend(netns=host.path)) as backend:
        return examine(phases.Context(clock=FakeClock(), observers=[]), backend, asked, wait=0)


def notes(found: Examination) -> list[Finding]:
    """What limits or explains the verdict, or takes its place."""
    return [finding for finding in check_findings(found, mode="WARN") if finding.name not in {*ESCAPES, "action"}]


def repaired_by(host: Namespace, finding: Finding) -> None:
    """Run the commands that a finding names."""
    for command in finding.remedy.rpartition("with: ")[2].split(" && "):
        done = host.run(*command.split())
        assert done.returncode == 0, (command, done.stderr)


@pytest.mark.linux
@pytest.mark.needs("root")
class TestTheLocalRule:
    """Without the rule for table local, a host does not answer on its own addresses."""

    def test_it_is_gone(self, host: Namespace) -> None:
        """The verdict is not OK, and the line repairs it. Kills: the rule for table local is not looked for."""
        found = examined(host, DEFAULT, "rule del pref 0", "route add 198.18.0.0/15 dev eth0 table default")
        assert found.verdict == "undecided"
        [note] = notes(found)
        assert (note.name, note.target) == ("local-rule", "10.0.0.4 and 10.9.0.4")
        assert "dev eth0" in host.run("ip", "route", "get", "10.0.0.4").stdout
        repaired_by(host, note)
        assert "local 10.0.0.4" in host.run("ip", "route", "get", "10.0.0.4").stdout
        assert (examined(host).verdict, notes(examined(host))) == ("ok", [])

    def test_it_is_gone_in_ipv6(self, host: Namespace) -> None:
        """The same in IPv6, with ip -6."""
        found = examined(host, "route add default via fd00:99::1 dev eth0", "rule del pref 0", cidr=CIDR6)
        assert found.verdict == "undecided"
        [note] = notes(found)
        repaired_by(host, note)
        assert examined(host, cidr=CIDR6).verdict == "ok"

    def test_it_comes_after_another_rule(self, host: Namespace) -> None:
        """Behind a rule that takes the packets, the rule for local has no effect; behind others it has (Cilium)."""
        moved = ("rule add pref 100 lookup local", "rule del pref 0")
        found = examined(host, DEFAULT, *moved, "rule add pref 9 fwmark 0x200/0xf00 lookup 2004")
        assert found.verdict == "ok"
        found = examined(host, "rule add pref 50 lookup 88", "route add 10.0.0.4 via 10.9.0.1 dev eth1 table 88")
        assert found.verdict == "undecided"
        assert [note.target for note in notes(found) if note.name == "local-rule"] == ["10.0.0.4"]


@pytest.mark.linux
@pytest.mark.needs("root")
class TestTheRuleForMain:
    """networkd 255 deletes it, and that for table default."""

    def test_no_default_route(self, host: Namespace) -> None:
        """Without it there is no default route, and the remedy adds the rule. Kills: "add a default route"."""
        found = examined(host, DEFAULT, "rule del pref 32766", "rule del pref 32767")
        assert found.verdict == "no-default-route"
        told = {(note.name, note.target): note for note in notes(found)}
        assert [note.severity for note in told.values()] == ["warning", "warning", "note"]
        repaired_by(host, told["no-default-route", "IPv4 default route"])
        repaired_by(host, told["missing-rule", "default"])
        assert (examined(host).verdict, notes(examined(host))) == ("ok", [])
        assert host.run("ip", "rule").stdout.split() == [
            *("0:", "from", "all", "lookup", "local"),
            *("32766:", "from", "all", "lookup", "main"),
            *("32767:", "from", "all", "lookup", "default"),
        ]

    def test_no_rule_at_all(self, host: Namespace) -> None:
        """The remedies lead to a host that is right. Kills: a kernel without rules does not have any."""
        found = examined(host, DEFAULT, "rule flush", "rule del pref 0")
        seen: list[str] = []
        while found.verdict != "ok" and len(seen) < 5:
            told = [note for note in notes(found) if "with: ip " in note.remedy]
            seen.append(found.verdict)
            repaired_by(host, told[0])
            found = examined(host)
        assert seen == ["no-default-route", "undecided"]

    def test_another_default_route(self, host: Namespace) -> None:
        """With a default route in another table, the missing rule is a warning. Kills: the verdict depends on it."""
        found = examined(
            host, DEFAULT.replace("metric", "table 77 metric"), "rule add lookup 77", "rule del pref 32766"
        )
        assert found.verdict == "ok"
        [note] = notes(found)
        assert (note.name, note.target, note.severity) == ("missing-rule", "main", "warning")

    @pytest.mark.parametrize(
        ("lines", "told"), [((), []), (("route add 198.18.0.0/15 dev eth0 table default",), ["default"])]
    )
    def test_only_that_for_default(self, host: Namespace, lines: tuple[str, ...], told: list[str]) -> None:
        """It is missed if its table has routes. Kills: it is always, or never, missed."""
        found = examined(host, DEFAULT, "rule del pref 32767", *lines)
        assert (found.verdict, [note.target for note in notes(found)]) == ("ok", told)


@pytest.mark.linux
@pytest.mark.needs("root")
class TestDefaultRoutesThatCompete:
    """Two routes of one metric are an accident; one route with two next hops is a decision."""

    @pytest.mark.parametrize(
        ("lines", "left"),
        [
            ((DEFAULT, APPENDED), ("eth0",)),
            ((f"{DEFAULT} table 77", f"{APPENDED} table 77", "rule add lookup 77"), ("eth0",)),
            (
                (f"{TWO_WAYS.replace('default', 'default metric 100')}", APPENDED.replace("9.0.1", "9.0.2")),
                ("eth0", "eth1"),
            ),
        ],
        ids=["two", "in another table", "one has two next hops"],
    )
    def test_two_of_one_metric(self, host: Namespace, lines: tuple[str, ...], left: tuple[str, ...]) -> None:
        """Not OK, until one has another metric. Kills: in turn is as good as expected."""
        found = examined(host, *lines)
        assert found.verdict == "undecided"
        [note] = notes(found)
        assert note.sentence.endswith(" compete: Linux uses one or the other, so packets leave by eth0 or eth1")
        assert "; otherwise give one another metric where it comes from, and until then with: " in note.remedy
        assert " metric 101 && " in note.remedy
        repaired_by(host, note)
        assert examined(host).verdict == "ok"
        assert examined(host).families[0].report.expected_devs == left

    def test_ipv6_next_hops_of_two_programs(self, host: Namespace) -> None:
        """Linux lists the protocol of the first alone, so the command deletes by the gateway. Kills: by the protocol."""
        ways = ["via fe80::1 dev eth0 proto ra", "via fe80::9 dev eth1 proto static"]
        found = examined(host, *(f"route append ::/0 {way} metric 1024" for way in ways), cidr=CIDR6)
        [note] = notes(found)
        repaired_by(host, note)
        assert examined(host, cidr=CIDR6).families[0].report.expected_devs == ("eth0",)

    def test_the_next_metric_is_taken(self, host: Namespace) -> None:
        """The command gives one that no default route has. Kills: one more, or the lowest that is free."""
        host.batch([*ports("wg0"), "route add default dev wg0 metric 7"])
        host.sysctl("ipv4/conf/wg0/ignore_routes_with_linkdown", 1)
        lose_carriers(host, ["wg0"])
        found = examined(host, DEFAULT, APPENDED, DEFAULT.replace("100", "101"))
        [note] = notes(found)
        assert " metric 102 && " in note.remedy
        repaired_by(host, note)
        assert examined(host).families[0].report.expected_devs == ("eth0",)
        found = examined(host, "route flush exact default", DEFAULT.replace("100", f"{2**32 - 1}"),
                         APPENDED.replace("100", f"{2**32 - 1}"))  # fmt: skip
        assert "with: " not in notes(found)[0].remedy

    @pytest.mark.parametrize(("cidr", "number"), [(CIDR, "1"), (CIDR6, "2")])
    def test_next_hop_objects(self, host: Namespace, cidr: str, number: str) -> None:
        """No command is named: IPv4 would find no such route, and IPv6 would delete another one. Kills: it is named."""
        gateways = ("10.0.0.1", "10.9.0.1") if cidr == CIDR else ("fd00:99::1", "fd00:9::1")
        objects = [f"nexthop add id {number}{at} via {way} dev eth{at}" for at, way in enumerate(gateways)]
        found = examined(host, *objects, *(f"route append default nhid {number}{at}" for at in (0, 1)), cidr=cidr)
        [note] = [note for note in notes(found) if note.name == "default-routes"]
        assert (found.verdict, "with: " in note.remedy) == ("undecided", False)
        # Of an IPv6 route beside it, neither.
        found = examined(host, f"route del default nhid {number}1", f"route append default via {gateways[1]} dev eth1 metric 1024",
                         cidr=cidr)  # fmt: skip
        assert not any("with: ip -6" in note.remedy for note in notes(found))

    def test_the_highest_metric(self, host: Namespace) -> None:
        """It is taken if it is free, and behind it there is none. Kills: the last one is not taken."""
        for metric, remedied in ((4294967294, True), (4294967295, False)):
            ways = [way.replace("metric 100", f"metric {metric}") for way in (DEFAULT, APPENDED)]
            [note] = notes(examined(host, *ways))
            assert (" metric 4294967295 && " in note.remedy, "until then" in note.remedy) == (remedied, remedied)
            host.batch(way.replace("append", "del").replace("add", "del") for way in ways)

    def test_one_without_a_carrier(self, host: Namespace) -> None:
        """Its device is not in use, so there is nothing to decide. Kills: only a dead route is not in use."""
        lose_carriers(host, ["eth1"])
        found = examined(host, DEFAULT, APPENDED)
        assert (found.verdict, notes(found)) == ("ok", [])

    @pytest.mark.parametrize(
        ("lines", "devs"),
        [((DEFAULT, APPENDED), ("eth0", "eth1")), ((TWO_WAYS,), ()), ((DEFAULT, SECOND.replace("100", "200")), ())],
        ids=["both are named", "two next hops", "two metrics"],
    )
    def test_a_decision(self, host: Namespace, lines: tuple[str, ...], devs: tuple[str, ...]) -> None:
        """What the configuration, or whoever made the routes, has decided is no accident."""
        found = examined(host, *lines, devs=devs)
        assert (found.verdict, notes(found)) == ("ok", [])

    def test_two_that_linux_joins(self, host: Namespace) -> None:
        """Linux makes one IPv6 route of two gateways: an accident if they are advertised. Kills: it is a decision."""
        ways = [
            f"route append default via fd00:{net}::1 dev {dev} proto ra" for net, dev in (("99", "eth0"), ("9", "eth1"))
        ]
        found = examined(host, *ways, cidr=CIDR6)
        [note] = notes(found)
        assert (found.verdict, len(found.fib.routes(Prefix.parse("::/0")))) == ("undecided", 1)
        repaired_by(host, note)
        host.sysctl("ipv6/conf/all/forwarding", 1)
        found = examined(host, cidr=CIDR6)
        assert (found.verdict, found.families[0].report.expected_devs) == ("ok", ("eth0",))
        by_hand = (way.replace("proto ra", "metric 9") for way in ways)
        assert examined(host, *by_hand, cidr=CIDR6).verdict == "ok"

    def test_one_is_named(self, host: Namespace) -> None:
        """Packets by the device that is not named escape; a static route by the named one is OK. Kills: they compete."""
        found = examined(host, DEFAULT, APPENDED, devs=("eth0",))
        assert (found.verdict, [note for note in notes(found) if note.name == "default-routes"]) == ("overlap", [])
        found = examined(host, f"route add {CIDR} via 10.0.0.1 dev eth0", devs=("eth0",))
        assert (found.verdict, notes(found)) == ("ok", [])

    def test_two_of_one_rank_in_ipv6(self, host: Namespace) -> None:
        """The same in IPv6, where routers advertise them. Kills: only IPv4's default routes compete."""
        host.batch(["route add default via fd00:99::1 dev eth0 proto ra metric 1024"], family=6)
        found = examined(host, "route append default dev eth1 proto ra metric 1024", cidr=CIDR6)
        assert found.verdict == "undecided"
        [note] = [note for note in notes(found) if note.name == "default-routes"]
        repaired_by(host, note)
        # While it does not forward, a host uses the other router if the first does not answer.
        host.sysctl("ipv6/conf/all/forwarding", 1)
        assert (examined(host, cidr=CIDR6).verdict, notes(examined(host, cidr=CIDR6))) == ("ok", [])


@pytest.mark.linux
@pytest.mark.needs("root")
def test_a_rule_for_an_empty_table(host: Namespace) -> None:
    """A note, with the line that deletes the rule; none about a rule for VRFs. Kills: every table is looked at, or none."""
    rules = "rule add pref 77 not from 10.0.0.0/8 fwmark 0x1/0xff iif eth1 lookup 77", "rule add pref 8 l3mdev"
    found = examined(host, DEFAULT, *rules)
    assert found.verdict == "ok"
    [note] = notes(found)
    repaired_by(host, note)
    assert notes(examined(host)) == []


@pytest.mark.linux
@pytest.mark.needs("root")
def test_a_rule_of_the_other_family(host: Namespace) -> None:
    """A rule is for the table of its own family. Kills: each family has the rules of both."""
    host.batch(["rule add pref 77 lookup 77", "route add default via fd00:99::1 dev eth0 table 77"], family=6)
    examined(host, DEFAULT)
    with closing(NetlinkBackend(netns=host.path)) as backend:
        found = examine(phases.Context(clock=FakeClock(), observers=[]), backend, config(cidrs=(CIDR, CIDR6)), wait=0)
    assert (found.verdict, notes(found)) == ("ok", [])


def competing() -> MemoryBackend:
    """A host whose two devices use DHCP, so that both have a default route of metric 100."""
    kernel = plain_vm()
    kernel.add_link("eth1")
    kernel.add_address("eth1", "10.9.0.4/24")
    [added] = kernel.change(
        [RouteRequest("append", Route.to("0.0.0.0/0", dev="eth1", gateway="10.9.0.1", metric=100, protocol=16))]
    )
    assert added.ok
    return kernel


def test_every_reader(tmp_path: Path) -> None:
    """Each command with a verdict says that default routes compete, and what repairs it; no static route helps.

    Kills: "No static route can be proposed" and no more, and an INSTALLED of `status`.
    """
    answer = "UNDECIDED: a plain packet to 172.16.0.0/16 leaves by eth0 or eth1; but IPv4 default routes by eth0 and eth1 compete"
    remedy = (
        "ip route add default via 10.9.0.1 dev eth1 proto 16 metric 101 && ip route del default via 10.9.0.1 dev eth1"
    )
    path, host = tmp_path / "config.json", FakeHost(kernel=competing())
    path.write_text(config(cidrs=(CIDR,)).to_json())
    for verb in ("check", "repair"):
        said = say(verb, CIDR, kernel=competing())
        assert (said.code, said.lines[0], remedy in said.out) == (3, answer, True)
    assert say("check", CIDR, "--dev", "eth0", "--dev", "eth1", kernel=competing()).code == 0
    assert remedy in say("apply", "--config", str(path), host=host).err
    status = say("status", host=host)
    assert (status.code, status.lines[0]) == (3, answer)
    (tmp_path / "a.json").write_text(competing().snapshot().to_json())
    fleet = say("check", "--snapshots", str(tmp_path / "a.json"), CIDR)
    assert (fleet.code, "IPv4 default routes by eth0 and eth1 compete" in fleet.out) == (3, True)
