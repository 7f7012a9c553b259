"""`status`: what of ours is on this host, whether it is in force, what escapes now, and what the last check found."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hostrouting.errors import BackendError
from hostrouting.host.layout import HostLayout
from hostrouting.host.systemd import UnitState
from hostrouting.kernel.base import RouteBackend, RouteRequest
from hostrouting.model.route import OURS, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeHost, FakeManager, MemoryBackend, h200, plain_vm
from tests.support.cli import Said, say
from tests.support.mishaps import full, mishap_host
from tests.support.tasks import REPAIR, lose_routes, manager_of

CIDR, OTHER = "172.16.0.0/16", "10.99.0.0/16"
LAYOUT = HostLayout()
FAILED = UnitState("loaded", "failed", "exit-code", 1)
NEW_YEAR = 1767225600.0
OVERLAP = "OVERLAP: 172.16.0.0/16 leaves by ib0, not by eth0"
REFUSED = "  The mode is STRICT: systemd-nspawn@.service cannot start while this lasts; what runs keeps running."
LET_IN = "  The mode is WARN: the check does not keep systemd-nspawn@.service from starting."
WAYS = "  To print the repair: hostrouting repair; for details: hostrouting check"
HALVES = [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}]


def checked(config: str, kernel: MemoryBackend, *, code: int = 0) -> FakeHost:
    """A host on which this configuration was applied, and checked at New Year."""
    host = FakeHost(kernel=kernel)
    assert say("apply", "--config", config, "--wait", "0", host=host).code == code
    for path in (LAYOUT.ok_path, LAYOUT.detected_path):
        host.files.times[path] = NEW_YEAR
    return host


def found(host: FakeHost, *words: str) -> list[tuple[str, str]]:
    """The names and targets of the findings."""
    return [
        (finding["name"], finding["target"]) for finding in say("status", "--json", *words, host=host).json["findings"]
    ]


def sentences(host: FakeHost, name: str) -> str:
    """What the findings of this name say."""
    told = say("status", "--json", host=host).json["findings"]
    return "\n".join(it["sentence"] for it in told if it["name"] == name)


def asked(host: FakeHost, backend: RouteBackend) -> Said:
    """The answer of a host with this backend."""
    return say("status", host=FakeHost(kernel=host.kernel, files=host.files, backend=lambda: backend))


def infiniband(host: FakeHost) -> None:
    """An address comes to ib0, and with it a connected route to the whole CIDR."""
    host.kernel.add_link(Link(name="ib0", index=0, type=32))
    host.kernel.add_address("ib0", "172.16.1.10/16")


def forget(host: FakeHost, *, boots: bool) -> None:
    """The host boots, or all but the results of checks is deleted."""
    for path in [path for path in host.files.texts if path.startswith("/run/") is boots]:
        del host.files.texts[path]


def rows(lines: list[str]) -> dict[str, str]:
    """What the page says of each thing."""
    told = (text.strip().partition("  ") for text in lines if text.startswith("  "))
    return {name: fact.strip() for name, _, fact in told if fact}


# What is installed.


def test_a_host_without_us() -> None:
    """A host without anything that hostrouting installed has no fault."""
    said = say("status", kernel=h200())
    assert said.code == 0
    assert said.lines == [
        "NOTHING: hostrouting has nothing installed on this host; to look for an overlap: hostrouting check CIDR",
        "",
        "  default route  default via 10.0.0.1 dev eth0 proto dhcp metric 100",
        "  last check     none since this host booted",
    ]


def test_a_host_that_is_well(repaired: str) -> None:
    """What is installed is listed: the routes, the files, how the units ended, and the last verdict with its time."""
    host = checked(repaired, h200())
    manager_of(host).states[LAYOUT.gate_unit] = UnitState("loaded", "inactive")
    said = say("status", host=host)
    well = "INSTALLED: 2 routes and 10 files of hostrouting are here, and nothing escapes now"
    assert (said.code, said.lines[0]) == (0, well)
    told = rows(said.lines)
    assert (told["now"], told["last check"]) == ("ok", "ok, 2026-01-01T00:00:00Z")
    assert told[LAYOUT.gate_unit] == "runs at each start of a gated unit"
    assert {
        "  172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting",
        "  /etc/systemd/system/static-routes.service",
    } < set(said.lines)
    assert not any("/run/" in text for text in said.lines)
    forget(host, boots=True)
    said = say("status", host=host)
    assert (said.code, said.lines[0]) == (0, well)
    assert rows(said.lines)["last check"] == "none since this host booted"


def test_without_systemd(repaired: str) -> None:
    """If systemd does not run, the output says so, with what is in force now, and what is from the next boot on."""
    host = FakeHost(kernel=h200(), manager=FakeManager(running=False))
    assert say("status", host=host).lines[-1].split() == ["systemd", "not", "running", "here"]
    say("apply", "--config", repaired, host=host)
    now, later = "the routes are in force now", "the units and the gate from the next boot on"
    said = say("status", host=host)
    assert f"not running here: {now}, {later}" in said.out
    assert rows(said.lines)[LAYOUT.machine_unit] == "checked before each start from the next boot on"
    lose_routes(host)
    said = say("status", host=host)
    assert f"not running here: {later.replace('gate', 'gate are in force')}" in said.out
    # There is no unit to start.
    start = "as root: /bin/bash /etc/hostrouting/static-routes.sh"
    assert any(text.startswith("ROUTE-MISSING: ") and text.endswith(start) for text in said.lines)


# What is wrong with it.


def test_a_unit_that_failed(repaired: str) -> None:
    """A failed unit of hostrouting is named, with the command that shows its log."""
    host = FakeHost(kernel=h200(), manager=FakeManager(failing={LAYOUT.routes_unit: ("no gateway",)}))
    say("apply", "--config", repaired, host=host)
    said = say("status", host=host)
    assert (said.code, said.lines[0]) == (
        1,
        f"UNIT: the last run of {LAYOUT.routes_unit} failed; see: journalctl -u {LAYOUT.routes_unit}",
    )
    assert "its last run failed with exit-code (exit status 1)" in said.out


def test_a_gate_that_refused_a_machine(repaired: str) -> None:
    """A refusal that nothing explains is a failure: all may look right while no machine starts."""
    host = checked(repaired, h200())
    manager_of(host).states[LAYOUT.gate_unit] = FAILED
    assert (say("status", host=host).code, found(host)) == (1, [("unit", LAYOUT.gate_unit)])
    assert "nothing explains that now" in sentences(host, "unit")


def test_a_unit_whose_failure_is_past(written: Callable[..., str]) -> None:
    """The unit of a check fails when it finds an overlap. Once all is well, status reports no failure.

    One that failed without a verdict is, and one that ended in another way.
    """
    host = checked(written(), h200(), code=1)
    manager_of(host).states[LAYOUT.check_unit] = FAILED
    said = say("status", host=host)
    assert (said.code, said.lines[0], found(host)) == (1, OVERLAP, [])
    for number in range(8):
        host.kernel.set_down(f"ib{number}")
    said = say("status", host=host)
    assert (said.code, "its last run failed with exit-code (exit status 1)" in said.out) == (0, True)
    # As after `systemctl reset-failed`.
    manager_of(host).states[LAYOUT.check_unit] = UnitState("loaded", "inactive", "success", 1)
    said = say("status", host=host)
    assert (said.code, "its last run failed (exit status 1)" in said.out) == (0, True)
    # What another configuration says of the host does not excuse it.
    its = ("unit", LAYOUT.check_unit)
    assert its in found(host, "--config", written(cidrs=(OTHER,)))
    manager_of(host).states[LAYOUT.check_unit] = UnitState("loaded", "failed", "timeout", 0)
    assert found(host) == [its]
    manager_of(host).states[LAYOUT.check_unit] = FAILED
    del host.files.texts[LAYOUT.detected_path]
    assert (say("status", host=host).code, found(host)) == (1, [its])


def test_a_failure_of_the_routes_that_is_past(repaired: str) -> None:
    """The failure of the routes' unit is reported, unless the routes exist and another unit has run since."""
    host = checked(repaired, h200())
    manager_of(host).states[LAYOUT.routes_unit] = FAILED
    assert found(host) == [("unit", LAYOUT.routes_unit)]
    manager_of(host).states[LAYOUT.gate_unit] = UnitState("loaded", "inactive", "success", 0, invocation="1")
    assert (say("status", host=host).code, found(host)) == (0, [])


def test_routes_that_are_missing(repaired: str, written: Callable[..., str]) -> None:
    """Routes of the installed script, or of a configuration, that are not there are named after what escapes for that."""
    host = checked(repaired, h200())
    host.kernel.ip_route("delete", host.kernel.snapshot(protocol=OURS).routes[0])
    said = say("status", host=host)
    assert (said.code, said.lines[0]) == (1, "OVERLAP: a part of 172.16.0.0/16 leaves by ib0, not by eth0")
    lost = "172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting"
    assert said.lines[3] == f"ROUTE-MISSING: 1 of 2 routes: {lost}; as root: systemctl start static-routes.service"
    third = written({"destination": "172.16.128.0/17"}, {"destination": "9.0.0.0/8"}, {"destination": "11.0.0.0/8"})
    named = say("status", "--config", third, host=host)
    assert named.lines[3].startswith("ROUTE-MISSING: 2 of 3 routes: 9.0.0.0/8 ")
    assert f"; see: hostrouting plan --config {third}" in named.lines[3]
    assert len(say("status", "--config", third, "--json", host=host).json["missing"]) == 2


def test_a_route_that_somebody_else_holds_now(repaired: str, written: Callable[..., str]) -> None:
    """For a route that cannot be added, status names the holder of its place, and what to write instead."""
    host = checked(repaired, h200())
    one = host.kernel.snapshot(protocol=OURS).routes[0]
    host.kernel.ip_route("delete", one)
    host.kernel.ip_route("add", Route.to(one.prefix, dev="ib0", protocol=4))
    said = say("status", host=host)
    assert (said.code, found(host)) == (1, [("route-conflict", "172.16.0.0/17")])
    assert "instead, configure 172.16.0.0/18 and 172.16.64.0/18" in said.out
    assert "and systemd-nspawn@.service cannot start without it" in said.out
    assert "systemctl start" not in said.out
    assert say("status", "--json", host=host).json["missing"] == [
        "172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting"
    ]
    other = written(*HALVES, {"destination": "10.98.0.0/16"})
    assert {name for name, _ in found(host, "--config", other)} >= {"route-conflict", "route-missing", "not-installed"}


def test_routes_that_wait_are_not_missing(repaired: str) -> None:
    """Routes that are there, or cannot be added without the rule for main: the page says what they wait for."""
    host = checked(repaired, h200())
    host.kernel.delete_rule(default_rules(4)[1])
    assert found(host) == [("route-waits", "172.16.0.0/17")]
    told = sentences(host, "route-waits")
    assert told.startswith("2 routes, such as ")
    rule = "the rule for table main (ip rule add pref 32766 lookup main)"
    assert told.endswith(f" {rule}, and systemd-nspawn@.service cannot start without it")
    assert say("status", host=host).lines[2] == "  See: ip rule"
    assert say("status", "--json", host=host).json["missing"] == [f"{prefix}: waiting for {rule}" for prefix in REPAIR]


def test_routes_that_nothing_brings_back() -> None:
    """Our routes without the script that brings them back are not an installation."""
    kernel = h200()
    kernel.ip_route("add", Route.to("9.0.0.0/8", dev="eth0", gateway="10.0.0.1", protocol=213))
    said = say("status", kernel=kernel)
    told = "ROUTE-WILL-NOT-LAST: no script adds the routes of hostrouting at the next boot"
    assert (said.code, said.lines[0]) == (1, f"{told}; as root: hostrouting apply --config FILE")


def test_a_lost_file(written: Callable[..., str]) -> None:
    """No file or link that takes part in a boot can be deleted or masked without a word."""
    host = checked(written(*HALVES, mode="WARN"), h200())
    texts, links = dict(host.files.texts), dict(host.files.links)
    lasting = [path for path in [*texts, *links] if not path.startswith("/run/")]
    assert (len(lasting), len(links)) == (10, 1)
    quiet = {LAYOUT.routes_preset_path}  # nothing reads it at boot
    for path in lasting:
        for text in [None] if path in links or path in quiet else [None, ""]:
            host.files.remove(path)
            host.files.texts.update({} if text is None else {path: text})
            said = say("status", host=host)
            host.files.texts.update(texts)
            host.files.links.update(links)
            assert said.code == (0 if path in quiet else 1), (path, text)
            assert (path in said.out.partition("files of hostrouting")[0]) is (path not in quiet), (path, text)


@pytest.mark.parametrize("mode", ["WARN", "STRICT"])
def test_a_run_that_was_cut_short(written: Callable[..., str], mode: str) -> None:
    """While a step is changing, no machine starts; files that systemd has not read yet are named."""
    host, mishaps = mishap_host()
    mishaps.watch = lambda event: mishaps.arm(1, full) if event == "reload" else None
    assert say("apply", "--config", written(mode=mode), host=host).code == 1
    mishaps.watch = lambda _event: None
    mishaps.disarm()
    assert say("status", host=host).code == 1
    assert f"a run of hostrouting did not finish changing {LAYOUT.check_script_path}" in sentences(host, "gate-shut")
    assert "systemd has not loaded" in sentences(host, "gate-open")


def test_an_edited_check(written: Callable[..., str]) -> None:
    """If the installed check was edited, machines may start unchecked, and no verdict is given."""
    host = checked(written(), plain_vm())
    host.files.texts[LAYOUT.check_script_path] = "#!/bin/sh\n"
    assert (say("status", host=host).code, {name for name, _ in found(host)}) == (1, {"gate-open", "not-known"})
    assert ("gate-open", LAYOUT.check_script_path) in found(host)
    assert ("not-known", LAYOUT.check_script_path) in found(host)
    assert rows(say("status", host=host).lines)["now"] == "not known"


@pytest.mark.parametrize(
    ("changed", "differs"),
    [
        ({}, []),
        ({"routeOverlap": {"expectedCidrs": [CIDR], "mode": "WARN"}}, ["routeOverlap"]),
        ({"routeOverlap": {}}, ["routeOverlap"]),
        ({"staticRoutes": {"enabled": False}}, ["staticRoutes"]),
        ({"guard": {"enabled": True, "program": "/opt/hostrouting"}}, ["guard"]),
        ({"manageForeign": "keep"}, ["manageForeign"]),
    ],
)
def test_a_configuration_that_is_not_the_installed_one(
    tmp_path: Path, changed: dict[str, Any], differs: list[str]
) -> None:
    """With --config, a host is INSTALLED, and the exit code 0, only if this very configuration is the installed one."""
    routes = {"enabled": True, "routes": HALVES}
    old = {"staticRoutes": routes, "routeOverlap": {"expectedCidrs": [CIDR], "mode": "STRICT"}}
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    one.write_text(json.dumps(old))
    other.write_text(json.dumps({**old, **changed}))
    host = checked(str(one), h200())
    said = say("status", "--config", str(other), host=host)
    assert say("status", "--config", str(other), "--json", host=host).json["differs"] == differs
    assert (said.code == 0, said.lines[0].startswith("INSTALLED:")) == (not differs, not differs)
    told = f"another configuration is installed here; it differs in {differs[0] if differs else ''}"
    remedy = f"to see what apply would change: hostrouting plan --config {other}"
    assert (f"NOT-INSTALLED: {told}; {remedy}" in said.lines) == bool(differs)


# What cannot be found out.


@pytest.mark.parametrize("make", [plain_vm, h200])
def test_no_route_table(written: Callable[..., str], make: Callable[[], MemoryBackend]) -> None:
    """Without netlink, or the permission to read, all else is reported, and the last verdict is not the present one."""
    host = checked(written(mode="WARN"), make())
    backend, denied = host.kernel.reopen(), BackendError("not permitted to read the tables", kind="not-permitted")
    backend.faults.fail("snapshot", denied)
    nowhere = mock.Mock(side_effect=BackendError("there is no netlink here: a container", kind="unavailable"))
    bare, unread = say("status", host=FakeHost(backend=nowhere)), asked(host, backend)
    assert (bare.code, bare.lines[0]) == (3, "NOT-KNOWN: the route table: there is no netlink here: a container")
    assert "default route" not in bare.out
    assert (unread.code, unread.lines[0]) == (3, "NOT-KNOWN: the route table: not permitted to read the tables")


@pytest.mark.parametrize(
    "path",
    [
        LAYOUT.routes_script_path,
        LAYOUT.check_script_path,
        LAYOUT.ok_path,
        LAYOUT.routes_unit_path,
        LAYOUT.check_unit_path,
        LAYOUT.gate_drop_in(),
    ],
)
def test_what_is_not_a_file(repaired: str, path: str) -> None:
    """If something else is at the path of one of our files, this is reported once, with all other facts."""
    host = checked(repaired, h200())
    host.files.texts.pop(path, None)
    host.files.strange[path] = "a fifo"
    said = say("status", host=host)
    assert (said.code, said.err, {name for name, _ in found(host)}) == (3, "", {"not-known"})
    assert said.out.count(f"cannot read {path}: there is a fifo in its place; remove it") == 1
    assert "  /etc/hostrouting/static-routes.sh" in said.lines or "routes" in path
    assert "  /etc/systemd/system/check-route-overlap.service" in said.lines or "check" in path


def test_a_report_that_cannot_be_renewed(repaired: str) -> None:
    """On a read-only file system a report may be of any earlier check: it is not taken for the last one."""
    host = checked(repaired, h200())
    host.files.frozen = True
    assert say("status", host=host).code == 3
    assert "is on a read-only file system, so it may be from an earlier check" in sentences(host, "not-known")
    assert say("status", "--json", host=host).json["lastCheck"] is None


def test_the_kernel_cannot_be_asked(written: Callable[..., str]) -> None:
    """If the tables can be read but the kernel does not answer, the routes are still listed."""
    host = checked(written({"destination": "9.0.0.0/8"}, mode="WARN"), h200())
    backend = host.kernel.reopen()
    silent = mock.Mock(side_effect=BackendError("the kernel did not answer a lookup in time", kind="timeout"))
    backend.lookup = silent  # type: ignore[method-assign]  # a kernel that does not answer
    said = asked(host, backend)
    told = "the present state cannot be checked: the kernel did not answer a lookup in time"
    assert (said.code, said.lines[0]) == (3, f"NOT-KNOWN: {told}")
    assert "  9.0.0.0/8 via 10.0.0.1 dev eth0 proto hostrouting" in said.lines
    # The last verdict is told, and is not taken for the one now.
    its = rows(said.lines)
    assert (its["now"], its["last check"]) == ("not known", "overlap, 2026-01-01T00:00:00Z")


def test_tables_that_never_rest(written: Callable[..., str]) -> None:
    """On a host whose routes keep changing, the last reading is used, and the verdict is not ok."""
    host = checked(written(), plain_vm())
    last = host.kernel.snapshot()
    backend = host.kernel.reopen()
    restless = mock.Mock(side_effect=BackendError("busy", last=last, kind="unsettled"))
    backend.snapshot = restless  # type: ignore[method-assign]  # tables that change all the while
    said = asked(host, backend)
    assert (said.code, said.lines[0].partition(":")[0]) == (3, "UNDECIDED")


def test_a_report_that_nothing_is_left_of(written: Callable[..., str]) -> None:
    """A bad verdict of a check that is not here any more can be judged by nothing."""
    host = checked(written(mode="WARN"), h200())
    forget(host, boots=False)
    said = say("status", host=host)
    told = "NOT-KNOWN: the verdict of the last check was overlap, but now no check is installed"
    assert (said.code, said.lines[0]) == (3, told)


# The verdict now, and the last one.


@pytest.mark.parametrize(("mode", "follows"), [("STRICT", REFUSED), ("WARN", LET_IN)])
def test_an_address_came_after_the_check(written: Callable[..., str], mode: str, follows: str) -> None:
    """If an address escapes now that passed the last check, the answer begins with that, and with what follows."""
    host = checked(written(mode=mode), plain_vm())
    infiniband(host)
    said = say("status", host=host)
    assert (said.code, said.lines[:3]) == (1, [OVERLAP, follows, WAYS])
    told = rows(said.lines)
    assert told["now"] == "overlap (1 finding)"
    assert told["checked by"] == f"the check installed here: 172.16.0.0/16 in {mode}"
    assert told["last check"] == "ok, 2026-01-01T00:00:00Z"
    # The verdict now is the whole of what `check` says.
    document, check = (say(command, "--json", host=host).json for command in ("status", "check"))
    del check["schema"], check["standings"]
    assert document["now"] == {"by": "installed", "inForce": True, "expectedCidrs": [CIDR], **check}
    last = {"verdict": "ok", "at": "2026-01-01T00:00:00Z"}
    assert document["lastCheck"] == last
    forget(host, boots=True)
    said = say("status", host=host)
    assert (said.code, said.lines[:2]) == (1, [OVERLAP, follows])


@pytest.mark.parametrize(
    ("marker", "verdict"), [("no-default-route\n", "no-default-route"), ("OVERLAP: …\n", "overlap"), ("", "ok")]
)
def test_the_last_check_is_that_of_the_marker(written: Callable[..., str], marker: str, verdict: str) -> None:
    """The verdict of the last check is that in the marker, whoever wrote it: the check at boot writes no report."""
    host = checked(written(mode="WARN"), plain_vm() if verdict == "ok" else h200())
    del host.files.texts[LAYOUT.report_path]
    if marker:
        host.files.texts[LAYOUT.detected_path] = marker
    assert rows(say("status", host=host).lines)["last check"] == f"{verdict}, 2026-01-01T00:00:00Z"


def test_no_default_route_now(written: Callable[..., str]) -> None:
    """If the default route has gone since the check, the answer is undecided, with the consequences."""
    host = checked(written(), plain_vm())
    host.kernel.set_down("eth0")
    said = say("status", host=host)
    follows = REFUSED
    assert said.code == 3
    assert said.lines[:3] == [
        f"NO-DEFAULT-ROUTE: there is no IPv4 default route, so no device is expected for {CIDR}",
        follows,
        "  See: ip route show default",
    ]
    told = rows(said.lines)
    assert (told["default route"], told["now"]) == ("none", "no-default-route")
    host = checked(written(mode="WARN"), plain_vm())
    host.kernel.set_down("eth0")
    assert say("status", host=host).lines[1] == LET_IN


def test_the_kernel_does_not_agree_with_its_tables(written: Callable[..., str]) -> None:
    """The kernel itself is asked, too, and its answer wins over the tables."""
    host = checked(written(), plain_vm())
    backend, other = host.kernel.reopen(), h200()
    backend.lookup = other.lookup  # type: ignore[method-assign]  # a kernel that surprises
    said = asked(host, backend)
    assert (said.code, said.lines[0]) == (1, OVERLAP)
    assert rows(said.lines)["last check"] == "ok, 2026-01-01T00:00:00Z"


def test_a_rule_that_came(written: Callable[..., str]) -> None:
    """A rule that sends some packets elsewhere leaves the verdict undecided now."""
    config = written()
    host = checked(config, plain_vm())
    host.kernel.add_rule(Rule(family=4, priority=100, fwmark=7, fwmask=0xFFFFFFFF, action="prohibit"))
    said = say("status", host=host)
    assert (said.code, said.lines[0].partition(":")[0], said.lines[1]) == (3, "UNDECIDED", "  See: hostrouting check")
    assert rows(said.lines)["last check"] == "ok, 2026-01-01T00:00:00Z"
    assert say("status", "--config", config, host=host).lines[1] == f"  See: hostrouting check --config {config}"


def test_what_is_installed_closes_it(repaired: str) -> None:
    """Missing routes of the configuration are added before a machine is checked, so it is not refused for them."""
    host = checked(repaired, h200())
    lose_routes(host)
    said = say("status", host=host)
    add = "  To add the installed routes that are missing now, as root: systemctl start static-routes.service"
    first = "  The mode is STRICT: before systemd-nspawn@.service starts, the gate adds the missing routes, and then checks."
    assert (said.code, said.lines[:2]) == (1, [OVERLAP, first])
    assert said.lines[2] == f"{add}; for details: hostrouting check"
    assert [name for name, _ in found(host)] == ["route-missing"]
    # A route that is to go adds nothing.
    host.kernel.change([RouteRequest("add", Route.to("9.0.0.0/8", dev="eth0", gateway="10.0.0.1", protocol=213))])
    for prefix in REPAIR:
        host.kernel.ip_route("add", Route.to(prefix, dev="eth0", gateway="10.0.0.1", protocol=213))
    host.kernel.ip_route("add", Route.to("172.16.5.0/24", dev="ib0"))
    assert say("status", host=host).lines[1:3] == [REFUSED, WAYS]
    # While systemd has yet to read the gate, nothing waits.
    manager_of(host).read = {}
    assert say("status", host=host).lines[1] == "  The mode is STRICT, but the gate is open, see below."


# By which check it is judged.


def test_another_check_than_the_installed_one(written: Callable[..., str]) -> None:
    """A given configuration decides; if another check is installed, the answer says so, and how to run it."""
    host = checked(written(cidrs=(OTHER,)), h200())
    config = written()
    said = say("status", "--config", config, host=host)
    ways = WAYS.replace("hostrouting repair", f"hostrouting repair --config {config}")
    assert said.code == 1
    assert said.lines[:2] == [OVERLAP, ways.replace("hostrouting check", f"hostrouting check --config {config}")]
    told = rows(said.lines)
    assert told["checked by"] == f"{config}: 172.16.0.0/16 in STRICT"
    assert any(text.startswith("NOT-INSTALLED: another configuration is installed here") for text in said.lines)
    assert told["last check"] == "ok, 2026-01-01T00:00:00Z"
    document = say("status", "--config", config, "--json", host=host).json
    assert (document["now"]["by"], document["now"]["inForce"]) == ("config", False)


def test_the_installed_check_by_name(written: Callable[..., str]) -> None:
    """A configuration whose check is the installed one is judged as that, and its file is what the remedy names.

    One without expected CIDRs cannot judge: what is installed does, for machines wait for that.
    """
    config = written()
    host = checked(config, plain_vm())
    infiniband(host)
    said = say("status", "--config", config, host=host)
    assert said.lines[1] == REFUSED
    assert f"hostrouting repair --config {config};" in said.lines[2]
    told = rows(said.lines)
    assert told["checked by"] == f"{config}, as it is installed: 172.16.0.0/16 in STRICT"
    assert told["last check"] == "ok, 2026-01-01T00:00:00Z"
    said = say("status", "--config", written(cidrs=()), host=host)
    assert (said.code, said.lines[1:3]) == (1, [REFUSED, WAYS])
    assert rows(said.lines)["checked by"] == "the check installed here: 172.16.0.0/16 in STRICT"


def test_a_configuration_where_nothing_is_installed(written: Callable[..., str]) -> None:
    """A host without an installed check is also judged, by the configuration."""
    config = written()
    said = say("status", "--config", config, kernel=h200())
    assert said.code == 1
    assert said.lines[1].startswith("  To print the repair: ")
    said = say("status", "--config", config, kernel=plain_vm())
    told = "NOT-INSTALLED: nothing is installed here; to see what apply would change: hostrouting plan"
    assert (said.code, said.lines[0]) == (1, f"{told} --config {config}")


@pytest.mark.parametrize(("make", "lookups"), [(plain_vm, 1), (h200, 1), (MemoryBackend, 0)])
def test_one_snapshot(written: Callable[..., str], make: Callable[[], MemoryBackend], lookups: int) -> None:
    """The host is read once, and the kernel is asked once at most, whatever the verdict."""
    host = checked(written(mode="WARN"), make())
    backend = host.kernel.reopen()
    with (
        mock.patch.object(backend, "snapshot", wraps=backend.snapshot) as snapshot,
        mock.patch.object(backend, "lookup", wraps=backend.lookup) as lookup,
    ):
        asked(host, backend)
    assert (snapshot.call_count, lookup.call_count) == (1, lookups)


def test_a_run_in_progress(repaired: str) -> None:
    """A run that changes the host now is named, and the exit code stays the same. Kills: a warning, and no line."""
    host = checked(repaired, h200())
    host.files.locked.add(LAYOUT.lock_path)
    said = say("status", host=host)
    told = "LOCK: process 4711 (hostrouting) is working on this host now; what status shows may change"
    assert (said.code, said.lines.count(told)) == (0, 1)
