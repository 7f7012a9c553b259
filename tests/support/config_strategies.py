"""Hypothesis strategies for what is nearly a configuration, and any JSON.

json_values()    any JSON value, some with keys and values of a configuration
near_texts()     text that looks like an address or a network, but often is not valid
near_routes()    the JSON of a route, in which each value may be replaced by any other
places_in()      where the values are in a document
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from hostrouting.testing.strategies import configs, networks

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def near_texts() -> SearchStrategy[str]:
    """Text made from the parts of networks, from valid to nonsense."""
    octet = st.integers(0, 300).map(str) | st.sampled_from(["", "00", "010", "0x1", "1 ", "\u0661"])
    length = st.integers(0, 40).map("/{}".format) | st.sampled_from(["", "/", "/08", "/255.0.0.0", "/-1", "/8\n"])
    dotted = st.lists(octet, min_size=3, max_size=5).map(".".join)
    return (
        st.builds("{}{}".format, dotted, length)
        | networks().map(str)
        | st.sampled_from(["::/0", "fe80::1", "::ffff:10.0.0.1/104", " 10.0.0.0/8", "10.0.0.0:80", "10/8"])
    )


def scalars() -> SearchStrategy[Any]:
    """JSON values that are not lists or objects, including values that occur in configurations."""
    return (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(st.characters(), max_size=20)  # includes lone surrogates, which JSON can express
        | st.sampled_from(["", "WARN", "strict", "eth0", "eth0;reboot", "\u017ftrict", "\x1b[2J"])
        | near_texts()
    )


def json_values() -> SearchStrategy[Any]:
    """Any JSON value; many are nearly a valid configuration."""
    key = st.sampled_from(["hostRouting", "staticRoutes", "routes", "destination"]) | st.text(max_size=5)
    anything = st.recursive(
        scalars(), lambda parts: st.lists(parts, max_size=4) | st.dictionaries(key, parts, max_size=5), max_leaves=12
    )
    return anything | near_configs(anything)


def near_routes(anything: SearchStrategy[Any]) -> SearchStrategy[dict[str, Any]]:
    """The JSON of a route, in which each value may be replaced by any other."""
    return st.fixed_dictionaries(
        {"destination": near_texts() | anything},
        optional={
            "gateway": st.sampled_from(["", "10.0.0.1"]) | near_texts() | anything,
            "dev": st.sampled_from(["", "eth0"]) | anything,
            "metric": st.integers(-1, 2) | anything,
        },
    )


def places_in(document: Any, path: tuple[object, ...] = ()) -> Iterator[tuple[tuple[object, ...], Any]]:
    """The path of each value that has no parts, with the object or list that has it."""
    for key, part in document.items() if isinstance(document, dict) else enumerate(document):
        if part and isinstance(part, dict | list):
            yield from places_in(part, (*path, key))
        else:
            yield (*path, key), document


@st.composite
def near_configs(draw: st.DrawFn, anything: SearchStrategy[Any]) -> dict[str, Any]:
    """The JSON of a configuration, alone or in an agent's file, in which some values are replaced by any other."""
    document = draw(configs()).to_mapping()
    for path, holder in draw(st.lists(st.sampled_from([*places_in(document), ((0,), [0])]), max_size=3)):
        holder[path[-1]] = draw(near_texts() | anything)
    return draw(st.sampled_from([document, {"hostRouting": document, "agent": {"name": "node-1"}}]))
