"""What the commands say of the gate: what opens it, what bars it, and after a failure whether a machine starts now."""

from collections.abc import Callable
from pathlib import Path

import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig
from hostrouting.config.values import Mode
from hostrouting.errors import ManagerError
from hostrouting.host.layout import HostLayout
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeHost
from tests.support.cli import say
from tests.support.tasks import manager_of
from tests.tables.gate_openings import OPENINGS

LAYOUT = HostLayout()
STRICT = HostRoutingConfig(None, RouteOverlapConfig(["10.78.0.0/16"], Mode.STRICT))
ROOM = "No space left on device; free some space"
OPEN, SHUT = "GATE-OPEN: ", "GATE-SHUT: "
MASK = f"systemctl mask --runtime {LAYOUT.machine_unit}"
OPENING = OPENINGS[0]


@pytest.fixture
def config(tmp_path: Path) -> str:
    """The configuration in a file."""
    path = tmp_path / "config.json"
    path.write_text(STRICT.to_json())
    return str(path)


@pytest.fixture
def host() -> FakeHost:
    """A host on which the gate is installed, and all is well."""
    made = FakeHost()
    phases.execute(Configure(STRICT, host=made), phases.Context(observers=[]))
    return made


def opened(host: FakeHost) -> FakeHost:
    """The same, with a drop-in that opens the gate for one machine."""
    host.files.texts[OPENING.path] = OPENING.text
    manager_of(host).reload()
    return host


def barred(host: FakeHost) -> FakeHost:
    """The same without the gate's script, so that no machine starts."""
    host.files.remove(LAYOUT.gate_script_path)
    return host


def words(command: str, config: str) -> tuple[str, ...]:
    """The command line."""
    return (command, "--config", config)


@pytest.mark.parametrize(
    ("command", "made", "name", "told"),
    [
        ("apply", opened, OPEN, OPENING.told),
        ("check", opened, OPEN, OPENING.told),
        ("plan", barred, SHUT, f"{LAYOUT.gate_script_path} is missing"),
        ("check", barred, SHUT, f"{LAYOUT.gate_script_path} is missing"),
    ],
)
def test_after_its_name(
    command: str, made: Callable[[FakeHost], FakeHost], name: str, told: str, *, host: FakeHost, config: str
) -> None:
    """What opens the gate, or bars it, is printed after its name by the other commands that look at the host."""
    [row] = [row for row in say(*words(command, config), host=made(host)).lines if row.startswith(f"{name}{told}")]
    assert made is barred or OPENING.path in row


def test_apply_mends_a_bar(host: FakeHost, config: str) -> None:
    """The remedy that a bar names is one."""
    assert say(*words("apply", config), host=barred(host)).code == 0
    assert say("status", "--json", host=host).json["findings"] == []


def test_status_answers_with_it(host: FakeHost) -> None:
    """An opening is the first that status says, and the exit code is 1; so it is with a bar."""
    said = say("status", host=opened(host))
    assert said.code == 1
    assert said.lines[0].startswith(f"GATE-OPEN: {OPENING.told}")
    assert said.out.count(OPENING.told) == 1, "each sentence is said once"
    del host.files.texts[OPENING.path]
    manager_of(host).reload()
    assert say("status", host=host).code == 0
    said = say("status", host=barred(host))
    assert said.code == 1
    assert said.lines[0].startswith(f"GATE-SHUT: {LAYOUT.gate_script_path} is missing")


@pytest.mark.parametrize("command", ["status", "plan", "apply", "check"])
def test_in_json(command: str, host: FakeHost, config: str, tmp_path: Path) -> None:
    """The gate is among the findings of each document; a saved snapshot has none."""
    asked = (*words(command, config), "--json")
    assert say(*asked, host=host).json["findings"] == []
    found = say(*asked, host=opened(host)).json["findings"]
    assert [finding["name"] for finding in found] == ["gate-open"]
    if command in {"plan", "check"}:
        saved = tmp_path / "snapshot.json"
        saved.write_text(FakeHost().kernel.snapshot().to_json())
        assert say(*asked, "--snapshot", str(saved), host=host).json["findings"] == []


def test_what_cannot_be_found_out(host: FakeHost, config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If systemd does not answer, the gate counts as open, and the sentence says why."""

    def silent(*_: object) -> tuple[()]:
        raise ManagerError("systemctl show did not answer within 30 s")

    monkeypatch.setattr(type(host.manager), "show", silent)
    found = say(*words("plan", config), "--snapshot", "/gone", host=host)
    assert found.code == 2
    said = say(*words("check", config), host=host)
    assert (
        "whether gated units are checked before they start is not known: systemctl show did not answer within 30 s"
        in said.out
    )


FAILURES = {
    LAYOUT.gate_drop_in(): "open",
    LAYOUT.gate_unit_path: "barred",
    LAYOUT.gate_script_path: "barred",
    LAYOUT.gate_steps_path: "barred",
    LAYOUT.check_script_path: "barred",
    LAYOUT.check_unit_path: "barred",
}
BEGINS = {
    "open": "A gated unit that is started now is NOT held back: ",
    "barred": "systemd-nspawn@.service cannot start now: ",
}


@pytest.mark.parametrize(("path", "state"), FAILURES.items(), ids=lambda it: it.rpartition("/")[2])
def test_after_a_failure(path: str, state: str, config: str) -> None:
    """Whichever file cannot be written, apply fails, and its last line says whether a machine starts now, and why."""
    host = FakeHost()
    host.files.broken[path] = ROOM
    said = say(*words("apply", config), host=host)
    assert said.code == 1
    last = said.lines[-1]
    assert last.startswith(BEGINS[state])
    assert (MASK in last) == (state == "open")
    if state == "open":
        assert path in last
    host.files.broken.clear()
    assert say(*words("apply", config), host=host).code == 0
    assert say("status", "--json", host=host).json["findings"] == []


@pytest.mark.parametrize("path", FAILURES, ids=lambda it: it.rpartition("/")[2])
def test_after_a_failure_with_all_in_place(path: str, host: FakeHost, config: str) -> None:
    """An installed gate stays shut even if one of its files cannot be written again."""
    host.files.broken[path] = ROOM
    said = say(*words("apply", config), "--wait", "7", host=host)
    assert said.code == 1
    assert not said.lines[-1].startswith(BEGINS["open"])


def test_after_a_failure_that_changed_nothing(host: FakeHost, config: str) -> None:
    """A failure before any change leaves everything as it was, and the last line names the command that says the rest."""
    host.files.strange[LAYOUT.lock_path] = "a directory"
    host.files.broken[LAYOUT.gate_steps_path] = ROOM
    said = say(*words("apply", config), "--wait", "7", host=host)
    assert said.code == 1
    told = "Each start of systemd-nspawn@.service is still checked; whether it can start now: hostrouting status"
    assert said.lines[-1] == told
