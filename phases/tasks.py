"""What a task is, what it may offer, and how to make one from a function. Nothing here runs anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast, runtime_checkable

import attrs

from phases.errors import InvalidTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from phases.context import Context

__all__ = [
    "AnyTask",
    "FunctionTask",
    "OffersFields",
    "OffersPlan",
    "OffersUndo",
    "Skip",
    "Task",
    "offer_of",
    "subtasks_of",
    "task",
    "valid_task",
    "walk",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Task(Protocol[T_co]):
    """A step: an object with a `name` and a method `do`. Use a class, an attrs class or a decorated function.

    The name is a short word or two, without "/", because paths are made of names. It does not change while the task
    runs. A task may also have the methods of OffersPlan and OffersUndo, and its result that of OffersFields.
    """

    @property
    def name(self) -> str:
        """The name that operators see."""
        ...

    def do(self, ctx: Context, /) -> T_co:
        """Do the work and return the result.

        Synchronous. Raise to fail. Call ctx.check() or ctx.sleep() where stopping does no harm. Return a
        Skip if there was nothing to do.
        """
        ...


AnyTask = Task[object]


@runtime_checkable
class OffersPlan(Protocol):
    """A task that can say what it would do."""

    def plan(self, ctx: Context, /) -> object:
        """What do() would do now, as a value with a readable str(). Changes nothing."""
        ...


@runtime_checkable
class OffersUndo(Protocol):
    """A task that can be undone."""

    def undo(self, ctx: Context, /) -> object:
        """Undo what do() did. Must be idempotent, and safe if do() was never called or failed half way."""
        ...


@runtime_checkable
class OffersFields(Protocol):
    """A result with fields for the log and the report.

    For the report's JSON, a result or an error may also have a method `to_mapping()`, which returns all of its data
    as plain values.
    """

    def log_fields(self) -> Mapping[str, object]:
        """Names and values for the log line of its task."""
        ...


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

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]  # a function's docstring is its task's
        return self.function.__doc__

    @property
    def __wrapped__(self) -> Callable[[Context], T_co]:
        return self.function


def task(
    name: str,
    *,
    plan: Callable[[Context], object] | None = None,
    undo: Callable[[Context], object] | None = None,
) -> Callable[[Callable[[Context], T]], FunctionTask[T]]:
    """Make a task from a function: `@task("download")` above `def download(ctx): …`."""
    if not isinstance(name, str):
        raise InvalidTask(f"task: its name is {name!r}; write @phases.task('a-name'), with parentheses and a name")

    def decorate(function: Callable[[Context], T]) -> FunctionTask[T]:
        return FunctionTask(name, function, plan, undo)

    return decorate


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


def unwrapped(wrapper: AnyTask) -> AnyTask:
    """The task inside retry, deadline and when."""
    inner = wrapper
    while (wrapped := getattr(inner, "wrapped", None)) is not None:
        inner = cast("AnyTask", wrapped)
    return inner


def subtasks_of(parent: AnyTask) -> tuple[AnyTask, ...]:
    """The tasks that this one consists of and will run by name; empty for a single task."""
    return cast("tuple[AnyTask, ...]", getattr(unwrapped(parent), "subtasks", ()))


def offer_of(candidate: AnyTask, verb: str) -> Callable[[Context], Any] | None:
    """The method with this name (plan, undo); None if the task has no such method."""
    method = getattr(unwrapped(candidate), verb, None)
    return method if callable(method) else None


def walk(root: AnyTask, *, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], AnyTask]]:
    """Every task of the tree that is known before the run, parents first, with its path."""
    path = (*above, root.name)
    yield path, root
    for member in subtasks_of(root):
        yield from walk(member, above=path)
