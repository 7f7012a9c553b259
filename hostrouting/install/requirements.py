"""What a host lacks for a configuration; a run fails because of it before its first write.

What a write, systemd or nft says itself is not asked before: a full disk, a missing right, a
missing nft.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from hostrouting.boot.program import Program
from hostrouting.boot.units import UNSET
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import HostRoutingError
from hostrouting.finding import Finding, Remedy
from hostrouting.gate.trusted import find_untrusted
from hostrouting.gate.unit_gates import find_cancelled_gates, systemd_does_not_run
from hostrouting.gate.unit_names import is_template, plain_instance, template_of
from hostrouting.host.interpreter import missing_interpreter
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
"""The gate waits for these."""


def find_requirements(
    host: Host, config: HostRoutingConfig, changes: FileChanges
) -> Iterator[Finding]:
    """What this host lacks for the configuration: errors, and for an image also warnings."""
    yield from _unusable_paths(host, changes)
    gated = gated_units(config)
    if not gated:
        return
    for finding in find_untrusted(host.files):
        if finding.target not in changes.written_paths:
            yield finding
    yield from _unusable_interpreter(host, changes)
    manager = host.running_manager
    if manager is not None:
        shown = manager.show(
            ("Id", "Before", "Environment", "RootDirectory"), *map(plain_instance, gated)
        )
        for unit, properties in zip(gated, shown, strict=True):
            yield from _why_it_cannot_be_gated(unit, properties)
            if HostLayout.drop_in_path(unit) in changes.written_paths:
                yield from _lost_variables(unit, properties)
        yield from find_cancelled_gates(host, config)
    elif not host.is_image:
        yield systemd_does_not_run(gated)


def _unusable_paths(host: Host, changes: FileChanges) -> Iterator[Finding]:
    """Paths of ours that are masked, or where something is that we do not replace: a folder, a
    link, or another program's file.
    """
    for file in changes.writes:
        obstacle = file.find_obstacle(host.files)
        if obstacle is not None:
            yield obstacle


def _unusable_interpreter(host: Host, changes: FileChanges) -> Iterator[Finding]:
    """A finding if no Python on the node can run the program: making its content tries that,
    before anything changes. An image may get one later.
    """
    if not host.interpreter.find():
        yield missing_interpreter()._replace(severity="warning" if host.is_image else "error")
        return
    for file in changes.writes:
        if isinstance(file, Program):
            try:
                file.content()
            except HostRoutingError as error:
                yield from error.findings


def _why_it_cannot_be_gated(unit: str, properties: Mapping[str, str]) -> Iterator[Finding]:
    """A finding if this is another name of a unit, because the gate knows a unit by its own; if the
    network waits for the unit, while the gate waits for the network; or if the unit has a root of
    its own. An order that leads through other units is not judged.
    """
    before = sorted(_BEFORE_THE_GATE.intersection(properties["Before"].split()))
    own_name = properties["Id"]
    words = "name the unit that needs the network, such as kubelet.service, in gate.units"
    if own_name != plain_instance(unit):
        if is_template(unit):
            own_name = template_of(own_name)
        sentence = f"{unit} is another name of {own_name}, and the gate needs the unit's own"
        words = f"name {own_name} in gate.units"
    elif before:
        sentence = (
            f"{unit} starts before {before[0]}, which the gate waits for: each would wait for the "
            "other"
        )
    elif properties["RootDirectory"]:
        sentence = f"{unit} has RootDirectory=, so root would run the gate from that folder"
    else:
        return
    yield Finding("requirement", "error", sentence, unit, Remedy(words))


def _lost_variables(unit: str, properties: Mapping[str, str]) -> Iterator[Finding]:
    """The variables that the unit sets itself, and that our drop-in takes away."""
    names = {word.strip("\"'$").partition("=")[0] for word in properties["Environment"].split()}
    lost = sorted(names.intersection(UNSET.split()))
    if lost:
        sentence = (
            f"{unit} loses {spoken(lost)}, which its Environment= sets: in the gate, root would "
            "obey what a user of the unit may have set"
        )
        remedy = Remedy(f"set it in the command: ExecStart=/usr/bin/env {lost[0]}=VALUE COMMAND")
        yield Finding("requirement", "warning", sentence, unit, remedy)
