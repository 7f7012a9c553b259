"""hostrouting.boot.gate_state: which files open the gate, and for how long."""

from datetime import datetime, timezone

import pytest

from hostrouting.boot.gate_state import Opening, opening_findings, openings_in_force, parse_openings, render_openings
from hostrouting.testing import FakeFiles, FakeHost
from tests.support.tasks import LAYOUT


def opened(until: int, *, mode: int = 0o600, modified: float | None = None) -> FakeHost:
    """A host whose gate is open until this second."""
    host, path = FakeHost(), LAYOUT.opening_path
    host.files.texts[path], host.files.modes[path] = f"{until} all root WHY\n", mode
    if modified is not None:
        host.files.times[path] = modified
    return host


def is_open(host: FakeHost, second: float) -> bool:
    """Whether the gate is open then; ValueError if the file does not count."""
    return bool(openings_in_force(host, datetime.fromtimestamp(second, timezone.utc)))


def test_only_root_can_write_it() -> None:
    """A file that others can write, or that is a program, does not open the gate."""
    good = []
    for mode in range(0o1000):
        try:
            good += [mode] * is_open(opened(100, mode=mode), 50)
        except ValueError as error:
            assert "only root" in str(error)  # noqa: PT017  most of them
    assert good == [0o400, 0o404, 0o440, 0o444, 0o600, 0o604, 0o640, 0o644]


def test_until_when() -> None:
    """It ends with its second; a file of the future, by this host's clock, does not count."""
    assert [is_open(opened(100), second) for second in (0, 99.9, 100)] == [True, True, False]
    assert is_open(opened(100, modified=50.9), 50.1)
    with pytest.raises(ValueError, match="newer than this host's clock"):
        is_open(opened(100, modified=51.0), 50.9)


def test_what_is_not_a_file() -> None:
    """A folder in its place is not a file that others can write: whether the gate is open is not known."""
    host = FakeHost(files=FakeFiles(strange={LAYOUT.opening_path: "a directory"}))
    (finding,) = opening_findings(host, datetime.fromtimestamp(50, timezone.utc))
    assert (finding.name, finding.target) == ("not-known", LAYOUT.opening_path)


@pytest.mark.parametrize(
    ("unit", "whose", "end"), [("all", "each gated unit", ""), ("a.service", "a.service", " --unit a.service")]
)
def test_in_words(unit: str, whose: str, end: str) -> None:
    """The finding names the units and the command for these alone; the line is read as it was written."""
    opening = Opening(100, unit, "root", "WHY")
    assert parse_openings(render_openings([opening])) == (opening,)
    told = f"{whose} may start unchecked until 1970-01-01T00:01:40Z; root opened the gate: WHY"
    remedy = f"to end this, run as root: hostrouting gate --close{end}"
    assert (opening.finding.sentence, opening.finding.remedy) == (told, remedy)


@pytest.mark.parametrize("until", ["99999999999", "0"])
def test_a_line(until: str) -> None:
    """The reason is the rest of the line."""
    assert parse_openings(f"{until} all root ?? in  here\n") == (Opening(int(until), "all", "root", "?? in  here"),)


@pytest.mark.parametrize(
    "line", ["", "x all root why", "100000000000 all root why", "٣ all root why", "1 all root", "1  root why"]
)
def test_another_line(line: str) -> None:
    """It is named, and no line counts."""
    with pytest.raises(ValueError, match="does not have the form UNTIL UNIT WHO WHY"):
        parse_openings(f"1 all root why\n{line}\n")
    host = opened(100)
    host.files.texts[LAYOUT.opening_path] += f"{line}\n"
    (finding,) = opening_findings(host, datetime.fromtimestamp(50, timezone.utc))
    assert (finding.name, finding.target) == ("edited-file", LAYOUT.opening_path)
