"""Whether the hold is in force: what lets gated units start unchecked, and what keeps them from starting.

Whether the files are as they should be, `tasks.install.file_changes` says. Here systemd is asked what it would really
run: another drop-in may override ours, systemd may have loaded an older text, and settings of the unit may count a
refusal as a success. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from hostrouting.config.settings import gated_units
from hostrouting.finding import Finding
from hostrouting.host.layout import DROP_IN, HostLayout
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host

_PROPERTIES = (
    "Id",
    "LoadState",
    "DropInPaths",
    "NeedDaemonReload",
    "ExecCondition",
    "SuccessExitStatus",
    "RootDirectory",
    "RootImage",
)
_COMMAND = "/etc/hostrouting/gate.sh"


def find_faults(host: Host, config: HostRoutingConfig) -> tuple[Finding, ...]:
    """What is wrong with the hold of the installed configuration on this host; empty if units are held."""
    return tuple(_faults(host, config))


def _faults(host: Host, config: HostRoutingConfig) -> Iterator[Finding]:
    units, layout = gated_units(config), host.layout
    if not units:
        return
    if host.files.is_there(layout.opening_path):
        reason = (host.files.read(layout.opening_path) or "").strip()
        if reason and host.files.is_protected(layout.opening_path):
            sentence = f"{spoken(units)} may start unchecked until the next boot: {reason}"
            yield Finding(
                "gate-open", "warning", sentence, layout.opening_path, f"to end this: rm {layout.opening_path}"
            )
        else:
            sentence = (
                f"{layout.opening_path} opens nothing: it needs a reason in it, and only root may be able to write it"
            )
            yield Finding("gate-open", "note", sentence, layout.opening_path, "remove it")
    manager = host.running_manager
    if manager is None:
        return
    for unit in units:
        instance = unit.replace("@.", "@hostrouting-probe.")
        names = (instance, unit.replace("@.", "@*.")) if instance != unit else (unit,)
        causes: dict[str, str] = {}  # of a cause that holds for every instance of a template, only the first is named
        for properties in manager.show(_PROPERTIES, *names):
            name = unit if properties["Id"] == instance else properties["Id"]
            for cause, remedy in _causes(unit, properties):
                causes.setdefault(cause, f"{name}|{remedy}")
        for cause, rest in causes.items():
            name, _, remedy = rest.partition("|")
            yield Finding("gate-open", "error", f"{name} {cause}", name, remedy)


def _causes(unit: str, properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What lets this unit start unchecked, as predicates, each with its remedy."""
    if properties["LoadState"] in {"masked", "not-found"}:
        return
    ours = f"{HostLayout.unit_directory}/{unit}.d/{DROP_IN}"
    others = [path for path in properties["DropInPaths"].split() if path != ours]
    where = f"see: systemctl cat {properties['Id']}"
    if _COMMAND not in properties["ExecCondition"]:
        if properties["NeedDaemonReload"] == "yes":
            yield "starts unchecked: systemd has not read the drop-in", "run: systemctl daemon-reload"
        elif same := [path for path in others if path.endswith(f"/{DROP_IN}")]:
            yield f"starts unchecked: {same[0]} overrides {ours}", f"remove {same[0]}"
        else:
            yield "starts unchecked: another file takes ExecCondition= of the gate away", where
    statuses = properties["SuccessExitStatus"].split()
    if "255" in statuses:
        yield "has SuccessExitStatus=255, so it starts even if the gate refuses", where
    for name in ("RootDirectory", "RootImage"):
        if properties[name]:
            yield f"has {name}={properties[name]}, where the gate cannot run, so it never starts", f"do not gate {unit}"
