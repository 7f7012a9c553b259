"""Nodes that people run, by what their CNI, cloud or VPN leaves on them: tests/hosts has a file for
each.

Each node is made on Linux. The check, its repair and the plan see it there, where the kernel is
asked. A file has:

    state            what runs there, and in which mode or moment
    source           where it is described: a repository with the number of a thread, or with a
                     path; or the names of other files here that it is made of
    right            what is right there, and why
    uplink           the name and kind of the device with the default route, if that is not eth0,
                     and its addresses beside 10.0.0.4/24 and 2001:db8::4/64. The routers are
                     10.0.0.1 and fe80::1
    devices          the name and kind of each further device, and its addresses
    ip               commands of `ip -batch`, for both families; a rule of IPv6 begins with -6
    config           further keys of routeOverlap: `expected_devs`, `allowed_devs`, `service_cidrs`,
                     `intended_rules`
    ipv4, ipv6       what is said in each family, without which it has no address there:
        cidrs        those that are expected by `devs` (the uplink); `service_cidrs` are, too
        escapes      first-last, and the devices or blackhole, unreachable, prohibit, own-range; an
                     address of the node itself does not split a range
        repair       with the reasons for what no route can close
        says         words in the report
        names        findings
        undecided    the name of each doubt that makes its verdict
        verdict      any other that does not follow from the escapes. With `undecided` or `verdict`,
                     escapes and repair are compared only if they are given

A device may be of any kind, also `nic`, `infiniband`, `ipoib` and `tap`, which Linux cannot make
like that: a veth has the name, and the snapshot has the kind, and the link type that goes with it.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import attrs
import pytest

from hostrouting.check import judge as routes_and_devices, other_packets, refusals
from hostrouting.check.check import check_kernel, check_snapshot
from hostrouting.check.judge import Judge
from hostrouting.check.results import CheckReport, FamilyReport, Grade
from hostrouting.check.sentences import check_findings, repair_commands
from hostrouting.config import cni
from hostrouting.config.settings import HostRoutingConfig, StaticRoutesConfig
from hostrouting.fib.engine import Fib
from hostrouting.kernel.base import RouteBackend
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import Prefix, as_ip, ip_at
from hostrouting.model.route import PROTOCOL_BOOT, deletion_command
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Link, Snapshot
from hostrouting.routes.plan import plan_static_routes
from tests.support.commands import up
from tests.support.namespace import Namespace, private_namespace
from tests.support.sections import expect

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

linux = [pytest.mark.linux, pytest.mark.needs("root")]

_FOLDER = Path(__file__).resolve().parents[2] / "hosts"
_FIELDS = {path.stem: path for path in sorted(_FOLDER.glob("*.toml"))}
_ADDRESSES = {"ipv4": "10.0.0.4/24", "ipv6": "2001:db8::4/64 nodad"}
_DEFAULTS = {
    "ipv4": "route add default via 10.0.0.1 dev {} proto dhcp src 10.0.0.4 metric 100",
    "ipv6": "route add ::/0 via fe80::1 dev {} proto ra metric 1024",
}
# The link type and the kind that a device has in a snapshot, if these are not Ethernet and the word
# in the file.
_LINKS = {
    "nic": (1, ""),
    "infiniband": (ARPHRD_INFINIBAND, ""),
    "ipoib": (ARPHRD_INFINIBAND, "ipoib"),
    "tap": (1, "tun"),
    "ipip": (768, "ipip"),
    "ppp": (512, "ppp"),
    "tun": (65534, "tun"),
    "wireguard": (65534, "wireguard"),
}
_WITH_COMMANDS = {"overlap", "refused", "own-range", "unsafe", "missing-rule", "no-default-route"}


@attrs.frozen
class Said:
    cidrs: list[str]
    devs: list[str] = attrs.field(factory=list)
    escapes: list[str] = attrs.field(factory=list)
    repair: list[str] = attrs.field(factory=list)
    says: list[str] = attrs.field(factory=list)
    names: list[str] = attrs.field(factory=list)
    undecided: list[str] = attrs.field(factory=list)
    verdict: str = ""

    @property
    def right(self) -> str:
        """The verdict that is right."""
        if self.verdict:
            return self.verdict
        if self.escapes:
            return "overlap"
        return "undecided" if self.undecided else "ok"


@attrs.frozen
class Field:
    name: str
    state: str
    source: list[str]
    right: str
    families: dict[str, Said]
    ip: str = ""
    uplink: str = "eth0 nic"
    devices: list[str] = attrs.field(factory=list)
    config: dict[str, Any] = attrs.field(factory=dict)

    @classmethod
    @cache
    def read(cls, name: str) -> "Field":
        document = tomllib.loads(_FIELDS[name].read_text(encoding="utf-8"))
        dev = document.get("uplink", "eth0 nic").split()[0]
        families: dict[str, Said] = {}
        for family in _ADDRESSES:
            if family in document:
                families[family] = Said(**{"devs": [dev], **document.pop(family)})
        return cls(name, families=families, **document)

    @property
    def configuration(self) -> HostRoutingConfig:
        cidrs = chain.from_iterable(said.cidrs for said in self.families.values())
        return HostRoutingConfig(route_overlap=expect(*cidrs, mode="STRICT", **self.config))

    @property
    def kinds(self) -> dict[str, tuple[int, str]]:
        words = [device.split() for device in (self.uplink, *self.devices)]
        return {name: _LINKS.get(kind, (1, kind)) for name, kind, *_ in words}

    @contextmanager
    def made(self) -> Iterator[Namespace]:
        dev, *_ = self.uplink.split()
        commands = ["link set lo up"]
        for at, name in enumerate(self.kinds):
            commands += [f"link add {name} type veth peer name p{at}"]
            commands += [*up(name), *up(f"p{at}")]
        commands += [f"address add {_ADDRESSES[family]} dev {dev}" for family in self.families]
        commands += [_DEFAULTS[family].format(dev) for family in self.families]
        for device in (self.uplink, *self.devices):
            name, _, *addresses = device.split()
            for address in addresses:
                nodad = " nodad" if ":" in address else ""
                commands.append(f"address add {address} dev {name}{nodad}")
        lines = self.ip.splitlines()
        of_ipv6 = [line for line in lines if line.startswith("-6 ")]
        with private_namespace() as namespace:
            namespace.batch([*commands, *(line for line in lines if line not in of_ipv6)])
            if of_ipv6:
                namespace.batch((line.removeprefix("-6 ") for line in of_ipv6), family=6)
            yield namespace


class Dressed:
    """A backend whose snapshots have the kinds of a node's devices; all else is the kernel's."""

    def __init__(self, backend: RouteBackend, field: Field) -> None:
        self._backend = backend
        self._kinds = field.kinds

    def snapshot(self, **options: Any) -> Snapshot:
        snapshot = self._backend.snapshot(**options)
        links: list[Link] = []
        for link in snapshot.links:
            number, kind = self._kinds.get(link.name, (link.type, link.kind))
            links.append(link._replace(type=number, kind=kind))
        return snapshot._replace(links=tuple(links))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


def linux_agrees(field: Field, backend: RouteBackend) -> None:
    """Linux sends both ends of each escape as the file says."""
    for said in field.families.values():
        by_end: dict[str, str] = {}
        for escape in said.escapes:
            ends, _, devs_or_kind = escape.partition(" ")
            for end in ends.split("-"):
                by_end[end] = devs_or_kind
        by_end.pop("0.0.0.0", None)  # noqa: S104  Linux says nothing of it
        answers = backend.lookup([as_ip(end) for end in by_end])
        for devs_or_kind, (kind, route) in zip(by_end.values(), answers, strict=True):
            if route is None:  # a rule that says unreachable is as no route
                assert kind.replace("no-route", "unreachable") == devs_or_kind
            elif route.type == "local":
                assert devs_or_kind in {"own-range", "pods-hidden"}
            elif route.type != "broadcast" and route.prefix.length:
                assert set(devs_or_kind.split()) <= set(route.devs)


def the_proposed_commands_work(
    field: Field, report: CheckReport, namespace: Namespace, backend: RouteBackend
) -> None:
    """Each changes one thing; and after one that adds a rule, nothing escapes."""
    findings = [each for each in check_findings(report) if each.name in _WITH_COMMANDS]
    commands = [finding.remedy.command for finding in findings if finding.remedy]
    for command in dict.fromkeys(commands):
        if not command.startswith("ip "):  # a device to be named
            continue
        before = backend.snapshot()
        done = namespace.ip(*command.split()[1:])
        assert done.returncode == 0, command + done.stderr
        after = backend.snapshot()
        change = 1 if " rule add " in command else -1
        things_before = len(before.routes) + len(before.rules)
        assert len(after.routes) + len(after.rules) == things_before + change
    if any(" rule add " in command for command in commands):
        done_report = check_kernel(backend, field.configuration)
        assert done_report.verdict != "overlap", told(field, done_report)


def agrees(field: Field, report: CheckReport) -> None:
    """The report says what the file says, and of a healthy node only what is allowed there."""
    findings = check_findings(report)
    page = "\n".join(map(str, findings))
    names = {finding.name for finding in findings}
    for family, said in zip(report.families, field.families.values(), strict=True):
        assert family.verdict == said.right, told(field, report)
        assert list(family.expected_devs) == said.devs, told(field, report)
        doubts = [doubt.name for doubt in family.doubts]
        assert sorted(doubts) == sorted(said.undecided), told(field, report)
        seen = escapes_of(family)
        if said.escapes or not said.verdict:
            assert seen == said.escapes, told(field, report, escapes=seen)
        seen = repair_of(family)
        if said.repair or not said.verdict:
            assert seen == said.repair, told(field, report, repair=seen)

        assert [words for words in said.says if words not in page] == [], told(field, report)
        assert names >= set(said.names), told(field, report)
    assert "route del 0.0.0.0/0 via" not in page, told(field, report)
    if report.verdict == "ok":
        named = {name for said in field.families.values() for name in said.names}
        further = [finding.name for finding in findings if finding.name not in named]
        assert further in ([], ["allowed"]), told(field, report)


def told(field: Field, report: CheckReport, **seen: list[str]) -> str:
    """For a failure: what is right, what the check says, and what was seen in the file's form."""
    lines = [f"tests/hosts/{field.name}.toml: {field.right}"]
    lines += map(str, check_findings(report, mode="STRICT"))
    lines += [f"seen: {key} = {json.dumps(value)}" for key, value in seen.items()]
    return "\n".join(lines)


def escapes_of(family: FamilyReport) -> list[str]:
    """The escapes as a file has them: the ends, and the devices or what refuses the packets."""
    escapes: list[str] = []
    for escape in family.escapes:
        first = ip_at(family.family, escape.first)
        last = ip_at(family.family, escape.last)
        by = " ".join(escape.devs) or escape.kind
        escapes.append(f"{first}-{last} {by}")
    return escapes


def repair_of(family: FamilyReport) -> list[str]:
    """The repair as a file has it: the routes, and each reason for what no route can close."""
    routes = [str(route.destination) for route in family.repair.routes]
    reasons = [unsafe.why.reason for unsafe in family.repair.unrepairable]
    return [*routes, *dict.fromkeys(reasons)]


def the_repair_changes_nothing_else(field: Field, report: CheckReport, snapshot: Snapshot) -> None:
    """With the repair configured, the plan adds it, and what does not escape stays."""
    section = StaticRoutesConfig(bool(report.routes), report.routes)
    plan = plan_static_routes(field.configuration._replace(static_routes=section), snapshot)
    assert plan.waiting == ()
    changes = {step.action for step in plan.steps} - {"keep"}
    assert changes == ({"add"} if report.routes else set())

    after = snapshot.with_routes([change.route for change in plan.changes])
    for family in report.families:
        judge = Judge(Fib(snapshot, family.family), field.configuration.route_overlap)
        for cidr in family.cidrs:
            only_what_escapes_moves(judge, Fib(after, family.family), cidr)


def the_repair_has_the_source(report: CheckReport, namespace: Namespace) -> None:
    """With the printed commands, Linux writes the source of the default route with the next hop."""
    defaults = [route for route in report.snapshot.routes if route.prefix.length == 0]
    for route, command in zip(report.resolved, repair_commands(report), strict=True):
        namespace.batch([command.removeprefix("ip ")])
        first = str(ip_at(route.prefix.family, route.prefix.first))
        answer = namespace.ip("route", "get", first).stdout
        for default in defaults:
            has_hops = {*route.next_hops} <= {*default.next_hops}
            # The first address may have a more specific route.
            if has_hops and default.prefsrc and f"dev {route.devs[0]} " in answer:
                assert f" src {default.prefsrc} " in answer
        deletion = deletion_command(route._replace(protocol=PROTOCOL_BOOT))
        assert namespace.ip(*deletion.split()[1:]).returncode == 0


def only_what_escapes_moves(judge: Judge, after: Fib, cidr: Prefix) -> None:
    """What did not escape leaves by the same devices as before."""
    for first, _ in after.cells(cidr.first, cidr.last):
        before = judge.fib.lookup(ip_at(cidr.family, first))
        if judge.opinion(before).grade is not Grade.ESCAPE:
            decision, _ = after.ends(first)
            assert before.devs == decision.devs


@pytest.mark.parametrize("name", [pytest.param(name, marks=linux) for name in _FIELDS])
def test_a_node(name: str) -> None:
    """On Linux, each node is judged as its file says, and the repair takes nothing away."""
    field = Field.read(name)
    with field.made() as namespace, namespace.inside(), NetlinkBackend() as backend:
        as_meant = cast("RouteBackend", Dressed(backend, field))
        linux_agrees(field, as_meant)
        report = check_kernel(as_meant, field.configuration)
        for family in report.families:
            assert "kernel-differs" not in {doubt.name for doubt in family.doubts}
        snapshot = as_meant.snapshot()
        agrees(field, report)
        the_repair_changes_nothing_else(field, report, snapshot)
        the_repair_has_the_source(report, namespace)
        the_proposed_commands_work(field, report, namespace, as_meant)


@cache
def snapshot_of(name: str) -> Snapshot:
    field = Field.read(name)
    with field.made() as namespace, namespace.inside(), NetlinkBackend() as backend:
        return Dressed(cast("RouteBackend", backend), field).snapshot()


@cache
def said_of(name: str) -> list[tuple[object, ...]]:
    """The verdicts on a node, and the ranges that escape or are in doubt."""
    report = check_snapshot(snapshot_of(name), Field.read(name).configuration)
    said: list[tuple[object, ...]] = []
    for family in report.families:
        doubts = [(doubt.name, doubt.target) for doubt in family.doubts]
        said.append((family.verdict, escapes_of(family), doubts))
    return said


def decides(
    names: Iterable[str], monkeypatch: pytest.MonkeyPatch, *without: tuple[object, str, Any]
) -> bool:
    """Whether one of these nodes is judged otherwise with these attributes replaced."""
    for name in names:
        right = said_of(name)
        with monkeypatch.context() as patched:
            for where, attribute, value in without:
                patched.setattr(where, attribute, value)
            cni.cni_row.cache_clear()
            wrong = said_of.__wrapped__(name)
        cni.cni_row.cache_clear()
        if wrong != right:
            return True
    return False


LISTS = [
    (routes_and_devices, "RULES_FOR_ROUTES"),
    (routes_and_devices, "RULES_FOR_DEVICES"),
    (other_packets, "RULES_FOR_OTHER_ENDS"),
]
RULES = [(module, of, rule) for module, of in LISTS for rule in getattr(module, of)]
LAST = {"by_its_devices", "escapes_by_the_device", "doubt_the_packets"}
"""Without these, a list has no opinion."""


@pytest.mark.parametrize(
    ("module", "of", "rule"),
    [
        pytest.param(*row, marks=linux, id=row[2].__name__)
        for row in RULES
        if row[2].__name__ not in LAST
    ],
)
def test_each_rule_decides_a_node(
    module: ModuleType, of: str, rule: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the rule, a node that its docstring names has another verdict, or another range."""
    names = [word for word in re.findall("[a-z0-9-]+", rule.__doc__) if word in _FIELDS]
    others = tuple(other for other in getattr(module, of) if other is not rule)
    is_decided = decides(names, monkeypatch, (module, of, others))
    assert is_decided, names


def without_one_thing(row: cni.Cni) -> Iterator[tuple[str, cni.Cni]]:
    """The row of a CNI without each of its devices, kinds, refusals and other CNIs."""
    for device in row.devices:
        others = tuple(each for each in row.devices if each is not device)
        yield device.pattern, row._replace(devices=others)
        kinds_beside_others = device.kinds if len(device.kinds) > 1 else ()
        for kind in kinds_beside_others:
            kinds = tuple(each for each in device.kinds if each != kind)
            changed = (*others, device._replace(kinds=kinds))
            yield f"{device.pattern} {kind}", row._replace(devices=changed)
    for refusal in row.refusals:
        kept = tuple(each for each in row.refusals if each is not refusal)
        for family in refusal.lengths:
            lengths = {key: value for key, value in refusal.lengths.items() if key != family}
            changed_refusals = (*kept, refusal._replace(lengths=lengths))
            yield f"proto {refusal.protocol} {family}", row._replace(refusals=changed_refusals)
        proof: cni.Proof = "device" if refusal.proof == "inside" else "inside"
        of_proof = (*kept, refusal._replace(proof=proof))
        yield f"proof of {refusal.protocol}", row._replace(refusals=of_proof)
    if row.serves is None:
        yield "serves all", row._replace(serves=())
    for other in row.serves or ():
        kept_names = tuple(each for each in row.serves or () if each != other)
        yield f"serves {other}", row._replace(serves=kept_names)


@pytest.mark.parametrize("row", [pytest.param(row, marks=linux, id=row.name) for row in cni.CNIS])
def test_each_row_of_a_cni_decides_a_node(row: cni.Cni, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any one thing of its row, a node with a device of the CNI is judged otherwise."""
    names: list[str] = []
    for name in _FIELDS:
        kinds = Field.read(name).kinds
        rows_of_devs = [cni.cni_row(dev, kind) for dev, (_, kind) in kinds.items()]
        if any(each is not None and each[0] is row for each in rows_of_devs):
            names.append(name)
    for label, changed in without_one_thing(row):
        rows = tuple(changed if each is row else each for each in cni.CNIS)
        patches = [(cni, "CNIS", rows), (refusals, "CNIS", rows)]
        # Not inside the assertion, whose failure would show all rows.
        is_decided = decides(names, monkeypatch, *patches)
        assert is_decided, f"{row.name}: {label} decides none of {names}"
