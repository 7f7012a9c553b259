# ruff: noqa: S101  assert is how a contract speaks
"""The contract of a task: what `check_task` proves about a subclass of HostTask, on hosts in memory.

Here: the suite, and a run that is killed. Not here: what a task has to do (`hostrouting.tasks.base`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import attrs

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.effects import Effects, effects_of
from hostrouting.host.files import SETTINGS
from hostrouting.host.layout import HostLayout
from hostrouting.tasks.configure import TASKS, Configure, Remove
from hostrouting.testing.host import FakeFiles, FakeHost
from phases.testing import FakeClock

if TYPE_CHECKING:
    from hostrouting.tasks.base import HostTask
    from hostrouting.tasks.results import Change

_MOST = 500  # effects of one run
_IMAGE = "/image"


class _Killed(BaseException):
    """The run is killed at this moment."""


class _Fuse(list[str]):
    """Kills the run just before its nth effect. The manager's calls are appended before they take effect."""

    def __init__(self, host: FakeHost) -> None:
        """Count the effects on all edges of the host; none kills before `left` is set."""
        super().__init__()
        self.left = 0
        if host.manager is not None:
            host.manager.calls = self
        for edge in (host.tables, host.bridge_rules, host.neighbours):
            self._arm(edge.meanwhile)
        self._arm(lambda burn: host.kernel.faults.meanwhile("change", burn))

    def append(self, call: str) -> None:
        """Record the call, and count it."""
        super().append(call)
        self.burn()

    def burn(self) -> None:
        """Count one more effect."""
        self.left -= 1
        if self.left == 0:
            raise _Killed

    def _arm(self, arm: Callable[[Callable[[], None]], object]) -> None:
        """Count each call of an edge; each call disarms it."""

        def burn() -> None:
            arm(burn)
            self.burn()

        arm(burn)


@attrs.define(kw_only=True)
class _Files(FakeFiles):
    """Files whose changes burn a fuse."""

    burn: Callable[[], None]

    def write(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        if not self.holds(path, text, mode=mode):
            self.burn()
        return super().write(path, text, mode=mode)

    def link(self, path: str, target: str) -> bool:
        if not self.leads(path, target):
            self.burn()
        return super().link(path, target)

    def remove(self, path: str) -> bool:
        if self.is_there(path):
            self.burn()
        return super().remove(path)


@attrs.frozen
class _Suite:
    task: type[HostTask[Any]]
    config: HostRoutingConfig
    make: Callable[[], FakeHost]

    def do(self, host: FakeHost, config: HostRoutingConfig | None = None) -> Effects:
        report = phases.run(self.configure(host, config), clock=FakeClock(), observers=[])
        assert report.ok, f"the task fails: {report}"
        return sum((effects_of(node.result) for node in report.walk()), Effects())

    def configure(self, host: FakeHost, config: HostRoutingConfig | None = None) -> Configure:
        return Configure(self.config if config is None else config, host=host, tasks=(self.task,))

    def install(self, host: FakeHost) -> None:
        phases.execute(self.configure(host), _context())

    def remove(self, host: FakeHost) -> None:
        phases.execute(Remove(self.config, host=host, tasks=(self.task,)), _context())

    def done(self) -> FakeHost:
        host = self.make()
        self.do(host)
        return host

    def check_its_name(self) -> None:
        node = self.make()
        others = [other for other in TASKS if other is not self.task]
        parts = {other(HostRoutingConfig(), host=node).part.name: other.__name__ for other in others}
        name = self.task(self.config, host=node).part.name
        assert name not in parts, f"the part {name} is that of {parts[name]}; give yours another name"

    def check_the_plan(self) -> None:
        host = self.make()
        before, planned = _state(host), self.configure(host).preview()
        assert not planned.is_empty, "the configuration does not ask for the task: give one that does"
        assert _state(host) == before, f"a dry run has changed the host: {_unlike(host, before)}"
        written = self.do(host)
        is_new = _state(self.make()) == before
        assert is_new, "host= does not make a new host each time: what one run has changed is in the next one"
        assert _words(planned) == [*map(str, written.operations)], "the run has done other operations than planned"
        paths = {*planned.files.writes, *planned.files.removes}
        assert paths == set(written.files), "the run has changed other files than planned"
        again = self.configure(host).preview()
        assert again.is_empty, f"after a run, there is still something to do: {again}"

    def check_again(self) -> None:
        host = self.done()
        before = _state(host)
        assert self.do(host) == Effects(), "a second run changes something"
        assert _state(host) == before, f"a second run changes something and does not say so: {_unlike(host, before)}"

    def check_the_end(self) -> None:
        before = _state(self.make())
        ways: dict[str, Callable[[FakeHost], object]] = {
            "Remove": self.remove,
            "undo": lambda host: phases.undo(self.configure(host), _context()),
            "the empty configuration": lambda host: self.do(host, HostRoutingConfig()),
        }
        for name, leave in ways.items():
            host = self.done()
            leave(host)
            assert _state(host) == before, f"{name} leaves something on the host: {_unlike(host, before)}"

    def check_kills(self) -> None:
        before, after = _state(self.make()), _state(self.done())
        for nth in count(1):
            assert nth < _MOST, "the run does not end"
            if not self.is_killed(host := self.make(), nth, self.install):
                break
            other = self.make()
            self.is_killed(other, nth, self.install)
            self.do(host)
            told = f"after a kill before its effect {nth}"
            assert _state(host) == after, f"{told}, another run does not finish the work: {_unlike(host, after)}"
            self.remove(other)
            assert _state(other) == before, f"{told}, Remove leaves something on the host: {_unlike(other, before)}"
        for nth in count(1):
            if not self.is_killed(host := self.done(), nth, self.remove):
                break
            self.remove(host)
            told = f"after a kill of Remove before its effect {nth}, another leaves something"
            assert _state(host) == before, f"{told}: {_unlike(host, before)}"

    def is_killed(self, host: FakeHost, nth: int, act: Callable[[FakeHost], object]) -> bool:
        fuse = _Fuse(host)
        shared = {field.name: getattr(host.files, field.name) for field in attrs.fields(FakeFiles) if field.init}
        fragile = _Files(**shared, burn=fuse.burn)
        fuse.left = nth
        try:
            act(attrs.evolve(host, files=fragile))
        except _Killed:
            return True
        finally:
            fuse.left = 0
            host.files.locked.clear()
        return False

    def check_the_image(self) -> None:
        host = attrs.evolve(self.make(), backend=None, manager=None, layout=HostLayout(root=_IMAGE))
        before, kernel = dict(host.files.texts), str(host.kernel)
        self.do(host)
        written = [path for path, text in host.files.texts.items() if before.get(path) != text]
        assert written, "nothing is installed in an image"
        assert all(path.startswith(_IMAGE) for path in written), "a file is written outside of the image"
        assert str(host.kernel) == kernel, "an image has no kernel, and this one was changed"

    def check_the_guard(self) -> None:
        """Require that the guard brings lost work back: what a boot without the script loses, and its settings."""
        host = self.done()
        lost, after, ctx = self.make(), _state(host), _context()
        host.files.texts |= {path: text for path, text in lost.files.texts.items() if path.startswith(SETTINGS)}
        lost = attrs.evolve(lost, files=host.files, manager=host.manager)
        task = self.task(self.config, host=lost)
        assert not task.keep(ctx, lambda _: False).repairs, "the guard repairs what it may not repair now"
        task.keep(ctx, lambda _: True)
        assert _state(lost) == after, f"the guard does not repair what was lost: {_unlike(lost, after)}"
        assert not task.keep(ctx, lambda _: True).repairs, "the guard repairs something that was right"
        assert not [found for found in task.findings() if found.severity == "error"], (
            "findings() has an error although all is right"
        )


def check_task(
    task: type[HostTask[Any]], config: HostRoutingConfig, *, host: Callable[[], FakeHost] = FakeHost
) -> None:
    """Assert that a task keeps the promises of HostTask, with a configuration that asks for it.

    Its part has its own name. A dry run changes nothing, and a run does what it said. A second run changes nothing.
    Remove, undo and the empty configuration leave the host as it was. A run that is killed before any of its effects
    can be finished by another, and removed; a Remove that is killed, by another. In an image, only files are written,
    below its root. The guard repairs what was lost, in the kernel and in its settings, and nothing else.
    `host` makes a new host in memory at each call, on which the task can succeed.
    """
    suite = _Suite(task, config, host)
    suite.check_its_name()
    suite.check_the_plan()
    suite.check_again()
    suite.check_the_end()
    suite.check_the_image()
    suite.check_the_guard()
    suite.check_kills()


def _context() -> phases.Context:
    return phases.Context(clock=FakeClock(), observers=[])


def _words(planned: Change) -> list[str]:
    return [*map(str, planned.operations)]


def _state(host: FakeHost) -> set[tuple[object, object]]:
    """The kernel, and the files that outlive the boot: each thing with its value."""
    passing = host.layout.at("/run/")
    files = {**host.files.texts, **host.files.links}
    now = host.kernel.reopen().snapshot()
    filters = {
        "the tables of nftables": str(host.tables),
        "the rules of ebtables": str(host.bridge_rules),
        "the neighbours": str([*map(str, host.neighbours.neighbours)]),
    }
    lasting = {path: value for path, value in files.items() if not path.startswith(passing) or path in host.files.links}
    return {*lasting.items(), *((thing, "") for thing in (*now.rules, *now.routes)), *filters.items()}


def _unlike(host: FakeHost, wanted: set[tuple[object, object]]) -> str:
    """What differs on the host from what is wanted."""
    return ", ".join(sorted({str(thing) for thing, _ in _state(host) ^ wanted}))
