"""What a task is, and how to make one from a function. Nothing here runs one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

import attrs

from phases.errors import InvalidTask, UnknownTask

if TYPE_CHECKING:
    from phases.context import Context

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Method: TypeAlias = Callable[["Context"], object]
"""A method of a task, which is called with the context."""


class Task(Protocol[T_co]):
    """An object with a `name` and a method `do`. Use a class, an attrs class or a decorated
    function.

    The name is a short word or two, without "/", because paths are made of names. It does not
    change while the task runs. A task may also have these methods and attributes:

    - `plan(ctx)` returns what do() would do now, as a value with a readable str(); it changes
      nothing. If do() would fail, the value has an attribute `would_fail`, a sentence that says
      why. The step of the dry run has then failed.
    - `undo(ctx)` undoes what do() did. It must be idempotent, and safe if do() was never called or
      failed half way.
    - `subtasks` is the tuple of the tasks that this one runs by name.

    A result may have a method `log_fields()`, which returns names and values for the log line of
    its task. A result or an error may have a method `to_mapping()`, which returns all of its data
    as plain values for the report's JSON.
    """

    @property
    def name(self) -> str:
        """The name that operators see."""

    def do(self, ctx: Context, /) -> T_co:
        """Do the work and return the result.

        Synchronous. Raise to fail. Call ctx.check() or ctx.sleep() where stopping does no harm.
        Return a Skip if there was nothing to do.
        """


AnyTask = Task[object]


@attrs.frozen
class Skip:
    """Returned by a task that had nothing to do: the status of its step is `skipped`, with this
    reason.
    """

    reason: str


@attrs.frozen
class FunctionTask(Generic[T_co]):
    """A task made from functions: a step, a group, or a wrapper around another task."""

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
    """Make a task from a function: `@task("download")` above `def download(ctx): …`."""
    return lambda function: FunctionTask(name, function, plan, undo)


def wrapped(inner: AnyTask, do: Callable[[Context], T]) -> FunctionTask[T]:
    """The task with another `do`, such as one that calls the task's own `do` several times. The
    name, plan, undo and subtasks stay the same.
    """
    return FunctionTask(
        valid_task(inner).name,
        do,
        plan=getattr(inner, "plan", None),
        undo=getattr(inner, "undo", None),
        subtasks=getattr(inner, "subtasks", ()),
    )


def valid_task(candidate: Task[T]) -> Task[T]:
    """Return the object if it is a task; otherwise raise InvalidTask."""
    name = getattr(candidate, "name", None)
    if not callable(getattr(candidate, "do", None)):
        raise InvalidTask(f"{candidate!r:.80} is not a task: it has no method do(ctx)")
    if not isinstance(name, str) or "/" in name:  # "/" joins the names in a path
        raise InvalidTask(f"the name of a task is {name!r}; it must be a text without '/'")
    for method in ("do", "plan", "undo"):
        if iscoroutinefunction(getattr(candidate, method, None)):
            raise InvalidTask(
                f"{name}: its {method} is a coroutine function; write `def` instead of `async "
                "def`, and wait for coroutines with phases.await_in_task"
            )
    return candidate


def valid_tree(root: AnyTask) -> AnyTask:
    """Return the task if it and all tasks inside it are tasks, and those of a group have different
    names; otherwise raise InvalidTask.
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
            raise UnknownTask(f"there is no task {name!r}. The tasks are: {', '.join(known)}")


def walk(root: AnyTask) -> Iterator[AnyTask]:
    """The task and each task inside it."""
    yield root
    for member in getattr(root, "subtasks", ()):
        yield from walk(member)
