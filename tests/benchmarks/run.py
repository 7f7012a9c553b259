"""`make bench`: how fast it is, beside its peers, in one run; every row names its goal and whether it is met.

Whatever needs a kernel runs in a private network namespace, and is left out, with the reason, where there can be none.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.against import compare
from tests.benchmarks.contest import Contest, LeftOut
from tests.benchmarks.machine import this_machine
from tests.benchmarks.plot import panels_of, render_plot
from tests.benchmarks.private import enter_private_network, furnish
from tests.benchmarks.report import markdown, terminal

PAGE = Path(__file__).resolve().parents[2] / "docs/benchmarks.md"
PLOT = Path(__file__).with_name("speed.svg")
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def contests(folder: Path) -> Iterator[Contest | LeftOut]:
    """All rows, as far as they can be measured here. What is measured of a start comes first, while little is loaded."""
    # It takes a process with one thread to go there; so it comes before all else.
    obstacle = enter_private_network() or ("" if shutil.which("ip") else "there is no `ip` here")
    if not obstacle:
        furnish()
    from tests.benchmarks.start import command_contests, import_contest  # noqa: PLC0415  once we are where we belong
    from tests.benchmarks.tasks import task_contest  # noqa: PLC0415  as above

    yield import_contest()
    yield task_contest()
    from tests.benchmarks.configuration import configuration_contest  # noqa: PLC0415  as above

    yield configuration_contest()
    from tests.benchmarks.fleet import fleet_contests  # noqa: PLC0415  as above

    yield from fleet_contests(folder)
    if obstacle:
        yield LeftOut("routes, checks, commands and boot scripts", obstacle)
        return
    yield from command_contests(folder)
    from tests.benchmarks.boot import boot_contests  # noqa: PLC0415  as above

    yield from boot_contests()
    from tests.benchmarks.gate import gate_contests  # noqa: PLC0415  as above

    yield from gate_contests()
    from tests.benchmarks.probe_rewrite import probe_rewrite_contests  # noqa: PLC0415  as above

    yield from probe_rewrite_contests()
    from tests.benchmarks.azure_cleanup import azure_cleanup_contests  # noqa: PLC0415  as above

    yield from azure_cleanup_contests()
    yield from _with_kernel(folder)


def _with_kernel(folder: Path) -> Iterator[Contest | LeftOut]:
    from hostrouting.kernel.netlink import NetlinkBackend  # noqa: PLC0415  as above
    from tests.benchmarks.check import check_contests  # noqa: PLC0415  as above
    from tests.benchmarks.growth import growth_contests  # noqa: PLC0415  as above
    from tests.benchmarks.netlink import Bench, kernel_contests  # noqa: PLC0415  as above
    from tests.benchmarks.peers import compile_baseline  # noqa: PLC0415  as above

    with NetlinkBackend(timeout=60) as backend:
        bench = Bench(backend, compile_baseline(folder), folder)
        if bench.baseline is None:
            yield LeftOut("the kernel's own cost", "there is no C compiler (cc)")
        yield from check_contests(bench)
        yield from kernel_contests(bench)
        yield from growth_contests(bench)


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(prog="make bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/benchmarks.md, and the plot beside this"
    )
    parser.add_argument(
        "--against", metavar="COMMIT", help="measure each row there, too, in turns, and print the ratios"
    )
    arguments = parser.parse_args()
    if arguments.against:
        for told in compare(arguments.against):
            sys.stdout.write(f"{told}\n")
            sys.stdout.flush()
        return
    begun = time.monotonic()
    done: list[Contest] = []
    left_out: list[LeftOut] = []
    with tempfile.TemporaryDirectory() as folder:
        for contest in contests(Path(folder)):
            if isinstance(contest, LeftOut):
                left_out.append(contest)
            else:
                done.append(contest)
                sys.stderr.write(f"{time.monotonic() - begun:5.0f} s  {contest.work}\n")
    machine = this_machine()
    sys.stdout.write(terminal(done, left_out, machine) + "\n")
    if arguments.write:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        table = markdown(done, left_out, machine)
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", encoding="utf-8")
        if panels := panels_of(done):
            PLOT.write_text(render_plot(panels, title="Time against number of routes"), encoding="utf-8")


if __name__ == "__main__":
    main()
