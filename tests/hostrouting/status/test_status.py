"""hostrouting.status: laws of what a host answers, and the pages in __snapshots__.

To write the pages anew, after a look at the difference: pytest --snapshot-update.
"""

from collections.abc import Callable
from itertools import groupby

import pytest

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.finding import SEVERITIES
from hostrouting.gate.unit_gates import APPLY
from hostrouting.gate.unit_states import State
from hostrouting.status import Status, find_status, status_lines
from hostrouting.testing import FakeHost
from tests.support.cli import say
from tests.support.incidents import KUBELET, config, escaping_node, garble, leave_note, node, refuse
from tests.support.statuses import (
    INCIDENTS,
    OVERLAP,
    REPAIR_LINE,
    UNITS,
    Change,
    after,
    break_python,
    end_guard,
    fill,
    hold_place,
    kubelet,
    lock,
    lose_default,
    lost,
    mask_guard,
    right,
    right_but,
    start_k3s,
    start_router,
    with_private_files,
    with_silent_kernel,
    with_silent_systemd,
    without_routes,
    written,
)
from tests.support.tasks import LAYOUT, REPAIR, lose_routes, manager_of


def assert_the_first_line_is_the_worst_finding(name: str, status: Status) -> None:
    """After the word for the state, which is the state that it brings; a unit that fails comes
    last.
    """
    state = name.partition(":")[0]
    assert status.state == state
    first, *_ = status_lines(status)
    if state in {"nothing", "in force"}:
        assert all(finding.severity == "note" for finding in status.findings)
    else:
        assert status.causes[0] == status.findings[0]
        sentences = ". Also: ".join(cause.sentence for cause in status.causes)
        assert first.startswith(f"{state.upper()}: {sentences}")
    assert (f". Also: {KUBELET} fails (" in first) == name.endswith(": kubelet fails")
    severities = [SEVERITIES.index(finding.severity) for finding in status.findings]
    assert severities == sorted(severities)
    assert len(set(status.findings)) == len(status.findings)


def assert_what_is_to_be_typed_stands_once(status: Status) -> None:
    """The command that makes the host right is the last line of the page, and nowhere else; no
    finding proposes an apply that would fail or do harm.
    """
    lines = [*status_lines(status)]
    assert all(finding.remedy != APPLY for finding in status.findings)
    if status.command:
        assert lines[-1] == f"  {status.command}"
    assert len([line for line in lines if line.strip() == status.command]) == bool(status.command)


TROUBLE = right_but(end_guard, lose_routes, hold_place, fill("/run"), start_k3s, break_python)
"""A node on which every part of the answer has something to say."""
PARTS: dict[str, tuple[Callable[[FakeHost], FakeHost], set[str]]] = {
    "the kernel": (with_silent_kernel, {"plan", "check"}),
    "systemd": (with_silent_systemd, {"plan", "units", "guard", "faults"}),
    "the files": (with_private_files, {"config", "plan", "check", "faults"}),
}
"""What does not answer: how, and the fields of a status that need it."""


@pytest.mark.parametrize("part", PARTS)
def test_no_part_that_fails_hides_another(part: str) -> None:
    """Everything that was asked elsewhere is there, and why this part does not answer."""
    silence, hidden = PARTS[part]
    whole = find_status(TROUBLE())
    status = find_status(silence(TROUBLE()))
    assert status.unanswered
    said = {finding.sentence for finding in status.findings}
    for error in status.unanswered:
        assert {finding.sentence for finding in error.findings} <= said
    for field in {"config", "plan", "check", "units", "guard", "faults"} - hidden:
        assert getattr(status, field) == getattr(whole, field), field
        assert getattr(whole, field), field


def test_a_broken_file_hides_neither_units_nor_gate() -> None:
    """The drop-ins and systemd say how they are."""
    whole = find_status(TROUBLE())
    host = TROUBLE()
    garble(host)
    broken = find_status(host)
    assert (broken.units, broken.guard) == (whole.units, whole.guard)
    assert {finding.name for finding in broken.findings} == {"gate-shut"}
    assert broken.code == 2


# One unit.


@pytest.mark.parametrize("state", UNITS)
@pytest.mark.parametrize("elsewhere", [lose_routes, break_python, garble])
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
    """Each has its line, the worst first, and checked ones last; without one, the line is about the
    template.
    """
    template = "systemd-nspawn@.service"
    make = right_but(gate={"units": [template]})
    assert say("status", template, host=make()).lines[0] == (
        f"STOPPED: {template} does not run: systemd has loaded no instance of it"
    )
    host = make()
    kubes = [template.replace("@", f"@kube{number}") for number in range(3)]
    assert host.manager is not None
    checked = template.replace("@", "@a-kube")
    for running in (checked, kubes[0]):
        host.manager.properties[running] = {"ActiveState": "active", "InvocationID": "4711"}
    leave_note(host, checked, refused=False)
    for kube in kubes[1:]:
        refuse(host, kube, OVERLAP)
    said = say("status", template, host=host)
    assert said.code == 1
    firsts = [line.split()[:2] for line in said.lines if ": systemd-" in line]
    refused = [["REFUSED:", kubes[1]], ["REFUSED:", kubes[2]]]
    others = [["RUNS:", kubes[0]], ["RUNS:", checked]]
    assert firsts == [*refused, *others, ["DIFFERS:", kubes[1]]]
    page = say("status", host=host)
    assert page.out.count(OVERLAP) == 1, "the reason that both have"
    assert f", for the same reasons as {kubes[1]}" in page.out
    assert page.lines[1] == f"  to start again, as root: systemctl start {kubes[1]} {kubes[2]}"


def test_a_unit_where_systemd_does_not_run() -> None:
    """Nothing is known of it, and systemd is not asked."""
    status = find_status(INCIDENTS["open: no systemd"].make(), KUBELET)
    assert [unit.state for unit in status.units] == ["no answer"]
    assert status.code == 3
    assert status.unanswered == ()
    assert find_status(with_silent_systemd(FakeHost()), KUBELET).unanswered


def test_a_refused_unit_is_to_be_started_when_nothing_holds_it_back() -> None:
    """Not while the gate would refuse it again; in mode WARN also while addresses escape. While it
    is being started, nobody knows what it waits for where nothing would refuse it.
    """
    cases: dict[str, bool] = {
        "differs: routes are missing": False,
        "differs: addresses escape in mode STRICT": False,
        "differs: addresses escape in mode WARN": True,
        "differs: the place of a route is taken": False,
        "waiting: for a default route": False,
        "shut: the program is lost": False,
        "shut: config.json is broken": False,
        "differs: a unit of ours was edited": True,
        "differs: the table for probes is lost": True,
        "open: by an administrator": True,
        "in force": True,
    }
    for name, is_startable in cases.items():
        host = INCIDENTS[name].make()
        refuse(host, KUBELET, OVERLAP)
        findings = find_status(host).findings
        startable = [finding for finding in findings if "nothing is known to hold" in str(finding)]
        assert bool(startable) is is_startable, name
        kubelet(ActiveState="activating", SubState="condition")(host)
        is_stuck = "waits in the gate" in str(find_status(host).findings)
        assert is_stuck is is_startable, f"{name}, and it is being started"


def test_a_conflict_alone_holds_a_unit_back() -> None:
    """In mode WARN, too, where addresses that escape do not: its start is not proposed."""
    host = node(config(*REPAIR, mode="WARN"))
    hold_place(host)
    refuse(host, KUBELET, OVERLAP)
    assert "nothing is known to hold" not in str(find_status(host).findings)


def test_a_gateway_that_does_not_answer() -> None:
    """`check` and `repair` name it, too. One that has answered is right, whatever its age."""
    host = INCIDENTS["waiting: for the gateway of the routes"].make()
    [finding] = find_status(host).findings
    assert finding.sentence in say("check", host=host).out
    repair = say("repair", host=host).err
    assert finding.sentence in repair, "or OK stands alone against a dead gateway"
    assert "nothing to repair" not in repair
    assert "OK: every address" in repair
    table = host.files.texts["/proc/net/arp"]
    host.files.texts["/proc/net/arp"] = table.replace("0x0  ", "0x2  ", 1)
    assert find_status(host).state == "in force"
    host.files.texts["/proc/net/arp"] = table
    lose_routes(host)  # what is missing needs no gateway yet
    assert "does not answer" not in str(find_status(host).findings)


# Parts of the answer.


def test_an_image_on_which_nothing_is_installed() -> None:
    """It has no kernel, which is not asked."""
    assert find_status(FakeHost.image()) == Status(HostRoutingConfig())


def test_where_nothing_is_expected() -> None:
    """No mode is said, and nothing is checked; what is missing is to be applied all the same."""
    status = find_status(right_but(lose_routes, routeOverlap={})())
    assert (status.state, status.mode, status.unanswered) == ("differs", "", ())
    assert_what_is_to_be_typed_stands_once(status)
    assert status.command == APPLY.command


def forget_unit(host: FakeHost) -> None:
    """A file of ours is new, and systemd has not read it."""
    del manager_of(host).read[LAYOUT.unit_path(LAYOUT.check_unit)]


COMMANDS: dict[str, tuple[Callable[[], FakeHost], str]] = {
    "systemd has not read a unit": (right_but(forget_unit), APPLY.command),
    "a unit that fails is no work for apply": (
        right_but(lose_routes, *UNITS["fails"]),
        APPLY.command,
    ),
    "an ignored opening does not hinder a repair": (
        after(escaping_node, written(LAYOUT.opening_path, "ticket", 0o666)),
        REPAIR_LINE,
    ),
    "where nothing escapes, a conflict is to be decided": (
        right_but(hold_place, start_k3s, routeOverlap={"expectedCidrs": ["10.0.0.0/24"]}),
        "",
    ),
    "in mode WARN, apply need not gate k3s": (
        right_but(lose_routes, start_k3s, routeOverlap={"expectedCidrs": ["172.16.0.0/16"]}),
        APPLY.command,
    ),
    "to unmask the guard brings no default route": (right_but(lose_default, mask_guard), ""),
    "systemd does not answer, and another card is better": (
        lambda: with_silent_systemd(without_routes(start_router)()),
        "",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_to_be_typed(name: str) -> None:
    """What makes the routing right, whatever else is wrong."""
    make, command = COMMANDS[name]
    status = find_status(make())
    assert status.causes, "what is wrong is said, too"
    assert status.command == command
    if command == APPLY.command:
        assert not status.leaves_something
    for finding in status.findings:
        if finding.name == "unit-not-gated" and finding.severity == "warning":
            assert finding.remedy is None
    assert_what_is_to_be_typed_stands_once(status)


def test_several_units_are_held_back_by_one_thing() -> None:
    """The first line names one of them."""
    host = right_but(lock, gate={"units": [KUBELET, "k3s.service"]})()
    for unit in (KUBELET, "k3s.service"):
        refuse(host, unit)
    status = find_status(host)
    assert [unit.held_by for unit in status.units] == [LAYOUT.lock_path] * 2
    assert status.sentence.count("was refused") == 1


def test_a_guard_whose_unit_is_lost() -> None:
    """It is enabled all the same; and nobody knows whether it is, where config.json is broken."""
    host = right_but(lost(LAYOUT.unit_path(LAYOUT.guard_unit)))()
    manager_of(host).states.clear()
    manager_of(host).boot()
    status = find_status(host)
    assert status.guard is not None
    assert status.guard.state == "unknown"
    assert "  the guard is not enabled" not in status_lines(status)
    garble(host)
    assert "  the guard is not enabled" not in status_lines(find_status(host))


def test_many_things_of_one_kind() -> None:
    """Twenty are shown, and the rest is counted; the JSON has all."""
    units = [f"u{number}.service" for number in range(25)]
    host = right_but(gate={"units": units})()
    page = say("status", host=host)
    assert page.out.count(" is not known to systemd") == 20
    assert "  ... and 5 more; --json shows all" in page.lines
    assert len(say("status", "--json", host=host).json["units"]) == 25


def page_of(name: str, status: Status) -> list[str]:
    """The page, after the incident and the exit code; of lines that the page of a host has which is
    right, only the number.
    """
    page = [f"# {name}: {status.code}"]
    for is_known, group in groupby(status_lines(status), key=set(RIGHT[1:]).__contains__):
        lines = [*group]
        page += [f"  … {len(lines)}"] if is_known else lines
    return page


RIGHT = [*status_lines(find_status(right()))]


def test_pages(snapshot: object) -> None:
    """A page for each incident, and for each state of a unit. Of an incident, the first line is the
    worst finding, then each other cause, and what is to be typed stands once.
    """
    shown = ["# in force: 0", *RIGHT]
    for name, incident in INCIDENTS.items():
        status = find_status(incident.make())
        assert_the_first_line_is_the_worst_finding(name, status)
        assert_what_is_to_be_typed_stands_once(status)
        shown += page_of(name, status)
    for state, changes in UNITS.items():
        host = right()
        for change in changes:
            change(host)
        shown += page_of(f"a unit that is {state}", find_status(host, KUBELET))
    assert snapshot == "\n".join(shown)


def test_what_was_wrong_at_a_refusal_is_not_called_wrong_now() -> None:
    """What nothing says any more was said then; what holds the unit back now, or explains the
    verdict, stands there once.
    """
    past = INCIDENTS["differs: kubelet was refused, and nothing holds it back now"].make()
    assert f"    when it was refused: {OVERLAP}" in status_lines(find_status(past))
    host = INCIDENTS["differs: addresses escape in mode STRICT"].make()
    status = find_status(host)
    assert status.check is not None
    lines = [finding.line for finding in (*status.findings, *status.check.findings)]
    refuse(host, KUBELET, *lines)
    assert "then:" not in "".join(status_lines(find_status(host)))


def test_the_document() -> None:
    """It has what the page has, for a program."""
    host = INCIDENTS["differs: kubelet was refused, and nothing holds it back now"].make()
    page = say("status", host=host)
    document = say("status", "--json", host=host).json
    assert document["headline"] == page.lines[0]
    assert document["check"] == say("check", "--json", host=host).json
    [unit] = document["units"]
    assert (unit["state"], unit["reasons"]) == ("refused", [OVERLAP])
    assert f"  {unit['sentence']}" in page.lines
    assert document["guard"]["state"] == "runs"
