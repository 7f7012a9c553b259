"""Whether the gate of the installed configuration is in force: its files, compared with what the
configuration asks for, and its units, as `unit_gates` judges them.

Nothing is changed here; `install` repairs the gate.
"""

from __future__ import annotations

import fnmatch
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from hostrouting.boot.files import UNIT_OF_STEP, WRITER, steps_of
from hostrouting.boot.on_disk import files_on, writer_of
from hostrouting.boot.unit_gates import APPLY, judge_gates
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import HostError
from hostrouting.finding import Finding, Remedy, worst_first
from hostrouting.host.fileset import File, describe_mask, is_masked
from hostrouting.host.layout import DROP_IN, HostLayout

if TYPE_CHECKING:
    from hostrouting.boot.unit_gates import UnitGates
    from hostrouting.host.files import Files
    from hostrouting.host.host import Host

_OTHER_OWNER_OR_MODE = "has another owner or mode"


def find_faults(host: Host, config: HostRoutingConfig) -> tuple[Finding, ...]:
    """What is wrong with the gate of this configuration, which is the installed one. Nothing is
    changed.
    """
    gates = judge_gates(host, gated_units(config))
    own = _own_files(host.files, config, holds_units=bool(gates.held))
    return _with_others(host.files, gated_units(config), gates, own)


def find_faults_without_config(host: Host, units: Sequence[str]) -> tuple[Finding, ...]:
    """What is wrong with the gate of these units where nobody knows what our files should be."""
    gates = judge_gates(host, units)
    own: list[Finding] = []
    try:
        if units:
            own += _unusable_gate(host.files)
        return _with_others(host.files, units, gates, own)
    except HostError:  # this user may not look into our folders
        return gates.findings


def _unusable_gate(files: Files) -> Iterator[Finding]:
    """That gate.sh is missing or empty, so that the gate lets no unit pass."""
    gate = _why_unusable(files, File(HostLayout.gate_path))
    if gate is not None:
        yield _shutting(gate)


def _with_others(
    files: Files, units: Sequence[str], gates: UnitGates, own: Iterable[Finding]
) -> tuple[Finding, ...]:
    """What is wrong with our own files and the gates of these units, and what others have changed
    beside our files.
    """
    findings = [_shutting(finding) for finding in open_folders(files)]
    findings += own
    if units:
        # What it says of a start is about the next one that asks the gate, even if none does now.
        findings += [_foreign_step(files, path) for path in foreign_steps(files)]
    if not gates.held:  # no start asks the gate, so what is "gate-shut" above is only a "file"
        findings = [finding._replace(name="file") for finding in findings]
    return worst_first((*findings, *gates.findings))


def _shutting(finding: Finding) -> Finding:
    """The fault of a file that makes the gate refuse every start."""
    return finding._replace(name="gate-shut")


def _own_files(files: Files, config: HostRoutingConfig, *, holds_units: bool) -> Iterator[Finding]:
    """Who wrote the files of ours, and what is wrong with each."""
    writer = writer_of(files)
    # A run writes config.json first. If it was killed then, the other files may be of the release
    # before; those that differ are not what config.json asks for.
    is_current = writer == WRITER
    if not is_current:
        yield note_of_writer(writer or "an unknown release")
    required = {step.file.path for step in steps_of(config) if step.is_required}
    for file in files_on(files, config):
        is_required = file.path in required
        unusable = _why_unusable(files, file)
        if unusable is not None:
            if is_required or file.path == HostLayout.gate_path:
                unusable = _shutting(unusable)
            yield unusable
            continue
        deviation = _deviation(files, file, is_current=is_current)
        if deviation is None:
            continue
        if is_required and holds_units:  # where the gate holds no unit, it runs no step
            deviation = _as_the_gate_says(files, deviation)
        yield deviation


def note_of_writer(writer: str) -> Finding:
    """The note that another release wrote our files."""
    sentence = f"the files were written by {writer}, but this is {WRITER}"
    return Finding("file", "note", sentence, HostLayout.config_path, APPLY)


def _why_unusable(files: Files, file: File) -> Finding | None:
    """That a file of ours is missing or empty, or is not a file, or that a unit of ours is masked.

    An empty gate.sh or step refuses a start: the drop-in and gate.sh take what ends without an
    `exit` for cut short.
    """
    path = file.path
    is_unit = path.endswith(".service") and not file.target
    if is_unit and is_masked(files, path):
        return describe_mask(path)  # which `apply` does not replace
    entry = files.look(path)
    if entry is None:
        if path.endswith(f"/{DROP_IN}"):
            return None  # `unit_gates` says what the unit does without it
        return _fault(path, "is missing")
    if entry.kind == "link":  # it may lead anywhere: see _deviation
        return None
    if entry.kind != "file":
        predicate = f"is a {entry.kind}, where a file of hostrouting has to be"
        return _fault(path, predicate, Remedy("move it away"))
    if files.read(path) == "":
        return _fault(path, "is empty")
    return None


def _deviation(files: Files, file: File, *, is_current: bool) -> Finding | None:
    """What is wrong with the owner, the mode or the text of a file, or with the target of a link.

    The text of a file that another release wrote is not compared: `apply` writes it anew.
    """
    path = file.path
    entry = files.look(path)
    if entry is None:
        return None
    if entry.kind == "link" and not file.target:
        remedy = APPLY._replace(words="remove the link; then")  # which `apply` does not replace
        return _fault(path, "is a link, and not a file", remedy)
    if is_current and file.differs(files):
        # What an edited script does is not known: it may refuse each start, or none.
        return _fault(path, _how_it_differs(files, file))
    if entry.kind == "file" and entry.is_open_to_others:  # whoever wrote it, root runs it
        return _fault(path, _OTHER_OWNER_OR_MODE)
    return None


def _as_the_gate_says(files: Files, deviation: Finding) -> Finding:
    """The fault of a required step, in the words of the gate if that does not run the step."""
    refusal = why_not_run(files, deviation.target)
    if refusal is None:
        return deviation
    return _shutting(deviation._replace(sentence=refusal.sentence))


def _fault(path: str, predicate: str, remedy: Remedy = APPLY) -> Finding:
    return Finding("file", "error", f"{path} {predicate}", path, remedy)


def _how_it_differs(files: Files, file: File) -> str:
    """What is wrong with a file that is there."""
    if not file.target and files.read(file.path) == file.text:
        return _OTHER_OWNER_OR_MODE
    return f"is not what {HostLayout.config_path} asks for"


def _foreign_step(files: Files, path: str) -> Finding:
    """That units wait for a script of somebody else, or why the gate does not run it."""
    refusal = why_not_run(files, path)
    if refusal is not None:
        return _shutting(refusal)
    sentence = (
        f"{path} was not installed by hostrouting: a gated unit starts only after it succeeds"
    )
    return Finding("file", "note", sentence, path)


# What gate.sh refuses to run; a plan looks at this, too.


def open_folders(files: Files) -> Iterator[Finding]:
    """Folders of ours in which others than root can replace what root runs; gate.sh then runs no
    step.
    """
    for folder in (HostLayout.config_directory, HostLayout.gate_directory):
        entry = files.look(folder)
        if entry is not None and entry.is_open_to_others:
            sentence = f"users other than root can write to {folder}, and root runs what is there"
            remedy = Remedy(command=f"chown root {folder} && chmod 755 {folder}")
            yield Finding("file", "error", sentence, folder, remedy)


def foreign_steps(files: Files) -> tuple[str, ...]:
    """The scripts in gate.d that are not ours; they also hold gated units back.

    A step of ours that the configuration does not ask for, left by a run that was killed, is not
    among them: the plan removes it, so `status` says that the host differs.
    """
    folder = HostLayout.gate_directory
    ours = {f"{step}.sh" for step in UNIT_OF_STEP}
    steps = fnmatch.filter(files.names(folder), "[!.]*.sh")  # as *.sh in bash
    return tuple(f"{folder}/{step}" for step in steps if step not in ours)


def why_not_run(files: Files, step: str) -> Finding | None:
    """Why gate.sh does not run the step at this path; None if it does, or if nothing is there. Bash
    reads a step, so that need not be executable; `is_open_to_others` includes another owner.
    """
    entry = files.look(step)
    if entry is None:
        return None
    path = shlex.quote(step)  # whoever can write to the folder chooses the name
    repair = Remedy(command=f"chown root {path} && chmod 644 {path}")
    if entry.kind == "link":
        reason = f"{step} is a link"
        repair = Remedy("put a copy of the file in its place")
    elif entry.kind != "file":
        reason = f"{step} is not a file"
        repair = Remedy("move it away")
    elif not entry.is_trusted:
        reason = f"{step} does not belong to root"
    elif entry.is_open_to_others:
        reason = f"users other than root can write to {step}"
    else:
        return None
    sentence = f"{reason}, so the gate does not run it, and lets no unit pass"
    return Finding("file", "error", sentence, step, repair)
