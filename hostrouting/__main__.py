"""`python -m hostrouting`, or `python hostrouting.pyz`: the command line."""

import sys

from hostrouting.cli import run

sys.exit(run())
