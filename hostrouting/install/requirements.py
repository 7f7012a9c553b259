"""What a host lacks for a configuration. A run that finds such an error fails before its first
write.

Not looked for: what a write, systemd or nft reports itself, such as a full disk, a missing right or
a missing nft.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from hostrouting.boot.program import Program
from hostrouting.boot.units import UNSET
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import HostRoutingError
from hostrouting.finding import Finding, Remedy
from hostrouting.gate.health import find_failing_python
from hostrouting.gate.trusted import find_untrusted
from hostrouting.gate.unit_gates import (
    OTHER_FILES_SETTINGS,
    OTHER_ROOT_SETTINGS,
    find_cancelled_gates,
    show_with_instances,
    systemd_does_not_run,
)
from hostrouting.gate.unit_names import is_template, template_of
from hostrouting.gate.unit_states import UnitState
from hostrouting.host.interpreter import INSTALL_PYTHON, missing_interpreter
from hostrouting.host.layout import HostLayout
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.host.fileset import FileChanges
    from hostrouting.host.host import Host

_BEFORE_THE_GATE = {
    "sysinit.target",
    "basic.target",
    "network-pre.target",
    "network.target",
    "network-online.target",
}
"""The targets that are reached before the gate runs, because it waits for the network."""
_PROPERTIES = ("Id", "LoadState", "Before", "Environment", "User", *OTHER_FILES_SETTINGS)


def find_requirements(
    host: Host, config: HostRoutingConfig, changes: FileChanges
) -> Iterator[Finding]:
    """Yield a finding for each thing by which this host hinders a run that installs this
    configuration: usually an error, so that the run fails before its first write. In an image, a
    missing Python is only a warning: it may come later. `changes` are what the run would change.
    """
    # At the path of a file, there may be something that a run must not replace: a mask of systemd,
    # a folder, a link, or another program's file.
    for file in changes.writes:
        obstacle = file.find_obstacle(host.files)
        if obstacle is not None:
            yield obstacle
    gated = gated_units(config)
    if not gated:
        return  # all else is about the gate
    yield from _why_gate_cannot_run(host, changes)
    if host.running_manager is not None:
        for gated_unit in gated:
            shown = show_with_instances(host, gated_unit, _PROPERTIES)
            for unit, properties in shown.items():
                yield from _why_unit_cannot_be_gated(unit, properties)
                # The drop-in takes away variables of the unit that the loader obeys (`UNSET`), such
                # as LD_PRELOAD. Only the run that writes it warns of this.
                if HostLayout.drop_in_path(unit) in changes.written_paths:
                    yield from _lost_variables(unit, properties)
        yield from find_cancelled_gates(host, config)
    elif not host.is_image:
        yield systemd_does_not_run(gated)


def _why_gate_cannot_run(host: Host, changes: FileChanges) -> Iterator[Finding]:
    """Yield an error for each file by which users other than root could change what the gate runs,
    unless this run replaces the file. If there is none, yield an error if no Python on the host can
    run the program of the gate.
    """
    python = host.interpreter.find()
    # The owners and modes of an image may still change, so they are not judged.
    untrusted = [
        finding
        for finding in find_untrusted(host.files, python)
        if not host.is_image and finding.target not in changes.written_paths
    ]
    if untrusted:
        yield from untrusted
        return  # a Python that others can change is not even tried
    if not python:
        # An image may still get a Python.
        yield missing_interpreter()._replace(severity="warning" if host.is_image else "error")
        return
    # If the run writes the program, compiling it shows whether the interpreter can run it. If the
    # run keeps the installed program, that one is tried. (In an image, nothing is compiled or run.)
    for file in changes.writes:
        if isinstance(file, Program):
            try:
                file.content()
            except HostRoutingError as error:
                yield from error.findings
            return
    yield from find_failing_python(host, python, INSTALL_PYTHON)


def _why_unit_cannot_be_gated(unit: str, properties: Mapping[str, str]) -> Iterator[Finding]:
    """Yield an error if the gate cannot hold this unit back, for the first of these reasons: its
    name is an alias, but the gate compares the unit's own name; it starts before something that the
    gate waits for; or systemd runs its commands, and so the gate, on other files than the host's.
    `properties` of a template are those of one of its instances.

    Yield a note if systemd does not know the unit: its name may be wrong, or it may be installed
    later. There is no note for a template: the gate of machines is there by default, even on a host
    without their template.
    """
    # An order through other units is not judged.
    before = sorted(_BEFORE_THE_GATE.intersection(properties["Before"].split()))
    # By settings such as BindPaths=, the gate, which runs as root, would run files of the unit's
    # user. If this user is root, only another root folder or image is refused, because the gate
    # would judge this root and not the host. DynamicUser= sets User=, too.
    is_root = properties["User"] in {"", "0", "root"}
    refused = OTHER_ROOT_SETTINGS if is_root else OTHER_FILES_SETTINGS
    other_files = [name for name in refused if properties[name]]
    own_name = properties["Id"]
    if is_template(unit):
        own_name = template_of(own_name)
    elif properties["LoadState"] == "not-found":
        yield Finding("unit", "note", UnitState(unit, "unknown").sentence, unit)
    if own_name != unit:
        sentence = f"{unit} is another name of {own_name}, and the gate needs the unit's own"
        remedy = f"name {own_name} in gate.units"
    elif before:
        sentence = (
            f"{unit} starts before {before[0]}, which the gate waits for: each would wait for the "
            "other"
        )
        remedy = "name the unit that needs the network, such as kubelet.service, in gate.units"
    elif other_files:
        sentence = (
            f"{unit} has {other_files[0]}=, so root would run the gate from files that may be "
            "another user's"
        )
        remedy = "leave it out of gate.units, or take the setting away"
    else:
        return
    yield Finding("requirement", "error", sentence, unit, Remedy(remedy))


def _lost_variables(unit: str, properties: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a warning if the unit sets environment variables that our drop-in takes away (`UNSET`):
    its own program does not get them any more.
    """
    # systemctl prints NAME=VALUE or, if there is a blank in the value, "NAME=VALUE". The end of the
    # pattern skips the rest of such quotes, in which a text like NAME= is part of the value.
    names = re.findall(r'(?:^| )"?(\w+)=(?:(?:\\.|[^"\\])*"(?= |$))?', properties["Environment"])
    lost = sorted({*UNSET.split()}.intersection(names))
    if lost:
        sentence = (
            f"{unit} loses {spoken(lost)}, which its Environment= sets: with such variables, a "
            "user of the unit could run code in the gate, as root"
        )
        yield Finding(
            "requirement",
            "warning",
            sentence,
            unit,
            Remedy("set it in the command: ExecStart=/usr/bin/env NAME=VALUE COMMAND"),
        )
