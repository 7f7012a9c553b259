"""A node in a box: that its lives break no law, and that each law can be broken.

A failing life of the long profile is repeated with its seed, which the error names: `life(SEED).live(DAYS)`.
"""

from __future__ import annotations

import errno
import re
import sys
import time
from collections import Counter
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any

import attrs
import pytest

import phases
from hostrouting import Configure, HostRoutingConfig
from hostrouting.config.settings import GuardConfig
from hostrouting.errors import FileError
from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.testing import FakeFiles, FakeHost, h200
from hostrouting.testing.node import (
    ADMINISTRATOR,
    AGENT,
    FABRIC,
    MISHAPS,
    Act,
    BrokenLaw,
    Life,
    Node,
    network_manager,
    networkd,
    program,
)
from hostrouting.testing.node.laws import ours
from tests.support.cases import some_at_night
from tests.support.examples import LONG
from tests.support.ip_lines import things
from tests.support.namespace import private_namespace
from tests.support.pages import ROOT
from tests.support.tasks import LAYOUT, lose_routes
from tests.tables.network_manager import KEPT, ROUTES

if TYPE_CHECKING:
    from collections.abc import Callable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HALVES = ["172.16.0.0/17", "172.16.128.0/17"]
HALVES6 = ["fd16::/49", "fd16:0:0:8000::/49"]
PROGRAMS = (
    *("flannel-vxlan", "aws-vpc-cni", "kube-ovn", "tailscale-accepts-routes", "wg-quick-full-tunnel"),
    *("wg-quick-split-tunnel", "docker", "unbounded-net-ebpf", "kube-router"),
)
# None is a new seed in each run; `make days` needs ten thousand days, and short lives find more than long ones.
LIVES = [pytest.param(None, 4, id=f"life{n}") for n in range(2500)] if LONG else [(0, 5), (2, 5), (3, 5), (1025, 9)]


def config(
    *routes: str, mode: str = "STRICT", cidrs: tuple[str, ...] = ("172.16.0.0/16",), **more: Any
) -> HostRoutingConfig:
    """A configuration with these routes and CIDRs."""
    section = {"enabled": bool(routes), "routes": [{"destination": each} for each in routes]}
    return HostRoutingConfig(section, {"expectedCidrs": list(cidrs), "mode": mode}, **more)


def on_the_node(name: str) -> tuple[Act, ...]:
    """What is on the node of this name in tests/tables/fields."""
    text = (ROOT / f"tests/tables/fields/{name}.toml").read_text(encoding="utf-8")
    return program(name, things(tomllib.loads(text)["ip"]))


def life(seed: int) -> Life:
    """A life on one of the kinds of nodes: with and without IPv6 and the guard, with NetworkManager or each systemd, and programs."""
    is_dual, is_guarded = bool(seed % 2), bool(seed % 3)
    routes = [*HALVES, *HALVES6] if is_dual else HALVES
    cidrs = ("172.16.0.0/16", "fd16::/48") if is_dual else ("172.16.0.0/16", "10.244.0.0/16", "172.17.0.0/16")
    rules = "keep" if seed % 5 < 3 else "leave"
    usual: dict[str, Any] = {"cidrs": cidrs, "guard": {"enabled": is_guarded}, "kernel_rules": rules}
    configs = (
        config(*routes, **usual),
        config(*routes, mode="WARN", protocol=214, **usual),
        config(routes[0], **usual),
        config(*routes, manage_foreign="keep", protocol=215, **{**usual, "kernel_rules": "keep"}),
        config(*routes, protocol=214, **usual),
        config(cidrs[0], mode="WARN", **usual),
        config(**usual),
        HostRoutingConfig(),
    )
    names = PROGRAMS[seed % len(PROGRAMS)], PROGRAMS[seed // 2 % len(PROGRAMS)]
    version = (247, 252, 257, 30 + seed % 8 // 4 * 12)[seed % 4]
    return Life(
        lambda: Node(*configs, kernel=lambda: h200(dual_stack=is_dual)),
        lambda: (
            *(networkd if version > 200 else network_manager)(version),
            *(*FABRIC, *ADMINISTRATOR, *AGENT, *MISHAPS),
            *(act for name in dict.fromkeys(names) for act in on_the_node(name)),
        ),
        seed=seed,
    )


@pytest.mark.parametrize(("seed", "days"), LIVES)
def test_days_of_a_node(seed: int | None, days: int) -> None:
    """No law is broken, and there is something to see; in the long profile, each life is a new one."""
    node = life(time.time_ns() % 1_000_000_000 if seed is None else seed).live(days)
    assert min(node.counts["starts"], node.counts["applies"]) > 1


@pytest.mark.nightly
def test_each_law_applies() -> None:
    """In a hundred short lives, each law is asserted five times: one that never applies would look like one that holds."""
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "hostrouting/testing/node").glob("*.py"))
    counts = sum((life(seed).live(3).counts for seed in range(100)), Counter[str]())
    laws = re.findall(r'require\(\s*"([^"]+)"', source)
    assert len(laws) > 15
    assert {law: counts[law] for law in laws if counts[law] < 5} == {}


@pytest.mark.parametrize("version", [30, 42])
@pytest.mark.parametrize("what", KEPT)
def test_network_manager(what: str, version: int) -> None:
    """What the simulated one does leaves the routes that the real one leaves."""
    node = Node(config())
    for thing in things("\n".join(f"route add {line}" for line in ROUTES.values())):
        node.put("add", thing)
    for act in network_manager(version):
        if act.what == what:
            node.act(act, Random(0))  # noqa: S311  not a secret
    left = [str(route.prefix) for route in node.kernel.snapshot().routes]
    assert {name for name, line in ROUTES.items() if line.split()[0] in left} == KEPT[what][version]


def test_a_seed_is_a_life() -> None:
    """The same seed makes the same life, to the last line."""
    first, second = (life(3).live(2).story for _ in range(2))
    assert [*map(str, first)] == [*map(str, second)]


def broken(pipeline: Any, act: Callable[[Node], object], *, settings: HostRoutingConfig | None = None) -> BrokenLaw:
    """The law that is broken by a node with this pipeline, on which somebody does this."""
    settings = settings or config(*HALVES)

    def do(node: Node, _: Random) -> None:
        act(node)

    made = Life(
        lambda: Node(settings, pipeline=pipeline),
        lambda: (Act("somebody", "does it", do, 12), *(act for act in AGENT if "removes" not in act.what), *networkd()),
        seed=2,
    )
    with pytest.raises(BrokenLaw) as caught:
        made.live(20)
    assert len(caught.value.story) <= 30
    return caught.value


def after(act: Callable[[FakeHost], object]) -> Any:
    """A pipeline that does something on the host after Configure."""

    @phases.task("mistake")
    def mistake(ctx: phases.Context) -> None:  # noqa: ARG001  the runner's
        act(found[0])

    def made(host: FakeHost, settings: HostRoutingConfig) -> Any:
        found[:] = [host]
        return phases.serial(Configure(settings, host=host), mistake)

    found: list[FakeHost] = []
    return made


def open_gate(host: FakeHost) -> None:
    """Remove the gate's drop-in."""
    host.files.remove(LAYOUT.gate_drop_in())
    assert host.manager is not None
    host.manager.reload()


def take_over(host: FakeHost) -> None:
    """Delete a route of another program through the backend of the host."""
    assert host.backend is not None
    with host.backend() as backend:
        backend.change(
            RouteRequest("delete", each) for each in backend.snapshot().routes if str(each.prefix) == "10.0.0.0/24"
        )


def nothing(_: object) -> None:
    """Do nothing."""


def cut(files: FakeFiles, path: str, line: str) -> None:
    """Take a line out of a file."""
    files.write(path, files.texts[path].replace(line, ""))


BREAKS: dict[str, tuple[Any, Callable[[Node], object]]] = {
    "in STRICT, nothing starts while an address escapes": (after(open_gate), lambda node: lose_routes(node.host)),
    "nothing of others changes": (after(take_over), nothing),
    "no file or neighbour of others changes": (
        after(lambda host: host.files.write("/etc/theirs", "ours")),
        lambda node: node.lay("/etc/theirs", "theirs"),
    ),
    "what is installed is what was applied": (
        after(lambda host: cut(host.files, LAYOUT.routes_script_path, "  'route 172.16.0.0/17'\n")),
        nothing,
    ),
    "no run ends with a programming error": (after(lambda _: 1 / 0), nothing),
    "nothing of ours is left over": (
        after(lambda host: host.kernel.ip_route("append", Route.to("10.9.0.0/16", dev="eth0", protocol=213))),
        nothing,
    ),
    "a unit starts if the routing is right": (
        after(lambda host: cut(host.files, LAYOUT.gate_steps_path, "end\n")),
        nothing,
    ),
    "the markers are true": (
        after(lambda host: host.files.write(LAYOUT.gate_steps_path, "end\n")),
        lambda node: node.remove("/run/aks-flex-node"),
    ),
}


@pytest.mark.parametrize("law", some_at_night(BREAKS))
def test_a_law_can_be_broken(law: str) -> None:
    """A pipeline with this mistake is found out, and its story is short."""
    mode = "WARN" if law == "the markers are true" else "STRICT"  # else the gate that is open breaks a law, too
    found = broken(*BREAKS[law], settings=config(*HALVES, mode=mode))
    assert found.law.endswith(f"; {law}")
    assert "shrunk from" in found.law


def delete_route(host: FakeHost) -> None:
    """Delete a route of another program in its table."""
    assert host.backend is not None
    with host.backend() as backend:
        backend.change([RouteRequest("delete", ROUTE)])


def delete_rule(host: FakeHost) -> None:
    """Delete the rule of another program."""
    assert host.backend is not None
    with host.backend() as backend:
        backend.change_rule("delete", RULE)


def delete_neighbour(host: FakeHost) -> None:
    """Delete the entry of the default gateway."""
    assert host.link_layer is not None
    layer = host.link_layer()
    layer.delete_neighbour(layer.look().neighbours[0])


RULE, ROUTE = Rule(family=4, priority=10, table=100, protocol=4), Route.to("10.9.0.0/24", dev="eth0", table=100)


@pytest.mark.parametrize("take", [delete_route, delete_rule, delete_neighbour])
def test_what_others_have(take: Callable[[FakeHost], object]) -> None:
    """A pipeline that changes a rule, a route of another table, or a neighbour of others is found out at once."""
    settings = config(*HALVES)
    node = Node(settings, pipeline=after(take))
    node.kernel.add_rule(RULE)
    node.kernel.ip_route("add", ROUTE)
    with pytest.raises(BrokenLaw, match="of others changes"):
        node.apply(settings)


def test_a_script_that_cannot_be_read() -> None:
    """A script whose settings are not found is not taken for one without settings."""
    settings = config(*HALVES)
    node = Node(settings)
    node.apply(settings)
    node.files.texts[LAYOUT.check_script_path] = "exit 0\n"
    with pytest.raises(BrokenLaw, match="what is installed can be read"):
        node.start()


def test_a_removal_that_systemd_has_no_room_for() -> None:
    """Changes no unit, and finishes what an earlier run began: it deletes the routes whose unit that run has deleted."""
    settings, bare = config(HALVES[0]), config(cidrs=())
    node = Node(settings, bare)
    node.apply(settings)
    node.arm(lambda _: setattr(node.manager, "room", 0), nth=1)
    node.apply(bare)
    units = {path for path in node.files.texts if path.startswith("/etc/systemd")}
    assert [str(route.prefix) for route in ours(node)] == [HALVES[0]]
    node.apply(None)
    assert ours(node) == []
    assert {path for path in node.files.texts if path.startswith("/etc/systemd")} == units


def test_a_script_that_is_not_put_back() -> None:
    """Is not the last good one: a route of others came in the middle of a run, then the disk failed; the next run fails, too."""

    def come(_: object) -> None:
        for address in node.born.addresses:
            node.put("add", address)

    def fail(_: object) -> None:
        raise FileError("cannot write: Input/output error", path="/", errno=errno.EIO)

    former, new = config(*HALVES, mode="WARN"), config("172.16.0.0/16", mode="WARN")
    node = Node(former, new)
    lose_addresses(node)
    node.apply(former)
    node.arm(come, nth=6)
    node.arm(fail, nth=12, kinds=("file",))
    node.apply(new)
    assert str(node.failure).startswith("172.16.0.0/16 cannot be installed")
    assert node.good is None
    node.apply(new)


def test_a_gate_that_is_stopped() -> None:
    """Its script does nothing more: what is removed in the middle of it stays away. Kills: the stop without an effect."""
    routed, bare, nodes = config(*HALVES, cidrs=()), config(), list[Node]()
    for nth in range(1, 5):
        nodes.append(node := Node(routed, bare))
        node.apply(routed)
        lose_routes(node.host)
        node.arm(lambda _: nodes[-1].apply(bare), nth=nth)
        node.start()
        assert [route for route in node.kernel.snapshot().routes if route.protocol == 213] == []


def lose_addresses(node: Node) -> None:
    """Take the addresses of the InfiniBand links away."""
    for address in node.kernel.snapshot().addresses:
        if address.dev.startswith("ib"):
            node.kernel.delete_address(address.dev, address)


@pytest.mark.parametrize(
    ("law", "settings", "act"),
    [
        ("what the guard cannot repair is named", config(*HALVES, cidrs=()), lambda node: lose_routes(node.host)),
        ("the guard's verdict is true", config(mode="WARN"), lose_addresses),
    ],
)
def test_a_guard_that_looks_once(
    law: str, settings: HostRoutingConfig, act: Callable[[Node], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guard that never looks again is found out by what it has not repaired, or by its verdict."""
    waits = iter([0.0])
    monkeypatch.setattr("hostrouting.tasks.guard.pace.Pace.wait", lambda *_: next(waits, 1e9))
    guarded = attrs.evolve(settings, guard=GuardConfig(enabled=True))
    assert broken(lambda host, each: Configure(each, host=host), act, settings=guarded).law.endswith(law)


def test_a_shrunk_life_is_short() -> None:
    """What is not needed to break the law is left out: of 250 steps, one or two are left."""
    found = broken(*BREAKS["no file or neighbour of others changes"])
    assert int(found.law.split(" to ")[1].split(";")[0]) <= 3


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_as_on_linux(name: str) -> None:
    """The fake kernel has the same routes and rules after the lines of a node as Linux, which `ip` gives them to."""
    text = tomllib.loads((ROOT / f"tests/tables/fields/{name}.toml").read_text(encoding="utf-8"))["ip"]
    node, added = Node(config()), things(text)
    with private_namespace() as namespace, closing(NetlinkBackend(netns=namespace.path)) as backend:
        links = ["eth0", *(thing.name for thing in added if isinstance(thing, Link))]
        namespace.batch(
            [
                "link set lo up",
                *(f"link add {link} type veth peer name p{place}" for place, link in enumerate(links)),
                *(f"link set {link} up" for place, each in enumerate(links) for link in (each, f"p{place}")),
                "address add 10.0.0.4/24 dev eth0",
                *(line for line in text.splitlines() if line and not line.startswith("link")),
            ]
        )
        snapshot = backend.snapshot(family=4)
    for thing in added:
        node.put("add", thing)
    assert told(node.kernel.snapshot(family=4)) == told(snapshot)


def told(found: Snapshot) -> set[str]:
    """The rules, and the routes that are neither the kernel's nor of DHCP."""
    return {*map(str, found.rules), *(str(each) for each in found.routes if each.protocol not in {2, 16})}
