"""`status`: whether this host is as the installed configuration asks, whether units are held back, the verdict now."""

import json
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from hostrouting.boot.files import WRITER
from hostrouting.errors import BackendError, ManagerError
from hostrouting.host.systemd import UnitState
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeHost, FakeKernel, FakeManager, h200, plain_vm
from tests.support.cli import say
from tests.support.tasks import LAYOUT, lose_routes, manager_of

CIDR = "172.16.0.0/16"
MACHINES = LAYOUT.machine_unit
SCRIPT, DROP_IN = LAYOUT.step_path(LAYOUT.check_step), LAYOUT.drop_in_path(MACHINES)
WELL = f"INSTALLED: this host is as {LAYOUT.config_path} asks, and nothing escapes now"
OVERLAP = "OVERLAP: all of 172.16.0.0/16 leaves by ib0; expected: eth0"
AGAIN = f"To make it so, as root: hostrouting apply --config {LAYOUT.config_path}"


def applied(config: str, kernel: FakeKernel, *, code: int = 0) -> FakeHost:
    """A host on which this configuration was applied."""
    host = FakeHost(kernel=kernel)
    assert say("apply", "--config", config, "--wait", "0", host=host).code == code
    return host


def names(host: FakeHost) -> list[tuple[str, str]]:
    """The names and targets of the findings."""
    return [(finding["name"], finding["target"]) for finding in say("status", "--json", host=host).json["findings"]]


def test_a_host_without_us() -> None:
    """A host without anything that hostrouting installed has no fault."""
    said = say("status", kernel=h200())
    assert said.code == 0
    assert said.lines == [
        "NOTHING: hostrouting has nothing installed on this host; to look for an overlap: hostrouting check CIDR"
    ]
    document = say("status", "--json", kernel=h200()).json
    assert (document["installed"], document["verdict"], document["findings"]) == (False, None, [])


def test_a_host_that_is_well(repaired: str) -> None:
    """First that all is well, then what is installed."""
    host = applied(repaired, h200())
    said = say("status", host=host)
    assert said.code == 0
    assert said.lines == [
        WELL,
        "",
        "  static routes  2 routes",
        "  check          172.16.0.0/16 in STRICT",
        f"  gated units    {MACHINES}",
    ]
    document = say("status", "--json", host=host).json
    assert (document["installed"], document["verdict"], document["findings"]) == (True, "ok", [])
    assert {step["action"] for step in document["steps"]} == {"keep"}
    for manager in (FakeManager(running=False), None):
        assert say("status", host=FakeHost(kernel=host.kernel, files=host.files, manager=manager)).lines[0] == WELL


def test_every_part(tmp_path: Path) -> None:
    """Each part of a configuration has a line."""
    path = tmp_path / "config.json"
    document = {
        "routeOverlap": {"expectedCidrs": ["10.1.0.0/16"], "expectedDevs": ["ib0", "ib1"]},
        "probeRewrite": {"enabled": True, "interfaces": ["eth0"]},
        "guard": {"enabled": True},
        "gate": {"units": ["kubelet.service"]},
    }
    path.write_text(json.dumps(document))
    assert say("status", host=applied(str(path), h200())).lines[-4:] == [
        "  check          10.1.0.0/16 by ib0 or ib1 in WARN",
        "  probe rewrite  on eth0",
        "  guard          enabled",
        "  gated units    kubelet.service",
    ]


# What differs from the installed configuration.


def test_routes_that_are_missing(repaired: str) -> None:
    """What escapes for that comes first, then the difference, and the command that ends it."""
    host = applied(repaired, h200())
    lose_routes(host)
    said = say("status", host=host)
    assert said.code == 1
    assert said.lines[:3] == [
        OVERLAP,
        "  to print the repair: hostrouting repair; for details: hostrouting check",
        f"DIFFERENT: this host is not as {LAYOUT.config_path} asks: apply would add 2 routes",
    ]
    assert AGAIN in said.lines
    assert say("apply", "--config", "-", host=host, stdin=host.files.texts[LAYOUT.config_path].encode()).code == 0
    assert say("status", host=host).code == 0


def test_a_route_that_somebody_else_holds_now(repaired: str) -> None:
    """For a route that cannot be added, status names the holder of its place, and what to write instead."""
    host = applied(repaired, h200())
    lose_routes(host)
    host.kernel.ip_route("add", Route.to("172.16.0.0/17", dev="ib0", protocol=4))
    said = say("status", host=host)
    assert (said.code, names(host)) == (1, [("route-conflict", "172.16.0.0/17")])
    assert f"DIFFERENT: this host is not as {LAYOUT.config_path} asks: and apply cannot change that" in said.lines
    assert "instead, configure 172.16.0.0/18 and 172.16.64.0/18" in said.out


def test_routes_that_wait(repaired: str) -> None:
    """Routes that cannot be added without the rule for main: the page says what they wait for."""
    host = applied(repaired, h200())
    host.kernel.delete_rule(default_rules(4)[1])
    said = say("status", host=host)
    assert (said.code, names(host)) == (1, [("route-waits", "172.16.0.0/17")])
    assert "ip rule add pref 32766 lookup main" in said.out


def test_a_lost_file(written: Callable[..., str]) -> None:
    """No file or link can be deleted or emptied without a word."""
    host = applied(written({"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}, mode="WARN"), h200())
    texts, links = dict(host.files.texts), dict(host.files.links)
    lasting = [path for path in (*texts, *links) if not path.startswith("/run/")]
    assert (len(lasting), len(links)) == (8, 1)
    for path in lasting:
        for text in [None] if path in links else [None, ""]:
            host.files.remove(path)
            host.files.texts.update({} if text is None else {path: text})
            said = say("status", host=host)
            host.files.texts.update(texts)
            host.files.links.update(links)
            assert (said.code, path in said.out) == (1, True), (path, text)


def test_another_release(repaired: str) -> None:
    """Files that another release wrote are no edits: a note says what to run. Routes count all the same."""
    host = applied(repaired, h200())
    text = host.files.texts[LAYOUT.config_path]
    host.files.texts |= {LAYOUT.config_path: text.replace(WRITER, "hostrouting 0.9"), SCRIPT: "#!/bin/sh\n"}
    said = say("status", host=host)
    note = f"OTHER-RELEASE: the files were written by hostrouting 0.9, and this is {WRITER}; as root: hostrouting apply"
    assert (said.code, said.lines[:2]) == (0, [f"{note} --config {LAYOUT.config_path}", WELL])
    lose_routes(host)
    assert say("status", host=host).code == 1


def test_a_configuration_that_is_lost(repaired: str) -> None:
    """Without config.json it is not known what is installed; that is an error, and the message has the two ways out."""
    host = applied(repaired, h200())
    host.files.remove(LAYOUT.config_path)
    said = say("status", host=host)
    assert said.code == 1
    assert said.lines[0].startswith(f"NOT-KNOWN: {LAYOUT.config_path}: is missing, and ")
    assert "apply --config FILE --allow-removal" in said.lines[0]
    assert "hostrouting remove" in said.lines[0]


# Whether units are held back, and our own units.


def test_what_opens_the_gate(repaired: str) -> None:
    """An opening is an error, or break glass, which is a warning: the exit code is 1 with both."""
    host = applied(repaired, h200())
    host.files.texts[LAYOUT.opening_path] = "ticket 4711\n"
    host.files.modes[LAYOUT.opening_path] = 0o600
    said = say("status", host=host)
    assert (said.code, names(host)) == (1, [("gate-open", LAYOUT.opening_path)])
    assert said.lines[0].endswith(f"until the next boot: ticket 4711; to end this: rm {LAYOUT.opening_path}")
    host.files.remove(LAYOUT.opening_path)
    host.files.texts[f"/etc/systemd/system/{MACHINES}.d/50-x.conf"] = "ExecCondition=\n"
    manager_of(host).reload()
    assert (say("status", host=host).code, names(host)) == (1, [("gate-open", MACHINES)])


@pytest.mark.parametrize("unit", [LAYOUT.routes_unit, LAYOUT.probe_unit, LAYOUT.guard_unit])
def test_our_units(repaired: str, unit: str) -> None:
    """A unit that failed is named, with the command that shows its log; as a note if nothing is missing now."""
    host = applied(repaired, h200())
    manager_of(host).states[unit] = UnitState("loaded", "failed", "exit-code", 1)
    said, sentence, see = say("status", host=host), f"UNIT: the last run of {unit} failed", f"see: journalctl -u {unit}"
    assert (said.code, said.lines[0]) == (0, f"{sentence}, and its work was done since; {see}")
    lose_routes(host)
    assert f"{sentence}; {see}" in say("status", host=host).lines


def test_a_guard_that_does_not_run(repaired: str, tmp_path: Path) -> None:
    """Apply would start it."""
    path = tmp_path / "guarded.json"
    path.write_text(json.dumps({**json.loads(Path(repaired).read_text()), "guard": {"enabled": True}}))
    host = applied(str(path), h200())
    manager_of(host).stop(LAYOUT.guard_unit)
    said = say("status", host=host)
    assert (said.code, said.lines[0].endswith(f": apply would start {LAYOUT.guard_unit}")) == (1, True)


# The verdict now.


def test_an_address_that_came_later(written: Callable[..., str]) -> None:
    """If an address escapes now, the answer begins with that, in WARN as well."""
    host = applied(written(mode="WARN"), plain_vm())
    host.kernel.add_link(Link(name="ib0", index=0, type=32))
    host.kernel.add_address("ib0", "172.16.1.10/16")
    said = say("status", host=host)
    assert (said.code, said.lines[0]) == (1, OVERLAP)
    assert say("status", "--json", host=host).json["verdict"] == "overlap"


def test_no_verdict(written: Callable[..., str]) -> None:
    """Without a default route, or if a rule sends other packets elsewhere, the exit code is 3."""
    host = applied(written(), plain_vm())
    host.kernel.add_rule(Rule(family=4, priority=100, fwmark=7, fwmask=0xFFFFFFFF, action="prohibit"))
    said = say("status", host=host)
    assert (said.code, said.lines[0].partition(":")[0]) == (3, "UNDECIDED")
    assert said.lines[1] == "  for details: hostrouting check"
    host.kernel.set_down("eth0")
    said = say("status", host=host)
    assert (said.code, said.lines[0].partition(":")[0]) == (3, "NO-DEFAULT-ROUTE")


# What cannot be found out.


def test_no_route_table(written: Callable[..., str]) -> None:
    """Without the permission to read it, all else is reported; exit code 3."""
    host = applied(written(mode="WARN"), h200())
    backend, denied = host.kernel.reopen(), BackendError("not permitted to read the tables", kind="not-permitted")
    backend.faults.fail("snapshot", denied)
    blind = FakeHost(kernel=host.kernel, files=host.files, backend=lambda: backend)
    said = say("status", host=blind)
    assert (said.code, said.out.count("not permitted to read the tables")) == (3, 1)
    host.files.remove(SCRIPT)
    assert say("status", host=blind).code == 1


def test_systemd_does_not_answer(repaired: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether units are held back is not known then, and what is known is said."""
    host = applied(repaired, h200())
    silent = mock.Mock(side_effect=ManagerError("systemctl show did not answer within 30 s"))
    monkeypatch.setattr(type(host.manager), "show", silent)
    said = say("status", host=host)
    assert (said.code, said.out.count("systemctl show did not answer within 30 s")) == (3, 1)
    assert f"  gated units    {MACHINES}" in said.lines


@pytest.mark.parametrize("path", [SCRIPT, DROP_IN, LAYOUT.unit_path(LAYOUT.check_unit)])
def test_what_is_not_a_file(repaired: str, path: str) -> None:
    """If something else is at the path of one of our files, this is reported once."""
    host = applied(repaired, h200())
    host.files.texts.pop(path)
    host.files.strange[path] = "a fifo"
    said = say("status", host=host)
    assert (said.code, said.err) == (3, "")
    assert said.out.count(f"cannot read {path}: there is a fifo in its place; remove it") == 1
