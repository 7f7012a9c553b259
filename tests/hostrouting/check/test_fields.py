"""Nodes that people run, by what their CNI, cloud or VPN leaves on them: tests/hosts has a file for each.

Each node is made on Linux. The check, its repair and the plan see it there, where the kernel is asked, and so does the
script at boot. A file has:

    system, state    what runs there, and in which mode or moment
    source           where it is described: a repository with the number of a thread, or with a path
    right            what is right there
    ip               commands of `ip -batch`, for both families
    uplink           the name and kind of the device with the default route, if that is not eth0
    ipv4, ipv6       what is said in each family: `cidrs`, which are expected by `devs` (the uplink, or "any"); `escapes`;
                     the `repair`, with the reasons for what no route can close; `says`, words in the report; and the
                     `verdict`, where that does not follow from the escapes: "not ok", or "any"

In `ip`, a device may be of any kind, also `nic` and `infiniband`, which Linux cannot make: a veth has the name, and the
snapshot and the script's `ip` have the kind.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from ipaddress import ip_address
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
from hostrouting.model.prefix import ip_at
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Snapshot
from hostrouting.routes.plan import plan_static_routes
from phases.testing import FakeClock
from tests.support.check_script import Checked
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
_HARDWARE = {"nic": 1, "infiniband": ARPHRD_INFINIBAND}


@attrs.frozen
class Said:
    """The expected result for one family of a node."""

    cidrs: list[str]
    devs: list[str] = attrs.field(factory=list)
    escapes: list[str] = attrs.field(factory=list)
    repair: list[str] = attrs.field(factory=list)
    says: list[str] = attrs.field(factory=list)
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

    system: str
    state: str
    source: list[str]
    right: str
    ip: str
    ipv4: Said | None = None
    ipv6: Said | None = None
    uplink: str = "eth0 nic"

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
    def config(self) -> HostRoutingConfig:
        """The check of its networks."""
        cidrs = [cidr for said in self.families.values() for cidr in said.cidrs]
        return HostRoutingConfig(route_overlap=RouteOverlapConfig(cidrs, "STRICT"))

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
        kinds = {name: (_HARDWARE.get(kind, 1), "" if kind in _HARDWARE else kind) for name, kind in self.kinds.items()}
        links = (
            attrs.evolve(link, type=kinds[link.name][0], kind=kinds[link.name][1]) if link.name in kinds else link
            for link in snapshot.links
        )
        return attrs.evolve(snapshot, links=tuple(links))

    @property
    def shown(self) -> str:
        """An `ip` that shows the kinds of the devices."""
        edits = [
            rf"/^[0-9]+: {name}[@:]/s,link/\[1\](.*)\\ +veth,link/[{_HARDWARE.get(kind, 1)}]\1"
            + ("," if kind in _HARDWARE else rf"\\ {kind},")
            for name, kind in self.kinds.items()
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


def agrees(field: Field, found: Examination) -> None:
    """Compare what was found with what the file says."""
    text = "".join(map(str, check_findings(found, mode="STRICT")))
    assert found.surprises == ()
    for family, said in zip(found.families, field.families.values(), strict=True):
        assert family.verdict in said.verdicts, text
        assert said.devs == ["any"] or list(family.report.expected_devs) == said.devs
        if not said.verdict:
            assert told(family) == (said.escapes, said.repair)
        assert [words for words in said.says if words not in text] == []


def repaired(field: Field, found: Examination) -> None:
    """The plan adds the repair and changes nothing else; what left by an overlay, or stayed here, still does."""
    section = StaticRoutesConfig(bool(found.routes), repair_document(found.routes))
    plan = plan_static_routes(attrs.evolve(field.config, static_routes=section), found.fib.snapshot)
    assert ({step.action for step in plan.steps}, plan.pending) == ({"add"} if found.routes else set(), ())
    after = found.fib.with_routes([change.route for change in plan.changes])
    for family in found.families:
        judge = Judge.of(family.report, found.fib)
        for cidr in family.report.cidrs:
            for _, _, then, now in paired(found.fib.cells(cidr), after.cells(cidr)):
                assert then.devs == now.devs or judge.escape(then) is not None


@pytest.mark.parametrize("field", [pytest.param(Field.read(name), id=name, marks=linux) for name in _FIELDS])
def test_a_node(field: Field, tmp_path: Path) -> None:
    """On Linux each node is judged as its file says, also by the script at boot, and a repair takes nothing away.

    Kills: a device by its name alone; InfiniBand as an expected device; a CNI that lacks its row.
    """
    with field.made() as namespace, closing(NetlinkBackend(netns=namespace.path)) as backend:
        seen = cast("RouteBackend", Dressed(backend, field))
        found = examine(phases.Context(clock=FakeClock(), observers=[]), seen, field.config, wait=0)
        agrees(field, found)
        repaired(field, found)
        checked = Checked(namespace, field.config, tmp_path, tools={"ip": field.shown})
    agrees_at_boot(field, checked)


def agrees_at_boot(field: Field, checked: Checked) -> None:
    """The script at boot gives each node the same verdict, devices and escapes."""
    kinds = {line.partition(" (")[2].partition(")")[0]: line.partition(":")[0].lower() for line in checked.lines}
    for family, said in field.families.items():
        found = [escape for escape in checked.answer.escapes if (":" in escape[0]) == (family == "ipv6")]
        missing = f"those of the IPv{family[-1]} default route" in checked.said
        assert ("overlap" if found else "no-default-route" if missing else checked.answer.verdict) in said.verdicts
        # The words about what escapes are the library's; those about a host that is broken are for everybody.
        if said.verdict:
            assert all(words in checked.said for words in said.says)
            continue
        ranges = ["–".join(dict.fromkeys(str(ip_address(end)) for end in it[1:3])) for it in found]  # noqa: RUF001  as printed
        escapes = [
            f"{ip_address(first)}-{ip_address(last)} {', '.join(devs) or kinds[where]}"
            for (_, first, last, devs), where in zip(found, ranges, strict=True)
        ]
        assert escapes == said.escapes
        told = [
            *(line for line in checked.lines if found and line.partition(" (")[0].endswith(found[0][0])),
            checked.said,
        ]
        assert (
            said.devs == ["any"]
            or missing
            or re.search(f"(by|and|via|expected) {', '.join(said.devs)}( |$)", told[0], re.MULTILINE)
        )
