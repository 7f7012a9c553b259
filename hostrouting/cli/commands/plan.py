"""`plan`: what apply would do, as a diff, and the verdict afterwards. Nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from hostrouting.boot.files import owned_paths
from hostrouting.cli.changes import Work
from hostrouting.cli.check import Check
from hostrouting.cli.command import FAILED, FINE, UNDECIDED, Command, Reply, config_option, removal_option
from hostrouting.cli.output import Line, Painted, below, line, named_lines
from hostrouting.cli.source import config_of, open_kernel, saved_snapshot
from hostrouting.config.settings import gated_units
from hostrouting.finding import Finding, worst_first
from hostrouting.kernel.awaiting import read_snapshot
from hostrouting.routes.plan import RoutePlan, plan_static_routes
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.install import read_installed
from hostrouting.tasks.requirements import find_losses
from hostrouting.tasks.results import Plan
from hostrouting.text import counted

if TYPE_CHECKING:
    import argparse

    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host
    from hostrouting.model.snapshot import Snapshot


class Prospect:
    """What `apply` would do, and the state afterwards. For a saved snapshot, the files are not known."""

    def __init__(
        self, plan: Plan, before: Snapshot, config: HostRoutingConfig, *, host: Host | None, losses: Sequence[Finding]
    ) -> None:
        """Judge a plan; `losses` is what apply would take away, an error if it refuses that."""
        self.plan, self.saved, self.routes, self.work = plan, host is None, plan.routes or RoutePlan(), Work.of(plan)
        self.findings = worst_first((*losses, *plan.findings))
        self.refused = any(loss.severity == "error" for loss in losses)
        self.is_installed = host is not None and bool(owned_paths(host.files, host.layout))
        self.units = () if host is None else gated_units(config)
        self.is_stuck = bool(self.routes.conflicts or self.routes.pending)  # no route could be changed
        self.changes = bool(self.work._replace(steps=()) if self.is_stuck else self.work)
        check = config.route_overlap
        # None if there is nothing to check, or if the plan cannot be carried out.
        self.after: Check | None = None
        if check.cidrs and not self.is_stuck:
            self.after = Check.of(self.routes.apply_to(before), config)
        # Whether apply would do all of this and then fail.
        self.ends_in_overlap = (
            self.after is not None and self.after.report.verdict == "overlap" and check.mode == "STRICT"
        )

    @property
    def answer(self) -> Literal["refused", "conflict", "not-ready", "to-do", "overlap", "nothing-to-do"]:
        """The result in one word."""
        if self.refused:
            return "refused"
        if self.routes.conflicts or self.plan.errors:
            return "conflict"
        if self.routes.pending or (self.after is not None and self.after.report.verdict == "no-default-route"):
            return "not-ready"
        if self.changes:
            return "to-do"
        return "overlap" if self.ends_in_overlap else "nothing-to-do"

    @property
    def code(self) -> int:
        """The exit code of `plan`."""
        return {"not-ready": UNDECIDED, "nothing-to-do": FINE}.get(self.answer, FAILED)


def _options(parser: argparse.ArgumentParser) -> None:
    config_option(parser, required=True)
    removal_option(parser)


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    config = config_of(arguments)
    saved = saved_snapshot(arguments)
    if saved is not None:
        plan = Plan(routes=plan_static_routes(config, saved))
        prospect = Prospect(plan, saved, config, host=None, losses=())
    else:
        prospect = _here(host(), config, allow_removal=arguments.allow_removal)
    return Reply(prospect.code, lambda: _document(prospect), lambda: _page(prospect, arguments))


def _here(host: Host, config: HostRoutingConfig, *, allow_removal: bool) -> Prospect:
    faults = find_losses(None if allow_removal else read_installed(host), config)
    losses = [Finding("removal", "error", f"{fault.path}: {fault.rule}", fault.path, fault.remedy) for fault in faults]
    with open_kernel(lambda: host) as backend:
        before, _ = read_snapshot(backend)
    return Prospect(Configure(config, host=host).plan(), before, config, host=host, losses=losses)


def _page(prospect: Prospect, arguments: argparse.Namespace) -> Iterator[Line]:
    yield _answer_line(prospect, arguments.config)
    findings = [finding for finding in prospect.findings if finding.name != "route-conflict"]  # a step
    yield from below(named_lines(findings))
    yield from below(prospect.work.lines())
    if prospect.after is not None:
        yield line()
        yield line("The verdict afterwards would be:")
        yield from (line("  ", *answer) for answer in prospect.after.answer_lines())
        if prospect.after.report.escapes:
            yield from prospect.after.evidence_lines()
            yield line()
            if prospect.ends_in_overlap and prospect.changes:
                sentence = (
                    "apply would do all of this, and then fail, and no gated unit would start: the mode is STRICT."
                )
                yield line(Painted(sentence, "warn"))
            if prospect.after.report.routes:
                where = f" --snapshot {arguments.snapshot}" if prospect.saved else ""
                again = f"hostrouting repair --config {arguments.config}{where}"
                yield line(f"To print the routes that the configuration lacks: {again}")
    is_refused = prospect.answer in {"refused", "conflict"}
    if prospect.changes and not (is_refused or prospect.is_stuck or prospect.ends_in_overlap) and not prospect.saved:
        yield line()
        allow = " --allow-removal" if arguments.allow_removal else ""
        yield line(f"To apply it, as root: hostrouting apply --config {arguments.config}{allow}")


def _answer_line(prospect: Prospect, config: str) -> Line:
    beside = "; only routes, because a snapshot has no files" if prospect.saved else ""
    none = ", and no gated unit starts" if prospect.units else ""
    if prospect.refused:
        return line(Painted("REFUSED:", "bad"), " apply would change nothing")
    if prospect.routes.conflicts:
        count = counted(len(prospect.routes.conflicts), "route")
        then = "change nothing and fail" if prospect.is_installed else "change no route and fail"
        none = "" if prospect.is_installed else none
        return line(Painted("CONFLICT:", "bad"), f" {count} cannot be added; apply would {then}{none}{beside}")
    if prospect.plan.errors:
        return line(Painted("CONFLICT:", "bad"), " apply would fail, for the reasons below")
    if prospect.answer == "not-ready":
        families = prospect.after.report.families if prospect.after is not None else ()
        lost = [family.family for family in families if family.verdict == "no-default-route"]
        lacking = [f"an IPv{family} default route" for family in lost]
        what = (
            f"{' and '.join(lacking)}, which the check needs"
            if lacking
            else f"what is missing{none and f'{none} until then'}"
        )
        return line(Painted("NOT READY:", "warn"), f" apply would wait for {what}{beside}")
    if prospect.answer == "overlap":
        sentence = f" apply would change nothing and fail: the mode is STRICT, so no gated unit starts{beside}"
        return line(Painted("OVERLAP:", "bad"), sentence)
    if not prospect.work:
        who = "the routes already match" if prospect.saved else "the host already matches"
        return line(Painted("NOTHING TO DO:", "good"), f" {who} {config}{beside}")
    return line(Painted("TO DO:", "warn"), f" {prospect.work}{beside}")


def _document(prospect: Prospect) -> dict[str, Any]:
    work = prospect.work.document()
    return {
        "schema": COMMAND.schema,
        "answer": prospect.answer,
        "changes": prospect.changes,
        **work,
        "files": None if prospect.saved else work["files"],
        "findings": [finding.to_mapping() for finding in prospect.findings],
        "verdict": None if prospect.after is None else prospect.after.report.verdict,
        "check": None if prospect.after is None else prospect.after.document(),
    }


COMMAND = Command(
    name="plan",
    answer=_answer,
    version=2,
    options=_options,
    more="""\
Exit code 0 means that the host already matches the configuration. 1 means that there is something to do, that apply
refuses the configuration, that there is a conflict, or, in mode STRICT, that an overlap is left. 3 means that a default
route or a device is missing, so it is not known yet. With --json, "answer" distinguishes these cases.
""",
    examples="""\
# what would apply change?
hostrouting plan --config agent.json
# the same for the node that the snapshot is of
hostrouting plan --config agent.json --snapshot node.json
""",
    failing="there is something to do, or apply would fail",
    takes_snapshot=True,
    needs_files=True,
)
