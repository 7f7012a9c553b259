"""A task is one room: another one is its own module, which is this one, and one line in the tuple of tasks."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import attrs
import pytest

import phases
from hostrouting.boot import GateStep
from hostrouting.boot.gate import Gate, Part
from hostrouting.host.fileset import File, FileSet
from hostrouting.tasks import configure
from hostrouting.tasks.base import HostTask
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.results import Change
from hostrouting.testing import FakeHost, h200
from tests.support.cli import say
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config, run

SCRIPT = f"{LAYOUT.config_directory}/greeting.sh"


@attrs.frozen
class Greeted:
    """What Greet did."""

    files: tuple[str, ...]

    def log_fields(self) -> dict[str, object]:
        """A word for the log."""
        return {"greeting": "hello"}


@attrs.frozen
class Greet(HostTask[Greeted]):
    """A task that every machine waits for where there are static routes."""

    name: ClassVar[str] = "greet"
    nothing: ClassVar[str] = "nobody is to be greeted"

    @property
    def part(self) -> Part:
        """One script, between the routes and the check."""
        path = self.host.layout.at(SCRIPT)
        return Part(GateStep(55, "requires", "greeting"), FileSet((File(path, "exit 0\n", 0o755),)), "greeting.service")

    @property
    def is_wanted(self) -> bool:
        """With static routes."""
        return self.config.static_routes.enabled

    def look(self, *, up: bool) -> Change:  # noqa: ARG002  its files are all there is to it
        """Nothing but files."""
        return Change()

    def install(self, _ctx: phases.Context, changed: tuple[str, ...]) -> Greeted:
        """Greet."""
        return Greeted(changed)

    def remove(self, _ctx: phases.Context, changed: tuple[str, ...]) -> Greeted:
        """Nothing has to be undone."""
        return Greeted(changed)


@pytest.fixture(autouse=True)
def third(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line."""
    monkeypatch.setattr(configure, "TASKS", (*configure.TASKS, Greet))


def test_configure_and_remove() -> None:
    """Configure puts it up behind the gate, in the order of the ranks, and runs it; Remove takes all of it away."""
    host = FakeHost(kernel=h200())
    wanted = config(*REPAIR, cidrs=(CIDR,))
    report = phases.run(Configure(wanted, host=host), observers=[])
    assert "greeting=hello" in str(report)
    assert [str(step) for step in Gate(host).steps] == [
        "50 requires static-routes",
        "55 requires greeting",
        "60 requires check-route-overlap",
    ]
    assert SCRIPT in host.files.texts
    assert Configure(wanted, host=host).preview().is_empty
    run(Configure(config(cidrs=(REPAIR[0],), mode="WARN"), host=host))
    assert [step.name for step in Gate(host).steps] == ["check-route-overlap"]
    assert SCRIPT not in host.files.texts
    run(Configure(wanted, host=host))
    run(Remove(wanted, host=host))
    assert host.files.texts == {}


def test_the_command_line(tmp_path: Path) -> None:
    """Plan, apply, status, render and remove know it, without a word of it in them."""
    host, repaired = FakeHost(kernel=h200()), str(tmp_path / "config.json")
    Path(repaired).write_text(config(*REPAIR, cidrs=(CIDR,)).to_json())
    for verb in (("plan", "--config", repaired), ("apply", "--config", repaired), ("status",), ("remove",)):
        assert SCRIPT in say(*verb, host=host).out, verb
    root = tmp_path / "image"
    root.mkdir()
    assert SCRIPT in say("render", "--config", repaired, "--root", str(root)).out


def test_alone() -> None:
    """Run alone, it adds its step and leaves those of others."""
    host = FakeHost(kernel=h200())
    run(Configure(config(cidrs=(REPAIR[0],), mode="WARN"), host=host))
    run(Greet(config(*REPAIR), host=host))
    assert [step.name for step in Gate(host).steps] == ["greeting", "check-route-overlap"]
    assert run(Greet(config(), host=FakeHost())) == phases.Skip("nobody is to be greeted")
