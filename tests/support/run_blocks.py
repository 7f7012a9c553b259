"""Runs the Python blocks of documents, one after another: reads a JSON object of blocks, prints the result of each.

It is a separate program, so that blocks that set up logging and signals do not affect the test's process.
"""

import contextlib
import io
import json
import logging
import sys
import traceback


def run(name: str, block: str) -> dict[str, str]:
    """The output of the block, and how it failed; empty if it succeeded."""
    printed, failure = io.StringIO(), ""
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        try:
            exec(compile(block, name, "exec"), {"__name__": "__main__"})  # noqa: S102  the blocks are from our own documents
        except SystemExit as stopped:
            failure = f"exit code {stopped.code}" if stopped.code else ""
        except BaseException:  # noqa: BLE001  every failure is reported
            failure = traceback.format_exc()
    for handler in logging.root.handlers[:]:
        logging.root.removeHandler(handler)
    return {"printed": printed.getvalue(), "failure": failure}


if __name__ == "__main__":
    json.dump({name: run(name, block) for name, block in json.load(sys.stdin).items()}, sys.stdout)
