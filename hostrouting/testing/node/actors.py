"""The actors of a node's life: who changes the host while hostrouting works on it.

Here: what each does in one step, and what it brings back when all is to be calm. Each names the test that compares
that with the real thing. Not here: when a step is taken (`life`), and what systemd and hostrouting do (`machine`).

For an actor of your own, subclass `Actor`. In `step` it changes `node.kernel`, and returns in a few words what it did;
"" means nothing. All chance comes from `chance`, so that a seed always makes the same life.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import attrs

from hostrouting.errors import BackendError, FileError, ManagerError
from hostrouting.kernel.base import RouteRequest
from hostrouting.model import ARPHRD_INFINIBAND, PROTOCOL_KERNEL, TABLE_MAIN, Address, Link, Prefix, Route, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from hostrouting.kernel.base import Verb
    from hostrouting.testing.node.machine import Kind, Node

__all__ = ["Actor", "Administrator", "Agent", "Fabric", "Mishaps", "Network", "Program"]

_STATIC, _RA, _DHCP = 4, 9, 16
_RULES = {0, 32766, 32767}


class Actor:
    """Somebody who changes the host."""

    name: str
    weight: ClassVar[int] = 4
    """How often it acts, compared with the others."""
    disturbs: ClassVar[bool] = True
    """Whether it changes the host itself, and not only by what it has hostrouting or systemd do."""

    def step(self, node: Node, chance: Random) -> str:
        """Do something; return what, in a few words."""
        raise NotImplementedError

    def boot(self, node: Node) -> None:
        """What it does at each boot."""

    def calm(self, node: Node) -> None:
        """Bring back what the node needs."""


@attrs.define
class Network(Actor):
    """systemd-networkd on the uplink, with DHCP and router advertisements; `version` is that of systemd.

    As the real one in 247, 252 and 257: tests/system/test_networkd_restart.py and test_guard_networkd.py.
    """

    name = "systemd-networkd"
    dev: str = "eth0"
    version: int = 257
    gateways: tuple[str, str] = ("10.0.0.1", "10.0.0.2")
    """Two routers of the uplink's subnet; a renewed lease names one of them."""
    _lease: tuple[Route, ...] = attrs.field(default=(), init=False)
    _keeps: bool = attrs.field(default=False, init=False)

    def boot(self, node: Node) -> None:
        """Take the lease, and the advertised route, of the fresh kernel; read the configuration."""
        self._lease, self._keeps = self._leased(node), self._is_told(node)

    def step(self, node: Node, chance: Random) -> str:
        """Get another gateway, lose the lease or the carrier for a while, start again, or configure the link again."""
        seconds = chance.choice((0.05, 1.0, 40.0))
        what = chance.choice(("renew", "lose", "flap", "restart", "reconfigure", "expire"))
        if what == "renew":
            gateway = chance.choice(self.gateways)
            self._lease = tuple(
                attrs.evolve(route, legs=(attrs.evolve(route.legs[0], gateway=ip_address(gateway)),))
                if route.protocol == _DHCP
                else route
                for route in self._lease
            )
            told = f"renews the lease; the gateway is {gateway}"
        elif what == "lose":
            for route in self._leased(node):
                _delete(node, route)
            told = f"loses the lease for {seconds:g} s"
        elif what == "flap":
            node.kernel.set_down(self.dev)
            told = f"{self.dev} is down for {seconds:g} s"
        elif what == "expire":
            for route in self._leased(node):
                _try(node, "replace", attrs.evolve(route, expires=5))
            told, seconds = "the router falls silent for 60 s", 60.0
        else:
            told = self._restart(node) if what == "restart" else self._reconfigure(node)
        node.after(seconds if what in {"lose", "flap", "expire"} else 0.0, partial(self.calm, node))
        return told

    def _restart(self, node: Node) -> str:
        self._keeps = self._is_told(node)
        if self.version >= 249 and not self._keeps:
            for rule in node.kernel.snapshot().rules:
                if rule.protocol != PROTOCOL_KERNEL or rule.priority not in _RULES:
                    _try_rule(node, "delete", rule)
        if self.version >= 257:
            self._reconfigure(node)
        return "is restarted" + (", and keeps what is foreign" if self._keeps else "")

    def _reconfigure(self, node: Node) -> str:
        for route in () if self._keeps else node.kernel.snapshot(table=TABLE_MAIN).routes:
            if route.protocol not in {PROTOCOL_KERNEL, _DHCP, _RA} and self.dev in route.devs:
                _delete(node, route)
        return f"configures {self.dev} again"

    def _leased(self, node: Node) -> tuple[Route, ...]:
        found = node.kernel.snapshot().routes
        return tuple(route for route in found if route.protocol in {_DHCP, _RA} and route.devs == (self.dev,))

    def _is_told(self, node: Node) -> bool:
        return "ManageForeignRoutes=no" in node.files.texts.get(node.host.layout.networkd_path, "")

    def calm(self, node: Node) -> None:
        """Set the uplink up, and bring the routes back."""
        with suppress(BackendError):
            node.kernel.set_up(self.dev)
        for route in self._lease:
            _try(node, "replace", route)


@attrs.define
class Fabric(Actor):
    """InfiniBand, whose addresses come late: the guest agent of Azure adds them up to a minute after boot.

    What comes and goes with an address: tests/hostrouting/testing/kernel/test_backend_equals_linux.py.
    """

    name = "the fabric"
    weight = 2
    _late: tuple[Address, ...] = attrs.field(default=(), init=False)

    def boot(self, node: Node) -> None:
        """Take the addresses of the fresh kernel away, and add them one by one."""
        snapshot = node.kernel.snapshot()
        links = {link.name for link in snapshot.links if link.type == ARPHRD_INFINIBAND}
        self._late = tuple(address for address in snapshot.addresses if address.dev in links)
        for place, address in enumerate(self._late, 1):
            node.kernel.delete_address(address.dev, address)
            node.after(60.0 * place / len(self._late), partial(self._come, node, address))

    def _come(self, node: Node, address: Address) -> None:
        with suppress(BackendError):
            node.kernel.add_address(address.dev, address)
            node.disturb()

    def step(self, node: Node, chance: Random) -> str:
        """Take an address away, or add it again."""
        if not self._late:
            return ""
        address = chance.choice(self._late)
        if address not in node.kernel.snapshot().addresses:
            self._come(node, address)
            return f"{address.dev} has {address.ip} again"
        node.kernel.delete_address(address.dev, address)
        return f"{address.dev} loses {address.ip}"


Thing: TypeAlias = "Link | Address | Route | Rule"


@attrs.define
class Program(Actor):
    """A CNI, a VPN or another program: it adds links, addresses, routes and rules, and takes them away again.

    What Linux does with them: test_backend_equals_linux.py. What stands on real nodes: tests/tables/fields.
    """

    name: str
    things: Sequence[Thing]
    """What it adds, in this order."""
    _is_up: bool = attrs.field(default=False, init=False)

    def boot(self, _: Node) -> None:
        """It is not up yet."""
        self._is_up = False

    def step(self, node: Node, chance: Random) -> str:
        """Come up, go down, or add or delete a route or a rule, as when a pod comes or goes."""
        some = [thing for thing in self.things if isinstance(thing, Route | Rule)]
        if self._is_up and some and chance.random() < 0.7:
            verb, one = chance.choice(("add", "delete")), chance.choice(some)
            _put(node, verb, one)
            return f"{verb} {one}"
        self._is_up = not self._is_up
        for thing in self.things if self._is_up else self.things[::-1]:
            _put(node, "add" if self._is_up else "delete", thing)
        return "comes up" if self._is_up else "goes down"


@attrs.define
class Administrator(Actor):
    """Somebody with `ip`, who deletes our routes, takes their keys, and adds routes and rules for a while.

    test_backend_equals_linux.py compares each of these with Linux.
    """

    name = "an administrator"

    def step(self, node: Node, chance: Random) -> str:
        """Do one of these."""
        numbers = {config.protocol for config in node.configs}
        cidrs = [cidr for config in node.configs for cidr in config.route_overlap.expected_cidrs]
        ours = [route for route in node.kernel.snapshot().routes if route.protocol in numbers]
        what, seconds = chance.randrange(4), chance.choice((0.3, 30.0, 3000.0))
        if what == 3:
            rules = [rule for rule in node.kernel.snapshot().rules if rule.priority == 0]
            moved = [attrs.evolve(rule, priority=100) for rule in rules]
            for verb, some in (("add", moved), ("delete", rules)):
                for rule in some:
                    _put(node, verb, rule)
            for rule in rules:
                node.after(seconds, partial(_put, node, "add", rule))
            return f"moves the rules for table local, for {seconds:g} s"
        if what == 2 and cidrs:
            cidr, links = Prefix.of(chance.choice(cidrs)), [link.name for link in node.kernel.snapshot().links]
            part = Prefix.around(cidr.family, cidr.first, cidr.length + chance.randint(0, 8))
            theirs = Route.to(part, dev=chance.choice(links), metric=chance.choice((0, 50)), protocol=_STATIC)
        elif ours:
            route = chance.choice(ours)
            theirs = attrs.evolve(route, protocol=_STATIC)
            for other in ours if what == 0 else [route]:
                _delete(node, other)
        else:
            return ""
        if what == 0:
            return "deletes all of our routes"
        _try(node, "add", theirs)
        node.after(seconds, partial(_delete, node, theirs))
        return f"ip route add {theirs}, for {seconds:g} s"


@attrs.define
class Agent(Actor):
    """The node's agent: it applies a configuration, starts the machine, resets the node, and reboots it.

    A repave writes the machine's drop-in and starts it. A reset removes the agent's folder, too, and the bootstrap
    after it applies again. Under a real systemd: tests/system/life_cycle.py.
    """

    name = "the agent"
    weight = 12
    disturbs = False
    wanted: int = 0
    """Which of the node's configurations it applies; a step may choose another one."""

    def step(self, node: Node, chance: Random) -> str:
        """Do one of these; mostly start the machine."""
        what = chance.choices(("start", "apply", "another", "repave", "reset", "reboot"), (10, 4, 3, 2, 1, 1))[0]
        if what == "reboot":
            node.kill(is_reboot=True)
        if what == "another":
            self.wanted = chance.randrange(len(node.configs))
        if what in {"repave", "reset"}:
            node.lay(f"/etc/systemd/system/{node.unit}.d/override.conf", f"# {chance.random()}\n")
        if what == "reset":
            node.remove(node.host.layout.agent_directory)
        if what in {"apply", "another", "reset"}:
            node.apply(node.configs[self.wanted])
        if what in {"start", "repave", "reset"}:
            node.start()
        return f"this was a {what}" if what in {"repave", "reset"} else ""

    def calm(self, node: Node) -> None:
        """Apply again what has not succeeded."""
        if not node.is_applied:
            node.apply(node.configs[self.wanted])


_KERNEL: tuple[Kind, ...] = ("snapshot", "lookup", "change")


@attrs.define
class Mishaps(Actor):
    """Faults: each strikes at one of the next moments at which hostrouting reads or changes something.

    A kill, a kernel that lacks memory or does not answer in time, a disk that fails or is full, a systemd that does not
    answer. Or the next step of the life is taken just then, between two actions of hostrouting.
    """

    name = "a mishap"
    weight = 10
    disturbs = False

    def step(self, node: Node, chance: Random) -> str:
        """Arm one of them."""
        is_done, nth = chance.random() < 0.5, chance.choice((chance.randint(1, 6), chance.randint(1, 60)))
        faults: dict[str, tuple[Callable[[Any], object], tuple[Kind, ...]]] = {
            "the next step": (lambda _: node.next_step(), ()),
            "a kill": (lambda _: node.kill(), ()),
            "ENOBUFS": (lambda kind: node.kernel.faults.fail(kind, errno.ENOBUFS), _KERNEL),
            "a timeout": (lambda kind: node.kernel.faults.hang(kind, done=is_done), _KERNEL),
            "a failing disk": (_raiser(FileError("cannot write: Input/output error", path="/", errno=5)), ("file",)),
            "a silent systemd": (_raiser(ManagerError("systemctl did not answer in time")), ("manager",)),
            "a full disk": (node.fill_disk, ("file",)),
        }
        what = chance.choices(tuple(faults), (3, 1, 1, 1, 1, 1, 1))[0]
        strike, kinds = faults[what]
        node.arm(strike, nth=nth, kinds=kinds)
        return f"{what}, {nth} moments from now"


def _raiser(error: Exception) -> Callable[[Kind], object]:
    def strike(_: Kind) -> None:
        raise error

    return strike


# What an actor wants may be gone, or there, or refused: then nothing happens.


def _try(node: Node, verb: Verb, route: Route) -> None:
    with suppress(BackendError):
        node.kernel.ip_route(verb, route)


def _try_rule(node: Node, verb: str, rule: Rule) -> None:
    with suppress(BackendError):
        (node.kernel.add_rule if verb == "add" else node.kernel.delete_rule)(rule)


def _delete(node: Node, route: Route) -> None:
    node.kernel.reopen().change([RouteRequest("delete", route)])


def _put(node: Node, verb: str, thing: Thing) -> None:
    kernel, is_new = node.kernel, verb == "add"
    with suppress(BackendError):
        match thing:
            case Route():
                _try(node, "add", thing) if is_new else _delete(node, thing)
            case Rule():
                _try_rule(node, verb, thing)
            case Address():
                (kernel.add_address if is_new else kernel.delete_address)(thing.dev, thing)
            case Link():
                kernel.add_link(thing) if is_new else kernel.delete_link(thing.name)
