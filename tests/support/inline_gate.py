"""The gate, the guard and their units, with steps that a test writes itself."""

from collections.abc import Mapping
from pathlib import Path

from hostrouting.boot.scripts import asset
from hostrouting.boot.units import DROP_IN_TEXT

GATE = "/etc/hostrouting/gate.sh"
GUARD = "/etc/hostrouting/guard.sh"
STEPS = "/etc/hostrouting/gate.d"
COMMAND = DROP_IN_TEXT.partition(" -pc '")[2].partition("'")[0].replace("$$", "$")
"""What bash runs as the condition of a gated unit."""

MAY = "/run/may-start"
STEP = f"[[ -e {MAY} ]] && exit 0\necho the step says no\nexit 1\n"
"""A step that succeeds while the file exists."""


def gate_text(
    *, required: str = "10-a", wanted: str = "", limit: int = 75, paths: Path | None = None
) -> str:
    """gate.sh with these lists of steps and this limit in seconds; `paths` is the folder that has
    its etc and run.
    """
    text = asset("gate.sh")
    changes = {
        "required=() wanted=()": f"required=({required}) wanted=({wanted})",
        "\ntime_limit=75 ": f"\ntime_limit={limit} ",
    }
    if paths:
        changes["\netc=/etc/hostrouting\n"] = f"\netc={paths}/etc\n"
        changes["\nrun=/run/hostrouting\n"] = f"\nrun={paths}/run\n"
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def gate_files(
    *units: str,
    steps: Mapping[str, str] | None = None,
    required: str = "10-a",
    wanted: str = "",
    limit: int = 75,
) -> dict[str, str]:
    """The files of a host whose units are gated, by default with one step that waits for nobody."""
    files = {
        GATE: gate_text(required=required, wanted=wanted, limit=limit),
        GUARD: asset("guard.sh"),
    }
    files |= {f"{STEPS}/{name}.sh": text for name, text in (steps or {"10-a": STEP}).items()}
    return files | {
        f"/etc/systemd/system/{unit}.d/00-host-routing.conf": DROP_IN_TEXT for unit in units
    }
