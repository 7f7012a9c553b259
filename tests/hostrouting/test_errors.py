"""The errors: what they carry and how they read."""

import json
import pickle
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import pytest

from hostrouting import errors
from hostrouting.errors import (
    ApplyError,
    BackendError,
    CleanupError,
    ConfigError,
    Fault,
    FileError,
    FleetError,
    HostRoutingError,
    InputError,
    ManagerError,
    ProgramError,
    RequirementError,
    RouteConflict,
    RouteOverlapError,
    RouteRefused,
    UnitFailed,
)
from hostrouting.finding import Finding
from hostrouting.host.effects import tell_effects

MODE = Fault("mode", '"LOUD"', "is not a mode", "write WARN")
DEV = Fault("dev", "", "missing")


def test_fault_reads_as_a_sentence() -> None:
    """A fault says where, what, why not, and then what to do."""
    assert str(MODE) == 'mode: "LOUD" is not a mode; write WARN'


def test_fault_without_value_or_remedy() -> None:
    """What a fault does not have leaves no gap in its sentence."""
    assert str(DEV) == "dev: missing"


def test_one_fault_is_one_line() -> None:
    """A single fault is the whole message."""
    assert str(ConfigError([MODE])) == str(MODE)


def test_one_fault_in_a_file() -> None:
    """A single fault in a file is named after the file."""
    assert str(ConfigError([MODE], "/etc/agent.json")) == f"/etc/agent.json: {MODE}"


def test_fault_of_the_file_itself() -> None:
    """A fault of the file as a whole names the file once."""
    fault = Fault("/etc/agent.json", "", "is empty")
    assert str(ConfigError([fault], "/etc/agent.json")) == "/etc/agent.json: is empty"


@pytest.mark.parametrize(("source", "where"), [(None, "the configuration"), ("/etc/agent.json", "/etc/agent.json")])
def test_many_faults_one_a_line(source: str | None, where: str) -> None:
    """Several faults are counted and listed, one a line, in order."""
    assert str(ConfigError([MODE, DEV], source)) == f"{where} has 2 faults:\n  {MODE}\n  {DEV}"
    assert str(InputError([Fault("", "", "is empty")], "a.json")) == "a.json: is empty"


def test_config_error_is_a_value_error_of_ours() -> None:
    """A caller can catch it as ours or as a bad value."""
    error = ConfigError([MODE])
    assert isinstance(error, HostRoutingError)
    assert isinstance(error, ValueError)


def kinds_in(hint: object) -> list[str]:
    """The words of a Literal, or of a union of some."""
    return [word for part in get_args(hint) for word in ([part] if isinstance(part, str) else kinds_in(part))]


ROUTE = "10.0.0.0/8 dev eth0"
FOUND = [
    Finding("no-default-route", "error", "there is none", "IPv4 default route", can_retry=True),
    Finding("action", "warning", "add it", facts={"routes": [{"destination": "10.0.0.0/8"}]}),
]
MADE: dict[str, Callable[[Any], HostRoutingError]] = {
    "ConfigError": lambda _: ConfigError([MODE, DEV], "/etc/agent.json"),
    "InputError": lambda _: InputError([DEV, MODE], "/x"),
    "RequirementError": lambda _: RequirementError([Finding("program", "error", "one"), FOUND[0]]),
    "RouteConflict": lambda _: RouteConflict([Finding("route-conflict", "error", "one"), FOUND[1]]),
    "ApplyError": lambda _: ApplyError("no", "never", after="nothing was changed"),
    "RouteOverlapError": lambda _: RouteOverlapError("it escapes", report=("a", "report")),
    "CleanupError": lambda kind: CleanupError("nothing was deleted", ["one", "other"], kind=kind),
    "FileError": lambda _: FileError("cannot be read", path="/etc/x", errno=28),
    "UnitFailed": lambda _: UnitFailed("x.service", result="exit-code", status=3, words=["a", "b"]),
    "ProgramError": lambda kind: ProgramError("no", program="nft", kind=kind, words="it cannot", lines=["-j DROP"]),
    "FleetError": lambda kind: FleetError("the executor ended", kind=kind),
    "BackendError": lambda kind: BackendError("no answer", kind=kind, errno=1, kernel="Operation not permitted"),
    "RouteRefused": lambda kind: RouteRefused("no", kind=kind, route=ROUTE, errno=17, kernel="File exists"),
}
KINDS = [
    (name, kind)
    for name in errors.__all__
    if isinstance(error := getattr(errors, name), type) and issubclass(error, HostRoutingError)
    for kind in kinds_in(get_type_hints(error)["kind"]) or [""]
]
"""Each class, and of a class with kinds each kind."""
each = pytest.mark.parametrize(("name", "kind"), KINDS)


def made(name: str, kind: str) -> HostRoutingError:
    """An error of this class and kind with all the facts that it can carry."""
    return MADE[name](kind) if name in MADE else getattr(errors, name)("as it is")


@each
def test_errors_survive_pickling(name: str, kind: str) -> None:
    """An error has the same text and facts after it was sent to another process."""
    error = made(name, kind)
    copied = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes
    assert type(copied) is type(error)
    assert (str(copied), copied.args, vars(copied)) == (str(error), error.args, vars(error))
    assert copied.findings == error.findings


@each
def test_every_error_tells_its_facts(name: str, kind: str) -> None:
    """An error is data, too: its class and kind, whether to try again may help, and each plain fact that it carries."""
    error = made(name, kind)
    found = json.loads(json.dumps(error.to_mapping()))
    assert (found["error"], found["kind"], found["canRetry"]) == (name, kind, error.can_retry)
    plain = {fact for fact, value in vars(error).items() if isinstance(value, str | int) and not fact.startswith("_")}
    assert plain - {"can_retry"} <= set(found)


def test_an_error_as_a_finding() -> None:
    """An error that is like a finding is one, about its file if it has one; others have none."""
    error = FileError("cannot be read", path="/etc/x")
    assert error.findings == (Finding("file", "error", "cannot be read", "/etc/x"),)
    assert BackendError("late", kind="timeout").findings == (Finding("kernel", "error", "late", can_retry=True),)
    assert ManagerError("no").findings[0].target == "systemd"
    assert ConfigError([MODE]).findings == ()


def test_findings_say_whether_to_try_again() -> None:
    """The error can be retried if all findings that are errors can; the findings have the routes of the repair."""
    kind = RouteOverlapError
    late, lost = kind("late", findings=FOUND), kind("lost", findings=[*FOUND, Finding("overlap", "error", "x")])
    assert (late.can_retry, lost.can_retry, kind("x", findings=FOUND[1:]).can_retry) == (True, False, False)
    assert late.findings == tuple(FOUND)
    assert late.repair == ({"destination": "10.0.0.0/8"},)
    assert kind("none").repair == ()


def test_facts_that_are_not_plain() -> None:
    """Faults are mappings; earlier changes are included; what is as large as a table is left out."""
    assert ConfigError([DEV]).to_mapping()["faults"] == [{"path": "dev", "value": "", "rule": "missing", "remedy": ""}]
    overlap = RouteOverlapError("it escapes", report=object(), check={"verdict": "overlap"})
    tell_effects(overlap, files=["/etc/x"])
    assert overlap.to_mapping() == {
        "error": "RouteOverlapError",
        "kind": "",
        "canRetry": False,
        "check": {"verdict": "overlap"},
        "effects": {"changes": [], "files": ["/etc/x"], "operations": []},
    }


def test_many_reasons() -> None:
    """The first ten reasons are in the sentence, with the number of the others; each is also on its own."""
    error = CleanupError("not deleted", [f"rule {number}" for number in range(12)], kind="incomplete")
    assert str(error).startswith("not deleted: rule 0; rule 1; ")
    assert str(error).endswith("rule 8; rule 9 (and 2 more)")
    assert len(error.reasons) == 12
