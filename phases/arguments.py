"""What a caller passes, checked where it is passed: a mistake would fail a task later. What a
function returns is checked where it is called.
"""

from __future__ import annotations

import math
from difflib import get_close_matches
from functools import lru_cache
from inspect import (
    isasyncgenfunction,
    iscoroutine,
    iscoroutinefunction,
    isgeneratorfunction,
    signature,
)
from typing import Any

from phases.errors import InvalidTask


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


def fault_of_function(name: str, function: object, takes: str = "ctx") -> str:
    """What is wrong with a function that is called with one value; empty if nothing is."""
    if not callable(function):
        return f"its {name} is {function!r:.80}; it must be a function of {takes}"
    if isinstance(function, type):
        return f"its {name} is the class {function.__name__}; pass an instance"
    for code in (function, type(function).__call__):  # an object is called by its class's method
        if iscoroutinefunction(code) or isasyncgenfunction(code) or isgeneratorfunction(code):
            return f"its {name} is async or a generator, so a call runs nothing; write a plain def"
    try:
        signature(function).bind(None)
    except TypeError:
        rule = f"write {name}({takes}), and in a class {name}(self, {takes})"
        return f"{name} does not take {takes} alone; {rule}"
    except ValueError:  # some builtins do not say what they take
        return ""
    return ""


def fault_of_method(value: object, name: str, takes: str = "ctx") -> str:
    """What is wrong with an optional method that is called with one value; empty if nothing is, or
    if it is missing under any name.
    """
    method = getattr(value, name, None)
    if method is None:
        return misspelt(value, name, f"(self, {takes})")
    return fault_of_function(name, method, takes)


def misspelt(value: object, name: str, takes: str = "") -> str:
    """What is wrong if the value does not have this optional member, and has one that was probably
    meant as it; else empty.
    """
    members = {*dir(type(value)), *getattr(value, "__dict__", ())}
    if name in members:
        return ""
    near = _nearest(name, frozenset(members))
    if not near:
        return ""
    return f"it has {near}, and no {name}: write {name}{takes}, or rename it"


@lru_cache
def _nearest(name: str, members: frozenset[str]) -> str:
    """The member whose name is probably meant as this one; empty if there is none."""
    letters = name.replace("_", "")
    known = {
        member.replace("_", "").lower(): member for member in members if not member.startswith("_")
    }
    known.pop(f"{letters}s", None)  # a plural is another thing
    same_letters = [near for near in known if sorted(near) == sorted(letters)]
    for near in (*get_close_matches(letters, known, cutoff=0.85), *same_letters):
        return known[near]
    return ""


def reject_coroutine(result: object, function: str) -> None:
    """Raise InvalidTask if what the function returned is a coroutine."""
    if iscoroutine(result):
        result.close()
        raise InvalidTask(
            f"{function} returned a coroutine, which nothing runs; call asyncio.run in it"
        )
