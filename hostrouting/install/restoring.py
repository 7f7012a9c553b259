"""What to type where hostrouting is installed and its config.json cannot be used.

A copy of the file brings everything back. Without one, a repair makes a new file, and of the old
one only the gated units are known: their drop-ins lie on the disk.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from hostrouting.config.settings import MACHINES
from hostrouting.finding import Remedy
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from collections.abc import Iterable

GIVEN_UP = "STRICT, the guard and all else that only this file says are given up"


def with_a_copy(options: str) -> str:
    """The line to type that restores the file from a copy; `repair` gets these options."""
    restore = f"cp COPY {HostLayout.config_path}"
    return f"{restore} && hostrouting repair{options} | hostrouting apply --config -"


def without_a_copy(options: str, gated: Iterable[str]) -> str:
    """The line to type that makes a new file, in which these units are gated, beside machines."""
    apply = f"hostrouting apply --config - --allow-removal{gate_options(gated)}"
    return f"echo {{}} | hostrouting repair{options} --config - | {apply}"


def gate_options(units: Iterable[str]) -> str:
    """The options of `apply` that gate these units, too."""
    return "".join(f" --gate {shlex.quote(unit)}" for unit in units)


def remedy_without_config(drop_ins: Iterable[str], options: str = " CIDR") -> Remedy:
    """What to do about a config.json that cannot be used, if these units have drop-ins of ours."""
    gated = [unit for unit in drop_ins if unit != MACHINES]
    remove = Remedy("to remove hostrouting", "hostrouting remove")
    anew = Remedy(f"without a copy, {GIVEN_UP}", without_a_copy(options, gated), otherwise=remove)
    return Remedy("with a copy of it", with_a_copy(options), otherwise=anew)
