"""What the guard need not look at, on Linux: random changes, of which those that its watch leaves out change no answer."""

import os
import random
import time
from collections.abc import Iterator
from functools import partial

import attrs
import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.kernel.base import RouteRequest, Verb
from hostrouting.kernel.concern import Concern
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.route import Route, RouteType
from hostrouting.model.snapshot import Snapshot
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.results import Look, Repair
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeHost
from tests.support.namespace import Namespace, private_namespace, run_program
from tests.support.tasks import config

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

EVENTS = 100
SEED = 20 if os.environ.get("CI") else random.randrange(1 << 30)  # noqa: S311  no secret
NODE = """\
link set lo up
link add eth0 type veth peer name wire0
link add ib0 type veth peer name wire1
link add cni0 type bridge
link set wire0 up
link set wire1 up
link set eth0 up
link set ib0 up
link set cni0 up
address add 10.0.0.4/24 dev eth0
address add 172.16.5.4/16 dev ib0
address add 10.244.1.1/24 dev cni0
address add fd00:1::4/64 dev eth0 nodad
route add default via 10.0.0.1 dev eth0 proto dhcp metric 100
route add default via fd00:1::1 dev eth0 metric 1024
rule add pref 100 from 10.9.0.0/24 lookup 100
rule add pref 101 from 10.9.1.0/24 lookup 1000
"""
NETWORKS = """\
0.0.0.0/0 128.0.0.0/1 172.16.0.0/16 172.16.0.0/17 172.16.128.0/17 172.16.5.0/24 172.16.5.7/32 172.0.0.0/8 10.0.0.0/8
10.0.0.0/24 10.0.0.1/32 10.0.0.9/32 10.244.1.0/24 10.244.1.7/32 10.244.2.0/24 20.1.0.0/16 20.1.2.0/24 20.1.2.3/32
192.0.2.0/24 10.77.0.0/16
::/0 fd00:9::/32 fd00:9:1::/48 fd00:1::/64 fd00:1::1/128 fd00:77::/32 2001:db8::/32 2001:db8:1::/48
"""
ADDRESSES = """\
10.0.0.5/24 172.16.5.5/16 10.244.1.9/24 198.51.100.4/24 192.0.2.4/24 fd00:9::4/64 2001:db8:5::4/64
"""
DEVICES = ("eth0", "ib0", "cni0", "pod0", "pod1")


def settings(*, is_routed: bool) -> HostRoutingConfig:
    """A check of both families, perhaps with routes that repair it."""
    routes = ("172.16.0.0/17", "172.16.128.0/17", "fd00:9::/32") if is_routed else ()
    return config(*routes, cidrs=("172.16.0.0/16", "fd00:9::/32", "10.77.0.0/16"))


MORE = """\
nexthop add id 7 via 10.0.0.1 dev eth0
nexthop replace id 7 via 10.0.0.9 dev eth0
nexthop del id 7
route add 20.7.0.0/16 nhid 7
route add 20.8.0.0/16 dev ib0 src 10.0.0.5 table 100
-6 route add 2001:db8:8::/48 dev ib0 src fd00:1::4 table 100
route add 20.9.0.0/16 nexthop dev ib0 nexthop via 10.0.0.9 dev eth0
-6 route add 2001:db8:9::/48 dev eth0 expires 300
link add pod0 type veth peer name pod1
link set pod1 netns {pid}
link set ib0 group 5
link set wire1 down
link set wire1 up
link set pod0 down name pod2
link set pod2 name pod0
link del pod2
link add red type vrf table 77
link set pod1 master red
link del red
rule del pref 1000
-6 rule del pref 1000
"""
SETTINGS = """\
ipv4/conf/all/forwarding ipv4/conf/ib0/rp_filter ipv4/conf/all/ignore_routes_with_linkdown
ipv4/conf/ib0/ignore_routes_with_linkdown ipv6/conf/all/forwarding ipv6/conf/eth0/forwarding
"""


class Player:
    """Makes random changes of a host."""

    def __init__(self, node: Namespace, backend: NetlinkBackend, seed: int, *, away: int | None = None) -> None:
        """The same seed makes the same changes; `away` is the process in whose namespace devices may go."""
        self.node, self.backend, self.random = node, backend, random.Random(seed)  # noqa: S311  no secret
        self._away = away

    def change(self) -> str:
        """Make one change, and return it as text; it may be refused."""
        if self._away is not None and self.random.random() < 0.3:
            return self._more(self._away)
        return self._route() if self.random.random() < 0.8 else self._other()

    def _more(self, away: int) -> str:
        """What only a snapshot tells apart."""
        if self.random.random() < 0.1:
            path, value = self.random.choice(SETTINGS.split()), self.random.choice("01")
            words = (*self.node.enter, "sh", "-c", f"echo {value} > /proc/sys/net/{path}")
            return f"{path}={value}: {run_program(words).stderr or 'done'}"
        line = self.random.choice(MORE.splitlines()).format(pid=away)
        return f"{line}: {self.node.ip(*line.split()).stderr or 'done'}"

    def _route(self) -> str:
        draw = self.random
        prefix = draw.choice(NETWORKS.split())
        is_ipv4 = ":" not in prefix
        route = Route.to(prefix, protocol=draw.choice([4, 4, 9, 99, 213]), dev=draw.choice(DEVICES))
        kind = draw.random()
        if kind < 0.2:
            refusing: RouteType = draw.choice(["blackhole", "unreachable"])
            route = attrs.evolve(route, type=refusing, legs=())
        elif kind < 0.5:
            gateway = draw.choice(["10.0.0.1", "10.0.0.9"] if is_ipv4 else ["fd00:1::1"])
            route = Route.to(prefix, protocol=route.protocol, dev="eth0", gateway=gateway)
        table, metric = (
            draw.choice([254, 254, 254, 100, 1000, 77]),
            draw.choice([0, 0, 50, 200]) or (0 if is_ipv4 else 1024),
        )
        route = attrs.evolve(route, table=table, metric=metric)
        verb: Verb = draw.choice(["add", "append", "replace"])
        if draw.random() < 0.5:
            here = [one for one in self.backend.snapshot().routes if one.table != 255 and one.protocol != 2]
            verb, route = ("delete", draw.choice(here)) if here else (verb, route)
        [outcome] = self.backend.change([RouteRequest(verb, route)])
        return f"{outcome.change}: {outcome.error or 'done'}"

    def _other(self) -> str:
        draw = self.random
        device, verb = draw.choice(DEVICES), draw.choice(["add", "del"])
        table, block = draw.choice(["100", "77", "254"]), draw.choice(["10.9.0.0/24", "172.16.5.0/24", "20.1.0.0/16"])
        line = draw.choice(
            [
                f"link set {device} {draw.choice(['up', 'down'])}",
                f"address {verb} {draw.choice(ADDRESSES.split())} dev {device}",
                f"address {verb} {draw.choice(ADDRESSES.split())} dev {device}",
                f"link add {draw.choice(['pod0', 'pod1'])} type bridge",
                f"link del {draw.choice(['pod0', 'pod1'])}",
                f"rule {verb} pref {draw.choice([90, 110])} {draw.choice(['from', 'to'])} {block} lookup {table}",
                f"link set {device} {draw.choice(['master cni0', 'nomaster'])}",
                "route add default via 10.0.0.1 dev eth0 proto dhcp metric 100",
                "link set eth0 up",
                "address add 10.0.0.4/24 dev eth0",
            ]
        )
        return f"{line}: {self.node.ip(*line.split()).stderr or 'done'}"


@pytest.fixture
def node() -> Iterator[Namespace]:
    """A host with a fabric, a bridge of pods and a table of its own."""
    with private_namespace() as made:
        made.batch(NODE.splitlines())
        yield made


def every(found: Snapshot) -> tuple[object, ...]:
    """All that a snapshot has; what Linux lists by device, in the order of their names.

    Linux reports the group of a device that is down only when it is up.
    """
    links = (link if link.up else attrs.evolve(link, group=0) for link in found.links)
    addresses = sorted(found.addresses, key=lambda address: (address.ip.version, address.dev))
    return (sorted(map(str, links)), addresses, found.rules, found.routes, found.ipv6_forwarding)


def test_what_is_kept_is_what_is_there(node: Namespace) -> None:
    """After each change, a snapshot with the parts that are kept is equal to one of everything.

    Kills: each line that drops or changes a part.
    """
    about = partial(Concern.of, networks=(), protocols=())
    with (
        NetlinkBackend(netns=node.path) as backend,
        NetlinkBackend(netns=node.path) as other,
        private_namespace() as elsewhere,
    ):
        player = Player(node, other, SEED, away=elsewhere.pid)
        for number in range(EVENTS):
            told = player.change()
            kept, there = backend.snapshot(reached=True, about=about), other.snapshot(reached=True)
            for _ in range(3):  # an address becomes valid, or a carrier is reported, between the two
                if every(kept) != every(there):
                    time.sleep(1.5)
                    kept, there = backend.snapshot(reached=True, about=about), other.snapshot(reached=True)
            for one, the_other in zip(every(kept), every(there), strict=True):
                assert one == the_other, f"seed {SEED}, change {number}: {told}"


@pytest.mark.parametrize("is_routed", [True, False], ids=["routes", "check"])
def test_what_is_left_out_changes_no_answer(node: Namespace, *, is_routed: bool) -> None:
    """After each change that the watch does not report, a full look finds what was known before.

    What the answer depends on is not computed again until a change is reported.
    """
    needed: list[str] = []

    def note(repair: Repair) -> bool:
        needed.append(str(repair))
        return False

    with NetlinkBackend(netns=node.path) as backend, backend.watch() as watch:
        host = attrs.evolve(FakeHost(), backend=lambda: NetlinkBackend(netns=node.path))
        tasks = [
            kind(settings(is_routed=is_routed), host=host, wait=0)
            for kind in (ConfigureStaticRoutes, CheckRouteOverlap)
        ]
        ctx, player, quiet = phases.Context(observers=[]), Player(node, backend, SEED), 0

        def look() -> tuple[Look, object]:
            needed.clear()
            found = sum((task.keep(ctx, note) for task in tasks if task.is_wanted), Look())
            same = attrs.evolve(found, concerns=(), seconds=0.0, repair_seconds=0.0)
            return found, (same, sorted(needed))

        watch.wait(0)
        found, known = look()
        watch.heed(found.concerns)
        for number in range(EVENTS):
            told = player.change()
            heard = watch.wait(0)
            found, now = look()
            if not heard and now != known:
                heard = watch.wait(3.0)  # the kernel reports a carrier a little later
                assert heard, f"seed {SEED}, change {number}: {told}\n{known}\n{now}"
                found, now = look()
            if heard:
                known = now
                watch.heed(found.concerns)
            quiet += not heard
    assert quiet  # a watch that reports everything would prove nothing
