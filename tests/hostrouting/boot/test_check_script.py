"""check-route-overlap.sh on one host: its output and files, and what happens if something fails meanwhile."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from random import Random

import pytest

from hostrouting.boot.scripts import render_check_script
from hostrouting.check.examine import examine_snapshot
from hostrouting.check.report import check_findings
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.layout import HostLayout
from hostrouting.model.prefix import IPV6
from tests.support.awks import AWKS, only_awk, put_before
from tests.support.check_script import Answer, Checked, check, engine, own_addresses, snapshot_of
from tests.support.namespace import Namespace
from tests.support.waiting import await_file, leaving_word

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]
IPV6_FILE = "/proc/self/net/if_inet6"


def lack_of(namespace: Namespace, config: HostRoutingConfig) -> str:
    """The line for a missing default route, in the engine's words."""
    found = check_findings(examine_snapshot(snapshot_of(namespace), config), mode="STRICT")
    [sentence] = [it.sentence for it in found if it.name == "no-default-route"]
    return f"NO-DEFAULT-ROUTE: {sentence}"


ACTION = (
    "ACTION: run: hostrouting repair 172.16.0.0/16; for example, "
    "routes to 172.16.0.0/17 and 172.16.128.0/17 win over 172.16.0.0/16"
)
# The uplink is a group of next hop objects, and a part of 192.168.0.0/16 has one of its legs.
NEXT_HOP_OBJECTS = [
    "route del default",
    "nexthop add id 10 via 10.0.0.1 dev eth0",
    "nexthop add id 11 dev wg0",
    "nexthop add id 20 group 10/11",
    "route add default nhid 20",
    "route add 192.168.7.0/24 nhid 11",
]
# Programs that end early, each with what the script then says.
MISHAPS: dict[str, tuple[dict[str, str], str]] = {
    "no awk": ({"awk": "exit 137"}, "awk ended without a verdict"),
    "the input of awk": ({"awk": 'sed "/ table 254/q" | awk "$@"'}, "awk ended without a verdict"),
    "the output of awk": ({"awk": "awk \"$@\" | sed '$d'; exit 137"}, "awk ended without a verdict"),
    "a part of the output of awk": ({"awk": 'awk "$@" | sed "s/^verdict.*/verdict o/"'}, "awk ended without a verdict"),
    "the list of links": ({"ip": '[[ "$*" == *link* ]] || exec ip "$@"; exit 137'}, "ip did not list all links"),
    "ip, behind the first link": (
        {"ip": '[[ "$*" == *link* ]] || exec ip "$@"; ip "$@" | head -n 1; exit 137'},
        "ip did not list all links",
    ),
    "answers in another order": (
        {"ip": '[[ "$*" == *-force* ]] || exec ip "$@"; ip "$@" >/dev/null; echo "Command failed -:9"'},
        "the kernel did not answer for 1.1.1.1: no answer",
    ),
    "an answer of two lines": (
        {"ip": '[[ "$*" == *-force* ]] || exec ip "$@"; echo "1 default dev eth0"; ip "$@"; exit'},
        "the kernel gave more answers than there were questions",
    ),
    "ip": (
        {"ip": '[[ "$*" == *-force* ]] || exec ip "$@"; ip "$@" | head -n 2'},
        "the kernel did not answer for 128.0.0.1: no answer",
    ),
}


class TestOneHost:
    """On an H200 node, while the script runs."""

    def test_overlap(self, namespace: Namespace, tmp_path: Path) -> None:
        """One line says it all, in the journal and in the marker; then comes what to do about it."""
        line = (
            "OVERLAP: expected CIDR 172.16.0.0/16 (172.16.0.0–172.16.255.255)"  # noqa: RUF001  a dash between addresses
            " routes via ib0 [172.16.0.0/16 proto kernel], expected eth0"
        )
        checked = Checked(namespace, check(), tmp_path)
        assert checked.status == 1
        assert checked.left == {"route-overlap.detected": line + "\n"}
        assert checked.said.splitlines() == [f"<3>{line}", f"<3>{ACTION}"]

    @pytest.mark.parametrize("count", [20, 21])
    def test_many_findings(self, namespace: Namespace, tmp_path: Path, count: int) -> None:
        """The journal has the first twenty lines and the number of the others; the marker has all."""
        blocks = [f"10.{100 + at}.0.0/16" for at in range(count)]
        namespace.batch(f"route add {block} dev ib0" for block in blocks)
        checked = Checked(namespace, check(*blocks), tmp_path)
        told = [line for line in checked.said.splitlines() if "ACTION: " not in line]
        assert [line.removeprefix("<3>") for line in told[:20]] == checked.lines[:20]
        assert told[20:] == ["<3>and 1 more; all are in route-overlap.detected"] * (count - 20)
        assert len(checked.lines) == count

    def test_example(self, namespace: Namespace, tmp_path: Path) -> None:
        """With the routes of the example there, the check passes, and the marker of the overlap is gone."""
        assert "172.16.0.0/17 and 172.16.128.0/17" in Checked(namespace, check(), tmp_path).said
        namespace.batch(f"route add {it} via 10.0.0.1 dev eth0" for it in ("172.16.0.0/17", "172.16.128.0/17"))
        checked = Checked(namespace, check(), tmp_path)
        assert checked.status == 0
        assert checked.left == {"route-overlap.ok": "ok\n"}

    @pytest.mark.parametrize("wrong", ["172.20.0.9 dev ib0", "172.20.0.0/16 dev ib0 table 100", "default dev ib0"])
    def test_no_example(self, namespace: Namespace, tmp_path: Path, wrong: str) -> None:
        """For a single address, another table or the default route, two halves do not help."""
        namespace.batch(["rule add pref 100 lookup 100", f"route replace {wrong}"])
        checked = Checked(namespace, check("172.20.0.0/16", expected_devs=["eth0"]), tmp_path)
        assert checked.said.splitlines()[-1] == "<3>ACTION: run: hostrouting repair 172.20.0.0/16"

    def test_warn(self, namespace: Namespace, tmp_path: Path) -> None:
        """WARN says the same, as a warning, and passes."""
        checked = Checked(namespace, check(mode="WARN"), tmp_path)
        assert checked.status == 0
        assert checked.said.startswith("<4>OVERLAP")
        assert "route-overlap.detected" in checked.left

    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    def test_no_default_route(self, namespace: Namespace, tmp_path: Path, mode: str) -> None:
        """Without a default route nothing can be expected: said as such, and STRICT fails."""
        namespace.batch(["route del default"])
        checked = Checked(namespace, check(mode=mode), tmp_path)
        assert checked.status == (mode == "STRICT")
        assert checked.left["route-overlap.detected"] == "no-default-route\n"
        assert checked.said == f"<{'3' if mode == 'STRICT' else '4'}>{lack_of(namespace, check())}\n"

    def test_what_there_was_instead(self, namespace: Namespace, tmp_path: Path) -> None:
        """If no default route can be used, the message has those that there are, as `ip` lists them, in any table."""
        seen = (
            "[default via 10.0.0.1 dev eth0 table 100 proto 3 scope 0], "
            "[unreachable default table 254 proto 3 scope 0 metric 9]"
        )
        namespace.batch(["route del default"])
        lack = "there is none; last seen: no default route"
        line = lack_of(namespace, check()).replace(lack, f"plain packets use none of these: {seen}")
        namespace.batch(["route add unreachable default metric 9", "route add default via 10.0.0.1 dev eth0 table 100"])
        assert Checked(namespace, check(), tmp_path).said == f"<3>{line}\n"

    @pytest.mark.parametrize("devs", [[], ["eth0"], ["late0"]])
    def test_awaited(self, namespace: Namespace, tmp_path: Path, devs: list[str]) -> None:
        """The script waits for a missing default route, and for a missing device that was named."""
        namespace.batch(["route del default"])
        names = "eth0" if devs != ["late0"] else "late0"
        script = f"sleep 0.6; ip link add late0 type veth; ip link set late0 up; ip route add default dev {names}"
        later = subprocess.Popen([*namespace.enter, "sh", "-c", script])
        try:
            checked = Checked(namespace, check("192.168.0.0/16", expected_devs=devs), tmp_path, wait=100)
        finally:
            later.wait()
        assert (checked.status, checked.answer) == (0, Answer("ok")), checked.said

    def test_an_overlap_is_awaited_for_a_missing_device(self, namespace: Namespace, tmp_path: Path) -> None:
        """If one of the named devices does not exist yet, an overlap may go with the routes that come with it."""
        namespace.batch(["route add 192.168.0.0/16 dev ib0"])
        # One `ip` for all, so that the two looks of a check do not both fall between two of the commands.
        lines = "link add late0 type veth\\nlink set late0 up\\nroute replace 192.168.0.0/16 dev late0\\n"
        script = f"sleep 0.6; printf '{lines}' | ip -batch -"
        later = subprocess.Popen([*namespace.enter, "sh", "-c", script])
        config = check("192.168.0.0/16", expected_devs=["eth0", "late0"])
        try:
            checked = Checked(namespace, config, tmp_path, wait=100)
        finally:
            later.wait()
        assert (checked.status, checked.answer) == (0, Answer("ok")), checked.said

    @pytest.mark.parametrize("inverted", ["", "not "])
    def test_what_is_not_judged(self, namespace: Namespace, tmp_path: Path, inverted: str) -> None:
        """Packets that rules select by more than their destination are not judged; with them an ok is never bare.

        All of it is one line, in which each rule has its family.
        """
        selectors = ["fwmark 1/1", "fwmark 1", "uidrange 1000-2000", "ipproto udp dport 53", "sport 53", "ipproto tcp"]
        selectors += ["tos 0x10", "iif eth0", "oif eth0", "from 10.0.0.9", "tun_id 5"]
        rules = [f"rule add pref {at} {inverted}{selector} lookup 100" for at, selector in enumerate(selectors, 100)]
        namespace.batch([*rules, "route add 192.168.7.0/24 dev ib0 table 100"])
        namespace.batch(["rule add pref 100 fwmark 2 lookup 100", "route add default dev eth0"], family=IPV6)
        checked = Checked(namespace, check("192.168.0.0/16", "fd16::/32"), tmp_path)
        words = {"fwmark 1/1": "fwmark 0x1/0x1", "fwmark 1": "fwmark 0x1", "ipproto tcp": "ipproto ipproto-6"}
        words["ipproto udp dport 53"] = "ipproto ipproto-17 dport 53"
        told = [f"rule {at} ({words.get(selector, selector)})" for at, selector in enumerate(selectors, 100)]
        all_of_it = "; ".join([*told, "rule 100 of IPv6 (fwmark 0x2)"])
        note = f"of these, only plain packets are judged: {all_of_it}; for others: hostrouting check"
        assert checked.said.count(f"<4>{note}\n") == 1
        if inverted:  # a plain packet is one of these
            assert checked.answer.verdict == "overlap"
        else:
            assert checked.left["route-overlap.ok"] == f"ok\n{note}\n"

    def test_a_group_is_suppressed_in_ipv6(self, namespace: Namespace, tmp_path: Path) -> None:
        """With several next hops, such a rule treats each address on its own: one answer does not prove a range."""
        hops = "nexthop via fe80::1 dev eth0 nexthop via fe80::2 dev eth1"
        namespace.batch([f"route add default {hops}", "rule add pref 50 lookup main suppress_ifgroup 7"], family=IPV6)
        checked = Checked(namespace, check("fd16::/32"), tmp_path)
        told = "rule 50 of IPv6 (suppress_ifgroup) can treat each address differently: 1 default "
        assert checked.said.startswith(f"<3>check-route-overlap: {told}")
        assert (checked.status, checked.left) == (1, {})

    @pytest.mark.parametrize("dev", ["eth7", "eth@7"])
    def test_a_group_is_suppressed_where_nobody_asked(self, namespace: Namespace, tmp_path: Path, dev: str) -> None:
        """Nor is an answer by another route: where Linux chooses the other next hop, the rule does not suppress it."""
        namespace.batch([f"link add {dev} type veth peer name far", *(f"link set {end} up" for end in ("far", dev))])
        namespace.batch([f"link set {dev} group 7"])
        hops = f"nexthop via fe80::1 dev {dev} nexthop via fe80::2 dev ib0"
        cidrs = [f"fd16:{at}::/32" for at in range(8)]
        batch = ["route add default via fe80::1 dev eth0", "rule add pref 0 lookup 100 suppress_ifgroup 7"]
        namespace.batch([*batch, *(f"route add {cidr} table 100 {hops}" for cidr in cidrs)], family=IPV6)
        for cidr in cidrs:
            assert Checked(namespace, check(cidr), tmp_path).answer == Answer("failed")

    def test_a_group_that_no_next_hop_is_in(self, namespace: Namespace, tmp_path: Path) -> None:
        """If no next hop of a route that matters is in the group, Linux treats all expected addresses alike."""
        hops = "nexthop via fe80::1 dev eth0 nexthop via fe80::2 dev eth1"
        namespace.batch(["link set ib0 group 7", "link set eth1 group 8"])
        elsewhere = "route add fd99::/32 nexthop via fe80::1 dev ib0 nexthop via fe80::2 dev eth1"
        batch = [f"route add default {hops}", elsewhere, "rule add pref 50 lookup main suppress_ifgroup 7"]
        namespace.batch(batch, family=IPV6)
        assert Checked(namespace, check("fd16::/32"), tmp_path).answer == Answer("ok")

    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    def test_a_rule_with_a_word_of_tomorrow(self, namespace: Namespace, tmp_path: Path, mode: str) -> None:
        """A rule that the script does not know is never ok: STRICT refuses and says why, and WARN says the same."""
        namespace.batch(["rule add pref 100 fwmark 1 lookup 100"])
        script = put_before(
            render_check_script(check("192.168.0.0/16", mode=mode), wait=0),
            {"ip": 'ip "$@" | sed "s/ fwmark 0x1 / phase 7 /"'},
            tmp_path,
        )
        (tmp_path / "check.sh").write_text(script)
        done = namespace.run("bash", str(tmp_path / "check.sh"), RUNTIME_DIRECTORY=str(tmp_path / "state"))
        told = "this check does not know what a rule means: 100:\tfrom all phase 7 lookup 100 proto 0"
        level = 3 if mode == "STRICT" else 4
        assert (done.returncode, done.stderr) == (mode == "STRICT", f"<{level}>check-route-overlap: {told}\n")
        assert not list((tmp_path / "state").iterdir())

    def test_a_rule_for_others(self, namespace: Namespace, tmp_path: Path) -> None:
        """A rule for forwarded packets does not look up table local for those of the host. Kills: any rule does."""
        namespace.batch(["rule add pref 90 iif ib0 lookup local", "rule del pref 0"])
        assert "no rule looks up table local" in Checked(namespace, check("192.168.0.0/16"), tmp_path).said

    @pytest.mark.parametrize("loopback", ["lo", "loop0"])
    def test_a_rule_for_the_host_itself(self, namespace: Namespace, tmp_path: Path, loopback: str) -> None:
        """A rule for packets that the host itself sends (iif lo) selects plain packets, even if lo is called otherwise."""
        namespace.batch([f"link set lo name {loopback}"] * (loopback != "lo"))
        namespace.batch([f"rule add pref 100 iif {loopback} lookup 100", "route add 192.168.7.0/24 dev ib0 table 100"])
        checked = Checked(namespace, check("192.168.0.0/16"), tmp_path)
        assert checked.answer.verdict == "overlap"
        assert "of these, only plain" not in checked.said

    def test_a_rule_for_the_host_itself_by_another_name(self, namespace: Namespace, tmp_path: Path) -> None:
        """A rule may be for lo by an alternative name of it, which Linux lists. Kills: the name is that of no device."""
        namespace.batch(["link property add dev lo altname loop0", "rule add pref 100 iif loop0 lookup 100"])
        namespace.batch(["route add 192.168.7.0/24 dev ib0 table 100", "rule add pref 101 iif gone lookup 100"])
        checked = Checked(namespace, check("192.168.0.0/16"), tmp_path)
        assert (checked.answer.verdict, "rule 100 (iif-altname loop0)" in checked.said) == ("overlap", True)
        namespace.batch(["rule del pref 100"])
        assert Checked(namespace, check("192.168.0.0/16"), tmp_path).answer.verdict == "ok"

    def test_next_hop_objects(self, namespace: Namespace, tmp_path: Path) -> None:
        """The legs of a group of next hop objects are those of the group."""
        namespace.batch(NEXT_HOP_OBJECTS)
        checked = Checked(namespace, check("192.168.0.0/16", allowed_devs=["none"]), tmp_path)
        assert checked.said == "<6>check-route-overlap: ok: every expected CIDR leaves by eth0, wg0\n"
        config = check("192.168.0.0/16", expected_devs=["eth0"], allowed_devs=["none"])
        checked = Checked(namespace, config, tmp_path)
        assert {devs for *_, devs in checked.answer.escapes} == {frozenset({"wg0"})}

    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    def test_groups_without_their_legs(self, namespace: Namespace, tmp_path: Path, mode: str) -> None:
        """If Linux gives only the number of a group, the verdict is not ok: STRICT refuses, WARN warns."""
        namespace.sysctl("ipv4/nexthop_compat_mode", 0)
        namespace.batch(NEXT_HOP_OBJECTS)
        config = check("192.168.0.0/16", mode=mode, expected_devs=["eth0"])
        checked = Checked(namespace, config, tmp_path)
        told = "the kernel names no device for this route; set net.ipv4.nexthop_compat_mode to 1: 1 default nhid 20 "
        assert checked.said.startswith(f"<{3 if mode == 'STRICT' else 4}>check-route-overlap: {told}")
        assert (checked.status, checked.left) == (mode == "STRICT", {})

    def test_the_kernel_has_the_last_word(self, namespace: Namespace, tmp_path: Path) -> None:
        """If the kernel answers what its tables do not say, its answer counts."""
        # Once there was a rule, Linux looks at the table local first, which nothing that it lists shows.
        namespace.batch(["route add local 20.0.0.0/8 dev lo table local", "route add 20.1.0.0/16 dev ib0"])
        assert Checked(namespace, check("20.0.0.0/8"), tmp_path).answer.verdict == "overlap"
        namespace.batch(["rule add pref 9 lookup 99", "rule del pref 9"])
        checked = Checked(namespace, check("20.0.0.0/8"), tmp_path)
        assert checked.answer.verdict == "ok"

    @pytest.mark.parametrize(
        ("gone", "table", "verdict"), [(0, "local", "undecided"), (32766, "main", "no-default-route")]
    )
    def test_ipv6_without_one_of_its_rules(
        self, namespace: Namespace, tmp_path: Path, gone: int, table: str, verdict: str
    ) -> None:
        """Until there was another rule, Linux looks up the IPv6 tables local and main even if no rule says so."""
        routes = ["route add default via fe80::1 dev eth0", f"route add fd16:1:1::/48 dev ib0 table {table}"]
        namespace.batch([f"rule del pref {gone}", *routes], family=IPV6)
        assert Checked(namespace, check("fd16:1::/32"), tmp_path).answer.verdict == "overlap"
        namespace.batch(["rule add pref 9 lookup 99", "rule del pref 9"], family=IPV6)
        assert Checked(namespace, check("fd16:1::/32"), tmp_path).answer.verdict == verdict

    def test_names_that_mean_something(self, namespace: Namespace, tmp_path: Path) -> None:
        """Devices may be called by the words of `ip`, or by letters that shells care about."""
        names = ["via", "dev", "nexthop", "proto", "table", '"q"', "$(id)", "a\\b", "*", "é", "\x1b[31m"]
        for number, name in enumerate(names):
            done = namespace.ip("link", "add", "name", name, "type", "veth", "peer", "name", f"far{number}")
            assert done.returncode == 0, done.stderr
            for dev in (name, f"far{number}"):
                namespace.ip("link", "set", "dev", dev, "up")
            namespace.ip("route", "add", f"192.168.{number}.0/24", "dev", name, "proto", "static", "metric", "7")
        checked = Checked(namespace, check("192.168.0.0/16"), tmp_path)
        assert [devs for *_, devs in checked.answer.escapes] == [frozenset({name}) for name in names]

    @pytest.mark.parametrize("awk", AWKS)
    def test_any_awk(self, namespace: Namespace, tmp_path: Path, awk: str) -> None:
        """Whichever awk a host has, the script finds and says the same."""
        namespace.batch(["rule add pref 9 fwmark 1/1 lookup 100", "route add default dev ib0 table 100"])
        namespace.batch(["route add blackhole 172.20.0.0/16", "route add prohibit 172.20.7.0/24 metric 4000000000"])
        config = check("172.16.0.0/12", "10.0.0.0/8")
        snapshot = namespace.snapshot()
        checked = Checked(namespace, config, tmp_path, awk=awk)
        assert checked.answer.without(own_addresses(snapshot)) == engine(snapshot, config)

    def test_nothing_is_left_behind(self, namespace: Namespace, tmp_path: Path) -> None:
        """Markers of an earlier run are gone while one works, and its own files when it is done or cannot work."""
        state = tmp_path / "state"
        state.mkdir()
        for name in ("ok", "detected", "json", "new"):
            (state / f"route-overlap.{name}").write_text("stale\n")
        script = tmp_path / "broken.sh"
        script.write_text(
            render_check_script(check()).replace("PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"PATH={tmp_path}")
        )
        for tool in ("rm", "awk"):
            found = shutil.which(tool)
            assert found is not None
            (tmp_path / tool).symlink_to(found)
        done = namespace.run("/bin/bash", str(script), RUNTIME_DIRECTORY=str(state))
        assert done.returncode == 1
        assert "<3>check-route-overlap: ip failed" in done.stderr
        assert not list(state.iterdir())
        assert Checked(namespace, check(), tmp_path).left.keys() == {"route-overlap.detected"}

    @pytest.mark.parametrize("dev", ["eth0", "lo"])
    def test_an_overlap_is_not_awaited(self, namespace: Namespace, tmp_path: Path, dev: str) -> None:
        """With a default route and the expected devices up, an overlap is reported at once."""
        namespace.batch([f"route replace default dev {dev}"])
        naps, wanted = tmp_path / "naps", check(expected_devs=["lo"] * (dev == "lo"))
        script = put_before(render_check_script(wanted, wait=100), {"sleep": leaving_word(naps, "sleep")}, tmp_path)
        (tmp_path / "check.sh").write_text(script)
        done = namespace.run("bash", str(tmp_path / "check.sh"), RUNTIME_DIRECTORY=str(tmp_path / "state"))
        assert (done.returncode, "<3>OVERLAP: " in done.stderr) == (1, True)
        assert not naps.exists()

    def test_a_kernel_that_does_not_answer(self, namespace: Namespace, tmp_path: Path) -> None:
        """If the kernel fails to answer, no verdict is given: STRICT fails, with the address and the error."""
        fails = 'echo "RTNETLINK answers: No buffer space available"; echo "Command failed -:1"; exit 2'
        tools = {"ip": f'[[ "$*" == *-force* ]] || exec ip "$@"\ncat >/dev/null; {fails}'}
        (tmp_path / "check.sh").write_text(put_before(render_check_script(check(), wait=0), tools, tmp_path))
        done = namespace.run("bash", str(tmp_path / "check.sh"), RUNTIME_DIRECTORY=str(tmp_path / "state"))
        told = "the kernel did not answer for 1.1.1.1: No buffer space available"
        assert (done.returncode, done.stderr) == (1, f"<3>check-route-overlap: {told}\n")
        assert not list((tmp_path / "state").iterdir())

    @pytest.mark.parametrize("escaping", [False, True], ids=["ok", "overlap"])
    @pytest.mark.parametrize("mishap", MISHAPS)
    def test_a_program_that_ends_early(
        self, namespace: Namespace, tmp_path: Path, mishap: str, *, escaping: bool
    ) -> None:
        """If a program ends early or is missing, no verdict is given, neither a false ok nor a false overlap."""
        dev = "ib0" if escaping else "eth0"
        namespace.batch(f"route add 172.20.{at}.0/24 dev {dev}" for at in (9, 77, 200))
        tools, told = MISHAPS[mishap]
        script = put_before(render_check_script(check("172.20.0.0/16"), wait=0), tools, tmp_path)
        (tmp_path / "check.sh").write_text(script)
        done = namespace.run("bash", str(tmp_path / "check.sh"), RUNTIME_DIRECTORY=str(tmp_path / "state"))
        assert (done.returncode, done.stderr.splitlines()[-1]) == (1, f"<3>check-route-overlap: {told}")
        assert not list((tmp_path / "state").iterdir())

    def test_an_interrupted_list(self, namespace: Namespace, tmp_path: Path) -> None:
        """Lists that changed while they were read are read again; if they keep changing, no verdict is given."""
        interrupted = 'echo "Dump was interrupted and may be inconsistent." >&2'
        once = f'[[ -e {tmp_path}/was || "$*" == *force* ]] || {{ : >{tmp_path}/was; {interrupted}; }}'
        links = f'[[ -e {tmp_path}/links || "$*" != *link* ]] || {{ : >{tmp_path}/links; {interrupted}; }}'
        always = f'[[ "$*" != *link* ]] || {interrupted}'
        for body, status, last in (
            (once, 0, "<6>check-route-overlap: ok: every expected CIDR leaves by eth0"),
            (interrupted, 1, "<3>check-route-overlap: the routes kept changing while they were read"),
            (links, 0, "<6>check-route-overlap: ok: every expected CIDR leaves by eth0"),
            (always, 1, "<3>check-route-overlap: ip did not list all links"),
        ):
            script = put_before(render_check_script(check("10.0.0.0/8")), {"ip": f'{body}\nexec ip "$@"'}, tmp_path)
            (tmp_path / "check.sh").write_text(script)
            done = namespace.run("bash", str(tmp_path / "check.sh"), RUNTIME_DIRECTORY=str(tmp_path / "state"))
            assert (done.returncode, done.stderr) == (status, f"{last}\n")

    @pytest.mark.parametrize("escape", ["10.9.0.0/16", "fd16:0:9::/64"])
    def test_a_change_after_the_answers(self, namespace: Namespace, tmp_path: Path, escape: str) -> None:
        """If the routes change while Linux is asked, they are read again: what came meanwhile is found."""
        namespace.batch(["route add default via fe80::1 dev eth0"], family=IPV6)
        once = f'[[ "$*" == *-force* && ! -e {tmp_path}/was ]] || exec ip "$@"\nip "$@"; : >{tmp_path}/was'
        tools = {"ip": f"{once}; ip route add {escape} dev ib0"}
        checked = Checked(namespace, check("10.0.0.0/8", "fd16::/32"), tmp_path, wait=30, tools=tools)
        assert {devs for *_, devs in checked.answer.escapes} == {frozenset({"ib0"})}

    def test_changes_without_end(self, namespace: Namespace, tmp_path: Path) -> None:
        """While the routes change after each look, no verdict is a bare ok. Kills: no second look of the last try."""
        change = '[[ "$*" == *-force* ]] || exec ip "$@"\nip "$@"; ip route add 192.0.2.0/24 dev eth0 metric $$'
        tools = {"ip": change}
        checked = Checked(namespace, check("10.0.0.0/8"), tmp_path, wait=30, tools=tools)
        assert (checked.status, checked.answer.verdict) == (0, "undecided")
        assert "the routes kept changing while they were read" in checked.said

    def test_a_rule_that_goes_after_the_answers(self, namespace: Namespace, tmp_path: Path) -> None:
        """The first rule, which is deleted after the answers, is noticed. Kills: a comparison of the ends of two lists."""
        once = f'[[ "$*" == *-force* && ! -e {tmp_path}/was ]] || exec ip "$@"\nip "$@"; : >{tmp_path}/was'
        tools = {"ip": f"{once}; ip rule del pref 0"}
        checked = Checked(namespace, check("10.0.0.0/8"), tmp_path, wait=30, tools=tools)
        assert "no rule looks up table local" in checked.said

    def test_a_table_behind_an_encapsulation(self, namespace: Namespace, tmp_path: Path) -> None:
        """The table that a route's encapsulation names is not the table of the route."""
        namespace.batch(
            [
                "route add default via fe80::1 dev eth0",
                "route add fd16:0:9::/48 encap seg6local action End.T table 100 dev ib0",
            ],
            family=IPV6,
        )
        checked = Checked(namespace, check("fd16::/32"), tmp_path)
        assert {devs for *_, devs in checked.answer.escapes} == {frozenset({"ib0"})}

    def test_an_encapsulation_with_any_words(self, namespace: Namespace, tmp_path: Path) -> None:
        """Whatever the name of a BPF program looks like, the route is read with its own device."""
        namespace.batch(["route add 192.168.7.0/24 dev ib0"])
        words = "encap bpf out via table 9 proto 2 dev eth0 weight"
        tools = {"ip": f'[[ "$*" != *show* ]] || exec ip "$@"; ip "$@" | sed "s/^1 192.168.7.0.24 /&{words} /"'}
        checked = Checked(namespace, check("192.168.0.0/16", expected_devs=["eth0"]), tmp_path, tools=tools)
        assert {devs for *_, devs in checked.answer.escapes} == {frozenset({"ib0"})}

    def test_packets_that_are_encapsulated(self, namespace: Namespace, tmp_path: Path) -> None:
        """A route whose packets Linux routes again is named once. Kills: a note for each place, and one for a tunnel."""
        encap = "encap seg6 mode encap segs fd99::1 via fe80::1 dev eth0"
        namespace.batch([f"route add default {encap}", "route add fd16:9::/48 via fe80::1 dev eth0"], family=IPV6)
        namespace.batch(["route add 192.168.7.0/24 encap ip id 7 dst 10.0.0.9 dev eth0"])
        checked = Checked(namespace, check("192.168.0.0/16", "fd16::/16"), tmp_path)
        note = "the route [default proto boot] encapsulates packets, and Linux can route these anew"
        assert checked.left["route-overlap.ok"] == f"undecided\n{note}\n"

    def test_a_type_that_only_ipv6_takes(self, namespace: Namespace, tmp_path: Path) -> None:
        """A route of type nat, whose number has two digits, is found and named. Kills: types of one digit."""
        namespace.batch(["route add default via fe80::1 dev eth0", "route add nat fd16:9::/48 dev ib0"], family=IPV6)
        assert "via ib0 [nat fd16:9::/48 proto boot table 255]" in Checked(namespace, check("fd16::/16"), tmp_path).said
        namespace.batch(["route replace nat ::/0 dev ib0 metric 5 table main"], family=IPV6)
        checked = Checked(namespace, check("fd16::/16"), tmp_path)
        assert "NO-DEFAULT-ROUTE: " in checked.said
        assert "[nat default dev ib0 table 254 " in checked.said

    @pytest.mark.parametrize("alias", ["x\nsetting allow *", "x\n2: eth0: <UP> mtu 9", "x\n99: pod0: <UP> mtu 9"])
    def test_an_alias_of_two_lines(self, namespace: Namespace, tmp_path: Path, alias: str) -> None:
        """The alias of a link can be any text, and `ip` prints it as it is: a line of it is neither a setting nor a link."""
        namespace.ip("link", "set", "ib0", "alias", alias)
        checked = Checked(namespace, check(), tmp_path)
        told = f"this check cannot read a link: {alias.splitlines()[1]}"
        assert (checked.status, checked.said) == (1, f"<3>check-route-overlap: {told}\n")

    def test_a_route_of_another_form(self, namespace: Namespace, tmp_path: Path) -> None:
        """A route that `ip` prints in another way is not passed over. Kills: what is not understood is left out."""
        tools = {"ip": 'ip "$@" | sed "s/ proto /  proto /"'}
        checked = Checked(namespace, check("10.0.0.0/8"), tmp_path, tools=tools)
        assert checked.said.startswith("<3>check-route-overlap: this check cannot read a route: ")
        assert checked.status == 1

    @pytest.mark.parametrize("kind", ["anycast", "local"])
    def test_routes_of_one_object(self, namespace: Namespace, tmp_path: Path, kind: str) -> None:
        """Linux may name another IPv6 route of the same object: an answer is about what was asked."""
        namespace.batch(
            [
                "route add default via fe80::1 dev eth0",
                "nexthop add id 42 dev ib0",
                "route add fd16:0:9::/48 nhid 42",
                f"route add {kind} fd99::7/128 nhid 42",
            ],
            family=IPV6,
        )
        for _ in range(8):  # on each processor
            namespace.run("ip", "-6", "route", "get", "fd99::7")
        checked = Checked(namespace, check("fd16::/32"), tmp_path)
        assert checked.answer.verdict == "overlap"

    def test_a_group_and_a_route_of_one_member(self, namespace: Namespace, tmp_path: Path) -> None:
        """Linux may name the route of one member, whose device is right, in place of a group. Kills: the answer alone.

        A longer prefix by that member is right, and so is a group without its device. Kills: any group around it.
        """
        objects = [f"nexthop add id {at} via fe80::1 dev {dev}" for at, dev in ((41, "eth0"), (42, "ib0"), (44, "wg0"))]
        namespace.sysctl("ipv6/conf/all/forwarding", 1)
        namespace.batch(objects, family=IPV6)
        namespace.batch(["nexthop add id 43 group 41/42", "nexthop add id 45 group 42/44"])
        namespace.batch(["route add default nhid 41"], family=IPV6)
        groups = [f"fd16::{number:x}0/124" for number in range(1, 16)]
        routes = [
            *(f"{group} nhid 43" for group in groups),
            "fd17::/32 nhid 43",
            "fd17:1::/48 nhid 41",
            "fd18::/16 nhid 45",
        ]
        namespace.batch([f"route add {route}" for route in routes], family=IPV6)
        for cpu in os.sched_getaffinity(0):
            for number in range(9):
                namespace.run("taskset", "-c", str(cpu), "ip", "-6", "route", "get", f"2001:db8::{number}")
        config = check(*groups, expected_devs=["eth0"], allowed_devs=["none"])
        found = Checked(namespace, config, tmp_path).answer
        assert {cidr for cidr, *_ in found.escapes} == set(groups)
        config = check("fd17:1::/48", "fd19::/16", expected_devs=["eth0"], allowed_devs=["none"])
        assert Checked(namespace, config, tmp_path).answer.verdict == "ok"

    def test_a_bridge(self, namespace: Namespace, tmp_path: Path) -> None:
        """The timers of a bridge, which count down all the time, are not a change of the tables: they are read twice."""
        namespace.batch(["link add docker0 type bridge", "link set docker0 up"])
        asked = tmp_path / "asked"
        script = put_before(
            render_check_script(check("10.0.0.0/8")), {"ip": f'echo "$*" >>{asked}\nexec ip "$@"'}, tmp_path
        )
        (tmp_path / "check.sh").write_text(script)
        done = namespace.run("bash", str(tmp_path / "check.sh"), RUNTIME_DIRECTORY=str(tmp_path / "state"))
        assert (done.returncode, done.stderr) == (0, "<6>check-route-overlap: ok: every expected CIDR leaves by eth0\n")
        assert sum("link" in line or "nexthop" in line for line in asked.read_text().splitlines()) <= 4

    def test_told_to_stop(self, namespace: Namespace, tmp_path: Path) -> None:
        """A run that is ended from outside, as by its unit's time-out, says so and ends as told; it leaves no marker."""
        namespace.batch(["route del default"])
        script, state = tmp_path / "check.sh", tmp_path / "state"
        naps = tmp_path / "naps"
        script.write_text(
            put_before(render_check_script(check(), wait=30), {"sleep": leaving_word(naps, "sleep")}, tmp_path)
        )
        command = [*namespace.enter, "env", f"RUNTIME_DIRECTORY={state}", "bash", str(script)]
        run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        await_file(naps)
        os.killpg(run.pid, signal.SIGTERM)
        assert run.communicate(timeout=20)[1] == "<3>check-route-overlap: stopped before there was a verdict\n"
        assert run.returncode == 128 + signal.SIGTERM
        assert not list(state.iterdir())

    def test_killed(self, namespace: Namespace, tmp_path: Path) -> None:
        """Of a run that was killed while it wrote, what is left has the name by which others know it."""
        tools = {"mv": "kill -KILL $PPID"}
        checked = Checked(namespace, check(), tmp_path, tools=tools)
        assert checked.status == -signal.SIGKILL
        assert checked.left.keys() == {Path(HostLayout().unfinished_path).name}

    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    @pytest.mark.parametrize("escaping", [False, True], ids=["ok", "overlap"])
    def test_no_room_for_what_was_found(
        self, namespace: Namespace, tmp_path: Path, mode: str, *, escaping: bool
    ) -> None:
        """If the disk is full, the journal has the findings and why they could not be written; the routes decide.

        What an earlier run left there goes anyway.
        """
        config = check(*["172.16.0.0/16"] * escaping, "10.0.0.0/8", mode=mode)
        state = tmp_path / "state"
        state.mkdir()
        full = f"mount -t tmpfs -o size=4k none {state} && ! cat /dev/zero 2>&- >{state}/all && : >{state}/route-overlap.ok"
        checked = Checked(namespace, config, tmp_path, before=full)
        assert ("OVERLAP: " if escaping else "ok: every expected CIDR") in checked.said
        written = "detected" if escaping else "ok"
        reason = f"cannot write {state}/route-overlap.{written}: No space left on device"
        assert checked.said.splitlines()[-1] == f"<4>check-route-overlap: {reason}"
        assert checked.left.keys() == {"all"}
        assert checked.status == (escaping and mode == "STRICT")

    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    @pytest.mark.parametrize("escaping", [False, True], ids=["ok", "overlap"])
    @pytest.mark.parametrize("stale", [False, True])
    def test_what_was_found_cannot_be_changed(
        self, namespace: Namespace, tmp_path: Path, mode: str, *, escaping: bool, stale: bool
    ) -> None:
        """On a read-only file system the routes decide as well; old markers are reported as an earlier check's."""
        config = check(*["172.16.0.0/16"] * escaping, "10.0.0.0/8", mode=mode)
        state = tmp_path / "state"
        state.mkdir()
        leave = f"touch {state}/route-overlap.new; echo ok >{state}/route-overlap.ok" if stale else ":"
        before = f"mount -t tmpfs none {state} && {{ {leave}; }} && mount -o remount,ro {state}"
        checked = Checked(namespace, config, tmp_path, before=before)
        assert ("OVERLAP: " if escaping else "ok: every expected CIDR") in checked.said
        why = "Read-only file system"
        said = [line.removeprefix("<4>check-route-overlap: ") for line in checked.said.splitlines()]
        told = f"a file of an earlier check stays: rm: cannot remove '{state}/route-overlap.ok': {why}"
        assert (said[0] == told) is stale
        assert said[-1] == f"cannot write {state}/route-overlap.{'detected' if escaping else 'ok'}: {why}"
        assert checked.status == (escaping and mode == "STRICT")

    @pytest.mark.parametrize("kind", ["mkfifo", "mkdir", "ln -s /nowhere/at/all", "touch"])
    def test_what_is_in_the_place_of_what_is_left(self, namespace: Namespace, tmp_path: Path, kind: str) -> None:
        """The script neither waits nor refuses because something else is in the place of a file that it writes."""
        state = tmp_path / "state"
        paths = [f"{state}/route-overlap.{name}" for name in ("new", "json", "ok")]
        before = f"mkdir {state}; for path in {' '.join(paths)}; do {kind} $path; done"
        checked = Checked(namespace, check("10.0.0.0/8"), tmp_path, before=before)
        assert checked.status == 0, checked.said
        if kind == "mkdir":
            assert f"stays: rm: cannot remove '{state}/route-overlap.ok': Is a directory" in checked.said
            assert f"cannot write {state}/route-overlap.ok: " in checked.said
        else:
            assert checked.left == {"route-overlap.ok": "ok\n"}

    @pytest.mark.parametrize("kind", ["mkfifo", "touch"])
    def test_what_is_in_the_place_of_the_directory(self, namespace: Namespace, tmp_path: Path, kind: str) -> None:
        """If there is no directory for it, and none can be made, the output says so, and the routes decide."""
        state = tmp_path / "other" / "state"
        before = f"mkdir -p {tmp_path}/other {tmp_path}/state; {kind} {state}"
        script = tmp_path / "check.sh"
        script.write_text(render_check_script(check("10.0.0.0/8"), wait=0))
        done = namespace.run("bash", "-c", f"{before}; RUNTIME_DIRECTORY={state} timeout 20 bash {script}")
        assert done.returncode == 0, done.stderr
        assert f"<4>check-route-overlap: cannot create {state}: File exists" in done.stderr
        assert f"<4>check-route-overlap: cannot write {state}/route-overlap.ok: Not a directory" in done.stderr

    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    def test_what_was_found_may_wait_for_nobody(self, namespace: Namespace, tmp_path: Path, mode: str) -> None:
        """The script does not write into a fifo that cannot be removed, because it may never have a reader."""
        state = tmp_path / "state"
        state.mkdir()
        before = f"mount -t tmpfs none {state} && mkfifo {state}/route-overlap.new && mount -o remount,ro {state}"
        script = tmp_path / "check.sh"
        script.write_text(render_check_script(check("10.0.0.0/8", mode=mode), wait=0))
        run = f"{before} && RUNTIME_DIRECTORY={state} timeout 20 bash {script}"
        done = namespace.run("unshare", "--mount", "bash", "-c", run)
        assert done.returncode == 0, done.stderr
        assert f"cannot write {state}/route-overlap.ok: Read-only file system" in done.stderr

    @pytest.mark.parametrize("step", ["100000", "-100000"])
    def test_a_clock_that_is_set(self, namespace: Namespace, tmp_path: Path, step: str) -> None:
        """The script waits for the same time even if the clock is set meanwhile."""
        namespace.batch(["route del default"])
        begin = time.monotonic()
        # With this, bash begins to count where a clock that jumped would have it.
        assert Checked(namespace, check(), tmp_path, wait=1, SECONDS=step).status == 1
        assert 1 <= time.monotonic() - begin < 60

    def test_work_is_part_of_the_wait(self, namespace: Namespace, tmp_path: Path) -> None:
        """On a busy host most of the wait is work, so there are few looks; the last one takes as long as it takes."""
        namespace.batch(["route del default"])
        looks = tmp_path / "looks"
        slow = f'[[ $* == *-force* ]] || {{ echo look >>{looks}; sleep 1; }}; exec ip "$@"'
        checked = Checked(namespace, check(), tmp_path, wait=2, tools={"ip": slow})
        assert checked.answer.verdict == "no-default-route"
        assert 2 <= len(looks.read_text().splitlines()) <= 5  # a look that is the last one reads no tables again

    def test_many(self, namespace: Namespace, tmp_path: Path) -> None:
        """Hundreds of CIDRs among thousands of routes: the same as the engine, and one question a place."""
        namespace.batch(
            f"route add 10.{64 + number // 256}.{number % 256}.0/24 "
            + ("dev ib0" if number % 7 == 0 else "via 10.0.0.1 dev eth0")
            for number in range(1000)
        )
        config = check(*(f"10.{64 + number // 16}.{number % 16 * 16}.0/20" for number in range(100)))
        snapshot = namespace.snapshot()
        checked = Checked(namespace, config, tmp_path)
        assert checked.answer.without(own_addresses(snapshot)) == engine(snapshot, config)


class TestBothFamilies:
    """One check of both families."""

    def test_findings_of_both(self, namespace: Namespace, tmp_path: Path) -> None:
        """Each family has expected devices and findings of its own; what to do is one line."""
        links = ["address add fe80::5/64 dev eth1 nodad", "address add fd16::5/64 dev ib0 nodad"]
        namespace.batch([*links, "route add default via fe80::1 dev eth1"], family=IPV6)
        config = check("fd16::/32", "172.16.0.0/16")
        snapshot = snapshot_of(namespace)
        checked = Checked(namespace, config, tmp_path)
        assert checked.answer.without(own_addresses(snapshot)) == engine(snapshot, config)
        assert checked.lines[0].endswith("expected eth0")
        assert checked.lines[-1].endswith("expected eth1")
        assert checked.said.splitlines()[-1].startswith("<3>ACTION: run: hostrouting repair 172.16.0.0/16 fd16::/32; ")
        assert checked.status == 1

    @pytest.mark.parametrize("escaping", [False, True], ids=["ok", "overlap"])
    def test_one_without_a_default_route(self, namespace: Namespace, tmp_path: Path, *, escaping: bool) -> None:
        """A family without a default route is named; an overlap of the other family is the verdict."""
        checked = Checked(namespace, check("fd16::/32", "172.16.0.0/16" if escaping else "10.0.0.0/8"), tmp_path)
        line = lack_of(namespace, check("fd16::/32"))
        assert checked.answer.verdict == ("overlap" if escaping else "no-default-route")
        assert f"<3>{line}" in checked.said.splitlines()
        assert checked.lines == [checked.lines[0], line] if escaping else ["no-default-route"]
        assert checked.status == 1

    def test_a_rule_of_the_other_family(self, namespace: Namespace, tmp_path: Path) -> None:
        """A rule that refuses all IPv6 packets says nothing about IPv4."""
        batch = ["route add default via fe80::1 dev eth1", "rule add pref 50 prohibit"]
        namespace.batch(batch, family=IPV6)
        checked = Checked(namespace, check("fd16::/32", "10.0.0.0/8"), tmp_path)
        assert checked.answer == Answer("no-default-route")
        assert "of the IPv4 default route" not in checked.said

    def test_a_missing_rule(self, namespace: Namespace, tmp_path: Path) -> None:
        """Where no rule looks up table local, the command that adds it is of the right family. Kills: one of IPv4 for both."""
        namespace.batch(["route add default via fe80::1 dev eth0", "rule del pref 0"], family=IPV6)
        checked = Checked(namespace, check("fd16::/32", "10.0.0.0/8"), tmp_path)
        assert checked.answer.verdict == "undecided"
        assert re.findall("; run: (.*)", checked.said) == ["ip -6 rule add pref 0 lookup local"]

    def test_ok(self, namespace: Namespace, tmp_path: Path) -> None:
        """The line for "ok" names the devices of each family."""
        namespace.batch(["route add default via fe80::1 dev eth1"], family=IPV6)
        checked = Checked(namespace, check("fd16::/32", "10.0.0.0/8"), tmp_path)
        told = "ok: every expected CIDR leaves by eth0 (IPv4) and eth1 (IPv6)"
        assert (checked.status, checked.said) == (0, f"<6>check-route-overlap: {told}\n")

    def test_an_advertised_default_route_is_awaited(self, namespace: Namespace, tmp_path: Path) -> None:
        """The IPv6 default route may come after the IPv4 one, with an end in time."""
        route = "ip -6 route add default via fe80::1 dev eth0 proto ra expires 1800"
        later = subprocess.Popen([*namespace.enter, "sh", "-c", f"sleep 0.5; {route}"])
        try:
            checked = Checked(namespace, check("fd16::/32", "10.0.0.0/8"), tmp_path, wait=100)
        finally:
            later.wait()
        assert (checked.status, checked.answer) == (0, Answer("ok")), checked.said

    @pytest.mark.parametrize("devs", [[], ["eth0"]])
    def test_a_kernel_without_ipv6(self, namespace: Namespace, tmp_path: Path, devs: list[str]) -> None:
        """A kernel without IPv6 is not asked for IPv6 rules and routes: the IPv4 findings remain; IPv6 has no route."""
        config = check("172.16.0.0/16", "fd16::/32", expected_devs=devs)
        refused = 'echo "RTNETLINK answers: Operation not supported"'
        tools = {
            "ip": f"""case $* in
              *-6*) {refused} >&2; exit 2 ;;
              *-force*) at=0; while read -r question; do
                ((++at))
                case $question in *:*) {refused}; echo "Command failed -:$at" ;; *) ip -N -d -o ${{question%#*}} ;; esac
              done ;;
              *) exec ip "$@" ;;
            esac"""
        }
        script = put_before(render_check_script(config, wait=0), tools, tmp_path)
        assert IPV6_FILE in script
        path, state = tmp_path / "check.sh", tmp_path / "state"
        path.write_text(only_awk(script.replace(IPV6_FILE, f"{tmp_path}/absent"), AWKS[0], tmp_path))
        done = namespace.run("bash", str(path), RUNTIME_DIRECTORY=str(state))
        assert (state / "route-overlap.detected").read_text().startswith("OVERLAP: expected CIDR 172.16.0.0/16 ")
        assert ("NO-ROUTE: " if devs else lack_of(namespace, config)) in done.stderr
        assert done.returncode == 1

    def test_a_kernel_that_fails(self, namespace: Namespace, tmp_path: Path) -> None:
        """If `ip` fails on a host with IPv6, no verdict is given."""
        tools = {"ip": '[[ $1 == -6 ]] || exec ip "$@"; echo "RTNETLINK answers: Operation not supported" >&2; exit 2'}
        (tmp_path / "check.sh").write_text(put_before(render_check_script(check("fd16::/32"), wait=0), tools, tmp_path))
        done = namespace.run("bash", str(tmp_path / "check.sh"), RUNTIME_DIRECTORY=str(tmp_path / "state"))
        told = "<3>check-route-overlap: ip failed: RTNETLINK answers: Operation not supported\n"
        assert (done.returncode, done.stderr) == (1, told)

    def test_seconds_that_pass(self, namespace: Namespace, tmp_path: Path) -> None:
        """The seconds until a route expires are not a change of the tables: they are read twice, in each family."""
        namespace.batch(["route add default via fe80::1 dev eth0 expires 1800"], family=IPV6)
        asked = tmp_path / "asked"
        body = f'echo "$*" >>{asked}\nip "$@" | sed "s/expires [0-9]*sec/expires ${{RANDOM}}sec/"'
        script = put_before(render_check_script(check("fd16::/32", "10.0.0.0/8")), {"ip": body}, tmp_path)
        (tmp_path / "check.sh").write_text(script)
        done = namespace.run("bash", str(tmp_path / "check.sh"), RUNTIME_DIRECTORY=str(tmp_path / "state"))
        assert (done.returncode, done.stderr) == (0, "<6>check-route-overlap: ok: every expected CIDR leaves by eth0\n")
        assert len(asked.read_text().splitlines()) == 2 * len(["-4", "-6"]) + len(["link", "-force"])

    def test_only_what_is_expected_is_read(self, namespace: Namespace, tmp_path: Path) -> None:
        """Without a CIDR of a family, nothing is read about that family."""
        for cidr, other in (("10.0.0.0/8", "-6"), ("fd00:99::/64", "-4")):
            asked = tmp_path / "asked"
            config = check(cidr, expected_devs=["eth0"])
            script = put_before(render_check_script(config), {"ip": f'echo "$*" >>{asked}\nexec ip "$@"'}, tmp_path)
            (tmp_path / "check.sh").write_text(script)
            done = namespace.run("bash", str(tmp_path / "check.sh"), "0", RUNTIME_DIRECTORY=str(tmp_path / "state"))
            assert done.returncode == 0, done.stderr
            assert other not in asked.read_text()
            asked.unlink()

    def test_any_address(self, namespace: Namespace, tmp_path: Path) -> None:
        """Addresses are short, with one row of zeros left out, and Linux reads them as they were."""
        groups = ["0", "0", "0", "1", "ab", "ab0", "ffff"]
        chance = Random(7)  # noqa: S311  the same addresses in each run
        cidrs = [":".join(chance.choices(groups, k=8)) + "/128" for _ in range(60)]
        config = check("::/128", "::1:0/128", *cidrs, expected_devs=["eth0"])
        checked = Checked(namespace, config, tmp_path)
        snapshot = snapshot_of(namespace)
        assert checked.answer.without(own_addresses(snapshot)) == engine(snapshot, config)
        assert len(checked.lines) > 50
        assert " (::1:0) " in checked.lines[1]
        assert not re.search(r":0[0-9a-f]", checked.left["route-overlap.detected"])
