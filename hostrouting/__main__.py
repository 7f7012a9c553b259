"""`python -m hostrouting`, or `python hostrouting.pyz`: the command line.

Any Python, even the oldest, can read this file: one that is too old to run the rest says so in one line.
"""

import sys

if tuple(sys.version_info) < (3, 10):  # a tuple, or type checkers would skip the rest
    version = "%d.%d" % (sys.version_info[0], sys.version_info[1])  # noqa: UP031  any Python can read it
    told = (
        "hostrouting: Python 3.10 or newer is needed, and this is Python %s (%s); without a newer one, make boot files"
        " ('hostrouting render') or the script for a snapshot ('hostrouting snapshot --script') on another host, to run"
        " here\n"
    )
    sys.stderr.write(told % (version, sys.executable))
    sys.exit(3)

from hostrouting.cli import run

sys.exit(run())
