"""`apply`: what was changed, and how it ended."""

import errno
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import attrs
import pytest

from hostrouting.errors import FileError
from hostrouting.host.layout import HostLayout
from hostrouting.testing import FakeFiles, FakeHost, FakeManager, h200
from tests.support.cli import say

HALF = {"destination": "172.16.0.0/17"}
SCRIPT = "/etc/hostrouting/static-routes.sh"
LAYOUT = HostLayout()


def test_what_changed_is_said_after_the_progress(repaired: str) -> None:
    """Standard output has what changed and the proof; standard error has the progress."""
    said = say("apply", "--config", repaired, kernel=h200())
    assert said.code == 0
    assert said.lines[:6] == [
        "DONE: 2 routes added, 10 files written",
        "OK: every address of 172.16.0.0/16 leaves by eth0, or belongs to this host",
        "",
        "  + 172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting    # add: it does not exist",
        "  + 172.16.128.0/17 via 10.0.0.1 dev eth0 proto hostrouting    # add: it does not exist",
        "  wrote /etc/hostrouting/host-routing-gate.conf",
    ]


def test_a_program_that_the_guard_cannot_run(repaired: str, tmp_path: Path) -> None:
    """The faults of a refused configuration are printed once, and nothing about gated units: nothing was changed."""
    host = attrs.evolve(FakeHost(kernel=h200()), own_program=lambda: "/tmp/v/bin/hostrouting")  # noqa: S108
    say("apply", "--config", repaired, host=host)
    path = tmp_path / "guarded.json"
    path.write_text(json.dumps({**json.loads(Path(repaired).read_text()), "guard": {"enabled": True}}))
    said = say("apply", "--config", str(path), host=host)
    assert (said.code, len(said.lines)) == (2, 1)
    told = (
        'FAILED: guard.program: by default, it is the program of this Python, "/tmp/v/bin/hostrouting", which is in a '
    )
    assert said.lines[0].startswith(told)
    assert (said.out + said.err).count("a directory for temporary files") == 1


@pytest.mark.parametrize("before", [(HALF,), ()])
def test_routes_that_cannot_be_added(written: Callable[..., str], before: tuple[dict[str, str], ...]) -> None:
    """The last line says that starts are still checked."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", written(*before, mode="WARN"), host=host)
    said = say("apply", "--config", written({"destination": "172.16.0.0/16"}, mode="WARN"), host=host)
    assert said.code == 1
    assert said.lines[-1].startswith("Each start of systemd-nspawn@.service is still checked; ")


def test_what_was_written_in_passing(repaired: str) -> None:
    """A file that says at the end what it said before is not said to have been written, nor one made and removed again."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    host.files.modes[SCRIPT] = 0o644
    planned = say("plan", "--config", repaired, "--json", host=host).json["files"]
    assert LAYOUT.gate_steps_path not in planned["write"]
    done = say("apply", "--config", repaired, "--json", host=host).json["files"]
    assert done == {"write": planned["write"], "remove": planned["remove"]} == {"write": [SCRIPT], "remove": []}
    gone = say("remove", "--json", host=host).json["files"]
    assert LAYOUT.gate_steps_path in gone["remove"]


@pytest.mark.parametrize(("mode", "code"), [("STRICT", 1), ("WARN", 0)])
def test_an_overlap_that_is_left(written: Callable[..., str], mode: str, code: int) -> None:
    """WARN passes and STRICT fails; both show the overlap, what was done, and the rest of the repair."""
    said = say("apply", "--config", written(HALF, mode=mode), kernel=h200())
    assert said.code == code
    assert "OVERLAP: a part of 172.16.0.0/16 leaves by ib0, not by eth0" in said.lines[:2]
    assert '    {"destination": "172.16.128.0/17", "gateway": "", "dev": "", "metric": 0}' in said.lines
    assert "  wrote /etc/systemd/system/systemd-nspawn@.service.d/00-host-routing.conf" in said.lines
    assert ("The mode is STRICT: systemd-nspawn@.service cannot start until the check passes." in said.lines) is bool(
        code
    )


def test_what_a_repair_costs(written: Callable[..., str]) -> None:
    """In STRICT, the cost is on the page, and not in the log. Kills: the log has it, too."""
    said = say("apply", "--config", written(), kernel=h200())
    assert ("repair diverts" in said.out, "repair diverts" in said.err) == (True, False)
    assert "REPAIR-COST: the repair diverts" in say("apply", "--config", written(mode="WARN"), kernel=h200()).err


def test_json(repaired: str, written: Callable[..., str]) -> None:
    """The JSON of a run that went well, and of one that did not."""
    good = say("apply", "--config", repaired, "--json", kernel=h200()).json
    assert (good["ok"], good["changed"], good["check"]["verdict"], good["failures"]) == (True, True, "ok", [])
    bad = say("apply", "--config", written(HALF), "--json", kernel=h200()).json
    assert (bad["ok"], bad["check"]["verdict"]) == (False, "overlap")
    [failure] = bad["failures"]
    assert (failure["task"], failure["error"]) == ("configure/check-route-overlap", "RouteOverlapError")


class Busy(FakeFiles):
    """Files that another run has locked; something happens once this run knows which one."""

    meanwhile: Callable[[], object]

    def holder(self, path: str) -> str:
        """See Files."""
        found = super().holder(path)
        self.meanwhile()
        return found


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
@pytest.mark.parametrize("command", ["apply", "remove"])
def test_where_nothing_may_be_changed(repaired: str, command: str, number: int, code: int) -> None:
    """Without root, and on a read-only system, every changing command names the file and the reason, once."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    problem = f"cannot lock {LAYOUT.lock_path}: {os.strerror(number)}"
    refused = FileError(problem, path=LAYOUT.lock_path, errno=number)
    with mock.patch.object(FakeFiles, "try_lock", side_effect=refused):
        said, told = (say(command, "--config", repaired, *form, host=host) for form in ((), ("--json",)))
    assert (said.code, told.code, said.lines[0]) == (code, code, f"FAILED: {problem}")
    assert said.out.count("FAILED") == 1
    assert ("work without root" in said.out) is (number == errno.EACCES)
    assert {(failure["error"], failure["message"]) for failure in told.json["failures"]} == {("FileError", problem)}


def test_what_was_changed_before_it_failed(repaired: str) -> None:
    """Routes that are in the kernel after a run that failed are said to have been added, in the JSON too."""
    host = FakeHost(kernel=h200(), manager=FakeManager(failing={"static-routes.service": ("no gateway",)}))
    said = say("apply", "--config", repaired, host=host)
    assert said.lines[0].startswith("FAILED: static-routes.service failed")
    assert "What it has changed before it failed:" in said.lines
    assert "  + 172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting    # add: it did not exist" in said.lines
    host = FakeHost(kernel=h200(), manager=FakeManager(failing={"static-routes.service": ("no gateway",)}))
    document = say("apply", "--config", repaired, "--json", host=host).json
    assert (document["ok"], document["changed"]) == (False, True)
    assert [step["action"] for step in document["steps"]] == ["add", "add"]


def test_what_was_undone_was_not_changed(repaired: str) -> None:
    """Routes that were rolled back are not among the changes."""
    kernel = h200()
    kernel.faults.fail("change", errno.EINVAL, nth=2)
    before = str(kernel)
    document = say("apply", "--config", repaired, "--json", kernel=kernel).json
    assert str(kernel) == before
    assert (document["ok"], document["steps"]) == (False, [])


GUARD = {"guard": {"enabled": True, "program": "/opt/agent/bin/hostrouting"}}


@pytest.mark.parametrize(
    ("change", "path", "what"),
    [
        (
            {"routeOverlap": {}, "staticRoutes": {}, "guard": {}},
            "routeOverlap",
            "nothing in this configuration needs the gate, so the gate would be removed,",
        ),
        ({"routeOverlap": {}}, "routeOverlap", "installed, but not in this configuration: the check of 172.16.0.0/16"),
        (
            {"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"]}},
            "routeOverlap.mode",
            "the mode changes from STRICT to",
        ),
        (
            {"routeOverlap": {"expectedCidrs": ["10.50.0.0/16"], "mode": "STRICT"}},
            "routeOverlap.expectedCidrs",
            "no longer checked: 172.16.0.0/16",
        ),
        ({"guard": {}}, "guard", "installed, but not in this configuration: the guard"),
        (
            {"gate": {"units": ["kubelet.service"]}},
            "gate.units",
            "systemd-nspawn@.service is gated now, but not by this",
        ),
    ],
    ids=["all", "check", "mode", "cidrs", "guard", "units"],
)
def test_what_takes_protection_away(
    repaired: str, tmp_path: Path, change: dict[str, object], path: str, what: str
) -> None:
    """Apply refuses and changes nothing; plan says it first, in the same sentence; --allow-removal does it, and logs it."""
    host = FakeHost(kernel=h200())
    full, less = {**json.loads(Path(repaired).read_text()), **GUARD}, tmp_path / "less.json"
    less.write_text(json.dumps(full))
    assert say("apply", "--config", str(less), host=host).code == 0
    less.write_text(json.dumps({**full, **change}))
    before = dict(host.files.texts)
    planned = say("plan", "--config", str(less), host=host)
    named = "REMOVAL: "
    [told] = [text.removeprefix(named) for text in planned.lines if text.startswith(f"{named}{path}: {what}")]
    assert told.endswith(
        "or allow this with --allow-removal (in Python allow_removal=True); to remove everything: hostrouting remove"
    )
    assert planned.lines[0] == "REFUSED: apply would change nothing"
    assert "To apply it" not in planned.out
    document = say("plan", "--config", str(less), "--json", host=host).json
    removals = [finding for finding in document["findings"] if finding["name"] == "removal"]
    refused = [finding for finding in removals if finding["severity"] == "error"]
    assert (document["answer"], path in [finding["target"] for finding in refused]) == ("refused", True)
    said = say("apply", "--config", str(less), host=host)
    assert said.code == 2
    assert said.lines[0].startswith("FAILED: ")
    assert told in said.out
    assert said.out.count("routeOverlap: ") <= 1, "the gate and its check are one line"
    assert host.files.texts == before
    planned = say("plan", "--config", str(less), "--allow-removal", host=host)
    assert planned.lines[-1].endswith(" --allow-removal")
    assert not planned.lines[0].startswith("REFUSED")
    said = say("apply", "--config", str(less), "--allow-removal", host=host)
    assert said.code == 0
    assert f"{path}: {what}" in said.err
    assert "REFUSED" not in say("plan", "--config", str(less), host=host).out


def test_what_another_run_installs_meanwhile(repaired: str, written: Callable[..., str]) -> None:
    """Apply asks once more under the lock: the mode STRICT that another run has installed until then stays."""
    files = Busy()
    host = FakeHost(kernel=h200(), files=files)
    files.locked.add(host.layout.lock_path)

    def install_strict() -> None:
        files.meanwhile = lambda: None
        files.locked.clear()
        assert say("apply", "--config", repaired, host=host).code == 0

    files.meanwhile = install_strict
    warn = written(HALF, {"destination": "172.16.128.0/17"}, mode="WARN")
    said = say("apply", "--config", warn, host=host)
    assert said.code == 2
    assert said.lines[0].startswith("FAILED: routeOverlap.mode: the mode changes from STRICT to WARN")
    assert "60 requires check-route-overlap" in host.files.texts[host.layout.gate_steps_path]


def test_routes_that_go(written: Callable[..., str]) -> None:
    """Routes alone may go, because the check stays: plan and log name them."""
    host = FakeHost(kernel=h200())
    whole = written(HALF, {"destination": "172.16.128.0/17"}, cidrs=("172.16.0.0/17",))
    assert say("apply", "--config", whole, host=host).code == 0
    config = written(HALF, cidrs=("172.16.0.0/17",))
    told = "staticRoutes: installed, but not in this configuration: 1 route, to 172.16.128.0/17"
    assert told in say("plan", "--config", config, host=host).out
    said = say("apply", "--config", config, host=host)
    assert said.code == 0
    assert told in said.err


def test_a_guard_with_nothing_to_guard(tmp_path: Path) -> None:
    """A file that has only the guard would take everything else away: it is a fault of the file."""
    path = tmp_path / "guard.json"
    path.write_text('{"guard": {"enabled": true}}')
    said = say("apply", "--config", str(path), host=FakeHost(kernel=h200()))
    assert said.code == 2
    assert "guard: the guard has nothing to guard: " in said.err
