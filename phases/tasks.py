"""What a task is, how to make one from a function, and which tasks of a tree are selected. Nothing
here runs one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import attrs

from phases.errors import InvalidTask, UnknownTask

if TYPE_CHECKING:
    from phases.context import Context

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_LAZY = (
    iscoroutinefunction,
    isasyncgenfunction,
    isgeneratorfunction,
)  # a call of these runs nothing yet


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
    plan: Callable[[Context], object] | None = None
    undo: Callable[[Context], object] | None = None
    subtasks: tuple[AnyTask, ...] = ()
    plan_note: str = ""
    """The condition under which it runs, for a plan."""

    def __attrs_post_init__(self) -> None:
        for member in (*self.subtasks, self):
            valid_task(member)


def task(
    name: str,
    *,
    plan: Callable[[Context], object] | None = None,
    undo: Callable[[Context], object] | None = None,
) -> Callable[[Callable[[Context], T]], FunctionTask[T]]:
    """Make a task from a function: `@task("download")` above `def download(ctx): …`."""
    return lambda function: FunctionTask(name, function, plan, undo)


def wrapped(inner: AnyTask, do: Callable[[Context], T], note: str = "") -> FunctionTask[T]:
    """The task with another `do`; its name, its plan and all else stay the same."""
    name, subtasks = valid_task(inner).name, getattr(inner, "subtasks", ())
    note = note or getattr(inner, "plan_note", "")
    return FunctionTask(
        name, do, getattr(inner, "plan", None), getattr(inner, "undo", None), subtasks, note
    )


def valid_task(candidate: Task[T]) -> Task[T]:
    """The same object if it is a task; otherwise raises InvalidTask, which says what is missing."""
    name, do, fault = getattr(candidate, "name", None), getattr(candidate, "do", None), ""
    if isinstance(candidate, type) or not callable(do):
        fault = (
            "it needs a method do(ctx): put @phases.task('name') above a function, or pass an "
            "instance of a class"
        )
    elif any(
        is_lazy(getattr(candidate, verb, None))
        for verb in ("do", "plan", "undo")
        for is_lazy in _LAZY
    ):
        fault = (
            "a function of it is async or a generator, so a call runs nothing; write a plain `def`"
        )
    elif not isinstance(name, str) or not name.strip() or "/" in name or not name.isprintable():
        fault = (
            f"its name is {name!r}; a name must be non-empty, on one line and without '/' (paths "
            "are made of names)"
        )
    if fault:
        raise InvalidTask(f"{candidate!r:.80} cannot be used as a task: {fault}")
    return candidate


def left_out(
    root: AnyTask, *, only: Iterable[str] | str = (), skip: Iterable[str] | str = ()
) -> Callable[[tuple[str, ...]], str]:
    """A function that says why the task at a path is left out; it returns an empty text if the task
    runs.

    A name means every task with that name and everything inside it; `network/routes` means the task
    `routes` directly inside a task `network`. The tasks named by `only` run, and so do the groups
    around them. `skip` overrides `only`. Raises UnknownTask for a name that is not in the tree.
    """

    def paths_of(task: AnyTask, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        yield (path := (*above, task.name))
        for member in getattr(task, "subtasks", ()):
            yield from paths_of(member, path)

    paths = list(paths_of(valid_task(root))) if (only, skip) != ((), ()) else []

    def named(option: str, names: Iterable[str] | str) -> Iterator[tuple[str, ...]]:
        for name in (names,) if isinstance(names, str) else names:
            end = tuple(name.split("/"))
            matching = [path for path in paths if path[-len(end) :] == end]
            if not matching:
                known = ", ".join(dict.fromkeys(path[-1] for path in paths))
                raise UnknownTask(f"{option}: there is no task {name!r}. The tasks are: {known}")
            yield from matching

    chosen, dropped = list(named("only", only)), list(named("skip", skip))

    def reason(path: tuple[str, ...]) -> str:
        if any(path[: len(each)] == each for each in dropped):
            return "left out by skip"
        is_chosen = any(path[: len(each)] == each[: len(path)] for each in chosen)
        return "" if is_chosen or not chosen else "left out by only"

    return reason
