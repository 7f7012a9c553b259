"""hostrouting.node.sharing: which start may use a pass that another one has made."""

import json
from typing import Any

import pytest

from hostrouting.boot.files import render_config
from hostrouting.host.files import Entry
from hostrouting.host.layout import HostLayout
from hostrouting.node import PASSED, REFUSED
from hostrouting.node.sharing import PassKey, PassResult, read_shared, share
from hostrouting.node.start import Start
from hostrouting.testing import FakeHost
from tests.support.node import UNIT, FakeLock, FakeNodeClock, OddFiles, node, wanting

PATH = HostLayout.result_path
KEY = PassKey("the text", [1, 2, 3])
RESULT = PassResult((UNIT, "a@.service"), ((3, "OVERLAP: für"), (6, "…")), True, "what may come")
SINCE, BEGAN, NOW = 10.0, 12.0, 15.0


def shared_by(files: OddFiles) -> PassResult | None:
    """What a start that asked at SINCE can use."""
    return read_shared(files, KEY, since=SINCE, now=NOW)


@pytest.mark.parametrize("began", [SINCE, BEGAN, NOW])
def test_a_pass_that_may_be_used(began: float) -> None:
    """It began after the start asked for one, and read the same configuration. It says the same to
    whoever uses it.
    """
    files = OddFiles()
    assert shared_by(files) is None
    share(files, KEY, RESULT, began=began)
    assert shared_by(files) == RESULT


@pytest.mark.parametrize(
    ("key", "began"),
    [
        (KEY, SINCE - 0.001),  # what changed since then could be missing
        (KEY, NOW + 0.001),  # of another boot
        (KEY._replace(config="the text "), BEGAN),
        (KEY._replace(program=[1, 2, 4]), BEGAN),
        (KEY._replace(program=[]), BEGAN),
    ],
)
def test_a_pass_that_may_not_be_used(key: PassKey, began: float) -> None:
    """It is older, or was made with another configuration or program."""
    files = OddFiles()
    share(files, key, RESULT, began=began)
    assert shared_by(files) is None


@pytest.mark.parametrize(
    "entry",
    [
        Entry("file", 0o664),
        Entry("file", 0o646),
        Entry("file", 0o644, is_trusted=False),
        Entry("directory", 0o755),
    ],
    ids=repr,
)
def test_a_file_that_others_can_write(entry: Entry) -> None:
    """Nobody but root can say that a pass was made."""
    files = OddFiles()
    share(files, KEY, RESULT, began=BEGAN)
    files.odd[PATH] = entry
    assert shared_by(files) is None


def test_a_link() -> None:
    """It is not followed."""
    files = OddFiles()
    share(files, KEY, RESULT, began=BEGAN)
    files.texts["/elsewhere"] = files.texts.pop(PATH)
    files.links[PATH] = "/elsewhere"
    assert shared_by(files) is None


def without(key: str) -> str:
    """The file without this key."""
    document: dict[str, Any] = {"began": BEGAN, **KEY._asdict(), **RESULT._asdict()}
    del document[key]
    return json.dumps(document)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}",
        "[]",
        "null",
        '"began"',
        *map(without, ["began", "config", "lines", "refuses"]),
    ],
)
def test_a_file_that_is_something_else(text: str) -> None:
    """It is as if it was not there."""
    assert shared_by(OddFiles({PATH: text})) is None


def test_a_full_run() -> None:
    """A result that cannot be left costs the others a pass each."""
    files = OddFiles(broken={PATH: "no space left"})
    share(files, KEY, RESULT, began=BEGAN)
    assert shared_by(files) is None


# Two starts


def start(unit: str, host: FakeHost, clock: FakeNodeClock, lock: FakeLock) -> int:
    """The exit status of the gate."""
    return Start(unit, host, clock=clock, locked=lock).decide()


def passes(host: FakeHost) -> int:
    """How many passes starts have made: each leaves its result."""
    return host.files.writes.count(PATH)


@pytest.mark.parametrize(
    ("edit", "number"),
    [
        ("", 1),
        ("\n", 2),  # the second start waits for the writer of another configuration
    ],
)
def test_a_start_that_waits_for_the_lock(edit: str, number: int) -> None:
    """It uses the pass that the start before it has made meanwhile."""
    config = wanting(units=(UNIT, "a.service"), mode="WARN")
    host = node(config)
    clock = FakeNodeClock()

    def the_first_one() -> None:
        clock.sleep(0.5)
        assert start("a.service", host, clock, FakeLock()) == PASSED
        clock.sleep(0.5)
        host.files.texts[HostLayout.config_path] = render_config(config) + edit

    assert start(UNIT, host, clock, FakeLock(the_first_one)) == PASSED
    assert passes(host) == number


def test_a_start_that_comes_later() -> None:
    """It makes a pass of its own: the routing may have changed since."""
    host = node(wanting(mode="WARN"))
    clock = FakeNodeClock()
    assert start(UNIT, host, clock, FakeLock()) == PASSED
    clock.sleep(0.001)
    assert start(UNIT, host, clock, FakeLock()) == PASSED
    assert passes(host) == 2


def test_a_shared_refusal() -> None:
    """It holds back whoever uses it, and is said again: each unit has its own journal."""
    host = node(wanting(units=(UNIT, "a.service")))
    clock = FakeNodeClock()

    def the_first_one() -> None:
        clock.sleep(0.5)
        assert start("a.service", host, clock, FakeLock()) == REFUSED

    assert start(UNIT, host, clock, FakeLock(the_first_one)) == REFUSED
    assert passes(host) == 1
    first, second = (host.files.texts[HostLayout.note_path(unit)] for unit in (UNIT, "a.service"))
    assert json.loads(first)["errors"] == json.loads(second)["errors"] != []


@pytest.mark.parametrize(("unit", "status"), [("a.service", PASSED), (UNIT, REFUSED)])
def test_a_shared_pass_that_does_not_gate_the_unit(unit: str, status: int) -> None:
    """The pass of another unit opens no gate that the configuration does not name."""
    host = node(wanting(units=("a.service",), mode="WARN"))
    clock = FakeNodeClock()

    def the_first_one() -> None:
        clock.sleep(0.5)
        assert start("a.service", host, clock, FakeLock()) == PASSED

    assert start(unit, host, clock, FakeLock(the_first_one)) == status
    assert passes(host) == 1
