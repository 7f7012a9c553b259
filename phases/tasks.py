"""What a task is, how to make one from a function, and which tasks of a tree are selected. Nothing
here runs one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeAlias, TypeVar, get_args

import attrs

from phases.arguments import fault_of_method, must_be
from phases.errors import InvalidTask, UnknownTask

if TYPE_CHECKING:
    from phases.context import Context

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Verb: TypeAlias = Literal["do", "plan", "undo"]
"""The methods of a task, by name."""
Method: TypeAlias = Callable[["Context"], object]
"""One of these methods, and what it is called with."""
Path: TypeAlias = tuple[str, ...]
"""The names from the root of a tree down to a task."""
Names: TypeAlias = Iterable[str] | str | None
"""Tasks that are selected by name, or by `group/name`; None if none is named."""


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

    def __attrs_post_init__(self) -> None:
        must_be(str, self.reason, "Skip: reason", "a text")
        if not self.reason.strip():
            raise ValueError("Skip: reason is empty; say why there was nothing to do")


@attrs.frozen(repr=False)
class FunctionTask(Generic[T_co]):
    """A task made from functions: a step, a group, or a wrapper around another task."""

    name: str
    do: Callable[[Context], T_co]
    plan: Method | None = None
    undo: Method | None = None
    subtasks: tuple[AnyTask, ...] = ()
    plan_note: str = ""
    """The condition under which it runs, for a plan."""

    def __attrs_post_init__(self) -> None:
        valid_task(self)
        for member in self.subtasks:
            valid_task(member)

    def __repr__(self) -> str:
        return f"FunctionTask({self.name!r})"


def task(
    name: str,
    *,
    plan: Method | None = None,
    undo: Method | None = None,
) -> Callable[[Callable[[Context], T]], FunctionTask[T]]:
    """Make a task from a function: `@task("download")` above `def download(ctx): …`."""
    must_be(str, name, "task: name", "a text, as in @phases.task('download')")
    return lambda function: FunctionTask(name, function, plan, undo)


def wrapped(
    inner: AnyTask,
    do: Callable[[Context], T],
    *,
    plan: Method | None = None,
    plan_note: str = "",
) -> FunctionTask[T]:
    """The task with another `do`; its name and all else stay the same, if not given."""
    return FunctionTask(
        valid_task(inner).name,
        do,
        plan=plan or getattr(inner, "plan", None),
        undo=getattr(inner, "undo", None),
        subtasks=getattr(inner, "subtasks", ()),
        plan_note=plan_note or getattr(inner, "plan_note", ""),
    )


def valid_task(candidate: Task[T]) -> Task[T]:
    """The same object if it is a task; otherwise raises InvalidTask, which says what is missing."""
    fault = _fault(candidate)
    if fault:
        raise InvalidTask(f"{_shown(candidate)} cannot be used as a task: {fault}")
    return candidate


def offers(candidate: AnyTask, verb: str) -> bool:
    """Whether the task, or one of those inside it, has a method of this name."""
    if getattr(candidate, verb, None) is not None:
        return True
    return any(offers(member, verb) for member in getattr(candidate, "subtasks", ()))


def valid_tree(root: AnyTask) -> AnyTask:
    """The same task if it and the tasks inside it are tasks; otherwise raises InvalidTask."""
    for member in getattr(valid_task(root), "subtasks", ()):
        valid_tree(member)
    return root


def _shown(candidate: object) -> str:
    """The task by its name; an object without one as Python shows it."""
    name = getattr(candidate, "name", None)
    if isinstance(name, str) and not isinstance(candidate, type):
        return f"task {name!r}"
    return f"{candidate!r:.80}"


def _fault(candidate: object) -> str:
    """What keeps the object from being a task, with the remedy; empty if it is one."""
    if isinstance(candidate, type) or not callable(getattr(candidate, "do", None)):
        return (
            "it needs a method do(ctx): put @phases.task('name') above a function, or pass an "
            "instance of a class"
        )
    for verb in get_args(Verb):
        fault = fault_of_method(candidate, verb)
        if fault:
            return fault
    fault = fault_of_name(getattr(candidate, "name", None))
    if fault:
        return fault
    subtasks = getattr(candidate, "subtasks", ())
    if not isinstance(subtasks, tuple):
        return f"its subtasks are {subtasks!r:.80}; they must be a tuple: (task,)"
    names = Counter(str(getattr(member, "name", "")) for member in subtasks)
    for name, times in names.items():
        if name and times > 1:
            return f"two of its subtasks are named {name!r}; a task is found by its path"
    return ""


def fault_of_name(name: object) -> str:
    """What is wrong with the name of a step; empty if nothing is."""
    if isinstance(name, str) and name.strip() and "/" not in name and name.isprintable():
        return ""
    return (
        f"its name is {name!r}; a name must be non-empty, on one line and without '/' (paths are "
        "made of names)"
    )


def selection(
    root: AnyTask, *, above: Path = (), only: Names = None, skip: Names = None
) -> Callable[[Path], str]:
    """A function that says why the task at a path is left out; it returns an empty text if the task
    runs.

    A name means every task with that name and everything inside it; `network/routes` means the task
    `routes` directly inside a task `network`. The tasks named by `only` run, and so do the groups
    around them. `skip` overrides `only`. Raises UnknownTask for a name that is not in the tree, and
    if nothing would run. `above` is the path of the task inside which the tree runs.
    """
    paths = list(_paths(valid_tree(root), above))
    wanted = _ends(only, paths, option="only")
    dropped = _ends(skip, paths, option="skip")
    chosen = [path for path in paths if _has_end(path, wanted)]
    if only is not None and not chosen:
        raise UnknownTask("only names no task, so nothing would run; None selects all tasks")

    def why_left_out(path: Path) -> str:
        # Nobody asks about what is inside a task that is left out: it does not run.
        if _has_end(path, dropped):
            return "left out by skip"
        if not chosen:
            return ""
        if any(_is_within(path, each) or _is_within(each, path) for each in chosen):
            return ""
        return "left out by only"

    if all(_is_below(path, dropped, above) for path in chosen or paths):
        raise UnknownTask("skip leaves out every selected task, so nothing would run")
    return why_left_out


def _paths(task: AnyTask, above: Path = ()) -> Iterator[Path]:
    """The path of the task and of each task inside it."""
    path = (*above, task.name)
    yield path
    for member in getattr(task, "subtasks", ()):
        yield from _paths(member, path)


def _ends(names: Names, paths: list[Path], *, option: str) -> list[Path]:
    """The ends of paths that these names mean. Raises UnknownTask if no path has such an end."""
    if names is None:
        return []
    if isinstance(names, Mapping):
        raise TypeError(f"{option} is {names!r:.80}; it must be a name, or a list of names")
    if isinstance(names, str):
        names = [names]
    ends: list[Path] = []
    for name in names:
        must_be(str, name, option, "a name, or a list of names")
        end = tuple(name.split("/"))
        if not any(_has_end(path, [end]) for path in paths):
            known = dict.fromkeys(path[-1] for path in paths)  # each once
            raise UnknownTask(
                f"{option}: there is no task {name!r}. The tasks are: {', '.join(known)}"
            )
        ends.append(end)
    return ends


def _has_end(path: Path, ends: list[Path]) -> bool:
    return any(path[-len(end) :] == end for end in ends)


def _is_below(path: Path, ends: list[Path], above: Path) -> bool:
    """Whether the path, or that of a group around it in this tree, has one of these ends."""
    first = len(above) + 1
    return any(_has_end(path[:length], ends) for length in range(first, len(path) + 1))


def _is_within(path: Path, group: Path) -> bool:
    return path[: len(group)] == group
