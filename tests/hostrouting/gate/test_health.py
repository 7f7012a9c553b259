"""hostrouting.gate.health: what lets a gated unit start unchecked, or keeps it from starting, each
once.
"""

import os
from pathlib import Path
from typing import Any

import attrs
import pytest

import phases
from hostrouting.boot.files import WRITER
from hostrouting.boot.program import pack, stamp_of
from hostrouting.config.settings import GateConfig, HostRoutingConfig, gated_units
from hostrouting.errors import HostError
from hostrouting.finding import Finding, Remedy
from hostrouting.gate.drop_ins import drop_ins_of
from hostrouting.gate.health import find_faults, find_faults_without_config
from hostrouting.gate.unit_gates import find_ineffective_gates, judge_gates
from hostrouting.host.host import Host
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeFiles, FakeHost, FakeManager
from tests.support.tasks import GUARDED, LAYOUT, WANTED, configured, manager_of

UNITS = "/etc/systemd/system"
KUBELET = "kubelet.service"
MACHINES = "systemd-nspawn@.service"
KUBE1 = "systemd-nspawn@kube1.service"
KUBE2 = "systemd-nspawn@kube2.service"
DROP_IN = LAYOUT.drop_in_path(MACHINES)
SCRIPT = f"{LAYOUT.gate_directory}/90-licence.sh"
"""Of another program."""
APPLY = Remedy(command=f"hostrouting apply --config {LAYOUT.config_path}")
WITH_KUBELET = WANTED._replace(gate=GateConfig((KUBELET,)))
"""kubelet is gated instead of the machines."""


@pytest.fixture
def host() -> FakeHost:
    """A host on which the configuration is installed, and all is well."""
    host = configured(WANTED)
    assert find_faults(host, WANTED) == ()
    return host


def faults(host: FakeHost, wanted: HostRoutingConfig = WANTED) -> list[tuple[str, str, str]]:
    """Name, severity and sentence of each fault."""
    return [(fault.name, fault.severity, fault.sentence) for fault in find_faults(host, wanted)]


def named(host: FakeHost, name: str, wanted: HostRoutingConfig = WANTED) -> list[Finding]:
    """The faults with this name."""
    return [fault for fault in find_faults(host, wanted) if fault.name == name]


def errors(host: FakeHost, wanted: HostRoutingConfig = WANTED) -> list[tuple[str, str]]:
    """Name and sentence of each fault that is an error."""
    faults = find_faults(host, wanted)
    return [(fault.name, fault.sentence) for fault in faults if fault.severity == "error"]


def written_by(host: FakeHost, writer: str) -> None:
    """Make it look as if this release had written the files."""
    text = host.files.texts[LAYOUT.config_path]
    assert WRITER in text
    host.files.texts[LAYOUT.config_path] = text.replace(WRITER, writer)


def host_with_kubelet() -> FakeHost:
    """A host whose kubelet is gated. Systemd has not read the unit since."""
    host = configured(WITH_KUBELET)
    host.files.texts[f"{UNITS}/{KUBELET}"] = "[Service]\n"
    return host


def ineffective_gates(host: FakeHost, wanted: HostRoutingConfig) -> list[Finding]:
    """The gates of this configuration for which `apply` would refuse it."""
    return list(find_ineffective_gates(host, gated_units(wanted)))


def dropped(host: FakeHost, folder: str, text: str, name: str = "50-x.conf") -> str:
    """Add a drop-in of an administrator, and have systemd read it; its path."""
    path = f"{UNITS}/{folder}.d/{name}"
    host.files.texts[path] = text
    manager_of(host).reload()
    return path


def deny(host: FakeHost, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have only root read this file."""
    read = type(host.files).read

    def denied(files: Any, asked: str) -> str | None:
        if asked == path:
            raise HostError(f"cannot read {path}: Permission denied", what="file")
        return read(files, asked)

    monkeypatch.setattr(type(host.files), "read", denied)


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize("folder", [LAYOUT.config_directory, LAYOUT.gate_directory])
def test_a_folder_that_others_can_change(tmp_path: Path, folder: str, host: FakeHost) -> None:
    """Then the gate lets no unit pass: the fault names the repair. It shuts no gate where none
    holds.
    """
    image = Host.offline(str(tmp_path))
    phases.execute(Configure(WANTED, host=image), phases.Context(observers=[]))
    path = tmp_path / folder.lstrip("/")
    path.mkdir(exist_ok=True)
    path.chmod(0o775)
    fault, opened = find_faults(image, WANTED)
    assert fault.name == "file"
    assert opened.name == "gate-open"

    booted = Host(backend=None, files=image.files, manager=host.manager)
    [fault] = find_faults(booted, WANTED)
    assert fault.name == "gate-shut"
    assert fault.severity == "error"
    assert fault.target == folder
    assert fault.sentence == (
        f"users other than root can write to {folder}, so the gate lets no unit pass"
    )
    assert fault.remedy == Remedy(command=f"chown root {folder} && chmod go-w {folder}")


class TestFiles:
    """What is on the disk."""

    @pytest.mark.parametrize(
        ("manager", "further"),
        [
            pytest.param(FakeManager(running=False), ["systemd"], id="no systemd"),
            pytest.param(None, ["systemd"], id="an image"),
            pytest.param("its own", [], id="systemd"),
        ],
    )
    def test_no_drop_in(self, host: FakeHost, manager: Any, further: list[str]) -> None:
        """Without its drop-in a unit starts unchecked, whether or not systemd runs."""
        host.files.remove(DROP_IN)
        if manager != "its own":
            host = attrs.evolve(host, manager=manager)
        fault, *others = find_faults(host, WANTED)
        assert fault.name == "gate-open"
        assert fault.severity == "error"
        assert fault.sentence == f"{MACHINES} starts unchecked: {DROP_IN} is missing"
        assert fault.remedy == APPLY
        assert [other.target for other in others] == further

    @pytest.mark.parametrize(
        ("wanted", "path"),
        [
            (HostRoutingConfig(manage_foreign="keep"), LAYOUT.networkd_path),
            (WANTED, LAYOUT.unit_path(LAYOUT.check_unit)),
        ],
    )
    def test_what_no_unit_needs(self, wanted: HostRoutingConfig, path: str) -> None:
        """A file that is not for the gate is missed, and shuts nothing."""
        host = configured(wanted)
        host.files.remove(path)
        assert faults(host, wanted) == [("file", "error", f"{path} is missing")]

    @pytest.mark.parametrize("path", [LAYOUT.program_path, LAYOUT.python_path])
    def test_what_the_gate_needs(self, host: FakeHost, path: str) -> None:
        """Without the program and its interpreter no gated unit starts; but those that are open
        do, also while an administrator has opened the gate. Nobody tries what is missing.
        """
        host.interpreter.broken = "No such file or directory"
        host.files.remove(path)
        missing = f"{path} is missing"
        assert faults(host) == [("gate-shut", "error", missing)]

        without_systemd = attrs.evolve(host, manager=FakeManager(running=False))
        assert ("file", "error", missing) in faults(without_systemd)

        host.files.texts[LAYOUT.opening_path] = "why"
        assert [fault.name for fault in find_faults(host, WANTED)] == ["file", "gate-open"]

        host.files.remove(LAYOUT.opening_path)
        host.files.remove(DROP_IN)
        assert [fault.name for fault in find_faults(host, WANTED)] == ["file", "gate-open"]

    def test_a_damaged_program(self, host: FakeHost) -> None:
        """It is named before it is needed, whether the gate can still run it or not."""
        host.files.links["/usr/bin/python3"] = "python3.13"
        host.files.programs[LAYOUT.program_path] += b"x"
        damaged = f"{LAYOUT.program_path} is not the program of this release, or is damaged"
        assert faults(host) == [("file", "error", damaged)]
        host.interpreter.broken = "bad marshal data"
        unusable = f"{LAYOUT.program_path} cannot be run: bad marshal data"
        assert errors(host) == [("gate-shut", unusable)]

    def test_a_program_that_cannot_be_run(self, host: FakeHost) -> None:
        """Its interpreter was replaced by one that is too old; whoever wrote the files."""
        host.interpreter.broken = "it is Python 3.9"
        sentence = f"{LAYOUT.program_path} cannot be run: it is Python 3.9"
        assert errors(host) == [("gate-shut", sentence)]
        written_by(host, "hostrouting 0.1")
        assert errors(host) == [("gate-shut", sentence)]
        found = find_faults_without_config(host, (MACHINES,))
        assert found[0].sentence == sentence

    def test_a_program_of_another_interpreter(self, host: FakeHost) -> None:
        """It starts more slowly, which is only a note; what no name says is not noted."""
        host.files.texts["/usr/bin/python3"] = ""
        assert faults(host) == []
        del host.files.texts["/usr/bin/python3"]
        host.files.links["/usr/bin/python3"] = "python3.13"
        [fault] = find_faults(host, WANTED)
        assert fault.severity == "note"
        assert fault.sentence == (
            f"{LAYOUT.program_path} was not compiled by python3.13, which runs it: each start of a "
            "gated unit takes about 0.2 s longer"
        )
        stamp = stamp_of(host.files.programs[LAYOUT.program_path])
        host.files.programs[LAYOUT.program_path] = pack({}, stamp._replace(python="cpython-313"))
        assert faults(host) == []
        host.files.programs[LAYOUT.program_path] = pack({}, stamp._replace(version="0.1"))
        assert [fault.severity for fault in find_faults(host, WANTED)] == ["error", "note"]

    def test_an_edit(self, host: FakeHost) -> None:
        """A file of this release that differs was edited."""
        path = LAYOUT.unit_path(LAYOUT.routes_unit)
        host.files.texts[path] += "Nice=1\n"
        manager_of(host).boot()
        sentence = f"{path} is not what {LAYOUT.config_path} asks for"
        assert faults(host) == [("file", "error", sentence)]

    @pytest.mark.parametrize(
        ("writer", "name"), [("hostrouting 0.1", "hostrouting 0.1"), ("", "an unknown release")]
    )
    def test_a_file_of_another_release(self, host: FakeHost, writer: str, name: str) -> None:
        """That it differs says nothing, so only the release is named."""
        host.files.programs[LAYOUT.program_path] += b"x"
        written_by(host, writer)
        sentence = f"the files were written by {name}, but this is {WRITER}"
        assert faults(host) == [("file", "note", sentence)]

    @pytest.mark.parametrize("writer", [WRITER, "hostrouting 0.1"])
    @pytest.mark.parametrize("is_link", [True, False])
    def test_a_masked_unit(self, host: FakeHost, writer: str, *, is_link: bool) -> None:
        """It is named whoever wrote the files, as `apply` names it, which does not replace it; no
        unit waits for it.
        """
        path = LAYOUT.unit_path(LAYOUT.check_unit)
        host.files.texts[path] = ""
        if is_link:
            del host.files.texts[path]
            host.files.links[path] = "/dev/null"
        written_by(host, writer)
        [fault] = [fault for fault in find_faults(host, WANTED) if fault.severity == "error"]
        assert fault.name == "file"
        assert fault.sentence == f"{path} is masked: empty, or a link to /dev/null"
        assert fault.remedy == Remedy(command=f"systemctl unmask {LAYOUT.check_unit}")

    @pytest.mark.parametrize("is_systemd", [True, False])
    def test_a_drop_in_that_was_overwritten(self, host: FakeHost, *, is_systemd: bool) -> None:
        """The unit starts unchecked, also in a container, when that is started with systemd."""
        host.files.texts[DROP_IN] = "[Service]\n"
        manager_of(host).reload()
        manager = host.manager if is_systemd else FakeManager(running=False)
        sentence = f"{MACHINES} starts unchecked: {DROP_IN} was overwritten"
        openings = faults(attrs.evolve(host, manager=manager))
        assert ("gate-open", "error", sentence) in openings

    def test_a_script_of_another_program(self, host: FakeHost) -> None:
        """It holds units back, too, which is said."""
        host.files.texts[SCRIPT] = "exit 1\n"
        consequence = "a gated unit starts only after it succeeds"
        sentence = f"{SCRIPT} was not installed by hostrouting: {consequence}"
        assert faults(host) == [("file", "note", sentence)]

    def test_a_script_and_no_gated_unit(self) -> None:
        """Where no unit is gated, nobody waits for it."""
        wanted = HostRoutingConfig(manage_foreign="keep")
        host = configured(wanted)
        host.files.texts[SCRIPT] = "exit 0\n"
        assert faults(host, wanted) == []

    @pytest.mark.parametrize("state", ["", "no systemd", "an image", "break glass", "no drop-in"])
    def test_a_script_that_the_gate_does_not_run(self, host: FakeHost, state: str) -> None:
        """It is an error whatever starts unchecked now: the gate refuses as soon as it is asked."""
        host.files.texts[SCRIPT] = "exit 0\n"
        host.files.modes[SCRIPT] = 0o775
        if state == "break glass":
            host.files.texts[LAYOUT.opening_path] = "why"
        if state == "no drop-in":
            host.files.remove(DROP_IN)
        if state == "no systemd":
            host = attrs.evolve(host, manager=FakeManager(running=False))
        if state == "an image":
            host = attrs.evolve(host, manager=None)
        [fault] = [fault for fault in find_faults(host, WANTED) if fault.target == SCRIPT]
        assert fault.name == ("file" if state else "gate-shut")
        assert fault.severity == "error"

    @pytest.mark.parametrize("path", [LAYOUT.config_path, LAYOUT.program_path])
    @pytest.mark.parametrize("writer", [WRITER, "hostrouting 0.1"])
    def test_a_file_that_others_can_change(self, host: FakeHost, path: str, writer: str) -> None:
        """The gate neither reads nor runs it, whichever release wrote it: that is said once."""
        written_by(host, writer)
        host.files.modes[path] = 0o666
        sentence = f"users other than root can write to {path}, so the gate lets no unit pass"
        assert errors(host) == [("gate-shut", sentence)]

    def test_a_drop_in_that_others_can_change(self, host: FakeHost) -> None:
        """Root runs what is in it."""
        host.files.modes[DROP_IN] = 0o666
        assert errors(host) == [("file", f"{DROP_IN} has another owner or mode")]

    @pytest.mark.parametrize("writer", [WRITER, "hostrouting 0.1"])
    def test_a_folder(self, host: FakeHost, writer: str) -> None:
        """A folder where a file of ours has to be is named, and hides nothing else."""
        path = LAYOUT.unit_path(LAYOUT.check_unit)
        written_by(host, writer)
        del host.files.texts[path]
        host.files.texts[f"{path}/x"] = ""
        [fault, *_] = find_faults(host, WANTED)
        assert fault.target == path
        assert fault.severity == "error"
        assert fault.remedy == Remedy("move it away")
        assert fault.name == "file"

    @pytest.mark.linux
    @pytest.mark.needs("root")
    def test_the_owner_of_a_link(self, tmp_path: Path) -> None:
        """Nobody can change a link, whoever owns it."""
        image = Host.offline(tmp_path)
        phases.execute(Configure(GUARDED, host=image), phases.Context(observers=[]))
        before = find_faults(image, GUARDED)
        link = LAYOUT.enabled_path(LAYOUT.guard_unit)
        os.lchown(tmp_path / link[1:], 65534, 65534)
        assert find_faults(image, GUARDED) == before

    @pytest.mark.parametrize("is_new", [True, False], ids=["before it is gated", "gated"])
    def test_a_drop_in_of_an_image(self, tmp_path: Path, *, is_new: bool) -> None:
        """Nobody can ask systemd there, so what will cancel the gate at boot is read."""
        image = Host.offline(tmp_path)
        if not is_new:
            phases.execute(Configure(WITH_KUBELET, host=image), phases.Context(observers=[]))
        path = f"{UNITS}/{KUBELET}.d/zz-x.conf"
        image.files.write(path, "[Service]\nExecCondition=\n")
        cancels = f'starts unchecked: the line "ExecCondition=" in {path} cancels the gate'
        if is_new:
            [fault] = find_ineffective_gates(image, [KUBELET])
            assert fault.sentence == f"as soon as systemd reads its files, {KUBELET} {cancels}"
        else:
            faults = find_faults(image, WITH_KUBELET)
            assert f"{KUBELET} {cancels}" in [fault.sentence for fault in faults]

    def test_what_is_neither_file_nor_folder(self, tmp_path: Path) -> None:
        """A fifo is named, and never read."""
        image = Host.offline(tmp_path)
        phases.execute(Configure(WANTED, host=image), phases.Context(observers=[]))
        program = tmp_path / LAYOUT.program_path.lstrip("/")
        program.unlink()
        os.mkfifo(program)
        [fault] = [fault for fault in find_faults(image, WANTED) if fault.target != "systemd"]
        assert fault.sentence == (
            f"{LAYOUT.program_path} is a fifo, and not a file, so the gate lets no unit pass"
        )

    def test_a_folder_in_the_place_of_the_drop_in(self, host: FakeHost) -> None:
        """The unit starts unchecked, and nothing else is hidden."""
        del host.files.texts[DROP_IN]
        host.files.texts[f"{DROP_IN}/x"] = ""
        manager_of(host).reload()
        [fault] = named(host, "gate-open")
        assert fault.target == MACHINES

    def test_a_link_in_the_place_of_a_file_of_ours(self, host: FakeHost) -> None:
        """`apply` does not replace it, so the remedy begins with its removal. No release writes a
        link there, so it is named, although the texts of another one are not compared.
        """
        path = LAYOUT.unit_path(LAYOUT.check_unit)
        host.files.texts["/srv/copy"] = host.files.texts.pop(path)
        host.files.links[path] = "/srv/copy"
        manager_of(host).reload()
        for writer in (WRITER, "hostrouting 0.1"):
            written_by(host, writer)
            fault = find_faults(host, WANTED)[0]
            assert fault.sentence == f"{path} is a link, and not a file"
            assert fault.remedy == APPLY._replace(words="remove the link; then")

    def test_a_link_that_leads_elsewhere(self, host: FakeHost) -> None:
        """`apply` replaces it: a link has to be there."""
        for path in (LAYOUT.enabled_path(LAYOUT.routes_unit), LAYOUT.python_path):
            leads = host.files.links[path]
            host.files.links[path] = "/srv/copy"
            [fault] = find_faults(host, WANTED)
            assert fault.sentence == f"{path} is not what {LAYOUT.config_path} asks for"
            assert fault.remedy == APPLY
            host.files.links[path] = leads


class TestOpening:
    """The file with which an administrator opens the gate."""

    @pytest.mark.parametrize(("text", "mode"), [("ticket 4711\n", 0o600), ("why", 0o644)])
    def test_break_glass(self, host: FakeHost, text: str, mode: int) -> None:
        """An opening has a reason in it, which is told, and only root can write it."""
        path = LAYOUT.opening_path
        host.files.texts[path] = text
        host.files.modes[path] = mode
        reason = text.strip()
        sentence = f"{path} lets {MACHINES} start unchecked until the next boot: {reason}"
        assert faults(host) == [("gate-open", "warning", sentence)]

    @pytest.mark.parametrize(
        ("text", "mode"),
        [
            pytest.param("why", 0o664, id="others can write it"),
            pytest.param(" \n", 0o600, id="no reason"),
        ],
    )
    def test_an_opening_that_is_ignored(self, host: FakeHost, text: str, mode: int) -> None:
        """It opens nothing, and that is said: it goes, or is made right."""
        path = LAYOUT.opening_path
        host.files.texts[path] = text
        host.files.modes[path] = mode
        rule = "it must be a file that only root can write to, with a reason in it"
        assert faults(host) == [("file", "warning", f"{path} is ignored: {rule}")]
        [ignored] = named(host, "file")
        assert ignored.to_mapping()["commands"] == [
            f"rm {path}",
            f"echo REASON >{path} && chmod 644 {path}",
        ]

    def test_an_opening_that_only_root_can_read(
        self, host: FakeHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever else asks is told that the gate may be open."""
        path = LAYOUT.opening_path
        host.files.texts[path] = "why"
        host.files.modes[path] = 0o600
        deny(host, path, monkeypatch)
        [fault] = find_faults(host, WANTED)
        assert fault.name == "gate-open"
        assert fault.severity == "warning"
        assert "only root can read" in fault.sentence


class TestSystemd:
    """What systemd would run."""

    def test_a_drop_in_that_was_not_read(self) -> None:
        """Between the writing of the drop-in and the reload, a start is unchecked."""
        host = host_with_kubelet()
        manager_of(host).read = {f"{UNITS}/{KUBELET}": "[Service]\n"}
        sentence = f"{KUBELET} starts unchecked: systemd still uses the old files"
        assert faults(host, WITH_KUBELET) == [("gate-open", "error", sentence)]

    def test_a_reset_that_was_read(self) -> None:
        """It is the cause, and stays so, whatever else systemd has not read yet."""
        host = host_with_kubelet()
        path = dropped(host, KUBELET, "[Service]\nExecCondition=\n")
        host.files.texts[f"{UNITS}/{KUBELET}.d/60-y.conf"] = "[Service]\nNice=1\n"
        cause = f'the line "ExecCondition=" in {path} cancels the gate'
        sentence = f"{KUBELET} starts unchecked: {cause}"
        assert faults(host, WITH_KUBELET) == [("gate-open", "error", sentence)]
        [opening] = judge_gates(host, gated_units(WITH_KUBELET)).lasting
        assert opening.sentence == sentence

    def test_a_reset_of_an_instance_that_was_not_read(self, host: FakeHost) -> None:
        """The instance is loaded, and the next reload takes its gate away."""
        manager_of(host).properties[KUBE1] = {}
        path = f"{UNITS}/{KUBE1}.d/50-x.conf"
        host.files.texts[path] = "[Service]\nExecCondition=\n"
        [fault] = find_faults(host, WANTED)
        assert fault.name == "gate-open"
        assert fault.severity == "error"
        assert fault.target == KUBE1
        assert fault.sentence.startswith(f"as soon as systemd reads its files, {KUBE1} starts ")

    @pytest.mark.parametrize("is_there", [False, True], ids=["missing", "overwritten"])
    def test_a_reset_beside_a_drop_in_that_apply_restores(self, *, is_there: bool) -> None:
        """Both are told, and the reset lasts: the unit starts unchecked after apply, too."""
        host = host_with_kubelet()
        if is_there:
            host.files.texts[LAYOUT.drop_in_path(KUBELET)] = "[Service]\n"
        else:
            del host.files.texts[LAYOUT.drop_in_path(KUBELET)]
        path = dropped(host, KUBELET, "[Service]\nExecCondition=\n")
        assert len(named(host, "gate-open", WITH_KUBELET)) == 2
        [opening] = judge_gates(host, gated_units(WITH_KUBELET)).lasting
        assert f'the line "ExecCondition=" in {path} cancels the gate' in opening.sentence

    def test_a_drop_in_that_is_gone_and_still_loaded(self) -> None:
        """The gate runs until systemd reads its files."""
        host = host_with_kubelet()
        manager_of(host).boot()
        path = LAYOUT.drop_in_path(KUBELET)
        del host.files.texts[path]
        [fault] = named(host, "gate-open", WITH_KUBELET)
        assert fault.sentence == (
            f"as soon as systemd reads its files, {KUBELET} starts unchecked: {path} is missing"
        )
        assert fault.remedy == APPLY
        assert ineffective_gates(host, WITH_KUBELET) == [], "apply ends it"

    def test_a_unit_that_does_not_exist(self) -> None:
        """Its drop-in has to be there when somebody installs the unit."""
        host = configured(WITH_KUBELET)
        assert faults(host, WITH_KUBELET) == []
        path = LAYOUT.drop_in_path(KUBELET)
        del host.files.texts[path]
        sentence = f"{KUBELET} starts unchecked: {path} is missing"
        assert ("gate-open", "error", sentence) in faults(host, WITH_KUBELET)

    @pytest.mark.parametrize("folder", [MACHINES, KUBE1])
    def test_what_refuses_no_run(self, host: FakeHost, folder: str) -> None:
        """A gate that is open already, or the setting of one instance, is a fault; a run may still
        repair something else.
        """
        dropped(host, folder, "[Service]\nSuccessExitStatus=255\n")
        assert len(find_faults(host, WANTED)) == 1
        assert ineffective_gates(host, WANTED) == []

    def test_a_unit_that_is_not_gated_yet(self) -> None:
        """What would make its gate ineffective is said in the same words before and after."""
        host = FakeHost()
        host.files.texts[f"{UNITS}/{KUBELET}"] = "[Service]\n"
        dropped(host, KUBELET, "[Service]\nExecCondition=\nSuccessExitStatus=255\n")
        before = ineffective_gates(host, WITH_KUBELET)
        after = judge_gates(host, gated_units(WITH_KUBELET)).lasting
        assert len(before) == 2
        assert set(after) == set(before)

    def test_an_instance_that_is_gated_by_its_own_name(self) -> None:
        """Its drop-in overrides that of its template, and runs the gate as well."""
        wanted = WANTED._replace(gate=GateConfig((MACHINES, KUBE1)))
        host = configured(wanted)
        manager_of(host).properties[KUBE1] = {}
        host.files.texts[f"{UNITS}/{KUBE1}.d/50-x.conf"] = "[Service]\nNice=1\n"  # not read yet
        assert faults(host, wanted) == []
        assert ineffective_gates(host, wanted) == []

    def test_a_condition_with_spaces(self) -> None:
        """Systemd allows them around the `=`: such a file is not as it was, but runs the gate."""
        host = host_with_kubelet()
        path = LAYOUT.drop_in_path(KUBELET)
        text = host.files.texts[path]
        host.files.texts[path] = text.replace("ExecCondition=", " ExecCondition = ")
        assert host.files.texts[path] != text
        assert named(host, "gate-open", WITH_KUBELET) == []
        assert faults(host, WITH_KUBELET) == [
            ("file", "error", f"{path} is not what {LAYOUT.config_path} asks for")
        ]

    def test_an_earlier_reset(self) -> None:
        """What comes before the gate's drop-in takes nothing away from it."""
        host = host_with_kubelet()
        path = dropped(host, KUBELET, "[Service]\nExecCondition=\n", "00-a.conf")
        del manager_of(host).read[LAYOUT.drop_in_path(KUBELET)]
        assert path in manager_of(host).read
        sentence = f"{KUBELET} starts unchecked: systemd still uses the old files"
        assert faults(host, WITH_KUBELET) == [("gate-open", "error", sentence)]

    @pytest.mark.parametrize(
        ("folder", "text", "name", "cause"),
        [
            pytest.param(
                MACHINES,
                "ExecCondition=\n",
                "50-x.conf",
                'starts unchecked: the line "ExecCondition=" in {path} cancels the gate',
                id="a reset",
            ),
            pytest.param(
                KUBE1,
                "ExecCondition=\n",
                "50-x.conf",
                'starts unchecked: the line "ExecCondition=" in {path} cancels the gate',
                id="a reset of an instance",
            ),
            pytest.param(
                KUBE1,
                "[Unit]\n",
                "00-host-routing.conf",
                "starts unchecked: {path} overrides ",
                id="a drop-in of the same name",
            ),
            pytest.param(
                KUBE1,
                "",
                "00-host-routing.conf",
                "starts unchecked: {path} overrides ",
                id="an empty drop-in of the same name",
            ),
            pytest.param(
                MACHINES,
                "SuccessExitStatus=3 255\n",
                "50-x.conf",
                "has SuccessExitStatus=255, so it starts even if ",
                id="a refusal that counts as success",
            ),
        ],
    )
    def test_an_opening(
        self, host: FakeHost, folder: str, text: str, name: str, cause: str
    ) -> None:
        """The unit or the instance is named, and the drop-in."""
        path = dropped(host, folder, text, name)
        [fault] = find_faults(host, WANTED)
        assert fault.name == "gate-open"
        assert fault.severity == "error"
        assert fault.target == folder
        assert fault.sentence.startswith(f"{folder} {cause.format(path=path)}")
        host.files.remove(path)
        manager_of(host).reload()
        assert faults(host) == []

    def test_each_cause_once(self, host: FakeHost) -> None:
        """What holds for every instance is not repeated for each; what holds for one instance names
        that.
        """
        manager_of(host).properties[KUBE1] = {}
        manager_of(host).properties[KUBE2] = {"SuccessExitStatus": "255"}
        dropped(host, MACHINES, "ExecCondition=\n")
        of_all, of_one = find_faults(host, WANTED)
        assert of_all.sentence.startswith(f"{MACHINES} starts ")
        assert of_one.sentence.startswith(f"{KUBE2} has ")

    def test_where_a_setting_is(self, host: FakeHost) -> None:
        """In the files of the instance, or in those of all."""
        for unit in (KUBE1, MACHINES):
            dropped(host, unit, "[Service]\nSuccessExitStatus=255\n")
            fault = find_faults(host, WANTED)[0]
            assert fault.target == unit
            assert fault.remedy == Remedy("see", f"systemctl cat {unit}", needs_root=False)

    @pytest.mark.parametrize("folder", ["/run/systemd/system", "/usr/local/lib/systemd/system"])
    def test_an_instance_with_a_drop_in_elsewhere(self, host: FakeHost, folder: str) -> None:
        """Systemd is asked about an instance that it has not loaded."""
        host.files.texts[f"{folder}/{KUBE1}.d/50-x.conf"] = "[Service]\n"
        asked: list[str] = []
        manager = manager_of(host)
        show = FakeManager.show

        class Asked(FakeManager):
            def show(self, names: Any, *units: str) -> Any:
                asked.extend(units)
                return show(manager, names, *units)

        find_faults(attrs.evolve(host, manager=Asked(files=host.files)), WANTED)
        assert KUBE1 in asked

    def test_a_drop_in_of_an_instance_behind_one_of_its_template(self) -> None:
        """Of two with one name, systemd reads the one in the first folder, and only then looks at
        the name of the unit. It reads them by name, from whichever folder, and no file with
        another ending.
        """
        of_template = f"{UNITS}/{MACHINES}.d/50-x.conf"
        of_instance = f"/run/systemd/system/{KUBE1}.d/50-x.conf"
        in_the_last_folder = f"/usr/lib/systemd/system/{KUBE1}.d/10-x.conf"
        left_by_an_editor = f"{UNITS}/{KUBE1}.d/60-x.conf~"
        places = (of_template, of_instance, in_the_last_folder, left_by_an_editor)
        files = FakeFiles(dict.fromkeys(places, "[Service]\n"))
        assert drop_ins_of(files, KUBE1) == [in_the_last_folder, of_template]

    @pytest.mark.parametrize("state", ["bad-setting", "error", "masked", "not-found"])
    def test_a_unit_that_systemd_cannot_load(self, host: FakeHost, state: str) -> None:
        """It does not start at all."""
        manager_of(host).properties[KUBE1] = {"LoadState": state, "ExecCondition": ""}
        assert faults(host) == []
