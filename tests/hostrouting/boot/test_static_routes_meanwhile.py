"""static-routes.sh while something is missing, fails or changes: all routes or none, and no other
program's route.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hostrouting.boot.scripts import render_static_routes_script
from hostrouting.config.settings import ProbeRewriteConfig, StaticRoute
from hostrouting.model.prefix import IPV4, IPV6, Prefix
from hostrouting.model.route import Route, deletion_command
from hostrouting.routes.plan import Step, plan_static_routes
from tests.support.awks import AWKS
from tests.support.commands import fabric_host, lose_carriers
from tests.support.examples import scaled
from tests.support.namespace import Namespace
from tests.support.own_routes import configured
from tests.support.routes_script import HALVES, Ran, ours, words
from tests.support.sections import static
from tests.support.waiting import await_file, leaving_word, wait_for

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

PAIR = [HALVES[0], static("fd00:16::/64")]
ETH0 = "via 10.0.0.1 dev eth0"
ROUTER = "route add ::/0 via fe80::1 dev eth0 proto ra expires 600 hoplimit 64"
REFUSED = static(
    "10.1.0.0/16", "10.0.0.77", "eth0"
)  # Linux accepts no broadcast address as a gateway
REPLY = ProbeRewriteConfig(enabled=True, interfaces=("eth1",))
THEN = "then: systemctl restart kubelet.service"
NOTHING_DONE = "no route was set or deleted, because all are set or none"
IS_WRITING = '[[ "$*" == *-batch* && "$*" != *" -o "* ]]'  # whether `ip` is called to change routes


def listed(namespace: Namespace) -> list[str]:
    """The routes of table main, of both families, sorted: the order among IPv6 next hops means
    nothing.
    """
    both = [namespace.ip(f"-{family}", "-N", "-o", "route").stdout for family in (IPV4, IPV6)]
    lines = re.sub(r" expires \w+", "", "".join(both)).splitlines()
    return sorted(" ".join(sorted(line.split())) for line in lines)


@contextmanager
def events(namespace: Namespace, path: Path) -> Iterator[list[str]]:
    """The events of routes during the block; the list is filled at its end."""
    lines: list[str] = []

    def is_seen(address: str) -> bool:
        namespace.batch([f"route {verb} {address} dev eth0" for verb in ("add", "del")])
        return address in path.read_text()

    with (
        path.open("w") as out,
        subprocess.Popen([*namespace.enter, "ip", "-N", "monitor", "route"], stdout=out) as watch,
    ):
        wait_for("the watcher to listen", lambda: is_seen("9.9.9.9"))
        yield lines
        wait_for("the watcher to see all", lambda: is_seen("8.8.8.8"))
        watch.kill()
    lines += [
        line
        for line in path.read_text().splitlines()
        if "9.9.9.9" not in line and "8.8.8.8" not in line
    ]


class TestWaiting:
    """What may still come is awaited, and named."""

    def test_once_for_all(self, namespace: Namespace, tmp_path: Path) -> None:
        """One line every 10 s says what is missing and what was seen; the default route is found
        when it comes.

        No lock is held meanwhile.
        """
        namespace.batch(
            ["route del default", "route add default via 10.0.0.9 dev eth0 table 100 proto 77"]
        )
        many = [static(f"10.{number}.0.0/16") for number in range(1, 50)]
        come = f"flock -n {tmp_path}/run/hostrouting/routes ip route add default via 10.0.0.1; exec sleep 0.1"
        ran = Ran(namespace, many, tmp_path, wait=60, tools={"sleep": come})
        assert (ran.status, len(ours(namespace))) == (0, 49)
        (line,) = ran.lines
        assert line == (
            "<6>static-routes: waiting (N of 60 s): ROUTE-WAITS: 10.1.0.0/16 needs an IPv4 default route; "
            "last seen: [default via 10.0.0.9 dev eth0 table 100 proto 77]"
        )

    def test_given_up(self, namespace: Namespace, tmp_path: Path) -> None:
        """Each route says what it waited for; nothing of the other family or of another device is
        changed either.
        """
        namespace.batch([ROUTER, "route del default", "link set wg0 down"])
        wanted = [*PAIR, static("10.1.0.0/16", dev="wg0"), static("10.2.0.0/16", dev="ib0")]
        ran = Ran(
            namespace,
            wanted,
            tmp_path,
            wait=2,
            tools={"sleep": leaving_word(tmp_path / "naps", "sleep")},
        )
        waits = [
            "172.16.0.0/17 needs an IPv4 default route; last seen: none",
            "10.1.0.0/16 dev wg0 needs the device wg0 to be up",
            "10.2.0.0/16 dev ib0 needs an IPv4 default route on ib0; last seen: none",
        ]
        assert ran.lines[1:] == [
            f"<3>static-routes: ROUTE-WAITS: {wait}; gave up after N s" for wait in waits
        ]
        assert (ran.status, ours(namespace), ours(namespace, IPV6)) == (1, [], [])
        assert len((tmp_path / "naps").read_text()) in {
            1,
            2,
        }  # the wait is in seconds, not in looks

    def test_told_to_stop(self, namespace: Namespace, tmp_path: Path) -> None:
        """A run that is stopped says what it waited for, and ends at once."""
        namespace.batch(["route del default"])
        naps = tmp_path / "naps"
        command = words(HALVES[:1], tmp_path, wait=60, tools={"sleep": leaving_word(naps, "sleep")})
        run = subprocess.Popen([*namespace.enter, *command], stderr=subprocess.PIPE, text=True)
        await_file(naps)
        os.killpg(run.pid, signal.SIGTERM)
        said = run.communicate(timeout=60)[1].splitlines()
        assert run.returncode == 128 + signal.SIGTERM
        assert re.fullmatch(
            "<3>static-routes: ROUTE-WAITS: 172.16.0.0/17 needs an IPv4 default route; "
            "last seen: none; told to stop after [0-9]+ s",
            said[-1],
        )

    def test_more_than_nine(self, namespace: Namespace, tmp_path: Path) -> None:
        """The log has the first ones, and how many there are."""
        namespace.batch(["route del default"])
        many = [static(f"10.{number}.0.0/16") for number in range(1, 13)]
        *first, last = Ran(namespace, many, tmp_path).lines
        assert len(first) == 9
        assert last == "<3>static-routes: and 3 more"


class TestWhichDefaultRoute:
    """Gateway and device are those of the default route of table main, in the order of Linux."""

    @pytest.mark.parametrize(
        "alias",
        ["uplink/infiniband link/infiniband", "x\nprotocol 4", "x\nroute 10.9.0.0/16 metric 0"],
    )
    def test_an_alias(self, namespace: Namespace, tmp_path: Path, alias: str) -> None:
        """It is any text: only the link's own type counts, and no line is a setting, so other
        programs' routes stay.
        """
        namespace.batch(["route add 10.8.0.0/16 via 10.0.0.1 dev eth0 proto 4"])
        namespace.ip("link", "set", "eth0", "alias", alias)
        before = {route.prefix for route in namespace.routes(4)}
        ran = Ran(namespace, HALVES, tmp_path)
        assert (ran.status, ran.lines, len(ours(namespace))) == (0, [], 2)
        assert {route.prefix for route in namespace.routes(4) if route.protocol != 213} == before

    @pytest.mark.parametrize(
        "alias",
        [
            "errors",
            "Dump was interrupted and may be inconsistent.",
            "errors\nDump was interrupted and may be inconsistent.",
        ],
    )
    def test_an_alias_like_the_end_of_a_list(
        self, namespace: Namespace, tmp_path: Path, alias: str
    ) -> None:
        """The devices that are listed after one with such an alias are read, and the list counts
        as whole.
        """
        namespace.ip("link", "set", "lo", "alias", f"x\n{alias}")
        ran = Ran(namespace, HALVES, tmp_path)
        assert (ran.status, ran.lines, len(ours(namespace))) == (0, [], 2)

    def test_infiniband(self, namespace: Namespace, tmp_path: Path) -> None:
        """It is known by the type of the device, however that is listed, and has to be named; so
        are dead ends.
        """
        namespace.batch(["route del default"])
        namespace.batch(
            [
                "route add default via 10.0.0.1 dev eth0 metric 100",
                "route add default dev ib0 metric 9",
            ]
        )
        types = [rf"s,(: ib0[@:].* link/)\[1\],\1{word}," for word in ("[32]", "infiniband")]
        kinds = [rf"s,(: ib0[@:].*\\ +)veth,\1{kind}," for kind in ("dummy", "ifb", "vrf")]
        for edit in (*types, *kinds):
            tools = {
                "ip": f"""[[ " $* " == *" -o "* ]] || exec ip "$@"; ip "$@" | sed -E '{edit}'"""
            }
            assert Ran(namespace, [HALVES[0]], tmp_path, tools=tools).status == 0
            [route] = namespace.ip("route", "show", "172.16.0.0/17").stdout.splitlines()
            assert route.startswith("172.16.0.0/17 via 10.0.0.1 dev eth0 ")
            namespace.batch(["route del 172.16.0.0/17"])

    @pytest.mark.parametrize(
        ("routes", "wish", "by"),
        [
            (
                [f"default {ETH0}", "default dev wg0 table 100", "rule add pref 50 lookup 100"],
                HALVES[0],
                ETH0,
            ),
            (["default dev wg0 table 51820"], static("172.16.0.0/17", dev="wg0"), "dev wg0"),
            ([f"default {ETH0}", "default dev wg0 tos 4"], HALVES[0], ETH0),
            (["unreachable default", f"default {ETH0} metric 9"], HALVES[0], ETH0),
            (
                ["10.9.0.0/24 dev wg0"],
                static("172.16.0.0/17", "10.9.0.1", "wg0"),
                "via 10.9.0.1 dev wg0",
            ),
            (["default dev ib0 metric 9", f"default {ETH0} metric 9"], HALVES[0], ETH0),
            ([f"default nexthop {ETH0} nexthop dev ib0"], HALVES[0], ETH0),
            (
                ["default nhid 10"],
                HALVES[0],
                f"nexthop {ETH0} weight 4 nexthop via 10.0.0.2 dev eth0 weight 7",
            ),
            (
                [f"default nexthop {ETH0} onlink nexthop {ETH0} onlink"],
                static("172.16.0.0/17", "10.0.0.1"),
                f"{ETH0} onlink",
            ),
            (
                ["10.1.0.0/24 dev eth1", f"default nexthop {ETH0} nexthop via 10.1.0.1 dev eth1"],
                static("172.16.0.0/17", "10.1.0.7"),
                "via 10.1.0.7 dev eth1",
            ),
        ],
    )
    def test_which_default_route(
        self, namespace: Namespace, tmp_path: Path, routes: list[str], wish: StaticRoute, by: str
    ) -> None:
        """Not one of another table, for some packets, or whose device has no carrier; with all or
        some of its next hops.
        """
        objects = [
            "nexthop add id 5 via 10.0.0.1 dev eth0",
            "nexthop add id 6 via 10.0.0.2 dev eth0",
        ]
        namespace.batch(["route del default", *objects, "nexthop add id 10 group 5,4/6,7"])
        namespace.batch(
            [route if route.startswith("rule ") else f"route append {route}" for route in routes]
        )
        lose_carriers(namespace, ["ib0"])
        assert Ran(namespace, [wish], tmp_path).lines == []
        (line,) = (
            namespace.ip("-N", "-o", "route", "show", "proto", "213")
            .stdout.replace("\\", "")
            .splitlines()
        )
        assert (
            " ".join(line.split()).removeprefix("172.16.0.0/17 ").removesuffix("scope 253").strip()
            == by
        )
        plan = plan_static_routes(configured(wish), namespace.snapshot())
        assert [step.action for step in plan.steps] == ["keep"], "Python has the same way"

    def test_which_in_ipv6(self, namespace: Namespace, tmp_path: Path) -> None:
        """Not one that has expired; of two with the same metric, the one that its router prefers."""
        expired, other = "via fe80::9 dev eth1 metric 5 expires 0", "via fe80::8 dev eth1 metric 7"
        low, high = "dev wg0 metric 7 pref low", "dev eth0 metric 7 pref high"
        namespace.batch(f"route append ::/0 {way}" for way in (expired, low, other, high))
        for way in (high, other):
            assert Ran(namespace, PAIR[1:], tmp_path).lines == []
            shown = namespace.ip("-6", "route", "show", "fd00:16::/64").stdout
            assert shown.startswith(f"fd00:16::/64 {way.partition(' metric')[0]} ")
            namespace.batch([f"route del ::/0 {way}"])

    def test_other_names_of_a_device(self, namespace: Namespace, tmp_path: Path) -> None:
        """A device that has more names, even words of `ip` itself, is known by its own only."""
        for name in ("group", "UP", "inet", "altname"):
            assert (
                namespace.ip("link", "property", "add", "dev", "eth0", "altname", name).returncode
                == 0
            )
        ran = Ran(namespace, [HALVES[0], static("10.2.0.0/16", dev="inet")], tmp_path)
        assert [line.split(";")[0] for line in ran.lines] == [
            "<3>static-routes: ROUTE-WAITS: 10.2.0.0/16 dev inet needs the device inet, which this host does not have (an altname does not count)"
        ]
        assert Ran(namespace, HALVES, tmp_path).status == 0


VPN = ["tuntap add dev tun0 mode tun", "address add 10.8.0.2/24 dev tun0", "link set tun0 up"]
OF_VPN = "route add default via 10.8.0.1 dev tun0"
GONE: dict[str, list[str]] = {
    "a router says good-bye": ["route del default"],
    "a VPN hides the default route": [
        "route del default",
        f"route add default {ETH0} metric 100",
        OF_VPN,
    ],
    "a VPN deletes the default route": ["route del default", OF_VPN],
    "another DHCP client has an equal one": ["route append default via 10.1.0.1 dev eth1 onlink"],
    "another DHCP client has the first one": [
        "route del default",
        "route add default via 10.1.0.1 dev eth1 onlink",
        f"route append default {ETH0}",
    ],
}


class TestWhenTheDefaultRouteGoes:
    """While the default route is missing or in doubt, our routes stay, and are right."""

    @pytest.mark.needs("/dev/net/tun")
    @pytest.mark.parametrize("named", [None, "eth0"])
    @pytest.mark.parametrize("gone", GONE.values(), ids=GONE)
    def test_our_routes_stay(
        self, namespace: Namespace, tmp_path: Path, gone: list[str], named: str | None
    ) -> None:
        """They keep their device and gateway, at once; what is not wanted any more goes; then all
        is as it was. Both say what the routes would wait for after a reboot.
        """
        wanted = [static(str(half.destination), dev=named) for half in HALVES]
        namespace.batch([*VPN, "route add 10.3.0.0/16 via 10.0.0.1 proto 213"])
        assert Ran(namespace, [*wanted, static("10.3.0.0/16")], tmp_path).status == 0
        before = namespace.ip("route", "show", "root", "172.16.0.0/16", "proto", "213").stdout
        namespace.batch(gone)
        plan = plan_static_routes(configured(*wanted), namespace.snapshot())
        has_default = "route del default" not in gone or any(ETH0 in change for change in gone)
        assert len(plan.warnings) == (named is None or not has_default)
        assert [(step.action, step.route.way) for step in plan.steps] == [("keep", ETH0)] * 2 + [
            ("delete", ETH0)
        ]
        for changes in ([1], []):
            ran = Ran(namespace, wanted, tmp_path, wait=60)
            assert (ran.status, ran.lines, ran.changes) == (0, [], changes)
            said = [re.sub(" linkdown| proto boot", "", line) for line in ran.stays]
            planned = [re.sub(" proto boot", "", str(finding)) for finding in plan.warnings]
            assert said == planned
        namespace.batch(["link del tun0"])
        assert (
            namespace.ip("route", "show", "root", "172.16.0.0/16", "proto", "213").stdout == before
        )

    @pytest.mark.needs("/dev/net/tun")
    def test_what_is_not_there_waits(self, namespace: Namespace, tmp_path: Path) -> None:
        """It follows no VPN, and the line says what can be named; with its name, each device is
        taken.
        """
        namespace.batch([*VPN, "route del default", f"route add default {ETH0} metric 100", OF_VPN])
        for wish in (HALVES[0], static("172.16.0.0/17", "10.0.0.1")):
            line = Ran(namespace, [wish], tmp_path).said.strip().replace(" linkdown]", "]")
            plan = plan_static_routes(configured(wish), namespace.snapshot())
            (finding,) = plan.findings()
            reason = "[default via 10.8.0.1 dev tun0 proto boot] leads through a tunnel"
            assert line.endswith(
                f'needs a dev in the configuration: {reason}; write "dev": "tun0" or "eth0" into '
                "the configured route, or name one device in routeOverlap.expectedDevs"
            )
            assert finding.sentence.endswith(f"needs a dev in the configuration: {reason}")
            assert str(finding.remedy) == (
                'write "dev": "tun0" or "eth0" into the configured route, or name one device in '
                "routeOverlap.expectedDevs"
            )
        for dev, way in (("eth0", ETH0), ("tun0", "via 10.8.0.1 dev tun0")):
            assert Ran(namespace, [static("172.16.0.0/17", dev=dev)], tmp_path).lines == []
            [route] = [route for route in namespace.routes(IPV4) if route.protocol == 213]
            assert route.way.replace(" linkdown", "") == way

    def test_one_expected_device_settles_it(self, namespace: Namespace, tmp_path: Path) -> None:
        """Of two equal default routes, that of the device is used, also after a reboot."""
        namespace.batch(
            [
                "route del default",
                "route add default via 10.1.0.1 dev eth1 onlink",
                f"route append default {ETH0}",
            ]
        )
        assert Ran(namespace, HALVES, tmp_path).status == 1
        assert Ran(namespace, HALVES, tmp_path, expected=["eth0", "eth1"]).status == 1
        for expected in (["eth0"], ["eth1"]):
            assert Ran(namespace, HALVES, tmp_path, expected=expected).lines == []
            devs = {route.devs for route in namespace.routes(IPV4) if route.protocol == 213}
            assert devs == {tuple(expected)}
        namespace.batch(["route del default dev eth0"])
        assert Ran(namespace, HALVES, tmp_path, expected=["eth0"]).lines == []

    @pytest.mark.needs("/dev/net/tun")
    @pytest.mark.parametrize("default", [OF_VPN, "route add default via 10.1.0.1 dev eth1 onlink"])
    def test_what_was_moved_into_a_tunnel(
        self, namespace: Namespace, tmp_path: Path, default: str
    ) -> None:
        """It is not right without a dev, whatever moved it there; with the name of the tunnel, it
        is.
        """
        moved = "route add 172.16.0.0/17 via 10.8.0.1 dev tun0 proto 213"
        namespace.batch([*VPN, "route del default", default, moved])
        if default == OF_VPN:
            line = Ran(namespace, HALVES[:1], tmp_path).said
            plan = plan_static_routes(configured(HALVES[0]), namespace.snapshot())
            assert (len(plan.waiting), plan.steps) == (1, ())
            assert line.startswith("<3>static-routes: ROUTE-WAITS: 172.16.0.0/17 needs ")
            assert "tun0" in line
            assert ours(namespace) == ["172.16.0.0/17"], "it waits as it is"
        else:
            namespace.batch(["route del default"])
            assert Ran(namespace, HALVES[:1], tmp_path).status == 1
            namespace.batch([default])
            assert Ran(namespace, HALVES[:1], tmp_path).lines == []
            [route] = [route for route in namespace.routes(IPV4) if route.protocol == 213]
            assert route.devs == ("eth1",)
        named = static("172.16.0.0/17", dev="tun0", gateway="10.8.0.1")
        namespace.batch(["route flush proto 213", moved])
        assert Ran(namespace, [named], tmp_path).changes == []

    @pytest.mark.needs("/dev/net/tun")
    @pytest.mark.parametrize(
        ("port", "is_in_doubt"), [("vxlan id 5 dstport 4789", True), ("veth", False)]
    )
    def test_a_tap_beside_a_bridge(
        self, namespace: Namespace, tmp_path: Path, port: str, *, is_in_doubt: bool
    ) -> None:
        """A tap with the only default route may be the way out, unless a bridge with a card has an
        address.
        """
        devices = ("eth0", "eth1", "ib0", "wg0")
        namespace.batch(
            [
                *(f"address flush dev {dev}" for dev in devices),
                "tuntap add dev tap0 mode tap",
                "address add 10.8.0.2/24 dev tap0",
                "link set tap0 up",
                "link add br0 type bridge",
                f"link add port0 type {port}",
                "link set port0 master br0",
                "address add 10.7.0.2/24 dev br0",
                "link set br0 up",
                "route add default via 10.8.0.1 dev tap0",
            ]
        )
        plan = plan_static_routes(configured(HALVES[0]), namespace.snapshot())
        assert bool(plan.waiting) is is_in_doubt
        assert Ran(namespace, [HALVES[0]], tmp_path).status == is_in_doubt

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            (["address add 10.9.0.4/24 dev eth0"], ""),
            (
                ["address add 10.9.0.4/24 dev eth0", "address del 10.0.0.4/24 dev eth0"],
                "an IPv4 default route; last seen: none",
            ),
            (["address add 10.0.0.1/32 dev eth1"], "an IPv4 default route; last seen: none"),
        ],
        ids=["reached", "not reached", "own"],
    )
    @pytest.mark.parametrize("gateway", [None, "10.0.0.1"])
    def test_gateway_that_is_gone(
        self,
        namespace: Namespace,
        tmp_path: Path,
        changes: list[str],
        reason: str,
        gateway: str | None,
    ) -> None:
        """A route of ours is right only while its gateway is a neighbour, and not this host."""
        wish = static("172.16.0.0/17", gateway)
        assert Ran(namespace, [wish], tmp_path).status == 0
        namespace.batch([*changes, "route del default"])
        assert ours(namespace) == ["172.16.0.0/17"], "Linux keeps the route"
        ran = Ran(namespace, [wish], tmp_path)
        said = f"<3>static-routes: ROUTE-WAITS: {wish} needs {reason}"
        assert ran.lines == ([said] if reason else [])
        plan = plan_static_routes(configured(wish), namespace.snapshot())
        assert bool(plan.waiting) is bool(reason)

    def test_a_gateway_that_another_table_takes_in(
        self, namespace: Namespace, tmp_path: Path
    ) -> None:
        """A route of the type local in another table, as of a proxy, makes no address of this host."""
        namespace.batch(
            [
                "rule add fwmark 0x1 lookup 100",
                "route add local 10.0.0.1/32 dev lo table 100",
            ]
        )
        plan = plan_static_routes(configured(HALVES[0]), namespace.snapshot())
        assert [step.action for step in plan.steps] == ["add"]
        assert Ran(namespace, [HALVES[0]], tmp_path).changes == [1]

    def test_a_first_next_hop_without_a_gateway(self, namespace: Namespace, tmp_path: Path) -> None:
        """The scope is link only if no next hop has a gateway: else Linux refuses the route."""
        default = "nexthop dev eth1 nexthop via 10.0.0.1 dev eth0"
        namespace.batch([f"route replace default {default}"])
        assert Ran(namespace, HALVES[:1], tmp_path).changes == [1]
        plan = plan_static_routes(configured(HALVES[0]), namespace.snapshot())
        assert [step.action for step in plan.steps] == ["keep"]

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            (
                ["address add 10.9.0.4/24 dev eth0", "address del 10.0.0.4/24 dev eth0"],
                "an address or route on eth0 that reaches the gateway 10.0.0.1 directly",
            ),
            (
                [
                    "address add 10.9.0.4/24 dev eth0",
                    "address del 10.0.0.4/24 dev eth0",
                    "route add 10.0.0.1 dev eth0 scope global",
                ],
                "an address or route on eth0 that reaches the gateway 10.0.0.1 directly",
            ),
            (
                ["address add 10.0.0.1/32 dev eth1"],
                "a gateway other than 10.0.0.1, this host's own address",
            ),
        ],
        ids=["not reached", "global", "own"],
    )
    def test_named_gateway_that_is_gone(
        self, namespace: Namespace, tmp_path: Path, changes: list[str], reason: str
    ) -> None:
        """A route that has all of its own waits, too, with the words of Python."""
        wish = static("172.16.0.0/17", "10.0.0.1", "eth0")
        namespace.batch(["route del default"])
        assert Ran(namespace, [wish], tmp_path).status == 0
        namespace.batch(changes)
        [waiting] = plan_static_routes(configured(wish), namespace.snapshot()).waiting
        assert Ran(namespace, [wish], tmp_path).lines == [
            f"<3>static-routes: ROUTE-WAITS: {waiting}"
        ]
        assert str(waiting) == f"{wish} needs {reason}"

    @pytest.mark.parametrize("address", ["fd55::4/64", "fd55::4/63", "::1.2.3.4/120", "fd56::4/64"])
    @pytest.mark.parametrize("on_link", ["", " onlink"])
    def test_gateway_in_ipv6(
        self, namespace: Namespace, tmp_path: Path, address: str, on_link: str
    ) -> None:
        """The prefix of an address on the device says what is near, or the route is on-link."""
        gateway = "::1.2.3.9" if "." in address else "fd55::1"
        namespace.batch(
            [
                f"address add {address} dev eth0 nodad",
                f"route add fd00:16::/64 via {gateway} dev eth0 onlink proto 213",
            ]
        )
        if not on_link:
            namespace.batch([f"route add {gateway} dev eth0 metric 9", "route del fd00:16::/64"])
            namespace.batch([f"route add fd00:16::/64 via {gateway} dev eth0 proto 213"])
            namespace.batch([f"route del {gateway}"])
        is_near = address.startswith(("fd55", "::1")) or bool(on_link)
        wish = static("fd00:16::/64")
        plan = plan_static_routes(configured(wish), namespace.snapshot())
        assert bool(plan.waiting) is not is_near
        assert Ran(namespace, [wish], tmp_path).status == (0 if is_near else 1)

    @pytest.mark.parametrize(
        ("changes", "wish", "is_complete"),
        [
            ([], static("fd55::/64", metric=100), False),
            ([], static("fd55::/80"), False),
            ([], static("fd55::/64"), True),
            ([], static("fd55::/63", metric=100), True),
            (["route add fd55::1 dev eth0"], static("fd55::/80"), True),
            (["route add fd55::/64 via fe80::7 dev eth0 metric 100"], static("fd57::/64"), False),
            (["route add fd55::/64 via fe80::7 dev eth0 metric 300"], static("fd57::/64"), True),
            (
                ["route append fd55::/64 via fe80::7 dev eth0 metric 256 pref high"],
                static("fd57::/64"),
                False,
            ),
            (["route add fd55::/80 via fe80::7 dev eth1"], static("fd57::/64"), True),
            ([], static("fd55::/80", "fe80::5", "eth0"), False),
            ([], static("fd55::/80", "fe80::5", "eth1"), True),
        ],
        ids=str,
    )
    def test_a_gateway_in_the_destination(
        self,
        namespace: Namespace,
        tmp_path: Path,
        changes: list[str],
        wish: StaticRoute,
        *,
        is_complete: bool,
    ) -> None:
        """In IPv6, the best route to a gateway must not have one: neither another program's, nor
        the wanted route.
        """
        gateway = ["address add fd55::4/64 dev eth0 nodad", "route add default via fd55::1"]
        namespace.batch([*gateway, *changes], family=IPV6)
        plan = plan_static_routes(configured(wish), namespace.snapshot())
        ran = Ran(namespace, [wish], tmp_path)
        assert (not plan.waiting, ran.status == 0) == (is_complete, is_complete)
        if plan.waiting:
            said = str(plan.waiting[0]).replace(f" metric {wish.metric}", "")
            assert ran.lines == [f"<3>static-routes: ROUTE-WAITS: {said}"]

    @pytest.mark.parametrize(
        ("other", "is_complete"),
        [
            ("fd00::/8 via fe80::7 dev eth1", False),
            ("fd00::/8 via fe80::7 dev eth0", True),
            ("unreachable fd00::/8", True),
            ("::/8 via fe80::7 dev eth1", True),
        ],
    )
    def test_a_gateway_on_link_in_ipv6(
        self, namespace: Namespace, tmp_path: Path, other: str, *, is_complete: bool
    ) -> None:
        """Linux does not believe that a gateway is on the link to which a route leads elsewhere."""
        default = "route add default via fd55::1 dev eth0 onlink"
        namespace.batch([default, f"route add {other}"], family=IPV6)
        wish = static("2001:db8::/32")
        plan = plan_static_routes(configured(wish), namespace.snapshot())
        ran = Ran(namespace, [wish], tmp_path)
        assert (not plan.waiting, ran.status == 0) == (is_complete, is_complete)
        if plan.waiting:
            assert ran.lines == [f"<3>static-routes: ROUTE-WAITS: {plan.waiting[0]}"]

    @pytest.mark.parametrize("protocol", ["static", "213"])
    @pytest.mark.parametrize(("of_default", "of_present"), [(" onlink", ""), ("", " onlink")])
    def test_on_link(
        self, namespace: Namespace, tmp_path: Path, protocol: str, of_default: str, of_present: str
    ) -> None:
        """Ifupdown's default route is on-link: a route of another program or of ours that is not is
        the same route.
        """
        namespace.batch(
            [
                "route del default",
                f"route add default {ETH0}{of_default}",
                f"route add 172.16.0.0/17 {ETH0}{of_present} proto {protocol}",
            ]
        )
        before = listed(namespace)
        ran = Ran(namespace, HALVES[:1], tmp_path)
        assert (ran.status, ran.lines, ran.changes, listed(namespace)) == (0, [], [], before)

    @pytest.mark.parametrize(
        ("there", "lost", "status"),
        [
            (["172.16.0.0/17 via 10.0.0.1 dev eth0 proto 213"], "eth0", 1),
            (
                [
                    "172.16.0.0/17 via 10.0.0.1 dev eth0 proto 213",
                    "172.16.0.0/17 via 10.1.0.1 dev eth1 proto 4",
                ],
                "eth0",
                1,
            ),
            (
                [
                    "172.16.0.0/17 via 10.1.0.1 dev eth1 proto 4",
                    "172.16.0.0/17 via 10.0.0.1 dev eth0 proto 213",
                ],
                "eth1",
                0,
            ),
            (["fd00:16::/64 via fe80::1 dev eth0 pref high expires 600"], "eth1", 0),
            (
                [
                    "fd00:16::/64 via fe80::1 dev eth0 proto 213",
                    "fd00:16::/64 dev wg0 pref high proto 4",
                ],
                "eth1",
                1,
            ),
            (
                [
                    "fd00:16::/64 dev wg0 pref low proto 4",
                    "fd00:16::/64 via fe80::1 dev eth0 proto 213",
                ],
                "eth1",
                0,
            ),
            (
                [
                    "fd00:16::/64 dev eth1 pref high proto 4",
                    "fd00:16::/64 via fe80::1 dev eth0 pref low proto 213",
                ],
                "eth1",
                0,
            ),
        ],
        ids=str,
    )
    def test_the_route_that_linux_uses(
        self, namespace: Namespace, tmp_path: Path, there: list[str], lost: str, status: int
    ) -> None:
        """It decides, wherever it stands in the list: one that is dead does not, and in IPv6 the
        router's preference does.
        """
        for dev in ("eth0", "eth1"):
            for family in ("ipv4", "ipv6"):
                namespace.sysctl(f"{family}/conf/{dev}/ignore_routes_with_linkdown", 1)
        namespace.batch([ROUTER, "address add 10.1.0.4/24 dev eth1"])
        namespace.batch(f"route append {route}" for route in there)
        lose_carriers(namespace, [lost])
        wish = PAIR[1] if ":" in there[0] else PAIR[0]._replace(dev="eth0")
        before = listed(namespace)

        plan = plan_static_routes(configured(wish), namespace.snapshot())
        ran = Ran(namespace, [wish], tmp_path)

        assert (not plan.waiting and not plan.conflicts) == (status == 0)
        assert (ran.status, ran.changes, listed(namespace)) == (status, [], before)


class TestWrites:
    """What is written, and in which order."""

    def test_the_example(self, namespace: Namespace, tmp_path: Path) -> None:
        """The example in the script is what its planner reads and prints on such a host."""
        namespace.batch(
            [
                "route add 172.16.0.0/12 via 10.0.0.9 dev eth0 proto 213",
                "route add 10.5.0.0/16 via 10.0.0.1 dev eth0 proto 213",
            ]
        )
        script = render_static_routes_script(configured(static("172.16.0.0/12")))
        functions = tmp_path / "functions.sh"
        functions.write_text(script.rpartition("\nmain ")[0])
        text = f". {functions}; settings_and_lists | tee {tmp_path}/read | run_planner"
        printed = namespace.run("bash", "-c", text).stdout
        comment = re.search(r"^# For example, 172(.*\n#)+", script, re.MULTILINE)
        assert comment
        lines = re.findall("^#  +(.*)$", comment[0].partition("#\n")[0], re.MULTILINE)
        listed = [line for line in lines if line.startswith("1 ")]
        planned = [line for line in lines if not line.startswith("1 ")]
        read = [line.strip() for line in (tmp_path / "read").read_text().splitlines()]
        assert len(listed) == 3
        assert [line for line in read if line in listed] == listed
        assert printed.split() == " ".join(planned).split()

    def test_a_changed_next_hop(self, namespace: Namespace, tmp_path: Path) -> None:
        """The new one is added, then ours deleted, so no packet is lost; nothing is written twice."""
        namespace.batch([ROUTER])
        assert Ran(namespace, PAIR, tmp_path).lines == []
        namespace.batch(
            [
                "route replace default via 10.0.0.9 dev eth0",
                "route del ::/0",
                ROUTER.replace("::1", "::9"),
            ]
        )
        with events(namespace, tmp_path / "events") as seen:
            assert [Ran(namespace, PAIR, tmp_path).lines for _ in range(2)] == [[], []]
        lines = [
            " ".join(event.split()[:4])
            for event in seen
            if "172.16." in event or "fd00:16:" in event
        ]
        assert [lines[0], lines[1][:9]] == ["172.16.0.0/17 via 10.0.0.9 dev", "fd00:16::"]
        assert sorted(lines[2:]) == [
            "Deleted 172.16.0.0/17 via 10.0.0.1",
            "Deleted fd00:16::/64 via fe80::1",
        ]

    def test_no_longer_wanted(self, namespace: Namespace, tmp_path: Path) -> None:
        """Ours that are not configured go, of any kind; those of other programs stay, and those in
        other tables.
        """
        others = [
            "9.9.9.1 via 10.0.0.1 proto static",
            "9.9.9.2 via 10.0.0.1 proto 212",
            "9.9.9.3 dev eth0 table 100 proto 213",
        ]
        namespace.batch([f"route add {route}" for route in others])
        before = listed(namespace)
        ours_in_pieces = " ".join(
            f"nexthop via fe80::{at} dev {dev}" for at, dev in enumerate(("eth0", "eth1", "ib0"), 1)
        )
        of_ours = [f"fd00:17::/64 proto 213 {ours_in_pieces}", "unreachable fd00:18::/64 proto 213"]
        of_ours += ["blackhole ::/0 metric 5000 proto 213", "10.7.0.0/16 dev ib0 tos 4 proto 213"]
        namespace.batch([f"route add {route}" for route in of_ours])
        for wanted, changes in ((HALVES, [5]), (HALVES, []), ([], [2]), ([], [])):
            ran = Ran(namespace, wanted, tmp_path)
            assert (ran.lines, ran.changes) == ([], changes)
        assert listed(namespace) == before
        assert namespace.ip("route", "show", "table", "100").stdout


def conflict_lines(conflicts: Iterable[Step]) -> list[str]:
    """What the script says of the conflicts of a plan: the fact, and each way out."""
    apply = "hostrouting apply --config /etc/hostrouting/config.json"
    lines: list[str] = []
    for step in conflicts:
        assert step.remedy is not None
        *edits, delete = step.remedy.ways()
        place = step.route.prefix
        lines.append(f"ROUTE-CONFLICT: {step.finding.sentence}")
        lines += [f"{place}: option A: {edit}; then, as root: {apply}" for edit in edits]
        option = "option B" if edits else "the only option"
        lines.append(f"{place}: {option}: {delete}; {THEN}")
    lines.append(NOTHING_DONE)
    return [f"<3>static-routes: {line}" for line in lines]


class TestConflicts:
    """A route of another program with the key of one is never changed."""

    @pytest.mark.parametrize("awk", AWKS)
    def test_named(self, namespace: Namespace, tmp_path: Path, awk: str) -> None:
        """Each is named with its holder and the way out, whichever awk there is; nothing is set,
        and nothing waits.
        """
        held = [
            "10.7.0.0/16 dev ib0",
            "172.16.0.0/17 dev ib0 metric 4000000000",
            "blackhole 10.8.0.0/16",
        ]
        namespace.batch([f"route add {route}" for route in held])
        before = listed(namespace)
        wanted = [
            *HALVES,
            static("172.16.0.0/17", metric=4_000_000_000),
            static("10.8.0.0/16"),
            static("10.7.0.0/16"),
        ]
        ran = Ran(namespace, wanted, tmp_path, awk=awk, wait=60)
        conflicts = plan_static_routes(configured(*wanted), namespace.snapshot()).conflicts
        assert len(conflicts) == 3
        assert ran.lines == conflict_lines(conflicts)
        assert (ran.status, listed(namespace)) == (1, before)
        for step in conflicts:
            assert step.remedy is not None
            *_, deletion = step.remedy.ways()
            namespace.batch([deletion.command.removeprefix("ip ")])
        assert Ran(namespace, wanted, tmp_path, awk=awk).lines == []

    @pytest.mark.parametrize("half", ["10.7.0.0/17", "10.7.128.0/17"])
    def test_a_half_that_is_held(self, namespace: Namespace, tmp_path: Path, half: str) -> None:
        """Halves are proposed only if both can be installed: no option leads to the next conflict."""
        namespace.batch([f"route add {place} dev ib0" for place in ("10.7.0.0/16", half)])
        wanted = [static("10.7.0.0/16")]
        ran = Ran(namespace, wanted, tmp_path)
        plan = plan_static_routes(configured(*wanted), namespace.snapshot())
        assert ran.lines == conflict_lines(plan.conflicts)
        _, options, _ = ran.lines
        assert options.startswith(
            "<3>static-routes: 10.7.0.0/16: the only option: if nothing needs that route, delete it"
        )

    def test_two_routes_in_one_place(self, namespace: Namespace, tmp_path: Path) -> None:
        """All routes of other programs with the key of a configured one are named, with a command
        for each: so one start tells all.
        """
        held = ["dev ib0 proto static scope link", "via 10.0.0.9 dev eth0 proto bird"]
        namespace.batch([f"route append 10.7.0.0/16 {route}" for route in held])
        ran = Ran(namespace, [static("10.7.0.0/16")], tmp_path)
        plan = plan_static_routes(configured(static("10.7.0.0/16")), namespace.snapshot())
        assert ran.lines == conflict_lines(plan.conflicts)
        conflict, *_, option, _ = ran.lines
        for route in held:
            assert f"[10.7.0.0/16 {route}]" in conflict
        commands = option.partition("as root: ")[2].partition("; then")[0].split(" && ")
        assert len(commands) == 2
        namespace.batch([command.removeprefix("ip ") for command in commands])
        assert Ran(namespace, [static("10.7.0.0/16")], tmp_path).lines == []

    def test_a_network_of_two_devices(self, namespace: Namespace, tmp_path: Path) -> None:
        """On a node with several rails, each has the network: all are named, and the warning too."""
        namespace.batch([f"address add 10.7.0.{dev[-1]}/16 dev {dev}" for dev in ("eth1", "ib0")])
        wanted = [static("10.7.0.0/16")]
        ran = Ran(namespace, wanted, tmp_path)
        plan = plan_static_routes(configured(*wanted), namespace.snapshot())
        assert [len(step.rivals) for step in plan.conflicts] == [2]
        assert "Linux has this route from an address of eth1, ib0: " in ran.said
        assert "in 10.7.0.0/16 through eth1, ib0\n" in ran.said
        for step in plan.conflicts:
            assert step.remedy is not None
            words = str(step.remedy).partition(";")[0]
            assert f"10.7.0.0/16: {words}\n" in ran.said

    @pytest.mark.parametrize(
        ("place", "metric", "edit"),
        [
            ("172.16.0.9/32", 0, ""),
            ("172.16.0.9/32", 5, "another"),
            ("172.16.0.0/17", 5, "another"),
            ("fd00:16::9/128", 5, "another"),
            ("fd00:16::/64", 1, "fd00:16::/65 and fd00:16:0:0:8000::/65"),
            ("fd00:16::9/128", 1, ""),
        ],
    )
    def test_what_takes_precedence(
        self, namespace: Namespace, tmp_path: Path, place: str, metric: int, edit: str
    ) -> None:
        """A lower metric if there is one, else halves; of a single address, the only way is to
        delete the other route, and to start again.
        """
        namespace.batch([ROUTER, f"route add {place} dev ib0 metric {metric}"])
        wish = static(place, metric=metric)
        ran = Ran(namespace, [wish], tmp_path, wait=60)
        options = [line for line in ran.lines if "option" in line]
        if edit:
            assert f"option A: write {edit} " in options[0]
        assert len(options) == (2 if edit else 1)
        _, _, command = options[-1].partition(": ip ")
        command, _, then = command.partition("; ")
        assert then == THEN
        namespace.batch([command.removeprefix("-6 ")])
        assert Ran(namespace, [wish], tmp_path).lines == []

    @pytest.mark.parametrize("place", ["10.0.0.0/24", "fd00:99::/64"])
    def test_the_network_of_an_address(
        self, namespace: Namespace, tmp_path: Path, place: str
    ) -> None:
        """Neither way is safe where Linux has the route from an address: both say so first."""
        metric = 256 if ":" in place else 0
        namespace.batch([ROUTER])
        [step] = plan_static_routes(
            configured(static(place, metric=metric)), namespace.snapshot()
        ).conflicts
        warning = "Linux has this route from an address of eth0"
        assert str(step.remedy).startswith(warning)
        ran = Ran(namespace, [static(place, metric=metric)], tmp_path)
        assert ran.lines[1].startswith(f"<3>static-routes: {place}: {warning}")

    @pytest.mark.parametrize(
        ("place", "objects"),
        [
            ("172.16.0.0/17", ["id 5 via 10.0.0.9 dev eth0"]),
            (
                "172.16.0.0/17",
                ["id 6 via 10.0.0.8 dev eth0", "id 7 via 10.0.0.9 dev eth0", "id 5 group 6/7"],
            ),
            ("fd00:16::/64", ["id 5 via fe80::9 dev eth0"]),
        ],
        ids=["one", "a group", "IPv6"],
    )
    def test_a_nexthop_object(
        self, namespace: Namespace, tmp_path: Path, place: str, objects: list[str]
    ) -> None:
        """The printed command deletes the route, in Python as well; Linux refuses one with a dev."""
        held = f"route add {place} nhid 5 proto bird"
        namespace.batch([ROUTER, *(f"nexthop add {each}" for each in objects), held])
        [step] = plan_static_routes(configured(static(place)), namespace.snapshot()).conflicts
        [rival] = step.rivals
        command = deletion_command(rival)
        ran = Ran(namespace, [static(place)], tmp_path)
        family = " -6" if ":" in place else ""
        assert f"ip{family} route del" in command
        assert f": {command}; {THEN}" in ran.said
        namespace.batch([command.removeprefix(f"ip{family} ")])
        assert Ran(namespace, [static(place)], tmp_path).lines == []

    @pytest.mark.parametrize("hop", ["via 10.0.0.8", "via inet6 fe80::8"])
    def test_one_of_two_routes_by_a_device(self, namespace: Namespace, hop: str) -> None:
        """The printed command deletes the route by its gateway, and not the first of its key."""
        first = "172.16.0.0/17 via 10.0.0.9 dev eth0 proto bird metric 7"
        second = f"172.16.0.0/17 {hop} dev eth0 proto bird metric 7"
        namespace.batch([ROUTER, f"route append {first}", f"route append {second}"])

        def held() -> list[Route]:
            routes = namespace.snapshot().routes
            return [route for route in routes if route.prefix == Prefix.parse("172.16.0.0/17")]

        before = held()
        namespace.batch([deletion_command(before[1]).removeprefix("ip ")])
        assert held() == before[:1]

    @pytest.mark.parametrize("gateway", [None, "fe80::7"])
    def test_in_ipv6(self, namespace: Namespace, tmp_path: Path, gateway: str | None) -> None:
        """A next hop that has joined our route is a conflict: nothing is written."""
        held = ("via fe80::1 dev eth0 proto 213", "via fe80::9 dev eth0 proto bird")
        namespace.batch([ROUTER, *(f"route append fd00:16::/64 {hop}" for hop in held)])
        wanted = [static("fd00:16::/64", gateway, "eth0"), HALVES[0]]
        with events(namespace, tmp_path / "events") as seen:
            ran = Ran(namespace, wanted, tmp_path)
        hop = "fd00:16::/64 metric 1024 via fe80::9 dev eth0"
        conflict = f"ROUTE-CONFLICT: {hop} is a next hop that is not hostrouting's"
        remedy = "if nothing needs it, delete it (a program may add it again)"
        assert ran.lines == [
            f"<3>static-routes: {conflict}; {remedy}, as root: ip route del {hop}",
        ]
        assert ran.status == 1
        assert not [event for event in seen if "fd00:16:" in event or "172.16." in event]

    def test_a_next_hop_that_has_just_gone(self, namespace: Namespace, tmp_path: Path) -> None:
        """If Linux has deleted ours since it was listed, it is no other program's: a new plan shows
        it, a second later.
        """
        ours_of_old = "fd00:16::/64 via fe80::4 dev eth0 proto 213"
        namespace.batch([ROUTER, f"route add {ours_of_old}"])
        once = f"{IS_WRITING} && [[ ! -e {tmp_path}/done ]] && : >{tmp_path}/done"
        gone = f'{once} && ip -6 route del {ours_of_old}\nexec ip "$@"'
        ran = Ran(namespace, PAIR, tmp_path, wait=5, tools={"ip": gone, "sleep": ":"})
        assert (ran.status, len(ours(namespace, IPV6))) == (0, 1), ran.said

    @pytest.mark.parametrize(
        "more",
        [["dev eth0 proto 213"], []],
        ids=["and one of ours on the link", "and no other of ours"],
    )
    def test_beside_an_unwanted_next_hop(
        self, namespace: Namespace, tmp_path: Path, more: list[str]
    ) -> None:
        """Of an IPv6 route that is not wanted any more, ours goes, and that of another program
        stays.

        Linux would delete all next hops beside the first that a request without a gateway matches.
        """
        hops = ["via fe80::1 dev eth0 proto 213", "via fe80::9 dev eth0 proto bird", *more]
        namespace.batch([ROUTER, *(f"route append fd00:17::/64 metric 5 {hop}" for hop in hops)])
        for _ in range(2):
            lines = Ran(namespace, HALVES, tmp_path).lines
            assert [line for line in lines if not line.startswith("<7>")] == []
        shown = namespace.ip("-6", "route", "show", "fd00:17::/64").stdout
        assert shown.startswith("fd00:17::/64 via fe80::9 dev eth0 proto bird")
        assert ours(namespace, IPV6) == []

    @pytest.mark.parametrize("command", ["replace", "append"])
    @pytest.mark.parametrize(
        "held", [(), ("route add 172.16.0.0/17 via 10.0.0.7 dev eth0 proto 213",)]
    )
    def test_somebody_takes_the_place(
        self, namespace: Namespace, tmp_path: Path, held: tuple[str, ...], command: str
    ) -> None:
        """A route of another program that appears in our place after the reading is not
        overwritten.
        """
        namespace.batch(held)
        stolen = f"ip route {command} 172.16.0.0/17 via 10.0.0.9 dev eth0 proto static"
        once = f'{IS_WRITING} && [[ ! -e {tmp_path}/done ]] && : >{tmp_path}/done && {stolen}\nexec ip "$@"'
        ran = Ran(namespace, HALVES, tmp_path, tools={"ip": once})
        assert (ran.status, len(ours(namespace))) == (1, len(held) if command == "append" else 0), (
            ran.said
        )
        assert "172.16.0.0/17 via 10.0.0.9 dev eth0 proto static" in namespace.ip("route").stdout


class TestAllOrNothing:
    """Whatever fails, the table is the wanted one or as before."""

    STANDING = (
        "10.3.0.0/16 via 10.0.0.1 proto 213",
        "172.16.128.0/17 dev ib0 proto 213",
        "fd00:16::/64 proto 213 nexthop via fe80::3 dev eth0 nexthop via fe80::4 dev eth0",
        "fd00:18::/64 via fe80::3 dev eth0 proto 213",
        "fd00:19::/64 dev eth1 proto 213",
        "9.9.9.9 via 10.0.0.1 proto static",
    )
    WANTED = (*HALVES, static("fd00:16::/64"), static("fd00:17::/64"), static("fd00:18::/64"))

    @settings(max_examples=scaled(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        done=st.integers(0, 9),
        fault=st.sampled_from(
            [
                "echo 'RTNETLINK answers: Operation not permitted'; echo \"Command failed -:$((done + 1))\"; exit 1",
                "kill -KILL $$",
            ]
        ),
        stop=st.sampled_from([":", "kill -TERM 0"]),
    )
    def test_a_batch_that_fails(
        self, done: int, fault: str, stop: str, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """After any number of commands, `ip` fails or is killed, or the script is told to stop
        meanwhile.
        """
        folder = tmp_path_factory.mktemp("failing")
        with fabric_host() as namespace:
            namespace.batch([ROUTER, *(f"route add {route}" for route in self.STANDING)])
            before = listed(namespace)
            once = f'{IS_WRITING} && [[ ! -e {folder}/tried ]] || exec ip "$@"'
            cut = f"done={done}; {stop}; head -n $done | ip -batch - 2>&1; {fault}"
            tools = {"ip": f"{once}\n: >{folder}/tried; {cut}"}
            ran = Ran(namespace, self.WANTED, folder, tools=tools)
            assert ran.status in {1, 143}, ran.said
            assert listed(namespace) == before, ran.said
            assert Ran(namespace, self.WANTED, folder).lines == []
            assert set(ours(namespace) + ours(namespace, IPV6)) == {
                str(route.destination) for route in self.WANTED
            }
            assert "9.9.9.9 via 10.0.0.1 dev eth0 proto static" in namespace.ip("route").stdout

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (ETH0, f"nexthop {ETH0} nexthop via 10.0.0.2 dev eth0"),
            (f"nexthop {ETH0} nexthop via 10.0.0.2 dev eth0", ETH0),
            (
                f"nexthop {ETH0} nexthop via 10.0.0.3 dev eth0",
                f"nexthop {ETH0} nexthop via 10.0.0.2 dev eth0",
            ),
        ],
    )
    def test_next_hops_that_begin_alike(
        self, namespace: Namespace, tmp_path: Path, old: str, new: str
    ) -> None:
        """Our route is as before if another route is refused, and as the default route if none is."""
        place = "172.16.0.0/17"
        broadcast = "route add broadcast 10.0.0.77 dev eth0 table main"
        default = f"route add default {new}"
        namespace.batch(
            [f"route add {place} proto 213 {old}", "route del default", default, broadcast]
        )
        before = listed(namespace)
        assert Ran(namespace, [HALVES[0], REFUSED], tmp_path).status == 1
        assert listed(namespace) == before
        assert Ran(namespace, HALVES[:1], tmp_path).status == 0
        [route] = [route for route in namespace.routes(IPV4) if route.protocol == 213]
        assert re.sub(" weight 1", "", route.way) == new

    def test_behind_one_that_begins_alike(self, namespace: Namespace, tmp_path: Path) -> None:
        """A request to delete our second route would take the first, which is right: the second
        stays unused behind it.

        When the first is not wanted any more, both go.
        """
        place = "172.16.0.0/17"
        both = [f"{ETH0} onlink", f"nexthop {ETH0} nexthop via 10.0.0.2 dev eth0"]
        namespace.batch(f"route append {place} proto 213 {way}" for way in both)
        before = listed(namespace)
        plan = plan_static_routes(configured(HALVES[0]), namespace.snapshot())
        assert [step.action for step in plan.steps] == ["keep"]
        ran = Ran(namespace, HALVES[:1], tmp_path)
        assert (ran.status, ran.lines, ran.changes, listed(namespace)) == (0, [], [], before)
        assert Ran(namespace, HALVES[1:], tmp_path).changes == [3]
        assert ours(namespace) == [str(HALVES[1].destination)]

    @pytest.mark.parametrize("more", ["src 10.0.0.4", "mtu 1400", "mtu 1400 advmss 1200"])
    def test_ours_with_an_attribute(self, namespace: Namespace, tmp_path: Path, more: str) -> None:
        """A request to delete one without an attribute also takes one that has it, so that goes
        first.
        """
        ways = [f"{ETH0} {more}", ETH0, f"{ETH0} mtu 1300"]
        namespace.batch(f"route append 10.7.0.0/16 proto 213 {way}" for way in ways)
        assert Ran(namespace, HALVES[:1], tmp_path).lines == []
        assert ours(namespace) == [str(HALVES[0].destination)]

    def test_what_the_kernel_refuses(self, namespace: Namespace, tmp_path: Path) -> None:
        """A route that the kernel refuses is named, in its words; it is tried again; the others are
        not kept.
        """
        namespace.batch(
            [
                "route add broadcast 10.0.0.77 dev eth0 table main",
                "route add 10.1.0.0/16 dev ib0 proto 213",
            ]
        )
        before = listed(namespace)
        ran = Ran(namespace, [*HALVES, REFUSED], tmp_path)
        why = "route append 10.1.0.0/16 proto 213 metric 0 via 10.0.0.77 dev eth0: Error: Nexthop has invalid gateway."
        assert ran.lines == [f"<3>static-routes: {why}"]
        assert listed(namespace) == before
        came = "ip route del broadcast 10.0.0.77 dev eth0 table main"
        ran = Ran(namespace, [*HALVES, REFUSED], tmp_path, wait=60, tools={"sleep": came})
        assert (ran.status, len(ours(namespace))) == (0, 3)

    def test_a_log_that_is_full(self, namespace: Namespace, tmp_path: Path) -> None:
        """A line that cannot be written changes nothing: the routes are set, and may stay."""
        command = words(HALVES, tmp_path, before="exec 2>/dev/full")
        assert namespace.run(*command).returncode == 0
        assert len(ours(namespace)) == 2
        namespace.batch(["route del default"])  # now there is a note
        assert namespace.run(*command).returncode == 0

    @pytest.mark.parametrize(("family", "gateway"), [(IPV4, "10.0.0.1"), (IPV6, "fe80::1")])
    def test_our_route_by_a_nexthop_object(
        self, namespace: Namespace, tmp_path: Path, family: int, gateway: str
    ) -> None:
        """A route of ours that somebody made with a nexthop object goes, and is back if another
        route is refused.
        """
        place = "10.11.0.0/16" if family == IPV4 else "fd00:11::/64"
        namespace.batch(
            [f"nexthop add id 7 via {gateway} dev eth0", f"route add {place} nhid 7 proto 213"],
            family=family,
        )
        namespace.batch(["route add broadcast 10.0.0.77 dev eth0 table main"])
        before = listed(namespace)
        assert Ran(namespace, [HALVES[0], REFUSED], tmp_path).status == 1
        assert listed(namespace) == before
        assert Ran(namespace, HALVES[:1], tmp_path).lines == []
        assert place not in ours(namespace, family)

    def test_a_reason_that_stays_the_same(self, namespace: Namespace, tmp_path: Path) -> None:
        """The guard logs a line that it has not logged before: no line has a number that counts
        down, or the seconds of a run that does not wait.
        """
        namespace.batch([ROUTER], family=IPV6)
        namespace.batch(
            ["route append ::/0 via fe80::2 dev eth1 proto ra expires 600 hoplimit 64"],
            family=IPV6,
        )
        done = namespace.run(*words([PAIR[1]], tmp_path))
        assert " expires " in done.stderr
        assert not re.search(r"expires \d|after \d+ s", done.stderr)

    def test_no_permission(self, namespace: Namespace, tmp_path: Path) -> None:
        """Nobody waits for what will not come."""
        refused = (
            "echo 'RTNETLINK answers: Operation not permitted'; echo 'Command failed -:1'; exit 2"
        )
        tools = {
            "ip": f'{IS_WRITING} || exec ip "$@"\n{refused}',
            "sleep": leaving_word(tmp_path / "naps", "sleep"),
        }
        ran = Ran(namespace, HALVES[:1], tmp_path, wait=2, tools=tools)
        why = "route add 172.16.0.0/17 proto 213 metric 0 via 10.0.0.1 dev eth0"
        assert ran.lines == [f"<3>static-routes: {why}: RTNETLINK answers: Operation not permitted"]
        assert not (tmp_path / "naps").exists()

    def test_what_cannot_be_taken_back(self, namespace: Namespace, tmp_path: Path) -> None:
        """Each command that failed is named, because the routes are not as before."""
        namespace.batch(["route add broadcast 10.0.0.77 dev eth0 table main"])
        gone = f"[[ ! -e {tmp_path}/tried ]] || ip route flush proto 213"
        gone = f'{IS_WRITING} && {{ {gone}; : >{tmp_path}/tried; }}\nexec ip "$@"'
        ran = Ran(namespace, [*HALVES, REFUSED], tmp_path, tools={"ip": gone})
        assert ran.status == 1
        named = [line.split(": ", 3) for line in ran.lines if " an undo failed: " in line]
        assert [command.split()[:3] for _, _, command, _ in named] == [
            ["route", "del", str(half.destination)] for half in reversed(HALVES)
        ]
        assert {why for _, _, _, why in named} == {"RTNETLINK answers: No such process"}

    @pytest.mark.parametrize("place", [str(HALVES[0].destination), "10.9.0.0/16"])
    def test_words_that_ip_cannot_read(
        self, namespace: Namespace, tmp_path: Path, place: str
    ) -> None:
        """`ip` ends at such a word of one of our routes, and does not say at which command. What it
        has done until then is taken back.
        """
        encapsulated = "encap seg6 mode encap segs fc00::1,fc00::2 via 10.0.0.2 dev eth0"
        namespace.batch([f"route add {place} {encapsulated} proto 213"])
        before = listed(namespace)
        ran = Ran(namespace, HALVES, tmp_path)
        assert (ran.status, listed(namespace)) == (1, before), ran.said
        assert "ip was killed" not in ran.said

    def test_a_lock_of_rto_min(self, namespace: Namespace, tmp_path: Path) -> None:
        """`ip` lists that this time is locked, and does not read it: it always locks it."""
        tuned = "route add 172.16.0.0/17 via 10.0.0.2 dev eth0 rto_min 40ms proto 213"
        namespace.batch([tuned, "route add broadcast 10.0.0.77 dev eth0 table main"])
        before = listed(namespace)
        assert Ran(namespace, [*HALVES, REFUSED], tmp_path).status == 1
        assert listed(namespace) == before
        assert Ran(namespace, HALVES, tmp_path).lines == []
        assert "rto_min" not in namespace.ip("route").stdout

    def test_somebody_else_undoes_it(self, namespace: Namespace, tmp_path: Path) -> None:
        """What another program undoes each time is not left half done, and is said."""
        undone = f'ip "$@"; status=$?; {IS_WRITING} && ip route del 172.16.0.0/17; exit $status'
        ran = Ran(namespace, HALVES, tmp_path, tools={"ip": undone})
        assert (ran.status, ours(namespace)) == (1, [])
        assert ran.lines[-1].startswith(
            "<3>static-routes: another program also changes these routes: route add 172.16."
        )

    @pytest.mark.parametrize("failed", ["ip", "awk", "awk after a conflict"])
    def test_a_reading_that_fails(self, namespace: Namespace, tmp_path: Path, failed: str) -> None:
        """Without all routes, or a whole plan, nothing is written, and the words of the program are
        the only reason.
        """
        cut = {
            "ip": 'ip "$@"; printf "%s\\n" "Dump terminated" "Command failed -:1" >&2; exit 1',
            "awk": "printf 'change\\troute flush table main\\troute flush table main\n'; kill -9 $$",
            "awk after a conflict": "printf 'refused\\tX\\toption A\n'; kill -9 $$",
        }
        program = failed.split(maxsplit=1)[0]
        ran = Ran(namespace, HALVES, tmp_path, tools={program: cut[failed]})
        reason = {"ip": "Dump terminated", "awk": "ip or awk was killed, or is missing"}[program]
        lines = [line for line in ran.lines if line.startswith("<3>")]
        assert lines == [f"<3>static-routes: the routes cannot be read: {reason}"]
        assert (ran.status, ours(namespace)) == (1, [])

    def test_without_settings(self, namespace: Namespace, tmp_path: Path) -> None:
        """A script whose data is gone deletes nothing, and says how to get it back."""
        namespace.batch(["route add 10.3.0.0/16 via 10.0.0.1 proto 213"])
        only_unit = "grep -v ^protocol | awk"
        ran = Ran(namespace, HALVES, tmp_path, tools={"awk": f'{only_unit} "$@"'})
        assert ran.lines == [
            (
                "<3>static-routes: the routes cannot be read: this script has lost its settings; to "
                "write it again, as root: hostrouting apply --config /etc/hostrouting/config.json"
            )
        ]
        assert (ran.status, ours(namespace)) == (1, ["10.3.0.0/16"])

    def test_read_while_it_changed(self, namespace: Namespace, tmp_path: Path) -> None:
        """Tables that changed while they were read are read again: twice at once, and every second."""
        torn = 'ip "$@"; echo >>{0}; (($(wc -l <{0}) > {1})) || echo "Dump was interrupted and may be inconsistent." >&2'
        said = {
            2: [],
            3: ["<3>static-routes: the routes changed while they were read"],
        }
        for times, lines in said.items():
            tools = {"ip": torn.format(tmp_path / f"readings-{times}", times)}
            assert Ran(namespace, HALVES, tmp_path, tools=tools).lines == lines
        tools = {"ip": torn.format(tmp_path / "readings", 3)}
        assert Ran(namespace, HALVES, tmp_path, wait=5, tools=tools).status == 0

    def test_a_conflict_while_it_changed(self, namespace: Namespace, tmp_path: Path) -> None:
        """What a torn reading has shown of a conflict is not told: it may not be so."""
        namespace.batch(["route add 172.16.0.0/17 dev ib0"])
        torn = 'ip "$@"; echo "Dump was interrupted and may be inconsistent." >&2'
        ran = Ran(namespace, HALVES, tmp_path, tools={"ip": torn})
        assert ran.lines == ["<3>static-routes: the routes changed while they were read"]


class TestTwoAtOnce:
    """Two starts, or a start and the guard."""

    @pytest.mark.parametrize("run", ["writable", "full", "read-only"])
    def test_the_same_end(self, namespace: Namespace, tmp_path: Path, run: str) -> None:
        """With a lock, runs at once all end well and leave the routes; one run does without where
        /run cannot have it.
        """
        namespace.batch(
            [
                ROUTER,
                "route add 10.1.7.0/24 dev ib0 proto 213",
                "route add fd00:16:7::/64 dev ib0 proto 213",
            ]
        )
        routes = [static(f"10.{1 + number // 256}.{number % 256}.0/24") for number in range(300)]
        routes += [static(f"fd00:16:{number:x}::/64") for number in range(100)]
        fill = "mount -t tmpfs -o size=4k,nr_inodes=2 none /run && ! cat /dev/zero 2>&- >/run/all"
        before = {"writable": ":", "full": fill, "read-only": "mount -t tmpfs -o ro none /run"}[run]
        command = [*namespace.enter, *words(routes, tmp_path, wait=0, before=before)]
        runs = [
            subprocess.Popen(command, stderr=subprocess.PIPE)
            for _ in range(4 if run == "writable" else 1)
        ]
        ends = sorted((it.communicate(timeout=120)[1], it.returncode) for it in runs)
        written = (
            b"<6>static-routes: changed routes: 402\n",
            0,
        )  # one writes, and the others find it done
        assert ends == [(b"", 0)] * (len(runs) - 1) + [written]
        assert (len(ours(namespace)), len(ours(namespace, IPV6))) == (300, 100)

    def test_another_run_holds_the_lock(self, namespace: Namespace, tmp_path: Path) -> None:
        """A run that does not get the lock writes nothing and says so; it tries again while it may
        wait.
        """
        held = f"[[ -e {tmp_path}/free ]] || exit 1"
        ran = Ran(namespace, HALVES, tmp_path, tools={"flock": held})
        assert (ran.status, ours(namespace)) == (1, [])
        assert ran.lines == [
            (
                "<3>static-routes: cannot lock /run/hostrouting/routes: another run has held it for "
                "5 s"
            )
        ]
        ran = Ran(namespace, HALVES, tmp_path, tools={"flock": "exit 66"})
        assert ran.lines == [
            ("<3>static-routes: cannot lock /run/hostrouting/routes: flock failed (exit status 66)")
        ]
        freed = {"flock": held, "sleep": f": >{tmp_path}/free"}
        ran = Ran(namespace, HALVES, tmp_path, wait=60, tools=freed)
        assert (ran.status, len(ours(namespace))) == (0, 2)

    def test_only_root_can_open_the_lock(self, namespace: Namespace, tmp_path: Path) -> None:
        """Whoever can open a file can hold its lock for good."""
        assert Ran(namespace, HALVES, tmp_path).status == 0
        assert (tmp_path / "run/hostrouting/routes").stat().st_mode & 0o777 == 0o600

    def test_read_again_with_the_lock(self, namespace: Namespace, tmp_path: Path) -> None:
        """What another run wrote while this one waited for the lock is there; without anything to
        do, none is taken.
        """
        wrote = "\n".join(
            f"ip route add {half.destination} via 10.0.0.1 dev eth0 proto 213" for half in HALVES
        )
        tools = {"flock": f"echo >>{tmp_path}/locked\n{wrote}"}
        for _ in range(2):
            ran = Ran(namespace, HALVES, tmp_path, tools=tools)
            assert (ran.status, ran.changes, ran.lines, len(ours(namespace))) == (0, [], [], 2)
        assert (tmp_path / "locked").read_text() == "\n"


class TestTheOptionalRoute:
    """The route for replies to probes: on the link, set when it can be, never awaited, never an
    error.
    """

    def test_set_and_deleted(self, namespace: Namespace, tmp_path: Path) -> None:
        """It needs no default route; when it is not configured any more, it goes."""
        assert Ran(namespace, HALVES, tmp_path, rewrite=REPLY).lines == []
        shown = namespace.ip("-6", "-N", "route", "show", "proto", "213").stdout
        assert shown.strip() == f"{REPLY.global_address} dev eth1 metric 1024 pref medium"
        with events(namespace, tmp_path / "events") as seen:
            assert Ran(namespace, HALVES, tmp_path, rewrite=REPLY).lines == []
        assert not [event for event in seen if "2603:" in event]
        assert Ran(namespace, HALVES, tmp_path).lines == []
        assert ours(namespace, IPV6) == []

    @pytest.mark.parametrize(
        "state",
        [
            "link set eth1 down",
            "link del eth1",
            f"route add {REPLY.global_address} dev ib0",
            "IPv6 is off",
        ],
    )
    def test_not_now(self, namespace: Namespace, tmp_path: Path, state: str) -> None:
        """Without its device, or with another program's route in its place, the others are set. At
        most a line for debugging says why it was not.
        """
        if state == "IPv6 is off":
            namespace.sysctl("ipv6/conf/eth1/disable_ipv6", 1)
        else:
            namespace.batch([state])
        before = [line for line in listed(namespace) if "2603:" in line]
        ran = Ran(namespace, HALVES, tmp_path, rewrite=REPLY, wait=60)
        refusal = (
            f"<7>static-routes: optional: route add {REPLY.global_address}/128 proto 213 metric 1024 "
            "dev eth1: Error: IPv6 is disabled on nexthop device."
        )
        lines = [refusal] if state == "IPv6 is off" else []
        assert (ran.status, ran.lines, len(ours(namespace))) == (0, lines, 2)
        assert [line for line in listed(namespace) if "2603:" in line] == before
