"""What the undo of a task takes back, and what it leaves."""

import pytest

import phases
from hostrouting.config.settings import MACHINES, GuardConfig, HostRoutingConfig
from hostrouting.errors import NotReady
from hostrouting.install.installed import read_installed
from hostrouting.install.results import CheckResult
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeHost, FakeKernel, h200
from tests.support.node import without_default
from tests.support.recorder import StubTask
from tests.support.tasks import (
    LAYOUT,
    WANTED,
    config,
    configured,
    context,
    failure_of,
    manager_of,
    ours,
    run,
    undo,
)

NOTHING = HostRoutingConfig()
FORMER = config("10.8.0.0/16")
OTHER = config("10.7.0.0/16")


def test_before_the_first_of_two_runs() -> None:
    """Another run has installed something else between them. An undo does not wait."""
    host = configured(FORMER)
    task = Configure(WANTED, host=host, allow_removal=True)
    run(task)
    run(Configure(OTHER, host=host, allow_removal=True))
    run(task)
    assert isinstance(undo(task), CheckResult)
    assert read_installed(host) == FORMER
    run(task)
    without_default(host.kernel)
    ctx = context()
    failure_of(phases.execute, phases.task("undo")(task.undo), ctx, of=NotReady)
    assert ctx.clock.now() == 0


def test_a_guard_that_had_nothing_left_to_guard() -> None:
    """It comes back with the section."""
    guarded = FORMER._replace(guard=GuardConfig(enabled=True))
    host = configured(guarded)
    task = ConfigureStaticRoutes(NOTHING, host=host, allow_removal=True)
    run(task)
    assert read_installed(host) == NOTHING
    undo(task)
    assert read_installed(host) == guarded


def test_a_gate_that_is_cancelled_since(caplog: pytest.LogCaptureFixture) -> None:
    """The configuration comes back all the same, in STRICT, too, and the undo warns."""
    host = configured(WANTED)
    task = Configure(WANTED._replace(guard=GuardConfig(enabled=True)), host=host)
    run(task)
    reset = f"{LAYOUT.unit_directory}/{MACHINES}.d/50.conf"
    host.files.texts[reset] = "[Service]\nExecCondition=\n"
    manager_of(host).reload()
    undo(task)
    assert read_installed(host) == WANTED
    assert caplog.text.count("starts unchecked") == 1
    assert "that is undone" in str(undo(task))


def test_what_cannot_be_read() -> None:
    """Undo fails, because that is what it would bring back."""
    host = configured(FORMER)
    host.files.texts[LAYOUT.config_path] = "{"
    task = Configure(OTHER, host=host, allow_removal=True)
    run(task)
    failure_of(undo, task, match="what was installed before could not be read")
    assert read_installed(host) == OTHER


def test_a_run_that_was_tried_again() -> None:
    """What was there before the first attempt comes back."""
    host = FakeHost(kernel=FakeKernel())  # without a default route
    task = phases.retry(Configure(WANTED, host=host, wait=0), delay=0)
    assert "3 attempts" in str(phases.run(task, undo_on_failure=True))
    assert read_installed(host) == NOTHING


def test_a_run_that_changed_nothing() -> None:
    """Nothing of an earlier run is taken back if the next task fails."""
    host = FakeHost(kernel=h200())
    task = Configure(WANTED, host=host)
    run(task)
    installed = dict(host.files.texts)
    both = phases.serial(task, StubTask("x", errors=[OSError(), OSError()]), name="all")
    assert not phases.run(both, undo_on_failure=True).ok
    assert host.files.texts == installed
    assert len(ours(host)) == 2
    again = Configure(WANTED, host=host)
    run(again)
    assert "it has changed nothing" in str(undo(again))

    host.files.remove(LAYOUT.python_path)  # the next run puts it back, and is undone alone
    assert not phases.run(both, undo_on_failure=True).ok
    assert read_installed(host) == WANTED
    undo(task)
    assert read_installed(host) == NOTHING
