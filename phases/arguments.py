"""What a caller passes, checked where it is passed: a mistake would fail a task later."""

from __future__ import annotations

import math
from typing import Any


def must_be(kind: Any, value: object, name: str, rule: str) -> None:
    """Raise TypeError unless the value is of this kind: a type, or a tuple of types."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r:.80}; it must be {rule}")


def in_range(
    value: float, name: str, *, least: float, most: float = math.inf, whole: bool = False
) -> None:
    """Raise ValueError unless the value is a number within these bounds."""
    kind = int if whole else (int, float)
    if isinstance(value, kind) and least <= value <= most and value != math.inf:
        return
    number = "whole number" if whole else "number"
    limits = f"from {least:g} to {most:g}"
    if most == math.inf:
        limits = f"{least:g} or more"
    raise ValueError(f"{name} is {value!r:.80}; it must be a {number}, {limits}")
