"""What a task is, what more it may offer, and how to make one from a function. Nothing here runs anything."""

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
    """A step: something with a name that can be done. A class, an attrs class or a decorated function will do.

    The name is a short word or two, without "/", since paths are made of names. It stays the same while the task
    runs. What the task may offer besides is in OffersPlan, OffersUndo and, for its result, OffersFields.
    """

    @property
    def name(self) -> str:
        """What operators call this step."""
        ...

    def do(self, ctx: Context, /) -> T_co:
        """Do it, and return what came of it.

        Synchronous. Raise to fail. Call ctx.check() or ctx.sleep() where stopping does no harm. Return a
        Skip to say that there was nothing to do.
        """
        ...


AnyTask = Task[object]


@runtime_checkable
class OffersPlan(Protocol):
    """A task that can say what it would do."""

    def plan(self, ctx: Context, /) -> object:
        """What do() would do now, as a value whose str() can be read. Changes nothing."""
        ...


@runtime_checkable
class OffersUndo(Protocol):
    """A task that can be taken back."""

    def undo(self, ctx: Context, /) -> object:
        """Take back what do() did. Fine to call twice, and when do() was never called or failed half way."""
        ...


@runtime_checkable
class OffersFields(Protocol):
    """A result that has something to say in the log and in the report.

    In the report's JSON a method `to_mapping()`, on a result or on an error, says more: all of it, as plain values.
    """

    def log_fields(self) -> Mapping[str, object]:
        """Names and values for the one wide line of its task."""
        ...


@attrs.frozen
class Skip:
    """Returned by a task that found nothing to do: its status is `skipped`, with this reason."""

    reason: str


@attrs.frozen
class FunctionTask(Generic[T_co]):
    """A task made from functions; what was not given is not offered."""

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
    """Make a task of a function: `@task("download")` above `def download(ctx): …`."""
    if not isinstance(name, str):
        raise InvalidTask(f"task: its name is {name!r}; write @phases.task('a-name'), with parentheses and a name")

    def decorate(function: Callable[[Context], T]) -> FunctionTask[T]:
        return FunctionTask(name, function, plan, undo)

    return decorate


def valid_task(candidate: Task[T]) -> Task[T]:
    """The task, if it can be one; InvalidTask says what it lacks."""
    if isinstance(candidate, type):
        raise _no_task(candidate, f"it is a class; give an instance, {candidate.__name__}(…)")
    if not callable(getattr(candidate, "do", None)):
        hint = "; decorate the function with @phases.task('name')" if callable(candidate) else ""
        hint = "; give the tasks one by one: serial(*tasks)" if isinstance(candidate, list | tuple) else hint
        raise _no_task(candidate, f"it has no method do(ctx){hint}")
    name = getattr(candidate, "name", None)
    if not isinstance(name, str) or not name.strip() or "/" in name or not name.isprintable():
        rule = "a name is a non-empty text on one line, without '/' (paths are made of names)"
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
    """The tasks that this one is made of and will run by name; none for a task that stands alone."""
    return cast("tuple[AnyTask, ...]", getattr(unwrapped(parent), "subtasks", ()))


def offer_of(candidate: AnyTask, verb: str) -> Callable[[Context], Any] | None:
    """The method of this name (plan, undo), where the task offers it."""
    method = getattr(unwrapped(candidate), verb, None)
    return method if callable(method) else None


def walk(root: AnyTask, *, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], AnyTask]]:
    """Every task of the tree that is known before it runs, parents first, with its path."""
    path = (*above, root.name)
    yield path, root
    for member in subtasks_of(root):
        yield from walk(member, above=path)
