"""A tree of tasks as a whole program: run it, ask it for its plan, or undo it.

Here: what a program needs around its tasks: their selection by name, the observers, the report at the end, and SIGINT
and SIGTERM, which cancel the run. Not here: how one task is run (`running`), and how several are (`groups`).
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from phases.context import Context, listed_observers, valid_context
from phases.errors import Cancelled, TaskFailed, UnknownTask, add_note
from phases.events import Observer, Status
from phases.interrupts import closed, hold_interrupts, whole
from phases.live import live_tree
from phases.logs import LogObserver
from phases.report import Report, ReportBuilder
from phases.running import act, pass_over, step
from phases.tasks import offer_of, subtasks_of, valid_task, walk
from phases.text import as_data, describe_error, draw_tree, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from phases.clock import Clock
    from phases.tasks import AnyTask

__all__ = ["Plan", "Selection", "default_observers", "plan", "run", "stop_on_signals", "undo"]

SCHEMA = "phases/plan/1"
SIGNALS = (signal.SIGINT, signal.SIGTERM)


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
    `only` and `skip` select tasks by name, or by `group/name`; an unknown name raises UnknownTask. If you pass no
    observers, you get log lines and, if rich is installed and stderr is a terminal, a live tree.
    """
    selection = Selection.of(valid_task(task), only=only, skip=skip)
    logger = logger or logging.getLogger("phases")
    chosen = default_observers(logger) if observers is None else listed_observers(observers)
    builder = ReportBuilder()
    ctx = Context(deadline=deadline, clock=clock, logger=logger, run_id=run_id, observers=[builder, *chosen])
    ctx.run.leaves_out = selection.leaves_out

    with stop_on_signals(ctx, waiting_for=lambda: _running(builder)) as signals:
        try:
            with suppress(TaskFailed, Cancelled):  # they are in the report
                step(task, ctx)
        finally:
            _close(chosen, logger)
        report = builder.report()
    return attrs.evolve(report, signal=signals[0]) if signals else report


def _close(observers: Iterable[Observer], logger: logging.Logger) -> None:
    for observer in observers:
        close = getattr(observer, "close", None)
        if callable(close):
            try:
                close()
            except Exception:
                logger.exception("the observer %r could not be closed; the report is not affected", observer)


def default_observers(logger: logging.Logger | None = None, *, errors: bool = True) -> list[Observer]:
    """Log lines, and a live tree if the terminal can show one. With errors=False, the lines leave out their texts."""
    lines, tree = LogObserver(logger, errors=errors), live_tree(logger or logging.getLogger("phases"))
    return [lines] if tree is None else [lines, tree]


def _running(builder: ReportBuilder) -> str:
    if not builder.begun:
        return "nothing yet"
    busy = [node for node in builder.report().walk() if node.status is Status.RUNNING and not _busy_inside(node)]
    return ", ".join("/".join(node.path) for node in busy) or "nothing any more"


def _busy_inside(node: Report) -> bool:
    return any(child.status is Status.RUNNING for child in node.children)


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


def undo(
    task: AnyTask,
    ctx: Context | None = None,
    *,
    after: Report | None = None,
    observers: Iterable[Observer] | None = None,
) -> Report:
    """Call the undo of every task in the tree that offers one, and report.

    Without `after`, all tasks are undone, the last listed first. With `after`, the report of a run, only the tasks
    that began in that run are undone, in the reverse of the order in which they ended, even if they ran in parallel.
    A task that was skipped is not undone. One that found nothing to change is: undoing Configure also removes what an
    earlier run installed.

    If an undo fails, the others are still called; at the end one TaskFailed carries all failures and the report. If
    a group has an undo, it is called instead of the undos of its tasks. Ctrl-C waits for the running undo; the
    remaining ones are not called, and the report says so. `observers` are as with `run`; a context has its own.
    """
    if observers is not None:
        if ctx is not None:
            raise TypeError("undo: both a context and observers are given; give the observers to the context")
        ctx = Context(observers=observers)
    if after is not None and after.name != valid_task(task).name:
        raise ValueError(f"the report is for {after.name!r}, not for {task.name!r}: nothing would be undone")
    builder = ReportBuilder()
    ctx = valid_context(ctx).telling_also(builder)
    steps = list(_offers(valid_task(task), above=ctx.path, report=after))
    # With a report: by when each task ended. Without: by position. The last comes first.
    steps.sort(key=lambda offered: offered.turn, reverse=True)
    alone = offer_of(task, "undo") if steps else None
    try:
        with hold_interrupts():
            act(task.name, alone or (lambda inner: _undo_each(steps, inner)), ctx, action="undo")
    except TaskFailed as failed:
        failed.report = builder.report()
        raise
    return builder.report()


class _Step(NamedTuple):
    """One undo to call: its position, the path of its task, and the method."""

    turn: tuple[int, ...]
    path: tuple[str, ...]
    offer: Callable[[Context], Any]


@closed
def _undo_each(steps: Sequence[_Step], ctx: Context) -> None:
    failures: list[TaskFailed] = []
    for order, offered in enumerate(steps):
        try:
            act(offered.path[-1], _uninterrupted(offered.offer), ctx.at(offered.path[:-1]), order=order, action="undo")
        except TaskFailed as failed:
            failures.append(failed)
        except BaseException as error:
            for later in range(order + 1, len(steps)):
                *above, name = steps[later].path
                why = f"not reached after {offered.path[-1]}"
                pass_over(name, ctx.at(tuple(above)), order=later, reason=why, action="undo")
            for earlier in failures:
                add_note(error, f"before that: {earlier}")
            raise
    if failures:
        raise TaskFailed.merged(failures, run_id=ctx.run_id)


def _uninterrupted(undo: Callable[[Context], Any]) -> Callable[[Context], Any]:
    def call(ctx: Context) -> object:
        with whole():
            return undo(ctx)

    return call


def _offers(
    task: AnyTask, *, above: tuple[str, ...], report: Report | None, place: tuple[int, ...] = ()
) -> Iterator[_Step]:
    """The undos to call."""
    path = (*above, task.name)
    if report is not None and (report.ended is None or report.status is Status.SKIPPED):
        return
    offer = offer_of(task, "undo")
    if offer is not None:
        yield _Step((report.ended,) if report is not None and report.ended else place, path, offer)
        return
    for order, member in enumerate(subtasks_of(task)):
        if report is None:
            yield from _offers(member, above=path, report=None, place=(*place, order))
            continue
        ran = [child for child in report.children if child.order == order and child.name == member.name]
        for child in ran[-1:]:
            yield from _offers(member, above=path, report=child)


@attrs.frozen
class Selection:
    """The tasks to run and those to leave out.

    A name means every task with that name and everything inside it; `network/routes` means the task `routes` directly
    inside a task `network`. The tasks named by `only` run, and so do the groups around them. `skip` overrides `only`.
    """

    only: tuple[tuple[str, ...], ...]
    skip: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, root: AnyTask, *, only: Iterable[str] | str = (), skip: Iterable[str] | str = ()) -> Selection:
        """The selection for these names; raises UnknownTask for a name that is not in the tree."""
        paths = [path for path, _ in walk(root)]
        return cls(_known_names("only", only, paths), _known_names("skip", skip, paths))

    def leaves_out(self, task: AnyTask, above: tuple[str, ...]) -> str:
        """Why the task below these names is left out; empty if it runs."""
        path = (*above, task.name)
        if any(_ends_with(path, name) for name in self.skip):
            return "left out by skip"
        if not self.only or any(_ends_with(path[:length], name) for name in self.only for length in _lengths(path)):
            return ""
        if any(_ends_with(inner, name) for inner, _ in walk(task, above=above) for name in self.only):
            return ""
        return "left out by only"


def _lengths(path: Sequence[str]) -> range:
    return range(1, len(path) + 1)


def _ends_with(path: tuple[str, ...], name: tuple[str, ...]) -> bool:
    return path[-len(name) :] == name


def _known_names(
    option: str, given: Iterable[str] | str, paths: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not any(_ends_with(path, tuple(name.split("/"))) for path in paths):
            known = ("/".join(path) for path in paths) if "/" in name else (path[-1] for path in paths)
            raise UnknownTask(name, option, tuple(dict.fromkeys(known)))
    return tuple(tuple(name.split("/")) for name in names)


@contextmanager
def stop_on_signals(ctx: Context, *, waiting_for: Callable[[], str]) -> Iterator[list[int]]:
    """While the block runs, a signal cancels the context; yields the list of the signals received.

    A repeated signal does not interrupt a shielded task; it only logs what the run is waiting for. A signal that the
    parent process ignored (nohup) stays ignored. Python delivers signals to the main thread only, so in other threads
    nothing is installed; but a signal that stops the run in the main thread also stops the runs in other threads,
    which may be inside it (in a task of a parallel group). A run that begins inside a stopped run is stopped before
    its first task.
    """
    if threading.current_thread() is not threading.main_thread():
        elsewhere = _Elsewhere(ctx)
        _elsewhere.append(elsewhere)
        for number in _watches[0].ordered if _watches else ():
            elsewhere.stop(number)
        try:
            yield elsewhere.came
        finally:
            _elsewhere.remove(elsewhere)
        return
    watch = _Watch(ctx, waiting_for)
    try:
        yield watch.came
    finally:
        watch.end()


class _Elsewhere:
    """A run outside the main thread."""

    def __init__(self, ctx: Context) -> None:
        self.came: list[int] = []
        self._ctx = ctx

    def stop(self, number: int) -> None:
        self.came.append(number)
        self._ctx.cancel(signal.Signals(number).name)


class _Watch:
    """The handlers, the pipe and the thread that turn a signal into a cancellation.

    A handler runs in the main thread, which may be holding a lock of the run, and only when that thread runs Python
    code: if the kernel delivers the signal to another thread, a sleeping main thread keeps sleeping. So the handlers
    do almost nothing, and a thread reads the signal numbers that Python writes to a pipe.
    """

    def __init__(self, ctx: Context, waiting_for: Callable[[], str]) -> None:
        self.came: list[int] = []
        self.ordered: list[int] = []
        self._ctx, self._waiting_for = ctx, waiting_for
        self._handled: list[int] = []
        self._before: dict[int, Any] = {
            number: handler for number in SIGNALS if (handler := signal.getsignal(number)) not in {signal.SIG_IGN, None}
        }
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._thread = threading.Thread(target=self._pass_on, name="phases-signals", daemon=True)
        self._thread.start()
        self._others = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        # The run around this one, unless another program's wakeup fd was set between the two.
        self._around = next((watch for watch in _watches if watch._writing == self._others), None)
        for number in self._before:
            signal.signal(number, self._note)
        _watches.append(self)
        for number in self._around.ordered if self._around else ():
            self.came.append(number)
            self._stop(number)

    def end(self) -> None:
        """Restore the handlers. A signal that came too late to cancel this run is raised again for them."""
        _watches.remove(self)
        signal.set_wakeup_fd(self._others)
        os.close(self._writing)
        self._thread.join()
        os.close(self._reading)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._handled and not self.came:
            signal.raise_signal(self._handled[0])

    def forget(self) -> None:
        """In a forked child: restore the handlers, because the run is not the child's."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._writing)
        os.close(self._reading)

    def _note(self, number: int, _frame: object) -> None:
        self._handled.append(number)

    def _pass_on(self) -> None:
        while numbers := os.read(self._reading, 64):
            self._take(numbers)

    def _take(self, numbers: bytes) -> None:
        # Cancel first and log afterwards: logging can block.
        self._order(numbers)
        self._tell(numbers)

    def _order(self, numbers: bytes) -> None:
        if self._around is not None:
            # The outer run first: after this one has ended, it must not start its next task.
            self._around._order(numbers)
        elif self._others != -1:
            # An event loop reads this fd as well.
            with suppress(OSError):
                os.write(self._others, numbers)
        for number in numbers:
            if number in self._before:
                self._stop(number)
                for elsewhere in () if self._around else tuple(_elsewhere):
                    elsewhere.stop(number)

    def _stop(self, number: int) -> None:
        # Recorded first: a run that begins inside this one now reads this list.
        self.ordered.append(number)
        self._ctx.cancel(signal.Signals(number).name)

    def _tell(self, numbers: bytes) -> None:
        if self._around is not None:
            self._around._tell(numbers)
        for number in numbers:
            if number in self._before:
                self._say(signal.Signals(number).name)
                self.came.append(number)

    def _say(self, signal_name: str) -> None:
        try:
            still = self._waiting_for()
            if self.came:
                self._ctx.log.warning("%s again: still stopping, waiting for %s", signal_name, still)
            else:
                self._ctx.log.warning("%s: stopping, waiting for %s", signal_name, still)
        except Exception:  # noqa: BLE001, S110  a failing log must not lose the next signal
            pass


_watches: list[_Watch] = []
_elsewhere: list[_Elsewhere] = []


def _in_a_forked_child() -> None:
    for watch in reversed(_watches):
        watch.forget()
    _watches.clear()
    _elsewhere.clear()


os.register_at_fork(after_in_child=_in_a_forked_child)
