"""Read by mypy with all other files, not run: what is a task for a type checker, what is none, and
its result.

A line with a type: ignore is one that must be refused; mypy --strict complains when it is not.
"""

import asyncio

import attrs
from typing_extensions import assert_type

import phases
from phases import Context


@attrs.frozen
class AttrsTask:
    name: str

    def do(self, _ctx: Context) -> int:
        return 1


class ConstantName:
    name = "constant"

    def do(self, _ctx: Context) -> None: ...


class NoName:
    def do(self, _ctx: Context) -> None: ...


class WrongDo:
    name = "wrong"

    def do(self) -> None: ...


@phases.task("function")
def function(_ctx: Context) -> float:
    return 1.0


assert_type(phases.execute(AttrsTask("a")), int)
assert_type(phases.execute(phases.deadline(phases.retry(function, on=OSError), 5)), float)
assert_type(
    phases.execute(phases.when(lambda ctx: ctx.cancelled, AttrsTask("a"))), int | phases.Skip
)
assert_type(
    phases.execute(phases.serial(AttrsTask("a"), phases.parallel(function, ConstantName()))), None
)
assert_type(phases.run(phases.serial(ConstantName())), phases.Step)


async def size() -> int:
    return 1


assert_type(phases.await_in_task(Context(), size(), asyncio.new_event_loop()), int)
assert_type(Context().find(function), phases.Step[float])
assert_type(Context().find(phases.retry(AttrsTask("a"))).result, int | None)

phases.serial(NoName())  # type: ignore[arg-type]
phases.serial(WrongDo())  # type: ignore[arg-type]
phases.retry(lambda _ctx: None)  # type: ignore[arg-type]
phases.serial(AttrsTask)  # type: ignore[arg-type]


@phases.task("wrong")  # type: ignore[arg-type]
def wrong() -> None: ...
