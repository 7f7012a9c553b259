"""tests.support.mutants: each change is made once, alone, and a line that no test notices is reported."""

import ast
from pathlib import Path

import pytest

from tests.support.mutants import ROOMS, functions_changed, known_survivors, lines_of, mutants_of, nights
from tests.support.pages import ROOT

SOURCE = """
__all__ = ["f"]
def f(routes, limit=3):
    if not routes:
        return None
    for route in routes:
        if route.metric == limit and route.dev:
            log(route, level=1)
            continue
    return [route for route in routes if route.dev]
"""


def test_every_change_of_a_module() -> None:
    """Comparisons, conditions, numbers, arguments, calls, filters, loops and results; not names that are offered, nor None."""
    assert [(it.line, it.name) for it in mutants_of(SOURCE)] == [
        (3, "f: 3 -> 4"),
        (4, "f: if not routes -> if not not routes"),
        (4, "f: not routes -> routes"),
        (7, "f: if route.metric == limit and route.dev -> if not (route.metric == limit and route.dev)"),
        (7, "f: route.metric == limit and route.dev -> route.metric == limit or route.dev"),
        (7, "f: route.metric == limit -> route.metric != limit"),
        (8, "f: log(route, level=1) -> pass"),
        (8, "f: level=1 -> nothing"),
        (8, "f: 1 -> 2"),
        (9, "f: continue -> break"),
        (10, "f: return [route for route in routes if route.dev] -> return None"),
        (10, "f: for route in routes if route.dev -> for route in routes"),
    ]


def test_each_mutant_is_one_change() -> None:
    """A mutant differs from the module in one line, and does not keep what was changed for the one before."""
    original = ast.unparse(ast.parse(SOURCE)).splitlines()
    for it in mutants_of(SOURCE):
        changed = it.text.splitlines()
        assert sum(new != old for new, old in zip(changed, original, strict=True)) == 1, it.name


def test_a_change_that_stands_twice() -> None:
    """The second one has another name, so that the list tells one from the other."""
    assert [it.name for it in mutants_of("def f():\n    return g(1, 1)\n")][1:] == ["f: 1 -> 2", "f: 1 -> 2 (2)"]


def test_lines_of_a_script() -> None:
    """Each line is left out in turn, except empty lines and comments."""
    script = "#!/bin/sh\n# a comment\n\nset -e\necho\n"
    assert [(it.line, it.text) for it in lines_of(script)] == [
        (4, "#!/bin/sh\n# a comment\n\necho\n"),
        (5, "#!/bin/sh\n# a comment\n\nset -e\n"),
    ]


def test_the_list() -> None:
    """Each module of the four rooms is listed; each survivor is a change of its module, and of 20 changes at most one survives."""
    files = (
        file for room in ROOMS for file in (ROOT / "hostrouting" / room).rglob("*.*") if file.suffix in {".py", ".sh"}
    )
    there = {str(file.relative_to(ROOT)) for file in files if file.name != "__init__.py"}
    listed = known_survivors()
    assert {*listed} == there
    for module, known in listed.items():
        if isinstance(known, dict):
            text = (ROOT / module).read_text()
            mutants = lines_of(text) if module.endswith(".sh") else mutants_of(text, with_text=False)
            names = [mutant.name for mutant in mutants]
            assert [name for name in known if name not in names] == [], module
            assert 20 * len(known) <= len(names), module


def test_the_nights_of_a_week() -> None:
    """Each module of the list whose changes are tried at night has one night of the week, and no night is empty."""
    week = nights()
    tried = sorted(module for module, known in known_survivors().items() if isinstance(known, dict))
    assert sorted(module for night in week for module in night) == tried
    assert (len(week), all(week)) == (7, True)


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("def f():\n    return {number}", ["f"]),
        ("class C:\n    def f(self):\n        return [{number} for _ in self]", ["C.f"]),
        ("def f(x={number}):\n    return x", []),  # its value is taken when the function is made
        ("{number}", []),
        ("def f():\n    return 0\ndef f():\n    return {number}", []),  # either could be meant
    ],
)
def test_the_function_of_a_change(source: str, changed: list[str]) -> None:
    """Code is exchanged only where one function is what differs."""
    old, new = (source.format(number=number) for number in (1, 2))
    assert [*functions_changed(old, new, Path("x.py"))] == changed
