"""The check of many snapshots from the command line: its arguments, its documents, its exit code, and its page.

Here: what `check --snapshots` has in common with no other command. Not here: the judgement (`fleet`), and the lines
(`fleet_view`).
"""

from __future__ import annotations

import json
import logging
import os
import shlex
from datetime import datetime, timezone
from ipaddress import ip_network
from typing import TYPE_CHECKING

import attrs

from hostrouting.cli.command import FAILED, FINE, VERDICT_CODES, Reply
from hostrouting.cli.failure import code_of, document_of
from hostrouting.cli.fleet_view import fleet_lines
from hostrouting.cli.page import counted
from hostrouting.cli.progress import Progress
from hostrouting.cli.source import expected_of, gateway_of
from hostrouting.cli.terminal import Terminal
from hostrouting.errors import ConfigError, Fault, FileError
from hostrouting.fleet.dispatch import judge_snapshots
from hostrouting.fleet.grouping import Grouping
from hostrouting.fleet.judging import Question
from hostrouting.fleet.page import read_page
from hostrouting.fleet.sources import find_snapshots
from hostrouting.system import LocalFiles

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from hostrouting.fleet import NodeResult, Source

__all__ = ["check_fleet"]

_LOG = logging.getLogger("hostrouting")


def check_fleet(arguments: argparse.Namespace) -> Reply:
    """The reply to `check --snapshots`. With --json, the nodes are judged while the reply is printed."""
    _require_sense(arguments)
    _sort_out(arguments)
    sources = _sources(arguments)
    config = expected_of(arguments)
    question = Question(
        config, gateway_of(arguments, config), tuple(arguments.devs), is_whole=arguments.config is not None
    )
    page = None if arguments.html is None else _page_file(arguments.html)
    _LOG.info("checking %s", counted(len(sources), "snapshot"))
    # Lines that come meanwhile on the same terminal and a line that is written again would disturb each other.
    run = _Run(sources, question, page, shows_progress=not (arguments.json and Terminal().is_live))
    if arguments.json:
        return Reply(lambda: run.code, lambda: map(_line_of, run.results()))
    for _ in run.results():
        pass
    name = arguments.config or ""
    groups = run.grouping.groups()
    return Reply(
        run.code,
        lambda: map(_line_of, ()),
        lambda _style: fleet_lines(groups, config, name=name, question=_asked(arguments)),
    )


class _Run:
    """The results one by one, and what is known when there are no more."""

    def __init__(
        self, sources: tuple[Source, ...], question: Question, page: str | None, *, shows_progress: bool
    ) -> None:
        self._sources, self._question, self._page, self._shows_progress = sources, question, page, shows_progress
        self.grouping = Grouping()
        self._codes = {FINE}

    @property
    def code(self) -> int:
        """The exit code: that of the worst node."""
        return min(self._codes - {FINE}, default=FINE)

    def results(self) -> Iterator[NodeResult]:
        """Judge all of them; at the end, write the page."""
        found = judge_snapshots(self._sources, self._question)
        for it in Progress(len(self._sources), "snapshots").along(found) if self._shows_progress else found:
            self.grouping.add(it)
            self._codes.add(_code_of(it))
            yield it
        if self._page is not None:
            self._write_page(self._page)

    def _write_page(self, path: str) -> None:
        text = read_page(self.grouping.groups(), self._question, moment=datetime.now(timezone.utc))
        try:
            LocalFiles().write(path, text)
        except FileError as error:  # the answer is not lost with the page
            _LOG.error("%s", error)
            self._codes.add(FAILED)


def _code_of(result: NodeResult) -> int:
    if result.failure is not None:
        return code_of(result.failure, needs_files=False)
    return VERDICT_CODES[result.verdict or ""]


def _line_of(result: NodeResult) -> str:
    """The document of a node, on one line: that of its check, with its name and the correction."""
    head = json.dumps(result.heading)
    error = result.error
    rest = result.answer if error is None else json.dumps(document_of(error))
    return f"{head[:-1]}, {rest[1:]}"


def _require_sense(arguments: argparse.Namespace) -> None:
    """Raise ConfigError if the arguments contradict each other."""
    if arguments.snapshots is None:
        rule = "is a page about many nodes, and needs --snapshots"
        raise ConfigError([Fault("--html", repr(arguments.html), rule, "name their snapshots with --snapshots PATH")])
    if arguments.snapshot is not None:
        rule = "cannot be used together with --snapshots"
        raise ConfigError([Fault("--snapshot", repr(arguments.snapshot), rule, "add the file to --snapshots")])


def _sort_out(arguments: argparse.Namespace) -> None:
    """Make CIDRs of the words after --snapshots that are networks and not files: operators write CIDRs last."""
    cidrs = [it for it in arguments.snapshots if _is_network(it) and not os.path.lexists(it)]
    arguments.snapshots = [it for it in arguments.snapshots if it not in cidrs]
    arguments.cidrs = [*arguments.cidrs, *cidrs]


def _is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _sources(arguments: argparse.Namespace) -> tuple[Source, ...]:
    try:
        return find_snapshots(arguments.snapshots)
    except ConfigError as error:
        raise ConfigError(attrs.evolve(fault, path="--snapshots") for fault in error.faults) from error


def _page_file(path: str) -> str:
    """The absolute path of the page. Raises an error now if it could not be written later."""
    place = os.path.abspath(path)
    if os.path.isdir(place):
        raise ConfigError([Fault("--html", repr(path), "is a directory", "name a file in it")])
    LocalFiles().require_writable(os.path.dirname(place))
    return place


def _asked(arguments: argparse.Namespace) -> str:
    """The arguments that ask a check of one snapshot the same."""
    words = list(arguments.cidrs)
    words += [word for dev in arguments.devs for word in ("--dev", dev)]
    words += ["--gateway", arguments.gateway] if arguments.gateway else []
    words += ["--config", arguments.config] if arguments.config else []
    return shlex.join(words)
