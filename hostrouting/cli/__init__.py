"""The operator's command line: `hostrouting`, or `python -m hostrouting`. A thin shell over the
library's functions.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hostrouting.host.host import Host


def run() -> int:
    """Run the command line of this process and return the exit code. The process has to exit then,
    because its settings of signals and of the garbage collector are changed.
    """
    import gc  # noqa: PLC0415  as in `main`
    import signal  # noqa: PLC0415  as in `main`

    if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # under nohup, SIGHUP is ignored
        # A closed terminal ends a run as SIGTERM does: routes are rolled back.
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    # The garbage collector would search the 35,000 objects of a check again and again, which took a
    # sixth of the time, although all of them are in use to the end.
    gc.set_threshold(50_000)
    code = main()
    gc.freeze()  # else Python would look for garbage once more when it exits
    return code


def main(argv: Sequence[str] | None = None, *, host: Host | None = None) -> int:
    """Carry out one command line, on this machine or another host; return the exit code."""
    # Nothing is loaded before the `try`, so Ctrl-C is also handled while modules load.
    as_json = False
    try:
        from hostrouting.cli.parser import make_parser, module_of  # noqa: PLC0415  see above

        parser = make_parser()
        if "_ARGCOMPLETE" in os.environ:  # a shell asks for what may be typed
            import argcomplete  # noqa: PLC0415  an extra

            argcomplete.autocomplete(parser)
        arguments = parser.parse_args(argv)
        as_json = getattr(arguments, "json", False)
        from hostrouting.cli.output import write  # noqa: PLC0415  the help needs less
        from hostrouting.host.host import Host  # noqa: PLC0415  the help needs no host

        page = module_of(arguments.command).run(arguments, host or Host.local())
        return write(page, as_json=as_json)
    except KeyboardInterrupt:
        from hostrouting.cli.output import say  # noqa: PLC0415  it may not be loaded yet

        say("interrupted")
        return 130  # 128 plus the number of SIGINT, as in a shell
    except Exception as error:  # noqa: BLE001  no error may have the exit code of a verdict
        from hostrouting.cli.output import write_error  # noqa: PLC0415  as above

        return write_error(error, as_json=as_json)
