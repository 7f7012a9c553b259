"""What to type to repair a host for good, whether anything is installed there or not.

Where the installed config.json cannot be used, a correction or a copy of the file brings all of it
back. Without one, a repair makes a new file. What the old one checked and gated is still known: the
boot scripts and the drop-ins lie on the disk.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from hostrouting.config.settings import MACHINES
from hostrouting.finding import Finding, Remedy
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hostrouting.install.managed import Managed

TO_KEEP = "to keep these routes"
"""What a repair is typed for where routes are not configured."""
_APPLY = "hostrouting apply --config -"


def repair_pipeline(options: str = "", managed: Managed | None = None) -> str:
    """The line to type that repairs a host for good; `repair` gets these options."""
    apply = _APPLY
    if managed is not None and managed.needs_consent:
        apply += " --allow-removal"
    if managed is not None:
        apply += gate_options(managed.gated)
    return f"hostrouting repair{options} | {apply}"


def gate_options(units: Iterable[str]) -> str:
    """The options of `apply` that gate these units, too."""
    return "".join(f" --gate {shlex.quote(unit)}" for unit in units)


def remedy_without_config(
    drop_ins: Iterable[str], options: str = " CIDR", *, is_there: bool = True
) -> Remedy:
    """What to do about a config.json that cannot be used, or is not there, if these units have
    drop-ins of ours.
    """
    gated = [unit for unit in drop_ins if unit != MACHINES]
    restored = f"hostrouting repair --config COPY | {_APPLY} --allow-removal"
    apply = f"{_APPLY} --allow-removal{gate_options(gated)}"
    new = f"echo {{}} | hostrouting repair{options} --config - | {apply}"
    given_up = "without one, which gives up STRICT, the guard and all else that only the file says"
    cost = "the routes go, nothing holds units back, and addresses may escape"
    remove = Remedy(f"to remove hostrouting ({cost})", "hostrouting remove")
    remedy = Remedy("with a copy, or another file", restored)
    remedy = remedy._replace(otherwise=Remedy(given_up, new, otherwise=remove))
    if not is_there:
        return remedy
    words = f"correct {HostLayout.config_path}, then"
    return Remedy(words, "hostrouting status", needs_root=False, otherwise=remedy)


def with_gate_command(findings: Iterable[Finding], apply: str) -> tuple[Finding, ...]:
    """The findings; to gate the units that are not gated, this command is typed with their names.

    Without a command, they have no remedy.
    """
    findings = tuple(findings)
    units = [finding.target for finding in findings if finding.name == "unit-not-gated"]
    remedy = None
    if apply:
        remedy = Remedy(command=f"{apply}{gate_options(units)}")
    changed: list[Finding] = []
    for finding in findings:
        if finding.name == "unit-not-gated":
            changed.append(finding._replace(remedy=remedy))
        else:
            changed.append(finding)
    return tuple(changed)
