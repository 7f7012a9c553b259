"""static-routes.sh while the default route is missing or in doubt: it waits, and keeps what is
there.
"""

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from hostrouting.config.settings import StaticRoute
from hostrouting.model.prefix import IPV6
from tests.support.commands import lose_carriers
from tests.support.namespace import Namespace
from tests.support.routes_script import (
    ETH0,
    HALF,
    HALVES,
    ROUTER,
    Ran,
    our_routes,
    ours,
    planned,
    words,
)
from tests.support.sections import static
from tests.support.waiting import leaving_word, wait_for

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

IN_IPV6 = static("fd00:16::/64")
IPV6_BY_ETH0 = "via fe80::1 dev eth0"
BY_WG0 = static(HALF.destination, dev="wg0")
IN_PLACE = f"{HALF.destination} proto 213"
NEXTHOP_OBJECTS = (
    "nexthop add id 5 via 10.0.0.1 dev eth0",
    "nexthop add id 6 via 10.0.0.2 dev eth0",
    "nexthop add id 10 group 5,4/6,7",
)


def listing_links(edit: str) -> dict[str, str]:
    """An `ip` whose list of links is edited by sed."""
    return {"ip": f"""[[ " $* " == *" -o "* ]] || exec ip "$@"; ip "$@" | sed -E '{edit}'"""}


def way_of_ours(namespace: Namespace) -> str:
    """The next hops of our only route, as `ip` lists them, without the scope of IPv4."""
    shown = namespace.ip("-N", "-o", "route", "show", "proto", "213").stdout.replace("\\", "")
    [line] = shown.splitlines()
    words = " ".join(line.split())
    return words.removeprefix(f"{HALF.destination} ").removesuffix("scope 253").strip()


class Choice(NamedTuple):
    """Default routes, a wish, and the way of our route. ib0 has no carrier."""

    commands: list[str]
    wish: StaticRoute
    way: str


def appended(*routes: str) -> list[str]:
    """The commands that add these routes, each behind those with the same key."""
    return [f"route append {route}" for route in routes]


CHOICES = {
    "not of another table": Choice(
        [
            *appended(f"default {ETH0}", "default dev wg0 table 100"),
            "rule add pref 50 lookup 100",
        ],
        wish=HALF,
        way=ETH0,
    ),
    "none, and a dev": Choice(appended("default dev wg0 table 51820"), wish=BY_WG0, way="dev wg0"),
    "not for some packets": Choice(
        appended(f"default {ETH0}", "default dev wg0 tos 4"), wish=HALF, way=ETH0
    ),
    "not a refusal": Choice(
        appended("unreachable default", f"default {ETH0} metric 9"), wish=HALF, way=ETH0
    ),
    "not one of ours, which goes": Choice(
        appended("default via 10.0.0.9 dev eth0 proto 213", f"default {ETH0} metric 9"),
        wish=HALF,
        way=ETH0,
    ),
    "none, and all is configured": Choice(
        appended("10.9.0.0/24 dev wg0"),
        wish=static(HALF.destination, "10.9.0.1", "wg0"),
        way="via 10.9.0.1 dev wg0",
    ),
    "not without a carrier": Choice(
        appended("default dev ib0 metric 9", f"default {ETH0} metric 9"), wish=HALF, way=ETH0
    ),
    "not the next hop without a carrier": Choice(
        appended(f"default nexthop {ETH0} nexthop dev ib0"), wish=HALF, way=ETH0
    ),
    "a group of nexthop objects": Choice(
        appended("default nhid 10"),
        wish=HALF,
        way=f"nexthop {ETH0} weight 4 nexthop via 10.0.0.2 dev eth0 weight 7",
    ),
    "equal next hops": Choice(
        appended(f"default nexthop {ETH0} onlink nexthop {ETH0} onlink"),
        wish=static(HALF.destination, "10.0.0.1"),
        way=f"{ETH0} onlink",
    ),
    "the next hop by the named device": Choice(
        appended(f"default nexthop {ETH0} nexthop via 10.0.0.1 dev eth1 onlink"),
        wish=static(HALF.destination, "10.0.0.1", "eth1"),
        way="via 10.0.0.1 dev eth1 onlink",
    ),
    "an IPv6 gateway": Choice(
        appended("0.0.0.0/0 via inet6 fe80::1 dev eth0"),
        wish=HALF,
        way="via inet6 fe80::1 dev eth0",
    ),
    "the next hop whose device reaches the gateway": Choice(
        appended("10.1.0.0/24 dev eth1", f"default nexthop {ETH0} nexthop via 10.1.0.1 dev eth1"),
        wish=static(HALF.destination, "10.1.0.7"),
        way="via 10.1.0.7 dev eth1",
    ),
}


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
        come = f"flock -n {tmp_path}/run/hostrouting/routes ip route add default via 10.0.0.1"
        tools = {"sleep": f"{come}; exec sleep 0.1"}
        ran = Ran(namespace, many, tmp_path, wait=60, tools=tools)
        assert ran.status == 0
        assert len(ours(namespace)) == 49
        (line,) = ran.lines
        assert line == (
            "<6>static-routes: waiting (N of 60 s): "
            "ROUTE-WAITS: 10.1.0.0/16 needs an IPv4 default route; "
            "last seen: [default via 10.0.0.9 dev eth0 table 100 proto 77]"
        )

    def test_given_up(self, namespace: Namespace, tmp_path: Path) -> None:
        """Each route says what it waited for; nothing of the other family or of another device is
        changed either.
        """
        namespace.batch([ROUTER, "route del default", "link set wg0 down"])
        wanted = [HALF, IN_IPV6, static("10.1.0.0/16", dev="wg0"), static("10.2.0.0/16", dev="ib0")]
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
        assert ran.status == 1
        assert ours(namespace) == []
        assert ours(namespace, IPV6) == []
        naps = len((tmp_path / "naps").read_text())
        assert naps in {1, 2}, "the wait is in seconds, not in looks"

    def test_how_long_a_default_route_lasts(self, namespace: Namespace, tmp_path: Path) -> None:
        """That is not said: the guard would log a new line each second."""
        namespace.batch([ROUTER])
        [line] = Ran(namespace, [static(IN_IPV6.destination, dev="ib0")], tmp_path).lines
        assert "; last seen: [default via fe80::1 dev eth0 proto ra " in line
        assert not re.search(" expires [0-9]", line)

    def test_told_to_stop(self, namespace: Namespace, tmp_path: Path) -> None:
        """A run that is stopped says what it waited for, and ends at once."""
        namespace.batch(["route del default"])
        naps = tmp_path / "naps"
        command = words(HALVES[:1], tmp_path, wait=60, tools={"sleep": leaving_word(naps, "sleep")})
        run = subprocess.Popen([*namespace.enter, *command], stderr=subprocess.PIPE, text=True)
        wait_for("the script to nap", lambda: naps.exists() and naps.stat().st_size > 0)
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
        assert ran.lines == []
        assert ran.status == 0
        assert len(ours(namespace)) == 2
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
        assert ran.lines == []
        assert ran.status == 0
        assert len(ours(namespace)) == 2

    def test_infiniband(self, namespace: Namespace, tmp_path: Path) -> None:
        """It is known by the type of the device, however that is listed, and has to be named; so
        are dead ends.
        """
        namespace.batch(
            [
                "route del default",
                "route add default via 10.0.0.1 dev eth0 metric 100",
                "route add default dev ib0 metric 9",
            ]
        )
        types = [rf"s,(: ib0[@:].* link/)\[1\],\1{word}," for word in ("[32]", "infiniband")]
        kinds = [rf"s,(: ib0[@:].*\\ +)veth,\1{kind}," for kind in ("dummy", "ifb", "vrf")]
        for edit in (*types, *kinds):
            assert Ran(namespace, [HALF], tmp_path, tools=listing_links(edit)).status == 0
            [route] = namespace.ip("route", "show", "172.16.0.0/17").stdout.splitlines()
            assert route.startswith("172.16.0.0/17 via 10.0.0.1 dev eth0 ")
            namespace.batch(["route del 172.16.0.0/17"])

    @pytest.mark.parametrize("name", CHOICES)
    def test_which_default_route(self, namespace: Namespace, tmp_path: Path, name: str) -> None:
        """Not one of another table, for some packets, or whose device has no carrier; with all or
        some of its next hops. Python has the same.
        """
        choice = CHOICES[name]
        namespace.batch(["route del default", *NEXTHOP_OBJECTS, *choice.commands])
        lose_carriers(namespace, ["ib0"])

        ran = Ran(namespace, [choice.wish], tmp_path)

        assert ran.lines == []
        [first_change] = ran.first_changes
        assert first_change.endswith(f" {choice.way}"), "it is not written twice"
        assert way_of_ours(namespace) == choice.way
        assert [step.action for step in planned(namespace, choice.wish).steps] == ["keep"]

    def test_which_in_ipv6(self, namespace: Namespace, tmp_path: Path) -> None:
        """Not one that has expired; of two with the same metric, the one
        that its router prefers.
        """
        expired = "via fe80::9 dev eth1 metric 5 expires 0"
        low = "dev wg0 metric 7 pref low"
        medium = "via fe80::8 dev eth1 metric 7"
        high = "dev eth0 metric 7 pref high"
        namespace.batch(f"route append ::/0 {way}" for way in (expired, low, medium, high))

        assert Ran(namespace, [IN_IPV6], tmp_path).lines == []
        assert way_of_ours_in_ipv6(namespace) == "dev eth0"

        namespace.batch([f"route del ::/0 {high}"])
        assert Ran(namespace, [IN_IPV6], tmp_path).lines == []
        assert way_of_ours_in_ipv6(namespace) == "via fe80::8 dev eth1"

    def test_weights_in_ipv6(self, namespace: Namespace, tmp_path: Path) -> None:
        """Each next hop is added alone, with its weight. Python has the same."""
        hops = f"nexthop {IPV6_BY_ETH0} weight 2 nexthop via fe80::2 dev eth0 weight 5"
        namespace.batch([f"route add ::/0 {hops}"])
        assert Ran(namespace, [IN_IPV6], tmp_path).lines == []
        shown = namespace.ip("-6", "route", "show", str(IN_IPV6.destination)).stdout
        assert sorted(re.findall("weight ([0-9])", shown)) == ["2", "5"]
        assert {step.action for step in planned(namespace, IN_IPV6).steps} == {"keep"}

    FOR_SOME_SOURCES = "route append ::/0 from fd55::/64"
    """A default route that leads only packets with such a source. In IPv4, Linux has no such
    routes: it drops `from`.
    """

    @pytest.mark.parametrize(
        "way",
        [
            pytest.param("via fe80::7 dev eth1 metric 50", id="better"),
            pytest.param("via fe80::7 dev eth1 metric 90", id="as good"),
            pytest.param("dev wg0 metric 50", id="of a tunnel"),
        ],
    )
    def test_not_one_for_some_sources(self, namespace: Namespace, tmp_path: Path, way: str) -> None:
        """Nothing is taken from it, and it raises no doubt. Python has the same."""
        usual = f"route append ::/0 {IPV6_BY_ETH0} metric 90"
        namespace.batch([usual, f"{self.FOR_SOME_SOURCES} {way}"])
        assert planned(namespace, IN_IPV6).waiting == ()
        assert Ran(namespace, [IN_IPV6], tmp_path).lines == []
        assert way_of_ours_in_ipv6(namespace) == IPV6_BY_ETH0

    def test_the_only_one_of_the_named_device_is_for_some_sources(
        self, namespace: Namespace, tmp_path: Path
    ) -> None:
        """The route waits, in the words of Python. Nothing is said of that default route."""
        usual = f"route append ::/0 {IPV6_BY_ETH0} metric 90"
        namespace.batch([usual, f"{self.FOR_SOME_SOURCES} via fe80::7 dev eth1 metric 50"])
        wish = static(IN_IPV6.destination, dev="eth1")
        [waiting] = planned(namespace, wish).waiting
        [line] = Ran(namespace, [wish], tmp_path).lines
        assert line.startswith(f"<3>static-routes: ROUTE-WAITS: {waiting}; last seen: ")
        assert " from fd55::/64 " not in line
        assert way_of_ours_in_ipv6(namespace) == ""

    def test_two_routers_that_advertise_themselves(
        self, namespace: Namespace, tmp_path: Path
    ) -> None:
        """Linux lists them as one route, and they are in doubt like two. Python has the same."""
        for way in (IPV6_BY_ETH0, "via fe80::2 dev eth1"):
            namespace.batch([f"route append ::/0 {way} proto ra"])
        [waiting] = planned(namespace, IN_IPV6).waiting
        assert 'write "dev": "eth0" or "eth1" into' in str(waiting.missing.remedy)
        [line] = Ran(namespace, [IN_IPV6], tmp_path).lines
        assert 'write "dev": "eth0" or "eth1" into' in line

    def test_other_names_of_a_device(self, namespace: Namespace, tmp_path: Path) -> None:
        """A device that has more names, even words of `ip` itself, is known by its own only."""
        for name in ("group", "UP", "inet", "altname"):
            named = namespace.ip("link", "property", "add", "dev", "eth0", "altname", name)
            assert named.returncode == 0
        [line] = Ran(namespace, [HALF, static("10.2.0.0/16", dev="inet")], tmp_path).lines
        need = "needs the device inet, which this host does not have (an altname does not count)"
        assert line == f"<3>static-routes: ROUTE-WAITS: 10.2.0.0/16 dev inet {need}"
        assert Ran(namespace, HALVES, tmp_path).status == 0


def way_of_ours_in_ipv6(namespace: Namespace) -> str:
    """The next hop of our IPv6 route; empty if it is not there."""
    for line in namespace.ip("-6", "route", "show", str(IN_IPV6.destination)).stdout.splitlines():
        way, _, _ = line.partition(" proto 213")
        return way.removeprefix(f"{IN_IPV6.destination} ")
    return ""


VPN = ["tuntap add dev tun0 mode tun", "address add 10.8.0.2/24 dev tun0", "link set tun0 up"]
OF_VPN = "route add default via 10.8.0.1 dev tun0"


FIRST_BY_ETH1 = [
    "route del default",
    "route add default via 10.1.0.1 dev eth1 onlink",
    f"route append default {ETH0}",
]
"""Of two equal default routes, the first one is by eth1."""


class Gone(NamedTuple):
    """What happens to the default route, and whether one by eth0 is there afterwards."""

    commands: list[str]
    leaves_one_by_eth0: bool


GONE = {
    "a router says good-bye": Gone(["route del default"], leaves_one_by_eth0=False),
    "a VPN hides the default route": Gone(
        ["route del default", f"route add default {ETH0} metric 100", OF_VPN],
        leaves_one_by_eth0=True,
    ),
    "a VPN deletes the default route": Gone(
        ["route del default", OF_VPN], leaves_one_by_eth0=False
    ),
    "another DHCP client has an equal one": Gone(
        ["route append default via 10.1.0.1 dev eth1 onlink"], leaves_one_by_eth0=True
    ),
    "another DHCP client has the first one": Gone(FIRST_BY_ETH1, leaves_one_by_eth0=True),
}
HIDDEN_BY_A_VPN = GONE["a VPN hides the default route"].commands
DELETED_BY_A_VPN = GONE["a VPN deletes the default route"].commands
MOVED = "route add 172.16.0.0/17 via 10.8.0.1 dev tun0 proto 213"
"""Our route, as another program has moved it into the tunnel."""


def set_before_it_goes(
    wanted: list[StaticRoute], namespace: Namespace, directory: Path, gone: Gone
) -> None:
    """Set these routes, and then let the default route go."""
    namespace.batch(VPN)
    assert Ran(namespace, wanted, directory).status == 0
    namespace.batch(gone.commands)


class TestWhenTheDefaultRouteGoes:
    """While the default route is missing or in doubt, our routes stay, and are right."""

    @pytest.mark.needs("/dev/net/tun")
    @pytest.mark.parametrize("named", [None, "eth0"])
    @pytest.mark.parametrize("gone", GONE.values(), ids=GONE)
    def test_our_routes_stay(
        self, namespace: Namespace, tmp_path: Path, gone: Gone, named: str | None
    ) -> None:
        """At once, with their device and gateway."""
        wanted = [static(half.destination, dev=named) for half in HALVES]
        set_before_it_goes(wanted, namespace, tmp_path, gone)

        plan = planned(namespace, *wanted)
        ran = Ran(namespace, wanted, tmp_path, wait=60)

        assert [step.action for step in plan.steps] == ["keep", "keep"]
        assert ran.lines == []
        assert ran.status == 0
        assert ran.changes == []
        assert [route.way for route in our_routes(namespace)] == [ETH0, ETH0]

    @pytest.mark.needs("/dev/net/tun")
    @pytest.mark.parametrize("named", [None, "eth0"])
    @pytest.mark.parametrize("gone", GONE.values(), ids=GONE)
    def test_what_would_wait_after_a_reboot(
        self, namespace: Namespace, tmp_path: Path, gone: Gone, named: str | None
    ) -> None:
        """Script and Python say the same: the routes, unless they name eth0 and it has a default
        route.
        """
        wanted = [static(half.destination, dev=named) for half in HALVES]
        set_before_it_goes(wanted, namespace, tmp_path, gone)

        warnings = planned(namespace, *wanted).warnings
        stays = Ran(namespace, wanted, tmp_path, wait=60).stays

        would_be_set = named == "eth0" and gone.leaves_one_by_eth0
        assert len(warnings) == (0 if would_be_set else 1)
        assert [re.sub(" linkdown| proto boot", "", line) for line in stays] == [
            str(finding).replace(" proto boot", "") for finding in warnings
        ]

    @pytest.mark.needs("/dev/net/tun")
    @pytest.mark.parametrize("gone", GONE.values(), ids=GONE)
    def test_what_is_not_wanted_any_more_goes(
        self, namespace: Namespace, tmp_path: Path, gone: Gone
    ) -> None:
        """Without a default route, too."""
        set_before_it_goes([HALF, static("10.3.0.0/16")], namespace, tmp_path, gone)

        plan = planned(namespace, HALF)
        ran = Ran(namespace, [HALF], tmp_path, wait=60)

        assert [step.action for step in plan.steps] == ["keep", "delete"]
        assert ran.changes == [1]
        assert ours(namespace) == ["172.16.0.0/17"]

    @pytest.mark.needs("/dev/net/tun")
    @pytest.mark.parametrize("gateway", [None, "10.0.0.1"])
    def test_what_is_not_there_waits(
        self, namespace: Namespace, tmp_path: Path, gateway: str | None
    ) -> None:
        """It follows no VPN, and the line says what can be named, as Python does."""
        namespace.batch([*VPN, *HIDDEN_BY_A_VPN])
        wish = static(HALF.destination, gateway)
        reason = "[default via 10.8.0.1 dev tun0 proto boot] leads through a tunnel"
        need = f"needs a device to be named: {reason}"
        remedy = (
            'write "dev": "tun0" or "eth0" into the configured route, or name one device in '
            "routeOverlap.expectedDevs"
        )
        said = Ran(namespace, [wish], tmp_path).said.strip().replace(" linkdown]", "]")
        assert said.endswith(f"{need}; {remedy}")
        [finding] = planned(namespace, wish).findings()
        assert finding.sentence.endswith(need)
        assert str(finding.remedy) == remedy

    @pytest.mark.parametrize(
        ("devs", "named"),
        [
            (["eth0", "eth1", "ib0"], '"eth0", "eth1" or "ib0"'),
            (["eth0", "eth1", "ib0", "wg0", "d1"], '"eth0", "eth1", "ib0", "wg0" or 1 more'),
        ],
        ids=["three", "more than four"],
    )
    def test_the_devices_that_can_be_named(
        self, namespace: Namespace, tmp_path: Path, devs: list[str], named: str
    ) -> None:
        """They are listed as `hostrouting` lists them."""
        defaults = [f"route append default dev {dev}" for dev in devs]
        namespace.batch(["link add d1 type veth", "link set d1 up", "route del default", *defaults])
        [waiting] = planned(namespace, HALF).waiting
        assert f'write "dev": {named} into' in str(waiting.missing.remedy)
        [line] = Ran(namespace, [HALF], tmp_path).lines
        assert f'write "dev": {named} into' in line

    @pytest.mark.needs("/dev/net/tun")
    def test_the_devices_of_two_vpns_can_be_named(
        self, namespace: Namespace, tmp_path: Path
    ) -> None:
        """Both tunnels, because their default routes are equal, and the card that they hide."""
        second = ["tuntap add dev tun1 mode tun", "link set tun1 up"]
        namespace.batch([*VPN, *second, *HIDDEN_BY_A_VPN, "route append default dev tun1"])
        named = '"tun0", "tun1" or "eth0"'
        [waiting] = planned(namespace, HALF).waiting
        assert f'write "dev": {named} into' in str(waiting.missing.remedy)
        [line] = Ran(namespace, [HALF], tmp_path).lines
        assert f'write "dev": {named} into' in line

    @pytest.mark.needs("/dev/net/tun")
    @pytest.mark.parametrize(("dev", "way"), [("eth0", ETH0), ("tun0", "via 10.8.0.1 dev tun0")])
    def test_a_device_that_is_named_is_taken(
        self, namespace: Namespace, tmp_path: Path, dev: str, way: str
    ) -> None:
        """Whether it is the card's or the tunnel's."""
        namespace.batch([*VPN, *HIDDEN_BY_A_VPN])
        assert Ran(namespace, [static(HALF.destination, dev=dev)], tmp_path).lines == []
        [route] = our_routes(namespace)
        assert route.way.replace(" linkdown", "") == way

    def test_one_expected_device_settles_it(self, namespace: Namespace, tmp_path: Path) -> None:
        """Of two equal default routes, that of the device is used, also after a reboot."""
        namespace.batch(FIRST_BY_ETH1)
        assert Ran(namespace, HALVES, tmp_path).status == 1
        for second in ("eth1", "late0"):  # one that is not there now may have it later
            assert Ran(namespace, HALVES, tmp_path, expected=["eth0", second]).status == 1
        # A device that leads nowhere is none of several.
        namespace.batch(["link add ifb7 type ifb"])
        for expected in (["eth0"], ["eth1"], ["eth0", "ifb7"]):
            assert Ran(namespace, HALVES, tmp_path, expected=expected).lines == []
            devs = {route.devs for route in our_routes(namespace)}
            assert devs == {(expected[0],)}
        namespace.batch(["route del default dev eth0"])
        assert Ran(namespace, HALVES, tmp_path, expected=["eth0"]).lines == []

    def test_the_default_route_of_the_expected_device_is_in_another_table(
        self, namespace: Namespace, tmp_path: Path
    ) -> None:
        """That is not the way of this host."""
        namespace.batch([*FIRST_BY_ETH1, "route add default dev wg0 table 100"])
        [line, _] = Ran(namespace, HALVES, tmp_path, expected=["wg0"]).lines
        assert "ROUTE-WAITS: 172.16.0.0/17 needs an IPv4 default route on wg0; " in line

    def test_a_line_of_a_provider(self, namespace: Namespace, tmp_path: Path) -> None:
        """A modem's line may have the only default route, although a card has an address."""
        namespace.batch(["route del default", "route add default dev wg0"])
        tools = listing_links(r"s,(: wg0[@:].*\\ +)veth,\1ppp,")
        assert Ran(namespace, [HALF], tmp_path, tools=tools).lines == []
        [route] = our_routes(namespace)
        assert route.devs == ("wg0",)

    def test_a_line_beside_infiniband(self, namespace: Namespace, tmp_path: Path) -> None:
        """It hides no default route that counts, so it is the only uplink."""
        fabric = "route append default dev ib0 metric 100"
        namespace.batch(["route del default", "route add default dev wg0", fabric])
        line = r"s,(: wg0[@:].*\\ +)veth,\1ppp,"
        tools = listing_links(rf"{line}; s,(: ib0[@:].* link/)\[1\],\1[32],")
        assert Ran(namespace, [HALF], tmp_path, tools=tools).lines == []
        [route] = our_routes(namespace)
        assert route.devs == ("wg0",)

    def test_a_line_beside_a_card(self, namespace: Namespace, tmp_path: Path) -> None:
        """Where it hides the default route of a card, it can be a VPN, and is not followed."""
        card = f"route append default {ETH0} metric 100"
        namespace.batch(["route del default", "route add default dev wg0", card])
        tools = listing_links(r"s,(: wg0[@:].*\\ +)veth,\1ppp,")
        ran = Ran(namespace, [HALF], tmp_path, tools=tools)
        [line] = ran.lines
        assert 'write "dev": "wg0" or "eth0" into' in line
        assert ours(namespace) == []

    def test_a_line_beside_a_card_of_another_table(
        self, namespace: Namespace, tmp_path: Path
    ) -> None:
        """It hides nothing: that default route is for the packets of the card's own address."""
        card = f"route add default {ETH0} table 100"
        namespace.batch(["route del default", "route add default dev wg0", card])
        tools = listing_links(r"s,(: wg0[@:].*\\ +)veth,\1ppp,")
        assert Ran(namespace, [HALF], tmp_path, tools=tools).lines == []
        [route] = our_routes(namespace)
        assert route.devs == ("wg0",)

    def test_a_named_device_beside_an_expected_one(
        self, namespace: Namespace, tmp_path: Path
    ) -> None:
        """Ours by the named device stays while its default route is missing, whichever device is
        expected of those with equal default routes.
        """
        equal = ["route add default dev eth1", "route append default dev wg0"]
        there = f"route add {HALF.destination} {ETH0} proto 213"
        namespace.batch(["route del default", *equal, there])
        wish = static(HALF.destination, dev="eth0")
        ran = Ran(namespace, [wish], tmp_path, expected=["eth1"])
        assert ran.lines == []
        assert len(ran.stays) == 1
        assert way_of_ours(namespace) == ETH0

    def test_what_was_moved_into_infiniband_waits(
        self, namespace: Namespace, tmp_path: Path
    ) -> None:
        """No default route by it counts, so it is not right without a dev, and stays as it is."""
        namespace.batch(["route del default", "route add 172.16.0.0/17 dev ib0 proto 213"])
        tools = listing_links(r"s,(: ib0[@:].* link/)\[1\],\1[32],")
        [line] = Ran(namespace, [HALF], tmp_path, tools=tools).lines
        assert line.startswith("<3>static-routes: ROUTE-WAITS: 172.16.0.0/17 needs ")
        assert ours(namespace) == ["172.16.0.0/17"]

    @pytest.mark.parametrize(
        "unusable",
        [
            pytest.param(f"{IN_PLACE} nexthop {ETH0} nexthop dev eth1", id="half of it is down"),
            pytest.param(f"local {IN_PLACE} dev eth0 table main", id="another type"),
        ],
    )
    def test_what_is_not_usable_waits(
        self, namespace: Namespace, tmp_path: Path, unusable: str
    ) -> None:
        """It is not right without a default route, and stays as it is. Python has the same."""
        there = f"route add {unusable}"
        namespace.batch(["route del default", there, "link set eth1 down"])
        [waiting] = planned(namespace, HALF).waiting
        [line] = Ran(namespace, [HALF], tmp_path).lines
        assert line == f"<3>static-routes: ROUTE-WAITS: {waiting}; last seen: none"
        assert ours(namespace) == [str(HALF.destination)]

    @pytest.mark.needs("/dev/net/tun")
    def test_what_was_moved_into_a_tunnel_waits(self, namespace: Namespace, tmp_path: Path) -> None:
        """It is not right without a dev, and stays as it is meanwhile."""
        namespace.batch([*VPN, *DELETED_BY_A_VPN, MOVED])
        line = Ran(namespace, [HALF], tmp_path).said
        assert line.startswith("<3>static-routes: ROUTE-WAITS: 172.16.0.0/17 needs ")
        assert "tun0" in line
        assert ours(namespace) == ["172.16.0.0/17"]
        plan = planned(namespace, HALF)
        assert len(plan.waiting) == 1
        assert plan.steps == ()

    @pytest.mark.needs("/dev/net/tun")
    def test_what_was_moved_into_a_tunnel_is_moved_back(
        self, namespace: Namespace, tmp_path: Path
    ) -> None:
        """It waits for a default route, and then leaves the tunnel."""
        namespace.batch([*VPN, "route del default", MOVED])
        assert Ran(namespace, [HALF], tmp_path).status == 1
        namespace.batch(["route add default via 10.1.0.1 dev eth1 onlink"])
        assert Ran(namespace, [HALF], tmp_path).lines == []
        [route] = our_routes(namespace)
        assert route.devs == ("eth1",)

    @pytest.mark.needs("/dev/net/tun")
    @pytest.mark.parametrize("default", [OF_VPN, "route add default via 10.1.0.1 dev eth1 onlink"])
    def test_a_route_in_a_tunnel_that_is_named(
        self, namespace: Namespace, tmp_path: Path, default: str
    ) -> None:
        """With the name of the tunnel, it is right there."""
        named = static(HALF.destination, dev="tun0", gateway="10.8.0.1")
        namespace.batch([*VPN, "route del default", default, MOVED])
        assert Ran(namespace, [named], tmp_path).changes == []

    @pytest.mark.needs("/dev/net/tun")
    @pytest.mark.parametrize(
        ("mode", "port", "is_in_doubt"),
        [
            ("tap", "vxlan id 5 dstport 4789", True),
            ("tap", "veth", False),
            ("tun", "veth", True),
        ],
    )
    def test_a_tap_beside_a_bridge(
        self, namespace: Namespace, tmp_path: Path, mode: str, port: str, *, is_in_doubt: bool
    ) -> None:
        """A tap with the only default route may be the way out, unless a bridge with a card has an
        address; a tun may always be that of a VPN.
        """
        devices = ("eth0", "eth1", "ib0", "wg0")
        namespace.batch(
            [
                *(f"address flush dev {dev}" for dev in devices),
                f"tuntap add dev tap0 mode {mode}",
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
        plan = planned(namespace, HALF)
        assert bool(plan.waiting) is is_in_doubt
        assert Ran(namespace, [HALF], tmp_path).status == is_in_doubt

    @pytest.mark.needs("/dev/net/tun")
    @pytest.mark.parametrize(
        "command",
        [
            "route add local ::/0 from fd00:16::/124 via fe80::1 dev eth1 onlink",
            "address add fe80::7/64 dev eth1 nodad",
        ],
    )
    def test_a_tap_beside_a_card(self, namespace: Namespace, tmp_path: Path, command: str) -> None:
        """Neither a local route with a gateway nor a link-local address says that the card has an
        address.
        """
        namespace.batch(
            [
                *(f"address flush dev {dev}" for dev in ("eth0", "eth1", "ib0", "wg0")),
                "tuntap add dev tap0 mode tap",
                "address add fd00:99::2/64 dev tap0 nodad",
                "link set tap0 up",
                command,
                "route add default via fe80::1 dev tap0",
            ]
        )
        half = static("fd00:17::/125")
        assert not planned(namespace, half).waiting
        assert Ran(namespace, [half], tmp_path).lines == []
