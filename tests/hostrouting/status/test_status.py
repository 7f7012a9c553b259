"""hostrouting.status: laws of what a host answers, and the pages in __snapshots__."""

import json
from collections.abc import Callable
from itertools import groupby
from unittest import mock

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hostrouting.boot.program import version
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.gate.unit_states import State, UnitState
from hostrouting.status import HostStatus, find_status, metric_lines, status_lines
from hostrouting.status.status import APPLY
from hostrouting.testing import FakeHost
from hostrouting.testing.interpreter import FakeInterpreter
from tests.support.cli import say
from tests.support.incidents import KUBELET, config, escaping_node, garble, refuse
from tests.support.statuses import (
    INCIDENTS,
    OVERLAP,
    REPAIR_LINE,
    UNITS,
    Change,
    after,
    break_python,
    close_files,
    end_guard,
    fill,
    hold_place,
    load_override,
    lose_default,
    lost,
    move_default,
    right,
    right_but,
    silence_kernel,
    silence_systemd,
    start_k3s,
    start_router,
    start_second_card,
    without_routes,
    write_override,
    written,
)
from tests.support.tasks import CIDR, LAYOUT, lose_routes, manager_of

TROUBLE = right_but(end_guard, lose_routes, hold_place, fill("/run"), start_k3s, break_python)
"""A node on which every part of the answer has something to say."""
PARTS: dict[str, tuple[Change, set[str]]] = {
    "the kernel": (silence_kernel, {"plan", "check"}),
    "systemd": (silence_systemd, {"plan", "units"}),
    "the files": (close_files, {"config", "plan", "check"}),
}
"""What does not answer: how, and the fields of a status that need it."""


@pytest.mark.parametrize("part", PARTS)
def test_no_part_that_fails_hides_another(part: str) -> None:
    """Everything that was asked elsewhere is there, and why this part does not answer."""
    silence, hidden = PARTS[part]
    whole = find_status(TROUBLE())
    host = TROUBLE()
    silence(host)
    status = find_status(host)
    findings = find_status(right_but(silence)()).findings
    assert {(each.severity, each.can_retry) for each in findings} == {("warning", True)}
    for field in {"config", "plan", "check", "units"} - hidden:
        assert getattr(status, field) == getattr(whole, field), field
        assert getattr(whole, field), field


def test_a_broken_file_hides_neither_units_nor_gate() -> None:
    """The drop-ins and systemd say how they are. No apply is proposed, which would fail."""
    whole = find_status(TROUBLE())
    host = TROUBLE()
    garble(host)
    broken = find_status(host)
    assert broken.units == whole.units
    assert {finding.name for finding in broken.findings} == {"gate-shut", "unit"}
    assert broken.code == 2
    host.files.remove(LAYOUT.program_path)
    assert APPLY not in "\n".join(status_lines(find_status(host)))


def test_a_route_that_waits() -> None:
    """It is an error: an apply fails as long as it waits."""
    findings = find_status(right_but(lose_default)()).findings
    assert ("route-waits", "error") in {(each.name, each.severity) for each in findings}


# One unit.


@pytest.mark.parametrize("state", UNITS)
@pytest.mark.parametrize("elsewhere", [lose_routes, garble])
def test_the_first_line_and_the_exit_code_are_about_the_unit(
    state: State, elsewhere: Change
) -> None:
    """Whatever is wrong elsewhere, which follows."""
    host = right()
    for change in UNITS[state]:
        change(host)
    alone = find_status(host, KUBELET)
    elsewhere(host)
    status = find_status(host, KUBELET)
    first, *others = status_lines(status)
    assert first == next(status_lines(alone))
    assert status.code == alone.code
    assert next(status_lines(find_status(host))) in others


def test_the_instances_of_a_template() -> None:
    """Each has its line, the worst first; without one, the line is about the template."""
    template = "systemd-nspawn@.service"
    host = right_but(gate={"units": [template]})()
    assert say("status", template, host=host).lines[0] == f"STOPPED: {template} does not run"
    kubes = [template.replace("@", f"@kube{number}") for number in range(3)]
    manager_of(host).properties[kubes[0]] = {"ActiveState": "active"}
    for kube in kubes[1:]:
        refuse(host, kube, OVERLAP)
    said = say("status", template, host=host)
    assert said.code == 1
    firsts = [line.split()[:2] for line in said.lines if ": systemd-" in line]
    assert firsts[:3] == [["STUCK:", kubes[1]], ["STUCK:", kubes[2]], ["RUNS:", kubes[0]]]


@pytest.mark.parametrize(
    ("unit", "first", "code"),
    [
        ("nosuch@", "UNKNOWN: nosuch@.service is not known to systemd", 2),
        ("no-such*", "UNKNOWN: no-such* is not known to systemd", 2),
        ("modprobe@", "NOT GATED: modprobe@.service is not gated", 0),
    ],
)
def test_what_no_loaded_unit_says(unit: str, first: str, code: int) -> None:
    """A template is as an instance that nobody starts; a pattern that matches nothing, unknown."""
    host = right()
    manager_of(host).properties["nosuch@hostrouting-probe.service"] = {"LoadState": "not-found"}
    said = say("status", unit, host=host)
    assert said.lines[0].startswith(first)
    assert said.code == code


def test_a_python_that_is_gone() -> None:
    """Where there is another one, an apply finds it, and nothing has to be installed."""
    host = right()
    host.files.links[LAYOUT.python_path] = "/usr/bin/python3.99"
    gone = "No such file or directory"
    tried = {LAYOUT.python_path: gone, host.interpreter.path: ""}
    with mock.patch.object(FakeInterpreter, "why_not_run", side_effect=tried.get):
        status = find_status(host)
    assert status.wrong[0].sentence == (
        f"{LAYOUT.python_path} cannot run {LAYOUT.program_path}: {gone}"
    )
    assert status.wrong[0].remedy is None
    assert status.command == APPLY


# Parts of the answer.


def test_an_image_on_which_nothing_is_installed() -> None:
    """It has no kernel, which is not asked."""
    assert find_status(FakeHost.image()) == HostStatus(HostRoutingConfig())


def forget_unit(host: FakeHost) -> None:
    """A file of ours is new, and systemd has not read it."""
    del manager_of(host).read[LAYOUT.unit_path(LAYOUT.check_unit)]


BY_ETH9 = {"destination": "10.9.0.0/16", "dev": "eth9"}
FOR_ETH9 = config() | {"staticRoutes": {"enabled": True, "routes": [BY_ETH9]}}
COMMANDS: dict[str, tuple[Callable[[], FakeHost], str]] = {
    "an ignored opening does not hinder a repair": (
        after(escaping_node, written(LAYOUT.opening_path, "ticket", 0o666)),
        REPAIR_LINE,
    ),
    "where nothing escapes, a conflict is to be decided": (
        right_but(hold_place, start_k3s, routeOverlap={"expectedCidrs": ["10.0.0.0/24"]}),
        "",
    ),
    "while a route waits for a device, a repair would wait, too": (
        after(escaping_node, written(LAYOUT.config_path, json.dumps(FOR_ETH9), 0o644)),
        "",
    ),
    "in mode STRICT, a cancelled gate makes a repair fail": (
        after(escaping_node, load_override),
        "",
    ),
    "in mode WARN, apply warns of it": (
        right_but(
            load_override, lose_routes, routeOverlap={"expectedCidrs": [CIDR], "mode": "WARN"}
        ),
        APPLY,
    ),
    "a repair of one family brings the other no default route": (
        right_but(staticRoutes={}, routeOverlap={"expectedCidrs": [CIDR, "fd00::/64"]}),
        "",
    ),
    "a card with a worse default route hinders no apply": (
        right_but(start_second_card, forget_unit),
        APPLY,
    ),
    "apply would move routes that work to another card, and nothing is expected": (
        right_but(move_default, routeOverlap={}),
        "",
    ),
    "apply would set lost routes by another card, and all is right without them": (
        right_but(lose_routes, start_router, routeOverlap={"expectedCidrs": ["10.99.0.0/16"]}),
        "",
    ),
    "systemd would read a drop-in that takes the gate away": (
        right_but(
            write_override, lose_routes, routeOverlap={"expectedCidrs": [CIDR], "mode": "WARN"}
        ),
        "",
    ),
    "systemd does not answer, and another card is better": (
        without_routes(start_router, silence_systemd),
        "",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_to_be_typed(name: str) -> None:
    make, command = COMMANDS[name]
    assert find_status(make()).command == command


def test_a_guard_whose_unit_is_lost() -> None:
    """It is enabled, unless config.json is broken. A fight ends with it, also if it was killed."""
    host = right_but(lost(LAYOUT.unit_path(LAYOUT.guard_unit)))()
    manager_of(host).states.clear()
    manager_of(host).boot()
    status = find_status(host)
    assert [unit.unit for unit in status.units] == [KUBELET]
    garble(host)
    assert [unit.unit for unit in find_status(host).units] == [KUBELET]
    host = right_but(end_guard, written(LAYOUT.fight_path, "412\nanother program\n"))()
    assert "fight" not in {finding.name for finding in find_status(host).findings}


def page_of(name: str, status: HostStatus) -> list[str]:
    """The page; of lines that the page of a right host has, only the number."""
    page = [f"# {name}: {status.code}"]
    for is_known, group in groupby(status_lines(status), key=set(RIGHT[1:]).__contains__):
        lines = [*group]
        page += [f"  … {len(lines)}"] if is_known else lines
    return page


RIGHT = [*status_lines(find_status(right()))]


def test_pages(snapshot: object) -> None:
    shown = ["# in force: 0", *RIGHT]
    for name, make in INCIDENTS.items():
        status = find_status(make())
        shown += page_of(name, status)
    for state, changes in UNITS.items():
        host = right()
        for change in changes:
            change(host)
        shown += page_of(f"a unit that is {state}", find_status(host, KUBELET))
    assert snapshot == "\n".join(shown).replace(version(), "VERSION")


def test_the_document() -> None:
    """It has what the page has, for a program."""
    host = INCIDENTS["waiting: kubelet was refused, and starts again"]()
    page = say("status", host=host)
    document = say("status", "--json", host=host).json
    assert document["headline"] == page.lines[0]
    assert document["version"] == version()
    assert f"  hostrouting {version()}" in page.lines
    assert document["check"] == say("check", "--json", host=host).json
    [unit, guard] = document["units"]
    assert (unit["state"], unit["reasons"]) == ("fails", [OVERLAP])
    assert page.lines[0] == f"WAITING: {unit['sentence']}"
    assert guard["state"] == "runs"


MACHINE = HostStatus(units=(UnitState(r"systemd-nspawn@a\x2db.service", "runs"),))
FIGHT = find_status(INCIDENTS["differs: kubelet is masked, after a fight"]())
NOTE = find_status(INCIDENTS["in force: another card has a worse default route"]())


@pytest.mark.parametrize("status", [MACHINE, FIGHT, NOTE], ids=["a machine", "a fight", "a note"])
def test_the_metrics(status: HostStatus) -> None:
    """Prometheus can read them: the state, what is wrong, and how each unit is."""
    text = "".join(f"{line}\n" for line in metric_lines(status))
    values: dict[str, float] = {}
    for metric in text_string_to_metric_families(text):
        assert metric.type == "gauge"
        for sample in metric.samples:
            values[",".join((sample.name, *sample.labels.values()))] = sample.value
    assert values[f"hostrouting_build,{version()}"] == 1
    assert values[f"hostrouting_state,{status.state}"] == 1
    assert sum(value for key, value in values.items() if "_state," in key) == 1
    for finding in status.findings:
        assert (f"hostrouting_findings,{finding.name}" in values) is (finding in status.wrong)
    for unit in status.units:
        escaped = unit.unit.replace("\\", r"\\")
        assert f'hostrouting_unit{{unit="{escaped}",state="{unit.state}"}} 1\n' in text
