"""Incidents as an operator meets them: what `status` says of a host, and what happens when the
obvious command is typed there.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import attrs
import pytest

from hostrouting.boot.unit_gates import AGAIN
from hostrouting.errors import HostError
from hostrouting.model.route import OURS, Route
from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeHost, FakeKernel, FakeManager, h200, plain_vm
from tests.hostrouting.cli.test_pages import with_vpn
from tests.support.cli import Said, say
from tests.support.programs import completed
from tests.support.tasks import CIDR, LAYOUT, REPAIR, lose_routes, manager_of, ours

KUBELET = "kubelet.service"
DROP_IN = LAYOUT.drop_in_path(KUBELET)
OVERRIDE = f"{LAYOUT.unit_directory}/{KUBELET}.d/10-kubeadm.conf"
GUARDED: dict[str, object] = {"enabled": True}


def config(*routes: str, mode: str = "STRICT", **more: object) -> dict[str, Any]:
    """A configuration with these routes, which gates kubelet."""
    static = {"enabled": bool(routes), "routes": [{"destination": route} for route in routes]}
    check = {"expectedCidrs": [CIDR], "mode": mode}
    return {"staticRoutes": static, "routeOverlap": check, "gate": {"units": [KUBELET]}, **more}


def node(settings: dict[str, Any], kernel: Callable[[], FakeKernel] = h200) -> FakeHost:
    """A node on which kubelet runs, and this configuration is applied."""
    host = FakeHost(kernel=kernel())
    manager = manager_of(host)
    manager.states[KUBELET] = "active"
    manager.properties[KUBELET] = {"LoadState": "loaded", "UnitFileState": "enabled"}
    apply(host, json.dumps(settings))
    return host


def apply(host: FakeHost, text: str, *options: str) -> Said:
    """Apply this text."""
    return say("apply", "--wait", "0", "--config", "-", *options, host=host, stdin=text.encode())


def apply_installed(host: FakeHost, *options: str) -> Said:
    """Type the command that so many pages print."""
    return apply(host, host.files.texts[LAYOUT.config_path], *options)


def edited(host: FakeHost, edit: Callable[[dict[str, Any]], object]) -> None:
    """Somebody edits the installed config.json."""
    document = json.loads(host.files.texts[LAYOUT.config_path])
    edit(document["hostRouting"])
    host.files.texts[LAYOUT.config_path] = json.dumps(document, indent=2) + "\n"


def type_repair(host: FakeHost) -> None:
    """Somebody types the repair until the next boot."""
    for half in REPAIR:
        host.kernel.ip_route("add", Route.to(half, dev="eth0", gateway="10.0.0.1", protocol=OURS))


def with_ib0(kernel: FakeKernel) -> None:
    """A card gets an address in the expected network."""
    kernel.add_link(Link(name="ib0", index=0))
    kernel.add_address("ib0", "172.16.1.10/16")


def refuse(host: FakeHost, unit: str = KUBELET) -> None:
    """The gate has refused the unit."""
    condition = f"{{ path={LAYOUT.gate_path} ; argv[]={LAYOUT.gate_path} ; status=255 }}"
    manager = manager_of(host)
    manager.states[unit] = "failed"
    manager.properties[unit] = {
        "LoadState": "loaded",
        "ExecCondition": condition,
        "ActiveState": "failed",
        "StateChangeTimestamp": "Thu 03:02 UTC",
        "ConditionTimestamp": "Thu 03:02 UTC",
    }
    manager.errors[unit] = ("check-route-overlap: overlap",)


# config.json was edited where it lies.

EDITS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "WARN instead of STRICT": (
        lambda settings: settings["routeOverlap"].update(mode="WARN"),
        "STRICT is installed; with WARN, units start even if addresses escape",
    ),
    "a route less": (
        lambda settings: settings["staticRoutes"]["routes"].pop(),
        f"{REPAIR[1]} would lose the route that is installed",
    ),
    "another CIDR": (
        lambda settings: settings["routeOverlap"].update(expectedCidrs=["10.96.0.0/12"]),
        f"{CIDR} would no longer be checked",
    ),
    "kubelet is not gated": (
        lambda settings: settings["gate"].update(units=["systemd-nspawn@.service"]),
        "kubelet.service would no longer wait for the gate",
    ),
    "no guard": (
        lambda settings: settings.pop("guard"),
        "the guard that repairs routes would be removed",
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_in_place_takes_nothing_away_unless_that_is_allowed(edit: str) -> None:
    """What protects the host is what the installed scripts do, and not what the edited file says."""
    change, loss = EDITS[edit]
    host = node(config(*REPAIR, guard=GUARDED))
    edited(host, change)
    before = dict(host.files.texts)
    refused = apply_installed(host)
    assert refused.code == 2
    assert loss in refused.out
    assert host.files.texts == before
    assert len(ours(host)) == len(REPAIR)
    assert apply_installed(host, "--allow-removal").out.startswith(
        ("DONE", "FAILED: addresses escape")
    )


@pytest.mark.parametrize("edit", EDITS)
def test_status_says_what_an_edited_file_would_take_away(edit: str) -> None:
    """It does not propose to apply the file, and does not take the file for what is in force."""
    change, loss = EDITS[edit]
    host = node(config(*REPAIR, guard=GUARDED))
    edited(host, change)
    status = say("status", host=host)
    assert loss in status.lines[0]
    assert "apply would fail" in status.lines[0]
    assert f"{AGAIN.command}\n" not in status.out
    assert f"{AGAIN.command} --allow-removal" in status.out
    assert "mode STRICT; the guard runs" in status.out
    assert "UNIT-NOT-GATED" not in status.out


# Drop-ins.


def test_an_overriding_drop_in_is_named_before_systemd_reads_it() -> None:
    """To apply would have systemd read it, which opens the gate: it is refused, and changes
    nothing.
    """
    host = node(config(*REPAIR))
    host.files.write(OVERRIDE, "[Service]\nExecCondition=\n")
    calls = list(manager_of(host).calls)
    status = say("status", host=host)
    assert status.code == 1
    assert OVERRIDE in status.lines[0]
    assert f"{AGAIN.command}\n" not in status.out
    refused = apply_installed(host)
    assert refused.code == 1
    assert OVERRIDE in refused.out
    assert manager_of(host).calls == calls


def with_loaded_override(mode: str) -> FakeHost:
    """A drop-in that systemd has loaded takes the gate away."""
    host = node(config(*REPAIR, mode=mode))
    host.files.write(OVERRIDE, "[Service]\nExecCondition=\n")
    manager_of(host).reload()
    return host


@pytest.mark.parametrize(("mode", "code"), [("STRICT", 1), ("WARN", 0)])
@pytest.mark.parametrize("command", ["plan", "apply"])
def test_an_overriding_drop_in_that_systemd_has_loaded(command: str, mode: str, code: int) -> None:
    """Nothing that apply does ends that, so plan and apply say it, and fail in STRICT."""
    host = with_loaded_override(mode)
    text = host.files.texts[LAYOUT.config_path].encode()
    said = say(command, "--config", "-", host=host, stdin=text)
    first = f"NOTHING TO DO: this host matches the configuration, but {KUBELET} can start unchecked"
    assert (said.code, said.lines[0]) == (code, first)
    [line] = [line for line in said.lines if line.startswith("GATE-OPEN")]
    assert f'the line "ExecCondition=" in {OVERRIDE} cancels the gate' in line
    assert line.endswith(f"/d' {OVERRIDE} && systemctl daemon-reload")


@pytest.mark.linux
def test_the_command_that_deletes_the_line_which_cancels_the_gate(tmp_path: Path) -> None:
    """It deletes this line, and no other."""
    text = "[Service]\n ExecCondition = \nExecCondition=/bin/true\nRestart=always\n"
    host = with_loaded_override("STRICT")
    [line] = [line for line in say("status", host=host).lines if line.startswith("GATE-OPEN")]
    drop_in = tmp_path / "drop-in.conf"
    drop_in.write_text(text)
    sed, _, reload = line.partition("as root: ")[2].partition(" && ")
    completed(["bash", "-c", sed.replace(OVERRIDE, str(drop_in))], check=True)
    assert drop_in.read_text() == "[Service]\nExecCondition=/bin/true\nRestart=always\n"
    assert reload == "systemctl daemon-reload"


def test_an_override_that_plan_is_told_to_ignore() -> None:
    """It does not count then; a warning in WARN does, if warnings count."""
    host = with_loaded_override("STRICT")
    text = host.files.texts[LAYOUT.config_path].encode()
    plan = ("plan", "--config", "-", "--fail-on", "warning")
    assert say(*plan, "--ignore", "gate-open", host=host, stdin=text).code == 0
    host = with_loaded_override("WARN")
    text = host.files.texts[LAYOUT.config_path].encode()
    assert say(*plan, host=host, stdin=text).code == 1


def test_a_repaired_drop_in_that_systemd_has_not_read() -> None:
    """To apply has systemd read it: no second command is proposed for that."""
    host = with_loaded_override("STRICT")
    host.files.write(OVERRIDE, "[Service]\n")
    status = say("status", host=host)
    reason = f"{KUBELET} can start unchecked, and systemd has not read its files"
    assert status.lines[0] == f"DIFFERENT: {reason}"
    assert status.lines[2] == f"  {AGAIN.command}"
    assert "GATE-OPEN: kubelet.service starts unchecked: systemd still uses" in status.out
    assert "systemctl daemon-reload" not in status.out
    assert apply_installed(host).code == 0
    assert say("status", host=host).code == 0


def test_a_drop_in_that_adds_a_condition_takes_nothing_away() -> None:
    """Only an empty ExecCondition= resets the list."""
    host = node(config(*REPAIR))
    host.files.write(OVERRIDE, "[Service]\nExecCondition=/bin/true\n")
    assert "GATE-OPEN" not in say("status", host=host).out
    assert apply_installed(host).code == 0


def test_our_own_drop_in_was_overwritten() -> None:
    """The page names this file, and no other drop-in; what must fail is not proposed."""
    host = node(config(*REPAIR))
    host.files.write(DROP_IN, "[Service]\n")
    manager_of(host).reload()
    status = say("status", host=host)
    assert "another drop-in" not in status.out
    assert f"starts unchecked: {DROP_IN} was overwritten" in status.out
    assert "apply would fail" in status.lines[0]
    assert AGAIN.command not in status.out


# The first line has the reason.


def stop_guard(host: FakeHost) -> None:
    """Somebody stops the guard."""
    manager_of(host).stop(LAYOUT.guard_unit)


def lose_routes_and_guard(host: FakeHost) -> None:
    """The routes are lost while the guard does not run; nothing escapes here."""
    stop_guard(host)
    lose_routes(host)


def edit_script(host: FakeHost) -> None:
    """Somebody edits a step of the gate."""
    host.files.texts[LAYOUT.step_path(LAYOUT.routes_step)] += "# mine\n"


def delete_gate(host: FakeHost) -> None:
    """Two files are lost, without which kubelet cannot start."""
    host.files.remove(LAYOUT.gate_path)
    host.files.remove(LAYOUT.step_path(LAYOUT.routes_step))


DIFFERENCES: dict[str, Callable[[FakeHost], None]] = {
    "2 routes are missing and the guard does not run": lose_routes_and_guard,
    "the guard does not run": stop_guard,
    f"{LAYOUT.step_path(LAYOUT.routes_step)} is not as installed": edit_script,
    f"{KUBELET} cannot start, and 2 files are not as installed": delete_gate,
}


@pytest.mark.parametrize("reason", DIFFERENCES)
def test_the_headline_says_what_differs(reason: str) -> None:
    """The routes, the guard and the files."""
    host = node(config(*REPAIR, guard=GUARDED), plain_vm)
    DIFFERENCES[reason](host)
    assert say("status", host=host).lines[0] == f"DIFFERENT: {reason}"


@pytest.mark.parametrize(("mode", "end"), [("STRICT", ", and then fail"), ("WARN", "")])
def test_a_plan_without_a_default_route(mode: str, end: str) -> None:
    """It says which family lacks one, and what apply would do before it waits for it."""
    host = node(config(mode=mode), plain_vm)
    both = {"expectedCidrs": [CIDR, "fd00::/64"], "mode": mode}
    text = json.dumps(config(*REPAIR, routeOverlap=both)).encode()
    missing = "there is no IPv6 default route"
    plan = say("plan", "--config", "-", host=host, stdin=text)
    would = f"so apply would make the changes below, wait for one{end}"
    assert (plan.code, plan.lines[0]) == (3, f"NOT READY: {missing}, {would}")
    applied = apply(host, text.decode())
    if mode == "STRICT":
        assert applied.lines[0].startswith(f"FAILED: {missing}, and the mode is STRICT")
    else:
        assert applied.lines[0].endswith(f", but {missing}")
    plan = say("plan", host=host)
    assert plan.lines[0] == f"NOT READY: {missing}, so apply would wait for one{end}"
    assert say("status", host=host).lines[0] == f"ATTENTION: {missing}"


def test_a_plan_of_what_is_installed_where_addresses_escape() -> None:
    """Apply would change nothing, and fail; the page has the line that repairs it."""
    host = node(config(), plain_vm)
    with_ib0(host.kernel)
    plan = say("plan", host=host).lines
    assert plan[0] == "WOULD FAIL: addresses escape, and the mode is STRICT"
    assert plan[-2:] == [
        "To repair that, as root:",
        "  hostrouting repair | hostrouting apply --config -",
    ]
    text = host.files.texts[LAYOUT.config_path].encode()
    plan = say("plan", "--config", "-", host=host, stdin=text).lines
    assert plan[-1] == "  hostrouting repair --config FILE | hostrouting apply --config -"


@pytest.mark.parametrize("typed", [False, True])
def test_commands_are_refused_before_anything_else_is_said(*, typed: bool) -> None:
    """Where hostrouting is installed, routes that were typed with ip do not stay."""
    host = node(config(), plain_vm)
    with_ib0(host.kernel)
    if typed:
        type_repair(host)
    refused = say("repair", "--commands", host=host)
    first, *_, last = refused.err.splitlines()
    assert (refused.code, refused.out) == (1, "")
    assert first.startswith("hostrouting: Do not repair it with ip")
    assert last.endswith("permanently, as root: hostrouting repair | hostrouting apply --config -")
    assert "nothing to repair" not in refused.err


@pytest.mark.parametrize("mode", ["STRICT", "WARN"])
def test_apply_ends_with_what_status_says(mode: str) -> None:
    """After a failure with the headline, which is not in the first line then."""
    host = node(config(mode=mode), plain_vm)
    assert apply_installed(host).lines[1:] == say("status", host=host).lines[1:]
    with_ib0(host.kernel)
    text = json.dumps(config(mode=mode))
    applied = apply(host, text)
    status = say("status", host=host)
    assert applied.code == (1 if mode == "STRICT" else 0)
    is_shown = status.lines[0] in applied.lines
    assert is_shown == (mode == "STRICT")
    assert applied.out.endswith("\n".join(status.lines[1:]) + "\n")
    document = apply(host, text, "--json").json
    now = say("status", "--json", host=host).json
    assert (document["findings"], document["check"]) == (now["findings"], now["check"])


# Routes that somebody has typed.


def test_routes_that_were_typed_are_not_deleted_where_the_run_must_fail_then() -> None:
    """In STRICT, apply is refused before it deletes what keeps addresses from escaping."""
    host = node(config(), plain_vm)
    with_ib0(host.kernel)
    type_repair(host)
    installed = host.files.texts[LAYOUT.config_path].encode()
    plan = say("plan", "--config", "-", host=host, stdin=installed)
    assert "WOULD FAIL" in plan.out
    refused = apply_installed(host)
    assert refused.code == 1
    assert len(ours(host)) == len(REPAIR)
    assert "Nothing was changed." in refused.out
    assert "hostrouting repair | hostrouting apply --config -" in refused.out
    assert apply_installed(host, "--allow-removal").code == 1
    assert not ours(host)


def test_a_repair_costs_nothing_that_is_lost_already() -> None:
    """The typed routes have taken the addresses; to configure them changes nothing."""
    host = node(config(mode="WARN"), h200)
    assert "REPAIR-COST" in say("check", host=host).out
    assert "IP traffic to" in say("repair", host=host).err
    type_repair(host)
    assert "IP traffic to" not in say("repair", host=host).err


def test_a_removal_says_before_and_after_what_escapes() -> None:
    """And which units start unchecked then; whatever the configuration had, the reason is the
    removal.
    """
    host = node(config(*REPAIR))
    shown = say("remove", "--dry-run", host=host)
    verdict = f"OVERLAP: all of {CIDR} leaves through ib0; expected: eth0"
    assert shown.code == 1
    assert shown.out.count("# delete: hostrouting is removed") == len(REPAIR)
    assert f"Then nothing holds back {KUBELET}." in shown.lines
    assert shown.lines[-2:] == ["The verdict afterwards:", verdict]
    garble(host)
    assert say("remove", "--dry-run", host=host).lines[-1] == verdict
    removed = say("remove", host=host)
    assert removed.code == 0
    assert removed.lines[-2:] == [
        verdict,
        f"To see what repairs that: hostrouting check {CIDR}",
    ]


def test_a_script_that_cannot_be_read_does_not_hinder_its_removal() -> None:
    """Without config.json, the scripts say what was expected; if they do not, there is no verdict."""
    host = node(config(*REPAIR))
    host.files.remove(LAYOUT.config_path)
    unread = mock.patch(
        "hostrouting.cli.commands.remove.read_enforced",
        side_effect=HostError("cannot read the script", what="file"),
    )
    with unread:
        assert say("remove", "--dry-run", host=host).lines[0].startswith("TO DO")
        removed = say("remove", host=host)
    assert (removed.code, "verdict" in removed.out) == (0, False)


def test_a_plan_says_when_apply_fails_only_after_its_changes() -> None:
    """WOULD FAIL does not mean that nothing is changed."""
    host = node(config(), plain_vm)
    with_ib0(host.kernel)
    type_repair(host)
    text = host.files.texts[LAYOUT.config_path].encode()
    plan = ("plan", "--config", "-")
    first = say(*plan, host=host, stdin=text).lines[0]
    reason = "apply would delete routes that are not in the configuration"
    assert first.startswith(f"WOULD FAIL: apply would change nothing, because {reason}")
    allowed = say(*plan, "--allow-removal", host=host, stdin=text)
    changes = "so apply would make the changes below, and then fail"
    assert allowed.lines[0] == (f"WOULD FAIL: addresses escape, and the mode is STRICT, {changes}")
    assert "apply would delete routes that" in allowed.out
    assert "Nothing was changed." not in apply_installed(host, "--allow-removal").out


# A VPN has a better default route.


def type_pipeline(host: FakeHost, line: str) -> Said:
    """Type `hostrouting repair … | hostrouting apply …`."""
    repair, _, application = line.partition(" | ")
    printed = say(*repair.split()[1:], host=host)
    return say(*application.split()[1:], "--wait", "0", host=host, stdin=printed.out.encode())


@pytest.mark.parametrize("lost", [False, True])
def test_beside_a_vpn_each_candidate_has_its_command(*, lost: bool) -> None:
    """The page has the line to paste, which works."""
    host = node(config(*REPAIR))
    with_vpn(host)
    if lost:
        lose_routes(host)
    status = say("status", host=host)
    [line] = {line.partition(": ")[2] for line in status.lines if "--dev eth0 |" in line}
    assert line == f"hostrouting repair {CIDR} --dev eth0 | hostrouting apply --config -"
    assert any("--dev tun0 |" in line for line in status.lines)
    assert "the commands below name the device" in status.out
    assert "name one device in routeOverlap.expectedDevs" not in status.out
    assert type_pipeline(host, line).code == 0
    assert say("status", host=host).code == 0


def test_each_candidate_says_what_is_known_of_it_and_what_its_repair_costs() -> None:
    """Before the line is typed: with either, the verdict is OK afterwards. The third way is that the
    VPN leaves the default route alone.
    """
    host = node(config(*REPAIR))
    with_vpn(host)
    lose_routes(host)
    lines = say("status", host=host).lines
    moves = f"this node's IP traffic to {CIDR} moves from ib0 to"
    eth0 = "[default via 10.0.0.1 dev eth0 proto dhcp metric 100], address 10.0.0.4"
    tun0 = "kind tun, [default via 10.8.0.1 dev tun0 proto static metric 50], address 10.8.0.6"
    assert [line.partition(", as root")[0] for line in lines if line.startswith("  if ")] == [
        f"  if eth0 is intended ({eth0}; then {moves} eth0)",
        f"  if tun0 is intended ({tun0}; then {moves} tun0)",
        "  if tun0 should not have a default route, correct the program that sets it",
    ]


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("command", ["check", "repair"])
def test_a_file_that_is_given_is_in_the_line_of_each_candidate(
    command: str, tmp_path: Path, *, lost: bool
) -> None:
    """Without it, the line would repair the installed configuration, or none."""
    file = tmp_path / "new.json"
    file.write_text(json.dumps(config(*REPAIR, guard=GUARDED)))
    host = FakeHost(kernel=h200())
    if not lost:
        type_repair(host)
    with_vpn(host)
    said = say(command, "--config", str(file), host=host)
    [line] = set(
        re.findall("hostrouting repair [^;\n]* --dev eth0 [|][^;\n]*", said.out + said.err)
    )
    assert line == f"hostrouting repair --config {file} --dev eth0 | hostrouting apply --config -"
    assert type_pipeline(host, line).code == 0
    status = say("status", host=host)
    assert (status.code, "the guard runs" in status.out) == (0, True)


def test_apply_says_which_device_it_needs() -> None:
    """Where routes wait for a choice, it has the same lines as status, and does not contradict
    itself.
    """
    host = node(config(*REPAIR))
    with_vpn(host)
    lose_routes(host)
    text = host.files.texts[LAYOUT.config_path].encode()
    plan = say("plan", "--config", "-", host=host, stdin=text)
    needs = f"2 routes, such as {REPAIR[0]}, need a device to be named: [default via 10.8.0.1"
    assert plan.lines[0].startswith(f"NOT READY: apply would wait, and then fail: {needs}")
    assert (
        say("status", host=host).lines[0].startswith(f"NOT READY: {KUBELET} cannot start: {needs}")
    )
    failed = apply_installed(host)
    lines = [line for line in failed.lines if " --dev " in line]
    assert failed.code == 3
    assert "Nothing was changed." in failed.lines
    assert "the files are installed" not in failed.out
    assert lines == [line for line in say("status", host=host).lines if " --dev " in line]
    assert len(lines) == 2
    assert type_pipeline(host, lines[0].partition("as root: ")[2]).code == 0


def test_an_address_that_nobody_expects_to_leave_by_the_uplink_is_not_judged() -> None:
    """With a VPN, every address of the Internet would be called an overlap."""
    host = node(config(*REPAIR))
    edited(host, lambda settings: settings["routeOverlap"].update(expectedDevs=["eth0"]))
    apply_installed(host)
    with_vpn(host)
    way = "8.8.8.8 leaves through tun0 via 10.8.0.1"
    first = say("explain", "8.8.8.8", host=host).lines[0]
    assert first == f"{way}; no expected CIDR has this address, so check does not judge it"
    assert say("explain", "172.16.5.9", host=host).lines[0].startswith("OK: 172.16.5.9 leaves")


def test_a_repair_of_one_family_does_not_say_that_the_other_is_right() -> None:
    """What is right once the configuration is applied may escape now."""
    host = node(config(*REPAIR))
    lose_routes(host)
    refused = say("repair", "fd00::/64", host=host)
    assert refused.code == 3
    assert refused.err.startswith("hostrouting: NO-DEFAULT-ROUTE: there is no IPv6 default route")


@pytest.mark.parametrize("options", [(), ("--commands",)])
def test_a_repair_of_one_family_says_what_the_other_lacks(options: tuple[str, ...]) -> None:
    """What is printed repairs only a part then, and the exit code says so."""
    host = FakeHost(kernel=h200())
    said = say("repair", CIDR, "fd00::/64", *options, host=host)
    assert said.code == 1
    assert REPAIR[1] in said.out
    lacks = "NO-DEFAULT-ROUTE: there is no IPv6 default route, so no device is expected"
    assert f"hostrouting: {lacks}" in said.err.splitlines()


# config.json is broken.


def garble(host: FakeHost) -> None:
    """A comma too many."""
    text = host.files.texts[LAYOUT.config_path]
    host.files.texts[LAYOUT.config_path] = text.replace("[", "[,", 1)


def test_a_broken_file_hides_neither_the_mode_nor_the_verdict() -> None:
    """The scripts say what is checked, and go on with that."""
    host = node(config(*REPAIR, guard=GUARDED))
    garble(host)
    lose_routes(host)
    status = say("status", host=host)
    assert status.code == 2
    assert "the gate still checks kubelet.service" in status.out
    assert "mode STRICT; the guard runs" in status.out
    assert any(line.startswith("OVERLAP: ") for line in status.lines)


@pytest.mark.parametrize(
    "text", ["{}", '{"hostRouting": {}}', '{"hostRouting": {"azureVnetCleanup": null}}', ""]
)
def test_an_emptied_file_is_no_all_clear(text: str) -> None:
    """What is installed is what the scripts are, and they go on: as for a file that is missing."""
    host = node(config(*REPAIR, guard=GUARDED))
    host.files.texts[LAYOUT.config_path] = text
    lose_routes(host)
    status = say("status", KUBELET, host=host)
    assert (status.code, status.lines[0].partition(":")[0]) == (2, "BROKEN")
    assert "the gate still checks kubelet.service" in status.out
    assert f"  {KUBELET} runs" in status.lines
    assert "not gated" not in status.out
    assert any(line.startswith("OVERLAP: ") for line in status.lines)
    assert "hostrouting_installed 1" in say("status", "--metrics", host=host).lines
    refused = apply(host, text)
    assert refused.code == 2
    assert "{}" not in refused.out + refused.err
    assert host.files.texts[LAYOUT.config_path] == text


def test_routes_that_are_lost_beside_a_broken_file() -> None:
    """The installed script has them, so its unit sets them again; if none is missing, or if the
    script would delete one, the page does not say so.
    """
    command = f"as root: systemctl restart {LAYOUT.routes_unit}"
    host = node(config(*REPAIR))
    garble(host)
    assert command not in say("status", host=host).out
    lose_routes(host)
    status = say("status", host=host)
    assert command in status.out
    assert [line for line in status.lines if line.startswith("  + ")]
    host = node(config())
    garble(host)
    type_repair(host)
    assert command not in say("status", host=host).out


def test_a_copy_of_a_broken_file_has_systemd_read_its_files() -> None:
    """Nothing says what the file gated."""
    host = node(config(*REPAIR))
    text = host.files.texts[LAYOUT.config_path].encode()
    garble(host)
    plan = say("plan", "--config", "-", "--allow-removal", host=host, stdin=text)
    reload = "  reload systemd    # to be safe: the installed file could not be read"
    assert reload in plan.lines


def test_the_line_without_a_copy_brings_back_all_that_the_scripts_say() -> None:
    """Mode, guard, gated units and routes, with their gateways; and it gates no other unit."""
    settings = config(*REPAIR, guard=GUARDED)
    by_name = {"destination": "9.0.0.0/8", "dev": "eth0", "gateway": "10.0.0.1", "metric": 7}
    settings["staticRoutes"]["routes"].append(by_name)
    host = node(settings)
    before = json.loads(host.files.texts[LAYOUT.config_path])["hostRouting"]
    garble(host)
    lose_routes(host)
    [line] = [line for line in say("status", host=host).lines if ": echo " in line]
    assert "gives up podCidrs, azureVnetCleanup and manageForeign)" in line
    _, text, *pipeline = re.split(r"echo '| \| |' \| ", line.partition(", as root: ")[2])
    repaired = say(*pipeline[0].split()[1:], host=host, stdin=text.encode())
    applied = say(*pipeline[1].split()[1:], host=host, stdin=repaired.out.encode())
    assert applied.code == 0
    assert json.loads(host.files.texts[LAYOUT.config_path])["hostRouting"] == before
    assert say("status", host=host).code == 0


# The pipe.


def test_an_empty_pipe_points_to_the_command_before_it() -> None:
    """The last line of a failed `repair | apply` teaches nobody to write JSON."""
    said = apply(node(config()), "")
    assert said.code == 2
    assert "the command before the pipe" in said.err
    assert "double quotes" not in said.err


# Units.


def test_a_refused_unit_is_to_be_started_when_nothing_escapes_any_more() -> None:
    """`apply` says so, too, although it changes nothing."""
    host = node(config(*REPAIR))
    refuse(host)
    refused = f"{KUBELET} was refused, and nothing holds it back now"
    assert apply_installed(host).lines[:3] == [
        f"NOTHING TO DO: this host matches the configuration, but {refused}",
        "To start what was refused, as root:",
        f"  systemctl start {KUBELET}",
    ]


def test_two_refused_units() -> None:
    """Both are named, with one command that starts them."""
    host = node(config(*REPAIR, gate={"units": [KUBELET, "k3s.service"]}))
    refuse(host)
    refuse(host, "k3s.service")
    page = say("status", host=host).lines
    both = "k3s.service and kubelet.service"
    assert page[0].startswith(f"ATTENTION: {both} were refused, and nothing holds them back now")
    applied = apply_installed(host).out
    assert f", but {both} were refused, and nothing holds them back now\n" in applied


def test_a_refused_unit_is_not_to_be_started_while_addresses_escape() -> None:
    """The gate would refuse it again. The headline names the unit, and what holds it back."""
    host = node(config(), plain_vm)
    with_ib0(host.kernel)
    refuse(host)
    page = say("status", host=host)
    assert "systemctl start" not in page.out
    assert page.lines[0] == f"ATTENTION: {KUBELET} was refused: addresses escape"


@pytest.mark.parametrize(("main", "is_told"), [("40", True), ("70", False), ("", False)])
def test_a_unit_that_runs_and_was_not_checked(main: str, *, is_told: bool) -> None:
    """Its main process began before it had left the state "inactive"; that is not wrong by itself."""
    host = node(config(*REPAIR))
    manager_of(host).properties[KUBELET] |= {
        "InactiveExitTimestampMonotonic": "50",
        "ExecMainStartTimestampMonotonic": main,
    }
    status = say("status", host=host)
    assert status.code == 0
    assert ("its start was not checked" in status.out) == is_told
    assert (f"as root: systemctl restart {KUBELET}" in status.out) == is_told
    [unit] = say("status", "--json", host=host).json["units"]
    assert (unit["unchecked"], unit["checked"] == 0) == (is_told, is_told)


def test_a_refused_unit_that_ran_before_was_checked() -> None:
    """Its main process began before the last start did, which the gate has refused."""
    host = node(config(*REPAIR))
    refuse(host)
    manager_of(host).properties[KUBELET] |= {
        "InactiveExitTimestampMonotonic": "50",
        "ExecMainStartTimestampMonotonic": "40",
    }
    [unit] = say("status", "--json", host=host).json["units"]
    assert (unit["state"], unit["checked"] > 0) == ("was refused", True)


@pytest.mark.parametrize("lost", [False, True])
def test_a_refused_unit_is_to_be_started_after_the_command_of_the_page(*, lost: bool) -> None:
    """The page says which command ends the cause."""
    host = node(config(), plain_vm)
    if lost:
        host = node(config(*REPAIR))
        lose_routes(host)
    else:
        with_ib0(host.kernel)
    refuse(host)
    when = "after the command above" if lost else "after the command below"
    [line] = [line for line in say("status", "kubelet", host=host).lines if " refused; " in line]
    assert line == f"{KUBELET} was refused; {when}, as root: systemctl start {KUBELET}"


ASKED = {
    "kublet": "systemd does not know kublet.service: is the name right?",
    "containerd": "containerd.service is not gated: it starts whatever the routes are",
    "hostrouting-guard": "hostrouting-guard.service is the guard, and no gate holds it back",
    "systemd-nspawn@kube1": (
        "systemd-nspawn@kube1.service is gated, and does not run: systemd has not loaded it"
    ),
}


@pytest.mark.parametrize("unit", ASKED)
def test_a_unit_that_has_no_state_here(unit: str) -> None:
    """A typo, a unit that is not gated, the guard, and an instance that was not started."""
    gate = {"units": [KUBELET, "systemd-nspawn@.service"]}
    host = node({**config(*REPAIR, guard=GUARDED), "gate": gate})
    manager_of(host).properties["containerd.service"] = {"LoadState": "loaded"}
    [line] = [
        line
        for line in say("status", unit, host=host).lines
        if line.startswith(unit) or "?" in line
    ]
    assert line.startswith(ASKED[unit])


def test_a_unit_that_only_its_drop_in_gates() -> None:
    """Somebody has taken it out of the file, and it still is what starts through the gate."""
    host = node(config(*REPAIR))
    edited(host, lambda settings: settings["gate"].update(units=["k3s.service"]))
    status = say("status", "kubelet", host=host)
    line = (
        f"{KUBELET} is still gated by its drop-in, although {LAYOUT.config_path} does not gate it"
    )
    assert line in status.lines
    assert f"  {KUBELET} runs" in status.lines


def test_a_unit_may_be_typed_without_its_suffix() -> None:
    """As systemctl takes it."""
    host = node(config(*REPAIR))
    refuse(host)
    assert say("status", "kubelet", host=host) == say("status", KUBELET, host=host)


# The guard.

GUARDS = {
    "does not run": {"ActiveState": "inactive", "LoadState": "loaded"},
    "has failed": {
        "ActiveState": "failed",
        "LoadState": "loaded",
        "ExecMainStartTimestamp": "Thu 03:02 UTC",
    },
    "is masked": {"ActiveState": "inactive", "LoadState": "masked"},
    # systemd 254 and later, while the start waits for another unit.
    "is being restarted": {"ActiveState": "activating", "SubState": "auto-restart-queued"},
}


@pytest.mark.parametrize("state", GUARDS)
def test_a_guard_that_does_not_run(state: str) -> None:
    """Each reason has its own words; and what a failed guard has logged."""
    host = node(config(*REPAIR, guard=GUARDED))
    manager_of(host).properties[LAYOUT.guard_unit] = GUARDS[state]
    manager_of(host).errors[LAYOUT.guard_unit] = ("guard.sh: fork failed",)
    status = say("status", host=host)
    assert status.code == 1
    assert f"the guard {state}" in status.out
    assert ("guard.sh: fork failed" in status.out) == (state == "has failed")
    assert ("systemctl unmask" in status.out) == (state == "is masked")


def mask_guard(host: FakeHost) -> None:
    """The mask of systemd is a link in the place of the file."""
    path = LAYOUT.unit_path(LAYOUT.guard_unit)
    host.files.remove(path)
    host.files.links[path] = "/dev/null"
    manager_of(host).stop(LAYOUT.guard_unit)
    manager_of(host).reload()


def mask_guard_elsewhere(host: FakeHost) -> None:
    """The file is as it should be, and systemd masks the unit all the same."""
    manager_of(host).properties[LAYOUT.guard_unit] = dict(GUARDS["is masked"])


def unmask_guard(host: FakeHost) -> None:
    """What systemctl unmask does."""
    host.files.links.pop(LAYOUT.unit_path(LAYOUT.guard_unit), None)
    manager_of(host).properties.pop(LAYOUT.guard_unit, None)
    manager_of(host).reload()


def with_masked_guard(mask: Callable[[FakeHost], None]) -> FakeHost:
    """Somebody has masked the guard, and routes are lost since."""
    host = node(config(*REPAIR, guard=GUARDED))
    mask(host)
    lose_routes(host)
    return host


MASKS = (mask_guard, mask_guard_elsewhere)


@pytest.mark.parametrize("mask", MASKS)
def test_a_masked_guard_is_named_before_anything_is_changed(
    mask: Callable[[FakeHost], None],
) -> None:
    """It could not be started."""
    host = with_masked_guard(mask)
    text = host.files.texts[LAYOUT.config_path].encode()
    plan = say("plan", "--config", "-", host=host, stdin=text)
    assert plan.code == 1
    assert plan.lines[0].startswith("WOULD FAIL")
    assert f"systemctl unmask {LAYOUT.guard_unit}" in plan.out
    refused = apply_installed(host)
    assert refused.code == 1
    assert f"systemctl unmask {LAYOUT.guard_unit}" in refused.out
    assert "Nothing was changed." in refused.out
    assert not ours(host)


@pytest.mark.parametrize("mask", MASKS)
def test_the_headline_says_what_is_wrong_and_the_next_line_what_to_type(
    mask: Callable[[FakeHost], None],
) -> None:
    """The page and the document say that addresses escape, that the guard is masked, and what to
    type.
    """
    host = with_masked_guard(mask)
    status = say("status", host=host)
    command = f"systemctl unmask {LAYOUT.guard_unit} && {AGAIN.command}"
    assert status.lines[:3] == [
        "DIFFERENT: addresses escape: 2 routes are missing and the guard is masked",
        "To make it match, as root:",
        f"  {command}",
    ]
    assert status.out.count("systemctl unmask") == 1
    document = say("status", "--json", host=host).json
    assert (document["headline"], document["command"]) == (status.lines[0], command)
    unmask_guard(host)
    assert apply_installed(host).code == 0
    assert say("status", host=host).code == 0


@pytest.mark.parametrize("mask", MASKS)
def test_a_check_knows_that_the_guard_is_masked(mask: Callable[[FakeHost], None]) -> None:
    """What unmasks it is the line before that of the repair, which changes nothing with plan
    instead of apply. That line is the one of status: the installed configuration has the repair.
    """
    host = with_masked_guard(mask)
    page = say("check", host=host).out
    unmask = f"systemctl unmask {LAYOUT.guard_unit}"
    assert f"\nPermanently, as root:\n  {unmask}\n  {AGAIN.command}\n" in page
    assert page.count(unmask) == 1
    assert f"systemctl unmask {LAYOUT.guard_unit}" in say("repair", "--commands", host=host).err
    unmask_guard(host)
    assert "unmask" not in say("check", host=host).out
    assert apply_installed(host).code == 0


def test_a_guard_that_runs_and_has_not_set_the_routes() -> None:
    """It should have; but not while a route waits, nor routes that only an edited file has."""
    host = node(config(*REPAIR, guard=GUARDED))
    assert "; the guard runs\n" in say("status", host=host).out
    lose_routes(host)
    status = say("status", host=host)
    assert "; the guard runs, but has not set 2 missing routes" in status.out
    assert f"    see: journalctl -u {LAYOUT.guard_unit}" in status.lines
    garble(host)
    assert "the guard runs, but has not set 2 missing routes" in say("status", host=host).out
    with_vpn(host)
    assert "; the guard runs\n" in say("status", host=host).out

    host = node(config(*REPAIR, guard=GUARDED))
    more = {"destination": "9.0.0.0/8"}
    edited(host, lambda settings: settings["staticRoutes"]["routes"].append(more))
    assert "; the guard runs\n" in say("status", host=host).out


@attrs.define
class DyingManager(FakeManager):
    """systemd starts a simple service without waiting whether it lives."""

    def start(self, unit: str, *, timeout: float) -> None:
        """See FakeManager. The unit ends at once."""
        super().start(unit, timeout=timeout)
        self.states[unit] = "failed"


def test_apply_is_not_done_while_the_guard_does_not_run() -> None:
    """A guard that ends as soon as it was started is a failure, with what it has logged."""
    host = node(config(*REPAIR))
    former = manager_of(host)
    errors: dict[str, tuple[str, ...]] = {LAYOUT.guard_unit: ("guard.sh: fork failed",)}
    dying = DyingManager(properties=former.properties, files=former.files, errors=errors)
    host = attrs.evolve(host, manager=dying)
    applied = apply(host, json.dumps(config(*REPAIR, guard=GUARDED)))
    assert applied.code == 1
    assert applied.lines[0].startswith(f"FAILED: {LAYOUT.guard_unit} failed")
    assert "the guard does not run" not in say("status", host=host).out


def test_a_guard_that_was_unmasked_runs_after_apply() -> None:
    """The state that a test gives to a unit ends when the unit is started."""
    host = with_masked_guard(mask_guard_elsewhere)
    manager_of(host).properties[LAYOUT.guard_unit]["LoadState"] = "loaded"
    assert apply_installed(host).code == 0
    assert "the guard runs" in say("status", host=host).out


# Routes that somebody has added without a protocol.


def type_by_hand(host: FakeHost, protocol: int = 3) -> None:
    """Somebody types the repair without a protocol."""
    for half in REPAIR:
        route = Route.to(half, dev="eth0", gateway="10.0.0.1", protocol=protocol)
        host.kernel.ip_route("add", route)


def lose_what_was_typed(host: FakeHost) -> None:
    """The routes without the mark of hostrouting are gone after a boot."""
    for half in REPAIR:
        route = Route.to(half, dev="eth0", gateway="10.0.0.1", protocol=3)
        host.kernel.ip_route("delete", route)


@pytest.mark.parametrize(("protocol", "is_told"), [(3, True), (4, False)])
def test_a_verdict_that_rests_on_routes_that_are_gone_after_a_boot(
    protocol: int, *, is_told: bool
) -> None:
    """`ip route add` sets protocol boot, as nothing does that sets routes at boot: a warning, which
    the headline of status has, too.
    """
    host = node(config(), plain_vm)
    with_ib0(host.kernel)
    type_by_hand(host, protocol)
    status = say("status", host=host)
    headline = "ATTENTION: routes are lost at the next boot"
    assert (status.code, status.lines[0] == headline) == (int(is_told), is_told)
    assert say("check", host=host).code == 0
    assert say("check", "--fail-on", "warning", host=host).code == int(is_told)
    for command in ("status", "check"):
        said = say(command, host=host)
        assert ("ROUTE-NOT-CONFIGURED: routes were added by hand" in said.out) == is_told
        assert ("as root: hostrouting repair | hostrouting apply --config -" in said.out) == is_told


def test_routes_by_hand_are_configured_without_a_moment_without_them() -> None:
    """The line deletes nothing: apply leaves these routes, and the gate sets ours at the next
    boot.
    """
    host = node(config(), plain_vm)
    with_ib0(host.kernel)
    type_by_hand(host)
    before = host.kernel.snapshot().routes
    assert "ip route del" not in say("status", host=host).out
    printed = say("repair", host=host)
    assert "are now in the configuration" in printed.err
    assert "nothing to repair" not in printed.err
    plan = say("plan", "--config", "-", host=host, stdin=printed.out.encode())
    assert plan.lines[0].startswith("TO DO")
    applied = apply(host, printed.out)
    assert (applied.code, applied.lines[0]) == (0, "DONE: this host matches the configuration")
    assert host.kernel.snapshot().routes == before
    status = say("status", host=host)
    assert (status.code, "ROUTE-NOT-CONFIGURED" in status.out) == (0, False)
    lose_what_was_typed(host)
    assert apply_installed(host).code == 0
    assert len(ours(host)) == len(REPAIR)


def test_a_route_by_hand_to_a_network_that_is_not_in_the_configuration() -> None:
    """The line to type names the CIDR that was typed: without it, the route would only be gone."""
    other = "172.30.1.0/24"
    host = node(config(), plain_vm)
    host.kernel.add_link(Link(name="ib0", index=0))
    host.kernel.add_address("ib0", "172.30.9.9/16")
    by_hand = Route.to(other, dev="eth0", gateway="10.0.0.1", protocol=3)
    host.kernel.ip_route("add", by_hand)

    said = say("check", other, host=host)
    [line] = [line for line in said.lines if "ROUTE-NOT-CONFIGURED" in line]
    sentence = (
        f"routes were added by hand that hostrouting does not set at boot ({other}); "
        f"without them, {other} would escape"
    )
    assert sentence in line
    assert type_pipeline(host, line.partition("as root: ")[2]).code == 0

    said = say("check", other, host=host)
    assert (said.code, "ROUTE-NOT-CONFIGURED" in said.out) == (0, False)


def test_a_route_by_hand_beside_a_broken_file() -> None:
    """The file comes first."""
    host = node(config(), plain_vm)
    with_ib0(host.kernel)
    for half in REPAIR:
        host.kernel.ip_route("add", Route.to(half, dev="eth0", gateway="10.0.0.1", protocol=3))
    host.files.texts[LAYOUT.config_path] = "{"
    said = say("check", CIDR, host=host)
    assert said.lines[0].startswith("OK")
    assert "were added by hand" not in said.out


def test_typed_routes_on_a_host_where_nothing_is_installed() -> None:
    """There, no installed configuration can be repaired: the page says what to add to the file."""
    host = FakeHost(kernel=h200())
    type_repair(host)
    refused = apply(host, json.dumps(config()))
    assert (refused.code, len(ours(host))) == (1, len(REPAIR))
    assert "add to staticRoutes.routes: " in refused.out
    assert "hostrouting repair |" not in refused.out
    assert "--allow-removal" in refused.out
