"""Many cases in one test: each failure is reported with its case, and fixtures work."""

import pytest

from tests.support.cases import for_each, some_at_night


def test_every_failure_is_told() -> None:
    """A case that fails ends neither the test nor its message; one that passes is not in it."""

    @for_each("number, word", [(1, "one"), (2, "two"), (3, "three")])
    def check(number: int, word: str) -> None:
        assert number == len(word) - 1, f"{word} has another length"

    with pytest.raises(pytest.fail.Exception) as caught:
        check()
    assert str(caught.value).startswith("2 of 3 cases fail")
    assert all(told in str(caught.value) for told in ("(1, 'one')", "one has another length", "(3, 'three')"))
    assert "(2, 'two')" not in str(caught.value)


@for_each("case", ["a", "b"])
def test_fixtures_are_given(tmp_path_factory: pytest.TempPathFactory, case: str) -> None:
    """An argument that is not a case is a fixture, as in any test."""
    assert (tmp_path_factory.mktemp(case)).name.startswith(case)


def test_another_case_leaves_the_others_as_they_are() -> None:
    """Whether a case is nightly depends on its name alone, and some are part of each run. Kills: its place decides."""
    names = [f"case {number}" for number in range(30)]
    nightly = {case.values[0]: bool(case.marks) for case in some_at_night(names)}
    assert {case.values[0]: bool(case.marks) for case in some_at_night(["new", *names])}.items() >= nightly.items()
    assert set(nightly.values()) == {True, False}
