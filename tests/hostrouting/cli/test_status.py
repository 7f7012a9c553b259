"""`status` judges the host as it is now; what the last check said stands beside it, with whether it still holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unittest import mock

import attrs
import pytest

from hostrouting.errors import BackendError
from hostrouting.host import UnitState
from hostrouting.host.layout import HostLayout
from hostrouting.model import Link, Prefix, Route, Rule, default_rules
from hostrouting.testing import FakeHost, FakeManager, MemoryBackend, h200, plain_vm
from tests.support.cli import say
from tests.support.tasks import REPAIR, lose_routes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CIDR, OTHER = "172.16.0.0/16", "10.99.0.0/16"
LAYOUT = HostLayout()
NEW_YEAR = 1767225600.0
REFUSED = "  The mode is STRICT: no machine starts now; a running machine keeps running."
LET_IN = "  The mode is WARN: machines start anyway."
WAYS = "  To print the repair: hostrouting repair; for details: hostrouting check"
CHANGED = "out of date: since then the routes or rules have changed"


def checked(config: str, kernel: MemoryBackend, *, code: int = 0) -> FakeHost:
    """A host on which this configuration was applied, and checked at New Year."""
    host = FakeHost(kernel=kernel)
    assert say("apply", "--config", config, "--wait", "0", host=host).code == code
    host.files.times[LAYOUT.report_path] = NEW_YEAR
    return host


def at_boot(host: FakeHost, marker: str = "") -> None:
    """The check at boot has run since: it leaves a marker, and no report."""
    host.files.texts.pop(LAYOUT.report_path, None)
    if marker:
        host.files.texts[LAYOUT.detected_path] = marker
    for path in (LAYOUT.ok_path, LAYOUT.detected_path):
        host.files.times[path] = NEW_YEAR


def infiniband(host: FakeHost) -> None:
    """An address comes to ib0, and with it a connected route to the whole CIDR."""
    host.kernel.add_link(Link(name="ib0", index=0, type=32))
    host.kernel.add_address("ib0", "172.16.1.10/16")


def rows(lines: list[str]) -> dict[str, str]:
    """What the page says of each thing."""
    found = (text.strip().partition("  ") for text in lines if text.startswith("  "))
    return {name: fact.strip() for name, _, fact in found if fact}


def test_an_address_came_after_the_check(written: Callable[..., str]) -> None:
    """If an address escapes now that passed the last check, the answer begins with that; exit code 1."""
    host = checked(written(), plain_vm())
    infiniband(host)
    said = say("status", host=host)
    assert said.code == 1
    assert said.lines[:3] == ["OVERLAP: 172.16.0.0/16 leaves by ib0, not by eth0", REFUSED, WAYS]
    assert rows(said.lines)["now"] == "overlap (1 finding)"
    assert rows(said.lines)["checked by"] == "the check installed here: 172.16.0.0/16 in STRICT"
    assert rows(said.lines)["last check"] == f"ok, 2026-01-01T00:00:00Z; {CHANGED}"


def test_it_is_what_check_says(written: Callable[..., str]) -> None:
    """The verdict now is the whole of what `check` says, and by which check it was found; the last one stays."""
    host = checked(written(), plain_vm())
    infiniband(host)
    document = say("status", "--json", host=host).json
    check = say("check", "--json", host=host).json
    del check["schema"], check["standings"]
    assert document["now"] == {"by": "installed", "inForce": True, "expectedCidrs": [CIDR], **check}
    assert document["lastCheck"] == {
        "verdict": "ok",
        "escapes": 0,
        "at": "2026-01-01T00:00:00Z",
        "outOfDate": True,
    }


def test_a_mode_that_lets_machines_in(written: Callable[..., str]) -> None:
    """In WARN an overlap gives exit code 1 as well, and the answer says that machines start anyway."""
    host = checked(written(mode="WARN"), plain_vm())
    infiniband(host)
    said = say("status", host=host)
    assert (said.code, said.lines[:3]) == (1, ["OVERLAP: 172.16.0.0/16 leaves by ib0, not by eth0", LET_IN, WAYS])
    assert say("status", "--json", host=host).json["now"]["mode"] == "WARN"


def test_an_overlap_that_stays(written: Callable[..., str]) -> None:
    """If the last check said the same, only its time is told."""
    host = checked(written(mode="WARN"), h200())
    said = say("status", host=host)
    assert rows(said.lines)["last check"] == "overlap (1 finding), 2026-01-01T00:00:00Z"
    assert say("status", "--json", host=host).json["lastCheck"]["outOfDate"] is False


def test_a_route_that_expires(written: Callable[..., str]) -> None:
    """The last check still holds although a route that it depends on expires sooner now."""
    kernel = h200(dual_stack=True)
    [default] = [route for route in kernel.snapshot(family=6).routes if not route.prefix.length]
    kernel.ip_route("replace", attrs.evolve(default, expires=1800))
    host = checked(written(cidrs=("2001:db8:99::/48",)), kernel)
    kernel.ip_route("replace", attrs.evolve(default, expires=1700))
    assert say("status", "--json", host=host).json["lastCheck"]["outOfDate"] is False


def test_the_check_at_boot_was_the_last(written: Callable[..., str]) -> None:
    """The marker of the check at boot has the verdict, the number of findings and the time; an older report is gone."""
    host = checked(written(mode="WARN"), h200())
    at_boot(host)
    assert rows(say("status", host=host).lines)["last check"] == "overlap (1 finding), 2026-01-01T00:00:00Z"
    at_boot(host, "no-default-route\n")
    assert rows(say("status", host=host).lines)["last check"] == f"no-default-route, 2026-01-01T00:00:00Z; {CHANGED}"
    del host.files.texts[LAYOUT.detected_path]
    host.files.texts[LAYOUT.ok_path] = "ok\nnot judged are some\n"
    assert rows(say("status", host=host).lines)["last check"] == f"ok, 2026-01-01T00:00:00Z; {CHANGED}"


def test_another_overlap_than_before(written: Callable[..., str]) -> None:
    """If something else escapes than the last check found, that verdict is out of date although it reads the same."""
    host = checked(written(mode="WARN"), h200())
    host.kernel.ip_route("add", Route.to("172.16.0.0/17", dev="eth0", gateway="10.0.0.1"))
    said = say("status", host=host)
    assert said.lines[0] == "OVERLAP: a part of 172.16.0.0/16 leaves by ib0, not by eth0"
    assert rows(said.lines)["last check"] == f"overlap (1 finding), 2026-01-01T00:00:00Z; {CHANGED}"


@pytest.mark.parametrize("mode", ["WARN", "STRICT"])
def test_a_bad_verdict_that_holds_no_more(written: Callable[..., str], mode: str) -> None:
    """An old bad verdict is not a failure if the routes are right now: the answer says that it is out of date."""
    host = checked(written(mode=mode), h200(), code=1 if mode == "STRICT" else 0)
    for number in range(8):
        host.kernel.set_down(f"ib{number}")
    said = say("status", host=host)
    assert said.code == 0
    assert said.lines[0] == "INSTALLED: 6 files of hostrouting are here, and nothing escapes now"
    assert rows(said.lines)["now"] == "ok"
    assert rows(said.lines)["last check"] == f"overlap (1 finding), 2026-01-01T00:00:00Z; {CHANGED}"


def test_the_unit_that_said_so(written: Callable[..., str]) -> None:
    """The unit of a check that found an overlap has failed with that; where it is fine now, that is no failure now.

    One that failed without a verdict is, and one that ended in another way.
    """
    host = checked(written(), h200(), code=1)
    assert isinstance(host.manager, FakeManager)
    host.manager.states[LAYOUT.check_unit] = UnitState("loaded", "failed", "exit-code", 1)
    said = say("status", host=host)
    assert (said.code, said.lines[0]) == (1, "OVERLAP: 172.16.0.0/16 leaves by ib0, not by eth0")
    assert "FAILED" not in said.out
    for number in range(8):
        host.kernel.set_down(f"ib{number}")
    assert say("status", host=host).code == 0
    assert "its last run failed with exit-code (exit status 1)" in say("status", host=host).out
    # What another configuration says of the host does not excuse it.
    assert "FAILED: check-route-overlap.service" in say("status", "--config", written(cidrs=(OTHER,)), host=host).out
    host.manager.states[LAYOUT.check_unit] = UnitState("loaded", "failed", "timeout", 0)
    assert say("status", host=host).lines[0].startswith("FAILED: check-route-overlap.service;")
    host.manager.states[LAYOUT.check_unit] = UnitState("loaded", "failed", "exit-code", 1)
    for path in (LAYOUT.report_path, LAYOUT.detected_path):
        del host.files.texts[path]
    said = say("status", host=host)
    assert (said.code, said.lines[0].partition(";")[0]) == (1, "FAILED: check-route-overlap.service")


def test_no_default_route_now(written: Callable[..., str]) -> None:
    """If the default route has gone since the check, the answer is undecided: exit code 3, with the consequences."""
    host = checked(written(), plain_vm())
    host.kernel.set_down("eth0")
    said = say("status", host=host)
    follows = "machines wait for a default route and do not start without one; a running machine keeps running."
    assert said.code == 3
    assert said.lines[:3] == [
        f"NO-DEFAULT-ROUTE: there is no IPv4 default route, so no device is expected for {CIDR}",
        f"  The mode is STRICT: {follows}",
        "  See: ip route show default",
    ]
    assert rows(said.lines)["default route"] == "none"
    assert rows(said.lines)["now"] == "no-default-route"
    assert rows(said.lines)["last check"] == f"ok, 2026-01-01T00:00:00Z; {CHANGED}"
    host = checked(written(mode="WARN"), plain_vm())
    host.kernel.set_down("eth0")
    assert say("status", host=host).lines[1] == LET_IN


def test_routes_that_wait_are_not_missing(repaired: str) -> None:
    """Routes that are there, or cannot be added without the rule for main: the page says what they wait for."""
    host = checked(repaired, h200())
    host.kernel.delete_rule(default_rules(4)[1])
    said = say("status", host=host)
    rule = "the rule for table main (ip rule add pref 32766 lookup main)"
    assert said.lines[2:4] == [
        "  See: ip rule",
        f"WAITING: 2 of 2 routes need {rule}, and no machine starts until then",
    ]
    assert "MISSING" not in said.out
    assert "static-routes.service" not in said.lines[3]
    assert say("status", "--json", host=host).json["missing"] == [f"{prefix}: waiting for {rule}" for prefix in REPAIR]


def test_the_default_route_is_back(written: Callable[..., str]) -> None:
    """A last check without a default route is no failure where there is one now."""
    kernel = plain_vm()
    kernel.set_down("eth0")
    host = checked(written(), kernel, code=3)
    host.kernel.set_up("eth0")
    host.kernel.ip_route("add", Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1"))
    said = say("status", host=host)
    assert (said.code, rows(said.lines)["last check"]) == (0, f"no-default-route, 2026-01-01T00:00:00Z; {CHANGED}")


def test_the_kernel_does_not_agree_with_its_tables(written: Callable[..., str]) -> None:
    """The kernel itself is asked, too, and its answer wins over the tables; exit code 1."""
    host = checked(written(), plain_vm())
    backend, other = host.kernel.reopen(), h200()
    backend.lookup = other.lookup  # type: ignore[method-assign]  # a kernel that surprises
    said = say("status", host=FakeHost(kernel=host.kernel, files=host.files, backend=lambda: backend))
    assert said.code == 1
    assert said.lines[0].startswith(f"OVERLAP: {CIDR} leaves by ib0, not by eth0")
    assert rows(said.lines)["last check"] == "ok, 2026-01-01T00:00:00Z; out of date: the verdict is different now"


def test_a_rule_that_came(written: Callable[..., str]) -> None:
    """A rule that sends some packets elsewhere leaves the verdict undecided now; exit code 3."""
    host = checked(written(), plain_vm())
    host.kernel.add_rule(Rule(family=4, priority=100, fwmark=7, fwmask=0xFFFFFFFF, action="prohibit"))
    said = say("status", host=host)
    assert (said.code, said.lines[0].partition(":")[0], said.lines[1]) == (3, "UNDECIDED", "  See: hostrouting check")
    assert rows(said.lines)["last check"] == f"ok, 2026-01-01T00:00:00Z; {CHANGED}"


def test_nothing_was_checked_since_the_boot(written: Callable[..., str]) -> None:
    """An escape is found even if no check was made since the host booted."""
    host = checked(written(), h200(), code=1)
    for path in [path for path in host.files.texts if path.startswith("/run/")]:
        del host.files.texts[path]
    said = say("status", host=host)
    assert (said.code, said.lines[:2]) == (1, ["OVERLAP: 172.16.0.0/16 leaves by ib0, not by eth0", REFUSED])
    assert rows(said.lines)["last check"] == "none since this host booted"
    assert say("status", "--json", host=host).json["lastCheck"] is None


# By which check it is judged


def test_a_configuration_that_is_not_what_is_installed(written: Callable[..., str]) -> None:
    """A given configuration decides; if another check is installed, the answer says so, and how to run it."""
    host = checked(written(cidrs=(OTHER,)), h200())
    config = written()
    said = say("status", "--config", config, host=host)
    ways = WAYS.replace("hostrouting repair", f"hostrouting repair --config {config}")
    assert said.code == 1
    assert said.lines[:3] == [
        "OVERLAP: 172.16.0.0/16 leaves by ib0, not by eth0",
        f"  {config} is not what is installed here: no machine waits for this check.",
        ways.replace("hostrouting check", f"hostrouting check --config {config}"),
    ]
    told = rows(said.lines)
    assert told["checked by"] == f"{config}: 172.16.0.0/16 in STRICT"
    assert told["installed check"] == "a different one, 10.99.0.0/16 in STRICT; to use it: hostrouting status"
    # That one was last made, and of another it says nothing.
    assert told["last check"] == "ok, 2026-01-01T00:00:00Z, by the check installed here"
    document = say("status", "--config", config, "--json", host=host).json
    assert (document["now"]["by"], document["now"]["inForce"]) == ("config", False)
    assert document["lastCheck"]["outOfDate"] is None


def test_a_configuration_that_is_installed(written: Callable[..., str]) -> None:
    """A configuration whose check is the installed one is judged as that, and its file is what the remedy names."""
    config = written()
    host = checked(config, plain_vm())
    infiniband(host)
    said = say("status", "--config", config, host=host)
    assert said.lines[1] == REFUSED
    assert f"hostrouting repair --config {config};" in said.lines[2]
    assert rows(said.lines)["checked by"] == f"{config}, as it is installed: 172.16.0.0/16 in STRICT"
    assert rows(said.lines)["last check"] == f"ok, 2026-01-01T00:00:00Z; {CHANGED}"
    assert say("status", "--config", config, "--json", host=host).json["now"]["inForce"] is True


def test_a_configuration_without_a_check(written: Callable[..., str]) -> None:
    """A configuration without expected CIDRs cannot judge: what is installed does, for machines wait for that."""
    host = checked(written(), plain_vm())
    infiniband(host)
    said = say("status", "--config", written(cidrs=()), host=host)
    assert (said.code, said.lines[1:3]) == (1, [REFUSED, WAYS])
    assert rows(said.lines)["checked by"] == "the check installed here: 172.16.0.0/16 in STRICT"


def test_a_configuration_where_nothing_is_installed(written: Callable[..., str]) -> None:
    """A host without a check of ours is judged by the configuration, too."""
    config = written()
    said = say("status", "--config", config, kernel=h200())
    assert said.code == 1
    assert said.lines[1] == f"  {config} is not what is installed here: no machine waits for this check."
    assert "installed check" not in rows(said.lines)
    assert say("status", "--config", config, kernel=plain_vm()).lines[0] == (
        f"NOT INSTALLED: nothing is installed here; to see what apply would change: hostrouting plan --config {config}"
    )
    assert say("status", "--config", config, kernel=plain_vm()).code == 1
    assert say("status", kernel=h200()).code == 0


def test_its_devices_count(tmp_path: Path) -> None:
    """The devices that the installed check expects and allows are those by which it is judged."""
    path = tmp_path / "config.json"
    path.write_text('{"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "expectedDevs": ["ib0"]}}')
    host = checked(str(path), h200())
    assert say("status", host=host).code == 0
    host.kernel.set_down("ib0")
    assert say("status", host=host).lines[0] == "OVERLAP: 172.16.0.0/16 leaves by ib1, not by ib0"


def test_a_script_that_cannot_be_read(written: Callable[..., str]) -> None:
    """If the installed check was edited, the answer is not ok, and warns that machines may start unchecked."""
    host = checked(written(), plain_vm())
    host.files.texts[LAYOUT.check_script_path] = "#!/bin/sh\n"
    said = say("status", host=host)
    assert said.code == 1
    assert said.lines[0].startswith(
        f"OPEN: {LAYOUT.check_script_path} is not as hostrouting wrote it, so machines may "
    )
    told = f"{LAYOUT.check_script_path} is not as hostrouting wrote it; write it again with: hostrouting apply --config FILE"
    assert f"  the installed check: {told}" in said.lines
    assert rows(said.lines)["now"] == "not known"
    assert say("status", "--json", host=host).json["now"] is None


# What comes beside it


def test_what_is_installed_closes_it(repaired: str) -> None:
    """Routes of ours that are missing come back before a machine is checked: then it is not refused for this."""
    host = checked(repaired, h200())
    lose_routes(host)
    said = say("status", host=host)
    assert said.code == 1
    assert said.lines[:4] == [
        "OVERLAP: 172.16.0.0/16 leaves by ib0, not by eth0",
        "  The installed static routes repair it: they are added before a machine starts.",
        "  See: hostrouting check",
        "MISSING: 2 of 2 routes; add them, as root, with: systemctl start static-routes.service",
    ]
    # A unit that has failed brings nothing.
    assert isinstance(host.manager, FakeManager)
    host.manager.states[LAYOUT.routes_unit] = UnitState("loaded", "failed", "exit-code", 1)
    assert say("status", host=host).lines[1] == REFUSED
    # Nor does one that systemd has yet to read.
    del host.manager.states[LAYOUT.routes_unit]
    host.manager.read = {}
    assert say("status", host=host).lines[1] == REFUSED


def test_a_gate_that_is_missing(written: Callable[..., str]) -> None:
    """Without the drop-in of the installed check, the answer does not say that machines are refused."""
    host = checked(written(), plain_vm())
    infiniband(host)
    del host.files.texts[LAYOUT.gate_drop_in_path]
    said = say("status", host=host)
    told = "The drop-in that makes machines wait for this check is missing; restore it with: hostrouting apply --config FILE"
    assert (said.code, said.lines[1]) == (1, f"  {told}")
    assert say("status", "--json", host=host).json["now"]["inForce"] is False


def test_no_route_can_close_it(written: Callable[..., str]) -> None:
    """If no route of ours repairs it, the answer does not promise one."""
    host = checked(written(), plain_vm())
    host.kernel.add_rule(Rule(family=4, priority=100, action="prohibit", dst=Prefix.parse("172.16.0.0/24")))
    said = say("status", host=host)
    assert (said.code, said.lines[1:3]) == (1, [REFUSED, "  See: hostrouting check"])


def test_the_kernel_cannot_be_asked(written: Callable[..., str]) -> None:
    """If the tables can be read but the kernel does not answer, the routes are still listed; exit code 3."""
    host = checked(written({"destination": "9.0.0.0/8"}, mode="WARN"), h200())
    backend = host.kernel.reopen()
    asked = mock.Mock(side_effect=BackendError("the kernel did not answer a lookup in time", kind="timeout"))
    backend.lookup = asked  # type: ignore[method-assign]  # a kernel that does not answer
    said = say("status", host=FakeHost(kernel=host.kernel, files=host.files, backend=lambda: backend))
    assert said.code == 3
    assert said.lines[0] == "UNKNOWN: the state of this host is not fully known"
    assert "  the present state cannot be checked: the kernel did not answer a lookup in time" in said.lines
    assert "  9.0.0.0/8 via 10.0.0.1 dev eth0 proto hostrouting" in said.lines
    assert rows(said.lines)["default route"].startswith("default via 10.0.0.1")
    # The last verdict is told, and is not taken for the one now.
    assert rows(said.lines)["now"] == "not known"
    assert rows(said.lines)["last check"] == "overlap (1 finding), 2026-01-01T00:00:00Z"


@pytest.mark.parametrize("make", [plain_vm, h200])
def test_not_permitted(written: Callable[..., str], make: Callable[[], MemoryBackend]) -> None:
    """Without the right to look, the verdict of the last check, good or bad, does not count for now."""
    host = checked(written(mode="WARN"), make())
    backend = host.kernel.reopen()
    backend.faults.fail("snapshot", BackendError("not permitted to read the tables", kind="not-permitted"))
    said = say("status", host=FakeHost(kernel=host.kernel, files=host.files, backend=lambda: backend))
    assert (said.code, said.lines[0]) == (3, "UNKNOWN: the state of this host is not fully known")
    assert "  the route table: not permitted to read the tables" in said.lines


def test_tables_that_never_rest(written: Callable[..., str]) -> None:
    """On a host that never rests the last reading has to do, and there is no bare ok; exit code 3."""
    host = checked(written(), plain_vm())
    last = host.kernel.snapshot(family=4)
    backend = host.kernel.reopen()
    restless = mock.Mock(side_effect=BackendError("busy", last=last, kind="unsettled"))
    backend.snapshot = restless  # type: ignore[method-assign]  # tables that change all the while
    said = say("status", host=FakeHost(kernel=host.kernel, files=host.files, backend=lambda: backend))
    assert said.code == 3
    assert said.lines[0].startswith("UNDECIDED: ")


def test_a_report_that_nothing_is_left_of(written: Callable[..., str]) -> None:
    """A bad verdict of a check that is not here any more can be judged by nothing: exit code 3."""
    host = checked(written(mode="WARN"), h200())
    for path in [path for path in host.files.texts if not path.startswith("/run/")]:
        del host.files.texts[path]
    said = say("status", host=host)
    assert said.code == 3
    assert said.lines[0] == "UNKNOWN: the verdict of the last check was overlap, but now no check is installed"


@pytest.mark.parametrize(("make", "asked"), [(plain_vm, 1), (h200, 1), (MemoryBackend, 0)])
def test_one_snapshot(written: Callable[..., str], make: Callable[[], MemoryBackend], asked: int) -> None:
    """The host is read once, and the kernel is asked once at most, whatever the verdict."""
    host = checked(written(mode="WARN"), make())
    backend = host.kernel.reopen()
    with (
        mock.patch.object(backend, "snapshot", wraps=backend.snapshot) as snapshot,
        mock.patch.object(backend, "lookup", wraps=backend.lookup) as lookup,
    ):
        say("status", host=FakeHost(kernel=host.kernel, files=host.files, backend=lambda: backend))
    assert (snapshot.call_count, lookup.call_count) == (1, asked)


def test_the_report_is_compared_with_its_like(written: Callable[..., str]) -> None:
    """A report that another version wrote differently is no reason to fail."""
    host = checked(written(), plain_vm())
    document: dict[str, Any] = json.loads(host.files.texts[LAYOUT.report_path])
    document["findings"] = 3
    host.files.texts[LAYOUT.report_path] = json.dumps(document)
    said = say("status", host=host)
    assert said.code == 3
    assert "is not a report of a check" in said.lines[-1]
