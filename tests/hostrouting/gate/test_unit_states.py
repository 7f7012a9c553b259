"""hostrouting.gate.unit_states: how a unit is, by systemd; tests/system has a real systemd."""

import pytest

from hostrouting.finding import Remedy
from hostrouting.gate.unit_states import State, UnitState, unit_states
from hostrouting.host.layout import HostLayout
from hostrouting.testing import FakeManager

UNIT = "kubelet.service"
NOW = "Thu 2026-01-01 00:00:00 UTC"
ERRORS = ("172.16.0.0/16 leaves through ib0", "it was refused")


def manager_with(unit: str = UNIT, **properties: str) -> FakeManager:
    """A systemd that shows this of the unit, which has logged errors."""
    known = {"LoadState": "loaded", "StateChangeTimestamp": NOW, "ConditionTimestamp": NOW}
    return FakeManager(properties={unit: known | properties}, errors={unit: ERRORS})


@pytest.mark.parametrize(
    ("properties", "state"),
    [
        ({"ActiveState": "active"}, "runs"),
        ({"ActiveState": "reloading"}, "runs"),
        ({"ActiveState": "active", "LoadState": "masked"}, "runs"),
        ({"ActiveState": "activating", "SubState": "condition"}, "waiting"),
        ({"ActiveState": "activating", "SubState": "start-pre"}, "starting"),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, "fails"),
        ({"ActiveState": "failed"}, "stuck"),
        ({"ActiveState": "inactive", "LoadState": "masked"}, "masked"),
        ({"ActiveState": "failed", "LoadState": "masked"}, "masked"),
        ({"ActiveState": "inactive", "LoadState": "not-found"}, "unknown"),
        ({"ActiveState": "inactive"}, "stopped"),
        ({"ActiveState": "inactive", "ConditionResult": "yes"}, "stopped"),
        ({"ActiveState": "inactive", "ConditionResult": "no"}, "skipped"),
        ({"ActiveState": "inactive", "ConditionResult": "no", "ConditionTimestamp": ""}, "stopped"),
        ({"ActiveState": "inactive", "ConditionResult": "no", "Job": "28"}, "queued"),
        ({"ActiveState": "deactivating", "Job": "28"}, "stopped"),
        ({"ActiveState": "active", "Job": "28"}, "runs"),
    ],
)
def test_each_state(properties: dict[str, str], state: State) -> None:
    """What has failed has its errors, which are the gate's if that refused it."""
    [found] = unit_states(manager_with(**properties), [UNIT], [UNIT])
    assert (found.unit, found.state, found.since) == (UNIT, state, NOW)
    assert found.reasons == (ERRORS if state in {"fails", "stuck"} else ())
    assert found.sentence.startswith(f"{UNIT} ")
    assert found.sentence.endswith(f" (since {NOW})")


@pytest.mark.parametrize(
    ("file_state", "options"), [("masked", ""), ("masked-runtime", " --runtime")]
)
def test_the_end_of_a_mask(file_state: str, options: str) -> None:
    """A mask until the next boot has another command than one that lasts."""
    manager = manager_with(ActiveState="inactive", LoadState="masked", UnitFileState=file_state)
    [unit] = unit_states(manager, [UNIT], [UNIT])
    assert unit.remedy == Remedy(command=f"systemctl unmask{options} {UNIT}")


def test_what_is_not_gated() -> None:
    """That is all there is to say of it, unless it is not there, or is the guard."""
    manager = manager_with(ActiveState="failed")
    assert unit_states(manager, [UNIT], ["a.service"]) == [UnitState(UNIT, "not gated")]
    missing = manager_with(ActiveState="inactive", LoadState="not-found")
    assert unit_states(missing, [UNIT], ["a.service"])[0].state == "unknown"
    guard = manager_with(HostLayout.guard_unit, ActiveState="active")
    assert unit_states(guard, [HostLayout.guard_unit], ["a.service"])[0].state == "runs"


def test_instances() -> None:
    """Those that are loaded, and not the one by which the gate of a template is asked about."""
    names = ("a@1.service", "a@hostrouting-probe.service")
    manager = FakeManager(properties={key: {"ActiveState": "active"} for key in names})
    assert [unit.unit for unit in unit_states(manager, ["a@.service"], ["a@.service"])] == [
        "a@1.service"
    ]
