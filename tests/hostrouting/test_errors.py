"""The errors: what they carry and how they read."""

import json

import pytest

from hostrouting import errors
from hostrouting.finding import Finding, Remedy
from hostrouting.host.effects import recorded_in_errors

MODE = errors.Fault("mode", '"LOUD"', "is not a mode", "write WARN")
DEV = errors.Fault("dev", "", "missing")
NO_DEFAULT = Finding(
    "no-default-route", "error", "there is none", "IPv4 default route", can_retry=True
)
REPAIR = Finding("action", "warning", "add it", facts={"routes": [{"destination": "10.0.0.0/8"}]})
EVERY = [
    errors.HostRoutingError("wrong"),
    errors.ConfigError([MODE, DEV], "/etc/agent.json"),
    errors.RequirementError(findings=[Finding("requirement", "error", "one"), NO_DEFAULT]),
    errors.RouteConflict(findings=[Finding("route-conflict", "error", "one"), REPAIR]),
    errors.ApplyError("no", "never", after="nothing was changed", can_retry=True),
    errors.RouteOverlapError("it escapes", report=("a", "report"), findings=[NO_DEFAULT, REPAIR]),
    errors.NotReady("no default route"),
    errors.NotReady("process 7 has the lock", kind="busy"),
    errors.HostError("cannot be read", what="file", target="/etc/x", errno=28),
    errors.HostError("no", what="nft", kind="refused", output="it cannot", lines=["-j DROP"]),
    errors.BackendError(
        "no", kind="exists", route="10.0.0.0/8 dev eth0", errno=17, kernel="File exists"
    ),
]


EMPTY = errors.Fault("", "", "is empty")
PREDICATE = errors.Fault("dev", "", "is not there")
WHOLE = errors.Fault("", "[]", "is not an object")


@pytest.mark.parametrize(
    ("faults", "source", "message"),
    [
        ([MODE], "", 'mode: "LOUD" is not a mode; write WARN'),
        ([DEV], "/etc/agent.json", "/etc/agent.json: dev: missing"),
        ([EMPTY], "", "the configuration is empty"),
        ([PREDICATE], "", "dev is not there"),
        ([WHOLE], "a.json", "a.json: [] is not an object"),
        ([MODE, DEV], "", f"the configuration has 2 faults:\n  {MODE}\n  {DEV}"),
    ],
)
def test_faults_of_an_input(faults: list[errors.Fault], source: str, message: str) -> None:
    """One fault is the message; several are listed, and the file is named once."""
    assert str(errors.ConfigError(faults, source)) == message


def test_the_tree_is_drawn_as_it_is() -> None:
    """The module's docstring draws every class; the root catches all."""
    values = vars(errors).values()
    classes = {cls for cls in values if isinstance(cls, type) and issubclass(cls, Exception)}
    below_the_root = set(errors.HostRoutingError.__subclasses__())
    assert len(below_the_root) == 8
    assert classes == {errors.HostRoutingError, *below_the_root}
    assert {type(error) for error in EVERY} == classes
    assert errors.__doc__ is not None
    for cls in classes:
        assert cls.__name__ in errors.__doc__.split()


@pytest.mark.parametrize("error", EVERY, ids=lambda error: f"{type(error).__name__}-{error.kind}")
def test_every_error_is_data(error: errors.HostRoutingError) -> None:
    document = json.loads(json.dumps(error.to_mapping()))
    assert document["error"] == type(error).__name__
    assert document["canRetry"] == error.can_retry
    for name, fact in vars(error).items():
        if isinstance(fact, str | int) and not name.startswith("_") and name != "can_retry":
            assert document[name] == fact
    assert document["findings"] == [finding.to_mapping() for finding in error.findings]


def test_facts_that_are_not_plain() -> None:
    """Faults are mappings, changes and notes are there, and no large thing is."""
    faults = errors.ConfigError([DEV]).to_mapping()["faults"]
    assert faults == [{"path": "dev", "value": "", "rule": "missing", "remedy": ""}]
    overlap = errors.RouteOverlapError("it escapes", report=object(), check={"verdict": "overlap"})
    with pytest.raises(errors.RouteOverlapError), recorded_in_errors(files=["/etc/x"]):
        raise overlap
    vars(overlap)["__notes__"] = ["the rollback failed"]
    assert overlap.to_mapping() == {
        "error": "RouteOverlapError",
        "kind": "",
        "canRetry": False,
        "exitCode": 1,
        "check": {"verdict": "overlap"},
        "effects": {"changes": [], "files": ["/etc/x"], "operations": [], "warnings": []},
        "notes": ["the rollback failed"],
        "findings": [],
    }


def test_an_error_as_a_finding() -> None:
    of_a_file = errors.HostError("cannot be read", what="file", target="/etc/x")
    of_a_program = errors.HostError("no", what="nft", output="it cannot")
    late = errors.BackendError("late", kind="timeout", kernel="it died")
    assert of_a_file.findings == (Finding("file", "error", "cannot be read", "/etc/x"),)
    assert of_a_program.findings == (Finding("requirement", "error", "no (nft: it cannot)", "nft"),)
    sentence = "late (kernel: it died)"
    assert late.findings == (Finding("requirement", "error", sentence, can_retry=True),)
    assert str(errors.BackendError("late")) == "late"
    assert errors.HostError("no", what="nft", lines=["-j DROP"]).lines == ("-j DROP",)
    absent = [errors.HostError("no", what="nft", kind=kind) for kind in ("missing", "not-loaded")]
    assert [each.is_absent for each in (*absent, of_a_file)] == [True, True, False]

    [failed] = errors.ApplyError("no", after="after", can_retry=True).findings
    busy = errors.NotReady("held", kind="busy")
    sentence = "the routes could not be applied: no; after"
    assert failed == Finding("requirement", "error", sentence, can_retry=True)
    assert (busy.kind, busy.can_retry, busy.findings[0].name) == ("busy", True, "lock")
    for findings in ((), (NO_DEFAULT,)):
        assert errors.NotReady("late", findings=findings).findings == findings
    assert errors.HostError("no", what="azure-vnet").findings[0].name == "azure-vnet"
    assert errors.ConfigError([MODE]).findings == ()

    remedy = Remedy("wait", otherwise=Remedy("start again"))
    lost = errors.ConfigError([DEV] * 5, "a.json", headline="too old:", remedy=remedy)
    assert str(lost).split("\n  ") == ["too old:", *["dev: missing"] * 5, "wait", "start again"]
    sentence = "too old: dev: missing; dev: missing; dev: missing; and 2 more"
    assert lost.findings == (Finding("file", "error", sentence, "a.json", remedy),)
    assert str(errors.ConfigError([DEV], headline="too old:")) == "too old:\n  dev: missing"


@pytest.mark.parametrize(
    ("findings", "can_retry"),
    [
        ([NO_DEFAULT, REPAIR], True),
        ([NO_DEFAULT, REPAIR, Finding("overlap", "error", "x")], False),
        ([REPAIR], False),
    ],
)
def test_findings_say_whether_to_try_again(findings: list[Finding], *, can_retry: bool) -> None:
    assert errors.RouteOverlapError("it escapes", findings=findings).can_retry is can_retry


def test_what_may_go_away_by_itself() -> None:
    """A device or an address may come late; a route that is in the way stays."""
    kinds = "failed incomplete timeout unsettled no-answer unit-failed device-down "
    for kind in (kinds + "gateway-not-on-link no-such-device").split():
        assert errors.BackendError("no", kind=kind).can_retry, kind
    assert not errors.BackendError("no", kind="exists").can_retry


def test_many_reasons() -> None:
    """The first ten are in the sentence, with the number of the others; all are data."""
    reasons = [f"route {number}" for number in range(12)]
    failed = errors.ApplyError(*reasons, after="nothing was changed", can_retry=True)
    assert "route 8; route 9; and 2 more; nothing was changed" in str(failed)
    assert len(failed.reasons) == 12
    conflicts = [Finding("route-conflict", "error", reason) for reason in reasons]
    assert str(errors.RouteConflict(findings=conflicts)).endswith("route 9\nand 2 more")


def test_a_permission_that_lacks() -> None:
    """The error says so, or one that caused it."""
    outer = errors.HostError("x", what="systemd")
    outer.__cause__ = PermissionError(13, "x")
    assert errors.is_denied(outer)
    assert errors.is_denied(errors.BackendError("x", kind="not-permitted"))
    assert not errors.is_denied(errors.HostError("x", what="file", errno=28))
