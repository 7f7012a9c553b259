"""hostrouting.gate.health: what lets a gated unit start unchecked, or keeps it from starting, each
once.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

import phases
from hostrouting.boot.files import WRITER
from hostrouting.boot.program import pack, stamp_of
from hostrouting.command import AS_ROOT
from hostrouting.config.settings import (
    GateConfig,
    HostRoutingConfig,
    RouteOverlapConfig,
    gated_units,
)
from hostrouting.errors import HostError
from hostrouting.finding import Finding, Remedy
from hostrouting.gate.health import find_faults, find_faults_without_config
from hostrouting.gate.unit_gates import APPLY, RELOAD, find_ineffective_gates, judge_gates
from hostrouting.host.host import Host
from hostrouting.host.interpreter import TO_INSTALL
from hostrouting.kernel.rights import Rights
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeFiles, FakeHost, FakeManager
from tests.support.statuses import Change, fill, lost, stop_systemd, written
from tests.support.tasks import GUARDED, LAYOUT, WANTED, configured, manager_of

UNITS = "/etc/systemd/system"
KUBELET = "kubelet.service"
MACHINES = "systemd-nspawn@.service"
KUBE1 = "systemd-nspawn@kube1.service"
KUBE2 = "systemd-nspawn@kube2.service"
DROP_IN = LAYOUT.drop_in_path(MACHINES)
PROGRAM = LAYOUT.program_path
CHECK = LAYOUT.unit_path(LAYOUT.check_unit)
SCRIPT = f"{LAYOUT.gate_directory}/90-licence.sh"
"""Of another program."""

WITH_KUBELET = WANTED._replace(gate=GateConfig((KUBELET,)))
"""kubelet is gated instead of the machines."""
RESET = "[Service]\nExecCondition=\n"
AS_SOON = "as soon as systemd reads its files, "
CANCELS = 'the line "ExecCondition=" in {} cancels the gate'


@pytest.fixture
def host() -> FakeHost:
    """A host on which the configuration is installed, and all is well."""
    host = configured(WANTED)
    assert find_faults(host, WANTED) == ()
    return host


def faults(host: FakeHost, wanted: HostRoutingConfig = WANTED) -> list[str]:
    """Each fault: its name, its severity and its sentence."""
    found = find_faults(host, wanted)
    return [f"{fault.name} {fault.severity}: {fault.sentence}" for fault in found]


def openings(host: FakeHost, wanted: HostRoutingConfig = WITH_KUBELET) -> list[str]:
    """The sentence of each fault that opens a gate."""
    return [fault.sentence for fault in find_faults(host, wanted) if fault.name == "gate-open"]


def lasting(host: FakeHost, wanted: HostRoutingConfig = WITH_KUBELET) -> list[str]:
    """Those that apply does not end."""
    return [finding.sentence for finding in judge_gates(host, gated_units(wanted)).lasting]


def ineffective_gates(host: FakeHost, wanted: HostRoutingConfig) -> list[Finding]:
    """The gates of this configuration for which `apply` would refuse it."""
    return list(find_ineffective_gates(host, gated_units(wanted)))


def dropped(host: FakeHost, folder: str, text: str, name: str = "50-x.conf") -> str:
    """Add a drop-in of an administrator, and have systemd read it; its path."""
    path = f"{UNITS}/{folder}.d/{name}"
    host.files.texts[path] = text
    manager_of(host).reload()
    return path


# What is done to a host on which all is well.


def open_to_others(path: str) -> Change:
    """Anybody may write to this file."""
    return lambda host: host.files.modes.update({path: 0o666})


def damage(host: FakeHost) -> None:
    """A byte too many is in the program."""
    host.files.programs[PROGRAM] += b"x"


def break_interpreter(reason: str) -> Change:
    """The interpreter cannot run the program."""

    def change(host: FakeHost) -> None:
        host.files.texts["/usr/bin/python3"] = ""
        host.interpreter.broken = reason

    return change


def uninstall_python(host: FakeHost) -> None:
    """The distribution has no interpreter any more where our link leads."""
    host.interpreter.broken = "No such file or directory"


def have_no_python(host: FakeHost) -> None:
    """It has none that could run the program."""
    host.interpreter.path = ""


def use_python_13(host: FakeHost) -> None:
    """The distribution has a newer Python than when the program was compiled."""
    host.files.links["/usr/bin/python3"] = "python3.13"


def written_by(writer: str) -> Change:
    """It looks as if this release had written the files."""

    def change(host: FakeHost) -> None:
        text = host.files.texts[LAYOUT.config_path]
        assert WRITER in text
        host.files.texts[LAYOUT.config_path] = text.replace(WRITER, writer)

    return change


def put_link(path: str) -> Change:
    """A link stands in the place of the file, or of another link."""

    def change(host: FakeHost) -> None:
        host.files.texts.pop(path, None)
        host.files.links[path] = "/srv/copy"

    return change


def put_folder(path: str) -> Change:
    """A folder stands in the place of the file."""

    def change(host: FakeHost) -> None:
        del host.files.texts[path]
        host.files.texts[f"{path}/x"] = ""

    return change


def read_again(host: FakeHost) -> None:
    """Systemd reads its files."""
    manager_of(host).boot()


LOST = break_interpreter("No such file or directory")
ANOTHER_RELEASE = written_by("hostrouting 0.1")
OPENING = LAYOUT.opening_path
IS_OPEN_TO_OTHERS = "users other than root can write to {}, so the gate lets no unit pass"
FILES: dict[str, tuple[Sequence[Change], str]] = {
    "a lost unit": ([lost(CHECK)], f"file error: {CHECK} is missing"),
    "an edited unit": (
        [written(CHECK, "# Written by hostrouting; but edited\n"), read_again],
        f"file error: {CHECK} is not what {LAYOUT.config_path} asks for",
    ),
    "another program's unit": (
        [written(CHECK, "[Service]\n"), read_again],
        f"file error: {CHECK} was not written by hostrouting, which needs this path",
    ),
    "a masked unit": (
        [written(CHECK, "")],
        f"file error: {CHECK} is masked: empty, or a link to /dev/null",
    ),
    "a linked unit": (
        [put_link(CHECK)],
        f"file error: {CHECK} is a link to /srv/copy, where a file of hostrouting has to be",
    ),
    "a link that leads elsewhere": (
        [put_link(LAYOUT.python_path), written("/srv/copy", "")],
        f"file error: {LAYOUT.python_path} is not what {LAYOUT.config_path} asks for",
    ),
    "no program": ([lost(PROGRAM), LOST], f"gate-shut error: {PROGRAM} is missing"),
    "no interpreter": (
        [lost(LAYOUT.python_path), LOST],
        f"gate-shut error: {LAYOUT.python_path} is missing",
    ),
    "a damaged program that runs": (
        [damage, use_python_13],
        f"file error: {PROGRAM} is not the program of this release, or is damaged",
    ),
    "an old interpreter": (
        [break_interpreter("it is Python 3.9")],
        f"gate-shut error: {PROGRAM} cannot be run: it is Python 3.9",
    ),
    "a damaged program": (
        [damage, break_interpreter("bad magic number")],
        f"gate-shut error: {PROGRAM} cannot be run: bad magic number",
    ),
    "an uninstalled interpreter": (
        [uninstall_python],
        (f"gate-shut error: {LAYOUT.python_path} leads to /usr/bin/python3, which does not exist"),
    ),
    "no interpreter is left": (
        [uninstall_python, have_no_python],
        (f"gate-shut error: {LAYOUT.python_path} leads to /usr/bin/python3, which does not exist"),
    ),
    "another interpreter": (
        [use_python_13],
        (
            f"file note: {PROGRAM} was not compiled by python3.13, which runs it: each start of a "
            "gated unit takes about 0.2 s longer"
        ),
    ),
    "another release, so that a file differs says nothing": (
        [damage, ANOTHER_RELEASE],
        f"file note: {LAYOUT.config_path} was written by hostrouting 0.1, but this is {WRITER}",
    ),
    "an unknown program": (
        [written_by("")],
        f"file note: {LAYOUT.config_path} was written by an unknown program, but this is {WRITER}",
    ),
    "a read-only disk": (
        [fill(LAYOUT.config_directory, "read-only")],
        f"requirement error: nothing can be changed in {LAYOUT.config_directory}: read-only",
    ),
    "a full /run": (
        [fill("/run", "read-only")],
        f"file warning: no result of a check can be written to {LAYOUT.state_directory}: read-only",
    ),
    "others can change the program": (
        [open_to_others(PROGRAM)],
        f"gate-shut error: {IS_OPEN_TO_OTHERS.format(PROGRAM)}",
    ),
    "others can change the drop-in": (
        [open_to_others(DROP_IN)],
        f"file error: {DROP_IN} has another mode",
    ),
    "another program's script": (
        [written(SCRIPT, "exit 1\n")],
        (
            f"file note: {SCRIPT} was not installed by hostrouting: a gated unit starts only after "
            "it succeeds"
        ),
    ),
    "others can change a script": (
        [written(SCRIPT, "exit 0\n", 0o775)],
        f"gate-shut error: {IS_OPEN_TO_OTHERS.format(SCRIPT)}",
    ),
    "an opening that all can read": (
        [written(OPENING, "ticket 4711\n\n", 0o644)],
        (
            f"gate-open warning: {OPENING} lets {MACHINES} start unchecked until the next boot: "
            "ticket 4711"
        ),
    ),
}
"""By what is done: the only fault."""


@pytest.mark.parametrize("row", FILES)
def test_files(row: str, host: FakeHost) -> None:
    """What is on the disk is compared with what the configuration asks for."""
    changes, wanted = FILES[row]
    for change in changes:
        change(host)
    assert faults(host) == [wanted]


@pytest.mark.parametrize("row", ["a linked unit", "an old interpreter"])
def test_files_of_another_release(row: str, host: FakeHost) -> None:
    """What no release writes, and what no gate can run, is named whoever wrote the files."""
    changes, wanted = FILES[row]
    for change in (*changes, ANOTHER_RELEASE):
        change(host)
    assert faults(host)[0] == wanted


@pytest.mark.parametrize(
    ("row", "remedy"),
    [
        ("a lost unit", APPLY),
        ("a linked unit", Remedy("move it away")),
        ("a masked unit", Remedy(command=f"systemctl unmask {LAYOUT.check_unit}")),
        ("an old interpreter", TO_INSTALL),
        ("a damaged program", APPLY),
        ("an uninstalled interpreter", APPLY),
        ("no interpreter is left", TO_INSTALL),
    ],
)
def test_remedies(row: str, remedy: Remedy, host: FakeHost) -> None:
    """What `apply` does not replace is removed first."""
    for change in FILES[row][0]:
        change(host)
    assert find_faults(host, WANTED)[0].remedy == remedy


@pytest.mark.parametrize(
    ("wanted", "parts"),
    [
        pytest.param(WANTED, {"rights": lambda: Rights(is_root=False)}, id="another user"),
        pytest.param(WANTED._replace(route_overlap=RouteOverlapConfig()), {}, id="no check"),
        pytest.param(WANTED, {"backend": None}, id="an image"),
    ],
)
def test_a_full_run_matters_where_root_checks_something(
    wanted: HostRoutingConfig, parts: dict[str, Any]
) -> None:
    """Anybody else may not write there anyway, and an image gets a /run of its own."""
    host = configured(wanted)
    fill("/run")(host)
    found = find_faults(attrs.evolve(host, **parts), wanted)
    assert "result of a check" not in str(found)


OPEN: dict[str, Change] = {
    "no systemd": stop_systemd,
    "an opening": written(OPENING, "why"),
    "no drop-in": lost(DROP_IN),
}


@pytest.mark.parametrize(
    ("row", "opened"),
    [
        ("no program", "no systemd"),
        ("others can change a script", "an opening"),
        ("a read-only disk", "no drop-in"),
    ],
)
def test_where_no_start_asks_the_gate(row: str, opened: str, host: FakeHost) -> None:
    """What would shut it is an error of a file, and does not hide that it is open."""
    changes, wanted = FILES[row]
    for each in (*changes, OPEN[opened]):
        each(host)
    assert wanted.replace("gate-shut", "file") in faults(host)
    assert len(openings(host, WANTED)) == 1


@pytest.mark.parametrize("change", OPEN.values(), ids=OPEN)
def test_where_nothing_is_gated(change: Change) -> None:
    """There is no gate that could be open."""
    wanted = HostRoutingConfig(manage_foreign="keep")
    host = configured(wanted)
    change(host)
    assert openings(host, wanted) == []


def test_a_program_that_runs_slowly_is_only_noted(host: FakeHost) -> None:
    """What no name says is not noted; a program that is also of another version is noted, too."""
    host.files.texts["/usr/bin/python3"] = ""
    assert faults(host) == []
    del host.files.texts["/usr/bin/python3"]
    use_python_13(host)
    stamp = stamp_of(host.files.programs[PROGRAM])
    host.files.programs[PROGRAM] = pack({}, stamp._replace(python="cpython-313"))
    assert faults(host) == []
    host.files.programs[PROGRAM] = pack({}, stamp._replace(version="0.1"))
    assert [fault.severity for fault in find_faults(host, WANTED)] == ["error", "note"]


def test_without_a_configuration(host: FakeHost) -> None:
    """Where config.json cannot be read, the program is tried all the same."""
    break_interpreter("it is Python 3.9")(host)
    broken = Finding("file", "error", f"{LAYOUT.config_path} is empty", LAYOUT.config_path)
    found = find_faults_without_config(host, (MACHINES,), [broken])
    sentences = (broken.sentence, f"{PROGRAM} cannot be run: it is Python 3.9")
    assert [(fault.name, fault.sentence) for fault in found] == [
        ("gate-shut", sentence) for sentence in sentences
    ]
    lost(LAYOUT.python_path)(host)
    LOST(host)
    ANOTHER_RELEASE(host)
    shut, note = find_faults_without_config(host, (MACHINES,))
    assert shut.sentence == f"{PROGRAM} cannot be run: No such file or directory"
    assert (note.severity, "hostrouting 0.1" in note.sentence) == ("note", True)


@pytest.mark.parametrize("manager", ["its own", None, FakeManager(running=False)])
@pytest.mark.parametrize(
    ("text", "predicate", "remedy"),
    [
        (None, "is missing", APPLY),
        ("# Written by hostrouting, and edited\n", "was overwritten", APPLY),
        ("# Of another program\n", "was overwritten", Remedy("move that file away")),
    ],
)
def test_no_drop_in(
    host: FakeHost, manager: Any, text: str | None, predicate: str, remedy: Remedy
) -> None:
    """Without its drop-in a unit starts unchecked, whether or not systemd runs."""
    host.files.remove(DROP_IN)
    if text is not None:
        host.files.texts[DROP_IN] = text
    manager_of(host).reload()
    further = []
    if manager != "its own":
        host = attrs.evolve(host, manager=manager)
        further = ["systemd"]
    found = find_faults(host, WANTED)
    of_file = [fault for fault in found if fault.target == DROP_IN]
    assert len(of_file) == (text is not None)
    [fault, *others] = [fault for fault in found if fault not in of_file]
    assert fault.sentence == f"{MACHINES} starts unchecked: {DROP_IN} {predicate}"
    assert (fault.name, fault.severity, fault.remedy) == ("gate-open", "error", remedy)
    assert [other.target for other in others] == further


@pytest.mark.linux
@pytest.mark.needs("root")
def test_what_an_image_has(tmp_path: Path) -> None:
    """A link of another user is named, and `apply` makes it anew; a fifo is never read."""
    image = Host.offline(tmp_path)
    phases.execute(Configure(GUARDED, host=image), phases.Context(observers=[]))
    before = find_faults(image, GUARDED)
    link = LAYOUT.enabled_path(LAYOUT.guard_unit)
    os.lchown(tmp_path / link[1:], 64321, 64321)
    [fault] = [fault for fault in find_faults(image, GUARDED) if fault not in before]
    assert fault.text_for(AS_ROOT).startswith(
        f"{link} belongs to the user 64321, and not to root; as root: {APPLY.command}"
    )
    phases.execute(Configure(GUARDED, host=image), phases.Context(observers=[]))
    assert find_faults(image, GUARDED) == before
    program = tmp_path / PROGRAM.lstrip("/")
    program.unlink()
    os.mkfifo(program)
    [fault] = [fault for fault in find_faults(image, GUARDED) if fault not in before]
    assert fault.sentence == f"{PROGRAM} is a fifo, and not a file, so the gate lets no unit pass"


@pytest.mark.parametrize(
    ("text", "mode", "owner"),
    [
        pytest.param("why", 0o664, 0, id="others can write it"),
        pytest.param("why", 0o755, 0, id="it can be executed"),
        pytest.param("why", 0o244, 0, id="root cannot read it"),
        pytest.param("why", 0o644, 1, id="of another user"),
        pytest.param(" \n", 0o600, 0, id="no reason"),
    ],
)
def test_an_opening_that_is_ignored(host: FakeHost, text: str, mode: int, owner: int) -> None:
    """It opens nothing, and that is said: it goes, or is made right."""
    path = LAYOUT.opening_path
    host.files.write(path, text, mode=mode)
    host.files.owners[path] = owner
    rule = "it must be a file that only root can write to, with a reason in it"
    assert faults(host) == [f"file warning: {path} is ignored: {rule}"]
    assert judge_gates(host, [MACHINES]).held == (MACHINES,)
    assert find_faults(host, WANTED)[0].to_mapping()["commands"] == [
        f"rm {path}",
        f"echo REASON >{path} && chmod 644 {path}",
    ]


def test_an_opening_that_only_root_can_read(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever else asks is told that the gate may be open."""
    read = FakeFiles.read

    def denied(files: FakeFiles, path: str) -> str | None:
        if path == LAYOUT.opening_path:
            raise HostError(f"cannot read {path}: Permission denied", what="file")
        return read(files, path)

    monkeypatch.setattr(FakeFiles, "read", denied)
    host.files.write(LAYOUT.opening_path, "why", mode=0o600)
    [fault] = find_faults(host, WANTED)
    assert (fault.name, fault.severity) == ("gate-open", "warning")
    assert "only root can read" in fault.sentence


OURS = LAYOUT.drop_in_path(KUBELET)
THEIRS = f"{UNITS}/{KUBELET}.d/50-x.conf"
CANCELLED = f"{KUBELET} starts unchecked: {CANCELS.format(THEIRS)}"
OLD_FILES = f"{KUBELET} starts unchecked: systemd still uses the old files"


def read_only(*paths: str) -> Change:
    """Systemd has read these files, and no others."""

    def change(host: FakeHost) -> None:
        manager_of(host).read = {path: host.files.texts[path] for path in paths}

    return change


def mask(host: FakeHost) -> None:
    """Systemd has read nothing else of the unit then."""
    manager_of(host).properties[KUBELET] = {"LoadState": "masked", "ExecCondition": ""}


def lose_condition(host: FakeHost) -> None:
    """Systemd does not run the gate, for a reason that is in none of the files."""
    manager_of(host).properties[KUBELET] = {"ExecCondition": ""}


UNIT, FIRST = f"{UNITS}/{KUBELET}", f"{UNITS}/{KUBELET}.d/00-a.conf"
OPENINGS: dict[str, tuple[Sequence[Change], list[str]]] = {
    "ours was not read": ([read_only(UNIT)], [OLD_FILES]),
    "ours was not read, and one before it takes nothing away": (
        [written(FIRST, RESET), read_only(UNIT, FIRST)],
        [OLD_FILES],
    ),
    "a reset, whatever else was not read": (
        [
            written(THEIRS, RESET),
            read_again,
            written(f"{UNITS}/{KUBELET}.d/60-y.conf", "[Service]\n"),
        ],
        [CANCELLED],
    ),
    "ours is missing, and a reset": (
        [lost(OURS), written(THEIRS, RESET), read_again],
        [f"{KUBELET} starts unchecked: {OURS} is missing", f"{AS_SOON}{CANCELLED}"],
    ),
    "ours was overwritten, and a reset": (
        [written(OURS, "[Service]\n"), written(THEIRS, RESET), read_again],
        [f"{KUBELET} starts unchecked: {OURS} was overwritten", CANCELLED],
    ),
    "ours is gone, and still loaded": (
        [read_again, lost(OURS)],
        [f"{AS_SOON}{KUBELET} starts unchecked: {OURS} is missing"],
    ),
    "the unit does not exist, and its drop-in has to": (
        [lost(UNIT), lost(OURS), read_again],
        [f"{KUBELET} starts unchecked: {OURS} is missing"],
    ),
    "the unit does not exist": ([lost(UNIT), read_again], []),
    "the unit is masked": ([mask], []),
    "a folder in the place of ours": (
        [put_folder(OURS), read_again],
        [f"{KUBELET} starts unchecked: {OURS} was overwritten"],
    ),
    "ours was not read, and another one takes nothing away": (
        [written(THEIRS, "[Service]\n"), read_only(UNIT, THEIRS)],
        [OLD_FILES],
    ),
    "nobody sees what takes it away": (
        [read_again, lose_condition],
        [f"{KUBELET} starts unchecked: another drop-in takes the ExecCondition= of the gate away"],
    ),
}


class TestSystemd:
    """What systemd would run."""

    @pytest.mark.parametrize("row", OPENINGS)
    def test_what_opens_a_gate(self, row: str) -> None:
        """It is said, and apply ends all but a reset."""
        host = configured(WITH_KUBELET)
        host.files.texts[UNIT] = "[Service]\n"
        changes, wanted = OPENINGS[row]
        for change in changes:
            change(host)
        assert openings(host) == wanted
        by_another = (CANCELLED, "another drop-in")
        assert lasting(host) == [each for each in wanted if any(map(each.__contains__, by_another))]

    @pytest.mark.parametrize("folder", [MACHINES, KUBE1])
    def test_a_refusal_that_counts_as_success(self, host: FakeHost, folder: str) -> None:
        """It opens a gate, and is somewhere in the files of the unit; a run is not refused, since
        it may repair something else.
        """
        manager_of(host).properties[KUBE1] = {}
        dropped(host, folder, "[Service]\nSuccessExitStatus=3 255\n")
        [fault] = find_faults(host, WANTED)
        assert (fault.name, fault.target) == ("gate-open", folder)
        assert fault.sentence.startswith(f"{folder} has SuccessExitStatus=255, so it starts even")
        assert fault.remedy == Remedy("see", f"systemctl cat {folder}", needs_root=False)
        assert ineffective_gates(host, WANTED) == []

    def test_a_unit_that_is_not_gated_yet(self) -> None:
        """What would make its gate ineffective is said in the same words before and after."""
        host = FakeHost()
        host.files.texts[f"{UNITS}/{KUBELET}"] = "[Service]\n"
        dropped(host, KUBELET, f"{RESET}SuccessExitStatus=255\n")
        before = ineffective_gates(host, WITH_KUBELET)
        assert len(before) == 2
        assert {finding.sentence for finding in before} == set(lasting(host))
        manager_of(host).properties[KUBE1] = {"SuccessExitStatus": "255"}
        assert ineffective_gates(host, WANTED) == [], "the other machines can be gated"

    def test_an_instance_that_is_gated_by_its_own_name(self) -> None:
        """Its drop-in overrides that of its template, and runs the gate as well."""
        wanted = WANTED._replace(gate=GateConfig((MACHINES, KUBE1)))
        host = configured(wanted)
        manager_of(host).properties[KUBE1] = {}
        host.files.texts[f"{UNITS}/{KUBE1}.d/50-x.conf"] = "[Service]\nNice=1\n"  # not read yet
        assert faults(host, wanted) == []
        assert ineffective_gates(host, wanted) == []
        path = dropped(host, KUBE1, RESET)
        assert openings(host, wanted) == [f"{KUBE1} starts unchecked: {CANCELS.format(path)}"]

    @pytest.mark.parametrize(
        ("folder", "text", "name", "cause"),
        [
            pytest.param(MACHINES, RESET, "50-x.conf", CANCELS, id="a reset"),
            pytest.param(KUBE1, RESET, "50-x.conf", CANCELS, id="a reset of an instance"),
            pytest.param(KUBE1, "[Unit]\n", "00-host-routing.conf", "{} overrides ", id="its name"),
        ],
    )
    def test_a_drop_in_against_ours(
        self, host: FakeHost, folder: str, text: str, name: str, cause: str
    ) -> None:
        """The unit or the instance is named, and the drop-in."""
        manager_of(host).properties[KUBE1] = {}
        path = dropped(host, folder, text, name)
        [fault] = find_faults(host, WANTED)
        assert (fault.name, fault.severity, fault.target) == ("gate-open", "error", folder)
        assert fault.sentence.startswith(f"{folder} starts unchecked: {cause.format(path)}")
        host.files.remove(path)
        assert find_faults(host, WANTED)[0].remedy == RELOAD
        manager_of(host).reload()
        assert faults(host) == []

    def test_each_cause_once(self, host: FakeHost) -> None:
        """What holds for every instance is not repeated for each; what holds for one instance names
        that.
        """
        manager_of(host).properties[KUBE1] = {}
        manager_of(host).properties[KUBE2] = {"SuccessExitStatus": "255"}
        dropped(host, MACHINES, RESET)
        of_all, of_one = openings(host, WANTED)
        assert of_all.startswith(f"{MACHINES} starts ")
        assert of_one.startswith(f"{KUBE2} has ")
