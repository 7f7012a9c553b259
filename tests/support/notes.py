"""The notes on an exception, as a typed value: type checkers know of `__notes__` from Python 3.11
on only.
"""


def notes_of(error: BaseException) -> list[str]:
    """The notes that were added to this error, oldest first; a KeyError if there are none."""
    return list(vars(error)["__notes__"])
