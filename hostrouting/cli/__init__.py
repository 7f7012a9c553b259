"""The operator's command line: `hostrouting`, or `python -m hostrouting`. A thin shell over the
library's functions.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hostrouting.host.host import Host


def run() -> int:
    """Run the command line of this process, which ends afterwards."""
    import gc  # noqa: PLC0415  as in `main`
    import os  # noqa: PLC0415  as in `main`

    # A check makes 35,000 objects, which stay. Looking for garbage among them took a sixth of its
    # time.
    gc.set_threshold(50_000)
    if "_ARGCOMPLETE" in os.environ:  # a shell completes what is typed
        from hostrouting.cli.completion import complete  # noqa: PLC0415  it needs an extra

        complete()
    code = main()
    gc.freeze()  # Python would look for garbage once more when it exits
    return code


def main(argv: Sequence[str] | None = None, *, host: Host | None = None) -> int:
    """Carry out one command line, on this machine or another host; return the exit code."""
    # Nothing is loaded before the `try`, so Ctrl-C is also handled while modules load.
    import sys  # noqa: PLC0415  any interpreter has it loaded already

    words = sys.argv[1:] if argv is None else list(argv)
    program = "hostrouting"
    try:
        if argv is None:
            from hostrouting.cli.calling import program_as_called  # noqa: PLC0415  see above

            program = program_as_called()
        from hostrouting.cli.parser import parse  # noqa: PLC0415  as above

        arguments = parse(words, program)
        from hostrouting.cli.output import write  # noqa: PLC0415  the help needs less
        from hostrouting.host.host import Host  # noqa: PLC0415  the help needs no host

        answer = arguments.run(arguments, host or Host.local())
        return write(answer, as_json="json" in arguments and arguments.json)
    except KeyboardInterrupt:
        from hostrouting.cli.output import say  # noqa: PLC0415  it may not be loaded yet

        say("interrupted")
        return 130  # 128 plus the number of SIGINT, as in a shell
    except Exception as error:  # noqa: BLE001  no error may have the exit code of a verdict
        from hostrouting.cli.output import write_error  # noqa: PLC0415  as above

        return write_error(error, program, as_json="--json" in words)
