"""`status`: what of ours is on this host, and whether it is in force. What is escaping now is in tests/hostrouting/cli/test_status.py."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hostrouting.errors import BackendError
from hostrouting.host import UnitState
from hostrouting.host.layout import HostLayout
from hostrouting.model import OURS, Route, Rule
from hostrouting.testing import FakeHost, FakeManager, h200, plain_vm
from tests.support.cli import say
from tests.support.mishaps import full, mishap_host
from tests.support.tasks import lose_routes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hostrouting.kernel.base import RouteBackend

UNIT = "static-routes.service"
LAYOUT = HostLayout()
ROUTES = ({"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}, {"destination": "10.98.0.0/16"})


def test_a_host_without_us() -> None:
    """A host without anything of ours has no fault."""
    said = say("status", kernel=h200())
    assert said.code == 0
    assert said.lines == [
        "NOTHING: hostrouting has nothing installed on this host",
        "",
        "  default route  default via 10.0.0.1 dev eth0 proto dhcp metric 100",
        "  last check     none since this host booted",
    ]


def test_a_host_that_is_well(repaired: str) -> None:
    """What is installed is listed: the routes, the files, how the units ended, and the last verdict."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    said = say("status", host=host)
    assert said.code == 0
    assert said.lines[0] == "INSTALLED: 2 routes and 11 files of hostrouting are here, and nothing escapes now"
    assert "  now                    ok" in said.lines
    assert "  last check             ok" in said.lines
    assert "  172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting" in said.lines
    assert "  /etc/systemd/system/static-routes.service" in said.lines
    assert not any("/run/" in text for text in said.lines)


def test_a_unit_that_failed(repaired: str) -> None:
    """A unit of ours that failed is named, with where its words are; exit code 1."""
    host = FakeHost(kernel=h200(), manager=FakeManager(failing={UNIT: ("no gateway",)}))
    say("apply", "--config", repaired, host=host)
    said = say("status", host=host)
    assert said.code == 1
    assert said.lines[0] == f"FAILED: {UNIT}; see journalctl -u {UNIT}"
    assert "its last run failed with exit-code (exit status 1)" in said.out


def test_a_gate_that_refused_a_machine(repaired: str) -> None:
    """A refusal that nothing explains is a failure: all may look right while no machine starts."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    assert host.manager is not None
    host.manager.states[LAYOUT.gate_unit] = UnitState("loaded", "failed", "exit-code", 1)
    said = say("status", host=host)
    why = "the last machine that tried to start was refused, and no present fact explains it"
    assert (said.code, said.lines[0]) == (1, f"FAILED: {why}; see journalctl -u {LAYOUT.gate_unit}")
    row = f"  {LAYOUT.gate_unit}  failed, its last run failed with exit-code (exit status 1)"
    assert row in said.lines


def test_what_cannot_be_found_out() -> None:
    """Without netlink, everything else is still reported; exit code 3."""

    def nowhere() -> RouteBackend:
        raise BackendError("there is no netlink here: a container", kind="unavailable")

    said = say("status", host=FakeHost(backend=nowhere))
    assert said.code == 3
    assert said.lines[0] == "UNKNOWN: the state of this host is not fully known"
    assert "  the route table: there is no netlink here: a container" in said.lines
    assert "default route" not in said.out


def test_without_systemd(repaired: str) -> None:
    """If systemd does not run, the output says so, with what is in force now, and what is from the next boot on."""
    host = FakeHost(kernel=h200(), manager=FakeManager(running=False))
    assert say("status", host=host).lines[-1].split() == ["systemd", "not", "running", "here"]
    say("apply", "--config", repaired, host=host)
    now, later = "the routes are in force now", "the units and the gate from the next boot on"
    assert f"not running here: {now}, {later}" in say("status", host=host).out
    for route in list(host.kernel.snapshot(protocol=213).routes):
        host.kernel.ip_route("delete", route)
    assert f"not running here: {later.replace('gate', 'gate are in force')}" in say("status", host=host).out


def test_schema(repaired: str) -> None:
    """The JSON is `hostrouting/status/2`, with exactly these keys."""
    host = FakeHost(kernel=h200())
    empty = say("status", "--json", host=host).json
    assert empty["lastCheck"] is empty["now"] is None
    say("apply", "--config", repaired, host=host)
    document = say("status", "--json", host=host).json
    assert (
        set(document)
        == set(empty)
        == {
            "schema",
            "standings",
            "installed",
            "differs",
            "routes",
            "missing",
            "contested",
            "gate",
            "defaultRoute",
            "ipv6DefaultRoute",
            "files",
            "units",
            "manager",
            "now",
            "lastCheck",
            "troubles",
        }
    )
    assert document["schema"] == "hostrouting/status/2"
    assert document["installed"] is True
    assert document["lastCheck"] == {"verdict": "ok", "escapes": 0, "at": "", "outOfDate": False}
    assert document["now"]["verdict"] == "ok"
    assert document["units"] == [
        {"unit": UNIT, "load": "loaded", "active": "inactive", "result": "success", "status": 0}
    ]


def test_routes_that_are_missing(repaired: str, written: Callable[..., str]) -> None:
    """Routes of the installed script, or of a configuration, that are not there are named after what escapes for that; exit code 1."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    host.kernel.ip_route("delete", host.kernel.snapshot(protocol=OURS).routes[0])
    said = say("status", host=host)
    assert said.code == 1
    assert said.lines[0] == "OVERLAP: a part of 172.16.0.0/16 leaves by ib0, not by eth0"
    assert said.lines[3] == "MISSING: 1 of 2 routes; add them, as root, with: systemctl start static-routes.service"
    assert "  172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting" in said.lines
    third = written({"destination": "172.16.128.0/17"}, {"destination": "9.0.0.0/8"}, {"destination": "11.0.0.0/8"})
    named = say("status", "--config", third, host=host)
    assert (named.code, named.lines[3]) == (1, f"MISSING: 2 of 3 routes; see: hostrouting plan --config {third}")
    assert len(say("status", "--config", third, "--json", host=host).json["missing"]) == 2


def take(host: FakeHost) -> None:
    """Another program's route now has the place of one of ours."""
    one = host.kernel.snapshot(protocol=OURS).routes[0]
    host.kernel.ip_route("delete", one)
    host.kernel.ip_route("add", Route.to(one.prefix, dev="ib0", protocol=4))


def test_a_route_that_somebody_else_holds_now(repaired: str, written: Callable[..., str]) -> None:
    """A route that cannot be had is not to be started: who holds its place is told, and what to write instead."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    take(host)
    said = say("status", host=host)
    assert said.code == 1
    told = "CONFLICT: 1 of 2 routes cannot be added: routes of other programs have the same destination and metric"
    assert said.lines[3] == f"{told}, and no machine starts until this is fixed"
    other = say("status", "--config", written(*ROUTES), host=host)
    assert (
        "CONFLICT: 1 of 3 routes cannot be added: routes of other programs have the same destination and metric"
        in other.lines
    )
    assert "systemctl start" not in said.out
    assert "instead, configure 172.16.0.0/18 and 172.16.64.0/18" in said.out
    document = say("status", "--json", host=host).json
    assert document["contested"] == document["missing"] == ["172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting"]


def test_how_to_start_without_systemd(repaired: str) -> None:
    """Without systemd there is no unit to start, so the answer of check is to run the script."""
    host = FakeHost(kernel=h200(), manager=FakeManager(running=False))
    say("apply", "--config", repaired, host=host)
    lose_routes(host)
    start = "add them, as root, with: /bin/bash /etc/aks-flex-node/static-routes.sh"
    assert say("status", host=host).lines[3] == f"MISSING: 2 of 2 routes; {start}"
    assert f"The installed configuration has the routes that repair it; {start}" in say("check", host=host).lines


def gate(host: FakeHost) -> dict[str, Any]:
    """What the JSON has of the gate."""
    found: dict[str, Any] = say("status", "--json", host=host).json["gate"]
    return found


AGAIN = "write it again with: hostrouting apply --config FILE"


def test_routes_that_could_not_be_had(written: Callable[..., str]) -> None:
    """After a run that failed at a route, the answer says that the gate holds machines back; exit code 1."""
    host = FakeHost(kernel=h200())
    assert say("apply", "--config", written({"destination": "172.16.0.0/16"}), host=host).code == 1
    said = say("status", host=host)
    told = "CONFLICT: 1 of 1 route cannot be added: routes of other programs have the same destination and metric"
    assert (said.code, said.lines[3]) == (1, f"{told}, and no machine starts until this is fixed")
    assert gate(host) == {"up": True, "openings": [], "bars": [], "edited": []}


@pytest.mark.parametrize("mode", ["WARN", "STRICT"])
def test_a_run_that_was_cut_short(written: Callable[..., str], mode: str) -> None:
    """While a step is changing no machine starts, and what systemd has yet to read is said; exit code 1."""
    host, mishaps = mishap_host()
    config = written(mode=mode)
    mishaps.watch = lambda event: mishaps.arm(1, full) if event == "reload" else None
    assert say("apply", "--config", config, host=host).code == 1
    mishaps.watch = lambda _event: None
    mishaps.disarm()
    said = say("status", host=host)
    changing = f"a run of hostrouting did not finish changing {LAYOUT.check_script_path}; run it again: hostrouting apply --config FILE"
    assert any(text.startswith(f"SHUT: {changing}") for text in said.lines)
    assert said.code == 1
    found = gate(host)
    assert changing in found["bars"]
    assert any("systemd has not loaded" in text for text in found["openings"])


def test_before_the_gate_is_there(repaired: str) -> None:
    """After a run that could not install the gate, the answer says that machines start; exit code 1."""
    host = FakeHost(kernel=h200())
    host.files.broken[LAYOUT.gate_drop_in_path] = "No space left on device"
    assert say("apply", "--config", repaired, host=host).code == 1
    said = say("status", host=host)
    missing = f"{LAYOUT.gate_drop_in_path} is missing, so machines start unchecked; {AGAIN}"
    assert (said.code, f"OPEN: {missing}" in said.lines) == (1, True)
    assert gate(host) == {"up": False, "openings": [missing], "bars": [], "edited": []}


def test_what_systemd_has_not_read(repaired: str) -> None:
    """Units that systemd has yet to read are said, though every file is there; exit code 1."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    host.files.texts[LAYOUT.unfinished_path] = "OVERLA"
    assert host.manager is not None
    host.manager.read = {}
    said = say("status", "--config", repaired, host=host)
    assert said.code == 1
    assert said.lines[0].startswith("OPEN: every machine starts unchecked: systemd has not loaded")
    assert not any(text.startswith("  /run/") for text in said.lines), "what a check leaves is not a file that lasts"


@pytest.mark.parametrize("path", [LAYOUT.gate_unit_path, LAYOUT.gate_script_path, LAYOUT.gate_steps_path])
def test_a_gate_without_one_of_its_files(repaired: str, path: str) -> None:
    """A gate that lacks one of its files lets no machine start."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    del host.files.texts[path]
    said = say("status", host=host)
    assert said.code == 1
    assert any(text.startswith(f"SHUT: {path} is missing") for text in said.lines)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("50 requires static-routes\n", "the list of steps is incomplete"), ("a\nend\n", "'a' is not a step")],
)
def test_a_list_that_is_not_one(repaired: str, text: str, reason: str) -> None:
    """A list of steps that the gate refuses is said, with the reason."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    host.files.texts[LAYOUT.gate_steps_path] = text
    [told] = gate(host)["bars"]
    assert told.startswith(f"{LAYOUT.gate_steps_path} cannot be used ({reason}")


@pytest.mark.parametrize("mode", ["WARN", "STRICT"])
def test_a_check_without_its_script(written: Callable[..., str], mode: str) -> None:
    """A check whose script is missing holds every machine back in STRICT, and none in WARN; exit code 1 in both."""
    host = FakeHost(kernel=plain_vm())
    say("apply", "--config", written(mode=mode), host=host)
    del host.files.texts[LAYOUT.check_script_path]
    found = gate(host)
    assert say("status", host=host).code == 1
    told = f"{LAYOUT.check_script_path} is missing, "
    if mode == "STRICT":
        assert found["bars"] == [f"{told}and every machine requires it; {AGAIN}"]
    else:
        assert found["openings"] == [f"{told}so machines start without it; {AGAIN}"]


def test_routes_that_nothing_brings_back() -> None:
    """Routes of ours without the script that brings them back are no installation; exit code 1."""
    kernel = h200()
    kernel.ip_route("add", Route.to("9.0.0.0/8", dev="eth0", gateway="10.0.0.1", protocol=213))
    said = say("status", kernel=kernel)
    told = "UNTIL THE NEXT BOOT: 1 route of hostrouting exists, but no script adds it at boot; to install one, as root: hostrouting apply --config FILE"
    assert (said.code, said.lines[0]) == (1, told)


def test_nothing_was_checked_yet(repaired: str) -> None:
    """After a boot a check that is installed has not been made until a machine starts; the host is judged all the same."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    for path in [path for path in host.files.texts if path.startswith("/run/")]:
        del host.files.texts[path]
    said = say("status", host=host)
    told = "INSTALLED: 2 routes and 11 files of hostrouting are here, and nothing escapes now"
    assert (said.code, said.lines[0]) == (0, told)
    assert "  last check             none since this host booted" in said.lines


def test_an_undecided_check(written: Callable[..., str]) -> None:
    """A check that is undecided is not a bare ok; exit code 3."""
    kernel = plain_vm()
    kernel.add_rule(Rule(family=4, priority=100, fwmark=7, fwmask=0xFFFFFFFF, action="prohibit"))
    host = FakeHost(kernel=kernel)
    config = written()
    say("apply", "--config", config, host=host)
    said = say("status", "--config", config, host=host)
    assert said.code == 3
    assert said.lines[0].startswith("UNDECIDED: a plain packet to 172.16.0.0/16 leaves by eth0; packets with fwmark")
    assert said.lines[1] == f"  See: hostrouting check --config {config}"
    assert say("status", "--json", host=host).json["lastCheck"]["verdict"] == "undecided"


def test_something_installed_that_cannot_be_looked_at(repaired: str) -> None:
    """If something could not be found out, the first line does not say that all is installed."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    host.files.texts[host.layout.report_path] = "{}"
    said = say("status", host=host)
    assert said.code == 3
    assert said.lines[0] == "UNKNOWN: the state of this host is not fully known"
    assert "is not a report of a check" in said.lines[-1]


@pytest.mark.parametrize(
    "path",
    [
        LAYOUT.routes_script_path,
        LAYOUT.check_script_path,
        LAYOUT.report_path,
        LAYOUT.routes_unit_path,
        LAYOUT.check_unit_path,
        LAYOUT.gate_drop_in_path,
    ],
)
@pytest.mark.parametrize("kind", ["a fifo", "a directory"])
def test_what_is_no_file(repaired: str, path: str, kind: str) -> None:
    """Something else in the place of a file of ours is told, once, beside all that can be found out; exit code 3."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    host.files.texts.pop(path, None)
    host.files.strange[path] = kind
    said = say("status", host=host)
    assert (said.code, said.err) == (3, "")
    assert said.lines[0] == "UNKNOWN: the state of this host is not fully known"
    assert said.out.count(f"cannot read {path}: there is {kind} in its place; remove it") == 1
    assert "  /etc/aks-flex-node/static-routes.sh" in said.lines or "routes" in path
    assert "  /etc/systemd/system/check-route-overlap.service" in said.lines or "check" in path
    if path.startswith(LAYOUT.config_directory):
        assert "  last check             ok" in said.lines


@pytest.mark.parametrize("command", ["check", "repair"])
def test_what_is_no_file_does_not_escape(repaired: str, command: str) -> None:
    """If the installed check cannot be read, no escape is reported: the answer is undecided, with exit code 3."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    del host.files.texts[LAYOUT.check_script_path]
    host.files.strange[LAYOUT.check_script_path] = "a fifo"
    said = say(command, host=host)
    assert said.code == 3
    assert f"cannot read {LAYOUT.check_script_path}: there is a fifo in its place; remove it" in said.err


def test_a_report_that_cannot_be_renewed(repaired: str) -> None:
    """On a read-only file system a report may be of any earlier check: it is not taken for the last one."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    host.files.frozen = True
    said = say("status", host=host)
    assert said.code == 3
    assert said.lines[0] == "UNKNOWN: the state of this host is not fully known"
    reason = "is on a read-only file system, so it may be from an earlier check; remount the file system writable"
    assert said.lines[-1] == f"  the last check: {LAYOUT.report_path} {reason}"
    assert "  last check             none since this host booted" in said.lines
    assert say("status", "--json", host=host).json["lastCheck"] is None


@pytest.mark.parametrize("text", ["[" * 100_000, '{"verdict": ["ok"]}', '{"verdict": "ok", "findings": 5}'])
def test_what_is_no_report(repaired: str, text: str) -> None:
    """The answer says that the file in the place of the report is not a report."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    host.files.texts[LAYOUT.report_path] = text
    said = say("status", host=host)
    assert said.code == 3
    assert "is not a report of a check" in said.lines[-1]


def test_when_the_last_check_was(repaired: str) -> None:
    """The time of the last check is that of its report, as the host's files have it."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    host.files.times[host.layout.report_path] = 1767225600.5
    assert "  last check             ok, 2026-01-01T00:00:00Z" in say("status", host=host).lines
    assert say("status", "--json", host=host).json["lastCheck"]["at"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("changed", "differs"),
    [
        ({}, []),
        ({"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "WARN"}}, ["routeOverlap"]),
        ({"routeOverlap": {"expectedCidrs": ["172.16.0.0/17"], "mode": "STRICT"}}, ["routeOverlap"]),
        ({"routeOverlap": {}}, ["routeOverlap"]),
        ({"staticRoutes": {"enabled": True, "routes": list(ROUTES[:1])}}, ["staticRoutes"]),
        ({"staticRoutes": {"enabled": False}}, ["staticRoutes"]),
        ({"guard": {"enabled": True, "program": "/opt/hostrouting"}}, ["guard"]),
        ({"protocol": 215}, ["protocol"]),
        ({"kernelRules": "keep"}, ["kernelRules"]),
        ({"manageForeign": "keep"}, ["manageForeign"]),
    ],
)
def test_a_configuration_that_is_not_the_installed_one(
    tmp_path: Path, changed: dict[str, Any], differs: list[str]
) -> None:
    """With --config, a host is INSTALLED, and the exit code 0, only if this very configuration is the installed one."""
    old = {
        "staticRoutes": {"enabled": True, "routes": list(ROUTES[:2])},
        "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"},
    }
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    one.write_text(json.dumps(old))
    other.write_text(json.dumps({**old, **changed}))
    host = FakeHost(kernel=h200())
    assert say("apply", "--config", str(one), host=host).code == 0
    said = say("status", "--config", str(other), host=host)
    assert say("status", "--config", str(other), "--json", host=host).json["differs"] == differs
    assert (said.code == 0, said.lines[0].startswith("INSTALLED:")) == (not differs, not differs)
    told = f"another configuration is installed here; it differs in {differs[0] if differs else ''}"
    remedy = f"to see what apply would change: hostrouting plan --config {other}"
    assert (f"NOT INSTALLED: {told}; {remedy}" in said.lines) == bool(differs)
