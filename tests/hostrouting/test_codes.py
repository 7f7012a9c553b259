"""The exit code of a report and of an error: an agent's program exits as the command would."""

import errno
import signal

import pytest

import phases
from hostrouting.codes import worst_code
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, Fault, HostError, HostRoutingError
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeHost, FakeKernel, h200
from phases.testing import FakeClock
from tests.support.tasks import CIDR, REPAIR, config, context


def fails(error: Exception) -> phases.Task[object]:
    """A task that raises this."""

    @phases.task("fails")
    def task(_ctx: phases.Context) -> None:
        raise error

    return task


def code_of_run(*tasks: phases.AnyTask) -> int:
    """The exit code for a run of these tasks at once."""
    report = phases.run(phases.parallel(*tasks, name="all"), ctx=phases.Context(clock=FakeClock()))
    return report.exit_code


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
    assert code_of_run(Configure(settings, host=FakeHost(kernel=kernel), wait=0)) == code


def test_an_error_of_a_run() -> None:
    """The TaskFailed of `execute` has the code of its failures, as their report."""
    for error, code in ((ConfigError([Fault("", "", "is empty")]), 2), (OSError("busy"), 1)):
        with pytest.raises(phases.TaskFailed) as caught:
            phases.execute(fails(error), context())
        assert caught.value.exit_code == code


def test_refused_input() -> None:
    """What would take something away is bad input."""
    host = FakeHost(kernel=h200())
    assert code_of_run(Configure(config(*REPAIR), host=host)) == 0
    assert code_of_run(Configure(config(), host=host)) == 2


def test_an_error_before_the_run() -> None:
    """A configuration that cannot be read has the code of the commands, too."""
    denied = HostError("x: permission denied", what="file", errno=errno.EACCES)
    assert ConfigError([Fault("", "", "is empty")]).exit_code == 2
    assert denied.exit_code == 3


class SomebodyElses(Exception):  # noqa: N818  it says whose
    """An error with a document of its own."""

    def to_mapping(self) -> dict[str, int]:
        """The document."""
        return {"exitCode": 77}


def test_the_worst_counts() -> None:
    """A failure of somebody else's task is a problem, and a problem is worse than no answer."""
    assert code_of_run(fails(HostRoutingError("ours"))) == 1
    assert code_of_run(fails(OSError("somebody else's"))) == 1
    assert code_of_run(fails(SomebodyElses())) == 1
    assert code_of_run(fails(HostError("systemd", what="systemd", kind="no-answer"))) == 3
    assert code_of_run(fails(HostError("denied", what="file", errno=errno.EACCES))) == 3
    assert worst_code(3, 0, 1, 2) == 1
    assert worst_code(3, 2, 0) == 2


def test_a_signal() -> None:
    """A run that was stopped has 128 plus the number of the signal."""
    ctx = context()
    ctx.cancel(signal.SIGTERM)
    report = phases.run(Configure(config(), host=FakeHost(kernel=h200())), ctx=ctx)
    assert report.exit_code == 143
