"""hostrouting.install.requirements: what a host lacks for a configuration."""

import attrs
import pytest

from hostrouting.config.settings import MACHINES, GateConfig, GuardConfig, HostRoutingConfig
from hostrouting.errors import RequirementError
from hostrouting.finding import Finding
from hostrouting.host.fileset import FileChanges
from hostrouting.install.requirements import find_requirements
from hostrouting.kernel.rights import Rights
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeHost, h200
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

    def test_a_setting_beside_a_gate(self, host: FakeHost) -> None:
        """The unit is open already, so a run that repairs something else does not open it."""
        run(Configure(GATED, host=host))
        host.files.texts[f"{UNITS}/{KUBELET}"] += "SuccessExitStatus=255\n"
        manager_of(host).boot()
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


@pytest.mark.parametrize("path", [LAYOUT.config_path, LAYOUT.program_path])
def test_a_file_of_ours_that_others_can_change(path: str) -> None:
    """The run writes it anew."""
    host = FakeHost(kernel=h200())
    run(Configure(OLD, host=host))
    host.files.modes[path] = 0o666
    assert lacking(host, OLD) == []
    assert host.files.modes[path] == 0o644
