"""The fake ebtables and the real ones: the same random operations on both, and all answers compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostrouting.errors import ProgramError
from hostrouting.kernel.ebtables import EbtablesProgram, nat_rules
from hostrouting.testing.kernel.filters import MemoryEbtables
from tests.support.azure_rules import add_rules
from tests.support.examples import scaled
from tests.support.filter_contracts import CONTRACT_RULES
from tests.support.namespace import Namespace, private_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.kernel.ebtables import Ebtables

pytestmark = [pytest.mark.linux, pytest.mark.needs("root", "ebtables-nft")]

_TWIN = CONTRACT_RULES[1].replace(" -i eth0", " -s Unicast -i eth0")
_LINES = st.sampled_from([*CONTRACT_RULES, _TWIN])
_OPERATIONS = st.tuples(st.sampled_from(["delete", "delete_one"]), st.lists(_LINES, min_size=1, max_size=3))


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    """A namespace that is flushed before each example."""
    with private_namespace() as namespace:
        yield namespace


def answer(ebtables: Ebtables, verb: Literal["delete", "delete_one"], lines: list[str]) -> object:
    """The result of an operation."""
    try:
        return ebtables.delete_one(lines[0]) if verb == "delete_one" else getattr(ebtables, verb)(lines)
    except ProgramError as error:
        return error.kind, sorted(error.lines)


@settings(max_examples=scaled(5))
@given(st.lists(_LINES, max_size=8), st.lists(_OPERATIONS, max_size=8))
def test_the_same_answers(
    namespace: Namespace, rules: list[str], operations: list[tuple[Literal["delete", "delete_one"], list[str]]]
) -> None:
    """After any operations, both give the same answers, and have the same rules in the same order."""
    assert namespace.run("nft", "flush", "ruleset").returncode == 0
    if rules:
        add_rules(namespace, rules)
    real, fake = EbtablesProgram("nft", words=namespace.enter), MemoryEbtables(rules)
    for verb, lines in operations:
        assert answer(real, verb, lines) == answer(fake, verb, lines)
        assert nat_rules(real.save()) == nat_rules(fake.save())
