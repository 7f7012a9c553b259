"""What the tasks of a tree would do. Nothing here changes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from phases.context import valid_context
from phases.selection import Selection
from phases.tasks import offer_of, subtasks_of, valid_task
from phases.text import as_data, describe_error, draw_tree, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from phases.context import Context
    from phases.tasks import AnyTask

__all__ = ["Plan", "plan"]

SCHEMA = "phases/plan/1"


@attrs.frozen
class Plan:
    """What one task would do and, in `children`, what the tasks inside it would do."""

    path: tuple[str, ...]
    plan: object = None
    """What the task's plan(ctx) returned; None if the task has no such method."""
    note: str = ""
    """Its condition, why it is left out, or that it offers no plan."""
    error: Exception | None = None
    """What plan(ctx) raised instead."""
    children: tuple[Plan, ...] = ()

    @property
    def name(self) -> str:
        """The task's name."""
        return self.path[-1]

    @property
    def ok(self) -> bool:
        """Whether no plan(ctx) raised."""
        return all(node.error is None for node in self.walk())

    def walk(self) -> Iterator[Plan]:
        """The task and every task inside it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def __str__(self) -> str:
        """A tree: each name, and below it what the task would do."""
        return "\n".join(self._lines())

    def to_mapping(self) -> dict[str, object]:
        """The plan as plain values; only the root has `schema`."""
        return {"schema": SCHEMA, **self._plain()}

    def to_json(self, *, indent: int | None = None) -> str:
        """The same as JSON."""
        import json  # noqa: PLC0415  only this needs it

        return json.dumps(self.to_mapping(), indent=indent)

    def _plain(self) -> dict[str, object]:
        return {
            "name": self.name,
            "plan": as_data(self.plan),
            "note": self.note,
            "error": None if self.error is None else describe_error(self.error),
            "children": [child._plain() for child in self.children],
        }

    def _lines(self) -> Iterator[str]:
        for drawn, further, node in draw_tree(self, children=lambda node: node.children):
            words = "" if node.plan is None else printable(node.plan)
            if node.error is not None:
                words = f"cannot say: {describe_error(node.error)}"
            one_line = words if "\n" not in words else ""
            yield "  ".join(part for part in (f"{drawn}{node.name}", node.note and f"({node.note})", one_line) if part)
            if not one_line:
                for line in words.splitlines():
                    yield f"{further}{'│' if node.children else ' '} {line}"


def plan(
    task: AnyTask, ctx: Context | None = None, *, only: Iterable[str] | str = (), skip: Iterable[str] | str = ()
) -> Plan:
    """Ask each task of the tree, in order, what it would do, and return the results as a tree.

    Nothing is changed and nothing is logged. Tasks that only and skip leave out are not called. If a task raises, its
    error is in the tree, `ok` is false, and the other tasks are still called.
    """
    selection = Selection.of(valid_task(task), only=only, skip=skip)
    return _ask(task, valid_context(ctx).selecting(selection.leaves_out))


def _ask(task: AnyTask, ctx: Context) -> Plan:
    ctx.check()
    inner = ctx.entering(task.name, node=ctx.node)
    if reason := ctx.run.leaves_out(task, ctx.path):
        return Plan(inner.path, note=reason)
    note = "; ".join(_conditions(task))
    offer = offer_of(task, "plan")
    if offer is None:
        members = tuple(_ask(member, inner) for member in subtasks_of(task))
        return Plan(inner.path, note=note or ("" if members else "offers no plan"), children=members)
    try:
        return Plan(inner.path, plan=offer(inner), note=note)
    except Exception as error:  # noqa: BLE001  the error goes into the tree, and the other tasks are still called
        return Plan(inner.path, error=error, note=note)


def _conditions(task: AnyTask) -> Iterator[str]:
    layer: object = task
    while layer is not None:
        if note := getattr(layer, "condition_in_words", ""):
            yield note
        layer = getattr(layer, "wrapped", None)
