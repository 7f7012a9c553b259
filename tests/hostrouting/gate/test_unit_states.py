"""hostrouting.gate.unit_states: how a unit is, by systemd; tests/system has a real systemd."""

import pytest

from hostrouting.gate.unit_states import State, UnitState, unit_states
from hostrouting.host.layout import HostLayout
from hostrouting.testing import FakeManager

UNIT = "kubelet.service"
NOW = "Thu 2026-01-01 00:00:00 UTC"
ERRORS = ("172.16.0.0/16 leaves through ib0", "it was refused")
SEE, STATUS = f"see: journalctl -n 20 -u {UNIT}", f"see: systemctl status {UNIT}"
AGAIN = f"systemctl reset-failed {UNIT} && systemctl start {UNIT}"
REMEDIES: dict[State, str] = {
    "stuck": f"{SEE}; or, when that is mended, as root: {AGAIN}",
    "masked": f"as root: systemctl unmask {UNIT}",
    "fails": SEE,
    "skipped": STATUS,
    "unknown": "if the name is wrong, correct it (a machine's unit is systemd-nspawn@NAME.service)",
    "waiting": SEE,
    "queued": "to see which: systemctl list-jobs",
    "stopped": STATUS,
}


def manager_with(unit: str = UNIT, **properties: str) -> FakeManager:
    """A systemd that shows this of the unit, which has logged errors."""
    known = {"LoadState": "loaded", "StateChangeTimestamp": NOW, "ConditionTimestamp": NOW}
    return FakeManager(properties={unit: known | properties}, errors={unit: ERRORS})


@pytest.mark.parametrize(
    ("properties", "state"),
    [
        ({"ActiveState": "reloading"}, "runs"),
        ({"ActiveState": "active", "LoadState": "masked"}, "runs"),
        ({"ActiveState": "activating", "SubState": "condition"}, "waiting"),
        ({"ActiveState": "activating", "SubState": "start-pre"}, "starting"),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, "fails"),
        ({"ActiveState": "activating", "SubState": "auto-restart-queued"}, "fails"),
        ({"ActiveState": "failed"}, "stuck"),
        ({"ActiveState": "inactive", "LoadState": "bad-setting"}, "stuck"),
        ({"LoadState": "masked", "UnitFileState": "masked-runtime"}, "masked"),
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
    assert found.to_mapping().items() >= {"unit": UNIT, "state": state, "since": NOW}.items()
    assert found.reasons == (ERRORS if state in {"fails", "stuck"} else ())
    options = " --runtime" if "UnitFileState" in properties else ""  # a mask until the next boot
    assert str(found.remedy or "") == REMEDIES.get(state, "").replace("unmask", f"unmask{options}")
    assert found.sentence.startswith(f"{UNIT} ")
    assert found.sentence.endswith(f" (since {NOW})")


def test_what_is_not_gated() -> None:
    """That is all there is to say of it, unless it is not there, or is the guard."""
    manager = manager_with(ActiveState="failed")
    assert unit_states(manager, [UNIT], ["a.service"]) == [UnitState(UNIT, "not gated")]
    missing = manager_with(ActiveState="inactive", LoadState="not-found")
    assert unit_states(missing, [UNIT], ["a.service"])[0].state == "unknown"
    began = {"ExecMainStartTimestamp": NOW, "ConditionTimestamp": "", "StateChangeTimestamp": ""}
    manager = manager_with(HostLayout.guard_unit, ActiveState="failed", **began)
    [guard] = unit_states(manager, [HostLayout.guard_unit], ["a.service"])
    assert (guard.state, guard.reasons) == ("stuck", ERRORS)


def test_instances() -> None:
    """Those that are loaded, and not the one by which the gate of a template is asked about."""
    names = ("a@1.service", "a@hostrouting-probe.service")
    manager = FakeManager(properties={key: {"ActiveState": "active"} for key in names})
    for gated in ("a@.service", "a@1.service"):
        [unit] = unit_states(manager, ["a@.service"], [gated])
        assert (unit.unit, unit.state) == ("a@1.service", "runs")
