"""What every module may import, also before a Python that is too old has said so: the name
and the version of this package, the Python that it needs, and how the gate ends.
"""

import os
import sys

__version__ = "1.0.0"
OLDEST_PYTHON = (3, 10)
PASSED = 97
"""The exit status of a gate that lets its unit start. Not 0: an interpreter that is an empty file
exits with that.
"""
REFUSED = 98
"""The exit status of a gate, or a service at boot, that has said what is wrong. Any other status
says that it did not run to its end.
"""


def _how_it_is_called() -> str:
    # What an operator has to type to run this copy of the program. `__file__` says which copy it
    # is: an archive (hostrouting.pyz), the archive that the gate has opened, or the package that
    # pip installed.
    folder, suffix, _ = __file__.partition(".pyz/")  # `suffix` is empty outside an archive
    if suffix:
        import shlex  # noqa: PLC0415  the gate needs none

        archive = f"{folder}.pyz"
        # An archive that is typed alone is run by the python3 of PATH. If another interpreter runs
        # now, such as python3.12, that python3 is probably too old: both words have to be typed.
        runs_alone = os.access(archive, os.X_OK) and os.path.basename(sys.executable) == "python3"
        return shlex.join([archive] if runs_alone else [sys.executable, archive])
    if __file__.startswith("/proc/"):  # the gate imports the program of the node from a descriptor
        return "/etc/hostrouting/python /etc/hostrouting/hostrouting.pyz"
    return "hostrouting"


PROGRAM = _how_it_is_called()
"""What an operator types before the words of a command, quoted for a shell."""


def our_command(words: str) -> str:
    """The line that calls hostrouting with these words, which are quoted for a shell."""
    return f"{PROGRAM} {words}"
