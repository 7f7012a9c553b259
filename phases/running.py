"""Run a task: as a step of a run, alone, or as a whole program; ask it for its plan, or undo it.

Every task of a run, nested or not, goes through `act`, whichever of its methods is called. Not here: how several tasks
make one (`groups`), and how a signal stops a run (`stop`).
"""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar, cast

import attrs

from phases.context import Clock, Context, Node, complain, listed_observers, valid_context
from phases.errors import Cancelled, TaskFailed, add_note
from phases.live import live_tree
from phases.logs import LogObserver
from phases.report import Failure, Finished, Observer, Report, ReportBuilder, Skipped, Started, Status
from phases.stop import stopping
from phases.tasks import AnyTask, Skip, Task, layers_of, left_out, offer_of, subtasks_of

T = TypeVar("T")


def execute(task: Task[T], ctx: Context | None = None) -> T:
    """Run the task and return its result.

    Logs `started`, then one line with the outcome and the duration. An Exception becomes TaskFailed, with the path of
    names and the error. Cancellation raises Cancelled. SIGINT and SIGTERM cancel the run as under `run`; when its tasks
    have stopped, Ctrl-C is raised as KeyboardInterrupt, and SIGTERM ends the process. SystemExit and the like are
    raised unchanged, after their line was logged.

    With the context of a running task, the task becomes a step inside that one; if run(skip=…) leaves that step out,
    the result is a Skip. From a running event loop use `await asyncio.to_thread(phases.execute, task)`.
    """
    ctx = valid_context(ctx)
    left_out(task, above=ctx.path)  # nothing begins if the tasks are nested too deep
    with stopping(ctx, raises=True):
        return step(task, ctx)


def run(
    task: AnyTask,
    *,
    only: Iterable[str] | str = (),
    skip: Iterable[str] | str = (),
    observers: Iterable[Observer] | None = None,
    deadline: float | None = None,
    clock: Clock | None = None,
    logger: logging.Logger | None = None,
    run_id: str | None = None,
) -> Report:
    """Run the task as the main work of a program, and report: `sys.exit(phases.run(bootstrap).exit_code)`.

    SIGINT and SIGTERM cancel the run and wait until it has stopped. A failure is not raised; it is in the report.
    Nothing is printed: `logging.basicConfig(level="INFO")` shows the log lines, `print(report)` the report.
    `only` and `skip` select tasks by name, or by `group/name`; an unknown name raises UnknownTask. Without
    observers, you get log lines and, with rich and a terminal on stderr, a live tree.
    """
    leaves_out = left_out(task, only=only, skip=skip)
    logger = logger or logging.getLogger("phases")
    chosen = default_observers(logger) if observers is None else listed_observers(observers)
    builder = ReportBuilder()
    ctx = Context(deadline=deadline, clock=clock, logger=logger, run_id=run_id, observers=[builder, *chosen])
    ended: dict[str, Any] = {}
    with stopping(ctx, raises=False) as signals:
        try:
            step(task, ctx.but(leaves_out=leaves_out))
        except Cancelled:
            ended["status"] = Status.CANCELLED  # also if it has not begun
        except BaseException:
            if builder.status in {None, Status.RUNNING}:
                raise
            # Otherwise it is in the report.
        finally:
            _close(chosen, logger)
    if signals:
        ended["signal"] = signals[0]
    return attrs.evolve(builder.report(), **ended)


def _close(observers: Iterable[Observer], logger: logging.Logger) -> None:
    for observer in observers:
        try:
            getattr(observer, "close", lambda: None)()
        except BaseException:  # noqa: BLE001  the run has ended, however
            complain(logger, "the observer %r could not be closed; the report is not affected", observer)


def default_observers(logger: logging.Logger | None = None, *, errors: bool = True) -> list[Observer]:
    """Log lines, and a live tree if the terminal can show one. With errors=False, the lines leave out their texts."""
    lines, tree = LogObserver(logger, errors=errors), live_tree(logger or logging.getLogger("phases"))
    return [lines] if tree is None else [lines, tree]


def step(task: Task[T], ctx: Context, *, order: int = 0) -> T:
    """Run the task as step number `order` inside the context, unless it is left out."""
    if reason := ctx.leaves_out(task, ctx.path):
        pass_over(task.name, ctx, order=order, reason=reason)
        return cast("T", Skip(reason))
    return act(task.name, task.do, ctx, order=order)


def act(
    name: str, do: Callable[[Context], T], ctx: Context, *, order: int = 0, action: str = "do", note: str = ""
) -> T:
    """Run the function as a step with this name: exactly one Started and one Finished, whatever happens."""
    if ctx.cancelled:
        pass_over(name, ctx, order=order, reason=f"cancelled: {ctx.reason}", action=action)
        ctx.check()
    run, above = ctx.run, ctx.node
    node = Node(next(run.ids), (*ctx.path, name), above)
    inner = ctx.but(path=node.path, node=node, attempt=1)
    start, began = run.clock.utc(), run.clock.now()

    def finish(status: Status, reason: str, *, result: object = None, error: Any = None, own: bool = True) -> None:
        run.running.pop(node.id)
        fields = {} if result is None else _fields_of(result)
        facts = run.run_id, node.id, node.path, action, status, start, run.clock.now() - began
        ctx.tell(Finished(*facts, result, error, own, reason, node.attempts, fields))

    run.running[node.id] = node
    parent = None if above is None else above.id
    ctx.tell(Started(run.run_id, node.id, node.path, parent, order, ctx.attempt, action, start))
    try:
        result = do(inner)
        _refuse_coroutine(result)
    except BaseException as raised:
        error, status, reason, own = _judge(raised, inner, node)
        finish(status, reason, error=error, own=own)
        if own and isinstance(error, Exception):
            raise TaskFailed([Failure(node.path, error)], run_id=run.run_id) from error
        if above is not None and status is Status.FAILED:
            above.passed.append(error)
        raise
    if isinstance(result, Skip):
        finish(Status.SKIPPED, note or result.reason, result=result)
    else:
        finish(Status.OK, note, result=result)
    return result


def pass_over(name: str, ctx: Context, *, order: int, reason: str, action: str = "do") -> None:
    """Record that this step was not started."""
    parent = None if ctx.node is None else ctx.node.id
    path, number = (*ctx.path, name), next(ctx.run.ids)
    ctx.tell(Skipped(ctx.run_id, number, path, parent, order, ctx.attempt, action, reason))


def _judge(error: BaseException, ctx: Context, node: Node) -> tuple[BaseException, Status, str, bool]:
    """The error, status and reason for a task that raised this, and whether the error is the task's own."""
    if isinstance(error, TaskFailed) and error.run_id == ctx.run_id:
        return error, Status.FAILED, "", False
    if isinstance(error, KeyboardInterrupt):
        return error, Status.CANCELLED, "interrupted from the keyboard", True
    if not isinstance(error, Cancelled):
        return error, Status.FAILED, "", not any(error is passed for passed in node.passed)
    return error, Status.CANCELLED, error.reason, True


def _fields_of(result: object) -> Mapping[str, object]:
    """The result's log fields. The task has done its work; an error in describing the result must not fail it."""
    try:
        offer = getattr(result, "log_fields", None)
        return dict(offer()) if callable(offer) else {}
    except Exception as error:  # noqa: BLE001  the caller's code; only the description is lost
        return {"log_fields_error": repr(error)}


def _refuse_coroutine(result: object) -> None:
    if isinstance(result, types.CoroutineType):
        result.close()
        raise TypeError(
            "do(ctx) returned a coroutine, so nothing was done; do(ctx) is synchronous: "
            "call asyncio.run(…) inside it, or make it a plain function"
        )


def plan(
    task: AnyTask, ctx: Context | None = None, *, only: Iterable[str] | str = (), skip: Iterable[str] | str = ()
) -> Report:
    """Ask each task of the tree, in order, for its plan. In the report, the plan is the task's result.

    Nothing is changed and nothing is logged. Tasks that only and skip leave out are not called. If a task raises, its
    error is in the report, `ok` is false, and the other tasks are still called.
    """
    builder = ReportBuilder()
    ctx = valid_context(ctx).but(leaves_out=left_out(task, only=only, skip=skip), observers=(builder,))
    with stopping(ctx, raises=True), suppress(TaskFailed):  # it is in the report
        _each([_asking(task, ctx)], action="plan")
    return builder.report()


def _asking(task: AnyTask, ctx: Context) -> _Call:
    if reason := ctx.leaves_out(task, ctx.path):
        return _Call(task.name, ctx, None, reason)
    members = subtasks_of(task)

    def ask_each(inner: Context) -> object:
        _each([_asking(member, inner) for member in members], action="plan")
        return None if members else Skip("offers no plan")

    conditions = (getattr(layer, "condition_in_words", "") for layer in layers_of(task))
    return _Call(task.name, ctx, offer_of(task, "plan") or ask_each, "; ".join(filter(None, conditions)))


def undo(task: AnyTask, ctx: Context | None = None, *, observers: Iterable[Observer] | None = None) -> Report:
    """Call the undo of every task in the tree that offers one, the last listed first, and report.

    If an undo fails, the others are still called; at the end one TaskFailed carries all failures and the report. If
    a group has an undo, it is called instead of the undos of its tasks. SIGINT and SIGTERM wait for the running undo,
    which is shielded; the remaining ones are not called. `observers` are as with `run`; a context has its own.
    """
    if observers is not None:
        if ctx is not None:
            raise TypeError("undo: both a context and observers are given; give the observers to the context")
        ctx = Context(observers=observers)
    left_out(task)  # no undo is called if the tasks are nested too deep
    ctx, builder = valid_context(ctx), ReportBuilder()
    undos = [*_undos(task, above=ctx.path)][::-1]

    def undo_each(inner: Context) -> None:
        calls = [_Call(path[-1], inner.but(path=path[:-1]), _shielded(offer)) for path, offer in undos]
        _each(calls, action="undo")

    alone = offer_of(task, "undo") if undos else None
    try:
        with stopping(ctx, raises=True):
            part = ctx.but(observers=(*ctx.observers, builder))
            act(task.name, undo_each if alone is None else _shielded(alone), part, action="undo")
    except TaskFailed as failed:
        failed.report = builder.report()
        raise
    return builder.report()


def _shielded(undo: Callable[[Context], Any]) -> Callable[[Context], Any]:
    def call(ctx: Context) -> object:
        with ctx.shielded() as safe:
            return undo(safe)

    return call


def _undos(task: AnyTask, *, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Callable[[Context], Any]]]:
    """The undos in this part of the tree, in the order of the tasks: the path of each, and the method."""
    path, offer = (*above, task.name), offer_of(task, "undo")
    if offer is not None:
        yield path, offer
        return
    for member in subtasks_of(task):
        yield from _undos(member, above=path)


class _Call(NamedTuple):
    """A step to call in a context: its name, function and condition; without a function, the reason."""

    name: str
    ctx: Context
    do: Callable[[Context], object] | None
    note: str = ""


def _each(calls: Sequence[_Call], *, action: str) -> None:
    """Call each, also after a failure, and raise one TaskFailed at the end."""
    failures: list[TaskFailed] = []
    for order, call in enumerate(calls):
        try:
            if call.do is None:
                pass_over(call.name, call.ctx, order=order, reason=call.note, action=action)
            else:
                act(call.name, call.do, call.ctx, order=order, action=action, note=call.note)
        except TaskFailed as failed:
            failures.append(failed)
        except BaseException as error:
            for later in range(order + 1, len(calls)):
                pass_over(*calls[later][:2], order=later, reason=f"not reached after {call.name}", action=action)
            for earlier in failures:
                add_note(error, f"before that: {earlier}")
            raise
    if failures:
        raise TaskFailed.merged(failures, run_id=calls[0].ctx.run_id)
