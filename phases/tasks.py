"""What a task is, how to make one from a function, and which tasks of a tree are selected. Nothing here runs one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import attrs

from phases.errors import InvalidTask, UnknownTask

if TYPE_CHECKING:
    from phases.context import Context

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

DEEPEST = 100  # each group and wrapper around a task takes up to three frames of Python's stack, which has 1,000


class Task(Protocol[T_co]):
    """A step: an object with a `name` and a method `do`. Use a class, an attrs class or a decorated function.

    The name is a short word or two, without "/", because paths are made of names. It does not change while the task
    runs. A task may also have these methods and attributes:

    - `plan(ctx)` returns what do() would do now, as a value with a readable str(); it changes nothing.
    - `undo(ctx)` undoes what do() did. It must be idempotent, and safe if do() was never called or failed half way.
    - `subtasks` is the tuple of the tasks that this one runs by name.

    A result may have a method `log_fields()`, which returns names and values for the log line of its task. A result
    or an error may have a method `to_mapping()`, which returns all of its data as plain values for the report's JSON.
    """

    @property
    def name(self) -> str:
        """The name that operators see."""

    def do(self, ctx: Context, /) -> T_co:
        """Do the work and return the result.

        Synchronous. Raise to fail. Call ctx.check() or ctx.sleep() where stopping does no harm. Return a
        Skip if there was nothing to do.
        """


AnyTask = Task[object]


@attrs.frozen
class Skip:
    """Returned by a task that had nothing to do: its status is `skipped`, with this reason."""

    reason: str


@attrs.frozen
class FunctionTask(Generic[T_co]):
    """A task made from functions; it offers plan and undo only if those functions are given."""

    name: str
    function: Callable[[Context], T_co]
    plan: Callable[[Context], object] | None = None
    undo: Callable[[Context], object] | None = None

    def do(self, ctx: Context, /) -> T_co:
        """Call the function."""
        return self.function(ctx)


def task(
    name: str, *, plan: Callable[[Context], object] | None = None, undo: Callable[[Context], object] | None = None
) -> Callable[[Callable[[Context], T]], FunctionTask[T]]:
    """Make a task from a function: `@task("download")` above `def download(ctx): …`."""
    if not isinstance(name, str):
        raise InvalidTask(f"task: its name is {name!r}; write @phases.task('a-name'), with parentheses and a name")
    return lambda function: FunctionTask(name, function, plan, undo)


def valid_task(candidate: Task[T]) -> Task[T]:
    """The same object if it is a task; otherwise raises InvalidTask, which says what is missing."""
    if isinstance(candidate, type):
        raise _no_task(candidate, f"it is a class; pass an instance, {candidate.__name__}(…)")
    if not callable(getattr(candidate, "do", None)):
        hint = "; decorate the function with @phases.task('name')" if callable(candidate) else ""
        hint = "; pass the tasks one by one: serial(*tasks)" if isinstance(candidate, list | tuple) else hint
        raise _no_task(candidate, f"it has no method do(ctx){hint}")
    name = getattr(candidate, "name", None)
    if not isinstance(name, str) or not name.strip() or "/" in name or not name.isprintable():
        rule = "a name must be non-empty, on one line and without '/' (paths are made of names)"
        raise _no_task(candidate, f"its name is {name!r}; {rule}")
    return candidate


def _no_task(candidate: object, why: str) -> InvalidTask:
    return InvalidTask(f"{candidate!r:.80} cannot be used as a task: {why}")


def layers_of(task: AnyTask) -> list[AnyTask]:
    """The wrappers around a task (retry, deadline, when), the outermost first, and last the task itself."""
    layers = [task]
    while (wrapped := getattr(layers[-1], "wrapped", None)) is not None:
        layers.append(cast("AnyTask", wrapped))
    return layers


def subtasks_of(parent: AnyTask) -> tuple[AnyTask, ...]:
    """The tasks that this one consists of and will run by name; empty for a single task."""
    return cast("tuple[AnyTask, ...]", getattr(layers_of(parent)[-1], "subtasks", ()))


def offer_of(candidate: AnyTask, verb: str) -> Callable[[Context], Any] | None:
    """The method with this name (plan, undo); None if the task has no such method."""
    method = getattr(layers_of(candidate)[-1], verb, None)
    return method if callable(method) else None


def walk(root: AnyTask, *, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], AnyTask]]:
    """Every task of the tree that is known before the run, parents first, with its path.

    Raises InvalidTask if the tasks are nested so deep that Python's stack could not hold their run.
    """
    ahead = [(above, root, len(above))]
    while ahead:
        above, member, depth = ahead.pop()
        depth += len(layers_of(member))
        if depth > DEEPEST:
            raise InvalidTask(
                f"{member.name!r} is nested too deep: {DEEPEST} groups and wrappers are the most that work"
            )
        path = (*above, member.name)
        yield path, member
        ahead += [(path, inner, depth) for inner in reversed(subtasks_of(member))]


def left_out(
    root: AnyTask, *, only: Iterable[str] | str = (), skip: Iterable[str] | str = (), above: tuple[str, ...] = ()
) -> Callable[[AnyTask, tuple[str, ...]], str]:
    """A function: why a task below these names is left out; empty if it runs.

    A name means every task with that name and everything inside it; `network/routes` means the task `routes` directly
    inside a task `network`. The tasks named by `only` run, and so do the groups around them. `skip` overrides `only`.
    Raises UnknownTask for a name that is not in the tree, and InvalidTask if that is nested too deep.
    """
    paths = [path for path, _ in walk(valid_task(root), above=above)]
    chosen, dropped = _known_names("only", only, paths), _known_names("skip", skip, paths)

    def reason(task: AnyTask, above: tuple[str, ...]) -> str:
        path = (*above, task.name)
        if any(_ends_with(path, name) for name in dropped):
            return "left out by skip"
        around = (path[:length] for length in range(1, len(path) + 1))
        inside = (inner for inner, _ in walk(task, above=above))
        if not chosen or any(_ends_with(each, name) for each in (*around, *inside) for name in chosen):
            return ""
        return "left out by only"

    return reason


def _ends_with(path: tuple[str, ...], name: tuple[str, ...]) -> bool:
    return path[-len(name) :] == name


def _known_names(option: str, given: Iterable[str] | str, paths: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not any(_ends_with(path, tuple(name.split("/"))) for path in paths):
            known = ("/".join(path) for path in paths) if "/" in name else (path[-1] for path in paths)
            raise UnknownTask(name, option, tuple(dict.fromkeys(known)))
    return [tuple(name.split("/")) for name in names]
