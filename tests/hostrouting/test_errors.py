"""The errors: what they carry and how they read."""

from __future__ import annotations

import json
import pickle

import pytest

from hostrouting.errors import (
    AmbiguousRule,
    ApplyError,
    ApprovedPlanError,
    BackendError,
    CleanupIncomplete,
    CleanupRefused,
    ConfigError,
    Fault,
    FileError,
    FleetIncomplete,
    ForeignPhases,
    HostRoutingError,
    MetadataError,
    RouteConflict,
    RouteOverlapError,
    RouteRefused,
    SnapshotError,
    UndoFileError,
    UnitFailed,
)
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


def test_config_error_is_a_value_error_of_ours() -> None:
    """A caller can catch it as ours or as a bad value."""
    error = ConfigError([MODE])
    assert isinstance(error, HostRoutingError)
    assert isinstance(error, ValueError)


def every_kind(root: type[HostRoutingError]) -> list[type[HostRoutingError]]:
    """The class and all below it."""
    return [root, *(kind for below in root.__subclasses__() for kind in every_kind(below))]


MADE = {
    ConfigError: ConfigError([MODE, DEV], "/etc/agent.json"),
    ForeignPhases: ForeignPhases("/usr/lib/phases.py", "run: pip"),
    SnapshotError: SnapshotError(path="routes[3]", problem="this is missing"),
    RouteConflict: RouteConflict(["one", "other"]),
    ApplyError: ApplyError("no", "never", after="nothing was changed"),
    RouteOverlapError: RouteOverlapError("it escapes", report=("a", "report")),
    MetadataError: MetadataError("http://10.0.0.1/", "cannot be queried: Connection refused", can_retry=False),
    FileError: FileError("cannot be read", path="/etc/x", errno=13),
    CleanupRefused: CleanupRefused(["one", "other"]),
    CleanupIncomplete: CleanupIncomplete("1 of 2 things were deleted; what is left", ["one"]),
    ApprovedPlanError: ApprovedPlanError("/plan.json", "deletions is missing"),
    FleetIncomplete: FleetIncomplete("the executor ended", judged=1_000, total=20_000),
    UndoFileError: UndoFileError("/x.undo", "line 1: it is not a command"),
    AmbiguousRule: AmbiguousRule(["PREROUTING -j DROP"], twin="PREROUTING -s Unicast -j DROP"),
    UnitFailed: UnitFailed("x.service", result="exit-code", status=3, words=["a", "b"]),
}


def made(kind: type[HostRoutingError]) -> HostRoutingError:
    """An error of this kind with all the facts that it can carry."""
    if kind in MADE:
        return MADE[kind]
    if issubclass(kind, RouteRefused):
        return kind("refused", route="10.0.0.0/8 dev eth0", errno=17, kernel="File exists")
    if issubclass(kind, BackendError):
        return kind("no answer", errno=1, kernel="Operation not permitted")
    return kind("as it is")


@pytest.mark.parametrize("kind", every_kind(HostRoutingError))
def test_errors_survive_pickling(kind: type[HostRoutingError]) -> None:
    """An error that crosses to another process says there what it said here, and carries the same facts."""
    error = made(kind)
    copied = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes
    assert type(copied) is kind
    assert (str(copied), copied.args, vars(copied)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize("kind", every_kind(HostRoutingError))
def test_every_error_tells_its_facts(kind: type[HostRoutingError]) -> None:
    """An error is data, too: its kind, whether to try again may help, and each plain fact that it carries."""
    error = made(kind)
    found = json.loads(json.dumps(error.to_mapping()))
    assert (found["kind"], found["canRetry"]) == (kind.__name__, error.can_retry)
    assert isinstance(found["canRetry"], bool)
    plain = {name for name, fact in vars(error).items() if isinstance(fact, str | int) and name != "can_retry"}
    assert plain <= set(found)


RETRIED = {
    "ApplyError",
    "BackendError",
    "BackendTimeout",
    "BadRule",
    "CleanupIncomplete",
    "DeviceDown",
    "EbtablesError",
    "EbtablesTimeout",
    "FleetIncomplete",
    "GatewayNotOnLink",
    "HostBusy",
    "ManagerError",
    "MetadataError",
    "NftTimeout",
    "NftablesError",
    "NoSuchDevice",
    "NotReady",
    "TableNotInForce",
    "UnitFailed",
    "Unsettled",
    "WorkerLost",
}
"""What may be gone at the next attempt, although nobody does anything about it."""


@pytest.mark.parametrize("kind", every_kind(HostRoutingError))
def test_every_error_says_whether_to_try_again(kind: type[HostRoutingError]) -> None:
    """The class of each error, and each error, says with true or false whether the same call can succeed later."""
    assert kind.can_retry is (kind.__name__ in RETRIED)
    error = made(kind)
    assert error.can_retry is vars(error).get("can_retry", kind.can_retry)


def test_no_default_route_is_awaited_again() -> None:
    """A default route can come later, whether the error about it is NotReady or that of the check; an escape stays."""
    late = RouteOverlapError("no default route", check={"verdict": "no-default-route"})
    assert (late.can_retry, late.to_mapping()["canRetry"]) == (True, True)
    assert RouteOverlapError("it escapes", check={"verdict": "overlap"}).can_retry is False


def test_a_backend_that_cannot_ever_do_it() -> None:
    """A failure of the kernel may pass; what this backend cannot do, it cannot do at the next attempt either."""
    assert BackendError("netlink failed").can_retry is True
    assert BackendError("this backend was closed", can_retry=False).can_retry is False
    assert BackendError("it cannot", can_retry=False).to_mapping()["canRetry"] is False


def test_facts_that_are_not_plain() -> None:
    """Faults are mappings, what was changed before is told, and what is as large as a table stays with the error."""
    assert ConfigError([DEV]).to_mapping()["faults"] == [{"path": "dev", "value": "", "rule": "missing", "remedy": ""}]
    overlap = RouteOverlapError("it escapes", report=object(), check={"verdict": "overlap"})
    tell_effects(overlap, files=["/etc/x"])
    assert overlap.to_mapping() == {
        "kind": "RouteOverlapError",
        "canRetry": False,
        "check": {"verdict": "overlap"},
        "effects": {"changes": [], "files": ["/etc/x"], "operations": []},
    }


def test_a_clean_up_that_was_refused() -> None:
    """Each reason is in the sentence, and on its own."""
    error = CleanupRefused(["azure-vnet is active", "its state file is cut short"])
    assert str(error) == "nothing was deleted: azure-vnet is active; its state file is cut short"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301  it is ours


def test_a_clean_up_with_much_left() -> None:
    """The first ten things that are left are named, and the number of the others."""
    error = CleanupIncomplete("1 of 13 things were deleted; what is left", [f"rule {it}" for it in range(12)])
    assert str(error).endswith("rule 8; rule 9 (and 2 more)")
    assert len(error.left) == 12


def test_an_undo_file_that_is_not_one() -> None:
    """The message names the file, what is wrong in it, and which file is meant."""
    error = UndoFileError("/x.undo", "line 1: it is not a command")
    assert str(error) == "/x.undo: line 1: it is not a command; pass the unchanged file that the clean-up named"
