"""Runs Python blocks of documents, one after another in this process: a JSON object of blocks in, what each did out.

A program of its own, so that blocks which set up logging and signals meet nothing of a test's process.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import traceback


def run(name: str, block: str) -> dict[str, str]:
    """What the block printed, and how it failed; empty where it did not."""
    printed, failure = io.StringIO(), ""
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        try:
            exec(compile(block, name, "exec"), {"__name__": "__main__"})  # noqa: S102  they are ours
        except SystemExit as stopped:
            failure = f"exit code {stopped.code}" if stopped.code else ""
        except BaseException:  # noqa: BLE001  whatever it is, it is told
            failure = traceback.format_exc()
    for handler in logging.root.handlers[:]:
        logging.root.removeHandler(handler)
    return {"printed": printed.getvalue(), "failure": failure}


if __name__ == "__main__":
    json.dump({name: run(name, block) for name, block in json.load(sys.stdin).items()}, sys.stdout)
