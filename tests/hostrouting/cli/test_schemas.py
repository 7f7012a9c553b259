"""The JSON of every command is what its record says, no more and no less."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from unittest import mock

import attrs
import pytest

from hostrouting.cli.commands import every_command
from hostrouting.errors import BackendError
from hostrouting.finding import Finding
from hostrouting.fleet.dispatch import Workers
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link
from hostrouting.tasks.cleanup.plan import CleanupPlan
from hostrouting.tasks.guard.pace import Fights
from hostrouting.tasks.guard.state import State
from hostrouting.tasks.results import Look, Repair
from hostrouting.testing import FakeFiles, FakeHost, FakeManager, MemoryBackend, h200, plain_vm
from tests.support.azure_leftovers import MANAGED, azure_host
from tests.support.cli import say
from tests.support.fleets import Inline, save
from tests.support.topologies import refusing
from tests.tables.documents import ERROR, KEYS

CIDR = "172.16.0.0/16"
# Keys of some questions only.
SOMETIMES = {"node", "snapshot", "correction"}
# A snapshot has the fields of `hostrouting.Snapshot`.
SCHEMAS = {it.schema: KEYS[it.name] for it in every_command() if it.name in KEYS} | {"hostrouting/error/2": ERROR}


def paths(value: Any, at: str = "") -> Iterator[str]:
    """Every key in a document, as a record writes it; a check inside another document is one of its own, and facts are opaque."""
    if isinstance(value, dict) and not (at == "check" and "schema" in value) and not at.endswith("findings[].facts"):
        for key, member in value.items():
            if key != "schema" or at:
                yield from paths(member, f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        for member in value:
            yield from paths(member, f"{at}[]")
    else:
        yield at


def leftover() -> MemoryBackend:
    """An H200 node with one of our routes that is no longer configured."""
    kernel = h200()
    kernel.ip_route("add", Route.to("9.0.0.0/8", dev="eth0", gateway="10.0.0.1", protocol=213))
    return kernel


def guarded() -> dict[str, Any]:
    """The document of a guard that gave up a repair which another program keeps undoing."""
    fights, repair, begun = (
        Fights(),
        Repair("172.16.0.0/17", "[172.16.0.0/17 dev eth0]", "no route"),
        datetime.now(timezone.utc),
    )
    for _ in range(4):
        fights = fights.repaired([repair], 0)
    look = Look(findings=(Finding("guard", "warning", "it is gone"),), verdict="ok", unknown=("check",))
    return State(since=begun).after(look, fights.named(0), begun).to_mapping()


@pytest.fixture
def documents(written: Callable[..., str], repaired: str, tmp_path: Path) -> list[dict[str, Any]]:
    """Every command, on hosts with much to report."""

    def put(name: str, **document: Any) -> str:
        """The path of a configuration, or of another document, with these sections."""
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
        return f"{tmp_path}/{name}.json"

    nothing, half = written(cidrs=()), written({"destination": "172.16.0.0/17"})
    image, broken = tmp_path / "image", tmp_path / "broken"
    image.mkdir()
    (broken / "etc").mkdir(parents=True)
    (broken / "etc" / "iproute2").write_text("")
    with h200() as kernel:
        snapshot = kernel.snapshot()
    strict = attrs.evolve(snapshot, links=tuple(attrs.evolve(link, rp_filter=1) for link in snapshot.links))
    unit = "/etc/systemd/system/static-routes.service"
    full = FakeHost(kernel=h200(), files=FakeFiles(broken={unit: "the disk is full"}))
    stuck, well = FakeHost(kernel=h200()), FakeHost(kernel=leftover())
    say("apply", "--config", repaired, host=stuck)
    stuck.files.broken[stuck.layout.routes_script_path] = "Operation not permitted"
    held = FakeHost(
        kernel=h200(), manager=FakeManager(properties={"systemd-nspawn@kube1.service": {"ActiveState": "active"}})
    )
    shared = FakeHost(kernel=h200())  # with a step of a task that is not installed here: remove keeps it
    say("apply", "--config", repaired, host=shared)
    steps = shared.layout.gate_steps_path
    shared.files.texts[steps] = shared.files.texts[steps].replace("\nend", "\n70 requires rail-rules\nend")
    edited = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=edited)
    edited.files.texts[unit] += "# edited\n"
    edited.files.broken[edited.layout.gate_steps_path] = "the disk is full"

    uplink = {"enabled": True, "interfaces": ["eth0", "eth9"], "ensureRoute": False, "condition": "always"}
    probes = put("probes", probeRewrite=uplink, routeOverlap={"expectedCidrs": [CIDR], "mode": "WARN"})
    rewriting = FakeHost(kernel=h200(), files=FakeFiles({"/proc/sys/net/ipv6/conf/all/forwarding": "1"}))
    rewriting.files.texts["/proc/sys/net/ipv6/conf/eth0/accept_ra"] = "1"

    clean = ("clean", "azure-vnet", "--config", put("stale", azureVnetCleanup={"managed": list(MANAGED)}))
    agreed = put("agreed", schema="hostrouting/clean/2", action="plan", **CleanupPlan().to_mapping())
    active = FakeFiles({"/etc/cni/net.d/10.conf": '{"type": "azure-vnet"}', "/var/run/azure-vnet.json": "{"})
    # What pods send escapes, by a rule that the host's own packets do not match.
    checked = {"expectedCidrs": [CIDR, "fd16::/48"], "podCidrs": ["10.244.0.0/24"]}
    forwarding = put("forwarding", routeOverlap=checked)
    vm = plain_vm()
    vm.add_link(Link(name="ib0", index=0))
    vm.add_link(Link(name="veth1", index=0, rp_filter=1))
    vm.add_address("ib0", "192.168.7.1/24")
    vm.add_address("eth0", "2001:db8::4/64")
    vm.change([RouteRequest("add", Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1024))])
    vm.add_rule(Rule(family=4, priority=100, iif="cni0", table=100, protocol=3))
    astray = FakeHost(kernel=vm)
    vm.change([RouteRequest("add", Route.to("0.0.0.0/0", dev="ib0", gateway="192.168.7.9", table=100))])

    save(tmp_path / "nodes", {"gpu": h200().snapshot(), "broken": "{"})
    with mock.patch("hostrouting.fleet.dispatch.OwnProcesses", return_value=Workers(Inline())):
        asked = ("check", "--snapshots", str(tmp_path / "nodes"), "--json")
        pinned = written({"destination": "172.16.0.0/17", "gateway": "10.9.9.9", "dev": "ib0"})
        nodes = [json.loads(line) for words in ((CIDR,), ("--config", pinned)) for line in say(*asked, *words).lines]
    nodes += [json.loads(line) for line in say("plan", *asked[1:], "--config", pinned).lines]

    no_netlink = mock.Mock(side_effect=BackendError("there is no netlink here", kind="unavailable"))

    def told(*words: str, **where: Any) -> dict[str, Any]:
        document: dict[str, Any] = say(*words, "--json", **where).json
        return document

    return [
        guarded(),
        *nodes,
        told("explain", "172.16.5.9", "--snapshot", "-", stdin=strict.to_json().encode()),
        told("explain", "8.8.8.8", "--iif", "eth0", "--from", "224.0.0.1", kernel=plain_vm()),
        told("repair", CIDR, kernel=refusing()),
        told("check", "10.0.0.0/8", host=FakeHost(backend=no_netlink)),
        told("apply", "--config", half, host=well),
        told("apply", "--config", repaired, host=full),
        told("plan", "--config", repaired, host=edited),
        told("status", "--config", repaired, host=well),
        told("plan", "--config", nothing, host=well),
        told("apply", "--config", nothing, "--allow-removal", host=well),
        told("remove", host=shared),
        told("remove", host=stuck),
        told("render", "--config", repaired, "--root", str(image)),
        told("render", "--config", nothing, "--root", str(image)),
        told("render", "--config", repaired, "--root", str(broken)),
        told("check", "--config", put("wrong", protocol=2)),
        *(told(verb, "--config", forwarding, host=astray) for verb in ("check", "status")),
        *(told(verb, "--config", probes, host=rewriting) for verb in ("plan", "apply", "status", "check")),
        told("remove", host=rewriting),
        told(*clean, "--apply", host=azure_host(files=active)),
        told(*clean, "--apply", host=azure_host()),
        told(*clean, "--apply", "--approved", agreed, host=azure_host()),
        told("apply", "--config", repaired, host=held),
        told("gate", "--open-for", "1h", "--reason", "why", host=held),
        told("status", host=held),
    ]


def test_every_key_is_documented_and_every_documented_key_is_there(documents: list[dict[str, Any]]) -> None:
    """Each document says its schema, and has all of its keys, but for those of a few questions; all are seen somewhere.

    Kills: a document without one of its keys, or with one more.
    """
    seen: dict[str, set[str]] = {schema: set() for schema in SCHEMAS}
    for document in documents:
        # Where a thing is not there at all, null stands in its place.
        known = SCHEMAS[document["schema"]]
        found = set(paths(document))
        assert {key.partition(".")[0].removesuffix("[]") for key in known} - {*document} <= SOMETIMES
        absent = {path for path in found if any(key.startswith(f"{path}.") for key in known)}
        assert found - absent <= set(known)
        seen[document["schema"]] |= found - absent
    assert {schema: sorted(set(known) - seen[schema]) for schema, known in SCHEMAS.items()} == {
        it: [] for it in SCHEMAS
    }


def test_every_key_has_a_meaning() -> None:
    """No key is without its words, and no command but snapshot without keys."""
    assert all(SCHEMAS.values())
    assert all(says for keys in SCHEMAS.values() for says in keys.values())
