"""The fake nftables do what nft and Linux do: the same operations on both have the same answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostrouting.kernel.nftables import Chain, Nftables, NftProgram, Rule, Table, Unknown
from hostrouting.testing.kernel.nftables import MemoryNftables
from hostrouting.testing.nftables_strategies import tables
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.linux, pytest.mark.needs("root", "nft")]

NAMES = st.sampled_from(["first", "second", "third"])
Operation: TypeAlias = "tuple[str, Table, list[str]]"
VERBS = ("replace", "replace", "remove", "sleep", "tamper", "flush", "foreign", "refused")
OPERATIONS = st.tuples(
    st.sampled_from(VERBS), NAMES.flatmap(lambda name: tables(name=name)), st.lists(NAMES, max_size=2)
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Namespace]:
    """A namespace for all examples; each begins by flushing it."""
    with private_namespace() as namespace:
        yield namespace


def answer(verb: Callable[[], object]) -> object:
    """The result of a call, or the error that it raises."""
    try:
        return verb()
    except ValueError as error:
        return type(error)


def ask(nft: Nftables, operation: Operation) -> object:
    """Call a verb of the edge."""
    verb, table, names = operation
    if verb == "replace":
        return answer(lambda: nft.replace(table, without=names))
    if verb == "remove":
        return answer(lambda: nft.remove(*names))
    if verb == "refused":
        return answer(lambda: nft.replace(attrs.evolve(table, flags=["dormant"]), without=names))
    return None


def disturb(namespace: Namespace, memory: MemoryNftables, operation: Operation) -> None:
    """Do to both what another program would do with nft."""
    verb, table, _ = operation
    found = memory.tables.get(table.name, Table(table.name))
    if verb == "flush":
        memory.flush()
        told = "flush ruleset"
    elif verb == "sleep":
        memory.tables[table.name] = attrs.evolve(found, flags=["dormant"])
        told = f"add table ip6 {table.name} {{ flags dormant; }}"
    elif verb == "foreign":
        memory.others = sorted({*memory.others, ("inet", table.name)})
        told = f"add table inet {table.name}"
    elif verb == "tamper" and "strange" not in [chain.name for chain in found.chains]:
        strange = Chain("strange", [Rule([Unknown('{"drop": null}')])])
        memory.tables[table.name] = attrs.evolve(found, chains=[*found.chains, strange])
        told = f"add table ip6 {table.name} {{ chain strange {{ drop; }}; }}"
        # Adding to a table without its flags removes them.
        memory.tables[table.name] = attrs.evolve(memory.tables[table.name], flags=())
    else:
        return
    assert namespace.run("nft", told).stderr == ""


@settings(max_examples=scaled(10))
@given(st.lists(OPERATIONS, max_size=6))
def test_the_same_answers(shared: Namespace, operations: list[Operation]) -> None:
    """After any operations, ours or others', both report the same tables, counters and names."""
    assert shared.run("nft", "flush", "ruleset").returncode == 0
    real, memory = NftProgram(words=shared.enter), MemoryNftables()
    for operation in operations:
        assert ask(memory, operation) == ask(real, operation)
        disturb(shared, memory, operation)
        name = operation[1].name
        assert memory.table(name) == real.table(name)
        assert memory.counters(name) == real.counters(name)
    assert memory.names() == real.names()
