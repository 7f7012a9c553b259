"""The actors in a node's life, as tables: what each does in one step, and how often.

Here: what others do to the host while hostrouting works on it. Not here: when a step is taken (`life`), and what
systemd and hostrouting do (`machine`).

An actor is a tuple of acts. An act returns what it adds and deletes, or changes the node itself and returns None. All
chance comes from `chance`, so that a seed always makes the same life. What Linux does with routes, rules and addresses
that come and go: tests/hostrouting/testing/kernel/test_backend_equals_linux.py.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from hostrouting.errors import FileError, ManagerError
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import PROTOCOL_KERNEL, TABLE_MAIN, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Address, Link
from hostrouting.testing.node.laws import ours

if TYPE_CHECKING:
    from random import Random

    from hostrouting.testing.node.machine import Kind, Node

_STATIC, _RA, _DHCP = 4, 9, 16
_MAIN = 32766
_RULES = {0, _MAIN, 32767}
_GATEWAYS = ("10.0.0.1", "10.0.0.2")

Thing: TypeAlias = "Link | Address | Route | Rule"
Verb: TypeAlias = Literal["add", "delete", "up", "down"]
Change: TypeAlias = "tuple[Verb, Thing]"
Changes: TypeAlias = "list[Change]"
Does: TypeAlias = "Callable[[Node, Random], Iterable[Change] | None]"


@attrs.frozen
class Act:
    """What an actor does in a step, at each boot, or before each rest to bring back what the node needs."""

    who: str
    what: str
    do: Does
    weight: int = 3
    """How often a step is this one, compared with the others."""
    passes: bool = False
    """Whether it is undone after a while."""
    at: Literal["step", "boot", "rest"] = "step"
    then: str = ""
    """The act that follows at once: how "who what" begins, such as "the agent applies"; or "rest"."""
    disturbs: bool = True
    """Whether it changes the host itself, and not only by what it has hostrouting or systemd do.

    An actor that does is absent from some lives.
    """


def _all(verb: Verb, things: Iterable[Thing]) -> Changes:
    return [(verb, thing) for thing in things]


def _delete(find: Callable[[Node], Iterable[Thing]]) -> Does:
    """Delete what is found."""
    return lambda node, _: _all("delete", find(node))


# The uplink: a lease and an advertised route, and what network managers do to the routes of others.


def _foreign(node: Node, dev: str, table: int | None = TABLE_MAIN) -> list[Route]:
    known, routes = {PROTOCOL_KERNEL, _DHCP, _RA}, node.kernel.snapshot(table=table).routes
    return [route for route in routes if route.protocol not in known and dev in route.devs]


def _uplink(who: str, dev: str, gateways: Sequence[str]) -> tuple[Act, ...]:
    link = Link(name=dev, index=0)

    def leased(node: Node, *, born: bool = False) -> list[Route]:
        routes = (node.born if born else node.kernel.snapshot()).routes
        return [route for route in routes if route.protocol in {_DHCP, _RA} and route.devs == (dev,)]

    def renew(node: Node, chance: Random) -> Iterable[Change]:
        gateway = ip_address(chance.choice(gateways))
        for route in leased(node):
            if route.protocol == _DHCP:
                yield "delete", route
                yield "add", attrs.evolve(route, legs=(attrs.evolve(route.legs[0], gateway=gateway),))

    def expire(node: Node, _: Random) -> Changes:
        return _all("delete", leased(node)) + _all("add", [attrs.evolve(route, expires=5) for route in leased(node)])

    def rest(node: Node, _: Random) -> Changes:
        born = leased(node, born=True)
        wrong = [route for route in leased(node) if route not in born]
        return [*_all("delete", wrong), ("up", link), *_all("add", born)]

    return (
        Act(who, "renews the lease", renew, 2),
        Act(who, "loses the lease", _delete(leased), 2, passes=True),
        Act(who, "hears nothing of the router", expire, 2, passes=True),
        Act(who, "has no carrier", lambda node, _: [*_all("delete", leased(node)), ("down", link)], 2, passes=True),
        Act(who, "brings the uplink back", rest, at="rest"),
    )


def networkd(version: int = 257, *, dev: str = "eth0", gateways: Sequence[str] = _GATEWAYS) -> tuple[Act, ...]:
    """systemd-networkd of this version, on the uplink. A renewed lease names one of the gateways.

    As the real one in 247, 252 and 257: tests/system/test_networkd_restart.py and test_guard_networkd.py.
    """
    who = "systemd-networkd"
    keeps = False

    def begin(node: Node, _: Random) -> None:
        nonlocal keeps
        keeps = "ManageForeignRoutes=no" in node.files.texts.get(node.host.layout.networkd_path, "")

    def reconfigure(node: Node, _: Random) -> Changes:
        return [] if keeps else _all("delete", _foreign(node, dev))

    def restart(node: Node, chance: Random) -> Changes:
        begin(node, chance)
        rules = () if keeps or version < 249 else node.kernel.snapshot().rules
        foreign = [rule for rule in rules if rule.protocol != PROTOCOL_KERNEL or rule.priority not in _RULES]
        return _all("delete", foreign) + (reconfigure(node, chance) if version >= 257 else [])

    return (
        *_uplink(who, dev, gateways),
        Act(who, "begins", begin, at="boot"),
        Act(who, "is restarted", restart, 2),
        Act(who, f"configures {dev} again", reconfigure, 2),
    )


def network_manager(version: int = 42, *, dev: str = "eth0", gateways: Sequence[str] = _GATEWAYS) -> tuple[Act, ...]:
    """NetworkManager 1.`version` on the uplink, which takes foreign routes away when it configures the uplink again.

    A restart changes nothing, and foreign rules stay. As the real one in 1.30, 1.42 and 1.52:
    tests/system/test_network_manager.py.
    """
    who, uplink = "NetworkManager", _uplink("NetworkManager", dev, gateways)

    def again(node: Node) -> list[Route]:
        return [route for route in _foreign(node, dev) if version < 42 or route.protocol <= _STATIC]

    def activate(node: Node, chance: Random) -> Iterable[Change] | None:
        for route in _foreign(node, dev, table=None):
            node.put("delete", route)
        return uplink[1].do(node, chance)

    return (
        *uplink,
        Act(who, f"applies {dev} again", _delete(again), 2),
        Act(who, f"activates {dev}", activate, 2, passes=True),
    )


# InfiniBand. The guest agent of Azure adds its addresses up to a minute after boot.


def _of_the_fabric(node: Node) -> list[Address]:
    links = {link.name for link in node.born.links if link.type == ARPHRD_INFINIBAND}
    return [address for address in node.born.addresses if address.dev in links]


def _come_late(node: Node, _: Random) -> Changes:
    addresses = _of_the_fabric(node)
    for place, address in enumerate(addresses, 1):
        node.after(60.0 * place / len(addresses), partial(node.put, "add", address))
    return _all("delete", addresses)


def _change_address(node: Node, chance: Random) -> Changes:
    some, there = _of_the_fabric(node), node.kernel.snapshot().addresses
    return [("delete" if address in there else "add", address) for address in chance.sample(some, min(1, len(some)))]


FABRIC = (
    Act("the fabric", "has no addresses yet", _come_late, at="boot"),
    Act("the fabric", "changes an address", _change_address, 6),
)
"""InfiniBand, whose addresses come late, and go and come again."""


def program(name: str, things: Sequence[Thing]) -> tuple[Act, ...]:
    """A CNI, a VPN or another program that adds and deletes these links, addresses, routes and rules.

    What stands on real nodes: tests/tables/fields.
    """
    some = [thing for thing in things if isinstance(thing, Route | Rule)]
    verbs: tuple[Verb, Verb] = ("add", "delete")
    return (
        Act(name, "comes up", lambda _, __: _all("add", things)),
        Act(name, "goes down", lambda _, __: _all("delete", things[::-1])),
        Act(name, "", lambda _, chance: [(chance.choice(verbs), chance.choice(some))] if some else [], 6),
    )


# An administrator with `ip`.


def _take_key(node: Node, chance: Random) -> Changes:
    if not (routes := ours(node)):
        return []
    node.put("delete", route := chance.choice(routes))
    links = [leg.dev for leg in route.legs] + [link.name for link in node.kernel.snapshot().links]
    other = Route.to(route.prefix, dev=chance.choice(links), metric=route.metric)
    return [("add", attrs.evolve(chance.choice((route, other, other)), protocol=_STATIC))]


def _add_route(node: Node, chance: Random) -> Changes:
    if not (cidrs := [cidr for config in node.configs for cidr in config.route_overlap.expected_cidrs]):
        return []
    cidr, link = Prefix.of(chance.choice(cidrs)), chance.choice(node.kernel.snapshot().links)
    part = Prefix.around(cidr.family, cidr.first, cidr.length + chance.randint(0, 8))
    return [("add", Route.to(part, dev=link.name, metric=chance.choice((0, 50)), protocol=_STATIC))]


def _rules(node: Node, priority: int) -> list[Rule]:
    return [rule for rule in node.kernel.snapshot().rules if rule.priority == priority]


def _move_local(node: Node, _: Random) -> Changes:
    moved = [attrs.evolve(rule, priority=100) for rule in _rules(node, 0)]
    return _all("add", moved) + _all("delete", _rules(node, 0))


_ADMIN = "an administrator"

ADMINISTRATOR = (
    Act(_ADMIN, "deletes our routes", _delete(ours), then="the agent"),
    Act(_ADMIN, "takes a route of ours", _take_key, 6, passes=True, then="the agent applies"),
    Act(_ADMIN, "takes a route of ours, and waits", _take_key, 6, passes=True, then="rest"),
    Act(_ADMIN, "adds a route", _add_route, passes=True),
    Act(
        _ADMIN,
        "deletes the rules for table main",
        _delete(lambda node: _rules(node, _MAIN)),
        6,
        passes=True,
        then="the agent applies another",
    ),
    Act(_ADMIN, "moves the rules for table local, as Cilium does", _move_local, passes=True),
)
"""Somebody with `ip`."""


# The node's agent. Under a real systemd: tests/system/life_cycle.py.


def _start(node: Node, _: Random) -> None:
    node.start()


def _repave(node: Node, chance: Random) -> None:
    node.lay(f"/etc/systemd/system/{node.unit}.d/override.conf", f"# {chance.random()}\n")
    node.start()


def _reset(node: Node, chance: Random) -> None:
    node.remove(node.host.layout.agent_directory)
    node.apply(node.wanted)
    _repave(node, chance)


def _another(node: Node, chance: Random) -> None:
    """After a run that has failed, mostly what asks for less: an unfinished change then has to be taken back."""
    empty = min(node.configs, key=lambda config: len(repr(config)))
    less = [] if node.is_applied else [empty, empty, None, node.wanted]
    node.apply(chance.choice(less if less and chance.random() < 0.7 else node.favourites))


def _again(node: Node, _: Random) -> None:
    if node.failure or not node.is_applied:
        node.apply(node.wanted)


def _come_up(node: Node, chance: Random) -> None:
    """The unit is enabled, so it starts at boot, and the agent applies what may be new meanwhile."""
    node.after(0.0, node.start)
    node.after(0.0, lambda: node.apply(chance.choice((node.wanted, *node.favourites))))
    node.arm(lambda _: node.next_step(), nth=chance.randint(1, 20))


_agent = partial(Act, "the agent", disturbs=False)

AGENT = (
    _agent("starts", _start, 10),
    _agent("applies", lambda node, _: node.apply(node.wanted), 5),
    _agent("applies another", _another, 15),
    _agent("removes hostrouting", lambda node, _: node.apply(None), 2),
    _agent("repaves: writes the machine's drop-in and starts it", _repave, 3),
    _agent("resets: removes its folder, applies and repaves", _reset, 2),
    _agent("reboots", lambda node, _: node.kill(is_reboot=True), 2),
    _agent("starts the unit, and applies meanwhile", _come_up, at="boot"),
    _agent("applies what has failed", _again, at="rest"),
)
"""The node's agent."""


# Faults: each strikes at one of the next moments at which hostrouting reads or changes something.


def _mishap(what: str, weight: int, strike: Callable[[Node, Any], object], *kinds: Kind) -> Act:
    def do(node: Node, chance: Random) -> None:
        nth = chance.choice((chance.randint(1, 6), chance.randint(1, 25), chance.randint(1, 80)))
        node.arm(partial(strike, node), nth=nth, kinds=(chance.choice(kinds),) if kinds else ())

    return Act("a mishap", f"soon: {what}", do, weight, disturbs=False, then="the agent")


def _fill(node: Node, _: object, *, disk: bool = False) -> None:
    """Until the next rest; the disk for an hour at most."""
    node.full_until, node.manager.room = (node.now + 3600.0, node.manager.room) if disk else (node.full_until, 0)


def _raise(error: Exception) -> Callable[[Node, Kind], object]:
    def strike(_: Node, __: Kind) -> None:
        raise error

    return strike


_KERNEL: tuple[Kind, ...] = ("snapshot", "lookup", "change", "change")

MISHAPS = (
    _mishap("the next step comes in between", 9, lambda node, _: node.next_step()),
    _mishap("a slow answer", 4, lambda node, _: node.pass_time(20.0)),
    _mishap("a kill", 6, lambda node, _: node.kill()),
    _mishap("a kill while systemd takes long", 3, lambda node, _: node.kill(), "manager"),
    _mishap("ENOBUFS", 3, lambda node, kind: node.kernel.faults.fail(kind, errno.ENOBUFS), *_KERNEL),
    _mishap("a timeout", 2, lambda node, kind: node.kernel.faults.hang(kind), *_KERNEL),
    _mishap("done, but a timeout", 2, lambda node, kind: node.kernel.faults.hang(kind, done=True), *_KERNEL),
    _mishap("a disk error", 3, _raise(FileError("cannot write: Input/output error", path="/", errno=5)), "file"),
    _mishap("a silent systemd", 3, _raise(ManagerError("systemctl did not answer in time")), "manager"),
    _mishap("a full disk", 3, partial(_fill, disk=True), "file"),
    Act("a mishap", "no room for systemd", _fill, 5, disturbs=False, then="the agent"),
)
"""Faults, and steps of others in the middle of what hostrouting does."""
