"""What `plan` says of a run, and what `apply` does: whether it fails, and when, and what
has to be allowed.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hostrouting.model.route import OURS, Route
from hostrouting.testing import FakeHost, h200, plain_vm
from tests.support.cli import Said, say
from tests.support.incidents import (
    GUARDED,
    KUBELET,
    add_ib0,
    apply,
    apply_installed,
    config,
    escaping_node,
    node,
    plan,
    plan_installed,
    refuse,
    start_vpn,
)
from tests.support.programs import completed
from tests.support.statuses import OVERRIDE
from tests.support.tasks import CIDR, REPAIR, lose_routes, manager_of, type_routes
from tests.support.topologies import WithoutIPv6


def test_a_plan_of_an_ipv6_route_on_a_kernel_without_ipv6() -> None:
    """`apply` would not wait for what cannot come, but fail, and say why."""
    wanted = {"staticRoutes": {"enabled": True, "routes": [{"destination": "fd77::/48"}]}}
    host = FakeHost(kernel=WithoutIPv6())
    planned = plan(host, json.dumps(wanted))
    would = "WOULD FAIL: apply would change nothing, because fd77::/48 needs IPv6, "
    assert planned.lines[0].startswith(would)
    assert plan(host, json.dumps(wanted), "--json").json["wouldFail"].count("needs IPv6") == 1


NO_IPV6_ROUTE = "there is no IPv6 default route"


def of_both_families(mode: str) -> str:
    """A configuration that expects CIDRs of IPv4 and IPv6;
    the node has no default route for IPv6.
    """
    both = {"expectedCidrs": [CIDR, "fd00::/64"], "mode": mode}
    return json.dumps(config(*REPAIR, routeOverlap=both))


@pytest.mark.parametrize(("mode", "end"), [("STRICT", ", and then fail"), ("WARN", "")])
def test_a_plan_without_a_default_route(mode: str, end: str) -> None:
    """`plan` says which family has no default route, and what `apply` would do before it waits."""
    host = node(config(mode=mode), plain_vm)
    planned = plan(host, of_both_families(mode))
    would = f"so apply would make the changes below, wait for one{end}"
    assert planned.code == 3
    assert planned.lines[0] == f"NOT READY: {NO_IPV6_ROUTE}, {would}"


def test_an_apply_without_a_default_route() -> None:
    """In mode STRICT, `apply` fails because of the family that has no default route."""
    host = node(config(mode="STRICT"), plain_vm)
    first = apply(host, of_both_families("STRICT")).lines[0]
    assert first == f"FAILED: {NO_IPV6_ROUTE}, and the mode is STRICT"
    planned = plan_installed(host).lines[0]
    assert planned == f"NOT READY: {NO_IPV6_ROUTE}, so apply would wait for one, and then fail"


def test_a_plan_that_is_refused_proposes_nothing_that_is_refused_as_well() -> None:
    """Neither to gate kubelet nor to repair the host: `apply` of this file has to be allowed."""
    machines = {"units": ["systemd-nspawn@.service"]}
    host = node(config(gate=machines), plain_vm)
    add_ib0(host)
    half = {"expectedCidrs": [REPAIR[0]], "mode": "STRICT"}
    planned = plan(host, json.dumps(config(gate=machines, routeOverlap=half)))
    assert planned.lines[0].startswith("WOULD FAIL: apply would change nothing, because ")
    assert "UNIT-NOT-GATED: kubelet.service" in planned.out
    assert "hostrouting apply" not in planned.out


def test_a_plan_says_when_apply_fails_only_after_its_changes() -> None:
    """WOULD FAIL does not mean that nothing is changed."""
    host = escaping_node()
    type_routes(host, *REPAIR)
    lost = "staticRoutes.routes: 172.16.0.0/16 would escape, and does not escape now"
    refused = f"WOULD FAIL: apply would change nothing, because {lost}"
    assert plan_installed(host).lines[0].startswith(refused)

    allowed = plan_installed(host, "--allow-removal")
    changes = "so apply would make the changes below, and then fail"
    assert allowed.lines[0] == f"WOULD FAIL: addresses escape, and the mode is STRICT, {changes}"
    assert "Nothing was changed." not in apply_installed(host, "--allow-removal").out


@pytest.mark.parametrize(("mode", "escapes"), [("STRICT", False), ("STRICT", True), ("WARN", True)])
def test_apply_ends_with_what_status_says(mode: str, *, escapes: bool) -> None:
    """Its page ends with that of `status`; without the first line, if that would say the same."""
    host = node(config(mode=mode), plain_vm)
    if escapes:
        add_ib0(host)
    applied = apply_installed(host)
    headline, *page = say("status", host=host).lines
    assert applied.code == (escapes and mode == "STRICT")
    assert applied.lines[-len(page) :] == page
    assert (headline in applied.lines) is (escapes and mode == "STRICT")


def test_why_a_start_was_refused_before_is_over() -> None:
    """The page of `status` has that reason until then."""
    host = node(config(*REPAIR))
    lose_routes(host)
    refuse(host, KUBELET, f"OVERLAP: {CIDR} leaves through ib0")
    refused = say("status", "kubelet", host=host)
    assert refused.lines[0].startswith(f"REFUSED: {KUBELET} was refused by the gate")
    assert "when it was refused: OVERLAP: " in refused.out
    applied = apply_installed(host)
    assert applied.lines[0].startswith("DONE: ")
    assert "OVERLAP: " not in applied.out


# A drop-in that takes the gate away.


def with_loaded_override(mode: str = "STRICT") -> FakeHost:
    """A node on which a drop-in that systemd has loaded takes the gate away."""
    host = node(config(*REPAIR, mode=mode))
    host.files.write(OVERRIDE, "[Service]\nExecCondition=\n")
    manager_of(host).reload()
    return host


def to_delete(said: Said) -> str:
    """The line of the page with the command that deletes the line of the drop-in."""
    [line] = [line for line in said.lines if "sed -i" in line]
    return line


@pytest.mark.parametrize(("mode", "code"), [("STRICT", 1), ("WARN", 0)])
@pytest.mark.parametrize("command", [plan_installed, apply_installed])
def test_an_overriding_drop_in_that_systemd_has_loaded(
    command: Callable[[FakeHost], Said], mode: str, code: int
) -> None:
    """Nothing that `apply` does ends that, so `plan` and `apply` say it, and fail in STRICT."""
    said = command(with_loaded_override(mode))
    remains = f"what remains: {KUBELET} starts unchecked: "
    first = f"NOTHING TO DO: this host matches the configuration; {remains}"
    assert said.code == code
    assert said.lines[0].startswith(first)
    assert f'the line "ExecCondition=" in {OVERRIDE} cancels the gate' in said.out
    assert to_delete(said).endswith(f"/d' {OVERRIDE} && systemctl daemon-reload")


@pytest.mark.linux
def test_the_command_that_deletes_the_line_which_cancels_the_gate(tmp_path: Path) -> None:
    """The command on the page deletes this line, and no other."""
    line = to_delete(say("status", host=with_loaded_override()))
    sed, _, reload = line.partition("as root: ")[2].partition(" && ")
    assert reload == "systemctl daemon-reload"
    drop_in = tmp_path / "drop-in.conf"
    drop_in.write_text("[Service]\n ExecCondition = \nExecCondition=/bin/true\nRestart=always\n")
    completed(["bash", "-c", sed.replace(OVERRIDE, str(drop_in))], check=True)
    assert drop_in.read_text() == "[Service]\nExecCondition=/bin/true\nRestart=always\n"


def test_an_override_that_plan_is_told_to_ignore() -> None:
    """It does not count with --ignore; in WARN it does with --fail-on warning."""
    strict = with_loaded_override("STRICT")
    assert plan_installed(strict, "--fail-on", "warning", "--ignore", "gate-open").code == 0
    warn = with_loaded_override("WARN")
    assert plan_installed(warn, "--fail-on", "warning").code == 1


# Routes that somebody has typed.


def test_a_route_of_ours_in_the_place_of_the_repair() -> None:
    """No command can add a route there, so only the permanent repair is printed."""
    host = escaping_node()
    for destination in REPAIR:
        wrong = Route.to(destination, dev="ib0", protocol=OURS)
        host.kernel.ip_route("add", wrong)
    answer = say("repair", "--commands", host=host)
    assert answer.code == 1
    assert answer.out == ""
    assert "a route of hostrouting has the place of one of these" in answer.err
    assert answer.err.splitlines()[-1].endswith(
        "as root: hostrouting repair | hostrouting apply --config -"
    )
    assert "Until the next boot" not in say("check", host=host).out


# A device that has to be chosen.


def test_what_the_page_says_is_not_logged_before() -> None:
    """The page has that routes stay, so standard error has not."""
    host = node(config(*REPAIR))
    start_vpn(host)
    applied = apply_installed(host)
    assert "\nROUTE-STAYS: " in applied.out
    assert applied.err == ""


@pytest.mark.parametrize("command", ["check", "repair"])
def test_a_file_that_is_given_is_in_the_line_of_each_candidate(
    command: str, tmp_path: Path
) -> None:
    """Without the file, the line would repair the installed configuration, or none."""
    file = tmp_path / "new.json"
    file.write_text(json.dumps(config(*REPAIR, guard=GUARDED)))
    host = FakeHost(kernel=h200())
    start_vpn(host)

    said = say(command, "--config", str(file), host=host)
    for_eth0 = re.compile("hostrouting repair [^;\n]* --dev eth0 [|][^;\n]*")
    [line] = set(for_eth0.findall(said.out + said.err))
    assert line == f"hostrouting repair --config {file} --dev eth0 | hostrouting apply --config -"
    assert line.replace("eth0", "tun0") in said.out + said.err
