"""The operator's command line: `hostrouting`, or `python -m hostrouting`. A thin shell over the library's functions.

command      a command as one record: name, help, options and function; and its reply: an exit code, a document, and
             the same in lines
commands     the commands, a module for each, which is loaded when the command is typed
entry_point  from arguments to an exit code: the help, and the only place that catches, prints and exits
output       lines, tables and colours, as values
terminal     writes them as far as the terminal can show them
source       the kernel or the saved snapshot to read, and the configuration
failure      the exit code of an error, and its document
check        the result of a check, and its lines
remedy       the lines for its repair
fleet        the check of many snapshots
changes      what a command changes, and a run of our tasks
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hostrouting.host.host import Host

__all__ = ["main", "run"]


def run() -> int:
    """Run the command line of this process, which ends afterwards: nothing is freed."""
    import gc  # noqa: PLC0415  as in `main`

    # Modules and their classes stay until the end. To look among them for garbage, again and again while they load and
    # once more when Python ends, took a sixth of the processor time of a check, which has 35,000 objects at its end.
    gc.set_threshold(50_000)
    try:
        return main()
    finally:
        gc.freeze()  # what is frozen is left out of the search when Python ends


def main(argv: Sequence[str] | None = None, *, host: Callable[[], Host] | None = None) -> int:
    """Carry out one command line, on this machine or another host; return the exit code."""
    # Nothing is loaded before the `try`, so that Ctrl-C while modules load is handled here as well.
    import sys  # noqa: PLC0415  any interpreter has it loaded already

    if sys.stderr is None:  # it was closed; argparse and print() would write to standard output
        from contextlib import redirect_stderr  # noqa: PLC0415  few need it
        from os import devnull  # noqa: PLC0415  as above

        with open(devnull, "w", encoding="utf-8") as nowhere, redirect_stderr(nowhere):
            return main(argv, host=host)
    try:
        from hostrouting.cli import entry_point  # noqa: PLC0415  Ctrl-C may come while it loads

        return entry_point.main(argv, host=host)
    except KeyboardInterrupt:
        print("hostrouting: interrupted", file=sys.stderr)  # noqa: T201  the module that usually prints may not be loaded yet
        return 130  # 128 plus the number of SIGINT, as in a shell
