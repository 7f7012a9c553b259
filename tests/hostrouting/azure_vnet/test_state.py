"""azure-vnet's state file: its pods, and everything that is no such file."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from hostrouting.azure_vnet.state import read_state
from tests.support.azure_leftovers import state

IPS = ("10.1.0.5", "fd00::5")


def test_a_name_that_a_terminal_would_obey() -> None:
    """It is escaped: it stands in the reason why an entry is kept."""
    [pod] = read_state(state("azv1").replace("a-eth0", "a\\u001b[2J")) or ()
    assert pod.name == r"a\x1b[2J"


EMPTY = (
    "{}",
    '{"Network": null}',
    '{"Network": {"ExternalInterfaces": {"e": {"Networks": null}}}}',
)
OF_AZURE_CNS = '{"Endpoints": {}}'
OTHERS = ("", "[" * 100_000, OF_AZURE_CNS, state("azv1", "10.1.0.5", "ten"))


@pytest.mark.parametrize(
    ("text", "pods"),
    [*((text, ()) for text in EMPTY), *((text, None) for text in OTHERS)],
    ids=count(),
)
def test_no_pod(text: str, pods: object) -> None:
    """A node without pods has a file without them; what azure-vnet does not write is refused."""
    assert read_state(text) == pods


VALUES: tuple[Any, ...] = ([], {}, "a text", 7, True)


def holders(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each object and list in this value, with each key or place that pods depend on."""
    keys = value if isinstance(value, dict) else range(len(value))
    for key in [key for key in keys if key not in {"Version", "Mask", "MacAddress"}]:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from holders(value[key])


def test_every_other_type() -> None:
    """No other type counts as empty: a pod that is not found would count as dead."""
    document = json.loads(state("azv1", *IPS))
    places = [*holders(document)]
    assert len(places) == 13
    for holder, key in places:
        right = holder[key]
        for wrong in VALUES:
            if type(wrong) is type(right):
                continue
            holder[key] = wrong
            assert read_state(json.dumps(document)) is None
        holder[key] = right
    assert len(read_state(json.dumps(document)) or ()) == 1
