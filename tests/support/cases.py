"""Many cases: all of them in one test, or some of them in a usual run and the others at night.

`for_each` is to `pytest.mark.parametrize` what a loop is to as many tests.

A test item costs milliseconds in each worker, before it does anything. For hundreds of cases that take less than that, and
need no fixture of their own, a loop is right; all cases run, and every failure is reported with its case.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

import pytest


def for_each(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call the test once for each case, with its value under this name; with several names, a case is a tuple of values."""
    keys, cases = names.split(", "), list(cases)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*arguments: object, **fixtures: object) -> None:
            failures: list[str] = []
            for case in cases:
                values = dict(zip(keys, case if len(keys) > 1 else (case,), strict=True))
                try:
                    test(*arguments, **fixtures, **values)
                except Exception:  # noqa: BLE001  whatever fails is told with its case
                    failures.append(f"{case}: {pytest.ExceptionInfo.from_current().getrepr(style='short')}")
            if failures:
                pytest.fail("\n\n".join([f"{len(failures)} of {len(cases)} cases fail", *failures]), pytrace=False)

        given = inspect.signature(test)
        rest = [parameter for parameter in given.parameters.values() if parameter.name not in keys]
        run.__signature__ = given.replace(parameters=rest)  # type: ignore[attr-defined]  # pytest reads the fixtures there
        return run

    return decorate


def some_at_night(cases: Iterable[str], *, each: int = 3) -> list[Any]:
    """For `pytest.mark.parametrize`: about every third case is part of each run; the others are nightly.

    The name alone decides: another case changes nothing for those that are there.
    """
    return [pytest.param(it, marks=[pytest.mark.nightly] if crc32(it.encode()) % each else []) for it in cases]
