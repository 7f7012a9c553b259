"""Tasks: what `phases` adds to running something in threads."""

from concurrent.futures import ThreadPoolExecutor

import phases
from tests.benchmarks.contest import Contest, Goal
from tests.benchmarks.turns import in_turn

__all__ = ["task_contest"]

_COUNT = 1_000
_OURS, _POOL = "phases.parallel", "ThreadPoolExecutor, 1,000 workers"


def task_contest() -> Contest:
    """1,000 tasks that do nothing, in parallel."""

    def nothing(_ctx: phases.Context) -> int:
        return 1

    group = phases.parallel(*[phases.task("nothing")(nothing)] * _COUNT)
    ctx = phases.Context()

    def pool(workers: int | None) -> None:
        with ThreadPoolExecutor(workers) as executor:
            for future in [executor.submit(nothing, ctx) for _ in range(_COUNT)]:
                future.result()

    methods = {
        _OURS: lambda: phases.execute(group),
        _POOL: lambda: pool(_COUNT),
        "ThreadPoolExecutor, its default": lambda: pool(None),
    }
    return Contest("1,000 trivial tasks in parallel", in_turn(methods, rounds=40), (Goal(_OURS, 1.5, _POOL),))
