"""The operator's command line: `hostrouting`, or `python -m hostrouting`. A thin shell over the same functions.

command      a command as one record: name, help, options, what it answers; and what that is: an exit code, a document,
             and the same in lines
commands     the commands, a module each; all that is loaded for --help and for bad usage are their records
parser       the command line and its help, made of these records
entry_point  from arguments to an exit code: the one place that catches, prints and exits
page         lines, tables and colours, as values; `terminal` writes them as far as the terminal can show them
source       the kernel or the saved snapshot that is looked at, and the configuration
reading      the bytes of what an argument names: a file, a pipe, standard input
telling      a host that says what it is asked and told, for --verbose
failure      the exit code of an error, and its document
schemas      the keys that several JSON documents have in common, with what they mean
check        a check that was made, and its words; `remedy` has those for its repair, `cidr_map` draws a CIDR
explanation  what there is to know about one packet's way
host_status  what of ours is on a host, and the verdict on it, now and the last one
run          a run of our tasks, as it would be and as it was
gates        what is said of the gate
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hostrouting.host import Host

__all__ = ["main"]


def main(argv: Sequence[str] | None = None, *, host: Callable[[], Host] | None = None) -> int:
    """Carry out one command line, on this machine or another host; the exit code."""
    # Nothing is loaded before this: Ctrl-C while modules load is an order to stop, as at any other moment.
    try:
        from hostrouting.cli import entry_point  # noqa: PLC0415  see above

        return entry_point.main(argv, host=host)
    except KeyboardInterrupt:
        import sys  # noqa: PLC0415  any interpreter has it loaded already

        print("hostrouting: interrupted", file=sys.stderr)  # noqa: T201  what writes it otherwise may not be loaded yet
        return 130  # 128 and the number of SIGINT, as a shell says it
