"""Runs command lines for tests, in this process or in a new one."""

import io
import json
import logging
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from typing import Any, NamedTuple
from unittest import mock

from hostrouting.cli import main, parser
from hostrouting.host.host import Host
from hostrouting.testing import FakeHost
from hostrouting.testing.kernel import FakeKernel

# Independent of the terminal and the locale in which the tests are run.
PLAIN = {"LC_ALL": "C.UTF-8", "TERM": "dumb", "COLUMNS": "80"}

# To make the parser takes longer than most commands.
_parser = cache(parser.make_parser)


class Said(NamedTuple):
    """The output of a command, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def say(
    *words: str,
    host: Host | None = None,
    kernel: FakeKernel | None = None,
    stdin: bytes = b"",
    **environment: str,
) -> Said:
    """Run one command line on a fake host."""
    where = host or (FakeHost() if kernel is None else FakeHost(kernel=kernel))
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    given = io.TextIOWrapper(io.BytesIO(stdin))
    level = logging.root.level
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        mock.patch.object(sys, "stdin", given),
        mock.patch.object(parser, "make_parser", _parser),
        mock.patch.dict(os.environ, {**PLAIN, **environment}),
        mock.patch.object(logging.root, "handlers", []),
    ):
        try:
            code = main(list(words), host=where)
        except SystemExit as stopped:  # argparse: --help, bad usage
            code = int(stopped.code or 0)
        finally:
            logging.root.setLevel(level)
    return Said(code, _read(out), _read(err))


def _read(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()
