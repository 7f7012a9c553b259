"""What a caller passes, checked where it is passed: a mistake would fail a task later."""

from __future__ import annotations

import math
from typing import Any


def must_be(kind: Any, value: object, name: str, rule: str) -> None:
    """Raise TypeError unless the value is of this kind: a type, or a tuple of types."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r:.80}; it must be {rule}")


def must_be_number(value: object, name: str, *, most: float = math.inf) -> None:
    """Raise ValueError unless the value is a finite number from 0 to `most`."""
    if isinstance(value, int | float) and 0 <= value <= most and value < math.inf:
        return
    limits = "0 or more"
    if most < math.inf:
        limits = f"from 0 to {most:g}"
    raise ValueError(f"{name} is {value!r:.80}; it must be a number, {limits}")


def must_be_count(value: object, name: str) -> None:
    """Raise ValueError unless the value is a whole number, 1 or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} is {value!r:.80}; it must be a whole number, 1 or more")
