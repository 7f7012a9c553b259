"""`python -m hostrouting`, or `python hostrouting.pyz`: the command line.

Any Python, even the oldest, can read this file.
"""

import sys

try:
    from hostrouting.cli import main
except ImportError as error:
    if tuple(sys.version_info) >= (3, 10):  # as hostrouting/too_old_python.py; a tuple, for type checkers
        raise
    sys.stderr.write("%s\n" % error)  # noqa: UP031
    sys.exit(3)

sys.exit(main())
