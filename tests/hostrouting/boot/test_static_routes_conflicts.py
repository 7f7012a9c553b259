"""static-routes.sh beside routes of other programs with the key of a wanted one: they are named, and
never changed.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from hostrouting.model.prefix import IPV6, Prefix
from hostrouting.model.route import Route, deletion_command
from hostrouting.routes.plan import Step
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
            static("10.8.0.0/17"),  # so the halves of the route before it are not proposed
            static("10.7.0.0/16"),
        ]
        ran = Ran(namespace, wanted, tmp_path, awk=awk, wait=60)
        conflicts = planned(namespace, *wanted).conflicts
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
        plan = planned(namespace, *wanted)
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
        plan = planned(namespace, static("10.7.0.0/16"))
        assert ran.lines == conflict_lines(plan.conflicts)
        conflict, *_, option, _ = ran.lines
        for route in held:
            assert f"[10.7.0.0/16 {route}]" in conflict
        commands = option.partition("as root: ")[2].partition("; then")[0].split(" && ")
        assert len(commands) == 2
        namespace.batch([command.removeprefix("ip ") for command in commands])
        assert Ran(namespace, [static("10.7.0.0/16")], tmp_path).lines == []

    @pytest.mark.parametrize("awk", AWKS)
    def test_a_name_that_a_shell_would_run(
        self, namespace: Namespace, tmp_path: Path, awk: str
    ) -> None:
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
        self, namespace: Namespace, tmp_path: Path, awk: str, name: str
    ) -> None:
        """`ip -batch` would take these for the device a, or read no further: nothing is written."""
        for at, dev in enumerate([name, "a"]):
            namespace.ip("link", "add", dev, "type", "veth", "peer", "name", f"other{at}")
            namespace.ip("link", "set", f"other{at}", "up")
            namespace.ip("link", "set", dev, "up")
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

    def test_a_unit_with_a_backslash(self, namespace: Namespace, tmp_path: Path) -> None:
        """The name of a unit is quoted, too."""
        namespace.batch(["route add 10.7.0.0/16 dev ib0"])
        ran = Ran(namespace, [static("10.7.0.0/16")], tmp_path, unit=r"a\x2db.service")
        assert r"; then: systemctl restart 'a\x2db.service'" in ran.said

    def test_a_network_of_two_devices(self, namespace: Namespace, tmp_path: Path) -> None:
        """On a node with several rails, each has the network: all are named, and the warning too."""
        namespace.batch([f"address add 10.7.0.{dev[-1]}/16 dev {dev}" for dev in ("eth1", "ib0")])
        wanted = [static("10.7.0.0/16")]
        ran = Ran(namespace, wanted, tmp_path)
        plan = planned(namespace, *wanted)
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
        [step] = planned(namespace, static(place, metric=metric)).conflicts
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
        [step] = planned(namespace, static(place)).conflicts
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

    def test_a_next_hop_that_a_shell_would_run(self, namespace: Namespace, tmp_path: Path) -> None:
        """The device of a next hop that has joined our route is quoted for a shell."""
        made = "link add $(reboot) type veth peer name other"
        namespace.batch([made, "link set other up", "link set $(reboot) up"])
        held = ("via fe80::1 dev eth0 proto 213", "via fe80::9 dev $(reboot) proto bird")
        namespace.batch([ROUTER, *(f"route append fd00:16::/64 {hop}" for hop in held)])
        ran = Ran(namespace, [static("fd00:16::/64", dev="eth0")], tmp_path)
        typed = r"ip route del fd00:16::/64 metric 1024 via fe80::9 dev \$\(reboot\)"
        assert ran.said.endswith(f"as root: {typed}\n")

    def test_a_next_hop_that_has_just_gone(self, namespace: Namespace, tmp_path: Path) -> None:
        """If Linux has deleted ours since it was listed, it is no other program's: a new plan shows
        it, a second later.
        """
        ours_of_old = "fd00:16::/64 via fe80::4 dev eth0 proto 213"
        namespace.batch([ROUTER, f"route add {ours_of_old}"])
        once = f"{IS_WRITING} && [[ ! -e {tmp_path}/done ]] && : >{tmp_path}/done"
        gone = f'{once} && ip -6 route del {ours_of_old}\nexec ip "$@"'
        ran = Ran(
            namespace,
            [HALF, static("fd00:16::/64")],
            tmp_path,
            wait=5,
            tools={"ip": gone, "sleep": ":"},
        )
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
        once = f"{IS_WRITING} && [[ ! -e {tmp_path}/done ]] && : >{tmp_path}/done && {stolen}"
        ran = Ran(namespace, HALVES, tmp_path, tools={"ip": f'{once}\nexec ip "$@"'})
        assert (ran.status, len(ours(namespace))) == (1, len(held) if command == "append" else 0), (
            ran.said
        )
        assert "172.16.0.0/17 via 10.0.0.9 dev eth0 proto static" in namespace.ip("route").stdout
