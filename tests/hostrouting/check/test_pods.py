"""hostrouting.check.packets and hostrouting.check.pods: what pods send is checked as well, in classes of packets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from hostrouting.check.examine import Examination, FamilyExamination, examine_snapshot
from hostrouting.check.overlap import check_overlap
from hostrouting.check.packets import PodPackets, find_pod_packets, senders_phrase, with_devices_of
from hostrouting.check.pods import check_pods
from hostrouting.check.report import check_findings
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, RouteOverlapError
from hostrouting.fib.decision import Decision
from hostrouting.fib.engine import Fib
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import NextHop, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.testing import FakeHost, MemoryBackend, h200, plain_vm
from tests.support.cli import say
from tests.support.tasks import failure_of, run

CIDR, PODS = Prefix.parse("172.16.0.0/16"), Prefix.parse("10.244.3.0/24")
UPPER = Prefix.parse("10.244.3.128/25")
PATTERNS = ("cni0", "veth*", "cali*")


def node(*links: Link, rules: tuple[Rule, ...] = (), routes: tuple[Route, ...] = ()) -> MemoryBackend:
    """A plain VM with ib0, the devices of a CNI, and these rules and routes."""
    kernel = plain_vm()
    kernel.add_link(Link(name="ib0", index=0, type=32))
    kernel.add_address("ib0", "192.168.7.1/24")
    for link in links:
        kernel.add_link(link)
        kernel.set_up(link.name)
    for rule in rules:
        kernel.add_rule(rule)
    for route in routes:
        [outcome] = kernel.change([RouteRequest("add", route)])
        assert outcome.error is None
    return kernel


def rule(priority: int = 100, **says: Any) -> Rule:
    """A rule that looks up table 100."""
    return Rule(family=4, priority=priority, **{"table": 100, "protocol": 3, **says})


def bridge() -> tuple[Link, Link]:
    """A bridge of a CNI, and a port of it."""
    return Link(name="cni0", index=0, kind="bridge"), Link(name="veth1", index=0, kind="veth", master="cni0")


ASTRAY = Route.to("0.0.0.0/0", dev="ib0", gateway="192.168.7.9", table=100, protocol=4)


def config(**check: object) -> HostRoutingConfig:
    """A configuration with pods."""
    its = {"expectedCidrs": [str(CIDR)], "podCidrs": [str(PODS)], "mode": "STRICT", **check}
    return HostRoutingConfig.from_mapping({"routeOverlap": its})


def examined(kernel: MemoryBackend, **check: object) -> FamilyExamination:
    """The check of what the host and the pods send."""
    [found] = examine_snapshot(kernel.snapshot(), config(**check)).families
    return found


def packets_of(source: Prefix) -> list[dict[str, Any]]:
    """What pods of this range send by cni0, in the facts of a finding."""
    return [{"sources": [str(source)], "devs": ["cni0"], "exist": True}]


def told(found: FamilyExamination) -> list[tuple[object, str]]:
    """The packets that each finding is about, None if the host's own, and its name."""
    return [
        (finding.facts.get("packets"), finding.name) for finding in check_findings(Examination((found,)), mode="STRICT")
    ]


def classes(snapshot: Snapshot, *cidrs: Prefix) -> list[tuple[str, str, bool]]:
    """The classes of packets as text."""
    found = find_pod_packets(snapshot, cidrs or [PODS], PATTERNS, expected=[CIDR])
    return [(" ".join(map(str, it.sources)), " ".join(it.devs), it.exist) for it in found]


def veths(*names: str, master: str | None = None) -> tuple[Link, ...]:
    """Devices of pods."""
    return tuple(Link(name=name, index=0, kind="veth", master=master) for name in names)


BY_DEVICE = (
    rule(iif="cali1"),
    rule(101, iif="cali9"),
    rule(102, iif="eth0"),
    rule(103, iif="lo"),
    rule(104, iif="cali3"),
)
BY_SOURCE = (rule(src=Prefix.parse("10.244.3.64/26")), rule(101, src=Prefix.parse("10.0.0.0/8"), invert=True))
# The devices and rules of a node, and the classes of what its pods send.
CLASSES: dict[str, tuple[tuple[Link, ...], tuple[Rule, ...], list[tuple[str, str, bool]]]] = {
    "no rules": (veths("cali1", "cali2"), (), [("10.244.3.0/24", "cali1 cali2", True)]),
    "a port of a bridge": (bridge(), (), [("10.244.3.0/24", "cni0", True)]),
    "a port of a bridge that has not the name of a CNI's": (
        (Link(name="br7", index=0, kind="bridge"), *veths("veth1", master="br7")),
        (),
        [("10.244.3.0/24", "br7", True)],
    ),
    "in a VRF, whose table is not known": (
        (Link(name="red", index=0, kind="vrf"), *veths("cali1", master="red")),
        (),
        [],
    ),
    "at an unknown switch": (
        (Link(name="ovs-system", index=0, kind="openvswitch"), *veths("cali1", master="ovs-system")),
        (),
        [],
    ),
    "before the CNI: a device that no rule names": ((), (), [("10.244.3.0/24", "", False)]),
    "rules that do different things by device, also by one to come": (
        veths("cali0", "cali1", "cali2", "cali3"),
        BY_DEVICE,
        [
            ("10.244.3.0/24", "cali0 cali2", True),
            ("10.244.3.0/24", "cali1 cali3", True),
            ("10.244.3.0/24", "cali9", False),
        ],
    ),
    "the same rule by device, once before another rule and once behind it": (
        veths("cali1", "cali2"),
        (rule(iif="cali1"), rule(101, table=200), rule(102, iif="cali2")),
        [("10.244.3.0/24", "cali1", True), ("10.244.3.0/24", "cali2", True)],
    ),
    "a rule of the other family": (
        veths("cali1", "cali2"),
        (Rule(family=6, priority=100, table=100, iif="cali1"),),
        [("10.244.3.0/24", "cali1 cali2", True)],
    ),
    "rules by source, whose prefixes split the CIDR": (
        bridge(),
        BY_SOURCE,
        [("10.244.3.0/26 10.244.3.128/25", "cni0", True), ("10.244.3.64/26", "cni0", True)],
    ),
}


def by(dev: str, prefix: str = "fd16:0:0:1::/64", source: Prefix | None = None) -> Route:
    """A route by the device of a pod."""
    return attrs.evolve(Route.to(prefix, dev=dev, metric=5), source=source)


LAST = "fd16:0:0:1:ffff:ffff:ffff:ffff/128"
PODS6, PLAINLY = Prefix.parse("fd44::/64"), [("fd44::/64", "cali1 cali2 cali3")]
APART = [("fd44::/64", "cali1"), ("fd44::/64", "cali2"), ("fd44::/64", "cali3")]
# Routes of a node, and the classes of what its pods send to fd16:0:0:1::/64.
CLASSES_IPV6: dict[str, tuple[tuple[Route, ...], list[tuple[str, str]]]] = {
    "one route": ((by("cali1"),), PLAINLY),
    "two, of which Linux prefers the one by which a packet came in": ((by("cali1"), by("cali2")), APART),
    "two next hops": ((attrs.evolve(by("cali1"), legs=(NextHop("cali1"), NextHop("cali2"))),), APART),
    "for the first address": ((by("cali1", "fd16:0:0:1::/128"), by("cali2", "fd16:0:0:1::/128")), APART),
    "for the last one": ((by("cali1", LAST), by("cali2", LAST)), APART),
    "before the first": ((by("cali1", "fd16::/64"), by("cali2", "fd16::/64")), PLAINLY),
    "behind the last": ((by("cali1", "fd16:0:0:2::/64"), by("cali2", "fd16:0:0:2::/64")), PLAINLY),
    "for some sources": (
        (by("cali1", source=Prefix.parse("fd44::/65")),),
        [("fd44::/65", "cali1 cali2 cali3"), ("fd44::8000:0:0:0/65", "cali1 cali2 cali3")],
    ),
    "two of IPv4": ((by("cali1", "172.16.0.0/16"), by("cali2", "172.16.0.0/16")), PLAINLY),
}


class TestClasses:
    """Packets that no rule tells apart are one class."""

    @pytest.mark.parametrize("name", CLASSES_IPV6)
    def test_each_node_with_ipv6(self, name: str) -> None:
        """In IPv6, routes tell sources and devices apart, if they are for the expected CIDR."""
        routes, found = CLASSES_IPV6[name]
        snapshot = Snapshot(links=veths("cali1", "cali2", "cali3"), routes=(by("eth0", "10.0.0.0/8"), *routes))
        packets = find_pod_packets(snapshot, [PODS6], PATTERNS, expected=[Prefix.parse("fd16:0:0:1::/64")])
        assert [(" ".join(map(str, it.sources)), " ".join(it.devs)) for it in packets] == found
        packets = find_pod_packets(snapshot, [PODS], PATTERNS, expected=[CIDR])
        assert [it.devs for it in packets] == [("cali1", "cali2", "cali3")]

    def test_nothing_expected(self) -> None:
        """Nothing is to be checked then."""
        assert find_pod_packets(Snapshot(), [PODS], PATTERNS, expected=[]) == ()

    def test_devices_that_exist(self) -> None:
        """The host stays as it is, if it has all of them."""
        fib = Fib(node(*bridge()).snapshot())
        assert with_devices_of(fib, [PodPackets((PODS,), ("cni0",))]) is fib

    @pytest.mark.parametrize("name", CLASSES)
    def test_each_node(self, name: str) -> None:
        """Each node of the table has these classes; lo and other devices are not among them."""
        links, rules, found = CLASSES[name]
        snapshot = node(rules=rules).snapshot()
        assert classes(attrs.evolve(snapshot, links=(*snapshot.links, *links))) == found

    @pytest.mark.parametrize(
        ("cidrs", "found"),
        [
            ([str(PODS), "10.244.3.0/25", "10.244.2.0/24", "fd44::/64"], [("10.244.2.0/23", "cni0", True)]),
            (["fd44::/64"], []),
        ],
    )
    def test_each_address_is_in_one_class(self, cidrs: list[str], found: list[tuple[str, str, bool]]) -> None:
        """Pod CIDRs may overlap; without one of the family, there is no class."""
        assert classes(node(*bridge()).snapshot(), *map(Prefix.parse, cidrs)) == found

    def test_a_rule_for_each_pod(self) -> None:
        """Hundreds of rules that do the same, one for each pod, make two classes."""
        rules = tuple(rule(100, src=Prefix(4, PODS.first + 2 * place, 32), table=2) for place in range(100))
        snapshot = node(*bridge()).snapshot()
        found = classes(attrs.evolve(snapshot, rules=(*rules, *snapshot.rules)))
        assert [len(sources.split()) for sources, _, _ in found] == [100, 103]


class TestCheck:
    """The check of what pods send."""

    @pytest.mark.parametrize(
        ("says", "verdict"), [({"oif": "eth0"}, "ok"), ({"uids": (1, 9)}, "ok"), ({"uids": (0, 0)}, "overlap")]
    )
    def test_what_every_pod_packet_has(self, says: dict[str, Any], verdict: str) -> None:
        """Linux forwards as user 0, and no socket of the host is bound to a device."""
        [pod] = examined(node(*bridge(), rules=(rule(**says),), routes=(ASTRAY,))).pods
        assert (pod.verdict, pod.notes) == (verdict, ())

    def test_ipv4_pods_beside_an_ipv6_route_for_some_sources(self) -> None:
        """Such a route, as a node with two uplinks has it, has nothing to do with the pods' IPv4 packets."""
        snapshot = node(*bridge()).snapshot()
        routes = (*snapshot.routes, by("eth0", "::/0", Prefix.parse("fd44:0:0:7::/64")))
        [family] = examine_snapshot(attrs.evolve(snapshot, routes=routes), config()).families
        assert [pod.verdict for pod in family.pods] == ["ok"]

    def test_a_rule_by_source(self) -> None:
        """Pods whose packets a rule leads elsewhere escape, although the host's own packets do not."""
        found = examined(node(*bridge(), rules=(rule(src=UPPER),), routes=(ASTRAY,)))
        assert (found.verdict, found.report.escapes) == ("overlap", ())
        fine, astray = found.pods
        assert (fine.verdict, fine.escapes) == ("ok", ())
        [finding] = astray.escapes
        assert (finding.cidr, finding.first, finding.last, finding.devs) == (CIDR, CIDR.first, CIDR.last, ("ib0",))
        assert finding.senders == (PodPackets((UPPER,), ("cni0",)),)

    def test_what_the_host_sends_there_too(self) -> None:
        """What escapes for the host and for pods alike is reported once, also where the pods' ranges are shorter."""
        found = examined(h200())
        assert [pod.verdict for pod in found.pods] == ["overlap"]
        assert found.escapes == found.report.escapes != ()
        inner = Prefix.parse("172.16.5.0/24")
        good = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=101, protocol=4)
        astray = Route.to("172.16.0.0/16", dev="ib0", gateway="192.168.7.9", protocol=4)
        found = examined(node(*bridge(), rules=(rule(iif="cni0", dst=inner, table=101),), routes=(good, astray)))
        assert found.escapes == found.report.escapes
        assert [len(pod.escapes) for pod in found.pods] == [2]
        # Where only the host leaves rightly, the pods' longer range is a finding of its own.
        found = examined(node(*bridge(), rules=(rule(iif="lo", dst=inner, table=101),), routes=(good, astray)))
        assert [(len(found.report.escapes), len(found.escapes))] == [(2, 3)]

    def test_a_note_about_both(self) -> None:
        """What a mark does for the host and for pods alike is noted once."""
        found = examined(node(*bridge(), rules=(rule(fwmark=1, fwmask=0xFF),), routes=(ASTRAY,)))
        assert [len(pod.notes) for pod in found.pods] == [1]
        assert found.notes == found.report.notes != ()

    def test_the_answer_of_the_kernel(self) -> None:
        """The kernel's answer about pods' packets takes the place of one cell of theirs, and no other."""
        routes = [attrs.evolve(ASTRAY, prefix=Prefix.parse(text)) for text in ("172.16.5.0/24", "172.16.9.0/24")]
        fib = Fib(node(*bridge(), rules=(rule(iif="cni0"),), routes=tuple(routes)).snapshot())
        [packets] = find_pod_packets(fib.snapshot, [PODS], PATTERNS, expected=[CIDR])
        told = {routes[0].prefix.first: Decision("prohibit", None, None, ())}
        [pod] = check_pods(fib, check_overlap(fib, [CIDR]), [packets], ask=lambda _: told)
        assert [(escape.kind, escape.first) for escape in pod.escapes] == [
            ("prohibit", routes[0].prefix.first),
            ("overlap", routes[1].prefix.first),
        ]

    def test_a_device_to_come(self) -> None:
        """A rule for a device that does not exist matches nothing now, but will match what arrives on it."""
        found = examined(node(rules=(rule(iif="cni0"),), routes=(ASTRAY,)))
        [finding] = found.escapes
        assert finding.senders == (PodPackets((PODS,), ("cni0",), exist=False),)

    def test_a_mark(self) -> None:
        """A rule by mark that decides for packets of pods only leaves the verdict undecided, and a note says whose."""
        marked = rule(iif="cni0", fwmark=1, fwmask=0xFF)
        found = examined(node(*bridge(), rules=(marked,), routes=(ASTRAY,)))
        assert [pod.verdict for pod in found.pods] == ["undecided"]
        assert (packets_of(PODS), "other-packets") in told(found)
        [note] = [
            finding for finding in check_findings(Examination((found,)), mode="WARN") if "packets" in finding.facts
        ]
        assert "), for packets of pods from 10.244.3.0/24 that arrive on cni0: packets with fwmark" in note.sentence

    def test_no_default_route(self) -> None:
        """Without a default route no device is expected, for pods neither."""
        found = examined(MemoryBackend())
        assert (found.verdict, found.pods) == ("no-default-route", ())

    def test_default_routes_in_turn(self) -> None:
        """Linux tries another default route only for the host's own packets; a pod's packet takes the first."""
        other = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=100, protocol=4)
        snapshot = node(*bridge(), rules=(rule(),)).snapshot().with_routes([other, ASTRAY])
        [found] = examine_snapshot(snapshot, config(expectedDevs=["eth0"])).families
        assert (found.report.verdict, [pod.verdict for pod in found.pods]) == ("overlap", ["ok"])


class TestRepair:
    """The repair is for the host's own packets and for those of pods."""

    def test_in_table_main(self) -> None:
        """If only the pods' packets reach table main, a route there repairs them, and the proof says so."""
        own = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=100, protocol=4)
        astray = Route.to("172.16.0.0/16", dev="ib0", gateway="192.168.7.9", protocol=4)
        # Packets of the host with a mark are looked up like those of pods.
        marked = rule(90, table=254, fwmark=1, fwmask=1)
        found = examined(node(*bridge(), rules=(marked, rule(iif="lo")), routes=(own, astray)))
        assert (found.report.escapes, found.report.verdict, found.verdict) == ((), "undecided", "overlap")
        assert [str(route.destination) for route in found.repair.routes] == ["172.16.0.0/17", "172.16.128.0/17"]
        assert [pod.verdict for pod in found.repair.pods] == ["ok"]
        assert found.repair.proof.verdict == "ok"
        assert found.repair.unsafe == ()

    @pytest.mark.parametrize(("most", "reasons"), [(4, set()), (3, {"too-many"})])
    def test_too_many_in_all(self, monkeypatch: pytest.MonkeyPatch, most: int, reasons: set[str]) -> None:
        """The routes for all classes of packets count together. Kills: those for the classes before do not count."""
        monkeypatch.setattr("hostrouting.check.repair.TOO_MANY", most)
        own = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=100, protocol=4)
        ranges = [Prefix.parse(text) for text in ("172.16.0.0/16", "172.18.0.0/16")]
        astray = [Route.to(it, dev="ib0", gateway="192.168.7.9", protocol=4) for it in ranges]
        fine = [rule(101, src=UPPER, dst=ranges[0]), rule(102, src=Prefix.parse("10.244.3.0/25"), dst=ranges[1])]
        kernel = node(*bridge(), rules=(rule(iif="lo"), *fine), routes=(own, *astray))
        repair = examined(kernel, expectedCidrs=[*map(str, ranges)]).repair
        assert len(repair.routes) == most // 2 * 2
        assert {it.reason for it in repair.unsafe} == reasons

    def test_what_would_harm_others(self) -> None:
        """Routes for pods' packets that would take the host from its own pods are not proposed."""
        pods = Route.to("172.16.5.0/24", dev="cni0", protocol=3)
        rules = (rule(100, iif="cni0", table=254, suppress_prefixlength=24), rule(101, iif="cni0"))
        found = examined(node(*bridge(), rules=rules, routes=(ASTRAY, pods)))
        assert found.repair.routes == ()
        assert {it.reason for it in found.repair.unsafe} == {"clash"}

    def test_of_several_classes(self) -> None:
        """What cannot be repaired names, for each range, all packets that it is about. Kills: all ranges are one."""
        links = tuple(Link(name=f"cali{number}", index=0) for number in (1, 2))
        harmless = rule(90, iif="cali2", dst=Prefix.parse("9.0.0.0/8"))
        hole = Route.to("172.16.5.0/24", dev="eth0", gateway="10.0.0.1", table=100)
        unsafe = examined(node(*links, rules=(harmless, rule(src=UPPER)), routes=(ASTRAY, hole))).repair.unsafe
        devs = [{dev for sender in lost.senders for dev in sender.devs} for lost in unsafe]
        assert devs == [{"cali1", "cali2"}] * 2


class TestTold:
    """What operators and programs read."""

    def test_findings(self) -> None:
        """Sentences name the pods, and facts have their packets; without pod CIDRs there are none."""
        kernel = node(*bridge(), rules=(rule(src=UPPER),), routes=(ASTRAY,))
        found = examine_snapshot(kernel.snapshot(), config())
        whose = ", for packets of pods from 10.244.3.128/25 that arrive on cni0, "
        assert all(
            whose in finding.sentence for finding in check_findings(found, mode="STRICT") if "packets" in finding.facts
        )
        [family] = found.families
        assert [unsafe.reason for unsafe in family.repair.unsafe] == ["earlier-rule"]
        assert told(family)[:2] == [(packets_of(UPPER), "overlap"), (packets_of(UPPER), "unsafe")]
        [family] = examine_snapshot(kernel.snapshot(), config(podCidrs=[])).families
        assert told(family) == [(None, "other-packets")]

    @pytest.mark.parametrize(
        ("packets", "phrase"),
        [
            ([PodPackets((PODS,), ("cni0",))], "from 10.244.3.0/24 that arrive on cni0"),
            (
                [PodPackets((PODS,), ("cni0",), exist=False)],
                "from 10.244.3.0/24 that arrive on cni0 (which does not exist)",
            ),
            ([PodPackets((PODS,), (), exist=False)], "from 10.244.3.0/24 that arrive on a device that no rule names"),
            (
                [PodPackets((PODS,), tuple(f"cali{number}" for number in range(30)))],
                "from 10.244.3.0/24 that arrive on cali0, cali1, cali2 or 27 more",
            ),
            (
                [PodPackets((PODS,), ("cni0",)), PodPackets((UPPER,), ("veth1",))],
                "from 10.244.3.0/24 that arrive on cni0, or from 10.244.3.128/25 that arrive on veth1",
            ),
            (
                [PodPackets((Prefix(4, at << 8, 24),), (f"veth{at}",)) for at in range(3)],
                ", or ".join(f"from 0.0.{at}.0/24 that arrive on veth{at}" for at in range(3)),
            ),
            (
                [PodPackets((it,), (dev,)) for dev in ("cni0", "veth1") for it in (PODS, UPPER)],
                "from 10.244.3.0/24 or 10.244.3.128/25 that arrive on cni0 or veth1",
            ),
        ],
        ids=lambda it: it if isinstance(it, str) else "",
    )
    def test_senders(self, packets: list[PodPackets], phrase: str) -> None:
        """Sources and devices are named; of many, the first three."""
        assert senders_phrase(packets) == f"packets of pods {phrase}"

    def test_task(self) -> None:
        """In STRICT a bootstrap fails if what pods send escapes; error and marker say it."""
        host = FakeHost(kernel=node(*bridge(), rules=(rule(src=UPPER),), routes=(ASTRAY,)))
        error = failure_of(run, CheckRouteOverlap(config(), host=host), of=RouteOverlapError)
        assert "for packets of pods from 10.244.3.128/25" in host.files.texts[host.layout.detected_path]
        assert error.check["findings"][0]["facts"]["packets"] == packets_of(UPPER)

    @pytest.mark.parametrize(
        ("rules", "said"),
        [
            ((rule(src=UPPER),), "Packets of pods from 10.244.3.0/25 that arrive on cni0 leave as expected."),
            ((rule(src=UPPER),), "For packets of pods from 10.244.3.128/25 that arrive on cni0:"),
            ((rule(),), "Packets of pods from 10.244.3.0/24 that arrive on cni0 escape in the same way."),
            ((rule(iif="cni0", fwmark=1, fwmask=0xFF),), "UNDECIDED: "),
        ],
        ids=["fine", "escaping", "the same", "undecided"],
    )
    def test_page(self, rules: tuple[Rule, ...], said: str, tmp_path: Path) -> None:
        """`check` prints the verdict on each class of packets."""
        path = tmp_path / "config.json"
        path.write_text(config(expectedDevs=["eth0"]).to_json())
        page = say("check", "--config", str(path), kernel=node(*bridge(), rules=rules, routes=(ASTRAY,))).out
        assert said in page
        assert ("leave as expected" in page) is (said.startswith(("Packets of pods from 10.244.3.0/25", "For")))


class TestConfiguration:
    """The settings podCidrs and podDevs."""

    def test_devices_without_cidrs(self) -> None:
        """Without CIDRs, podDevs alone would check nothing, and is a fault."""
        with pytest.raises(ConfigError) as caught:
            config(podCidrs=[], podDevs=["cni0"])
        [fault] = caught.value.faults
        assert fault.path == "routeOverlap.podDevs"
        assert "add podCidrs" in str(fault)

    def test_own_patterns(self) -> None:
        """Patterns of their own replace those of the allowed devices."""
        links = (Link(name="cali1", index=0), Link(name="tap7", index=0))
        found = examined(node(*links), podDevs=["tap*"])
        assert [packet.devs for report in found.pods for packet in report.packets] == [("tap7",)]


class _Links(tuple[Link, ...]):
    """Devices that count how often someone goes through them."""

    __slots__ = ()
    searches = 0

    def __iter__(self) -> Iterator[Link]:
        type(self).searches += 1
        return super().__iter__()


def test_many_devices() -> None:
    """A check does not search all devices once for each pod."""

    def searches(pods: int) -> int:
        host = plain_vm().snapshot()
        devices = (Link(name=f"cali{at}", index=9 + at) for at in range(pods))
        before, host = _Links.searches, attrs.evolve(host, links=_Links((*host.links, *devices)))
        examine_snapshot(host, config())
        return _Links.searches - before

    assert searches(5) == searches(50)
