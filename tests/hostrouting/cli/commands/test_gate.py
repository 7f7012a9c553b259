"""`hostrouting gate`: who may start unchecked, until when, and how that is told."""

import json
import re
import time
from datetime import datetime, timedelta, timezone

import attrs
import pytest

import phases
from hostrouting.boot.gate import Gate
from hostrouting.boot.gate_state import opening_findings
from hostrouting.config.settings import GateConfig
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.guard.state import State, figures
from hostrouting.tasks.results import Look
from hostrouting.testing import FakeHost, FakeManager
from tests.support.cli import say
from tests.support.mishaps import fabric_vm, full, mishap_host
from tests.support.tasks import CIDR, LAYOUT, config, manager_of

STRICT = attrs.evolve(config(cidrs=(CIDR,)), gate=GateConfig(["kubelet.service", "agent@.service"]))
FILE = LAYOUT.opening_path


@pytest.fixture
def host() -> FakeHost:
    """A host with a gate for kubelet and the instances of a template; nothing overlaps."""
    host = FakeHost()
    phases.execute(Configure(STRICT, host=host), phases.Context(observers=[]))
    return host


def test_opened_and_closed(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file says until when, who and why; status tells it and exits with 1; closed, all is as before.

    Kills: an opening for another unit that is lost, a file that others can read, and a status that is silent.
    """
    monkeypatch.setenv("SUDO_USER", "ada")
    said = say("gate", "--open-for", "2h", "--reason", "ticket 4711", "--unit", "kubelet.service", host=host)
    assert said.code == 0
    until, *rest = host.files.texts[FILE].split()
    assert rest == ["kubelet.service", "ada", "ticket", "4711"]
    assert 7100 < int(until) - time.time() <= 7200
    assert host.files.modes[FILE] == 0o644, "only root writes it, and everybody can ask for the status"
    told = "kubelet.service may start unchecked until "
    assert said.lines[0].startswith(f"OPEN: {told}")
    assert said.lines[0].endswith(
        ": ticket 4711; to end this, run as root: hostrouting gate --close --unit kubelet.service"
    )
    found = say("status", host=host)
    assert found.code == 1
    assert f"GATE-OPEN: {told}" in found.out
    say("gate", "--open-for", "1d", "--reason", "for all", host=host)
    both = say("gate", "--open-for", "5m", "--reason", "x", "--unit", "agent@a.service", "--json", host=host).json
    assert [(one["unit"], one["who"], one["why"]) for one in both["openings"]] == [
        ("all", "ada", "for all"),
        ("agent@a.service", "ada", "x"),
    ]
    assert len(say("gate", "--close", "--unit", "agent@a.service", "--json", host=host).json["openings"]) == 1
    assert say("gate", "--close", host=host).lines == ["CLOSED: each gated unit is checked before it starts"]
    assert FILE not in host.files.texts
    assert say("status", host=host).code == 0


def test_status_says_that_a_unit_starts_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """While an address escapes, status does not say of an opened unit that it cannot start or is checked.

    Kills: a status that looks at the mode alone, and a line of a unit that knows no opening.
    """
    monkeypatch.delenv("SUDO_USER", raising=False)
    host = FakeHost(kernel=fabric_vm())
    strict = attrs.evolve(config(cidrs=("172.16.0.0/16",)), gate=GateConfig(["kubelet.service", "agent@.service"]))
    say("apply", "--config", "-", host=host, stdin=strict.to_json().encode())
    shut = "The mode is STRICT: agent@.service and kubelet.service cannot start while this lasts"
    assert shut in say("status", host=host).out
    for unit, checked in (("kubelet.service", [True, False]), ("all", [False, False])):
        say("gate", "--open-for", "2h", "--reason", "x", "--unit", unit, host=host)
        said = say("status", host=host)
        assert "cannot start while" not in said.out
        assert "The mode is STRICT, but the gate is open, see below." in said.out
        assert [one["checked"] for one in say("status", "--json", host=host).json["gated"]] == checked


def test_a_unit_that_has_left_the_list(host: FakeHost) -> None:
    """What is open for a unit that is not gated any more can be closed, as status says, and not opened again."""
    words = ("--unit", "kubelet.service")
    say("gate", "--open-for", "2h", "--reason", "x", *words, host=host)
    left = attrs.evolve(STRICT, gate=GateConfig(["agent@.service"]))
    say("apply", "--allow-removal", "--config", "-", host=host, stdin=left.to_json().encode())
    assert say("gate", "--open-for", "2h", "--reason", "x", *words, host=host).code == 2
    assert say("gate", "--close", *words, host=host).code == 0
    assert FILE not in host.files.texts


def test_a_full_disk() -> None:
    """An opening that cannot be written leaves the earlier one in force.

    Kills: removing the file before the new one is written.
    """
    host, mishaps = mishap_host()
    say("apply", "--config", "-", host=host, stdin=STRICT.to_json().encode())
    say("gate", "--open-for", "2h", "--reason", "x", "--unit", "kubelet.service", host=host)
    before = host.files.texts[FILE]
    mishaps.arm(1, full)
    said = say("gate", "--open-for", "3h", "--reason", "x", host=host)
    assert said.code == 1
    assert f"cannot write {FILE}: No space left on device" in said.out + said.err
    assert host.files.texts[FILE] == before


def test_status_has_a_line_for_each(host: FakeHost) -> None:
    """Each gated unit has one line: whether its starts are checked, and what of it runs.

    Kills: a unit without a line, and instances that are not named.
    """
    host.files.write("/usr/lib/systemd/system/kubelet.service", "[Service]\nExecStart=/usr/bin/kubelet\n")
    host.files.remove(LAYOUT.gate_drop_in("kubelet.service"))
    manager_of(host).reload()
    manager_of(host).properties = {
        "kubelet.service": {"ActiveState": "active"},
        "agent@a.service": {"ActiveState": "active"},
    }
    said = say("status", host=host)
    told = {
        line.split()[0]: " ".join(line.split()[1:]) for line in said.lines if line.startswith("  ") and line.split()
    }
    assert told["kubelet.service"] == "starts unchecked; active"
    assert told["agent@.service"] == "checked before each start; agent@a.service active"
    rows = say("status", "--json", host=host).json["gated"]
    assert rows == [
        {"unit": "agent@.service", "load": "loaded", "active": ["agent@a.service"], "checked": True},
        {"unit": "kubelet.service", "load": "loaded", "active": ["kubelet.service"], "checked": False},
    ]


def test_a_file_that_cannot_be_read(host: FakeHost) -> None:
    """What cannot be read is not called shut: status says that it is not known.

    Kills: an unreadable file that counts as one that does not open the gate.
    """
    host.files.strange[FILE] = "a fifo"
    told = "NOT-KNOWN: whether a unit may start unchecked: cannot read /etc/hostrouting/gate.open: there is a fifo"
    assert told in say("status", host=host).out


def test_remove_takes_it_away(host: FakeHost) -> None:
    """An opening does not outlive the gate: a later gate would be open."""
    say("gate", "--open-for", "1h", "--reason", "why", host=host)
    assert say("remove", host=host).code == 0
    assert FILE not in host.files.texts


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--open-for", "2h"], "is not a reason in one line"),
        (["--open-for", "2h", "--reason", "a\nb"], "is not a reason in one line"),
        (
            ["--open-for", "2h", "--reason", "x", "--unit", "kublet.service"],
            "is not gated here; gated: agent@.service and",
        ),
        (["--open-for", "2h", "--reason", "x", "--unit", "agent@a\nb.service"], "is not gated here"),
        (["--open-for", "2h", "--reason", "x", "--unit", "agent@a.timer"], "is not gated here"),
        (["--open-for", "2", "--reason", "x"], "is not a time such as 30m, 2h or 1d"),
        (["--open-for", "8d", "--reason", "x"], "is not between 1m and 7d; for longer, change gate.units"),
        (["--open-for", "0h", "--reason", "x"], "is not between 1m and 7d"),
        (["--reason", "x"], "one of the arguments --open-for --close is required"),
    ],
)
def test_what_is_refused(host: FakeHost, words: list[str], told: str) -> None:
    """Bad input changes nothing, and the error names the rule."""
    said = say("gate", *words, host=host)
    assert said.code == 2
    assert told in said.out + said.err
    assert FILE not in host.files.texts


def test_without_a_gate() -> None:
    """Where nothing holds a unit back, there is nothing to open."""
    said = say("gate", "--open-for", "2h", "--reason", "x", host=FakeHost())
    assert said.code == 2
    assert "the gate: is not installed on this host, so it holds nothing back" in said.out + said.err


def test_the_hint() -> None:
    """`check` and `plan` name the kubelet that runs here and would not be held back.

    Kills: a hint where it is gated, where this configuration gates it, or where it does not run.
    """
    told = "kubelet.service runs here and is not gated, so it starts whatever the routes are"
    for active in (True, False):
        running = {"kubelet.service": {"ActiveState": "active" if active else "inactive"}}
        host = FakeHost(manager=FakeManager(properties=running))
        assert (told in say("check", "10.0.0.0/8", host=host).out) == active
        for settings, shown in ((config(cidrs=(CIDR,)), active), (STRICT, False)):
            said = say("plan", "--config", "-", host=host, stdin=settings.to_json().encode())
            assert (told in said.out) == shown, said.out
        phases.execute(Configure(STRICT, host=host), phases.Context(observers=[]))
        assert told not in say("check", host=host).out


def test_the_hint_can_be_applied() -> None:
    """The hint beside a gate names what is gated now, too, so `apply` accepts it.

    Kills: a hint with the kubelet alone, which `apply` refuses because it would take a unit out of the gate.
    """
    host = FakeHost(manager=FakeManager(properties={"kubelet.service": {"ActiveState": "active"}}))
    wanted = config(cidrs=(CIDR,)).to_json()
    assert say("apply", "--config", "-", host=host, stdin=wanted.encode()).code == 0
    (hint,) = re.findall(r'"gate": (\{.*?\})', say("status", host=host).out)
    wanted = json.dumps({**json.loads(wanted), "gate": json.loads(hint)})
    assert say("apply", "--config", "-", host=host, stdin=wanted.encode()).code == 0
    assert Gate(host).gated == ("kubelet.service", LAYOUT.machine_unit)


def test_who_looks_from_outside(host: FakeHost) -> None:
    """The guard's figures say who may start unchecked, for as long as that is so.

    Kills: a figure without the opening.
    """
    say("gate", "--open-for", "2h", "--reason", "why", "--unit", "kubelet.service", host=host)
    now = datetime.now(timezone.utc)
    for moment, count in ((now, 1), (now + timedelta(hours=3), 0)):
        state = State(since=now, look=Look(findings=opening_findings(host, moment)))
        figure = re.findall(
            r'^hostrouting_gate_open_until_seconds\{unit="kubelet.service"\} (\d+)$',
            figures(state, version="1"),
            re.MULTILINE,
        )
        assert len(figure) == count
