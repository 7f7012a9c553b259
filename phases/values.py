"""What tasks return and raise, in words and as JSON values."""

from __future__ import annotations


def describe_error(error: BaseException) -> str:
    """The error in one line: its type, then the lines of its message, joined by semicolons. A line
    that ends with a colon gets no semicolon.
    """
    kind = type(error).__name__
    lines = [line.strip() for line in printable(error).splitlines()]
    message = "; ".join(filter(None, lines)).replace(":; ", ": ")
    if not message:
        return kind
    return f"{kind}: {message}"


def printable(value: object) -> str:
    """str(value), safe for any terminal: control characters and lone surrogates are escaped."""
    text = str(value)
    for char in set(text):
        if char != "\n" and not char.isprintable():
            text = text.replace(char, ascii(char)[1:-1])  # without the quotes
    return text


def seconds_in_words(seconds: float | None) -> str:
    """A duration in words: `12 ms`, `325.00 s`; empty if there is none."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.2f} s"


def as_data(value: object) -> object:
    """The value as JSON needs it: keys are texts, and the result of `to_mapping()` takes the place
    of each value that has this method.
    """
    if hasattr(value, "to_mapping"):
        value = value.to_mapping()
    if isinstance(value, dict):
        return {str(key): as_data(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_data(each) for each in value]
    return value
