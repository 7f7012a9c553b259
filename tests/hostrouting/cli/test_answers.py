"""What the commands say of one host: `check` agrees with `explain` and with the check of a
snapshot, `status` with what `apply` has done, and each with what is to be typed next.
"""

import json
import re
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import Phase, assume, given, settings, strategies as st

from hostrouting.errors import BackendError
from hostrouting.host.layout import HostLayout
from hostrouting.kernel import Answer
from hostrouting.model.prefix import IP, Prefix, width_of
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import FakeFiles, FakeHost, FakeKernel, h200, plain_vm
from tests.support.cli import Said, say
from tests.support.incidents import (
    config,
    node as node_with,
)
from tests.support.nodes import BITS, block_of, nodes
from tests.support.statuses import INCIDENTS, right
from tests.support.tasks import CIDR, LAYOUT, REPAIR, lose_routes
from tests.support.topologies import (
    checked,
    cni_node,
    refusing,
    vm_of,
    vpn_node,
)


def routes_to(*destinations: str) -> dict[str, Any]:
    """A configuration with these static routes."""
    routes = [{"destination": destination} for destination in destinations]
    return {"staticRoutes": {"enabled": True, "routes": routes}}


def apply(host: FakeHost, settings: dict[str, Any], *options: str) -> Said:
    """Apply this configuration."""
    stdin = json.dumps(settings).encode()
    return say("apply", *options, "--config", "-", host=host, stdin=stdin)


# A host and its snapshot, `check` and `explain`.

HOSTS = {
    "h200": h200,
    "vpn": vpn_node,
    "cni": cni_node,
    "refusing": refusing,
}


def of_a_snapshot(host: FakeHost, *words: str) -> Said:
    """What the command says of a snapshot of this host, on one where nothing can be read."""
    saved = say("snapshot", "--json", host=host).out.encode()
    elsewhere = FakeHost(files=FakeFiles({HostLayout.config_path: "{"}))
    return say(*words, "--snapshot", "-", host=elsewhere, stdin=saved)


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize(
    "words", ["check 172.16.0.0/12 10.0.0.0/8", "repair 172.16.0.0/12", "explain 172.16.5.9"]
)
def test_a_snapshot_is_judged_as_the_host_itself(name: str, words: str) -> None:
    """Whatever is installed where it is judged. The page says where a command is to be typed."""
    host = FakeHost(kernel=HOSTS[name]())
    for options in ([], ["--json"]):
        here = say(*words.split(), *options, host=host)
        there = of_a_snapshot(host, *words.split(), *options)
        expected = here.out if options else here.out.replace("as root", "on that host as root")
        assert (there.code, there.out) == (here.code, expected)


def test_a_plan_for_another_host(tmp_path: Path) -> None:
    """Each command of the plan for a snapshot is typed on the host of the snapshot."""
    kernel = h200()
    kernel.ip_route("add", Route.to("172.16.0.0/17", dev="ib3", protocol=4))
    file = tmp_path / "config.json"
    file.write_text(json.dumps(routes_to("172.16.0.0/17")))
    saved = kernel.snapshot().to_json().encode()
    here = FakeHost(kernel=FakeKernel(), manager=None)  # nothing holds its units back
    page = say("plan", "--config", str(file), "--snapshot", "-", host=here, stdin=saved)
    assert page.lines[0].startswith("WOULD FAIL: ")
    assert "GATE-OPEN" not in page.out
    deletion = "ip route del 172.16.0.0/17 dev ib3 table main proto static"
    assert f", on that host as root: {deletion}" in page.out


@given(node=nodes(), place=st.integers(0, (1 << BITS) - 1), has_lost_a_rule=st.booleans())
def test_explain_agrees_with_check(
    node: tuple[int, Snapshot], place: int, *, has_lost_a_rule: bool
) -> None:
    """Where a device is expected, it begins with the verdict of a check of the address alone. For
    an escape, that word is what happens to the packets.
    """
    family, snapshot = node
    if has_lost_a_rule:  # that for table local
        snapshot = snapshot._replace(rules=snapshot.rules[1:])
    address = Prefix(family, block_of(family).first + place, width_of(family))
    [report] = checked(snapshot, str(address)).families
    assume(report.expected_devs)

    saved = snapshot.to_json().encode()
    explained = say("explain", str(address.ip), "--snapshot", "-", stdin=saved)

    word, _, _ = explained.lines[0].partition(":")
    if report.verdict == "overlap":
        assert word not in {"OK", "UNDECIDED"}
    else:
        assert word == report.verdict.upper()


# To shrink a failing node takes minutes, and its page says what is missing.
@settings(phases=set(Phase) - {Phase.shrink})
@given(node=nodes(), block=st.integers(0, BITS))
def test_the_page_has_each_finding(node: tuple[int, Snapshot], block: int) -> None:
    """In the verdict, or under its name; a repair and its cost are elsewhere, or not shown."""
    family, snapshot = node
    half = Prefix(family, block_of(family).first, width_of(family) - block)
    words = ("check", str(block_of(family)), str(half), "--snapshot", "-")
    saved = snapshot.to_json().encode()
    page = say(*words, stdin=saved).out
    for finding in say(*words, "--json", stdin=saved).json["findings"]:
        if finding["name"] not in {"action", "repair-cost"}:
            what_happens, *_ = re.split("; expected: |, and should leave", finding["sentence"])
            assert what_happens in page


def test_explain_names_devices_where_the_file_has_no_cidr(tmp_path: Path) -> None:
    """A repair needs one, so the address is expected."""
    file = tmp_path / "routes.json"
    file.write_text(json.dumps({"manageForeign": "keep"}))
    explained = say("explain", "172.16.5.9", "--config", str(file), kernel=vpn_node())
    for_eth0 = f"hostrouting repair 172.16.5.9/32 --config {file} --dev eth0 | "
    assert for_eth0 in explained.out


@pytest.mark.parametrize("vm", ["rule goto 200", "-default; rule goto 200"])
def test_explain_does_not_say_what_is_not_judged(vm: str) -> None:
    """A rule that is not judged may route other packets differently, and be the way out."""
    saved = vm_of(vm).to_json().encode()
    explained = say("explain", "172.16.5.9", "--snapshot", "-", stdin=saved)
    assert "NOT-JUDGED: " in explained.out
    assert "No rule routes other packets" not in explained.out


@pytest.mark.parametrize(
    ("priority", "words"),
    [(0, "explain 10.0.0.4"), (32766, "repair 10.96.0.0/12")],
)
def test_a_missing_rule(priority: int, words: str) -> None:
    """What is missing is the rule, and not a default route:
    the remedy is the command that adds it.
    """
    vm = plain_vm().snapshot()
    others = tuple(rule for rule in vm.rules if rule.priority != priority)
    saved = vm._replace(rules=others).to_json().encode()
    said = say(*words.split(), "--snapshot", "-", stdin=saved)
    all_words = said.out + said.err
    assert f"on that host as root: ip rule add pref {priority} lookup " in all_words
    assert not all_words.startswith("OK")
    assert "is no default route" not in all_words
    assert "add a default route" not in all_words


# Repairs: what is printed, and what has been typed already.


def test_a_deletion_is_proposed_once() -> None:
    """Where a blackhole hides pods, `check` and `repair` have its deletion once."""
    kernel = cni_node()
    kernel.ip_route("add", Route(Prefix.parse("10.244.0.128/25"), type="blackhole", protocol=4))
    command = "ip route del 10.244.0.128/25 table main proto static"
    assert say("check", "10.244.0.0/24", kernel=kernel).out.count(command) == 1
    assert say("repair", "10.244.0.0/24", kernel=kernel).err.count(command) == 1


def test_a_repair_where_the_kernel_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the kernel answers with another device than its tables have, nobody knows whether a repair
    is needed, although the tables are right.
    """

    def by_ib7(_: FakeKernel, addresses: Sequence[IP]) -> tuple[Answer, ...]:
        return (Answer("unicast", Route.to(CIDR, dev="ib7")),) * len(addresses)

    monkeypatch.setattr(FakeKernel, "lookup", by_ib7)
    said = say("repair", CIDR, kernel=plain_vm())
    assert said.code == 3
    assert said.out == ""
    assert "it is not clear whether a repair is needed" in said.err
    assert f"the kernel answers [{CIDR} dev ib7 " in said.err


# `plan`, `apply` and then `status`.


def test_a_repair_keeps_what_is_in_conflict() -> None:
    """If another program's route has the place of an installed one, and nothing escapes."""
    installed = FakeHost(kernel=plain_vm())
    settings = {
        **routes_to("172.16.0.0/17"),
        "routeOverlap": {"expectedCidrs": ["172.16.0.0/17"]},
    }
    assert apply(installed, settings).code == 0
    kernel = plain_vm()
    kernel.ip_route("add", Route.to("172.16.0.0/17", dev="eth0", gateway="10.0.0.7", protocol=4))
    repair = say("repair", host=FakeHost(kernel=kernel, files=installed.files)).json
    assert repair["staticRoutes"] == settings["staticRoutes"]


def test_a_stopped_run() -> None:
    """After Ctrl-C the page says what was changed until then, and how the host is now; the document
    has the reason, which it has not after a failure.
    """
    host = FakeHost(kernel=FakeKernel())  # without a default route, so apply waits
    host.faults.meanwhile("snapshot", lambda: signal.raise_signal(signal.SIGINT), nth=2)
    said = apply(host, routes_to("9.0.0.0/8"))
    assert said.code == 130
    first, second, third, *others = said.lines
    assert first == "STOPPED: SIGINT; not everything was done"
    assert second == "What this run has changed:"
    assert third == f"  wrote {HostLayout.program_path}"
    assert "WAITING: 9.0.0.0/8 needs an IPv4 default route" in others

    host = FakeHost(kernel=FakeKernel())
    host.faults.meanwhile("snapshot", lambda: signal.raise_signal(signal.SIGTERM), nth=2)
    stopped = apply(host, routes_to("9.0.0.0/8"), "--json").json
    failed = apply(host, routes_to("9.0.0.0/8"), "--json", "--wait", "0.1")
    assert (stopped["failures"], stopped["stopped"]) == ([], "SIGTERM")
    assert failed.json["failures"]
    assert failed.json["stopped"] == ""
    assert failed.err.startswith("waiting for up to 0.1 s: 9.0.0.0/8 needs an IPv4 default route")


@pytest.mark.parametrize(
    ("words", "asks", "error"),
    [
        ("apply --config -", "commands.apply.find_status", KeyboardInterrupt()),
        ("remove", "commands.remove._judge", BackendError("no answer", kind="timeout")),
    ],
)
def test_an_answer_that_fails(
    monkeypatch: pytest.MonkeyPatch, words: str, asks: str, error: BaseException
) -> None:
    """What the run has changed is said all the same."""
    host = right()
    if words != "remove":
        lose_routes(host)
    monkeypatch.setattr(f"hostrouting.cli.{asks}", Mock(side_effect=error))
    installed = host.files.texts[LAYOUT.config_path].encode()
    said = say(*words.split(), host=host, stdin=installed)
    assert said.code in {3, 130}
    assert said.out == ""
    assert "DONE: the answer is not complete, see below\n" in said.err
    assert f" {REPAIR[0]} via " in said.err


# `remove`.


def test_the_proposed_check_gives_the_same_verdict() -> None:
    """It expects the devices that were expected: the installed configuration, which had them, is
    gone.
    """
    expected = {"expectedCidrs": [CIDR], "expectedDevs": ["ib1", "ib2"], "mode": "WARN"}
    host = node_with(config(*REPAIR, routeOverlap=expected))
    *_, verdict, proposal = say("remove", host=host).lines
    assert verdict.startswith(f"OVERLAP: {CIDR} leaves through ib0 [")
    assert verdict.endswith("; expected: ib1 or ib2")
    command = proposal.removeprefix("To see what repairs that: hostrouting ")
    checked = say(*shlex.split(command), host=host).lines[0]
    assert checked.startswith(f"OVERLAP: {CIDR} leaves through ib0 ")
    assert checked.endswith("; expected: ib1 or ib2")


def test_nothing_is_proposed_where_a_removal_costs_nothing() -> None:
    """The verdict is the last line."""
    host = node_with(config(*REPAIR), plain_vm)
    *_, verdict = say("remove", host=host).lines
    assert verdict.startswith("OK: ")
    status = say("status", "--json", host=host).json
    assert (status["mode"], status["guard"]) == (None, None)


# One family is asked for, and another one has no default route; and what nobody expects.


def test_an_address_that_nobody_expects_to_leave_by_the_uplink_is_not_judged() -> None:
    """With a VPN, every address of the Internet would be called an overlap."""
    first = say("explain", "8.8.8.8", host=right()).lines[0]
    way = "8.8.8.8 leaves through eth0"
    assert first == f"{way}; no expected CIDR has this address, so check does not judge it"


NO_IPV6 = "there is no IPv6 default route, so no device is expected"


def test_a_repair_of_one_family_does_not_say_that_the_other_is_right() -> None:
    """What is right once the configuration is applied may escape now."""
    host = node_with(config(*REPAIR))
    lose_routes(host)
    refused = say("repair", "fd00::/64", host=host)
    assert refused.code == 3
    assert NO_IPV6 in refused.err


@pytest.mark.parametrize("options", [(), ("--commands",)])
def test_a_repair_of_one_family_says_what_the_other_lacks(options: tuple[str, ...]) -> None:
    """What is printed repairs only a part then, and the exit code says so."""
    said = say("repair", CIDR, "fd00::/64", *options, kernel=h200())
    assert said.code == 1
    assert REPAIR[1] in said.out
    assert NO_IPV6 in said.err


@pytest.mark.parametrize(("count", "typed"), [(2, 4), (3, 0)])
def test_the_commands_of_a_repair(count: int, typed: int) -> None:
    """At most four are typed one by one."""
    cidrs = [f"172.{16 + number}.0.0/16" for number in range(count)]
    kernel = h200()
    for number in range(1, count):
        kernel.add_address(f"ib{number}", f"172.{16 + number}.0.1/16")
    page = say("check", *cidrs, kernel=kernel)
    assert page.out.count("\n  ip route add ") == typed
    in_one = f"  hostrouting repair {' '.join(cidrs)} --commands | sh"
    assert (in_one in page.lines) is (typed == 0)


def test_a_repair_that_costs_nothing() -> None:
    """Nothing is lost where a route drops the packets, so the change need not be confirmed."""
    kernel = plain_vm()
    kernel.ip_route("add", Route(Prefix.parse(CIDR), type="blackhole", protocol=4))
    page = say("check", CIDR, kernel=kernel)
    assert "To see first what would change:" in page.lines
    assert "--confirm" not in page.out


def test_a_card_is_to_be_named_before_a_repair() -> None:
    """The repair would lead through the card that Linux prefers, and move routes that are right."""
    name = "differs: another card has a better default route, and addresses escape"
    page = say("check", host=INCIDENTS[name].make())
    assert "Permanently" not in page.out
    assert "REPAIR-COST" not in page.out
    assert "if eth0 is intended (address 10.0.0.4)" in page.out
