"""The pods of a node: the verdict is never OK while Linux sends their packets elsewhere."""

import json
from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, event, given, settings, strategies as st

from hostrouting.check.check import check_kernel
from hostrouting.check.sentences import check_findings
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.route import TABLE_MAIN, Route
from hostrouting.model.rule import Rule
from tests.support.commands import ports
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace
from tests.support.sections import expect

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

CIDR = {4: "10.244.0.0/16", 6: "fd44::/64"}
NODE = {4: "10.0.0.4", 6: "2001:db8::4"}
RAIL = {4: "10.30.1.4", 6: "2001:db8:30::4"}
LENGTH = {4: "24", 6: "64 nodad"}
GATEWAY = {4: "10.0.0.1", 6: "2001:db8::1"}
PODS = {
    4: {"cali1": "10.244.5.130", "lxc1": "10.244.5.131", "cni0": "10.244.5.20"},
    6: {"cali1": "fd44::130", "lxc1": "fd44::131", "cni0": "fd44::20"},
}
"""By family and device: the address of a pod behind it."""
BRIDGE = {4: "10.244.5.17/28", 6: "fd44::11/122 nodad"}
BLOCK = {4: "10.244.5.0/24", 6: "fd44::/112"}
"""The network of all these pods."""
USERS = (0, 1000)
TABLES = ["main", "100", "101"]
HOST = (
    "link set lo up",
    *ports("eth0", "eth1", "docker0", "cali1", "lxc1"),
    "link add cni0 type bridge",
    *ports("port0"),
    "link set port0 master cni0",
    "link set cni0 addrgenmode none",
    "link set cni0 up",
)


@st.composite
def routes(draw: st.DrawFn, family: int) -> str:
    """A route that may hide pods: to all addresses, to one pod, or to the network of all."""
    pods = PODS[family].values()
    to = draw(st.sampled_from(["default", "default", BLOCK[family], *pods]))
    kind = draw(st.sampled_from(["", "", "", "", "", "", "blackhole", "throw"]))
    way = ""
    if not kind:
        by_gateway = f"via {GATEWAY[family]} dev eth0"
        way = draw(st.sampled_from([by_gateway, by_gateway, "dev eth1", "dev docker0"]))
    table = draw(st.sampled_from(TABLES))
    metric = draw(st.sampled_from([5, 2000]))
    return f"route add {kind} {to} table {table} metric {metric} {way}"


@st.composite
def routes_to_pods(draw: st.DrawFn, family: int) -> list[str]:
    """What a CNI adds for some pods; now and then a pod has an address of the host."""
    commands: list[str] = []
    for dev, pod in PODS[family].items():
        if draw(st.integers(0, 3)) == 0:
            continue
        if dev == "cni0":
            commands.append(f"address add {BRIDGE[family]} dev cni0")
            continue
        table = draw(st.sampled_from(["main", *TABLES]))
        commands.append(f"route add {pod} dev {dev} table {table}")
        if draw(st.integers(0, 9)) == 0:
            commands.append(f"route add local {pod} dev lo table local")
    return commands


@st.composite
def rules(draw: st.DrawFn, family: int) -> str:
    selectors = [
        "from all",
        "from all",
        f"from {NODE[family]}",
        f"from {NODE[family]} ipproto tcp",
        f"from {NODE[family]} fwmark 0x0/0xff",
        f"from {BRIDGE[family].partition('/')[0]} ipproto tcp",
        f"from {RAIL[family]}",
        f"from {PODS[family]['cali1']}",
        f"to {BLOCK[family]}",
        f"to {PODS[family]['cali1']}",
        "fwmark 0x200/0xf00",
        "fwmark 0x0/0xff",
        "iif lo",
        "iif cali1",
        "oif eth1",
        "uidrange 0-0",
        "uidrange 1000-1999",
        "ipproto tcp",
    ]
    words = draw(st.sampled_from(["", "", "", "not "])) + draw(st.sampled_from(selectors))
    words += f" priority {draw(st.integers(1, 40_000))}"
    if draw(st.integers(0, 9)) == 0:
        return f"rule add {words} prohibit"
    suppress = draw(st.sampled_from(["", "", "", " suppress_prefixlength 0"]))
    return f"rule add {words} lookup {draw(st.sampled_from(TABLES))}{suppress}"


@pytest.fixture(name="namespace", scope="module")
def _namespace() -> Iterator[Namespace]:
    """A host with these devices, which every example uses: a bridge takes a second to come up."""
    with private_namespace() as namespace:
        namespace.batch(HOST)
        yield namespace


def make(namespace: Namespace, family: int, commands: Iterable[str]) -> None:
    flushed = [f"route flush table {table}" for table in TABLES]
    flushed += [f"address flush dev {dev}" for dev in ("eth0", "eth1", "lo", "cni0")]
    pods = [f"route del local {pod} table local" for pod in PODS[family].values()]
    usual = [
        "rule add priority 0 lookup local",
        "rule add priority 32766 lookup main",
        "rule add priority 50000 lookup 200",
    ]
    first = ["rule del priority 0"] * 4  # `rule flush` leaves these
    lines = [*flushed, *pods, "rule flush", *first, *usual, *commands]
    namespace.batch(lines, force=True, family=family)


class Host(NamedTuple):
    """The commands that make a host, and what a configuration says of it."""

    commands: list[str]
    expected_devs: list[str]
    intended_rules: list[str]

    def config(self, family: int) -> HostRoutingConfig:
        section = expect(
            CIDR[family], expected_devs=self.expected_devs, intended_rules=self.intended_rules
        )
        return HostRoutingConfig(route_overlap=section)


@st.composite
def hosts(draw: st.DrawFn, family: int) -> Host:
    commands = [
        f"address add {NODE[family]}/{LENGTH[family]} dev eth0",
        f"route add default via {GATEWAY[family]} dev eth0 metric 100",
        *draw(routes_to_pods(family)),
        *draw(st.lists(routes(family), max_size=2)),
        *draw(st.lists(rules(family), min_size=1, max_size=2)),
    ]
    changed = draw(st.integers(0, 19))
    if changed == 0:  # as Cilium does
        commands += ["rule add priority 100 lookup local", "rule del priority 0"]
    elif changed == 1:  # as networkd does
        commands.append("rule del priority 32766")
    if draw(st.booleans()):
        commands.append(f"address add {RAIL[family]}/{LENGTH[family]} dev eth1")
    expected_devs = draw(st.sampled_from([[], [], ["eth0"], ["eth1"]]))
    intended_rules = draw(st.sampled_from([[], [f"from {NODE[family]}"]]))
    return Host(commands, expected_devs, intended_rules)


laws = settings(
    max_examples=scaled(70), suppress_health_check=[HealthCheck.too_slow], print_blob=True
)


@pytest.mark.parametrize("family", [4, 6])
@laws
@given(data=st.data())
def test_ok_is_not_wrong_for_the_pods_of_this_node(
    namespace: Namespace, family: int, data: st.DataObject
) -> None:
    """Then packets and connections of any user to a live pod leave by a CNI's device."""
    host = data.draw(hosts(family))
    make(namespace, family, host.commands)
    with namespace.inside(), NetlinkBackend() as backend:
        report = check_kernel(backend, host.config(family))
        pods = live_pods(backend, family)
        event(f"{report.verdict}, with pods: {bool(pods)}")
        if report.verdict == "ok":
            answers_from = [NODE[family]] if "eth0" in report.families[0].expected_devs else []
            assert list(missed(namespace, family, pods, answers_from)) == []


@pytest.mark.parametrize("family", [4, 6])
@laws
@given(data=st.data())
def test_what_is_proposed_reaches_the_pods(
    namespace: Namespace, family: int, data: st.DataObject
) -> None:
    """Typed one after the other, they end the findings."""
    host = data.draw(hosts(family))
    make(namespace, family, host.commands)
    with namespace.inside(), NetlinkBackend() as backend:
        typed: list[str] = []
        while True:
            report = check_kernel(backend, host.config(family))
            commands: list[str] = []
            for finding in check_findings(report):
                if finding.name in {"pods-hidden", "unsafe"}:
                    commands += finding.to_mapping()["commands"]
            if not commands:
                break
            command = commands[0]
            assert command not in typed
            typed.append(command)
            done = namespace.ip(*command.split()[1:])
            assert done.returncode == 0, f"{command}: {done.stderr}"
    event(f"commands: {len(typed)}")


def live_pods(backend: NetlinkBackend, family: int) -> list[str]:
    """The pods that have a route in table main, or in one for all packets to some addresses."""
    snapshot = backend.snapshot()
    tables = {TABLE_MAIN}
    tables |= {rule.table for rule in snapshot.rules if rule.family == family and is_for_all(rule)}
    routes = [route for route in snapshot.routes if route.table in tables]
    pods = PODS[family].items()
    return [pod for dev, pod in pods if any(leads_to(route, dev, pod) for route in routes)]


def is_for_all(rule: Rule) -> bool:
    """Whether the rule selects by the destination at most: what it selects, hosts may send."""
    return rule._replace(dst=None).selectors() == [] and not rule.invert


def leads_to(route: Route, dev: str, pod: str) -> bool:
    return route.type == "unicast" and dev in route.devs and ip_address(pod) in route.prefix


def missed(
    namespace: Namespace, family: int, pods: Iterable[str], answers_from: list[str]
) -> Iterator[str]:
    """What Linux sends elsewhere: each packet as `ip route get` has it."""
    for pod in pods:
        for user in USERS:
            packet = f"{pod} uid {user}"
            way = way_of(namespace, family, packet)
            if way.get("dev") not in PODS[family]:
                yield f"{packet}: {way}"
            sources = [way["prefsrc"]] if "prefsrc" in way else []
            for source in [*sources, *answers_from]:
                connection = f"{packet} from {source} ipproto tcp"
                way = way_of(namespace, family, connection)
                if way.get("dev") not in PODS[family]:
                    yield f"{connection}: {way}"


def way_of(namespace: Namespace, family: int, packet: str) -> dict[str, Any]:
    done = namespace.ip(f"-{family}", "-j", "route", "get", *packet.split())
    ways: list[dict[str, Any]] = json.loads(done.stdout or "[{}]")
    return ways[0]
