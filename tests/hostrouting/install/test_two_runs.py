"""Two agents at once: whatever the moment at which the second one runs, neither ends without its
check, and the host is as one of them wants it.
"""

from collections.abc import Callable

import pytest
from hypothesis import event, given, strategies as st

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.install.installed import read_installed
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.testing import FakeFiles, FakeHost, h200
from tests.support.sections import expect
from tests.support.tasks import LAYOUT, WANTED, context

ESCAPING = HostRoutingConfig(route_overlap=expect("172.16.0.0/16", mode="STRICT"))
"""In STRICT, and addresses escape."""
MOMENTS = 350
"""More than a run has looks at the host."""


class WatchedFiles(FakeFiles):
    """Files that count the looks at them while nobody has the lock; at one of these, something
    happens.
    """

    looks = 0
    moment = -1

    def happen(self) -> None:
        """Replaced by what happens."""

    def look(self, path: str) -> object:  # type: ignore[override]  # it returns what the other does
        """See Files."""
        self._count()
        return super().look(path)

    def read(self, path: str) -> str | None:
        """See Files."""
        self._count()
        return super().read(path)

    def names(self, folder: str) -> tuple[str, ...]:
        """See Files."""
        self._count()
        return super().names(folder)

    def _count(self) -> None:
        if LAYOUT.lock_path in self.locked:
            return
        self.looks += 1
        if self.looks == self.moment:
            self.happen()


def configure(config: HostRoutingConfig) -> Callable[[FakeHost], phases.Task[object]]:
    """The task that installs this configuration."""
    return lambda host: Configure(config, host=host)


TASKS: dict[str, Callable[[FakeHost], phases.Task[object]]] = {
    "escaping": configure(ESCAPING),
    "repaired": configure(WANTED),
    "removal": lambda host: Remove(host=host),
}


def report_of(task: phases.Task[object]) -> phases.Step:
    """The report of a run of this task, which has a context of its own."""
    return phases.run(task, ctx=context())


@given(
    before=st.sampled_from(sorted(TASKS)),
    first=st.sampled_from(sorted(TASKS)),
    second=st.sampled_from(sorted(TASKS)),
    moment=st.integers(1, MOMENTS),
)
def test_law(before: str, first: str, second: str, moment: int) -> None:
    """A run that finds addresses escaping fails, unless the other one has just repaired them, and
    the host is left whole.
    """
    files = WatchedFiles()
    host = FakeHost(kernel=h200(), files=files)
    report_of(TASKS[before](host))
    reports: list[phases.Step] = []
    files.looks = 0
    files.moment = moment
    files.happen = lambda: reports.append(report_of(TASKS[second](host)))  # type: ignore[method-assign]

    reports.append(report_of(TASKS[first](host)))
    files.moment = -1

    event(f"the second run: {len(reports) == 2}")
    names = [second, first][-len(reports) :]
    for name, report in zip(names, reports, strict=True):
        if name == "escaping" and "repaired" not in names:
            assert not report.ok, str(report)
    installed = read_installed(host)
    assert installed in {HostRoutingConfig(), ESCAPING, WANTED}
    assert Configure(installed, host=host).plan().is_empty, f"{installed}\n{reports}"


@pytest.mark.parametrize("moment", range(1, 5))
def test_a_run_that_installs_while_another_one_reads(moment: int) -> None:
    """config.json was missing a moment ago, and now the other files are there: it is read again."""
    files = WatchedFiles()
    host = FakeHost(kernel=h200(), files=files)
    files.looks = 0
    files.moment = moment
    reports: list[phases.Step] = []
    files.happen = lambda: reports.append(report_of(Configure(WANTED, host=host)))  # type: ignore[method-assign]
    assert read_installed(host) == WANTED


@pytest.mark.parametrize("moment", range(1, 40, 6))
def test_each_early_moment_on_a_new_host(moment: int) -> None:
    """Both agents want the same: also the one that has read before the other wrote checks."""
    files = WatchedFiles()
    host = FakeHost(kernel=h200(), files=files)
    reports: list[phases.Step] = []
    files.moment = moment
    files.happen = lambda: reports.append(report_of(Configure(ESCAPING, host=host)))  # type: ignore[method-assign]
    reports.append(report_of(Configure(ESCAPING, host=host)))
    assert len(reports) == 2
    for report in reports:
        assert "leaves through ib0" in str(report)
