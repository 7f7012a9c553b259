"""static-routes.sh beside routes of other programs that have the key (destination and metric) of a
wanted one: they are named, and never changed.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from hostrouting.config.settings import StaticRoute
from hostrouting.finding import Remedy
from hostrouting.model.prefix import IPV6, Prefix
from hostrouting.model.route import Route, deletion_command
from hostrouting.routes.steps import Step
from tests.support.awks import AWKS
from tests.support.namespace import Namespace
from tests.support.routes_script import (
    HALF,
    HALVES,
    IS_WRITING,
    ROUTER,
    Ran,
    events,
    listed,
    ours,
    planned,
)
from tests.support.sections import static

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

THEN = "then: systemctl restart kubelet.service"
NOTHING_DONE = "no route was set or deleted, because all are set or none"


def remedy_of(step: Step) -> Remedy:
    """How the operator ends this conflict."""
    assert step.remedy is not None
    return step.remedy


def conflict_lines(conflicts: Iterable[Step]) -> list[str]:
    """What the script says of the conflicts of a plan: the fact, and each way out. It knows the
    command that applies the configuration of this host.
    """
    apply = "hostrouting apply --config /etc/hostrouting/config.json"
    lines: list[str] = []
    for step in conflicts:
        *edits, delete = remedy_of(step).ways()
        place = step.route.prefix
        lines.append(f"ROUTE-CONFLICT: {step.finding.sentence}")
        for edit in edits:
            words = edit.words.removesuffix("; then apply the configuration")
            lines.append(f"{place}: option A: {words}; then, as root: {apply}")
        option = "option B" if edits else "the only option"
        lines.append(f"{place}: {option}: {delete}; {THEN}")
    lines.append(NOTHING_DONE)
    return [f"<3>static-routes: {line}" for line in lines]


def deletion_in(option: str) -> str:
    """The command in the line with the option to delete another program's route."""
    _, _, command = option.partition("as root: ")
    command, _, then = command.partition("; ")
    assert then == THEN
    return command


def type_commands(namespace: Namespace, commands: str) -> None:
    """Type a line of `ip` commands that was printed."""
    namespace.batch(
        command.removeprefix("ip ").removeprefix("-6 ") for command in commands.split(" && ")
    )


def require_success(namespace: Namespace, wanted: Iterable[StaticRoute], tmp_path: Path) -> None:
    """The script sets the routes, and has nothing to say."""
    ran = Ran(namespace, wanted, tmp_path)
    assert ran.lines == []
    assert ran.status == 0


def meddling_ip(tmp_path: Path, command: str) -> str:
    """An `ip` that runs this command once, before the script first changes routes."""
    is_done = tmp_path / "done"
    return f"""\
if {IS_WRITING} && [[ ! -e {is_done} ]]; then
    : >{is_done}
    {command}
fi
exec ip "$@"
"""


@pytest.mark.parametrize("awk", AWKS)
def test_named(namespace: Namespace, tmp_path: Path, awk: str) -> None:
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
        static("10.8.0.0/17"),  # so the halves of the route before it are not proposed
        static("10.7.0.0/16"),
    ]
    ran = Ran(namespace, wanted, tmp_path, awk=awk, wait=60)
    conflicts = planned(namespace, *wanted).conflicts
    assert len(conflicts) == 3
    assert ran.lines == conflict_lines(conflicts)
    assert ran.status == 1
    assert listed(namespace) == before
    for step in conflicts:
        *_, deletion = remedy_of(step).ways()
        type_commands(namespace, deletion.command)
    ran = Ran(namespace, wanted, tmp_path, awk=awk)
    assert ran.lines == []
    assert ran.status == 0


@pytest.mark.parametrize("awk", AWKS)
def test_single_addresses(namespace: Namespace, tmp_path: Path, awk: str) -> None:
    """They have no halves: gawk 5.2.1 must not be asked for what was never set."""
    places = ["10.7.0.1/32", "10.8.0.0/16", "10.9.0.1/32"]
    namespace.batch([f"route add {place} dev ib0" for place in places])
    ran = Ran(namespace, map(static, places), tmp_path, awk=awk)
    conflicts = [line for line in ran.lines if "ROUTE-CONFLICT: " in line]
    assert [line.split()[2] for line in conflicts] == places
    assert ran.lines[-1].endswith(NOTHING_DONE)


@pytest.mark.parametrize("half", ["10.7.0.0/17", "10.7.128.0/17"])
def test_a_half_that_is_held(namespace: Namespace, tmp_path: Path, half: str) -> None:
    """Halves are proposed only if both can be installed: no option leads to the next conflict."""
    namespace.batch([f"route add {place} dev ib0" for place in ("10.7.0.0/16", half)])
    wanted = [static("10.7.0.0/16")]
    ran = Ran(namespace, wanted, tmp_path)
    plan = planned(namespace, *wanted)
    assert ran.lines == conflict_lines(plan.conflicts)
    _, options, _ = ran.lines
    assert options.startswith(
        "<3>static-routes: 10.7.0.0/16: the only option: if nothing needs that route, delete it"
    )


def test_two_routes_in_one_place(namespace: Namespace, tmp_path: Path) -> None:
    """All routes of other programs with the key of a configured one are named, with a command
    for each: so one start tells all.
    """
    held = ["dev ib0 proto static scope link", "via 10.0.0.9 dev eth0 proto bird"]
    namespace.batch([f"route append 10.7.0.0/16 {route}" for route in held])
    ran = Ran(namespace, [static("10.7.0.0/16")], tmp_path)
    plan = planned(namespace, static("10.7.0.0/16"))
    assert ran.lines == conflict_lines(plan.conflicts)
    conflict, *_, option, _ = ran.lines
    for route in held:
        assert f"[10.7.0.0/16 {route}]" in conflict
    commands = deletion_in(option)
    assert commands.count(" && ") == 1
    type_commands(namespace, commands)
    require_success(namespace, [static("10.7.0.0/16")], tmp_path)


@pytest.mark.parametrize("awk", AWKS)
def test_a_name_that_a_shell_would_run(namespace: Namespace, tmp_path: Path, awk: str) -> None:
    """What is proposed is quoted for a shell: Linux permits all but slashes, colons and blanks
    in the name of a device.
    """
    names = ["$(reboot)", "a'b;c", "d&e"]
    for at, name in enumerate(names):
        made = f"link add {name} type veth peer name other{at}"
        namespace.batch([made, f"link set other{at} up", f"link set {name} up"])
        namespace.batch([f"route append 10.7.0.0/16 dev {name}"])
    ran = Ran(namespace, [static("10.7.0.0/16")], tmp_path, awk=awk)
    assert ran.lines == conflict_lines(planned(namespace, static("10.7.0.0/16")).conflicts)


@pytest.mark.parametrize("name", ["a#b", '"a"', "'a'", "a\\"])
@pytest.mark.parametrize("awk", AWKS)
def test_a_name_that_ip_would_misread(
    namespace: Namespace, tmp_path: Path, awk: str, name: str
) -> None:
    """`ip -batch` would take these for the device a, or read no further: nothing is written."""
    for at, dev in enumerate([name, "a"]):
        namespace.ip("link", "add", dev, "type", "veth", "peer", "name", f"other{at}")
        for end in (f"other{at}", dev):
            # Else a route of its link-local address comes in the middle of the test.
            namespace.ip("link", "set", end, "addrgenmode", "none")
            namespace.ip("link", "set", end, "up")
    namespace.ip("route", "replace", "default", "dev", name)
    for dev in (name, "a"):
        namespace.ip("route", "append", "10.5.0.0/16", "proto", "213", "dev", dev)
    before = listed(namespace)
    ran = Ran(namespace, [HALF], tmp_path, awk=awk)
    assert listed(namespace) == before
    head = "<3>static-routes: ip would misread the name of the device in this command"
    advice = f"<3>static-routes: rename the device; {THEN}"
    assert ran.lines == [
        f"{head}: route add 172.16.0.0/17 proto 213 metric 0 scope 253 dev {name}",
        advice,
        f"{head}: route del 10.5.0.0/16 proto 213 metric 0 scope 253 nexthop dev {name}",
        advice,
        f"<3>static-routes: {NOTHING_DONE}",
    ]
    assert ran.status == 1


def test_a_holder_with_two_next_hops(namespace: Namespace, tmp_path: Path) -> None:
    """It is named once, although Linux has an entry for each."""
    for way in ("via fe80::7 dev eth0", "via fe80::8 dev eth1"):
        namespace.batch([f"route append fd00:16::/64 {way} proto 4"])
    said = Ran(namespace, [static("fd00:16::/64", "fe80::1", "eth0")], tmp_path).said
    assert said.count(" via fe80::7 ") == said.count(" ip -6 route del ") == 1


def test_a_unit_with_a_backslash(namespace: Namespace, tmp_path: Path) -> None:
    """The name of a unit is quoted, too."""
    namespace.batch(["route add 10.7.0.0/16 dev ib0"])
    ran = Ran(namespace, [static("10.7.0.0/16")], tmp_path, unit=r"a\x2db.service")
    assert r"; then: systemctl restart 'a\x2db.service'" in ran.said


def test_a_network_of_two_devices(namespace: Namespace, tmp_path: Path) -> None:
    """On a node with several rails, each has the network: all are named, and the warning too."""
    namespace.batch([f"address add 10.7.0.{dev[-1]}/16 dev {dev}" for dev in ("eth1", "ib0")])
    wanted = [static("10.7.0.0/16")]
    ran = Ran(namespace, wanted, tmp_path)
    plan = planned(namespace, *wanted)
    assert [len(step.rivals) for step in plan.conflicts] == [2]
    assert "Linux has this route from an address of eth1, ib0: " in ran.said
    assert "in 10.7.0.0/16 through eth1, ib0\n" in ran.said
    for step in plan.conflicts:
        warning, _, _ = str(remedy_of(step)).partition(";")
        assert f"10.7.0.0/16: {warning}\n" in ran.said


@pytest.mark.parametrize(
    ("place", "metric", "edit"),
    [
        pytest.param("172.16.0.9/32", 5, "another", id="a lower metric, for an address"),
        pytest.param("172.16.0.0/17", 5, "another", id="a lower metric"),
        pytest.param("fd00:16::9/128", 5, "another", id="a lower metric, IPv6"),
        pytest.param(
            "fd00:16::/64", 1, "fd00:16::/65 and fd00:16:0:0:8000::/65", id="halves, IPv6"
        ),
    ],
)
def test_what_takes_precedence(
    namespace: Namespace, tmp_path: Path, place: str, metric: int, edit: str
) -> None:
    """The configuration can have a lower metric if there is one, else halves; or the other route is
    deleted.
    """
    namespace.batch([ROUTER, f"route add {place} dev ib0 metric {metric}"])
    wanted = [static(place, metric=metric)]
    ran = Ran(namespace, wanted, tmp_path, wait=60)
    _, option_a, option_b, _ = ran.lines
    assert f"option A: write {edit} " in option_a
    type_commands(namespace, deletion_in(option_b))
    require_success(namespace, wanted, tmp_path)


@pytest.mark.parametrize(
    ("protocol", "option"),
    [
        pytest.param(213, "option A: write 10.7.0.0/17 and 10.7.128.0/17 instead", id="ours"),
        pytest.param(4, "the only option: ", id="of another program"),
    ],
)
def test_a_half_that_is_taken(
    namespace: Namespace, tmp_path: Path, protocol: int, option: str
) -> None:
    """Halves are proposed beside a route of ours to one of them, and not beside another program's,
    with which that half would be in conflict, too.
    """
    namespace.batch(
        ["route add 10.7.0.0/16 dev ib0", f"route add 10.7.0.0/17 via 10.0.0.1 proto {protocol}"]
    )
    wanted = static("10.7.0.0/16")
    ran = Ran(namespace, [wanted], tmp_path)
    assert ran.lines == conflict_lines(planned(namespace, wanted).conflicts)
    assert f"10.7.0.0/16: {option}" in ran.said


@pytest.mark.parametrize(("place", "metric"), [("172.16.0.9/32", 0), ("fd00:16::9/128", 1)])
def test_no_precedence(namespace: Namespace, tmp_path: Path, place: str, metric: int) -> None:
    """A single address has no halves: without a lower metric, the only way is to delete the other
    route.
    """
    namespace.batch([ROUTER, f"route add {place} dev ib0 metric {metric}"])
    wanted = [static(place, metric=metric)]
    ran = Ran(namespace, wanted, tmp_path, wait=60)
    _, only_option, _ = ran.lines
    assert f"{place}: the only option: " in only_option
    type_commands(namespace, deletion_in(only_option))
    require_success(namespace, wanted, tmp_path)


@pytest.mark.parametrize(("place", "metric"), [("10.0.0.0/24", 0), ("fd00:99::/64", 256)])
def test_the_network_of_an_address(
    namespace: Namespace, tmp_path: Path, place: str, metric: int
) -> None:
    """Neither way is safe where Linux has the route from an address: both say so first."""
    namespace.batch([ROUTER])
    wanted = static(place, metric=metric)
    [step] = planned(namespace, wanted).conflicts
    warning = "Linux has this route from an address of eth0"
    assert str(step.remedy).startswith(warning)
    ran = Ran(namespace, [wanted], tmp_path)
    assert ran.lines[1].startswith(f"<3>static-routes: {place}: {warning}")


@pytest.mark.parametrize(
    "held",
    [
        pytest.param("10.7.0.0/16 proto kernel nexthop dev eth1 nexthop dev ib0", id="two devices"),
        pytest.param("local 10.7.0.0/16 dev eth1 table main proto kernel", id="another type"),
        pytest.param("10.7.0.0/16 dev eth1 proto 4", id="another protocol"),
    ],
)
def test_not_the_network_of_an_address(namespace: Namespace, tmp_path: Path, held: str) -> None:
    """Linux adds no such routes: no warning of an address, here and in Python."""
    namespace.batch([f"route add {held}"])
    wanted = static("10.7.0.0/16")
    ran = Ran(namespace, [wanted], tmp_path)
    assert "from an address of" not in ran.said
    assert ran.lines == conflict_lines(planned(namespace, wanted).conflicts)


@pytest.mark.parametrize(
    ("place", "objects", "program"),
    [
        pytest.param("172.16.0.0/17", ["nexthop add id 5 via 10.0.0.9 dev eth0"], "ip", id="one"),
        pytest.param(
            "172.16.0.0/17",
            [
                "nexthop add id 6 via 10.0.0.8 dev eth0",
                "nexthop add id 7 via 10.0.0.9 dev eth0",
                "nexthop add id 5 group 6/7",
            ],
            "ip",
            id="a group",
        ),
        pytest.param("fd00:16::/64", ["nexthop add id 5 via fe80::9 dev eth0"], "ip -6", id="IPv6"),
    ],
)
def test_a_nexthop_object(
    namespace: Namespace, tmp_path: Path, place: str, objects: list[str], program: str
) -> None:
    """The printed command deletes the route, in Python as well; Linux refuses one with a dev."""
    namespace.batch([ROUTER, *objects, f"route add {place} nhid 5 proto bird"])
    wanted = [static(place)]
    [step] = planned(namespace, *wanted).conflicts
    [rival] = step.rivals
    command = deletion_command(rival)
    assert f"{program} route del" in command
    ran = Ran(namespace, wanted, tmp_path)
    assert f": {command}; {THEN}" in ran.said
    type_commands(namespace, command)
    require_success(namespace, wanted, tmp_path)


@pytest.mark.parametrize("hop", ["via 10.0.0.8", "via inet6 fe80::8"])
def test_one_of_two_routes_by_a_device(namespace: Namespace, hop: str) -> None:
    """The printed command deletes the route by its gateway, and not the first of its key."""
    first = "172.16.0.0/17 via 10.0.0.9 dev eth0 proto bird metric 7"
    second = f"172.16.0.0/17 {hop} dev eth0 proto bird metric 7"
    namespace.batch([ROUTER, f"route append {first}", f"route append {second}"])

    def held() -> list[Route]:
        routes = namespace.snapshot().routes
        return [route for route in routes if route.prefix == Prefix.parse("172.16.0.0/17")]

    before = held()
    type_commands(namespace, deletion_command(before[1]))
    assert held() == before[:1]


@pytest.mark.parametrize(
    ("program", "place", "selector"),
    [("", "172.16.0.0/17", "tos 0x10"), ("-6 ", "fd00:16::/64", "from fd00:17::/64")],
)
def test_the_route_of_some_packets(
    namespace: Namespace, program: str, place: str, selector: str
) -> None:
    """The printed command of a route for a tos, or for some sources, leaves the one for all."""
    for selectors in ("", selector):
        namespace.ip(*f"{program}route add {place} {selectors} dev eth0".split())
    routes = [route for route in namespace.snapshot().routes if str(route.prefix) == place]
    [of_some] = [route for route in routes if route.tos or route.source is not None]
    type_commands(namespace, deletion_command(of_some))
    routes.remove(of_some)
    left = [route for route in namespace.snapshot().routes if str(route.prefix) == place]
    assert left == routes


@pytest.mark.parametrize("gateway", [None, "fe80::7"])
def test_in_ipv6(namespace: Namespace, tmp_path: Path, gateway: str | None) -> None:
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


def test_a_next_hop_that_a_shell_would_run(namespace: Namespace, tmp_path: Path) -> None:
    """The device of a next hop that has joined our route is quoted for a shell."""
    made = "link add $(reboot) type veth peer name other"
    namespace.batch([made, "link set other up", "link set $(reboot) up"])
    held = ("via fe80::1 dev eth0 proto 213", "via fe80::9 dev $(reboot) proto bird")
    namespace.batch([ROUTER, *(f"route append fd00:16::/64 {hop}" for hop in held)])
    ran = Ran(namespace, [static("fd00:16::/64", dev="eth0")], tmp_path)
    typed = r"ip route del fd00:16::/64 metric 1024 via fe80::9 dev \$\(reboot\)"
    assert ran.said.endswith(f"as root: {typed}\n")


def test_a_next_hop_that_has_just_gone(namespace: Namespace, tmp_path: Path) -> None:
    """If Linux has deleted ours since it was listed, it is no other program's: a new plan shows
    it, a second later.
    """
    ours_of_old = "fd00:16::/64 via fe80::4 dev eth0 proto 213"
    namespace.batch([ROUTER, f"route add {ours_of_old}"])
    tools = {"ip": meddling_ip(tmp_path, f"ip -6 route del {ours_of_old}"), "sleep": ":"}
    ran = Ran(namespace, [HALF, static("fd00:16::/64")], tmp_path, wait=5, tools=tools)
    assert ran.status == 0, ran.said
    assert ours(namespace, IPV6) == ["fd00:16::/64"]


@pytest.mark.parametrize(
    "more",
    [["dev eth0 proto 213"], []],
    ids=["and one of ours on the link", "and no other of ours"],
)
def test_beside_an_unwanted_next_hop(namespace: Namespace, tmp_path: Path, more: list[str]) -> None:
    """Of an IPv6 route that is not wanted any more, ours goes, and that of another program
    stays.

    Linux would delete all next hops beside the first that a request without a gateway matches.
    """
    hops = ["via fe80::1 dev eth0 proto 213", "via fe80::9 dev eth0 proto bird", *more]
    namespace.batch([ROUTER, *(f"route append fd00:17::/64 metric 5 {hop}" for hop in hops)])
    for _ in range(2):
        for line in Ran(namespace, HALVES, tmp_path).lines:
            assert line.startswith("<7>")
    shown = namespace.ip("-6", "route", "show", "fd00:17::/64").stdout
    assert shown.startswith("fd00:17::/64 via fe80::9 dev eth0 proto bird")
    assert ours(namespace, IPV6) == []


OURS_BEFORE = "route add 172.16.0.0/17 via 10.0.0.7 dev eth0 proto 213"


@pytest.mark.parametrize(
    ("held", "command", "left"),
    [
        pytest.param([], "replace", [], id="in place of nothing"),
        pytest.param([], "append", [], id="behind nothing"),
        pytest.param([OURS_BEFORE], "replace", [], id="in place of ours"),
        pytest.param([OURS_BEFORE], "append", ["172.16.0.0/17"], id="behind ours"),
    ],
)
def test_somebody_takes_the_place(
    namespace: Namespace, tmp_path: Path, held: list[str], command: str, left: list[str]
) -> None:
    """A route of another program that appears in our place after the reading is not overwritten."""
    namespace.batch(held)
    theirs = "172.16.0.0/17 via 10.0.0.9 dev eth0 proto static"
    tools = {"ip": meddling_ip(tmp_path, f"ip route {command} {theirs}")}
    ran = Ran(namespace, HALVES, tmp_path, tools=tools)
    assert ran.status == 1, ran.said
    assert ours(namespace) == left
    assert theirs in namespace.ip("route").stdout
