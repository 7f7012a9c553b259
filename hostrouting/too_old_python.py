"""Refuses a Python that is too old for hostrouting: one line, and no traceback.

Here: the refusal. Any Python, even the oldest, can read this file, `hostrouting/__init__.py` and `phases/__init__.py`:
so they have no annotations and no f-strings.
"""

import sys

__all__ = ["refuse"]


def refuse(package, remedy=""):  # noqa: ANN001, ANN201  see above
    # type: (str, str) -> None
    """Raise an ImportError with one line, which is all that is printed if no program catches it."""
    found = "%d.%d (%s)" % (sys.version_info[0], sys.version_info[1], sys.executable)  # noqa: UP031  see above
    error = ImportError("%s needs Python 3.10 or newer, and this is Python %s%s" % (package, found, remedy))  # noqa: UP031
    before = sys.excepthook

    def show(kind, value, trace):  # noqa: ANN001, ANN202
        # type: (object, object, object) -> None
        if value is error:
            sys.stderr.write("%s\n" % error)  # noqa: UP031
        else:
            before(kind, value, trace)  # type: ignore[arg-type]  # as Python calls it

    sys.excepthook = show
    # `python -m hostrouting`, where Python would put more words around the line, and the installed command, where it
    # would end with exit code 1, which means an overlap. hostrouting.pyz: see hostrouting/__main__.py.
    if sys.argv and sys.argv[0].split("/")[-1] in ("-m", "hostrouting"):
        sys.stderr.write("%s\n" % error)  # noqa: UP031
        sys.exit(3)
    raise error
