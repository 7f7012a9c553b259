"""FakeKernel is equal to Linux within what its docstring says: the same events on both, by pyroute2
on Linux.
"""

import errno
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import pyroute2
import pytest
from hypothesis import HealthCheck, assume, note, settings, stateful, strategies as st
from pyroute2.netlink.exceptions import NetlinkError

from hostrouting.errors import BackendError
from hostrouting.kernel.base import Answer, RouteRequest, Verb
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix, as_ip, width_of
from hostrouting.model.route import (
    PATHLESS,
    PROTOCOL_KERNEL,
    SCOPE_HOST,
    SCOPE_LINK,
    TABLE_MAIN,
    NextHop,
    Route,
    RouteType,
)
from hostrouting.model.rule import Rule, RuleAction
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.testing import vpn_node
from hostrouting.testing.kernel import FakeKernel
from tests.support.commands import rule_command
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

DEVICES = ("eth0", "eth1", "ib0")
FAR = "far-"  # the name of the other end of each veth pair
AF = {4: 2, 6: 10}
NODAD = 2
ALIKE = {errno.ENOENT: errno.ESRCH, errno.EHOSTUNREACH: errno.ENETUNREACH}
"""Errors of Linux for which the fake kernel has another one of the same kind."""
INTERFACES = (
    *(
        "10.0.0.4/24",
        "10.0.1.4/24",
        "10.0.0.4/32",
        "172.16.0.1/28",
        "172.16.0.17/30",
        "172.16.0.3/31",
    ),
    *("fd00::4/64", "fd00:16::1/124", "fd00:16::1/128", "fd00:16::4/126"),
)
GATEWAYS = {
    4: ("10.0.0.1", "10.0.1.1", "172.16.0.2", "172.16.0.4", "10.0.0.4", "10.0.0.255", "9.9.9.9"),
    6: ("fd00::1", "fe80::1", "fd00:16::2", "fd00:16::5", "fd00::4", "2001:db8::9"),
}
BASE = {4: as_ip("172.16.0.0"), 6: as_ip("fd00:16::")}
ASIDE = {4: Prefix.parse("198.51.100.0/24"), 6: Prefix.parse("2001:db8:a::/48")}


def destinations(family: int) -> list[IP]:
    """The addresses that both are asked about."""
    in_the_block = [BASE[family] + number for number in range(19)]
    return [*in_the_block, *map(as_ip, GATEWAYS[family]), ASIDE[family].ip]


DESTINATIONS = {4: destinations(4), 6: destinations(6)}


class Linux:
    """Linux in the network namespace of this thread, with the verbs of the fake kernel."""

    def __init__(self, namespace: Namespace) -> None:
        """Open sockets in the namespace."""
        self.namespace, self.ip, self.backend = namespace, pyroute2.IPRoute(), NetlinkBackend()

    def close(self) -> None:
        """Close them."""
        self.ip.close()
        self.backend.close()

    def index(self, name: str) -> int:
        """The number of a device; ENODEV if it does not exist."""
        for index in self.ip.link_lookup(ifname=name):
            return int(index)
        raise NetlinkError(errno.ENODEV)

    def add_link(self, name: str) -> None:
        """Add one end of a veth pair, whose other end is up."""
        self.ip.link("add", ifname=name, kind="veth", peer={"ifname": FAR + name})
        self.ip.link("set", index=self.index(FAR + name), state="up")

    def delete_link(self, name: str) -> None:
        """Delete both ends."""
        self.ip.link("del", index=self.index(name))

    def set_up(self, name: str) -> None:
        """Set this end up."""
        self.ip.link("set", index=self.index(name), state="up")

    def lose_carrier(self, name: str) -> None:
        """Set the other end down."""
        self.index(name)
        self.ip.link("set", index=self.index(FAR + name), state="down")

    def add_address(self, dev: str, interface: str) -> None:
        """Add an address that is usable at once; without a broadcast address, which pyroute2 would
        add.
        """
        ip, _, length = interface.partition("/")
        family = AF[as_ip(ip).version]
        words = {
            "index": self.index(dev),
            "address": ip,
            "prefixlen": int(length),
            "family": family,
        }
        flags = NODAD if family == AF[6] else 0
        self.ip.addr("add", flags=flags, **words)

    def add_rule(self, added: Rule) -> None:
        """Add a rule; no request here can be refused, unless the rule exists."""
        if self.namespace.ip(f"-{added.family}", *rule_command(added).split()).returncode:
            raise NetlinkError(errno.EEXIST)

    def ip_route(self, verb: Verb, route: Route) -> None:
        """Add, append or delete a route by netlink, which is held against `ip` by a test of its
        own.
        """
        [outcome] = self.backend.change([RouteRequest(verb, route)])
        if outcome.error is not None:
            raise outcome.error


@contextmanager
def linux() -> Iterator[Linux]:
    """Linux in a new namespace, in which this thread stays until the end of the block."""
    with private_namespace() as namespace:
        namespace.sysctl("ipv6/conf/default/addr_gen_mode", 1)  # no link-local addresses
        namespace.sysctl("ipv6/conf/default/accept_dad", 0)
        with namespace.inside():
            kernel = Linux(namespace)
            try:
                yield kernel
            finally:
                kernel.close()


def prefixes(family: int) -> st.SearchStrategy[Prefix]:
    """Prefixes that often nest, also in the networks of addresses."""
    return st.builds(
        lambda number, bits: Prefix.around(
            family, int(BASE[family]) + number, width_of(family) - bits
        ),
        st.integers(0, 19),
        st.sampled_from([0, 0, 1, 2, 3, 4, 4, 8, width_of(family)]),
    )


@st.composite
def routes(draw: st.DrawFn, family: int, own: list[IP]) -> Route:
    """Routes that Linux accepts or refuses, half of them with a preferred source; `own` are the
    host's addresses.
    """
    usual: list[RouteType] = ["unicast"] * 12
    kind = draw(st.sampled_from([*usual, *PATHLESS]))
    gateway = draw(st.sampled_from([None, None, None, *map(as_ip, GATEWAYS[family])]))
    hops = draw(next_hops(family, gateway))
    fixed = [as_ip("10.0.1.4" if family == IPV4 else "fd00:16::4")]
    sources = fixed + 2 * [ip for ip in own if ip.version == family]
    route = Route(
        draw(prefixes(family)),
        table=draw(st.sampled_from([254, 254, 254, 100])),
        metric=draw(st.sampled_from([0, 100, 256])),
        type=kind,
        protocol=draw(st.sampled_from([213, 213, 4])),
    )
    if kind != "unicast":
        return route
    if family == IPV4 and gateway is None:
        route = route._replace(scope=SCOPE_LINK)
    return route._replace(next_hops=hops, prefsrc=draw(st.none() | st.sampled_from(sources)))


@st.composite
def next_hops(draw: st.DrawFn, family: int, gateway: IP | None) -> tuple[NextHop, ...]:
    """One next hop or two by this gateway; none if it would have neither a gateway nor a device."""
    devices: list[str | None] = [*DEVICES, *DEVICES]
    if family == IPV4 or gateway is None:  # else the fake kernel does not choose as Linux does
        devices.append(None)
    hop = NextHop(draw(st.sampled_from(devices)), gateway=gateway)
    second = hop
    if family == IPV4:
        others = [NextHop(dev, gateway=gateway) for dev in DEVICES]
        second = draw(st.sampled_from([*[hop] * 4, *others]))
    if hop == NextHop():
        return ()
    return tuple(dict.fromkeys((hop, second)))


@st.composite
def rules(draw: st.DrawFn, family: int) -> Rule:
    """Rules of every action, of which those that refuse select destinations of their own."""
    actions: list[RuleAction] = [
        "to_table",
        "to_table",
        "to_table",
        "blackhole",
        "prohibit",
        "unreachable",
    ]
    action = draw(st.sampled_from(actions))
    is_lookup = action == "to_table"
    return Rule(
        family=family,
        priority=draw(st.sampled_from([5, 100, 40000])),
        action=action,
        table=draw(st.sampled_from([254, 100])) if is_lookup else 0,
        dst=draw(prefixes(family).filter(lambda block: block.length) | st.none())
        if is_lookup
        else ASIDE[family],
        src=draw(st.sampled_from([None, None, ASIDE[family]])),
        suppress_prefixlength=draw(st.sampled_from([None, None, 0])) if is_lookup else None,
    )


FAMILIES = st.sampled_from([4, 6])
NAMES = st.sampled_from(DEVICES)


class TwoKernels(stateful.RuleBasedStateMachine):
    """The same events on Linux and on the fake kernel."""

    def __init__(self) -> None:
        """Begin with a new namespace, three devices that are up, and lo."""
        super().__init__()
        self.stack = ExitStack()
        self.linux, self.fake = self.stack.enter_context(linux()), FakeKernel()
        for name in DEVICES:
            self.linux.add_link(name)
            self.fake.add_link(name, up=False)
        for name in ("lo", *DEVICES):
            self.both("set_up", name)

    def teardown(self) -> None:
        """Leave the namespace."""
        self.stack.close()

    def both(self, verb: str, *arguments: Any, **options: Any) -> int | None:
        """Do the same on both: the same refusal, or none."""
        note(f"{verb} {' '.join(map(str, arguments))} {options or ''}")
        errors: list[int | None] = []
        for kernel in (self.linux, self.fake):
            errors.append(None)
            try:
                getattr(kernel, verb)(*arguments, **options)
            except (NetlinkError, BackendError) as error:
                number = int((error.code if isinstance(error, NetlinkError) else error.errno) or 0)
                errors[-1] = ALIKE.get(number, number)
        assert errors[0] == errors[1], errors
        return errors[0]

    @stateful.initialize(twin=st.tuples(NAMES, st.sampled_from(INTERFACES)))
    def furnish(self, twin: tuple[str, str]) -> None:
        """Most hosts have some addresses, of which two devices may have the same, and routes from
        them by another one.
        """
        for dev, interface in (
            ("eth0", "10.0.0.4/24"),
            ("eth1", "10.0.1.4/24"),
            ("eth0", "fd00::4/64"),
            twin,
        ):
            self.both("add_address", dev, interface)
        for prefix, source, table in (
            ("9.0.0.0/8", "10.0.0.4", 254),
            ("9.0.0.0/8", "10.0.0.4", 100),
            ("9::/16", "fd00::4", 254),
        ):
            route = Route.to(prefix, dev="eth1", table=table, metric=7, protocol=4)
            self.both("ip_route", "add", route._replace(prefsrc=as_ip(source)))

    @stateful.rule(name=NAMES)
    def add_or_delete_link(self, name: str) -> None:
        """Delete the device, or add it again."""
        if name not in {link.name for link in self.fake.snapshot().links}:
            self.linux.add_link(name)
            self.fake.add_link(name, up=False)
        else:
            self.both("delete_link", name)

    @stateful.rule(name=NAMES)
    def set_up(self, name: str) -> None:
        """Set a device up, which may have come again, or have gone."""
        self.both("set_up", name)

    @stateful.rule(name=NAMES)
    def lose_carrier(self, name: str) -> None:
        """Take the carrier from a device that is up."""
        assume(any(link.name == name and link.up for link in self.fake.snapshot().links))
        self.both("lose_carrier", name)

    @stateful.rule(name=NAMES, interface=st.sampled_from(INTERFACES))
    def add_address(self, name: str, interface: str) -> None:
        """Add an address, perhaps one that is there."""
        self.both("add_address", name, interface)

    @stateful.rule(data=st.data(), family=FAMILIES)
    def add_rule(self, data: st.DataObject, family: int) -> None:
        """Add a rule, perhaps one that is there; Linux also refuses some that differ in little from
        one that is there.
        """
        added, there = data.draw(rules(family)), self.fake.snapshot().rules
        assume(
            added in there
            or (family, added.priority) not in [(other.family, other.priority) for other in there]
        )
        self.both("add_rule", added)

    @stateful.rule(
        data=st.data(),
        family=FAMILIES,
        verb=st.sampled_from(["add", "add", "append", "append", "delete"]),
    )
    def change_route(self, data: st.DataObject, family: int, verb: Verb) -> None:
        """Add or append a route, or ask for a deletion that may meet none."""
        there = self.fake.snapshot()
        route = data.draw(
            routes(family, [address.ip for address in there.addresses if address.dev != "lo"])
        )
        # The fake kernel looks up a gateway whatever the rules say.
        assume(
            not any(hop.gateway for hop in route.next_hops)
            or not any(rule.table == 100 for rule in there.rules)
        )
        self.both("ip_route", verb, route)

    @stateful.precondition(lambda self: self.fake.snapshot().routes)
    @stateful.rule(
        data=st.data(),
        open_fields=st.sets(st.sampled_from(["metric", "protocol", "next_hops", "prefsrc"])),
    )
    def delete_route(self, data: st.DataObject, open_fields: set[str]) -> None:
        """Delete a route that is there, by a request that may leave some fields open."""
        there = [route for route in self.fake.snapshot().routes if route.table != 255]
        assume(there)
        left_open: dict[str, Any] = {
            name: {"next_hops": (), "prefsrc": None}.get(name, 0) for name in open_fields
        }
        self.both("ip_route", "delete", data.draw(st.sampled_from(there))._replace(**left_open))

    @stateful.invariant()
    def kernels_are_equal(self) -> None:
        """Devices, addresses, rules, routes and lookups are the same; Linux completes some changes
        a little later.
        """
        wanted = _comparable(self.fake.snapshot())
        state = _comparable(self.linux.backend.snapshot())
        end = time.monotonic() + 5
        while state != wanted and time.monotonic() < end:
            time.sleep(0.002)
            state = _comparable(self.linux.backend.snapshot())
        for part, of_linux in state.items():
            assert of_linux == wanted[part], part

        # Each destination gets the same answer, whichever of the tables local and main it comes
        # from.
        for destinations in DESTINATIONS.values():
            answers = [kernel.lookup(destinations) for kernel in (self.linux.backend, self.fake)]
            for destination, *pair in zip(destinations, *answers, strict=True):
                assert _seen(pair[0]) == _seen(pair[1]), (destination, pair)


def _seen(answer: Answer) -> Answer:
    route = answer.route
    if route is not None and route.prefix.family == IPV6 and len(route.next_hops) > 1:
        # Linux answers with the next hop that it has chosen as the first, and with what that has.
        route = Route(route.prefix, tuple(sorted(route.next_hops, key=str)), metric=route.metric)
    return answer._replace(route=None if route is None else route._replace(table=0))


def _comparable(snapshot: Snapshot) -> dict[str, Any]:
    links = [link for link in snapshot.links if not link.name.startswith(FAR)]
    places: dict[str, list[Route]] = {}
    for route in snapshot.routes:
        if route.type != "multicast" and not any(dev.startswith(FAR) for dev in route.devs):
            places.setdefault(f"{route.table} {route.prefix}", []).append(route)
    return {
        "links": {link.name: link.up for link in links},
        "addresses": {
            (str(address.ip), address.length, address.dev) for address in snapshot.addresses
        },
        "rules": list(snapshot.rules),
        "routes": places,
    }


def test_every_event_has_the_same_effect() -> None:
    """After each event, the refusal, the whole state and the lookups of the fake kernel are
    Linux's.
    """
    stateful.run_state_machine_as_test(
        TwoKernels,
        settings=settings(
            max_examples=scaled(40),
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[
                HealthCheck.too_slow,
                HealthCheck.filter_too_much,
                HealthCheck.data_too_large,
            ],
        ),
    )


LINK_LOCAL = Route.to("fd00:16:9::/64", gateway="fe80::1")
RULE = Rule(family=4, priority=100, table=100)
REFUSED: dict[str, list[tuple[str, tuple[Any, ...]]]] = {
    "a device that is there": [("add_link", (DEVICES[0],))],
    "lo goes": [("delete_link", ("lo",))],
    "a carrier of a device that is down": [("lose_carrier", ("lo",))],
    "a route without a device": [("ip_route", ("add", Route(Prefix.parse("10.9.0.0/16"))))],
    "a rule that is there": [("add_rule", (RULE,)), ("add_rule", (RULE,))],
    "a link-local gateway without a device": [("ip_route", ("add", LINK_LOCAL))],
}


@pytest.mark.parametrize("events", REFUSED.values(), ids=REFUSED)
def test_both_refuse(events: list[tuple[str, tuple[Any, ...]]]) -> None:
    """What random events rarely do."""
    with linux() as real:
        for kernel in (real, FakeKernel()):
            kernel.add_link(DEVICES[0])
            *before, (verb, arguments) = events
            for earlier, given in before:
                getattr(kernel, earlier)(*given)
            with pytest.raises((NetlinkError, BackendError)):
                getattr(kernel, verb)(*arguments)


ASIDE_4 = Route.to("10.9.0.0/16", dev="eth0", gateway="10.0.0.255", table=100)
ASIDE_6 = Route.to("fd09::/64", dev="eth0", gateway="fd00::1", table=100)


@pytest.mark.parametrize(
    ("before", "route", "is_accepted"),
    [
        ([], ASIDE_4._replace(table=TABLE_MAIN), False),
        ([Route.to("10.0.0.255/32", dev="eth0", table=100)], ASIDE_4, True),
        ([], ASIDE_6, True),
        ([Route.to("fd00::1/128", dev="eth0", gateway="fd00::2", table=100)], ASIDE_6, True),
        ([Route.to("fd00::1/128", type="unreachable", table=100)], ASIDE_6, True),
    ],
    ids=["local with main", "its own table", "main", "by another gateway", "refused"],
)
def test_where_a_gateway_is_looked_up(
    before: list[Route], route: Route, *, is_accepted: bool
) -> None:
    """In the route's own table first; IPv4 looks up local and main together."""
    with linux() as real:
        for kernel in (real, FakeKernel()):
            kernel.add_link("eth0")
            kernel.set_up("eth0")
            kernel.add_address("eth0", "10.0.0.4/24")
            kernel.add_address("eth0", "fd00::4/64")
            for earlier in before:
                kernel.ip_route("add", earlier)
            with nullcontext() if is_accepted else pytest.raises(BackendError):
                kernel.ip_route("add", route)


def test_a_route_of_the_host_by_a_device_that_is_down() -> None:
    """As with `ip route add local`: the device need not be up."""
    route = Route(Prefix.parse("10.9.0.0/16"), (NextHop("lo"),), type="local", scope=SCOPE_HOST)
    with linux() as real:
        for kernel in (real, FakeKernel()):
            kernel.ip_route("add", route)


CONNECTED = Route(
    Prefix.parse("10.0.0.0/24"),
    (NextHop("eth0"),),
    scope=SCOPE_LINK,
    protocol=PROTOCOL_KERNEL,
    prefsrc=as_ip("10.0.0.4"),
)
HISTORIES: dict[str, list[tuple[str, tuple[Any, ...]]]] = {
    "a device that comes again has a carrier": [
        ("lose_carrier", ("eth0",)),
        ("delete_link", ("eth0",)),
        ("add_link", ("eth0",)),
        ("set_up", ("eth0",)),
        ("ip_route", ("add", Route.to("10.9.0.0/16", dev="eth0"))),
    ],
    "a gateway of the other family": [
        ("ip_route", ("add", Route.to("10.9.0.0/16", dev="eth0", gateway="fe80::1"))),
    ],
    "two addresses in one network": [
        ("add_address", ("eth0", "fd00::4/64")),
        ("add_address", ("eth0", "fd00::5/64")),
    ],
    "an address of lo before it is up": [
        ("add_address", ("lo", "10.1.0.1/32")),
        ("set_up", ("lo",)),
    ],
    "the addresses of lo before it is up": [
        ("add_address", ("lo", "127.0.0.1/8")),
        ("set_up", ("lo",)),
    ],
    "a device that is up is not set up again": [
        ("add_address", ("eth0", "10.0.0.4/24")),
        ("ip_route", ("delete", CONNECTED)),
        ("set_up", ("eth0",)),
    ],
}


@pytest.mark.parametrize("events", HISTORIES.values(), ids=HISTORIES)
def test_what_random_events_rarely_show(events: list[tuple[str, tuple[Any, ...]]]) -> None:
    """After these events, the state is the same."""
    fake = FakeKernel()
    with linux() as real:
        for kernel in (real, fake):
            kernel.add_link("eth0")
            kernel.set_up("eth0")
            for verb, arguments in events:
                getattr(kernel, verb)(*arguments)
        wanted = _comparable(fake.snapshot())
        wait_for("the same state", lambda: _comparable(real.backend.snapshot()) == wanted)


def test_the_port_of_a_bridge_that_is_deleted() -> None:
    """It stays, and is no port any more."""
    fake = FakeKernel()
    fake.add_link(Link(name="br0", index=0, kind="bridge"))
    fake.add_link(Link(name="eth0", index=0, master="br0"))
    fake.delete_link("br0")
    with linux() as real:
        real.ip.link("add", ifname="br0", kind="bridge")
        real.add_link("eth0")
        real.ip.link("set", index=real.index("eth0"), master=real.index("br0"))
        real.delete_link("br0")
        for kernel in (real.backend, fake):
            [port] = [link for link in kernel.snapshot().links if link.name == "eth0"]
            assert port.master is None


def test_a_number_that_another_device_has() -> None:
    """The device is refused, with the same errno."""
    with pytest.raises(BackendError) as refused:
        FakeKernel().add_link(Link(name="br0", index=1))
    with linux() as real, pytest.raises(NetlinkError) as refused_by_linux:
        real.ip.link("add", ifname="br0", kind="bridge", index=1)
    assert refused.value.errno == refused_by_linux.value.code


def test_a_vpn_node_is_as_wg_quick_configures_it() -> None:
    """The commands of wg-quick give the same rules, and the same route in its table."""
    commands = [
        "address add 10.8.0.2/32 dev eth0",
        "route add 0.0.0.0/0 dev eth0 table 51820",
        "rule add not fwmark 51820 table 51820",
        "rule add table main suppress_prefixlength 0",
    ]
    fake = vpn_node().snapshot(family=4)
    with linux() as real:
        real.add_link("eth0")
        real.set_up("eth0")
        real.namespace.batch(commands, family=4)
        snapshot = real.backend.snapshot(family=4)
    assert fake.rules == snapshot.rules
    [route] = [route for route in fake.routes if route.table == 51820]
    assert [route._replace(next_hops=(NextHop("eth0"),))] == [
        route for route in snapshot.routes if route.table == 51820
    ]
