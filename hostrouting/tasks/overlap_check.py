"""CheckRouteOverlap checks the expected CIDRs now and before any gated unit starts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar

from hostrouting.boot.gate import Part
from hostrouting.boot.gate_files import GateStep
from hostrouting.boot.installed import parsed
from hostrouting.boot.scripts import parse_check_script, render_check_script
from hostrouting.boot.units import render_check_unit
from hostrouting.check.examine import Examination, FamilyExamination, concern_of, examine, find_correction
from hostrouting.check.report import check_document, check_findings, escapes_in
from hostrouting.config.values import Mode
from hostrouting.errors import BackendError, FileError, RouteOverlapError
from hostrouting.finding import ESCAPES, SHOWN, Finding, first_lines, of_severity
from hostrouting.host.fileset import File, FileSet, unit_file
from hostrouting.tasks.base import Alive, HostTask, MayRepair
from hostrouting.tasks.results import Change, CheckResult, Look, removal
from hostrouting.text import spoken
from phases.text import moment_as_text

if TYPE_CHECKING:
    import phases
    from hostrouting.config.settings import RouteOverlapConfig
    from hostrouting.config.values import Network
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.kernel.concern import Concern

_ANSWER = {"schema", "verdict", "verdicts", "mode", "expectedDevs"}
"""The keys of a report that say what the answer is."""
_TO_WARN = "the mode changes from STRICT to WARN: gated units then start even while addresses escape"
_TO_STRICT = Finding(
    "mode", "note", "the mode changes from WARN to STRICT: then no gated unit starts while an address escapes", "STRICT"
)
_MORE = "; all are in route-overlap.json"
_WRONG = (*ESCAPES, "no-default-route")
_REMEDIES = ("missing-rule", "action", "unsafe", "repair-cost")


class CheckRouteOverlap(HostTask[CheckResult]):
    """Check that every address of the expected CIDRs leaves by an expected device, now and before gated units start.

    The gate is installed before the verdict is known: if the bootstrap fails here, gated units do not start. In WARN an
    overlap is logged; in STRICT it raises RouteOverlapError. If the markers cannot be written or removed, for example
    because /run is full, that is a warning in both modes: only the routes decide. Without expected CIDRs there is
    nothing to check, and what was installed for the check is removed.
    """

    name: ClassVar[str] = "check-route-overlap"
    nothing: ClassVar[str] = "no expected CIDRs are configured, and the check is not installed"
    section: ClassVar[str] = "routeOverlap"

    @property
    def part(self) -> Part:
        """The script, which runs before a gated unit starts and must succeed in STRICT; a unit to start it by hand."""
        layout, seconds = self.host.layout, self.boot_wait
        text = render_check_unit(layout, wait=seconds)
        script = render_check_script(self.config, layout=layout, wait=seconds)
        files = FileSet(
            (
                unit_file(layout.check_unit_path, text, layout=layout),
                File(layout.check_script_path, script, mode=0o755),
            ),
            obsolete=(
                *layout.obsolete_paths(layout.check_unit),
                layout.at(f"{layout.unit_directory}/multi-user.target.wants/{layout.check_unit}"),
            ),
            aliases=((layout.check_alias_path, layout.check_script),),
        )
        step = GateStep(
            60, "wants" if self.config.route_overlap.mode is Mode.WARN else "requires", "check-route-overlap"
        )
        remains = (*self._markers, layout.unfinished_path)
        return Part(step, files, layout.check_unit, remains=remains)

    @property
    def is_wanted(self) -> bool:
        """Whether any CIDRs are expected."""
        return bool(self.config.route_overlap.expected_cidrs)

    def change(self, *, up: bool) -> Change:
        """What a new mode means, as a note. The task changes only files of the gate."""
        return Change(others=(_TO_STRICT,) if up and self._gets_strict else ())

    def removals(self) -> tuple[Finding, ...]:
        """What is lost of the installed check: all of it, its mode STRICT, or addresses in its CIDRs."""
        old, new = self._installed, self.config.route_overlap
        if old is None:
            return ()
        is_strict = old.mode is Mode.STRICT
        if not self.is_wanted:
            cidrs = spoken([str(cidr) for cidr in old.expected_cidrs])
            told = f"installed, but not in this configuration: the check of {cidrs} in mode {old.mode}"
            return (removal(self.section_path, told, is_protection=is_strict),)
        gone = [str(part) for cidr in old.expected_cidrs for part in _uncovered(cidr, new.expected_cidrs)]
        told = f"no longer checked: {spoken(gone)}"
        found = [removal(f"{self.section_path}.expectedCidrs", told, is_protection=is_strict)] if gone else []
        if is_strict and new.mode is Mode.WARN:
            found.append(removal(f"{self.section_path}.mode", _TO_WARN, is_protection=True))
        return tuple(found)

    @property
    def _installed(self) -> RouteOverlapConfig | None:
        """The settings of the installed check, if its script is ours."""
        script = parsed(self.host.files, self.host.layout.check_script_path, parse_check_script)
        return None if script is None else script.config

    @property
    def _gets_strict(self) -> bool:
        old = self._installed
        return old is not None and (old.mode, self.config.route_overlap.mode) == (Mode.WARN, Mode.STRICT)

    def carry_out(self, ctx: phases.Context, change: Change, *, up: bool) -> CheckResult:  # noqa: ARG002  nothing in it
        """Check now. Undoing has nothing left to do: the task's files were removed with the gate."""
        if self.host.backend is None or not up:
            return CheckResult()
        for error in self._forget():
            ctx.log.warning("%s; this file holds the result of an earlier check", error)
        with self.host.backend() as backend:
            return CheckResult(examination=self._examine(ctx, backend))

    def keep(self, ctx: phases.Context, may_repair: MayRepair, alive: Alive = lambda: None) -> Look:  # noqa: ARG002  there is nothing to repair
        """Check, and write the markers if they have another answer."""
        with self.kernel() as backend:
            found = examine(ctx, backend, self.config, wait=0)
        if found.verdict == "undecided" and any(family.restless for family in found.families):
            raise BackendError("the route tables keep changing; the verdict is the earlier one", kind="unsettled")
        told = check_findings(found, mode=self.config.route_overlap.mode)
        unwritten = self._written_anew(ctx, found, told)
        counts = {str(cidr): 0 for family in found.families for cidr in family.report.cidrs}
        for escape in found.escapes:
            counts[str(escape.cidr)] += 1
        wrong = _named(told, *_WRONG)
        more = first_lines(wrong, _MORE)[SHOWN:]
        shown = (*wrong[:SHOWN], *(Finding("guard", "warning", line) for line in more))
        verdicts = {
            str(cidr): _verdict_on(str(cidr), family, counts)
            for family in found.families
            for cidr in family.report.cidrs
        }
        return Look(
            concerns=self._concerns(found),
            findings=(*shown, *unwritten),
            verdict=found.verdict,
            verdicts=verdicts,
            escapes=counts,
        )

    def _concerns(self, found: Examination) -> tuple[Concern, ...] | None:
        """What the answer depends on.

        Where the packets of pods are checked, this is every device of a pod, too. Without a default route, the answer
        names all devices that could have one.
        """
        if self.config.route_overlap.pod_cidrs or found.lacking:
            return None
        return (concern_of(found.families[0].fib.snapshot, self.config),)

    def _written_anew(self, ctx: phases.Context, found: Examination, told: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Write the markers if they have another answer; return a finding for each that could not be written."""
        document = check_document(found, mode=self.config.route_overlap.mode, findings=told)
        errors: list[FileError] = []
        try:
            since = self._since(document, found.verdict)
            if since is None:
                errors += self._forget()
                self._mark(found, told, {**document, "since": moment_as_text(ctx.clock.utc())})
            elif since == "":
                self._mark(found, told, {**document, "since": self._written_at() or moment_as_text(ctx.clock.utc())})
        except FileError as error:
            errors.append(error)
        return tuple(Finding("file", "warning", str(error), error.path) for error in errors)

    def _written_at(self) -> str:
        """When the report was written; empty if that is not known."""
        seconds = self.host.files.modified(self.host.layout.report_path)
        return "" if seconds is None else moment_as_text(datetime.fromtimestamp(seconds, timezone.utc))

    def _since(self, document: dict[str, Any], verdict: str) -> str | None:
        """Since when the report and the marker on the host have this answer; None if they have another.

        Empty if the report has no time, because no guard wrote it. The check at boot writes no report.
        """
        import json  # noqa: PLC0415  only a check needs it

        files, layout = self.host.files, self.host.layout
        bad = verdict in {"overlap", "no-default-route"}
        if files.is_there(layout.ok_path) is bad or files.is_there(layout.detected_path) is not bad:
            return None
        try:
            known = json.loads(files.read(layout.report_path) or "{}")
        except (ValueError, RecursionError):
            return None
        if not isinstance(known, dict) or any(known.get(key) != document.get(key) for key in _ANSWER):
            return None
        if escapes_in(known) != escapes_in(document):
            return None
        since = known.get("since")
        return since if isinstance(since, str) else ""

    @property
    def _markers(self) -> tuple[str, ...]:
        layout = self.host.layout
        return (layout.ok_path, layout.detected_path, layout.report_path)

    def prepare(self, ctx: phases.Context) -> None:
        """Warn of a new mode STRICT; remove the markers of another check, because this run may not write its own.

        A check that protects less is installed when its task runs; until then the markers are those of the former one.
        """
        if self._gets_strict:
            ctx.log.warning("%s", _TO_STRICT)
        if self._installed != self.config.route_overlap and not self.takes_protection_away:
            self._forget()

    def _forget(self) -> list[FileError]:
        failures: list[FileError] = []
        FileSet(obsolete=self._markers).remove(self.host.files, failures)
        return failures

    def _examine(self, ctx: phases.Context, backend: RouteBackend) -> Examination:
        found = examine(ctx, backend, self.config, wait=self.wait)
        # Without routes, it may be a configuration of the check alone: what is installed then is in another.
        of_all = found.escapes and self.config.static_routes.routes
        mode = self.config.route_overlap.mode
        correction = find_correction(found, self.config) if of_all else None
        told = check_findings(found, mode=mode, wait=self.wait, correction=correction)
        wrong, remedies = _named(told, *_WRONG), _named(told, *_REMEDIES)
        failing = bool(wrong) and mode == "STRICT"
        # In STRICT the error names the escapes, and its receiver reports them; only the rest is logged here.
        for line in () if failing else (*first_lines(wrong, _MORE), *first_lines(remedies, _MORE)):
            ctx.log.warning("%s", line)
        rest = [finding for finding in told if finding.name not in (*_WRONG, *_REMEDIES)]
        for severity in ("warning", "note"):
            alike = [*of_severity(rest, severity)]
            for finding in alike[:SHOWN]:
                ctx.log.log(finding.level, "%s", finding)
            if len(alike) > SHOWN:
                ctx.log.log(alike[0].level, "and %d more like these%s", len(alike) - SHOWN, _MORE)
        document = check_document(found, mode=mode, findings=told)
        try:
            self._mark(found, told, document)
        except FileError as error:
            ctx.log.warning("%s", error)
        if failing:
            lines = (*first_lines(wrong, _MORE), *first_lines(remedies, _MORE))
            raise RouteOverlapError("; ".join(lines), findings=told, report=found, check=document)
        return found

    def _mark(self, found: Examination, told: tuple[Finding, ...], document: dict[str, Any]) -> None:
        """Write the verdict where operators and other programs read it, as the boot script does.

        No file is stale at any moment. The marker is written last: once it exists, the report is complete.
        """
        import json  # noqa: PLC0415  only a check needs it

        files, layout = self.host.files, self.host.layout
        files.write(layout.report_path, json.dumps(document) + "\n")
        wrong = [finding.line for finding in _named(told, *_WRONG)]
        if found.verdict == "no-default-route":
            files.write(layout.detected_path, "no-default-route\n")
        elif wrong:
            files.write(layout.detected_path, _text(wrong))
        else:
            files.write(layout.ok_path, _text((found.verdict, *map(str, told))))


def _named(found: Iterable[Finding], *names: str) -> list[Finding]:
    return [finding for finding in found if finding.name in names]


def _uncovered(cidr: Network, others: Collection[Network]) -> Iterator[Network]:
    """The parts of a CIDR that the others do not cover."""
    near = [other for other in others if cidr.overlaps(other)]
    if not near:
        yield cidr
    elif all(other.prefixlen > cidr.prefixlen for other in near):
        for half in cidr.subnets():
            yield from _uncovered(half, near)


def _verdict_on(cidr: str, found: FamilyExamination, escapes: Mapping[str, int]) -> str:
    """The verdict on one CIDR; the verdict of its family may be about others."""
    if found.verdict == "no-default-route":
        return found.verdict
    doubtful = any(note.is_open and str(note.cidr) == cidr for note in found.notes)
    doubtful = doubtful or bool(found.doubts)
    return "overlap" if escapes[cidr] else "undecided" if doubtful else "ok"


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
