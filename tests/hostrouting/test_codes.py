"""The exit code of a report and of an error: an agent's program exits as the command would."""

import errno
from types import SimpleNamespace

import pytest

import phases
from hostrouting.errors import ConfigError, Fault, HostError, HostRoutingError, RouteOverlapError
from tests.support.recorder import StubTask, ran
from tests.support.tasks import context


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
