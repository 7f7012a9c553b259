"""check-route-overlap.sh, run in private namespaces: its verdict and its findings equal the engine's, in both families."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from ipaddress import ip_address
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hostrouting.config import HostRoutingConfig, RouteOverlapConfig
from hostrouting.examination import examine_snapshot
from hostrouting.layout import HostLayout
from hostrouting.model import (
    DEFAULT_METRIC,
    IPV4,
    IPV6,
    REFUSING,
    Prefix,
    Route,
    Rule,
    Snapshot,
    prefixes_between,
    width_of,
)
from hostrouting.render import render_check_script
from hostrouting.wording import check_document, finding_line, no_default_line, repair_line
from tests.support.awks import AWKS, TREES, each_awk, only_awk, put_before
from tests.support.commands import LINKS, fabric_host, furnish, lose_carriers, route_command, rule_command, wishes
from tests.support.examples import scaled
from tests.support.moments import await_file, leaving_word
from tests.support.namespace import Namespace, private_namespace
from tests.support.strategies import blocks, prefixes, routes, rules
from tests.support.systemd import THIS_HOST

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(os.geteuid() != 0, reason="a private network namespace requires root"),
]

BLOCK = Prefix.parse("172.16.0.0/28")
IPV6_FILE = "/proc/self/net/if_inet6"


UPLINKS: tuple[list[str], ...] = (
    ["route add default via 10.0.0.1 dev eth0"],
    ["route add default via 10.0.0.1 dev eth0"],
    ["route add default nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth1 onlink"],
    ["route add default dev wg0 metric 5", "route add default via 10.0.0.1 dev eth0 metric 9"],
    ["route add default dev eth1"],
    ["route add default via 10.9.9.9 dev eth0 onlink"],
    ["route add default via inet6 fe80::1 dev eth0"],
    ["route add unreachable default", "route add default via 10.0.0.1 dev eth0 metric 9"],
    ["route add default via 10.0.0.1 dev eth0 table 253"],
    [],
)
UPLINKS_IPV6: tuple[list[str], ...] = (
    ["route add default via fe80::1 dev eth0"],
    ["route add default via fd00:99::1 dev eth0"],
    ["route add default nexthop via fe80::1 dev eth0 nexthop via fe80::2 dev eth1"],
    ["route add default dev wg0 metric 5", "route add default via fe80::1 dev eth0 metric 9"],
    ["route add default dev eth1 pref low", "route append default dev eth0"],
    ["route add default dev eth0 pref high", "route append default dev ib0 metric 9 expires 0"],
    ["route add unreachable default", "route add default via fe80::1 dev eth0 metric 2000"],
    ["route add default from fd00:99::/64 via fe80::1 dev eth0", "route add default via fe80::1 dev eth1"],
    ["route add default via fe80::1 dev eth0 table 100"],
    [],
)


class Checked:
    """One run of the script: its exit status, what it said, and what it left."""

    def __init__(
        self,
        namespace: Namespace,
        config: HostRoutingConfig,
        directory: Path,
        *,
        wait: int = 0,
        awk: str = AWKS[0],
        tree: Path = THIS_HOST,
        before: str = ":",
        **environment: str,
    ) -> None:
        """Render the script, run it; `before` is done in its shell first."""
        script = directory / "check.sh"
        script.write_text(only_awk(render_check_script(config, wait=wait), awk, directory, tree=tree))
        state = directory / "state"
        # What is left is looked at where it was written, which may be a file system of its own.
        run = f"bash {script}; status=$?; mkdir -p {state}; rm -rf {directory}/left; cp -r {state} {directory}/left; exit $status"
        environment["RUNTIME_DIRECTORY"] = str(state)
        done = namespace.run("unshare", "--mount", "bash", "-c", f"{before} && {{ {run}\n}}", **environment)
        self.status, self.said = done.returncode, done.stderr
        state = directory / "left"
        left = [path for path in state.iterdir() if path.is_file()] if state.is_dir() else []
        self.left = {path.name: path.read_text() for path in left}
        self.document: dict[str, Any] = json.loads(self.left.get("route-overlap.json", "{}"))


def engine(snapshot: Snapshot, config: HostRoutingConfig) -> dict[str, Any]:
    """The same check by the engine, as its JSON; addresses as Python wrote them before 3.13: ::ffff:a00:1."""
    found = examine_snapshot(snapshot, config)
    document = check_document(found, mode=config.route_overlap.mode)
    document["lines"] = [
        finding_line(it, each.report.expected_devs) for each in found.families for it in each.report.findings
    ]
    text = re.sub(r"::ffff:([\d.]+\.\d+)", lambda it: f"::ffff:{in_groups(it[1])}", json.dumps(document))
    decoded: dict[str, Any] = json.loads(text)
    return decoded


def in_groups(address: str) -> str:
    """An IPv4 address as the end of an IPv6 one: a00:1 for 10.0.0.1."""
    high, low = divmod(place(address), 1 << 16)
    return f"{high:x}:{low:x}"


def place(address: str) -> int:
    """The address as a number."""
    return int(ip_address(address))


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """What script and engine both say: the script does not know which rule decides, only what the kernel answers.

    So it has one finding where two rules lead to one route; and Linux answers alike where there is no route and where a
    rule says "unreachable". In IPv4, until there was a rule of somebody's, Linux keeps the routes of local among those of
    main.
    """
    findings: list[dict[str, Any]] = []
    for it in document["findings"]:
        family = ip_address(it["first"]).version
        table = "main" if family == IPV4 and it["via"]["table"] == "local" else it["via"]["table"]
        finding = {**it, "via": {**it["via"], "rule": None, "table": table}}
        if it["kind"] == "unreachable" and it["via"]["route"] is None:
            finding["kind"] = "no-route"
        before = findings[-1] if findings else {}
        if all(before.get(key) == finding[key] for key in ("cidr", "kind", "via")):
            first, last = place(before["last"]), place(finding["first"])
            if first + 1 == last:
                findings[-1] = finding = {**finding, "first": before["first"]}
                ends = (place(finding[key]) for key in ("first", "last"))
                finding["prefixes"] = [str(prefix) for prefix in prefixes_between(family, *ends)]
                continue
        findings.append(finding)
    verdicts = {"": document["verdict"], **document.get("verdicts", {})}
    known = {family: "ok" if verdict == "undecided" else verdict for family, verdict in verdicts.items()}
    return {key: document[key] for key in ("schema", "mode", "expectedDevs")} | {
        "verdicts": known,
        "findings": findings,
    }


def is_ambiguous(snapshot: Snapshot) -> bool:
    """Whether the kernel's answer leaves open what decides, so that script and engine may name different things.

    It does not tell a rule that refuses packets from a route that does, nor in which table such a route is; and it takes
    whoever asks for the user of the packet, who is root.
    """
    for family in (IPV4, IPV6):
        its = {(it.type, it.table) for it in snapshot.routes if it.type in REFUSING and it.prefix.family == family}
        refusals = [kind for kind, _ in its]
        refusals += {rule.action for rule in snapshot.rules if rule.action in REFUSING and rule.family == family}
        if len(refusals) > len(set(refusals)):
            return True
    return any(rule.uids is not None and rule.uids[0] == 0 for rule in snapshot.rules)


def plain_lines(lines: list[str]) -> list[str]:
    """The lines without what only the engine knows: the number of the rule, and whose a route of the kernel is."""
    return [
        re.sub(r" table local|, rule \d+|; owner: .*|\[rule .*\]", "", line.replace("[a rule]", "")) for line in lines
    ]


def left_open(snapshot: Snapshot, config: HostRoutingConfig, document: dict[str, Any]) -> set[tuple[str, str]]:
    """What still escapes with the script's repair in place, without what it says that it cannot close."""
    repair = [
        Route.to(prefix, gateway=it["gateway"] or None, dev=it["dev"], metric=metric, protocol=config.protocol)
        for it in document["repair"]
        for prefix in [Prefix.parse(it["destination"])]
        for metric in [it["metric"] or DEFAULT_METRIC[prefix.family]]
    ]
    foreign = {route.key for route in snapshot.routes if route.protocol != config.protocol}
    assert not [route for route in repair if route.key in foreign], "a route that is not ours would be replaced"
    replaced = {it.key for it in repair}
    kept = [route for route in snapshot.routes if route.key not in replaced]
    after = engine(attrs.evolve(snapshot, routes=[*kept, *repair]), config)
    unsafe = [(place(it["first"]), place(it["last"])) for it in document["unsafe"]]
    return {
        (it["first"], it["last"])
        for it in after["findings"]
        if not any(first <= place(it["first"]) and place(it["last"]) <= last for first, last in unsafe)
    }


def misjudged(
    namespace: Namespace, snapshot: Snapshot, config: HostRoutingConfig, document: dict[str, Any]
) -> list[str]:
    """The addresses of small CIDRs that the kernel, asked about each one, routes otherwise than the document says."""
    found: list[str] = []
    check, devs = config.route_overlap, document["expectedDevs"]
    refusing = {it.prefix.family for it in snapshot.routes if it.type in REFUSING}
    for cidr in check.expected_cidrs:
        family, its = cidr.version, devs if isinstance(devs, list) else devs[f"ipv{cidr.version}"]
        if cidr.num_addresses > 16 or not its:
            continue
        findings = [it for it in document["findings"] if it["cidr"] == str(cidr)]
        answers = namespace.get(family, [f"{address} ipproto 17" for address in cidr])
        for address, answer in zip(cidr, answers, strict=True):
            is_found = any(place(it["first"]) <= int(address) <= place(it["last"]) for it in findings)
            if isinstance(answer, str):
                is_right = is_found or family in refusing  # which may be those of a pod block
            elif answer.type != "unicast" and answer.prefix.length == width_of(family):
                continue  # this host's own address: it belongs to a finding around it
            else:
                legs = [str(leg.dev) for leg in answer.legs if family == IPV4 or not leg.dead]
                leaves = all(any(fnmatchcase(dev, it) for it in [*its, *check.allowed_devs]) for dev in legs)
                is_right = is_found is not (leaves or answer.type == "local")
                # IPv4 takes default routes in turn: the next packet may leave by another one.
                is_right = is_right or (is_found and family == IPV4 and answer.prefix.length == 0)
            found += [] if is_right else [f"{address}: {answer}"]
    return found


def configs(*within: Prefix) -> st.SearchStrategy[HostRoutingConfig]:
    """Checks of one to three prefixes in each block or around it."""
    return st.builds(
        lambda cidrs, mode, devs: HostRoutingConfig(
            route_overlap=RouteOverlapConfig([str(cidr) for its in cidrs for cidr in its], mode, devs, ["wg*"])
        ),
        st.tuples(*(st.lists(prefixes(block, wider=True), min_size=1, max_size=3) for block in within)),
        st.sampled_from(["WARN", "STRICT"]),
        st.sampled_from([[], [], ["eth0"], ["eth0", "eth1"]]),
    )


def ipv6_command(route: Route) -> str:
    """The command that appends the route, with what only IPv6 has: sources, a preference, an end in time."""
    words = [f"from {route.source}"] * (route.source is not None)
    if route.prefix.length:  # the routes of UPLINKS_IPV6 have their own
        words += [f"pref {route.preference}"]
        words += [f"expires {max(route.expires, 0)}"] if route.expires is not None else []
    return route_command(route).replace(" table ", f" {' '.join(words)} table ", 1)


@st.composite
def ipv6_wishes(draw: st.DrawFn, block: Prefix) -> tuple[list[Rule], list[Route]]:
    """The same as `wishes`, with what only IPv6 has; Linux would join several with one key."""
    wanted = draw(st.lists(rules(block), max_size=4, unique_by=lambda rule: rule.priority))
    found: dict[object, Route] = {}
    several = draw(st.lists(routes(block, only_ipv6=True), min_size=1, max_size=14))
    for route in several:
        found.setdefault((route.table, route.prefix, route.source, route.metric or DEFAULT_METRIC[IPV6]), route)
    return wanted, list(found.values())


@settings(max_examples=scaled(50), deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(data=st.data())
def test_the_script_equals_the_engine(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """On any host, verdict, findings, repair and notes are those of the engine, word for word; in one family or both."""
    families = data.draw(st.sampled_from([[IPV4], [IPV4], [IPV6], [IPV6], [IPV4, IPV6]]))
    within = {family: data.draw(blocks(family)) for family in families}
    batches: dict[int, list[str]] = {}
    for family, block in within.items():
        wanted_rules, wanted_routes = data.draw(wishes(block) if family == IPV4 else ipv6_wishes(block))
        commands = map(route_command if family == IPV4 else ipv6_command, wanted_routes)
        uplink = data.draw(st.sampled_from(UPLINKS if family == IPV4 else UPLINKS_IPV6))
        batches[family] = [*uplink, *commands, *map(rule_command, wanted_rules)]
    config = data.draw(configs(*within.values()))
    lost = data.draw(st.sets(st.sampled_from(["ib0", "wg0"])))
    with private_namespace() as namespace:
        furnish(namespace, LINKS, lost)
        namespace.sysctl("ipv6/conf/all/forwarding", int(data.draw(st.booleans())))
        for family, batch in batches.items():
            namespace.batch(batch, force=True, family=family)
        snapshot = snapshot_of(namespace, families)
        assume(not is_ambiguous(snapshot))
        awk, tree = data.draw(st.sampled_from(AWKS)), data.draw(st.sampled_from(TREES))
        checked = Checked(namespace, config, tmp_path_factory.mktemp("check"), awk=awk, tree=tree)
        told = "\n".join([checked.said, *map(str, [*snapshot.rules, *snapshot.routes])])
        assert misjudged(namespace, snapshot, config, checked.document) == [], told
    expected = engine(snapshot, config)
    assert checked.document.keys() == expected.keys() - {"lines"}, told
    assert comparable(checked.document) == comparable(expected), told
    if expected["verdict"] == "overlap":
        lines = [it for it in checked.left["route-overlap.detected"].splitlines() if "NO-DEFAULT-ROUTE" not in it]
        by_rule = [it for it in expected["findings"] if it["kind"] == "unreachable" and it["via"]["route"] is None]
        if not by_rule and len(lines) == len(expected["lines"]):
            assert plain_lines(lines) == plain_lines(expected["lines"]), told
        assert left_open(snapshot, config, checked.document) == set(), told
    mode = config.route_overlap.mode
    assert checked.status == (mode == "STRICT" and expected["verdict"] in {"overlap", "no-default-route"})


def snapshot_of(namespace: Namespace, families: Iterable[int] = (IPV4, IPV6)) -> Snapshot:
    """Everything that a decision depends on, in these families; the kernel has used up what has expired."""
    each = [namespace.snapshot(family) for family in families]
    every = [it for one in each for it in one.routes]
    if any(route.expires == 0 for route in every):
        # Linux tells the seconds until a route expires, and since then: 0 is either.
        every = [attrs.evolve(route, expires=-1) if route.expires == 0 else route for route in every]
    return attrs.evolve(each[-1], rules=tuple(it for one in each for it in one.rules), routes=every)


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """The host that all this is for: eth0 leads out, ib0 has a connected 172.16.0.0/16."""
    with fabric_host() as private:
        yield private


def check(*cidrs: str, mode: str = "STRICT", **options: Any) -> HostRoutingConfig:
    """A configuration that checks these."""
    return HostRoutingConfig(route_overlap=RouteOverlapConfig(cidrs or ["172.16.0.0/16"], mode, **options))


def device(name: str) -> list[str]:
    """Commands for a device of this name, without an address."""
    ends = (name, f"far-{name}")
    return [f"link add {name} type veth peer name far-{name}", *(f"link set {it} addrgenmode none up" for it in ends)]


ESCAPE = "route add 172.20.9.0/24 dev ib0"
ELSEWHERE = "route add default dev ib0 table 100"
# What random hosts seldom have: commands, devices that lose their carrier, and the verdict on 172.20.0.0/16.
STORIES: dict[str, tuple[list[str], list[str], str]] = {
    "the pod block of Calico": (["route add blackhole 172.20.5.0/26 proto bird"], [], "ok"),
    "the pod block of Felix": (["route add prohibit 172.20.5.0/26 proto 80"], [], "ok"),
    "a blackhole of another program": (["route add blackhole 172.20.5.0/26 proto static"], [], "overlap"),
    "a blackhole for the whole CIDR": (["route add blackhole 172.20.0.0/16 proto bird"], [], "overlap"),
    "a blackhole beyond the CIDR": (["route add blackhole 172.20.0.0/15 proto bird"], [], "overlap"),
    "the pod block of Flannel": ([*device("flannel.1"), "route add blackhole 172.20.5.0/24"], [], "ok"),
    "a blackhole without Flannel": (["route add blackhole 172.20.5.0/24"], [], "overlap"),
    "a pod of Cilium that is gone": ([*device("cilium_host"), "route add unreachable 172.20.5.7"], [], "ok"),
    "more than a pod of Cilium": ([*device("cilium_host"), "route add unreachable 172.20.5.6/31"], [], "overlap"),
    "a blackhole around a pod": (
        [*device("veth7"), "route add blackhole 172.20.6.0/24 proto static", "route add 172.20.6.9 dev veth7"],
        [],
        "ok",
    ),
    "a blackhole beside a pod": (
        [*device("veth7"), "route add blackhole 172.20.6.0/24 proto static", "route add 172.20.7.0 dev veth7"],
        [],
        "overlap",
    ),
    "a blackhole around what is not a pod": (
        ["route add blackhole 172.20.6.0/24 proto static", "route add 172.20.6.9 dev ib0"],
        [],
        "overlap",
    ),
    "a pod in another table": (
        [
            *device("veth7"),
            "route add blackhole 172.20.6.0/24 proto static",
            "route add 172.20.6.9 dev veth7 table 100",
        ],
        [],
        "overlap",
    ),
    "a rule for some of it": (["rule add pref 9 to 172.20.64.0/18 lookup 100", ELSEWHERE], [], "overlap"),
    "a rule for the last of it": (["rule add pref 9 to 172.20.192.0/18 lookup 100", ELSEWHERE], [], "overlap"),
    "a rule for one address": (["rule add pref 9 to 172.20.3.4 lookup 100", ELSEWHERE], [], "overlap"),
    "a rule that jumps": (["rule add pref 5 goto 20", "rule add pref 10 prohibit", "rule add pref 20 nop"], [], "ok"),
    "a rule that jumps to the default route": (
        [
            "route del default",
            "rule add pref 5 goto 20",
            "rule add pref 10 lookup 101",
            "route add default dev wg0 table 101",
            "rule add pref 20 lookup 100",
            "route add default via 10.0.0.1 dev eth0 table 100",
        ],
        [],
        "ok",
    ),
    "a rule that jumps for other addresses": (["rule add pref 1 not to 172.20.0.0/16 goto 32767"], [], "ok"),
    "a rule that refuses other addresses": (["rule add pref 1 not to 172.20.0.0/16 prohibit"], [], "ok"),
    "a rule that refuses all other packets": (
        ["rule add pref 1 not to 172.20.0.0/16 sport 1-1023 prohibit"],
        [],
        "no-default-route",
    ),
    "a default route in another table": (
        ["rule add pref 5 lookup 100", "route add default via 10.0.0.9 dev eth0 table 100"],
        [],
        "ok",
    ),
    "a default route that is thrown": (["rule add pref 5 lookup 100", "route add throw default table 100"], [], "ok"),
    "a table without its default route": (
        ["rule add pref 5 lookup 100 suppress_prefixlength 0", ELSEWHERE, "route add 172.20.2.0/24 dev wg0 table 100"],
        [],
        "overlap",
    ),
    "a rule that refuses all": (["rule add pref 32765 prohibit"], [], "no-default-route"),
    "a rule that refuses some": (["rule add pref 9 to 172.20.4.0/24 blackhole"], [], "overlap"),
    "a dead next hop": (["route add 172.20.8.0/24 nexthop dev eth0 nexthop dev ib0"], ["ib0"], "overlap"),
    "a lost carrier": (["route add 172.20.9.0/24 dev eth1"], ["eth1"], "overlap"),
    "a lost carrier of one of two": (
        ["route add 172.20.9.0/24 nexthop dev eth1 nexthop dev wg0"],
        ["eth1"],
        "overlap",
    ),
    "default routes that take turns": (["route append default via 10.0.0.7 dev eth1 onlink"], [], "ok"),
    "default routes that take turns, one expected": (
        ["route append default via 10.0.0.7 dev eth1 onlink"],
        [],
        "overlap",
    ),
    "addresses of its own": (["address add 172.20.7.7/24 dev ib0"], [], "overlap"),
    "anycast to a network": (["route add anycast 172.20.16.0/24 dev ib0"], [], "overlap"),
    "multicast to a network": (["route add multicast 172.20.17.0/24 dev ib0"], [], "overlap"),
    "broadcast to a network": (["route add broadcast 172.20.17.0/24 dev ib0"], [], "overlap"),
    "broadcast to an address": (["route add broadcast 172.20.17.9 dev ib0"], [], "ok"),
    "a gateway of IPv6": (["route add 172.20.18.0/24 via inet6 fe80::1 dev ib0"], [], "overlap"),
    "a device that is allowed": ([*device("pod0.5"), "route add 172.20.19.0/24 dev pod0.5"], [], "ok"),
    "a device of nearly that name": ([*device("pod0x5"), "route add 172.20.19.0/24 dev pod0x5"], [], "overlap"),
    "a device of nearly that length": ([*device("pod10.5"), "route add 172.20.19.0/24 dev pod10.5"], [], "overlap"),
    "a key that is taken": (["route add 172.20.32.0/24 dev ib0", "route add 172.20.32.0/26 dev ib0"], [], "overlap"),
    "an address that is taken": (["route add 172.20.33.1 dev ib0"], [], "overlap"),
    "a key of our own": (["route add 172.20.32.0/24 dev ib0 proto 213"], [], "overlap"),
    "a key of another metric": (["route add 172.20.32.0/24 dev ib0 metric 9"], [], "overlap"),
    "a type of service": (["route add 172.20.34.0/24 tos 0x10 dev ib0"], [], "ok"),
    "a type of service that is refused": (["route add prohibit 172.20.34.0/24 tos 0x10"], [], "ok"),
    "a device that is down, the last": (
        ["route add 172.20.8.0/24 nexthop dev eth0 nexthop dev ib0", "link set ib0 down"],
        [],
        "ok",
    ),
    "a device that is down": (
        ["route add 172.20.8.0/24 nexthop dev ib0 nexthop dev eth0 nexthop dev wg0", "link set ib0 down"],
        [],
        "overlap",
    ),
    "a default route that is dead": (
        [
            "route del default",
            "route add default dev ib0 metric 5",
            "route add default via 10.0.0.1 dev eth0 metric 9",
        ],
        ["ib0"],
        "ok",
    ),
    "two default routes": (["route add default dev wg0 metric 50", ESCAPE], [], "overlap"),
    "a default route by two of one device": (
        ["route replace default nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth0", ESCAPE],
        [],
        "overlap",
    ),
    "a default route by two, one expected": (
        ["route replace default nexthop via 10.0.0.2 dev eth1 onlink nexthop via 10.0.0.1 dev eth0", ESCAPE],
        [],
        "overlap",
    ),
    "a default route by two": (
        ["route replace default nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth1 onlink", ESCAPE],
        [],
        "overlap",
    ),
    "a default route by two, one down": (
        [
            "route replace default nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth1 onlink",
            "link set eth1 down",
            ESCAPE,
        ],
        [],
        "overlap",
    ),
    "a default route by two, the first down": (
        [
            "route replace default nexthop via 10.0.0.2 dev eth1 onlink nexthop via 10.0.0.1 dev eth0",
            "link set eth1 down",
            ESCAPE,
        ],
        [],
        "overlap",
    ),
    "a default route without a gateway": (["route replace default dev eth0", ESCAPE], [], "overlap"),
    "a default route by a gateway of IPv6": (
        ["route replace default via inet6 fe80::1 dev eth0", ESCAPE],
        [],
        "overlap",
    ),
    "a default route that refuses": (
        ["route del default", "route add unreachable default metric 5", "route add default via 10.0.0.1 metric 9"],
        [],
        "no-default-route",
    ),
    "a default route that refuses, eth0 expected": (
        ["route del default", "route add unreachable default metric 5", "route add default via 10.0.0.1 metric 9"],
        [],
        "overlap",
    ),
    "a default route by an object": (
        [
            "route del default",
            "nexthop add id 11 via 10.0.0.1 dev eth0",
            "route add default nhid 11",
            "route append default via 10.0.0.7 dev eth1 onlink",
            ESCAPE,
        ],
        [],
        "overlap",
    ),
    "a route by an object": (
        ["nexthop add id 12 dev ib0", "route add 172.20.40.0/24 nhid 12 proto static metric 9"],
        [],
        "overlap",
    ),
    "a route of another table": (
        ["route add 172.20.2.0/24 dev ib0 table 253", "rule add pref 9 lookup 253"],
        [],
        "overlap",
    ),
    "a route of table local": (
        ["rule add pref 32760 to 192.0.2.1 lookup 100", "route add anycast 172.20.16.0/24 dev ib0 table local"],
        [],
        "overlap",
    ),
    "blackholes in one another": (
        [
            "route add blackhole 172.20.0.0/17",
            "route add blackhole 172.20.0.0/24",
            "route add blackhole 172.20.64.0/24",
        ],
        [],
        "overlap",
    ),
    "a blackhole around an own address": (
        [*device("veth7"), "address add 172.20.6.9/32 dev veth7", "route add blackhole 172.20.6.0/24 proto static"],
        [],
        "overlap",
    ),
    "an own address at the start": (["address add 172.20.0.0/16 dev ib0"], [], "overlap"),
    "own addresses beside an escape": (
        [ESCAPE, "address add 172.20.8.255/32 dev eth0", "address add 172.20.10.0/32 dev eth0"],
        [],
        "overlap",
    ),
    "an own network in an escape": (
        [
            "route add 172.20.8.0/24 dev ib0",
            "route add local 172.20.8.0/31 dev lo table local",
            "rule add pref 9 to 172.20.8.1 lookup 100",
        ],
        [],
        "overlap",
    ),
    "UDP is refused": (["rule add pref 100 ipproto udp unreachable"], [], "no-default-route"),
    "all but UDP is refused": (["rule add pref 100 not ipproto udp unreachable"], [], "ok"),
    "UDP by another table": (
        ["rule add pref 100 ipproto udp lookup 100", "route add 172.20.8.0/24 dev ib0 table 100"],
        [],
        "overlap",
    ),
    "unmarked packets by another table": (
        ["rule add pref 100 fwmark 0/3 lookup 100", "route add default dev wg0 table 100"],
        [],
        "ok",
    ),
    "all but unmarked packets are refused": (["rule add pref 100 not fwmark 0/3 prohibit"], [], "ok"),
    "UDP to a port": (["rule add pref 100 ipproto udp dport 53 unreachable"], [], "ok"),
    "no route, eth0 expected": (["route del default", "address add 172.20.8.8/32 dev eth0"], [], "overlap"),
}


@pytest.mark.parametrize("story", STORIES)
def test_as_the_engine(namespace: Namespace, tmp_path: Path, story: str) -> None:
    """On hosts that random ones seldom are, verdict, findings and repair are the engine's, too."""
    commands, lost, verdict = STORIES[story]
    namespace.batch(commands)
    lose_carriers(namespace, lost)
    agree(namespace, tmp_path, story, "172.20.0.0/16", verdict)


def agree(namespace: Namespace, tmp_path: Path, story: str, cidr: str, verdict: str) -> Checked:
    """The script's check of this CIDR, which has to be the engine's."""
    expected_devs = ["eth0"] * story.endswith("expected")
    config = check(cidr, expected_devs=expected_devs, allowed_devs=["pod?.*", "veth*"])
    snapshot = snapshot_of(namespace, [Prefix.parse(cidr).family])
    expected = engine(snapshot, config)
    checked = Checked(namespace, config, tmp_path, awk=AWKS[len(story) % len(AWKS)])
    assert comparable(checked.document) == comparable(expected)
    assert checked.document["verdict"] == verdict
    if verdict == "overlap":
        lines = checked.left["route-overlap.detected"].splitlines()
        assert plain_lines(lines) == plain_lines(expected["lines"])
    assert left_open(snapshot, config, checked.document) == set()
    return checked


SEVERAL = "nexthop via fe80::1 dev ib0 nexthop via fe80::2 dev wg0 nexthop via fe80::3 dev eth1"
# The same in IPv6: commands, and the verdict on fd20::/16.
STORIES_IPV6: dict[str, tuple[list[str], str]] = {
    "escapes": (
        [
            "address add fd20:1::5/64 dev ib0 nodad",
            "route add fd20:2::/64 dev ib0 proto ra metric 1024 expires 600",
            "route add fd20:3::/64 dev ib0 proto 213",
            "route add fd20:4::/64 dev ib0 proto 213 metric 5",
            *(f"route add {kind} fd20:5{at}::/48" for at, kind in enumerate(sorted({*REFUSING, "throw"}))),
            "rule add pref 9 to fd20:6::/48 prohibit",
            "rule add pref 10 to fd20:7::/48 lookup 100",
            "route add default dev ib0 table 100",
            "route add anycast fd20:8::/64 dev ib0",
            "route add anycast fd20:9::1 dev ib0",
        ],
        "overlap",
    ),
    "next hops in the order that the kernel likes": (
        [
            f"route add fd20:1::/48 {SEVERAL}",
            "route append fd20:1::/48 via fe80::9 dev wg0 proto bird",
            *(f"route add fd20:1:0:{at}::/64 dev eth0" for at in range(1, 9)),
        ],
        "overlap",
    ),
    "prefixes with other routes, and with own addresses": (
        [
            "route add fd20:6::/48 dev eth1 expires 0",
            "route add fd20:6::/47 dev ib0",
            "route add fd20:8::/48 from fd00:99::/64 dev eth1",
            "route add fd20:8::/47 dev ib0",
            "route add fd20:10::/64 dev ib0",
            *(f"address add fd20:10::{at}/128 dev eth0 nodad" for at in (0, 8)),
        ],
        "overlap",
    ),
    "pod blocks and what has expired": (
        [
            "route add blackhole fd20:5::/122 proto bird",
            *device("cilium_host"),
            "route add unreachable fd20:6::7",
            *device("veth7"),
            "route add blackhole fd20:7::/64 proto static",
            "route add fd20:7::9 from fd00:99::/64 dev veth7",
            "route add fd20:8::/48 dev ib0 expires 0",
            "route add default dev ib0 metric 9 expires 0",
        ],
        "ok",
    ),
    "more than a pod of Cilium": ([*device("cilium_host"), "route add unreachable fd20:6::/64"], "overlap"),
    "two pods of Cilium that are gone": ([*device("cilium_host"), "route add unreachable fd20:6::6/127"], "overlap"),
    "the pod block of Flannel": ([*device("flannel6.1"), "route add blackhole fd20:5::/64"], "ok"),
    "a preferred router": (
        ["route del default", "route add default dev ib0 pref low", "route append default dev eth0 pref high"],
        "ok",
    ),
    "a preferred router of a higher metric": (
        [
            "route del default",
            "route add default dev eth0 metric 100 pref low",
            "route add default dev ib0 metric 200 pref high",
        ],
        "ok",
    ),
    "refused, and refused for some sources": (
        ["route add prohibit fd20:5::/48", "route add prohibit fd20:5::/64 from fd00:99::/64"],
        "overlap",
    ),
    "a preferred router by ib0, eth0 expected": (["route append default dev ib0 pref high"], "overlap"),
    "a default route by two": ([f"route add default metric 9 {SEVERAL}"], "ok"),
    "a default route without a gateway": (
        ["route add default dev eth0 metric 5", "route add fd20::1 dev ib0"],
        "overlap",
    ),
    "no route, eth0 expected": (["route del default"], "overlap"),
    "no default route": (["route del default", "route add default dev eth0 table 100"], "no-default-route"),
    "UDP by another table": (
        ["rule add pref 100 ipproto udp lookup 100", "route add fd20:8::/48 dev ib0 table 100"],
        "overlap",
    ),
}


@pytest.mark.parametrize("story", STORIES_IPV6)
def test_as_the_engine_in_ipv6(namespace: Namespace, tmp_path: Path, story: str) -> None:
    """The same in IPv6."""
    commands, verdict = STORIES_IPV6[story]
    namespace.batch(["route add default via fe80::1 dev eth0", *commands], family=IPV6)
    time.sleep(0.02)  # in which a route expires
    checked = agree(namespace, tmp_path, story, "fd20::/16", verdict)
    note = "packets from fd00:99::/64, which have IPv6 routes of their own, were not judged; for these run: hostrouting check"
    assert (note in checked.document["notes"]) is (" from fd00:99::/64" in " ".join(commands))


def test_next_hop_objects_of_ipv6(namespace: Namespace, tmp_path: Path) -> None:
    """A route by an object has its next hops, and refuses packets if it refuses them."""
    # Of routes that share an object, Linux may name one instead of another.
    objects = ["via fe80::9 dev ib0", "blackhole", "via fe80::9 dev ib0", "via fe80::9 dev wg0"]
    namespace.batch([f"nexthop add id {at} {it}" for at, it in enumerate(objects, start=11)], family=IPV6)
    namespace.batch(["nexthop add id 20 group 13/14"])
    routes = [f"route add fd20:{at}::/48 nhid {at}" for at in (11, 12, 20)]
    namespace.batch(["route add default via fe80::1 dev eth0", *routes], family=IPV6)
    agree(namespace, tmp_path, "objects", "fd20::/16", "overlap")


VIA = "via fe80::1 dev ib0"


@pytest.mark.parametrize(
    ("routers", "forwarding", "devs"),
    [
        ((VIA, "metric 1024"), 0, ["ib0", "wg0"]),
        ((VIA, "metric 1024"), 1, ["ib0"]),
        ((VIA, "metric 1024 pref low"), 0, ["ib0"]),
        ((VIA, "metric 1025"), 0, ["ib0"]),
        (("dev ib0", "metric 1024"), 0, ["ib0"]),
    ],
)
def test_two_ipv6_routers(
    namespace: Namespace, tmp_path: Path, *, routers: tuple[str, str], forwarding: int, devs: list[str]
) -> None:
    """A host that does not forward packets expects the devices of all routers of one rank."""
    namespace.sysctl("ipv6/conf/all/forwarding", forwarding)
    first, second = routers
    # Linux does not merge advertised routes into one, nor those with nexthop objects.
    objects = [f"nexthop add id 31 {first}", "nexthop add id 32 via fe80::2 dev wg0"]
    routes = ["route add default nhid 31 proto ra metric 1024", f"route append default nhid 32 proto ra {second}"]
    namespace.batch([*objects, *routes], family=IPV6)
    checked = agree(namespace, tmp_path, "routers", "fd44::/16", "ok")
    assert checked.document["expectedDevs"]["ipv6"] == devs


@pytest.mark.parametrize("cidr", ["::/0", "::/95", "fc00::/6"])
def test_any_cidr_of_ipv6(namespace: Namespace, tmp_path: Path, cidr: str) -> None:
    """The first and the last addresses of all, link-local addresses and multicast are judged as by the engine."""
    links = [f"address add fe80::{at}/64 dev {dev} nodad" for at, dev in enumerate(["ib0", "eth0"], start=4)]
    old = ["route add unreachable ::/96", "route add ::ffff:0.0.0.0/96 dev ib0"]
    namespace.batch([*links, *old, "route add default via fe80::1 dev eth0"], family=IPV6)
    agree(namespace, tmp_path, cidr, cidr, "overlap")


@pytest.mark.parametrize("cidr", ["0.0.0.0/0", "0.0.0.0/8", "224.0.0.0/3", "255.255.255.255/32", "172.0.0.0/6"])
def test_any_cidr(namespace: Namespace, tmp_path: Path, cidr: str) -> None:
    """The first and the last addresses of all, multicast and broadcast are judged as by the engine."""
    expected = engine(namespace.snapshot(), check(cidr))
    checked = Checked(namespace, check(cidr), tmp_path)
    assert comparable(checked.document) == comparable(expected)


@pytest.mark.parametrize("cidr", ["0.0.0.0/0", "::/0"])
def test_multicast_by_another_device(namespace: Namespace, tmp_path: Path, cidr: str) -> None:
    """If everything leaves by another device, multicast is no escape for all that."""
    family = Prefix.parse(cidr).family
    namespace.batch(["route replace default dev ib0"], family=family)
    agree(namespace, tmp_path, "everything by ib0, eth0 expected", cidr, "overlap")


@pytest.mark.parametrize(
    "other",
    [
        ["route add 172.20.32.0/24 dev eth0 table 100", "rule add pref 40000 lookup 100"],
        ["route add 172.20.32.0/24 tos 0x10 dev eth0"],
    ],
    ids=["of another table", "of another tos"],
)
def test_a_key_that_is_free(namespace: Namespace, tmp_path: Path, other: list[str]) -> None:
    """A route in another table, or for other packets, does not have the key of a route of the repair."""
    namespace.batch(["route add 172.20.32.0/24 dev ib0 metric 9", *other])
    checked = agree(namespace, tmp_path, "a key", "172.20.0.0/16", "overlap")
    assert [it["destination"] for it in checked.document["repair"]] == ["172.20.32.0/24"]


def test_one_cidr_in_another(namespace: Namespace, tmp_path: Path) -> None:
    """A route that repairs both is proposed once."""
    namespace.batch([ESCAPE])
    checked = Checked(namespace, check("172.20.0.0/16", "172.20.8.0/22"), tmp_path)
    assert [it["cidr"] for it in checked.document["findings"]] == ["172.20.0.0/16", "172.20.8.0/22"]
    destinations = [it["destination"] for it in checked.document["repair"]]
    assert destinations == sorted(set(destinations))


INCOMPLETE = "the list of addresses to look up is incomplete: awk or sort failed"
# Programs that end early, each with what the script then says.
MISHAPS: dict[str, tuple[dict[str, str], str]] = {
    "no sort": ({"sort": "exit 127"}, INCOMPLETE),
    "sort": ({"sort": 'sort "$@" | head -n 3; exit 2'}, INCOMPLETE),
    "no awk": ({"awk": "exit 137"}, INCOMPLETE),
    "awk": ({"awk": '[[ "$*" == *part=places* ]] || exec awk "$@"; awk "$@" | head -n 5; exit 137'}, INCOMPLETE),
    "the input of awk": (
        {"awk": '[[ "$*" == *part=places* ]] || exec awk "$@"; sed "/ table 254/q" | awk "$@"'},
        INCOMPLETE,
    ),
    "the input of the second awk": (
        {"awk": '[[ "$*" == *part=answers* ]] || exec awk "$@"; sed "/^answers/q" | awk "$@"'},
        "awk ended without a verdict",
    ),
    "ip": (
        {"ip": '[[ "$*" == *-force* ]] || exec ip "$@"; ip "$@" | head -n 2'},
        "the kernel did not answer for 172.20.10.0: no answer",
    ),
}


class TestOneHost:
    """On the host that all this is for."""

    def test_overlap(self, namespace: Namespace, tmp_path: Path) -> None:
        """One line says it all, in the journal and in the marker; then comes what to do about it."""
        line = (
            "OVERLAP: expected CIDR 172.16.0.0/16 (172.16.0.0–172.16.255.255)"  # noqa: RUF001  a dash between addresses
            " routes via ib0 [172.16.0.0/16 proto kernel], expected eth0"
        )
        checked = Checked(namespace, check(), tmp_path)
        assert checked.status == 1
        assert checked.left["route-overlap.detected"] == line + "\n"
        assert "route-overlap.ok" not in checked.left
        assert checked.said.splitlines() == [
            f"<3>{line}",
            (
                "<4>the repair diverts addresses of 172.16.0.0/16 from ib0: "
                "neighbours there, in the repaired range, become unreachable over IP"
            ),
            "<3>ACTION: add to staticRoutes.routes: " + json.dumps(checked.document["repair"]),
        ]

    @pytest.mark.parametrize("count", [20, 21])
    def test_a_long_repair(self, namespace: Namespace, tmp_path: Path, count: int) -> None:
        """What to do about it is one line of the journal, which has no room for a repair of any length."""
        blocks = [f"10.{100 + at}.0.0" for at in range(count)]
        namespace.batch(f"route add {block}/16 dev ib0" for block in blocks)
        checked = Checked(namespace, check(*(f"{block}/17" for block in blocks)), tmp_path)
        found = examine_snapshot(namespace.snapshot(), check(*(f"{block}/17" for block in blocks)))
        assert len(checked.document["repair"]) == count
        line = repair_line(found)
        assert (
            checked.said.splitlines()[-1]
            == f"<3>{line.replace(', printed by:', '; for fewer routes:') if count > 20 else line}"
        )

    def test_repaired(self, namespace: Namespace, tmp_path: Path) -> None:
        """With the routes of the repair there, the check passes, and the marker of the overlap is gone."""
        repair = Checked(namespace, check(), tmp_path).document["repair"]
        namespace.batch(f"route add {it['destination']} via {it['gateway']} dev {it['dev']}" for it in repair)
        checked = Checked(namespace, check(), tmp_path)
        assert checked.status == 0
        assert checked.left.keys() == {"route-overlap.ok", "route-overlap.json"}
        assert checked.left["route-overlap.ok"] == "ok\n"
        assert checked.document["verdict"] == "ok"

    def test_warn(self, namespace: Namespace, tmp_path: Path) -> None:
        """WARN says the same, as a warning, and passes."""
        checked = Checked(namespace, check(mode="WARN"), tmp_path)
        assert checked.status == 0
        assert checked.said.startswith("<4>OVERLAP")
        assert "route-overlap.detected" in checked.left

    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    def test_no_default_route(self, namespace: Namespace, tmp_path: Path, mode: str) -> None:
        """Without a default route nothing can be expected: said as such, and STRICT fails."""
        namespace.batch(["route del default"])
        checked = Checked(namespace, check(mode=mode), tmp_path)
        assert checked.status == (mode == "STRICT")
        assert checked.left["route-overlap.detected"] == "no-default-route\n"
        assert checked.document["verdict"] == "no-default-route"
        assert checked.said == f"<{'3' if mode == 'STRICT' else '4'}>{no_default_line('no default route', wait=0)}\n"

    @each_awk
    @pytest.mark.parametrize(
        ("routes", "seen"),
        [
            (["route add unreachable default metric 9"], "7 default table 254 proto 3 scope 0 metric 9"),
            (
                ["route add default via 10.0.0.1 dev eth0 table 78"],
                "1 default via 10.0.0.1 dev eth0 table 78 proto 3 scope 0",
            ),
        ],
    )
    def test_what_there_was_instead(
        self, namespace: Namespace, tmp_path: Path, awk: str, routes: list[str], seen: str
    ) -> None:
        """If no default route can be used, the message has those that there are, as `ip` lists them."""
        namespace.batch(["route del default", *routes])
        assert Checked(namespace, check(), tmp_path, awk=awk).said == f"<3>{no_default_line(seen, wait=0)}\n"

    @each_awk
    @pytest.mark.parametrize("rule", ["to 172.20.9.0/24 unreachable", "not to 172.0.0.0/9 unreachable"])
    def test_a_rule_that_answers_as_without_a_route(
        self, namespace: Namespace, tmp_path: Path, awk: str, rule: str
    ) -> None:
        """No route is proposed where a rule before table main may refuse the packets: the answer is "no route" too."""
        throw = "route add throw 172.20.9.0/24"
        namespace.batch([f"rule add {rule} pref 100", throw, "rule add to 172.20.9.0/24 unreachable pref 32767"])
        found = Checked(namespace, check("172.20.0.0/16"), tmp_path, awk=awk).document
        told = "has no route, or rule 100 refuses it; see: hostrouting repair"
        assert [(it["first"], it["reason"], it["text"].partition(" ")[2]) for it in found["unsafe"]] == [
            ("172.20.9.0", "earlier-rule", told)
        ]
        assert found["repair"] == []

    @pytest.mark.parametrize("devs", [[], ["eth0"], ["late0"]])
    def test_awaited(self, namespace: Namespace, tmp_path: Path, devs: list[str]) -> None:
        """A default route that is not there yet is awaited, and so is a device that was named."""
        namespace.batch(["route del default"])
        names = "eth0" if devs != ["late0"] else "late0"
        script = f"sleep 0.6; ip link add late0 type veth; ip link set late0 up; ip route add default dev {names}"
        later = subprocess.Popen([*namespace.enter, "sh", "-c", script])
        try:
            checked = Checked(namespace, check("192.168.0.0/16", expected_devs=devs), tmp_path, wait=100)
        finally:
            later.wait()
        assert (checked.status, checked.document["verdict"]) == (0, "ok"), checked.said

    def test_an_overlap_is_awaited_for_a_missing_device(self, namespace: Namespace, tmp_path: Path) -> None:
        """If one of the named devices does not exist yet, an overlap may go with the routes that come with it."""
        namespace.batch(["route add 192.168.0.0/16 dev ib0"])
        script = (
            "sleep 0.6; ip link add late0 type veth; ip link set late0 up; ip route replace 192.168.0.0/16 dev late0"
        )
        later = subprocess.Popen([*namespace.enter, "sh", "-c", script])
        config = check("192.168.0.0/16", expected_devs=["eth0", "late0"])
        try:
            checked = Checked(namespace, config, tmp_path, wait=100)
        finally:
            later.wait()
        assert (checked.status, checked.document["verdict"]) == (0, "ok"), checked.said

    @pytest.mark.parametrize(
        ("selector", "told"),
        [
            ("fwmark 1/1", "fwmark 0x1/0x1"),
            ("fwmark 1", "fwmark 0x1"),
            ("uidrange 1000-2000", "uidrange 1000-2000"),
            ("dport 53", "dport 53"),
            ("sport 53", "sport 53"),
            ("ipproto tcp", "ipproto ipproto-6"),
            ("tos 0x10", "tos 0x10"),
            ("iif eth0", "iif eth0"),
            ("oif eth0", "oif eth0"),
            ("from 10.0.0.9", "from 10.0.0.9"),
            ("tun_id 5", "tun_id 5"),
        ],
    )
    @pytest.mark.parametrize("inverted", ["", "not "])
    def test_what_is_not_judged(
        self, namespace: Namespace, tmp_path: Path, selector: str, told: str, inverted: str
    ) -> None:
        """Packets that a rule selects by more than their destination are not judged; with them an ok is never bare."""
        namespace.batch(
            [f"rule add pref 100 {inverted}{selector} lookup 100", "route add 192.168.7.0/24 dev ib0 table 100"]
        )
        checked = Checked(namespace, check("192.168.0.0/16"), tmp_path)
        note = f"packets that rule 100 selects ({told}) were not judged; for these run: hostrouting check"
        # What is inverted is met by a plain packet.
        assert checked.document["verdict"] == ("overlap" if inverted else "ok")
        assert note in checked.document["notes"]
        assert f"<4>{note}" in checked.said
        if not inverted:
            assert checked.left["route-overlap.ok"] == f"ok\n{note}\n"

    def test_only_udp_is_judged(self, namespace: Namespace, tmp_path: Path) -> None:
        """The kernel is asked about UDP packets, so a rule for these leaves the others open."""
        namespace.batch(["rule add pref 100 ipproto udp lookup main"])
        checked = Checked(namespace, check("192.168.0.0/16"), tmp_path)
        note = "rule 100 selects packets by protocol, and only UDP was judged; for the others run: hostrouting check"
        assert checked.left["route-overlap.ok"] == f"ok\n{note}\n"

    def test_a_rule_for_the_host_itself(self, namespace: Namespace, tmp_path: Path) -> None:
        """A rule for packets that the host itself sends (iif lo) selects nothing else."""
        namespace.batch(["rule add pref 100 iif lo lookup 100", "route add 192.168.7.0/24 dev ib0 table 100"])
        checked = Checked(namespace, check("192.168.0.0/16"), tmp_path)
        assert (checked.document["verdict"], checked.document["findings"][0]["via"]["rule"]) == ("overlap", 100)
        assert not [note for note in checked.document["notes"] if "not judged" in note]

    @pytest.mark.parametrize("mode", ["0", "1"])
    @each_awk
    def test_next_hop_objects(self, namespace: Namespace, tmp_path: Path, mode: str, awk: str) -> None:
        """The legs of a group of next hop objects are those of the group, also where Linux names its number only."""
        namespace.run("sysctl", "-qw", f"net.ipv4.nexthop_compat_mode={mode}")
        namespace.batch(["route del default", "nexthop add id 10 via 10.0.0.1 dev eth0", "nexthop add id 11 dev wg0"])
        namespace.batch(
            ["nexthop add id 20 group 10/11", "route add default nhid 20", "route add 192.168.7.0/24 nhid 11"]
        )
        checked = Checked(namespace, check("192.168.0.0/16", allowed_devs=["none"]), tmp_path, awk=awk)
        assert checked.document["expectedDevs"] == ["eth0", "wg0"], checked.said
        assert checked.document["verdict"] == "ok"
        checked = Checked(
            namespace, check("192.168.0.0/16", expected_devs=["eth0"], allowed_devs=["none"]), tmp_path, awk=awk
        )
        assert [it["via"]["dev"] for it in checked.document["findings"]] == ["wg0", "wg0", "wg0"]

    def test_the_kernel_has_the_last_word(self, namespace: Namespace, tmp_path: Path) -> None:
        """Where the kernel answers what its tables do not say, its answer counts."""
        # Once there was a rule, Linux looks at the table local first, which nothing that it lists shows.
        namespace.batch(["route add local 20.0.0.0/8 dev lo table local", "route add 20.1.0.0/16 dev ib0"])
        assert Checked(namespace, check("20.0.0.0/8"), tmp_path).document["verdict"] == "overlap"
        namespace.batch(["rule add pref 9 lookup 99", "rule del pref 9"])
        checked = Checked(namespace, check("20.0.0.0/8"), tmp_path)
        assert checked.document["verdict"] == "ok"

    def test_names_that_mean_something(self, namespace: Namespace, tmp_path: Path) -> None:
        """Devices may be called by the words of `ip`, or by letters that JSON and shells care about."""
        names = ["via", "dev", "nexthop", "proto", "table", '"q"', "$(id)", "a\\b", "*", "é", "\x1b[31m"]
        for number, name in enumerate(names):
            done = namespace.ip("link", "add", "name", name, "type", "veth", "peer", "name", f"far{number}")
            assert done.returncode == 0, done.stderr
            for dev in (name, f"far{number}"):
                namespace.ip("link", "set", "dev", dev, "up")
            namespace.ip("route", "add", f"192.168.{number}.0/24", "dev", name, "proto", "static", "metric", "7")
        checked = Checked(namespace, check("192.168.0.0/16"), tmp_path)
        assert [it["via"]["dev"] for it in checked.document["findings"]] == names

    @each_awk
    def test_any_awk(self, namespace: Namespace, tmp_path: Path, awk: str) -> None:
        """Whichever awk a host has, the script finds and says the same."""
        namespace.batch(["rule add pref 9 fwmark 1/1 lookup 100", "route add default dev ib0 table 100"])
        namespace.batch(["route add blackhole 172.20.0.0/16", "route add prohibit 172.20.7.0/24 metric 4000000000"])
        config = check("172.16.0.0/12", "10.0.0.0/8")
        expected = engine(namespace.snapshot(), config)
        checked = Checked(namespace, config, tmp_path, awk=awk)
        assert comparable(checked.document) == comparable(expected)
        assert checked.left["route-overlap.detected"].splitlines() == expected["lines"]

    def test_nothing_is_left_behind(self, namespace: Namespace, tmp_path: Path) -> None:
        """Markers of an earlier run are gone while one works, and its own files when it is done or cannot work."""
        state = tmp_path / "state"
        state.mkdir()
        for name in ("ok", "detected", "json", "new"):
            (state / f"route-overlap.{name}").write_text("stale\n")
        script = tmp_path / "broken.sh"
        script.write_text(
            render_check_script(check()).replace("PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"PATH={tmp_path}")
        )
        for tool in ("rm", "awk"):
            found = shutil.which(tool)
            assert found is not None
            (tmp_path / tool).symlink_to(found)
        done = namespace.run("/bin/bash", str(script), RUNTIME_DIRECTORY=str(state))
        assert done.returncode == 1
        assert "<3>check-route-overlap: ip failed" in done.stderr
        assert not list(state.iterdir())
        assert Checked(namespace, check(), tmp_path).left.keys() == {"route-overlap.detected", "route-overlap.json"}

    @pytest.mark.parametrize("dev", ["eth0", "lo"])
    def test_an_overlap_is_not_awaited(self, namespace: Namespace, tmp_path: Path, dev: str) -> None:
        """With a default route and the expected devices up, an overlap is reported at once."""
        namespace.batch([f"route replace default dev {dev}"])
        naps = tmp_path / "naps"
        script = put_before(render_check_script(check(), wait=100), {"sleep": leaving_word(naps, "sleep")}, tmp_path)
        (tmp_path / "check.sh").write_text(script)
        done = namespace.run("bash", str(tmp_path / "check.sh"), RUNTIME_DIRECTORY=str(tmp_path / "state"))
        assert (done.returncode, "<3>OVERLAP: " in done.stderr) == (1, True)
        assert not naps.exists()

    def test_a_kernel_that_does_not_answer(self, namespace: Namespace, tmp_path: Path) -> None:
        """If the kernel fails to answer, there is no verdict: STRICT fails, with the address and the error."""
        fails = 'echo "RTNETLINK answers: No buffer space available"; echo "Command failed -:1"; exit 2'
        tools = {"ip": f'[[ "$*" == *-force* ]] || exec ip "$@"\ncat >/dev/null; {fails}'}
        (tmp_path / "check.sh").write_text(put_before(render_check_script(check(), wait=0), tools, tmp_path))
        done = namespace.run("bash", str(tmp_path / "check.sh"), RUNTIME_DIRECTORY=str(tmp_path / "state"))
        told = "the kernel did not answer for 172.16.0.0: No buffer space available"
        assert (done.returncode, done.stderr) == (1, f"<3>check-route-overlap: {told}\n")
        assert not list((tmp_path / "state").iterdir())

    @pytest.mark.parametrize("escaping", [False, True], ids=["ok", "overlap"])
    @pytest.mark.parametrize("mishap", MISHAPS)
    def test_a_program_that_ends_early(
        self, namespace: Namespace, tmp_path: Path, mishap: str, *, escaping: bool
    ) -> None:
        """If a program ends early or is missing, there is no verdict, neither a false ok nor a false overlap."""
        dev = "ib0" if escaping else "eth0"
        namespace.batch(f"route add 172.20.{at}.0/24 dev {dev}" for at in (9, 77, 200))
        tools, told = MISHAPS[mishap]
        script = put_before(render_check_script(check("172.20.0.0/16"), wait=0), tools, tmp_path)
        (tmp_path / "check.sh").write_text(script)
        done = namespace.run("bash", str(tmp_path / "check.sh"), RUNTIME_DIRECTORY=str(tmp_path / "state"))
        assert (done.returncode, done.stderr.splitlines()[-1]) == (1, f"<3>check-route-overlap: {told}")
        assert not list((tmp_path / "state").iterdir())

    def test_an_interrupted_list(self, namespace: Namespace, tmp_path: Path) -> None:
        """Lists that changed while they were read are read again; if they keep changing, there is no verdict."""
        interrupted = 'echo "Dump was interrupted and may be inconsistent." >&2'
        once = f'[[ -e {tmp_path}/was || "$*" == *force* ]] || {{ : >{tmp_path}/was; {interrupted}; }}'
        for body, status, last in (
            (once, 0, "<6>check-route-overlap: ok: every expected CIDR leaves by eth0"),
            (interrupted, 1, "<3>check-route-overlap: the routes kept changing while they were read"),
        ):
            script = put_before(render_check_script(check("10.0.0.0/8")), {"ip": f'{body}\nexec ip "$@"'}, tmp_path)
            (tmp_path / "check.sh").write_text(script)
            done = namespace.run("bash", str(tmp_path / "check.sh"), RUNTIME_DIRECTORY=str(tmp_path / "state"))
            assert (done.returncode, done.stderr) == (status, f"{last}\n")

    def test_a_bridge(self, namespace: Namespace, tmp_path: Path) -> None:
        """The timers of a bridge, which count down all the time, are not a change of the tables: they are read twice."""
        namespace.batch(["link add docker0 type bridge", "link set docker0 up"])
        asked = tmp_path / "asked"
        script = put_before(
            render_check_script(check("10.0.0.0/8")), {"ip": f'echo "$*" >>{asked}\nexec ip "$@"'}, tmp_path
        )
        (tmp_path / "check.sh").write_text(script)
        done = namespace.run("bash", str(tmp_path / "check.sh"), RUNTIME_DIRECTORY=str(tmp_path / "state"))
        assert (done.returncode, done.stderr) == (0, "<6>check-route-overlap: ok: every expected CIDR leaves by eth0\n")
        assert sum("link" in line or "nexthop" in line for line in asked.read_text().splitlines()) <= 4

    def test_no_awk(self, namespace: Namespace, tmp_path: Path) -> None:
        """Without an awk, one line says so."""
        script = tmp_path / "check.sh"
        script.write_text(render_check_script(check()).replace(" PATH=/usr/sbin:/usr/bin:/sbin:/bin", " PATH=/nowhere"))
        done = namespace.run("/bin/bash", str(script), RUNTIME_DIRECTORY=str(tmp_path))
        assert (done.returncode, done.stderr) == (1, "<3>check-route-overlap: awk is not installed\n")

    def test_told_to_stop(self, namespace: Namespace, tmp_path: Path) -> None:
        """A run that is ended from outside, as by its unit's time-out, says so and ends as told; it leaves no marker."""
        namespace.batch(["route del default"])
        script, state = tmp_path / "check.sh", tmp_path / "state"
        naps = tmp_path / "naps"
        script.write_text(
            put_before(render_check_script(check(), wait=30), {"sleep": leaving_word(naps, "sleep")}, tmp_path)
        )
        command = [*namespace.enter, "env", f"RUNTIME_DIRECTORY={state}", "bash", str(script)]
        run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        await_file(naps)
        os.killpg(run.pid, signal.SIGTERM)
        assert run.communicate(timeout=20)[1] == "<3>check-route-overlap: stopped before there was a verdict\n"
        assert run.returncode == 128 + signal.SIGTERM
        assert not list(state.iterdir())

    def test_killed(self, namespace: Namespace, tmp_path: Path) -> None:
        """Of a run that was killed while it wrote, what is left has the name by which others know it."""
        killed: dict[str, Any] = {"BASH_FUNC_mv%%": "() { kill -KILL $$; }"}
        checked = Checked(namespace, check(), tmp_path, **killed)
        assert checked.status == 128 + signal.SIGKILL
        assert checked.left.keys() == {Path(HostLayout().unfinished_path).name}

    @each_awk
    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    @pytest.mark.parametrize("escaping", [False, True], ids=["ok", "overlap"])
    def test_no_room_for_what_was_found(
        self, namespace: Namespace, tmp_path: Path, awk: str, mode: str, *, escaping: bool
    ) -> None:
        """With a full disk the journal has what was found, and why it could not be written; the routes decide.

        What an earlier run left there goes all the same.
        """
        config = check(*["172.16.0.0/16"] * escaping, "10.0.0.0/8", mode=mode)
        state = tmp_path / "state"
        state.mkdir()
        full = f"mount -t tmpfs -o size=4k none {state} && ! cat /dev/zero 2>&- >{state}/all && : >{state}/route-overlap.ok"
        checked = Checked(namespace, config, tmp_path, awk=awk, before=full)
        assert ("OVERLAP: " if escaping else "ok: every expected CIDR") in checked.said
        reason = f"cannot write {state}/route-overlap.json: No space left on device"
        assert checked.said.splitlines()[-1] == f"<4>check-route-overlap: {reason}"
        assert checked.left.keys() == {"all"}
        assert checked.status == (escaping and mode == "STRICT")

    @each_awk
    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    @pytest.mark.parametrize("escaping", [False, True], ids=["ok", "overlap"])
    @pytest.mark.parametrize("stale", [False, True])
    def test_what_was_found_cannot_be_changed(
        self, namespace: Namespace, tmp_path: Path, awk: str, mode: str, *, escaping: bool, stale: bool
    ) -> None:
        """On a read-only file system the routes decide as well; what is left there is said to be of an earlier check."""
        config = check(*["172.16.0.0/16"] * escaping, "10.0.0.0/8", mode=mode)
        state = tmp_path / "state"
        state.mkdir()
        leave = f"touch {state}/route-overlap.new; echo ok >{state}/route-overlap.ok" if stale else ":"
        before = f"mount -t tmpfs none {state} && {{ {leave}; }} && mount -o remount,ro {state}"
        checked = Checked(namespace, config, tmp_path, awk=awk, before=before)
        assert ("OVERLAP: " if escaping else "ok: every expected CIDR") in checked.said
        why = "Read-only file system"
        said = [line.removeprefix("<4>check-route-overlap: ") for line in checked.said.splitlines()]
        told = f"cannot remove {state}/route-overlap.ok: {why}; it is from an earlier check"
        assert (said[0] == told) is stale
        assert said[-1] == f"cannot write {state}/route-overlap.json: {why}"
        assert checked.status == (escaping and mode == "STRICT")

    @pytest.mark.parametrize("kind", ["mkfifo", "mkdir", "ln -s /nowhere/at/all", "touch"])
    def test_what_is_in_the_place_of_what_is_left(self, namespace: Namespace, tmp_path: Path, kind: str) -> None:
        """Nothing in the place of a file that the script leaves keeps it waiting, or has it refuse."""
        state = tmp_path / "state"
        paths = [f"{state}/route-overlap.{name}" for name in ("new", "json", "ok")]
        before = f"mkdir {state}; for path in {' '.join(paths)}; do {kind} $path; done"
        checked = Checked(namespace, check("10.0.0.0/8"), tmp_path, before=before)
        assert checked.status == 0, checked.said
        if kind == "mkdir":
            assert f"cannot remove {state}/route-overlap.json: Is a directory" in checked.said
            assert f"cannot write {state}/route-overlap.json: " in checked.said
        else:
            assert checked.left.keys() == {"route-overlap.json", "route-overlap.ok"}

    @pytest.mark.parametrize("kind", ["mkfifo", "touch"])
    def test_what_is_in_the_place_of_the_directory(self, namespace: Namespace, tmp_path: Path, kind: str) -> None:
        """Where there is no directory for it, and none can be made, that is said, and the routes decide."""
        state = tmp_path / "other" / "state"
        before = f"mkdir -p {tmp_path}/other {tmp_path}/state; {kind} {state}"
        script = tmp_path / "check.sh"
        script.write_text(render_check_script(check("10.0.0.0/8"), wait=0))
        done = namespace.run("bash", "-c", f"{before}; RUNTIME_DIRECTORY={state} timeout 20 bash {script}")
        assert done.returncode == 0, done.stderr
        assert f"<4>check-route-overlap: cannot create {state}: File exists" in done.stderr
        assert f"<4>check-route-overlap: cannot write {state}/route-overlap.json: Not a directory" in done.stderr

    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    def test_what_was_found_may_wait_for_nobody(self, namespace: Namespace, tmp_path: Path, mode: str) -> None:
        """A fifo that cannot be removed is not written into: whoever would read it may never come."""
        state = tmp_path / "state"
        state.mkdir()
        before = f"mount -t tmpfs none {state} && mkfifo {state}/route-overlap.new && mount -o remount,ro {state}"
        script = tmp_path / "check.sh"
        script.write_text(render_check_script(check("10.0.0.0/8", mode=mode), wait=0))
        run = f"{before} && RUNTIME_DIRECTORY={state} timeout 20 bash {script}"
        done = namespace.run("unshare", "--mount", "bash", "-c", run)
        assert done.returncode == 0, done.stderr
        assert f"cannot write {state}/route-overlap.json: Read-only file system" in done.stderr

    @pytest.mark.parametrize("step", ["100000", "-100000"])
    def test_a_clock_that_is_set(self, namespace: Namespace, tmp_path: Path, step: str) -> None:
        """A clock that is set while the script waits makes it wait neither less nor longer."""
        namespace.batch(["route del default"])
        begin = time.monotonic()
        # With this, bash begins to count where a clock that jumped would have it.
        assert Checked(namespace, check(), tmp_path, wait=1, SECONDS=step).status == 1
        assert 1 <= time.monotonic() - begin < 60

    def test_many(self, namespace: Namespace, tmp_path: Path) -> None:
        """Hundreds of CIDRs among thousands of routes: the same as the engine, and one question a place."""
        namespace.batch(
            f"route add 10.{64 + number // 256}.{number % 256}.0/24 "
            + ("dev ib0" if number % 7 == 0 else "via 10.0.0.1 dev eth0")
            for number in range(1000)
        )
        config = check(*(f"10.{64 + number // 16}.{number % 16 * 16}.0/20" for number in range(100)))
        expected = engine(namespace.snapshot(), config)
        checked = Checked(namespace, config, tmp_path)
        assert comparable(checked.document) == comparable(expected)
        assert checked.left["route-overlap.detected"].splitlines() == expected["lines"]


class TestBothFamilies:
    """One check of both families."""

    @each_awk
    def test_findings_of_both(self, namespace: Namespace, tmp_path: Path, awk: str) -> None:
        """Each family has expected devices and findings of its own; the repair of both is one line."""
        links = ["address add fe80::5/64 dev eth1 nodad", "address add fd16::5/64 dev ib0 nodad"]
        namespace.batch([*links, "route add default via fe80::1 dev eth1"], family=IPV6)
        config = check("fd16::/32", "172.16.0.0/16")
        snapshot = snapshot_of(namespace)
        expected = engine(snapshot, config)
        checked = Checked(namespace, config, tmp_path, awk=awk)
        assert comparable(checked.document) == comparable(expected)
        assert checked.document["expectedDevs"] == {"ipv4": ["eth0"], "ipv6": ["eth1"]}
        lines = checked.left["route-overlap.detected"].splitlines()
        assert plain_lines(lines) == plain_lines(expected["lines"])
        assert checked.said.splitlines()[-1] == repair_line(examine_snapshot(snapshot, config)).join(["<3>", ""])
        assert checked.status == 1

    @pytest.mark.parametrize("escaping", [False, True], ids=["ok", "overlap"])
    def test_one_without_a_default_route(self, namespace: Namespace, tmp_path: Path, *, escaping: bool) -> None:
        """A family without a default route is named; an overlap of the other family is the verdict."""
        checked = Checked(namespace, check("fd16::/32", "172.16.0.0/16" if escaping else "10.0.0.0/8"), tmp_path)
        line = no_default_line("no default route", wait=0, family=IPV6)
        of_ipv4, verdict = ("overlap", "overlap") if escaping else ("ok", "no-default-route")
        assert checked.document["verdict"] == verdict
        assert checked.document["verdicts"] == {"ipv4": of_ipv4, "ipv6": "no-default-route"}
        assert f"<3>{line}" in checked.said.splitlines()
        marked = checked.left["route-overlap.detected"].splitlines()
        assert marked == [marked[0], line] if escaping else ["no-default-route"]
        assert checked.status == 1

    def test_ok(self, namespace: Namespace, tmp_path: Path) -> None:
        """The line for "ok" names the devices of each family."""
        namespace.batch(["route add default via fe80::1 dev eth1"], family=IPV6)
        checked = Checked(namespace, check("fd16::/32", "10.0.0.0/8"), tmp_path)
        told = "ok: every expected CIDR leaves by eth0 (IPv4) and eth1 (IPv6)"
        assert (checked.status, checked.said) == (0, f"<6>check-route-overlap: {told}\n")

    def test_an_advertised_default_route_is_awaited(self, namespace: Namespace, tmp_path: Path) -> None:
        """The IPv6 default route may come after the IPv4 one, with an end in time."""
        route = "ip -6 route add default via fe80::1 dev eth0 proto ra expires 1800"
        later = subprocess.Popen([*namespace.enter, "sh", "-c", f"sleep 0.5; {route}"])
        try:
            checked = Checked(namespace, check("fd16::/32", "10.0.0.0/8"), tmp_path, wait=100)
        finally:
            later.wait()
        assert (checked.status, checked.document["verdict"]) == (0, "ok"), checked.said

    @each_awk
    @pytest.mark.parametrize("devs", [[], ["eth0"]])
    def test_a_kernel_without_ipv6(self, namespace: Namespace, tmp_path: Path, awk: str, devs: list[str]) -> None:
        """It is not asked for IPv6 rules and routes: the IPv4 findings remain, and IPv6 has no route."""
        config = check("172.16.0.0/16", "fd16::/32", expected_devs=devs)
        refused = 'echo "RTNETLINK answers: Operation not supported"'
        tools = {
            "ip": f"""case $* in
              *-6*) {refused} >&2; exit 2 ;;
              *-force*) at=0; while read -r question; do
                ((++at))
                case $question in *:*) {refused}; echo "Command failed -:$at" ;; *) ip -N -d -o $question ;; esac
              done ;;
              *) exec ip "$@" ;;
            esac"""
        }
        script = put_before(render_check_script(config, wait=0), tools, tmp_path)
        assert IPV6_FILE in script
        path, state = tmp_path / "check.sh", tmp_path / "state"
        path.write_text(only_awk(script.replace(IPV6_FILE, f"{tmp_path}/absent"), awk, tmp_path))
        done = namespace.run("bash", str(path), RUNTIME_DIRECTORY=str(state))
        found = json.loads((state / "route-overlap.json").read_text())
        assert found["verdicts"] == {"ipv4": "overlap", "ipv6": "overlap" if devs else "no-default-route"}
        assert [it["kind"] for it in found["findings"]] == ["overlap", "no-route"][: 1 + len(devs)]
        assert ("NO-ROUTE: " if devs else no_default_line("no default route", wait=0, family=IPV6)) in done.stderr
        assert done.returncode == 1

    def test_a_kernel_that_fails(self, namespace: Namespace, tmp_path: Path) -> None:
        """If `ip` fails on a host with IPv6, there is no verdict."""
        tools = {"ip": '[[ $1 == -6 ]] || exec ip "$@"; echo "RTNETLINK answers: Operation not supported" >&2; exit 2'}
        (tmp_path / "check.sh").write_text(put_before(render_check_script(check("fd16::/32"), wait=0), tools, tmp_path))
        done = namespace.run("bash", str(tmp_path / "check.sh"), RUNTIME_DIRECTORY=str(tmp_path / "state"))
        told = "<3>check-route-overlap: ip failed: RTNETLINK answers: Operation not supported\n"
        assert (done.returncode, done.stderr) == (1, told)

    def test_seconds_that_pass(self, namespace: Namespace, tmp_path: Path) -> None:
        """The seconds until a route expires are not a change of the tables: they are read twice, in each family."""
        namespace.batch(["route add default via fe80::1 dev eth0 expires 1800"], family=IPV6)
        asked = tmp_path / "asked"
        body = f'echo "$*" >>{asked}\nip "$@" | sed "s/expires [0-9]*sec/expires ${{RANDOM}}sec/"'
        script = put_before(render_check_script(check("fd16::/32", "10.0.0.0/8")), {"ip": body}, tmp_path)
        (tmp_path / "check.sh").write_text(script)
        done = namespace.run("bash", str(tmp_path / "check.sh"), RUNTIME_DIRECTORY=str(tmp_path / "state"))
        assert (done.returncode, done.stderr) == (0, "<6>check-route-overlap: ok: every expected CIDR leaves by eth0\n")
        assert len(asked.read_text().splitlines()) == 2 * len(["-4", "-6", "link", "nexthop"]) + 1

    def test_only_what_is_expected_is_read(self, namespace: Namespace, tmp_path: Path) -> None:
        """Without a CIDR of a family, nothing is read about that family."""
        for cidr, other in (("10.0.0.0/8", "-6"), ("fd00:99::/64", "-4")):
            asked = tmp_path / "asked"
            config = check(cidr, expected_devs=["eth0"])
            script = put_before(render_check_script(config), {"ip": f'echo "$*" >>{asked}\nexec ip "$@"'}, tmp_path)
            (tmp_path / "check.sh").write_text(script)
            done = namespace.run("bash", str(tmp_path / "check.sh"), "0", RUNTIME_DIRECTORY=str(tmp_path / "state"))
            assert done.returncode == 0, done.stderr
            assert other not in asked.read_text()
            asked.unlink()

    @each_awk
    def test_any_address(self, namespace: Namespace, tmp_path: Path, awk: str) -> None:
        """Addresses are written as by the library: the longest row of zeros is left out, the first of equal ones."""
        groups = ["0", "0", "0", "1", "ab", "ab0", "ffff"]
        chance = Random(7)  # noqa: S311  the same addresses in each run
        cidrs = [":".join(chance.choices(groups, k=8)) + "/128" for _ in range(60)]
        config = check("::/128", "::1:0/128", *cidrs, expected_devs=["eth0"])
        checked = Checked(namespace, config, tmp_path, awk=awk)
        expected = engine(snapshot_of(namespace), config)
        assert comparable(checked.document) == comparable(expected)
        assert len(checked.document["findings"]) > 50
