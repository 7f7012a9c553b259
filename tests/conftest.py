"""What holds for every test: no test reaches the host unless it says so, and CI allows no skip."""

import errno
import gc
import locale
import os
import signal
import socket
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress

import hypothesis
import pytest

from tests.support.needs import PATH, require
from tests.support.systemd import HOST_FOLDERS

# In CI the examples are the same every time, as Hypothesis's own profile for CI has it: what is
# found by chance is found at a desk, and in the long profile. More examples that are always the
# same would find nothing new.
CI = bool(os.environ.get("CI"))
# No test fails because the machine is busy: nothing has a deadline, and examples may be made
# slowly. Where CI is set, Hypothesis would make the same examples even in the long profile.
_PATIENT = hypothesis.settings(
    deadline=None, derandomize=False, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile(
    "default",
    _PATIENT,
    max_examples=15,  # the long profile looks for what is rare
    derandomize=CI,
    # A law that fails prints the example that it has found, at once. To seek a smaller one (to
    # shrink) takes minutes, above all where Linux is asked: the long profile does it.
    phases=set(hypothesis.Phase) - {hypothesis.Phase.shrink},
)
hypothesis.settings.register_profile("long", _PATIENT, max_examples=5_000)
# On an emulated processor: see tests/support/kernels.sh.
hypothesis.settings.register_profile("few", _PATIENT, max_examples=4)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Whoever runs the tests may have any locale, or none. Programs that a test starts, and the test
# that reads what they say, have this one; a test that is about another says so.
os.environ["LC_ALL"] = "C.UTF-8"
with suppress(locale.Error):
    locale.setlocale(locale.LC_ALL, "C.UTF-8")

os.environ["PATH"] = PATH

# Whoever runs the tests may have another package of our name there. A program that a test starts
# finds ours without it.
os.environ.pop("PYTHONPATH", None)

# nohup, and a shell that puts a job into the background, have its programs ignore these; the tests
# send them.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

_STARTS_A_PROCESS = {"subprocess.Popen", "os.fork", "os.forkpty"}
_STARTS_A_PROCESS |= {"os.posix_spawn", "os.exec", "os.system"}
_NAMES_A_FILE = {"open", "shutil.rmtree", "os.listdir", "os.scandir", "os.mkdir", "os.rmdir"}
_NAMES_A_FILE |= {"os.remove", "os.rename", "os.link", "os.symlink", "os.chmod", "os.chown"}
_NAMES_A_FILE |= {"os.truncate", "os.utime", "os.setxattr"}
_OF_THE_HOST = tuple(f"{folder}/" for folder in HOST_FOLDERS)
_MOUNTS = "/proc/self/ns/mnt"
_OUTSIDE = os.readlink(_MOUNTS) if sys.platform == "linux" else ""
_walled_in = threading.local()


def _wall(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook, which nothing removes: it sees every process, socket and file."""
    if event in _NAMES_A_FILE:
        # What a symbolic link contains is not looked at.
        for given in arguments[1:2] if event == "os.symlink" else arguments[:2]:
            path = os.fsdecode(given) if isinstance(given, str | bytes | os.PathLike) else ""
            # A child process that has entered a mount namespace of a test has other files under
            # these names.
            if f"{path}/".startswith(_OF_THE_HOST) and os.readlink(_MOUNTS) == _OUTSIDE:
                rule = f"a test tried to reach {path} of the host ({event}); use a private machine"
                raise PermissionError(errno.EPERM, rule)
        return
    if not getattr(_walled_in, "now", False):
        return
    if event in _STARTS_A_PROCESS:
        raise PermissionError(
            f"a unit test tried to start a process ({event}); mark it with pytest.mark.linux"
        )
    if event == "socket.__new__" and arguments[1] == getattr(socket, "AF_NETLINK", None):
        raise PermissionError("a unit test tried to speak netlink; mark it with pytest.mark.linux")


sys.addaudithook(_wall)


# Thousands of tests stay in memory until the end. A garbage collection that goes through all of
# them is a third of the processor time of a run: none is done while they are collected, and later
# ones leave them out.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave the collected tests out of every garbage collection."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that have no tier as unit tests, and put all in an order that keeps the
    processors busy to the end.
    """
    # Those that mostly wait, as all do that boot a system, are spread over the run, in an order
    # that is drawn by lot: each has others beside it. Unit tests come last: they never wait, so no
    # worker is left with a long test when the others have nothing to do.
    waiting: list[pytest.Item] = []
    on_linux: list[pytest.Item] = []
    units: list[pytest.Item] = []
    for item in items:
        if item.get_closest_marker("boot") or item.get_closest_marker("waits"):
            waiting.append(item)
        elif item.get_closest_marker("linux"):
            on_linux.append(item)
        else:
            item.add_marker("unit")
            units.append(item)
    waiting.sort(key=_by_lot)
    on_linux.sort(key=_by_lot)
    # A test with programs takes longer than three unit tests.
    groups = [[item] for item in on_linux]
    groups += [units[at : at + 3] for at in range(0, len(units), 3)]
    # The last tenth has none that waits.
    each = max(1, len(groups) * 9 // 10 // max(1, len(waiting)))
    items[:] = []
    for place, group in enumerate(groups):
        if place % each == 0 and waiting:
            items.append(waiting.pop(0))
        items += group
    items += waiting


def _by_lot(item: pytest.Item) -> int:
    """A place that is the same in each run, as all workers need it."""
    return zlib.crc32(item.nodeid.encode())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs what this machine lacks, before any of its fixtures is made."""
    names: list[str] = []
    for mark in item.iter_markers("needs"):
        names += mark.args
    require(*dict.fromkeys(names))


@pytest.fixture(autouse=True)
def no_way_to_the_host(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep a unit test from starting a process, and from netlink."""
    _walled_in.now = request.node.get_closest_marker("unit") is not None
    yield
    _walled_in.now = False


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Every test, not only those about threads, ends with the threads with which it began."""
    before = set(threading.enumerate())
    yield
    left = [
        thread.name
        for thread in threading.enumerate()
        if thread not in before and thread.is_alive()
    ]
    assert not left, f"threads that outlived their test: {left}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """If skipping is forbidden, a skip is a failure that says what was missing. Below a failure
    stands only the end of what was logged: a law has the logs of all of its examples.
    """
    report: pytest.TestReport = yield  # type: ignore[assignment]  # what the hook returns
    if report.failed:
        report.sections = [(title, _end_of(text)) for title, text in report.sections]
    if (
        os.environ.get("HOSTROUTING_FORBID_SKIPS")
        and report.skipped
        and not hasattr(report, "wasxfail")
    ):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, which this run forbids: {report.longrepr}"
    return report  # type: ignore[return-value]  # a wrapper hook returns what its hook does


def _end_of(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(lines[-40:])
