"""The command line as a program: `hostrouting`, `python -m hostrouting`, or `python
hostrouting.pyz`.

Python 3.6 can read this file and the two that it may load before it, `hostrouting/__init__.py` and
`release.py`. So a Python that is too old says what is needed, instead of printing a traceback.
"""

import sys

from hostrouting.release import OLDEST_PYTHON


def run() -> int:
    """Run the command line of this process and return the exit code. The process has to end then,
    because its settings of signals and of the garbage collector are changed.
    """
    if sys.version_info < OLDEST_PYTHON:
        needed = "hostrouting needs Python {}.{} or newer".format(*OLDEST_PYTHON)
        present = "{} is Python {}.{}.{}".format(sys.executable, *sys.version_info[:3])
        remedy = "start it with a newer one, such as python3.11, or install one"
        sys.stderr.write(f"{needed}, and {present}; {remedy}\n")
        return 2  # `codes.BAD_INPUT`
    from hostrouting.cli import run as run_command_line  # noqa: PLC0415  an older Python cannot read it

    return run_command_line()


if __name__ == "__main__":
    sys.exit(run())
