"""How to make a task from a function, and what is required of a tree of tasks. Nothing here runs
one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from inspect import iscoroutinefunction
from typing import Any, ClassVar, Generic, TypeAlias

import attrs

from phases.context import Context, T, T_co, Task
from phases.errors import InvalidTask, UnknownTask

Method: TypeAlias = Callable[[Context], object]
"""A method of a task, which is called with the context."""


AnyTask = Task[object]


@attrs.frozen
class Skip:
    """Returned by a task that had nothing to do: the status of its step is `skipped`, with this
    reason.
    """

    reason: str


@attrs.frozen
class FunctionTask(Generic[T_co]):
    """A task made from functions: a step, or a group."""

    name: str
    do: Callable[[Context], T_co]
    plan: Method | None = None
    undo: Method | None = None
    subtasks: tuple[AnyTask, ...] = ()

    def __attrs_post_init__(self) -> None:
        valid_tree(self)


def task(
    name: str,
    *,
    plan: Method | None = None,
    undo: Method | None = None,
) -> Callable[[Callable[[Context], T]], FunctionTask[T]]:
    """Make a task from a function: `@task("download")` above `def download(ctx): …`.
    `plan` and `undo` are the functions for a dry run and for an undo.
    """
    return lambda function: FunctionTask(name, function, plan, undo)


def valid_task(candidate: Task[T]) -> Task[T]:
    """Return the object if it is a task; otherwise raise InvalidTask."""
    name = getattr(candidate, "name", None)
    if not callable(getattr(candidate, "do", None)):
        raise InvalidTask(
            f"{candidate!r:.80} is not a task: it has no method do(ctx); write "
            '@phases.task("name") above a function'
        )
    if not isinstance(name, str) or "/" in name:  # "/" joins the names in a path
        raise InvalidTask(f"the name of a task is {name!r}; it must be a text without '/'")
    for method in ("do", "plan", "undo"):
        if iscoroutinefunction(getattr(candidate, method, None)):
            raise InvalidTask(
                f"{name}: its {method} is a coroutine function; write `def` instead of `async "
                "def`, and wait for coroutines with phases.await_in_task"
            )
    return candidate


@attrs.frozen
class WrappedTask(Generic[T_co]):
    """A task with another `do`, such as one that calls the task's own `do` several times. All else
    is that of the `inner` task, such as its undo, and subtasks that it gets while it runs.
    """

    inner: AnyTask
    do: Callable[[Context], T_co]
    name: ClassVar[str]  # not a field: `__getattr__` finds it

    def __attrs_post_init__(self) -> None:
        valid_tree(self.inner)

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.inner, attribute)


def valid_tree(root: AnyTask) -> AnyTask:
    """Return the task if it and everything inside it are tasks, and the members of each group have
    different names; otherwise raise InvalidTask.
    """
    names: set[str] = set()
    for member in getattr(valid_task(root), "subtasks", ()):
        valid_tree(member)
        if member.name in names:
            raise InvalidTask(f"two tasks in {root.name} are named {member.name!r}")
        names.add(member.name)
    return root


def require_known(names: Collection[str], root: AnyTask) -> None:
    """Raise UnknownTask for a name that no task of the tree has."""
    known = dict.fromkeys(task.name for task in walk(root))  # each once
    for name in names:
        if name not in known:
            raise UnknownTask(
                f"skip is a list of names, and there is no task {name!r}. The tasks are: "
                f"{', '.join(known)}"
            )


def walk(root: AnyTask) -> Iterator[AnyTask]:
    """The task and each task inside it."""
    yield root
    for member in getattr(root, "subtasks", ()):
        yield from walk(member)
