"""`make bench`: how fast it is, beside its peers, in one run; medians, ratios and their spread.

`--write` puts the tables into the README. What takes root is left out without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import phases
from tests.benchmarks.boot import boot_scripts
from tests.benchmarks.turns import in_turn, table

README = Path(__file__).resolve().parents[2] / "README.md"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def trivial_tasks() -> str:
    """1,000 tasks that do nothing, in parallel."""
    count = 1_000

    def nothing(_ctx: phases.Context) -> int:
        return 1

    task = phases.task("nothing")(nothing)
    group = phases.parallel(*[task] * count)

    ctx = phases.Context()

    def pool(workers: int) -> None:
        with ThreadPoolExecutor(workers) as executor:
            for future in [executor.submit(nothing, ctx) for _ in range(count)]:
                future.result()

    methods = {
        "ThreadPoolExecutor, 1,000 workers": lambda: pool(count),
        "ThreadPoolExecutor, its default workers": lambda: pool(6),
        "phases.parallel": lambda: phases.execute(group),
        "phases.parallel, an observer that keeps the report": lambda: phases.run(group, observers=[]),
    }
    return table("1,000 trivial tasks in parallel", in_turn(methods, rounds=40))


def imports() -> str:
    """How long a new interpreter takes until the packages are there."""
    statements = {
        "import attrs": "import attrs",
        "import hostrouting, phases": "import hostrouting, phases",
        "the same, and phases.execute loaded": "import hostrouting, phases; phases.execute, phases.serial",
        "nothing": "pass",
    }
    methods = {
        name: (lambda code=code: subprocess.run([sys.executable, "-c", code], check=True))
        for name, code in statements.items()
    }
    return table("start an interpreter and …", in_turn(methods, rounds=20))


def netlink() -> str:
    """The netlink backend, in a process of its own, which goes into a private network namespace."""
    program = Path(__file__).with_name("netlink.py")
    return subprocess.run([sys.executable, str(program)], check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Measure, print, and write if asked to."""
    as_root = [*boot_scripts(), netlink()] if os.geteuid() == 0 else []
    tables = "\n\n".join([trivial_tasks(), imports(), *as_root])
    print(tables)  # noqa: T201  what it is for
    if "--write" in sys.argv:
        text = README.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        README.write_text(before + BEGIN + "\n" + tables + "\n" + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
