"""The exit code of a report and of an error: an agent's program exits as the command would."""

import errno
from types import SimpleNamespace

import pytest

import phases
from hostrouting.codes import worst_code
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, Fault, HostError, HostRoutingError, RouteOverlapError
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeHost, FakeKernel, h200
from tests.support.recorder import StubTask, ran
from tests.support.tasks import CIDR, REPAIR, config, context


@pytest.mark.parametrize(
    ("settings", "kernel", "code"),
    [
        (config(*REPAIR, cidrs=(CIDR,)), h200(), 0),
        (config(cidrs=(CIDR,)), h200(), 1),
        (config(cidrs=(CIDR,), mode="WARN"), h200(), 0),
        (config(cidrs=(CIDR,)), FakeKernel(), 3),
    ],
)
def test_as_apply(settings: HostRoutingConfig, kernel: FakeKernel, code: int) -> None:
    """An overlap in STRICT is a problem; without a default route there is no answer."""
    task = Configure(settings, host=FakeHost(kernel=kernel), wait=0)
    assert ran(phases.parallel(task)).exit_code == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError([Fault("", "", "is empty")]), 2),
        (HostRoutingError("ours"), 1),
        (OSError("somebody else's"), 1),
        (HostError("systemd", what="systemd", kind="no-answer"), 3),
        (HostError("nft", what="nft", kind="timeout"), 3),
        (RouteOverlapError("x", report=SimpleNamespace(verdict="undecided")), 3),
        (HostError("denied", what="file", errno=errno.EPERM), 3),
    ],
    ids=str,
)
def test_an_error(error: Exception, code: int) -> None:
    """It has the code itself, and so have the report and the TaskFailed of a run."""
    assert getattr(error, "exit_code", 1) == code
    assert ran(StubTask("fails", errors=[error])).exit_code == code
    with pytest.raises(phases.TaskFailed) as caught:
        phases.execute(phases.parallel(StubTask("fails", errors=[error])), context())
    assert caught.value.exit_code == code


def test_the_worst_counts() -> None:
    assert worst_code(3, 0, 1, 2) == 1
    assert worst_code(3, 2, 0) == 2
