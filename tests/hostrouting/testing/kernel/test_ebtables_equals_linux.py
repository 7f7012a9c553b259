"""The fake ebtables and the real ones: the same random deletions on both, and all answers compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostrouting.errors import HostError
from hostrouting.kernel.ebtables import EbtablesProgram, nat_rules
from hostrouting.testing.filters import FakeEbtables
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
_DELETIONS = st.lists(_LINES, min_size=1, max_size=3)


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    """A namespace that is flushed before each example."""
    with private_namespace() as namespace:
        yield namespace


def answer(ebtables: Ebtables, lines: list[str]) -> tuple[str, list[str]]:
    """The result of a deletion."""
    try:
        ebtables.delete(lines)
    except HostError as error:
        return error.kind, sorted(error.lines)
    return "", []


@settings(max_examples=scaled(5))
@given(st.lists(_LINES, max_size=8), st.lists(_DELETIONS, max_size=8))
def test_the_same_answers(namespace: Namespace, rules: list[str], deletions: list[list[str]]) -> None:
    """After any deletions, both give the same answers, and have the same rules in the same order."""
    assert namespace.run("nft", "flush", "ruleset").returncode == 0
    if rules:
        add_rules(namespace, rules)
    real, fake = EbtablesProgram("nft", words=namespace.enter), FakeEbtables(rules)
    for lines in deletions:
        assert answer(real, lines) == answer(fake, lines)
        assert nat_rules(real.save()) == nat_rules(fake.save())
