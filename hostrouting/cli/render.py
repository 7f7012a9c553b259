"""`render`: the boot files of a configuration, written into an image."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hostrouting.cli.changes import changed_files, counted, file_lines
from hostrouting.cli.page import Line, Painted, line
from hostrouting.cli.reply import Reply
from hostrouting.cli.running import code_of_run, effects_of_run, failure_documents, failure_lines, run_task
from hostrouting.cli.source import config_of
from hostrouting.errors import ConfigError, Fault
from hostrouting.host import Host
from hostrouting.tasks import Configure

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    import phases

__all__ = ["SCHEMA", "run"]

SCHEMA = "hostrouting/render/1"


def run(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:  # noqa: ARG001  an image is not this host
    """See the module."""
    config, root = config_of(arguments), os.path.abspath(arguments.root)
    if not os.path.isdir(root):
        raise ConfigError([Fault("--root", repr(arguments.root), "is no directory", "mount the image there first")])
    image = Host.offline(root)
    report = run_task(Configure(config, host=image), quietly=not arguments.verbose)
    files = changed_files(effects_of_run(report), image)
    return Reply(code_of_run(report), lambda: _document(report, root, files), lambda _style: _page(report, root, files))


def _page(report: phases.Report, root: str, files: tuple[tuple[str, ...], tuple[str, ...]]) -> Iterator[Line]:
    wrote, removed = files
    if not report.ok:
        yield from failure_lines(report)
    elif not wrote and not removed:
        yield line(Painted("NOTHING TO DO:", "good"), f" the image at {root} already is as the configuration says")
    else:
        parts = [f"{counted(len(wrote), 'file')} written"] if wrote else []
        parts += [f"{counted(len(removed), 'file')} removed"] if removed else []
        yield line(Painted("DONE:", "good"), f" {', '.join(parts)}; it takes effect when the image boots")
    if wrote or removed:
        yield line()
    yield from file_lines("wrote", wrote)
    yield from file_lines("removed", removed)


def _document(report: phases.Report, root: str, files: tuple[tuple[str, ...], tuple[str, ...]]) -> dict[str, Any]:
    wrote, removed = files
    return {
        "schema": SCHEMA,
        "ok": report.ok,
        "root": root,
        "files": {"wrote": list(wrote), "removed": list(removed)},
        "failures": failure_documents(report),
    }
