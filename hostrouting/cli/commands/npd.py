"""`npd`: answer as a custom plugin of node-problem-detector, from what the guard and the check wrote last."""

from __future__ import annotations

from hostrouting.cli.command import FINE, Command, Reply
from hostrouting.cli.output import line

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from hostrouting.fleet.npd import Written
    from hostrouting.host.host import Host

__all__ = ["COMMAND"]


def _options(parser: argparse.ArgumentParser) -> None:
    told = (
        "verdict (the default): whether the expected CIDRs leave by an expected device; repairs: whether the guard has "
    )
    told += "repaired everything"
    parser.add_argument("--about", metavar="QUESTION", choices=("verdict", "repairs"), default="verdict", help=told)
    told = "without a guard, the answer is unknown if the last check is older than this (default: 86400, a day)"
    parser.add_argument("--max-age", metavar="SECONDS", type=_seconds, default=86_400, help=told)
    told = "the directory to read (default: /run/aks-flex-node)"
    parser.add_argument("--directory", metavar="DIR", type=_directory, help=told)
    told = "print the plugin as a shell script, for a container without Python; not with --json"
    parser.add_argument("--script", action="store_true", help=told)


def _seconds(text: str) -> int:
    import argparse

    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 3600")
    return int(text)


def _directory(text: str) -> str:
    import argparse

    if not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r} is not an absolute path")
    return text


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    if arguments.script:
        from hostrouting.boot import render_npd_script

        return Reply(FINE, lambda: render_npd_script().removesuffix("\n"))
    import time

    from hostrouting.fleet.npd import decide

    written = _written(host(), arguments.directory)
    answer = decide(arguments.about, written, now=int(time.time()), max_age=arguments.max_age)
    document = {"schema": COMMAND.schema, "about": arguments.about, "status": answer.status, "line": answer.line}
    return Reply(answer.code, lambda: document, lambda _style: (line(answer.line),))


def _written(host: Host, directory: str | None) -> Written:
    """What is in the directory."""
    from hostrouting.errors import FileError
    from hostrouting.fleet.npd import Written

    files, layout = host.files, host.layout
    where = directory or layout.at(layout.state_directory)
    paths = (layout.guard_path, layout.report_path, layout.detected_path, layout.ok_path)
    guard, *results = (f"{where}/{path.rpartition('/')[2]}" for path in paths)
    report, *markers = results

    def read(path: str) -> str | None:
        try:
            return files.read(path)
        except FileError:
            return ""

    return Written(
        directory=where,
        is_there=files.is_there(where) or bool(files.names(where)),
        guard=read(guard),
        report=read(report),
        marker=next((text for path in markers if (text := read(path)) is not None), None),
        reported=next((int(at) for path in results if (at := files.modified(path)) is not None), 0),
    )


COMMAND = Command(
    "npd",
    "answer as a plugin of node-problem-detector, from the last verdict",
    answer=_answer,
    options=_options,
    more="""\
Reads what the guard, or without a guard the last check, has written, and prints one line. It does not look at the
routes. The answer is unknown if a guard has not looked for three minutes; without a guard, if the last check is older
than --max-age.

Where node-problem-detector runs in a container, give it the shell script that --script prints: it takes the same
options, gives the same answers, and needs no Python. It finds the files if /run/aks-flex-node of the host is mounted.

Exit code 0 means that nothing is wrong, and 3 that the answer is unknown.
""",
    examples="""\
# what the guard, or else the last check, has found
hostrouting npd
# the plugin for a container that has no Python
hostrouting npd --script > hostrouting-npd.sh
""",
    failing="there is a problem, which the line names",
    no_json={"script": "it prints a shell script"},
    keys={
        "about": "the question: verdict or repairs",
        "status": "ok, problem or unknown",
        "line": "what node-problem-detector is told",
    },
)
