"""static-routes.sh when something fails, or somebody else writes: all routes are set or none, and
those of other programs stay.
"""

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hostrouting.boot.scripts import render_static_routes_script
from hostrouting.config.settings import ProbeRewriteConfig
from hostrouting.model.prefix import IPV4, IPV6, Prefix
from tests.support.commands import fabric_host
from tests.support.examples import scaled
from tests.support.namespace import Namespace
from tests.support.own_routes import configured
from tests.support.routes_script import (
    ETH0,
    HALF,
    HALVES,
    IS_WRITING,
    ROUTER,
    Ran,
    events,
    listed,
    our_routes,
    ours,
    planned,
    words,
)
from tests.support.sections import static
from tests.support.waiting import leaving_word

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

PAIR = [HALF, static("fd00:16::/64")]
REFUSED = static("10.1.0.0/16", "10.0.0.77", "eth0")
REFUSE_IT = "rule add pref 100 to 10.0.0.77 unreachable"
"""Linux looks for a gateway by the rules, too, and refuses it then; the script does not."""
REPLY = ProbeRewriteConfig(enabled=True, interfaces=("eth1",))


def _changes_in(plan: str) -> list[str]:
    """The changes of a plan, each with its undo in one line."""
    return [" ".join(change.split()) for change in plan.split("change")]


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
        comment = re.search(r"^# For example, 172(.*\n#)+", script, re.MULTILINE)
        assert comment
        example = re.findall("^#  +(.*)$", comment[0].partition("#\n")[0], re.MULTILINE)
        routes = [line for line in example if line.startswith("1 ")]
        plan = [line for line in example if not line.startswith("1 ")]
        assert len(routes) == 3

        text = f". {functions}; settings_and_lists | tee {tmp_path}/read | run_planner"
        printed = namespace.run("bash", "-c", text).stdout
        read = [line.strip() for line in (tmp_path / "read").read_text().splitlines()]

        assert [line for line in read if line in routes] == routes
        assert _changes_in(printed) == _changes_in(" ".join(plan))

    def test_a_changed_next_hop(self, namespace: Namespace, tmp_path: Path) -> None:
        """The new one is added, then ours deleted, so no packet is lost;
        nothing is written twice.
        """
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
            first = Ran(namespace, PAIR, tmp_path)
            second = Ran(namespace, PAIR, tmp_path)

        assert first.lines == []
        assert second.lines == []
        written = [event for event in seen if "172.16." in event or "fd00:16:" in event]
        ipv4_added, ipv6_added, *deleted = written
        assert ipv4_added.startswith("172.16.0.0/17 via 10.0.0.9 dev")
        assert ipv6_added.startswith("fd00:16::")
        ipv4_deleted, ipv6_deleted = sorted(deleted)
        assert ipv4_deleted.startswith("Deleted 172.16.0.0/17 via 10.0.0.1 ")
        assert ipv6_deleted.startswith("Deleted fd00:16::/64 via fe80::1 ")

    def test_changed_next_hops(self, namespace: Namespace, tmp_path: Path) -> None:
        """In IPv6, our first one is in use until the new one is there."""
        for router in ("fe80::1", "fe80::2"):
            namespace.batch([f"route append fd00:16::/64 via {router} dev eth0 proto 213"])
        namespace.batch([ROUTER.replace("::1", "::9")])
        with events(namespace, tmp_path / "events") as seen:
            assert Ran(namespace, [PAIR[1]], tmp_path).lines == []
        deleted = [event.startswith("Deleted ") for event in seen if "fd00:16:" in event]
        assert deleted == [True, False, True]

    def test_ours_that_refused_packets(self, namespace: Namespace, tmp_path: Path) -> None:
        """It goes when the new one is there: until then no wider route may have the packets."""
        namespace.batch(["route add blackhole 172.16.0.0/17 proto 213"])
        with events(namespace, tmp_path / "events") as seen:
            assert Ran(namespace, [HALF], tmp_path).lines == []
        added, deleted = [event for event in seen if "172.16.0.0/17" in event]
        assert added.startswith("172.16.0.0/17 via 10.0.0.1 dev")
        assert deleted.startswith("Deleted 6 172.16.0.0/17 ")  # 6: blackhole

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
        of_ours = [
            (
                "fd00:17::/64 proto 213 nexthop via fe80::1 dev eth0 "
                "nexthop via fe80::2 dev eth1 nexthop via fe80::3 dev ib0"
            ),
            "unreachable fd00:18::/64 proto 213",
            "blackhole ::/0 metric 5000 proto 213",
            "10.7.0.0/16 dev ib0 tos 4 proto 213",
        ]
        namespace.batch([f"route add {route}" for route in of_ours])
        for wanted, changes in ((HALVES, [5]), (HALVES, []), ([], [2]), ([], [])):
            ran = Ran(namespace, wanted, tmp_path)
            assert ran.lines == []
            assert ran.changes == changes
        assert listed(namespace) == before
        assert namespace.ip("route", "show", "table", "100").stdout


class TestAllOrNothing:
    """Whatever fails, the table is the wanted one or as before."""

    STANDING = (
        "10.3.0.0/16 via 10.0.0.1 proto 213",
        "10.3.0.0/16 via 10.0.0.2 proto 213",
        "172.16.0.0/17 via 10.0.0.1 dev eth0 mtu 1400 proto 213",
        "172.16.128.0/17 dev ib0 proto 213",
        "fd00:16::/64 proto 213 nexthop via fe80::3 dev eth0 nexthop via fe80::4 dev eth0",
        "fd00:18::/64 via fe80::3 dev eth0 proto 213",
        "fd00:19::/64 dev eth1 proto 213",
        "9.9.9.9 via 10.0.0.1 proto static",
    )
    WANTED = (*HALVES, static("fd00:16::/64"), static("fd00:17::/64"), static("fd00:18::/64"))
    FAILS = """
        echo 'RTNETLINK answers: Operation not permitted'
        echo "Command failed -:$((done + 1))"
        exit 1
    """
    IS_KILLED = "kill -KILL $$"
    IS_TOLD_TO_STOP = "kill -TERM 0"

    def failing_once(self, folder: Path, done: int, before: str = ":", fault: str = FAILS) -> str:
        """An `ip` that does so many commands of its first batch, and then fails."""
        return f"""
            if ! {IS_WRITING} || [[ -e {folder}/tried ]]; then
              exec ip "$@"
            fi
            : >{folder}/tried
            done={done}
            {before}
            head -n $done | ip -batch - 2>&1
            {fault}
        """

    @settings(max_examples=scaled(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        done=st.integers(0, 10),
        fault=st.sampled_from([FAILS, IS_KILLED]),
        stop=st.sampled_from([":", IS_TOLD_TO_STOP]),
    )
    def test_a_batch_that_fails(
        self, done: int, fault: str, stop: str, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """After any number of commands, `ip` fails or is killed, or the script is told to stop
        meanwhile.
        """
        folder = tmp_path_factory.mktemp("failing")
        with fabric_host() as namespace:
            namespace.batch([ROUTER, *(f"route append {route}" for route in self.STANDING)])
            before = listed(namespace)
            ip = self.failing_once(folder, done, before=stop, fault=fault)

            ran = Ran(namespace, self.WANTED, folder, tools={"ip": ip})

            assert ran.status in {1, 143}, ran.said
            assert listed(namespace) == before, ran.said

            again = Ran(namespace, self.WANTED, folder)

            assert again.lines == []
            set_now = ours(namespace) + ours(namespace, IPV6)
            assert sorted(set_now) == sorted(str(route.destination) for route in self.WANTED)
            assert "9.9.9.9 via 10.0.0.1 dev eth0 proto static" in namespace.ip("route").stdout

    @pytest.mark.parametrize("signal", ["TERM", "HUP", "INT"])
    def test_a_signal_while_it_writes(
        self, namespace: Namespace, tmp_path: Path, signal: str
    ) -> None:
        """What is begun is written to the end."""
        tools = {"ip": f'{IS_WRITING} && kill -{signal} 0; exec ip "$@"'}
        ran = Ran(namespace, HALVES, tmp_path, tools=tools)
        assert ran.lines == []
        assert ran.status == 0
        assert len(ours(namespace)) == 2

    def test_a_signal_while_it_reads(self, namespace: Namespace, tmp_path: Path) -> None:
        """The signal is named, and not only what it has done to `ip` and awk."""
        ran = Ran(namespace, HALVES, tmp_path, wait=60, tools={"ip": "kill -TERM 0"})
        assert ran.status == 143
        assert re.search("cannot be read: .*; told to stop after [0-9]+ s$", ran.said.strip())

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
        """Our route is as before if another route is refused,
        and as the default route if none is.
        """
        place = "172.16.0.0/17"
        default = f"route add default {new}"
        namespace.batch(
            [f"route add {place} proto 213 {old}", "route del default", default, REFUSE_IT]
        )
        before = listed(namespace)
        assert Ran(namespace, [HALF, REFUSED], tmp_path).status == 1
        assert listed(namespace) == before
        assert Ran(namespace, [HALF], tmp_path).status == 0
        [route] = our_routes(namespace)
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
        plan = planned(namespace, HALF)
        assert [step.action for step in plan.steps] == ["keep"]
        ran = Ran(namespace, [HALF], tmp_path)
        assert ran.lines == []
        assert ran.status == 0
        assert ran.changes == []
        assert listed(namespace) == before
        assert Ran(namespace, HALVES[1:], tmp_path).changes == [3]
        assert ours(namespace) == [str(HALVES[1].destination)]

    @pytest.mark.parametrize(
        ("right", "behind"),
        [
            pytest.param(f"proto 213 {ETH0}", f"proto 213 {ETH0} mtu 1400", id="with an MTU"),
            pytest.param(
                f"proto 4 {ETH0}",
                f"proto 213 nexthop {ETH0} nexthop via 10.0.0.2 dev eth0",
                id="behind another program's",
            ),
        ],
    )
    def test_ours_behind_the_right_one(
        self, namespace: Namespace, tmp_path: Path, right: str, behind: str
    ) -> None:
        """It goes where no command to delete it could hit the right one."""
        namespace.batch(f"route append {HALF.destination} {way}" for way in (right, behind))
        ran = Ran(namespace, [HALF], tmp_path)
        assert ran.lines == []
        assert ran.changes == [1]
        place = Prefix.of(HALF.destination)
        assert [route.way for route in namespace.routes(IPV4) if route.prefix == place] == [ETH0]

    @pytest.mark.parametrize(
        "more", ["src 10.0.0.4", "mtu 1400", "src 10.0.0.4 mtu 1400 advmss 1200"]
    )
    def test_ours_with_an_attribute(self, namespace: Namespace, tmp_path: Path, more: str) -> None:
        """A request to delete one without an attribute also takes one that has it, so that goes
        first.
        """
        ways = [f"{ETH0} {more}", ETH0, f"{ETH0} mtu 1300"]
        lines = [f"route append 10.7.0.0/16 proto 213 {way}" for way in ways]
        alone = f"route append 10.8.0.0/16 proto 213 {ETH0} {more}"
        namespace.batch([*lines, alone])
        assert Ran(namespace, [HALF], tmp_path).lines == []
        assert ours(namespace) == [str(HALF.destination)]

    @pytest.mark.parametrize("deleted", [1, 2])
    def test_the_one_in_use_is_in_use_again(
        self, namespace: Namespace, tmp_path: Path, deleted: int
    ) -> None:
        """Of several of ours with one key, Linux uses the first. So that is deleted last: if a
        command fails, those that come back are behind it again.
        """
        ways = [f"via 10.0.0.{number} dev eth0" for number in (1, 2, 3)]
        namespace.batch([f"route append 10.7.0.0/16 proto 213 {way}" for way in ways])
        ip = self.failing_once(tmp_path, done=1 + deleted)
        ran = Ran(namespace, [HALF], tmp_path, tools={"ip": ip})
        assert ran.status == 1, ran.said
        assert [route.way for route in our_routes(namespace)] == ways, ran.said

    def test_what_the_kernel_refuses(self, namespace: Namespace, tmp_path: Path) -> None:
        """A route that the kernel refuses is named, in its words; it is tried again; the others are
        not kept.
        """
        namespace.batch(
            [
                REFUSE_IT,
                "route add 10.1.0.0/16 dev ib0 proto 213",
            ]
        )
        before = listed(namespace)
        ran = Ran(namespace, [*HALVES, REFUSED], tmp_path)
        command = "route append 10.1.0.0/16 proto 213 metric 0 via 10.0.0.77 dev eth0"
        why = f"{command}: Error: Nexthop has invalid gateway."
        assert ran.lines == [f"<3>static-routes: {why}"]
        assert listed(namespace) == before, "nor is another one set, or deleted"

        end_it = "ip rule del pref 100"
        while_it_waits = f"flock --nonblock /run/hostrouting/routes {end_it}"  # others may write
        ran = Ran(namespace, [*HALVES, REFUSED], tmp_path, wait=60, tools={"sleep": while_it_waits})
        assert ran.status == 0
        assert len(ours(namespace)) == 3

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
        namespace.batch([REFUSE_IT])
        before = listed(namespace)
        assert Ran(namespace, [HALF, REFUSED], tmp_path).status == 1
        assert listed(namespace) == before
        assert Ran(namespace, [HALF], tmp_path).lines == []
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
        ip = f"""
            {IS_WRITING} || exec ip "$@"
            echo 'RTNETLINK answers: Operation not permitted'
            echo 'Command failed -:1'
            exit 2
        """
        sleep = leaving_word(tmp_path / "naps", "sleep")
        ran = Ran(namespace, [HALF], tmp_path, wait=2, tools={"ip": ip, "sleep": sleep})
        why = "route add 172.16.0.0/17 proto 213 metric 0 via 10.0.0.1 dev eth0"
        assert ran.lines == [f"<3>static-routes: {why}: RTNETLINK answers: Operation not permitted"]
        assert not (tmp_path / "naps").exists()

    def test_what_cannot_be_taken_back(self, namespace: Namespace, tmp_path: Path) -> None:
        """Each command that failed is named, because the routes are not as before."""
        namespace.batch([REFUSE_IT])
        gone_before_the_undo = f"""
            if {IS_WRITING}; then
              [[ ! -e {tmp_path}/tried ]] || ip route flush proto 213
              : >{tmp_path}/tried
            fi
            exec ip "$@"
        """
        ran = Ran(namespace, [*HALVES, REFUSED], tmp_path, tools={"ip": gone_before_the_undo})
        assert ran.status == 1
        second, first = [line for line in ran.lines if " an undo failed: " in line]
        for line, half in ((first, HALVES[0]), (second, HALVES[1])):
            assert f": route del {half.destination} " in line
            assert line.endswith(": RTNETLINK answers: No such process")

    @pytest.mark.parametrize("place", [str(HALF.destination), "10.9.0.0/16"])
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
        assert ran.status == 1, ran.said
        assert listed(namespace) == before, ran.said
        assert "ip was killed" not in ran.said

    def test_a_lock_of_rto_min(self, namespace: Namespace, tmp_path: Path) -> None:
        """`ip` lists that this time is locked, and does not read it: it always locks it."""
        tuned = "route add 172.16.0.0/17 via 10.0.0.2 dev eth0 rto_min 40ms proto 213"
        namespace.batch([tuned, REFUSE_IT])
        before = listed(namespace)
        assert Ran(namespace, [*HALVES, REFUSED], tmp_path).status == 1
        assert listed(namespace) == before
        assert Ran(namespace, HALVES, tmp_path).lines == []
        assert "rto_min" not in namespace.ip("route").stdout

    def test_a_locked_attribute(self, namespace: Namespace, tmp_path: Path) -> None:
        """If a route has been deleted when a command fails, the lock of its MTU comes back, too."""
        tuned = "route add 10.7.0.0/16 via 10.0.0.1 dev eth0 mtu lock 1400 proto 213"
        namespace.batch([tuned, f"route add 10.8.0.0/16 {ETH0} proto 213"])
        before = listed(namespace)
        ip = self.failing_once(tmp_path, done=2)
        assert Ran(namespace, [HALF], tmp_path, tools={"ip": ip}).status == 1
        assert listed(namespace) == before

    def test_somebody_else_undoes_it(self, namespace: Namespace, tmp_path: Path) -> None:
        """What another program undoes each time is not left half done, and is said."""
        undone = f"""
            ip "$@"
            status=$?
            {IS_WRITING} && ip route del 172.16.0.0/17
            exit $status
        """
        ran = Ran(namespace, HALVES, tmp_path, tools={"ip": undone})
        assert ran.status == 1
        assert ours(namespace) == []
        assert ran.lines[-1].startswith(
            "<3>static-routes: another program also changes these routes: route add 172.16."
        )

    IP_ENDS_EARLY = """
        ip "$@"
        echo "Dump terminated" >&2
        echo "Command failed -:1" >&2
        exit 1
    """
    AWK_IS_KILLED_IN_THE_PLAN = r"""
        printf 'change\troute flush table main\troute flush table main\n'
        kill -9 $$
    """
    AWK_IS_KILLED_AFTER_A_CONFLICT = r"""
        printf 'refused\tX\toption A\n'
        kill -9 $$
    """

    @pytest.mark.parametrize(
        ("tools", "reason"),
        [
            ({"ip": IP_ENDS_EARLY}, "Dump terminated"),
            ({"awk": AWK_IS_KILLED_IN_THE_PLAN}, "ip or awk was killed, or is missing"),
            ({"awk": AWK_IS_KILLED_AFTER_A_CONFLICT}, "ip or awk was killed, or is missing"),
        ],
        ids=["ip", "awk", "awk after a conflict"],
    )
    def test_a_reading_that_fails(
        self, namespace: Namespace, tmp_path: Path, tools: dict[str, str], reason: str
    ) -> None:
        """Without all routes, or a whole plan, nothing is written, and the words of the program are
        the only reason.
        """
        ran = Ran(namespace, HALVES, tmp_path, tools=tools)
        lines = [line for line in ran.lines if line.startswith("<3>")]
        assert lines == [f"<3>static-routes: the routes cannot be read: {reason}"]
        assert ran.status == 1
        assert ours(namespace) == []

    def test_without_settings(self, namespace: Namespace, tmp_path: Path) -> None:
        """A script whose data is gone deletes nothing, and says how to get it back."""
        namespace.batch(["route add 10.3.0.0/16 via 10.0.0.1 proto 213"])
        only_unit = "grep -v ^protocol | awk"
        ran = Ran(namespace, HALVES, tmp_path, tools={"awk": f'{only_unit} "$@"'})
        assert ran.lines == [
            (
                "<3>static-routes: the routes cannot be read: this script has lost its settings; "
                "to write it again, as root: "
                "hostrouting apply --config /etc/hostrouting/config.json"
            )
        ]
        assert ran.status == 1
        assert ours(namespace) == ["10.3.0.0/16"]

    def test_read_while_it_changed(self, namespace: Namespace, tmp_path: Path) -> None:
        """Tables that changed while they were read are read again:
        twice at once, and every second.
        """

        def torn(times: int) -> dict[str, str]:
            """An `ip` whose first readings, so many, are interrupted."""
            readings = tmp_path / "readings"
            readings.unlink(missing_ok=True)
            return {
                "ip": f"""
                    ip "$@"
                    echo >>{readings}
                    if (($(wc -l <{readings}) <= {times})); then
                      echo "Dump was interrupted and may be inconsistent." >&2
                    fi
                """
            }

        twice = Ran(namespace, HALVES, tmp_path, tools=torn(2))
        assert twice.lines == []
        three_times = Ran(namespace, HALVES, tmp_path, tools=torn(3))
        assert three_times.lines == ["<3>static-routes: the routes changed while they were read"]
        while_it_may_wait = Ran(namespace, HALVES, tmp_path, wait=5, tools=torn(3))
        assert while_it_may_wait.status == 0

    def test_a_conflict_while_it_changed(self, namespace: Namespace, tmp_path: Path) -> None:
        """What a torn reading has shown of a conflict is neither told nor final:
        it may not be so.
        """
        namespace.batch(["route add 172.16.0.0/17 dev ib0"])
        torn_until_the_nap = f"""
            ip "$@"
            if [[ ! -e {tmp_path}/nap ]]; then
              echo "Dump was interrupted and may be inconsistent." >&2
            fi
        """
        conflict_goes = f"touch {tmp_path}/nap; ip route del 172.16.0.0/17"
        tools = {"ip": torn_until_the_nap, "sleep": conflict_goes}
        ran = Ran(namespace, HALVES, tmp_path, wait=60, tools=tools)
        assert ran.lines == [
            "<6>static-routes: waiting (N of 60 s): the routes changed while they were read"
        ]
        assert ran.status == 0


class TestTwoAtOnce:
    """Two starts, or a start and the guard."""

    FULL = "mount -t tmpfs -o size=4k,nr_inodes=2 none /run && ! cat /dev/zero 2>&- >/run/all"
    READ_ONLY = "mount -t tmpfs -o ro none /run"

    @pytest.mark.parametrize(
        ("before", "number_of_runs"),
        [
            pytest.param(":", 4, id="writable"),
            pytest.param(FULL, 1, id="full"),
            pytest.param(READ_ONLY, 1, id="read-only"),
        ],
    )
    def test_the_same_end(
        self, namespace: Namespace, tmp_path: Path, before: str, number_of_runs: int
    ) -> None:
        """With a lock, runs at once all end well and leave the routes; one run does without where
        /run cannot have it.
        """
        by_another_device = ["10.1.7.0/24 dev ib0 proto 213", "fd00:16:7::/64 dev ib0 proto 213"]
        namespace.batch([ROUTER, *(f"route add {route}" for route in by_another_device)])
        routes = [static(f"10.{1 + number // 256}.{number % 256}.0/24") for number in range(300)]
        routes += [static(f"fd00:16:{number:x}::/64") for number in range(100)]
        command = [*namespace.enter, *words(routes, tmp_path, wait=0, before=before)]

        runs = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(number_of_runs)]
        said: list[bytes] = []
        for run in runs:
            _, errors = run.communicate(timeout=120)
            assert run.returncode == 0, errors
            said.append(errors)

        *of_the_others, of_the_writer = sorted(said)
        changes = 300 + 100 + len(by_another_device)
        [line] = of_the_writer.decode().splitlines()
        assert line.startswith(
            f"<6>static-routes: changed routes: {changes}, beginning with: ip route "
        )
        assert of_the_others == [b""] * (number_of_runs - 1), "they find it done"
        assert len(ours(namespace)) == 300
        assert len(ours(namespace, IPV6)) == 100

    def test_another_run_holds_the_lock(self, namespace: Namespace, tmp_path: Path) -> None:
        """A run that does not get the lock writes nothing and says so; it tries again while it may
        wait.
        """
        held = f"[[ -e {tmp_path}/free || $* != '-w 5 '* ]] || exit 1"
        ran = Ran(namespace, HALVES, tmp_path, tools={"flock": held})
        assert ran.status == 1
        assert ours(namespace) == []
        assert ran.lines == [
            (
                "<3>static-routes: cannot lock /run/hostrouting/routes: "
                "another run has held it for 5 s"
            )
        ]
        ran = Ran(namespace, HALVES, tmp_path, tools={"flock": "exit 66"})
        assert ran.lines == [
            ("<3>static-routes: cannot lock /run/hostrouting/routes: flock failed (exit status 66)")
        ]
        freed = {"flock": held, "sleep": f": >{tmp_path}/free"}
        ran = Ran(namespace, HALVES, tmp_path, wait=60, tools=freed)
        assert ran.status == 0
        assert len(ours(namespace)) == 2

    def test_only_root_can_open_the_lock(self, namespace: Namespace, tmp_path: Path) -> None:
        """Whoever can open a file can hold its lock for good."""
        assert Ran(namespace, HALVES, tmp_path).status == 0
        assert (tmp_path / "run/hostrouting/routes").stat().st_mode & 0o777 == 0o600

    def test_read_again_with_the_lock(self, namespace: Namespace, tmp_path: Path) -> None:
        """What another run wrote while this one waited for the lock is there; without anything to
        do, none is taken.
        """
        another_run_writes = f"""
            echo >>{tmp_path}/locked
            ip route add 172.16.0.0/17 via 10.0.0.1 dev eth0 proto 213
            ip route add 172.16.128.0/17 via 10.0.0.1 dev eth0 proto 213
        """
        tools = {"flock": another_run_writes}
        for _ in range(2):
            ran = Ran(namespace, HALVES, tmp_path, tools=tools)
            assert ran.status == 0
            assert ran.changes == []
            assert ran.lines == []
            assert len(ours(namespace)) == 2
        assert (tmp_path / "locked").read_text() == "\n", "only the first run took it"


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
        lines: list[str] = []
        if state == "IPv6 is off":
            namespace.sysctl("ipv6/conf/eth1/disable_ipv6", 1)
            lines.append(
                "<7>static-routes: optional: "
                f"route add {REPLY.global_address}/128 proto 213 metric 1024 dev eth1: "
                "Error: IPv6 is disabled on nexthop device."
            )
        else:
            namespace.batch([state])
        before = [line for line in listed(namespace) if "2603:" in line]

        ran = Ran(namespace, HALVES, tmp_path, rewrite=REPLY, wait=60)

        assert ran.lines == lines
        assert ran.status == 0
        assert len(ours(namespace)) == 2
        assert [line for line in listed(namespace) if "2603:" in line] == before
