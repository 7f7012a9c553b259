"""A plan as lines: each route that would change or is in the way, the other steps, the files, and
what there is to tell.

plan, remove and status share this.
"""

from collections.abc import Iterable, Iterator

from hostrouting.command import AS_ROOT, Operator
from hostrouting.finding import Finding
from hostrouting.install.plan import Plan
from hostrouting.lines import SHOWN, count_of_others, finding_lines, indented, way_lines


def plan_lines(plan: Plan, findings: Iterable[Finding], who: Operator = AS_ROOT) -> Iterator[str]:
    """What would be changed, and what there is to tell about it."""
    steps = [*plan.routes.conflicts, *plan.routes.changes]
    for step in steps[:SHOWN]:
        yield f"  {step.line}"
        yield from way_lines(step.remedy, who, indent=6)
    yield from count_of_others(steps)
    yield from indented("", [*plan.systemd, *plan.operations])
    yield from indented("write ", plan.files.written_paths)
    yield from indented("remove ", plan.files.removes)
    # A conflict is a step, and shown already.
    others = [finding for finding in findings if finding.name != "route-conflict"]
    yield from finding_lines(others, who)
