"""`apply`: what was changed, and how it ended."""

import errno
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from hostrouting.errors import FileError
from hostrouting.host.layout import HostLayout
from hostrouting.testing import FakeFiles, FakeHost, h200
from tests.support.cli import say

HALF = {"destination": "172.16.0.0/17"}
LAYOUT = HostLayout()
SCRIPT = LAYOUT.step_path(LAYOUT.routes_step)
UNIT = LAYOUT.machine_unit
DROP_IN = LAYOUT.drop_in_path(UNIT)
HELD = f"{UNIT} can start only once the steps of the gate succeed; see: hostrouting status"


def test_what_changed_is_said_after_the_progress(repaired: str) -> None:
    """Standard output has what changed and the proof; standard error has the progress."""
    said = say("apply", "--config", repaired, kernel=h200())
    assert said.code == 0
    assert said.lines[:6] == [
        "DONE: 2 routes added, 8 files written",
        "OK: every address of 172.16.0.0/16 leaves by eth0, or is this host's own",
        "",
        "  + 172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting    # add: missing",
        "  + 172.16.128.0/17 via 10.0.0.1 dev eth0 proto hostrouting    # add: missing",
        "  wrote /etc/hostrouting/config.json",
    ]
    assert "configure-static-routes completed" in said.err


def test_only_what_differs_is_written(repaired: str) -> None:
    """What plan says is what apply does and says, in the JSON too."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    host.files.modes[SCRIPT] = 0o644
    planned = say("plan", "--config", repaired, "--json", host=host).json["files"]
    done = say("apply", "--config", repaired, "--json", host=host).json["files"]
    assert done == planned == {"write": [SCRIPT], "remove": []}


@pytest.mark.parametrize(("mode", "code"), [("STRICT", 1), ("WARN", 0)])
def test_an_overlap_that_is_left(written: Callable[..., str], mode: str, code: int) -> None:
    """WARN passes and STRICT fails; both show the overlap, what was done, and the rest of the repair."""
    path = written(HALF, mode=mode)
    said = say("apply", "--config", path, kernel=h200())
    assert said.code == code
    assert "OVERLAP: a part of 172.16.0.0/16 leaves by ib0; expected: eth0" in said.lines[:2]
    assert "  ip route replace 172.16.128.0/17 proto 213 via 10.0.0.1 dev eth0" in said.lines
    assert f"  hostrouting repair --config {path} --as-config | hostrouting apply --config -" in said.lines
    assert f"  wrote {DROP_IN}" in said.lines
    assert (said.lines[-1] == HELD) is bool(code)


def test_what_a_repair_costs(written: Callable[..., str]) -> None:
    """In STRICT, the cost is on the page, and not in the log. Kills: the log has it, too."""
    said = say("apply", "--config", written(), kernel=h200())
    assert ("repair takes" in said.out, "repair takes" in said.err) == (True, False)
    assert "REPAIR-COST: the repair takes" in say("apply", "--config", written(mode="WARN"), kernel=h200()).err


def test_json(repaired: str, written: Callable[..., str]) -> None:
    """The JSON of a run that went well, and of one that did not."""
    good = say("apply", "--config", repaired, "--json", kernel=h200()).json
    assert (good["ok"], good["changed"], good["check"]["verdict"], good["failures"]) == (True, True, "ok", [])
    bad = say("apply", "--config", written(HALF), "--json", kernel=h200()).json
    assert (bad["ok"], bad["check"]["verdict"]) == (False, "overlap")
    [failure] = bad["failures"]
    assert (failure["task"], failure["error"]) == ("configure-host-routing/check-route-overlap", "RouteOverlapError")


class TestAfterAFailure:
    """The last line says whether a gated unit can start now."""

    def test_once_the_files_are_installed(self, written: Callable[..., str]) -> None:
        """A route that cannot be added holds units back, in WARN as well."""
        said = say("apply", "--config", written({"destination": "172.16.0.0/16"}, mode="WARN"), kernel=h200())
        assert (said.code, said.lines[-1]) == (1, HELD)

    @pytest.mark.parametrize("path", [DROP_IN, LAYOUT.gate_path])
    def test_while_they_are_not(self, repaired: str, path: str) -> None:
        """Without the drop-in, which is written last, a unit starts unchecked."""
        host = FakeHost(kernel=h200())
        host.files.broken[path] = "No space left on device"
        said = say("apply", "--config", repaired, host=host)
        sentence = (
            f"A gated unit that is started now is NOT held back: {DROP_IN} is missing, so {UNIT} starts unchecked"
        )
        assert (said.code, said.lines[-1]) == (1, f"{sentence}; correct this and apply again")

    def test_what_opens_the_gate_is_said_after_a_success(self, repaired: str) -> None:
        """Another drop-in that takes the gate away stays; the page and the JSON have it."""
        host = FakeHost(kernel=h200())
        host.files.texts[f"/etc/systemd/system/{UNIT}.d/50-x.conf"] = "ExecCondition=\n"
        said = say("apply", "--config", repaired, host=host)
        assert (said.code, said.lines[-1].partition(" starts ")[0]) == (0, f"GATE-OPEN: {UNIT}")
        assert say("apply", "--config", repaired, "--json", host=host).json["findings"][0]["name"] == "gate-open"

    def test_what_was_undone_was_not_changed(self, repaired: str) -> None:
        """Routes that were rolled back are not among the changes."""
        kernel = h200()
        kernel.faults.fail("change", errno.EINVAL, nth=2)
        before = str(kernel)
        document = say("apply", "--config", repaired, "--json", kernel=kernel).json
        assert str(kernel) == before
        assert (document["ok"], document["changed"], document["steps"]) == (False, True, [])


class Busy(FakeFiles):
    """Files that another run has locked; something happens once this run knows which one."""

    meanwhile: Callable[[], object]

    def holder(self, path: str) -> str:
        """See Files."""
        holder = super().holder(path)
        self.meanwhile()
        return holder


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_told_to_stop(repaired: str, number: signal.Signals) -> None:
    """A closed terminal, like Ctrl-C and SIGTERM, stops the run with nothing half done."""
    files = Busy()
    host = FakeHost(kernel=h200(), files=files)
    before = str(host.kernel)
    files.locked.add(host.layout.lock_path)
    files.meanwhile = lambda: os.kill(os.getpid(), number)
    said = say("apply", "--config", repaired, host=host)
    assert said.code == 128 + (signal.SIGTERM if number == signal.SIGHUP else number)
    assert said.lines[0].startswith("STOPPED:")
    assert str(host.kernel) == before
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL


@pytest.mark.parametrize(("number", "code"), [(errno.EACCES, 3), (errno.EROFS, 1)], ids=["nobody", "read-only"])
@pytest.mark.parametrize("words", [("apply", "--config", "FILE"), ("remove",)], ids=["apply", "remove"])
def test_where_nothing_may_be_changed(repaired: str, words: tuple[str, ...], number: int, code: int) -> None:
    """Without root, and on a read-only system, every changing command names the file and the reason, once."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    host.files.modes[SCRIPT] = 0o644
    words = tuple(word.replace("FILE", repaired) for word in words)
    problem = f"cannot lock {LAYOUT.lock_path}: {os.strerror(number)}"
    refused = FileError(problem, path=LAYOUT.lock_path, errno=number)
    with mock.patch.object(FakeFiles, "try_lock", side_effect=refused):
        said, document = (say(*words, *form, host=host) for form in ((), ("--json",)))
    assert (said.code, document.code, said.lines[0]) == (code, code, f"FAILED: {problem}")
    assert said.out.count("FAILED") == 1
    assert ("work without root" in said.out) is (number == errno.EACCES)
    assert [(failure["error"], failure["message"]) for failure in document.json["failures"]] == [("FileError", problem)]


def test_what_takes_protection_away(repaired: str, tmp_path: Path) -> None:
    """Apply refuses and changes nothing; plan says it first, in the same sentence; --allow-removal does it."""
    host, path = FakeHost(kernel=h200()), tmp_path / "less.json"
    say("apply", "--config", repaired, host=host)
    path.write_text(json.dumps({**json.loads(Path(repaired).read_text()), "routeOverlap": {}}))
    words, before = ("--config", str(path)), dict(host.files.texts)
    sentence = "routeOverlap.expectedCidrs: 172.16.0.0/16 would not be checked any more; write it into this file, or allow it: --allow-removal"
    planned = say("plan", *words, host=host)
    assert (planned.code, planned.lines[0]) == (1, "REFUSED: apply would change nothing")
    assert f"REMOVAL: {sentence}" in planned.lines
    assert "To apply it" not in planned.out
    document = say("plan", *words, "--json", host=host).json
    assert (document["answer"], document["findings"][0]["target"]) == ("refused", "routeOverlap.expectedCidrs")
    said = say("apply", *words, host=host)
    assert (said.code, said.lines) == (2, [f"FAILED: {sentence}"])
    assert host.files.texts == before
    planned = say("plan", *words, "--allow-removal", host=host)
    assert planned.lines[0].startswith("TO DO: ")
    assert planned.lines[-1].endswith(" --allow-removal")
    assert say("apply", *words, "--allow-removal", host=host).code == 0
    assert say("plan", *words, host=host).code == 0
