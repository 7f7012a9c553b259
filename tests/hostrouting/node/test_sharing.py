"""hostrouting.node.sharing: which start may use a pass that another one has made."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from hostrouting.boot.files import render_config
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.gate.start_note import read_note
from hostrouting.host.files import Entry, LocalFiles
from hostrouting.host.layout import HostLayout
from hostrouting.node import sharing
from hostrouting.node.sharing import PassResult, read_shared, share
from hostrouting.node.start import Start
from hostrouting.release import PASSED, REFUSED
from hostrouting.testing import FakeHost
from hostrouting.text import printable
from tests.support.node import UNIT, FakeLock, FakeNodeClock, OddFiles, node, wanting

ROOT = Path(__file__).resolve().parents[3]
PATH = HostLayout.result_path
CONFIG = '{\n\n"a": "text"}\n'
RESULT = PassResult(
    [UNIT, "a@.service"],
    lines=[(3, "OVERLAP: für"), (6, "…")],
    refuses=True,
    waits="what may come",
)
SINCE, BEGAN, NOW = 10.0, 12.0, 15.0


def shared_by(files: OddFiles) -> PassResult | None:
    """What a start that asked at SINCE can use."""
    return read_shared(files, CONFIG, since=SINCE, now=NOW)


@given(
    began=st.sampled_from([SINCE, BEGAN, NOW]),
    units=st.lists(st.sampled_from([UNIT, "a@.service"])),
    lines=st.lists(st.tuples(st.integers(3, 6), st.text().map(printable))),
    refuses=st.booleans(),
    waits=st.text().map(printable),
)
def test_a_pass_that_may_be_used(
    began: float, units: list[str], lines: list[tuple[int, str]], *, refuses: bool, waits: str
) -> None:
    """It began after the start asked for one, and read the same configuration: whoever uses it has
    all of it.
    """
    files = OddFiles()
    assert shared_by(files) is None
    result = PassResult(units, lines=lines, refuses=refuses, waits=waits)
    share(files, CONFIG, result, began=began)
    shared = shared_by(files)
    assert shared is not None
    assert vars(shared) == vars(result)


@pytest.mark.parametrize(
    ("config", "program", "began"),
    [
        (CONFIG, [1, 2, 3], SINCE - 0.001),  # what changed since then could be missing
        (CONFIG, [1, 2, 3], NOW + 0.001),  # of another boot
        (f"{CONFIG} ", [1, 2, 3], BEGAN),
        (CONFIG, [1, 2, 4], BEGAN),
        (CONFIG, [], BEGAN),
    ],
)
def test_a_pass_that_may_not_be_used(
    config: str, program: list[int], began: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is older, or was made with another configuration or program."""
    files = OddFiles()
    monkeypatch.setattr(sharing, "running_program", lambda: program)
    share(files, config, RESULT, began=began)
    monkeypatch.setattr(sharing, "running_program", lambda: [1, 2, 3])
    assert shared_by(files) is None


def test_a_file_that_others_can_write() -> None:
    """Nobody but root can say that a pass was made."""
    files = OddFiles()
    share(files, CONFIG, RESULT, began=BEGAN)
    files.odd[PATH] = Entry("file", 0o664)
    assert shared_by(files) is None


@pytest.mark.parametrize("change", [("12.0", "soon"), ("\n\n", "\n")])
def test_a_file_that_is_something_else(change: tuple[str, str]) -> None:
    """It is as if it was not there."""
    files = OddFiles()
    share(files, CONFIG, RESULT, began=BEGAN)
    files.texts[PATH] = files.texts[PATH].replace(*change)
    assert shared_by(files) is None
    files.texts[PATH] = ""
    assert shared_by(files) is None


# Two starts


def start(unit: str, host: FakeHost, clock: FakeNodeClock, lock: FakeLock) -> int:
    """The exit status of the gate."""
    return Start(unit, host.files, find_host=lambda: host, clock=clock, locked=lock).decide()


def passes(host: FakeHost) -> int:
    """How many passes starts have made: each leaves its result."""
    return host.files.writes.count(PATH)


BOTH = (UNIT, "a.service")
ONE = wanting(units=("a.service",), mode="WARN")


@pytest.mark.parametrize(
    ("config", "edit", "unit", "first", "second", "number"),
    [
        (wanting(units=BOTH, mode="WARN"), "", UNIT, PASSED, PASSED, 1),
        # The second start waits for the writer of another configuration.
        (wanting(units=BOTH, mode="WARN"), "\n", UNIT, PASSED, PASSED, 2),
        (wanting(units=BOTH), "", UNIT, REFUSED, REFUSED, 1),
        # The pass of another unit opens no gate that the configuration does not name.
        (ONE, "", "a.service", PASSED, PASSED, 1),
        (ONE, "", UNIT, PASSED, REFUSED, 1),
    ],
)
def test_a_start_that_waits_for_the_lock(
    config: HostRoutingConfig, edit: str, unit: str, first: int, second: int, *, number: int
) -> None:
    """It uses the pass that the start before it has made meanwhile. A refusal holds back whoever
    uses it, and is said again: each unit has its own journal.
    """
    host = node(config)
    clock = FakeNodeClock()

    def the_first_one() -> None:
        clock.sleep(0.5)
        assert start("a.service", host, clock, FakeLock()) == first
        clock.sleep(0.5)
        host.files.texts[HostLayout.config_path] = render_config(config) + edit

    assert start(unit, host, clock, FakeLock(the_first_one)) == second
    assert passes(host) == number
    if first == second == REFUSED:
        notes = [read_note(host.files, each) for each in BOTH]
        assert len({note and note.errors for note in notes}) == 1
        assert all(note and note.errors for note in notes)


SHARES = f"""\
import sys
from hostrouting.host.files import LocalFiles
from hostrouting.node.clock import MachineClock
from hostrouting.node.sharing import PassResult, share
from hostrouting.node.start import Start
from hostrouting.release import PASSED, REFUSED

files, clock = LocalFiles(sys.argv[1]), MachineClock()

class Locked:
    def __enter__(self):
        result = PassResult(["{UNIT}"], lines=[(6, "OK")], refuses=False, waits="")
        share(files, "the text", result, began=clock.now())
        return ""

    def __exit__(self, *_):
        pass

status = Start("{UNIT}", files, clock=clock, locked=Locked).decide()
print(status, *sys.modules)
"""


@pytest.mark.linux
def test_what_it_loads(tmp_path: Path) -> None:
    """Of hostrouting, what it needs; and of Python's library, nothing that takes longer to load
    than all of that.
    """
    LocalFiles(tmp_path).write(HostLayout.config_path, "the text")
    words = (sys.executable, "-S", "-c", SHARES, str(tmp_path))
    done = subprocess.run(
        words, capture_output=True, text=True, check=True, env={"INVOCATION_ID": "1f"}, cwd=ROOT
    )
    status, *modules = done.stdout.split()
    assert (int(status), done.stderr) == (PASSED, "<6>hostrouting: OK\n")
    assert {*modules}.isdisjoint({"typing", "re", "json", "enum", "contextlib", "collections"})
    ours = {name for name in modules if name.startswith("hostrouting.")}
    packages = {name.split(".")[1] for name in ours}
    assert packages == {"gate", "host", "node", "release", "text"}
    assert len(ours) < 25


def test_a_pass_before_a_script_has_ended() -> None:
    """The script may have changed the routing since."""
    host = node(wanting(units=(UNIT, "a.service"), mode="WARN"))
    clock = FakeNodeClock()

    def run(*words: str) -> int:
        del host.files.texts[words[0]]  # the other start has none
        clock.sleep(0.5)
        assert start("a.service", host, clock, FakeLock()) == PASSED
        clock.sleep(0.5)
        return 0

    host.files.texts[f"{HostLayout.gate_directory}/05-a.sh"] = ""
    lock = FakeLock()
    begun = Start(UNIT, host.files, find_host=lambda: host, clock=clock, locked=lock, run=run)
    assert begun.decide() == PASSED
    assert passes(host) == 2
