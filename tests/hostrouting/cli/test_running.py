"""hostrouting.cli.running: what is said of a run after its undo."""

import phases
from hostrouting.cli.running import run_task
from hostrouting.errors import HostError
from hostrouting.testing import FakeHost

HELD = "the gate is installed: kubelet.service will not start until its steps succeed"


class FailingTask:
    """A task that fails, and that cannot be undone."""

    name = "failing"

    def do(self, _: phases.Context) -> object:
        """Fail, with units held back."""
        error = HostError("it fails", what="file")
        error.consequence = HELD
        raise error

    def undo(self, _: phases.Context) -> object:
        """Fail, too."""
        raise HostError("the disk is full", what="file")


class UndoneTask(FailingTask):
    """A task that fails, and is undone."""

    def undo(self, _: phases.Context) -> object:
        """There is nothing to take back."""
        return None


def test_what_an_error_means_for_the_host_is_said_unless_the_run_is_undone() -> None:
    """After an undo that fails, the gate may still hold units back."""
    failed = run_task(FailingTask(), FakeHost(), undo_on_failure=True)
    assert HELD in "\n".join(failed.lines(done=""))
    undone = run_task(UndoneTask(), FakeHost(), undo_on_failure=True)
    assert HELD not in "\n".join(undone.lines(done=""))
