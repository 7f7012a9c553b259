"""From arguments to an exit code: parse, carry out the command, print the reply or the error.

Here: the only place that catches, prints and decides on the exit code. Not here: anything about routing. Until the
arguments are parsed, only argparse and the records of the commands are loaded.
"""

from __future__ import annotations

import sys

from hostrouting import __version__
from hostrouting.cli.commands import COMMANDS
from hostrouting.cli.page import SHOWN, Painted, capped, line, plain, spoken
from hostrouting.cli.parser import Misused, make_parser
from hostrouting.own_phases import foreign_phases

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    import phases
    from hostrouting.cli.command import Reply
    from hostrouting.cli.page import Line
    from hostrouting.cli.terminal import Terminal
    from hostrouting.errors import ForeignPhases
    from hostrouting.host import Host

__all__ = ["main"]

_INTERRUPTED = 130  # 128 plus the number of SIGINT, as in a shell


def main(argv: Sequence[str] | None = None, *, host: Callable[[], Host] | None = None) -> int:
    """Carry out one command line, on this machine or another host; return the exit code."""
    if isinstance(argv, str):
        raise TypeError(f"main takes the arguments as a list, not as the string {argv!r}; write {argv.split()!r}")
    if host is not None and not callable(host):
        raise TypeError(f"main takes as host= a function that makes one, not a {type(host).__name__}; write lambda: …")
    words = sys.argv[1:] if argv is None else argv
    foreign = foreign_phases()
    if foreign is not None and "--version" in words:
        return _refused(foreign, f"hostrouting {__version__}\n")
    try:
        return _carried_out(words, host, foreign)
    except KeyboardInterrupt:
        _say("interrupted")
        told = _complaint("Interrupted", "interrupted")
        return _answered(lambda: _INTERRUPTED, told) if "--json" in words else _INTERRUPTED


def _carried_out(words: Sequence[str], host: Callable[[], Host] | None, foreign: ForeignPhases | None) -> int:
    try:
        arguments = make_parser(__version__).parse_args(words)
    except SystemExit as stopped:  # argparse has printed its help, or what is wrong
        if isinstance(stopped, Misused) and "--json" in words:
            _answered(lambda: 2, _complaint("Misused", stopped.message))
        if _unwritten():
            code = int(stopped.code or 0)
            stopped.code = _answered(lambda: code, lambda terminal: terminal.show(()))
            _say()
        raise
    if foreign is not None:
        from hostrouting.cli.failure import document_of  # noqa: PLC0415  imported only for an error

        return _refused(foreign, f"{_on_one_line(document_of(foreign))}\n" if arguments.json else "")
    command = arguments.command
    try:
        if host is None:
            from hostrouting.host import Host  # noqa: PLC0415  imported after parsing

            host = Host.local
        from hostrouting.cli.terminal import log_to_stderr  # noqa: PLC0415  as above

        log_to_stderr(verbose=arguments.verbose or command.tells_progress)
        reply = command.answer(arguments, _telling(arguments, host) if arguments.verbose else host)
        return _answered(lambda: reply.code, _rendered(reply, as_json=arguments.json))
    except Exception as error:  # noqa: BLE001  the exit code of any error must differ from that of a verdict
        code, shown = _failed(error, needs_files=command.needs_files, as_json=arguments.json)
        return _answered(lambda: code, shown)


def _unwritten() -> bool:
    """Whether what argparse printed is still in a buffer, because it could not be written."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except OSError:
        return True
    return False


def _telling(arguments: argparse.Namespace, host: Callable[[], Host]) -> Callable[[], Host]:
    """A function that makes a host which logs each access, for --verbose."""
    from hostrouting.cli.telling import tell_sources, telling  # noqa: PLC0415  as above

    tell_sources(arguments)
    return lambda: telling(host())


def _refused(foreign: ForeignPhases, answer: str) -> int:
    """Print the error, using only the standard library, and return the exit code, if `phases` is another project's."""
    sys.stdout.write(answer)
    sys.stderr.write(f"hostrouting: {foreign}\n")
    return 3


def _complaint(error: str, message: str) -> Callable[[Terminal], None]:
    """A function that writes `hostrouting/error/1` for an error that is not one of our exceptions."""
    document = {"schema": "hostrouting/error/1", "error": error, "message": message, "faults": []}
    return lambda terminal: terminal.write_json(_on_one_line(document))


def _rendered(reply: Reply, *, as_json: bool) -> Callable[[Terminal], None]:
    """A function that writes the reply. The document is made before, because that can fail."""
    if as_json or reply.lines is None:
        from collections.abc import Iterator  # noqa: PLC0415  as above

        document = reply.document()
        if isinstance(document, Iterator):
            return lambda terminal: _write_each(document, terminal)
        text = document if isinstance(document, str) else _json(document)
        return lambda terminal: terminal.write_json(text)
    make, failed = reply.lines, () if reply.failed is None else tuple(_why_failed(reply.failed))
    return lambda terminal: terminal.show((*failed, *make(terminal.style)))


def _write_each(documents: Iterator[str], terminal: Terminal) -> None:
    """Write each document on a line of its own, until the reader has gone."""
    for text in documents:
        terminal.write_json(text)
        if terminal.reader_is_gone:
            break


def _answered(code: Callable[[], int], write: Callable[[Terminal], None]) -> int:
    """Write the answer and return the exit code; not 0 if it could not be written."""
    from hostrouting.cli.terminal import Terminal  # noqa: PLC0415  as above

    try:
        write(Terminal())
    except OSError as error:
        _say(f"the answer could not be written: {error.strerror or error}")
        return code() or 1
    return code()


def _failed(error: Exception, *, needs_files: bool, as_json: bool) -> tuple[int, Callable[[Terminal], None]]:
    """Print the error to standard error; return the exit code and a function that writes the JSON document."""
    if isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] in sys.stdlib_module_names:
        # Our own modules may need it, so nothing else is imported.
        text = (
            f"the module {error.name} of Python's standard library is missing; install all of Python: on Debian and"
            " Ubuntu the package python3, because python3-minimal is only a part"
        )
        _say(text)
        return 3, _complaint(type(error).__name__, text) if as_json else lambda _: None
    from hostrouting.cli.failure import code_of, document_of  # noqa: PLC0415  as above
    from hostrouting.errors import HostRoutingError  # noqa: PLC0415  as above

    if not isinstance(error, HostRoutingError):
        from traceback import format_exception  # noqa: PLC0415  only a bug needs it

        _say("this is a bug in hostrouting, please report it with the following text", *format_exception(error))
    else:
        _say(*_words_of(error))
    text = _on_one_line(document_of(error)) if as_json else ""
    return code_of(error, needs_files=needs_files), lambda terminal: terminal.write_json(text) if text else None


def _words_of(error: BaseException) -> Iterator[str]:
    """The message of the error, and which commands work anyway."""
    from hostrouting.denial import is_denied  # noqa: PLC0415  as above
    from hostrouting.errors import ConfigError, NetlinkUnavailable  # noqa: PLC0415  as above

    if isinstance(error, ConfigError):
        yield error.told(SHOWN)
        yield from map(plain, capped((), len(error.faults)))
    else:
        yield str(error) or type(error).__name__
    if is_denied(error):
        names = [it.name for it in COMMANDS if it.about_host and not it.changes]
        yield f"{spoken(names, most=len(names))} work without root"
    if isinstance(error, NetlinkUnavailable):
        names = [it.name for it in COMMANDS if it.takes_snapshot]
        yield f"{spoken(names)} work on a saved snapshot, with --snapshot FILE"


def _why_failed(report: phases.Report) -> Iterator[Line]:
    """Why a run failed: each failure once, and which commands work anyway."""
    from hostrouting.cli.failure import errors_in  # noqa: PLC0415  as above

    if not report.failures:
        yield line(Painted("STOPPED:", "warn"), f" {report.reason or 'it was stopped'}")
    for error in (error for failure in report.failures for error in errors_in(failure.error)):
        first, *others = _words_of(error)
        yield line(Painted("FAILED:", "bad"), f" {first}")
        yield from (line(f"  {words}") for words in others)


def _say(*paragraphs: str) -> None:
    from contextlib import suppress  # noqa: PLC0415  as above

    from hostrouting.cli.terminal import Terminal  # noqa: PLC0415  as above

    rows = [row for paragraph in paragraphs for row in paragraph.splitlines()]
    with suppress(OSError):
        Terminal(sys.stderr).show(
            line(Painted("hostrouting: ", "soft"), row) if not at else line(row) for at, row in enumerate(rows)
        )


def _json(document: object) -> str:
    import json  # noqa: PLC0415  imported only with --json

    return json.dumps(document, indent=2)


def _on_one_line(document: object) -> str:
    """The document of an error: it may follow others that have a line each."""
    import json  # noqa: PLC0415  imported only with --json

    return json.dumps(document)
