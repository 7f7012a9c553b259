"""Whether the gate of the installed configuration is in force: its files, compared with what the
configuration asks for, and its units, as `unit_gates` judges them.

Nothing is changed here; `install` repairs the gate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from hostrouting.boot.files import WRITER, files_on, writer_of
from hostrouting.boot.program import Program, read_stamp
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import HostError
from hostrouting.finding import Finding, Remedy, worst_first
from hostrouting.gate.trusted import find_untrusted, foreign_owner, foreign_scripts
from hostrouting.gate.unit_gates import APPLY, judge_gates
from hostrouting.host.files import follow_links
from hostrouting.host.fileset import File, describe_unwritable
from hostrouting.host.interpreter import TO_INSTALL, minor_version
from hostrouting.host.layout import DROP_IN, HostLayout

if TYPE_CHECKING:
    from hostrouting.host.base import Files
    from hostrouting.host.files import Entry
    from hostrouting.host.host import Host

_OF_GATE = (HostLayout.program_path, HostLayout.python_path)
"""Without these, the gate cannot run, and no unit passes."""


def find_faults(host: Host, config: HostRoutingConfig) -> tuple[Finding, ...]:
    """What is wrong with the gate of this configuration, which is the installed one. Nothing is
    changed.
    """
    own = [*_own_files(host, config)]
    if host.rights().is_root:  # nobody else may write there anyway
        own += _unwritable(host, config)
    return _with_others(host, gated_units(config), own)


def find_faults_without_config(
    host: Host, units: Sequence[str], faults: Iterable[Finding] = ()
) -> tuple[Finding, ...]:
    """What is wrong with the gate of these units where config.json has these faults, so that the
    gate lets none of them pass, and nobody knows what our files should be. Perhaps another release
    wrote it, and this one does not understand it. Without faults, this user may not read it.
    """
    own = [_shutting(fault) for fault in faults]
    writer = writer_of(host.files)
    if writer not in {"", WRITER}:
        own.append(_note_of_writer(writer))
    try:
        return _with_others(host, units, own)
    except HostError:  # this user may not look into our folders
        return judge_gates(host, units).findings


def _with_others(host: Host, units: Sequence[str], own: Iterable[Finding]) -> tuple[Finding, ...]:
    """What is wrong with our own files and the gates of these units, and what others have changed
    beside our files.
    """
    findings = [*own]
    if units:
        of_gate = [_shutting(finding) for finding in find_untrusted(host.files)]
        if not any(map(_is_known_to_shut, (*of_gate, *findings))):
            of_gate += _unusable_program(host)
        shutting = {finding.target for finding in of_gate if finding.severity == "error"}
        findings += _script_notes(host.files)
        others = [finding for finding in findings if finding.target not in shutting]
        # What the last ones say of a start is about the next one that asks the gate, even if none
        # does now.
        findings = [*others, *of_gate]
    gates = judge_gates(host, units)
    if not gates.held:  # no start asks the gate, so what is "gate-shut" above is only a "file"
        findings = [_as_file(finding) for finding in findings]
    return worst_first((*findings, *gates.findings))


def _shutting(finding: Finding) -> Finding:
    """The fault of a file that makes the gate refuse every start."""
    return finding._replace(name="gate-shut")


def _is_known_to_shut(finding: Finding) -> bool:
    """Whether the program cannot be run anyway, so that to try it would say nothing new."""
    return finding.name == "gate-shut" and finding.target in _OF_GATE


def _as_file(finding: Finding) -> Finding:
    if finding.name == "gate-shut":
        return finding._replace(name="file")
    return finding


def _unusable_program(host: Host) -> Iterator[Finding]:
    """That the program cannot be run as the gate runs it; or that it starts slowly, because another
    interpreter has compiled it, or none.
    """
    if host.is_image:  # its interpreter does not run here
        return
    reason = host.interpreter.why_not_run()
    link, *links = follow_links(host.files, HostLayout.python_path)
    if reason and links and host.files.look(links[-1]) is None:
        sentence = f"{link} leads to {', and that to '.join(links)}, which does not exist"
        remedy = APPLY if host.interpreter.find() else TO_INSTALL
        yield Finding("gate-shut", "error", sentence, link, remedy)
        return
    if reason:
        sentence = f"{HostLayout.program_path} cannot be run: {reason}"
        # `apply` does not write a program again that is as it should be.
        remedy = APPLY if Program().differs(host.files) else TO_INSTALL
        yield Finding("gate-shut", "error", sentence, HostLayout.program_path, remedy)
        return
    minor = minor_version(host.files, HostLayout.python_path)
    stamp = read_stamp(host.files)
    if stamp.version and minor is not None and stamp.python != f"cpython-3{minor}":
        sentence = (
            f"{HostLayout.program_path} was not compiled by python3.{minor}, which runs it: each "
            "start of a gated unit takes about 0.2 s longer"
        )
        yield Finding("file", "note", sentence, HostLayout.program_path)


def _script_notes(files: Files) -> Iterator[Finding]:
    """The scripts of other programs that units wait for."""
    for path in foreign_scripts(files):
        sentence = (
            f"{path} was not installed by hostrouting: a gated unit starts only after it succeeds"
        )
        yield Finding("file", "note", sentence, path)


def _own_files(host: Host, config: HostRoutingConfig) -> Iterator[Finding]:
    """Which release wrote our files, and what is wrong with each."""
    writer = writer_of(host.files)
    is_current = writer == WRITER
    if not is_current:
        yield _note_of_writer(writer or "an unknown program")
    for file in files_on(host, config):
        fault = _fault_of(host.files, file, is_current=is_current)
        if fault is None:
            continue
        if file.path in _OF_GATE and host.files.look(file.path) is None:
            fault = _shutting(fault)
        yield fault


def _unwritable(host: Host, config: HostRoutingConfig) -> Iterator[Finding]:
    """Why no other configuration can be applied, such as that of a repair; and why the next check
    cannot say what it finds, such as a full /run. An image gets a /run of its own when it boots.
    """
    folder = HostLayout.config_directory
    reason = host.files.why_unwritable(folder)
    if reason:
        yield describe_unwritable([folder], reason)
    if host.is_image or not config.route_overlap.cidrs:
        return
    folder = HostLayout.state_directory
    reason = host.files.why_unwritable(folder)
    if reason:
        sentence = f"no result of a check can be written to {folder}: {reason}"
        see = Remedy("to see what fills it", "du -xah /run | sort -h | tail")
        yield Finding("file", "warning", sentence, folder, see)


def _note_of_writer(writer: str) -> Finding:
    """The note that another release wrote our files."""
    sentence = f"{HostLayout.config_path} was written by {writer}, but this is {WRITER}"
    remedy = APPLY._replace(words="to write those of this release")
    return Finding("file", "note", sentence, HostLayout.config_path, remedy)


def _fault_of(files: Files, file: File, *, is_current: bool) -> Finding | None:
    """What is wrong with a file or a link of ours. What another release wrote is not compared:
    `apply` writes it anew, unless something is there that it does not replace.
    """
    obstacle = file.find_obstacle(files)
    if obstacle is not None:
        return obstacle
    path = file.path
    entry = files.look(path)
    if entry is None:
        if path.endswith(f"/{DROP_IN}"):
            return None  # `unit_gates` says what the unit does without it
        return _fault(path, "is missing")
    if is_current and file.differs(files):
        return _fault(path, _how_it_differs(files, file, entry))
    return None


def _fault(path: str, predicate: str) -> Finding:
    return Finding("file", "error", f"{path} {predicate}", path, APPLY)


def _how_it_differs(files: Files, file: File, entry: Entry) -> str:
    """What is wrong with a file that is there."""
    if file.path == HostLayout.program_path:
        return "is not the program of this release, or is damaged"
    if not entry.is_trusted:
        return foreign_owner(entry)
    if not file.target and files.read(file.path) == file.text:
        return "has another mode"
    return f"is not what {HostLayout.config_path} asks for"
