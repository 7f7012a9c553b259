"""What opens the gate and what keeps it shut, on a host in memory, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import attrs
import pytest

import phases
from hostrouting.boot import gate
from hostrouting.boot.gate_files import gate_digests, parse_gate_steps, render_gate_drop_in, render_gate_steps
from hostrouting.boot.gate_state import GatedUnit, GateState, find_gate_state
from hostrouting.config.settings import (
    GateConfig,
    GuardConfig,
    HostRoutingConfig,
    RouteOverlapConfig,
    StaticRoute,
    StaticRoutesConfig,
)
from hostrouting.config.values import Mode
from hostrouting.finding import Finding
from hostrouting.host.layout import HostLayout
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeHost
from tests.support.cli import say
from tests.tables.gate_openings import EDITS, KUBE1, OPENINGS, Edit, Opening

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.testing.host import FakeManager

LAYOUT = HostLayout()
STRICT = HostRoutingConfig(
    StaticRoutesConfig(enabled=True, routes=[StaticRoute("10.77.0.0/16")]),
    RouteOverlapConfig(["172.16.0.0/16"], Mode.STRICT),
)
UNIT_DROP_IN = f"/etc/systemd/system/{LAYOUT.gate_unit}.d/99.conf"
CONTROL = "/run/systemd/system.control"
FIRST = f"systemd/system/{LAYOUT.machine_unit}.d/00-first.conf"
MACHINE_DROP_IN = f"/etc/systemd/system/{LAYOUT.machine_unit}.d/99.conf"


def manager(host: FakeHost) -> FakeManager:
    """The host's manager."""
    assert host.manager is not None
    return host.manager


def lay(host: FakeHost, path: str, text: str) -> None:
    """Put a file in its place; without a text, a link to /dev/null. systemd has yet to read it."""
    host.files.links.pop(path, None)
    host.files.texts[path] = text
    if not text:
        host.files.links[path] = "/dev/null"


def installed(config: HostRoutingConfig = STRICT) -> FakeHost:
    """A host on which all is well."""
    host = FakeHost()
    phases.execute(Configure(config, host=host), phases.Context(observers=[]))
    return host


def told_of(host: FakeHost) -> list[str]:
    """What there is to tell about a gate that is up, or has only lost its drop-in."""
    return [finding.line for finding in find_gate_state(host).findings]


def test_nothing_is_installed() -> None:
    """Without our files, there is no gate and no fault of one. Other units do not matter."""
    host = FakeHost()
    lay(host, MACHINE_DROP_IN, "[Service]\nExecStartPre=\n")
    manager(host).reload()
    assert find_gate_state(host) == GateState(is_up=False)


@pytest.mark.parametrize("running", [True, False], ids=["systemd", "no systemd"])
def test_all_is_well(running: bool) -> None:  # noqa: FBT001  a parameter of the test
    """After the tasks the gate is installed; nothing opens or blocks it. Systemd need not run."""
    host = installed()
    manager(host).running = running
    state = find_gate_state(host)
    assert state == GateState(is_up=True)
    asked = [unit for _, *units in manager(host).asked for unit in units]
    assert (LAYOUT.gate_unit in asked) == running
    assert LAYOUT.machine_unit not in asked, "systemctl show fails for a template"


def test_an_image() -> None:
    """In an image, no systemd can be asked: only the files count."""
    host = attrs.evolve(installed(), manager=None)
    assert find_gate_state(host) == GateState(is_up=True)
    lay(host, LAYOUT.gate_drop_in(), "")
    assert len(find_gate_state(host).openings) == 1


@pytest.mark.parametrize(
    ("load", "active", "told"),
    [
        ("", (), "checked before each start from the next boot on"),
        ("not-found", (), "checked before each start; not here yet"),
        ("masked", (), "checked before each start; masked"),
        ("loaded", (), "checked before each start; not active"),
        ("loaded", ("a@.service",), "checked before each start; active"),
        ("loaded", ("a@1.service",), "checked before each start; a@1.service active"),
    ],
)
def test_a_gated_unit_in_words(load: str, active: tuple[str, ...], told: str) -> None:
    """The words say when a start is checked, and whether the unit exists and runs."""
    assert str(GatedUnit("a@.service", load, active, is_checked=True)) == told


KUBELET = "kubelet.service"


@pytest.mark.parametrize(
    ("unit", "unchecked"), [("k3s.service", ()), (KUBELET, (KUBELET,)), ("all", (KUBELET, LAYOUT.machine_unit))]
)
def test_which_units_start_unchecked(unit: str, unchecked: tuple[str, ...]) -> None:
    """An opening is for one of the gated units, or for all."""
    gated = (KUBELET, LAYOUT.machine_unit)
    host = installed(attrs.evolve(STRICT, gate=GateConfig(units=gated)))
    host.files.texts[LAYOUT.opening_path] = f"99999999999 {unit} root why\n"
    host.files.modes[LAYOUT.opening_path] = 0o600
    state = find_gate_state(host)
    assert state.units == gated
    assert tuple(one.name for one in state.gated if not one.is_checked) == unchecked


def test_a_kubelet_without_a_gate() -> None:
    """A kubelet that runs is reported unless it is about to be gated; the units are those that would be gated."""
    host = FakeHost()
    manager(host).properties[KUBELET] = {"ActiveState": "active"}
    assert [finding.name for finding in find_gate_state(host).findings] == ["not-gated"]
    assert find_gate_state(host, (KUBELET,)) == GateState()


WANTED = f"/etc/systemd/system/multi-user.target.wants/{LAYOUT.routes_unit}"
LOSSES = {
    "a preset": (LAYOUT.routes_preset_path, None, f"EDITED-FILE: {LAYOUT.routes_preset_path} is missing"),
    "a link": (WANTED, None, f"UNIT: {WANTED} is missing, so {LAYOUT.routes_unit} does not start at boot"),
    "a mask": (LAYOUT.routes_unit_path, "", f"UNIT: {LAYOUT.routes_unit_path} is masked, so {LAYOUT.routes_unit}"),
    "a unit": (LAYOUT.routes_unit_path, None, f"UNIT: {LAYOUT.routes_unit_path} is missing, so {LAYOUT.routes_unit}"),
}


@pytest.mark.parametrize(("path", "text", "told"), LOSSES.values(), ids=LOSSES)
def test_a_lost_file_of_a_unit(path: str, text: str | None, told: str) -> None:
    """A file of a unit that is missing or masked is named, with what then does not run at boot."""
    host = installed()
    host.files.remove(path)
    if text is not None:
        lay(host, path, text)
    manager(host).reload()
    [line] = told_of(host)
    assert line.startswith(told)


@pytest.mark.parametrize("opening", OPENINGS, ids=lambda it: it.name)
def test_an_opening(opening: Opening) -> None:
    """Each opening is reported once, with its file, and not any more when the file is gone."""
    host = installed()
    lay(host, opening.path, opening.text)
    manager(host).reload()
    state = find_gate_state(host)
    [told] = map(str, state.openings)
    assert opening.told in told
    assert opening.path in told
    assert not state.bars
    assert [unit.is_checked for unit in state.gated] == [False]
    del host.files.texts[opening.path]
    host.files.links.pop(opening.path, None)
    manager(host).reload()
    assert find_gate_state(host) == GateState(is_up=True)


HARMLESS = {
    "a command after ours, whose file has zeros": (
        f"/etc/systemd/system/{LAYOUT.machine_unit}.d/000.conf",
        "ExecStartPre=/bin/true",
    ),
    "a command after ours": (MACHINE_DROP_IN, "ExecStartPre=/bin/true"),
    "a command in the unit's own file, as k3s has": (
        f"/usr/lib/systemd/system/{LAYOUT.machine_unit}",
        "ExecStartPre=-/sbin/modprobe overlay",
    ),
    "no command before ours": (f"/etc/{FIRST}", "ExecStartPre="),
    "another good status": (MACHINE_DROP_IN, "SuccessExitStatus=143"),
    "a file for the machine": (MACHINE_DROP_IN, "BindPaths=/srv/keys:/etc/keys:rbind"),
    "a command after the script": (UNIT_DROP_IN, "ExecStart=/bin/true"),
    "a longer time": (UNIT_DROP_IN, "TimeoutStartSec=600"),
    "a copy of our drop-in": (
        f"{CONTROL}/{LAYOUT.machine_unit}.d/00-host-routing.conf",
        render_gate_drop_in().rstrip().rpartition("\n")[2],
    ),
    "a folder that comes later": (f"/run/systemd/system/{LAYOUT.machine_unit}.d/00-host-routing.conf", ""),
}


@pytest.mark.parametrize(("path", "setting"), HARMLESS.values(), ids=HARMLESS)
def test_what_does_not_open_it(path: str, setting: str) -> None:
    """What leaves every start judged is not an opening."""
    host = installed()
    lay(host, path, setting and f"[Service]\n{setting}\n")
    manager(host).reload()
    assert find_gate_state(host) == GateState(is_up=True)


def _remove(path: str) -> Callable[[FakeHost], None]:
    return lambda host: (host.files.remove(path), None)[1]


def _lay(path: str, text: str) -> Callable[[FakeHost], None]:
    return lambda host: lay(host, path, text)


def _edit(path: str, before: str, after: str) -> Callable[[FakeHost], None]:
    def edit(host: FakeHost) -> None:
        assert before in host.files.texts[path]
        host.files.texts[path] = host.files.texts[path].replace(before, after)

    return edit


@pytest.mark.parametrize("path", [f"/etc/systemd/system/{KUBE1}.d/00-first.conf", f"/run/{FIRST}", f"/etc/{FIRST}"])
def test_a_command_before_ours(path: str) -> None:
    """A command that comes before ours is named with its file: machines ask until it changes while it runs."""
    host = installed()
    lay(host, path, "[Service]\nExecStartPre=/bin/true\n")
    manager(host).reload()
    whose = KUBE1 if KUBE1 in path else "systemd-nspawn@.service"
    lost = "if its drop-in is changed while the command runs, systemd skips the gate"
    remedy = f"move it to a drop-in whose name sorts after 00-host-routing.conf; see {path}"
    told = f"{whose} runs another ExecStartPre= before the gate: {lost}; {remedy}"
    assert told_of(host) == [f"GATE-OPEN: {told}"]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("133 2", "even if the gate refuses"),
        ("126", "even if the gate refuses"),
        ("127", "even if the gate refuses"),
        ("200", "even if the gate refuses"),
        ("TERM", "even if a signal ends its wait for the gate"),
        ("143 KILL", "even if a signal ends its wait for the gate"),
        ("USR1", "even if a signal ends its wait for the gate"),
    ],
)
def test_a_status_that_a_machine_takes_for_a_success(value: str, told: str) -> None:
    """A status that the question may end with when it is not granted is named, and so is every signal."""
    host = installed()
    lay(host, MACHINE_DROP_IN, f"[Service]\nSuccessExitStatus={value}\n")
    manager(host).reload()
    sentence = f"systemd-nspawn@.service has SuccessExitStatus={value}, which counts as a success, so it starts {told}"
    assert told_of(host) == [f"GATE-OPEN: {sentence}; see {MACHINE_DROP_IN}"]


def _mark(host: FakeHost) -> None:
    """Mark the check as changing, as a run does first."""
    text = host.files.texts[LAYOUT.gate_steps_path]
    first, check = parse_gate_steps(text)
    marked = render_gate_steps([first, attrs.evolve(check, kind="changing")], gate_digests(text))
    host.files.texts[LAYOUT.gate_steps_path] = marked


BROKEN_OPEN = {
    "the drop-in is missing": (
        _remove(LAYOUT.gate_drop_in()),
        (
            f"{LAYOUT.gate_drop_in()} is missing, so {LAYOUT.machine_unit} starts unchecked; write it again with: hostrouting apply --config FILE"
        ),
    ),
    "the drop-in is masked": (
        _lay(LAYOUT.gate_drop_in(), ""),
        f"{LAYOUT.gate_drop_in()} is empty or a link to /dev/null, so {LAYOUT.machine_unit} starts unchecked; remove it",
    ),
}


@pytest.mark.parametrize(("breaks", "told"), BROKEN_OPEN.values(), ids=BROKEN_OPEN)
def test_a_file_that_opens_it(breaks: Callable[[FakeHost], None], told: str) -> None:
    """A file of the gate's own that opens it is named with the remedy."""
    host = installed()
    breaks(host)
    manager(host).reload()
    assert told_of(host) == [f"GATE-OPEN: {told}"]


def test_a_script_that_only_warns_is_lost() -> None:
    """A unit starts without a step that only warns. Kills: `_absent` is not asked."""
    host = installed(attrs.evolve(STRICT, route_overlap=attrs.evolve(STRICT.route_overlap, mode=Mode.WARN)))
    host.files.remove(LAYOUT.check_script_path)
    told = (
        f"{LAYOUT.check_script_path} is missing, so {LAYOUT.machine_unit} may start without it; write it again with: "
    )
    assert told_of(host) == [f"GATE-OPEN: {told}hostrouting apply --config FILE"]


def test_which_units_are_active() -> None:
    """Only a unit that runs counts as active. Kills: each that systemd knows does."""
    host = installed()
    for name, active in ((KUBE1, "active"), ("systemd-nspawn@kube2.service", "inactive")):
        manager(host).properties[name] = {"ActiveState": active}
    assert [unit.active for unit in find_gate_state(host).gated] == [(KUBE1,)]


NOT_OURS = "is not as hostrouting wrote it"
COPY = "save a copy if the edit is wanted, then write it again with: hostrouting apply --config FILE"


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit(edit: Edit) -> None:
    """An edited file that decides about a start opens the gate, and is named first; an apply writes it again."""
    host = installed()
    host.files.texts[edit.path] = edit.made_in(host.files.texts[edit.path])
    manager(host).reload()
    state = find_gate_state(host)
    edited = Finding(
        "gate-open", "warning", f"{edit.path} {NOT_OURS}, so {LAYOUT.machine_unit} may start unchecked", edit.path, COPY
    )
    assert state.openings[0] == edited
    assert [finding for finding in state.findings if NOT_OURS in finding.sentence] == [edited]
    assert {finding.name for finding in state.findings} == {"gate-open"}
    phases.execute(Configure(STRICT, host=host), phases.Context(observers=[]))
    assert find_gate_state(host) == GateState(is_up=True)


@pytest.mark.parametrize("path", [LAYOUT.check_script, LAYOUT.gate_script, "steps"])
def test_an_edit_whose_digest_was_deleted(path: str) -> None:
    """The list has a digest of its digests: without one of them, the list is the edited file."""
    host = installed()
    listed = host.files.texts[LAYOUT.gate_steps_path]
    kept = [line for line in listed.splitlines(keepends=True) if not line.endswith(f" {path}\n")]
    assert len(kept) == len(listed.splitlines()) - 1
    host.files.texts[LAYOUT.gate_steps_path] = "".join(kept)
    assert told_of(host) == [
        f"GATE-OPEN: {LAYOUT.gate_steps_path} {NOT_OURS}, so {LAYOUT.machine_unit} may start unchecked; {COPY}"
    ]


def test_every_installed_file() -> None:
    """Each file that apply writes is compared. A changed file that no start reads is reported, but starts stay checked."""
    host = installed()
    guard = attrs.evolve(STRICT, guard=GuardConfig(enabled=True, program="/opt/hostrouting"))
    phases.execute(Configure(guard, host=host), phases.Context(observers=[]))
    folders = (LAYOUT.config_directory, LAYOUT.unit_directory, "/etc/systemd/system-preset")
    others = {*host.files.links, LAYOUT.gate_steps_path}
    paths = [path for path in host.files.texts if path.startswith(folders) and path not in others]
    assert {LAYOUT.guard_unit_path, LAYOUT.routes_preset_path, LAYOUT.routes_unit_path} < set(paths)
    opening = {edit.path for edit in EDITS.values()} | {LAYOUT.routes_script_path}
    for path in paths:
        text = host.files.texts[path]
        host.files.texts[path] = text.replace("\n", "\n\n# edited\n1\n", 1)
        manager(host).reload()
        state = find_gate_state(host)
        told = [("gate-open" if path in opening else "edited-file", path)]
        assert [(finding.name, finding.target) for finding in state.findings] == told
        host.files.texts[path] = text


def test_an_unfinished_change_is_not_an_edit() -> None:
    """While a run changes a step, or after it was killed, its files may be the old ones: machines cannot start, that is all."""
    host = installed()
    listed = host.files.texts[LAYOUT.gate_steps_path]
    phases.execute(Configure(STRICT, host=host, wait=7), phases.Context(observers=[]))
    later = host.files.texts[LAYOUT.gate_steps_path]
    assert listed != later, "the digests are those of other scripts"
    phases.execute(Configure(STRICT, host=host), phases.Context(observers=[]))
    host.files.texts[LAYOUT.gate_steps_path] = later
    _mark(host)
    state = find_gate_state(host)
    assert {finding.name for finding in state.findings} == {"gate-shut"}


def test_below_a_root() -> None:
    """The list names files as the host sees them, so those of an image are found wherever it is mounted."""
    host = attrs.evolve(FakeHost(), layout=HostLayout(root="/mnt"), manager=None)
    phases.execute(Configure(STRICT, host=host), phases.Context(observers=[]))
    assert "/mnt" not in host.files.texts[host.layout.gate_steps_path]
    assert find_gate_state(host) == GateState(is_up=True)
    host.files.texts[host.layout.gate_script_path] += "exit 0\n"
    [told] = find_gate_state(host).openings
    assert told.target == f"/mnt{LAYOUT.gate_script}"


@pytest.mark.parametrize("path", [LAYOUT.gate_drop_in(), LAYOUT.gate_unit_path], ids=["drop-in", "unit"])
def test_what_systemd_has_not_read(path: str) -> None:
    """What systemd has yet to read opens the gate, and the remedy is the reload."""
    host = installed()
    text = host.files.texts.pop(path)
    manager(host).reload()
    host.files.texts[path] = text
    if path == LAYOUT.gate_unit_path:
        state = find_gate_state(host)
        assert not state.openings
        [told] = map(str, state.bars)
        assert told.startswith(
            f"systemd has not loaded the current {LAYOUT.gate_unit}, and {LAYOUT.machine_unit} cannot start"
        )
    else:
        told = str(find_gate_state(host).openings[0])
        assert told.startswith("systemd-nspawn@.service starts unchecked: systemd has not loaded the drop-in")
    assert told.endswith("run: systemctl daemon-reload")
    manager(host).reload()
    assert find_gate_state(host) == GateState(is_up=True)


def test_an_older_unit_is_in_force() -> None:
    """The answer says that a unit runs with its older text if systemd has not read the new one."""
    host = installed()
    lay(host, UNIT_DROP_IN, "[Service]\nTimeoutStartSec=600\n")
    told = f"systemd has not loaded the current {LAYOUT.gate_unit}; run: systemctl daemon-reload"
    assert told_of(host) == [f"GATE-OPEN: {told}"]


AGAIN = "write it again with: hostrouting apply --config FILE"
BARS = {
    "the unit is missing": (
        _remove(LAYOUT.gate_unit_path),
        f"{LAYOUT.gate_unit_path} is missing or empty, and {LAYOUT.machine_unit} cannot start without it; {AGAIN}",
    ),
    "the unit is masked": (
        _lay(LAYOUT.gate_unit_path, ""),
        (
            f"{LAYOUT.gate_unit_path} is masked, and {LAYOUT.machine_unit} cannot start without it; "
            f"unmask it with: systemctl unmask {LAYOUT.gate_unit}"
        ),
    ),
    "the script is missing": (
        _remove(LAYOUT.gate_script_path),
        f"{LAYOUT.gate_script_path} is missing or empty, and {LAYOUT.machine_unit} cannot start without it; {AGAIN}",
    ),
    "the script is empty": (
        _lay(LAYOUT.gate_script_path, ""),
        f"{LAYOUT.gate_script_path} is missing or empty, and {LAYOUT.machine_unit} cannot start without it; {AGAIN}",
    ),
    "the list is missing": (
        _remove(LAYOUT.gate_steps_path),
        f"{LAYOUT.gate_steps_path} is missing, and {LAYOUT.machine_unit} cannot start without it; {AGAIN}",
    ),
    "the list is cut short": (
        _edit(LAYOUT.gate_steps_path, "end\n", ""),
        (
            f"{LAYOUT.gate_steps_path} cannot be used (the list of steps is incomplete), "
            f"and {LAYOUT.machine_unit} cannot start without it; {AGAIN}"
        ),
    ),
    "a line that is not a step": (
        _edit(LAYOUT.gate_steps_path, "requires", "needs"),
        f"{LAYOUT.gate_steps_path} cannot be used",
    ),
    "a step is changing": (
        _mark,
        f"a run of hostrouting did not finish changing {LAYOUT.check_script_path}; run it again: hostrouting apply --config FILE",
    ),
    "a required script is missing": (
        _remove(LAYOUT.check_script_path),
        f"{LAYOUT.check_script_path} is missing, and {LAYOUT.machine_unit} cannot start without it; {AGAIN}",
    ),
    "a file where a folder has to be": (
        _lay(LAYOUT.state_directory, "a file"),
        f"{LAYOUT.state_directory} is not a directory, and {LAYOUT.machine_unit} cannot start without that directory",
    ),
    "machines are masked": (
        _lay(f"/run/systemd/system/{LAYOUT.machine_unit}", ""),
        f"{LAYOUT.machine_unit} is masked; allow its start with: systemctl unmask --runtime {LAYOUT.machine_unit}",
    ),
}


@pytest.mark.parametrize(("breaks", "told"), BARS.values(), ids=BARS)
def test_a_bar(breaks: Callable[[FakeHost], None], told: str) -> None:
    """What keeps every machine from starting is one sentence with the remedy; no unit starts unchecked."""
    host = installed()
    breaks(host)
    manager(host).reload()
    state = find_gate_state(host)
    assert not state.openings
    [bar] = map(str, state.bars)
    assert bar.startswith(told)
    assert state.is_up


def test_a_unit_that_systemd_cannot_use() -> None:
    """A unit that a drop-in has made unusable keeps every machine from starting."""
    host = installed()
    manager(host).properties[LAYOUT.gate_unit] = {"LoadState": "bad-setting"}
    told = f"systemd cannot use {LAYOUT.gate_unit} (bad-setting), and {LAYOUT.machine_unit} cannot start; see: systemctl status {LAYOUT.gate_unit}"
    assert told_of(host) == [f"GATE-SHUT: {told}"]


def test_machines_that_are_masked_in_vain() -> None:
    """A mask that is not in force, because the administrator has another template, shuts nothing."""
    host = installed()
    lay(host, f"/run/systemd/system/{LAYOUT.machine_unit}", "")
    lay(host, f"/etc/systemd/system/{LAYOUT.machine_unit}", "[Service]\nExecStart=systemd-nspawn\n")
    manager(host).reload()
    state = find_gate_state(host)
    assert (state.is_up, state.findings) == (True, ())


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        (f"/etc/systemd/system/{LAYOUT.machine_unit}", f"systemctl unmask {LAYOUT.machine_unit}"),
        (f"/run/systemd/system/{LAYOUT.machine_unit}", f"systemctl unmask --runtime {LAYOUT.machine_unit}"),
        (f"{CONTROL}/{LAYOUT.machine_unit}", f"rm {CONTROL}/{LAYOUT.machine_unit} && systemctl daemon-reload"),
    ],
)
def test_each_mask_has_its_remedy(path: str, remedy: str) -> None:
    """What takes a mask back depends on where it is."""
    host = installed()
    lay(host, path, "")
    manager(host).reload()
    assert told_of(host) == [f"GATE-SHUT: {LAYOUT.machine_unit} is masked; allow its start with: {remedy}"]


def test_what_keeps_machines_from_starting() -> None:
    """A mask does that, but not where the administrator has a template: then a link that comes before it does."""
    for host in (FakeHost(), installed()):
        assert find_gate_state(host).hold == f"systemctl mask --runtime {LAYOUT.machine_unit}"
        lay(host, f"/etc/systemd/system/{LAYOUT.machine_unit}", "[Service]\nExecStart=systemd-nspawn\n")
        link = f"ln -s /dev/null {CONTROL}/{LAYOUT.machine_unit}"
        assert find_gate_state(host).hold == f"mkdir -p {CONTROL} && {link} && systemctl daemon-reload"


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"RefuseManualStart": "yes"}, "{unit} has RefuseManualStart=yes, and {gated} cannot start; "),
        (
            {"AssertResult": "no", "AssertTimestampMonotonic": "17"},
            "an Assert…= of {unit} did not hold, and {gated} cannot start until it does; ",
        ),
        ({"AssertResult": "no", "AssertTimestampMonotonic": "0"}, ""),
    ],
    ids=["refused", "did not hold", "not asked yet"],
)
def test_a_unit_that_systemd_does_not_start(properties: dict[str, str], told: str) -> None:
    """A setting with which systemd does not start the gate's unit is named, with where to look."""
    host = installed()
    manager(host).properties[LAYOUT.gate_unit] = properties
    bars = (
        [f"GATE-SHUT: {told.format(unit=LAYOUT.gate_unit, gated=LAYOUT.machine_unit)}see {LAYOUT.gate_unit_path}"]
        if told
        else []
    )
    assert told_of(host) == bars


def test_a_cause_is_said_once() -> None:
    """What opens the gate for every machine is not said again of one that is loaded; what is its own is."""
    host = installed()
    manager(host).properties[KUBE1] = {}
    lay(host, MACHINE_DROP_IN, "[Service]\nExecStartPre=\n")
    manager(host).reload()
    assert [finding.sentence.split()[0] for finding in find_gate_state(host).openings] == [LAYOUT.machine_unit]
    lay(host, f"/etc/systemd/system/{KUBE1}.d/50.conf", "[Service]\nSuccessExitStatus=1\n")
    manager(host).reload()
    assert [finding.sentence.split()[0] for finding in find_gate_state(host).openings] == [
        LAYOUT.machine_unit,
        KUBE1,
        KUBE1,
    ]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [("render_gate_drop_in", " ask %n\n", " ask %n 1\n"), ("render_gate_unit", "gate.sh\n", "gate.sh run\n")],
)
def test_the_gate_of_another_version(name: str, before: str, after: str) -> None:
    """After an upgrade and before `apply`, the installed gate checks as well, whatever its command is called.

    Kills: a comparison of what systemd runs with the command of this version. An edit of the same kind is reported.
    """
    render = getattr(gate, name)
    with mock.patch.object(gate, name, lambda layout: render(layout).replace(before, after)):
        host = installed()
    assert find_gate_state(host) == GateState(is_up=True)
    host = installed()
    path = LAYOUT.gate_drop_in() if "drop_in" in name else LAYOUT.gate_unit_path
    lay(host, path, (host.files.read(path) or "").replace(before, after))
    manager(host).reload()
    assert find_gate_state(host).openings


def test_a_newer_format() -> None:
    """A list of a newer format is not touched, and each command says why: this version would misread it.

    Kills: writing the older list over it, and reading what is known of it.
    """
    host = installed()
    path = LAYOUT.gate_steps_path
    host.files.write(path, f"# format 2\n{host.files.read(path)}")
    texts, routes = dict(host.files.texts), host.kernel.snapshot().routes
    for words in (("status",), ("plan", "--config", "-"), ("apply", "--config", "-"), ("remove",)):
        said = say(*words, host=host, stdin=STRICT.to_json().encode())
        assert said.code, said.out
        assert f"{path} was written by a newer version of hostrouting (format 2; this" in said.out + said.err
        assert (host.files.texts, host.kernel.snapshot().routes) == (texts, routes)
