"""CheckRouteOverlap: every address of the expected CIDRs leaves as expected, now and before every machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

import phases
from hostrouting.config import needs_config
from hostrouting.errors import FileError, RouteOverlapError
from hostrouting.host import Host
from hostrouting.installation import Installation, check_installation
from hostrouting.kernel import Examination, examine
from hostrouting.render import DEFAULT_WAIT
from hostrouting.tasks.boot import set_gate, valid_wait
from hostrouting.tasks.results import CheckResult, Preview
from hostrouting.wording import check_document, finding_line, no_default_line, notes_lines, repair_line, unsafe_line

if TYPE_CHECKING:
    from hostrouting.backends.base import RouteBackend
    from hostrouting.config import HostRoutingConfig

__all__ = ["CheckRouteOverlap"]

_NOTHING = "no expected CIDRs are configured, and nothing of the check is here"
_AT_MOST = 20  # lines of one kind in a log or an error


@attrs.frozen
class CheckRouteOverlap:
    """Check that every address of the expected CIDRs leaves by an expected device, now and before every machine.

    The gate is in place before the verdict is known, so that a bootstrap that fails here leaves it shut. In WARN an
    overlap is logged; in STRICT it raises RouteOverlapError. That the markers cannot be written or removed is a warning
    in both, as with a /run that is full: the routes alone decide. Without expected CIDRs there is nothing to
    check, and what was installed for it goes.
    """

    name: ClassVar[str] = "check-route-overlap"
    config: HostRoutingConfig = attrs.field(validator=needs_config)
    host: Host = attrs.field(factory=Host.local, kw_only=True)
    wait: float = attrs.field(default=DEFAULT_WAIT, validator=valid_wait, kw_only=True)
    """How many seconds are waited for what is needed of the host, now and, but no more than 60, at every boot."""
    gate_changed: tuple[str, ...] | None = attrs.field(default=None, kw_only=True, repr=False, eq=False)
    """What `gated` wrote or removed; None before that."""

    def do(self, ctx: phases.Context) -> CheckResult | phases.Skip:
        """See the class."""
        if not self._is_wanted:
            return self.undo(ctx) if self.gate_changed or self.is_due else phases.Skip(_NOTHING)
        with self.host.locked(ctx) as host:
            return attrs.evolve(self, host=host).gated(ctx)._check(ctx)

    def plan(self, _ctx: phases.Context) -> Preview:
        """The files that do() would write or remove; changes nothing. FileError where it could not write them."""
        if self._is_wanted:
            self._installation.gate.require_installable(self.host.files)
            changed = self._installation.differences(self.host.files)
            return Preview(None, changed, gate=changed)
        return self.plan_removal()

    def plan_removal(self) -> Preview:
        """The files that undo() would remove; changes nothing."""
        return Preview(None, self._present(), removes=True, gate=self._present())

    def undo(self, ctx: phases.Context) -> CheckResult:
        """Take away what was installed for the check, whatever the configuration says."""
        with self.host.locked(ctx) as host:
            return CheckResult(None, attrs.evolve(self, host=host).gated(ctx, up=False).gate_changed or ())

    @property
    def is_due(self) -> bool:
        """Whether there is anything to check, or files of the check are there."""
        return bool(self._is_wanted or self._present())

    def gated(self, ctx: phases.Context, *, up: bool | None = None) -> CheckRouteOverlap:
        """The task with its gate up or away: as the configuration wants it, unless told. The host has to be locked.

        What was found earlier goes before the gate comes: no marker stands for what has not been examined. It goes
        after the gate, since a check that is under way ends with that, and leaves no more markers.
        """
        if self.gate_changed is not None:
            return self
        if self._is_wanted if up is None else up:
            for error in self._forget():
                ctx.log.warning("%s; what it says is of an earlier check", error)
            changed = set_gate(ctx, self.host, self._installation, up=True)
        else:
            gone = set_gate(ctx, self.host, self._installation, up=False)
            changed = (*gone, *(path for path in self._remains if self.host.files.remove(path)))
        return attrs.evolve(self, gate_changed=changed)

    @property
    def _is_wanted(self) -> bool:
        return bool(self.config.route_overlap.expected_cidrs)

    @property
    def _installation(self) -> Installation:
        return check_installation(self.config, self.host.layout, wait=self.wait)

    @property
    def _markers(self) -> tuple[str, ...]:
        layout = self.host.layout
        return (layout.ok_path, layout.detected_path, layout.report_path)

    @property
    def _remains(self) -> tuple[str, ...]:
        """The markers, and what a check that was killed at boot had not finished."""
        return (*self._markers, self.host.layout.unfinished_path)

    def _present(self) -> tuple[str, ...]:
        remains = tuple(path for path in self._remains if self.host.files.is_there(path))
        return (*self._installation.present(self.host.files), *remains)

    def _forget(self) -> list[FileError]:
        """Take away what was found earlier, by a task or at a machine's start; why not, for each that is left."""
        failures = []
        for path in self._markers:
            try:
                self.host.files.remove(path)
            except FileError as error:
                failures.append(error)
        return failures

    def _check(self, ctx: phases.Context) -> CheckResult:
        changed = self.gate_changed or ()
        if self.host.backend is None:
            return CheckResult(None, changed)
        self._forget()  # what cannot be removed was told with the gate
        with self.host.backend() as backend:
            return CheckResult(self._examine(ctx, backend), changed)

    def _examine(self, ctx: phases.Context, backend: RouteBackend) -> Examination:
        found = examine(ctx, backend, self.config, wait=self.wait)
        account = _Account.of(found, wait=self.wait)
        strict = self.config.route_overlap.mode == "STRICT"
        failing = strict and found.report.verdict in {"overlap", "no-default-route"}
        # In STRICT what is wrong is said once, by whoever gets the error; what there is to know besides is logged.
        for lines in (account.notes,) if failing else (account.wrong, account.remedy, account.notes):
            _warn(ctx, lines)
        try:
            self._mark(found, account)
        except FileError as error:
            ctx.log.warning("%s", error)
        if failing:
            raise RouteOverlapError("; ".join((*_first(account.wrong), *_first(account.remedy))), report=found)
        return found

    def _mark(self, found: Examination, account: _Account) -> None:
        """Leave the verdict where operators and other programs look for it, as the boot script does.

        None is stale at any moment, and the marker comes last: once it is there, everything is.
        """
        import json  # noqa: PLC0415  only a check needs it

        files, layout = self.host.files, self.host.layout
        document = check_document(found.report, found.repair, mode=self.config.route_overlap.mode)
        document["verdict"] = found.verdict
        document["notes"] = [*document["notes"], *found.surprises]
        files.write(layout.report_path, json.dumps(document) + "\n")
        if found.report.verdict == "no-default-route":
            files.write(layout.detected_path, "no-default-route\n")
        elif account.wrong:
            files.write(layout.detected_path, _text(account.wrong))
        else:
            files.write(layout.ok_path, _text((found.verdict, *account.notes)))


@attrs.frozen
class _Account:
    """What there is to tell: what is wrong, what to do about it, and what to know besides."""

    wrong: tuple[str, ...]
    remedy: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, found: Examination, *, wait: float) -> _Account:
        """In the order in which an operator needs it."""
        report, repair = found.report, found.repair
        if report.verdict == "no-default-route":
            return cls((no_default_line(found.instead, wait=wait),))
        action = repair_line(report, repair)
        return cls(
            tuple(finding_line(it, report.expected_devs) for it in report.findings),
            (*((action,) if action else ()), *(f"UNSAFE: {unsafe_line(it)}" for it in repair.unsafe)),
            (*notes_lines(report, repair), *found.surprises),
        )


def _warn(ctx: phases.Context, lines: tuple[str, ...]) -> None:
    for line in _first(lines):
        ctx.log.warning("%s", line)


def _first(lines: tuple[str, ...]) -> tuple[str, ...]:
    """As many as anybody reads, and how many more there are."""
    more = len(lines) - _AT_MOST
    return lines if more <= 0 else (*lines[:_AT_MOST], f"and {more} more like these; all are in route-overlap.json")


def _text(lines: tuple[str, ...]) -> str:
    return "".join(f"{line}\n" for line in lines)
