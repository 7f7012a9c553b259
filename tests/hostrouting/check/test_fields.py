"""Nodes that people run, by what their CNI, cloud or VPN leaves on them: tests/hosts has a file for each.

Each node is made on Linux. The check, its repair and the plan see it there, where the kernel is asked, and so does the
script at boot. A file has:

    state            what runs there, and in which mode or moment
    source           where it is described: a repository with the number of a thread, or with a path
    right            what is right there
    ip               commands of `ip -batch`, for both families
    uplink           the name and kind of the device with the default route, if that is not eth0
    config           further keys of routeOverlap: `expected_devs`, `allowed_devs` (added to the defaults), `service_cidrs`,
                     `pod_cidrs`, `intended_rules`
    ipv4, ipv6       what is said in each family: `cidrs`, which are expected by `devs` (the uplink, or "any");
                     `escapes`: first-last, and the devices or blackhole, unreachable, prohibit, own-range; the `repair`,
                     with the reasons for what no route can close; `says`, words in the report; `names` of findings; and
                     the `verdict`, where that does not follow from the escapes: a verdict, "not ok", or "any". With a
                     verdict, escapes and repair are compared only if they are given

In `ip`, a device may be of any kind, also `nic`, `infiniband`, `ipoib` and `tap`, which Linux cannot make like that: a
veth has the name, and the snapshot and the script's `ip` have the kind, and the link type that goes with it.

TODAY_WRONG has the nodes that the check or the script does not judge as their files say.
"""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import attrs
import pytest

import phases
from hostrouting.check.examine import Examination, FamilyExamination, examine
from hostrouting.check.overlap import Judge
from hostrouting.check.report import check_findings, repair_document
from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig, StaticRoutesConfig
from hostrouting.fib.decision import paired
from hostrouting.kernel.base import RouteBackend
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import Prefix, ip_at
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Snapshot
from hostrouting.newcheck.check import check_snapshot
from hostrouting.newcheck.report import check_findings as new_findings
from hostrouting.routes.plan import plan_static_routes
from phases.testing import FakeClock
from tests.support.check_script import Checked, EnginesCheck
from tests.support.namespace import Namespace, private_namespace

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

linux = [pytest.mark.linux, pytest.mark.needs("root")]

_FIELDS = {path.stem: path for path in sorted((Path(__file__).resolve().parents[2] / "hosts").glob("*.toml"))}
_ADDRESSES = {"ipv4": "10.0.0.4/24", "ipv6": "2001:db8::4/64 nodad"}
_DEFAULTS = {
    "ipv4": "route add default via 10.0.0.1 dev {} proto dhcp src 10.0.0.4 metric 100",
    "ipv6": "route add ::/0 via fe80::1 dev {} proto ra metric 1024",
}
# The link type and the kind that a device has in a snapshot, if these are not Ethernet and the word in the file.
_LINKS = {
    "nic": (1, ""),
    "infiniband": (ARPHRD_INFINIBAND, ""),
    "ipoib": (ARPHRD_INFINIBAND, "ipoib"),
    "tap": (1, "tun"),
    "ipip": (768, "ipip"),
    "ppp": (512, "ppp"),
    "tun": (65534, "tun"),
    "wireguard": (65534, "wireguard"),
    "wwan": (519, "wwan"),
    "xfrm": (65534, "xfrm"),
}
_REFUSALS = {"Invalid argument": "blackhole", "No route to host": "unreachable", "Permission denied": "prohibit"}
TODAY_WRONG = {
    "antrea-egress": "UNDECIDED: a VLAN at the end of a mark is not known",
    "anyip-ipv6": "OK: a local route for a network counts as the host's own",
    "anyip-one-service": "OK: a local route for everything counts as the host's own",
    "anyip-services": "OK: a local route for a network counts as the host's own",
    "bgp-halves": "NO-DEFAULT-ROUTE: two halves are not a default",
    "bird-aggregate": "OK: every blackhole of BIRD counts as the host's own",
    "bridge-named-like-a-pod": "OK: gke* without a kind",
    "calico-block-without-pods": "OK: every blackhole of BIRD counts as the host's own",
    "calico-services-refused": "OK: every blackhole of BIRD counts as the host's own",
    "calico-services-refused-and-named": "OK: services are not told apart",
    "calico-services-refused-ipv6": "OK: every blackhole of BIRD counts as the host's own",
    "card-named-like-azure-cni": "OK: azure* without a kind",
    "cilium-pool-is-the-node-subnet": "OK: a CNI's device may have any network",
    "cloud-init-metrics-by-mac": "says nothing of the second default route",
    "cni0-left-beside-calico": "OK: two CNIs in one network are not seen",
    "flannel-and-a-refused-range": "OK: every blackhole without a protocol counts as Flannel's",
    "flannel-stale-block": "OK: every blackhole without a protocol counts as Flannel's",
    "flannel-stale-route-over-cni0": "OK: a CNI's device may have any network",
    "frr-refuses-its-pods": "OK: a pod inside makes every blackhole the host's own",
    "gce-alias-range": "OK: a local route for a network counts as the host's own",
    "ipv6-source-specific-default": "NO-DEFAULT-ROUTE: a default route with a source is not seen",
    "ipv6-unreachable-default": "UNDECIDED: a router that does not answer would leave the unreachable default",
    "kilo-leader": "OVERLAP: kilo0 is not known",
    "kindnet": "OVERLAP: knet* is not known",
    "lxc-bridge": "OK: lxc* without a kind",
    "mesh-in-the-services": "says nothing of the address in the services",
    "microk8s-in-the-lan": "OK: a CNI's device may have any network",
    "minikube": "OVERLAP: the bridge named bridge is not known",
    "node-in-the-services": "says nothing of the addresses in the services",
    "openfortivpn": "OK: a tunnel's default route is expected",
    "openshift-sdn": "OVERLAP: tun0 of Open vSwitch is not known",
    "openvpn-halves-only": "NO-DEFAULT-ROUTE: two halves are not a default",
    "openvpn-replaced-and-own-subnet": "OVERLAP: the node's own subnet is repaired into the tunnel",
    "openvpn-tap": "OK: a tunnel's default route is expected",
    "openvpn-without-def1": "OK: a tunnel's default route is expected",
    "policy-routing-hides-pods": "OK: the source that TCP chooses for a route without one is not looked up",
    "refused-by-configured-services": "OK: services are not told apart",
    "tailscale-exit-node": "OK: a tunnel's default route is expected",
    "veth-of-storage": "OK: veth* for a network",
    "vpn-for-all-but-private": "OVERLAP: the route of a rule with a destination is expected, and repairs lead there",
    "vpn-for-all-but-private-elsewhere": "OK: the route of a rule with a destination is expected",
    "wg-quick-full-tunnel": "OK: a tunnel's default route is expected",
    "wg-quick-full-tunnel-own-subnet": "OVERLAP: the node's own subnet is repaired into the tunnel",
}
"""The nodes that are judged otherwise than their files say, and how. A new check has to empty this table."""


@attrs.frozen
class Said:
    """The expected result for one family of a node."""

    cidrs: list[str]
    devs: list[str] = attrs.field(factory=list)
    escapes: list[str] = attrs.field(factory=list)
    repair: list[str] = attrs.field(factory=list)
    says: list[str] = attrs.field(factory=list)
    names: list[str] = attrs.field(factory=list)
    verdict: str = ""

    @property
    def verdicts(self) -> set[str]:
        """The verdicts that are right."""
        known = {"ok", "overlap", "undecided", "no-default-route"}
        asked = self.verdict or ("overlap" if self.escapes else "ok")
        return {"any": known, "not ok": known - {"ok"}}.get(asked, {asked})


@attrs.frozen
class Field:
    """One file."""

    state: str
    source: list[str]
    right: str
    ip: str
    ipv4: Said | None = None
    ipv6: Said | None = None
    uplink: str = "eth0 nic"
    config: dict[str, list[str]] = attrs.field(factory=dict)

    @classmethod
    def read(cls, name: str) -> "Field":
        """The node of this name."""
        document = tomllib.loads(_FIELDS[name].read_text(encoding="utf-8"))
        dev = document.get("uplink", "eth0 nic").split()[0]
        said = {family: Said(**{"devs": [dev], **document[family]}) for family in _ADDRESSES if family in document}
        return cls(**{**document, **said})

    @property
    def families(self) -> dict[str, Said]:
        """The expected results, by family."""
        return {name: said for name in _ADDRESSES if (said := getattr(self, name)) is not None}

    @property
    def configuration(self) -> HostRoutingConfig:
        """The check of its networks; services are expected like all others."""
        cidrs = [cidr for said in self.families.values() for cidr in said.cidrs]
        section = RouteOverlapConfig(
            [*cidrs, *self.config.get("service_cidrs", ())],
            "STRICT",
            self.config.get("expected_devs", ()),
            ["...", *self.config.get("allowed_devs", ())],
            pod_cidrs=self.config.get("pod_cidrs", ()),
            intended_rules=[{"rule": rule, "reason": self.right} for rule in self.config.get("intended_rules", ())],
        )
        return HostRoutingConfig(route_overlap=section)

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each of its devices."""
        lines = (line.split() for line in self.ip.splitlines())
        made = {words[2]: words[4] for words in lines if words[:2] == ["link", "add"]}
        return {self.uplink.split()[0]: self.uplink.split()[1], **made}

    @contextmanager
    def made(self) -> Iterator[Namespace]:
        """The node on Linux."""
        dev, *_ = self.uplink.split()
        links = ["link set lo up"]
        for at, name in enumerate(self.kinds):
            links += [f"link add {name} type veth peer name p{at}"]
            links += [f"link set {end} addrgenmode none up" for end in (name, f"p{at}")]
        uplink = [f"address add {_ADDRESSES[family]} dev {dev}" for family in self.families]
        uplink += [_DEFAULTS[family].format(dev) for family in self.families]
        with private_namespace() as namespace:
            namespace.batch(
                [*links, *uplink, *(line for line in self.ip.splitlines() if not line.startswith("link add"))]
            )
            yield namespace

    def dressed(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the kinds of the devices."""
        kinds = {name: _LINKS.get(kind, (1, kind)) for name, kind in self.kinds.items()}
        links = (
            attrs.evolve(link, type=kinds[link.name][0], kind=kinds[link.name][1]) if link.name in kinds else link
            for link in snapshot.links
        )
        return attrs.evolve(snapshot, links=tuple(links))

    @property
    def shown(self) -> str:
        """An `ip` that shows the kinds of the devices."""
        links = {name: _LINKS.get(kind, (1, kind)) for name, kind in self.kinds.items()}
        edits = [
            rf"/^[0-9]+: {name}[@:]/s,link/\[1\](.*)\\ +veth,link/[{number}]\1" + (rf"\\ {kind}," if kind else ",")
            for name, (number, kind) in links.items()
        ]
        return f"""[[ $* != *-force* ]] || exec ip "$@"\nip "$@" | sed -E '{";".join(edits)}'"""


class Dressed:
    """A backend whose snapshots have the kinds of a node's devices; all else is the kernel's."""

    def __init__(self, backend: RouteBackend, field: Field) -> None:
        """Take both."""
        self._backend, self._field = backend, field

    def snapshot(self, **options: Any) -> Snapshot:
        """See RouteBackend."""
        return self._field.dressed(self._backend.snapshot(**options))

    def __getattr__(self, name: str) -> Any:
        """See RouteBackend."""
        return getattr(self._backend, name)


def told(family: FamilyExamination) -> tuple[list[str], list[str]]:
    """The escapes of a family, and its repair with the reasons for what is left, as in a file."""
    escapes = [
        f"{ip_at(escape.cidr.family, escape.first)}-{ip_at(escape.cidr.family, escape.last)} {' '.join(escape.devs) or escape.kind}"
        for escape in family.report.escapes
    ]
    return escapes, [
        *(str(route.destination) for route in family.repair.routes),
        *(it.reason for it in family.repair.unsafe),
    ]


def linux_agrees(field: Field, namespace: Namespace) -> None:
    """Linux sends both ends of each escape as the file says; equal default routes are one, of which Linux tells the first."""
    for family, said in field.families.items():
        ends = [(end, words) for escape in said.escapes for end, words in ends_of(escape)]
        answers = namespace.get(int(family[-1]), [end for end, _ in ends])
        for (_, words), answer in zip(ends, answers, strict=True):
            if isinstance(answer, str):
                assert _REFUSALS[answer] == words
            elif answer.type == "local":
                assert words == "own-range"
            elif answer.type != "broadcast" and answer.prefix.length:
                assert set(words.split()) <= set(answer.devs)


def ends_of(escape: str) -> list[tuple[str, str]]:
    """The first and the last address of an escape in a file, each with its devices or its kind."""
    ends, _, words = escape.partition(" ")
    return [(end, words) for end in ends.split("-")]


def agrees(field: Field, found: Examination) -> None:
    """Compare what was found with what the file says."""
    findings = check_findings(found, mode="STRICT")
    text = "".join(map(str, findings))
    for family, said in zip(found.families, field.families.values(), strict=True):
        assert family.verdict in said.verdicts, text
        assert said.devs == ["any"] or list(family.report.expected_devs) == said.devs
        escapes, repair = told(family)
        assert escapes == said.escapes or (said.verdict and not said.escapes)
        assert repair == said.repair or (said.verdict and not said.repair)
        assert [words for words in said.says if words not in text] == []
        assert {finding.name for finding in findings} >= set(said.names)


def repaired(field: Field, found: Examination) -> None:
    """The plan adds the repair and changes nothing else; what left by an overlay, or stayed here, still does."""
    section = StaticRoutesConfig(bool(found.routes), repair_document(found.routes))
    plan = plan_static_routes(attrs.evolve(field.configuration, static_routes=section), found.fib.snapshot)
    assert ({step.action for step in plan.steps}, plan.pending) == ({"add"} if found.routes else set(), ())
    after = found.fib.with_routes([change.route for change in plan.changes])
    for family in found.families:
        judge = Judge.of(family.report, found.fib)
        for cidr in family.report.cidrs:
            for _, _, then, now in paired(found.fib.cells(cidr), after.cells(cidr)):
                assert then.devs == now.devs or judge.escape(then) is not None


@pytest.mark.parametrize("name", [pytest.param(name, marks=linux) for name in sorted({*_FIELDS, *TODAY_WRONG})])
def test_a_node(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """On Linux each node is judged as its file says, also by the script at boot, and a repair takes nothing away.

    Linux is asked at each border of what decides, and at the ends of what escapes, for each node.

    Kills: a device by its name alone; InfiniBand as an expected device; a CNI that lacks its row.
    """
    field = Field.read(name)
    with field.made() as namespace, closing(NetlinkBackend(netns=namespace.path)) as backend:
        seen = cast("RouteBackend", Dressed(backend, field))
        linux_agrees(field, namespace)
        found = examine(phases.Context(clock=FakeClock(), observers=[]), seen, field.configuration, wait=0)
        assert found.surprises == ()
        judged_anew(name, field, found.fib.snapshot)
        checked = Checked(namespace, field.configuration, tmp_path, tools={"ip": field.shown})
        assert EnginesCheck.of(found.fib.snapshot, field.configuration).objections(checked) == []
        if name in TODAY_WRONG:
            request.applymarker(pytest.mark.xfail(reason=TODAY_WRONG[name], strict=True))
        agrees(field, found)
        repaired(field, found)
    agrees_at_boot(field, checked)


_METRIC_1 = {"calico-services-refused-ipv6", "docker-ipv6"}
"""The nodes that the present repair mends with one IPv6 route of metric 1, and the new one with two longer ones."""


def judged_anew(name: str, field: Field, snapshot: Snapshot) -> None:
    """The check as it will be (`hostrouting.newcheck`) judges each node as its file says, without an exception."""
    services = [Prefix.parse(cidr) for cidr in field.config.get("service_cidrs", ())]
    section = attrs.evolve(
        field.configuration.route_overlap,
        expected_cidrs=[cidr for said in field.families.values() for cidr in said.cidrs],
        allowed_devs=field.config.get("allowed_devs", ()),
    )
    report = check_snapshot(snapshot, HostRoutingConfig(route_overlap=section), service_cidrs=services)
    findings = new_findings(report, mode="STRICT")
    for family, said in zip(report.families, field.families.values(), strict=True):
        assert family.verdict in said.verdicts
        assert said.devs == ["any"] or list(family.expected_devs) == said.devs
        escapes = [
            f"{ip_at(family.family, escape.first)}-{ip_at(family.family, escape.last)} "
            + (" ".join(escape.devs) or escape.kind)
            for escape in family.escapes
        ]
        assert escapes == said.escapes or (said.verdict and not said.escapes)
        prefixes = [str(route.destination) for route in family.repair.routes]
        wanted = [word for word in said.repair if "/" in word]
        assert prefixes == wanted or (said.verdict and not said.repair) or name in _METRIC_1
        assert {finding.name for finding in findings} >= set(said.names)


def agrees_at_boot(field: Field, checked: Checked) -> None:
    """The script at boot says ok of no node that is lost, and overlap of no node that is fine."""
    right = {verdict for said in field.families.values() for verdict in said.verdicts}
    is_plain = any("other-packets" in said.names for said in field.families.values())  # which the script leaves out
    if checked.verdict == "ok":
        assert is_plain or right & {"ok", "undecided"}
    elif checked.verdict in {"overlap", "no-default-route"}:
        assert right != {"ok"}
