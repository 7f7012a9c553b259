"""hostrouting.install.requirements: what a host lacks for a configuration."""

from pathlib import Path

import attrs
import pytest

from hostrouting.boot.on_disk import gated_on_disk
from hostrouting.config.settings import MACHINES, GateConfig, GuardConfig, HostRoutingConfig
from hostrouting.errors import RequirementError
from hostrouting.finding import Finding
from hostrouting.gate.health import find_faults
from hostrouting.host.fileset import FileChanges
from hostrouting.host.host import Host
from hostrouting.install.requirements import find_requirements
from hostrouting.kernel.rights import Rights
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.testing import FakeFiles, FakeHost, FakeManager, h200
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config, failure_of, manager_of, run

OLD = config(*REPAIR, cidrs=(CIDR,))._replace(guard=GuardConfig(enabled=True))
KUBELET = "kubelet.service"
UNITS = "/etc/systemd/system"
RESET = "[Service]\nExecCondition=\n"
GATED = OLD._replace(gate=GateConfig((KUBELET, MACHINES)))


def lacking(host: FakeHost, wanted: HostRoutingConfig = GATED) -> list[tuple[str, str]]:
    """What a dry run says that the run fails of; the run does, and changes nothing."""
    task = Configure(wanted, host=host)
    plan = task.plan()
    files = {**host.files.texts, **host.files.links}
    if plan.errors:
        failure_of(run, task, of=RequirementError)
        assert files == {**host.files.texts, **host.files.links}
    else:
        run(task)
    return [(finding.name, finding.target) for finding in plan.errors]


@pytest.mark.parametrize("version", ["249", "249.11-0ubuntu3.12", "259~rc1", "unknown"])
def test_a_systemd_that_is_new_enough(version: str) -> None:
    """The oldest that will do is 249; a version that is not a number is not judged."""
    host = FakeHost()
    manager_of(host).version = version
    assert requirements(host) == []


def requirements(host: FakeHost, wanted: HostRoutingConfig = OLD) -> list[Finding]:
    """What the host lacks for this configuration."""
    return list(find_requirements(host, wanted, FileChanges()))


class TestIneffectiveGates:
    """What lets a gated unit start unchecked,
    or keeps it from starting, before the gate is there.
    """

    @pytest.fixture
    def host(self) -> FakeHost:
        """A host with a kubelet, where nothing is installed."""
        host = FakeHost(kernel=h200())
        host.files.texts[f"{UNITS}/{KUBELET}"] = "[Service]\nExecStart=/usr/bin/kubelet\n"
        manager_of(host).boot()
        return host

    @pytest.mark.parametrize(
        ("line", "lacks"),
        [
            pytest.param("SuccessExitStatus=255", [("gate-open", KUBELET)], id="opens it"),
            pytest.param("SuccessExitStatus=1", [], id="does not matter"),
        ],
    )
    def test_a_setting_of_the_unit(
        self, host: FakeHost, line: str, lacks: list[tuple[str, str]]
    ) -> None:
        """It is found before the first gate."""
        host.files.texts[f"{UNITS}/{KUBELET}"] += f"{line}\n"
        manager_of(host).boot()
        assert lacking(host) == lacks

    def test_a_setting_of_one_instance(self, host: FakeHost) -> None:
        """The other instances can be gated."""
        gpu = "systemd-nspawn@gpu.service"
        manager_of(host).properties[gpu] = {"SuccessExitStatus": "255"}
        assert lacking(host) == []
        assert [fault.target for fault in find_faults(host, GATED)] == [gpu]

    def test_a_setting_beside_a_gate(self, host: FakeHost) -> None:
        """The unit is open already, so a run that repairs something else does not open it."""
        run(Configure(GATED, host=host))
        host.files.texts[f"{UNITS}/{KUBELET}"] += "SuccessExitStatus=255\n"
        manager_of(host).boot()
        assert lacking(host) == []

    @pytest.mark.parametrize(
        "folder",
        [
            f"{UNITS}/{KUBELET}.d",
            f"{UNITS}/{MACHINES}.d",
            f"{UNITS}/systemd-nspawn@gpu.service.d",
            f"{UNITS}/service.d",
            f"/run/systemd/system/{KUBELET}.d",
            f"/usr/lib/systemd/system/{KUBELET}.d",
            f"/usr/local/lib/systemd/system/{KUBELET}.d",
            f"/etc/systemd/system.control/{KUBELET}.d",
            f"/run/systemd/system.control/{KUBELET}.d",
            f"/run/systemd/transient/{KUBELET}.d",
        ],
    )
    def test_a_drop_in(self, host: FakeHost, folder: str) -> None:
        """Wherever it is: the gate would never be in force."""
        path = f"{folder}/50-x.conf"
        host.files.texts[path] = RESET
        findings = requirements(host, GATED)
        assert findings
        for finding in findings:
            assert finding.name == "gate-open"
            assert path in finding.sentence

    @pytest.mark.parametrize(
        "folder", [f"{UNITS}/{KUBELET}.d", f"{UNITS}/service.d", f"/run/systemd/system/{KUBELET}.d"]
    )
    def test_a_drop_in_beside_a_gate(self, host: FakeHost, folder: str) -> None:
        """To apply would have systemd read it, which would end the gate."""
        run(Configure(GATED, host=host))
        host.files.texts[f"{UNITS}/{KUBELET}.d/99-new.conf"] = "[Service]\n"
        path = f"{folder}/50-x.conf"
        host.files.texts[path] = RESET
        [finding] = requirements(host, GATED)
        assert finding.name == "gate-open"
        assert finding.target == KUBELET
        assert path in finding.sentence

    def test_a_drop_in_that_does_not_count(self, host: FakeHost) -> None:
        """An administrator has masked it, by a link or another file; or it comes before ours."""
        run(Configure(GATED, host=host))
        vendor = f"/usr/lib/systemd/system/{KUBELET}.d"
        host.files.texts[f"{vendor}/50-a.conf"] = RESET
        host.files.links[f"{UNITS}/{KUBELET}.d/50-a.conf"] = "/dev/null"
        host.files.texts[f"{vendor}/60-b.conf"] = RESET
        host.files.texts[f"{UNITS}/{KUBELET}.d/60-b.conf"] = "[Service]\n"
        host.files.texts[f"{vendor}/00-a.conf"] = RESET
        [shown] = manager_of(host).show(("NeedDaemonReload",), KUBELET)
        assert shown["NeedDaemonReload"] == "yes"
        assert lacking(host) == []


class TestPaths:
    """Something else is where a file of ours has to be."""

    @pytest.mark.parametrize(
        "path",
        [
            LAYOUT.config_path,
            LAYOUT.program_path,
            LAYOUT.unit_path(LAYOUT.routes_unit),
            LAYOUT.drop_in_path(KUBELET),
        ],
    )
    @pytest.mark.parametrize("is_link", [False, True])
    def test_a_link_or_a_folder(self, path: str, *, is_link: bool) -> None:
        """Nothing is written through a link, and no folder is replaced."""
        host = FakeHost(kernel=h200())
        if is_link:
            host.files.links[path] = "/opt/gitops/file"
            host.files.texts["/opt/gitops/file"] = "# Written by hostrouting\n{}\n"
        else:
            host.files.texts[f"{path}/x"] = ""
        assert ("file", path) in lacking(host)

    def test_a_folder_where_a_link_has_to_be(self) -> None:
        """The link that starts a unit at boot."""
        host = FakeHost(kernel=h200())
        path = LAYOUT.enabled_path(LAYOUT.routes_unit)
        host.files.texts[f"{path}/x"] = ""
        assert ("file", path) in lacking(host)

    def test_a_masked_guard(self) -> None:
        """A link of an administrator's is named, once; what masks it elsewhere, systemd knows."""
        guard = LAYOUT.guard_unit
        here = FakeHost(kernel=h200())
        here.files.links[LAYOUT.unit_path(guard)] = "/dev/null"
        manager_of(here).boot()
        assert lacking(here, OLD) == [("file", LAYOUT.unit_path(guard))]

        elsewhere = FakeHost(kernel=h200())
        run(Configure(OLD, host=elsewhere))
        manager_of(elsewhere).properties[guard] = {"LoadState": "masked"}
        assert lacking(elsewhere, OLD) == [("requirement", guard)]

    def test_removal(self) -> None:
        """It fails before it has removed anything."""
        host = FakeHost(kernel=h200())
        run(Configure(OLD, host=host))
        path = LAYOUT.program_path
        del host.files.programs[path]
        host.files.texts[f"{path}/x"] = ""
        assert lacking(host, HostRoutingConfig()) == [("file", path)]

    def test_a_drop_in_of_another_unit(self) -> None:
        """A folder with the name of our drop-in hides no other unit, and is in nobody's way."""
        host = FakeHost(kernel=h200())
        run(Configure(OLD, host=host))
        path = LAYOUT.drop_in_path("a.service")
        host.files.texts[f"{path}/x"] = ""
        assert gated_on_disk(host.files) == (MACHINES,)
        assert lacking(host, GATED) == []
        run(Remove(host=host))
        assert [*host.files.texts] == [f"{path}/x"]


def test_what_no_gate_needs() -> None:
    """Where no unit is gated, no program runs on the node."""
    manager = FakeManager(version="245")
    host = FakeHost(kernel=h200(), missing={"nft", "bash"}, manager=manager)
    host.interpreter.path = ""
    assert lacking(host, HostRoutingConfig(manage_foreign="keep")) == []


NOT_ROOT = Rights(is_root=False)


def test_an_image_that_is_not_roots(caplog: pytest.LogCaptureFixture) -> None:
    """Without root, the files of an image belong to a user who could then change what root runs.
    The run logs it, too.
    """
    image = attrs.evolve(FakeHost.image(), rights=lambda: NOT_ROOT)
    [finding] = requirements(image)
    assert finding.severity == "warning"
    assert "another user owns" in finding.sentence
    run(Configure(OLD, host=image))
    assert caplog.text.count("another user owns") == 1


@pytest.mark.parametrize("name", ["systemd-nspawn@.service", "systemd-nspawn@kube1.service"])
@pytest.mark.parametrize("is_new", [True, False], ids=["before it is gated", "gated"])
def test_a_drop_in_of_an_image_that_cancels_the_gate(
    name: str, caplog: pytest.LogCaptureFixture, *, is_new: bool
) -> None:
    """It is named, and may be gone when the image boots. No command is proposed: it would change
    the host on which the image is prepared.
    """
    image = FakeHost.image()
    if not is_new:
        run(Configure(OLD, host=image))
    path = f"{UNITS}/{name}.d/zz-x.conf"
    image.files.texts[path] = RESET
    [finding] = requirements(image)
    assert finding.name == "gate-open"
    assert finding.severity == "warning"
    assert finding.sentence.endswith(f'"ExecCondition=" in {path} cancels the gate')
    assert finding.target == name
    assert str(finding.remedy) == "change that in the image"
    run(Configure(GATED, host=image))
    assert caplog.text.count("change that in the image") == 1


def test_a_folder_that_others_can_change(tmp_path: Path) -> None:
    """Whatever is in it, root would run theirs."""
    folder = tmp_path / LAYOUT.gate_directory.lstrip("/")
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    image = Host.offline(tmp_path)
    findings = find_requirements(image, OLD, FileChanges())
    errors = [finding.target for finding in findings if finding.severity == "error"]
    assert errors == [LAYOUT.gate_directory]


@pytest.mark.parametrize(
    "host",
    [
        pytest.param(FakeHost.image(), id="an image of root's"),
        pytest.param(FakeHost(rights=lambda: NOT_ROOT), id="a host that they cannot change"),
    ],
)
def test_files_that_are_roots(host: FakeHost) -> None:
    """Nobody else can change them."""
    for finding in requirements(host):
        assert "another user owns" not in finding.sentence


@pytest.mark.parametrize("path", [LAYOUT.config_path, LAYOUT.program_path])
def test_a_file_of_ours_that_others_can_change(path: str) -> None:
    """The run writes it anew."""
    host = FakeHost(kernel=h200())
    run(Configure(OLD, host=host))
    host.files.modes[path] = 0o666
    assert lacking(host, OLD) == []
    assert host.files.modes[path] == 0o644


@pytest.mark.parametrize("manager", ["systemd", "no systemd", "an image"])
class TestScriptsThatTheGateDoesNotRun:
    """The next gated start would be refused, whether or not systemd runs now: such a script is
    named before anything is written.
    """

    PATH = f"{LAYOUT.gate_directory}/50-x.sh"

    @pytest.fixture
    def host(self, manager: str) -> FakeHost:
        """A host with a script of another program, which the gate runs."""
        files = FakeFiles({self.PATH: "exit 0\n"}, {self.PATH: 0o644})
        host = FakeHost(files=files)
        if manager == "no systemd":
            host = FakeHost(files=files, manager=FakeManager(running=False))
        if manager == "an image":
            host = attrs.evolve(FakeHost.image(), files=files)
        assert requirements(host) == []
        return host

    def test_it_is_named(self, host: FakeHost) -> None:
        """As `status` names it; the remedy is a command."""
        host.files.modes[self.PATH] = 0o775
        [finding] = requirements(host)
        assert finding.name == "file"
        assert finding.severity == "error"
        assert finding.target == self.PATH
        assert str(finding) == (
            f"users other than root can write to {self.PATH}, so the gate lets no unit pass; "
            f"as root: chown root {self.PATH} && chmod go-w {self.PATH}"
        )

    def test_no_unit_is_gated(self, host: FakeHost) -> None:
        """Nobody waits for it."""
        host.files.modes[self.PATH] = 0o775
        assert requirements(host, HostRoutingConfig(manage_foreign="keep")) == []
